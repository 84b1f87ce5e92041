//! Commands and the journal as clients see them, without a socket.

use axum::body::Body;
use axum::http::{Request, header};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use secrecy::SecretString;
use serde_json::Value;
use tower::ServiceExt as _;

use super::tokens::Tokens;
use super::*;
use decide::status::records::PlacementRecords;
use engine::store::{Expected, MemoryStore, Op};
use model::commands::{Done, Person, Refusal, RefusalReason};
use model::id::{CommitId, PlacementKey};
use model::records::JournalEntry;
use model::runs::Channel;
use model::tree::JoinedSource;
use views::subjects::Subjects;
use views::tree::{Line, Style};

/// Interfaces share a store; `reader` may read decisions only, `ann` may command.
pub(super) fn shared(store: Arc<dyn Store>) -> (Shared, mpsc::UnboundedReceiver<Instruction>) {
    let tokens = |name: &str| Arc::new(Tokens::new(vec![(name.to_owned(), SecretString::from(name))]));
    let (instructions, received) = mpsc::unbounded_channel();
    let shared = Shared {
        store,
        metrics: Arc::new(Metrics::new()),
        health: Arc::default(),
        changes: watch::channel(1).1,
        views: Publisher::new(1).1,
        history: Arc::new(OneCommit),
        pulls: BTreeMap::new(),
        streams: Streams::default(),
        questions: mpsc::channel(1).0,
        readers: tokens("reader"),
        commanders: tokens("ann"),
        watchers: tokens("prometheus"),
        pushers: tokens("scorer"),
        pushes: mpsc::channel(1).0,
        instructions,
        previews: mpsc::unbounded_channel().0,
        grants: Arc::default(),
        hooks: Vec::new(),
        role: watch::channel(Role::Alone).1,
        access: Access { read_needs_token: false, on_loopback: true, hosts: Arc::default() },
        turns: Turns::default(),
        page: None,
    };
    (shared, received)
}

/// A source whose every commit has the same subject, and whose every change is the same line.
#[derive(Debug)]
pub(super) struct OneCommit;

impl Subjects for OneCommit {
    fn subject(&self, _: &CommitId) -> Option<String> {
        Some("Bigger <pods>".to_owned())
    }

    fn joined(&self, _: &CommitId) -> Vec<JoinedSource> {
        Vec::new()
    }
}

impl SourceHistory for OneCommit {
    fn differences(&self, _: &PlacementRecords, compared: Compared) -> Result<Vec<Line>, String> {
        match compared {
            Compared::Snapshots { .. } => Ok(vec![Line::default().with(Style::Ok, "  +key: <2>")]),
            Compared::OnCluster { cluster, .. } => Err(format!("web is not on {cluster}")),
        }
    }
}

async fn answer(shared: Shared, request: Request<Body>) -> (u16, Value) {
    let response = router(shared, true).oneshot(request).await.expect("a router always answers");
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into()))
}

fn command(token: Option<&str>, body: impl Into<Body>) -> Request<Body> {
    let request = Request::post(COMMANDS_PATH);
    let request = match token {
        Some(token) => request.header(header::AUTHORIZATION, format!("Bearer {token}")),
        None => request,
    };
    request.body(body.into()).expect("a request")
}

#[tokio::test]
async fn a_command_reaches_the_engine_with_the_name_of_its_token() {
    let (shared, mut received) = shared(Arc::new(MemoryStore::new()));
    let execute = tokio::spawn(async move {
        let instruction = received.recv().await.expect("an instruction");
        let at = Timestamp::UNIX_EPOCH;
        let done = Done { message: format!("{} approved", instruction.command.target), at, gate: None };
        instruction.reply.send(Ok(done)).expect("the client waits");
        instruction.person
    });
    let body = r#"{"verb": "approve", "target": "web-3", "stage": "canary"}"#;
    let (status, done) = answer(shared, command(Some("ann"), body)).await;
    assert_eq!((status, &done["message"]), (200, &json!("web-3 approved")));
    let person = execute.await.expect("it executed");
    assert_eq!(person, Person::of("ann", Channel::Api));
}

#[tokio::test]
async fn what_is_kept_for_the_forge_is_shown_to_nobody() {
    let store = Arc::new(MemoryStore::new());
    let put = |key: &str| Op::Put { key: key.to_owned(), value: b"[7]".to_vec(), expected: Expected::Any };
    store
        .batch(vec![put("forge/mask"), put("forge/story/c1"), put("commits/dropped"), put("hub/x")])
        .expect("the store takes it");
    for (query, wanted) in [
        ("", vec!["hub/x"]),
        ("?prefix=forge/", vec![]),
        ("?prefix=forge/mask", vec![]),
        ("?prefix=for", vec![]),
        ("?prefix=commits/", vec![]),
        ("?prefix=hub%2F&prefix=forge/", vec!["hub/x"]),
    ] {
        let request = Request::get(format!("{RECORDS_PATH}{query}")).body(Body::empty()).expect("a request");
        let (status, answer) = answer(shared(store.clone()).0, request).await;
        let records: Vec<(String, Value)> = serde_json::from_value(answer["records"].clone()).expect("records");
        let keys: Vec<&str> = records.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!((status, keys), (200, wanted), "{query}");
    }
}

#[tokio::test]
async fn records_of_many_pieces_come_whole_and_a_damaged_one_is_null() {
    let store = Arc::new(MemoryStore::new());
    let text = format!("\"{}\"", "x".repeat(1000));
    let value = |n: usize| if n == 7 { "{damaged".to_owned() } else { text.clone() };
    let put = |n: usize| Op::Put { key: format!("work/{n:03}"), value: value(n).into(), expected: Expected::Any };
    store.batch((0..300).map(put).collect()).expect("the store takes it");
    let request = Request::get(RECORDS_PATH).body(Body::empty()).expect("a request");
    let (status, answer) = answer(shared(store).0, request).await;
    let records: Vec<(String, Value)> = serde_json::from_value(answer["records"].clone()).expect("records");
    assert_eq!((status, &answer["version"], records.len()), (200, &json!(1), 300));
    for (n, (key, record)) in records.iter().enumerate() {
        let expected = serde_json::from_str(&value(n)).unwrap_or(Value::Null);
        assert_eq!((key, record), (&format!("work/{n:03}"), &expected));
    }
}

#[tokio::test]
async fn every_refusal_has_its_status() {
    use RefusalReason as R;
    for (reason, expected) in [
        (R::NotFound, 404),
        (R::Ambiguous, 422),
        (R::NotAllowed, 403),
        (R::DigestMismatch, 409),
        (R::NotWaiting, 409),
        (R::Expired, 409),
        (R::SnapshotGone, 422),
        (R::NotPossible, 422),
    ] {
        let (shared, mut received) = shared(Arc::new(MemoryStore::new()));
        tokio::spawn(async move {
            let instruction = received.recv().await.expect("an instruction");
            let refusal = Refusal { reason, message: "no".into() };
            instruction.reply.send(Err(refusal)).expect("the client waits");
        });
        let (status, answer) = answer(shared, command(Some("ann"), r#"{"verb": "pause", "target": "web"}"#)).await;
        assert_eq!((status, answer), (expected, json!({"reason": reason, "message": "no"})), "{reason:?}");
    }
}

#[tokio::test]
async fn what_is_no_command_of_somebody_known_goes_no_further() {
    let good = r#"{"verb": "pause", "target": "web"}"#;
    let long = "x".repeat(COMMAND_BYTES_MAX + 1);
    for (token, body, expected, reason) in [
        (None, good, 401, "Unauthenticated"),
        (Some("reader"), good, 403, "TokenUnknown"),
        (Some("ann"), "{", 400, "Malformed"),
        (Some("ann"), r#"{"verb": "destroy"}"#, 400, "Malformed"),
        (Some("ann"), long.as_str(), 413, "TooLarge"),
        (None, long.as_str(), 401, "Unauthenticated"),
    ] {
        let (shared, mut received) = shared(Arc::new(MemoryStore::new()));
        let (status, answer) = answer(shared, command(token, body.to_owned())).await;
        assert_eq!((status, &answer["reason"]), (expected, &json!(reason)), "{answer}");
        assert!(received.try_recv().is_err(), "{reason}");
    }
    let (shared, received) = shared(Arc::new(MemoryStore::new()));
    drop(received);
    assert_eq!(answer(shared, command(Some("ann"), good)).await.0, 503, "nobody is there to execute");
}

#[tokio::test]
async fn the_journal_is_read_page_by_page() {
    let store = Arc::new(MemoryStore::new());
    let entry = |number: usize| JournalEntry {
        at: Timestamp::UNIX_EPOCH,
        event: format!("Event{number}").as_str().into(),
        placement: Some(PlacementKey::cluster_scoped(if number.is_multiple_of(2) { "web" } else { "api" })),
        cluster: None,
        facts: Value::Null,
    };
    store.append((0..JOURNAL_PAGE + 3).map(entry).collect()).expect("the store takes it");
    let ask = async |query: &str| {
        let request = Request::get(format!("{JOURNAL_PATH}{query}")).body(Body::empty()).expect("a request");
        let (status, page) = answer(shared(store.clone()).0, request).await;
        assert_eq!(status, 200, "{page}");
        serde_json::from_value::<JournalPage>(page).expect("a page")
    };
    let first = ask("").await;
    assert_eq!((first.entries.len(), first.next), (JOURNAL_PAGE, Some(JOURNAL_PAGE as u64)));
    let second = ask(&format!("?after={JOURNAL_PAGE}")).await;
    assert_eq!((second.entries.len(), second.next), (3, None));
    let of_web = ask(&format!("?placement=web&after={JOURNAL_PAGE}")).await;
    assert_eq!(of_web.entries.iter().map(|(_, e)| e.event.as_str()).collect::<Vec<_>>(), ["Event10000", "Event10002"]);
}

#[tokio::test]
async fn d09_a_body_is_not_read_before_its_token_is_known() {
    for path in [COMMANDS_PATH, GETPARAMS_PATH] {
        for (token, status) in [(None, 401), (Some("stranger"), 403), (Some("prometheus"), 403)] {
            // Whoever waits for a piece of this body waits for ever.
            let body = Body::from_stream(futures::stream::pending::<Result<axum::body::Bytes, std::io::Error>>());
            let request = token.into_iter().fold(Request::post(path), |request, token: &str| {
                request.header(header::AUTHORIZATION, format!("Bearer {token}"))
            });
            let request = request.body(body).expect("a request");
            assert_eq!(answer(shared(Arc::new(MemoryStore::new())).0, request).await.0, status, "{path} {token:?}");
        }
        let large = Request::post(path).header(header::AUTHORIZATION, "Bearer ann").body("x".repeat(70_000).into());
        let (mut shared, _received) = shared(Arc::new(MemoryStore::new()));
        shared.readers = Arc::clone(&shared.commanders);
        assert_eq!(answer(shared, large.expect("a request")).await.0, 413, "{path}");
    }
}

#[tokio::test]
async fn d09_reading_needs_a_token_where_others_reach_the_daemon_and_health_never_does() {
    let paths = [RECORDS_PATH, JOURNAL_PATH, EXPLAIN_PATH, CHANGES_PATH, "/metrics"];
    let ask = async |path: &str, needed: bool, token: Option<&str>, host: &str| {
        let (mut shared, _received) = shared(Arc::new(MemoryStore::new()));
        shared.access.read_needs_token = needed;
        let request = Request::get(format!("{path}?placement=web")).header(header::HOST, host);
        let request = token
            .into_iter()
            .fold(request, |request, token| request.header(header::AUTHORIZATION, format!("Bearer {token}")));
        answer(shared, request.body(Body::empty()).expect("a request")).await.0
    };
    for path in paths {
        let open = if path == EXPLAIN_PATH { 503 } else { 200 };
        assert_eq!(ask(path, false, None, "localhost").await, open, "{path}");
        assert_eq!(ask(path, true, Some("ann"), "localhost").await, open, "{path}");
        assert_eq!(ask(path, true, Some("prometheus"), "localhost").await, open, "{path}");
        assert_eq!(ask(path, true, None, "localhost").await, 401, "{path}");
        assert_eq!(ask(path, true, Some("reader"), "localhost").await, 403, "{path}: the plugin reads decisions only");
        assert_eq!(ask(path, false, None, "evil.example").await, 421, "{path}");
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(ask(path, true, None, "10.1.2.3:8080").await, 200, "{path}");
    }
}

#[tokio::test]
async fn d09_webhooks_with_an_address_of_their_own_are_not_served_at_the_other() {
    let (shared, _received) = shared(Arc::new(MemoryStore::new()));
    let ask = async |router: axum::Router, path: &str| {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        router.oneshot(request).await.expect("a router always answers").status().as_u16()
    };
    for path in [GITEA_PATH, GITHUB_PATH] {
        assert_eq!(ask(router(shared.clone(), true), path).await, 405, "{path}");
        assert_eq!(ask(router(shared.clone(), false), path).await, 404, "{path}");
        assert_eq!(ask(webhook_router(shared.clone()), path).await, 405, "{path}");
    }
    for path in [RECORDS_PATH, "/metrics", "/healthz"] {
        assert_eq!(ask(webhook_router(shared.clone()), path).await, 404, "{path}: the network decides who gets here");
    }
}

#[tokio::test]
async fn d17_probes_name_the_part_that_is_missing() {
    let (shared, _received) = shared(Arc::new(MemoryStore::new()));
    let probe = async |path: &str| {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let (status, body) = answer(shared.clone(), request).await;
        (status, body.as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(probe("/healthz").await, (200, "ok".to_owned()));
    assert_eq!(probe("/readyz").await, (200, "ok".to_owned()));
    shared.health.fail("source", true);
    let line = "source: does not work; the log says why";
    assert_eq!(probe("/healthz").await, (200, format!("ok\n{line}")), "a restart would not help sooner");
    assert_eq!(probe("/readyz").await, (503, line.to_owned()));
    shared.health.begin_again("source");
    assert_eq!(probe("/readyz").await, (200, "ok\nsource: was restarted; the log says why".to_owned()));
}
