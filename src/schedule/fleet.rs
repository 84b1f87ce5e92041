//! The fleet with its indexes for scheduling: for each attribute that a policy can use, the clusters that have it.

use std::collections::{BTreeMap, BTreeSet};

use fixedbitset::FixedBitSet;

use super::column::Column;
use super::labels::{Labels, Slots};
use model::api::cluster::Taint;
use model::cluster::Cluster;
use model::id::ClusterName;

/// The clusters of the fleet, each with a slot; slots are sorted by name.
///
/// Changing a cluster costs only its changed attributes. A cluster that joins or leaves shifts the slots of others and rebuilds
/// all indexes, so build the fleet first and change it afterwards.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    names: Vec<ClusterName>,
    clusters: Vec<Cluster>,
    labels: Labels,
    properties: BTreeMap<String, Column>,
    taints: Vec<(Taint, Slots)>,
    eligible: FixedBitSet,
    /// Clusters whose namespaces are collected.
    collected: FixedBitSet,
    namespaces: BTreeMap<String, Slots>,
}

/// The attributes that changed when a cluster was set or removed: placements that read none of them keep their decisions.
#[allow(clippy::struct_excessive_bools, reason = "each is one thing that changed or did not")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetChange {
    /// Keys of labels that were added, removed or got another value.
    pub labels: BTreeSet<String>,
    /// Names of properties that were added, removed or got another value.
    pub properties: BTreeSet<String>,
    /// Taints differ.
    pub taints: bool,
    /// It became eligible or ineligible. Another reason for the same state does not count.
    pub eligibility: bool,
    /// The namespaces it has differ.
    pub namespaces: bool,
    /// It joined or left.
    pub membership: bool,
}

impl FleetChange {
    /// Returns the differences between two states of one cluster; `None` means that it is not in the fleet.
    pub fn between(before: Option<&Cluster>, after: Option<&Cluster>) -> Self {
        let nothing = Cluster::default();
        let old = before.unwrap_or(&nothing);
        let new = after.unwrap_or(&nothing);
        Self {
            labels: differing(&old.labels, &new.labels),
            properties: differing(&old.properties, &new.properties),
            taints: old.taints != new.taints,
            eligibility: old.eligible.is_ok() != new.eligible.is_ok(),
            namespaces: old.namespaces != new.namespaces,
            membership: before.is_some() != after.is_some(),
        }
    }

    /// Adds another change.
    pub fn merge(&mut self, other: Self) {
        self.labels.extend(other.labels);
        self.properties.extend(other.properties);
        self.taints |= other.taints;
        self.eligibility |= other.eligibility;
        self.namespaces |= other.namespaces;
        self.membership |= other.membership;
    }

    /// Tells whether nothing changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn differing(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> BTreeSet<String> {
    let keys = old.keys().chain(new.keys());
    keys.filter(|key| old.get(*key) != new.get(*key)).cloned().collect()
}

impl FromIterator<(ClusterName, Cluster)> for Fleet {
    /// If two clusters have one name, the later one counts.
    fn from_iter<I: IntoIterator<Item = (ClusterName, Cluster)>>(clusters: I) -> Self {
        let sorted: BTreeMap<ClusterName, Cluster> = clusters.into_iter().collect();
        let (names, clusters): (Vec<_>, Vec<_>) = sorted.into_iter().unzip();
        let mut fleet = Self { names, clusters, ..Self::default() };
        fleet.index();
        fleet
    }
}

impl Fleet {
    /// Returns a cluster.
    pub fn get(&self, name: &str) -> Option<&Cluster> {
        self.slot(name).map(|slot| &self.clusters[slot])
    }

    /// Tells whether a cluster is in the fleet.
    pub fn contains(&self, name: &str) -> bool {
        self.slot(name).is_some()
    }

    /// Returns a function that tells whether a cluster is in the fleet; it is fast for names that come in their order.
    pub fn contains_in_order(&self) -> impl FnMut(&ClusterName) -> bool {
        let mut guess = 0;
        move |name| {
            let slot = self.slot_near(guess, name);
            guess = slot.map_or(guess, |slot| slot + 1);
            slot.is_some()
        }
    }

    /// Returns how many clusters there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Tells whether there is no cluster.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the clusters by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&ClusterName, &Cluster)> {
        self.names.iter().zip(&self.clusters)
    }

    /// Sets a cluster, which joins if it is new. Returns what changed.
    pub fn set(&mut self, name: ClusterName, cluster: Cluster) -> FleetChange {
        match self.names.binary_search(&name) {
            Ok(slot) => {
                let change = FleetChange::between(Some(&self.clusters[slot]), Some(&cluster));
                let before = std::mem::replace(&mut self.clusters[slot], cluster);
                if !change.is_empty() {
                    self.update(slot, &before, &change);
                }
                change
            }
            Err(slot) => {
                let change = FleetChange::between(None, Some(&cluster));
                self.names.insert(slot, name);
                self.clusters.insert(slot, cluster);
                self.index();
                change
            }
        }
    }

    /// Removes a cluster from the fleet. Returns what changed.
    pub fn remove(&mut self, name: &str) -> FleetChange {
        let Some(slot) = self.slot(name) else { return FleetChange::default() };
        self.names.remove(slot);
        let cluster = self.clusters.remove(slot);
        self.index();
        FleetChange::between(Some(&cluster), None)
    }

    /// Returns the slot of a cluster.
    pub fn slot(&self, name: &str) -> Option<usize> {
        self.names.binary_search_by(|other| other.as_str().cmp(name)).ok()
    }

    /// Returns the slot of a cluster; fast if it is `guess`.
    pub(super) fn slot_near(&self, guess: usize, name: &ClusterName) -> Option<usize> {
        match self.names.get(guess) {
            Some(found) if found == name => Some(guess),
            _ => self.slot(name.as_str()),
        }
    }

    /// Returns the name of a slot's cluster.
    pub fn name(&self, slot: usize) -> &ClusterName {
        &self.names[slot]
    }

    /// Returns the cluster of a slot.
    pub fn cluster(&self, slot: usize) -> &Cluster {
        &self.clusters[slot]
    }

    /// Returns the clusters' labels by slot.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Returns the clusters' values of a property; `None` if no cluster has it.
    pub(super) fn property(&self, name: &str) -> Option<&Column> {
        self.properties.get(name)
    }

    /// Returns the clusters that take new placements.
    pub fn eligible(&self) -> &FixedBitSet {
        &self.eligible
    }

    /// Returns every distinct taint with the clusters that have it.
    pub(super) fn taints(&self) -> &[(Taint, Slots)] {
        &self.taints
    }

    /// Returns the clusters that have a namespace, or whose namespaces are unknown.
    pub(super) fn with_namespace(&self, namespace: &str) -> FixedBitSet {
        let mut found = self.collected.clone();
        found.toggle_range(..);
        if let Some(slots) = self.namespaces.get(namespace) {
            slots.add_to(&mut found);
        }
        found
    }

    /// Builds all indexes.
    fn index(&mut self) {
        let len = self.len();
        self.labels = Labels::new(len);
        self.properties.clear();
        self.taints.clear();
        self.namespaces.clear();
        self.eligible = FixedBitSet::with_capacity(len);
        self.collected = FixedBitSet::with_capacity(len);
        let nothing = Cluster { eligible: Err(String::new()), ..Cluster::default() };
        for slot in 0..len {
            let change =
                FleetChange { eligibility: true, ..FleetChange::between(Some(&nothing), Some(&self.clusters[slot])) };
            self.update(slot, &nothing, &change);
        }
    }

    /// Updates the indexes for a slot's cluster.
    fn update(&mut self, slot: usize, before: &Cluster, change: &FleetChange) {
        let len = self.names.len();
        let cluster = &self.clusters[slot];
        if !change.labels.is_empty() {
            self.labels.set(slot, &cluster.labels);
        }
        for name in &change.properties {
            let value = cluster.properties.get(name);
            let column = self.properties.entry(name.clone()).or_insert_with(|| Column::new(len));
            column.set(slot, value.map(String::as_str));
            // A property that no cluster has any more must look like one that none ever had.
            if column.is_empty() {
                self.properties.remove(name);
            }
        }
        if change.taints {
            // Removed from all old ones first: those that stay are added again below. The order of taints does not matter.
            for (_, slots) in self.taints.iter_mut().filter(|(taint, _)| before.taints.contains(taint)) {
                slots.remove(slot);
            }
            self.taints.retain(|(_, slots)| !slots.is_empty());
            for taint in &cluster.taints {
                if let Some((_, slots)) = self.taints.iter_mut().find(|(known, _)| known == taint) {
                    slots.insert(slot, len);
                } else {
                    self.taints.push((taint.clone(), Slots::Few(vec![slot])));
                }
            }
        }
        if change.eligibility {
            self.eligible.set(slot, cluster.eligible.is_ok());
        }
        if change.namespaces {
            self.collected.set(slot, cluster.namespaces.is_some());
            for gone in before.namespaces.iter().flatten() {
                if let Some(slots) = self.namespaces.get_mut(gone) {
                    slots.remove(slot);
                    if slots.is_empty() {
                        self.namespaces.remove(gone);
                    }
                }
            }
            for namespace in cluster.namespaces.iter().flatten() {
                self.namespaces.entry(namespace.clone()).or_default().insert(slot, len);
            }
        }
    }
}

#[cfg(test)]
mod tests;
