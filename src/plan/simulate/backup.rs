//! Restores of members and stores from a backup, with an earlier state.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Fact, Happening, Simulation};
use decide::deliver::inventory::Parent;
use decide::deliver::live::LiveObject;
use engine::store::{MemoryStore, Store as _, backup};
use model::id::{ClusterName, ObjectKey, PlacementKey};

/// The state of a member at an instant.
#[derive(Clone, Debug)]
pub(super) struct Backup {
    pub(super) objects: Arc<BTreeMap<ObjectKey, LiveObject>>,
    pub(super) parents: Arc<BTreeMap<PlacementKey, Parent>>,
    pub(super) version: u64,
    /// Objects that were becoming available, or being deleted, with their versions.
    ripening: Vec<(ObjectKey, u64)>,
}

impl Simulation {
    /// Saves the state of a member, replacing an earlier backup. Returns whether it has anything of gitfleet.
    pub fn back_up(&mut self, cluster: &ClusterName) -> bool {
        let ripening = self.queue.values().filter_map(|(_, happening)| match happening {
            Happening::Ripen(of, key, version) if of == cluster => Some((key.clone(), *version)),
            _ => None,
        });
        let ripening = ripening.collect();
        let Some(member) = self.members.get_mut(cluster).filter(|member| !member.parents.is_empty()) else {
            return false;
        };
        member.backup = Some(Backup {
            objects: Arc::new(member.objects.clone()),
            parents: Arc::new(member.parents.clone()),
            version: member.version,
            ripening,
        });
        true
    }

    /// Restores a member from its backup: its versions go back too, and all its connections break. Returns whether there is
    /// one.
    pub fn restore_member(&mut self, cluster: &ClusterName) -> bool {
        let Some(member) = self.members.get_mut(cluster) else { return false };
        let Some(backup) = member.backup.clone() else { return false };
        member.go_back(&backup);
        // Everything that started since the backup has ended there.
        self.queue.retain(|_, (_, happening)| !matches!(happening, Happening::Ripen(of, ..) if of == cluster));
        let Backup { objects, parents: inventories, ripening, version: _ } = backup;
        self.facts.push(Fact::Restored { cluster: cluster.clone(), objects, inventories });
        for (key, version) in ripening {
            self.push_in(self.latencies.available, Happening::Ripen(cluster.clone(), key, version));
        }
        self.each_replica(|this| this.disconnect(cluster, "it was restored from a backup"));
        true
    }

    /// Ends the daemon process; the next one starts with the store of a backup, as after `gitfleet store restore`.
    ///
    /// # Errors
    /// Why the backup cannot be read.
    pub fn restore_store(&mut self, text: &str) -> Result<(), String> {
        let store = MemoryStore::new();
        store.batch(backup::restore(text, "a person", self.clock())?).map_err(|error| error.to_string())?;
        self.crash();
        self.store = store;
        Ok(())
    }

    /// Ends the daemon process and loses its store: the next process starts with an empty one.
    pub fn lose_store(&mut self) {
        self.crash();
        self.store = MemoryStore::new();
        let held = self.members.iter().filter(|(_, member)| !member.parents.is_empty());
        let holders = held.map(|(name, member)| (name.clone(), member.parents.clone())).collect();
        self.facts.push(Fact::StoreLost(holders));
    }
}
