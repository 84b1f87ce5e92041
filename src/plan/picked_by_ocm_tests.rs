use std::sync::Arc;

use jiff::Timestamp;

use crate::Baseline;
use decide::state::{FleetState, PlacementState};
use decide::{Decision, decide};
use model::id::ClusterName;
use model::records::BindingState;
use model::tree::Tree;
use testkit::trees::{BOUND, eviction, managed, member, ocm_placement, payload, placement, tree};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const FOLLOWS: &str = "gitfleet.io/placement: ns/ocm";

/// The only placement of a fleet, decided from where it stood.
fn again(state: Option<PlacementState>, fleet: &FleetState) -> Decision {
    let placement = fleet.tree.placements.values().next().expect("there is a placement");
    decide(state.unwrap_or_else(|| PlacementState::begin(placement, NOW)), fleet, NOW)
}

fn picked(state: &PlacementState) -> Vec<&str> {
    let picked = state.bindings().filter(|b| b.state != BindingState::Unscheduled && !b.deleting);
    picked.map(|binding| binding.cluster.as_str()).collect()
}

fn commit(clusters: &[&str], ocm: &str) -> Arc<Tree> {
    let clusters: String = clusters.iter().map(|name| managed(name, "{}", "[]")).collect();
    let own = [BOUND, &payload("1"), &placement("p", FOLLOWS, "")].concat();
    tree(&[("c.yaml", &clusters), ("o.yaml", ocm), ("p.yaml", &own)])
}

#[test]
#[allow(clippy::type_complexity, reason = "a table")]
fn a_placement_follows_what_an_ocm_placement_decided() {
    let any = ocm_placement("ocm", "{}");
    let two = ocm_placement("ocm", "{numberOfClusters: 2}");
    let wrong = ocm_placement("ocm", "{tolerations: [{operator: Equal, value: v}]}");
    let steps: [(&str, Arc<Tree>, &[&str], Option<&str>); 6] = [
        ("all", commit(&["a", "b"], &any), &["a", "b"], None),
        ("one more", commit(&["a", "b", "c"], &any), &["a", "b", "c"], None),
        ("fewer", commit(&["a", "b", "c"], &two), &["a", "b"], None),
        ("misconfigured", commit(&["a", "b", "c"], &wrong), &["a", "b"], None),
        ("one gone", commit(&["b", "c"], &any), &["b", "c"], None),
        ("no such Placement", commit(&["b", "c"], ""), &["b", "c"], Some("which the source does not have")),
    ];
    let (mut state, mut fleet) = (None, Baseline::default());
    for (name, tree, wanted, error) in steps {
        fleet = fleet.accepting(&tree, NOW);
        let decided = again(state, &fleet.fleet).state;
        assert_eq!(picked(&decided), wanted, "{name}");
        let said = decided.record.error.clone().unwrap_or_default();
        assert!(error.map_or(said.is_empty(), |error| said.contains(error)), "{name}: {said}");
        state = Some(decided);
    }
}

#[test]
fn who_picks_may_have_nothing_to_say_yet() {
    let wrong = ocm_placement("ocm", "{tolerations: [{operator: Equal, value: v}]}");
    let fleet = Baseline::default().accepting(&commit(&["a"], &wrong), NOW);
    let decided = again(None, &fleet.fleet).state;
    assert_eq!(picked(&decided), Vec::<&str>::new());
    let said = decided.record.error.unwrap_or_default();
    assert!(said.contains("the OCM Placement ns/ocm picks no clusters") && said.contains("operator"), "{said}");
    // Nobody bound a set: that is a decision, of no cluster.
    let tree = commit(&["a"], &ocm_placement("ocm", "{clusterSets: [other]}"));
    let decided = again(None, &Baseline::default().accepting(&tree, NOW).fleet).state;
    let fulfilled = decided.policy().map(|policy| (policy.number_of_clusters, policy.fulfilled));
    assert_eq!((decided.record.error, fulfilled), (None, Some((Some(0), false))));
}

#[test]
fn who_is_evicted_is_replaced_at_once() {
    let fleet = [member("a", ""), member("b", ""), payload("1")].concat();
    let rows: [(&str, &str, &[&str]); 2] = [
        (
            "another cluster",
            "policy: {placementType: PickN, numberOfClusters: 1, affinity: {clusterAffinity: \
          {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 10, preference: {labelSelector: {matchLabels: \
          {kubernetes-fleet.io/member-name: b}}}}]}}}",
            &["b"],
        ),
        ("every cluster", "policy: {placementType: PickAll}", &["a", "b"]),
    ];
    for (name, policy, wanted) in rows {
        let first = format!(", {}", policy.replace("member-name: b", "member-name: a"));
        let base = Baseline::rolled_out(&tree(&[("f.yaml", &fleet), ("p.yaml", &placement("p", "", &first))]), NOW);
        let (key, state) = base.placements.first_key_value().expect("there is a placement");
        assert!(picked(state).contains(&"a"), "{name}");
        // The cluster is out of reach, as those are that people evict: no report will ever ask for a decision.
        let files = [placement("p", "", &format!(", {policy}")), eviction("go", "p", "a")].concat();
        let mut fleet = base.accepting(&tree(&[("f.yaml", &fleet), ("p.yaml", &files)]), NOW).fleet;
        fleet.records.get_mut(&ClusterName::from("a")).expect("it is of the fleet").online = false;
        let decided = again(Some(state.clone()), &fleet);
        let leaves: Vec<&str> = decided.state.bindings().filter(|b| b.deleting).map(|b| b.cluster.as_str()).collect();
        assert_eq!((leaves, picked(&decided.state)), (vec!["a"], wanted.to_vec()), "{name} ({key})");
        let removals: Vec<&str> = decided.orders.iter().filter(|o| o.remove).map(|o| o.cluster.as_str()).collect();
        assert_eq!(removals, ["a"], "{name}: what leaves comes before what arrives");
    }
}
