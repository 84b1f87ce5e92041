//! Pages that were made a moment ago. Many people have the same page open and ask for it at the same change: it is made once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

/// How long a page may be given to the next who asks: its ages are as old.
const RECENT_TIME: Duration = Duration::from_secs(1);
/// Pages that are kept; more are made for each who asks.
const RECENT_MAX: usize = 64;
/// Pages that are made at a time, so that many who ask at once take no more memory than these.
const MADE_AT_ONCE_MAX: usize = 4;

/// A page as it is sent.
#[derive(Clone, Debug)]
pub(super) struct Rendered {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
    pub(super) is_compressed: bool,
}

impl Rendered {
    /// Returns the answer with it.
    pub(super) fn answer(self) -> Response {
        let kind = [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::VARY, "Accept-Encoding")];
        let mut answer = (self.status, kind, Body::from(self.body)).into_response();
        if self.is_compressed {
            answer.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        answer
    }
}

/// What tells a fragment from another. Names of visitors stand outside of fragments.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FragmentKey {
    /// Of which version of the fleet.
    pub(super) version: u64,
    /// Path and query.
    pub(super) address: String,
    /// Commands are offered.
    pub(super) may_command: bool,
    /// It may be compressed.
    pub(super) takes_gzip: bool,
}

/// The place of a fragment, for whoever comes first to fill.
type FragmentPlace = Arc<OnceCell<Rendered>>;

/// The fragments that were made a moment ago.
#[derive(Debug)]
pub struct RecentFragments {
    made: Mutex<BTreeMap<FragmentKey, (Instant, FragmentPlace)>>,
    turns: Semaphore,
}

impl Default for RecentFragments {
    fn default() -> Self {
        Self { made: Mutex::default(), turns: Semaphore::new(MADE_AT_ONCE_MAX) }
    }
}

impl RecentFragments {
    /// Waits for the turn to make a page.
    pub(super) async fn turn(&self) -> SemaphorePermit<'_> {
        self.turns.acquire().await.expect("nobody closes it")
    }

    /// Returns the place of a fragment.
    pub(super) fn place(&self, key: FragmentKey, now: Instant) -> FragmentPlace {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.retain(|_, (since, _)| now.duration_since(*since) < RECENT_TIME);
        if made.len() >= RECENT_MAX && !made.contains_key(&key) {
            return Arc::default();
        }
        Arc::clone(&made.entry(key).or_insert_with(|| (now, Arc::default())).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fragment_is_shared_for_a_moment_and_only_so_many_are_kept() {
        let recent = RecentFragments::default();
        let now = Instant::now();
        let key = |number: usize| FragmentKey {
            version: 1,
            address: format!("/?page={number}"),
            may_command: false,
            takes_gzip: true,
        };
        let first = recent.place(key(0), now);
        assert!(Arc::ptr_eq(&first, &recent.place(key(0), now)));
        assert!(!Arc::ptr_eq(&first, &recent.place(FragmentKey { may_command: true, ..key(0) }, now)));
        assert!(!Arc::ptr_eq(&first, &recent.place(key(0), now + RECENT_TIME)));
        for number in 0..2 * RECENT_MAX {
            recent.place(key(number), now + RECENT_TIME);
        }
        assert_eq!(recent.made.lock().expect("nobody panicked").len(), RECENT_MAX);
        assert!(
            !Arc::ptr_eq(&recent.place(key(9_999), now), &recent.place(key(9_999), now)),
            "there is no place for it"
        );
    }
}
