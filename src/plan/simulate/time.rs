//! The clock of the machine that the daemon runs on: it is set, and the machine started anew.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Fact, Simulation};
use crate::core::persist::SavedRecords;
use crate::core::waits;
use crate::model::records::ClockReading;

impl Simulation {
    /// Returns the time as the daemon has it.
    pub fn clock(&self) -> Timestamp {
        self.now + self.begun_with
    }

    /// Sets the machine's clock so far from the true one. A life measures time: the next one sees it.
    pub fn set_skew(&mut self, skew: SignedDuration) {
        self.skew = skew;
    }

    /// Starts the machine anew, and the daemon with it.
    pub fn reboot(&mut self) {
        self.boots += 1;
        self.crash();
    }

    pub(super) fn reading(&self) -> ClockReading {
        // The machine is as old as time: only differences count.
        let up = Duration::try_from(self.now.duration_since(Timestamp::UNIX_EPOCH)).unwrap_or_default();
        ClockReading { at: self.clock(), boot: Some(self.boots.to_string()), up }
    }

    /// Lets waits go on where the life before left them.
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

/// Returns the instant so long after another, or the last there is.
pub(super) fn later(now: Timestamp, pause: Duration) -> Timestamp {
    now.checked_add(pause).unwrap_or(Timestamp::MAX)
}
