use serde_json::json;

use super::*;
use crate::state::PlacementState;
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

/// Evaluates evictions, and returns the bindings that go.
fn evaluate(
    disruptions: &Disruptions,
    record: &mut PlacementRecord,
    bindings: &BTreeMap<String, Arc<Binding>>,
) -> Vec<String> {
    let evicted = disruptions.evaluate(record, bindings, |_| false, NOW);
    record.evictions = evicted.records;
    evicted.left.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn an_eviction_is_evaluated_once_and_forgotten_with_its_file() {
    let mut bindings = BTreeMap::from([binding("a", "Bound"), binding("b", "Scheduled")]);
    let evictions = [eviction("early", "p", "b"), eviction("go", "p", "a"), eviction("lost", "p", "nowhere")];
    let (disruptions, mut record) = commit(&evictions);
    assert!(disruptions.concerns(&PlacementKey::cluster_scoped("p")));
    assert_eq!(evaluate(&disruptions, &mut record, &bindings), ["p-a"]);
    let verdicts = ["early: Valid=True Executed=False", "go: Valid=True Executed=True", "lost: Valid=False"];
    assert_eq!(evaluated(&record), verdicts);
    // The cluster is picked again, and gets what it had.
    bindings.extend([binding("a", "Bound"), binding("b", "Bound")]);
    assert_eq!(evaluate(&disruptions, &mut record, &bindings), Vec::<String>::new(), "it is done");
    assert_eq!(evaluated(&record), verdicts);
    // The same name for another cluster is another eviction.
    let (disruptions, _) = commit(&[eviction("go", "p", "b")]);
    assert_eq!(evaluate(&disruptions, &mut record, &bindings), ["p-b"]);
    assert_eq!(evaluated(&record), ["go: Valid=True Executed=True"]);
}

#[test]
fn whom_evictions_do_not_concern() {
    let (disruptions, record) = commit(&[eviction("go", "p", "a")]);
    let bound = || BTreeMap::from([binding("a", "Bound")]);
    let mut removed = PlacementRecord { removed: true, ..record.clone() };
    assert_eq!(evaluate(&disruptions, &mut removed, &bound()), Vec::<String>::new());
    assert_eq!(evaluated(&removed), ["go: Valid=False"]);
    let mut namespaced = PlacementRecord { key: PlacementKey::namespaced("ns", "p"), ..record };
    assert_eq!(evaluate(&disruptions, &mut namespaced, &bound()), Vec::<String>::new());
    assert_eq!(evaluated(&namespaced).len(), 0);
    assert!(!disruptions.concerns(&namespaced.key));
}
