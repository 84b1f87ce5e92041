use serde_json::json;

use super::*;

fn object(uid: &str, version: &str, time: &str, data: &str) -> Value {
    json!({
        "metadata": {"name": "a\"b", "namespace": "app", "uid": uid, "resourceVersion": version, "creationTimestamp": time,
            "generation": 3, "labels": {"x": "y"}, "managedFields": [
                {"manager": FIELD_MANAGER, "operation": "Apply", "time": time, "fieldsV1": {"f:data": {"f:k": {}}}},
                {"manager": "kubectl", "operation": "Update", "time": time, "fieldsV1": {"f:data": {"f:j": {}}}}]},
        "data": {"k": data, "ü\n": "\u{1F600}"}
    })
}

fn split(object: &Value) -> SplitObject {
    let read: SplitObject = serde_json::from_str(&object.to_string()).expect("an object");
    read.with_type(SplitObject::type_text("v1", "ConfigMap"))
}

#[test]
fn what_is_its_own_is_kept_apart() {
    let (one, other) = (
        split(&object("u1", "1", "2026-01-01T00:00:00Z", "v")),
        split(&object("u2", "2", "2026-01-02T00:00:00Z", "v")),
    );
    assert_eq!(one.digest(), other.digest());
    assert_eq!(one.common(), other.common());
    assert_ne!(one.digest(), split(&object("u1", "1", "2026-01-01T00:00:00Z", "w")).digest());
    let other_kind = one.clone().with_type(SplitObject::type_text("v1", "Secret"));
    assert_ne!(one.digest(), other_kind.digest());
    let own = (other.name.as_str(), other.namespace.as_str(), other.uid.as_str(), other.resource_version.as_str());
    assert_eq!((own, other.generation), (("a\"b", "app", "u2", "2"), 3));
}

#[test]
fn an_object_is_whole_again_but_for_the_managed_fields_of_others() {
    let mut wanted = object("u1", "1", "2026-01-01T00:00:00Z", "v");
    wanted["apiVersion"] = "v1".into();
    wanted["kind"] = "ConfigMap".into();
    let managers = wanted["metadata"]["managedFields"].as_array_mut().expect("managers");
    managers.truncate(1);
    managers[0].as_object_mut().expect("an entry").remove("time");
    assert_eq!(split(&object("u1", "1", "2026-01-01T00:00:00Z", "v")).whole(), wanted);
}

#[test]
fn odd_objects_are_read() {
    for (text, wanted) in [
        ("{}", json!({})),
        (r#"{"metadata":{}}"#, json!({"metadata": {}})),
        (r#"{"metadata":{"managedFields":null,"creationTimestamp":null}}"#, json!({"metadata": {}})),
        (
            r#"{"apiVersion":"v2","kind":"Other","spec":[1, {"a" : "}"}],"metadata":{"name":"n"}}"#,
            json!({"spec": [1, {"a": "}"}], "metadata": {"name": "n"}}),
        ),
    ] {
        let mut wanted = wanted;
        wanted["apiVersion"] = "v1".into();
        wanted["kind"] = "ConfigMap".into();
        let read: SplitObject = serde_json::from_str(text).expect("an object");
        assert_eq!(read.with_type(SplitObject::type_text("v1", "ConfigMap")).whole(), wanted, "{text}");
    }
    assert!(serde_json::from_str::<SplitObject>("[]").is_err());
}
