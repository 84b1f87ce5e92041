use serde_json::json;

use super::*;
use crate::state::PlacementState;
use model::records::BindingState;
use testkit::trees::{eviction, member, payload, placement, tree};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn binding(cluster: &str, state: &str) -> (String, Arc<Binding>) {
    let binding = json!({
        "name": format!("p-{cluster}"), "placement": "p", "cluster": cluster, "state": state, "policyIndex": 0, "generation": 1,
        "decision": {"clusterName": cluster, "selected": true, "reason": ""},
    });
    let binding: Binding = serde_json::from_value(binding).expect("a binding");
    (binding.name.clone(), Arc::new(binding))
}

fn commit(evictions: &[String]) -> (Disruptions, PlacementRecord) {
    let text = [member("a", ""), member("b", ""), payload("1"), placement("p", "", ""), evictions.concat()].concat();
    let tree = tree(&[("f.yaml", &text)]);
    let state = PlacementState::begin(tree.placements.values().next().expect("there is one"), NOW);
    (Disruptions::of(&tree), state.record)
}

fn evaluated(record: &PlacementRecord) -> Vec<String> {
    let conditions = |eviction: &EvictionRecord| {
        eviction.conditions.iter().map(|c| format!("{}={:?}", c.type_, c.status)).collect::<Vec<_>>().join(" ")
    };
    record.evictions.iter().map(|(name, eviction)| format!("{name}: {}", conditions(eviction))).collect()
}

#[test]
fn an_eviction_is_evaluated_once_and_forgotten_with_its_file() {
    let mut bindings = BTreeMap::from([binding("a", "Bound"), binding("b", "Scheduled")]);
    let evictions = [eviction("early", "p", "b"), eviction("go", "p", "a"), eviction("lost", "p", "nowhere")];
    let (disruptions, mut record) = commit(&evictions);
    assert!(disruptions.concerns(&PlacementKey::cluster_scoped("p")));
    let removed = disruptions.evaluate(&mut record, &mut bindings, |_| false, NOW);
    assert_eq!(removed, ["p-a"]);
    assert_eq!((bindings["p-a"].deleting, bindings["p-a"].generation), (true, 2));
    let verdicts = ["early: Valid=True Executed=False", "go: Valid=True Executed=True", "lost: Valid=False"];
    assert_eq!(evaluated(&record), verdicts);
    // The cluster is picked again, and gets what it had.
    bindings.extend([binding("a", "Bound"), binding("b", "Bound")]);
    assert_eq!(disruptions.evaluate(&mut record, &mut bindings, |_| false, NOW), Vec::<String>::new(), "it is done");
    assert_eq!(evaluated(&record), verdicts);
    // The same name for another cluster is another eviction.
    let (disruptions, _) = commit(&[eviction("go", "p", "b")]);
    assert_eq!(disruptions.evaluate(&mut record, &mut bindings, |_| false, NOW), ["p-b"]);
    assert_eq!(evaluated(&record), ["go: Valid=True Executed=True"]);
}

#[test]
fn whom_evictions_do_not_concern() {
    let (disruptions, record) = commit(&[eviction("go", "p", "a")]);
    let bound = || BTreeMap::from([binding("a", "Bound")]);
    let mut removed = PlacementRecord { removed: true, ..record.clone() };
    assert_eq!(disruptions.evaluate(&mut removed, &mut bound(), |_| false, NOW), Vec::<String>::new());
    assert_eq!(evaluated(&removed), ["go: Valid=False"]);
    let mut namespaced = PlacementRecord { key: PlacementKey::namespaced("ns", "p"), ..record };
    let mut bindings = bound();
    assert_eq!(disruptions.evaluate(&mut namespaced, &mut bindings, |_| false, NOW), Vec::<String>::new());
    assert_eq!((evaluated(&namespaced).len(), bindings["p-a"].state), (0, BindingState::Bound));
    assert!(!disruptions.concerns(&namespaced.key));
}
