use serde_json::{Value, json};

use super::*;
use crate::api::object;

fn complaints(spec: Value) -> Vec<String> {
    let value = json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec});
    let read = object::read::<PlacementSpec>(&object::without_nulls(&value));
    read.err().into_iter().flatten().map(|e| e.to_string()).collect()
}

fn with(field: &str, value: Value) -> Value {
    let mut spec = json!({"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "a"}]});
    spec[field] = value;
    spec
}

fn required(term: Value) -> Value {
    json!({"affinity": {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"clusterSelectorTerms": [term]}}}})
}

fn property(requirements: Value) -> Value {
    required(json!({"propertySelector": {"matchExpressions": requirements}}))
}

#[test]
fn placements_keep_kubefleets_rules() {
    let policy = |p: Value| with("policy", p);
    let strategy = |s: Value| with("strategy", s);
    let preferred = |pref: Value, kind: &str| {
        json!({"placementType": kind, "numberOfClusters": if kind == "PickN" { json!(1) } else { json!(null) },
        "affinity": {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [pref]}}})
    };
    let table: Vec<(&str, Value, &str)> = vec![
        ("minimal", with("policy", Value::Null), ""),
        ("no selectors", json!({"resourceSelectors": []}), "at least 1"),
        ("history", with("revisionHistoryLimit", json!(1001)), "between 1 and 1000"),
        ("scope", with("statusReportingScope", json!("NamespaceAccessible")), ""),
        (
            "name and labels",
            with(
                "resourceSelectors",
                json!([{"group": "", "version": "v1", "kind": "A", "name": "a", "labelSelector": {}}]),
            ),
            "exclude each other",
        ),
        ("PickN without N", policy(json!({"placementType": "PickN"})), "PickN needs it"),
        ("PickN", policy(json!({"placementType": "PickN", "numberOfClusters": 0})), ""),
        ("negative N", policy(json!({"placementType": "PickN", "numberOfClusters": -1})), "below 0"),
        ("PickAll with N", policy(json!({"numberOfClusters": 2})), "not allowed with PickAll"),
        ("PickFixed", policy(json!({"placementType": "PickFixed", "clusterNames": ["a", "b"]})), ""),
        ("PickFixed without names", policy(json!({"placementType": "PickFixed", "clusterNames": []})), ""),
        ("PickFixed twice", policy(json!({"placementType": "PickFixed", "clusterNames": ["a", "a"]})), "listed twice"),
        ("PickFixed name", policy(json!({"placementType": "PickFixed", "clusterNames": ["A"]})), "not a cluster name"),
        (
            "PickFixed tolerations",
            policy(
                json!({"placementType": "PickFixed", "clusterNames": ["a"], "tolerations": [{"operator": "Exists"}]}),
            ),
            "not allowed with PickFixed",
        ),
        (
            "PickFixed affinity",
            policy(json!({"placementType": "PickFixed", "clusterNames": ["a"], "affinity": {}})),
            "not allowed with PickFixed",
        ),
        (
            "maxSkew",
            policy(
                json!({"placementType": "PickN", "numberOfClusters": 1, "topologySpreadConstraints": [{"topologyKey": "a", "maxSkew": 0}]}),
            ),
            "below 1",
        ),
        ("toleration operator", policy(json!({"tolerations": [{"key": "a", "operator": "NotIn"}]})), "NotIn"),
        (
            "tolerations twice",
            policy(json!({"tolerations": [{"key": "a", "value": "x"}, {"key": "a", "value": "x"}]})),
            "listed twice",
        ),
        (
            "property operator",
            policy(property(json!([{"name": "a", "operator": "Between", "values": ["1"]}]))),
            "Between",
        ),
        ("no value", policy(property(json!([{"name": "a", "operator": "Gt", "values": []}]))), "exactly one"),
        ("toleration", policy(json!({"tolerations": [{"value": "x"}]})), "needs operator Exists"),
        (
            "toleration value",
            policy(json!({"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]})),
            "no value",
        ),
        ("preference", policy(preferred(json!({"weight": 100, "preference": {}}), "PickN")), ""),
        ("weight", policy(preferred(json!({"weight": 101, "preference": {}}), "PickN")), "between -100 and 100"),
        ("preference of PickAll", policy(preferred(json!({"weight": 1, "preference": {}}), "PickAll")), "prefers none"),
        (
            "filtering preference",
            policy(preferred(
                json!({"weight": 1, "preference": {"propertySelector": {"matchExpressions": []}}}),
                "PickN",
            )),
            "cannot filter",
        ),
        (
            "ranking term",
            policy(required(json!({"metricSorter": {"name": "a", "sortOrder": "Ascending"}}))),
            "cannot rank",
        ),
        ("two values", policy(property(json!([{"name": "a", "operator": "Gt", "values": ["1", "2"]}]))), "exactly one"),
        ("no quantity", policy(property(json!([{"name": "a", "operator": "Gt", "values": ["x"]}]))), "not a quantity"),
        (
            "interval",
            policy(property(
                json!([{"name": "a", "operator": "Ge", "values": ["1"]}, {"name": "a", "operator": "Le", "values": ["1000m"]}]),
            )),
            "",
        ),
        (
            "empty interval",
            policy(property(
                json!([{"name": "a", "operator": "Gt", "values": ["1"]}, {"name": "a", "operator": "Le", "values": ["1000m"]}]),
            )),
            "can meet all",
        ),
        (
            "equal and not",
            policy(property(
                json!([{"name": "a", "operator": "Eq", "values": ["1"]}, {"name": "a", "operator": "Ne", "values": ["1"]}]),
            )),
            "can meet all",
        ),
        (
            "resource property",
            policy(property(json!([{"name": "resources.kubernetes-fleet.io/cpu", "operator": "Eq", "values": ["1"]}]))),
            "available-",
        ),
        (
            "selector values",
            policy(required(json!({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}))),
            "need values",
        ),
        ("rolling", strategy(json!({"rollingUpdate": {"maxUnavailable": "100%", "maxSurge": 0}})), ""),
        ("rolling percent", strategy(json!({"rollingUpdate": {"maxSurge": "101%"}})), "neither a number"),
        ("rolling negative", strategy(json!({"rollingUpdate": {"maxSurge": -1}})), "neither a number"),
        ("external", strategy(json!({"type": "External"})), ""),
        (
            "external rolling",
            strategy(json!({"type": "External", "rollingUpdate": {}})),
            "not allowed with type External",
        ),
        ("apply", strategy(json!({"applyStrategy": {"serverSideApplyConfig": {"force": true}}})), "only for type"),
        ("mirror", strategy(json!({"reportBackStrategy": {"type": "Mirror"}})), "Mirror needs it"),
        (
            "two scopes",
            with(
                "resourceSelectors",
                json!([
                {"group": "", "version": "v1", "kind": "Namespace", "name": "a", "selectionScope": "NamespaceWithResourceSelectors"},
                {"group": "", "version": "v1", "kind": "Namespace", "name": "b"}]),
            ),
            "no other Namespace",
        ),
    ];
    for (name, spec, expected) in table {
        let found = complaints(spec);
        match expected {
            "" => assert_eq!(found, Vec::<String>::new(), "{name}"),
            _ => assert!(found.len() == 1 && found[0].contains(expected), "{name}: {found:?}"),
        }
    }
}
