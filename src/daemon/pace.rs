//! How soon reports are decided: a decision about many clusters costs more, so more reports are decided together.

use std::time::Duration;

use tokio::time::Instant;

/// The pause after a decision, as a multiple of the time that it took: decisions about reports take a fifth of the time at most.
const PAUSE_FACTOR: u32 = 4;
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The pause after the last decision. Only reports wait for its end; commits, commands and answers do not.
#[derive(Debug)]
pub(super) struct Pace {
    end: Instant,
    /// A report waits for the end: nothing else may cause the next decision.
    has_waiting: bool,
}

impl Pace {
    /// Begins without a pause.
    pub(super) fn start() -> Self {
        Self { end: Instant::now(), has_waiting: false }
    }

    /// Begins the pause after a decision.
    pub(super) fn note(&mut self, took: Duration) {
        self.end = Instant::now() + pause_after(took);
    }

    /// Tells whether a report that arrived now waits for the end of the pause.
    pub(super) fn holds_report(&mut self) -> bool {
        let is_pausing = Instant::now() < self.end;
        self.has_waiting |= is_pausing;
        is_pausing
    }

    /// Notes that all reports are decided about.
    pub(super) fn release(&mut self) {
        self.has_waiting = false;
    }

    /// Returns when to decide next; `planned` says when that is without reports.
    pub(super) fn next_decision(&self, planned: Instant) -> Instant {
        if self.has_waiting { self.end } else { planned.max(self.end) }
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

#[test]
fn a_report_that_waits_is_decided_about_when_the_pause_ends() {
    let mut pace = Pace::start();
    let planned = Instant::now() + Duration::from_hours(1);
    assert!(!pace.holds_report(), "there is no pause yet");
    assert_eq!(pace.next_decision(planned), planned);
    pace.note(Duration::from_millis(100));
    assert_eq!(pace.next_decision(planned), planned, "no report arrived");
    assert!(pace.holds_report());
    assert_eq!(pace.next_decision(planned), pace.end, "nothing else would cause a decision");
    assert_eq!(pace.next_decision(Instant::now()), pace.end);
    pace.release();
    assert_eq!(pace.next_decision(planned), planned);
    pace.note(Duration::ZERO);
    assert!(!pace.holds_report(), "the pause is over: the report is decided about at once");
}
