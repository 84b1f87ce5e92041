//! The checker can fail: each promise, broken by a forged fact, is caught.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gitfleet::engine::simulation::Fact;
use gitfleet::model::id::{ClusterName, CommitId, ObjectKey, PlacementKey};
use gitfleet::model::work::WorkOrder;
use serde_json::{Value, json};

use super::check::{Checker, Want, Who, Wish};

fn order(cluster: &str, generation: i64) -> Arc<WorkOrder> {
    Arc::new(WorkOrder {
        placement: PlacementKey::cluster_scoped("p"),
        cluster: cluster.into(),
        generation,
        source: String::new(),
        snapshot: 0,
        commit: "1".into(),
        digest: "d".into(),
        strategy: gitfleet::api::placement::ApplyStrategy::default(),
        manifests: Arc::from([]),
        held: BTreeSet::new(),
        remove: false,
    })
}

fn object() -> ObjectKey {
    ObjectKey { group: "apps".into(), kind: "Deployment".into(), namespace: "n".into(), name: "o".into() }
}

fn kept(key: &str, value: &Value) -> Fact {
    Fact::Kept { key: key.to_owned(), value: Some(value.to_string().into_bytes().into()) }
}

fn binding(cluster: &str, generation: i64, deleting: bool) -> Fact {
    let value = json!({
        "name": cluster, "placement": "p", "cluster": cluster, "state": "Bound", "policyIndex": 0, "snapshot": 0,
        "generation": generation, "decision": {"clusterName": cluster, "selected": true, "reason": ""}, "deleting": deleting,
    });
    kept(&format!("binding/p/{cluster}"), &value)
}

fn placement(generation: i64, gate: &Value) -> Fact {
    let value = json!({
        "key": "p", "spec": {"resourceSelectors": [], "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}},
        "annotations": {}, "generation": generation, "createdAt": "2026-01-01T00:00:00Z", "deletionGate": gate,
    });
    kept("placement/p", &value)
}

fn snapshot(index: u64, hash: &str) -> Fact {
    let value = json!({
        "placement": "p", "index": index, "commit": "1", "hash": hash, "resources": [], "parts": [],
        "createdAt": "2026-01-01T00:00:00Z",
    });
    kept(&format!("snapshot/p/{index}"), &value)
}

/// A run of two stages with a gate after the first.
fn run(gate_done: bool, second_begun: bool) -> Fact {
    let at = "2026-01-01T00:00:00Z";
    let cluster = |name: &str, begun: bool| {
        let phase = if begun { "Succeeded" } else { "Pending" };
        let mut cluster = json!({"name": name, "phase": phase, "since": at});
        if begun {
            cluster["startedAt"] = json!(at);
        }
        cluster
    };
    let mut task = json!({"type": "Approval"});
    if gate_done {
        task["doneAt"] = json!(at);
    }
    let stage = |name: &str, phase: &str, after: Value, clusters: Value| json!({"name": name, "maxConcurrency": 1, "phase": phase, "since": at, "digest": name, "after": after, "clusters": clusters});
    let first = stage("first", "Succeeded", json!([task]), json!([cluster("a", true)]));
    let second = stage("second", "Updating", json!([]), json!([cluster("b", second_begun)]));
    let value = json!({
        "name": "r", "placement": "p", "cause": {"type": "snapshot"}, "strategy": "s", "generation": 1, "createdAt": at,
        "sequence": 0, "phase": "Updating", "since": at, "stages": [first, second],
    });
    kept("run/p/r", &value)
}

fn applied(cluster: &str, available: bool) -> Fact {
    Fact::Applied { order: order(cluster, 1), object: object(), digest: "d".into(), available }
}

fn whole(cluster: &str) -> Vec<Fact> {
    vec![
        binding(cluster, 1, false),
        applied(cluster, true),
        Fact::Inventory { order: order(cluster, 1), holds: Some(0) },
    ]
}

#[allow(clippy::field_reassign_with_default, reason = "the other fields are its own")]
fn checker() -> Checker {
    let clusters: BTreeSet<ClusterName> = ["a".into(), "b".into()].into();
    let want = Want { objects: BTreeMap::new(), who: Who::Exactly(clusters.clone()) };
    let placements = BTreeMap::from([(PlacementKey::cluster_scoped("p"), want)]);
    let wish = Wish { clusters, placements, is_good: true, number: 1 };
    let refused = Wish { is_good: false, number: 2, ..wish.clone() };
    let wishes = BTreeMap::from([(CommitId::from("1"), wish), (CommitId::from("2"), refused)]);
    let mut checker = Checker::default();
    checker.wishes = wishes;
    checker
}

#[test]
fn every_broken_promise_is_caught() {
    let closed = || Value::Null;
    let open = json!({"digest": "g", "reason": "", "deletions": {}, "since": "2026-01-01T00:00:00Z", "openedAt": "2026-01-01T00:00:00Z"});
    let waiting = json!({"digest": "g", "reason": "", "deletions": {"a": [object()]}, "since": "2026-01-01T00:00:00Z"});
    let sent = |generation| Fact::Sent { order: order("a", generation), connection: (1, 1) };
    let gone = |holder: Option<&str>| Fact::Deleted {
        order: order("a", 1),
        object: object(),
        holder: holder.map(PlacementKey::cluster_scoped),
    };
    let both = || [vec![placement(1, &closed())], whole("a"), whole("b")].concat();
    let rows: Vec<(&str, Vec<Fact>, Option<&str>)> = vec![
        ("one is down", [both(), vec![applied("a", false)]].concat(), None),
        ("two are down", [both(), vec![applied("a", false), applied("b", false)]].concat(), Some("1:")),
        ("a stage in its turn", vec![run(false, false)], None),
        ("a stage before its time", vec![run(false, true)], Some("2:")),
        ("a gate nobody opened", vec![run(true, true)], Some("3:")),
        ("deletions nobody approved", vec![placement(1, &open)], Some("3:")),
        (
            "deletions behind a closed gate",
            vec![placement(1, &waiting), binding("a", 1, false), Fact::Ordered(order("a", 1))],
            Some("3:"),
        ),
        ("what is ours is deleted", vec![gone(Some("p"))], None),
        ("what is nobody's is deleted", vec![gone(None)], Some("4:")),
        ("what is another's is deleted", vec![gone(Some("q"))], Some("4:")),
        (
            "a wanted cluster is left",
            vec![Fact::Accepted("1".into()), binding("a", 1, false), binding("a", 2, true)],
            Some("4:"),
        ),
        (
            "one order after the other",
            vec![sent(1), Fact::Answered { order: order("a", 1), connection: (1, 1) }, sent(2)],
            None,
        ),
        ("two orders at once", vec![sent(1), sent(2)], Some("5:")),
        ("an order that is written down", vec![binding("a", 1, false), Fact::Ordered(order("a", 1))], None),
        ("an order before its record", vec![binding("a", 1, false), Fact::Ordered(order("a", 2))], Some("7:")),
        ("a record that goes back", vec![binding("a", 2, false), binding("a", 1, false)], Some("7:")),
        ("a snapshot that changes", vec![snapshot(0, "x"), snapshot(0, "y")], Some("7:")),
        ("an index that is used again", vec![snapshot(1, "x"), snapshot(0, "y")], Some("7:")),
        ("payload that was let go", vec![Fact::PayloadGone("1".into())], Some("7:")),
        ("a commit with errors", vec![Fact::Accepted("2".into())], Some("commit 2 has errors")),
    ];
    for (name, facts, wanted) in rows {
        let mut checker = checker();
        let verdict = facts.iter().try_for_each(|fact| checker.see(fact));
        match (verdict, wanted) {
            (Ok(()), None) => {}
            (Err(why), Some(wanted)) => assert!(why.starts_with(wanted), "{name}: {why}"),
            (verdict, wanted) => panic!("{name}: {verdict:?}, wanted {wanted:?}"),
        }
    }
}
