use serde_json::{Value, json};

use super::*;
use model::conditions::Reason;

/// A binding from words such as `a Bound available`: cluster, state, and what else is so of it.
fn binding(line: &str) -> Binding {
    let words: Vec<&str> = line.split(' ').collect();
    let condition = |type_: &str, generation: i64| json!({"type": type_, "status": "True", "reason": "", "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let mut conditions = Vec::new();
    let mut value = json!({
        "name": format!("p-{}", words[0]), "placement": "p", "cluster": words[0], "state": words[1], "policyIndex": 0,
        "generation": 2, "decision": {"clusterName": words[0], "selected": true, "reason": ""},
    });
    for word in &words[2..] {
        match *word {
            "available" => conditions.push(condition("Available", 2)),
            "was-available" => conditions.push(condition("Available", 1)),
            "reports" => conditions.push(condition("DiffReported", 2)),
            "deleting" => value["deleting"] = json!(true),
            "was-bound" => value["previousState"] = json!("Bound"),
            other => panic!("{other}"),
        }
    }
    value["conditions"] = json!(conditions);
    serde_json::from_value(value).unwrap()
}

fn verdict(policy: Value, lines: &[&str], failed: bool, budget: Value) -> Verdict {
    let bindings: Vec<Binding> = lines.iter().map(|line| binding(line)).collect();
    let policy: Option<PlacementPolicy> = serde_json::from_value(policy).unwrap();
    let budget: Option<DisruptionBudgetSpec> = serde_json::from_value(budget).unwrap();
    evict(&EvictionRequest {
        cluster: &"a".into(),
        placement: Some(EvictedPlacement { policy: policy.as_ref(), removed: false }),
        bindings: &bindings,
        failed,
        budget: budget.as_ref(),
    })
}

const FOUR: [&str; 4] = ["a Bound available", "b Bound available", "c Bound available", "d Bound was-available"];

fn pick_n(n: i32) -> Value {
    json!({"placementType": "PickN", "numberOfClusters": n})
}

#[test]
fn example_42_min_available_in_percent() {
    let found = verdict(pick_n(4), &FOUR, false, json!({"minAvailable": "50%"}));
    assert_eq!((found.executed, found.remove.as_deref()), (Some(true), Some("p-a")));
    assert_eq!(found.message, "3 of 4 clusters are available, and the budget allows 1 more to go");
    assert_eq!(found.valid_reason(), Reason::ClusterResourcePlacementEvictionValid);
    assert_eq!(found.executed_reason(), Some(Reason::ClusterResourcePlacementEvictionExecuted));
}

#[test]
fn example_43_max_unavailable_and_a_failed_target() {
    let budget = || json!({"maxUnavailable": "25%"});
    let found = verdict(pick_n(4), &FOUR, false, budget());
    assert_eq!((found.executed, found.remove), (Some(false), None));
    let found = verdict(pick_n(4), &FOUR, true, budget());
    assert_eq!((found.executed, found.remove.as_deref()), (Some(true), Some("p-a")));
}

#[test]
fn example_44_pick_all_at_its_minimum() {
    let five = ["a", "b", "c", "d", "e"].map(|name| format!("{name} Bound available"));
    let five: Vec<&str> = five.iter().map(String::as_str).collect();
    let found = verdict(Value::Null, &five, false, json!({"minAvailable": 5}));
    assert_eq!(found.executed, Some(false));
    assert_eq!(found.executed_reason(), Some(Reason::ClusterResourcePlacementEvictionNotExecuted));
    assert_eq!(verdict(Value::Null, &five, false, json!({"minAvailable": 4})).executed, Some(true));
}

#[test]
fn what_comes_before_the_budget() {
    let blocking = || json!({"maxUnavailable": 0});
    let rows = [
        ("no binding", pick_n(1), vec!["b Bound"], Value::Null, None, "not on that cluster"),
        ("two", pick_n(1), vec!["a Bound", "a Unscheduled"], Value::Null, None, "two bindings"),
        ("fixed", json!({"placementType": "PickFixed"}), vec!["a Bound"], Value::Null, None, "PickFixed"),
        ("leaving", pick_n(1), vec!["a Bound deleting"], blocking(), Some(true), "already"),
        ("not placed", pick_n(1), vec!["a Scheduled"], Value::Null, Some(false), "nothing is placed"),
        ("never placed", pick_n(1), vec!["a Unscheduled"], Value::Null, Some(false), "nothing is placed"),
        ("still there", pick_n(1), vec!["a Unscheduled was-bound"], Value::Null, Some(true), "no budget"),
        ("reports only", pick_n(1), vec!["a Bound reports"], blocking(), Some(true), "does not work"),
        ("no budget", pick_n(1), vec!["a Bound available"], Value::Null, Some(true), "no budget"),
        (
            "PickAll, maximum",
            Value::Null,
            vec!["a Bound available"],
            json!({"maxUnavailable": 5}),
            Some(false),
            "PickAll",
        ),
        (
            "PickAll, percent",
            Value::Null,
            vec!["a Bound available"],
            json!({"minAvailable": "1%"}),
            Some(false),
            "PickAll",
        ),
        ("empty budget", pick_n(1), vec!["a Bound available"], json!({}), Some(false), "allows 0"),
    ];
    for (name, policy, lines, budget, executed, message) in rows {
        let found = verdict(policy, &lines, false, budget);
        assert_eq!((found.valid, found.executed), (executed.is_some(), executed), "{name}");
        assert!(found.message.contains(message), "{name}: {}", found.message);
        assert_eq!(found.remove.is_some(), executed == Some(true) && name != "leaving", "{name}");
    }
    for placement in [None, Some(EvictedPlacement { policy: None, removed: true })] {
        let (cluster, bindings) = ("a".into(), [binding("a Bound")]);
        let request =
            EvictionRequest { cluster: &cluster, placement, bindings: &bindings, failed: false, budget: None };
        assert_eq!(evict(&request).valid_reason(), Reason::ClusterResourcePlacementEvictionInvalid);
    }
}
