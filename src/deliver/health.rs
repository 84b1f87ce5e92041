//! The availability of a live object.
//!
//! Source: KubeFleet's availability predicates, matched by exact group, version and kind.

use serde_json::Value;

use crate::model::id::ObjectId;
use crate::model::records::Availability;

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

/// Returns whether a live object is available, by its kind's own rule; kinds without a rule are not trackable.
pub fn availability(id: &ObjectId, object: &Value) -> Availability {
    let available = match (id.group.as_str(), id.version.as_str(), id.kind.as_str()) {
        ("apps", "v1", "Deployment") => deployment(object),
        ("apps", "v1", "StatefulSet") => stateful_set(object),
        ("apps", "v1", "DaemonSet") => daemon_set(object),
        ("", "v1", "Service") => match service(object) {
            Some(available) => available,
            None => return Availability::NotTrackable,
        },
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition") => {
            condition_is(object, "Established", "True") && condition_is(object, "NamesAccepted", "True")
        }
        ("policy", "v1", "PodDisruptionBudget") => pod_disruption_budget(object),
        kind if DATA_KINDS.contains(&kind) => true,
        _ => return Availability::NotTrackable,
    };
    if available { Availability::Available } else { Availability::ManifestNotAvailableYet }
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

fn condition_is(object: &Value, type_: &str, status: &str) -> bool {
    object
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .is_some_and(|all| all.iter().any(|c| c["type"] == type_ && c["status"] == status))
}

fn pod_disruption_budget(object: &Value) -> bool {
    // A budget that allows no disruption is available too: only count and condition must agree.
    let allowed = number(object, "/status/disruptionsAllowed") > 0;
    observed(object) && condition_is(object, "DisruptionAllowed", if allowed { "True" } else { "False" })
}

#[cfg(test)]
mod tests;
