//! Reads request bodies with limits: how many at a time, how large, and how long each may take.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{self, Body, Bytes};
use axum::http::{HeaderMap, header};
use tokio::sync::Semaphore;

/// Bodies that are read at a time.
pub const BODIES_MAX: usize = 8;
/// Bytes that the bodies of one kind may take at a time, by what their heads declare; one body always has a place.
pub const BODIES_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes that one place stands for.
const PLACE_BYTES: usize = 64 * 1024;
/// The longest time for a body to arrive, including the wait for its turn. Git hosts give up after 5 to 10 s.
pub const BODY_TIME: Duration = Duration::from_secs(10);

/// Reads bodies in turn.
#[derive(Clone)]
pub(super) struct Bodies {
    turns: Arc<Semaphore>,
    /// Places for bytes.
    bytes: Arc<Semaphore>,
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
        let places = BODIES_BYTES_MAX.max(bytes_max).div_ceil(PLACE_BYTES);
        let turns = Semaphore::new(BODIES_MAX);
        let bytes = Semaphore::new(places);
        Self { turns: Arc::new(turns), bytes: Arc::new(bytes), bytes_max, patience: BODY_TIME }
    }

    /// Reads a body. One with a declared length beyond the limit is not read at all.
    pub(super) async fn whole(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, Unread> {
        let declared =
            headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if declared.is_some_and(|length| length > self.bytes_max) {
            return Err(Unread::Large);
        }
        // One that does not say how large it is may be as large as any.
        let places = declared.unwrap_or(self.bytes_max).div_ceil(PLACE_BYTES);
        let places = u32::try_from(places).unwrap_or(u32::MAX);
        let read = async {
            let _turn = self.turns.acquire().await.expect("nobody closes it");
            let _bytes = self.bytes.acquire_many(places).await.expect("nobody closes it");
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::stream;

    use super::*;

    const BODY: usize = 8 * 1024 * 1024;

    #[tokio::test]
    async fn a_burst_of_large_bodies_holds_no_more_than_its_bytes() {
        let bodies = Bodies::new(BODY);
        let begun = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let one = |declared: bool| {
            let bodies = bodies.clone();
            let begun = Arc::clone(&begun);
            let most = Arc::clone(&most);
            async move {
                let count = Arc::clone(&begun);
                // Counts from its first byte until it was read.
                let body = Body::from_stream(stream::once(async move {
                    most.fetch_max(count.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    Ok::<_, std::io::Error>(Bytes::from_static(b"{}"))
                }));
                let mut headers = HeaderMap::new();
                if declared {
                    headers.insert(header::CONTENT_LENGTH, BODY.into());
                }
                let read = bodies.whole(&headers, body).await;
                begun.fetch_sub(1, Ordering::SeqCst);
                read
            }
        };
        let all = futures::future::join_all((0..1000).map(|number| one(number % 2 == 0))).await;
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(most.load(Ordering::SeqCst), BODIES_BYTES_MAX / BODY);
        assert!(bodies.is_free());
    }

    #[tokio::test]
    async fn small_bodies_do_not_wait_for_bytes() {
        let bodies = Bodies::new(BODY);
        let _large = bodies.bytes.acquire_many(128).await.expect("nobody closes it");
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_LENGTH, 2.into());
        assert_eq!(bodies.whole(&headers, "{}".into()).await, Ok(Bytes::from_static(b"{}")));
    }
}
