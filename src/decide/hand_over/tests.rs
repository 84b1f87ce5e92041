use std::sync::Arc;

use serde_json::json;

use super::*;
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
    assert_eq!(given_up(&state), Claims::from([("a".into(), BTreeSet::from([key]))]));
}

/// What another placement has taken over is in no inventory of this one, and a daemon that starts knows no claims: the order of a cluster that
/// leaves must not ask for it again.
#[test]
fn w16_what_the_snapshot_of_a_leaving_cluster_has_is_given_up_though_its_inventory_is_empty() {
    let tree = tree(&[("p.yaml", &placement("p", "", ""))]);
    let mut state = PlacementState::begin(&tree.placements[&PlacementKey::cluster_scoped("p")], Timestamp::UNIX_EPOCH);
    let object = |name: &str| {
        json!({
            "version": "v1", "kind": "ConfigMap", "namespace": "n", "name": name, "digest": "d",
            "origin": {"path": "x.yaml", "line": 1, "blob": "b", "ordinal": 0},
        })
    };
    for (index, names) in [(0, vec!["kept", "gone"]), (1, vec!["kept"])] {
        let resources: Vec<_> = names.into_iter().map(object).collect();
        let snapshot = json!({
            "placement": "p", "index": index, "commit": "c", "hash": index.to_string(), "resources": resources,
            "parts": [1], "createdAt": "2026-01-01T00:00:00Z",
        });
        state.snapshots.insert(index, Arc::new(serde_json::from_value(snapshot).expect("a snapshot")));
    }
    let key = |name: &str| ObjectKey {
        kind: "ConfigMap".into(),
        namespace: "n".into(),
        name: name.into(),
        ..ObjectKey::default()
    };
    // state, snapshot, what is given up
    let rows = [("Unscheduled", 0, vec!["gone", "kept"]), ("Unscheduled", 1, vec!["kept"]), ("Bound", 0, vec![])];
    for (binding_state, snapshot, wanted) in rows {
        let binding: Binding = serde_json::from_value(json!({
            "name": "b", "placement": "p", "cluster": "a", "state": binding_state, "policyIndex": 0, "generation": 2,
            "decision": {"clusterName": "a", "selected": true, "reason": ""}, "deleting": false, "snapshot": snapshot,
        }))
        .expect("a binding");
        state.bindings.insert(binding.name.clone(), Arc::new(binding));
        let wanted: BTreeSet<ObjectKey> = wanted.into_iter().map(key).collect();
        let found = given_up(&state).remove(&ClusterName::from("a")).unwrap_or_default();
        assert_eq!(found, wanted, "{binding_state} {snapshot}");
    }
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
