use proptest::prelude::*;
use serde_json::json;

use super::*;
use model::secrets::{LAST_APPLIED, speaks_of_secrets};

const PLANTED: &str = "hunter2\nsecond line";

fn key() -> MaskKey {
    MaskKey::new([7; 32])
}

fn shown(object: &Value) -> String {
    masked(object, &key()).to_string()
}

fn secret(data: &Value, string_data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data, "stringData": string_data})
}

fn map(field: &str, name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, field: {name: value}})
}

fn pod(containers: &str, env: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "spec": {containers: [{"name": "c", "env": env}]}})
}

#[test]
fn what_is_hidden_and_what_is_not() {
    let encoded = STANDARD.encode(PLANTED);
    let env = |name: &str| json!([{"name": name, "value": PLANTED}]);
    let cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template":
        pod("initContainers", &env("apiKey"))}}}});
    let applied =
        json!({"kind": "Deployment", "spec": {"template": {"metadata": {"annotations": {LAST_APPLIED: PLANTED}}}}});
    let envelope = json!({"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "ResourceEnvelope",
        "data": {"s.yaml": secret(&Value::Null, &json!({"k": PLANTED}))}});
    let sealed = json!({"apiVersion": "bitnami.com/v1alpha1", "kind": "SealedSecret",
        "spec": {"encryptedData": {"password": PLANTED}}});
    let mut sops = secret(&Value::Null, &json!({"k": format!("ENC[{PLANTED}]")}));
    sops["sops"] = json!({"version": "3"});
    let mut pretended = secret(&Value::Null, &json!({"k": PLANTED}));
    pretended["sops"] = json!({});
    let rows: [(&str, Value, bool); 22] = [
        ("data", secret(&json!({"k": encoded}), &Value::Null), true),
        ("stringData", secret(&Value::Null, &json!({"k": PLANTED})), true),
        ("data that is no map", secret(&json!(PLANTED), &Value::Null), true),
        ("data that holds a map", secret(&json!({"k": {"x": PLANTED}}), &Value::Null), true),
        ("a config map's password", map("data", "DB_PassWord", PLANTED), true),
        ("a config map's dsn", map("data", "dsn", PLANTED), true),
        ("a config map's binary certificate", map("binaryData", "tls.cert", &encoded), true),
        // Source: KubeFleet's own example of a ClusterResourceSnapshot, with `key1: value1`.
        ("a config map's numbered key", map("data", "key1", PLANTED), false),
        ("a config map's word written together", map("data", "dbpassword", PLANTED), true),
        ("a config map's colour", map("data", "colour", PLANTED), false),
        ("env of a container", pod("containers", &env("TOKEN")), true),
        ("env of an init container", pod("initContainers", &env("CREDENTIALS")), true),
        ("env of another name", pod("containers", &env("COLOUR")), false),
        ("env deep inside", cron, true),
        ("what was applied last", applied, true),
        ("a secret in an envelope", envelope, true),
        ("a secret in a list", json!({"kind": "List", "items": [secret(&Value::Null, &json!({"k": PLANTED}))]}), true),
        ("a sealed secret", sealed, false),
        ("encrypted by SOPS", sops, false),
        ("said to be encrypted by SOPS", pretended, true),
        (
            "another kind of that name",
            json!({"apiVersion": "x.io/v1", "kind": "Secret", "data": {"k": PLANTED}}),
            false,
        ),
        ("env that is no list", json!({"spec": {"env": {"TOKEN": "x"}, "note": PLANTED}}), false),
    ];
    let plain = json!(PLANTED).to_string();
    let plain = plain.trim_matches('"');
    for (name, object, hidden) in rows {
        let shown = shown(&object);
        assert_eq!(!shown.contains(plain) && !shown.contains(&encoded), hidden, "{name}: {shown}");
        assert_eq!(shown.contains("<masked:"), hidden, "{name}: {shown}");
    }
}

#[test]
fn equal_values_have_equal_markers_whatever_is_around_them() {
    let one = masked(&secret(&json!({"a": STANDARD.encode("x")}), &json!({"b": "x", "c": "y"})), &key());
    let marker = &one["data"]["a"];
    assert_eq!(*marker, one["stringData"]["b"]);
    assert_ne!(*marker, one["stringData"]["c"]);
    assert_eq!(*marker, masked(&map("data", "key", "x"), &key())["data"]["key"]);
    assert_ne!(*marker, masked(&map("data", "key", "x"), &MaskKey::new([8; 32]))["data"]["key"]);
    assert_eq!(format!("{:?}", key()), "MaskKey(..)");
}

#[test]
fn nothing_but_the_value_is_replaced() {
    let object = pod(
        "containers",
        &json!([{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "KEY", "value": null}, "odd"]),
    );
    assert_eq!(masked(&object, &key()), object);
}

proptest! {
    #[test]
    fn a_marker_says_nothing_of_a_value(value in "\\PC{8,200}") {
        let hidden = masked(&secret(&Value::Null, &json!({"k": value})), &key());
        let marker = hidden["stringData"]["k"].as_str().unwrap_or_default();
        prop_assert_eq!(marker.len(), "<masked:>".len() + MARKER_DIGITS);
        prop_assert!(!hidden.to_string().contains(&value));
    }

    #[test]
    fn what_is_hidden_stays_hidden(value in "\\PC{0,40}", name in "[a-zA-Z.]{1,12}") {
        let object = map("data", &name, &value);
        let once = masked(&object, &key());
        prop_assert_eq!(speaks_of_secrets(&name), once["data"][&name] != object["data"][&name]);
    }
}
