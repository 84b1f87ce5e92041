//! What goes with objects to another placement that gets them: approvals and who gives them, a hold and what was returned to, a pause.
//! None of this ends with the name of a placement. Pure.
//!
//! One that only has another name keeps all of its state: see [`rename`](super::rename).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::floor::Protection;
use super::follow_up::is_rollback;
use super::git::ownership;
use super::payload::Payload;
use super::state::{FleetState, PlacementState};
use model::approvers::ReplacedOwnership;
use model::id::{ClusterName, PlacementKey};
use model::records::{HeldSnapshot, Pause, PlacementRecord, ResourceSnapshot, SucceededState};
use model::runs::RunRecord;

/// What an heir gets with the objects of another placement.
#[derive(Clone)]
pub(super) struct Inheritance {
    /// Its newest snapshot, which this is about.
    snapshot: u64,
    /// Approvals that stood before clusters.
    asked: BTreeMap<ClusterName, usize>,
    /// Who decided about what stood behind approvals.
    replaced: Vec<ReplacedOwnership>,
    /// The same content was rolled back or rejected under the other name.
    hold: Option<Hold>,
    /// The pause of a placement that git no longer has.
    paused: Option<Pause>,
}

/// A hold, and what clusters have instead of what is held.
#[derive(Clone)]
struct Hold {
    held: HeldSnapshot,
    back: Option<SucceededState>,
    target: Option<ReturnTarget>,
}

/// The snapshot that a rollback returned to.
#[derive(Clone)]
struct ReturnTarget {
    snapshot: Arc<ResourceSnapshot>,
    payload: Option<Arc<Payload>>,
    /// It had succeeded everywhere, so no gate asks for it.
    has_succeeded: bool,
}

impl Inheritance {
    /// Returns what goes to an heir with objects on these clusters: approvals where they are more than its own, the hold of the same content,
    /// and the pause of a placement that is gone. Once for each snapshot of the heir. `before` is the placement before its decision, which
    /// may have ended a hold, because its own content is another now.
    pub(super) fn of(
        from: &PlacementKey,
        state: &PlacementState,
        before: Option<&PlacementState>,
        heir: &PlacementState,
        clusters: &BTreeSet<&ClusterName>,
        fleet: &FleetState,
    ) -> Option<Self> {
        let newest = heir.newest()?;
        let snapshot = newest.index;
        // Under its new name it has all of this.
        let is_same = state.record.renamed_to.as_ref() == Some(&heir.record.key);
        if clusters.is_empty() || is_same || heir.record.inherited.get(from) == Some(&snapshot) {
            return None;
        }
        let old = state.protections();
        let new = heir.protections();
        let mut asked = BTreeMap::new();
        for &cluster in clusters {
            // One that lost its stages with this decision is paused for what it remembered, and remembers it no longer.
            let forgotten = before.and_then(|before| before.record.asked_before.get(cluster)).copied();
            let count = approvals(&old, cluster).max(forgotten.unwrap_or_default());
            if count > 0 {
                asked.insert(cluster.clone(), count);
            }
        }
        let replaced = if asked.is_empty() { Vec::new() } else { decided(from, &state.record, &heir.record, fleet) };
        asked.retain(|cluster, count| *count > approvals(&new, cluster));
        // Content without objects is no content that another placement had: no object went to it.
        let is_empty = newest.resources.is_empty() && newest.variants.is_none();
        let holding = [Some(state), before].into_iter().flatten();
        let holding = holding.filter_map(|state| Some((state.record.held.as_ref()?, state)));
        let mut same = holding.filter(|(held, _)| held.hash == newest.hash);
        let may_hold = !is_empty && heir.record.held.is_none();
        let found = if may_hold { same.next() } else { None };
        let hold = found.map(|(held, state)| Hold::of(held, state));
        let has_no_pause = heir.record.paused.is_none();
        let paused = if state.record.removed && has_no_pause { state.record.paused.clone() } else { None };
        let is_any = !asked.is_empty() || !replaced.is_empty() || hold.is_some() || paused.is_some();
        is_any.then_some(Self { snapshot, asked, replaced, hold, paused })
    }

    /// Gives this to an heir, as it stood before its decision.
    pub(super) fn take(self, from: PlacementKey, heir: &mut PlacementState) {
        for (cluster, count) in self.asked {
            let known = heir.record.asked_before.entry(cluster).or_default();
            *known = count.max(*known);
        }
        let known = heir.record.replaced.clone();
        heir.record.replaced.extend(self.replaced.into_iter().filter(|replaced| !known.contains(replaced)));
        heir.record.paused = heir.record.paused.take().or(self.paused);
        let snapshot = match self.hold {
            Some(hold) if heir.record.held.is_none() => hold.take(self.snapshot, heir),
            _ => self.snapshot,
        };
        heir.record.inherited.insert(from, snapshot);
    }
}

/// Returns how many approvals stood before a cluster.
fn approvals(protections: &BTreeMap<ClusterName, Protection>, cluster: &ClusterName) -> usize {
    protections.get(cluster).map_or(0, |protection| protection.approvals)
}

/// Returns who may approve rollouts of a placement whose objects go to an heir: now, and before each commit that is not rolled out yet.
/// Leaves out those who are also the approvers of the heir.
fn decided(
    from: &PlacementKey,
    record: &PlacementRecord,
    heir: &PlacementRecord,
    fleet: &FleetState,
) -> Vec<ReplacedOwnership> {
    let of_heir = ownership(heir);
    let before = record.replaced.iter().map(|replaced| replaced.before.clone());
    let all = ownership(record).into_iter().chain(before);
    let others = all.filter(|of| of_heir.as_ref().is_none_or(|heir| fleet.approving(heir) != fleet.approving(of)));
    let by = &fleet.tree.commit;
    others.map(|before| ReplacedOwnership { before, by: by.clone(), agreed: false, from: Some(from.clone()) }).collect()
}

/// Returns the snapshot of a placement's newest rollback.
fn last_rolled_back_to(state: &PlacementState) -> Option<u64> {
    let rollbacks = state.runs.values().filter(|run| is_rollback(run));
    rollbacks.max_by_key(|run| run.sequence).and_then(RunRecord::snapshot)
}

impl Hold {
    fn of(held: &HeldSnapshot, state: &PlacementState) -> Self {
        let index = if held.returns { state.record.goal.or_else(|| last_rolled_back_to(state)) } else { None };
        let target = index.and_then(|index| {
            let snapshot = Arc::clone(state.snapshots.get(&index)?);
            let payload = state.payloads.get(&index).cloned();
            let has_succeeded = state.record.last_succeeded == Some(index)
                || state.record.succeeded.iter().any(|state| state.snapshot == index);
            Some(ReturnTarget { snapshot, payload, has_succeeded })
        });
        Self { held: held.clone(), back: state.record.back.clone(), target }
    }

    /// Holds what is about to become the newest snapshot of the heir. What was returned to comes before it, so that clusters get it. Returns
    /// the index of the newest snapshot.
    fn take(self, newest: u64, heir: &mut PlacementState) -> u64 {
        let Self { held, back, target } = self;
        let key = heir.record.key.clone();
        // Where the heir has rolled out the held content by itself, it keeps that.
        let keeps_it = heir.newest().is_some_and(|known| known.hash == held.hash);
        let target = if keeps_it { None } else { target };
        let Some(ReturnTarget { snapshot, payload, has_succeeded }) = target else {
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
