use serde_json::json;

use super::*;
use model::records::{Binding, PlacementRecord};
use testkit::trees::{eviction, member, ocm_placement, payload, placement, tree};

fn key(name: &str) -> PlacementKey {
    PlacementKey::cluster_scoped(name)
}

fn state(name: &str, clusters: &[&str]) -> PlacementState {
    let record: PlacementRecord = serde_json::from_value(json!({
        "key": name, "spec": {"resourceSelectors": [], "policy": {"placementType": "PickAll"}}, "annotations": {},
        "generation": 1, "createdAt": "2026-01-01T00:00:00Z",
    }))
    .expect("a record");
    let mut state = PlacementState::new(record);
    for cluster in clusters {
        let binding: Binding = serde_json::from_value(json!({
            "name": cluster, "placement": name, "cluster": cluster, "state": "Bound", "policyIndex": 0, "generation": 1,
            "decision": {"clusterName": cluster, "selected": true, "reason": ""},
        }))
        .expect("a binding");
        state.bindings.insert(binding.name.clone(), binding.into());
    }
    state
}

#[test]
fn a_cluster_concerns_those_that_have_something_there() {
    let mut queue = Queue::default();
    queue.note(&state("web", &["a", "b"]), &Staged::default(), None);
    queue.note(&state("db", &["b"]), &Staged::default(), None);
    queue.note(&state("web", &["a"]), &Staged::default(), None);
    let held_by = |queue: &mut Queue, cluster: &str| {
        queue.concerns_holders(&ClusterName::from(cluster));
        std::mem::take(&mut queue.placements).into_iter().map(|key| key.name).collect::<Vec<_>>()
    };
    assert_eq!(held_by(&mut queue, "a"), ["web"]);
    assert_eq!(held_by(&mut queue, "b"), ["db"]);
    queue.forget(&key("db"));
    assert_eq!(held_by(&mut queue, "b"), Vec::<String>::new());
}

#[test]
fn what_is_due_is_taken_once() {
    let mut queue = Queue::default();
    let at = |second: i64| Timestamp::from_second(second).expect("an instant");
    queue.wake(&key("web"), Some(at(10)));
    queue.wake_ocm(&Key::new("ns", "p"), Some(at(5)));
    queue.wake_cluster(&ClusterName::from("a"), Some(at(20)));
    assert_eq!(queue.next_wake(), Some(at(5)));
    queue.mark_due(at(10));
    assert_eq!((queue.placements.len(), queue.ocm.len(), queue.clusters.len()), (1, 1, 0));
    assert_eq!(queue.next_wake(), Some(at(20)));
    queue.wake_cluster(&ClusterName::from("a"), None);
    assert_eq!(queue.next_wake(), None);
}

#[test]
fn what_cannot_be_stored_stays_to_be_decided() {
    let at = |second: i64| Timestamp::from_second(second).expect("an instant");
    let mut queue = Queue::default();
    queue.wake(&key("web"), Some(at(50)));
    queue.placements.insert(key("web"));
    queue.ocm.insert(Key::new("ns", "p"));
    queue.retry_at(at(10));
    assert!(!queue.is_empty() && queue.waits(), "a single pass does not end here");
    assert_eq!(queue.next_wake(), Some(at(10)), "time alone continues from here");
    queue.mark_due(at(10));
    assert!(!queue.waits());
    assert_eq!((queue.placements.len(), queue.ocm.len()), (1, 1));
    assert_eq!(queue.next_wake(), Some(at(50)), "what waited for time waits for it still");
}

#[test]
fn whom_a_commit_concerns() {
    let files = |change: &[(&'static str, String)]| {
        let mut files = BTreeMap::from([
            ("c.yaml", member("a", "")),
            ("d.yaml", payload("1")),
            ("o.yaml", ocm_placement("o", "{}")),
            ("p.yaml", placement("p", "", "")),
            ("q.yaml", placement("q", "", "")),
        ]);
        files.extend(change.iter().cloned());
        files.into_iter().filter(|(_, text)| !text.is_empty()).collect::<Vec<_>>()
    };
    let commit = |change: &[(&'static str, String)]| {
        let files = files(change);
        tree(&files.iter().map(|(path, text)| (*path, text.as_str())).collect::<Vec<_>>())
    };
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: ws.x.io}\n\
            spec: {group: x.io, scope: Cluster, names: {kind: W, plural: ws}, versions: []}\n";
    let budget = "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterResourcePlacementDisruptionBudget\n\
            metadata: {name: p}\nspec: {minAvailable: 1}\n";
    let rows: [(&str, (&'static str, String), &[&str]); 11] = [
        ("nothing", ("c.yaml", member("a", "")), &[]),
        ("a cluster alone: who reads it is asked elsewhere", ("c.yaml", member("a", "labels: {tier: gold}")), &[]),
        ("another cluster: all are asked elsewhere", ("e.yaml", member("b", "")), &[]),
        (
            "an OCM Placement: who follows is asked elsewhere",
            ("o.yaml", ocm_placement("o", "{numberOfClusters: 1}")),
            &[],
        ),
        ("payload", ("d.yaml", payload("2")), &["p", "q"]),
        ("a placement", ("p.yaml", placement("p", "", ", revisionHistoryLimit: 3")), &["p"]),
        ("its annotations", ("p.yaml", placement("p", "a: b", "")), &["p"]),
        ("a placement that goes", ("q.yaml", String::new()), &["q"]),
        ("a placement that comes", ("r.yaml", placement("r", "", "")), &["r"]),
        ("an eviction: whom it names is asked elsewhere", ("v.yaml", eviction("v", "p", "a")), &[]),
        ("a kind that becomes known", ("k.yaml", definition.to_owned()), &["p", "q"]),
    ];
    let old = commit(&[]);
    let budgets = ("a budget: as an eviction", ("b.yaml", budget.to_owned()), &[][..]);
    for (name, change, wanted) in rows.into_iter().chain([budgets]) {
        let mut queue = Queue::default();
        queue.compare(&old, &commit(&[change]));
        assert_eq!(queue.placements.iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), wanted, "{name}");
    }
}

#[test]
fn who_follows_an_ocm_placement() {
    let texts = [
        ("p.yaml", placement("p", "gitfleet.io/placement: ns/o", "")),
        ("q.yaml", placement("q", "gitfleet.io/placement: ns/other", "")),
        ("r.yaml", placement("r", "", "")),
    ];
    let texts: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let mut queue = Queue::default();
    queue.concerns_followers(&tree(&texts), &Key::new("ns", "o"));
    assert_eq!(queue.placements, BTreeSet::from([key("p")]));
}
