//! Processes of daemons begin, and end.

use engine::persist::SavedRecords;
use plan::simulate::Happening;

use super::Sim;
use super::agents::{begin_server, end_server};
use super::clock::resume_waits;
use super::fact::{Fact, MachineFact};
use super::lease::end_incarnation;
use super::replicas::next_life;
use super::source::{SourceTrouble, restore};

/// Starts the daemon from its store.
pub(crate) fn begin(sim: &mut Sim) {
    let mut saved = SavedRecords::read(&sim.store).expect("a store in memory can be read");
    sim.process.life = next_life(sim);
    sim.process.ahead = sim.deployment.clock.skew;
    resume_waits(sim, &mut saved);
    let effects = sim.begin(saved);
    sim.deployment.trouble = SourceTrouble::of(sim.core());
    begin_server(sim);
    restore(sim);
    sim.poll_later();
    sim.act(effects);
}

/// Ends the daemon process now; it restarts after a while.
pub(crate) fn crash(sim: &mut Sim) {
    if sim.process.core.take().is_none() {
        return;
    }
    sim.facts.push(Fact::Own(MachineFact::Crashed));
    end_server(sim);
    end_incarnation(sim);
    // The members' tasks end with it; the members' objects stay.
    for cluster in sim.members.keys() {
        sim.process.links.entry(cluster.clone()).or_default().end();
    }
    sim.push_in(sim.latencies.restart, Happening::Begin);
}
