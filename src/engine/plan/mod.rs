//! What a tree would do to the fleet: pure.
//!
//! It runs the daemon's own [`decide`] over a world that is imagined: every cluster of the tree answers, and a base counts as
//! rolled out to the last object. So a plan is what happens, except for what only members can say.

mod secrets;
mod stages;
#[cfg(test)]
mod tests;
pub mod view;
mod works;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use rayon::prelude::*;

use super::decide::decide;
use super::disruptions::Disruptions;
use super::ocm::{Ocm, dated_taints};
use super::staged::Staged;
use super::world::{PlacementState, World, ocm_facts};
use crate::api::cluster::MemberCluster;
use crate::api::condition::find_condition;
use crate::api::placement::ApplyStrategyType;
use crate::model::id::{ClusterName, ObjectKey, PlacementKey};
use crate::model::ocm::OcmPlacementRecord;
use crate::model::records::{
    ApplyOutcome, Availability, BindingState, ClusterRecord, ManifestStatus, MemberKind, ResourceSnapshot, WorkStatus,
};
use crate::model::runs::ApprovalRules;
use crate::model::tree::Tree;
use crate::model::work::Desired;
use crate::schedule::eligibility::described;
use crate::schedule::ocm::Key;
use view::{
    Changes, ClusterChanges, DeletionPlan, OcmPlan, PlacementPlan, Plan, Resource, ResourceChanges, SnapshotPlan,
};
use works::{Ends, Outlook, Outlooks};

/// Returns what the head would do: to an empty fleet, or to one that holds all of the base. `now` is not printed; any
/// instant gives the same plan.
///
/// A cluster that the head no longer names keeps what it has. Secrets are shown; see [`Plan::hide_secrets`].
pub fn plan(head: &Arc<Tree>, base: Option<&Arc<Tree>>, now: Timestamp) -> Plan {
    let base = base.map(|tree| imagined(tree, None, now));
    let before = base.as_ref().map(|world| rolled_out(world, now));
    let world = imagined(head, base.as_ref(), now);
    let known = before.iter().flat_map(BTreeMap::keys);
    let keys: BTreeSet<&PlacementKey> = head.placements.keys().chain(known).collect();
    let keys: Vec<&PlacementKey> = keys.into_iter().collect();
    let after: Vec<PlacementState> = keys
        .into_par_iter()
        .filter_map(|key| {
            let started = before.as_ref().and_then(|states| states.get(key)).cloned();
            let state = started.or_else(|| Some(PlacementState::begin(head.placements.get(key)?, now)))?;
            Some(decide(state, &world, now).state)
        })
        .collect();
    let outlooks = Outlooks::new(after.par_iter().map(|state| Outlook::new(state, &world)).collect());
    let placements = outlooks.all.par_iter().map(|outlook| placement_plan(outlook, &outlooks, before.as_ref(), head));
    Plan {
        commit: head.commit.clone(),
        placements: placements.collect(),
        ocm_placements: ocm_plans(&world.ocm, base.as_ref().map(|base| &base.ocm)),
        errors: Vec::new(),
    }
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
        let satisfied = find_condition(&record.conditions, "PlacementSatisfied");
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

/// Returns the world in which every cluster of the tree answers, and OCM Placements go on from what they decided `before`.
pub(super) fn imagined(tree: &Arc<Tree>, before: Option<&World>, now: Timestamp) -> World {
    let record = |(name, member): (&ClusterName, &MemberCluster)| {
        let record = ClusterRecord {
            labels: member.labels.clone(),
            kind: MemberKind::Live,
            online: true,
            managed_taints: dated_taints(&[], member, now),
            ..ClusterRecord::new(name.clone(), now)
        };
        (name.clone(), record)
    };
    let records: BTreeMap<ClusterName, ClusterRecord> = tree.clusters.iter().map(record).collect();
    let mut ocm = before.map(|world| world.ocm.clone()).unwrap_or_default();
    let mut due = ocm.follow(tree);
    for (name, member) in &tree.clusters {
        due.extend(ocm.observe(name, ocm_facts(member, records.get(name), now)));
    }
    ocm.decide_each(due, now);
    let mut overrides = before.map(|world| world.overrides.clone()).unwrap_or_default();
    // What the base's clusters are made with can be named.
    let named = overrides.newest().map(|snapshot| snapshot.id.clone()).collect();
    overrides.follow(tree, &named, now);
    World {
        source: "plan".to_owned(),
        tree: Arc::clone(tree),
        clusters: tree.clusters.iter().map(|(name, member)| (name.clone(), described(member, now))).collect(),
        records,
        held: BTreeMap::new(),
        ocm,
        disruptions: Disruptions::of(tree),
        overrides,
        staged: Staged::of(tree),
        approvals: ApprovalRules::default(),
        approvers: Vec::new(),
    }
}

/// Returns every placement of a tree as if the tree were rolled out.
pub(super) fn rolled_out(world: &World, now: Timestamp) -> BTreeMap<PlacementKey, PlacementState> {
    let decided = world.tree.placements.par_iter().map(|(key, placement)| {
        let mut state = decide(PlacementState::begin(placement, now), world, now).state;
        settle(&mut state, world, now);
        (key.clone(), state)
    });
    decided.collect()
}

/// Brings every picked cluster to the newest snapshot, applied and available; one whose objects cannot be made has nothing.
fn settle(state: &mut PlacementState, world: &World, now: Timestamp) {
    let Some(newest) = state.newest().cloned() else { return };
    let strategy = state.record.spec.strategy.apply_strategy.clone().unwrap_or_default();
    let generation = state.bindings().map(|b| b.generation).max().unwrap_or_default() + 1;
    let writes = strategy.type_ != ApplyStrategyType::ReportDiff;
    let status = |id| ManifestStatus {
        id,
        applied: if writes { ApplyOutcome::Applied } else { ApplyOutcome::NoDiffFound },
        message: String::new(),
        availability: writes.then_some(Availability::Available),
        owned: None,
        differences: Vec::new(),
        differs_since: None,
    };
    let work = |objects: &[Desired]| {
        Arc::new(WorkStatus {
            generation,
            complete: true,
            manifests: objects.iter().map(|object| status(object.id.clone())).collect(),
            available_since: Some(now),
            inventory: objects.iter().filter(|_| writes).map(|object| object.key.clone()).collect(),
            ..WorkStatus::default()
        })
    };
    let Some(ends) = Ends::of(state, world) else { return };
    let common = work(&ends.payload.desired);
    for binding in state.bindings.values_mut().map(Arc::make_mut) {
        binding.state = BindingState::Bound;
        binding.snapshot = Some(newest.index);
        binding.apply_strategy = strategy.clone();
        binding.overrides = ends.picked(&binding.cluster);
        binding.started_at = Some(now);
        binding.generation = generation;
        let work = match ends.objects(&binding.cluster, &binding.overrides) {
            Ok(objects) if Arc::ptr_eq(&objects, &ends.payload.desired) => Arc::clone(&common),
            Ok(objects) => work(&objects),
            Err(_) => continue,
        };
        state.works.insert(binding.cluster.clone(), work);
    }
    // Its runs are over and forgotten: the next snapshot begins one of its own.
    state.runs.clear();
    state.record.last_succeeded = Some(newest.index);
}

/// Says what becomes of a placement. `before` is how the base's placements stand.
fn placement_plan(
    outlook: &Outlook<'_>,
    outlooks: &Outlooks<'_>,
    before: Option<&BTreeMap<PlacementKey, PlacementState>>,
    head: &Tree,
) -> PlacementPlan {
    let record = &outlook.state.record;
    let old = before.and_then(|states| states.get(&record.key));
    let origin = head.placements.get(&record.key).map(|placement| &placement.origin);
    let in_force = outlook.state.newest().filter(|_| !record.removed);
    let policy = outlook.state.policy().filter(|_| !record.removed);
    PlacementPlan {
        name: record.key.name.clone(),
        kind: record.key.kind(),
        namespace: record.key.namespace.clone(),
        path: origin.map(|origin| origin.path.to_string()),
        line: origin.map(|origin| origin.line),
        error: record.error.clone(),
        removed: record.removed,
        snapshot: in_force.map(|snapshot| SnapshotPlan::from(snapshot.as_ref())),
        decisions: policy.map(|policy| policy.target_clusters.clone()).unwrap_or_default(),
        rollout: stages::rollout_plan(outlook.state, outlook.world),
        works: outlook.works(outlooks),
        deletions: old.map(|old| deletions(outlook, outlooks, old)).unwrap_or_default(),
        deletion_guard: record.closed_gate().map(|gate| gate.reason.clone()),
        changes: before.map(|_| Changes {
            resources: resource_changes(old.and_then(PlacementState::newest), in_force),
            clusters: cluster_changes(old, outlook),
            overridden: old.map(|old| outlook.overridden_otherwise(old)).unwrap_or_default(),
        }),
    }
}

/// Returns what goes from each cluster: what it holds and shall not hold any more. What another placement places there
/// stays, under its new owner; a cluster that left the fleet keeps everything.
fn deletions(outlook: &Outlook<'_>, outlooks: &Outlooks<'_>, old: &PlacementState) -> Vec<DeletionPlan> {
    let mut deletions = Vec::new();
    for (cluster, work) in &old.works {
        let target = outlook.clusters.get(cluster);
        if !outlook.world.clusters.contains(cluster.as_str()) || (target.is_some() && outlook.reports_only) {
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
        let gone: BTreeSet<&ObjectKey> = work.inventory.iter().filter(|key| !stays(key)).collect();
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
