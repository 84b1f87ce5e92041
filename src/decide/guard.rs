//! Which deletions wait for a person, and what clusters lose.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::state::World;
use super::{Pass, runs};
use crate::api::annotations::DELETION_GUARD;
use crate::api::placement::ApplyStrategyType;
use crate::deliver::guard::{self, guarded};
use crate::model::id::{ClusterName, ObjectKey};
use crate::model::records::{BindingState, DeletionGate, PlacementRecord};

impl Pass<'_> {
    /// Writes down the deletions that wait for a person, if any, on the way to the snapshots that clusters may come to. Returns the
    /// clusters that hold something which they may not keep.
    pub(super) fn guard(&mut self, upcoming: &BTreeSet<u64>) -> BTreeSet<ClusterName> {
        // What only reports prunes nothing of a cluster that stays. One that leaves may hold what was applied before.
        let kept = if only_reports(&self.state.record) { BTreeMap::new() } else { self.kept(upcoming) };
        let gate = self.guarded(&kept);
        self.state.record.deletion_gate = gate.map(|gate| {
            let active = self.active_run();
            let approvers = runs::deletion_approvers(&self.state, self.world).map(str::to_owned);
            let approvers_before = active.and_then(|run| run.approvers_before.clone());
            DeletionGate { approvers, approvers_before, ..gate }
        });
        kept.into_keys().collect()
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
        // Before the other bindings: of a cluster that is picked again the removal is what deletes.
        for (cluster, objects) in turned_up {
            let inventory = Cow::Owned(objects);
            members.insert(cluster, guard::GuardedMember::Known { inventory, desired: Cow::default(), leaves: true });
        }
        for binding in self.state.bindings().filter(|b| !b.deleting && !leaving.contains_key(&b.cluster)) {
            // Nobody has said anything about it, so there is nothing to delete.
            let Some(work) = self.state.works.get(&binding.cluster) else { continue };
            let leaves = binding.state == BindingState::Unscheduled;
            let member = work.inventory.known().map_or(guard::GuardedMember::Unknown { leaves }, |inventory| {
                let desired = match (kept.get(&binding.cluster), self.state.claimed.get(&binding.cluster)) {
                    // It leaves, so everything goes but what changes hands.
                    (_, None) if leaves && !record.abandons() => Cow::default(),
                    (_, Some(claimed)) if leaves && !record.abandons() => Cow::Borrowed(claimed),
                    // It stays, and loses what any snapshot lacks that it may come to.
                    (Some(kept), None) => Cow::Borrowed(kept),
                    (Some(kept), Some(claimed)) => Cow::Owned(kept.union(claimed).cloned().collect()),
                    // It stays and loses nothing, or it leaves and what it holds is abandoned.
                    (None, _) => Cow::Borrowed(inventory),
                };
                guard::GuardedMember::Known { inventory: Cow::Borrowed(inventory), desired, leaves }
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
        // The same deletions as before: approvals that were given of them still count.
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
}

/// Tells whether a placement writes nothing to its clusters.
pub(crate) fn only_reports(record: &PlacementRecord) -> bool {
    let strategy = record.spec.strategy.apply_strategy.as_ref().map(|strategy| strategy.type_);
    !record.removed && strategy == Some(ApplyStrategyType::ReportDiff)
}

/// Tells whether deletions of a placement wait for a person. A guard that is switched off stands for the commit that does so, and
/// for as long as a gate that it closed.
pub(crate) fn is_guarded(record: &PlacementRecord, world: &World) -> bool {
    let is_off = record.annotations.get(DELETION_GUARD).is_some_and(|value| value == "Off");
    let is_new = record.guard_off_at.is_some() && record.guard_off_at == world.tree.commit;
    !is_off || world.floor.deletion_guard || is_new || record.closed_gate().is_some()
}

type Deletions = BTreeMap<ClusterName, BTreeSet<ObjectKey>>;

fn is_part_of(some: &Deletions, all: &Deletions) -> bool {
    some.iter().all(|(cluster, keys)| all.get(cluster).is_some_and(|known| keys.is_subset(known)))
}
