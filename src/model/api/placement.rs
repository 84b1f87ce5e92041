//! ClusterResourcePlacement and ResourcePlacement: what goes to which clusters.
//!
//! Source: KubeFleet API, `placement.kubernetes-fleet.io` v1 and v1beta1.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::policy::*;
pub use super::selector::{LabelSelector, LabelSelectorOperator, LabelSelectorRequirement};
pub use super::strategy::*;
pub use super::taint::{Toleration, TolerationOperator};

/// `spec` of both placement kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlacementSpec {
    /// What is placed; the terms are ORed.
    #[schemars(length(min = 1, max = 100))]
    pub resource_selectors: Vec<ResourceSelector>,
    /// Where it goes; absent means every cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PlacementPolicy>,
    /// How it gets there.
    #[serde(default)]
    pub strategy: RolloutStrategy,
    /// Snapshots kept, 1 to 1000.
    #[serde(default = "default_revision_history_limit")]
    #[schemars(range(min = 1, max = 1000))]
    pub revision_history_limit: i32,
    /// Where the status may be read.
    #[serde(default)]
    pub status_reporting_scope: StatusReportingScope,
}

/// KubeFleet's default for `revisionHistoryLimit`.
pub const REVISION_HISTORY_LIMIT_DEFAULT: i32 = 10;

fn default_revision_history_limit() -> i32 {
    REVISION_HISTORY_LIMIT_DEFAULT
}

/// Where the status of a placement may be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StatusReportingScope {
    /// On the placement itself.
    #[default]
    ClusterScopeOnly,
    /// Also in the selected namespace.
    NamespaceAccessible,
}

/// Selects objects of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceSelector {
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// One object by name; excludes `labelSelector`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Objects by label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// How much of a namespace is meant.
    #[serde(default)]
    pub selection_scope: SelectionScope,
}

/// How much of a namespace a Namespace selector means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectionScope {
    /// The Namespace object alone.
    NamespaceOnly,
    /// The Namespace and everything in it.
    #[default]
    NamespaceWithResources,
    /// The Namespace, and of what is in it that which the other selectors name.
    NamespaceWithResourceSelectors,
}
