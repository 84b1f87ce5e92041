//! The rollout of a plan, and the objects that clusters get and lose.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::snapshot::Resource;
use crate::api::placement::StrategyType;
use crate::api::stage_checks::Checks;
use crate::api::staged::StageTaskType;
use crate::id::{ClusterName, PlacementKey};

/// The rollout of a placement.
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
    /// The stages, in order; only for staged rollouts.
    pub stages: Vec<StagePlan>,
    /// Picked clusters in no stage, which the strategy leaves as they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<ClusterName>,
    /// Why it cannot start.
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
    /// Clusters that may move at the same time.
    pub max_concurrency: usize,
    /// The gates before its first cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<GatePlan>,
    /// The gates before the next stage.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<GatePlan>,
    /// What must hold before the next stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checks: Option<Checks>,
}

/// A gate of a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatePlan {
    /// A timer or an approval.
    #[serde(rename = "type")]
    pub type_: StageTaskType,
    /// The duration, as in the strategy; only for timers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_time: Option<String>,
    /// Who may approve, by the strategy's annotation; absent: everybody whom the configuration allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvers: Option<String>,
}

/// The final objects of one cluster.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkPlan {
    /// The cluster.
    pub cluster_name: ClusterName,
    /// The objects in apply order; shared by clusters with the same objects.
    pub manifests: Arc<[Arc<Value>]>,
    /// Why the cluster does not get all objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The objects deleted on one cluster.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionPlan {
    /// The cluster.
    pub cluster_name: ClusterName,
    /// The objects, sorted by identity.
    pub resources: Vec<Resource>,
}

/// The objects of one cluster that another placement has at the end: nothing of them is deleted.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HandOverPlan {
    /// The cluster.
    pub cluster_name: ClusterName,
    /// The placement that has them then.
    pub to: PlacementKey,
    /// The objects, sorted by identity.
    pub resources: Vec<Resource>,
}
