//! The clocks of machines: clock changes and reboots.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use engine::persist::SavedRecords;
use engine::waits;
use model::records::ClockReading;

use super::fact::{Fact, MachineFact};
use super::process::crash;
use super::store::keep;
use super::{Sim, SimulatedFleet};

/// The clock of a machine.
#[derive(Default)]
pub(crate) struct MachineClock {
    /// The difference between it and the true time.
    pub(crate) skew: SignedDuration,
    /// The number of reboots.
    boots: u64,
}

impl SimulatedFleet {
    /// Sets the difference between the machine's clock and the true time. A process measures time, so only the next one
    /// notices.
    pub fn set_skew(&mut self, skew: SignedDuration) {
        self.deployment.clock.skew = skew;
    }

    /// Reboots the machine and restarts the daemon.
    pub fn reboot(&mut self) {
        self.deployment.clock.boots += 1;
        crash(self);
    }
}

/// Returns what the acting machine's clocks say.
pub(crate) fn reading(sim: &Sim) -> ClockReading {
    // The absolute uptime does not matter: only differences count.
    let up = Duration::try_from(sim.now.duration_since(Timestamp::UNIX_EPOCH)).unwrap_or_default();
    let shared = sim.deployment.replicas.as_ref().map(|replicas| replicas.database.clock(sim.now));
    ClockReading {
        at: sim.clock(),
        boot: Some(format!("{}.{}", sim.process.machine, sim.deployment.clock.boots)),
        up,
        shared,
    }
}

/// Shifts stored waits as a new process does.
pub(crate) fn resume_waits(sim: &mut Sim, saved: &mut SavedRecords) {
    let step = waits::correction(sim.deployment.remembered.as_ref(), &reading(sim), waits::newest(saved));
    if step.is_zero() {
        return;
    }
    sim.facts.push(Fact::Own(MachineFact::Corrected(step)));
    let ops = waits::shift(saved, step).expect("records that were read can be written");
    keep(sim, ops);
}
