//! The one place time is read.

use jiff::Timestamp;

/// Returns the time.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// Returns how long it is until an instant; zero where it has passed.
pub fn until(at: Timestamp) -> std::time::Duration {
    at.duration_since(now()).try_into().unwrap_or_default()
}
