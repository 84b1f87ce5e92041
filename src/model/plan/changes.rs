//! The changes of a plan, compared with its base.

use std::collections::BTreeSet;

use serde::Serialize;

use super::snapshot::Resource;
use crate::id::ClusterName;

/// The differences between head and base.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Changes {
    /// In the snapshot.
    pub resources: ResourceChanges,
    /// In the clusters picked.
    pub clusters: ClusterChanges,
    /// Clusters whose overrides differ, possibly with the same snapshot.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub overridden: BTreeSet<ClusterName>,
}

impl Changes {
    /// Tells whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.clusters.is_empty() && self.overridden.is_empty()
    }
}

/// The changes of the snapshot. An object with only another version counts as changed.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceChanges {
    /// Only the head has them.
    pub added: Vec<Resource>,
    /// Both have them, with different content.
    pub changed: Vec<Resource>,
    /// Only the base has them.
    pub removed: Vec<Resource>,
}

impl ResourceChanges {
    /// Tells whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

/// The changes of the picked clusters.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterChanges {
    /// Only the head picks them.
    pub gained: BTreeSet<ClusterName>,
    /// Only the base picks them; includes those that left the fleet, on which nothing is deleted.
    pub lost: BTreeSet<ClusterName>,
}

impl ClusterChanges {
    /// Compares the clusters from before with those from after.
    pub fn between(old: &BTreeSet<ClusterName>, new: &BTreeSet<ClusterName>) -> Self {
        Self { gained: new.difference(old).cloned().collect(), lost: old.difference(new).cloned().collect() }
    }

    /// Tells whether the same clusters are picked.
    pub fn is_empty(&self) -> bool {
        self.gained.is_empty() && self.lost.is_empty()
    }
}
