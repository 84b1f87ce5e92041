//! The database of several replicas: its lease, and the batches it takes. The rules are those of `store::lease` and of the daemon's
//! fence, which read clocks and wait, so that they are modelled here and not called.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::replicas::HeldLease;
use super::time::later;
use super::{Fact, Happening, LATE_MAX, Simulation};
use engine::member::Task;
use engine::store::Op;
use model::id::ClusterName;
use model::records::ClockReading;

/// How long a question or an answer takes between a replica and the database.
const LATENCY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// A lease is prolonged so many times while it lasts, and a follower asks as often.
const ASKED_IN_LEASE: u32 = 5;
/// The part of a lease in which no write begins any more: one in so many.
const MARGIN_PART: u32 = 5;

/// A question to the database about the lease.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    /// By the replica's own clock, which nobody sets.
    began: Timestamp,
    /// The epoch to prolong; `None` to take the lease.
    prolongs: Option<u64>,
}

/// The database's answer.
#[derive(Clone, Debug)]
pub(super) enum LeaseAnswer {
    Taken { epoch: u64, began: Timestamp },
    Prolonged { epoch: u64, began: Timestamp },
    Lost { epoch: u64 },
}

/// A batch whose answer was lost, and which has not arrived.
pub(super) struct Late {
    number: u64,
    epoch: u64,
    ops: Vec<Op>,
    reading: ClockReading,
}

/// The one database.
#[derive(Default)]
pub(super) struct Database {
    /// The newest epoch; 0 before the first.
    pub(super) epoch: u64,
    /// The replica that took it.
    pub(super) holder: usize,
    /// By the database's clock; `None` before the first.
    expires: Option<Timestamp>,
    /// What its clock says beyond the true time.
    pub(super) skew: SignedDuration,
    pub(super) down_until: Option<Timestamp>,
    pub(super) late: Option<Late>,
    numbered: u64,
    /// Nobody asks any more: the leader keeps its lease for good.
    pub(super) is_kept: bool,
}

impl Database {
    pub(super) fn clock(&self, now: Timestamp) -> Timestamp {
        now + self.skew
    }
}

impl Simulation {
    /// Starts to ask for the lease, as a new process.
    pub(super) fn follow(&mut self) {
        self.end_incarnation();
        let Some((incarnation, pause)) = self.asking() else { return };
        self.push_in((Duration::ZERO, pause), Happening::Renew(incarnation));
    }

    fn asking(&self) -> Option<(u64, Duration)> {
        let replicas = self.replicas.as_ref()?;
        Some((replicas.own().incarnation, replicas.length / ASKED_IN_LEASE))
    }

    pub(super) fn renew(&mut self, incarnation: u64) {
        let Some((_, pause)) = self.asking().filter(|(current, _)| *current == incarnation) else { return };
        let Some(replicas) = self.replicas.as_ref().filter(|replicas| !replicas.database.is_kept) else { return };
        let ask = Ask { began: self.now, prolongs: replicas.own().lease.map(|lease| lease.epoch) };
        self.push_in(LATENCY, Happening::AtDatabase(incarnation, ask));
        self.push_at(later(self.now, pause), Happening::Renew(incarnation));
    }

    /// A question arrives at the database, whatever became of who asked.
    pub(super) fn ask_database(&mut self, incarnation: u64, ask: &Ask) {
        if self.is_database_away() {
            return;
        }
        let (now, began, replica) = (self.now, ask.began, self.entered());
        let is_free = |database: &Database| database.expires.is_none_or(|end| end <= database.clock(now));
        if ask.prolongs.is_none() && self.replicas.as_ref().is_some_and(|replicas| is_free(&replicas.database)) {
            // A batch that is being written holds the lease's row: taking waits for it. One that is still on its way does not.
            if self.dice.chance(500) {
                self.end_late();
            }
        }
        let Some(replicas) = &mut self.replicas else { return };
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
                self.facts.push(Fact::Led { replica, epoch });
                LeaseAnswer::Taken { epoch, began }
            }
            None => return,
        };
        let is_unsure = self.dice.chance(self.faults.lease_unsure);
        if !is_unsure || self.dice.chance(500) {
            let range = if is_unsure { (LATENCY.0, LATE_MAX) } else { LATENCY };
            self.push_in(range, Happening::LeaseAnswer(incarnation, answer));
        }
    }

    pub(super) fn take_lease_answer(&mut self, incarnation: u64, answer: &LeaseAnswer) {
        let now = self.now;
        let Some(replicas) = self.replicas.as_mut().filter(|replicas| replicas.own().incarnation == incarnation) else {
            return;
        };
        let (length, counts_from_answer) = (replicas.length, replicas.guards.counts_from_answer);
        // From before the question: the database counts from later.
        let end = |began: Timestamp| later(if counts_from_answer { now } else { began }, length);
        let own = replicas.own_mut();
        match *answer {
            LeaseAnswer::Taken { epoch, began } => {
                own.lease = Some(HeldLease { epoch, end: end(began) });
                self.lead();
            }
            LeaseAnswer::Prolonged { epoch, began } => {
                let Some(lease) = own.lease.as_mut().filter(|lease| lease.epoch == epoch) else { return };
                own.ends += u64::from(lease.end <= now);
                lease.end = lease.end.max(end(began));
                self.pass_fence();
            }
            LeaseAnswer::Lost { epoch } if own.lease.is_some_and(|lease| lease.epoch == epoch) => self.step_down(),
            LeaseAnswer::Lost { .. } => {}
        }
    }

    /// Begins to lead, where the database answers and nobody else took the lease meanwhile.
    fn lead(&mut self) {
        if self.core.is_some() {
            return;
        }
        if self.is_database_away() || !self.is_newest_epoch() {
            return self.step_down();
        }
        // What an earlier leader only remembers is as lost as after a crash, whether it still runs or not.
        self.facts.push(Fact::Crashed);
        self.begin();
    }

    /// Ends its work, and begins again as a follower.
    fn step_down(&mut self) {
        if self.core.is_some() {
            return self.crash();
        }
        self.end_incarnation();
        self.push_in(self.latencies.restart, Happening::Restart);
    }

    /// What a process knew of the lease ends with it.
    pub(super) fn end_incarnation(&mut self) {
        if let Some(replicas) = &mut self.replicas {
            let own = replicas.own_mut();
            own.incarnation += 1;
            own.lease = None;
            own.waiting.clear();
        }
    }

    fn is_newest_epoch(&self) -> bool {
        self.replicas.as_ref().is_none_or(|replicas| {
            let held = replicas.own().lease.map(|lease| lease.epoch);
            !replicas.guards.epoch || held == Some(replicas.database.epoch)
        })
    }
}

/// The fence.
impl Simulation {
    /// Tells whether a write to a member may begin.
    pub(super) fn is_fence_open(&self, cluster: &ClusterName) -> bool {
        self.is_agent_fence_open(cluster).unwrap_or_else(|| self.is_fence_open_of_daemon())
    }

    /// Tells whether the acting daemon surely leads.
    pub(super) fn is_fence_open_of_daemon(&self) -> bool {
        let Some(replicas) = &self.replicas else { return true };
        let margin = replicas.length / MARGIN_PART;
        let surely = |lease: HeldLease| !replicas.guards.fence || later(self.now, margin) < lease.end;
        replicas.own().lease.is_some_and(surely)
    }

    pub(super) fn wait_at_fence(&mut self, cluster: ClusterName, connection: u64, task: Task) {
        if let Some(replicas) = &mut self.replicas {
            replicas.own_mut().waiting.push((cluster, connection, task));
        }
    }

    /// Sends what waited for the fence to open.
    pub(super) fn pass_fence(&mut self) {
        if self.own_agent().is_none() && !self.is_fence_open_of_daemon() {
            return;
        }
        let waiting = self.replicas.as_mut().map(|replicas| std::mem::take(&mut replicas.own_mut().waiting));
        for (cluster, connection, task) in waiting.into_iter().flatten() {
            if self.members.get(&cluster).is_some_and(|m| m.epoch == connection && m.connected) {
                self.send_task(&cluster, (self.life, connection), task, self.latencies.step);
            }
        }
    }

    /// Returns the epoch of a write that begins now, and how many times the lease ended before.
    pub(super) fn lease_of_flights(&self) -> (u64, u64) {
        let own = self.replicas.as_ref().map(super::Replicas::own);
        let held = own.map_or((0, 0), |own| (own.lease.map_or(0, |lease| lease.epoch), own.ends));
        (self.epoch_of_agent().unwrap_or(held.0), held.1)
    }

    /// Tells whether a write that began before so many ends of the lease was cut.
    pub(super) fn is_lease_over_since(&self, cluster: &ClusterName, ends: u64) -> bool {
        if let Some(is_cut) = self.is_agent_cut_since(cluster, ends) {
            return is_cut;
        }
        let Some(replicas) = self.replicas.as_ref().filter(|replicas| replicas.guards.fence) else { return false };
        let own = replicas.own();
        own.ends != ends || own.lease.is_none_or(|lease| lease.end <= self.now)
    }
}

/// Batches.
impl Simulation {
    /// Brings a batch to the database. Returns it where the database can take it now.
    pub(super) fn reach_database(&mut self, ops: Vec<Op>) -> Option<Vec<Op>> {
        // Transactions are in order: one that is under way ends before the next begins.
        self.end_late();
        if self.is_database_away() {
            self.facts.push(Fact::StoreRefused);
            return None;
        }
        let epoch = self.lease_of_flights().0;
        if !self.is_newest_epoch() {
            self.facts.push(Fact::Replaced { epoch });
            self.step_down();
            return None;
        }
        if !self.dice.chance(self.faults.batch_late) {
            return Some(ops);
        }
        let reading = self.reading();
        let database = &mut self.replicas.as_mut()?.database;
        database.numbered += 1;
        let number = database.numbered;
        database.late = Some(Late { number, epoch, ops, reading });
        self.facts.push(Fact::StoreRefused);
        self.push_in((Duration::from_millis(1), LATE_MAX), Happening::LateBatch(number));
        None
    }

    /// A batch was kept.
    pub(super) fn note_batch(&mut self) {
        if self.replicas.is_some() {
            self.facts.push(Fact::Batch { epoch: self.lease_of_flights().0 });
        }
    }

    pub(super) fn late_batch_arrives(&mut self, number: u64) {
        let Some(replicas) = &mut self.replicas else { return };
        if let Some(late) = replicas.database.late.take_if(|late| late.number == number) {
            self.keep_late(late);
        }
    }

    /// The batch that is under way is kept, or given up.
    fn end_late(&mut self) {
        let Some(late) = self.replicas.as_mut().and_then(|replicas| replicas.database.late.take()) else { return };
        if self.dice.chance(500) {
            self.keep_late(late);
        }
    }

    fn keep_late(&mut self, late: Late) {
        let Late { number: _, epoch, ops, reading } = late;
        let Some(replicas) = &self.replicas else { return };
        let is_down = replicas.database.down_until.is_some_and(|until| self.now < until);
        if is_down || replicas.guards.epoch && replicas.database.epoch != epoch {
            return self.facts.push(Fact::Replaced { epoch });
        }
        self.facts.push(Fact::Batch { epoch });
        self.keep_unsaid(ops);
        self.remembered = Some(reading);
    }
}
