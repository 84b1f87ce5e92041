//! Requests on their way to members: each passes the fence, is cut at the end of the lease, and may arrive late all the same.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use engine::member::Task;
use model::id::ClusterName;

use super::agents::own_agent;
use super::fact::{Fact, MachineFact};
use super::lease::{is_fence_open, is_lease_over_since, lease_of_flights, wait_at_fence};
use super::replicas::LATE_MAX;
use super::{Sim, What, push_in};

/// The probability in thousandths that a step is the last one that a stale list shows.
const STALE_UNTIL: u64 = 300;
/// How long a slow request takes.
const SLOW: (Duration, Duration) = (Duration::from_secs(1), LATE_MAX);

/// A request to a member.
pub(crate) struct Flight {
    task: Task,
    /// The epoch of the sender; 0 without a lease.
    epoch: u64,
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
    pub(crate) fn stop(&mut self, until: Timestamp, passed_fence: bool) {
        (self.left, self.is_held, self.is_unsent) = (until, passed_fence, !passed_fence);
    }
}

/// Sends a step to a member, or lets it wait at the closed fence.
pub(crate) fn send(sim: &mut Sim, cluster: &ClusterName, connection: u64, task: Task) {
    if !is_fence_open(sim, cluster) {
        return wait_at_fence(sim, cluster.clone(), connection, task);
    }
    sim.facts.push(Fact::Sent { order: Arc::clone(&task.order), connection: (sim.process.life, connection) });
    let (epoch, ends) = lease_of_flights(sim);
    let flight = Flight { task, epoch, passed: sim.now, left: sim.now, ends, is_held: false, is_unsent: false };
    let is_slow = sim.dice.chance(sim.deployment.faults.slow_write);
    let range = if is_slow { SLOW } else { sim.latencies.step };
    push_in(sim, range, What::Land(cluster.clone(), connection, Box::new(flight)));
}

/// A step reaches the member, or fails to.
pub(crate) fn land(sim: &mut Sim, cluster: &ClusterName, connection: u64, flight: &Flight) {
    let faults = sim.deployment.faults;
    let mut is_current = sim.process.connected(cluster, connection).is_some();
    if is_current && is_lease_over_since(sim, cluster, flight.ends) {
        sim.disconnect(cluster, "the lease ended while a request was under way");
        is_current = false;
    }
    let Some(member) = sim.members.get(cluster).filter(|member| !member.away) else { return };
    if !is_current && flight.is_unsent {
        return;
    }
    if !is_current && !flight.is_held && !sim.dice.chance(faults.late_write) {
        return;
    }
    if is_current && sim.dice.chance(faults.step_lost) {
        return sim.disconnect(cluster, "a request got no answer");
    }
    let slowly = sim.dice.chance(faults.slow_delete);
    if faults.stale_list > 0 && sim.dice.chance(STALE_UNTIL) {
        sim.deployment.earlier.entry(cluster.clone()).or_default().clone_from(&member.objects);
    }
    if sim.deployment.replicas.is_some() {
        let Flight { epoch, passed, left, .. } = *flight;
        let agent = own_agent(sim);
        sim.facts.push(Fact::Own(MachineFact::Wrote { agent, cluster: cluster.clone(), epoch, passed, left }));
    }
    let task = &flight.task;
    let Some(result) = sim.perform(cluster, task, slowly).filter(|_| is_current) else { return };
    sim.facts.push(Fact::Answered { order: Arc::clone(&task.order), connection: (sim.process.life, connection) });
    if sim.dice.chance(faults.answer_lost) {
        return sim.disconnect(cluster, "an answer was lost");
    }
    sim.answer_later(cluster, connection, task, result);
}
