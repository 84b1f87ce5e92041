//! Rolling updates: moves bindings to the target snapshot. Also the functions that move and remove any binding.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::Pass;
use super::bindings::BindingEdit;
use super::standing::commit_of;
use super::state::Claims;
use crate::rollout::{BindingView, Health, Heard, Limits, Readiness, Roll, health, roll};
use crate::status::binding::settled_work;
use model::along::Along;
use model::api::annotations::ON_FAILURE;
use model::api::condition::{Condition, ConditionStatus, find_condition, set_condition};
use model::api::placement::{ApplyStrategy, StrategyType};
use model::conditions::{ConditionType, Reason};
use model::id::{ClusterName, Digest, ObjectKey};
use model::journal::JournalKind;
use model::overrides::PickedOverrides;
use model::placement_phase::PhaseAct;
use model::records::{
    ApplyOutcome, Availability, Binding, BindingState, ClusterRecord, FailedClusters, ManifestStatus, WorkStatus,
};
use model::runs::{ClusterPhase, RunCluster, RunPhase, RunRecord};
use schedule::target;

impl Pass<'_> {
    pub(super) fn limits(&self) -> Result<Limits, String> {
        let picked = self.state.bindings().filter(|b| b.state != BindingState::Unscheduled).count();
        let goal = target(self.state.policy().and_then(|p| p.policy.as_ref()), picked);
        let record = &self.state.record;
        let limits = Limits::resolve(record.spec.strategy.rolling_update.as_ref(), &record.annotations, goal);
        limits.map_err(|error| error.to_string())
    }

    /// Moves bindings as the strategy allows. Returns when time alone changes the answer.
    pub(super) fn roll(&mut self) -> Option<Timestamp> {
        let gate = self.state.record.closed_gate().cloned();
        let is_held = |binding: &Binding| gate.as_ref().is_some_and(|g| g.holds(&binding.cluster));
        if self.state.record.removed {
            self.roll_removed(is_held);
            return None;
        }
        self.release_held();
        if self.state.record.spec.strategy.type_ == StrategyType::External {
            // A stage says for itself which of its clusters wait.
            self.note_turns(&BTreeSet::new());
            return self.stage();
        }
        self.take_failed_in_runs();
        self.refuse_runs();
        if let Some(why) = self.lacks_stages() {
            self.state.record.halted = Some(why);
            return None;
        }
        let goal = self.goal()?;
        // A held newest snapshot keeps the rollback target as goal.
        self.state.record.goal = self.state.record.held.is_some().then_some(goal);
        let limits = match self.limits() {
            Ok(limits) => limits,
            Err(error) => {
                self.state.record.error = Some(error);
                return None;
            }
        };
        let leaving: BTreeSet<&ClusterName> =
            self.state.bindings().filter(|binding| binding.deleting).map(|binding| &binding.cluster).collect();
        let mut works = Along::new(&self.state.works);
        let mut records = Along::new(&self.fleet.records);
        let mut views = Vec::with_capacity(self.state.bindings.len());
        for binding in self.state.bindings() {
            let work = works.get(&binding.cluster).map(AsRef::as_ref);
            let heard = self.fleet.heard(&binding.placement, &binding.cluster);
            let health = evaluate(binding, work, &self.state.others.taking_over, heard, &limits, self.now);
            let answers = records.get(&binding.cluster).is_some_and(ClusterRecord::answers);
            // What an older binding has there is being deleted: the cluster is not ready, and nothing is brought until that is gone.
            let had_before = !leaving.contains(&binding.cluster) && self.had_before(&binding.cluster, work);
            let view = BindingView::new(binding, health, !self.is_at(binding, goal), !answers);
            views.push(BindingView { had_before, ..view });
        }
        let failed_before = self.note_failed(&mut views, goal);
        let moves = roll(&views, &failed_before, &limits);
        self.state.record.halted.clone_from(&moves.halted);
        let wake_at = moves.wait.and_then(|wait| self.now.checked_add(wait).ok());
        // Not earlier: a pause hides neither that the rollout halted nor when time changes the answer.
        if !self.state.record.permits(PhaseAct::Start) {
            return wake_at;
        }
        if moves.halted.is_some() && self.return_to_last_success(goal) {
            return Some(self.now);
        }
        self.note_turns(&moves.stale.iter().collect());
        self.carry_out(&moves, goal, is_held);
        wake_at
    }

    /// Tells whether a cluster without a snapshot has objects of the placement already: of another placement that hands them over, or of an
    /// earlier store. What it gets is an update.
    fn had_before(&self, cluster: &ClusterName, work: Option<&WorkStatus>) -> bool {
        // One object is enough, also where a kind could not be listed.
        let holds = work.is_some_and(|work| !work.inventory.seen().is_empty());
        holds || self.state.others.taking_over.contains_key(cluster)
    }

    /// Records the clusters that failed with the content that is rolled out. Returns the failed clusters that no longer have this content. A
    /// failure counts until a person retries it, other content is rolled out, or the cluster is available. A cluster that is tried again, or
    /// has not reported since a start, is not available.
    fn note_failed(&mut self, views: &mut [BindingView], goal: u64) -> BTreeSet<ClusterName> {
        if self.state.record.failed.is_none() && !views.iter().any(|view| is_up_to_date(view) && view.failed) {
            return BTreeSet::new();
        }
        let content = self.content(goal);
        let known = self.state.record.failed.take().filter(|failed| failed.content == content);
        let mut clusters = known.map(|failed| failed.clusters).unwrap_or_default();
        for view in views.iter_mut().filter(|view| is_up_to_date(view)) {
            view.failed |= clusters.contains(&view.cluster) && view.ready != Readiness::Ready;
            if view.failed {
                clusters.insert(view.cluster.clone());
            } else {
                clusters.remove(&view.cluster);
            }
        }
        // One that is to get something else counts until it does: see `bring`.
        let current = views.iter().filter(|view| is_up_to_date(view)).map(|view| &view.cluster);
        let current: BTreeSet<&ClusterName> = current.collect();
        let others = clusters.iter().filter(|cluster| !current.contains(cluster)).cloned().collect();
        self.state.record.failed =
            Some(FailedClusters { content, clusters }).filter(|failed| !failed.clusters.is_empty());
        others
    }

    /// Takes over what failed with the content that is rolled out while stages moved the placement: another strategy repairs nothing. Asked
    /// before the runs are history.
    fn take_failed_in_runs(&mut self) {
        let Some(goal) = self.goal() else { return };
        let strategy = self.wanted_apply_strategy(goal);
        let recent = self.state.runs.values().filter(|run| run.sequence >= self.state.record.runs_from);
        let same = recent.filter(|run| {
            let frozen = run.frozen.as_ref();
            run.phase != RunPhase::Superseded
                && frozen.is_some_and(|of| of.snapshot == goal && of.apply_strategy == strategy)
        });
        let mut runs: Vec<&RunRecord> = same.collect();
        runs.sort_by_key(|run| run.sequence);
        let mut clusters = BTreeSet::new();
        for cluster in runs.into_iter().flat_map(|run| &run.stages).flat_map(|stage| &stage.clusters) {
            let has_failed = cluster.phase == ClusterPhase::Failed && !self.gets_other_overrides(cluster, goal);
            if has_failed {
                clusters.insert(cluster.name.clone());
            } else if matches!(cluster.phase, ClusterPhase::Succeeded | ClusterPhase::Updating) {
                clusters.remove(&cluster.name);
            }
        }
        if clusters.is_empty() {
            return;
        }
        let content = self.content(goal);
        let known = self.state.record.failed.take().filter(|failed| failed.content == content);
        clusters.extend(known.into_iter().flat_map(|failed| failed.clusters));
        self.state.record.failed = Some(FailedClusters { content, clusters });
    }

    /// Tells whether a cluster is to get a snapshot with other overrides than a run brought, which may be the repair. One that has left tells
    /// nothing: its labels are gone.
    fn gets_other_overrides(&self, cluster: &RunCluster, snapshot: u64) -> bool {
        self.updated().any(|binding| binding.cluster == cluster.name)
            && cluster.overrides != self.desired_overrides(&cluster.name, snapshot)
    }

    /// Returns the digest of what is rolled out, whichever cluster gets it and whatever the placement's name is: content, overrides and
    /// apply strategy.
    fn content(&self, snapshot: u64) -> Digest {
        let hash = self.state.snapshots.get(&snapshot).map(|snapshot| &snapshot.hash);
        let overrides: Vec<Option<Digest>> =
            self.candidate_ids(snapshot).map(|id| self.fleet.overrides.effect(id)).collect();
        let text = json!([hash, overrides, self.wanted_apply_strategy(snapshot)]).to_string();
        Digest::new(format!("{:x}", Sha256::digest(text)))
    }

    /// Says of each binding that holds a snapshot whether it waits for its turn: `RolloutStarted` is False as long as it does.
    ///
    /// Source: KubeFleet's rollout controller, which writes the stale bindings' condition and nothing else of them.
    fn note_turns(&mut self, waiting: &BTreeSet<&String>) {
        let type_ = ConditionType::RolloutStarted;
        let mut changes = Vec::new();
        for (name, binding) in &self.state.bindings {
            if binding.state != BindingState::Bound || binding.deleting {
                continue;
            }
            let Some(index) = binding.snapshot else { continue };
            let waits = waiting.contains(name);
            let said = find_condition(&binding.conditions, &type_);
            let said_to_wait = said.is_some_and(|said| {
                said.status == ConditionStatus::False && said.observed_generation == binding.generation
            });
            // Mostly the same as before: only what changes is written.
            if waits == said_to_wait {
                continue;
            }
            let (status, reason, message) = if waits {
                let message = format!("the cluster holds snapshot {index}; its turn has not come");
                (ConditionStatus::False, Reason::RolloutNotStartedYet, message)
            } else {
                (ConditionStatus::True, Reason::RolloutStarted, format!("snapshot {index} is on its way"))
            };
            let condition = Condition::new(type_.clone(), status, reason, message, binding.generation, self.now);
            let mut conditions = binding.conditions.clone();
            set_condition(&mut conditions, condition);
            changes.push((name.clone(), BindingEdit::Conditions(conditions)));
        }
        self.change_all(changes);
    }

    /// Moves and removes bindings as a rolling update says.
    fn carry_out(&mut self, moves: &Roll, goal: u64, is_held: impl Fn(&Binding) -> bool) {
        let strategy = self.wanted_apply_strategy(goal);
        // Without the payload no cluster can get an order.
        if self.state.payloads.contains_key(&goal) {
            for name in moves.update.iter().chain(&moves.bind) {
                let cluster = self.state.bindings.get(name).map(|binding| binding.cluster.clone());
                let Some(cluster) = cluster else { continue };
                let overrides = self.desired_overrides(&cluster, goal);
                self.bring(name, goal, strategy.clone(), overrides);
            }
        }
        if moves.update.is_empty() && moves.bind.is_empty() && moves.stale.is_empty() {
            self.note_success();
        }
        for name in &moves.remove {
            let Some(binding) = self.state.bindings.get(name) else { continue };
            if !is_held(binding) && self.knows_inventory(&binding.cluster) {
                self.remove(name);
            }
        }
    }

    /// Moves the bindings of a placement that was removed: they go.
    fn roll_removed(&mut self, is_held: impl Fn(&Binding) -> bool) {
        if !self.state.record.permits(PhaseAct::Remove) {
            return;
        }
        let due = self.state.bindings().filter(|b| !b.deleting && !is_held(b));
        // If a cluster does not answer, what it holds may be unknown, and the gate could not list it.
        let known = due.filter(|b| self.fleet.is_online(&b.cluster) && self.knows_inventory(&b.cluster));
        for name in known.map(|b| b.name.clone()).collect::<Vec<_>>() {
            self.remove(&name);
        }
    }

    /// Returns the target snapshot of a rolling update: the newest, or the target of a rollback. `None` if the newest is held
    /// and nothing ever succeeded.
    fn goal(&self) -> Option<u64> {
        let record = &self.state.record;
        let snapshots = &self.state.snapshots;
        let newest = self.state.newest()?;
        let is_held = record.held.as_ref().is_some_and(|held| held.hash == newest.hash);
        let succeeded = record.last_succeeded.filter(|index| snapshots.contains_key(index));
        let succeeded = succeeded.filter(|index| !self.are_alike(*index, newest.index));
        let otherwise = if is_held { succeeded } else { Some(newest.index) };
        record.goal.filter(|goal| snapshots.contains_key(goal)).or(otherwise)
    }

    /// Returns the snapshots that clusters may get: the newest, the one of a rolling update, those of unfinished runs.
    pub(super) fn upcoming_snapshots(&self) -> BTreeSet<u64> {
        let record = &self.state.record;
        let is_staged = record.spec.strategy.type_ == StrategyType::External;
        let runs = self.state.runs.values().filter(|run| is_staged && !run.phase.is_final());
        // What is held comes to nobody: it deletes nothing.
        let newest =
            self.state.newest().filter(|newest| record.held.as_ref().is_none_or(|held| held.hash != newest.hash));
        let newest = newest.map(|newest| newest.index);
        runs.filter_map(RunRecord::snapshot).chain(newest).chain(record.goal).collect()
    }

    /// With `on-failure: Rollback`, returns a halted rolling update to the last snapshot that succeeded everywhere. Returns
    /// whether it did.
    fn return_to_last_success(&mut self, goal: u64) -> bool {
        let record = &self.state.record;
        let is_wished = record.annotations.get(ON_FAILURE).is_some_and(|value| value == "Rollback");
        let to = record.last_succeeded.filter(|to| is_wished && record.goal.is_none() && !self.are_alike(*to, goal));
        let Some(to) = to.filter(|to| self.state.snapshots.contains_key(to)) else { return false };
        self.return_to(to, "more clusters failed than may");
        true
    }

    /// Returns a rolling update to an earlier snapshot; the newest one is held.
    pub fn return_to(&mut self, to: u64, why: &str) {
        let newest = self.state.newest().map(|newest| newest.index);
        if let Some(newest) = newest {
            self.hold_for(newest, to, why);
        }
        self.state.record.goal = Some(to);
        self.note_rollback(newest, to, why);
    }

    /// Writes that the rollout returns from a snapshot to an earlier one.
    pub(super) fn note_rollback(&mut self, from: Option<u64>, to: u64, why: &str) {
        let commit = from.and_then(|index| commit_of(&self.state, index));
        let facts = json!({"from": from, "commit": commit, "to": to, "why": why});
        self.note(JournalKind::RolledBack, None, facts);
    }

    /// Assigns a snapshot to a cluster's binding.
    pub(super) fn bring(&mut self, name: &str, index: u64, strategy: ApplyStrategy, overrides: PickedOverrides) {
        let Some(before) = self.state.bindings.get(name).map(Arc::clone) else { return };
        self.change(name, BindingEdit::Bring { snapshot: index, apply_strategy: strategy, overrides });
        // What failed there was something else. A new binding of a cluster that was taken off brings the same once more.
        if before.snapshot.is_some()
            && let Some(failed) = &mut self.state.record.failed
        {
            failed.clusters.remove(&before.cluster);
        }
        let facts = json!({"binding": name, "from": before.snapshot, "to": index});
        self.moved.insert(name.to_owned());
        self.note(JournalKind::RolloutStarted, Some(&before.cluster), facts);
    }

    pub(super) fn remove(&mut self, name: &str) {
        let Some(cluster) = self.state.bindings.get(name).map(|binding| binding.cluster.clone()) else { return };
        let objects = self.goes(&cluster);
        self.change(name, BindingEdit::Remove { objects, abandons: self.state.record.abandons() });
        self.note(JournalKind::RemovalStarted, Some(&cluster), json!({"binding": name}));
    }

    /// Returns the bindings whose clusters failed with their assigned snapshot.
    pub fn failed_bindings(&self) -> Vec<String> {
        let Ok(limits) = self.limits() else { return Vec::new() };
        let bound = self.state.bindings().filter(|b| b.state == BindingState::Bound && !b.deleting);
        let failed = bound.filter(|binding| {
            let work = self.state.works.get(&binding.cluster).map(AsRef::as_ref);
            let heard = self.fleet.heard(&binding.placement, &binding.cluster);
            evaluate(binding, work, &self.state.others.taking_over, heard, &limits, self.now).failed
        });
        failed.map(|binding| binding.name.clone()).collect()
    }
}

/// Tells whether a cluster is bound to what is rolled out.
fn is_up_to_date(view: &BindingView) -> bool {
    view.state == BindingState::Bound && !view.deleting && !view.outdated
}

/// Evaluates a binding from its cluster's last report and since when the cluster reports again. What other placements still have there and
/// are to let go (`taking_over`) is no failure before the deadline: it is taken over as soon as their orders say so.
pub(super) fn evaluate(
    binding: &Binding,
    work: Option<&WorkStatus>,
    taking_over: &Claims,
    heard: Option<Heard>,
    limits: &Limits,
    now: Timestamp,
) -> Health {
    let settled = settled_work(binding, work);
    let of_report = health(binding, settled, heard, limits, now);
    let awaited = taking_over.get(&binding.cluster);
    if awaited.is_none_or(|awaited| settled.is_none_or(|work| !lacks_only(work, awaited))) {
        return of_report;
    }
    // A newer snapshot is a repair for what was seen to be unavailable, whatever the cause.
    Health { seen_unavailable: of_report.seen_unavailable, ..health(binding, None, heard, limits, now) }
}

/// Tells whether a cluster has all of its work but objects that belong to another placement, and these are among some.
fn lacks_only(work: &WorkStatus, awaited: &BTreeSet<ObjectKey>) -> bool {
    // One with differences may not be taken over as it is.
    let is_of_another = |manifest: &ManifestStatus| {
        manifest.applied == ApplyOutcome::FailedToTakeOver
            && manifest.differences.is_empty()
            && awaited.contains(&manifest.id.key())
    };
    let mut others = work.manifests.iter().filter(|manifest| {
        manifest.applied != ApplyOutcome::Applied || manifest.availability == Some(Availability::Failed)
    });
    others.all(is_of_another) && work.manifests.iter().any(is_of_another)
}
