//! Evictions and disruption budgets.
//!
//! Source: KubeFleet API, `placement.kubernetes-fleet.io` v1beta1 and v1alpha1.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::FieldError;
use super::object::Validate;
use super::placement::IntOrPercent;
use super::placement_rules::int_or_percent;
use super::staged::count_characters;

/// `spec` of a ClusterResourcePlacementEviction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EvictionSpec {
    /// The ClusterResourcePlacement.
    #[schemars(length(max = 255))]
    pub placement_name: String,
    /// The cluster it is taken off.
    #[schemars(length(max = 255))]
    pub cluster_name: String,
}

/// `spec` of a ClusterResourcePlacementDisruptionBudget; it is for the placement of its own name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DisruptionBudgetSpec {
    /// Clusters that may be unavailable; excludes `minAvailable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrPercent>,
    /// Clusters that must stay available; excludes `maxUnavailable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_available: Option<IntOrPercent>,
}

impl Validate for EvictionSpec {
    fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        count_characters(&mut errors, "spec.placementName", &self.placement_name);
        count_characters(&mut errors, "spec.clusterName", &self.cluster_name);
        errors
    }
}

impl Validate for DisruptionBudgetSpec {
    fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.max_unavailable.is_some() && self.min_available.is_some() {
            errors.push(FieldError::new("spec", "maxUnavailable and minAvailable exclude each other"));
        }
        for (field, value) in [("maxUnavailable", &self.max_unavailable), ("minAvailable", &self.min_available)] {
            // Here, unlike in a rolling update, a number in quotes is none.
            if let Some(value) = value {
                let path = format!("spec.{field}");
                match value {
                    IntOrPercent::Text(text) if super::check::percent(text).is_none() => {
                        errors.push(FieldError::new(path, format!("{text:?} is not a percentage up to 100%")));
                    }
                    _ => int_or_percent(&mut errors, &path, value, 0),
                }
            }
        }
        errors
    }
}
