//! What a snapshot keeps of an object, and the order objects stand in.

use std::cmp::Ordering;
use std::sync::Arc;

use serde_json::Value;

use crate::model::id::ObjectId;
use crate::model::manifest::Manifest;

/// Fields no snapshot keeps, as JSON pointers: the API server or another controller writes them.
const DROPPED: &[&str] = &[
    "/metadata/resourceVersion",
    "/metadata/generation",
    "/metadata/uid",
    "/metadata/selfLink",
    "/metadata/deletionTimestamp",
    "/metadata/managedFields",
    "/metadata/ownerReferences",
    "/metadata/creationTimestamp",
    "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
    "/metadata/annotations/deployment.kubernetes.io~1revision",
    "/status",
];

/// What an API server fills into a Job that does not select its pods by hand.
const DROPPED_OF_JOB: &[&str] = &[
    "/spec/selector/matchLabels/controller-uid",
    "/spec/selector/matchLabels/batch.kubernetes.io~1controller-uid",
    "/spec/template/metadata/labels/controller-uid",
    "/spec/template/metadata/labels/batch.kubernetes.io~1controller-uid",
    "/spec/template/metadata/creationTimestamp",
];

const ANNOTATIONS: &str = "/metadata/annotations";

/// Kinds in the order snapshots list them, whatever their group; all others follow.
const KIND_ORDER: [&str; 32] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// Returns the object without what the hub's API server or controllers would have written: server-side metadata, owner
/// references, `status`, two bookkeeping annotations, a Service's allocated addresses and node ports, and a Job's
/// generated labels. Applying it twice changes nothing more.
///
/// Source: KubeFleet, what the placement controller stores of a selected resource.
pub fn sanitise(object: &Value) -> Value {
    let mut clean = object.clone();
    for pointer in dropped(object) {
        remove(&mut clean, &pointer);
    }
    // A map that lost its last annotation must equal one that never had any.
    if is_empty_map(clean.pointer(ANNOTATIONS)) {
        remove(&mut clean, ANNOTATIONS);
    }
    clean
}

/// Returns the manifest with its sanitised object; the object is shared, not copied, where nothing has to go.
pub fn sanitised(manifest: &Manifest) -> Manifest {
    let clean = dropped(&manifest.object).is_empty() && !is_empty_map(manifest.object.pointer(ANNOTATIONS));
    let object = if clean { Arc::clone(&manifest.object) } else { Arc::new(sanitise(&manifest.object)) };
    Manifest { id: manifest.id.clone(), object, origin: manifest.origin.clone() }
}

/// Returns the pointers of all that is present and has to go.
fn dropped(object: &Value) -> Vec<String> {
    let present = |pointers: &[&str]| -> Vec<String> {
        pointers.iter().filter(|p| object.pointer(p).is_some()).map(|&p| p.to_owned()).collect()
    };
    let mut pointers = present(DROPPED);
    match (text(object, "apiVersion"), text(object, "kind")) {
        ("v1", "Service") => {
            if object.pointer("/spec/clusterIP").is_some_and(|ip| ip != "None") {
                pointers.extend(present(&["/spec/clusterIP", "/spec/clusterIPs"]));
            }
            pointers.extend(present(&["/spec/healthCheckNodePort"]));
            let ports = object.pointer("/spec/ports").and_then(Value::as_array).map_or(0, Vec::len);
            pointers.extend(
                (0..ports).map(|port| format!("/spec/ports/{port}/nodePort")).filter(|p| object.pointer(p).is_some()),
            );
        }
        ("batch/v1", "Job") if object.pointer("/spec/manualSelector") != Some(&Value::Bool(true)) => {
            pointers.extend(present(DROPPED_OF_JOB));
        }
        _ => {}
    }
    pointers
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn is_empty_map(value: Option<&Value>) -> bool {
    value.and_then(Value::as_object).is_some_and(serde_json::Map::is_empty)
}

/// Removes the member of a map that a pointer names.
fn remove(object: &mut Value, pointer: &str) {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return };
    if let Some(map) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
        map.remove(&key.replace("~1", "/"));
    }
}

/// What objects are ordered by: rank of the kind, then version (listed kinds) or version and kind (all others), then
/// `namespace/name` as one text.
fn order_key(id: &ObjectId) -> (usize, String, String) {
    let rank = KIND_ORDER.iter().position(|kind| *kind == id.kind).unwrap_or(KIND_ORDER.len());
    let type_ = if rank < KIND_ORDER.len() {
        id.api_version()
    } else {
        format!("{}/{}, Kind={}", id.group, id.version, id.kind)
    };
    (rank, type_, format!("{}/{}", id.namespace, id.name))
}

/// Compares two objects as they stand in a snapshot: by KubeFleet's list of kinds, then by version, then by namespace and
/// name. The order defines hash and split; clusters apply in waves of their own.
///
/// Source: KubeFleet, the order of selected resources.
pub fn snapshot_order(a: &ObjectId, b: &ObjectId) -> Ordering {
    order_key(a).cmp(&order_key(b))
}

/// Sorts manifests into [`snapshot_order`].
pub fn sort_for_snapshot(manifests: &mut [Manifest]) {
    manifests.sort_by_cached_key(|manifest| order_key(&manifest.id));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::snapshot::tests::{manifest, manifest_of};

    #[test]
    fn server_fields_go() {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "web", "namespace": "ns", "resourceVersion": "1", "generation": 2, "uid": "u", "selfLink": "/x",
                "deletionTimestamp": "2026-01-01T00:00:00Z", "managedFields": [], "ownerReferences": [],
                "creationTimestamp": null, "finalizers": ["keep/me"], "labels": {"a": "b"},
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "deployment.kubernetes.io/revision": "1", "mine": "x"},
            },
            "spec": {"replicas": 1, "template": {"metadata": {"creationTimestamp": null}}},
            "status": {"replicas": 1},
        });
        let expected = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "ns", "finalizers": ["keep/me"], "labels": {"a": "b"}, "annotations": {"mine": "x"}},
            "spec": {"replicas": 1, "template": {"metadata": {"creationTimestamp": null}}},
        });
        assert_eq!(sanitise(&object), expected);
    }

    #[test]
    fn sanitising_by_kind() {
        let annotated = |annotations: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "annotations": annotations}});
        let bare = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
        let of =
            |api_version: &str, kind: &str, spec: Value| json!({"apiVersion": api_version, "kind": kind, "spec": spec});
        let job = json!({
            "selector": {"matchLabels": {"controller-uid": "1", "batch.kubernetes.io/controller-uid": "1", "mine": "x"}},
            "template": {"metadata": {"creationTimestamp": null, "labels": {
                "controller-uid": "1", "batch.kubernetes.io/controller-uid": "1", "job-name": "j", "batch.kubernetes.io/job-name": "j",
            }}},
        });
        let clean_job = json!({
            "selector": {"matchLabels": {"mine": "x"}},
            "template": {"metadata": {"labels": {"job-name": "j", "batch.kubernetes.io/job-name": "j"}}},
        });
        let mut manual_job = job.clone();
        manual_job["manualSelector"] = json!(true);
        let rows = [
            ("the last annotation", annotated(json!({"deployment.kubernetes.io/revision": "1"})), bare.clone()),
            ("no annotation left to begin with", annotated(json!({})), bare.clone()),
            (
                "allocated service",
                of(
                    "v1",
                    "Service",
                    json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "healthCheckNodePort": 30001,
                    "ports": [{"port": 80, "nodePort": 30000}, {"port": 81}]}),
                ),
                of("v1", "Service", json!({"ports": [{"port": 80}, {"port": 81}]})),
            ),
            (
                "headless service",
                of(
                    "v1",
                    "Service",
                    json!({"clusterIP": "None", "clusterIPs": ["None"], "ports": [{"port": 80, "nodePort": 1}]}),
                ),
                of("v1", "Service", json!({"clusterIP": "None", "clusterIPs": ["None"], "ports": [{"port": 80}]})),
            ),
            (
                "a service of another group",
                of("serving.knative.dev/v1", "Service", json!({"clusterIP": "10.0.0.1"})),
                of("serving.knative.dev/v1", "Service", json!({"clusterIP": "10.0.0.1"})),
            ),
            ("job", of("batch/v1", "Job", job), of("batch/v1", "Job", clean_job)),
            ("job with its own selector", of("batch/v1", "Job", manual_job.clone()), of("batch/v1", "Job", manual_job)),
        ];
        for (name, object, expected) in rows {
            assert_eq!(sanitise(&object), expected, "{name}");
        }
    }

    #[test]
    fn an_object_with_nothing_to_remove_is_shared() {
        let clean = manifest("v1", "ConfigMap", "ns", "a");
        assert!(Arc::ptr_eq(&sanitised(&clean).object, &clean.object));
        let dirty =
            manifest_of(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "u"}}));
        assert_eq!(*sanitised(&dirty).object, sanitise(&dirty.object));
        let empty =
            manifest_of(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "annotations": {}}}));
        assert_eq!(*sanitised(&empty).object, sanitise(&empty.object));
    }

    #[test]
    fn objects_stand_in_kubefleets_order() {
        let expected = [
            ("scheduling.k8s.io/v1", "PriorityClass", "", "z"),
            ("v1", "Namespace", "", "a"),
            // `namespace/name` is one text, so a dash in the namespace sorts before the slash.
            ("v1", "ConfigMap", "a-b", "a"),
            ("v1", "ConfigMap", "a", "b"),
            ("v1", "ConfigMap", "a", "c"),
            ("serving.knative.dev/v1", "Service", "a", "z"),
            ("v1", "Service", "a", "a"),
            ("apps/v1", "Deployment", "a", "a"),
            ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", "a"),
            ("v1", "Zebra", "a", "z"),
            ("example.com/v1", "Apple", "b", "a"),
            ("example.com/v1", "Banana", "a", "a"),
            ("example.com/v2", "Apple", "a", "a"),
        ];
        let expected: Vec<Manifest> = expected.iter().map(|(v, k, ns, n)| manifest(v, k, ns, n)).collect();
        let mut sorted = expected.clone();
        sorted.reverse();
        sort_for_snapshot(&mut sorted);
        let names =
            |list: &[Manifest]| list.iter().map(|m| format!("{} {}", m.id.api_version(), m.id)).collect::<Vec<_>>();
        assert_eq!(names(&sorted), names(&expected));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let key = prop::sample::select(vec![
            "metadata",
            "annotations",
            "labels",
            "status",
            "uid",
            "spec",
            "ports",
            "nodePort",
            "clusterIP",
            "clusterIPs",
            "deployment.kubernetes.io/revision",
            "selector",
            "matchLabels",
            "controller-uid",
            "template",
            "x",
        ]);
        let leaf =
            prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), "[a-z]{0,3}".prop_map(Value::from)];
        leaf.prop_recursive(5, 64, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn sanitising_twice_is_sanitising_once(mut object in any_json(), kind in 0..3_usize) {
            if let Some(map) = object.as_object_mut() {
                let (api_version, kind) = [("v1", "Service"), ("batch/v1", "Job"), ("v1", "ConfigMap")][kind];
                map.insert("apiVersion".into(), api_version.into());
                map.insert("kind".into(), kind.into());
            }
            let once = sanitise(&object);
            prop_assert_eq!(sanitise(&once), once.clone());
            let unchanged = dropped(&object).is_empty() && !is_empty_map(object.pointer(ANNOTATIONS));
            prop_assert_eq!(unchanged, once == object);
        }

        #[test]
        fn the_order_does_not_depend_on_the_input(seed in prop::collection::vec((0..5_usize, 0..3_usize, 0..3_usize), 0..20)) {
            let kinds = [("v1", "Namespace"), ("apps/v1", "Deployment"), ("v1", "Secret"), ("x.y/v1", "Foo"), ("x.y/v1", "Bar")];
            let mut forward: Vec<Manifest> = seed.iter()
                .map(|&(k, ns, n)| manifest(kinds[k].0, kinds[k].1, ["", "a", "a-b"][ns], ["x", "y", "z"][n]))
                .collect();
            let mut backward: Vec<Manifest> = forward.iter().rev().cloned().collect();
            sort_for_snapshot(&mut forward);
            sort_for_snapshot(&mut backward);
            prop_assert_eq!(&forward, &backward);
            sort_for_snapshot(&mut backward);
            prop_assert_eq!(&forward, &backward);
            prop_assert!(forward.is_sorted_by(|a, b| snapshot_order(&a.id, &b.id).is_le()));
        }
    }
}
