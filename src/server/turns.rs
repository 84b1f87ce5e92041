//! Limits requests whose memory depends on the fleet and not on the request: they are handled in turn.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::{StreamExt as _, stream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Shared;
use super::bodies::Bodies;
use super::commands::COMMAND_BYTES_MAX;
use super::getparams::QUESTION_BYTES_MAX;
use super::pushes::PUSH_BYTES_MAX;

/// Large answers that are made or sent at a time: each may hold every record, or a page of the journal.
pub const READS_MAX: usize = 4;
/// How long a question for one waits for its turn.
pub const TURN_TIME: Duration = Duration::from_secs(10);
/// Bytes of an answer that are handed over at a time: a turn ends when the last of them is taken.
pub(super) const PIECE_BYTES: usize = 64 * 1024;

/// The kind of a turn. Each kind of request has its own turns, so that strangers cannot use up those of authenticated callers.
#[derive(Clone)]
pub struct Turns {
    reads: Arc<Semaphore>,
    pub(super) commands: Bodies,
    pub(super) questions: Bodies,
    pub(super) pushes: Bodies,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            reads: Arc::new(Semaphore::new(READS_MAX)),
            commands: Bodies::new(COMMAND_BYTES_MAX),
            questions: Bodies::new(QUESTION_BYTES_MAX),
            pushes: Bodies::new(PUSH_BYTES_MAX),
        }
    }
}

impl Turns {
    /// Waits for the turn of a large answer; `None` where too many others are being made.
    pub(super) async fn read(&self) -> Option<OwnedSemaphorePermit> {
        tokio::time::timeout(TURN_TIME, Arc::clone(&self.reads).acquire_owned()).await.ok()?.ok()
    }
}

/// Makes a large answer when it is its turn, which lasts until the answer is sent.
pub(super) async fn in_turn(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let Some(turn) = shared.turns.read().await else {
        let text = format!("{READS_MAX} others are being answered; ask again in a moment");
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    let (parts, body) = next.run(request).await.into_parts();
    let pieces = stream::unfold((body.into_data_stream(), Bytes::new(), turn), |(mut body, mut rest, turn)| async {
        if rest.is_empty() {
            match body.next().await? {
                Ok(next) => rest = next,
                Err(error) => return Some((Err(error), (body, rest, turn))),
            }
        }
        let piece = rest.split_to(rest.len().min(PIECE_BYTES));
        Some((Ok(piece), (body, rest, turn)))
    });
    Response::from_parts(parts, Body::from_stream(pieces))
}
