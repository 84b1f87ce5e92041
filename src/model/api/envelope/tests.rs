use serde_json::json;

use super::*;

fn envelope(kind: &str, data: &Value) -> Value {
    let (version, annotations) = match kind {
        "ConfigMap" => ("v1", json!({CONFIG_MAP_ANNOTATION: "true"})),
        _ => ("placement.kubernetes-fleet.io/v1beta1", json!({})),
    };
    json!({"apiVersion": version, "kind": kind, "data": data,
        "metadata": {"name": "env", "namespace": "app", "annotations": annotations}})
}

#[test]
fn what_is_an_envelope() {
    let mut plain = envelope("ConfigMap", &json!({}));
    plain["metadata"]["annotations"][CONFIG_MAP_ANNOTATION] = "false".into();
    let rows = [
        (envelope("ConfigMap", &json!({})), true),
        (plain, false),
        (envelope("ResourceEnvelope", &json!({})), true),
        (envelope("ClusterResourceEnvelope", &json!({})), true),
        (json!({"apiVersion": "example.com/v1", "kind": "ResourceEnvelope"}), false),
    ];
    for (object, wanted) in rows {
        assert_eq!(is_envelope(&object), wanted, "{object}");
    }
}

#[test]
fn what_fits_into_which_envelope() {
    let object = |kind: &str, namespace: &str| {
        let version = if kind == "ClusterRole" { "rbac.authorization.k8s.io/v1" } else { "v1" };
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x", "namespace": namespace}})
    };
    let labelled_by_number = || {
        let mut object = object("ConfigMap", "app");
        object["metadata"]["labels"] = json!({"a": 1});
        object
    };
    let rows = [
        ("ClusterResourceEnvelope", object("ClusterRole", ""), ""),
        ("ClusterResourceEnvelope", object("ConfigMap", ""), "does not fit"),
        ("ClusterResourceEnvelope", object("Unknown", "app"), "objects without a namespace"),
        ("ResourceEnvelope", object("ConfigMap", "app"), ""),
        ("ResourceEnvelope", object("ConfigMap", ""), "metadata.namespace is missing"),
        ("ResourceEnvelope", object("ConfigMap", "other"), "the envelope is not"),
        ("ResourceEnvelope", object("ClusterRole", ""), "does not fit"),
        ("ConfigMap", object("ClusterRole", ""), ""),
        ("ConfigMap", object("ClusterRole", "app"), "is cluster-scoped"),
        ("ConfigMap", object("ConfigMap", "app"), ""),
        ("ConfigMap", object("ConfigMap", ""), "metadata.namespace is missing"),
        ("ConfigMap", object("Unknown", "other"), "the envelope is not"),
        ("ConfigMap", json!({"kind": "Secret"}), "apiVersion is missing"),
        ("ConfigMap", object("../prod/secret", "app"), "kind: \"../prod/secret\" is no kind"),
        ("ResourceEnvelope", object("../prod/secret", "app"), "kind: \"../prod/secret\" is no kind"),
        ("ClusterResourceEnvelope", object("x/y", ""), "kind: \"x/y\" is no kind"),
        ("ConfigMap", labelled_by_number(), "metadata.labels: the value of a is not text"),
        ("ResourceEnvelope", labelled_by_number(), "metadata.labels: the value of a is not text"),
    ];
    for (kind, object, wanted) in rows {
        let entry = if kind == "ConfigMap" { Value::String(object.to_string()) } else { object.clone() };
        match entries(&envelope(kind, &json!({"e": entry}))) {
            Ok(found) => assert_eq!((found, wanted), (vec![("e".to_owned(), object)], ""), "{kind}"),
            Err((entry, why)) => {
                assert!(!wanted.is_empty() && entry == "e" && why.contains(wanted), "{kind} {object}: {why}");
            }
        }
    }
}

#[test]
fn an_entry_of_a_config_map_is_one_document() {
    let rows = [
        ("", "is empty"),
        ("a: b: c", "line 1"),
        ("{apiVersion: v1}\n---\n{apiVersion: v1}", "holds 2 documents"),
        ("apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: app}\n", ""),
    ];
    for (text, wanted) in rows {
        let why = entries(&envelope("ConfigMap", &json!({"e": text}))).err().map(|(_, why)| why).unwrap_or_default();
        assert!(why.contains(wanted) && why.is_empty() == wanted.is_empty(), "{text}: {why}");
    }
    let mut binary = envelope("ConfigMap", &json!({}));
    binary["binaryData"] = json!({"b": "AAAA"});
    assert_eq!(entries(&binary).err().map(|(entry, _)| entry).as_deref(), Some("b"));
}
