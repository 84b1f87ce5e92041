//! The steps in order, for one placement: pure.
//!
//! The daemon, `plan` and the tests run this very function. It takes a placement as it stands and answers how it stands
//! next and what its members shall hold; the daemon writes the difference down before anything follows from it.

mod advance;
pub mod evictions;
#[cfg(test)]
pub(crate) mod fixtures;
mod floor;
mod follow_up;
mod freeze;
mod git;
pub mod hand_over;
pub mod ocm;
pub mod overrides;
mod progress;
mod runs;
mod schedule;
mod select;
pub mod state;
pub mod strategies;
#[cfg(test)]
mod tests;
mod warnings;
mod works;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use self::state::{Judged, PlacementState, World};
use crate::api::annotations::{DELETION_GUARD, ON_FAILURE};
use crate::api::placement::{ApplyStrategy, ApplyStrategyType, StrategyType};
use crate::deliver::guard::{self, guarded};
use crate::model::along::Along;
use crate::model::id::{ClusterName, ObjectKey};
use crate::model::overrides::PickedOverrides;
use crate::model::records::{
    Binding, BindingState, ClusterRecord, DeletionGate, JournalEntry, PlacementRecord, WorkStatus,
};
use crate::model::runs::RunRecord;
use crate::model::work::WorkOrder;
use crate::rollout::{BindingView, Health, Heard, Limits, health, roll};
use crate::schedule::target;
use crate::snapshot::Candidates;
use crate::status::binding::{binding_conditions, settled_work};
use crate::status::rollup::placement_conditions;

/// How a placement stands after a decision, and what follows from it.
#[derive(Debug)]
pub struct Decision {
    /// The placement as it stands now.
    pub state: PlacementState,
    /// The placement is gone from git and nothing of it is left: its records go.
    pub finished: bool,
    /// What members shall hold, in their order; a member without an order keeps what it has.
    pub orders: Arc<Vec<Arc<WorkOrder>>>,
    /// Members that have nothing to do with the placement any more.
    pub forget: Vec<ClusterName>,
    /// What happened, for the journal.
    pub journal: Vec<JournalEntry>,
    /// When time alone changes the answer.
    pub wake_at: Option<Timestamp>,
}

/// Decides about one placement.
pub fn decide(state: PlacementState, world: &World, now: Timestamp) -> Decision {
    let mut pass = Pass::new(state, world, now);
    pass.settle_removed_bindings();
    // Both only stop what would happen otherwise, so they wait for no source.
    pass.take_over();
    pass.unbind_clusters_ahead();
    if !world.source_unread {
        pass.go_on();
    }
    pass.judge_bindings();
    let orders = pass.orders();
    pass.conclude();
    let finished = pass.state.record.removed && pass.state.bindings.is_empty();
    Decision { finished, orders, state: pass.state, forget: pass.forget, journal: pass.journal, wake_at: pass.wake_at }
}

/// One placement on its way from how it stood to how it stands next.
pub(super) struct Pass<'a> {
    pub(super) state: PlacementState,
    pub(super) world: &'a World,
    now: Timestamp,
    /// The overrides that concern the payload of a snapshot, by its index.
    candidates: BTreeMap<u64, Candidates>,
    pub(super) journal: Vec<JournalEntry>,
    forget: Vec<ClusterName>,
    wake_at: Option<Timestamp>,
    /// Clusters that hold something which they may not keep.
    losing: BTreeSet<ClusterName>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(state: PlacementState, world: &'a World, now: Timestamp) -> Self {
        let (candidates, journal, forget) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut pass = Self { state, world, now, candidates, journal, forget, wake_at: None, losing: BTreeSet::new() };
        pass.find_candidates();
        pass
    }
}

impl Pass<'_> {
    /// Follows the accepted commit: what is begun, moved and removed.
    fn go_on(&mut self) {
        self.follow_git();
        self.leave();
        if self.state.record.removed {
            self.unschedule_all();
        } else {
            self.freeze_and_schedule();
        }
        self.load_newest_payload();
        self.find_candidates();
        self.judge_bindings();
        if self.evict() {
            self.reschedule();
        }
        let aims = self.aims();
        self.guard(&aims);
        self.roll();
        let new_aims = self.aims();
        if new_aims != aims {
            self.guard(&new_aims);
        }
        self.note_removals();
    }

    pub(super) fn note(&mut self, event: &str, cluster: Option<&ClusterName>, facts: serde_json::Value) {
        self.journal.push(JournalEntry {
            at: self.now,
            event: event.to_owned(),
            placement: Some(self.state.record.key.clone()),
            cluster: cluster.cloned(),
            facts,
        });
    }

    /// Drops bindings whose objects are gone.
    fn settle_removed_bindings(&mut self) {
        let done = |b: &Binding, works: &BTreeMap<ClusterName, Arc<WorkStatus>>| {
            let is_done =
                |w: &Arc<WorkStatus>| w.generation == b.generation && w.complete && w.inventory.is_known_empty();
            b.deleting && works.get(&b.cluster).is_some_and(is_done)
        };
        let gone: Vec<Binding> = self.state.bindings().filter(|b| done(b, &self.state.works)).cloned().collect();
        for binding in gone {
            self.state.bindings.remove(&binding.name);
            self.state.works.remove(&binding.cluster);
            self.note("BindingRemoved", Some(&binding.cluster), json!({"binding": binding.name}));
            self.forget.push(binding.cluster);
        }
    }

    fn unschedule_all(&mut self) {
        self.state.record.error = None;
        self.state.selected = None;
        let kept = self.state.bindings.values_mut().filter(|b| b.state != BindingState::Unscheduled);
        for binding in kept.map(Arc::make_mut) {
            binding.previous_state = Some(binding.state);
            binding.state = BindingState::Unscheduled;
        }
    }

    /// Schedules again, because somebody was evicted: nothing else may ever ask for it, where the cluster does not answer.
    fn reschedule(&mut self) {
        if self.state.record.error.is_none()
            && let Err(error) = self.schedule()
        {
            self.state.record.error = Some(error);
        }
    }

    fn judge_bindings(&mut self) {
        self.judge_overrides();
        let before = std::mem::take(&mut self.state.judged);
        let mut known = before.iter().peekable();
        let mut judged = Vec::with_capacity(self.state.bindings.len());
        let PlacementState { bindings, works, .. } = &mut self.state;
        let (mut works, mut records) = (Along::new(works), Along::new(&self.world.records));
        for (name, binding) in bindings {
            let work = works.get(&binding.cluster);
            let online = records.get(&binding.cluster).is_some_and(ClusterRecord::answers);
            while known.next_if(|judged| judged.binding.name < *name).is_some() {}
            if !known.peek().is_some_and(|judged| judged.is_of(binding, work, online)) {
                let conditions = binding_conditions(binding, work.map(AsRef::as_ref), online, self.now);
                if binding.conditions != conditions {
                    Arc::make_mut(binding).conditions = conditions;
                }
            }
            judged.push(Judged { binding: Arc::clone(binding), work: work.cloned(), online });
        }
        self.state.judged = Arc::new(judged);
    }

    /// Writes down the deletions that wait for a person, if any, on the way to the snapshots that clusters may come to.
    fn guard(&mut self, aims: &BTreeSet<u64>) {
        // What only reports prunes nothing of a cluster that stays. One that leaves may hold what was applied before.
        let kept = if only_reports(&self.state.record) { BTreeMap::new() } else { self.kept(aims) };
        let gate = self.guarded(&kept);
        self.losing = kept.into_keys().collect();
        self.state.record.deletion_gate = gate.map(|gate| {
            let active = self.active_run();
            let approvers = runs::deletion_approvers(&self.state, self.world).map(str::to_owned);
            let approvers_before = active.and_then(|run| run.approvers_before.clone());
            DeletionGate { approvers, approvers_before, ..gate }
        });
    }

    fn guarded(&self, kept: &BTreeMap<ClusterName, BTreeSet<ObjectKey>>) -> Option<DeletionGate> {
        if !is_guarded(&self.state.record, self.world) {
            return None;
        }
        let leaving = self.leaving();
        // What turned up on a cluster since its removal was decided.
        let mut turned_up: BTreeMap<ClusterName, BTreeSet<ObjectKey>> = self.turned_up();
        // What is abandoned stays, whenever it turns up.
        let abandoned = self.state.bindings().filter(|b| b.deleting && b.abandons);
        abandoned.for_each(|binding| drop(turned_up.remove(&binding.cluster)));
        if kept.is_empty() && leaving.is_empty() && turned_up.is_empty() && !self.leaves_a_cluster() {
            return None;
        }
        let record = &self.state.record;
        let mut members = BTreeMap::new();
        for (cluster, objects) in turned_up {
            let inventory = Cow::Owned(objects);
            members.insert(cluster, guard::Member::Known { inventory, desired: Cow::default(), leaves: true });
        }
        for binding in self.state.bindings().filter(|b| !b.deleting && !leaving.contains_key(&b.cluster)) {
            let Some(work) = self.state.works.get(&binding.cluster) else { continue };
            let leaves = binding.state == BindingState::Unscheduled;
            let member = work.inventory.known().map_or(guard::Member::Unknown { leaves }, |inventory| {
                let desired = match (kept.get(&binding.cluster), self.state.claimed.get(&binding.cluster)) {
                    (_, None) if leaves && !record.abandons() => Cow::default(),
                    (_, Some(claimed)) if leaves && !record.abandons() => Cow::Borrowed(claimed),
                    (Some(kept), None) => Cow::Borrowed(kept),
                    (Some(kept), Some(claimed)) => Cow::Owned(kept.union(claimed).cloned().collect()),
                    (None, _) => Cow::Borrowed(inventory),
                };
                guard::Member::Known { inventory: Cow::Borrowed(inventory), desired, leaves }
            });
            members.entry(binding.cluster.clone()).or_insert(member);
        }
        let found = guarded(&record.key, record.removed, &members, &leaving)?;
        // What was approved may be carried out in pieces: what is left of it needs no second approval. What is not wanted any
        // more is not left.
        let approved = record.deletion_gate.as_ref().filter(|gate| gate.opened_at.is_some());
        let is_left_of = |gate: &&DeletionGate| {
            is_part_of(&found.deletions, &gate.deletions) && found.leaving.is_subset(&gate.leaving)
        };
        if let Some(gate) = approved.filter(is_left_of) {
            return Some(DeletionGate { deletions: found.deletions, leaving: found.leaving, ..gate.clone() });
        }
        let known = record.deletion_gate.as_ref().filter(|gate| gate.digest == found.digest);
        Some(known.cloned().unwrap_or_else(|| DeletionGate {
            digest: found.digest,
            reason: found.reason,
            deletions: found.deletions,
            leaving: found.leaving,
            since: self.now,
            approvers: None,
            approvers_before: None,
            approvals: Vec::new(),
            opened_at: None,
        }))
    }

    fn limits(&self) -> Result<Limits, String> {
        let picked = self.state.bindings().filter(|b| b.state != BindingState::Unscheduled).count();
        let goal = target(self.state.policy().and_then(|p| p.policy.as_ref()), picked);
        let record = &self.state.record;
        let limits = Limits::resolve(record.spec.strategy.rolling_update.as_ref(), &record.annotations, goal);
        limits.map_err(|error| error.to_string())
    }

    /// Moves bindings as the strategy allows.
    fn roll(&mut self) {
        let gate = self.state.record.closed_gate().cloned();
        let is_held = |binding: &Binding| gate.as_ref().is_some_and(|g| g.holds(&binding.cluster));
        if self.state.record.removed {
            return self.roll_removed(is_held);
        }
        self.release_held();
        if self.state.record.spec.strategy.type_ == StrategyType::External {
            self.state.record.goal = None;
            self.stage();
            return;
        }
        self.refuse_runs();
        if let Some(why) = self.lacks_stages() {
            self.state.record.halted = Some(why);
            return;
        }
        let Some(goal) = self.goal() else { return };
        // One that is held is gone back from for as long as it is.
        self.state.record.goal = Some(goal).filter(|_| self.state.record.held.is_some());
        let limits = match self.limits() {
            Ok(limits) => limits,
            Err(error) => {
                self.state.record.error = Some(error);
                return;
            }
        };
        let (mut works, mut records) = (Along::new(&self.state.works), Along::new(&self.world.records));
        let view = |binding: &Binding| {
            let work = works.get(&binding.cluster).map(AsRef::as_ref);
            let heard = self.world.heard(&binding.placement, &binding.cluster);
            let health = judge(binding, work, heard, &limits, self.now);
            let answers = records.get(&binding.cluster).is_some_and(ClusterRecord::answers);
            BindingView::new(binding, health, !self.is_at(binding, goal), !answers)
        };
        let views: Vec<BindingView> = self.state.bindings().map(view).collect();
        let moves = roll(&views, &limits);
        self.state.record.halted.clone_from(&moves.halted);
        self.wake_at = moves.wait.and_then(|wait| self.now.checked_add(wait).ok());
        if self.state.record.paused.is_some() {
            return;
        }
        if moves.halted.is_some() && self.return_to_last_success(goal) {
            self.wake_at = Some(self.now);
            return;
        }
        let strategy = self.state.record.spec.strategy.apply_strategy.clone().unwrap_or_default();
        // Without the payload nobody can be told what to hold.
        let may_move = self.state.payloads.contains_key(&goal);
        for name in moves.update.iter().chain(&moves.bind).filter(|_| may_move) {
            let Some(cluster) = self.state.bindings.get(name).map(|binding| binding.cluster.clone()) else { continue };
            let overrides = self.desired_overrides(&cluster, goal);
            self.bring(name, goal, strategy.clone(), overrides);
        }
        if moves.update.is_empty() && moves.bind.is_empty() && moves.stale.is_empty() {
            self.note_success();
        }
        for name in &moves.remove {
            let may_go = |binding: &Arc<Binding>| !is_held(binding) && self.knows_inventory(&binding.cluster);
            if self.state.bindings.get(name).is_some_and(may_go) {
                self.remove(name);
            }
        }
    }

    /// Moves the bindings of a placement that was removed: they go, unless a person paused it.
    fn roll_removed(&mut self, is_held: impl Fn(&Binding) -> bool) {
        let may_go = |b: &Binding| self.state.record.paused.is_none() && !b.deleting && !is_held(b);
        // Of one that does not answer nobody may have seen what it holds: the gate could not speak of it.
        let is_known = |b: &Binding| self.world.is_online(&b.cluster) && self.knows_inventory(&b.cluster);
        let due = self.state.bindings().filter(|b| may_go(b) && is_known(b)).map(|b| b.name.clone());
        due.collect::<Vec<_>>().iter().for_each(|name| self.remove(name));
    }

    /// Returns the snapshot that a rolling update goes to: the newest, or the one a rollback returned to. Where the newest is
    /// held and nothing ever succeeded there is none.
    fn goal(&self) -> Option<u64> {
        let record = &self.state.record;
        let kept = |goal: &u64| self.state.snapshots.contains_key(goal);
        let newest = self.state.newest()?;
        let is_held = record.held.as_ref().is_some_and(|held| held.hash == newest.hash);
        let succeeded = record.last_succeeded.filter(|index| kept(index) && !self.are_alike(*index, newest.index));
        let otherwise = if is_held { succeeded } else { Some(newest.index) };
        record.goal.filter(kept).or(otherwise)
    }

    /// Returns the snapshots that clusters may come to: the newest, the one a rolling update is at, those of unfinished runs.
    fn aims(&self) -> BTreeSet<u64> {
        let record = &self.state.record;
        let runs = self.state.runs.values().filter(|run| !run.phase.is_final());
        let runs = runs.filter(|_| record.spec.strategy.type_ == StrategyType::External);
        let newest = self.state.newest().map(|newest| newest.index);
        runs.filter_map(RunRecord::snapshot).chain(newest).chain(record.goal).collect()
    }

    /// With `on-failure: Rollback` a rolling update that halted returns to the last snapshot that succeeded everywhere.
    /// Returns whether it does.
    fn return_to_last_success(&mut self, goal: u64) -> bool {
        let record = &self.state.record;
        let is_wished = record.annotations.get(ON_FAILURE).is_some_and(|value| value == "Rollback");
        let to = record.last_succeeded.filter(|to| is_wished && record.goal.is_none() && !self.are_alike(*to, goal));
        let Some(to) = to.filter(|to| self.state.snapshots.contains_key(to)) else { return false };
        self.return_to(to, "more clusters failed than may");
        true
    }

    /// Turns a rolling update back to an earlier snapshot; the newest is held.
    pub(crate) fn return_to(&mut self, to: u64, why: &str) {
        if let Some(newest) = self.state.newest().map(|newest| newest.index) {
            self.hold(newest, format!("was rolled back to snapshot {to}: {why}"));
        }
        self.state.record.goal = Some(to);
        self.note("RolledBack", None, json!({"to": to, "why": why}));
    }

    /// Tells a cluster to hold a snapshot.
    fn bring(&mut self, name: &str, index: u64, strategy: ApplyStrategy, overrides: PickedOverrides) {
        let Some(binding) = self.state.bindings.get_mut(name).map(Arc::make_mut) else { return };
        let facts = json!({"binding": name, "from": binding.snapshot, "to": index});
        binding.state = BindingState::Bound;
        binding.snapshot = Some(index);
        binding.apply_strategy = strategy;
        binding.overrides = overrides;
        binding.started_at = Some(self.now);
        binding.generation += 1;
        let cluster = binding.cluster.clone();
        self.note("RolloutStarted", Some(&cluster), facts);
    }

    fn remove(&mut self, name: &str) {
        let Some(cluster) = self.state.bindings.get(name).map(|binding| binding.cluster.clone()) else { return };
        let goes = self.goes(&cluster);
        let Some(binding) = self.state.bindings.get_mut(name).map(Arc::make_mut) else { return };
        binding.removes = goes;
        binding.deleting = true;
        binding.abandons = self.state.record.abandons();
        binding.generation += 1;
        self.note("RemovalStarted", Some(&cluster), json!({"binding": name}));
    }

    /// Returns the bindings that failed at what they are to hold.
    pub(super) fn failed_bindings(&self) -> Vec<String> {
        let Ok(limits) = self.limits() else { return Vec::new() };
        let has_failed = |binding: &&Binding| {
            let work = self.state.works.get(&binding.cluster).map(AsRef::as_ref);
            let is_told = binding.state == BindingState::Bound && !binding.deleting;
            let heard = self.world.heard(&binding.placement, &binding.cluster);
            is_told && judge(binding, work, heard, &limits, self.now).failed
        };
        self.state.bindings().filter(has_failed).map(|binding| binding.name.clone()).collect()
    }

    /// Writes down the placement's own status, and forgets payload nobody needs.
    fn conclude(&mut self) {
        let in_use: BTreeSet<u64> = self.state.snapshots_in_use().map(|s| s.index).collect();
        self.state.payloads.retain(|index, _| in_use.contains(index));
        self.state.record.unreadable = self.state.unreadable.intersection(&in_use).copied().collect();
        self.forget_rendered();
        self.warn();
        let bindings = self.state.shared_bindings();
        let conditions = placement_conditions(&self.state.view(&bindings, self.world, self.now));
        let before = std::mem::replace(&mut self.state.record.conditions, conditions);
        self.note_progress(&before);
    }
}

/// Judges a binding by what its cluster said last, and since when it is heard.
pub(super) fn judge(
    binding: &Binding,
    work: Option<&WorkStatus>,
    heard: Option<Heard>,
    limits: &Limits,
    now: Timestamp,
) -> Health {
    health(binding, settled_work(binding, work).is_some(), heard, limits, now)
}

/// Tells whether a placement writes nothing to its clusters.
pub(super) fn only_reports(record: &PlacementRecord) -> bool {
    let strategy = record.spec.strategy.apply_strategy.as_ref().map(|strategy| strategy.type_);
    !record.removed && strategy == Some(ApplyStrategyType::ReportDiff)
}

/// Tells whether deletions of a placement wait for a person. A guard that is switched off stands for the commit that does so, and
/// for as long as a gate that it closed.
pub(super) fn is_guarded(record: &PlacementRecord, world: &World) -> bool {
    let is_off = record.annotations.get(DELETION_GUARD).is_some_and(|value| value == "Off");
    let is_new = record.guard_off_at.is_some() && record.guard_off_at == world.tree.commit;
    !is_off || world.floor.deletion_guard || is_new || record.closed_gate().is_some()
}

type Deletions = BTreeMap<ClusterName, BTreeSet<ObjectKey>>;

fn is_part_of(some: &Deletions, all: &Deletions) -> bool {
    some.iter().all(|(cluster, keys)| all.get(cluster).is_some_and(|known| keys.is_subset(known)))
}

#[cfg(test)]
mod random_tests;
