//! Moments as people read them.

use jiff::Timestamp;

/// Returns a moment for a sentence, to the minute: `12:01 UTC on 2026-03-01`.
pub fn moment(at: Timestamp) -> String {
    at.strftime("%H:%M UTC on %Y-%m-%d").to_string()
}
