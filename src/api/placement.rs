//! ClusterResourcePlacement and ResourcePlacement: what goes to which clusters.
//!
//! Source: KubeFleet API, `placement.kubernetes-fleet.io` v1 and v1beta1.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::strategy::*;

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

/// `metav1.LabelSelector`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelSelector {
    /// Labels that must be equal.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements, ANDed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One requirement of a label selector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelSelectorRequirement {
    /// The label.
    pub key: String,
    /// How it is compared.
    pub operator: LabelSelectorOperator,
    /// With what; empty for `Exists` and `DoesNotExist`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// How a label is compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LabelSelectorOperator {
    /// The label has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// None that there is, and nothing fits it. The API's type is any text, so an OCM Placement is accepted with one and told
    /// so by its condition; [`check::label_selector`](super::check::label_selector) refuses it everywhere else.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(String),
}

impl LabelSelector {
    /// Tells whether labels fit: all equalities and all requirements; an empty selector fits everything.
    ///
    /// Source: Kubernetes API conventions, label selectors (`NotIn` holds for an absent label).
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels.iter().all(|(k, v)| labels.get(k) == Some(v))
            && self.match_expressions.iter().all(|r| {
                let value = labels.get(&r.key);
                match &r.operator {
                    LabelSelectorOperator::In => value.is_some_and(|v| r.values.contains(v)),
                    LabelSelectorOperator::NotIn => value.is_none_or(|v| !r.values.contains(v)),
                    LabelSelectorOperator::Exists => value.is_some(),
                    LabelSelectorOperator::DoesNotExist => value.is_none(),
                    LabelSelectorOperator::Unknown(_) => false,
                }
            })
    }
}

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
    pub effect: Option<super::cluster::TaintEffect>,
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
