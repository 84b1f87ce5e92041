//! Tables for selection, and the manifests the other tests of this folder are made of.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{SelectionError, is_envelope, select};
use model::api::table::PLACEMENT_GROUP;
use model::id::{ObjectId, PlacementKey};
use model::manifest::{Manifest, Origin};
use model::tree::{Placement, Scope, Tree};

pub(super) fn manifest_of(object: Value) -> Manifest {
    Manifest {
        id: ObjectId::of(&object).unwrap(),
        object: Arc::new(object),
        origin: Origin { path: "a.yaml".into(), line: 1, blob: "b10b".into(), ordinal: 0 },
        encrypted: None,
    }
}

pub(super) fn manifest(api_version: &str, kind: &str, namespace: &str, name: &str) -> Manifest {
    let metadata =
        if namespace.is_empty() { json!({"name": name}) } else { json!({"name": name, "namespace": namespace}) };
    manifest_of(json!({"apiVersion": api_version, "kind": kind, "metadata": metadata}))
}

fn tree() -> Tree {
    let mut tree = Tree::default();
    let scopes = [
        ("", "Namespace", Scope::Cluster),
        ("", "ConfigMap", Scope::Namespaced),
        ("", "Secret", Scope::Namespaced),
        ("rbac.authorization.k8s.io", "ClusterRole", Scope::Cluster),
    ];
    tree.scopes = scopes.into_iter().map(|(g, k, s)| ((g.to_owned(), k.to_owned()), s)).collect();
    let object = |mut m: Manifest, pointer: &str, value: Value| {
        let object = Arc::make_mut(&mut m.object);
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = object.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        parent.insert(key.to_owned(), value);
        m
    };
    let team = |name: &str| object(manifest("v1", "Namespace", "", name), "/metadata/labels", json!({"team": "x"}));
    tree.set_manifests(vec![
        team("app"),
        team("kube-x"),
        manifest("v1", "Namespace", "", "other"),
        object(manifest("v1", "Namespace", "", "going"), "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
        manifest("v1", "ConfigMap", "going", "c"),
        manifest("v1", "ConfigMap", "app", "c"),
        object(manifest("v1", "ConfigMap", "app", "d"), "/metadata/labels", json!({"team": "x"})),
        manifest("v1", "ConfigMap", "app", "kube-root-ca.crt"),
        manifest("v1", "ConfigMap", "kube-x", "k"),
        manifest("v1", "ConfigMap", "other", "c"),
        manifest("v1", "ServiceAccount", "app", "default"),
        manifest("v1", "ServiceAccount", "app", "robot"),
        object(manifest("v1", "Secret", "app", "token"), "/type", json!("kubernetes.io/service-account-token")),
        object(manifest("v1", "Secret", "app", "plain"), "/type", json!("Opaque")),
        manifest("v1", "PersistentVolumeClaim", "app", "data"),
        manifest("v1", "Pod", "app", "p"),
        manifest("v1", "Service", "app", "web"),
        manifest("v1", "Endpoints", "app", "web"),
        manifest("v1", "Endpoints", "app", "orphan"),
        object(
            manifest("apps/v1", "ReplicaSet", "app", "owned"),
            "/metadata/ownerReferences",
            json!([{"kind": "Deployment"}]),
        ),
        manifest("apps/v1", "ReplicaSet", "app", "free"),
        object(
            manifest("discovery.k8s.io/v1", "EndpointSlice", "app", "managed"),
            "/metadata/labels",
            json!({"endpointslice.kubernetes.io/managed-by": "x"}),
        ),
        manifest("coordination.k8s.io/v1", "Lease", "app", "l"),
        manifest("rbac.authorization.k8s.io/v1", "ClusterRole", "", "reader"),
        manifest("example.com/v1", "Widget", "app", "w"),
    ]);
    tree
}

fn names(key: PlacementKey, selectors: &Value) -> Result<Vec<String>, SelectionError> {
    let spec = serde_json::from_value(json!({ "resourceSelectors": selectors })).unwrap();
    let origin = manifest("v1", "Namespace", "", "x").origin;
    let placement = Placement { key, spec, annotations: BTreeMap::new(), origin, owners: Vec::new() };
    Ok(select(&tree(), &placement)?.iter().map(|m| m.id.to_string()).collect())
}

const APP: [&str; 10] = [
    "Namespace app",
    "ServiceAccount app/robot",
    "Secret app/plain",
    "ConfigMap app/c",
    "ConfigMap app/d",
    "PersistentVolumeClaim app/data",
    "Service app/web",
    "ReplicaSet.apps app/free",
    "Endpoints app/orphan",
    "Widget.example.com app/w",
];

#[test]
fn selectors_select() {
    let cluster = || PlacementKey::cluster_scoped("p");
    let namespaced = || PlacementKey::namespaced("app", "p");
    let app = &APP[..];
    let scope = "NamespaceWithResourceSelectors";
    let rows: Vec<(&str, PlacementKey, Value, &[&str])> = vec![
        (
            "a namespace with all in it",
            cluster(),
            json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]),
            app,
        ),
        (
            "a namespace alone",
            cluster(),
            json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app", "selectionScope": "NamespaceOnly"}]),
            &["Namespace app"],
        ),
        (
            "reserved names do not matter then",
            cluster(),
            json!([{"group": "", "version": "v1", "kind": "Namespace", "selectionScope": "NamespaceOnly", "labelSelector": {"matchLabels": {"team": "x"}}}]),
            &["Namespace app", "Namespace kube-x"],
        ),
        (
            "a missing namespace",
            cluster(),
            json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "nowhere"}]),
            &[],
        ),
        (
            "a namespace being deleted",
            cluster(),
            json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "going"}]),
            &[],
        ),
        (
            "some kinds of a namespace",
            cluster(),
            json!([{"group": "", "version": "v1", "kind": "ConfigMap"}, {"group": "", "version": "v1", "kind": "Namespace", "name": "app", "selectionScope": scope}, {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole"}]),
            &["Namespace app", "ConfigMap app/c", "ConfigMap app/d", "ClusterRole.rbac.authorization.k8s.io reader"],
        ),
        (
            "cluster-scoped by name",
            cluster(),
            json!([{"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "reader"}]),
            &["ClusterRole.rbac.authorization.k8s.io reader"],
        ),
        (
            "the version of the document counts",
            cluster(),
            json!([{"group": "rbac.authorization.k8s.io", "version": "v1beta1", "kind": "ClusterRole"}]),
            &["ClusterRole.rbac.authorization.k8s.io reader"],
        ),
        (
            "a name that is not there",
            cluster(),
            json!([{"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "writer"}]),
            &[],
        ),
        (
            "a disabled kind",
            cluster(),
            json!([{"group": "", "version": "v1", "kind": "Pod"}, {"group": PLACEMENT_GROUP, "version": "v1", "kind": "Work"}, {"group": "metrics.k8s.io", "version": "v1", "kind": "NodeMetrics"}]),
            &[],
        ),
        (
            "in one's own namespace",
            namespaced(),
            json!([{"group": "", "version": "v1", "kind": "ConfigMap"}]),
            &["ConfigMap app/c", "ConfigMap app/d"],
        ),
        (
            "by label",
            namespaced(),
            json!([{"group": "", "version": "v1", "kind": "ConfigMap", "labelSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}}]),
            &["ConfigMap app/d"],
        ),
        (
            "a kind only documents know",
            namespaced(),
            json!([{"group": "example.com", "version": "v1", "kind": "Widget"}]),
            &["Widget.example.com app/w"],
        ),
        (
            "filters hold for single kinds too",
            namespaced(),
            json!([{"group": "", "version": "v1", "kind": "Secret"}]),
            &["Secret app/plain"],
        ),
    ];
    for (name, key, selectors, expected) in rows {
        assert_eq!(names(key, &selectors).unwrap(), expected, "{name}");
    }
}

#[test]
fn selectors_that_cannot_be_evaluated() {
    let cluster = || PlacementKey::cluster_scoped("p");
    let namespaced = || PlacementKey::namespaced("app", "p");
    let namespace = |extra: Value| {
        let mut selector = json!({"group": "", "version": "v1", "kind": "Namespace"});
        selector.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        selector
    };
    let kind = |group: &str, kind: &str| json!({"group": group, "version": "v1", "kind": kind});
    let first = || "spec.resourceSelectors[0]".to_owned();
    let reserved = |namespace: &str| SelectionError::ReservedNamespace { field: first(), namespace: namespace.into() };
    let scope = "NamespaceWithResourceSelectors";
    let rows = [
        ("a reserved name", cluster(), json!([namespace(json!({"name": "kube-system"}))]), reserved("kube-system")),
        ("default", cluster(), json!([namespace(json!({"name": "default"}))]), reserved("default")),
        (
            "a label that touches a reserved name",
            cluster(),
            json!([namespace(json!({"labelSelector": {"matchLabels": {"team": "x"}}}))]),
            reserved("kube-x"),
        ),
        ("all namespaces", cluster(), json!([namespace(json!({}))]), reserved("kube-x")),
        (
            "a reserved name for some kinds",
            cluster(),
            json!([namespace(json!({"name": "fleet-x", "selectionScope": scope}))]),
            reserved("fleet-x"),
        ),
        (
            "a missing name for some kinds",
            cluster(),
            json!([namespace(json!({"name": "nowhere", "selectionScope": scope}))]),
            SelectionError::NamespaceNotFound { field: first(), namespace: "nowhere".into(), place: String::new() },
        ),
        (
            "a namespaced kind alone",
            cluster(),
            json!([kind("", "ConfigMap")]),
            SelectionError::NamespacedKind { field: first(), kind: "ConfigMap".into() },
        ),
        (
            "a namespace in a ResourcePlacement",
            namespaced(),
            json!([namespace(json!({}))]),
            SelectionError::NamespaceInResourcePlacement { field: first() },
        ),
        (
            "a cluster-scoped kind in a ResourcePlacement",
            namespaced(),
            json!([kind("rbac.authorization.k8s.io", "ClusterRole")]),
            SelectionError::ClusterScopedKind { field: first(), kind: "ClusterRole.rbac.authorization.k8s.io".into() },
        ),
        (
            "an unknown kind",
            cluster(),
            json!([kind("example.com", "Gadget")]),
            SelectionError::UnknownKind { field: first(), kind: "Gadget.example.com".into() },
        ),
        (
            "an object twice",
            cluster(),
            json!([
                namespace(json!({"name": "app"})),
                namespace(json!({"name": "app", "selectionScope": "NamespaceOnly"}))
            ]),
            SelectionError::Duplicate { object: "Namespace app".into() },
        ),
    ];
    for (name, key, selectors, expected) in rows {
        assert_eq!(names(key, &selectors).unwrap_err(), expected, "{name}");
    }
}

#[test]
fn envelopes_are_selected_like_payload() {
    let namespace = |scope: &str| json!({"group": "", "version": "v1", "kind": "Namespace", "name": "app", "selectionScope": scope});
    let kind = |kind: &str| json!({"group": PLACEMENT_GROUP, "version": "v1", "kind": kind});
    let rows = [
        (
            "in a selected namespace",
            PlacementKey::cluster_scoped("p"),
            namespace("NamespaceWithResources"),
            Some("app/env"),
        ),
        ("in a namespace placed without it", PlacementKey::cluster_scoped("p"), namespace("NamespaceOnly"), None),
        ("of cluster scope, by kind", PlacementKey::cluster_scoped("p"), kind("ClusterResourceEnvelope"), Some("env")),
        ("of a namespace, by kind", PlacementKey::namespaced("app", "p"), kind("ResourceEnvelope"), Some("app/env")),
    ];
    let mut tree = tree();
    let mut manifests = std::mem::take(&mut tree.manifests);
    let version = format!("{PLACEMENT_GROUP}/v1beta1");
    manifests.push(manifest(&version, "ResourceEnvelope", "app", "env"));
    manifests.push(manifest(&version, "ClusterResourceEnvelope", "", "env"));
    tree.set_manifests(manifests);
    let scopes = [("ResourceEnvelope", Scope::Namespaced), ("ClusterResourceEnvelope", Scope::Cluster)];
    tree.scopes.extend(scopes.map(|(kind, scope)| ((PLACEMENT_GROUP.to_owned(), kind.to_owned()), scope)));
    for (name, key, selector, wanted) in rows {
        let spec = serde_json::from_value(json!({"resourceSelectors": [selector]})).unwrap();
        let origin = tree.manifests[0].origin.clone();
        let placement = Placement { key, spec, annotations: BTreeMap::new(), origin, owners: Vec::new() };
        let selected = select(&tree, &placement).unwrap();
        let found = selected.iter().find(|m| is_envelope(m)).map(|m| m.id.to_string());
        let found = found.as_deref().and_then(|id| id.split_once(' ')).map(|(_, name)| name);
        assert_eq!(found, wanted, "{name}");
    }
}

#[test]
fn d13_the_namespace_of_the_inventories_is_never_placed() {
    let mut tree = tree();
    let mut manifests = std::mem::take(&mut tree.manifests);
    let mut labelled = manifest("v1", "Namespace", "", "gitfleet-system");
    Arc::make_mut(&mut labelled.object)["metadata"]["labels"] = json!({"own": "x"});
    manifests.extend([labelled, manifest("v1", "ConfigMap", "gitfleet-system", "crp.web")]);
    tree.set_manifests(manifests);
    let namespace = |extra: &str| format!("{{\"group\": \"\", \"version\": \"v1\", \"kind\": \"Namespace\", {extra}}}");
    let own = "\"name\": \"gitfleet-system\"";
    let by_label = "\"labelSelector\": {\"matchLabels\": {\"own\": \"x\"}}";
    let alone = "\"selectionScope\": \"NamespaceOnly\"";
    let some = "\"selectionScope\": \"NamespaceWithResourceSelectors\"";
    let config_maps = "{\"group\": \"\", \"version\": \"v1\", \"kind\": \"ConfigMap\"}".to_owned();
    let (cluster, within) = (PlacementKey::cluster_scoped("p"), PlacementKey::namespaced("gitfleet-system", "p"));
    let rows = [
        ("by name", &cluster, vec![namespace(own)]),
        ("by label", &cluster, vec![namespace(by_label)]),
        ("by name, alone", &cluster, vec![namespace(&format!("{own}, {alone}"))]),
        ("by label, alone", &cluster, vec![namespace(&format!("{by_label}, {alone}"))]),
        ("every namespace, alone", &cluster, vec![namespace(alone)]),
        ("some kinds of it", &cluster, vec![namespace(&format!("{own}, {some}")), config_maps.clone()]),
        ("from within", &within, vec![config_maps]),
    ];
    for (name, key, selectors) in rows {
        let spec = serde_json::from_str(&format!("{{\"resourceSelectors\": [{}]}}", selectors.join(","))).unwrap();
        let origin = tree.manifests[0].origin.clone();
        let placement = Placement { key: key.clone(), spec, annotations: BTreeMap::new(), origin, owners: Vec::new() };
        let error = select(&tree, &placement).expect_err(name).to_string();
        assert!(error.contains("reserved") && error.contains("gitfleet-system"), "{name}: {error}");
    }
}
