//! The clock of the daemon's machine: clock changes and reboots.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Fact, Simulation};
use engine::persist::SavedRecords;
use engine::waits;
use model::records::ClockReading;

impl Simulation {
    /// Returns the daemon's time.
    pub fn clock(&self) -> Timestamp {
        self.now + self.begun_with
    }

    /// Sets the difference between the machine's clock and the true time. A process measures time, so only the next one
    /// notices.
    pub fn set_skew(&mut self, skew: SignedDuration) {
        self.skew = skew;
    }

    /// Reboots the machine and restarts the daemon.
    pub fn reboot(&mut self) {
        self.boots += 1;
        self.crash();
    }

    pub(super) fn reading(&self) -> ClockReading {
        // The absolute uptime does not matter: only differences count.
        let up = Duration::try_from(self.now.duration_since(Timestamp::UNIX_EPOCH)).unwrap_or_default();
        let shared = self.replicas.as_ref().map(|replicas| replicas.database.clock(self.now));
        ClockReading { at: self.clock(), boot: Some(format!("{}.{}", self.entered(), self.boots)), up, shared }
    }

    /// Shifts stored waits as a new process does.
    pub(super) fn resume_waits(&mut self, saved: &mut SavedRecords) {
        let step = waits::correction(self.remembered.as_ref(), &self.reading(), waits::newest(saved));
        if step.is_zero() {
            return;
        }
        self.facts.push(Fact::Corrected(step));
        let ops = waits::shift(saved, step).expect("records that were read can be written");
        self.keep(ops);
    }
}

/// Returns an instant plus a duration, limited to the latest valid instant.
pub(super) fn later(now: Timestamp, pause: Duration) -> Timestamp {
    now.checked_add(pause).unwrap_or(Timestamp::MAX)
}
