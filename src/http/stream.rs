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
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;

use super::Shared;
use super::turns::PIECE_BYTES;
use super::views::{Published, Views, starting};
use crate::clock;
use crate::model::id::{ClusterName, PlacementKey};
use crate::views::fleet::REMOVALS_MAX;
use crate::views::lists::{cluster_line, see_now};
use crate::views::summary::Totals;

/// Where changes are followed.
pub const STREAM_PATH: &str = "/api/v1/stream";
/// Streams at a time.
pub const STREAMS_MAX: usize = 32;
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
        Self { places: Arc::new(Semaphore::new(STREAMS_MAX)), time: STREAM_TIME, patience: STREAM_PATIENCE }
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
        let id = format!("{process:x}-{}", fleet.version);
        Self { items, is_reset: from.is_none(), id, published }
    }

    /// Returns the next piece; `None` when all was said.
    fn piece(&mut self) -> Option<Vec<u8>> {
        let mut piece = Vec::new();
        if std::mem::take(&mut self.is_reset) {
            event(&mut piece, "reset", None, &json!({}));
        }
        let (fleet, now) = (&self.published.fleet, clock::now());
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

/// Returns the version that a reader has, where it has one of this process.
fn version_of(headers: &HeaderMap, process: u64) -> Option<u64> {
    let (of, version) = headers.get("last-event-id")?.to_str().ok()?.split_once('-')?;
    (of == format!("{process:x}")).then(|| version.parse().ok()).flatten()
}

/// Answers with changes as they come.
pub(super) async fn follow(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let Ok(place) = Arc::clone(&shared.streams.places).try_acquire_owned() else {
        let text = format!("{STREAMS_MAX} streams are open; ask again later");
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    if shared.views.fresh().await.is_none() {
        return starting();
    }
    let from = version_of(&headers, shared.views.process);
    let (pieces, written) = mpsc::channel(PIECES_MAX);
    tokio::spawn(write(shared.views.clone(), shared.streams.clone(), from, pieces, place));
    let body = stream::unfold(written, |mut written| async { Some((written.recv().await?, written)) });
    let head = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (head, Body::from_stream(body)).into_response()
}

/// Writes steps until the stream's time is over or its reader is.
async fn write(
    views: Views,
    limits: Streams,
    mut from: Option<u64>,
    pieces: mpsc::Sender<io::Result<Bytes>>,
    _place: OwnedSemaphorePermit,
) {
    let end = Instant::now() + limits.time;
    let mut published = views.follow();
    loop {
        let last = Arc::clone(&published.borrow_and_update());
        let version = last.fleet.version;
        if from != Some(version) {
            let mut step = StreamStep::of(last, views.process, from);
            loop {
                let made = tokio::task::spawn_blocking(move || (step.piece(), step)).await;
                let Ok((piece, rest)) = made else { return };
                step = rest;
                let Some(piece) = piece else { break };
                // A reader that leaves it lying is cut off.
                if pieces.send_timeout(Ok(piece.into()), limits.patience).await.is_err() {
                    return;
                }
            }
            from = Some(version);
        }
        tokio::select! {
            () = tokio::time::sleep_until(end) => return,
            () = pieces.closed() => return,
            changed = published.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(COMMENT_PAUSE) => {
                if pieces.send_timeout(Ok(Bytes::from_static(b":\n\n")), limits.patience).await.is_err() {
                    return;
                }
            }
        }
        tokio::time::sleep(STEP_PAUSE).await;
    }
}
