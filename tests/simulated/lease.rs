//! The lease of several replicas, and their fence. The rules are those of `store::lease` and of the daemon's
//! fence, which read clocks and wait, so that they are modelled here and not called.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use engine::member::Task;
use model::id::ClusterName;
use plan::simulate::{Happening, later};

use super::agents::{epoch_of_agent, is_agent_cut_since, is_agent_fence_open, own_agent};
use super::fact::{Fact, MachineFact};
use super::flights::send;
use super::process::{begin, crash};
use super::replicas::{HeldLease, LATE_MAX, is_database_away, own, own_mut};
use super::store::{Late, end_late};
use super::{Sim, What, push_at, push_in};

/// How long a question or an answer takes between a replica and the database.
const LATENCY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// A lease is prolonged so many times while it lasts, and a follower asks as often.
const ASKED_IN_LEASE: u32 = 5;
/// The part of a lease in which no write begins any more: one in so many.
const MARGIN_PART: u32 = 5;

/// A question to the database about the lease.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// By the replica's own clock, which nobody sets.
    began: Timestamp,
    /// The epoch to prolong; `None` to take the lease.
    prolongs: Option<u64>,
}

/// The database's answer.
#[derive(Clone, Debug)]
pub(crate) enum LeaseAnswer {
    Taken { epoch: u64, began: Timestamp },
    Prolonged { epoch: u64, began: Timestamp },
    Lost { epoch: u64 },
}

/// The one database.
#[derive(Default)]
pub(crate) struct Database {
    /// The newest epoch; 0 before the first.
    pub(crate) epoch: u64,
    /// The replica that took it.
    pub(crate) holder: usize,
    /// By the database's clock; `None` before the first.
    expires: Option<Timestamp>,
    /// What its clock says beyond the true time.
    pub(crate) skew: SignedDuration,
    pub(crate) down_until: Option<Timestamp>,
    pub(crate) late: Option<Late>,
    pub(crate) numbered: u64,
    /// Nobody asks any more: the leader keeps its lease for good.
    pub(crate) is_kept: bool,
}

impl Database {
    pub(crate) fn clock(&self, now: Timestamp) -> Timestamp {
        now + self.skew
    }
}

/// Starts to ask for the lease, as a new process.
pub(crate) fn follow(sim: &mut Sim) {
    end_incarnation(sim);
    let Some((incarnation, pause)) = asking(sim) else { return };
    push_in(sim, (Duration::ZERO, pause), What::Renew(incarnation));
}

fn asking(sim: &Sim) -> Option<(u64, Duration)> {
    let replicas = sim.deployment.replicas.as_ref()?;
    Some((own(sim)?.incarnation, replicas.length / ASKED_IN_LEASE))
}

/// Returns the epoch of the lease that the acting machine believes to have.
fn held_epoch(sim: &Sim) -> Option<u64> {
    Some(own(sim)?.lease?.epoch)
}

pub(crate) fn renew(sim: &mut Sim, incarnation: u64) {
    let Some((_, pause)) = asking(sim).filter(|(current, _)| *current == incarnation) else { return };
    if sim.deployment.replicas.as_ref().is_none_or(|replicas| replicas.database.is_kept) {
        return;
    }
    let ask = Ask { began: sim.now, prolongs: held_epoch(sim) };
    push_in(sim, LATENCY, What::AtDatabase(incarnation, ask));
    push_at(sim, later(sim.now, pause), What::Renew(incarnation));
}

/// A question arrives at the database, whatever became of who asked.
pub(crate) fn ask_database(sim: &mut Sim, incarnation: u64, ask: &Ask) {
    if is_database_away(sim) {
        return;
    }
    let (now, began, replica) = (sim.now, ask.began, sim.process.machine);
    let is_free = |database: &Database| database.expires.is_none_or(|end| end <= database.clock(now));
    if ask.prolongs.is_none() && sim.deployment.replicas.as_ref().is_some_and(|replicas| is_free(&replicas.database)) {
        // A batch that is being written holds the lease's row: taking waits for it. One that is still on its way does not.
        if sim.dice.chance(500) {
            end_late(sim);
        }
    }
    let Some(replicas) = &mut sim.deployment.replicas else { return };
    let (length, database) = (replicas.length, &mut replicas.database);
    let end = Some(later(database.clock(now), length));
    let answer = match ask.prolongs {
        Some(epoch) if epoch == database.epoch => {
            database.expires = end;
            LeaseAnswer::Prolonged { epoch, began }
        }
        Some(epoch) => LeaseAnswer::Lost { epoch },
        None if is_free(database) => {
            database.epoch += 1;
            (database.holder, database.expires) = (replica, end);
            let epoch = database.epoch;
            sim.facts.push(Fact::Own(MachineFact::Led { replica, epoch }));
            LeaseAnswer::Taken { epoch, began }
        }
        None => return,
    };
    let is_unsure = sim.dice.chance(sim.deployment.faults.lease_unsure);
    if !is_unsure || sim.dice.chance(500) {
        let range = if is_unsure { (LATENCY.0, LATE_MAX) } else { LATENCY };
        push_in(sim, range, What::LeaseAnswer(incarnation, answer));
    }
}

pub(crate) fn take_lease_answer(sim: &mut Sim, incarnation: u64, answer: &LeaseAnswer) {
    let now = sim.now;
    let Some(replicas) = &sim.deployment.replicas else { return };
    let (length, counts_from_answer) = (replicas.length, replicas.guards.counts_from_answer);
    // From before the question: the database counts from later.
    let end = |began: Timestamp| later(if counts_from_answer { now } else { began }, length);
    let Some(own) = own_mut(sim).filter(|own| own.incarnation == incarnation) else { return };
    match *answer {
        LeaseAnswer::Taken { epoch, began } => {
            own.lease = Some(HeldLease { epoch, end: end(began) });
            lead(sim);
        }
        LeaseAnswer::Prolonged { epoch, began } => {
            let Some(lease) = own.lease.as_mut().filter(|lease| lease.epoch == epoch) else { return };
            own.ends += u64::from(lease.end <= now);
            lease.end = lease.end.max(end(began));
            pass_fence(sim);
        }
        LeaseAnswer::Lost { epoch } if own.lease.is_some_and(|lease| lease.epoch == epoch) => step_down(sim),
        LeaseAnswer::Lost { .. } => {}
    }
}

/// Begins to lead, where the database answers and nobody else took the lease meanwhile.
fn lead(sim: &mut Sim) {
    if sim.core().is_some() {
        return;
    }
    if is_database_away(sim) || !is_newest_epoch(sim) {
        return step_down(sim);
    }
    // What an earlier leader only remembers is as lost as after a crash, whether it still runs or not.
    sim.facts.push(Fact::Own(MachineFact::Crashed));
    begin(sim);
}

/// Ends its work, and begins again as a follower.
pub(crate) fn step_down(sim: &mut Sim) {
    if sim.core().is_some() {
        return crash(sim);
    }
    end_incarnation(sim);
    sim.push_in(sim.latencies.restart, Happening::Begin);
}

/// What a process knew of the lease ends with it.
pub(crate) fn end_incarnation(sim: &mut Sim) {
    if let Some(own) = own_mut(sim) {
        own.incarnation += 1;
        own.lease = None;
        own.waiting.clear();
    }
}

/// Tells whether nobody took the lease since the acting machine did.
pub(crate) fn is_newest_epoch(sim: &Sim) -> bool {
    sim.deployment
        .replicas
        .as_ref()
        .is_none_or(|replicas| !replicas.guards.epoch || held_epoch(sim) == Some(replicas.database.epoch))
}

/// Tells whether a write to a member may begin.
pub(crate) fn is_fence_open(sim: &Sim, cluster: &ClusterName) -> bool {
    is_agent_fence_open(sim, cluster).unwrap_or_else(|| is_fence_open_of_daemon(sim))
}

/// Tells whether the acting daemon surely leads.
pub(crate) fn is_fence_open_of_daemon(sim: &Sim) -> bool {
    let Some(replicas) = &sim.deployment.replicas else { return true };
    let margin = replicas.length / MARGIN_PART;
    let surely = |lease: HeldLease| !replicas.guards.fence || later(sim.now, margin) < lease.end;
    own(sim).and_then(|own| own.lease).is_some_and(surely)
}

pub(crate) fn wait_at_fence(sim: &mut Sim, cluster: ClusterName, connection: u64, task: Task) {
    if let Some(own) = own_mut(sim) {
        own.waiting.push((cluster, connection, task));
    }
}

/// Sends what waited for the fence to open.
pub(crate) fn pass_fence(sim: &mut Sim) {
    if own_agent(sim).is_none() && !is_fence_open_of_daemon(sim) {
        return;
    }
    let waiting = own_mut(sim).map(|own| std::mem::take(&mut own.waiting));
    for (cluster, connection, task) in waiting.into_iter().flatten() {
        if sim.process.connected(&cluster, connection).is_some() {
            send(sim, &cluster, connection, task);
        }
    }
}

/// Returns the epoch of a write that begins now, and how many times the lease ended before.
pub(crate) fn lease_of_flights(sim: &Sim) -> (u64, u64) {
    let held = own(sim).map_or((0, 0), |own| (own.lease.map_or(0, |lease| lease.epoch), own.ends));
    (epoch_of_agent(sim).unwrap_or(held.0), held.1)
}

/// Tells whether a write that began before so many ends of the lease was cut.
pub(crate) fn is_lease_over_since(sim: &Sim, cluster: &ClusterName, ends: u64) -> bool {
    if let Some(is_cut) = is_agent_cut_since(sim, cluster, ends) {
        return is_cut;
    }
    let has_fence = sim.deployment.replicas.as_ref().is_some_and(|replicas| replicas.guards.fence);
    has_fence && own(sim).is_some_and(|own| own.ends != ends || own.lease.is_none_or(|lease| lease.end <= sim.now))
}
