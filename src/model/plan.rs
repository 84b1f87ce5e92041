//! What a plan says. The field names are a contract with scripts: added to, never changed.

mod changes;
mod rollout;
mod snapshot;

use serde::Serialize;

use super::id::{CommitId, PlacementKey};
use super::manifest::InputError;
use super::ocm::DecidedGroup;
use super::records::ClusterDecision;

pub use changes::*;
pub use rollout::*;
pub use snapshot::*;

/// What a tree would do to the fleet.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The commit; `null` for a folder as it stands.
    pub commit: Option<CommitId>,
    /// Each placement, those that the base had and the head has no more included, by key.
    pub placements: Vec<PlacementPlan>,
    /// The OCM Placements of the head, by namespace and name; absent where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ocm_placements: Vec<OcmPlan>,
    /// Why the tree is refused; there are no placements then.
    pub errors: Vec<InputError>,
    /// What is written and does nothing: runs of placements that the head does not have, documents that are no objects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<InputError>,
}

impl Plan {
    /// Says that a tree is refused.
    pub fn refused(commit: Option<CommitId>, errors: Vec<InputError>) -> Self {
        Self { commit, errors, ..Self::default() }
    }

    /// Tells whether anything is wrong: with the tree, a placement, its rollout or what one cluster gets.
    pub fn has_errors(&self) -> bool {
        !self.errors.is_empty()
            || self.placements.iter().any(|placement| placement.errors().next().is_some())
            || self.ocm_placements.iter().any(|placement| !placement.errors.is_empty())
    }

    /// Tells whether head differs from base in what the fleet is to hold; `false` without a base.
    pub fn has_changes(&self) -> bool {
        self.placements.iter().any(|placement| {
            placement.removed
                || !placement.deletions.is_empty()
                || placement.changes.as_ref().is_some_and(|changes| !changes.is_empty())
        }) || self.ocm_placements.iter().any(|placement| placement.changes.as_ref().is_some_and(|c| !c.is_empty()))
    }
}

/// What an OCM Placement decides.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OcmPlan {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// The decisions, by group in order.
    pub groups: Vec<DecidedGroup>,
    /// PlacementSatisfied, as a sentence.
    pub message: String,
    /// What makes it misconfigured, or leaves it without any cluster to pick from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<InputError>,
    /// The clusters that come and go, compared with the base.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<ClusterChanges>,
}

/// What becomes of one placement.
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
    /// The file it stands in, at the head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The line it starts at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Why it cannot be selected for or scheduled; it keeps its last good state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The base has it, the head does not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
    /// The newest snapshot at the end; `null` where there is none.
    pub snapshot: Option<SnapshotPlan>,
    /// The clusters, picked ones first.
    pub decisions: Vec<ClusterDecision>,
    /// How it gets there.
    pub rollout: RolloutPlan,
    /// What each picked cluster holds at the end.
    pub works: Vec<WorkPlan>,
    /// What goes from each cluster; known with a base only.
    pub deletions: Vec<DeletionPlan>,
    /// Why a person must approve the deletions first.
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

    /// Returns everything that is wrong with it, for people.
    pub fn errors(&self) -> impl Iterator<Item = String> {
        let works = self.works.iter().filter_map(|w| Some(format!("{}: {}", w.cluster_name, w.error.as_ref()?)));
        self.error.iter().chain(&self.rollout.error).cloned().chain(works)
    }
}
