//! Members: which tasks run, which orders they were given, and what they reported.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::effect::{Effect, MemberCommand};
use super::orders;
use super::queue::Queue;
use config::{Configuration, MemberAccess};
use decide::rollout::Heard;
use decide::servers::{ReachedServer, ReachedServers};
use decide::state::{FleetState, PlacementState};
use decide::status::placement::why;
use decide::status::rollout::{RolloutState, rollout_state};
use decide::status::work::listing;
use model::along::Along;
use model::api::placement::ApplyStrategyType;
use model::id::{ClusterName, ObjectId, ObjectKey, PlacementKey};
use model::records::{ApplyOutcome, ClusterRecord, WorkStatus};
use model::warning::Warning;
use model::work::WorkOrder;

type Placements = BTreeMap<PlacementKey, PlacementState>;

/// The last order to a member.
#[derive(Debug)]
struct Sent {
    order: Arc<WorkOrder>,
    /// The member has reported on all of it in this process: its report is not from an earlier process.
    is_tried: bool,
}

/// The members of the fleet.
#[derive(Debug)]
pub(super) struct Members {
    /// How members are reached.
    pub configuration: Configuration,
    /// The members whose tasks run.
    pub tasks: BTreeMap<ClusterName, MemberAccess>,
    /// Members that have answered this process.
    pub answered: BTreeSet<ClusterName>,
    /// Members that have neither answered nor failed yet.
    pub unseen: BTreeSet<ClusterName>,
    /// When this process began to wait for its members: at its first commit.
    pub awaited_since: Timestamp,
    /// Members whose tasks began and are not told yet which placements they have.
    pub restarted: BTreeSet<ClusterName>,
    /// The API servers that members lead to.
    pub servers: ReachedServers,
    /// The warning about clusters that no entry of `members:` reaches.
    pub unreached: Option<Warning>,
    /// The last orders to members, by placement.
    sent: BTreeMap<PlacementKey, BTreeMap<ClusterName, Sent>>,
    /// What was refused when a single pass had it tried again last; empty before.
    tried_again: BTreeSet<(PlacementKey, ClusterName, ObjectId)>,
    /// Reports that no stored decision includes yet: the placements do not have them.
    pub reports: BTreeMap<PlacementKey, BTreeMap<ClusterName, Arc<WorkStatus>>>,
}

impl Members {
    /// Begins with the records of clusters of an earlier process, and without tasks.
    pub(super) fn begin(
        configuration: Configuration,
        clusters: &BTreeMap<ClusterName, ClusterRecord>,
        now: Timestamp,
    ) -> Self {
        Self {
            configuration,
            tasks: BTreeMap::new(),
            answered: BTreeSet::new(),
            unseen: BTreeSet::new(),
            awaited_since: now,
            restarted: BTreeSet::new(),
            servers: stored_servers(clusters),
            unreached: None,
            sent: BTreeMap::new(),
            tried_again: BTreeSet::new(),
            reports: BTreeMap::new(),
        }
    }

    /// Starts a member's task, or starts it again where the member is reached otherwise now.
    pub(super) fn start(&mut self, name: &ClusterName, access: MemberAccess, fleet: &mut FleetState) -> Vec<Effect> {
        if self.tasks.get(name) == Some(&access) {
            return Vec::new();
        }
        let mut effects: Vec<Effect> = self.stop(name, fleet).into_iter().collect();
        self.unseen.insert(name.clone());
        // An agent's member says by itself when it begins.
        if access.agent().is_none() {
            self.restarted.insert(name.clone());
        }
        self.tasks.insert(name.clone(), access.clone());
        effects.push(Effect::StartMember(name.clone(), access));
        effects
    }

    /// Stops a member's task, if it runs.
    pub(super) fn stop(&mut self, name: &ClusterName, fleet: &mut FleetState) -> Option<Effect> {
        self.unseen.remove(name);
        self.restarted.remove(name);
        // Before the orders are forgotten: they name the placements that wait for the cluster's reports.
        self.await_reports(name, fleet);
        // When its task starts again, it has no orders.
        self.forget_orders(name);
        self.tasks.remove(name).map(|_| Effect::StopMember(name.clone()))
    }

    /// Notes that a member has no orders.
    pub(super) fn forget_orders(&mut self, cluster: &ClusterName) {
        for sent in self.sent.values_mut() {
            sent.remove(cluster);
        }
    }

    /// Takes back all orders to a member.
    pub(super) fn withdraw_orders(&mut self, cluster: &ClusterName) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (placement, sent) in &mut self.sent {
            if sent.remove(cluster).is_some() {
                effects.push(Effect::Command(cluster.clone(), MemberCommand::Forget(placement.clone())));
            }
        }
        effects
    }

    /// Takes back the order to a member of a placement that has left it.
    pub(super) fn withdraw_order(&mut self, placement: &PlacementKey, cluster: ClusterName) -> Option<Effect> {
        self.sent.get_mut(placement)?.remove(&cluster)?;
        let command = MemberCommand::Forget(placement.clone());
        self.tasks.contains_key(&cluster).then_some(Effect::Command(cluster, command))
    }

    /// Forgets a placement that is gone.
    pub(super) fn forget(&mut self, placement: &PlacementKey) {
        self.sent.remove(placement);
    }

    /// Has a single pass try once more what members refused: what was in the way may have left.
    pub(super) fn allow_another_try(&mut self) {
        self.tried_again.clear();
    }

    /// Takes the report about an order. Returns whether it is one: it may arrive from a member that was stopped or that has left the
    /// placement.
    pub(super) fn take_report(
        &mut self,
        cluster: &ClusterName,
        placement: &PlacementKey,
        status: Arc<WorkStatus>,
        fleet: &mut FleetState,
        now: Timestamp,
    ) -> bool {
        let sent = self.sent.get_mut(placement).and_then(|sent| sent.get_mut(cluster));
        let Some(sent) = sent else { return false };
        let is_end = status.complete || status.failure.is_some();
        sent.is_tried |= is_end && status.generation == sent.order.generation;
        let heard = fleet.heard.get_mut(placement).and_then(|heard| heard.get_mut(cluster));
        if let Some(heard) = heard.filter(|heard| **heard == Heard::NotYet) {
            *heard = Heard::Since(now);
        }
        self.reports.entry(placement.clone()).or_default().insert(cluster.clone(), status);
        true
    }

    /// Marks earlier reports of a cluster as outdated until it reports again.
    pub(super) fn await_reports(&self, cluster: &ClusterName, fleet: &mut FleetState) {
        for (key, _) in self.sent.iter().filter(|(_, sent)| sent.contains_key(cluster)) {
            fleet.heard.entry(key.clone()).or_default().insert(cluster.clone(), Heard::NotYet);
        }
    }

    /// Returns the last report about a placement on a cluster: one that is not stored yet is newer than the stored one.
    pub(super) fn work<'a>(
        &'a self,
        placement: &PlacementKey,
        cluster: &ClusterName,
        placements: &'a Placements,
    ) -> Option<&'a Arc<WorkStatus>> {
        let reported = self.reports.get(placement).and_then(|reports| reports.get(cluster));
        reported.or_else(|| placements.get(placement)?.works.get(cluster))
    }

    /// Forgets reports that a stored decision includes; reports that arrived meanwhile are decided next.
    pub(super) fn forget_reports(&mut self, placement: &PlacementKey, stored: &BTreeMap<ClusterName, Arc<WorkStatus>>) {
        let Some(known) = self.reports.get_mut(placement) else { return };
        known.retain(|cluster, work| !stored.get(cluster).is_some_and(|stored| Arc::ptr_eq(stored, work)));
        if known.is_empty() {
            self.reports.remove(placement);
        }
    }

    /// Takes the members whose tasks began again and that have all their orders with this batch. One that has not answered yet gets
    /// none, and a placement whose payload is being read is decided later.
    pub(super) fn take_complete(&mut self, queue: &Queue, placements: &Placements) -> BTreeSet<ClusterName> {
        if self.restarted.is_empty() {
            return BTreeSet::new();
        }
        let waiting = queue.placements.iter().filter_map(|key| placements.get(key));
        let waiting: BTreeSet<&ClusterName> =
            waiting.flat_map(PlacementState::bindings).map(|binding| &binding.cluster).collect();
        let is_complete = |cluster: &ClusterName| self.answered.contains(cluster) && !waiting.contains(cluster);
        let (complete, others) = std::mem::take(&mut self.restarted).into_iter().partition(is_complete);
        self.restarted = others;
        complete
    }

    /// Tells a member whose task began which placements it has: those with orders, those that are bound to it and have none yet, and those
    /// whose clusters are not known yet.
    pub(super) fn tell_placements(
        &self,
        cluster: ClusterName,
        queue: &Queue,
        placements: &Placements,
    ) -> Option<Effect> {
        if !self.tasks.contains_key(&cluster) {
            return None;
        }
        let sent = self.sent.iter().filter(|(_, sent)| sent.contains_key(&cluster)).map(|(key, _)| key);
        let undecided = placements.iter().filter(|(_, state)| state.policies.is_empty()).map(|(key, _)| key);
        let all = sent.chain(undecided).chain(queue.holders(&cluster)).cloned().collect();
        Some(Effect::Command(cluster, MemberCommand::Placements(all)))
    }

    /// Sends members the orders of a decision that they do not have yet. `works` are the reports that the decision was made
    /// with.
    pub(super) fn send(
        &mut self,
        placement: &PlacementKey,
        orders: &[Arc<WorkOrder>],
        works: &BTreeMap<ClusterName, Arc<WorkStatus>>,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        let nothing = BTreeMap::new();
        let mut sent = Along::new(self.sent.get(placement).unwrap_or(&nothing));
        let mut new = Vec::new();
        for order in orders {
            let known = sent.get(&order.cluster);
            let same = |known: &Sent| Arc::ptr_eq(&known.order, order) || orders::is_same(&known.order, order);
            let is_sent = known.is_some_and(same);
            // The content of a member must be known before it gets orders: its first answer queues a decision.
            let may_be_shown = self.tasks.contains_key(&order.cluster) && self.answered.contains(&order.cluster);
            if is_sent || !may_be_shown {
                continue;
            }
            // The member's task reports orders of this process by itself.
            let reported = if known.is_some() { None } else { self.reported(order, works) };
            let command = MemberCommand::Order { order: Arc::clone(order), reported };
            effects.push(Effect::Command(order.cluster.clone(), command));
            // Within one generation there is nothing new to report.
            let is_tried = known.is_some_and(|known| known.is_tried && known.order.generation == order.generation);
            new.push((order.cluster.clone(), Sent { order: Arc::clone(order), is_tried }));
        }
        if !new.is_empty() {
            self.sent.entry(placement.clone()).or_default().extend(new);
        }
        effects
    }

    /// Returns the last report about a placement on a cluster, of whatever generation: the member takes refusals only from a report about
    /// the same generation, and from any what it wrote.
    fn reported(&self, order: &WorkOrder, works: &BTreeMap<ClusterName, Arc<WorkStatus>>) -> Option<Arc<WorkStatus>> {
        let newer = self.reports.get(&order.placement).and_then(|reports| reports.get(&order.cluster));
        newer.or_else(|| works.get(&order.cluster)).cloned()
    }

    /// Returns the state of a placement: one with clusters that have not answered this process is not known to be rolled out.
    pub(super) fn rollout_state(&self, state: &PlacementState, fleet: &FleetState, now: Timestamp) -> RolloutState {
        let bindings = state.shared_bindings();
        let standing = rollout_state(&state.view(&bindings, fleet, now));
        if standing != RolloutState::AllAtTarget {
            return standing;
        }
        self.not_seen(state, fleet).map_or(standing, RolloutState::Unreachable)
    }

    /// Names the clusters of a placement that have not answered this process: what was stored of them may not be true any more.
    fn not_seen(&self, state: &PlacementState, fleet: &FleetState) -> Option<String> {
        let is_silent = |cluster: &&ClusterName| self.tasks.contains_key(*cluster) && !self.answered.contains(*cluster);
        let mut silent = state.bindings().map(|binding| &binding.cluster).filter(is_silent).peekable();
        silent.peek()?;
        let named = silent.map(|cluster| {
            let why = fleet.records.get(cluster).map(why).unwrap_or_default();
            format!("{cluster}{why}")
        });
        Some(format!("not seen since gitfleet started: {}", listing(named)))
    }

    /// Returns the orders that members were given last.
    pub(super) fn orders(&self) -> impl Iterator<Item = &Arc<WorkOrder>> {
        self.sent.values().flat_map(|sent| sent.values()).map(|sent| &sent.order)
    }

    /// Tells whether an online member was ordered to keep a pause or hold, or to drop it, and has not confirmed that yet.
    pub(super) fn is_keeping(&self, fleet: &FleetState, placements: &Placements) -> bool {
        let is_untold = |placement: &PlacementKey, order: &WorkOrder| {
            let work = self.work(placement, &order.cluster, placements);
            let writes = !order.remove && order.strategy.type_ != ApplyStrategyType::ReportDiff;
            let is_failing = work.is_none_or(|work| work.failure.is_some());
            writes && !is_failing && work.is_some_and(|work| work.kept != order.kept) && fleet.is_online(&order.cluster)
        };
        self.sent.iter().any(|(placement, sent)| sent.values().any(|sent| is_untold(placement, &sent.order)))
    }

    /// Tells whether an online member has not yet reported, in this process, the result of all its orders.
    pub(super) fn is_trying(&self, fleet: &FleetState) -> bool {
        let is_untried = |(cluster, sent): (&ClusterName, &Sent)| !sent.is_tried && fleet.is_online(cluster);
        self.sent.values().any(|sent| sent.iter().any(is_untried))
    }

    /// Returns what a member with an order of a placement was last seen to hold of it.
    fn held<'a>(
        &self,
        placement: &PlacementKey,
        cluster: &ClusterName,
        placements: &'a Placements,
    ) -> Option<&'a BTreeSet<ObjectKey>> {
        self.sent.get(placement).filter(|sent| sent.contains_key(cluster))?;
        Some(placements.get(placement)?.works.get(cluster)?.inventory.seen())
    }

    /// Tells whether a placement still has a record only because an online member has not reported yet that another placement has taken
    /// over its objects: an object has one label, so of two reports that name it one is out of date.
    pub(super) fn awaits_old_holder(&self, fleet: &FleetState, placements: &Placements) -> bool {
        let is_taken = |old: &PlacementKey, cluster: &ClusterName| {
            let Some(left) = self.held(old, cluster, placements) else { return false };
            let mut others = self.sent.keys().filter(|other| *other != old);
            others.any(|other| self.held(other, cluster, placements).is_some_and(|taken| !taken.is_disjoint(left)))
        };
        placements.iter().any(|(key, state)| {
            let mut leaving = state.record.handing_over.iter().filter(|cluster| fleet.is_online(cluster));
            leaving.any(|cluster| is_taken(key, cluster))
        })
    }

    /// Has members try again what they refused, before a single pass ends with a failure: what an object needs may have come with another
    /// placement meanwhile, as the right of a tenant's account to write it. Nothing if all that was tried again last is refused still, so
    /// that a pass ends. Agents try again by themselves.
    pub(super) fn try_again(&mut self, fleet: &FleetState, placements: &Placements) -> Vec<Effect> {
        let refused = self.refused_objects(fleet, placements);
        let is_first = self.tried_again.is_empty();
        if refused.is_empty() || !is_first && self.tried_again.is_subset(&refused) {
            return Vec::new();
        }
        let mut effects = BTreeMap::new();
        for (placement, cluster, _) in &refused {
            if let Some(sent) = self.sent.get_mut(placement).and_then(|sent| sent.get_mut(cluster)) {
                sent.is_tried = false;
            }
            let command = MemberCommand::TryAgain(placement.clone());
            effects.insert((placement.clone(), cluster.clone()), Effect::Command(cluster.clone(), command));
        }
        self.tried_again = refused;
        effects.into_values().collect()
    }

    /// Returns the objects that members refused, and are tried again after a pause.
    fn refused_objects(
        &self,
        fleet: &FleetState,
        placements: &Placements,
    ) -> BTreeSet<(PlacementKey, ClusterName, ObjectId)> {
        let mut refused = BTreeSet::new();
        for (placement, sent) in &self.sent {
            let Some(state) = placements.get(placement) else { continue };
            let is_here = |cluster: &ClusterName| {
                let access = self.tasks.get(cluster);
                fleet.is_online(cluster) && access.is_some_and(|access| access.agent().is_none())
            };
            for cluster in sent.keys().filter(|cluster| is_here(cluster)) {
                let Some(work) = state.works.get(cluster) else { continue };
                // What belonged to another placement may be free by now.
                let is_refused =
                    |applied: ApplyOutcome| applied.is_tried_again() || applied == ApplyOutcome::FailedToTakeOver;
                let of = work.manifests.iter().filter(|manifest| is_refused(manifest.applied));
                refused.extend(of.map(|manifest| (placement.clone(), cluster.clone(), manifest.id.clone())));
            }
        }
        refused
    }
}

/// Returns the servers that clusters were delivered to before.
fn stored_servers(records: &BTreeMap<ClusterName, ClusterRecord>) -> ReachedServers {
    let mut servers = ReachedServers::default();
    for record in records.values().filter(|record| !record.left) {
        servers.set(&record.name, known_server(record));
    }
    servers
}

/// Returns the server that a cluster was delivered to before.
pub(super) fn known_server(record: &ClusterRecord) -> Option<ReachedServer> {
    record.server.as_ref().map(|uid| ReachedServer { uid: uid.clone(), is_known: true })
}

/// Returns the initial state of reports about a placement: none received yet.
pub(super) fn unheard(state: &PlacementState) -> BTreeMap<ClusterName, Heard> {
    state.bindings().map(|binding| (binding.cluster.clone(), Heard::NotYet)).collect()
}

/// Records whether a cluster answers, since `now` if that changed. Returns whether it changed.
pub(super) fn record_answering(
    record: &mut ClusterRecord,
    online: bool,
    message: Option<String>,
    now: Timestamp,
) -> bool {
    // A different reason for the same outage does not restart the outage.
    let is_new = record.online != online || record.message.is_some() != message.is_some();
    if is_new {
        record.since = now;
    }
    (record.online, record.message) = (online, message);
    // The next connection restarts its watches.
    record.unwatched = record.unwatched.take().filter(|_| online);
    record.answered |= online;
    is_new
}

/// Resets stored cluster records for this process.
pub(super) fn await_answers(records: &mut BTreeMap<ClusterName, ClusterRecord>, now: Timestamp) {
    for record in records.values_mut() {
        await_answer(record, now);
    }
}

/// Resets a stored cluster record for this process: the cluster has not answered yet. One that answered before counts as silent
/// only from now on.
fn await_answer(record: &mut ClusterRecord, now: Timestamp) {
    if record.online {
        record.since = now;
        record.answered = true;
    }
    record.online = false;
    record.unwatched = None;
}

#[cfg(test)]
mod tests;
