//! MemberCluster: which clusters the fleet has, as git names them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::check::{self, FieldError, count, range};
use super::object::{AnyJson, Validate};
use super::ocm::ManagedCluster;
pub use super::taint::{Taint, TaintEffect};

/// Taints of one cluster.
pub const TAINTS_MAX: usize = 100;
/// The longest heartbeat period, in seconds.
pub const HEARTBEAT_PERIOD_SECONDS_MAX: i32 = 600;

/// `spec` of a MemberCluster. Identity and heartbeat belong to KubeFleet's agents: checked, not used here, and that is a warning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemberClusterSpec {
    /// The RBAC subject of KubeFleet's member agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<AnyJson>,
    /// Seconds between heartbeats, 1 to 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 600))]
    pub heartbeat_period_seconds: Option<i32>,
    /// Taints, at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub taints: Vec<Taint>,
    /// What KubeFleet checks before a cluster may leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_options: Option<AnyJson>,
}

/// A MemberCluster of git.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberCluster {
    /// `metadata.labels`, with `kubernetes-fleet.io/member-name` forced to the name.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `spec`.
    pub spec: MemberClusterSpec,
    /// `status` as written in the document, where it has one: properties and conditions for decisions without live facts.
    pub status: Option<Value>,
    /// It has a deletion timestamp: an exported object of a cluster that is leaving.
    pub deleting: bool,
    /// Git has no MemberCluster of this name: the ManagedCluster alone makes it a member.
    pub only_managed: bool,
    /// The ManagedCluster of the same name, where git has one.
    pub managed: Option<ManagedCluster>,
}

impl Validate for MemberClusterSpec {
    fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(seconds) = self.heartbeat_period_seconds {
            range(&mut errors, "spec.heartbeatPeriodSeconds", seconds, 1, HEARTBEAT_PERIOD_SECONDS_MAX);
        }
        count(&mut errors, "spec.taints", self.taints.len(), 0, TAINTS_MAX);
        for (index, taint) in self.taints.iter().enumerate() {
            let path = format!("spec.taints[{index}]");
            if !check::is_qualified_name(&taint.key) {
                errors.push(FieldError::new(format!("{path}.key"), format!("{:?} is not a label key", taint.key)));
            }
            if !check::is_label_value(&taint.value) {
                errors
                    .push(FieldError::new(format!("{path}.value"), format!("{:?} is not a label value", taint.value)));
            }
            if self.taints[..index].iter().any(|t| t.key == taint.key && t.effect == taint.effect) {
                errors.push(FieldError::new(path, format!("a second taint of key {:?}", taint.key)));
            }
        }
        let mode = self.delete_options.as_ref().and_then(|o| o.0.get("validationMode")).and_then(Value::as_str);
        if mode.is_some_and(|mode| !matches!(mode, "Strict" | "Skip")) {
            errors.push(FieldError::new("spec.deleteOptions.validationMode", "must be Strict or Skip"));
        }
        errors
    }
}
