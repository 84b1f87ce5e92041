//! Several daemons on one database: each has a machine, a process and connections of its own, and what goes wrong between them.
//!
//! The fields of [`Simulation`] hold the replica that acts; those of the others are parked here.

use std::collections::BTreeMap;
use std::mem::swap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::lease::Database;
use super::member::Link;
use super::time::later;
use super::{Fact, Happening, Simulation};
use engine::Core;
use engine::member::Task;
use model::id::{ClusterName, CommitId};

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
pub(super) struct HeldLease {
    pub(super) epoch: u64,
    pub(super) end: Timestamp,
}

/// A replica.
#[derive(Default)]
pub(super) struct Replica {
    /// Counts processes: answers to an earlier one are dropped.
    pub(super) incarnation: u64,
    pub(super) lease: Option<HeldLease>,
    /// How many times the lease ended before it was prolonged.
    pub(super) ends: u64,
    /// Steps that wait for the fence to open, with their connections.
    pub(super) waiting: Vec<(ClusterName, u64, Task)>,
    paused_until: Option<Timestamp>,
    without_database_until: Option<Timestamp>,
    without_members: BTreeMap<ClusterName, Timestamp>,
    without_replicas: BTreeMap<usize, Timestamp>,
    parked: Parked,
}

/// What [`Simulation`] has of a replica while it acts.
#[derive(Default)]
struct Parked {
    life: u64,
    core: Option<Core>,
    wake_at: Option<Timestamp>,
    skew: SignedDuration,
    begun_with: SignedDuration,
    boots: u64,
    accepted: Option<CommitId>,
    reported: Option<CommitId>,
    fresh: Vec<CommitId>,
    failing: bool,
    unread: bool,
    accepted_rewrite: Option<CommitId>,
    links: BTreeMap<ClusterName, Link>,
}

/// The replicas and their database.
pub(super) struct Replicas {
    /// The daemons, and after them the machines of agents.
    pub(super) list: Vec<Replica>,
    daemons: usize,
    /// The one that acts.
    entered: usize,
    /// The one that began to lead last, and the number of that process.
    leader: (usize, u64),
    lives: u64,
    /// So many of the facts were looked through.
    sifted: usize,
    pub(super) database: Database,
    pub(super) length: Duration,
    pub(super) guards: Guards,
}

impl Replicas {
    pub(super) fn own(&self) -> &Replica {
        &self.list[self.entered]
    }

    /// Returns the process of a daemon that leads, or led; 0 for one that follows.
    pub(super) fn life_of(&self, daemon: usize) -> u64 {
        let parked = &self.list[daemon].parked;
        if parked.core.is_some() { parked.life } else { 0 }
    }

    pub(super) fn own_mut(&mut self) -> &mut Replica {
        &mut self.list[self.entered]
    }
}

fn lasts(until: Option<Timestamp>, now: Timestamp) -> bool {
    until.is_some_and(|until| now < until)
}

/// Which replica acts.
impl Simulation {
    /// Begins with so many replicas, before anything has happened: they ask for a lease of this length.
    pub fn replicate(&mut self, count: usize, length: Duration) {
        self.queue.clear();
        let guards = Guards { epoch: true, fence: true, counts_from_answer: false };
        let list = std::iter::repeat_with(Replica::default).take(count).collect();
        let database = Database::default();
        self.replicas = Some(Replicas {
            list,
            daemons: count,
            entered: 0,
            leader: (0, 0),
            lives: 0,
            sifted: 0,
            database,
            length,
            guards,
        });
        self.each_replica(Self::follow);
    }

    /// Sets what keeps an old leader from doing harm.
    pub fn set_guards(&mut self, guards: Guards) {
        if let Some(replicas) = &mut self.replicas {
            replicas.guards = guards;
        }
    }

    pub(super) fn entered(&self) -> usize {
        self.replicas.as_ref().map_or(0, |replicas| replicas.entered)
    }

    /// Lets a replica act from now on.
    pub(super) fn enter(&mut self, to: usize) {
        let from = self.entered();
        if from == to {
            return;
        }
        self.sift();
        self.exchange(from);
        self.exchange(to);
        if let Some(replicas) = &mut self.replicas {
            replicas.entered = to;
        }
    }

    /// Lets the replica act that began to lead last.
    pub(super) fn enter_leader(&mut self) {
        if let Some((leader, _)) = self.replicas.as_ref().map(|replicas| replicas.leader) {
            self.enter(leader);
        }
    }

    /// Exchanges what is parked of a replica with what is in use.
    fn exchange(&mut self, replica: usize) {
        let Some(replicas) = &mut self.replicas else { return };
        let parked = &mut replicas.list[replica].parked;
        swap(&mut parked.life, &mut self.life);
        swap(&mut parked.core, &mut self.core);
        swap(&mut parked.wake_at, &mut self.wake_at);
        swap(&mut parked.skew, &mut self.skew);
        swap(&mut parked.begun_with, &mut self.begun_with);
        swap(&mut parked.boots, &mut self.boots);
        swap(&mut parked.accepted, &mut self.source.accepted);
        swap(&mut parked.reported, &mut self.source.reported);
        swap(&mut parked.fresh, &mut self.source.fresh);
        swap(&mut parked.failing, &mut self.source.failing);
        swap(&mut parked.unread, &mut self.source.unread);
        swap(&mut parked.accepted_rewrite, &mut self.source.accepted_rewrite);
        for (name, member) in &mut self.members {
            member.swap_link(parked.links.entry(name.clone()).or_default());
        }
    }

    /// Does something as each replica, and as each agent; as the one daemon where there are none.
    pub(super) fn each_replica(&mut self, act: impl FnMut(&mut Self)) {
        self.each_of(self.replicas.as_ref().map_or(1, |replicas| replicas.list.len()), act);
    }

    /// Does something as each replica; as the one daemon where there are none.
    pub(super) fn each_daemon(&mut self, act: impl FnMut(&mut Self)) {
        self.each_of(self.replicas.as_ref().map_or(1, |replicas| replicas.daemons), act);
    }

    fn each_of(&mut self, count: usize, mut act: impl FnMut(&mut Self)) {
        let back = self.entered();
        for replica in 0..count {
            self.enter(replica);
            act(self);
        }
        self.enter(back);
    }

    /// Numbers a process that begins to lead.
    pub(super) fn next_life(&mut self) -> u64 {
        let Some(replicas) = &mut self.replicas else { return self.life + 1 };
        replicas.lives += 1;
        replicas.leader = (replicas.entered, replicas.lives);
        replicas.lives
    }

    /// Tells whether no other process began to lead since this one did.
    pub(super) fn is_newest(&self) -> bool {
        self.replicas.as_ref().is_none_or(|replicas| replicas.leader.1 == self.life)
    }

    /// Drops what a process did for itself that another has replaced: who looks follows the newest. What it did to the store and to
    /// members stays.
    pub(super) fn sift(&mut self) {
        let Some(replicas) = &mut self.replicas else { return };
        let is_old = replicas.entered < replicas.daemons && self.life != replicas.leader.1;
        let mut at = 0;
        let begin = replicas.sifted.min(self.facts.len());
        self.facts.retain(|fact| {
            at += 1;
            at <= begin || !is_old || !is_of_process(fact)
        });
        replicas.sifted = self.facts.len();
    }

    pub(super) fn begin_sifting(&mut self) {
        if let Some(replicas) = &mut self.replicas {
            replicas.sifted = 0;
        }
    }

    /// Lets a person reach any replica: one that follows passes the request on. Returns whether one acts now that can answer.
    pub(super) fn reach_leader(&mut self) -> bool {
        let Some(replicas) = &self.replicas else { return true };
        let asked = usize::try_from(self.dice.below(replicas.daemons as u64)).unwrap_or(0);
        self.enter(asked);
        if self.core.is_none() && !self.is_paused() && !self.is_database_away() {
            let (now, holder) = (self.now, self.replicas.as_ref().map_or(0, |replicas| replicas.database.holder));
            let until =
                self.replicas.as_ref().and_then(|replicas| replicas.own().without_replicas.get(&holder).copied());
            if !lasts(until, now) {
                self.enter(holder);
            }
        }
        let can_answer = self.core.is_some() && !self.is_paused();
        if !can_answer {
            self.enter_leader();
        }
        can_answer
    }
}

/// Tells whether a fact is about what only its process has.
fn is_of_process(fact: &Fact) -> bool {
    matches!(
        fact,
        Fact::Began
            | Fact::Crashed
            | Fact::Corrected(_)
            | Fact::StoreRefused
            | Fact::Accepted(_)
            | Fact::SourceSeen
            | Fact::PayloadGone(_)
            | Fact::Ordered(_)
            | Fact::Sent { .. }
            | Fact::Answered { .. }
            | Fact::Disconnected { .. }
            | Fact::ListFailed { .. }
    )
}

/// What goes wrong.
impl Simulation {
    /// Returns how many replicas there are; 0 where one daemon has the store for itself.
    pub fn replicas(&self) -> usize {
        self.replicas.as_ref().map_or(0, |replicas| replicas.daemons)
    }

    /// Returns the replica that began to lead last.
    pub fn leader(&self) -> usize {
        self.replicas.as_ref().map_or(0, |replicas| replicas.leader.0)
    }

    fn change(&mut self, replica: usize, change: impl FnOnce(&mut Replica, Timestamp)) {
        let now = self.now;
        if let Some(one) = self.replicas.as_mut().and_then(|replicas| replicas.list.get_mut(replica)) {
            change(one, now);
        }
    }

    /// Stops a replica's process for a while, as SIGSTOP does.
    pub fn pause(&mut self, replica: usize, length: Duration) {
        self.change(replica, |one, now| one.paused_until = Some(later(now, length)));
    }

    /// Ends a replica's process; it begins again after a while.
    pub fn kill(&mut self, replica: usize) {
        self.enter(replica);
        if self.core.is_some() {
            self.crash();
        } else {
            self.end_incarnation();
            self.push_in(self.latencies.restart, Happening::Restart);
        }
        self.enter_leader();
    }

    /// Cuts a replica off from the database.
    pub fn cut_from_database(&mut self, replica: usize, length: Duration) {
        self.change(replica, |one, now| one.without_database_until = Some(later(now, length)));
    }

    /// Cuts a replica off from a member.
    pub fn cut_from_member(&mut self, replica: usize, cluster: &ClusterName, length: Duration) {
        self.change(replica, |one, now| {
            one.without_members.insert(cluster.clone(), later(now, length));
        });
        self.enter(replica);
        self.disconnect(cluster, "it cannot be reached from here");
        self.enter_leader();
    }

    /// Cuts two replicas off from each other.
    pub fn cut_from_replica(&mut self, one: usize, other: usize, length: Duration) {
        for (of, from) in [(one, other), (other, one)] {
            self.change(of, |one, now| {
                one.without_replicas.insert(from, later(now, length));
            });
        }
    }

    /// Sets a replica's wall clock; its next process notices.
    pub fn set_clock_of(&mut self, replica: usize, skew: SignedDuration) {
        self.enter(replica);
        self.skew = skew;
        self.enter_leader();
    }

    /// Ends the database's process; it answers again after a while. What it was writing is rolled back.
    pub fn restart_database(&mut self, length: Duration) {
        if let Some(replicas) = &mut self.replicas {
            replicas.database.down_until = Some(later(self.now, length));
            replicas.database.late = None;
        }
    }

    /// Sets the database's clock ahead or back.
    pub fn set_database_clock(&mut self, skew: SignedDuration) {
        if let Some(replicas) = &mut self.replicas {
            replicas.database.skew = skew;
        }
    }

    /// Ends everything that goes wrong between replicas.
    pub fn heal(&mut self) {
        self.heal_agents();
        let Some(replicas) = &mut self.replicas else { return };
        replicas.database.down_until = None;
        for one in &mut replicas.list {
            (one.paused_until, one.without_database_until) = (None, None);
            one.without_members.clear();
            one.without_replicas.clear();
        }
    }

    /// Tells whether something is wrong between replicas now, or nobody leads.
    pub fn is_divided(&self) -> bool {
        let Some(replicas) = &self.replicas else { return false };
        let now = self.now;
        let is_wrong = |one: &Replica| {
            let cuts = one.without_members.values().chain(one.without_replicas.values()).copied();
            cuts.chain(one.paused_until).chain(one.without_database_until).any(|until| now < until)
        };
        let is_away = lasts(replicas.database.down_until, now) || self.core.is_none() || self.is_agent_away();
        is_away || replicas.list.iter().any(is_wrong)
    }

    /// Lets the leader keep its lease for good, so that nobody has to prolong it. Returns whether there is one.
    pub fn keep_leader(&mut self) -> bool {
        self.enter_leader();
        let leads = self.core.is_some() && !self.is_divided();
        let Some(replicas) = self.replicas.as_mut().filter(|_| leads) else { return false };
        let newest = replicas.database.epoch;
        match replicas.own_mut().lease.as_mut().filter(|lease| lease.epoch == newest) {
            Some(lease) => lease.end = Timestamp::MAX,
            None => return false,
        }
        replicas.database.is_kept = true;
        self.pass_fence();
        true
    }

    pub(super) fn is_paused(&self) -> bool {
        self.replicas.as_ref().is_some_and(|replicas| lasts(replicas.own().paused_until, self.now))
    }

    pub(super) fn is_database_away(&self) -> bool {
        self.replicas.as_ref().is_some_and(|replicas| {
            lasts(replicas.own().without_database_until, self.now) || lasts(replicas.database.down_until, self.now)
        })
    }

    pub(super) fn is_cut_from(&self, cluster: &ClusterName) -> bool {
        let until = self.replicas.as_ref().and_then(|replicas| replicas.own().without_members.get(cluster).copied());
        lasts(until, self.now)
    }

    /// Puts off what a stopped process would do until it continues. Returns what happens now all the same.
    pub(super) fn defer(&mut self, mut happening: Happening) -> Option<Happening> {
        let paused_until = self.replicas.as_ref().and_then(|replicas| replicas.own().paused_until);
        let Some(until) = paused_until.filter(|until| self.now < *until) else { return Some(happening) };
        match &mut happening {
            // Not of the process.
            Happening::Mark(_)
            | Happening::Ripen(..)
            | Happening::AtDatabase(..)
            | Happening::LateBatch(_)
            | Happening::Restart => return Some(happening),
            Happening::Land(_, _, flight) => {
                if self.dice.chance(IN_NETWORK) {
                    return Some(happening);
                }
                let has_passed = self.faults.late_write > 0 && self.dice.chance(HELD);
                flight.stop(until, has_passed);
            }
            _ => {}
        }
        self.push_at(until, happening);
        None
    }
}
