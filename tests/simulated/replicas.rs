//! Several daemons on one database: each has a machine, a process and connections of its own, and what goes wrong between them.
//!
//! The fields of a simulation hold what the machine that acts has; what the others have is parked here.

use std::collections::BTreeMap;
use std::mem::swap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use engine::member::Task;
use model::id::ClusterName;
use plan::simulate::{Happening, SimulatedProcess, later};

use super::agents::{heal_agents, is_agent_away};
use super::clock::MachineClock;
use super::fact::{Fact, MachineFact};
use super::lease::{Database, follow, pass_fence, step_down};
use super::source::SourceTrouble;
use super::{MachineHappening, Sim, SimulatedFleet, What};

/// The longest time that a write takes to arrive at a member after it left its process.
pub const LATE_MAX: Duration = Duration::from_secs(20);
/// Of a thousand requests on their way from a process that is stopped so many are in the network already.
const IN_NETWORK: u64 = 500;
/// Of a thousand others so many passed the fence and are sent when the process continues, where writes may be late at all.
const HELD: u64 = 200;

/// What keeps an old leader from doing harm. Tests switch one off to see that its absence is noticed.
#[derive(Clone, Copy, Debug)]
pub struct Guards {
    /// The database refuses batches of an old epoch.
    pub epoch: bool,
    /// No write begins, or continues, when the lease is not sure.
    pub fence: bool,
    /// Wrong: a replica counts its lease from the answer, and not from before the question.
    pub counts_from_answer: bool,
}

/// A lease as its holder believes to have it, by a clock that nobody sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldLease {
    pub(crate) epoch: u64,
    pub(crate) end: Timestamp,
}

/// A machine of a replica, or of an agent.
#[derive(Default)]
pub(crate) struct Machine {
    /// Counts processes: answers to an earlier one are dropped.
    pub(crate) incarnation: u64,
    pub(crate) lease: Option<HeldLease>,
    /// How many times the lease ended before it was prolonged.
    pub(crate) ends: u64,
    /// Steps that wait for the fence to open, with their connections.
    pub(crate) waiting: Vec<(ClusterName, u64, Task)>,
    paused_until: Option<Timestamp>,
    without_database_until: Option<Timestamp>,
    without_members: BTreeMap<ClusterName, Timestamp>,
    without_replicas: BTreeMap<usize, Timestamp>,
    parked: Parked,
}

impl Machine {
    /// Creates one of this number.
    pub(crate) fn new(number: usize) -> Self {
        let mut machine = Self::default();
        machine.parked.process.machine = number;
        machine
    }
}

/// What a simulation has of a machine that acts.
#[derive(Default)]
struct Parked {
    process: SimulatedProcess,
    clock: MachineClock,
    trouble: SourceTrouble,
}

/// The replicas and their database.
pub(crate) struct Replicas {
    /// The daemons, and after them the machines of agents.
    pub(crate) list: Vec<Machine>,
    daemons: usize,
    /// The one that began to lead last, and the number of that process.
    leader: (usize, u64),
    lives: u64,
    /// So many of the facts were looked through.
    sifted: usize,
    pub(crate) database: Database,
    pub(crate) length: Duration,
    pub(crate) guards: Guards,
}

impl Replicas {
    /// Returns the process of a daemon that leads, or led; 0 for one that follows.
    pub(crate) fn life_of(&self, daemon: usize) -> u64 {
        let process = &self.list[daemon].parked.process;
        if process.core.is_some() { process.life } else { 0 }
    }
}

/// Returns the machine that acts, where there are several.
pub(crate) fn own(sim: &Sim) -> Option<&Machine> {
    sim.deployment.replicas.as_ref()?.list.get(sim.process.machine)
}

/// The same, to be changed.
pub(crate) fn own_mut(sim: &mut Sim) -> Option<&mut Machine> {
    sim.deployment.replicas.as_mut()?.list.get_mut(sim.process.machine)
}

/// Returns how many replicas there are; 0 where one daemon has the store for itself.
pub(crate) fn daemons(sim: &Sim) -> usize {
    sim.deployment.replicas.as_ref().map_or(0, |replicas| replicas.daemons)
}

/// Returns the replica that began to lead last.
pub(crate) fn leader(sim: &Sim) -> usize {
    sim.deployment.replicas.as_ref().map_or(0, |replicas| replicas.leader.0)
}

fn lasts(until: Option<Timestamp>, now: Timestamp) -> bool {
    until.is_some_and(|until| now < until)
}

/// Which replica acts.
impl SimulatedFleet {
    /// Begins with so many replicas, before anything has happened: they ask for a lease of this length.
    pub fn replicate(&mut self, count: usize, length: Duration) {
        self.queue.retain(|_| false);
        let guards = Guards { epoch: true, fence: true, counts_from_answer: false };
        let list = (0..count).map(Machine::new).collect();
        let database = Database::default();
        self.deployment.replicas =
            Some(Replicas { list, daemons: count, leader: (0, 0), lives: 0, sifted: 0, database, length, guards });
        each_machine(self, follow);
    }

    /// Sets what keeps an old leader from doing harm.
    pub fn set_guards(&mut self, guards: Guards) {
        if let Some(replicas) = &mut self.deployment.replicas {
            replicas.guards = guards;
        }
    }
}

/// Lets a replica act from now on.
pub(crate) fn enter(sim: &mut Sim, to: usize) {
    let from = sim.process.machine;
    if from == to {
        return;
    }
    sift(sim);
    exchange(sim, from);
    exchange(sim, to);
}

/// Lets the replica act that began to lead last.
pub(crate) fn enter_leader(sim: &mut Sim) {
    if let Some((leader, _)) = sim.deployment.replicas.as_ref().map(|replicas| replicas.leader) {
        enter(sim, leader);
    }
}

/// Exchanges what is parked of a machine with what is in use.
fn exchange(sim: &mut Sim, machine: usize) {
    let Some(replicas) = &mut sim.deployment.replicas else { return };
    let parked = &mut replicas.list[machine].parked;
    swap(&mut parked.process, &mut sim.process);
    swap(&mut parked.clock, &mut sim.deployment.clock);
    swap(&mut parked.trouble, &mut sim.deployment.trouble);
}

/// Does something as each replica, and as each agent; as the one daemon where there are none.
pub(crate) fn each_machine(sim: &mut Sim, act: impl FnMut(&mut Sim)) {
    let count = sim.deployment.replicas.as_ref().map_or(1, |replicas| replicas.list.len());
    each_of(sim, count, act);
}

/// Does something as each replica; as the one daemon where there are none.
pub(crate) fn each_daemon(sim: &mut Sim, act: impl FnMut(&mut Sim)) {
    let count = sim.deployment.replicas.as_ref().map_or(1, |replicas| replicas.daemons);
    each_of(sim, count, act);
}

fn each_of(sim: &mut Sim, count: usize, mut act: impl FnMut(&mut Sim)) {
    let back = sim.process.machine;
    for replica in 0..count {
        enter(sim, replica);
        act(sim);
    }
    enter(sim, back);
}

/// Numbers a process that begins to lead.
pub(crate) fn next_life(sim: &mut Sim) -> u64 {
    let Some(replicas) = &mut sim.deployment.replicas else { return sim.process.life + 1 };
    replicas.lives += 1;
    replicas.leader = (sim.process.machine, replicas.lives);
    replicas.lives
}

/// Tells whether no other process began to lead since this one did.
pub(crate) fn is_newest(sim: &Sim) -> bool {
    sim.deployment.replicas.as_ref().is_none_or(|replicas| replicas.leader.1 == sim.process.life)
}

/// Drops what a process did for itself that another has replaced: who looks follows the newest. What it did to the store and to
/// members stays.
pub(crate) fn sift(sim: &mut Sim) {
    let Some(replicas) = &mut sim.deployment.replicas else { return };
    let is_old = sim.process.machine < replicas.daemons && sim.process.life != replicas.leader.1;
    let mut at = 0;
    let begin = replicas.sifted.min(sim.facts.len());
    sim.facts.retain(|fact| {
        at += 1;
        at <= begin || !is_old || !is_of_process(fact)
    });
    replicas.sifted = sim.facts.len();
}

pub(crate) fn begin_sifting(sim: &mut Sim) {
    if let Some(replicas) = &mut sim.deployment.replicas {
        replicas.sifted = 0;
    }
}

/// Lets a person reach any replica: one that follows passes the request on. Returns whether one acts now that can answer.
pub(crate) fn reach_leader(sim: &mut Sim) -> bool {
    let Some(replicas) = &sim.deployment.replicas else { return true };
    let asked = usize::try_from(sim.dice.below(replicas.daemons as u64)).unwrap_or(0);
    enter(sim, asked);
    if sim.core().is_none() && !is_paused(sim) && !is_database_away(sim) {
        let holder = sim.deployment.replicas.as_ref().map_or(0, |replicas| replicas.database.holder);
        let until = own(sim).and_then(|own| own.without_replicas.get(&holder).copied());
        if !lasts(until, sim.now) {
            enter(sim, holder);
        }
    }
    let can_answer = sim.core().is_some() && !is_paused(sim);
    if !can_answer {
        enter_leader(sim);
    }
    can_answer
}

/// Tells whether a fact is about what only its process has.
fn is_of_process(fact: &Fact) -> bool {
    matches!(
        fact,
        Fact::Began
            | Fact::Accepted(_)
            | Fact::SourceSeen
            | Fact::PayloadGone(_)
            | Fact::Ordered(_)
            | Fact::Sent { .. }
            | Fact::Answered { .. }
            | Fact::Disconnected { .. }
            | Fact::Own(
                MachineFact::Crashed
                    | MachineFact::Corrected(_)
                    | MachineFact::StoreRefused
                    | MachineFact::ListFailed { .. }
            )
    )
}

/// What goes wrong.
impl SimulatedFleet {
    /// Returns how many replicas there are; 0 where one daemon has the store for itself.
    pub fn replicas(&self) -> usize {
        daemons(self)
    }

    /// Returns the replica that began to lead last.
    pub fn leader(&self) -> usize {
        leader(self)
    }

    /// Stops a replica's process for a while, as SIGSTOP does.
    pub fn pause(&mut self, replica: usize, length: Duration) {
        change(self, replica, |one, now| one.paused_until = Some(later(now, length)));
    }

    /// Ends a replica's process; it begins again after a while.
    pub fn kill(&mut self, replica: usize) {
        enter(self, replica);
        step_down(self);
        enter_leader(self);
    }

    /// Cuts a replica off from the database.
    pub fn cut_from_database(&mut self, replica: usize, length: Duration) {
        change(self, replica, |one, now| one.without_database_until = Some(later(now, length)));
    }

    /// Cuts a replica off from a member.
    pub fn cut_from_member(&mut self, replica: usize, cluster: &ClusterName, length: Duration) {
        change(self, replica, |one, now| {
            one.without_members.insert(cluster.clone(), later(now, length));
        });
        enter(self, replica);
        self.disconnect(cluster, "it cannot be reached from here");
        enter_leader(self);
    }

    /// Cuts two replicas off from each other.
    pub fn cut_from_replica(&mut self, one: usize, other: usize, length: Duration) {
        for (of, from) in [(one, other), (other, one)] {
            change(self, of, |one, now| {
                one.without_replicas.insert(from, later(now, length));
            });
        }
    }

    /// Sets a replica's wall clock; its next process notices.
    pub fn set_clock_of(&mut self, replica: usize, skew: SignedDuration) {
        enter(self, replica);
        self.deployment.clock.skew = skew;
        enter_leader(self);
    }

    /// Ends the database's process; it answers again after a while. What it was writing is rolled back.
    pub fn restart_database(&mut self, length: Duration) {
        let until = later(self.now, length);
        if let Some(replicas) = &mut self.deployment.replicas {
            replicas.database.down_until = Some(until);
            replicas.database.late = None;
        }
    }

    /// Sets the database's clock ahead or back.
    pub fn set_database_clock(&mut self, skew: SignedDuration) {
        if let Some(replicas) = &mut self.deployment.replicas {
            replicas.database.skew = skew;
        }
    }

    /// Ends everything that goes wrong between replicas.
    pub fn heal(&mut self) {
        heal_agents(self);
        let Some(replicas) = &mut self.deployment.replicas else { return };
        replicas.database.down_until = None;
        for one in &mut replicas.list {
            (one.paused_until, one.without_database_until) = (None, None);
            one.without_members.clear();
            one.without_replicas.clear();
        }
    }

    /// Tells whether something is wrong between replicas now, or nobody leads.
    pub fn is_divided(&self) -> bool {
        let Some(replicas) = &self.deployment.replicas else { return false };
        let now = self.now;
        let is_wrong = |one: &Machine| {
            let cuts = one.without_members.values().chain(one.without_replicas.values()).copied();
            cuts.chain(one.paused_until).chain(one.without_database_until).any(|until| now < until)
        };
        let is_away = lasts(replicas.database.down_until, now) || self.core().is_none() || is_agent_away(self);
        is_away || replicas.list.iter().any(is_wrong)
    }

    /// Lets the leader keep its lease for good, so that nobody has to prolong it. Returns whether there is one.
    pub fn keep_leader(&mut self) -> bool {
        enter_leader(self);
        let leads = self.core().is_some() && !self.is_divided();
        let machine = self.process.machine;
        let Some(replicas) = self.deployment.replicas.as_mut().filter(|_| leads) else { return false };
        let newest = replicas.database.epoch;
        match replicas.list[machine].lease.as_mut().filter(|lease| lease.epoch == newest) {
            Some(lease) => lease.end = Timestamp::MAX,
            None => return false,
        }
        replicas.database.is_kept = true;
        pass_fence(self);
        true
    }
}

fn change(sim: &mut Sim, replica: usize, change: impl FnOnce(&mut Machine, Timestamp)) {
    let now = sim.now;
    if let Some(one) = sim.deployment.replicas.as_mut().and_then(|replicas| replicas.list.get_mut(replica)) {
        change(one, now);
    }
}

pub(crate) fn is_paused(sim: &Sim) -> bool {
    own(sim).is_some_and(|own| lasts(own.paused_until, sim.now))
}

pub(crate) fn is_database_away(sim: &Sim) -> bool {
    let is_down = |replicas: &Replicas| lasts(replicas.database.down_until, sim.now);
    let is_cut = own(sim).is_some_and(|own| lasts(own.without_database_until, sim.now));
    is_cut || sim.deployment.replicas.as_ref().is_some_and(is_down)
}

pub(crate) fn is_cut_from(sim: &Sim, cluster: &ClusterName) -> bool {
    let until = own(sim).and_then(|own| own.without_members.get(cluster).copied());
    lasts(until, sim.now)
}

/// Puts off what a stopped process would do until it continues. Returns what happens now all the same.
pub(crate) fn defer(sim: &mut Sim, mut happening: Happening<MachineHappening>) -> Option<Happening<MachineHappening>> {
    let paused_until = own(sim).and_then(|own| own.paused_until);
    let Some(until) = paused_until.filter(|until| sim.now < *until) else { return Some(happening) };
    match &mut happening {
        // Not of the process.
        Happening::Mark(_)
        | Happening::Ripen(..)
        | Happening::Own(MachineHappening(What::AtDatabase(..) | What::LateBatch(_)))
        | Happening::Begin => return Some(happening),
        Happening::Own(MachineHappening(What::Land(_, _, flight))) => {
            if sim.dice.chance(IN_NETWORK) {
                return Some(happening);
            }
            let has_passed = sim.deployment.faults.late_write > 0 && sim.dice.chance(HELD);
            flight.stop(until, has_passed);
        }
        _ => {}
    }
    sim.push_at(until, happening);
    None
}
