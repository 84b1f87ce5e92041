//! Taints of clusters, and which of them a placement tolerates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// A taint that does not repel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Toleration {
    /// The taint's key; empty with `Exists` tolerates every key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// `Equal` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<TolerationOperator>,
    /// The taint's value; empty for `Exists`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// The taint's effect; absent means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
}

/// How a toleration compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    /// Key and value are equal.
    #[default]
    Equal,
    /// The key is there.
    Exists,
}
