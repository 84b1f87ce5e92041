//! Reads request bodies with limits: how many at a time, how large, and how long each may take.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{self, Body, Bytes};
use axum::http::{HeaderMap, header};
use tokio::sync::Semaphore;

/// Bodies that are read at a time.
pub const BODIES_MAX: usize = 8;
/// The longest time for a body to arrive, including the wait for its turn. Git hosts give up after 5 to 10 s.
pub const BODY_TIME: Duration = Duration::from_secs(10);

/// Reads bodies in turn.
#[derive(Clone)]
pub(super) struct Bodies {
    turns: Arc<Semaphore>,
    /// How large one may be.
    pub(super) bytes_max: usize,
    /// How long one may take.
    pub(super) patience: Duration,
}

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// It is larger than it may be, or breaks off.
    Large,
    /// It did not come in time.
    Late,
}

impl Bodies {
    /// Reads bodies of at most so many bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { turns: Arc::new(Semaphore::new(BODIES_MAX)), bytes_max, patience: BODY_TIME }
    }

    /// Reads a body. One with a declared length beyond the limit is not read at all.
    pub(super) async fn whole(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, Unread> {
        let declared =
            headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if declared.is_some_and(|length| length > self.bytes_max) {
            return Err(Unread::Large);
        }
        let read = async {
            let _turn = self.turns.acquire().await.expect("nobody closes it");
            body::to_bytes(body, self.bytes_max).await.map_err(|_| Unread::Large)
        };
        tokio::time::timeout(self.patience, read).await.unwrap_or(Err(Unread::Late))
    }
    /// Tells whether nobody has a turn.
    #[cfg(test)]
    pub(super) fn is_free(&self) -> bool {
        self.turns.available_permits() == BODIES_MAX
    }
}
