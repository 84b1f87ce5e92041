//! How a plan would be rolled out, and what clusters would hold and lose.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::snapshot::Resource;
use crate::api::placement::StrategyType;
use crate::api::staged::StageTaskType;
use crate::model::id::ClusterName;

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
