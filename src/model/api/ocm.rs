//! Open Cluster Management's kinds: managed clusters, sets, placements, decisions and scores.
//!
//! Source: OCM API, `cluster.open-cluster-management.io` v1, v1beta2, v1beta1 and v1alpha1. Its defaults come from the
//! CRDs; an absent field here has the default that its documentation names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::check;
pub use super::ocm_results::*;
use super::placement::{IntOrPercent, LabelSelector, LabelSelectorRequirement};

/// On a cluster: names the one exclusive set it is in.
pub const SET_LABEL: &str = "cluster.open-cluster-management.io/clusterset";
/// The set of every cluster whose label names no other.
pub const DEFAULT_SET: &str = "default";
/// The set of all clusters.
pub const GLOBAL_SET: &str = "global";
/// On a PlacementDecision: names its placement.
pub const PLACEMENT_LABEL: &str = "cluster.open-cluster-management.io/placement";
/// On a PlacementDecision: the index of its group, from `0`.
pub const GROUP_INDEX_LABEL: &str = "cluster.open-cluster-management.io/decision-group-index";
/// On a PlacementDecision: the name of its group; there and empty for a group without a name.
pub const GROUP_NAME_LABEL: &str = "cluster.open-cluster-management.io/decision-group-name";
/// On a Placement, with the value `true`: OCM's controller leaves its decisions alone.
pub const SCHEDULING_DISABLED: &str = "cluster.open-cluster-management.io/experimental-scheduling-disable";
/// Clusters that a PlacementDecision may hold.
///
/// Source: a rule of OCM's controllers, not of the schema.
pub const PAGE_CLUSTERS_MAX: usize = 100;
/// Characters of a taint's key.
pub const TAINT_KEY_LENGTH_MAX: usize = 316;
/// Characters of a taint's value.
pub const TAINT_VALUE_LENGTH_MAX: usize = 1024;
/// The largest weight of a prioritizer; the smallest is its negative.
pub const PRIORITIZER_WEIGHT_MAX: i32 = 10;
/// Spread constraints of one placement.
pub const SPREAD_CONSTRAINTS_MAX: usize = 8;

/// `spec` of a ManagedCluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManagedClusterSpec {
    /// How the hub reaches it; gitfleet has `members:` for that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed_cluster_client_configs: Vec<ClientConfig>,
    /// Whether the hub accepted it; scheduling ignores it.
    #[serde(default)]
    pub hub_accepts_client: bool,
    /// Seconds, 60 where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_duration_seconds: Option<i32>,
    /// Taints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<ManagedClusterTaint>,
}

/// How a hub reaches a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientConfig {
    /// An https address.
    pub url: String,
    /// Certificates, as base64.
    #[serde(rename = "caBundle", default, skip_serializing_if = "String::is_empty")]
    pub ca_bundle: String,
}

/// A taint of a managed cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManagedClusterTaint {
    /// Its key.
    pub key: String,
    /// Its value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// What it does.
    pub effect: ManagedTaintEffect,
    /// Since when; RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_added: Option<jiff::Timestamp>,
}

/// What a taint of a managed cluster does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ManagedTaintEffect {
    /// Not selected without a toleration.
    NoSelect,
    /// Selected only if others do not suffice.
    PreferNoSelect,
    /// Not newly selected; stays where it was.
    NoSelectIfNew,
}

/// `status` of a ManagedCluster, as far as placements read it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterStatus {
    /// Conditions.
    #[serde(default)]
    pub conditions: Vec<ClusterCondition>,
    /// Quantity by resource.
    #[serde(default)]
    pub capacity: BTreeMap<String, Quantity>,
    /// Quantity by resource.
    #[serde(default)]
    pub allocatable: BTreeMap<String, Quantity>,
    /// Claims.
    #[serde(default)]
    pub cluster_claims: Vec<ClusterClaim>,
}

/// A condition of a managed cluster, as far as placements read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCondition {
    /// Such as `ManagedClusterConditionAvailable`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    #[serde(default)]
    pub status: String,
}

/// A quantity, which YAML may have as a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Quantity {
    /// Text such as `16Gi`.
    Text(String),
    /// A number.
    Number(serde_json::Number),
}

impl Quantity {
    /// Returns the quantity in billionths, exactly; `None` where it is none.
    pub fn nanos(&self) -> Option<i128> {
        match self {
            Self::Text(text) => check::quantity_nanos(text),
            Self::Number(number) => check::quantity_nanos(&number.to_string()),
        }
    }
}

/// Something a cluster says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClaim {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
}

/// A ManagedCluster of git.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ManagedCluster {
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `spec`.
    pub spec: ManagedClusterSpec,
    /// `status` as written in the document; absent has default values.
    pub status: Option<ManagedClusterStatus>,
}

/// `spec` of a ManagedClusterSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManagedClusterSetSpec {
    /// Which clusters are in it.
    #[serde(default)]
    pub cluster_selector: ManagedClusterSelector,
    /// Nobody reads it, and that is a warning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed_namespaces: Vec<Value>,
}

/// Which clusters are in a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManagedClusterSelector {
    /// By the exclusive label, or by a selector.
    #[serde(default)]
    pub selector_type: SelectorType,
    /// For `LabelSelector`: absent selects nothing, empty selects everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
}

/// How a set selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SelectorType {
    /// The label `cluster.open-cluster-management.io/clusterset` names the set.
    #[default]
    #[serde(alias = "LegacyClusterSetLabel", alias = "")]
    ExclusiveClusterSetLabel,
    /// Any label selector.
    LabelSelector,
}

/// `spec` of a ManagedClusterSetBinding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManagedClusterSetBindingSpec {
    /// The set, whose name the binding has too.
    pub cluster_set: String,
}

/// `spec` of an OCM Placement; v1alpha1 and v1beta1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OcmPlacementSpec {
    /// Sets to pick from; empty means every bound one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_sets: Vec<String>,
    /// How many; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number_of_clusters: Option<i32>,
    /// Requirements, ORed; none means no filter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predicates: Vec<ClusterPredicate>,
    /// How clusters are ranked.
    #[serde(default)]
    pub prioritizer_policy: PrioritizerPolicy,
    /// No scheduler reads it, and that is a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_policy: Option<SpreadPolicy>,
    /// Taints that do not repel this placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<OcmToleration>,
    /// How decisions are grouped.
    #[serde(default)]
    pub decision_strategy: DecisionStrategy,
    /// No scheduler reads it, and that is a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort_by: Option<SortBy>,
    /// No scheduler reads it, and that is a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_rate_limit: Option<String>,
}

/// In which order decisions are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum SortBy {
    ClusterName,
    Score,
}

/// One requirement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterPredicate {
    /// What a cluster must be.
    #[serde(default)]
    pub required_cluster_selector: OcmClusterSelector,
}

/// Selectors, ANDed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OcmClusterSelector {
    /// By label.
    #[serde(default)]
    pub label_selector: LabelSelector,
    /// By claim.
    #[serde(default)]
    pub claim_selector: ClaimSelector,
    /// By expression.
    #[serde(default)]
    pub cel_selector: CelSelector,
}

/// Requirements on claims, ANDed; claims know no `matchLabels`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimSelector {
    /// The requirements.
    #[serde(default)]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// CEL expressions, ANDed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CelSelector {
    /// The expressions.
    #[serde(default)]
    pub cel_expressions: Vec<String>,
}

/// How clusters are ranked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PrioritizerPolicy {
    /// `Exact` or `Additive`, which an empty text means too. Not an enum: a wrong mode is the scheduler's error.
    #[serde(default)]
    pub mode: String,
    /// The prioritizers.
    #[serde(default)]
    pub configurations: Vec<PrioritizerConfig>,
}

/// One prioritizer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PrioritizerConfig {
    /// The oldest spelling of a built-in; `scoreCoordinate` wins over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What is ranked by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_coordinate: Option<ScoreCoordinate>,
    /// -10 to 10; 1 where absent, 0 disables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// What is ranked by.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScoreCoordinate {
    /// `BuiltIn` where absent.
    #[serde(rename = "type", default)]
    pub type_: ScoreCoordinateType,
    /// `Balance`, `Steady`, `ResourceAllocatableCPU` or `ResourceAllocatableMemory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub built_in: Option<String>,
    /// An add-on's score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on: Option<AddOnCoordinate>,
}

/// Who scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ScoreCoordinateType {
    /// The scheduler.
    #[default]
    BuiltIn,
    /// An AddOnPlacementScore.
    AddOn,
}

/// Which score of which AddOnPlacementScore.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddOnCoordinate {
    /// Name of the AddOnPlacementScore.
    pub resource_name: String,
    /// Name of the score in it.
    pub score_name: String,
}

/// How evenly clusters spread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpreadPolicy {
    /// The constraints.
    #[serde(default)]
    pub spread_constraints: Vec<OcmSpreadConstraint>,
}

/// One constraint of a spread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OcmSpreadConstraint {
    /// Label or claim.
    pub topology_key: String,
    /// `Label` or `Claim`.
    pub topology_key_type: String,
    /// At least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_skew: Option<i32>,
    /// `ScheduleAnyway` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_unsatisfiable: Option<super::placement::UnsatisfiableAction>,
}

/// A taint that does not repel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OcmToleration {
    /// Empty with `Exists` tolerates every key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// `Equal` where absent. Not an enum: an unknown operator matches nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// Empty for `Exists`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Absent means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<ManagedTaintEffect>,
    /// Seconds from the taint's `timeAdded`; absent means for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// How decisions are grouped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DecisionStrategy {
    /// The groups.
    #[serde(default)]
    pub group_strategy: GroupStrategy,
}

/// The groups of decisions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GroupStrategy {
    /// Number or percent; `100%` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters_per_decision_group: Option<IntOrPercent>,
    /// Named groups, filled first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decision_groups: Vec<DecisionGroup>,
}

/// A named group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DecisionGroup {
    /// 2 to 63 characters.
    pub group_name: String,
    /// Its clusters.
    pub group_cluster_selector: GroupClusterSelector,
}

/// The clusters of a named group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GroupClusterSelector {
    /// By label.
    #[serde(default)]
    pub label_selector: LabelSelector,
    /// By claim.
    #[serde(default)]
    pub claim_selector: ClaimSelector,
}
