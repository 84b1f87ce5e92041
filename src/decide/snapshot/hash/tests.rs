use serde_json::json;

use super::*;
use crate::snapshot::tests::{manifest, manifest_of};

fn policy(value: Value) -> PlacementPolicy {
    serde_json::from_value(value).unwrap()
}

#[test]
fn json_is_written_as_go_writes_it() {
    let rows = [
        ("sorted, compact", json!({"b": 1, "a": [true, null]}), r#"{"a":[true,null],"b":1}"#),
        ("html", json!("a<b>&c"), r#""a\u003cb\u003e\u0026c""#),
        ("html in keys", json!({"<": 1}), r#"{"\u003c":1}"#),
        ("line separators", json!("x\u{2028}y\u{2029}"), r#""x\u2028y\u2029""#),
        ("their neighbours are plain", json!("\u{2027}\u{2030}ü"), "\"\u{2027}\u{2030}ü\""),
        ("controls", json!("\u{1}\t\n\r\u{8}\u{c}\u{7f}\"\\/"), "\"\\u0001\\t\\n\\r\\b\\f\u{7f}\\\"\\\\/\""),
        ("fraction", json!(0.1), "0.1"),
        ("integral float", json!(3.0), "3"),
        ("zero", json!(0.0), "0"),
        ("small, plain", json!(0.000_001), "0.000001"),
        ("small, exponent", json!(0.000_000_15), "1.5e-7"),
        ("large, plain", json!(1e20), "100000000000000000000"),
        ("large, exponent", json!(1e21), "1e+21"),
        ("negative", json!(-2.5e22), "-2.5e+22"),
        ("beyond i64", json!(12_345_678_901_234_567_890_u64), "12345678901234567890"),
    ];
    for (name, value, expected) in rows {
        assert_eq!(String::from_utf8(go_json(&value)).unwrap(), expected, "{name}");
    }
}

#[test]
fn example_32_policy_hashes() {
    let none = "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b";
    let pick_all = "8cc57dee59684ff88766e26936c8fb125f4bde234a2beb5c54aded4569db0d5a";
    assert_eq!(policy_hash(None).as_str(), none);
    assert_eq!(policy_hash(Some(&policy(json!({"placementType": "PickAll"})))).as_str(), pick_all);

    let cluster = PlacementKey::cluster_scoped("p");
    let namespaced = PlacementKey::namespaced("ns", "p");
    assert_eq!(policy_hash(scheduled_policy(&cluster, None).as_ref()).as_str(), pick_all);
    assert_eq!(policy_hash(scheduled_policy(&namespaced, None).as_ref()).as_str(), none);
}

#[test]
fn example_33_the_number_of_clusters_is_not_hashed_and_tolerations_are() {
    let three = policy(json!({"placementType": "PickN", "numberOfClusters": 3}));
    let five = policy(json!({"placementType": "PickN", "numberOfClusters": 5}));
    let tolerant = policy(json!({"placementType": "PickN", "tolerations": [{"operator": "Exists"}]}));
    assert_eq!(policy_hash(Some(&three)), policy_hash(Some(&five)));
    assert_ne!(policy_hash(Some(&three)), policy_hash(Some(&tolerant)));
    let hash = policy_hash(Some(&three));
    assert!(hash.as_str().starts_with("479f405e") && hash.as_str().ends_with("5416a"), "{hash}");
}

#[test]
fn policies_are_hashed_in_the_field_order_of_the_api() {
    let full = policy(json!({
        "tolerations": [{"value": "b<c", "key": "a", "operator": "Equal", "effect": "NoSchedule"}],
        "topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway", "topologyKey": "zone", "maxSkew": 2}],
        "affinity": {"clusterAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"preference": {}, "weight": 5}],
            "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [
                {"labelSelector": {"matchExpressions": [{"values": ["x"], "operator": "In", "key": "k"}], "matchLabels": {"b": "1", "a": "2"}}},
            ]},
        }},
        "numberOfClusters": 4,
        "placementType": "PickN",
    }));
    let expected = concat!(
        r#"{"placementType":"PickN","affinity":{"clusterAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":"#,
        r#"{"clusterSelectorTerms":[{"labelSelector":{"matchLabels":{"a":"2","b":"1"},"matchExpressions":"#,
        r#"[{"key":"k","operator":"In","values":["x"]}]}}]},"preferredDuringSchedulingIgnoredDuringExecution":"#,
        r#"[{"weight":5,"preference":{}}]}},"topologySpreadConstraints":[{"maxSkew":2,"topologyKey":"zone","#,
        r#""whenUnsatisfiable":"ScheduleAnyway"}],"tolerations":[{"key":"a","operator":"Equal","value":"b\u003cc","#,
        r#""effect":"NoSchedule"}]}"#,
    );
    assert_eq!(policy_hash(Some(&full)), sha256(expected.as_bytes()));
}

#[test]
fn writing_defaults_out_keeps_the_hash() {
    let short = policy(json!({
        "placementType": "PickN",
        "topologySpreadConstraints": [{"topologyKey": "zone"}],
        "tolerations": [{"key": "a"}],
    }));
    let long = policy(json!({
        "placementType": "PickN",
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
        "tolerations": [{"key": "a", "operator": "Equal"}],
    }));
    let key = PlacementKey::cluster_scoped("p");
    assert_eq!(scheduled_policy(&key, Some(&short)), scheduled_policy(&key, Some(&long)));
}

#[test]
fn example_34_nothing_selected() {
    let expected = "83ff749c5d8eb5a0b62d714175bcbaef1409b371fc5a229a002db6fcc1f144e1";
    assert_eq!(resource_hash(&[]).as_str(), expected);
    assert_eq!(fingerprint(&[], |_| None).hash.as_str(), expected);
}

#[test]
fn the_resource_hash_is_over_the_list_of_objects() {
    let objects = [manifest("v1", "ConfigMap", "ns", "a"), manifest("v1", "ConfigMap", "ns", "b")];
    let list: Vec<&Value> = objects.iter().map(|m| &*m.object).collect();
    let expected = sha256(&go_json(&json!({ "selectedResources": list })));
    assert_eq!(resource_hash(&objects), expected);
    let fingerprint = fingerprint(&objects, |_| None);
    assert_eq!(fingerprint.hash, expected);
    assert_eq!(fingerprint.objects[1], (object_digest(&objects[1]), go_json(&objects[1].object).len()));
}

/// The sample of a snapshot in KubeFleet's documentation names the hash of what it shows.
#[test]
fn the_documented_snapshot_has_the_documented_hash() {
    let objects = [
        json!({"apiVersion": "v1", "kind": "Namespace", "spec": {"finalizers": ["kubernetes"]},
            "metadata": {"name": "test", "labels": {"kubernetes.io/metadata.name": "test"}}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "test-1", "namespace": "test"},
            "data": {"key1": "value1", "key2": "value2", "key3": "value3"}}),
    ];
    let hash = resource_hash(&objects.map(manifest_of));
    assert_eq!(hash.as_str(), "e0927e7d75c7f52542a6d4299855995018f4a6de46edf0f814cfaa6e806543f3");
}
