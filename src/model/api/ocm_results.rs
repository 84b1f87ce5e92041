//! Objects that OCM's controllers write: decisions and scores. They have a status and no spec.
//!
//! Source: OCM API, `cluster.open-cluster-management.io` v1beta1 and v1alpha1.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::object::Metadata;

/// The largest score of an add-on; the smallest is its negative.
pub const ADDON_SCORE_MAX: i32 = 100;

/// A PlacementDecision; it has no spec.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlacementDecision {
    /// Group and version, as written.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name, labels, annotations.
    pub metadata: Metadata,
    /// The decisions.
    #[serde(default)]
    pub status: PlacementDecisionStatus,
}

/// `status` of a PlacementDecision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlacementDecisionStatus {
    /// The clusters, at most 100 an object.
    #[serde(default)]
    pub decisions: Vec<Decision>,
}

/// One decided cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Decision {
    /// The cluster.
    pub cluster_name: String,
    /// Always empty today.
    #[serde(default)]
    pub reason: String,
    /// Its score; absent for zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<i64>,
}

/// An AddOnPlacementScore, in the namespace of its cluster; it has no spec.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddOnPlacementScore {
    /// Group and version, as written.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name, labels, annotations.
    pub metadata: Metadata,
    /// The scores.
    #[serde(default)]
    pub status: AddOnScoreStatus,
}

/// `status` of an AddOnPlacementScore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddOnScoreStatus {
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Value>,
    /// The scores, by name.
    #[serde(default)]
    pub scores: Vec<AddOnScore>,
    /// Until when; absent means for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<jiff::Timestamp>,
}

/// One score.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddOnScore {
    /// Its name.
    pub name: String,
    /// -100 to 100.
    pub value: i32,
}
