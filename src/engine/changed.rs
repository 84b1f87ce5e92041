//! Which stored records changed, for whoever shows them.

use std::collections::{BTreeMap, BTreeSet};

use decide::state::PlacementState;
use model::id::{ClusterName, PlacementKey};
use model::records::ClusterRecord;

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
