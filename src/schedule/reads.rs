//! What a placement's scheduling reads of clusters, and which placements a change can affect.
//!
//! Source: KubeFleet, what triggers a scheduling cycle. It differs: a change of eligibility counts in both directions, and only
//! placements that read a changed attribute are evaluated again.

use std::collections::{BTreeMap, BTreeSet};

use super::filter;
use super::fleet::FleetChange;
use model::api::placement::{ClusterSelectorTerm, PlacementPolicy, PlacementType};
use model::id::PlacementKey;

/// The attributes that a placement reads, as the change that would affect all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads(FleetChange);

impl Reads {
    /// Returns the attributes that the scheduling of a policy reads. `settled` means that the current policy is fulfilled:
    /// `PickN` and `PickFixed` then keep their clusters, and only a cluster that leaves matters.
    pub fn of(placement: &PlacementKey, policy: Option<&PlacementPolicy>, settled: bool) -> Self {
        let type_ = policy.map_or(PlacementType::PickAll, |policy| policy.placement_type);
        let mut reads = FleetChange { membership: true, ..FleetChange::default() };
        if type_ != PlacementType::PickAll && settled {
            return Self(reads);
        }
        // For `PickFixed` this is all: only names and eligibility decide.
        reads.eligibility = true;
        if type_ == PlacementType::PickFixed {
            return Self(reads);
        }
        reads.taints = true;
        reads.namespaces = placement.namespace.is_some();
        for term in filter::required_terms(policy) {
            read(&mut reads, term);
        }
        if let Some(policy) = policy
            && type_ == PlacementType::PickN
        {
            let preferred =
                filter::affinity(Some(policy)).map(|a| &a.preferred_during_scheduling_ignored_during_execution);
            // A term without weight is not scored, so its attributes are not read.
            for term in preferred.into_iter().flatten().filter(|term| term.weight != 0) {
                read(&mut reads, &term.preference);
            }
            reads.labels.extend(policy.topology_spread_constraints.iter().map(|spread| spread.topology_key.clone()));
        }
        Self(reads)
    }

    /// Adds labels that others than scheduling read.
    #[must_use]
    pub fn and_labels(mut self, keys: impl IntoIterator<Item = String>) -> Self {
        self.0.labels.extend(keys);
        self
    }

    /// Tells whether a change affects an attribute that is read.
    pub fn touches(&self, change: &FleetChange) -> bool {
        !self.0.labels.is_disjoint(&change.labels)
            || !self.0.properties.is_disjoint(&change.properties)
            || (self.0.taints && change.taints)
            || (self.0.eligibility && change.eligibility)
            || (self.0.namespaces && change.namespaces)
            || (self.0.membership && change.membership)
    }
}

fn read(reads: &mut FleetChange, term: &ClusterSelectorTerm) {
    if let Some(selector) = &term.label_selector {
        reads.labels.extend(selector.keys().cloned());
    }
    let requirements = term.property_selector.iter().flat_map(|selector| &selector.match_expressions);
    reads.properties.extend(requirements.map(|requirement| requirement.name.clone()));
    reads.properties.extend(term.property_sorter.iter().map(|sorter| sorter.name.clone()));
}

/// The placements by the attributes they read.
#[derive(Clone, Debug, Default)]
pub struct Readers {
    reads: BTreeMap<PlacementKey, Reads>,
    labels: BTreeMap<String, BTreeSet<PlacementKey>>,
    properties: BTreeMap<String, BTreeSet<PlacementKey>>,
}

impl Readers {
    /// Sets the attributes that a placement reads.
    pub fn set(&mut self, placement: PlacementKey, reads: Reads) {
        if self.reads.get(&placement) == Some(&reads) {
            return;
        }
        self.remove(&placement);
        for (index, keys) in [(&mut self.labels, &reads.0.labels), (&mut self.properties, &reads.0.properties)] {
            for key in keys {
                index.entry(key.clone()).or_default().insert(placement.clone());
            }
        }
        self.reads.insert(placement, reads);
    }

    /// Removes a placement.
    pub fn remove(&mut self, placement: &PlacementKey) {
        let Some(reads) = self.reads.remove(placement) else { return };
        for (index, keys) in [(&mut self.labels, reads.0.labels), (&mut self.properties, reads.0.properties)] {
            for key in keys {
                let readers = index.get_mut(&key);
                if readers.is_some_and(|readers| readers.remove(placement) && readers.is_empty()) {
                    index.remove(&key);
                }
            }
        }
    }

    /// Returns the placements that read a changed attribute.
    pub fn affected(&self, change: &FleetChange) -> BTreeSet<PlacementKey> {
        // These have no index: every placement reads membership, and each unsettled one eligibility.
        if change.taints || change.eligibility || change.namespaces || change.membership {
            let touched = self.reads.iter().filter(|(_, reads)| reads.touches(change));
            return touched.map(|(placement, _)| placement.clone()).collect();
        }
        let labels = change.labels.iter().filter_map(|key| self.labels.get(key));
        let properties = change.properties.iter().filter_map(|name| self.properties.get(name));
        labels.chain(properties).flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests;
