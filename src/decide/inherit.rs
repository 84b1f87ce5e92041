//! What goes with objects to the placement that gets them: approvals, a hold and what was returned to, a pause, failures. None of this ends
//! with the name of a placement. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::Pass;
use super::floor::Protection;
use super::payload::Payload;
use super::state::{FleetState, PlacementState};
use model::api::placement::StrategyType;
use model::id::{ClusterName, PlacementKey};
use model::overrides::OverrideRef;
use model::records::{FailedClusters, HeldSnapshot, Pause, ResourceSnapshot, SucceededState};
use model::runs::{ClusterPhase, RunCause, RunPhase, RunRecord};

/// What an heir gets with the objects of another placement.
pub(super) struct Inheritance {
    /// Its newest snapshot, which this is about.
    snapshot: u64,
    /// Approvals that stood before clusters.
    asked: BTreeMap<ClusterName, usize>,
    /// The same content was rolled back or rejected under the other name.
    hold: Option<Hold>,
    /// Somebody paused the placement under its former name.
    paused: Option<Pause>,
    /// Clusters that failed with the same content.
    failed: Option<FailedClusters>,
}

/// A hold, and what clusters have instead of what is held.
struct Hold {
    held: HeldSnapshot,
    back: Option<SucceededState>,
    target: Option<Target>,
}

/// The snapshot that a rollback returned to.
struct Target {
    snapshot: Arc<ResourceSnapshot>,
    payload: Option<Arc<Payload>>,
    /// It had succeeded everywhere, so no gate asks for it.
    has_succeeded: bool,
}

impl Inheritance {
    /// Returns what goes to an heir with objects on these clusters: approvals where they are more than its own, the hold of the same content,
    /// and of a placement that is gone its pause and the failures with the same content. Once for each snapshot of the heir.
    pub(super) fn of(
        from: &PlacementKey,
        state: &PlacementState,
        heir: &PlacementState,
        clusters: &BTreeSet<&ClusterName>,
        fleet: &FleetState,
    ) -> Option<Self> {
        let newest = heir.newest()?;
        let snapshot = newest.index;
        if clusters.is_empty() || heir.record.inherited.get(from) == Some(&snapshot) {
            return None;
        }
        let (old, new) = (state.protections(), heir.protections());
        let approvals = |of: &BTreeMap<ClusterName, Protection>, cluster: &ClusterName| {
            of.get(cluster).map_or(0, |protection| protection.approvals)
        };
        let asked = clusters.iter().map(|cluster| ((*cluster).clone(), approvals(&old, cluster)));
        let asked: BTreeMap<_, _> = asked.filter(|(cluster, asked)| *asked > approvals(&new, cluster)).collect();
        let is_new = |held: &&HeldSnapshot| held.hash == newest.hash && heir.record.held.is_none();
        let hold = state.record.held.as_ref().filter(is_new).map(|held| Hold::of(held, state));
        let is_gone = state.record.removed;
        let paused = state.record.paused.clone().filter(|_| is_gone && heir.record.paused.is_none());
        let failed = is_gone.then(|| failures(state, heir, newest, fleet)).flatten();
        let is_any = !asked.is_empty() || hold.is_some() || paused.is_some() || failed.is_some();
        is_any.then_some(Self { snapshot, asked, hold, paused, failed })
    }

    /// Gives this to an heir, as it stood before its decision.
    pub(super) fn take(self, from: PlacementKey, heir: &mut PlacementState) {
        for (cluster, count) in self.asked {
            let known = heir.record.asked_before.entry(cluster).or_default();
            *known = count.max(*known);
        }
        let record = &mut heir.record;
        record.paused = record.paused.take().or(self.paused);
        record.failed = record.failed.take().or(self.failed);
        let held_by_itself = record.held.is_some();
        let snapshot = match self.hold.filter(|_| !held_by_itself) {
            Some(hold) => hold.take(self.snapshot, heir),
            None => self.snapshot,
        };
        heir.record.inherited.insert(from, snapshot);
    }
}

impl Hold {
    fn of(held: &HeldSnapshot, state: &PlacementState) -> Self {
        let target = target(held, state).and_then(|index| {
            let snapshot = Arc::clone(state.snapshots.get(&index)?);
            let payload = state.payloads.get(&index).cloned();
            Some(Target { snapshot, payload, has_succeeded: state.record.last_succeeded == Some(index) })
        });
        Self { held: held.clone(), back: state.record.back.clone(), target }
    }

    /// Holds what is about to become the newest snapshot of the heir. What was returned to comes before it, so that clusters get it. Returns
    /// the index of the newest snapshot.
    fn take(self, newest: u64, heir: &mut PlacementState) -> u64 {
        let Self { held, back, target } = self;
        let key = heir.record.key.clone();
        // Where the heir has rolled out the held content by itself, it keeps that.
        let target = target.filter(|_| heir.newest().is_none_or(|known| known.hash != held.hash));
        let Some(Target { snapshot, payload, has_succeeded }) = target else {
            heir.record.held = Some(HeldSnapshot { index: newest, ..held });
            return newest;
        };
        let index = heir.snapshots.keys().next_back().map_or(0, |last| last + 1);
        let newest = if snapshot.hash == held.hash { index } else { index + 1 };
        let copy = ResourceSnapshot { placement: key, index, ..ResourceSnapshot::clone(&snapshot) };
        heir.snapshots.insert(index, Arc::new(copy));
        heir.payloads.extend(payload.map(|payload| (index, payload)));
        let record = &mut heir.record;
        record.held = Some(HeldSnapshot { index: newest, ..held });
        record.back = back.map(|back| SucceededState { snapshot: index, ..back });
        record.goal = Some(index);
        record.last_succeeded = has_succeeded.then_some(index).or(record.last_succeeded);
        newest
    }
}

/// Returns the snapshot that clusters are to have instead of the held one: the target of the rollback, or where the held one was rejected
/// before any cluster had it, the last that succeeded everywhere.
fn target(held: &HeldSnapshot, state: &PlacementState) -> Option<u64> {
    let is_back = |run: &&RunRecord| matches!(run.cause, RunCause::Rollback { .. });
    let back = state.runs.values().filter(is_back).max_by_key(|run| run.sequence).and_then(RunRecord::snapshot);
    let has_held = |index: u64| state.snapshots.get(&index).is_some_and(|snapshot| snapshot.hash == held.hash);
    let untouched = !state.bindings().filter_map(|binding| binding.snapshot).any(has_held);
    state.record.goal.or(back).or_else(|| state.record.last_succeeded.filter(|_| untouched))
}

/// Returns the clusters that failed with the content of an heir's newest snapshot under the name of a placement that is gone.
fn failures(
    state: &PlacementState,
    heir: &PlacementState,
    newest: &ResourceSnapshot,
    fleet: &FleetState,
) -> Option<FailedClusters> {
    if state.record.spec.strategy.type_ != StrategyType::External {
        return state.record.failed.clone();
    }
    let is_it = |run: &&RunRecord| {
        let is_same = run.frozen.as_ref().is_some_and(|frozen| frozen.hash == newest.hash);
        is_same && run.sequence >= state.record.runs_from && run.phase != RunPhase::RolledBack
    };
    let run = state.runs.values().filter(is_it).max_by_key(|run| run.sequence);
    let pass = Pass::new(heir.clone(), fleet, Timestamp::UNIX_EPOCH);
    let today: BTreeSet<&OverrideRef> = pass.candidate_ids(newest.index).collect();
    let mut failed = state.record.failed.clone().unwrap_or_else(|| FailedClusters {
        content: pass.content(newest.index),
        clusters: BTreeSet::new(),
        stages: BTreeMap::new(),
    });
    for (stage, cluster) in run
        .into_iter()
        .flat_map(|run| &run.stages)
        .flat_map(|stage| stage.clusters.iter().map(move |cluster| (&stage.name, cluster)))
    {
        let mut overrides = cluster.overrides.cluster.iter().chain(&cluster.overrides.namespaced);
        if cluster.phase == ClusterPhase::Failed && overrides.all(|id| today.contains(id)) {
            failed.clusters.insert(cluster.name.clone());
            failed.stages.insert(cluster.name.clone(), stage.clone());
        }
    }
    Some(failed).filter(|failed| !failed.clusters.is_empty())
}
