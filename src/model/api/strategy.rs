//! How a placement moves its clusters and applies its objects: `spec.strategy` of both placement kinds.
//!
//! Source: KubeFleet API, `placement.kubernetes-fleet.io` v1 and v1beta1.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a placement moves its clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RolloutStrategy {
    /// By itself, or by staged update runs.
    #[serde(rename = "type", default)]
    pub type_: StrategyType,
    /// Limits of `RollingUpdate`; forbidden for `External`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdateConfig>,
    /// How objects are applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_strategy: Option<ApplyStrategy>,
    /// What happens to placed objects when the placement leaves a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_strategy: Option<DeleteStrategy>,
    /// Changes nothing, which is a warning: there is no hub to copy a status to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_back_strategy: Option<ReportBackStrategy>,
}

/// Who moves the clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StrategyType {
    /// The placement itself, within `rollingUpdate`.
    #[default]
    RollingUpdate,
    /// Staged update runs.
    External,
}

impl StrategyType {
    /// Returns the spelling of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RollingUpdate => "RollingUpdate",
            Self::External => "External",
        }
    }
}

/// A number of clusters or a percentage of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum IntOrPercent {
    /// A number.
    Int(i32),
    /// A percentage such as `25%`, or a number in quotes.
    Text(String),
}

impl IntOrPercent {
    /// Resolves against a total, rounding up, as KubeFleet does for both rolling limits. `None` where the text is neither.
    pub fn rounded_up(&self, total: usize) -> Option<usize> {
        match self {
            Self::Int(n) => usize::try_from(*n).ok(),
            Self::Text(text) => match text.strip_suffix('%') {
                Some(percent) => Some((percent.parse::<usize>().ok()? * total).div_ceil(100)),
                None => text.parse().ok(),
            },
        }
    }
}

/// Limits of a rolling update. Absent fields have the defaults 25 %, 25 % and 60 s.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RollingUpdateConfig {
    /// Clusters that may be unavailable by our doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrPercent>,
    /// Clusters that may be added beyond the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrPercent>,
    /// Seconds after which objects whose availability cannot be tracked count as available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub unavailable_period_seconds: Option<i32>,
}

/// How objects are applied on a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApplyStrategy {
    /// How they are written, or only compared.
    #[serde(rename = "type", default)]
    pub type_: ApplyStrategyType,
    /// Which fields count as a difference.
    #[serde(default)]
    pub comparison_option: ComparisonOption,
    /// Whether drift is put back.
    #[serde(default)]
    pub when_to_apply: WhenToApply,
    /// What to do with objects that are already there.
    #[serde(default)]
    pub when_to_take_over: WhenToTakeOver,
    /// Whether objects that somebody else owns are shared with them.
    #[serde(default)]
    pub allow_co_ownership: bool,
    /// Server-side apply only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_side_apply_config: Option<ServerSideApplyConfig>,
}

/// How objects are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApplyStrategyType {
    /// Carried out as server-side apply that forces ownership, as a three-way merge would.
    #[default]
    ClientSideApply,
    /// Server-side apply.
    ServerSideApply,
    /// Compare and report; write nothing.
    ReportDiff,
}

/// Which fields count as a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ComparisonOption {
    /// The fields of the manifest.
    #[default]
    PartialComparison,
    /// All fields.
    FullComparison,
}

/// Whether drift is put back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenToApply {
    /// Drift is put back.
    #[default]
    Always,
    /// Drift is reported and left.
    IfNotDrifted,
}

/// What to do with objects that are already there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenToTakeOver {
    /// Take them over.
    #[default]
    Always,
    /// Take them over if nothing differs.
    IfNoDiff,
    /// Leave them.
    Never,
}

/// Options of server-side apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServerSideApplyConfig {
    /// Whether fields of other managers are taken.
    #[serde(default)]
    pub force: bool,
}

/// What happens to placed objects when the placement goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteStrategy {
    /// `Delete` or `Abandon`.
    #[serde(default)]
    pub propagation_policy: PropagationPolicy,
}

/// What happens to placed objects when the placement goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PropagationPolicy {
    /// They are deleted.
    #[default]
    Delete,
    /// They are left.
    Abandon,
}

/// Whether member status is copied back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReportBackStrategy {
    /// Off or on.
    #[serde(rename = "type", default)]
    pub type_: ReportBackType,
    /// Where to; required for `Mirror`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<ReportBackDestination>,
}

/// Whether member status is copied back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReportBackType {
    /// Not copied.
    #[default]
    Disabled,
    /// Copied.
    Mirror,
}

/// Where member status is copied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReportBackDestination {
    /// The object on the hub.
    OriginalResource,
    /// The Work object.
    WorkAPI,
}
