//! MemberCluster: which clusters the fleet has, as git names them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The only effect a member's taint may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// New placements need a toleration; what runs there stays.
    NoSchedule,
}

/// Keeps placements off a cluster unless they tolerate it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Taint {
    /// A qualified label name.
    pub key: String,
    /// A label value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// `NoSchedule`.
    pub effect: TaintEffect,
}

/// `spec` of a MemberCluster. Identity and heartbeat belong to KubeFleet's agents: accepted, checked, not used here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemberClusterSpec {
    /// The RBAC subject of KubeFleet's member agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Value>,
    /// Seconds between heartbeats, 1 to 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_period_seconds: Option<i32>,
    /// Taints, at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// What KubeFleet checks before a cluster may leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_options: Option<Value>,
}

/// A MemberCluster of git.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberCluster {
    /// `metadata.labels`, with `kubernetes-fleet.io/member-name` forced to the name.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `spec`.
    pub spec: MemberClusterSpec,
    /// `status` as written in the document, where it has one: properties and conditions for decisions without live facts.
    pub status: Option<Value>,
}
