//! The one place time is read.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use jiff::Timestamp;

/// Returns the time.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// Returns how long it is until an instant; zero where it has passed.
pub fn until(at: Timestamp) -> Duration {
    at.duration_since(now()).try_into().unwrap_or_default()
}

/// Returns the pauses between tries of something that may fail for long: doubling from `first` up to `longest`, with jitter,
/// without end.
pub fn delays(first: Duration, longest: Duration) -> ExponentialBackoff {
    let delays = ExponentialBuilder::default().with_min_delay(first).with_max_delay(longest);
    delays.with_jitter().without_max_times().build()
}
