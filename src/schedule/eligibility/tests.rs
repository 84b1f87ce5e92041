use serde_json::json;

use super::*;

fn member(status: Value) -> MemberCluster {
    MemberCluster { status: (!status.is_null()).then_some(status), ..MemberCluster::default() }
}

#[test]
fn who_takes_new_placements() {
    let agent = |heartbeat: &str, joined: &str, healthy: &str, since: &str| {
        json!({"agentStatus": [{"type": "ServiceExportImportAgent"}, {"type": "MemberAgent", "lastReceivedHeartbeat": heartbeat, "conditions": [
            {"type": "Joined", "status": joined}, {"type": "Healthy", "status": healthy, "lastTransitionTime": since},
        ]}]})
    };
    let (old, fresh, future) = ("2026-01-01T11:54:59Z", "2026-01-01T11:55:00Z", "2026-01-01T13:00:00Z");
    let now = "2026-01-01T12:00:00Z".parse().unwrap();
    let rows = [
        ("no status", Value::Null, ""),
        ("properties by hand", json!({"properties": {"a": {"value": "1"}}}), ""),
        ("joining", json!({"conditions": []}), "has not joined"),
        ("another agent alone", json!({"agentStatus": [{"type": "ServiceExportImportAgent"}]}), "has not joined"),
        ("no heartbeat", json!({"agentStatus": [{"type": "MemberAgent"}]}), "never sent"),
        ("well", agent(fresh, "True", "True", old), ""),
        ("from the future", agent(future, "True", "True", old), ""),
        ("silent", agent(old, "True", "True", old), "more than 5 minutes ago"),
        ("not joined", agent(fresh, "Unknown", "True", old), "Joined is Unknown"),
        ("just unhealthy", agent(fresh, "True", "False", fresh), ""),
        ("unhealthy", agent(fresh, "True", "False", old), "not healthy since"),
        (
            "no health",
            json!({"agentStatus": [{"type": "MemberAgent", "lastReceivedHeartbeat": fresh, "conditions": [{"type": "Joined", "status": "True"}]}]}),
            "Healthy is missing",
        ),
    ];
    for (name, status, expected) in rows {
        let found = described(&member(status), now).eligible.err().unwrap_or_default();
        assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{name}: {found}");
    }
}

#[test]
fn which_namespaces_it_has() {
    let collected = json!([{"type": "NamespaceCollectionSucceeded", "status": "False"}]);
    let rows = [
        (Value::Null, None),
        (json!({"namespaces": {"a": ""}}), None),
        (json!({"conditions": collected}), Some(vec![])),
        (json!({"conditions": collected, "namespaces": {"b": "", "a": "work"}}), Some(vec!["a", "b"])),
    ];
    for (status, expected) in rows {
        let found = namespaces(member(status.clone()).status.as_ref());
        let found = found.as_ref().map(|found| found.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(found, expected, "{status}");
    }
}

#[test]
fn git_says_what_a_cluster_has() {
    let mut member = member(json!({
        "properties": {"seen": {"value": "1"}, "nodes": {"value": 4}},
        "resourceUsage": {"capacity": {"cpu": "8"}, "available": {"memory": "1Gi"}},
    }));
    member
        .annotations
        .insert(model::api::annotations::PROPERTIES.to_owned(), json!({"cost": 3, "seen": "2"}).to_string());
    let found: Vec<_> = facts::stated(&member).iter().map(|(name, value)| format!("{name}={value}")).collect();
    let expected = [
        "cost=3",
        "nodes=4",
        "resources.kubernetes-fleet.io/available-memory=1Gi",
        "resources.kubernetes-fleet.io/total-cpu=8",
        "seen=2",
    ];
    assert_eq!(found, expected);
}
