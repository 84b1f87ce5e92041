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
