//! Tables for scheduling: a fleet, a policy and bindings in; changes and decisions out.

mod examples;
mod random;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use model::api::placement::{ApplyStrategy, PlacementPolicy};
use model::cluster::Cluster;
use model::id::{ClusterName, PlacementKey};
use model::overrides::PickedOverrides;
use model::records::{Binding, BindingState, ClusterDecision, ClusterScore};

fn key() -> PlacementKey {
    PlacementKey::cluster_scoped("p")
}

fn policy(value: Value) -> PlacementPolicy {
    serde_json::from_value(value).unwrap()
}

/// A fleet from lines such as `a env=prod !dead #key=value @nodes=3`: labels, ineligibility, taints, properties.
fn fleet(lines: &[&str]) -> Fleet {
    lines
        .iter()
        .map(|line| {
            let mut words = line.split(' ');
            let name = ClusterName::from(words.next().unwrap());
            let mut cluster = Cluster::default();
            for word in words {
                if let Some(why) = word.strip_prefix('!') {
                    cluster.eligible = Err(why.to_owned());
                } else if let Some(taint) = word.strip_prefix('#') {
                    let (key, value) = taint.split_once('=').unwrap();
                    cluster.taints.push(
                        serde_json::from_value(json!({"key": key, "value": value, "effect": "NoSchedule"})).unwrap(),
                    );
                } else if let Some(property) = word.strip_prefix('@') {
                    let (name, value) = property.split_once('=').unwrap();
                    cluster.properties.insert(name.to_owned(), value.to_owned());
                } else {
                    let (key, value) = word.split_once('=').unwrap();
                    cluster.labels.insert(key.to_owned(), value.to_owned());
                }
            }
            (name, cluster)
        })
        .collect()
}

/// A binding from words such as `a Bound 1`: cluster, state, policy index; optionally `was=Bound`, `score=10`, `deleting`.
fn binding(line: &str) -> Binding {
    let words: Vec<&str> = line.split(' ').collect();
    let state = |text: &str| match text {
        "Scheduled" => BindingState::Scheduled,
        "Bound" => BindingState::Bound,
        _ => BindingState::Unscheduled,
    };
    let cluster = ClusterName::from(words[0]);
    let option = |name: &str| words[3..].iter().find_map(|word| word.strip_prefix(name));
    let score = option("score=").map(|s| ClusterScore { affinity_score: s.parse().unwrap(), priority_score: 0 });
    let decision =
        ClusterDecision { cluster_name: cluster.clone(), selected: true, cluster_score: score, reason: "old".into() };
    Binding {
        name: binding_name(&key(), &cluster, |_| false),
        placement: key(),
        cluster,
        state: state(words[1]),
        previous_state: option("was=").map(state),
        policy_index: words[2].parse().unwrap(),
        decision,
        snapshot: Some(3),
        apply_strategy: ApplyStrategy::default(),
        overrides: PickedOverrides::default(),
        created_at: None,
        started_at: None,
        generation: 5,
        conditions: Vec::new(),
        removes: std::collections::BTreeSet::new(),
        abandons: false,
        deleting: words.contains(&"deleting"),
    }
}

fn run(policy: Option<&PlacementPolicy>, clusters: &[&str], bindings: &[&str]) -> Result<Outcome, Error> {
    let bindings: Vec<Arc<Binding>> = bindings.iter().map(|line| Arc::new(binding(line))).collect();
    schedule(&Request {
        placement: &key(),
        policy,
        policy_index: 1,
        clusters: &fleet(clusters),
        bindings: &bindings,
        keep_held: false,
        bad_values: BadValues::Error,
        tenant: None,
    })
}

/// Returns bindings as requests take them.
fn shared(bindings: &[Binding]) -> Vec<Arc<Binding>> {
    bindings.iter().cloned().map(Arc::new).collect()
}

/// Changes as text: `Create a Scheduled`.
fn changes(outcome: &Outcome) -> Vec<String> {
    let text = |c: &BindingChange| format!("{:?} {} {:?}", c.action, c.binding.cluster, c.binding.state);
    outcome.bindings.iter().map(text).collect()
}

/// Decisions as text: `+a` picked, `-a` not.
fn decisions(outcome: &Outcome) -> String {
    let text = |d: &ClusterDecision| format!("{}{}", if d.selected { '+' } else { '-' }, d.cluster_name);
    outcome.decisions.iter().map(text).collect::<Vec<_>>().join(" ")
}

struct Row {
    name: &'static str,
    policy: Value,
    clusters: &'static [&'static str],
    bindings: &'static [&'static str],
    changes: &'static [&'static str],
    decisions: &'static str,
    fulfilled: bool,
}

fn check(rows: &[Row]) {
    for row in rows {
        let policy = (!row.policy.is_null()).then(|| policy(row.policy.clone()));
        let outcome = run(policy.as_ref(), row.clusters, row.bindings).unwrap();
        assert_eq!(changes(&outcome), row.changes, "{}: changes", row.name);
        assert_eq!(decisions(&outcome), row.decisions, "{}: decisions", row.name);
        assert_eq!(outcome.fulfilled, row.fulfilled, "{}: fulfilled", row.name);
    }
}

#[rustfmt::skip]
#[test]
fn pick_all_picks_all_that_pass() {
    let prod = json!({"affinity": {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [
        {"labelSelector": {"matchLabels": {"env": "prod"}}}, {"labelSelector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}},
    ]}}}});
    check(&[
        Row { name: "no policy", policy: Value::Null, clusters: &["b", "a"], bindings: &[],
            changes: &["Create a Scheduled", "Create b Scheduled"], decisions: "+a +b", fulfilled: true },
        Row { name: "no cluster is fulfilled too", policy: Value::Null, clusters: &[], bindings: &[],
            changes: &[], decisions: "", fulfilled: true },
        Row { name: "terms are ORed", policy: prod.clone(), clusters: &["a env=prod", "b env=dev", "c tier=1"], bindings: &[],
            changes: &["Create a Scheduled", "Create c Scheduled"], decisions: "+a +c -b", fulfilled: true },
        Row { name: "what is bound stays bound, and what is new comes first", policy: prod.clone(), clusters: &["a env=dev", "b env=prod", "c env=prod"],
            bindings: &["a Bound 1", "b Scheduled 1"], changes: &["Create c Scheduled"], decisions: "+c +b +a", fulfilled: true },
        Row { name: "a changed policy evaluates again", policy: prod, clusters: &["a env=dev", "b env=prod", "c env=prod"],
            bindings: &["a Bound 0", "b Scheduled 0", "c Unscheduled 0 was=Bound"],
            changes: &["Patch b Scheduled", "Patch c Bound", "Unschedule a Unscheduled"], decisions: "+b +c -a", fulfilled: true },
        Row { name: "ineligible and tainted clusters", policy: json!({"tolerations": [{"key": "gpu", "operator": "Exists"}, {"key": "x", "value": "1"}]}),
            clusters: &["a !dead", "b #gpu=yes", "c #x=1 #y=1", "d #x=2", "e #x=1"], bindings: &[],
            changes: &["Create b Scheduled", "Create e Scheduled"], decisions: "+b +e -a -c -d", fulfilled: true },
        Row { name: "a binding being removed does not count, and its name is not reused", policy: Value::Null, clusters: &["a"],
            bindings: &["a Unscheduled 1 deleting"], changes: &["Create a Scheduled"], decisions: "+a", fulfilled: true },
        Row { name: "a cluster that left is left, whatever its binding was", policy: Value::Null, clusters: &["a"],
            bindings: &["a Bound 1", "b Bound 1", "c Unscheduled 0", "d Scheduled 0"],
            changes: &["Leave b Bound", "Leave c Unscheduled", "Leave d Scheduled"], decisions: "+a", fulfilled: true },
    ]);
}

#[rustfmt::skip]
#[test]
fn pick_fixed_picks_the_named() {
    let fixed = || json!({"placementType": "PickFixed", "clusterNames": ["c", "b", "x", "a"]});
    check(&[
        Row { name: "valid, invalid, missing", policy: fixed(), clusters: &["a !dead", "b", "c #t=1"], bindings: &[],
            changes: &["Create c Scheduled", "Create b Scheduled"], decisions: "+c +b -a -x", fulfilled: false },
        Row { name: "ineligibility keeps a binding of this policy", policy: fixed(), clusters: &["a !dead", "b", "c", "x"],
            bindings: &["a Bound 1", "b Bound 1", "c Bound 1", "x Bound 1"], changes: &[], decisions: "+c +b +x -a", fulfilled: false },
        Row { name: "ineligibility removes one of an earlier policy", policy: fixed(), clusters: &["a !dead", "b", "c", "x", "z"],
            bindings: &["a Bound 0", "b Bound 0", "x Unscheduled 0 was=Scheduled", "z Bound 0"],
            changes: &["Create c Scheduled", "Patch b Bound", "Patch x Scheduled", "Unschedule a Unscheduled", "Unschedule z Unscheduled"],
            decisions: "+c +b +x -a", fulfilled: false },
        Row { name: "all there", policy: json!({"placementType": "PickFixed", "clusterNames": ["a"]}), clusters: &["a"], bindings: &[],
            changes: &["Create a Scheduled"], decisions: "+a", fulfilled: true },
        Row { name: "no names", policy: json!({"placementType": "PickFixed", "clusterNames": []}), clusters: &["a", "b"],
            bindings: &["a Bound 0", "b Scheduled 0"], changes: &["Unschedule a Unscheduled", "Unschedule b Unscheduled"],
            decisions: "", fulfilled: true },
        Row { name: "no list", policy: json!({"placementType": "PickFixed"}), clusters: &["a"], bindings: &[],
            changes: &[], decisions: "", fulfilled: true },
    ]);
}

#[rustfmt::skip]
#[test]
fn example_05_ties_go_to_the_largest_name() {
    check(&[
        Row { name: "picks c, b", policy: json!({"placementType": "PickN", "numberOfClusters": 2}), clusters: &["a", "b", "c"], bindings: &[],
            changes: &["Create c Scheduled", "Create b Scheduled"], decisions: "+c +b -a", fulfilled: true },
        Row { name: "later N=1 removes b, keeps c", policy: json!({"placementType": "PickN", "numberOfClusters": 1}), clusters: &["a", "b", "c"],
            bindings: &["b Bound 1 score=0", "c Bound 1 score=0"], changes: &["Unschedule b Unscheduled"], decisions: "+c", fulfilled: true },
    ]);
}

#[rustfmt::skip]
#[test]
fn example_06_an_edited_policy_keeps_its_clusters() {
    check(&[Row { name: "a kept", policy: json!({"placementType": "PickN", "numberOfClusters": 1, "tolerations": [{"operator": "Exists"}]}),
        clusters: &["a", "b", "c"], bindings: &["a Bound 0"], changes: &["Patch a Bound"], decisions: "+a -c -b", fulfilled: true }]);
}

#[rustfmt::skip]
#[test]
fn example_07_downscaling_removes_scheduled_ones_first() {
    check(&[Row { name: "x, then z; y stays", policy: json!({"placementType": "PickN", "numberOfClusters": 1}), clusters: &["x", "y", "z"],
        bindings: &["x Scheduled 1 score=50", "y Bound 1 score=10", "z Bound 1 score=0"],
        changes: &["Unschedule x Unscheduled", "Unschedule z Unscheduled"], decisions: "+y", fulfilled: true }]);
}

#[rustfmt::skip]
#[test]
fn pick_n_picks_n() {
    let n = |n: i32| json!({"placementType": "PickN", "numberOfClusters": n});
    check(&[
        Row { name: "two in the west", policy: json!({"placementType": "PickN", "numberOfClusters": 2, "affinity": {"clusterAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"fleet.azure.com/location": "westus"}}}]}}}}),
            clusters: &["a fleet.azure.com/location=westus", "b fleet.azure.com/location=westus", "c fleet.azure.com/location=westus", "d fleet.azure.com/location=eastus"],
            bindings: &[], changes: &["Create c Scheduled", "Create b Scheduled"], decisions: "+c +b -a -d", fulfilled: true },
        Row { name: "too few", policy: n(3), clusters: &["a", "b !dead"], bindings: &[],
            changes: &["Create a Scheduled"], decisions: "+a -b", fulfilled: false },
        Row { name: "enough: bound before scheduled, nobody else listed", policy: n(2), clusters: &["a", "b !dead", "c"],
            bindings: &["a Scheduled 1", "b Bound 1"], changes: &[], decisions: "+b +a", fulfilled: true },
        Row { name: "enough, and obsolete ones go", policy: n(1), clusters: &["a", "b"],
            bindings: &["a Bound 0", "b Bound 1"], changes: &["Unschedule a Unscheduled"], decisions: "+b", fulfilled: true },
        Row { name: "one more", policy: n(2), clusters: &["a", "b", "c"],
            bindings: &["a Bound 1"], changes: &["Create c Scheduled"], decisions: "+c +a -b", fulfilled: true },
        Row { name: "none", policy: n(0), clusters: &["a"], bindings: &["a Bound 0"],
            changes: &["Unschedule a Unscheduled"], decisions: "", fulfilled: true },
        Row { name: "a leaver is replaced, not removed", policy: n(1), clusters: &["a"], bindings: &["b Bound 1"],
            changes: &["Create a Scheduled", "Leave b Bound"], decisions: "+a", fulfilled: true },
        Row { name: "a binding without a score goes first", policy: n(1), clusters: &["a", "b"],
            bindings: &["a Bound 1 score=-5", "b Bound 1"], changes: &["Unschedule b Unscheduled"], decisions: "+a", fulfilled: true },
        Row { name: "an unscheduled one gives no bonus, and comes back as it was", policy: n(1), clusters: &["a", "b"],
            bindings: &["a Unscheduled 0 was=Bound", "b Unscheduled 1 was=Scheduled"], changes: &["Patch b Scheduled"], decisions: "+b -a", fulfilled: true },
    ]);
}

#[test]
fn at_most_twenty_unselected_clusters_are_listed() {
    let lines: Vec<String> = (0..30).map(|n| format!("c{n:02}{}", if n < 12 { " !dead" } else { "" })).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let five = policy(json!({"placementType": "PickN", "numberOfClusters": 5}));
    let outcome = run(Some(&five), &lines, &["c00 Bound 1"]).unwrap();
    // 4 new, 1 bound, 14 that scored, and of the first 6 rejected ones all but the bound one.
    assert_eq!(outcome.decisions.len(), 4 + 1 + 14 + 5);
    assert_eq!(outcome.decisions.last().unwrap().cluster_name.as_str(), "c05");
}

#[test]
fn reasons_are_told() {
    let fixed = policy(json!({"placementType": "PickFixed", "clusterNames": ["a", "b", "x"]}));
    let clusters = ["a", "b !dead", "c #k=v", "d #k="];
    let mut lines = Vec::new();
    for policy in [Some(&fixed), Some(&policy(json!({"placementType": "PickN", "numberOfClusters": 0}))), None] {
        let outcome = run(policy, &clusters, &[]).unwrap();
        lines.extend(outcome.decisions.into_iter().map(|d| d.reason.to_string()));
        lines.push(outcome.message);
    }
    let one = policy(json!({"placementType": "PickN", "numberOfClusters": 1}));
    lines.extend(run(Some(&one), &["a", "b"], &[]).unwrap().decisions.into_iter().map(|d| d.reason.to_string()));
    insta::assert_snapshot!(lines.join("\n"), @r"
    picked: the policy names a
    not picked: the policy names b, which is not eligible: dead
    not picked: the policy names x, which is not in the fleet
    1 of 3 named clusters found
    0 of 0 clusters found
    picked: a passed every filter (affinity score 0, topology spread score 0)
    ClusterUnschedulable, not eligible: dead
    ClusterUnschedulable, taint k=v:NoSchedule is not tolerated
    ClusterUnschedulable, taint k:NoSchedule is not tolerated
    clusters found: 1
    picked: b passed every filter (affinity score 0, topology spread score 0)
    not picked: clusters that rank higher than a fill the number asked for (affinity score 0, topology spread score 0)
    ");
}

#[test]
fn patching_restores_and_unscheduling_remembers() {
    let outcome = run(None, &["a", "b #k=v"], &["a Unscheduled 0 was=Bound", "b Bound 0"]).unwrap();
    let (back, gone) = (&outcome.bindings[0].binding, &outcome.bindings[1].binding);
    assert_eq!((back.state, back.previous_state, back.policy_index), (BindingState::Bound, None, 1));
    assert_eq!((back.snapshot, back.generation), (Some(3), 6));
    assert_eq!(
        (gone.state, gone.previous_state, gone.generation),
        (BindingState::Unscheduled, Some(BindingState::Bound), 6)
    );
}

#[test]
fn records_and_policies_that_cannot_be() {
    let incomplete = |field, placement_type| Error::Incomplete { field, placement_type };
    let named = |placement_type: &str| policy(json!({"placementType": placement_type}));
    assert_eq!(
        run(Some(&named("PickN")), &["a"], &["a Bound 1"]).unwrap_err(),
        incomplete("spec.policy.numberOfClusters", "PickN")
    );
    let name = binding("a Bound 1").name;
    assert_eq!(run(None, &["a"], &["a Unscheduled 1"]).unwrap_err(), Error::NoPreviousState { binding: name.clone() });
    assert_eq!(
        run(None, &["a"], &["a Bound 1", "a Scheduled 1"]).unwrap_err(),
        Error::DuplicateBinding { first: name.clone(), second: name, cluster: "a".into() }
    );
}

#[test]
fn bindings_are_named_without_chance() {
    let long = PlacementKey::namespaced("ns", "p".repeat(40));
    let name = binding_name(&long, &"edge.eu.cluster-with-a-very-long-name".into(), |_| false);
    assert_eq!(name.len(), 63);
    assert!(name.starts_with(&format!("{}-edge-eu-cluster-with-a-very-", "p".repeat(26))), "{name}");
    let first = binding_name(&key(), &"a".into(), |_| false);
    let second = binding_name(&key(), &"a".into(), |taken| taken == first);
    assert_ne!(first, second);
    assert_eq!(first, binding_name(&key(), &"a".into(), |_| false));
    // printf 'p/a' | sha256sum
    assert_eq!(first, "p-a-e78d3757");
}

#[test]
fn the_target_is_what_percentages_are_of() {
    let rows = [
        (Value::Null, 7),
        (json!({"placementType": "PickAll"}), 7),
        (json!({"placementType": "PickN", "numberOfClusters": 3}), 3),
        (json!({"placementType": "PickFixed", "clusterNames": ["a", "b"]}), 2),
    ];
    for (value, expected) in rows {
        let policy = (!value.is_null()).then(|| policy(value.clone()));
        assert_eq!(target(policy.as_ref(), 7), expected, "{value}");
    }
}

proptest! {
    #[test]
    fn the_order_of_bindings_does_not_matter(
        states in prop::collection::vec((0..3_usize, 0..2_u64, any::<bool>()), 8),
        number in 0..8_i32, type_ in 0..3_usize, rotate in 0..8_usize,
    ) {
        let clusters = fleet(&["c0", "c1 !dead", "c2 #k=v", "c3", "c4", "c5"]);
        let mut bindings: Vec<Binding> = states.iter().enumerate().map(|(n, (state, index, deleting))| {
            let state = ["Scheduled", "Bound", "Unscheduled"][*state];
            binding(&format!("c{n} {state} {index} was=Bound{}", if *deleting { " deleting" } else { "" }))
        }).collect();
        let policy = [
            json!({"placementType": "PickAll"}),
            json!({"placementType": "PickN", "numberOfClusters": number}),
            json!({"placementType": "PickFixed", "clusterNames": ["c0", "c1", "c9", "c5"]}),
        ][type_].clone();
        let policy: PlacementPolicy = serde_json::from_value(policy).unwrap();
        let key = key();
        let of = |bindings: &[Binding]| schedule(&Request { placement: &key, policy: Some(&policy), policy_index: 1, clusters: &clusters, bindings: &shared(bindings), keep_held: false, bad_values: BadValues::Error, tenant: None }).unwrap();
        let forward = of(&bindings);
        bindings.rotate_left(rotate);
        prop_assert_eq!(&of(&bindings), &forward);

        // Nothing on a cluster that left is unscheduled, and a second cycle on the result changes nothing.
        let mut after: BTreeMap<String, Binding> = bindings.iter().map(|b| (b.name.clone(), b.clone())).collect();
        for change in &forward.bindings {
            prop_assert_eq!(change.action == Action::Leave, !clusters.contains(change.binding.cluster.as_str()));
            if change.action == Action::Leave {
                after.remove(&change.binding.name);
            } else {
                let replaced = after.insert(change.binding.name.clone(), change.binding.clone());
                prop_assert_eq!(change.action == Action::Create, replaced.is_none());
            }
        }
        let after: Vec<Binding> = after.into_values().collect();
        let again = of(&after);
        prop_assert!(again.bindings.is_empty(), "{:?}", again.bindings);
        prop_assert_eq!(again.fulfilled, forward.fulfilled);
    }
}
