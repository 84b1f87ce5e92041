//! What goes wrong between daemons and the store. Batches of several daemons reach their database, or do not.

use std::time::Duration;

use engine::store::Op;
use model::records::ClockReading;
use plan::simulate::BatchOutcome;

use super::clock::reading;
use super::fact::{Fact, MachineFact};
use super::lease::{is_newest_epoch, lease_of_flights, step_down};
use super::process::crash;
use super::replicas::{LATE_MAX, is_database_away};
use super::{Sim, What, push_in};

/// A batch whose answer was lost, and which has not arrived.
pub(crate) struct Late {
    number: u64,
    epoch: u64,
    ops: Vec<Op>,
    reading: ClockReading,
}

/// Writes a batch to a store that may fail.
pub(crate) fn write(sim: &mut Sim, mut ops: Vec<Op>) -> BatchOutcome {
    if !ops.is_empty() && sim.deployment.replicas.is_some() {
        match reach_database(sim, ops) {
            Some(reached) => ops = reached,
            None => return BatchOutcome::Refused,
        }
    }
    let faults = sim.deployment.faults;
    if !ops.is_empty() && sim.dice.chance(faults.store_refuses) {
        sim.facts.push(Fact::Own(MachineFact::StoreRefused));
        return BatchOutcome::Refused;
    }
    if !ops.is_empty() && sim.dice.chance(faults.store_unsure) {
        note_batch(sim);
        keep_unsaid(sim, ops);
        return BatchOutcome::Refused;
    }
    let crashes = !ops.is_empty() && sim.dice.chance(faults.store_crashes);
    if !crashes || sim.dice.chance(500) {
        keep(sim, ops);
    }
    if crashes {
        crash(sim);
        return BatchOutcome::Ended;
    }
    BatchOutcome::Kept
}

/// Keeps a batch.
pub(crate) fn keep(sim: &mut Sim, ops: Vec<Op>) {
    if !ops.is_empty() {
        note_batch(sim);
    }
    keep_now(sim, ops);
}

fn keep_now(sim: &mut Sim, ops: Vec<Op>) {
    sim.keep(ops);
    // With every batch, as the daemon does: the next process measures waits from it.
    sim.deployment.remembered = Some(reading(sim));
}

/// Keeps a batch and does not say so.
fn keep_unsaid(sim: &mut Sim, ops: Vec<Op>) {
    let seen = sim.facts.len();
    keep_now(sim, ops);
    for fact in &mut sim.facts[seen..] {
        if let Fact::Kept { key, value } = fact {
            *fact = Fact::Own(MachineFact::KeptUnsaid { key: std::mem::take(key), value: value.take() });
        }
    }
}

/// Brings a batch to the database. Returns it where the database can take it now.
fn reach_database(sim: &mut Sim, ops: Vec<Op>) -> Option<Vec<Op>> {
    // Transactions are in order: one that is under way ends before the next begins.
    end_late(sim);
    if is_database_away(sim) {
        sim.facts.push(Fact::Own(MachineFact::StoreRefused));
        return None;
    }
    let epoch = lease_of_flights(sim).0;
    if !is_newest_epoch(sim) {
        sim.facts.push(Fact::Own(MachineFact::Replaced { epoch }));
        step_down(sim);
        return None;
    }
    if !sim.dice.chance(sim.deployment.faults.batch_late) {
        return Some(ops);
    }
    let reading = reading(sim);
    let database = &mut sim.deployment.replicas.as_mut()?.database;
    database.numbered += 1;
    let number = database.numbered;
    database.late = Some(Late { number, epoch, ops, reading });
    sim.facts.push(Fact::Own(MachineFact::StoreRefused));
    push_in(sim, (Duration::from_millis(1), LATE_MAX), What::LateBatch(number));
    None
}

/// A batch was kept.
fn note_batch(sim: &mut Sim) {
    if sim.deployment.replicas.is_some() {
        sim.facts.push(Fact::Own(MachineFact::Batch { epoch: lease_of_flights(sim).0 }));
    }
}

pub(crate) fn late_batch_arrives(sim: &mut Sim, number: u64) {
    let Some(replicas) = &mut sim.deployment.replicas else { return };
    if let Some(late) = replicas.database.late.take_if(|late| late.number == number) {
        keep_late(sim, late);
    }
}

/// The batch that is under way is kept, or given up.
pub(crate) fn end_late(sim: &mut Sim) {
    let Some(late) = sim.deployment.replicas.as_mut().and_then(|replicas| replicas.database.late.take()) else {
        return;
    };
    if sim.dice.chance(500) {
        keep_late(sim, late);
    }
}

fn keep_late(sim: &mut Sim, late: Late) {
    let Late { number: _, epoch, ops, reading } = late;
    let Some(replicas) = &sim.deployment.replicas else { return };
    let is_down = replicas.database.down_until.is_some_and(|until| sim.now < until);
    if is_down || replicas.guards.epoch && replicas.database.epoch != epoch {
        return sim.facts.push(Fact::Own(MachineFact::Replaced { epoch }));
    }
    sim.facts.push(Fact::Own(MachineFact::Batch { epoch }));
    keep_unsaid(sim, ops);
    sim.deployment.remembered = Some(reading);
}
