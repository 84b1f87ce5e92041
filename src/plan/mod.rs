//! What a tree would do to the fleet: pure.
//!
//! It runs the daemon's own [`decide_each`] over a world that is imagined: every cluster of the tree answers, and a base counts as
//! rolled out to the last object. The daemon's own plans start from its records instead. So a plan is what happens, except for
//! what only members can say.

mod baseline;
pub mod explain;
pub mod needs;
pub mod offline;
pub mod pull_request;
mod secrets;
pub mod simulate;
mod stages;
mod stops;
#[cfg(test)]
mod tests;
mod works;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use rayon::prelude::*;

use crate::api::condition::find_condition;
use crate::decide::hand_over::decide_each;
use crate::decide::ocm::Ocm;
use crate::decide::state::{PlacementState, World};
use crate::decide::{is_guarded, only_reports};
use crate::deliver::guard;
use crate::model::conditions::ConditionType;
use crate::model::id::{ClusterName, ObjectKey, PlacementKey};
use crate::model::manifest::InputError;
use crate::model::ocm::OcmPlacementRecord;
use crate::model::plan::{
    Changes, ClusterChanges, DeletionPlan, OcmPlan, PlacementPlan, Plan, Resource, ResourceChanges, SnapshotPlan,
};
use crate::model::records::{MassLeave, ResourceSnapshot};
use crate::model::tree::{Skipped, Tree};
use crate::schedule::ocm::Key;
pub use baseline::Basis;
pub(super) use baseline::{imagined, rolled_out};
use works::{Outlook, Outlooks};

/// Returns what the head would do: to an empty fleet, or to one that holds all of the base. `now` is not printed: what
/// ends with time, such as scores, is evaluated at it.
///
/// A cluster that the head no longer names keeps what it has. Secrets are shown; see [`Plan::hide_secrets`].
pub fn plan(head: &Arc<Tree>, base: Option<&Arc<Tree>>, now: Timestamp) -> Plan {
    let base = base.map(|tree| Basis::rolled_out(tree, now));
    planned(base.as_ref(), head, now)
}

/// Returns what the head would do to the fleet as the daemon knows it: from the indexes, clusters and inventories that are
/// really there. A placement in the middle of a rollout starts where it goes to; what is being deleted already is not the
/// head's doing.
///
/// Clusters that the head brings are taken to answer. Secrets are shown; see [`Plan::hide_secrets`].
pub fn plan_from(basis: &Basis, head: &Arc<Tree>, now: Timestamp) -> Plan {
    planned(Some(basis), head, now)
}

fn planned(basis: Option<&Basis>, head: &Arc<Tree>, now: Timestamp) -> Plan {
    Planned::of(basis, head, now).plan(basis)
}

/// The fleet with the head accepted, and every placement decided.
struct Planned {
    world: World,
    after: Vec<PlacementState>,
    leaving: BTreeMap<ClusterName, MassLeave>,
}

impl Planned {
    fn of(basis: Option<&Basis>, head: &Arc<Tree>, now: Timestamp) -> Self {
        let world = basis.map_or_else(|| imagined(head, None, now), |basis| basis.world_after(head, now));
        let after = decided(basis, &world, now);
        let leaving = basis.map(|basis| basis.mass_leave(head, now)).unwrap_or_default();
        Self { world, after, leaving }
    }

    /// Says what it comes to.
    fn plan(&self, basis: Option<&Basis>) -> Plan {
        let world = &self.world;
        let outlooks = Outlooks::new(self.after.par_iter().map(|state| Outlook::new(state, world)).collect());
        let placements =
            outlooks.all.par_iter().map(|outlook| placement_plan(outlook, &outlooks, basis, &self.leaving));
        Plan {
            commit: world.tree.commit.clone(),
            placements: placements.collect(),
            ocm_placements: ocm_plans(&world.ocm, basis.map(|basis| &basis.world.ocm)),
            errors: Vec::new(),
            warnings: warnings(world, &self.after),
        }
    }
}

impl Basis {
    /// Returns what is odd already.
    fn warnings(&self) -> Vec<InputError> {
        warnings(&self.world, self.placements.values())
    }
}

/// Returns what is odd and refuses nothing: runs of placements that are not there, documents that are no objects, keys that are
/// read as truth values, and what is odd about placements.
fn warnings<'a>(world: &World, placements: impl IntoIterator<Item = &'a PlacementState>) -> Vec<InputError> {
    let odd = world.tree.skipped.iter().filter_map(Skipped::complaint);
    let of = |state: &PlacementState| {
        let record = &state.record;
        let (path, line) = record.origin.as_ref().map_or(("", 0), |origin| (&*origin.path, origin.line));
        let object = format!("{} {}", record.key.kind(), record.key);
        record.warnings.iter().map(|warning| warning.of(path, line, object.clone())).collect::<Vec<_>>()
    };
    let tree = world.staged.orphans(&world.tree).chain(odd).chain(world.tree.warnings.iter().cloned());
    tree.chain(placements.into_iter().flat_map(of)).collect()
}

/// Decides about every placement that base or head has.
fn decided(basis: Option<&Basis>, world: &World, now: Timestamp) -> Vec<PlacementState> {
    let head = &world.tree;
    let known = basis.into_iter().flat_map(Basis::placements);
    // Both sides, and in one decision: what one placement gives up another may take over.
    let keys: BTreeSet<PlacementKey> = head.placements.keys().chain(known).cloned().collect();
    let before = |key: &PlacementKey| {
        let started = basis.and_then(|basis| basis.placements.get(key)).cloned();
        started.or_else(|| Some(PlacementState::begin(head.placements.get(key)?, now)))
    };
    let decided = decide_each(&keys, &BTreeMap::new(), before, world, now);
    decided.into_values().map(|decision| decision.state).collect()
}

/// Says what each OCM Placement decides.
fn ocm_plans(ocm: &Ocm, base: Option<&Ocm>) -> Vec<OcmPlan> {
    let plan = |(key, record): (&Key, &Arc<OcmPlacementRecord>)| {
        let changes = base.map(|base| {
            let old: BTreeSet<ClusterName> =
                base.record(key).into_iter().flat_map(|record| record.clusters().cloned()).collect();
            let new: BTreeSet<ClusterName> = record.clusters().cloned().collect();
            ClusterChanges {
                gained: new.difference(&old).cloned().collect(),
                lost: old.difference(&new).cloned().collect(),
            }
        });
        let satisfied = find_condition(&record.conditions, &ConditionType::PlacementSatisfied);
        OcmPlan {
            namespace: record.namespace.clone(),
            name: record.name.clone(),
            groups: record.groups.clone(),
            message: satisfied.map(|condition| condition.message.clone()).unwrap_or_default(),
            errors: ocm.complaints(key),
            changes,
        }
    };
    ocm.records().map(plan).collect()
}

/// Says what becomes of a placement.
fn placement_plan(
    outlook: &Outlook<'_>,
    outlooks: &Outlooks<'_>,
    basis: Option<&Basis>,
    leaving: &BTreeMap<ClusterName, MassLeave>,
) -> PlacementPlan {
    let record = &outlook.state.record;
    let old = basis.and_then(|basis| Some((basis.placements.get(&record.key)?, &basis.world)));
    let state = old.map(|(state, _)| state);
    let origin = outlook.world.tree.placements.get(&record.key).map(|placement| &placement.origin);
    let accepted = outlook.state.newest().filter(|_| !record.removed);
    let policy = outlook.state.policy().filter(|_| !record.removed);
    PlacementPlan {
        name: record.key.name.clone(),
        kind: record.key.kind(),
        namespace: record.key.namespace.clone(),
        path: origin.map(|origin| origin.path.to_string()),
        line: origin.map(|origin| origin.line),
        error: record.error.clone(),
        removed: record.removed,
        snapshot: accepted.map(|snapshot| SnapshotPlan::from(snapshot.as_ref())),
        decisions: policy.map(|policy| policy.target_clusters.clone()).unwrap_or_default(),
        rollout: stages::rollout_plan(outlook.state, outlook.world),
        works: outlook.works(outlooks),
        deletions: old.map(|(old, world)| deletions(outlook, outlooks, old, world)).unwrap_or_default(),
        deletion_guard: deletion_guard(outlook, state, leaving),
        changes: basis.map(|_| Changes {
            resources: resource_changes(state.and_then(PlacementState::newest), accepted),
            clusters: cluster_changes(state, outlook),
            overridden: old.map(|(old, world)| outlook.overridden_otherwise(old, world)).unwrap_or_default(),
        }),
    }
}

/// Says why a person must look first: at clusters of the placement that leave with more than half of the fleet, at deletions.
fn deletion_guard(
    outlook: &Outlook<'_>,
    old: Option<&PlacementState>,
    leaving: &BTreeMap<ClusterName, MassLeave>,
) -> Option<String> {
    let bound: BTreeSet<&ClusterName> =
        old.into_iter().flat_map(PlacementState::bindings).map(|binding| &binding.cluster).collect();
    let left: Vec<&MassLeave> = bound.into_iter().filter_map(|cluster| leaving.get(cluster)).collect();
    let record = &outlook.state.record;
    let is_guarded = is_guarded(record, outlook.world) && !only_reports(record);
    let leave = left.first().filter(|_| is_guarded).map(|with| guard::leave_words(**with, left.len()));
    let deletions = record.closed_gate().map(|gate| gate.reason.clone());
    leave.into_iter().chain(deletions).reduce(|all, more| format!("{all}; {more}"))
}

/// Returns what goes from each cluster: what it holds and shall not hold any more. What another placement places there
/// stays, under its new owner; a cluster that left the fleet keeps everything. What goes anyway is not told.
fn deletions(outlook: &Outlook<'_>, outlooks: &Outlooks<'_>, old: &PlacementState, world: &World) -> Vec<DeletionPlan> {
    let mut deletions = Vec::new();
    let mut before: Option<Outlook<'_>> = None;
    for (cluster, work) in &old.works {
        let target = outlook.clusters.get(cluster);
        if !outlook.world.clusters.contains(cluster.as_str()) || (target.is_some() && outlook.reports_only) {
            continue;
        }
        // What a placement abandons where it leaves is not deleted.
        if target.is_none() && outlook.state.record.abandons() {
            continue;
        }
        // Where the objects cannot be made, what is there stays.
        if target.is_some_and(|target| target.error.is_some()) {
            continue;
        }
        let stays = |key: &ObjectKey| {
            target.is_some_and(|target| target.keys.contains(key))
                || outlooks.other_holder(outlook, cluster, key).is_some()
        };
        // Of an unknown inventory what was seen is told: the daemon prunes it once it knows all.
        let mut gone: BTreeSet<&ObjectKey> = work.inventory.seen().iter().filter(|key| !stays(key)).collect();
        if !gone.is_empty() {
            // Only where something goes: it makes the objects of every cluster once more.
            let before = before.get_or_insert_with(|| Outlook::new(old, world));
            gone.retain(|key| before.keeps(cluster, key));
        }
        if gone.is_empty() {
            continue;
        }
        let ids = work.manifests.iter().map(|manifest| (manifest.id.key(), Resource(manifest.id.clone())));
        let resources: BTreeMap<ObjectKey, Resource> = ids.filter(|(key, _)| gone.contains(key)).collect();
        deletions.push(DeletionPlan { cluster_name: cluster.clone(), resources: resources.into_values().collect() });
    }
    deletions
}

fn resource_changes(old: Option<&Arc<ResourceSnapshot>>, new: Option<&Arc<ResourceSnapshot>>) -> ResourceChanges {
    let by_key = |snapshot: Option<&Arc<ResourceSnapshot>>| -> BTreeMap<ObjectKey, (Resource, _)> {
        let resources = snapshot.into_iter().flat_map(|s| &s.resources);
        resources.map(|r| (r.id.key(), (Resource(r.id.clone()), r.digest.clone()))).collect()
    };
    let (old, new) = (by_key(old), by_key(new));
    let mut changes = ResourceChanges::default();
    for (key, found) in &new {
        match old.get(key) {
            None => changes.added.push(found.0.clone()),
            // Digest or identity: another API version of the same object is a change, too.
            Some(before) if before != found => changes.changed.push(found.0.clone()),
            Some(_) => {}
        }
    }
    changes.removed = old.iter().filter(|(key, _)| !new.contains_key(key)).map(|(_, (id, _))| id.clone()).collect();
    changes
}

fn cluster_changes(old: Option<&PlacementState>, outlook: &Outlook<'_>) -> ClusterChanges {
    let old: BTreeSet<ClusterName> = old.iter().flat_map(|state| works::picked(state)).cloned().collect();
    let new: BTreeSet<ClusterName> = outlook.clusters.keys().cloned().collect();
    ClusterChanges { gained: new.difference(&old).cloned().collect(), lost: old.difference(&new).cloned().collect() }
}
