use serde_json::json;

use super::*;

const RBAC: &str = "rbac.authorization.k8s.io/v1";

fn object(api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}})
}

#[test]
fn identities_that_kubernetes_takes() {
    let (label, subdomain) = ("a".repeat(63), ["a".repeat(63).as_str(); 3].join("."));
    let rows = [
        ("v1", "ConfigMap", "app", "a"),
        ("v1", "ConfigMap", "app", &subdomain),
        ("v1", "Namespace", "", &label),
        ("v1", "Service", "app", "0web"),
        ("apps/v1", "StatefulSet", "app", "old.name"),
        (RBAC, "Role", "app", "team:read"),
        (RBAC, "ClusterRole", "", "system:node"),
        (RBAC, "ClusterRole", "", "Grüße an alle"),
        ("apiregistration.k8s.io/v1", "APIService", "", "v1."),
        ("networking.k8s.io/v1", "IPAddress", "", "2001:db8::1"),
        ("example.com/v1beta1", "HTTP-Route", "app", "x"),
        ("user.openshift.io/v1", "User", "", "kube:admin"),
    ];
    for (api_version, kind, namespace, name) in rows {
        let object = object(api_version, kind, namespace, name);
        assert_eq!(identify(&object).map_err(|e| e.message), Ok(ObjectId::of(&object).expect("an object")));
    }
}

#[test]
fn d03_identities_that_nobody_takes() {
    let long = "a".repeat(254);
    let rows = [
        ("v1", "../prod/secret", "app", "db", "kind", "is no kind"),
        ("v1", "/etc/kubernetes/manifests/x", "app", "db", "kind", "is no kind"),
        ("v1", "Config Map", "app", "db", "kind", "is no kind"),
        ("v1", "1Map", "app", "db", "kind", "is no kind"),
        ("v1", "configmap", "app", "db", "kind", "v1 has no kind configmap"),
        ("v1", &long, "app", "db", "kind", "and more is no kind"),
        ("/v1", "ConfigMap", "app", "db", "apiVersion", "is no API version"),
        ("a/b/v1", "X", "app", "db", "apiVersion", "is no API version"),
        ("../v1", "X", "app", "db", "apiVersion", "is no API version"),
        ("a..b/v1", "X", "app", "db", "apiVersion", "is no API version"),
        ("a.b/V1", "X", "app", "db", "apiVersion", "is no API version"),
        ("a.b/v1?x", "X", "app", "db", "apiVersion", "is no API version"),
        ("v1", "ConfigMap", "../prod", "db", "metadata.namespace", "is no namespace"),
        ("v1", "ConfigMap", "a.b", "db", "metadata.namespace", "is no namespace"),
        ("v1", "ConfigMap", "app", "oops a space", "metadata.name", "no DNS subdomain"),
        ("v1", "ConfigMap", "app", "../x", "metadata.name", "no DNS subdomain"),
        ("v1", "ConfigMap", "app", &long, "metadata.name", "no DNS subdomain"),
        ("v1", "Namespace", "", "a.b", "metadata.name", "no DNS label"),
        (RBAC, "Role", "app", "..", "metadata.name", "means a folder"),
        (RBAC, "Role", "app", "a/b", "metadata.name", "has a `/`"),
        (RBAC, "Role", "app", "a%2Fb", "metadata.name", "has a `/`"),
        (RBAC, "Role", "app", "a\nlevel=ERROR", "metadata.name", "control character"),
        (RBAC, "Role", "app", &long, "metadata.name", "253 bytes"),
        ("example.com/v1", "Widget", "app", "a/../b", "metadata.name", "has a `/`"),
    ];
    for (api_version, kind, namespace, name, field, wanted) in rows {
        let error = identify(&object(api_version, kind, namespace, name)).expect_err(name);
        assert_eq!(error.field, field, "{api_version} {kind} {namespace}/{name}");
        assert!(error.message.contains(wanted), "{api_version} {kind} {namespace}/{name}: {}", error.message);
        assert!(error.hint.is_some() && !error.message.contains('\n') && error.message.len() < 300, "{error:?}");
    }
}
