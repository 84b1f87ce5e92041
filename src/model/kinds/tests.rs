use super::*;

#[test]
fn kinds_are_known_by_group_and_kind() {
    let table = [
        ("", "Namespace", Some(("v1", Scope::Cluster))),
        ("", "ConfigMap", Some(("v1", Scope::Namespaced))),
        ("apps", "Deployment", Some(("v1", Scope::Namespaced))),
        ("", "Deployment", None),
        ("autoscaling", "HorizontalPodAutoscaler", Some(("v2", Scope::Namespaced))),
        ("rbac.authorization.k8s.io", "ClusterRole", Some(("v1", Scope::Cluster))),
        ("apiextensions.k8s.io", "CustomResourceDefinition", Some(("v1", Scope::Cluster))),
        ("certificates.k8s.io", "PodCertificateRequest", Some(("v1", Scope::Namespaced))),
        ("scheduling.k8s.io", "PodGroup", Some(("v1beta1", Scope::Namespaced))),
        ("example.com", "Widget", None),
    ];
    for (group, kind, expected) in table {
        assert_eq!(lookup(group, kind).map(|k| (k.version, k.scope)), expected, "{group}/{kind}");
    }
}

#[test]
fn plurals() {
    let table = [
        ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
        ("", "v1", "Endpoints", "endpoints"),
        ("example.com", "v1", "Proxy", "proxies"),
        ("example.com", "v1", "Bus", "buses"),
        ("example.com", "v1", "Widget", "widgets"),
    ];
    for (group, version, kind, expected) in table {
        assert_eq!(plural(group, version, kind), expected, "{kind}");
    }
}
