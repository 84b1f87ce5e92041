//! Changes of what people see, as server-sent events.
//!
//! A reader gets what changed since the version it has: by `Last-Event-ID`, else everything first. Nothing is kept for it, so one
//! that is slow gets fewer, larger steps, and one that takes nothing is cut off. A step ends with the event that carries its version:
//! whoever is cut off within a step gets it again.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Query as UrlQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::Instant;

use super::Shared;
use super::api::{Published, Views, starting};
use super::turns::PIECE_BYTES;
use model::id::{ClusterName, PlacementKey};
use system::clock;
use views::fleet::{FleetView, REMOVALS_MAX};
use views::lists::{cluster_line, see_now};
use views::summary::Totals;

/// Where changes are followed.
pub const STREAM_PATH: &str = "/api/v1/stream";
/// Streams of everything at a time.
pub const STREAMS_MAX: usize = 32;
/// Streams of open pages at a time, which only say that something changed.
pub const PAGE_STREAMS_MAX: usize = 640;
/// How long one stream lasts: less than a request may. The reader asks again with the id of the last event.
pub const STREAM_TIME: Duration = Duration::from_secs(50);
/// How long a reader may leave a piece that waits for it.
pub const STREAM_PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two steps.
const STEP_PAUSE: Duration = Duration::from_millis(200);
/// After so long without an event a comment shows that the stream is there.
const COMMENT_PAUSE: Duration = Duration::from_secs(15);
/// Pieces that wait for a slow reader.
const PIECES_MAX: usize = 2;

/// The places of streams.
#[derive(Clone, Debug)]
pub struct Streams {
    places: Arc<Semaphore>,
    /// The places of those that only say that something changed.
    page_places: Arc<Semaphore>,
    /// How long one lasts.
    pub(super) time: Duration,
    /// How long a reader may leave a piece.
    pub(super) patience: Duration,
}

impl Streams {
    /// Tells whether none is open.
    #[cfg(test)]
    pub(super) fn is_free(&self) -> bool {
        self.places.available_permits() == STREAMS_MAX
    }
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(STREAMS_MAX)),
            page_places: Arc::new(Semaphore::new(PAGE_STREAMS_MAX)),
            time: STREAM_TIME,
            patience: STREAM_PATIENCE,
        }
    }
}

/// What is still to be said in a step.
enum Item {
    Placement(PlacementKey),
    Removed(PlacementKey),
    Cluster(ClusterName),
}

/// A step: everything that changed from one version to another.
struct StreamStep {
    published: Arc<Published>,
    items: VecDeque<Item>,
    is_reset: bool,
    id: String,
}

impl StreamStep {
    /// Returns the step from a version; from none it is everything.
    fn of(published: Arc<Published>, process: u64, from: Option<u64>) -> Self {
        let fleet = &published.fleet;
        let forgotten = fleet.removals.len() == REMOVALS_MAX
            && fleet.removals.front().zip(from).is_some_and(|((oldest, _), from)| from < *oldest);
        let from = from.filter(|from| !forgotten && *from <= fleet.version);
        let since = from.unwrap_or(0);
        let removed = fleet.removals.iter().filter(|(version, _)| from.is_some() && *version > since);
        // Before the placements: one may have come back.
        let removed = removed.map(|(_, key)| Item::Removed(key.clone()));
        let placements = fleet.placements.iter().filter(|(_, placed)| placed.version > since);
        let clusters = fleet.cluster_versions.iter().filter(|(_, version)| **version > since);
        let items = removed
            .chain(placements.map(|(key, _)| Item::Placement(key.clone())))
            .chain(clusters.map(|(name, _)| Item::Cluster(name.clone())))
            .collect();
        let id = id_of(process, fleet.version);
        Self { items, is_reset: from.is_none(), id, published }
    }

    /// Returns the next piece; `None` when all was said.
    fn piece(&mut self) -> Option<Vec<u8>> {
        let mut piece = Vec::new();
        if std::mem::take(&mut self.is_reset) {
            event(&mut piece, "reset", None, &json!({}));
        }
        let fleet = &self.published.fleet;
        let now = clock::now();
        while piece.len() < PIECE_BYTES {
            match self.items.pop_front() {
                Some(Item::Placement(key)) => {
                    if let Some(placed) = fleet.placements.get(&key) {
                        event(&mut piece, "placement", None, &placed.shown(fleet, now).line);
                    }
                }
                Some(Item::Removed(key)) => event(&mut piece, "removed", None, &json!({"placement": key})),
                Some(Item::Cluster(name)) => {
                    if let Some(cluster) = fleet.clusters.get(&name) {
                        let mut line = cluster_line(cluster, now);
                        see_now(&mut line, now);
                        event(&mut piece, "cluster", None, &line);
                    }
                }
                None if self.id.is_empty() => break,
                None => {
                    let totals = serde_json::to_value(Totals::of(fleet, now)).unwrap_or_default();
                    event(&mut piece, "summary", Some(&std::mem::take(&mut self.id)), &totals);
                }
            }
        }
        (!piece.is_empty()).then_some(piece)
    }
}

fn event(piece: &mut Vec<u8>, name: &str, id: Option<&str>, data: &Value) {
    // JSON has no line breaks, and neither has an id.
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    piece.extend_from_slice(format!("event: {name}\n{id}data: {data}\n\n").as_bytes());
}

/// What a stream is asked with.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StreamQuery {
    /// Only the events of this name.
    only: Option<OnlyEvents>,
    /// The id of the last event that the reader has, where it cannot send the header.
    after: Option<String>,
    /// With `only`: only changes of this placement.
    placement: Option<PlacementKey>,
}

/// The events that a reader wants.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum OnlyEvents {
    /// Those that end a step.
    Summary,
}

/// Returns the version that a reader has, where it has one of this process.
fn version_of(id: &str, process: u64) -> Option<u64> {
    let (of, version) = id.split_once('-')?;
    (of == format!("{process:x}")).then(|| version.parse().ok()).flatten()
}

/// Returns the id of a version of the fleet.
pub(super) fn id_of(process: u64, version: u64) -> String {
    format!("{process:x}-{version}")
}

/// Answers with changes as they come.
pub(super) async fn follow(
    State(shared): State<Shared>,
    UrlQuery(query): UrlQuery<StreamQuery>,
    headers: HeaderMap,
) -> Response {
    let (places, max) = match query.only {
        None => (&shared.streams.places, STREAMS_MAX),
        Some(OnlyEvents::Summary) => (&shared.streams.page_places, PAGE_STREAMS_MAX),
    };
    let Ok(place) = Arc::clone(places).try_acquire_owned() else {
        let text = format!("{max} streams are open; ask again later");
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    if shared.views.fresh().await.is_none() {
        return starting();
    }
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).or(query.after.as_deref());
    let from = last.and_then(|id| version_of(id, shared.views.process));
    let (pieces, written) = mpsc::channel(PIECES_MAX);
    let writer = Writer { views: shared.views.clone(), limits: shared.streams.clone(), pieces, _place: place };
    match query.only {
        None => tokio::spawn(writer.everything(from)),
        Some(OnlyEvents::Summary) => tokio::spawn(writer.summaries(from, query.placement)),
    };
    let body = stream::unfold(written, |mut written| async { Some((written.recv().await?, written)) });
    let head = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (head, Body::from_stream(body)).into_response()
}

/// Writes one stream until its time is over or its reader is.
struct Writer {
    views: Views,
    limits: Streams,
    pieces: mpsc::Sender<io::Result<Bytes>>,
    _place: OwnedSemaphorePermit,
}

impl Writer {
    /// Writes everything that changes, step by step.
    async fn everything(self, mut from: Option<u64>) {
        let end = Instant::now() + self.limits.time;
        let mut published = self.views.follow();
        loop {
            let last = Arc::clone(&published.borrow_and_update());
            let version = last.fleet.version;
            if from != Some(version) {
                let mut step = StreamStep::of(last, self.views.process, from);
                loop {
                    let made = tokio::task::spawn_blocking(move || (step.piece(), step)).await;
                    let Ok((piece, rest)) = made else { return };
                    step = rest;
                    let Some(piece) = piece else { break };
                    if !self.write(piece).await {
                        return;
                    }
                }
                from = Some(version);
            }
            if !self.wait(end, &mut published).await {
                return;
            }
        }
    }

    /// Writes that something changed, of the fleet or of one placement, and the totals.
    async fn summaries(self, mut from: Option<u64>, placement: Option<PlacementKey>) {
        let end = Instant::now() + self.limits.time;
        let mut published = self.views.follow();
        // The reader sees that the stream is there.
        if !self.write(&b":\n\n"[..]).await {
            return;
        }
        loop {
            let last = Arc::clone(&published.borrow_and_update());
            if from != Some(last.fleet.version) && changed_since(&last.fleet, from, placement.as_ref()) {
                let id = id_of(self.views.process, last.fleet.version);
                let totals = last.totals().await;
                if !self.write(format!("event: summary\nid: {id}\ndata: {totals}\n\n")).await {
                    return;
                }
            }
            from = Some(last.fleet.version);
            drop(last);
            if !self.wait(end, &mut published).await {
                return;
            }
        }
    }

    /// Hands over a piece; tells whether the reader took those before. One that leaves them lying is cut off.
    async fn write(&self, piece: impl Into<Bytes>) -> bool {
        self.pieces.send_timeout(Ok(piece.into()), self.limits.patience).await.is_ok()
    }

    /// Waits until something new is published, and no shorter than a step lasts; tells whether the stream lasts.
    async fn wait(&self, end: Instant, published: &mut watch::Receiver<Arc<Published>>) -> bool {
        tokio::select! {
            () = tokio::time::sleep_until(end) => return false,
            () = self.pieces.closed() => return false,
            changed = published.changed() => if changed.is_err() { return false },
            () = tokio::time::sleep(COMMENT_PAUSE) => if !self.write(&b":\n\n"[..]).await { return false },
        }
        tokio::time::sleep(STEP_PAUSE).await;
        true
    }
}

/// Tells whether something changed since a version: anything, or a placement.
fn changed_since(fleet: &FleetView, from: Option<u64>, placement: Option<&PlacementKey>) -> bool {
    let Some(from) = from.filter(|from| *from <= fleet.version) else { return true };
    let Some(key) = placement else { return true };
    match fleet.placements.get(key) {
        Some(placed) => placed.version > from,
        None => fleet.removals.iter().any(|(version, removed)| *version > from && removed == key),
    }
}
