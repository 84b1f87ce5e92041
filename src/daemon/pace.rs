//! How soon reports are decided: a decision about many clusters costs more, so more reports are decided together.

use std::time::Duration;

use tokio::time::Instant;

/// The pause after a decision, as a multiple of the time that it took: decisions about reports take a fifth of the time at most.
const PAUSE_FACTOR: u32 = 4;
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The pause after the last decision. Only reports wait for its end; commits, commands and answers do not.
#[derive(Debug)]
pub(super) struct Pace(Instant);

impl Pace {
    /// Begins without a pause.
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    /// Begins the pause after a decision.
    pub(super) fn note(&mut self, took: Duration) {
        self.0 = Instant::now() + pause_after(took);
    }

    /// Tells whether reports wait.
    pub(super) fn is_pausing(&self) -> bool {
        Instant::now() < self.0
    }

    /// Returns when the pause ends; it may have ended.
    pub(super) fn end(&self) -> Instant {
        self.0
    }
}

fn pause_after(took: Duration) -> Duration {
    took.saturating_mul(PAUSE_FACTOR).min(PAUSE_MAX)
}

#[test]
fn a_pause_grows_with_the_decision_and_has_an_end() {
    for (took, pause) in [(0, 0), (1, 4), (100, 400), (10_000, 1_000)] {
        assert_eq!(pause_after(Duration::from_millis(took)), Duration::from_millis(pause), "{took} ms");
    }
}
