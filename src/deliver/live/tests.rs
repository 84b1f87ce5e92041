use serde_json::json;

use super::*;
use crate::health::{HealthRules, KindRule};

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

/// Returns a Deployment as a watch of a member sees it.
fn watched(uid: &str, created: &str, data: &str) -> WatchedObject {
    let mut object = live(data, 1, "7", true);
    object["metadata"]["uid"] = uid.into();
    object["metadata"]["creationTimestamp"] = created.into();
    let read: SplitObject = serde_json::from_str(&object.to_string()).expect("an object");
    WatchedObject::Split(read.with_type(SplitObject::type_text("apps/v1", "Deployment")))
}

#[test]
fn what_a_watch_saw_reads_as_the_whole_object_does() {
    let (rules, known) = (HealthRules::default(), KnownContents::default());
    for (uid, data) in [("u1", "i:1"), ("u2", "i:1"), ("u3", "i:2"), ("u1", "i:1")] {
        let object = watched(uid, "2026-01-01T00:00:00Z", data);
        let read = LiveObject::watched(&object, &rules, &known).expect("an object");
        assert_eq!(Some(&read), LiveObject::read(&object.to_value(), &rules).as_ref(), "{uid} {data}");
        assert_eq!(Some(read), LiveObject::watched(&WatchedObject::Whole(object.to_value()), &rules, &known));
    }
}

#[test]
fn a_rule_for_a_kind_sees_the_fields_that_are_an_objects_own() {
    let available =
        schedule::cel::ObjectExpression::compile("object.metadata.creationTimestamp > '2026-01-02'").expect("CEL");
    let rule = KindRule { group: "apps".into(), kind: "Deployment".into(), available: Some(available), failed: None };
    let (rules, known) = (HealthRules { kinds: vec![rule], ..HealthRules::default() }, KnownContents::default());
    for (created, wanted) in [
        ("2026-01-01T00:00:00Z", Availability::ManifestNotAvailableYet),
        ("2026-01-03T00:00:00Z", Availability::Available),
    ] {
        let read = LiveObject::watched(&watched("u1", created, "i:1"), &rules, &known).expect("an object");
        assert_eq!(read.availability, wanted, "{created}");
    }
}

#[test]
fn what_is_encrypted_in_the_source_has_a_digest_that_needs_the_key() {
    let of = |key: u8, manifest: &str, value: &str| {
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n",
            "annotations": {SPEC_HASH: manifest}}, "data": {"a": value}});
        let rules = HealthRules { digest_key: DigestKey::new([key; 32]), ..HealthRules::default() };
        LiveObject::read(&object, &rules).expect("an object").owned.clone()
    };
    assert_eq!(of(1, "sops:d", "x"), of(1, "sops:d", "x"));
    assert_ne!(of(1, "sops:d", "x"), of(1, "sops:d", "y"));
    assert_ne!(of(1, "sops:d", "x"), of(2, "sops:d", "x"));
    assert_eq!(of(1, "d", "x"), of(2, "d", "x"), "what is plain in the source needs none");
}
