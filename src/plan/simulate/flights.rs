//! Requests on their way to members: each passes the fence, is cut at the end of the lease, and may arrive late all the same.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::{Detail, Fact, Happening, LATE_MAX, Simulation};
use decide::deliver::step::Step;
use engine::member::Task;
use model::id::ClusterName;

/// The probability in thousandths that a step is the last one that a stale list shows.
const STALE_UNTIL: u64 = 300;
/// How long a slow request takes.
const SLOW: (Duration, Duration) = (Duration::from_secs(1), LATE_MAX);

/// A request to a member.
pub(super) struct Flight {
    pub(super) task: Task,
    /// The epoch of the sender; 0 without a lease.
    pub(super) epoch: u64,
    /// When it passed the fence.
    passed: Timestamp,
    /// When it left its process.
    left: Timestamp,
    /// How many times the sender's lease had ended until then.
    ends: u64,
    /// Its process was stopped between the fence and the network: it is sent when the process continues.
    is_held: bool,
    /// Its process was stopped before it was sent: it is sent only if its lease lasts then.
    is_unsent: bool,
}

impl Flight {
    /// Its process was stopped until then: between the fence and the network, or before it read the fence.
    pub(super) fn stop(&mut self, until: Timestamp, passed_fence: bool) {
        (self.left, self.is_held, self.is_unsent) = (until, passed_fence, !passed_fence);
    }
}

impl Simulation {
    /// Sends a step to a member, or lets it wait at the closed fence.
    pub(super) fn send_task(
        &mut self,
        cluster: &ClusterName,
        (life, connection): (u64, u64),
        task: Task,
        steps: (Duration, Duration),
    ) {
        if !self.is_fence_open(cluster) {
            return self.wait_at_fence(cluster.clone(), connection, task);
        }
        self.facts.push(Fact::Sent { order: Arc::clone(&task.order), connection: (life, connection) });
        let (epoch, ends) = self.lease_of_flights();
        let flight = Flight { task, epoch, passed: self.now, left: self.now, ends, is_held: false, is_unsent: false };
        let is_slow = self.faults.slow_write > 0 && self.dice.chance(self.faults.slow_write);
        let range = if is_slow { SLOW } else { steps };
        self.push_in(range, Happening::Land(cluster.clone(), connection, Box::new(flight)));
    }

    /// A step reaches the member, or fails to.
    pub(super) fn land(&mut self, cluster: &ClusterName, epoch: u64, flight: &Flight) {
        let clock = self.clock();
        let mut is_current = self.members.get(cluster).is_some_and(|m| m.epoch == epoch && m.connected);
        if is_current && self.is_lease_over_since(cluster, flight.ends) {
            self.disconnect(cluster, "the lease ended while a request was under way");
            is_current = false;
        }
        let task = &flight.task;
        let Some(member) = self.members.get_mut(cluster).filter(|member| !member.away) else { return };
        if !is_current && flight.is_unsent {
            return;
        }
        if !is_current && !flight.is_held && !self.dice.chance(self.faults.late_write) {
            return;
        }
        if is_current && self.dice.chance(self.faults.step_lost) {
            return self.disconnect(cluster, "a request got no answer");
        }
        let fate = |desired: &_| (self.fate)(cluster, desired);
        let slowly = self.dice.chance(self.faults.slow_delete);
        if self.faults.stale_list > 0 && self.dice.chance(STALE_UNTIL) {
            member.earlier.clone_from(&member.objects);
        }
        let (result, changed, facts) = member.perform(task, fate, slowly, clock);
        if self.replicas.is_some() {
            let (passed, left) = (flight.passed, flight.left);
            let agent = self.own_agent();
            self.facts.push(Fact::Wrote { agent, cluster: cluster.clone(), epoch: flight.epoch, passed, left });
        }
        self.facts.extend(facts);
        if let Some(key) = changed {
            self.show(cluster, &key, task);
        }
        if matches!(task.step, Step::WriteParent(_) | Step::DeleteParent) {
            self.show_parent(cluster, &task.order.placement);
        }
        if !is_current {
            return;
        }
        self.facts.push(Fact::Answered { order: Arc::clone(&task.order), connection: (self.life, epoch) });
        if self.dice.chance(self.faults.answer_lost) {
            return self.disconnect(cluster, "an answer was lost");
        }
        let placement = task.order.placement.clone();
        match self.detail {
            Detail::Steps => {
                let answer = Happening::Answer(cluster.clone(), epoch, placement, Box::new(result));
                self.push_in(self.latencies.step, answer);
            }
            Detail::Orders => self.answer(cluster, epoch, &placement, result),
        }
    }
}
