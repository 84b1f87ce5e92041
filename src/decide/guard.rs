//! The deletion guard: which deletions wait for a person, and what each cluster loses.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::Pass;
use super::overrides::NewlyMade;
use super::state::{Claims, FleetState};
use deliver::guard;
use deliver::guard::guarded;
use model::api::annotations::DELETION_GUARD;
use model::api::placement::ApplyStrategyType;
use model::id::{ClusterName, ObjectKey};
use model::records::{BindingState, DeletionGate, PlacementRecord};

/// What clusters lose on the way to the upcoming snapshots.
pub(super) struct Guarded {
    /// The deletions that wait for a person.
    pub gate: Option<DeletionGate>,
    /// Clusters that hold something they may not keep.
    pub losing: BTreeSet<ClusterName>,
    /// What they hold of that, on clusters that stay.
    pub lost: Claims,
    /// Objects that had to be rendered for this.
    pub rendered: NewlyMade,
}

impl Pass<'_> {
    /// Returns the deletions on the way to the `upcoming` snapshots, and which of them wait for a person.
    pub(super) fn guard(&self, upcoming: &BTreeSet<u64>) -> Guarded {
        // A placement that only reports prunes nothing on a cluster that stays. A cluster that leaves may hold objects from an
        // earlier strategy.
        let (kept, rendered) = if only_reports(&self.state.record) { Default::default() } else { self.kept(upcoming) };
        let gate = self.guarded(&kept);
        let gate = gate.map(|gate| DeletionGate { approvers: self.state.record.narrowed.clone(), ..gate });
        Guarded { gate, lost: self.lost(&kept), losing: kept.into_keys().collect(), rendered }
    }

    /// Returns what clusters that stay lose.
    fn lost(&self, kept: &BTreeMap<ClusterName, BTreeSet<ObjectKey>>) -> Claims {
        let lost = kept.iter().filter_map(|(cluster, kept)| {
            let inventory = self.state.works.get(cluster)?.inventory.seen();
            Some((cluster.clone(), inventory.difference(kept).cloned().collect()))
        });
        lost.collect()
    }

    fn guarded(&self, kept: &BTreeMap<ClusterName, BTreeSet<ObjectKey>>) -> Option<DeletionGate> {
        if !is_guarded(&self.state.record, self.fleet) {
            return None;
        }
        let leaving = self.leaving();
        // Objects that appeared on a cluster after its removal was decided.
        let mut turned_up: BTreeMap<ClusterName, BTreeSet<ObjectKey>> = self.turned_up();
        // Abandoned objects stay, whenever they appear.
        for binding in self.state.bindings().filter(|b| b.deleting && b.abandons) {
            turned_up.remove(&binding.cluster);
        }
        if kept.is_empty() && leaving.is_empty() && turned_up.is_empty() && !self.leaves_a_cluster() {
            return None;
        }
        let record = &self.state.record;
        let mut members = BTreeMap::new();
        // First: on a cluster that is picked again the removal deletes objects.
        for (cluster, objects) in turned_up {
            let inventory = Cow::Owned(objects);
            members.insert(cluster, guard::GuardedMember::Known { inventory, desired: Cow::default(), leaves: true });
        }
        for binding in self.state.bindings().filter(|b| !b.deleting && !leaving.contains_key(&b.cluster)) {
            // Without a report there is nothing to delete.
            let Some(work) = self.state.works.get(&binding.cluster) else { continue };
            let leaves = binding.state == BindingState::Unscheduled;
            let member = work.inventory.known().map_or(guard::GuardedMember::Unknown { leaves }, |inventory| {
                let desired = match (kept.get(&binding.cluster), self.state.others.claimed.get(&binding.cluster)) {
                    // The cluster leaves: it loses everything except objects that are handed over.
                    (_, None) if leaves && !record.abandons() => Cow::default(),
                    (_, Some(claimed)) if leaves && !record.abandons() => Cow::Borrowed(claimed),
                    // The cluster stays, and loses what any of its upcoming snapshots lacks.
                    (Some(kept), None) => Cow::Borrowed(kept),
                    (Some(kept), Some(claimed)) => Cow::Owned(kept.union(claimed).cloned().collect()),
                    // The cluster stays and loses nothing, or leaves and its objects are abandoned.
                    (None, _) => Cow::Borrowed(inventory),
                };
                guard::GuardedMember::Known { inventory: Cow::Borrowed(inventory), desired, leaves }
            });
            members.entry(binding.cluster.clone()).or_insert(member);
        }
        let found = guarded(&record.key, record.removed, &members, &leaving)?;
        // Approved deletions may be executed in parts: the remaining part needs no second approval. Objects that are no longer
        // to be deleted are dropped from it.
        let approved = record.deletion_gate.as_ref().filter(|gate| gate.opened_at.is_some());
        if let Some(gate) = approved
            && is_part_of(&found.deletions, &gate.deletions)
            && found.leaving.is_subset(&gate.leaving)
        {
            return Some(DeletionGate { deletions: found.deletions, leaving: found.leaving, ..gate.clone() });
        }
        // The same deletions as before: approvals given for them still count.
        let known = record.deletion_gate.as_ref().filter(|gate| gate.digest == found.digest);
        Some(known.cloned().unwrap_or_else(|| DeletionGate {
            digest: found.digest,
            reason: found.reason,
            deletions: found.deletions,
            leaving: found.leaving,
            since: self.now,
            approvers: None,
            approvals: Vec::new(),
            opened_at: None,
        }))
    }
}

/// Tells whether a placement writes nothing to its clusters.
pub fn only_reports(record: &PlacementRecord) -> bool {
    let strategy = record.spec.strategy.apply_strategy.as_ref().map(|strategy| strategy.type_);
    !record.removed && strategy == Some(ApplyStrategyType::ReportDiff)
}

/// Tells whether deletions of a placement wait for a person. A commit that switches the guard off is still guarded itself, and
/// so is a gate that the guard closed before.
pub fn is_guarded(record: &PlacementRecord, fleet: &FleetState) -> bool {
    let is_off = record.annotations.get(DELETION_GUARD).is_some_and(|value| value == "Off");
    let is_new = record.guard_off_at.is_some() && record.guard_off_at == fleet.tree.commit;
    !is_off || fleet.floor.deletion_guard || is_new || record.closed_gate().is_some()
}

/// Tells whether all objects of some claims or deletions are among others, on the same clusters.
pub(super) fn is_part_of(some: &Claims, all: &Claims) -> bool {
    some.iter().all(|(cluster, keys)| all.get(cluster).is_some_and(|known| keys.is_subset(known)))
}
