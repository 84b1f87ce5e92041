//! Views and streams as clients see them, without a socket.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, header};
use axum::response::Response;
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use serde_json::Value;
use tower::ServiceExt as _;

use super::*;
use crate::fixtures::{Case, CaseStatus as _};
use crate::fixtures::{fleet, records};
use crate::stream::{STREAM_PATH, STREAMS_MAX};
use crate::{router, tests};
use engine::store::MemoryStore;
use views::fleet::Changes;

/// A daemon that has published two placements on two clusters.
fn published() -> (Shared, Publisher, Case) {
    let case = Case::healthy(&["east", "west"]);
    let (publisher, views) = Publisher::new(0xabc);
    publisher.publish(fleet(&["api", "web"], &case));
    let (shared, _) = tests::shared(Arc::new(MemoryStore::new()));
    (Shared { views, ..shared }, publisher, case)
}

async fn ask(shared: &Shared, path: &str, name: &'static str, value: &str) -> Response {
    let request = Request::get(path).header(header::HOST, "localhost").header(name, value);
    let request = request.body(Body::empty()).expect("a request");
    router(shared.clone(), true).oneshot(request).await.expect("a router always answers")
}

async fn answer(shared: &Shared, path: &str) -> (u16, Option<String>, Value) {
    let response = ask(shared, path, "accept", "*/*").await;
    let tag = response.headers().get(header::ETAG).map(|tag| tag.to_str().expect("text").to_owned());
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    (status, tag, serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into()))
}

#[tokio::test]
async fn every_view_has_a_tag_and_is_not_sent_again() {
    let (shared, publisher, case) = published();
    let paths = [
        SUMMARY_PATH,
        PLACEMENTS_PATH,
        "/api/v1/placements/web",
        CLUSTERS_PATH,
        "/api/v1/bindings?placement=web",
        "/api/v1/works?placement=web&cluster=east",
        EVENTS_PATH,
    ];
    let mut tags = Vec::new();
    for path in paths {
        let (status, tag, body) = answer(&shared, path).await;
        assert_eq!(status, 200, "{path}: {body}");
        let tag = tag.expect("a tag");
        let again = ask(&shared, path, "if-none-match", &format!("\"x\", {tag}")).await;
        assert_eq!(again.status().as_u16(), 304, "{path}");
        assert!(again.into_body().collect().await.expect("a body").to_bytes().is_empty(), "{path}");
        tags.push(tag);
    }
    let mut slow = case;
    slow.work("east").complete = false;
    slow.settle();
    let next = publisher.last().fleet.with(Changes {
        placements: [("web".parse().expect("a key"), Some(records(&slow, "web")))].into(),
        ..Changes::default()
    });
    publisher.publish(next);
    for (path, tag) in paths.iter().zip(tags).take(3) {
        assert_eq!(ask(&shared, path, "if-none-match", &tag).await.status().as_u16(), 200, "{path} has changed");
    }
}

#[tokio::test]
async fn pages_end_with_a_token_for_the_next() {
    let (shared, ..) = published();
    for (path, expected) in [(PLACEMENTS_PATH, 2), (CLUSTERS_PATH, 2), (BINDINGS_PATH, 4), (WORKS_PATH, 4)] {
        let (mut found, mut after) = (0, String::new());
        loop {
            let (status, _, page) = answer(&shared, &format!("{path}?limit=1{after}")).await;
            assert_eq!(status, 200, "{page}");
            found += page["items"].as_array().expect("items").len();
            let Some(next) = page["continue"].as_str() else { break };
            let next: String = form_urlencoded::byte_serialize(next.as_bytes()).collect();
            after = format!("&continue={next}");
        }
        assert_eq!(found, expected, "{path}");
    }
}

#[tokio::test]
async fn what_is_not_there_and_what_is_no_question_is_said() {
    let (shared, ..) = published();
    let rows = [
        ("/api/v1/placements/api2", 404, "there is no placement api2"),
        ("/api/v1/placements/shop%2Fweb", 404, "there is no placement shop/web"),
        ("/api/v1/placements/shop/web", 404, "there is no placement shop/web"),
        ("/api/v1/works?placement=nothing", 404, "there is no placement nothing"),
        ("/api/v1/bindings?cluster=north", 404, "there is no cluster north"),
        ("/api/v1/works?limit=many", 400, "invalid digit"),
        ("/api/v1/works?colour=red", 400, "unknown field `colour`"),
        ("/api/v1/placements?state=Odd", 400, "unknown variant `Odd`"),
    ];
    for (path, expected, text) in rows {
        let (status, _, body) = answer(&shared, path).await;
        assert_eq!(status, expected, "{path}: {body}");
        assert!(body.as_str().is_some_and(|body| body.contains(text)), "{path}: {body}");
    }
}

#[tokio::test]
async fn reading_views_needs_what_reading_records_needs() {
    let (mut shared, ..) = published();
    shared.access.read_needs_token = true;
    for path in [SUMMARY_PATH, PLACEMENTS_PATH, "/api/v1/placements/web", WORKS_PATH, EVENTS_PATH, STREAM_PATH] {
        assert_eq!(ask(&shared, path, "accept", "*/*").await.status().as_u16(), 401, "{path}");
        let token = ask(&shared, path, "authorization", "Bearer prometheus").await;
        assert_eq!(token.status().as_u16(), 200, "{path}");
    }
}

#[tokio::test]
async fn a_question_waits_for_what_was_stored_before_it() {
    let (publisher, views) = Publisher::new(1);
    assert!(publisher.is_behind(), "what the process begins with is to be shown");
    publisher.publish(FleetView::default());
    assert_eq!(views.fresh().await.map(|published| published.written), Some(1));
    publisher.note_written();
    let (waiting, ()) = tokio::join!(views.fresh(), async {
        tokio::task::yield_now().await;
        publisher.publish(FleetView::default());
    });
    assert_eq!(waiting.map(|published| published.written), Some(2));
    publisher.note_written();
    // The daemon ends.
    drop(publisher);
    assert_eq!(views.fresh().await.map(|published| published.written), Some(2), "an older answer is better than none");
    let (publisher, views) = Publisher::new(1);
    drop(publisher);
    assert!(views.fresh().await.is_none(), "the store was never read");
}

/// Reads a stream until an event with an id; returns the names of its events, and the id.
async fn step(body: &mut axum::body::BodyDataStream) -> (Vec<String>, String) {
    let mut text = String::new();
    loop {
        let piece = body.next().await.expect("the stream lasts").expect("it is read");
        text.push_str(std::str::from_utf8(&piece).expect("text"));
        if let Some(id) = text.lines().find_map(|line| line.strip_prefix("id: ")) {
            let events = text.lines().filter_map(|line| line.strip_prefix("event: ")).map(str::to_owned).collect();
            return (events, id.to_owned());
        }
    }
}

#[tokio::test]
async fn a_stream_begins_with_everything_and_continues_where_a_reader_was() {
    let (shared, publisher, case) = published();
    let mut body = ask(&shared, STREAM_PATH, "accept", "text/event-stream").await.into_body().into_data_stream();
    let (events, id) = step(&mut body).await;
    assert_eq!(events, ["reset", "placement", "placement", "cluster", "cluster", "summary"]);
    assert_eq!(id, "abc-1");
    let web = |is_there| ("web".parse().expect("a key"), is_there);
    let changed = Changes { placements: [web(Some(records(&case, "web")))].into(), ..Changes::default() };
    publisher.publish(publisher.last().fleet.with(changed));
    let (events, id) = step(&mut body).await;
    assert_eq!((events, id.as_str()), (vec!["placement".to_owned(), "summary".to_owned()], "abc-2"));
    let gone = Changes { placements: [web(None)].into(), ..Changes::default() };
    publisher.publish(publisher.last().fleet.with(gone));
    for (last, expected) in [
        ("abc-2", vec!["removed", "summary"]),
        ("abc-1", vec!["removed", "summary"]),
        ("abd-2", vec!["reset", "placement", "cluster", "cluster", "summary"]),
        ("abc-9", vec!["reset", "placement", "cluster", "cluster", "summary"]),
        ("nonsense", vec!["reset", "placement", "cluster", "cluster", "summary"]),
    ] {
        let mut body = ask(&shared, STREAM_PATH, "last-event-id", last).await.into_body().into_data_stream();
        let (events, id) = step(&mut body).await;
        assert_eq!((events, id.as_str()), (expected.into_iter().map(str::to_owned).collect(), "abc-3"), "{last}");
    }
}

#[tokio::test]
async fn streams_are_few_and_end() {
    let (mut shared, ..) = published();
    let mut open = Vec::new();
    for _ in 0..STREAMS_MAX {
        open.push(ask(&shared, STREAM_PATH, "accept", "*/*").await.into_body().into_data_stream());
    }
    assert_eq!(ask(&shared, STREAM_PATH, "accept", "*/*").await.status().as_u16(), 503);
    drop(open);
    // The place of one that is gone is free as soon as that is noticed.
    while !shared.streams.is_free() {
        tokio::task::yield_now().await;
    }
    shared.streams.time = Duration::ZERO;
    let mut body = ask(&shared, STREAM_PATH, "accept", "*/*").await.into_body().into_data_stream();
    step(&mut body).await;
    assert!(body.next().await.is_none(), "its time is over");
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_cut_off() {
    let (mut shared, publisher, case) = published();
    let names: Vec<String> = (0..2000).map(|number| format!("app-{number}")).collect();
    publisher.publish(fleet(&names.iter().map(String::as_str).collect::<Vec<_>>(), &case));
    shared.streams.patience = Duration::ZERO;
    let mut body = ask(&shared, STREAM_PATH, "accept", "*/*").await.into_body().into_data_stream();
    while !shared.streams.is_free() {
        tokio::task::yield_now().await;
    }
    let mut bytes = 0;
    while let Some(piece) = body.next().await {
        bytes += piece.expect("it is read").len();
    }
    assert!(bytes < 1024 * 1024, "{bytes} bytes waited for it");
}
