//! `gitfleet schedule`: the List that scripts read, what it continues from, what it refuses.

use serde_json::{Value, json};

use crate::cli::scratch::{Outcome, Scratch};

/// The instant of every test here.
pub const NOW: &str = "2026-01-31T12:00:00Z";
const CRP: &str = "placement.kubernetes-fleet.io/v1beta1";

/// Runs `schedule` on objects.
pub fn schedule(objects: &[Value], more: &[&str]) -> Outcome {
    let scratch = Scratch::new();
    let text: String = objects.iter().map(|object| format!("---\n{object}\n")).collect();
    std::fs::write(scratch.path("objects.yaml"), text).unwrap();
    scratch.run(&[&["schedule", "--now", NOW, "-f", "objects.yaml"], more].concat())
}

/// Returns the List that `schedule` prints of objects.
pub fn decided(objects: &[Value]) -> Value {
    schedule(objects, &["-o", "json"]).json(0)
}

/// Returns a MemberCluster.
pub fn member(name: &str, labels: Value) -> Value {
    json!({"apiVersion": "cluster.kubernetes-fleet.io/v1", "kind": "MemberCluster", "metadata": {"name": name, "labels": labels}})
}

fn placement(policy: Value) -> Value {
    json!({"apiVersion": CRP, "kind": "ClusterResourcePlacement", "metadata": {"name": "web"}, "spec": {
        "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "web"}], "policy": policy}})
}

fn snapshot(index: u64, latest: bool, policy: Value) -> Value {
    json!({"apiVersion": CRP, "kind": "ClusterSchedulingPolicySnapshot", "metadata": {"name": format!("web-{index}"), "labels": {
        "kubernetes-fleet.io/parent-CRP": "web", "kubernetes-fleet.io/policy-index": index.to_string(),
        "kubernetes-fleet.io/is-latest-snapshot": latest.to_string()}}, "spec": {"policy": policy, "policyHash": "d3Jvbmc="}})
}

fn binding(cluster: &str, state: &str, snapshot: &str) -> Value {
    json!({"apiVersion": CRP, "kind": "ClusterResourceBinding", "metadata": {"name": format!("web-{cluster}"), "labels": {
        "kubernetes-fleet.io/parent-CRP": "web"}}, "spec": {"state": state, "targetCluster": cluster,
        "schedulingPolicySnapshotName": snapshot, "resourceSnapshotName": "web-0-snapshot",
        "clusterDecision": {"clusterName": cluster, "selected": true, "reason": "picked long ago",
            "clusterScore": {"affinityScore": 7, "priorityScore": 0}}}})
}

fn picked(list: &Value) -> Vec<&str> {
    let decisions = list["items"][0]["status"]["targetClusters"].as_array().expect("decisions");
    decisions.iter().filter(|d| d["selected"] == true).map(|d| d["clusterName"].as_str().unwrap()).collect()
}

fn three() -> Vec<Value> {
    ["a", "b", "c"].map(|name| member(name, json!({"env": "prod"}))).to_vec()
}

/// Returns objects and more of them.
pub fn with(mut objects: Vec<Value>, more: impl IntoIterator<Item = Value>) -> Vec<Value> {
    objects.extend(more);
    objects
}

#[test]
fn the_contract_field_by_field() {
    let list = decided(&with(three(), [placement(json!({"placementType": "PickN", "numberOfClusters": 2}))]));
    let rows = [
        ("/kind", json!("List")),
        ("/apiVersion", json!("v1")),
        ("/items/0/kind", json!("ClusterSchedulingPolicySnapshot")),
        ("/items/0/metadata/name", json!("web-0")),
        ("/items/0/metadata/labels/kubernetes-fleet.io~1parent-CRP", json!("web")),
        ("/items/0/status/conditions/0/type", json!("Scheduled")),
        ("/items/0/status/conditions/0/status", json!("True")),
        ("/items/0/status/conditions/0/reason", json!("SchedulingPolicyFulfilled")),
        ("/items/0/status/targetClusters/0/clusterName", json!("c")),
        ("/items/0/status/targetClusters/0/selected", json!(true)),
        ("/items/0/status/targetClusters/0/clusterScore", json!({"affinityScore": 0, "priorityScore": 0})),
        ("/items/0/status/targetClusters/1/clusterName", json!("b")),
        ("/items/0/status/targetClusters/2/clusterName", json!("a")),
        ("/items/0/status/targetClusters/2/selected", json!(false)),
    ];
    for (pointer, expected) in rows {
        assert_eq!(list.pointer(pointer), Some(&expected), "{pointer}");
    }
    assert!(list.pointer("/items/0/status/targetClusters/2/reason").is_some_and(Value::is_string));
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
}

#[test]
fn an_unfulfilled_policy_is_printed_and_exits_0() {
    let list = decided(&with(three(), [placement(json!({"placementType": "PickN", "numberOfClusters": 5}))]));
    assert_eq!(picked(&list), ["c", "b", "a"]);
    let condition = &list["items"][0]["status"]["conditions"][0];
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("SchedulingPolicyUnfulfilled")));
}

#[test]
fn nothing_to_schedule_is_an_empty_list() {
    assert_eq!(decided(&three())["items"], json!([]));
}

#[test]
fn it_continues_from_what_a_hub_keeps() {
    let two = json!({"placementType": "PickN", "numberOfClusters": 2});
    let three_wanted = json!({"placementType": "PickN", "numberOfClusters": 3});
    let tolerating =
        json!({"placementType": "PickN", "numberOfClusters": 1, "tolerations": [{"key": "k", "operator": "Exists"}]});
    let defaulted =
        json!({"placementType": "PickN", "numberOfClusters": 2, "tolerations": [{"key": "k", "value": "v"}]});
    let written = json!({"placementType": "PickN", "numberOfClusters": 9, "tolerations": [{"key": "k", "operator": "Equal", "value": "v"}]});
    let bound = |names: &[&str], of: &str| names.iter().map(|name| binding(name, "Bound", of)).collect::<Vec<_>>();
    let rows: [(&str, Value, Vec<Value>, &str, &[&str]); 7] = [
        (
            "without a snapshot bindings of <name>-0 are current",
            two.clone(),
            bound(&["a", "b"], "web-0"),
            "web-0",
            &["a", "b"],
        ),
        (
            "another number is the same policy, the stored hash notwithstanding",
            three_wanted,
            with(bound(&["a", "b"], "web-3"), [snapshot(3, true, two.clone())]),
            "web-3",
            &["c", "a", "b"],
        ),
        (
            "a changed policy is a new snapshot and prefers what it has",
            tolerating,
            with(bound(&["a"], "web-3"), [snapshot(3, true, two.clone())]),
            "web-4",
            &["a"],
        ),
        (
            "defaults written out change nothing",
            defaulted,
            with(bound(&["a", "b"], "web-1"), [snapshot(1, true, written)]),
            "web-1",
            &["a", "b"],
        ),
        (
            "without a mark the highest index is the latest",
            two.clone(),
            with(bound(&["a", "b"], "web-2"), [snapshot(1, false, json!({})), snapshot(2, false, two.clone())]),
            "web-2",
            &["a", "b"],
        ),
        (
            "a binding of a cluster that is not in the fleet counts for nothing",
            two.clone(),
            bound(&["a", "gone"], "web-0"),
            "web-0",
            &["c", "a"],
        ),
        (
            "an unscheduled binding is no pick",
            two.clone(),
            vec![binding("a", "Unscheduled", "web-0"), binding("b", "Bound", "web-0")],
            "web-0",
            &["c", "b"],
        ),
    ];
    for (name, policy, kept, snapshot, expected) in rows {
        let list = decided(&with(three(), with(kept, [placement(policy)])));
        assert_eq!(list["items"][0]["metadata"]["name"], snapshot, "{name}");
        assert_eq!(picked(&list), expected, "{name}");
    }
}

#[test]
fn a_heartbeat_decides_who_is_eligible() {
    let agent = |heartbeat: &str, healthy: &str| {
        json!({"agentStatus": [{"type": "MemberAgent", "lastReceivedHeartbeat": heartbeat, "conditions": [
            {"type": "Joined", "status": "True", "lastTransitionTime": heartbeat, "reason": "", "message": ""},
            {"type": "Healthy", "status": healthy, "lastTransitionTime": "2026-01-31T11:00:00Z", "reason": "", "message": ""}]}]})
    };
    let with_status = |name: &str, status: Value| {
        let mut member = member(name, json!({}));
        member["status"] = status;
        member
    };
    let list = decided(&[
        with_status("fresh", agent("2026-01-31T11:56:00Z", "True")),
        with_status("future", agent("2026-01-31T13:00:00Z", "True")),
        with_status("ill", agent("2026-01-31T11:59:00Z", "False")),
        with_status("none", json!({"agentStatus": []})),
        with_status("stale", agent("2026-01-31T11:54:59Z", "True")),
        member("unknown", json!({})),
        placement(json!({"placementType": "PickAll"})),
    ]);
    assert_eq!(picked(&list), ["fresh", "future", "unknown"]);
    let decisions = list["items"][0]["status"]["targetClusters"].as_array().unwrap();
    for rejected in decisions.iter().filter(|d| d["selected"] == false) {
        assert!(rejected["reason"].as_str().unwrap().starts_with("ClusterUnschedulable, "), "{rejected}");
    }
}

#[test]
fn one_invalid_object_fails_the_whole_call() {
    let pick_n = |more: Value| {
        let mut policy = json!({"placementType": "PickN", "numberOfClusters": 1});
        for (key, value) in more.as_object().unwrap() {
            policy[key] = value.clone();
        }
        placement(policy)
    };
    let required = |expression: Value| {
        pick_n(json!({"affinity": {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "clusterSelectorTerms": [{"propertySelector": {"matchExpressions": [expression]}}]}}}}))
    };
    let preferred = |weight: i32| {
        pick_n(json!({"affinity": {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": weight, "preference": {"labelSelector": {"matchLabels": {"a": "b"}}}}]}}}))
    };
    let expression =
        |operator: &str, values: &[&str]| required(json!({"name": "cpu", "operator": operator, "values": values}));
    let toleration = |toleration: Value| pick_n(json!({"tolerations": toleration}));
    let rows = [
        ("wrong operator", expression("Above", &["1"]), "operator"),
        ("two values", expression("Gt", &["1", "2"]), "values"),
        ("bad quantity", expression("Gt", &["many"]), "values"),
        (
            "unknown property prefix",
            required(json!({"name": "resources.kubernetes-fleet.io/free-cpu", "operator": "Gt", "values": ["1"]})),
            "name",
        ),
        ("weight 101", preferred(101), "weight"),
        (
            "maxSkew 0",
            pick_n(json!({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "zone"}]})),
            "topologySpreadConstraints[0].maxSkew",
        ),
        ("PickN without a number", placement(json!({"placementType": "PickN"})), "numberOfClusters"),
        (
            "PickFixed with affinity",
            placement(
                json!({"placementType": "PickFixed", "clusterNames": ["a"], "affinity": {"clusterAffinity": {}}}),
            ),
            "affinity",
        ),
        (
            "unknown toleration operator",
            toleration(json!([{"key": "a", "operator": "Like"}])),
            "tolerations[0].operator",
        ),
        (
            "duplicate tolerations",
            toleration(json!([{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Exists"}])),
            "tolerations[1]",
        ),
        ("a second latest snapshot", snapshot(1, true, json!({})), "kubernetes-fleet.io/is-latest-snapshot"),
        (
            "a binding of nobody",
            {
                let mut binding = binding("a", "Bound", "");
                binding["metadata"]["labels"] = json!({});
                binding
            },
            "kubernetes-fleet.io/parent-CRP",
        ),
        ("a binding of an unknown state", binding("a", "Lost", "web-0"), "spec.state"),
    ];
    for (name, object, field) in rows {
        let mut good = placement(json!({"placementType": "PickAll"}));
        let kind = object["kind"].as_str().unwrap().to_owned();
        if object["kind"] == good["kind"] {
            good["metadata"]["name"] = json!("other");
        }
        let outcome = schedule(&with(three(), [snapshot(0, true, json!({})), good, object]), &["-o", "json"]);
        assert_eq!((outcome.code, outcome.out.as_str()), (1, ""), "{name}: {}", outcome.err);
        for part in ["error: objects.yaml:", &kind, field] {
            assert!(outcome.err.contains(part), "{name}: {} lacks {part}", outcome.err);
        }
    }
}

#[test]
fn files_folders_and_standard_input_are_read() {
    let scratch = Scratch::new();
    let write = |path: &str, object: &Value| std::fs::write(scratch.path(path), object.to_string()).unwrap();
    std::fs::create_dir(scratch.path("members")).unwrap();
    for member in three() {
        write(&format!("members/{}.json", member["metadata"]["name"].as_str().unwrap()), &member);
    }
    write("placement.txt", &placement(json!({"placementType": "PickAll"})));
    let list = scratch.run(&["schedule", "-o", "json", "-f", "members", "placement.txt"]).json(0);
    assert_eq!(picked(&list), ["a", "b", "c"]);
    let missing = scratch.run(&["schedule", "-f", "nowhere.yaml"]);
    assert_eq!((missing.code, missing.out.as_str()), (2, ""));
    assert!(missing.err.contains("nowhere.yaml"), "{}", missing.err);
}

#[test]
fn the_same_objects_at_the_same_instant_give_the_same_bytes() {
    let objects = with(three(), [placement(json!({"placementType": "PickAll"}))]);
    let mut reversed = objects.clone();
    reversed.reverse();
    let text = |objects: &[Value]| schedule(objects, &["-o", "yaml"]).text(0).to_owned();
    assert_eq!(text(&objects), text(&reversed));
}

#[test]
fn a_person_reads_a_table() {
    let outcome = schedule(&with(three(), [placement(json!({"placementType": "PickN", "numberOfClusters": 1}))]), &[]);
    let table = outcome.text(0);
    assert!(table.starts_with("PLACEMENT   CLUSTER   PICKED   SCORE   REASON"), "{table}");
    assert!(table.contains("\nweb         c         yes      0/0     "), "{table}");
}
