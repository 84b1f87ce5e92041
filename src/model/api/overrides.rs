//! ClusterResourceOverride and ResourceOverride: what is different on some clusters.
//!
//! Source: KubeFleet API, `placement.kubernetes-fleet.io` v1, v1beta1 and v1alpha1.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::object::AnyJson;
use super::placement::{LabelSelector, ResourceSelector};

/// Selectors of one override.
pub const SELECTORS_MAX: usize = 20;
/// Rules of one override.
pub const RULES_MAX: usize = 20;
/// Patches of one rule.
pub const PATCHES_MAX: usize = 20;

/// `spec` of a ClusterResourceOverride.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterResourceOverrideSpec {
    /// The placement it is for; absent means every placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementRef>,
    /// The cluster-scoped objects it changes, each by name. A Namespace stands for itself and all that is in it.
    #[schemars(length(min = 1, max = 20))]
    pub cluster_resource_selectors: Vec<ResourceSelector>,
    /// What changes, and where.
    pub policy: OverridePolicy,
}

/// `spec` of a ResourceOverride.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceOverrideSpec {
    /// The placement it is for; absent means every placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementRef>,
    /// The objects of its own namespace that it changes.
    #[schemars(length(min = 1, max = 20))]
    pub resource_selectors: Vec<NamedResource>,
    /// What changes, and where.
    pub policy: OverridePolicy,
}

/// Names a placement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlacementRef {
    /// Its name.
    pub name: String,
    /// Which of the two placement kinds.
    #[serde(default)]
    pub scope: PlacementScope,
}

/// Which of the two placement kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PlacementScope {
    /// A ClusterResourcePlacement.
    #[default]
    Cluster,
    /// A ResourcePlacement of the override's namespace.
    Namespaced,
}

/// Names an object of the override's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamedResource {
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}

/// Rules, all of which apply, from the first to the last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OverridePolicy {
    /// The rules.
    #[schemars(length(min = 1, max = 20))]
    pub override_rules: Vec<OverrideRule>,
}

/// What changes on the clusters it selects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OverrideRule {
    /// The clusters; absent selects none, no terms select every cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_selector: Option<OverrideClusterSelector>,
    /// Patch or delete.
    #[serde(default)]
    pub override_type: OverrideType,
    /// The patches; none for `Delete`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub json_patch_overrides: Vec<JsonPatchOverride>,
}

/// Terms, ORed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OverrideClusterSelector {
    /// The terms.
    #[serde(default)]
    pub cluster_selector_terms: Vec<OverrideClusterTerm>,
}

/// Clusters by label; overrides know no properties.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OverrideClusterTerm {
    /// Absent matches nothing, empty matches all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
}

/// Patch or delete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OverrideType {
    /// Apply the patches.
    #[default]
    JSONPatch,
    /// Leave the object out.
    Delete,
}

/// One operation of RFC 6902.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JsonPatchOverride {
    /// What is done.
    pub op: PatchOperation,
    /// Where, as a JSON pointer.
    pub path: String,
    /// With what; absent for `remove`. Names and labels of the cluster may stand in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<AnyJson>,
}

/// What a patch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PatchOperation {
    /// Add or set.
    Add,
    /// Remove what is there.
    Remove,
    /// Replace what is there.
    Replace,
}

#[cfg(test)]
mod tests;
