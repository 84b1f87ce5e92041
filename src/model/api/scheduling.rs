//! The records of KubeFleet's scheduler: policy snapshots and bindings, exported from a hub.
//!
//! Only `gitfleet schedule` reads them, to continue the hub's decisions. Fields that no decision reads are skipped.
//!
//! Source: KubeFleet API, `placement.kubernetes-fleet.io` v1 and v1beta1.

use serde::Deserialize;

use super::object::Metadata;
use super::placement::PlacementPolicy;
use crate::records::{BindingState, ClusterScore};

/// Label: the placement that a snapshot or binding belongs to.
pub const PARENT_LABEL: &str = "kubernetes-fleet.io/parent-CRP";
/// Label: `true` on the newest policy snapshot.
pub const LATEST_LABEL: &str = "kubernetes-fleet.io/is-latest-snapshot";
/// Label: the index of a policy snapshot, from 0.
pub const POLICY_INDEX_LABEL: &str = "kubernetes-fleet.io/policy-index";
/// Annotation of an unscheduled binding: the state to restore if its cluster is picked again.
pub const PREVIOUS_STATE_ANNOTATION: &str = "kubernetes-fleet.io/previous-binding-state";

/// A ClusterSchedulingPolicySnapshot or SchedulingPolicySnapshot.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicySnapshotObject {
    /// Name and labels.
    pub metadata: Metadata,
    /// The policy that was scheduled.
    pub spec: PolicySnapshotSpec,
}

/// `spec` of a policy snapshot. The stored hash is not trusted: who exports and edits an object forgets it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicySnapshotSpec {
    /// The policy; absent picks every cluster.
    #[serde(default)]
    pub policy: Option<PlacementPolicy>,
}

/// A ClusterResourceBinding or ResourceBinding.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BindingObject {
    /// Name, labels, annotations; a deletion timestamp means that it is being removed.
    pub metadata: Metadata,
    /// Which cluster, and how far it is.
    pub spec: BindingSpec,
}

/// `spec` of a binding, as far as scheduling reads it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BindingSpec {
    /// How far it is.
    pub state: BindingState,
    /// The policy snapshot that picked it.
    #[serde(default)]
    pub scheduling_policy_snapshot_name: String,
    /// The cluster.
    pub target_cluster: String,
    /// The decision that picked it.
    #[serde(default)]
    pub cluster_decision: BindingDecision,
}

/// `spec.clusterDecision` of a binding.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BindingDecision {
    /// The scores at the time it was picked.
    #[serde(default)]
    pub cluster_score: Option<ClusterScore>,
    /// The reason, as text for users.
    #[serde(default)]
    pub reason: String,
}
