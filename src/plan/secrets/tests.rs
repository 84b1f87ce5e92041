use serde_json::json;

use super::*;
use model::plan::{PlacementPlan, RolloutPlan, WorkPlan};

fn plan(objects: &[Value]) -> Plan {
    let manifests: Arc<[Arc<Value>]> = objects.iter().cloned().map(Arc::new).collect();
    let work = |name: &str| WorkPlan { cluster_name: name.into(), manifests: Arc::clone(&manifests), error: None };
    let placement = PlacementPlan {
        name: "p".to_owned(),
        kind: "ClusterResourcePlacement",
        namespace: None,
        path: None,
        line: None,
        error: None,
        removed: false,
        renamed_from: None,
        renamed_to: None,
        snapshot: None,
        variants: Vec::new(),
        decisions: Vec::new(),
        rollout: RolloutPlan::default(),
        works: vec![work("a"), work("b")],
        hands_over: Vec::new(),
        deletions: Vec::new(),
        deletion_guard: None,
        changes: None,
    };
    let mut plan = Plan { placements: vec![placement], ..Plan::default() };
    hide_secrets(&mut plan);
    plan
}

fn secret(name: &str, data: &Value, string_data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data, "stringData": string_data})
}

#[test]
fn values_are_hidden_and_comparable() {
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "visible"}});
    let one = secret("one", &json!({"a/b": "cGFzcw==", "other": "eHl6"}), &Value::Null);
    let two = secret("two", &Value::Null, &json!({"x": "pass"}));
    let odd = secret("odd", &json!("not a map"), &json!({"n": 5}));
    let plan = plan(&[config.clone(), one, two, odd]);
    let works = &plan.placements[0].works;
    let shown = works[0].manifests.iter().map(ToString::to_string).collect::<String>();
    for plain in ["cGFzcw", "\"pass\"", "eHl6", "not a map", ":5"] {
        assert!(!shown.contains(plain), "{plain} in {shown}");
    }
    assert_eq!(*works[0].manifests[0], config);
    assert_eq!(works[0].manifests[1]["data"]["a/b"], works[0].manifests[2]["stringData"]["x"]);
    assert_ne!(works[0].manifests[1]["data"]["a/b"], works[0].manifests[1]["data"]["other"]);
    assert!(Arc::ptr_eq(&works[0].manifests, &works[1].manifests));
    let marker = works[0].manifests[3]["data"].as_str().unwrap();
    assert!(marker.starts_with("<secret:") && marker.len() == 8 + MARKER_DIGITS + 1, "{marker}");
}

#[test]
fn the_same_value_is_marked_otherwise_beside_other_secrets() {
    let first = |objects: &[Value]| plan(objects).placements[0].works[0].manifests[0]["data"]["k"].clone();
    let one = secret("one", &json!({"k": "eA=="}), &Value::Null);
    let two = secret("two", &json!({"k": "eQ=="}), &Value::Null);
    assert_eq!(first(std::slice::from_ref(&one)), first(std::slice::from_ref(&one)));
    assert_ne!(first(std::slice::from_ref(&one)), first(&[one, two]));
}
