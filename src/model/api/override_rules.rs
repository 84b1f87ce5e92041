//! The rules of overrides beyond their types.

use super::check::{FieldError, count};
use super::object::Validate;
use super::selector::check_selector;

use super::overrides::{
    ClusterResourceOverrideSpec, JsonPatchOverride, OverrideRule, OverrideType, PATCHES_MAX, PatchOperation,
    PlacementRef, PlacementScope, RULES_MAX, ResourceOverrideSpec, SELECTORS_MAX,
};

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
                errors.push(FieldError::new(path, "the object is listed twice"));
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
                errors.push(FieldError::new(format!("{path}[{index}]"), "the object is listed twice"));
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
