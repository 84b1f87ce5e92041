//! The scheduling policy of a placement: which clusters it goes to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::selector::LabelSelector;
use super::taint::Toleration;

/// Which clusters a placement goes to. The field order is the API's: the policy hash depends on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlacementPolicy {
    /// How clusters are picked.
    #[serde(default)]
    pub placement_type: PlacementType,
    /// The clusters of `PickFixed`, at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub cluster_names: Vec<String>,
    /// The N of `PickN`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub number_of_clusters: Option<i32>,
    /// Required and preferred properties of clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// How evenly `PickN` spreads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Taints that do not repel this placement, at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub tolerations: Vec<Toleration>,
}

/// How clusters are picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum PlacementType {
    /// Every cluster that passes the filters.
    #[default]
    PickAll,
    /// The N best.
    PickN,
    /// The named ones.
    PickFixed,
}

/// Wraps cluster affinity, as the API nests it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Affinity {
    /// Required and preferred terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
}

/// Required and preferred terms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterAffinity {
    /// A cluster must fit one of the terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_during_scheduling_ignored_during_execution: Option<ClusterSelector>,
    /// Terms that add their weight to a cluster's score.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preferred_during_scheduling_ignored_during_execution: Vec<PreferredClusterSelector>,
}

/// Terms, ORed; at most 10.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterSelector {
    /// The terms.
    #[schemars(length(max = 10))]
    pub cluster_selector_terms: Vec<ClusterSelectorTerm>,
}

/// A weighted preference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreferredClusterSelector {
    /// -100 to 100.
    #[schemars(range(min = -100, max = 100))]
    pub weight: i32,
    /// What is preferred.
    pub preference: ClusterSelectorTerm,
}

/// One description of clusters: label and property requirements, ANDed, and how to rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterSelectorTerm {
    /// Clusters by label; absent is not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Clusters by property.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub property_selector: Option<PropertySelector>,
    /// Ranks by property; `metricSorter` is its older name.
    #[serde(default, alias = "metricSorter", skip_serializing_if = "Option::is_none")]
    pub property_sorter: Option<PropertySorter>,
}

/// Property requirements, ANDed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PropertySelector {
    /// The requirements.
    pub match_expressions: Vec<PropertySelectorRequirement>,
}

/// One requirement on a property.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PropertySelectorRequirement {
    /// The property.
    pub name: String,
    /// How it is compared.
    pub operator: PropertySelectorOperator,
    /// Exactly one Kubernetes quantity.
    #[schemars(length(max = 1))]
    pub values: Vec<String>,
}

/// How a property is compared, as exact Kubernetes quantities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PropertySelectorOperator {
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
}

/// Ranks clusters by a property.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PropertySorter {
    /// The property.
    pub name: String,
    /// Which end is better.
    pub sort_order: SortOrder,
}

/// Which end of a property is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SortOrder {
    /// The larger the better.
    Descending,
    /// The smaller the better.
    Ascending,
}

/// How evenly `PickN` spreads over the values of a label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TopologySpreadConstraint {
    /// The most by which domains may differ, at least 1; 1 where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_skew: Option<i32>,
    /// The label whose values are the domains.
    pub topology_key: String,
    /// What to do when it cannot hold; `DoNotSchedule` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_unsatisfiable: Option<UnsatisfiableAction>,
}

/// What to do when a spread cannot hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UnsatisfiableAction {
    /// Reject the cluster.
    #[default]
    DoNotSchedule,
    /// Rank it last.
    ScheduleAnyway,
}
