//! Adoption of a new store while members already hold inventories: an earlier store was lost, and with it the decisions of
//! people. Nothing starts until a person adopts the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::persist::write_down;
use super::{Batch, Core, Effect};
use crate::store::Op;
use crate::store::records::STORE_KEY;
use config::OnEmptyStore;
use decide::found::FoundSnapshot;
use deliver::inventory::Held;
use model::commands::{Done, Person, Refusal, RefusalReason};
use model::id::{ClusterName, CommitId, PlacementKey};
use model::records::{Binding, Kept, StoreRecord};

/// The actor that the journal names when the configuration adopts the store.
const BY_CONFIGURATION: &str = "store.onEmpty: Adopt";

impl Core {
    /// Returns why nothing starts before a person has adopted the store; `None` if no adoption is pending.
    pub fn adoption_complaint(&self) -> Option<String> {
        self.store.as_ref().and_then(StoreRecord::complaint)
    }

    /// Tells whether nothing starts before a person has adopted the store.
    pub(super) fn waits_for_adoption(&self) -> bool {
        self.store.as_ref().is_some_and(StoreRecord::waits)
    }

    /// Has what members hold of placements with a hold read from git, before the decisions that take the holds over.
    pub(super) fn find_what_is_held(&mut self) {
        for (key, kept) in &self.fleet.kept {
            let is_due = self.queue.placements.contains(key);
            let holders = self.fleet.holders.get(key).filter(|holders| is_due && holders.found.is_none());
            let Some(held) = holders.zip(kept.held.as_ref()).and_then(|(holders, hold)| holders.agreed(hold)) else {
                continue;
            };
            let is_lost = self.placements.get(key).is_some_and(|state| !state.snapshots.contains_key(&held.index));
            if is_lost && self.reading.insert((key.clone(), held.index)) {
                self.effects.push(Effect::ReadHeld(key.clone(), held.clone()));
            }
        }
    }

    /// Takes what members hold of a placement, so that it is decided.
    pub(super) fn note_found(&mut self, key: PlacementKey, index: u64, found: Result<Box<FoundSnapshot>, String>) {
        self.reading.remove(&(key.clone(), index));
        if let Err(reason) = &found {
            tracing::warn!(
                placement = %key, snapshot = index, reason,
                "git does not have what members hold: members keep it, manual changes are not undone, and no other cluster gets it"
            );
        }
        self.fleet.holders.entry(key.clone()).or_default().found = Some(found.ok().map(Arc::from));
        self.queue.placements.insert(key);
    }

    /// Records how many inventories of this source a member holds. A new store, or one that has not seen the member since its
    /// restore, wrote none of them.
    pub(super) fn note_holder(
        &mut self,
        cluster: &ClusterName,
        holds: &BTreeMap<PlacementKey, Option<Held>>,
        kept: BTreeMap<PlacementKey, Kept>,
        now: Timestamp,
    ) {
        self.answered.insert(cluster.clone());
        // In every other process the store knows the decisions of people, and an offline member may have missed the last one.
        let is_asked =
            self.store.as_ref().is_none_or(|store| store.waits() || store.takes_over || store.unseen.contains(cluster));
        for (key, has) in holds.iter().filter(|_| is_asked).filter_map(|(key, has)| Some((key, has.as_ref()?))) {
            let hold = kept.get(key).and_then(|kept| kept.held.as_ref());
            self.fleet.holders.entry(key.clone()).or_default().note(cluster, hold, has);
        }
        for (key, kept) in kept.into_iter().filter(|_| is_asked) {
            // The index of a held snapshot counts as used, or the next snapshot would get it.
            if let Some(held) = &kept.held {
                let known = self.fleet.held.get(&key);
                if known.is_none_or(|known| known.index < held.index) {
                    let commit = known.map_or_else(|| CommitId::from(""), |known| known.commit.clone());
                    let held = Held { index: held.index, commit, digest: held.hash.clone() };
                    self.fleet.held.insert(key.clone(), held);
                }
            }
            self.queue.placements.extend(Some(key.clone()).filter(|key| self.placements.contains_key(key)));
            self.fleet.kept.entry(key).or_default().join(kept);
        }
        let is_unknown = self
            .store
            .as_ref()
            .is_none_or(|store| store.adopted.is_none() && (store.waits() || store.unseen.contains(cluster)));
        // Before a first decision no record contains what a member holds beyond the backup.
        if let Some(store) = self.store.as_mut().filter(|store| store.adopted.is_none()) {
            store.unseen.remove(cluster);
        }
        if !is_unknown || holds.is_empty() {
            return;
        }
        let store = self.store.get_or_insert_with(|| StoreRecord::new(now));
        let is_new = store.found.insert(cluster.clone(), holds.len()).is_none();
        if self.configuration.store.on_empty == OnEmptyStore::Adopt {
            store.adopt(BY_CONFIGURATION, now);
            tracing::warn!(
                cluster = %cluster,
                "the store is new, but members hold what this source delivered before; gitfleet continues from that, because \
                 store.onEmpty says Adopt"
            );
        } else if let Some(complaint) = store.complaint().filter(|_| is_new) {
            tracing::warn!(about = %complaint, "the store is new, and waits for a person");
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

    /// Writes the store's record into the batch if it changed.
    pub(super) fn write_store(&self, batch: &mut Batch) {
        if let Some(store) = self.store.as_ref().filter(|_| self.store != self.stored_store)
            && write_down(batch, STORE_KEY.to_owned(), store)
        {
            batch.store = Some(store.clone());
        }
    }

    /// Marks the store as used: something is decided, so it is no longer new.
    pub(super) fn begin_store(&mut self, batch: &mut Batch, now: Timestamp) {
        let is_new = self.store.as_ref().is_none_or(|store| store.takes_over);
        let store = self.store.get_or_insert_with(|| StoreRecord::new(now));
        // A member that did not answer in time is checked when it answers: it may hold inventories of an earlier store.
        // What is on the server of another cluster was asked there.
        let is_another = |name: &ClusterName| self.fleet.records.get(name).is_some_and(|of| of.same_as.is_some());
        let unseen = self.members.keys().filter(|name| is_new && !self.answered.contains(*name) && !is_another(name));
        store.unseen.extend(unseen.cloned());
        let is_written = self.stored_store.as_ref().is_some_and(|stored| stored.adopted == store.adopted);
        batch.ops.extend(store.adoption_entry().filter(|_| !is_written).map(Op::Journal));
    }

    /// Ends the takeover for the placements that this batch decides: their decisions include what members keep. The takeover
    /// continues until the source was read, because a newer commit may have further members.
    pub(super) fn end_taking_over(&mut self, batch: &mut Batch) {
        let is_left = self.fleet.kept.keys().any(|key| self.placements.contains_key(key));
        let is_restored = |store: &&mut StoreRecord| store.adopted.is_some() && !is_left;
        let Some(store) = self.store.as_mut().filter(is_restored) else { return };
        let ahead: BTreeSet<&ClusterName> = self.fleet.ahead.values().flat_map(BTreeMap::keys).collect();
        let before = store.clone();
        store.takes_over &= self.fleet.source_unread;
        // A member that holds something newer stays unseen until a decision has undone its binding.
        store.unseen.retain(|cluster| !self.answered.contains(cluster) || ahead.contains(cluster));
        batch.took_over = (*store != before).then_some(before);
    }

    /// Lets a person adopt the store.
    ///
    /// # Errors
    /// There is nothing to adopt.
    pub(super) fn adopt(&self, person: &Person, now: Timestamp) -> Result<(Batch, Done), Refusal> {
        let Some(mut store) = self.store.clone().filter(StoreRecord::waits) else {
            let message = "the store is not new: there is nothing to adopt".to_owned();
            return Err(Refusal { reason: RefusalReason::NotPossible, message });
        };
        store.adopt(&person.name, now);
        let mut batch = Batch::default();
        if !write_down(&mut batch, STORE_KEY.to_owned(), &store) {
            let message = "could not save the command, so it was not executed; see the daemon's log".to_owned();
            return Err(Refusal { reason: RefusalReason::NotPossible, message });
        }
        batch.ops.extend(store.adoption_entry().map(Op::Journal));
        let message = format!("adopted: gitfleet continues from what {} members hold", store.found.len());
        (batch.store, batch.adopts) = (Some(store), true);
        Ok((batch, Done { message, at: now, gate: None }))
    }
}
