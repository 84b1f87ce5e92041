//! The fleet that plans, pull requests, explanations and offline scheduling start from: imagined from a tree, described by a
//! hub's objects, or taken from a daemon's records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use rayon::prelude::*;

use super::namespaces::bring_namespaces;
use super::works::FinalState;
use config::Configuration;
use decide::decide;
use decide::evictions::Disruptions;
use decide::ocm::{Ocm, dated_taints};
use decide::render::named;
use decide::state::{FleetState, PlacementState, clusters, mark_leavers, ocm_facts};
use decide::strategies::Staged;
use engine::identity;
use engine::persist::SavedRecords;
use model::api::cluster::MemberCluster;
use model::api::placement::ApplyStrategyType;
use model::facts;
use model::id::{ClusterName, ObjectKey, PlacementKey};
use model::overrides::OverrideRef;
use model::records::{
    ApplyOutcome, Availability, BindingState, ClusterRecord, ManifestStatus, MassLeave, MemberKind, WorkStatus,
};
use model::tenants::Tenants;
use model::tree::Tree;
use model::work::Desired;
use schedule::Fleet;
use schedule::eligibility::described;
use schedule::ocm::Key;

/// The reference time for heartbeats in a tree: all of them count as fresh. A daemon does not read heartbeats.
const HEARTBEATS_AT: Timestamp = Timestamp::UNIX_EPOCH;

/// A fleet and its placements, as plans, explanations and pull requests start from it. By default a fleet that holds nothing.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    /// The fleet, with the accepted tree.
    pub fleet: FleetState,
    /// The placements, by key.
    pub placements: BTreeMap<PlacementKey, PlacementState>,
    /// Clusters are as they were seen; otherwise as their objects describe them.
    observed: bool,
}

impl Baseline {
    /// Takes what a daemon knows. Objects and snapshots are shared, records are copied: take it once for each plan.
    pub fn of(fleet: &FleetState, placements: &BTreeMap<PlacementKey, PlacementState>) -> Self {
        Self { fleet: fleet.clone(), placements: placements.clone(), observed: true }
    }

    /// Takes the records that a daemon left, and the tree of the commit that they say is accepted. Nothing is decided again.
    pub fn from_records(configuration: &Configuration, saved: SavedRecords, tree: Arc<Tree>, now: Timestamp) -> Self {
        let mut ocm = Ocm::restore(saved.ocm);
        observe(&mut ocm, &tree, &saved.clusters, now);
        let fleet = FleetState {
            source: identity(configuration).into(),
            tenants: Arc::new(configuration.tenants()),
            clusters: clusters(&tree, &saved.clusters, now),
            records: saved.clusters,
            ocm,
            tree,
            ..FleetState::default()
        };
        Self { fleet, placements: saved.placements, observed: true }
    }

    /// Takes a fleet that holds nothing, of which tenants may have what the configuration says.
    pub fn of_tenants(tenants: Tenants) -> Self {
        Self { fleet: FleetState { tenants: Arc::new(tenants), ..FleetState::default() }, ..Self::default() }
    }

    /// Takes a tree that counts as rolled out to the last object, on clusters that all answer.
    pub fn rolled_out(tree: &Arc<Tree>, now: Timestamp) -> Self {
        Self::default().rolling_out(tree, now)
    }

    /// As [`Self::rolled_out`], with the tenants of a fleet that holds nothing.
    #[must_use]
    pub fn rolling_out(&self, tree: &Arc<Tree>, now: Timestamp) -> Self {
        let mut fleet = hypothetical(tree, &self.fleet, now);
        let mut states = decide_all(tree, &fleet, now);
        if Self::default().bring_namespaces(&mut fleet, &states) {
            states = decide_all(tree, &fleet, now);
        }
        states.par_iter_mut().for_each(|state| settle(state, &fleet, now));
        let placements = states.into_iter().map(|state| (state.record.key.clone(), state)).collect();
        Self { fleet, placements, observed: false }
    }

    /// Gives the clusters of a fleet the namespaces that they have once placements are where they are `after` a commit. Returns
    /// whether a cluster changed.
    pub(super) fn bring_namespaces(&self, fleet: &mut FleetState, after: &[PlacementState]) -> bool {
        bring_namespaces(fleet, |name| self.has_observed(name), self.placements.values(), after)
    }

    fn has_observed(&self, cluster: &ClusterName) -> bool {
        self.observed && self.fleet.records.contains_key(cluster)
    }

    /// Returns the fleet once a head is accepted and before any placement is decided: bindings are those from before, which
    /// say who is kept, and the wishes are the head's.
    #[must_use]
    pub fn accepting(&self, head: &Arc<Tree>, now: Timestamp) -> Self {
        let mut placements = BTreeMap::new();
        for (key, placement) in &head.placements {
            let before = self.placements.get(key).cloned();
            let mut state = before.unwrap_or_else(|| PlacementState::begin(placement, now));
            state.record.spec = placement.spec.clone();
            state.record.annotations.clone_from(&placement.annotations);
            placements.insert(key.clone(), state);
        }
        Self { fleet: self.fleet_after(head, now), placements, observed: self.observed }
    }

    /// Returns the accepted tree.
    pub fn tree(&self) -> &Arc<Tree> {
        &self.fleet.tree
    }

    /// Returns the placements of the accepted tree. A removal under way is not an effect of a head.
    pub(super) fn placements(&self) -> impl Iterator<Item = &PlacementKey> {
        self.placements.keys().filter(|key| self.fleet.tree.placements.contains_key(key))
    }

    /// Returns the clusters that a head removes from the fleet, if they are a mass removal.
    pub(super) fn mass_leave(&self, head: &Tree, now: Timestamp) -> BTreeMap<ClusterName, MassLeave> {
        let mut records = self.fleet.records.clone();
        // `members:` is not part of the tree: no head removes an entry.
        let left = mark_leavers(&mut records, head, |_| true, now);
        left.into_iter().filter_map(|name| records[&name].left_with.map(|with| (name, with))).collect()
    }

    /// Returns the fleet once a head is accepted. Clusters have left by then: a plan describes the end.
    pub(super) fn fleet_after(&self, head: &Arc<Tree>, now: Timestamp) -> FleetState {
        if !self.observed {
            return hypothetical(head, &self.fleet, now);
        }
        let mut records = BTreeMap::new();
        for (name, member) in &head.clusters {
            // A cluster without an entry in `members:` has left even if the accepted tree names it.
            let mut record = match self.fleet.records.get(name) {
                Some(known) if !known.left || self.fleet.tree.clusters.contains_key(name) => known.clone(),
                _ => answering(name, member, now),
            };
            record.labels.clone_from(&member.labels);
            record.spec.clone_from(&member.spec);
            // Taints keep their dates: a toleration for some seconds counts from the date of the taint.
            record.managed_taints = dated_taints(&record.managed_taints, member, now);
            record.stated = facts::stated(member);
            records.insert(name.clone(), record);
        }
        let fleet = clusters(head, &records, now);
        FleetState {
            source: self.fleet.source.clone(),
            held: self.fleet.held.clone(),
            approvals: self.fleet.approvals,
            ..with_fleet(head, &self.fleet, (fleet, records), &named(self.placements.values()), now)
        }
    }
}

/// Decides about every placement of a tree, from a state in which it is nowhere.
fn decide_all(tree: &Tree, fleet: &FleetState, now: Timestamp) -> Vec<PlacementState> {
    let begun = tree.placements.par_iter().map(|(_, placement)| PlacementState::begin(placement, now));
    begun.map(|state| decide(state, fleet, now).state).collect()
}

/// Returns the record of a cluster that was never observed and is assumed to answer.
fn answering(name: &ClusterName, member: &MemberCluster, now: Timestamp) -> ClusterRecord {
    ClusterRecord {
        labels: member.labels.clone(),
        kind: MemberKind::Live,
        online: true,
        managed_taints: dated_taints(&[], member, now),
        ..ClusterRecord::new(name.clone(), now)
    }
}

/// Returns the fleet in which every cluster of the tree answers, and OCM Placements continue from what they decided `before`.
fn hypothetical(tree: &Arc<Tree>, before: &FleetState, now: Timestamp) -> FleetState {
    let records = tree.clusters.iter().map(|(name, member)| (name.clone(), answering(name, member, now))).collect();
    let fleet = tree.clusters.iter().map(|(name, member)| (name.clone(), described(member, HEARTBEATS_AT))).collect();
    with_fleet(tree, before, (fleet, records), &BTreeSet::new(), now)
}

/// Returns the fleet of a hub that exported its objects, as MemberClusters describe it; with `managed`, ManagedClusters without
/// one too, which KubeFleet does not know.
pub(super) fn exported(tree: &Tree, managed: bool, now: Timestamp) -> Fleet {
    let members = tree.clusters.iter().filter(|(_, member)| managed || !member.only_managed);
    let clusters = members.map(|(name, member)| {
        let mut cluster = described(member, now);
        if member.deleting {
            cluster.eligible = Err("it is being deleted".to_owned());
        }
        (name.clone(), cluster)
    });
    clusters.collect()
}

/// Shows OCM Placements a tree and its clusters. Returns whom that concerns.
fn observe(
    ocm: &mut Ocm,
    tree: &Tree,
    records: &BTreeMap<ClusterName, ClusterRecord>,
    now: Timestamp,
) -> BTreeSet<Key> {
    let mut due = ocm.follow(tree);
    for (name, member) in &tree.clusters {
        due.extend(ocm.observe(name, ocm_facts(member, records.get(name), now)));
    }
    due
}

/// Returns the fleet of a tree with these clusters. OCM Placements and overrides continue from what was `before`, of which
/// snapshots of overrides that are `named` stay.
fn with_fleet(
    tree: &Arc<Tree>,
    before: &FleetState,
    (clusters, records): (Fleet, BTreeMap<ClusterName, ClusterRecord>),
    named: &BTreeSet<OverrideRef>,
    now: Timestamp,
) -> FleetState {
    // First: placements that follow an OCM Placement take what it picked.
    let mut ocm = before.ocm.clone();
    let due = observe(&mut ocm, tree, &records, now);
    ocm.decide_each(due, now);
    let mut overrides = before.overrides.clone();
    // What the base's clusters are made with can be named.
    let newest = overrides.newest().map(|snapshot| snapshot.id.clone());
    let named = newest.chain(named.iter().cloned()).collect();
    overrides.follow(tree, &named, now);
    FleetState {
        source: "plan".into(),
        tree: Arc::clone(tree),
        clusters,
        records,
        ocm,
        disruptions: Disruptions::of(tree),
        overrides,
        staged: Staged::of(tree),
        floor: before.floor.clone(),
        tenants: Arc::clone(&before.tenants),
        ..FleetState::default()
    }
}

/// Brings every picked cluster to the newest snapshot, applied and available; one whose objects cannot be made has nothing.
fn settle(state: &mut PlacementState, fleet: &FleetState, now: Timestamp) {
    let Some(newest) = state.newest().cloned() else { return };
    let strategy = state.record.spec.strategy.apply_strategy.clone().unwrap_or_default();
    let generation = state.bindings().map(|b| b.generation).max().unwrap_or_default() + 1;
    let writes = strategy.type_ != ApplyStrategyType::ReportDiff;
    let settled = WorkStatus { generation, complete: true, available_since: Some(now), ..WorkStatus::default() };
    let Some(last) = FinalState::of(state, fleet) else { return };
    // Most clusters have no overrides: they share one work instead of a copy for each.
    let common = Arc::new(holding(&last.payload.desired, writes, settled.clone()));
    for binding in state.bindings.values_mut().map(Arc::make_mut) {
        binding.state = BindingState::Bound;
        binding.snapshot = Some(newest.index);
        binding.apply_strategy = strategy.clone();
        binding.overrides = last.picked(&binding.cluster);
        binding.started_at = Some(now);
        binding.generation = generation;
        let work = match last.objects(&binding.cluster, &binding.overrides) {
            Ok(objects) if Arc::ptr_eq(&objects, &last.payload.desired) => Arc::clone(&common),
            Ok(objects) => Arc::new(holding(&objects, writes, settled.clone())),
            // A failed rendering was never delivered, so the cluster has no work.
            Err(_) => continue,
        };
        state.works.insert(binding.cluster.clone(), work);
    }
    // Its runs are over and forgotten: the next snapshot starts a new one.
    state.runs.clear();
    state.record.last_succeeded = Some(newest.index);
}

/// Returns a work with these objects as if all were applied and available; where nothing is written, as compared and in no inventory.
fn holding(objects: &[Desired], writes: bool, work: WorkStatus) -> WorkStatus {
    let manifests = objects.iter().map(|object| ManifestStatus {
        id: object.id.clone(),
        applied: if writes { ApplyOutcome::Applied } else { ApplyOutcome::NoDiffFound },
        message: String::new(),
        availability: writes.then_some(Availability::Available),
        generation: None,
        manifest: None,
        owned: None,
        differences: Vec::new(),
        differs_since: None,
        observed_at: None,
    });
    let written = if writes { objects } else { &[] };
    let inventory = written.iter().map(|object| ObjectKey::clone(&object.key)).collect();
    WorkStatus { manifests: manifests.collect(), inventory, ..work }
}
