use serde_json::json;

use super::*;
use crate::deliver::health::HealthRules;

fn live(image: &str, replicas: i64, other: &str, owns_image: bool) -> Value {
    let container =
        if owns_image { json!({".": {}, "f:name": {}, "f:image": {}}) } else { json!({".": {}, "f:name": {}}) };
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "n", "resourceVersion": other, "managedFields": [
            {"manager": "gitfleet", "operation": "Apply", "fieldsV1": {
                "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": container}}}}}},
            {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:paused": {}}}}
        ]},
        "spec": {"replicas": replicas, "paused": other,
            "template": {"spec": {"containers": [{"name": "b", "image": "x"}, {"name": "a", "image": image}]}}}
    })
}

#[test]
fn the_owned_digest_sees_our_fields_only() {
    let base = LiveObject::read(&live("i:1", 1, "p", true), &HealthRules::default()).expect("an object");
    let rows = [
        ("somebody else's field", live("i:1", 1, "q", true), true),
        ("our value", live("i:2", 1, "p", true), false),
        ("our scalar", live("i:1", 2, "p", true), false),
        ("our ownership", live("i:1", 1, "p", false), false),
    ];
    for (name, object, same) in rows {
        let other = LiveObject::read(&object, &HealthRules::default()).expect("an object");
        assert_eq!(other.owned == base.owned, same, "{name}");
    }
}

#[test]
fn what_is_read_of_an_object() {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n",
        "uid": "u1", "generation": 3, "deletionTimestamp": "2026-01-01T00:00:00Z",
        "labels": {PART_OF_LABEL: "applyset-x-v1"}, "annotations": {SPEC_HASH: "d"}}});
    let read = LiveObject::read(&object, &HealthRules::default()).expect("an object");
    assert_eq!((read.uid.to_string(), read.generation()), ("u1".to_owned(), Some(3)));
    assert_eq!(&*read.applyset, "applyset-x-v1");
    assert_eq!(read.manifest, Some(Digest::from("d")));
    assert!(read.terminating);
    assert_eq!(LiveObject::read(&json!({"kind": "ConfigMap"}), &HealthRules::default()), None);
}

#[test]
fn d13_what_is_reserved_is_never_held() {
    for (kind, namespace, name, held) in [
        ("Namespace", "", "gitfleet-system", false),
        ("ConfigMap", "gitfleet-system", "crp.web", false),
        ("Namespace", "", "gitfleet", true),
        ("ConfigMap", "app", "gitfleet-system", true),
    ] {
        let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace,
            "uid": "u1", "labels": {PART_OF_LABEL: "applyset-x-v1"}}});
        assert_eq!(LiveObject::read(&object, &HealthRules::default()).is_some(), held, "{kind} {namespace}/{name}");
    }
}

#[test]
fn a_uid_is_the_text_that_was_read() {
    for (text, is_uuid) in [
        ("0f8fad5b-d9cb-469f-a165-70867728950e", true),
        ("00000000-0000-0000-0000-000000000000", true),
        ("0F8FAD5B-D9CB-469F-A165-70867728950E", false),
        ("0f8fad5bd-9cb-469f-a165-70867728950e", false),
        ("0f8fad5b-d9cb-469f-a165-70867728950", false),
        ("configmap..app.a.yaml", false),
        ("", false),
    ] {
        let uid = Uid::from(text);
        assert_eq!((uid.to_string(), matches!(uid, Uid::Uuid(_))), (text.to_owned(), is_uuid));
    }
}
