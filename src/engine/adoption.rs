//! Adoption of a new store while members already hold inventories: an earlier store was lost, and with it the decisions of
//! people. Nothing starts until a person adopts the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::{Batch, Core, Effect};
use decide::found::FoundSnapshot;
use deliver::inventory::Held;
use model::id::{ClusterName, CommitId, PlacementKey};
use model::records::{Binding, Kept, StoreRecord};

impl Core {
    /// Has what members hold of placements with a hold read from git, before the decisions that take the holds over.
    pub(super) fn find_what_is_held(&mut self) {
        for (key, kept) in &self.fleet.kept {
            let is_due = self.queue.placements.contains(key);
            let holders = self.fleet.holders.get(key).filter(|holders| is_due && holders.found.is_none());
            let Some(held) = holders.zip(kept.held.as_ref()).and_then(|(holders, hold)| holders.agreed(hold)) else {
                continue;
            };
            let is_lost = self.placements.get(key).is_some_and(|state| !state.snapshots.contains_key(&held.index));
            if is_lost && self.source.payloads.begin(key, held.index) {
                self.effects.push(Effect::ReadHeld(key.clone(), held.clone()));
            }
        }
    }

    /// Takes what members hold of a placement, so that it is decided.
    pub(super) fn note_found(&mut self, key: PlacementKey, index: u64, found: Result<Box<FoundSnapshot>, String>) {
        self.source.payloads.end(&key, index);
        if let Err(reason) = &found {
            tracing::warn!(
                placement = %key, snapshot = index, reason,
                "git does not have what members hold: members keep it, manual changes are not undone, and no other cluster gets it"
            );
        }
        self.fleet.holders.entry(key.clone()).or_default().found = Some(found.ok().map(Arc::from));
        self.queue.placements.insert(key);
    }

    /// Takes what a member holds of this source, and the decisions of people that it keeps.
    pub(super) fn note_holder(
        &mut self,
        cluster: &ClusterName,
        holds: &BTreeMap<PlacementKey, Option<Held>>,
        kept: BTreeMap<PlacementKey, Kept>,
        now: Timestamp,
    ) {
        self.members.answered.insert(cluster.clone());
        if self.persistence.may_lack_decisions(cluster) {
            self.find_decisions(cluster, holds, kept);
        }
        self.persistence.note_holder(cluster, holds.len(), now);
    }

    /// Takes the decisions of people that a member keeps, and what it holds, for the next decisions.
    fn find_decisions(
        &mut self,
        cluster: &ClusterName,
        holds: &BTreeMap<PlacementKey, Option<Held>>,
        kept: BTreeMap<PlacementKey, Kept>,
    ) {
        for (key, has) in holds {
            let Some(has) = has else { continue };
            let hold = kept.get(key).and_then(|kept| kept.held.as_ref());
            self.fleet.holders.entry(key.clone()).or_default().note(cluster, hold, has);
        }
        for (key, kept) in kept {
            // The index of a held snapshot counts as used, or the next snapshot would get it.
            if let Some(held) = &kept.held {
                let known = self.fleet.held.get(&key);
                if known.is_none_or(|known| known.index < held.index) {
                    let commit = known.map_or_else(|| CommitId::from(""), |known| known.commit.clone());
                    let held = Held { index: held.index, commit, digest: held.hash.clone() };
                    self.fleet.held.insert(key.clone(), held);
                }
            }
            if self.placements.contains_key(&key) {
                self.queue.placements.insert(key.clone());
            }
            self.fleet.kept.entry(key).or_default().join(kept);
        }
    }

    /// Records which snapshot of a placement a member holds. A decision is stored before members receive its orders, so a
    /// member with a newer snapshot than the store received it after the backup that the store was restored from. The same
    /// holds for a member that was not checked since the restore and holds a newer snapshot than the store says it was ordered
    /// to hold.
    pub(super) fn note_held(&mut self, cluster: &ClusterName, key: PlacementKey, held: Held, is_unseen: bool) {
        let is_of = |binding: &&Binding| binding.cluster == *cluster;
        let is_older = |binding: &Binding| binding.snapshot.is_some_and(|assigned| assigned < held.index);
        // The bindings last, because there may be thousands.
        if let Some(state) = self.placements.get(&key)
            && (is_unseen || state.snapshots.get(&held.index).is_none_or(|known| known.hash != held.digest))
            && state.bindings().filter(is_of).any(is_older)
        {
            tracing::warn!(
                cluster = %cluster,
                placement = %key,
                snapshot = held.index,
                "holds a newer snapshot than the store says: the store is older; the cluster keeps it until it is its turn"
            );
            self.fleet.ahead.entry(key.clone()).or_default().insert(cluster.clone(), held.index);
            self.queue.placements.insert(key.clone());
        }
        let known = self.fleet.held.get(&key);
        if known.is_none_or(|known| known.index < held.index) {
            self.fleet.held.insert(key, held);
        }
    }

    /// Marks the store as used by the decisions of a batch.
    pub(super) fn begin_store(&mut self, batch: &mut Batch, now: Timestamp) {
        let mut unanswered = Vec::new();
        let tasks = if self.persistence.begins_store() { Some(self.members.tasks.keys()) } else { None };
        for name in tasks.into_iter().flatten() {
            // What is on the server of another cluster was asked there.
            let is_another = self.fleet.records.get(name).is_some_and(|record| record.same_as.is_some());
            if !is_another && !self.members.answered.contains(name) {
                unanswered.push(name.clone());
            }
        }
        self.persistence.begin_store(batch, unanswered, now);
    }

    /// Ends the takeover for the placements that a batch decides: their decisions include what members keep. Returns the store's record
    /// before, if that changes it.
    pub(super) fn end_taking_over(&mut self) -> Option<StoreRecord> {
        if self.fleet.kept.keys().any(|key| self.placements.contains_key(key)) {
            return None;
        }
        let ahead: BTreeSet<&ClusterName> = self.fleet.ahead.values().flat_map(BTreeMap::keys).collect();
        // A member that holds something newer stays unseen until a decision has undone its binding.
        let stays_unseen = |cluster: &ClusterName| !self.members.answered.contains(cluster) || ahead.contains(cluster);
        self.persistence.end_taking_over(self.fleet.source_unread, stays_unseen)
    }
}
