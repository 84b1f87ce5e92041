//! Plans: the effects of a tree on the fleet. Pure.
//!
//! It runs the daemon's [`decide_each`] over a hypothetical fleet: every cluster of the tree answers, and a base counts as
//! fully rolled out. The daemon's own plans start from its records instead. So a plan predicts what happens, except for what
//! only members can tell.

mod baseline;
pub mod cordon;
pub mod drain;
pub mod explain;
pub mod forecast;
mod namespaces;
pub mod needs;
pub mod offline;
#[cfg(test)]
mod picked_by_ocm_tests;
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

pub use baseline::Baseline;
use decide::hand_over::decide_each;
use decide::ocm::Ocm;
use decide::state::{FleetState, PlacementState};
use decide::without_effect::without_effect;
use decide::{is_guarded, only_reports};
use deliver::guard;
use model::api::condition::find_condition;
use model::conditions::ConditionType;
use model::id::{ClusterName, Digest, ObjectKey, PlacementKey};
use model::manifest::InputError;
use model::plan::{
    Changes, ClusterChanges, DeletionPlan, HandOverPlan, OcmPlan, PlacementPlan, Plan, Resource, ResourceChanges,
    SnapshotPlan,
};
use model::records::{MassLeave, ResourceSnapshot, SnapshotResource};
use model::tenants::Tenants;
use model::tree::{Skipped, Tree};
pub use secrets::hide_secrets;
use works::{Projection, Projections};

/// Returns the effects of the head on an empty fleet, or on one with the base rolled out. `now` is not printed: it only decides
/// about things that expire, such as scores.
///
/// A cluster that the head no longer names keeps its objects. Secrets are shown; see [`hide_secrets`].
pub fn plan(head: &Arc<Tree>, base: Option<&Arc<Tree>>, now: Timestamp) -> Plan {
    plan_within(Tenants::default(), head, base, now)
}

/// As [`plan`], of a fleet whose tenants may have what the configuration says.
pub fn plan_within(tenants: Tenants, head: &Arc<Tree>, base: Option<&Arc<Tree>>, now: Timestamp) -> Plan {
    let empty = Baseline::of_tenants(tenants);
    match base.map(|tree| empty.rolling_out(tree, now)) {
        Some(baseline) => plan_from(&baseline, head, now),
        None => Planned::of(&empty, head, now).plan(None),
    }
}

/// Returns the effects of the head on the fleet in the daemon's records: with its real indexes, clusters and inventories. A
/// placement with an active rollout starts from the target of that rollout; deletions under way are not effects of the head.
///
/// Clusters that the head brings are taken to answer. Secrets are shown; see [`hide_secrets`].
pub fn plan_from(baseline: &Baseline, head: &Arc<Tree>, now: Timestamp) -> Plan {
    Planned::of(baseline, head, now).plan(Some(baseline))
}

/// The fleet with the head accepted, and every placement decided.
struct Planned {
    fleet: FleetState,
    after: Vec<PlacementState>,
    /// The placements that the head renames: each new name with the one before.
    renamed: BTreeMap<PlacementKey, PlacementKey>,
    leaving: BTreeMap<ClusterName, MassLeave>,
}

impl Planned {
    fn of(baseline: &Baseline, head: &Arc<Tree>, now: Timestamp) -> Self {
        let mut fleet = baseline.fleet_after(head, now);
        let (mut after, mut renamed) = decided(baseline, &fleet, now);
        if baseline.bring_namespaces(&mut fleet, &after) {
            (after, renamed) = decided(baseline, &fleet, now);
        }
        Self { fleet, after, renamed, leaving: baseline.mass_leave(head, now) }
    }

    /// Returns a placement as it was, under the name that it had.
    fn before<'a>(&self, baseline: &'a Baseline, key: &PlacementKey) -> Option<&'a PlacementState> {
        baseline.placements.get(self.renamed.get(key).unwrap_or(key))
    }

    /// Says what it comes to.
    fn plan(&self, baseline: Option<&Baseline>) -> Plan {
        let fleet = &self.fleet;
        let projections = Projections::new(self.after.par_iter().map(|state| Projection::new(state, fleet)).collect());
        let placements =
            projections.all.par_iter().map(|projection| self.placement_plan(projection, &projections, baseline));
        Plan {
            commit: fleet.tree.commit.clone(),
            placements: placements.collect(),
            ocm_placements: ocm_plans(&fleet.ocm, baseline.map(|baseline| &baseline.fleet.ocm)),
            errors: Vec::new(),
            warnings: warnings(fleet, &self.after),
        }
    }
}

impl Baseline {
    /// Returns what is odd already.
    fn warnings(&self) -> Vec<InputError> {
        warnings(&self.fleet, self.placements.values())
    }
}

/// Returns the warnings: documents that name what is not there, documents that are no objects, keys that are read as truth values, and
/// warnings about placements.
fn warnings<'a>(fleet: &FleetState, placements: impl IntoIterator<Item = &'a PlacementState>) -> Vec<InputError> {
    let odd = fleet.tree.skipped.iter().filter_map(Skipped::complaint);
    let tree = without_effect(fleet).into_iter().chain(odd).chain(fleet.tree.warnings.iter().cloned());
    tree.chain(placements.into_iter().flat_map(placement_warnings)).collect()
}

fn placement_warnings(state: &PlacementState) -> Vec<InputError> {
    let record = &state.record;
    let (path, line) = record.origin.as_ref().map_or(("", 0), |origin| (&*origin.path, origin.line));
    let object = format!("{} {}", record.key.kind(), record.key);
    record.warnings.iter().map(|warning| warning.of(path, line, object.clone())).collect()
}

/// Decides about every placement that base or head has. Returns them, and the new names with those before.
fn decided(
    baseline: &Baseline,
    fleet: &FleetState,
    now: Timestamp,
) -> (Vec<PlacementState>, BTreeMap<PlacementKey, PlacementKey>) {
    let head = &fleet.tree;
    // Both sides, and in one decision: what one placement gives up another may take over.
    let keys: BTreeSet<PlacementKey> = head.placements.keys().chain(baseline.placements()).cloned().collect();
    let before = |key: &PlacementKey| {
        let started = baseline.placements.get(key).cloned();
        started.or_else(|| Some(PlacementState::begin(head.placements.get(key)?, now)))
    };
    let decided = decide_each(&keys, &BTreeMap::new(), before, fleet, now);
    let renamed = decided.iter().filter_map(|(key, decision)| Some((key.clone(), decision.renamed_from()?)));
    let renamed = renamed.collect();
    (decided.into_values().map(|decision| decision.state).collect(), renamed)
}

/// Plans each OCM Placement.
fn ocm_plans(ocm: &Ocm, base: Option<&Ocm>) -> Vec<OcmPlan> {
    let mut plans = Vec::new();
    for (key, record) in ocm.records() {
        let changes = base.map(|base| {
            let old: BTreeSet<ClusterName> =
                base.record(key).into_iter().flat_map(|record| record.clusters().cloned()).collect();
            let new: BTreeSet<ClusterName> = record.clusters().cloned().collect();
            ClusterChanges::between(&old, &new)
        });
        let satisfied = find_condition(&record.conditions, &ConditionType::PlacementSatisfied);
        plans.push(OcmPlan {
            namespace: record.namespace.clone(),
            name: record.name.clone(),
            groups: record.groups.clone(),
            message: satisfied.map(|condition| condition.message.clone()).unwrap_or_default(),
            errors: ocm.complaints(key),
            changes,
        });
    }
    plans
}

impl Planned {
    /// Plans a placement.
    fn placement_plan(
        &self,
        projection: &Projection<'_>,
        projections: &Projections<'_>,
        baseline: Option<&Baseline>,
    ) -> PlacementPlan {
        let record = &projection.state.record;
        let key = &record.key;
        let before = baseline.and_then(|baseline| Some((self.before(baseline, key)?, &baseline.fleet)));
        // What members hold is under the earlier name still.
        let holds = baseline.and_then(|baseline| Some((baseline.placements.get(key)?, &baseline.fleet)));
        let renamed_to = self.renamed.iter().find(|(_, from)| *from == key).map(|(to, _)| to.clone());
        let origin = projection.fleet.tree.placements.get(key).map(|placement| &placement.origin);
        let accepted = if record.removed { None } else { projection.state.newest() };
        let policy = if record.removed { None } else { projection.state.policy() };
        let (deletions, hands_over) =
            holds.map(|(old, fleet)| gone(projection, projections, old, fleet)).unwrap_or_default();
        // The new name tells them.
        let changes = if renamed_to.is_some() { Changes::default() } else { changes(before, projection, accepted) };
        PlacementPlan {
            name: key.name.clone(),
            kind: key.kind(),
            namespace: key.namespace.clone(),
            path: origin.map(|origin| origin.path.to_string()),
            line: origin.map(|origin| origin.line),
            error: record.error.clone(),
            removed: record.removed,
            renamed_from: self.renamed.get(key).cloned(),
            renamed_to,
            snapshot: accepted.map(|snapshot| SnapshotPlan::from(snapshot.as_ref())),
            variants: if record.removed { Vec::new() } else { projection.variants() },
            decisions: policy.map(|policy| policy.target_clusters.clone()).unwrap_or_default(),
            rollout: stages::rollout_plan(projection.state, projection.fleet),
            works: projection.works(projections),
            deletions,
            hands_over,
            deletion_guard: deletion_guard(projection, holds.map(|(state, _)| state), &self.leaving),
            changes: baseline.map(|_| changes),
        }
    }
}

/// Returns what becomes otherwise than `before` once the accepted snapshot is everywhere.
fn changes(
    before: Option<(&PlacementState, &FleetState)>,
    projection: &Projection<'_>,
    accepted: Option<&Arc<ResourceSnapshot>>,
) -> Changes {
    let state = before.map(|(state, _)| state);
    Changes {
        resources: resource_changes(state.and_then(PlacementState::newest), accepted),
        clusters: cluster_changes(state, projection),
        overridden: before.map(|(old, fleet)| projection.overridden_otherwise(old, fleet)).unwrap_or_default(),
    }
}

/// Returns why an approval is needed: for clusters of the placement in a mass removal, or for deletions.
fn deletion_guard(
    projection: &Projection<'_>,
    old: Option<&PlacementState>,
    leaving: &BTreeMap<ClusterName, MassLeave>,
) -> Option<String> {
    let bound: BTreeSet<&ClusterName> =
        old.into_iter().flat_map(PlacementState::bindings).map(|binding| &binding.cluster).collect();
    let left: Vec<&MassLeave> = bound.into_iter().filter_map(|cluster| leaving.get(cluster)).collect();
    let record = &projection.state.record;
    let mut reasons = Vec::new();
    if let Some(with) = left.first()
        && is_guarded(record, projection.fleet)
        && !only_reports(record)
    {
        reasons.push(guard::leave_message(**with, left.len()));
    }
    reasons.extend(record.closed_gate().map(|gate| gate.reason.clone()));
    if reasons.is_empty() { None } else { Some(reasons.join("; ")) }
}

/// Returns what goes from each cluster, and what changes hands there: what it holds and shall not hold any more. What another
/// placement places there stays, under its new owner; a cluster that left the fleet keeps everything. What goes anyway is not told.
fn gone(
    projection: &Projection<'_>,
    projections: &Projections<'_>,
    old: &PlacementState,
    fleet: &FleetState,
) -> (Vec<DeletionPlan>, Vec<HandOverPlan>) {
    let mut deletions = Vec::new();
    let mut hands_over = Vec::new();
    let mut before: Option<Projection<'_>> = None;
    for (cluster, work) in &old.works {
        let target = projection.clusters.get(cluster);
        if !projection.fleet.clusters.contains(cluster.as_str()) || (target.is_some() && projection.reports_only) {
            continue;
        }
        // If the rendering fails, the present objects stay.
        if target.is_some_and(|target| target.error.is_some()) {
            continue;
        }
        // For an unknown inventory the observed objects are listed: the daemon prunes them once the inventory is complete.
        let mut gone: BTreeSet<&ObjectKey> = work.inventory.seen().iter().collect();
        if let Some(target) = target {
            gone.retain(|key| !target.keys.contains(*key));
        }
        if !gone.is_empty() {
            // Only where something goes: it makes the objects of every cluster once more.
            let before = before.get_or_insert_with(|| Projection::new(old, fleet));
            gone.retain(|key| before.keeps(cluster, key));
        }
        let ids = work.manifests.iter().map(|manifest| (manifest.id.key(), Resource(manifest.id.clone())));
        let mut resources: BTreeMap<ObjectKey, Resource> = ids.filter(|(key, _)| gone.contains(key)).collect();
        let mut by_holder: BTreeMap<Option<PlacementKey>, Vec<Resource>> = BTreeMap::new();
        for key in gone {
            let holder = projections.other_holder(projection, cluster, key);
            if holder.is_none() && projections.is_inhabited(projection, cluster, key) {
                continue;
            }
            let of_holder = by_holder.entry(holder.map(|holder| holder.state.record.key.clone())).or_default();
            of_holder.extend(resources.remove(key));
        }
        for (holder, resources) in by_holder {
            let cluster_name = cluster.clone();
            match holder {
                Some(to) => hands_over.push(HandOverPlan { cluster_name, to, resources }),
                // What a placement abandons where it leaves is not deleted.
                None if target.is_none() && projection.state.record.abandons() => {}
                None => deletions.push(DeletionPlan { cluster_name, resources }),
            }
        }
    }
    (deletions, hands_over)
}

/// Returns which objects differ, without a cluster or for the clusters that both snapshots are about.
fn resource_changes(old: Option<&Arc<ResourceSnapshot>>, new: Option<&Arc<ResourceSnapshot>>) -> ResourceChanges {
    let mut changes = changes_between(all_of(old), all_of(new));
    let (Some(old), Some(new)) = (old, new) else { return changes };
    let of_clusters = old.variants.iter().flat_map(|variants| &variants.made).filter_map(|before| {
        let after = new.variants.as_ref()?.of(&before.inputs)?;
        Some(changes_between(before.resources(&old.resources), after.resources(&new.resources)))
    });
    let of_clusters: Vec<ResourceChanges> = of_clusters.filter(|more| !more.is_empty()).collect();
    if of_clusters.is_empty() {
        return changes;
    }
    for more in of_clusters {
        changes.added.extend(more.added);
        changes.changed.extend(more.changed);
        changes.removed.extend(more.removed);
    }
    for list in [&mut changes.added, &mut changes.changed, &mut changes.removed] {
        list.sort();
        list.dedup();
    }
    changes
}

fn all_of(snapshot: Option<&Arc<ResourceSnapshot>>) -> impl Iterator<Item = &SnapshotResource> {
    snapshot.into_iter().flat_map(|snapshot| &snapshot.resources)
}

fn changes_between<'a>(
    old: impl Iterator<Item = &'a SnapshotResource>,
    new: impl Iterator<Item = &'a SnapshotResource>,
) -> ResourceChanges {
    let old: BTreeMap<ObjectKey, (Resource, Digest)> = old.map(keyed).collect();
    let new: BTreeMap<ObjectKey, (Resource, Digest)> = new.map(keyed).collect();
    let mut changes = ResourceChanges::default();
    for (key, found) in &new {
        match old.get(key) {
            None => changes.added.push(found.0.clone()),
            // Digest or identity: another API version of the same object is a change too.
            Some(before) if before != found => changes.changed.push(found.0.clone()),
            Some(_) => {}
        }
    }
    changes.removed = old.iter().filter(|(key, _)| !new.contains_key(key)).map(|(_, (id, _))| id.clone()).collect();
    changes
}

fn keyed(resource: &SnapshotResource) -> (ObjectKey, (Resource, Digest)) {
    (resource.id.key(), (Resource(resource.id.clone()), resource.digest.clone()))
}

fn cluster_changes(old: Option<&PlacementState>, projection: &Projection<'_>) -> ClusterChanges {
    let old: BTreeSet<ClusterName> = old.iter().flat_map(|state| works::picked(state)).cloned().collect();
    let new: BTreeSet<ClusterName> = projection.clusters.keys().cloned().collect();
    ClusterChanges::between(&old, &new)
}
