use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::given_up::given_up;
use model::records::{Binding, Glimpse, Inventory, WorkStatus};
use testkit::trees::{placement, tree};

/// A list that fails hides what was decided to go: another placement may claim it all the same, or the order that is known would
/// delete it as soon as it is listed again.
#[test]
fn w16_what_was_decided_to_go_is_given_up_though_it_cannot_be_listed() {
    let tree = tree(&[("p.yaml", &placement("p", "", ""))]);
    let mut state = PlacementState::begin(&tree.placements[&PlacementKey::cluster_scoped("p")], Timestamp::UNIX_EPOCH);
    let mut binding: Binding = serde_json::from_value(json!({
        "name": "b", "placement": "p", "cluster": "a", "state": "Unscheduled", "policyIndex": 0, "generation": 2,
        "decision": {"clusterName": "a", "selected": true, "reason": ""}, "deleting": true,
    }))
    .expect("a binding");
    let key = ObjectKey { kind: "ConfigMap".into(), namespace: "n".into(), ..ObjectKey::default() };
    binding.removes.insert(key.clone());
    state.bindings.insert(binding.name.clone(), Arc::new(binding));
    let inventory = Inventory::Unknown(Glimpse::default());
    state.works.insert("a".into(), Arc::new(WorkStatus { inventory, ..WorkStatus::default() }));
    let found = given_up(&state, &Claims::new(), &FleetState::default());
    assert_eq!(found, Claims::from([("a".into(), BTreeSet::from([key]))]));
}

fn config_map(name: &str) -> ObjectKey {
    ObjectKey { kind: "ConfigMap".into(), namespace: "n".into(), name: name.into(), ..ObjectKey::default() }
}

/// Returns a placement with snapshots of these ConfigMaps, the newest last, and with one of them on cluster `a`.
fn on_a(name: &str, snapshots: &[&[&str]], binding_state: &str, snapshot: u64) -> PlacementState {
    let tree = tree(&[("p.yaml", &placement(name, "", ""))]);
    let key = PlacementKey::cluster_scoped(name);
    let mut state = PlacementState::begin(&tree.placements[&key], Timestamp::UNIX_EPOCH);
    let object = |name: &&str| {
        json!({
            "version": "v1", "kind": "ConfigMap", "namespace": "n", "name": name, "digest": "d",
            "origin": {"path": "x.yaml", "line": 1, "blob": "b", "ordinal": 0},
        })
    };
    for (index, names) in (0..).zip(snapshots) {
        let resources: Vec<_> = names.iter().map(object).collect();
        let snapshot = json!({
            "placement": name, "index": index, "commit": "c", "hash": index.to_string(), "resources": resources,
            "parts": [1], "createdAt": "2026-01-01T00:00:00Z",
        });
        state.snapshots.insert(index, Arc::new(serde_json::from_value(snapshot).expect("a snapshot")));
    }
    let binding: Binding = serde_json::from_value(json!({
        "name": "b", "placement": name, "cluster": "a", "state": binding_state, "policyIndex": 0, "generation": 2,
        "decision": {"clusterName": "a", "selected": true, "reason": ""}, "deleting": false, "snapshot": snapshot,
    }))
    .expect("a binding");
    state.bindings.insert(binding.name.clone(), Arc::new(binding));
    state
}

/// What another placement has taken over is in no inventory of this one, and a daemon that starts knows no claims: the order of a cluster that
/// leaves or waits for its turn must not ask for it again.
#[test]
fn w16_what_a_cluster_is_not_to_keep_of_its_snapshot_is_given_up_though_its_inventory_is_empty() {
    let hold = |index: u64| {
        let held = json!({"index": index, "hash": index.to_string(), "why": "", "since": "2026-01-01T00:00:00Z"});
        serde_json::from_value(held).expect("a hold")
    };
    // state, snapshot, the snapshot that was rolled back, whether the runs leave the cluster as it is, what is given up
    let rows = [
        ("Unscheduled", 0, None, false, vec!["gone", "kept"]),
        ("Unscheduled", 1, None, false, vec!["kept"]),
        ("Bound", 0, None, false, vec!["gone"]),
        ("Bound", 1, None, false, vec![]),
        ("Bound", 0, Some(1), false, vec![]),
        ("Bound", 0, None, true, vec![]),
    ];
    for (binding_state, snapshot, held, is_ignored, wanted) in rows {
        let mut state = on_a("p", &[&["kept", "gone"], &["kept"]], binding_state, snapshot);
        state.record.held = held.map(hold);
        state.record.ignored.extend(is_ignored.then(|| ClusterName::from("a")));
        let wanted: BTreeSet<ObjectKey> = wanted.into_iter().map(config_map).collect();
        let found = given_up(&state, &Claims::new(), &FleetState::default());
        let found = found.get(&ClusterName::from("a")).cloned().unwrap_or_default();
        assert_eq!(found, wanted, "{binding_state} {snapshot} {held:?} {is_ignored}");
    }
}

/// The order of one of two placements has an object that both have by their snapshots, as long as one of them is bound to it.
#[test]
fn w16_of_two_placements_that_wait_to_lose_an_object_one_has_it() {
    // what holds it, the state of p, whether the newest snapshot of p and of q has it, who yields it
    let rows: [(&str, &str, bool, bool, &[&str]); 9] = [
        ("q", "Bound", false, true, &["p"]),
        ("p", "Bound", false, true, &["p"]),
        ("p", "Bound", true, false, &["q"]),
        ("", "Bound", true, true, &[]),
        ("q", "Bound", false, false, &["p"]),
        ("p", "Bound", false, false, &["q"]),
        ("", "Bound", false, false, &["q"]),
        ("p", "Unscheduled", false, true, &["p"]),
        ("p", "Unscheduled", false, false, &["p"]),
    ];
    let fleet = FleetState::default();
    for (holder, state_of_p, p_has_it, q_has_it, wanted) in rows {
        let newest = |has_it: bool| -> &'static [&'static str] { if has_it { &["kept", "o"] } else { &["kept"] } };
        let mut p = on_a("p", &[&["o"], newest(p_has_it)], state_of_p, 0);
        let mut q = on_a("q", &[&["o"], newest(q_has_it)], "Bound", 0);
        for (name, state) in [("p", &mut p), ("q", &mut q)] {
            let inventory = (name == holder).then(|| config_map("o")).into_iter().collect();
            state.works.insert("a".into(), Arc::new(WorkStatus { inventory, ..WorkStatus::default() }));
            state.given_up = Arc::new(given_up(state, &Claims::new(), &fleet));
        }
        let states: States<'_> = [&p, &q].into_iter().map(|state| (&state.record.key, state)).collect();
        let yields = |state: &&PlacementState| {
            let (_, mut yielded, _) = sums(&claims(&state.record.key, state, &states, &fleet));
            keep_wanted(state, &fleet, &mut yielded);
            yielded.values().any(|keys| keys.contains(&config_map("o")))
        };
        let found: Vec<&str> = [&p, &q].into_iter().filter(yields).map(|state| &*state.record.key.name).collect();
        assert_eq!(found, wanted, "{holder} has it, p is {state_of_p} and is to have it: {p_has_it}, q: {q_has_it}");
    }
}

/// A placement that waits, as one that is paused, is not due when another gets what it gives up (seed 40122 of the simulation): the other
/// failed, and returned to what it had.
#[test]
fn w16_what_another_gets_is_yielded_though_the_placement_that_has_it_is_not_due() {
    let fleet = FleetState { source_unread: true, ..FleetState::default() };
    let (p, q) = (PlacementKey::cluster_scoped("p"), PlacementKey::cluster_scoped("q"));
    let decided = |due: &PlacementKey, all: &BTreeMap<PlacementKey, PlacementState>| {
        let before = |key: &PlacementKey| all.get(key).cloned();
        decide_each(&BTreeSet::from([due.clone()]), all, before, &fleet, Timestamp::UNIX_EPOCH)
    };
    let mut waits = on_a("p", &[&["o"]], "Unscheduled", 0);
    let inventory = [config_map("o")].into_iter().collect();
    waits.works.insert("a".into(), Arc::new(WorkStatus { inventory, ..WorkStatus::default() }));
    let mut all = BTreeMap::from([(p.clone(), waits)]);
    let waits = decided(&p, &all).remove(&p).expect("it is due").state;
    assert_eq!(waits.others.yielded, Claims::new());
    all.insert(p.clone(), waits);
    all.insert(q.clone(), on_a("q", &[&["other"]], "Bound", 0));
    assert!(!decided(&q, &all).contains_key(&p), "it is to have nothing of it");
    all.insert(q.clone(), on_a("q", &[&["o"]], "Bound", 0));
    let yielded = Claims::from([("a".into(), BTreeSet::from([config_map("o")]))]);
    let found = decided(&q, &all);
    assert_eq!(found[&p].state.others.yielded, yielded);
    assert_eq!(found[&q].state.others.taking_over, yielded, "the other has it still: q has not failed for that");
}

/// Two placements that select nothing have the same digest, and nothing in common.
#[test]
fn w16_a_hold_goes_to_another_placement_with_objects_alone() {
    let tree = tree(&[("p.yaml", &placement("p", "", "")), ("q.yaml", &placement("q", "", ""))]);
    let begin = |name: &str| {
        PlacementState::begin(&tree.placements[&PlacementKey::cluster_scoped(name)], Timestamp::UNIX_EPOCH)
    };
    let object = json!({
        "version": "v1", "kind": "ConfigMap", "namespace": "n", "name": "o", "digest": "d",
        "origin": {"path": "x.yaml", "line": 1, "blob": "b", "ordinal": 0},
    });
    for (resources, goes) in [(vec![object], true), (Vec::new(), false)] {
        let (mut from, mut heir) = (begin("p"), begin("q"));
        let held = json!({"index": 0, "hash": "h", "why": "", "since": "2026-01-01T00:00:00Z"});
        from.record.held = Some(serde_json::from_value(held).expect("a hold"));
        let snapshot = json!({
            "placement": "q", "index": 0, "commit": "c", "hash": "h", "resources": resources,
            "parts": [resources.len()], "createdAt": "2026-01-01T00:00:00Z",
        });
        heir.snapshots.insert(0, Arc::new(serde_json::from_value(snapshot).expect("a snapshot")));
        let cluster = ClusterName::from("a");
        let clusters = BTreeSet::from([&cluster]);
        let found = Inheritance::of(&from.record.key, &from, None, &heir, &clusters, &FleetState::default());
        assert_eq!(found.is_some(), goes, "{} objects", resources.len());
    }
}

/// Returns a placement that has one object on cluster `a`. Where it leaves, the removal of the object is decided.
fn with_object(name: &str, key: &ObjectKey, leaves: bool) -> PlacementState {
    let tree = tree(&[("x.yaml", &placement(name, "", ""))]);
    let mut state = PlacementState::begin(&tree.placements[&PlacementKey::cluster_scoped(name)], Timestamp::UNIX_EPOCH);
    let snapshot = json!({
        "placement": name, "index": 0, "commit": "c", "hash": "h", "parts": [1], "createdAt": "2026-01-01T00:00:00Z",
        "resources": [{
            "version": "v1", "kind": &*key.kind, "namespace": &*key.namespace, "name": &*key.name, "digest": "d",
            "origin": {"path": "x.yaml", "line": 1, "blob": "b", "ordinal": 0},
        }],
    });
    state.snapshots.insert(0, Arc::new(serde_json::from_value(snapshot).expect("a snapshot")));
    let binding_state = if leaves { "Unscheduled" } else { "Bound" };
    let mut binding: Binding = serde_json::from_value(json!({
        "name": "b", "placement": name, "cluster": "a", "state": binding_state, "policyIndex": 0, "generation": 2,
        "decision": {"clusterName": "a", "selected": true, "reason": ""}, "deleting": leaves, "snapshot": 0,
    }))
    .expect("a binding");
    let held = leaves.then(|| key.clone());
    binding.removes.extend(held.clone());
    state.bindings.insert(binding.name.clone(), Arc::new(binding));
    let inventory = held.into_iter().collect();
    state.works.insert("a".into(), Arc::new(WorkStatus { inventory, ..WorkStatus::default() }));
    state
}

/// A daemon that starts knows no claims. Where it cannot read the source, what was decided to go stays all the same if another placement is to
/// hold it.
#[test]
fn w16_what_changes_hands_is_not_deleted_while_the_source_cannot_be_read() {
    let key = ObjectKey { kind: "ConfigMap".into(), namespace: "n".into(), name: "o".into(), ..ObjectKey::default() };
    let fleet = FleetState { source_unread: true, ..FleetState::default() };
    for (others, wanted) in [(vec![], BTreeSet::from([key.clone()])), (vec!["q"], BTreeSet::new())] {
        let others = others.into_iter().map(|name| with_object(name, &key, false));
        let all = others.chain([with_object("p", &key, true)]);
        let all: BTreeMap<PlacementKey, PlacementState> = all.map(|state| (state.record.key.clone(), state)).collect();
        let due = all.keys().cloned().collect();
        let before = |key: &PlacementKey| all.get(key).cloned();
        let decided = decide_each(&due, &all, before, &fleet, Timestamp::UNIX_EPOCH);
        let order = &decided[&PlacementKey::cluster_scoped("p")].orders[0];
        assert_eq!(order.prune, wanted, "{} others", all.len() - 1);
    }
}
