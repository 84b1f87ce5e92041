//! ClusterResourceOverride and ResourceOverride: what is different on some clusters.
//!
//! Source: KubeFleet API, `placement.kubernetes-fleet.io` v1, v1beta1 and v1alpha1.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{FieldError, count};
use super::object::{AnyJson, Validate};
use super::placement::{LabelSelector, ResourceSelector};
use super::selector::check_selector;

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

impl Validate for ClusterResourceOverrideSpec {
    fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let path = "spec.clusterResourceSelectors";
        count(&mut errors, path, self.cluster_resource_selectors.len(), 1, SELECTORS_MAX);
        for (index, selector) in self.cluster_resource_selectors.iter().enumerate() {
            let path = format!("{path}[{index}]");
            if selector.name.is_empty() {
                errors.push(FieldError::new(format!("{path}.name"), "an override selects by name"));
            }
            if selector.label_selector.is_some() {
                errors.push(FieldError::new(format!("{path}.labelSelector"), "an override selects by name only"));
            }
            if self.cluster_resource_selectors[..index].contains(selector) {
                errors.push(FieldError::new(path, "the same object is there twice"));
            }
        }
        if self.placement.as_ref().is_some_and(|p| p.scope == PlacementScope::Namespaced) {
            let message = "a ClusterResourceOverride is for ClusterResourcePlacements only";
            errors.push(FieldError::new("spec.placement.scope", message));
        }
        placement_ref(&mut errors, self.placement.as_ref());
        rules(&mut errors, &self.policy.override_rules);
        errors
    }
}

impl Validate for ResourceOverrideSpec {
    fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let path = "spec.resourceSelectors";
        count(&mut errors, path, self.resource_selectors.len(), 1, SELECTORS_MAX);
        for (index, selector) in self.resource_selectors.iter().enumerate() {
            if selector.name.is_empty() {
                errors.push(FieldError::new(format!("{path}[{index}].name"), "an override selects by name"));
            }
            if self.resource_selectors[..index].contains(selector) {
                errors.push(FieldError::new(format!("{path}[{index}]"), "the same object is there twice"));
            }
        }
        placement_ref(&mut errors, self.placement.as_ref());
        rules(&mut errors, &self.policy.override_rules);
        errors
    }
}

fn placement_ref(errors: &mut Vec<FieldError>, placement: Option<&PlacementRef>) {
    if placement.is_some_and(|p| p.name.is_empty()) {
        errors.push(FieldError::new("spec.placement.name", "must not be empty"));
    }
}

fn rules(errors: &mut Vec<FieldError>, rules: &[OverrideRule]) {
    let path = "spec.policy.overrideRules";
    count(errors, path, rules.len(), 1, RULES_MAX);
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("{path}[{index}]");
        for (index, term) in rule.cluster_selector.iter().flat_map(|s| &s.cluster_selector_terms).enumerate() {
            if let Some(labels) = &term.label_selector {
                let path = format!("{path}.clusterSelector.clusterSelectorTerms[{index}].labelSelector");
                check_selector(errors, &path, labels);
            }
        }
        let patches = rule.json_patch_overrides.len();
        let path = format!("{path}.jsonPatchOverrides");
        match rule.override_type {
            OverrideType::Delete if patches > 0 => {
                errors.push(FieldError::new(&path, "overrideType Delete takes no patches"));
            }
            OverrideType::Delete => {}
            OverrideType::JSONPatch => count(errors, &path, patches, 1, PATCHES_MAX),
        }
        for (index, patch) in rule.json_patch_overrides.iter().enumerate() {
            patch_errors(errors, &format!("{path}[{index}]"), patch);
        }
    }
}

fn patch_errors(errors: &mut Vec<FieldError>, path: &str, operation: &JsonPatchOverride) {
    if operation.op == PatchOperation::Remove && operation.value.is_some() {
        errors.push(FieldError::new(format!("{path}.value"), "remove takes no value"));
    }
    let complaint = match operation.path.strip_prefix('/') {
        None => Some("must start with a slash"),
        Some(rest) => {
            let segments: Vec<&str> = rest.split('/').collect();
            match segments.as_slice() {
                segments if segments.iter().any(|s| s.trim().is_empty()) => Some("has an empty segment"),
                ["kind" | "apiVersion" | "status", ..] => Some("kind, apiVersion and status cannot be overridden"),
                ["metadata", "labels" | "annotations", ..] => None,
                ["metadata", ..] => Some("of metadata only labels and annotations can be overridden"),
                _ => None,
            }
        }
    };
    if let Some(complaint) = complaint {
        errors.push(FieldError::new(format!("{path}.path"), format!("{:?}: {complaint}", operation.path)));
    }
}

#[cfg(test)]
mod tests;
