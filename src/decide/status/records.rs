//! The records of one placement at a moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::placement::PlacementView;
use super::staged_run::placement_word;
use model::id::ClusterName;
use model::records::{Binding, ClusterRecord, PlacementRecord, PolicySnapshot, ResourceSnapshot, WorkStatus};
use model::runs::Runs;

/// The records of one placement at a moment, shared with whoever else holds them.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementRecords {
    /// Its own.
    pub record: PlacementRecord,
    /// Its latest policy snapshot.
    pub policy: Option<Arc<PolicySnapshot>>,
    /// Resource snapshots by index.
    pub snapshots: BTreeMap<u64, Arc<ResourceSnapshot>>,
    /// Bindings, in the order of their names.
    pub bindings: Vec<Arc<Binding>>,
    /// Staged update runs by name.
    pub runs: Runs,
    /// What each cluster holds.
    pub works: BTreeMap<ClusterName, Arc<WorkStatus>>,
    /// A name of it may also mean another placement.
    pub shared_name: bool,
}

impl PlacementRecords {
    /// Returns the placement's view for status functions.
    pub fn view<'a>(&'a self, clusters: &'a BTreeMap<ClusterName, ClusterRecord>, now: Timestamp) -> PlacementView<'a> {
        PlacementView {
            record: &self.record,
            policy: self.policy.as_deref(),
            snapshot: self.snapshots.values().next_back().map(AsRef::as_ref),
            history: &self.snapshots,
            bindings: &self.bindings,
            works: &self.works,
            runs: &self.runs,
            clusters,
            shared_name: self.shared_name,
            now,
        }
    }

    /// Returns the word that commands name the placement by.
    pub fn word(&self) -> String {
        placement_word(&self.record.key, self.shared_name)
    }

    /// Returns what a binding's cluster holds.
    pub fn work(&self, binding: &Binding) -> Option<&WorkStatus> {
        self.works.get(&binding.cluster).map(AsRef::as_ref)
    }

    /// Tells whether it has a binding on a cluster, or picked it.
    pub fn concerns(&self, is_meant: impl Fn(&ClusterName) -> bool) -> bool {
        let picked = self.policy.iter().flat_map(|policy| &policy.target_clusters).filter(|d| d.selected);
        self.bindings.iter().any(|binding| is_meant(&binding.cluster))
            || picked.into_iter().any(|d| is_meant(&d.cluster_name))
    }
}
