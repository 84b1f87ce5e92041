//! GitHub by recorded shapes: a server on this machine that answers what GitHub is documented to answer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http_body_util::BodyExt as _;
use secrecy::SecretString;

use super::*;
use crate::{Auth, Forge, Meter, Reach, Settings, connect};
use model::forge::{CommitStatus, ForgeUser, Permission, Reaction, StatusState};
use model::id::CommitId;

mod witnesses;

const PULL: &str = include_str!("../recorded/pull.json");
const COMMENT: &str = include_str!("../recorded/comment.json");
const COMMIT: &str = "6dcb09b5b57875f334f61aebed695e2e4193db5e";

/// A header that says for which path an answer is.
const PATH: &str = "x-scripted-path";

/// Status, headers and body of an answer.
type Scripted = (u16, Vec<(&'static str, String)>, String);

#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<Scripted>>>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Script {
    /// Returns the requests so far, as `METHOD path authorization tag body`.
    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

async fn answer(State(script): State<Script>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let auth = parts.headers.get("authorization").map_or("", |value| value.to_str().unwrap());
    let auth = auth.split('.').next().unwrap();
    let known = parts.headers.get("if-none-match").map_or("", |value| value.to_str().unwrap());
    let line = format!("{} {} {auth} {known}{}", parts.method, parts.uri, String::from_utf8_lossy(&body));
    script.seen.lock().unwrap().push(line.trim_end().to_owned());
    let mut answers = script.answers.lock().unwrap();
    let fits = |(_, headers, _): &Scripted| {
        headers.iter().all(|(name, value)| *name != PATH || parts.uri.to_string().contains(value))
    };
    let found = answers.iter().position(fits).and_then(|position| answers.remove(position));
    drop(answers);
    let (status, headers, body) = found.unwrap_or((418, Vec::new(), r#"{"message": "not scripted"}"#.into()));
    let mut response = Response::builder().status(status).header("content-type", "application/json");
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(Body::from(body)).unwrap()
}

/// Starts a server that gives these answers in order; returns what it saw and its address.
async fn server(answers: Vec<Scripted>) -> (Script, String) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let script = Script { answers: Arc::new(Mutex::new(answers.into())), seen: Arc::default() };
    let app = axum::Router::new().fallback(answer).with_state(script.clone());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (script, url)
}

async fn host(kind: Kind, answers: Vec<Scripted>) -> (Script, Arc<dyn Forge>, String) {
    // Another test may have been first.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let (script, url) = server(answers).await;
    let auth = Auth::Token(SecretString::from(" t0ken\n"));
    let settings = Settings {
        kind,
        url: Some(url.clone()),
        owner: "platform".into(),
        name: "fleet".into(),
        auth,
        reach: Reach::default(),
    };
    (script, connect(&settings, None).unwrap(), url)
}

/// Lets an answer be given for a path that contains this only: what is asked together comes in any order.
fn at(path: &str, (status, mut headers, body): Scripted) -> Scripted {
    headers.push((PATH, path.to_owned()));
    (status, headers, body)
}

fn ok(body: &str) -> Scripted {
    (200, Vec::new(), body.to_owned())
}

fn status() -> CommitStatus {
    CommitStatus {
        context: "gitfleet/web".into(),
        state: StatusState::Pending,
        description: "canary 3/12".into(),
        target_url: None,
    }
}

#[tokio::test]
async fn what_github_answers_is_read() {
    let status = r#"{"state": "pending", "statuses": [{"state": "failure", "context": "gitfleet/web", "description": null, "target_url": ""}], "total_count": 1}"#;
    let answers = [
        PULL,
        COMMENT,
        status,
        r#"[{"number": 42, "merged_at": "2026-03-01T11:00:00Z"}, {"number": 43, "merged_at": null}]"#,
        r#"{"permission": "write", "role_name": "maintain", "user": null}"#,
        r#"{"permission": "write", "role_name": "release-crew"}"#,
        r#"{"state": "pending", "role": "member"}"#,
        r#"{"state": "active", "role": "member"}"#,
        r#"{"id": 1, "content": "eyes"}"#,
    ];
    let (script, forge, _) = host(Kind::GitHub, answers.into_iter().map(ok).collect()).await;
    let pull = forge.pull(42).await.unwrap().unwrap();
    assert_eq!((pull.number, pull.base.as_str(), pull.is_open), (42, "main", false));
    assert!(pull.is_fork, "the repository it came from is gone");
    let merge = pull.merged.unwrap();
    assert_eq!(merge.commit.short(), "e5bd391");
    assert_eq!(merge.by, Some(ForgeUser { id: 12, login: "bo".into(), is_bot: false }));
    let comment = forge.comment(77).await.unwrap().unwrap();
    assert!(comment.via_app && comment.author.is_bot && comment.thread == 42, "{comment:?}");
    let found = forge.statuses(&COMMIT.into()).await.unwrap();
    assert_eq!((found.len(), found[0].state, &found[0].target_url), (1, StatusState::Failure, &None));
    assert_eq!(forge.pulls_of_commit(&COMMIT.into()).await.unwrap(), [42]);
    assert_eq!(forge.permission("bo").await.unwrap(), Permission::Maintain);
    assert_eq!(forge.permission("bo").await.unwrap(), Permission::Write, "what an own role is based on");
    assert!(!forge.is_team_member("platform/release", "bo").await.unwrap(), "only invited");
    assert!(forge.is_team_member("platform/release", "bo").await.unwrap());
    forge.react(77, Reaction::Eyes).await.unwrap();
    let seen = script.seen();
    assert_eq!(seen[0], "GET /api/v3/repos/platform/fleet/pulls/42 Bearer t0ken");
    assert_eq!(
        seen.last().unwrap(),
        r#"POST /api/v3/repos/platform/fleet/issues/comments/77/reactions Bearer t0ken {"content":"eyes"}"#
    );
}

#[tokio::test]
async fn an_open_pull_request_has_no_merge_and_lists_have_pages() {
    let open =
        PULL.replace(r#""merged_at": "2026-03-01T11:00:00Z""#, r#""merged_at": null"#).replace("closed\",", "open\",");
    let next = ("link", r#"<https://elsewhere.example/x?page=2>; rel="next""#.to_owned());
    let answers = vec![(200, vec![next], format!("[{open}]")), ok(&format!("[{open}]"))];
    let (script, forge, _) = host(Kind::GitHub, answers).await;
    let pulls = forge.open_pulls("main").await.unwrap();
    assert_eq!(pulls.len(), 2);
    assert!(pulls.iter().all(|pull| pull.merged.is_none() && pull.is_open), "its merge commit is a trial");
    assert!(script.seen()[1].contains("/pulls?state=open&base=main&per_page=100&page=2"), "{:?}", script.seen());
}

#[tokio::test]
async fn a_list_that_did_not_change_is_not_sent_again() {
    let tagged = |tag: &str, body: String| (200, vec![("etag", tag.to_owned())], body);
    let same = || (304, Vec::new(), String::new());
    let calls = Arc::new(Mutex::new(Vec::new()));
    let meter: Meter = {
        let calls = Arc::clone(&calls);
        Arc::new(move |method, called| calls.lock().unwrap().push(format!("{method} {called:?}")))
    };
    let limited = (429, Vec::new(), "{}".to_owned());
    let answers = vec![
        tagged("W/\"a\"", format!("[{COMMENT}]")),
        same(),
        tagged("\"b\"", "[]".into()),
        same(),
        limited,
        (500, Vec::new(), "{}".into()),
        (404, Vec::new(), "{}".into()),
    ];
    let (script, url) = server(answers).await;
    let auth = Auth::Token(SecretString::from("t0ken"));
    let settings = Settings {
        kind: Kind::GitHub,
        url: Some(url),
        owner: "platform".into(),
        name: "fleet".into(),
        auth,
        reach: Reach::default(),
    };
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let forge = connect(&settings, Some(meter)).unwrap();
    for expected in [1, 1, 0, 0] {
        assert_eq!(forge.comments(42, None).await.unwrap().len(), expected);
    }
    for _ in 0..3 {
        assert!(forge.comments(42, None).await.is_err());
    }
    let tags: Vec<_> = script.seen().iter().map(|line| line.split_once("t0ken").unwrap().1.trim().to_owned()).collect();
    assert_eq!(tags[..5], ["", "W/\"a\"", "W/\"a\"", "\"b\"", "\"b\""]);
    let told = ["Ok", "Unchanged", "Ok", "Unchanged", "Limited", "Failed", "Refused"].map(|word| format!("GET {word}"));
    assert_eq!(*calls.lock().unwrap(), told);
}

#[tokio::test]
async fn another_token_is_sent_from_the_next_call_on() {
    for kind in [Kind::Gitea, Kind::GitHub] {
        let (script, forge, _) = host(kind, vec![ok(r#"{"id": 7}"#), ok(r#"{"id": 7}"#), ok(r#"{"id": 7}"#)]).await;
        let sent = async || {
            assert_eq!(forge.repository_id().await.unwrap(), 7);
            script.seen().last().unwrap().rsplit(' ').next().unwrap().to_owned()
        };
        assert_eq!(sent().await, "t0ken", "{kind:?}");
        forge.use_auth(&Auth::Token(SecretString::from("an0ther\n"))).unwrap();
        assert_eq!(sent().await, "an0ther", "{kind:?}");
        let refused = forge.use_auth(&Auth::Token(SecretString::from("two words"))).unwrap_err();
        assert!(!refused.to_string().contains("two words"), "{refused}");
        assert_eq!(sent().await, "an0ther", "{kind:?}");
    }
}

#[test]
fn what_is_kept_of_lists_is_bounded() {
    let page = |length| {
        let mut headers = HeaderMap::new();
        headers.insert(header::ETAG, "\"t\"".parse().unwrap());
        RestAnswer { status: StatusCode::OK, headers, body: Bytes::from(vec![b' '; length]) }
    };
    let mut kept = CachedAnswers::default();
    kept.keep("/large", &page(KEPT_BYTES_MAX + 1));
    assert_eq!(kept.tag("/large"), None);
    for number in 0..=KEPT_MAX {
        kept.keep(&format!("/{number}"), &page(1));
        kept.keep("/1", &page(2));
    }
    assert_eq!((kept.pages.len(), kept.order.len()), (KEPT_MAX, KEPT_MAX));
    assert!(kept.page("/0").is_none() && kept.page(&format!("/{KEPT_MAX}")).is_some());
}

/// What it is, its code, headers and body, and what is made of it.
type Row<'a> = (&'a str, u16, Vec<(&'static str, String)>, &'a str, &'a str);

#[tokio::test]
async fn every_failure_of_a_write_is_one_request_and_one_meaning() {
    let reset = "1792569480".to_owned();
    let date = ("date", "Wed, 21 Oct 2026 07:28:00 GMT".to_owned());
    let limited = r#"{"message": "You have exceeded a secondary rate limit"}"#;
    let forbidden = r#"{"message": "Resource not accessible by integration"}"#;
    let many = r#"{"message": "Validation Failed", "errors": [{"message": "This SHA and context has reached the maximum number of statuses."}]}"#;
    let rows: Vec<Row<'_>> = vec![
        ("too many statuses", 422, vec![], many, "Refused maximum number of statuses"),
        ("retry-after", 403, vec![("retry-after", "17".into())], limited, "RateLimited 17"),
        (
            "nothing remains",
            403,
            vec![("x-ratelimit-remaining", "0".into()), ("x-ratelimit-reset", reset), date],
            "{}",
            "RateLimited 1800",
        ),
        (
            "a reset in the past",
            403,
            vec![("x-ratelimit-remaining", "0".into()), ("x-ratelimit-reset", "5".into())],
            "{}",
            "RateLimited 60",
        ),
        ("secondary, without a time", 403, vec![], limited, "RateLimited 60"),
        ("too many requests", 429, vec![], "{}", "RateLimited 60"),
        ("a date", 429, vec![("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT".into())], "{}", "RateLimited 60"),
        ("a permission", 403, vec![("x-ratelimit-remaining", "9".into())], forbidden, "Forbidden not accessible"),
        ("a revoked token", 401, vec![], r#"{"message": "Bad credentials"}"#, "Unauthenticated"),
        ("gone", 404, vec![], r#"{"message": "Not Found"}"#, "NotFound"),
        ("broken", 500, vec![], "<html>", "Unreachable 500"),
        ("a proxy", 502, vec![], "<html>", "Unreachable 502"),
        ("away", 503, vec![], "{}", "Unreachable 503"),
        ("renamed", 307, vec![("location", "/api/v3/repositories/1/statuses".into())], "{}", "Refused renamed"),
        ("moved", 301, vec![("location", "https://elsewhere.example/".into())], "{}", "Refused renamed"),
    ];
    for (name, code, headers, body, expected) in rows {
        let (script, forge, _) = host(Kind::GitHub, vec![(code, headers, body.to_owned()), ok(COMMENT)]).await;
        let error = forge.set_status(&CommitId::from(COMMIT), &status()).await.unwrap_err();
        let found = match &error {
            Error::RateLimited { wait, .. } => format!("RateLimited {}", wait.as_secs()),
            other => format!("{other:?} {other}"),
        };
        let (kind, words) = expected.split_once(' ').unwrap_or((expected, ""));
        assert!(found.starts_with(kind) && found.contains(words), "{name}: {found}");
        assert!(!found.contains("t0ken"), "{name}: {found}");
        assert_eq!(script.seen().len(), 1, "{name}: {:?}", script.seen());
    }
}

#[tokio::test]
async fn a_comment_whose_answer_is_lost_is_not_written_again() {
    for kind in [Kind::GitHub, Kind::Gitea] {
        let (script, forge, _) = host(kind, vec![(502, vec![], "<html>".into()), ok(COMMENT)]).await;
        assert!(matches!(forge.create_comment(42, "hello").await, Err(Error::Unreachable { .. })), "{kind:?}");
        assert_eq!(script.seen().len(), 1, "{kind:?}");
    }
    let issue = r#"{"number": 42}"#;
    let (script, forge, _) = host(Kind::Gitea, vec![(500, vec![], "{}".into()), ok(issue), ok(COMMENT)]).await;
    assert!(matches!(forge.create_comment(42, "hello").await, Err(Error::Unreachable { .. })));
    let methods: Vec<_> = script.seen().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(methods, ["POST", "GET"], "one look whether the conversation is there");
}

#[tokio::test]
async fn a_read_follows_inside_the_api_only() {
    for (kind, api) in [(Kind::GitHub, "/api/v3"), (Kind::Gitea, "/api/v1")] {
        let (script, forge, url) = host(kind, Vec::new()).await;
        let to = |location: String| (301, vec![("location", location)], "{}".to_owned());
        *script.answers.lock().unwrap() = vec![to(format!("{url}{api}/repositories/7")), ok(r#"{"id": 7}"#)].into();
        assert_eq!(forge.repository_id().await.unwrap(), 7, "{kind:?}");
        assert_eq!(script.seen()[1], format!("GET {api}/repositories/7 Bearer t0ken"));
        let (elsewhere, other) = server(vec![ok(r#"{"id": 8}"#)]).await;
        for location in [format!("{other}{api}/repositories/7"), format!("{url}{api}.evil/x"), "/login".into()] {
            *script.answers.lock().unwrap() = vec![to(location.clone())].into();
            assert!(matches!(forge.repository_id().await, Err(Error::Refused { .. })), "{kind:?}: {location}");
        }
        assert_eq!(elsewhere.seen(), Vec::<String>::new(), "no token goes to another host");
        *script.answers.lock().unwrap() = (0..9).map(|_| to(format!("{url}{api}/repositories/7"))).collect();
        assert!(matches!(forge.repository_id().await, Err(Error::Refused { .. })), "{kind:?}: a circle ends");
    }
}

#[tokio::test]
async fn gitea_refuses_unknown_commits_and_odd_reactions_once() {
    let empty = r#"{"message": "", "url": "https://git.example/api/swagger"}"#;
    let gone = (404, vec![], r#"{"message": "The target couldn't be found."}"#.to_owned());
    let (script, forge, _) = host(Kind::Gitea, vec![(500, vec![], empty.into()), gone]).await;
    let error = forge.set_status(&COMMIT.into(), &status()).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert_eq!(script.seen().len(), 2, "one look whether the commit is there");
    let answers = vec![(500, vec![], empty.to_owned()), ok("{}")];
    let (_, forge, _) = host(Kind::Gitea, answers).await;
    let error = forge.set_status(&COMMIT.into(), &status()).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "the commit is there, the host is broken: {error}");
    let not_offered = r#"{"message": "'rocket' is not an allowed reaction"}"#;
    let scope = r#"{"message": "token does not have at least one of required scope(s), required=[write:issue]"}"#;
    let answers = vec![(403, vec![], not_offered.to_owned()), (403, vec![], scope.to_owned())];
    let (_, forge, _) = host(Kind::Gitea, answers).await;
    assert!(forge.react(1, Reaction::Rocket).await.is_ok());
    let error = forge.react(1, Reaction::Rocket).await.unwrap_err();
    assert!(error.to_string().contains("write:issue"), "{error}");
}

#[tokio::test]
async fn an_app_signs_in_where_it_is_installed() {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let pem = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap().serialize_pem();
    let token = r#"{"token": "ghs_x", "expires_at": "2099-01-01T00:00:00Z", "permissions": {}}"#;
    let answers = vec![
        ok(r#"{"slug": "gitfleet"}"#),
        ok(r#"{"id": 31, "account": null}"#),
        (201, vec![], token.to_owned()),
        ok(r#"{"login": "gitfleet[bot]", "id": 99, "type": "Bot"}"#),
        ok(r#"{"id": 7}"#),
    ];
    let (script, url) = server(answers).await;
    let settings = Settings {
        kind: Kind::GitHub,
        url: Some(url),
        owner: "platform".into(),
        name: "fleet".into(),
        auth: Auth::App { id: 5, pem: SecretString::from(pem) },
        reach: Reach::default(),
    };
    let forge = connect(&settings, None).unwrap();
    assert_eq!(forge.whoami().await.unwrap(), ForgeUser { id: 99, login: "gitfleet[bot]".into(), is_bot: true });
    assert_eq!(forge.repository_id().await.unwrap(), 7);
    let seen = script.seen();
    let routes: Vec<_> = seen.iter().map(|line| line.split(' ').nth(1).unwrap()).collect();
    assert_eq!(
        routes,
        [
            "/api/v3/app",
            "/api/v3/repos/platform/fleet/installation",
            "/api/v3/app/installations/31/access_tokens",
            "/api/v3/users/gitfleet%5Bbot%5D",
            "/api/v3/repos/platform/fleet"
        ]
    );
    assert!(seen[4].ends_with("Bearer ghs_x"), "{}", seen[4]);
    let auth = Auth::App { id: 5, pem: SecretString::from("-----BEGIN PRIVATE KEY-----\nx\n") };
    let error = connect(&Settings { auth, ..settings }, None).err().unwrap();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
}

#[tokio::test]
async fn a_token_that_no_header_holds_is_refused() {
    for (kind, token) in [(Kind::GitHub, "a\nb"), (Kind::Gitea, "tök"), (Kind::GitHub, " \n"), (Kind::Gitea, "a b")] {
        let auth = Auth::Token(SecretString::from(token));
        let settings = Settings {
            kind,
            url: Some("https://x".into()),
            owner: "a".into(),
            name: "b".into(),
            auth,
            reach: Reach::default(),
        };
        assert!(matches!(connect(&settings, None).err(), Some(Error::Refused { .. })), "{token:?}");
    }
}

#[tokio::test]
async fn gitea_is_reached_as_it_is_configured() {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let (script, proxy) = server(vec![ok(r#"{"id": 7}"#), ok(r#"{"id": 8}"#)]).await;
    let settings = |kind, reach| Settings {
        kind,
        url: Some("http://git.example".into()),
        owner: "a".into(),
        name: "b".into(),
        auth: Auth::Token(SecretString::from("t0ken")),
        reach,
    };
    let reach = Reach { certificates: None, proxy: Some(proxy) };
    let forge = connect(&settings(Kind::Gitea, reach.clone()), None).unwrap();
    assert_eq!(forge.repository_id().await.unwrap(), 7, "the proxy answers for a host that there is not");
    forge.use_auth(&Auth::Token(SecretString::from("another"))).unwrap();
    assert_eq!(forge.repository_id().await.unwrap(), 8);
    assert_eq!(script.seen().len(), 2);
    let certificates = Some(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec());
    let rows = [
        (Kind::GitHub, reach),
        (Kind::Gitea, Reach { certificates, proxy: None }),
        (Kind::Gitea, Reach { certificates: None, proxy: Some("http://".into()) }),
    ];
    for (kind, reach) in rows {
        assert!(
            matches!(connect(&settings(kind, reach.clone()), None).err(), Some(Error::Refused { .. })),
            "{reach:?}"
        );
    }
}

#[test]
fn the_base_of_the_api_follows_from_the_address() {
    for (kind, url, expected) in [
        (Kind::Gitea, Some("https://git.example/"), "https://git.example/api/v1"),
        (Kind::Gitea, Some("https://git.example/sub/path"), "https://git.example/sub/path/api/v1"),
        (Kind::GitHub, None, "https://api.github.com"),
        (Kind::GitHub, Some("https://github.com/"), "https://api.github.com"),
        (Kind::GitHub, Some("https://ghe.example"), "https://ghe.example/api/v3"),
    ] {
        let auth = Auth::Token(SecretString::from("t"));
        let url = url.map(str::to_owned);
        assert_eq!(
            Settings { kind, url, owner: "a".into(), name: "b".into(), auth, reach: Reach::default() }.base(),
            expected
        );
    }
}

#[tokio::test]
async fn names_from_outside_stay_inside_their_route() {
    let (script, forge, _) = host(Kind::Gitea, vec![ok(r#"{"permission": "read"}"#)]).await;
    assert!(forge.permission("..").await.is_err());
    assert!(forge.is_team_member("../x", "bo").await.is_err());
    assert_eq!(script.seen(), Vec::<String>::new());
    forge.permission("a/../b?c").await.unwrap();
    assert!(script.seen()[0].contains("/collaborators/a%2F..%2Fb%3Fc/permission"), "{:?}", script.seen());
}
