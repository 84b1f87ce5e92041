//! What a plan says. The field names are a contract with scripts: added to, never changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::id::{ClusterName, CommitId, Digest, ObjectId};
use super::manifest::InputError;
use super::ocm::DecidedGroup;
use super::records::{ClusterDecision, ResourceSnapshot};
use crate::api::placement::StrategyType;
use crate::api::staged::StageTaskType;

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
    /// Returns everything that is wrong with it, for people.
    pub fn errors(&self) -> impl Iterator<Item = String> {
        let works = self.works.iter().filter_map(|w| Some(format!("{}: {}", w.cluster_name, w.error.as_ref()?)));
        self.error.iter().chain(&self.rollout.error).cloned().chain(works)
    }
}

/// A frozen selection.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotPlan {
    /// The index, as text, as the API has it.
    pub index: String,
    /// The hash of the real content, whatever is hidden elsewhere.
    pub hash: Digest,
    /// The objects, in snapshot order.
    pub resources: Vec<Resource>,
}

impl From<&ResourceSnapshot> for SnapshotPlan {
    fn from(snapshot: &ResourceSnapshot) -> Self {
        Self {
            index: snapshot.index.to_string(),
            hash: snapshot.hash.clone(),
            resources: snapshot.resources.iter().map(|r| Resource(r.id.clone())).collect(),
        }
    }
}

/// An object, printed with all five fields: an empty group or namespace is `""`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resource(pub ObjectId);

impl Serialize for Resource {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ObjectId { group, version, kind, namespace, name } = &self.0;
        serializer.collect_map([
            ("group", group),
            ("version", version),
            ("kind", kind),
            ("namespace", namespace),
            ("name", name),
        ])
    }
}

/// How a placement gets to its end.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutPlan {
    /// `spec.strategy.type`.
    #[serde(rename = "type")]
    pub type_: StrategyType,
    /// The staged strategy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// The run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The stages, in order; of staged rollouts only.
    pub stages: Vec<StagePlan>,
    /// Why it cannot go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Clusters that move together.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StagePlan {
    /// Its name.
    pub name: String,
    /// Its clusters, in update order.
    pub clusters: Vec<ClusterName>,
    /// Clusters that move at once.
    pub max_concurrency: usize,
    /// What must be done before the first of them moves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<GatePlan>,
    /// What must be done before the next stage begins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<GatePlan>,
}

/// What a stage waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatePlan {
    /// Time, or a person.
    #[serde(rename = "type")]
    pub type_: StageTaskType,
    /// How long, as the strategy writes it; of waits only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_time: Option<String>,
    /// Who may approve, as the strategy's annotation says; absent: whoever the configuration lets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvers: Option<String>,
}

/// What one cluster holds at the end.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkPlan {
    /// The cluster.
    pub cluster_name: ClusterName,
    /// The objects in apply order; shared by clusters that get the same.
    pub manifests: Arc<[Arc<Value>]>,
    /// Why the cluster does not get all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What goes from one cluster.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionPlan {
    /// The cluster.
    pub cluster_name: ClusterName,
    /// The objects, in order of identity.
    pub resources: Vec<Resource>,
}

/// How head differs from base.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Changes {
    /// In the snapshot.
    pub resources: ResourceChanges,
    /// In the clusters picked.
    pub clusters: ClusterChanges,
    /// Clusters whose objects are made with other overrides: the snapshot may well be the same.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub overridden: BTreeSet<ClusterName>,
}

impl Changes {
    /// Tells whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.clusters.is_empty() && self.overridden.is_empty()
    }
}

/// How the snapshot differs. An object whose version alone differs is changed.
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
    /// Tells whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

/// How the picked clusters differ.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterChanges {
    /// Only the head picks them.
    pub gained: BTreeSet<ClusterName>,
    /// Only the base picks them; those that left the fleet included, from which nothing is deleted.
    pub lost: BTreeSet<ClusterName>,
}

impl ClusterChanges {
    /// Tells whether the same clusters are picked.
    pub fn is_empty(&self) -> bool {
        self.gained.is_empty() && self.lost.is_empty()
    }
}
