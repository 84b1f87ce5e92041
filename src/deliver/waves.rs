//! Waves: the order in which objects are applied.

use super::step::MemberView;
use model::kinds;
use model::records::Availability;
use model::work::{Desired, WorkOrder};

/// The wave of every kind without a row in the table: custom resources and extensions come last.
pub const LAST_WAVE: u16 = 999;

/// The wave of each built-in kind.
///
/// Source: KubeFleet's work applier, by kind instead of plural.
const WAVES: &[(&str, &str, u16)] = &[
    ("", "Namespace", 0),
    ("scheduling.k8s.io", "PriorityClass", 0),
    ("networking.k8s.io", "NetworkPolicy", 1),
    ("", "ResourceQuota", 1),
    ("", "LimitRange", 1),
    ("policy", "PodDisruptionBudget", 1),
    ("", "ServiceAccount", 1),
    ("", "Secret", 1),
    ("", "ConfigMap", 1),
    ("storage.k8s.io", "StorageClass", 1),
    ("", "PersistentVolume", 1),
    ("", "PersistentVolumeClaim", 1),
    ("apiextensions.k8s.io", "CustomResourceDefinition", 1),
    ("networking.k8s.io", "IngressClass", 1),
    ("rbac.authorization.k8s.io", "ClusterRole", 2),
    ("rbac.authorization.k8s.io", "Role", 2),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", 3),
    ("rbac.authorization.k8s.io", "RoleBinding", 3),
    ("", "Service", 4),
    ("apps", "DaemonSet", 4),
    ("", "Pod", 4),
    ("", "ReplicationController", 4),
    ("apps", "ReplicaSet", 4),
    ("apps", "Deployment", 4),
    ("autoscaling", "HorizontalPodAutoscaler", 4),
    ("apps", "StatefulSet", 4),
    ("batch", "Job", 4),
    ("batch", "CronJob", 4),
    ("networking.k8s.io", "Ingress", 4),
    ("apiregistration.k8s.io", "APIService", 5),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", 5),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", 5),
];

/// Returns the wave of a kind: lower waves are applied first and removed last.
pub fn wave(group: &str, kind: &str) -> u16 {
    WAVES.iter().find(|(g, k, _)| *g == group && *k == kind).map_or(LAST_WAVE, |(_, _, wave)| *wave)
}

/// Tells whether a manifest's kind is defined by a CRD of the same order that is not established yet.
pub(super) fn definition_pending(order: &WorkOrder, desired: &Desired, view: &MemberView<'_>) -> bool {
    // Most kinds are built in, and searching the whole order for each object would be quadratic.
    if kinds::lookup(&desired.id.group, &desired.id.kind).is_some() {
        return false;
    }
    // Other definitions are checked by the API server: it refuses unknown kinds, and the apply is retried.
    order
        .manifests
        .iter()
        .filter(|d| d.id.kind == "CustomResourceDefinition" && d.id.group == "apiextensions.k8s.io")
        .filter(|d| {
            let spec = &d.object["spec"];
            spec["group"] == desired.id.group && spec["names"]["kind"] == desired.id.kind
        })
        .any(|d| view.live.get(&d.key).is_none_or(|live| live.availability != Availability::Available))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_follow_the_table() {
        for (group, kind, expected) in [
            ("", "Namespace", 0),
            ("", "ConfigMap", 1),
            ("apps", "Deployment", 4),
            ("extensions", "Deployment", LAST_WAVE),
            ("example.org", "Widget", LAST_WAVE),
        ] {
            assert_eq!(wave(group, kind), expected, "{group}/{kind}");
        }
    }
}
