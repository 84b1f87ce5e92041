//! Deliveries as the hosts see them answered, without a socket.

use std::time::Duration;

use aws_lc_rs::hmac;
use axum::body::{Body, Bytes};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::*;
use crate::router;
use crate::tests::shared;
use engine::store::MemoryStore;
use model::text::hexadecimal;

const SECRET: &str = "s3cret";
const PUSH: &str = r#"{"ref": "refs/heads/main", "repository": {"id": 7}}"#;

fn signed(body: &str) -> String {
    hexadecimal(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes()), body.as_bytes()).as_ref())
}

fn delivery(path: &str, event: &str, signature: Option<&str>, body: impl Into<Body>) -> Request {
    let mut request = Request::post(path).header("content-type", "application/json").header("x-gitea-event", event);
    if let Some(signature) = signature {
        request = request.header("x-gitea-signature", signature);
    }
    request.body(body.into()).unwrap()
}

/// Returns what the handlers share, with hooks of a Gitea repository with the id 7, and the queue.
fn hooked() -> (Shared, mpsc::Receiver<ForgeEvent>) {
    let (mut shared, _) = shared(Arc::new(MemoryStore::new()));
    let (hooks, queue) =
        Hooks::new(Kind::Gitea, vec![SecretString::from(SECRET)], watch::channel(Some(7)).1, || Timestamp::MAX);
    shared.hooks = vec![hooks];
    (shared, queue)
}

/// Returns the status; the body of the answer must be empty.
async fn answer(shared: &Shared, request: Request) -> u16 {
    let response = router(shared.clone(), true).oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    assert!(response.into_body().collect().await.unwrap().to_bytes().is_empty(), "{status} tells something");
    status
}

#[tokio::test]
async fn every_delivery_has_its_answer() {
    let foreign = r#"{"ref": "refs/heads/main", "repository": {"id": 8}}"#;
    let large = "x".repeat(BODY_BYTES_MAX + 1);
    for (name, request, status, result, hints) in [
        ("good", delivery(GITEA_PATH, "push", Some(&signed(PUSH)), PUSH), 202, "queued", 1),
        ("of no interest", delivery(GITEA_PATH, "fork", Some(&signed("{}")), "{}"), 202, "ignored", 0),
        ("unsigned", delivery(GITEA_PATH, "push", None, PUSH), 401, "unsigned", 0),
        ("signed wrongly", delivery(GITEA_PATH, "push", Some(&signed("{}")), PUSH), 401, "unsigned", 0),
        ("another repository", delivery(GITEA_PATH, "push", Some(&signed(foreign)), foreign), 404, "foreign", 0),
        ("no JSON", delivery(GITEA_PATH, "push", Some(&signed("{")), "{"), 400, "malformed", 0),
        ("too large", delivery(GITEA_PATH, "push", Some(&signed("")), large.clone()), 413, "malformed", 0),
        ("too large and unsigned", delivery(GITEA_PATH, "push", None, large), 401, "unsigned", 0),
    ] {
        let (shared, mut queue) = hooked();
        assert_eq!(answer(&shared, request).await, status, "{name}");
        let mut found = 0;
        while queue.try_recv().is_ok() {
            found += 1;
        }
        assert_eq!(found, hints, "{name}");
        let metrics = shared.metrics.encode();
        assert!(
            metrics.contains(&format!("gitfleet_http_webhooks_total{{result=\"{result}\"}} 1")),
            "{name}: {metrics}"
        );
        let is_verified = !metrics.contains("gitfleet_http_webhook_last_verified_timestamp 0");
        assert_eq!(is_verified, status == 202, "{name}");
    }
}

#[tokio::test]
async fn a_replaced_secret_signs_nothing_any_more() {
    let (shared, _queue) = hooked();
    let request = || delivery(GITEA_PATH, "push", Some(&signed(PUSH)), PUSH);
    let hooks = &shared.hooks[0];
    for (secrets, status) in [(&["new"][..], 401), (&["new", SECRET], 202), (&["newer"], 401)] {
        hooks.replace_secrets(secrets.iter().map(|secret| SecretString::from(*secret)).collect());
        assert_eq!(answer(&shared, request()).await, status, "{secrets:?}");
    }
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let (mut shared, mut queue) = hooked();
    shared.hooks[0].bodies.patience = Duration::ZERO;
    let never = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
    assert_eq!(answer(&shared, delivery(GITEA_PATH, "push", Some(&signed(PUSH)), never)).await, 408);
    assert!(queue.try_recv().is_err());
    assert!(shared.metrics.encode().contains("gitfleet_http_webhooks_total{result=\"malformed\"} 1"));
    assert!(shared.hooks[0].bodies.is_free(), "its turn is over");
}

#[tokio::test]
async fn there_is_nothing_where_nothing_is_configured() {
    let (hooked, mut queue) = hooked();
    let other = delivery(GITHUB_PATH, "push", Some(&signed(PUSH)), PUSH);
    assert_eq!(answer(&hooked, other).await, 404, "it is a Gitea");
    assert!(queue.try_recv().is_err());
    let (bare, _) = shared(Arc::new(MemoryStore::new()));
    let good = delivery(GITEA_PATH, "push", Some(&signed(PUSH)), PUSH);
    assert_eq!(answer(&bare, good).await, 404, "no secret is configured");
}

#[tokio::test]
async fn a_full_queue_drops_and_says_yes() {
    let (shared, mut queue) = hooked();
    let signature = signed(PUSH);
    for _ in 0..QUEUE_MAX + 3 {
        assert_eq!(answer(&shared, delivery(GITEA_PATH, "push", Some(&signature), PUSH)).await, 202);
    }
    let mut found = 0;
    while queue.try_recv().is_ok() {
        found += 1;
    }
    assert_eq!(found, QUEUE_MAX);
    assert!(shared.metrics.encode().contains("gitfleet_http_webhooks_total{result=\"dropped\"} 3"));
    drop(queue);
    assert_eq!(answer(&shared, delivery(GITEA_PATH, "push", Some(&signature), PUSH)).await, 202, "nobody listens");
}

#[tokio::test]
async fn a_delivery_goes_to_the_repository_that_it_is_of() {
    // the ids that are known of two repositories, their secrets, and the delivery's id; the answer, and who gets it
    type Row = (&'static str, [Option<u64>; 2], [&'static str; 2], u64, u16, [bool; 2]);
    let rows: [Row; 7] = [
        ("of the first", [Some(7), Some(8)], [SECRET, SECRET], 7, 202, [true, false]),
        ("of the second", [Some(7), Some(8)], [SECRET, SECRET], 8, 202, [false, true]),
        ("of none", [Some(7), Some(8)], [SECRET, SECRET], 9, 404, [false, false]),
        ("with the secret of the other", [Some(7), Some(8)], [SECRET, "another"], 8, 404, [false, false]),
        ("with the secret of none", [Some(7), Some(8)], ["one", "another"], 8, 401, [false, false]),
        ("of one whose id is not known yet", [Some(7), None], [SECRET, SECRET], 8, 202, [false, true]),
        ("while no id is known", [None, None], [SECRET, SECRET], 8, 202, [true, true]),
    ];
    for (name, ids, secrets, id, status, gets) in rows {
        let (mut shared, _) = shared(Arc::new(MemoryStore::new()));
        let hooks = |(id, secret): (Option<u64>, &str)| {
            Hooks::new(Kind::Gitea, vec![SecretString::from(secret)], watch::channel(id).1, || Timestamp::MAX)
        };
        let (all, mut queues): (Vec<_>, Vec<_>) = ids.into_iter().zip(secrets).map(hooks).unzip();
        shared.hooks = all;
        let body = format!(r#"{{"ref": "refs/heads/main", "repository": {{"id": {id}}}}}"#);
        let request = delivery(GITEA_PATH, "push", Some(&signed(&body)), body.clone());
        assert_eq!(answer(&shared, request).await, status, "{name}");
        let got: Vec<bool> = queues.iter_mut().map(|queue| queue.try_recv().is_ok()).collect();
        assert_eq!(got, gets, "{name}");
    }
}
