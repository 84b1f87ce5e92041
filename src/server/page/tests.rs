//! The page as browsers get it, without a socket: who may see it, who may command, and what forms are taken.

use std::io::Read as _;

use axum::body::Body;
use axum::http::request::Builder;
use axum::http::{HeaderName, Request};
use flate2::read::GzDecoder;
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tower::ServiceExt as _;

use super::*;
use crate::fixtures::fleet;
use crate::fixtures::{Case, CaseStatus as _, run_in_production};
use crate::serve::Peer;
use crate::stream::STREAM_PATH;
use crate::tests::shared;
use crate::{Publisher, router};
use engine::store::MemoryStore;
use model::commands::{Done, Person, Verb};
use model::forge::CommitPulls;
use model::id::CommitId;
use model::runs::Channel;
use system::instruction::Instruction;
use views::page::GitLinks;

/// What the tests ask, and what they answer commands with.
struct World {
    shared: Shared,
    instructions: mpsc::UnboundedReceiver<Instruction>,
    publisher: Publisher,
}

/// A daemon with placements `api` and `web`; commands are allowed, and `change` makes its settings.
fn world(change: impl FnOnce(&mut PageSettings)) -> World {
    let (mut shared, instructions) = shared(Arc::new(MemoryStore::new()));
    let (publisher, views) = Publisher::new(0xabc);
    publisher.publish(fleet(&["api", "web"], &Case::healthy(&["east", "west"])));
    shared.views = views;
    let mut settings = PageSettings {
        site: Site { commands: true, ..Site::default() },
        is_https: false,
        public_host: None,
        proxy: None,
        public_badge: false,
        public_graph: false,
        sessions: Sessions::new().expect("randomness"),
        recent: RecentFragments::default(),
        forecasts: Forecasts::default(),
    };
    change(&mut settings);
    shared.page = Some(Arc::new(settings));
    World { shared, instructions, publisher }
}

/// An answer, read whole.
struct Answered {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answered {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().expect("text")).unwrap_or_default()
    }

    /// Returns what a browser would send back of the cookie.
    fn cookie(&self) -> String {
        self.header("set-cookie").split(';').next().unwrap_or_default().to_owned()
    }
}

impl World {
    async fn send(&self, request: Builder, body: impl Into<Body>) -> Answered {
        let request = request.header(header::HOST, "localhost").body(body.into()).expect("a request");
        let answer = router(self.shared.clone(), true).oneshot(request).await.expect("a router always answers");
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.expect("a body").to_bytes().to_vec();
        Answered { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answered {
        let request = headers.iter().fold(Request::get(path), |request, (name, value)| request.header(*name, *value));
        self.send(request, "").await
    }

    async fn post(&self, path: &str, headers: &[(&str, &str)], fields: &[(&str, &str)]) -> Answered {
        let request = headers.iter().fold(Request::post(path), |request, (name, value)| request.header(*name, *value));
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.send(request, body).await
    }

    /// Signs in; returns the cookie.
    async fn signed_in(&self, token: &str) -> String {
        let answer = self.post(SIGN_IN_PATH, &[], &[("token", token), ("to", "/clusters")]).await;
        assert_eq!((answer.status, answer.header("location")), (303, "/clusters"), "{}", answer.text());
        answer.cookie()
    }
}

#[tokio::test]
async fn every_page_is_there_and_guarded() {
    let world = world(|_| ());
    for (path, status, kind) in [
        ("/", 200, "text/html; charset=utf-8"),
        ("/?q=web&state=done&sort=name&page=9", 200, "text/html; charset=utf-8"),
        ("/placements/web", 200, "text/html; charset=utf-8"),
        ("/placements/web?tab=diff&from=2", 200, "text/html; charset=utf-8"),
        ("/placements/web?tab=events", 200, "text/html; charset=utf-8"),
        ("/placements/web?tab=history", 200, "text/html; charset=utf-8"),
        ("/placements/web?tab=explain", 200, "text/html; charset=utf-8"),
        ("/placements/web/graph.svg", 200, "image/svg+xml"),
        ("/badge/web.svg", 200, "image/svg+xml"),
        ("/clusters", 200, "text/html; charset=utf-8"),
        ("/clusters/east", 200, "text/html; charset=utf-8"),
        ("/commits/1a2b3c4d5e6f", 200, "text/html; charset=utf-8"),
        ("/events?trouble=1", 200, "text/html; charset=utf-8"),
        ("/sign-in", 200, "text/html; charset=utf-8"),
        ("/assets/page.css", 200, "text/css; charset=utf-8"),
        ("/placements/shop/web", 404, "text/html; charset=utf-8"),
        ("/placements/gone/graph.svg", 404, "text/plain; charset=utf-8"),
        ("/badge/gone.svg", 404, "text/plain; charset=utf-8"),
        ("/clusters/north", 404, "text/html; charset=utf-8"),
        ("/commits/ffffffff", 404, "text/html; charset=utf-8"),
        ("/assets/../page.css", 404, ""),
        ("/assets/other.js", 404, "text/plain; charset=utf-8"),
    ] {
        let answer = world.get(path, &[]).await;
        assert_eq!((answer.status, answer.header("content-type")), (status, kind), "{path}");
        if status == 200 {
            let policy = answer.header("content-security-policy");
            assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{path}: {policy}");
            assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
            assert_eq!(answer.header("referrer-policy"), "same-origin", "{path}");
        }
    }
    let mut off = world;
    off.shared.page = None;
    for path in ["/", "/placements/web", "/sign-in", "/assets/page.css"] {
        assert_eq!(off.get(path, &[]).await.status, 404, "{path}: the page is off");
    }
}

#[tokio::test]
async fn a_page_links_the_pull_requests_that_the_bot_knows_now() {
    let links = GitLinks {
        source: String::new(),
        repository: "https://git.example/o/r".into(),
        is_github: false,
        folder: String::new(),
    };
    let mut world = world(|settings| settings.site.links = vec![links]);
    let (learned, pulls) = watch::channel(Arc::default());
    world.shared.pulls = [(String::new(), pulls)].into();
    assert!(!world.get("/placements/web", &[]).await.text().contains("/pulls/"));
    let commit = CommitId::new("1a2b3c4d5e6f");
    learned.send_replace(Arc::new(CommitPulls::from([(commit, [12].into())])));
    assert!(world.get("/placements/web", &[]).await.text().contains("https://git.example/o/r/pulls/12"));
}

#[tokio::test]
async fn a_run_is_simulated_once_for_every_page_that_shows_it() {
    let mut world = world(|_| ());
    let case = Case::healthy(&["east", "north", "south", "west"]).with_run(run_in_production());
    world.publisher.publish(fleet(&["api", "web"], &case));
    let (questions, mut asked) = mpsc::channel(1);
    world.shared.questions = questions;
    let answer = tokio::spawn(async move {
        let mut runs = Vec::new();
        while let Some(question) = asked.recv().await {
            let Question::Forecast { placement, run, reply } = question else { panic!("{question:?}") };
            runs.push(format!("{placement} {run}"));
            reply.send(None).expect("the page waits");
        }
        runs
    });
    for path in ["/placements/web", "/placements/web?group=region", "/placements/web?tab=history", "/placements/web"] {
        assert_eq!(world.get(path, &[]).await.status, 200, "{path}");
    }
    drop(world);
    assert_eq!(answer.await.expect("it answered"), ["web web-3"]);
}

#[tokio::test]
async fn a_page_comes_as_a_fragment_and_compressed_where_that_is_asked_for() {
    let world = world(|_| ());
    let whole = world.get("/", &[]).await.text();
    assert!(whole.starts_with("<!DOCTYPE html>"), "{whole}");
    let stream = "data-stream=\"/api/v1/stream?only=summary&amp;after=abc-1\"";
    assert!(whole.contains(stream), "{whole}");
    let fragment = world.get("/", &[("gitfleet-fragment", "main")]).await.text();
    assert!(fragment.starts_with("<main id=\"main\"") && fragment.ends_with("</main>"), "{fragment}");
    let small = world.get("/", &[("accept-encoding", "br, gzip;q=0.8")]).await;
    assert_eq!(small.header("content-encoding"), "gzip");
    let mut text = String::new();
    GzDecoder::new(small.body.as_slice()).read_to_string(&mut text).expect("it is gzip");
    assert!(text.starts_with("<!DOCTYPE html>") && small.body.len() < text.len() / 2);
}

#[tokio::test]
async fn assets_are_kept_by_their_version() {
    let world = world(|_| ());
    let plain = world.get("/assets/page.js", &[]).await;
    assert_eq!(plain.header("cache-control"), "no-cache");
    let tag = plain.header("etag").to_owned();
    assert_eq!(world.get("/assets/page.js", &[("if-none-match", &tag)]).await.status, 304);
    let versioned = world.get(&format!("/assets/page.js?v={}", tag.trim_matches('"')), &[]).await;
    assert!(versioned.header("cache-control").contains("immutable"), "{}", versioned.header("cache-control"));
    let page = world.get("/", &[]).await.text();
    assert!(page.contains(&format!("/assets/page.js?v={}", tag.trim_matches('"'))), "pages name the version");
}

#[tokio::test]
async fn whoever_may_not_read_is_led_through_the_form_and_back() {
    let mut world = world(|_| ());
    world.shared.access.read_needs_token = true;
    let away = world.get("/placements/web?tab=diff", &[]).await;
    assert_eq!((away.status, away.header("location")), (303, "/sign-in?to=%2Fplacements%2Fweb%3Ftab%3Ddiff"));
    assert_eq!(world.get("/", &[("gitfleet-fragment", "main")]).await.status, 401, "a script learns of it");
    let form = world.get(away.header("location"), &[]).await.text();
    assert!(form.contains("name=\"to\" value=\"/placements/web?tab=diff\""), "{form}");
    assert!(!form.contains("api"), "the form shows nothing of the fleet: {form}");
    let wrong = world.post(SIGN_IN_PATH, &[], &[("token", "scorer"), ("to", "/")]).await;
    assert_eq!((wrong.status, wrong.header("set-cookie")), (403, ""), "a token for something else");
    let right = world.post(SIGN_IN_PATH, &[], &[("token", "prometheus"), ("to", "/placements/web?tab=diff")]).await;
    assert_eq!((right.status, right.header("location")), (303, "/placements/web?tab=diff"));
    let attributes = right.header("set-cookie");
    for wanted in ["HttpOnly", "SameSite=Strict", "Path=/;", "Max-Age=43200"] {
        assert!(attributes.contains(wanted), "{attributes}");
    }
    assert!(!attributes.contains("Secure") && !attributes.contains("prometheus"), "{attributes}");
    let cookie = right.cookie();
    let with = [("cookie", cookie.as_str())];
    for path in ["/", "/clusters", "/badge/web.svg", "/api/v1/summary"] {
        assert_eq!(world.get(path, &with).await.status, 200, "{path}");
    }
    assert_eq!(world.get("/", &[("cookie", "gitfleet-session=0000")]).await.status, 303);
    assert_eq!(world.get("/", &[("authorization", "Bearer ann")]).await.status, 200);
    for (path, sent) in [("/", "cross-site"), ("/placements/web", "same-site")] {
        let led = world.get(path, &[("sec-fetch-site", sent)]).await;
        assert!(led.status == 200 && led.text().contains(&format!("url={path}")), "its own page asks again");
    }
    assert_eq!(
        world.get("/", &[("sec-fetch-site", "same-origin")]).await.status,
        303,
        "no page leads to itself for ever"
    );
}

#[tokio::test]
async fn a_session_ends_where_its_owner_says_so() {
    let mut world = world(|settings| settings.is_https = true);
    world.shared.access.read_needs_token = true;
    let answer = world.post(SIGN_IN_PATH, &[], &[("token", "ann")]).await;
    assert!(answer.header("set-cookie").ends_with("; Secure"), "{}", answer.header("set-cookie"));
    let cookie = answer.cookie();
    let with = [("cookie", cookie.as_str())];
    let page = world.get("/", &with).await.text();
    let form = page.split("name=\"form\" value=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a form");
    world.post(SIGN_OUT_PATH, &with, &[("form", "another")]).await;
    assert_eq!(world.get("/", &with).await.status, 200, "a form of another page ends nothing");
    assert_eq!(world.post(SIGN_OUT_PATH, &with, &[("form", form)]).await.status, 303);
    assert_eq!(world.get("/", &with).await.status, 303);
}

#[tokio::test]
async fn nobody_is_led_to_another_host() {
    let world = world(|_| ());
    for to in ["//evil.example", "https://evil.example", "/\\evil.example", "evil", "", "/\r\nx: y"] {
        let answer = world.post(SIGN_IN_PATH, &[], &[("token", "ann"), ("to", to)]).await;
        assert_eq!((answer.status, answer.header("location")), (303, "/"), "{to:?}");
    }
}

#[tokio::test]
async fn pictures_are_public_where_the_configuration_says_so() {
    let mut world = world(|settings| settings.public_badge = true);
    world.shared.access.read_needs_token = true;
    for (path, status) in [
        ("/badge/web.svg", 200),
        ("/placements/web/graph.svg", 303),
        ("/placements/web", 303),
        ("/badge/web", 303),
        ("/?x=/badge/web.svg", 303),
    ] {
        assert_eq!(world.get(path, &[]).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn the_word_of_a_proxy_counts_from_its_own_address_only() {
    let proxy = TrustedProxy {
        header: HeaderName::from_static("x-user"),
        from: vec!["10.1.2.0/24".parse().expect("a network")],
        commanders: ["ann".to_owned()].into(),
    };
    let mut world = world(|settings| settings.proxy = Some(proxy));
    world.shared.access.read_needs_token = true;
    let ask = async |peer: &str, names: &[&str], path: &str| {
        let request = names.iter().fold(Request::get(path), |request, name| request.header("x-user", *name));
        world.send(request.extension(Peer(peer.parse().expect("an address"))), "").await
    };
    for (peer, names, status) in [
        ("10.1.2.3", &["ben"][..], 200),
        ("10.1.3.3", &["ben"][..], 303),
        ("10.1.2.3", &[][..], 303),
        ("10.1.2.3", &[""][..], 303),
        ("10.1.2.3", &["ben", "ann"][..], 303),
    ] {
        assert_eq!(ask(peer, names, "/").await.status, status, "{peer} {names:?}");
    }
    let pause = "/act?verb=pause&target=web";
    assert_eq!(ask("10.1.2.3", &["ben"], pause).await.status, 403, "he looks");
    assert_eq!(ask("10.1.2.3", &["ann"], pause).await.status, 200);
    assert!(!ask("10.1.2.3", &["ann"], "/").await.text().contains("Sign out"), "the proxy knows how");
}

/// Returns the hidden fields of the form of a command.
fn hidden(page: &str) -> Vec<(String, String)> {
    let form = page.split("class=\"act-form\"").nth(1).unwrap_or_default();
    let inputs = form.split("type=\"hidden\" name=\"").skip(1);
    inputs
        .filter_map(|rest| {
            let (name, rest) = rest.split_once("\" value=\"")?;
            Some((name.to_owned(), rest.split_once('"')?.0.to_owned()))
        })
        .collect()
}

#[tokio::test]
async fn a_command_is_sent_by_a_known_person_from_a_page_made_for_them() {
    let mut world = world(|_| ());
    let cookie = world.signed_in("ann").await;
    let with = [("cookie", cookie.as_str())];
    let page = world.get("/act?verb=pause&target=web", &with).await;
    assert_eq!(page.status, 200);
    let fields = hidden(&page.text());
    let mut fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let looker = world.signed_in("prometheus").await;
    let spoiled: Vec<_> =
        fields.iter().map(|(name, value)| if *name == "form" { (*name, "0") } else { (*name, *value) }).collect();
    for (headers, fields, why) in [
        (&[][..], &fields, "nobody"),
        (&[("cookie", looker.as_str())][..], &fields, "somebody who looks"),
        (&with[..], &spoiled, "a form of somebody else"),
        (&[with[0], ("origin", "https://evil.example")][..], &fields, "a page of another site"),
        (&[with[0], ("origin", "null")][..], &fields, "a page of nowhere"),
        (&[with[0], ("sec-fetch-site", "cross-site")][..], &fields, "another site, as the browser says"),
    ] {
        assert_eq!(world.post(ACT_PATH, headers, fields).await.status, 403, "{why}");
    }
    assert!(world.instructions.try_recv().is_err(), "none of them commands");
    fields.push(("message", "a freeze"));
    let (shared, mut instructions) = (world.shared.clone(), world.instructions);
    let execute = tokio::spawn(async move {
        let instruction = instructions.recv().await.expect("an instruction");
        let done = Done { message: "web is paused".into(), at: Timestamp::UNIX_EPOCH, gate: None };
        instruction.reply.send(Ok(done)).expect("the client waits");
        (instruction.command, instruction.person)
    });
    let (_, instructions) = mpsc::unbounded_channel();
    let world = World { shared, instructions, publisher: world.publisher };
    let done = world.post(ACT_PATH, &[with[0], ("origin", "http://localhost")], &fields).await;
    assert!(done.status == 200 && done.text().contains("web is paused"), "{}", done.text());
    let (command, person) = execute.await.expect("it executed");
    assert_eq!(
        (command.verb, command.target.as_str(), command.message.as_deref()),
        (Verb::Pause, "web", Some("a freeze"))
    );
    assert_eq!(person, Person::of("ann", Channel::Api));
}

#[tokio::test]
async fn a_page_for_looking_takes_no_command() {
    let world = world(|settings| settings.site.commands = false);
    let cookie = world.signed_in("ann").await;
    let with = [("cookie", cookie.as_str())];
    assert_eq!(world.get("/act?verb=pause&target=web", &with).await.status, 403);
    assert_eq!(world.post(ACT_PATH, &with, &[("verb", "pause"), ("target", "web")]).await.status, 403);
    assert!(!world.get("/placements/web", &with).await.text().contains("/act?"), "it offers none");
}

#[tokio::test]
async fn a_base_path_stands_before_everything_and_may_be_taken_away() {
    let mut world = world(|settings| settings.site.base = "/tools/gitfleet".into());
    for path in
        ["/tools/gitfleet", "/tools/gitfleet/", "/", "/tools/gitfleet/?q=web", "/tools/gitfleet/clusters", "/clusters"]
    {
        let answer = world.get(path, &[]).await;
        assert_eq!(answer.status, 200, "{path}");
        let text = answer.text();
        assert!(
            !text.contains("href=\"/clusters") && text.contains("href=\"/tools/gitfleet/clusters"),
            "{path}: {text}"
        );
    }
    assert_eq!(world.get("/tools/gitfleets", &[]).await.status, 404);
    assert_eq!(world.get("/tools/gitfleet/api/v1/summary", &[]).await.status, 200);
    assert_eq!(world.get("/tools/gitfleet/healthz", &[]).await.status, 200);
    world.shared.access.read_needs_token = true;
    let away = world.get("/tools/gitfleet/events", &[]).await;
    assert_eq!(away.header("location"), "/tools/gitfleet/sign-in?to=%2Fevents");
    let back = world.post("/tools/gitfleet/sign-in", &[], &[("token", "ann"), ("to", "/events")]).await;
    assert_eq!(back.header("location"), "/tools/gitfleet/events");
    assert!(back.header("set-cookie").contains("Path=/tools/gitfleet/;"), "{}", back.header("set-cookie"));
}

#[tokio::test]
async fn the_stream_of_a_page_says_only_what_it_waits_for() {
    let world = world(|_| ());
    let open = async |query: &str| {
        let request = Request::get(format!("{STREAM_PATH}?{query}")).header(header::HOST, "localhost");
        let request = request.body(Body::empty()).expect("a request");
        let answer = router(world.shared.clone(), true).oneshot(request).await.expect("a router always answers");
        assert_eq!(answer.status().as_u16(), 200, "{query}");
        answer.into_body().into_data_stream()
    };
    let mut all = open("only=summary&after=abc-1").await;
    let mut web = open("only=summary&after=abc-1&placement=web").await;
    let next = async |stream: &mut axum::body::BodyDataStream| -> String {
        loop {
            let piece = stream.next().await.expect("the stream lasts").expect("it is read");
            if piece.as_ref() != b":\n\n" {
                return String::from_utf8_lossy(&piece).into_owned();
            }
        }
    };
    let case = Case::healthy(&["east", "west"]);
    for name in ["api", "web"] {
        let key = name.parse().expect("a key");
        let records = crate::fixtures::records(&case, name);
        let changes =
            views::fleet::Changes { placements: [(key, Some(records))].into(), ..views::fleet::Changes::default() };
        world.publisher.publish(world.publisher.last().fleet.with(changes));
        let said = next(&mut all).await;
        assert!(said.starts_with("event: summary\nid: abc-") && said.contains("\"states\""), "{said}");
    }
    assert!(next(&mut web).await.contains("id: abc-3\n"), "what changed elsewhere does not concern it");
    let begins = next(&mut open("only=summary").await).await;
    assert!(begins.contains("id: abc-3\n"), "without an id it begins with where things are: {begins}");
}
