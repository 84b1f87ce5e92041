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
    let dirty = manifest_of(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "u"}}));
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
    let names = |list: &[Manifest]| list.iter().map(|m| format!("{} {}", m.id.api_version(), m.id)).collect::<Vec<_>>();
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
    let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), "[a-z]{0,3}".prop_map(Value::from)];
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
