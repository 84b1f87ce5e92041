//! Which stored records changed, for whoever shows them.

use std::collections::{BTreeMap, BTreeSet};

use super::Core;
use decide::state::PlacementState;
use model::id::{ClusterName, PlacementKey};
use model::records::{ClusterRecord, SourceRecord, StoreRecord};

/// Names of stored records that changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Placements; `false` is one whose records are gone.
    pub placements: BTreeMap<PlacementKey, bool>,
    /// Clusters.
    pub clusters: BTreeSet<ClusterName>,
    /// The record of the source.
    pub source: bool,
    /// The record of the store.
    pub store: bool,
    /// Some OCM Placement.
    pub ocm: bool,
}

impl Changed {
    /// Returns that everything is new.
    pub(super) fn everything(
        placements: &BTreeMap<PlacementKey, PlacementState>,
        clusters: &BTreeMap<ClusterName, ClusterRecord>,
    ) -> Self {
        let placements = placements.keys().map(|key| (key.clone(), true)).collect();
        Self { placements, clusters: clusters.keys().cloned().collect(), source: true, store: true, ocm: true }
    }
}

impl Core {
    /// Returns what changed in the store since it was asked last; at first everything.
    pub fn take_changed(&mut self) -> Changed {
        std::mem::take(&mut self.changed)
    }

    /// Returns the clusters' records as stored.
    pub fn stored_clusters(&self) -> &BTreeMap<ClusterName, ClusterRecord> {
        &self.stored_clusters
    }

    /// Returns the source's record as stored.
    pub fn stored_source(&self) -> &SourceRecord {
        &self.stored_source
    }

    /// Returns the store's record of itself as stored.
    pub fn stored_store(&self) -> Option<&StoreRecord> {
        self.stored_store.as_ref()
    }
}
