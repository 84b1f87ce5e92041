//! Restores of members and stores from a backup, with an earlier state.

use std::collections::BTreeMap;
use std::sync::Arc;

use deliver::inventory::Parent;
use deliver::live::LiveObject;
use engine::store::{MemoryStore, Store as _, backup};
use model::id::{ClusterName, ObjectKey, PlacementKey};
use plan::simulate::Happening;

use super::SimulatedFleet;
use super::fact::{Fact, MachineFact};
use super::process::crash;
use super::replicas::each_machine;

/// The state of a member at an instant.
#[derive(Clone, Debug)]
pub(crate) struct Backup {
    objects: Arc<BTreeMap<ObjectKey, LiveObject>>,
    inventories: Arc<BTreeMap<PlacementKey, Parent>>,
    version: u64,
    /// Objects that were becoming available, or being deleted, with their versions.
    ripening: Vec<(ObjectKey, u64)>,
}

impl SimulatedFleet {
    /// Saves the state of a member, replacing an earlier backup. Returns whether it has anything of gitfleet.
    pub fn back_up(&mut self, cluster: &ClusterName) -> bool {
        let ripening = self.queue.iter().filter_map(|happening| match happening {
            Happening::Ripen(of, key, version) if of == cluster => Some((key.clone(), *version)),
            _ => None,
        });
        let Some(member) = self.members.get(cluster).filter(|member| !member.inventories.is_empty()) else {
            return false;
        };
        let backup = Backup {
            objects: Arc::new(member.objects.clone()),
            inventories: Arc::new(member.inventories.clone()),
            version: member.version,
            ripening: ripening.collect(),
        };
        self.deployment.backups.insert(cluster.clone(), backup);
        true
    }

    /// Restores a member from its backup: its versions go back too, and all its connections break. Returns whether there is
    /// one.
    pub fn restore_member(&mut self, cluster: &ClusterName) -> bool {
        let Some(backup) = self.deployment.backups.get(cluster).cloned() else { return false };
        let Backup { objects, inventories, version, ripening } = backup;
        let member = self.members.entry(cluster.clone()).or_default();
        member.objects.clone_from(&objects);
        member.inventories.clone_from(&inventories);
        member.inventory_versions.clear();
        member.version = version;
        // A stale list must not show objects from after the backup.
        self.deployment.earlier.insert(cluster.clone(), BTreeMap::clone(&objects));
        // Everything that started since the backup has ended there.
        self.queue.retain(|happening| !matches!(happening, Happening::Ripen(of, ..) if of == cluster));
        self.facts.push(Fact::Own(MachineFact::Restored { cluster: cluster.clone(), objects, inventories }));
        let available = self.latencies.available;
        for (key, version) in ripening {
            self.push_in(available, Happening::Ripen(cluster.clone(), key, version));
        }
        each_machine(self, |sim| sim.disconnect(cluster, "it was restored from a backup"));
        true
    }

    /// Ends the daemon process; the next one starts with the store of a backup, as after `gitfleet store restore`.
    ///
    /// # Errors
    /// Why the backup cannot be read.
    pub fn restore_store(&mut self, text: &str) -> Result<(), String> {
        let store = MemoryStore::new();
        store.batch(backup::restore(text, "a person", self.clock())?).map_err(|error| error.to_string())?;
        crash(self);
        self.store = store;
        Ok(())
    }

    /// Ends the daemon process and loses its store: the next process starts with an empty one.
    pub fn lose_store(&mut self) {
        crash(self);
        self.store = MemoryStore::new();
        let held = self.members.iter().filter(|(_, member)| !member.inventories.is_empty());
        let holders = held.map(|(name, member)| (name.clone(), member.inventories.clone())).collect();
        self.facts.push(Fact::Own(MachineFact::StoreLost(holders)));
    }
}
