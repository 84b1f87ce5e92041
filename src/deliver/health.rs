//! The availability of a live object.
//!
//! Sources: KubeFleet's availability predicates, matched by exact group, version and kind; for all other kinds kstatus, the
//! conventions by which controllers write a status.

use std::sync::Arc;

use serde_json::Value;

use model::encrypted::DigestKey;
use model::id::ObjectId;
use model::records::Availability;
use schedule::cel::ObjectExpression;

/// Kinds that are available as soon as they exist: (group, version, kind).
const DATA_KINDS: &[(&str, &str, &str)] = &[
    ("", "v1", "Namespace"),
    ("", "v1", "Secret"),
    ("", "v1", "ConfigMap"),
    ("", "v1", "ServiceAccount"),
    ("", "v1", "LimitRange"),
    ("", "v1", "ResourceQuota"),
    ("rbac.authorization.k8s.io", "v1", "Role"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"),
    ("networking.k8s.io", "v1", "NetworkPolicy"),
    ("networking.k8s.io", "v1", "IngressClass"),
    ("storage.k8s.io", "v1", "CSIDriver"),
    ("storage.k8s.io", "v1", "CSINode"),
    ("storage.k8s.io", "v1", "StorageClass"),
    ("storage.k8s.io", "v1", "CSIStorageCapacity"),
    ("apps", "v1", "ControllerRevision"),
    ("scheduling.k8s.io", "v1", "PriorityClass"),
];

/// Kinds whose controllers always write the condition Ready, with any version: without it they are not available yet. Of
/// other kinds, an object without a status may be one that nobody ever writes a status of.
const READY_KINDS: &[(&str, &str)] = &[
    ("cert-manager.io", "Certificate"),
    ("cert-manager.io", "ClusterIssuer"),
    ("cert-manager.io", "Issuer"),
    ("helm.toolkit.fluxcd.io", "HelmRelease"),
    ("kustomize.toolkit.fluxcd.io", "Kustomization"),
];

/// Why an object is not available whose status describes an earlier generation.
const BEHIND: &str = "its controller has not seen its latest generation";

/// Characters of a message that an object gives as the reason of its failure.
const MESSAGE_CHARS_MAX: usize = 200;

/// The health of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectHealth {
    /// Whether it is available.
    pub availability: Availability,
    /// Why it is not, where it says so.
    pub why: Option<Arc<str>>,
}

impl ObjectHealth {
    fn of(is_available: bool) -> Self {
        let availability = if is_available { Availability::Available } else { Availability::ManifestNotAvailableYet };
        Self { availability, why: None }
    }

    fn not_trackable() -> Self {
        Self { availability: Availability::NotTrackable, why: None }
    }

    fn not_yet(why: impl Into<Arc<str>>) -> Self {
        Self { availability: Availability::ManifestNotAvailableYet, why: Some(why.into()) }
    }

    fn failed(why: impl Into<Arc<str>>) -> Self {
        Self { availability: Availability::Failed, why: Some(why.into()) }
    }
}

/// The rules of the configuration.
#[derive(Clone, Debug, Default)]
pub struct HealthRules {
    /// Rules for kinds, before those of this file.
    pub kinds: Vec<KindRule>,
    /// Whether kinds that KubeFleet has no rule for tell nothing.
    pub only_kubefleets: bool,
    /// The key of digests of what members hold in plaintext and the source has encrypted.
    pub digest_key: DigestKey,
}

impl HealthRules {
    /// Returns the rule for the kind of an object.
    fn of(&self, id: &ObjectId) -> Option<&KindRule> {
        self.kinds.iter().find(|rule| rule.group == id.group && rule.kind == id.kind)
    }

    /// Tells whether there is a rule for the kind of an object.
    pub fn have(&self, id: &ObjectId) -> bool {
        self.of(id).is_some()
    }
}

/// When objects of one kind are available, and when they failed.
#[derive(Clone, Debug)]
pub struct KindRule {
    /// The group of the kind.
    pub group: String,
    /// The kind, in any version.
    pub kind: String,
    /// True when an object is available; absent: as without this rule.
    pub available: Option<ObjectExpression>,
    /// True when an object failed.
    pub failed: Option<ObjectExpression>,
}

impl KindRule {
    /// Returns the health of an object of the kind; `None` if the rule does not say when it is available.
    fn health(&self, object: &Value) -> Option<ObjectHealth> {
        if is_behind(object, object.pointer("/status/observedGeneration")) {
            return Some(ObjectHealth::not_yet(BEHIND));
        }
        if self.failed.as_ref().is_some_and(|failed| failed.holds(object)) {
            return Some(ObjectHealth::failed("`failed` in the configuration's rule for its kind is true"));
        }
        self.available.as_ref().map(|available| ObjectHealth::of(available.holds(object)))
    }
}

/// Returns the health of a live object, by its kind's own rule or by its conditions.
pub fn health(id: &ObjectId, object: &Value, rules: &HealthRules) -> ObjectHealth {
    if let Some(health) = rules.of(id).and_then(|rule| rule.health(object)) {
        return health;
    }
    match (id.group.as_str(), id.version.as_str(), id.kind.as_str()) {
        ("apps", "v1", "Deployment") => ObjectHealth::of(deployment(object)),
        ("apps", "v1", "StatefulSet") => ObjectHealth::of(stateful_set(object)),
        ("apps", "v1", "DaemonSet") => ObjectHealth::of(daemon_set(object)),
        ("", "v1", "Service") => service(object).map_or_else(ObjectHealth::not_trackable, ObjectHealth::of),
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition") => ObjectHealth::of(
            condition_is(object, "Established", "True") && condition_is(object, "NamesAccepted", "True"),
        ),
        ("policy", "v1", "PodDisruptionBudget") => ObjectHealth::of(pod_disruption_budget(object)),
        kind if DATA_KINDS.contains(&kind) => ObjectHealth::of(true),
        // The rules above are KubeFleet's, those below gitfleet's own.
        _ if rules.only_kubefleets => ObjectHealth::not_trackable(),
        ("batch", "v1", "Job") => job(object),
        ("apps", "v1", "ReplicaSet") | ("", "v1", "ReplicationController") => ObjectHealth::of(replica_set(object)),
        (group, _, kind) => by_conditions(object).unwrap_or_else(|| {
            if READY_KINDS.contains(&(group, kind)) { ObjectHealth::of(false) } else { ObjectHealth::not_trackable() }
        }),
    }
}

/// Returns the health of an object from what controllers write by convention; `None` if its status holds nothing of that.
///
/// Source: kstatus. There an object with any other status is available; here it is not known to be.
fn by_conditions(object: &Value) -> Option<ObjectHealth> {
    if is_behind(object, object.pointer("/status/observedGeneration")) {
        return Some(ObjectHealth::not_yet(BEHIND));
    }
    if let Some(stalled) = true_condition(object, "Stalled") {
        return Some(ObjectHealth::failed(condition_text(stalled)));
    }
    if let Some(reconciling) = true_condition(object, "Reconciling") {
        return Some(ObjectHealth::not_yet(state(reconciling)));
    }
    if let Some(ready) = condition(object, "Ready") {
        // Some controllers say only in the condition which generation it describes.
        let is_current = !is_behind(object, ready.get("observedGeneration"));
        let is_ready = ready["status"] == "True" && is_current;
        return Some(if is_ready { ObjectHealth::of(true) } else { ObjectHealth::not_yet(state(ready)) });
    }
    object.pointer("/status/observedGeneration").filter(|observed| observed.is_i64()).map(|_| ObjectHealth::of(true))
}

/// Tells whether an observed generation is another than the object's; false where none is said.
fn is_behind(object: &Value, observed: Option<&Value>) -> bool {
    let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
    observed.and_then(Value::as_i64).is_some_and(|observed| generation.is_some_and(|present| observed != present))
}

/// Source: kstatus, except that a Job that runs is not available yet: what it does is not done.
fn job(object: &Value) -> ObjectHealth {
    if let Some(failed) = true_condition(object, "Failed") {
        return ObjectHealth::failed(condition_text(failed));
    }
    // The condition stays for a moment when a Job is resumed.
    let is_suspended =
        object.pointer("/spec/suspend") == Some(&Value::Bool(true)) && condition_is(object, "Suspended", "True");
    ObjectHealth::of(condition_is(object, "Complete", "True") || is_suspended)
}

fn replica_set(object: &Value) -> bool {
    observed(object) && number(object, "/status/availableReplicas") == replicas(object)
}

fn number(object: &Value, pointer: &str) -> i64 {
    // API servers omit zero counts from a status.
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn observed(object: &Value) -> bool {
    // Until its controller has seen this generation, a status describes the earlier one.
    number(object, "/status/observedGeneration") == number(object, "/metadata/generation")
}

/// Returns `spec.replicas`, or the API server's default of one.
fn replicas(object: &Value) -> i64 {
    object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1)
}

fn deployment(object: &Value) -> bool {
    let wanted = replicas(object);
    observed(object)
        && number(object, "/status/availableReplicas") == wanted
        && number(object, "/status/updatedReplicas") == wanted
        && number(object, "/status/unavailableReplicas") == 0
}

fn stateful_set(object: &Value) -> bool {
    observed(object)
        && number(object, "/status/availableReplicas") == replicas(object)
        && number(object, "/status/currentReplicas") == number(object, "/status/updatedReplicas")
        && text(object, "/status/currentRevision") == text(object, "/status/updateRevision")
}

fn daemon_set(object: &Value) -> bool {
    observed(object)
        && number(object, "/status/numberAvailable") == number(object, "/status/desiredNumberScheduled")
        && number(object, "/status/currentNumberScheduled") == number(object, "/status/updatedNumberScheduled")
}

/// `None` for an ExternalName Service, which nothing tracks.
fn service(object: &Value) -> Option<bool> {
    match text(object, "/spec/type") {
        // A headless Service has `None` there, which counts as an address.
        "ClusterIP" | "NodePort" | "" => Some(!text(object, "/spec/clusterIPs/0").is_empty()),
        "LoadBalancer" => Some(
            // Some providers give a load balancer an address, others only a name.
            !text(object, "/status/loadBalancer/ingress/0/ip").is_empty()
                || !text(object, "/status/loadBalancer/ingress/0/hostname").is_empty(),
        ),
        _ => None,
    }
}

fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object.pointer("/status/conditions")?.as_array()?.iter().find(|condition| condition["type"] == type_)
}

fn true_condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    condition(object, type_).filter(|condition| condition["status"] == "True")
}

fn condition_is(object: &Value, type_: &str, status: &str) -> bool {
    condition(object, type_).is_some_and(|condition| condition["status"] == status)
}

/// Returns a condition's type, status and reason. Its message may change with every look, and each change would be a report.
fn state(condition: &Value) -> String {
    let type_ = text(condition, "/type");
    let status = text(condition, "/status");
    match text(condition, "/reason") {
        "" => format!("{type_} is {status}"),
        reason => format!("{type_} is {status}: {reason}"),
    }
}

/// Returns the condition of a failure with its message.
fn condition_text(condition: &Value) -> String {
    let message: String = text(condition, "/message").chars().take(MESSAGE_CHARS_MAX).collect();
    if message.is_empty() { state(condition) } else { format!("{}: {message}", state(condition)) }
}

fn pod_disruption_budget(object: &Value) -> bool {
    // A budget that allows no disruption is available too: only count and condition must agree.
    let allowed = number(object, "/status/disruptionsAllowed") > 0;
    observed(object) && condition_is(object, "DisruptionAllowed", if allowed { "True" } else { "False" })
}

#[cfg(test)]
mod tests;
