//! The contents of a plan. The field names are a contract with scripts: added to, never changed.

mod changes;
mod rollout;
mod snapshot;

use serde::Serialize;

use super::id::{ClusterName, CommitId, ObjectKey, PlacementKey};
use super::manifest::InputError;
use super::ocm::DecidedGroup;
use super::records::ClusterDecision;

pub use changes::*;
pub use rollout::*;
pub use snapshot::*;

/// The effects of a tree on the fleet.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The commit; `null` for a folder.
    pub commit: Option<CommitId>,
    /// All placements, including those that only the base has, by key.
    pub placements: Vec<PlacementPlan>,
    /// The OCM Placements of the head, by namespace and name; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ocm_placements: Vec<OcmPlan>,
    /// Why the tree is refused; there are no placements then.
    pub errors: Vec<InputError>,
    /// Documents without effect: runs of placements that the head does not have, documents that are no objects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<InputError>,
}

impl Plan {
    /// Creates the plan of a refused tree.
    pub fn refused(commit: Option<CommitId>, errors: Vec<InputError>) -> Self {
        Self { commit, errors, ..Self::default() }
    }

    /// Tells whether anything is wrong: with the tree, a placement, its rollout or the objects of one cluster.
    pub fn has_errors(&self) -> bool {
        !self.errors.is_empty()
            || self.placements.iter().any(|placement| placement.errors().next().is_some())
            || self.ocm_placements.iter().any(|placement| !placement.errors.is_empty())
    }

    /// Tells whether head and base differ in the desired content of the fleet; `false` without a base.
    pub fn has_changes(&self) -> bool {
        self.placements.iter().any(|placement| {
            placement.removed
                || !placement.deletions.is_empty()
                || placement.changes.as_ref().is_some_and(|changes| !changes.is_empty())
        }) || self.ocm_placements.iter().any(|placement| placement.changes.as_ref().is_some_and(|c| !c.is_empty()))
    }
}

/// The decision of an OCM Placement.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OcmPlan {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// The decisions, by group.
    pub groups: Vec<DecidedGroup>,
    /// PlacementSatisfied, as a sentence.
    pub message: String,
    /// Errors that make it misconfigured, or leave no cluster to pick from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<InputError>,
    /// The clusters added and dropped, compared with the base.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<ClusterChanges>,
}

/// The effects on one placement.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementPlan {
    /// `metadata.name`.
    pub name: String,
    /// `ClusterResourcePlacement` or `ResourcePlacement`.
    pub kind: &'static str,
    /// The namespace of a ResourcePlacement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its file, at the head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Why selection or scheduling fails; the placement keeps its last good state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The base has it, the head does not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
    /// Its name at the base, if the head renames it: it continues as it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<PlacementKey>,
    /// Its name at the head, if the head renames it: nothing of it is removed but what that one does not take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renamed_to: Option<PlacementKey>,
    /// The newest snapshot at the end; `null` if there is none.
    pub snapshot: Option<SnapshotPlan>,
    /// What picked clusters get of it, where it is rendered for clusters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<VariantPlan>,
    /// The clusters, picked ones first.
    pub decisions: Vec<ClusterDecision>,
    /// The rollout.
    pub rollout: RolloutPlan,
    /// The final objects of each picked cluster, except those that the rollout ignores.
    pub works: Vec<WorkPlan>,
    /// The objects deleted on each cluster; known only with a base.
    pub deletions: Vec<DeletionPlan>,
    /// The objects that change hands on each cluster; known only with a base.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hands_over: Vec<HandOverPlan>,
    /// Why the deletions need an approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_guard: Option<String>,
    /// The difference from the base.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
}

impl PlacementPlan {
    /// Returns what names it.
    pub fn key(&self) -> PlacementKey {
        PlacementKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// Returns what changes hands to other placements: not what it has under a new name.
    pub fn handed(&self) -> impl Iterator<Item = &HandOverPlan> {
        self.hands_over.iter().filter(|handed| Some(&handed.to) != self.renamed_to.as_ref())
    }

    /// Returns the clusters that lose the placement, except those where all that it has there changes hands.
    pub fn lost(&self) -> impl Iterator<Item = &ClusterName> {
        let lost = self.changes.iter().flat_map(|changes| &changes.clusters.lost);
        lost.filter(move |name| {
            self.deletions.iter().any(|deletion| deletion.cluster_name == **name)
                || !self.hands_over.iter().any(|handed| handed.cluster_name == **name)
        })
    }

    /// Returns the objects that it does not select any more, except those that change hands wherever it has them.
    pub fn dropped(&self) -> impl Iterator<Item = &Resource> {
        let removed = self.changes.iter().flat_map(|changes| &changes.resources.removed);
        removed.filter(|resource| !self.only_changes_hands(&resource.0.key()))
    }

    /// Tells whether an object changes hands, and is deleted nowhere.
    pub fn only_changes_hands(&self, key: &ObjectKey) -> bool {
        self.hands_over.iter().any(|handed| has(&handed.resources, key))
            && !self.deletions.iter().any(|deletion| has(&deletion.resources, key))
    }

    /// Returns everything that is wrong with it, for people.
    pub fn errors(&self) -> impl Iterator<Item = String> {
        let works = self.works.iter().filter_map(|w| Some(format!("{}: {}", w.cluster_name, w.error.as_ref()?)));
        self.error.iter().chain(&self.rollout.error).cloned().chain(works)
    }
}

fn has(resources: &[Resource], key: &ObjectKey) -> bool {
    resources.iter().any(|resource| resource.0.key() == *key)
}
