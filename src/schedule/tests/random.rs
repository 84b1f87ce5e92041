//! Random fleets and policies: against a plain reading of the rules, cluster by cluster, and what always holds.

#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "scores are small numbers")]

use std::collections::BTreeSet;

use super::*;
use model::api::check::quantity_nanos;
use model::api::cluster::{Taint, TaintEffect};
use model::api::placement::{
    ClusterSelectorTerm, PlacementPolicy, PropertySelectorOperator as Op, SortOrder, TopologySpreadConstraint,
    UnsatisfiableAction,
};
use model::records::Binding;

type Clusters = BTreeMap<String, Cluster>;

fn cluster() -> impl Strategy<Value = Cluster> {
    let taint = Just(vec![Taint { key: "k".into(), value: String::new(), effect: TaintEffect::NoSchedule }]);
    (
        (prop::option::of("[xy]"), prop::option::weighted(0.8, "[123]")),
        prop::option::weighted(0.8, "[0-9]"),
        prop_oneof![4 => Just(Vec::new()), 1 => taint],
        prop::bool::weighted(0.85),
    )
        .prop_map(|((env, zone), nodes, taints, eligible)| {
            let labels = [("env", env), ("zone", zone)];
            let labels = labels.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
            let properties = nodes.map(|nodes| ("nodes".to_owned(), nodes)).into_iter().collect();
            let eligible = if eligible { Ok(()) } else { Err("dead".to_owned()) };
            Cluster { labels, taints, eligible, properties, namespaces: None }
        })
}

fn clusters() -> impl Strategy<Value = Clusters> {
    prop::collection::btree_map("c[0-9]", cluster(), 0..10)
}

fn required() -> impl Strategy<Value = Value> {
    let operator = prop::sample::select(vec!["Gt", "Ge", "Eq", "Ne", "Lt", "Le"]);
    let requirement = (operator, "[0-9]").prop_map(|(o, v)| json!({"name": "nodes", "operator": o, "values": [v]}));
    (prop::option::of("[xy]"), prop::collection::vec(requirement, 0..3)).prop_map(|(env, requirements)| {
        let mut term = json!({"propertySelector": {"matchExpressions": requirements}});
        if let Some(env) = env {
            term["labelSelector"] = json!({"matchLabels": {"env": env}});
        }
        term
    })
}

fn preferred() -> impl Strategy<Value = Value> {
    let order = prop::sample::select(vec!["Ascending", "Descending"]);
    (-9..9_i32, prop::option::of("[xy]"), prop::option::of(order)).prop_map(|(weight, env, order)| {
        let mut term = json!({});
        if let Some(env) = env {
            term["labelSelector"] = json!({"matchLabels": {"env": env}});
        }
        if let Some(order) = order {
            term["propertySorter"] = json!({"name": "nodes", "sortOrder": order});
        }
        json!({"weight": weight, "preference": term})
    })
}

fn spread() -> impl Strategy<Value = Value> {
    let action = prop::sample::select(vec!["DoNotSchedule", "ScheduleAnyway"]);
    (prop::sample::select(vec!["zone", "env"]), 1..3_i32, action)
        .prop_map(|(key, skew, action)| json!({"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": action}))
}

fn pick_n() -> impl Strategy<Value = PlacementPolicy> {
    (
        0..7_i32,
        prop::collection::vec(required(), 0..3),
        prop::collection::vec(preferred(), 0..3),
        prop::collection::vec(spread(), 0..3),
        any::<bool>(),
    )
        .prop_map(|(number, required, preferred, spreads, tolerant)| {
            policy(json!({
                "placementType": "PickN", "numberOfClusters": number, "topologySpreadConstraints": spreads,
                "tolerations": if tolerant { json!([{"operator": "Exists"}]) } else { json!([]) },
                "affinity": {"clusterAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": required},
                    "preferredDuringSchedulingIgnoredDuringExecution": preferred,
                }},
            }))
        })
}

fn evaluate(policy: &PlacementPolicy, fleet: &Fleet, bindings: &[Binding]) -> Outcome {
    let (placement, bad_values) = (&key(), BadValues::Error);
    let (policy, bindings) = (Some(policy), &shared(bindings));
    schedule(&Request {
        placement,
        policy,
        policy_index: 1,
        clusters: fleet,
        bindings,
        keep_held: false,
        bad_values,
        tenant: None,
    })
    .unwrap()
}

fn fleet_of(clusters: &Clusters) -> Fleet {
    clusters.iter().map(|(name, cluster)| (name.as_str().into(), cluster.clone())).collect()
}

fn nodes(cluster: &Cluster) -> Option<i128> {
    quantity_nanos(cluster.properties.get("nodes")?)
}

fn fits(term: &ClusterSelectorTerm, cluster: &Cluster) -> bool {
    term.label_selector.as_ref().is_none_or(|selector| selector.matches(&cluster.labels))
        && term.property_selector.as_ref().is_none_or(|selector| {
            selector.match_expressions.iter().all(|requirement| {
                let wanted = quantity_nanos(&requirement.values[0]).unwrap();
                nodes(cluster).is_some_and(|nodes| match requirement.operator {
                    Op::Gt => nodes > wanted,
                    Op::Ge => nodes >= wanted,
                    Op::Eq => nodes == wanted,
                    Op::Ne => nodes != wanted,
                    Op::Lt => nodes < wanted,
                    Op::Le => nodes <= wanted,
                })
            })
        })
}

fn passes(policy: &PlacementPolicy, cluster: &Cluster) -> bool {
    let affinity = policy.affinity.as_ref().unwrap().cluster_affinity.as_ref().unwrap();
    let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref().unwrap().cluster_selector_terms;
    (terms.is_empty() || terms.iter().any(|term| fits(term, cluster)))
        && cluster.eligible.is_ok()
        && (cluster.taints.is_empty() || !policy.tolerations.is_empty())
}

fn affinity_score(policy: &PlacementPolicy, clusters: &Clusters, cluster: &Cluster) -> i32 {
    let affinity = policy.affinity.as_ref().unwrap().cluster_affinity.as_ref().unwrap();
    let reported: Vec<f64> = clusters.values().filter_map(nodes).map(|nanos| nanos as f64 / 1e9).collect();
    let low = reported.iter().copied().fold(f64::INFINITY, f64::min);
    let high = reported.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let score = |weight: i32, term: &ClusterSelectorTerm| {
        if term.label_selector.as_ref().is_some_and(|selector| !selector.matches(&cluster.labels)) {
            return 0;
        }
        let Some(sorter) = &term.property_sorter else { return weight };
        let Some(value) = nodes(cluster).filter(|_| low < high) else { return 0 };
        let part = (value as f64 / 1e9 - low) / (high - low);
        let part = if sorter.sort_order == SortOrder::Descending { part } else { 1.0 - part };
        (part * f64::from(weight)).round() as i32
    };
    affinity
        .preferred_during_scheduling_ignored_during_execution
        .iter()
        .map(|preferred| score(preferred.weight, &preferred.preference))
        .sum()
}

/// Returns what a constraint adds for a cluster; `None` where it rejects it.
fn topology_score(
    constraint: &TopologySpreadConstraint,
    clusters: &Clusters,
    chosen: &BTreeSet<String>,
    cluster: &Cluster,
) -> Option<i32> {
    let key = &constraint.topology_key;
    let Some(domain) = cluster.labels.get(key) else { return Some(0) };
    let mut counts: BTreeMap<&String, i32> = BTreeMap::new();
    for (name, other) in clusters {
        if let Some(value) = other.labels.get(key) {
            *counts.entry(value).or_default() += i32::from(chosen.contains(name));
        }
    }
    let mut sorted: Vec<i32> = counts.values().copied().collect();
    sorted.sort_unstable();
    let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
    let second = sorted.get(1).copied().unwrap_or(least);
    let count = counts[domain];
    let change = match count {
        _ if least == most => 1,
        _ if count == least && least != second => -1,
        _ => i32::from(count == most),
    };
    if most - least + change <= constraint.max_skew.unwrap_or(1) {
        return Some(-change);
    }
    (constraint.when_unsatisfiable == Some(UnsatisfiableAction::ScheduleAnyway)).then_some(-1000)
}

/// Picks as the rules read: name, topology score, affinity score.
fn naive(policy: &PlacementPolicy, clusters: &Clusters, bindings: &[Binding]) -> Vec<(String, i32, i32)> {
    let of =
        |index: u64| bindings.iter().filter(move |b| b.policy_index == index && b.state != BindingState::Unscheduled);
    let mut chosen: BTreeSet<String> = of(1).map(|b| b.cluster.to_string()).collect();
    let mut obsolete: BTreeSet<String> = of(0).map(|b| b.cluster.to_string()).collect();
    let number = usize::try_from(policy.number_of_clusters.unwrap()).unwrap();
    let mut picked = Vec::new();
    while chosen.len() < number {
        let mut candidates = Vec::new();
        for (name, cluster) in clusters.iter().filter(|(name, c)| passes(policy, c) && !chosen.contains(*name)) {
            let scores =
                policy.topology_spread_constraints.iter().map(|t| topology_score(t, clusters, &chosen, cluster));
            let Some(scores) = scores.collect::<Option<Vec<i32>>>() else { continue };
            let affinity = affinity_score(policy, clusters, cluster);
            candidates.push((scores.iter().sum::<i32>(), affinity, obsolete.contains(name), name.clone()));
        }
        let Some((topology, affinity, _, name)) = candidates.into_iter().max() else { break };
        chosen.insert(name.clone());
        picked.push((name, topology, affinity));
        if !policy.topology_spread_constraints.is_empty() {
            obsolete.clear();
        }
    }
    picked
}

/// Bindings of some of the clusters: state and policy index.
fn bound(clusters: &Clusters, states: &[(usize, u64)]) -> Vec<Binding> {
    let word = |state: usize| ["Scheduled", "Bound", "Unscheduled", ""][state];
    let states = clusters.keys().zip(states).filter(|(_, (state, _))| *state < 3);
    states.map(|(name, (state, index))| binding(&format!("{name} {} {index} was=Bound", word(*state)))).collect()
}

fn apply(bindings: &mut Vec<Binding>, outcome: &Outcome) {
    for change in &outcome.bindings {
        bindings.retain(|binding| binding.name != change.binding.name);
        if change.action != Action::Leave {
            bindings.push(change.binding.clone());
        }
    }
}

proptest! {
    #[test]
    fn the_fast_way_picks_as_the_plain_one(
        policy in pick_n(), clusters in clusters(), states in prop::collection::vec((0..8_usize, 0..2_u64), 10),
    ) {
        let states: Vec<_> = states.into_iter().map(|(state, index)| (state.min(3), index)).collect();
        let bindings = bound(&clusters, &states);
        let outcome = evaluate(&policy, &fleet_of(&clusters), &bindings);
        let mut expected = naive(&policy, &clusters, &bindings);
        let changed = outcome.bindings.iter().filter(|c| matches!(c.action, Action::Create | Action::Patch));
        let mut found: Vec<_> = changed.map(|c| {
            let score = c.binding.decision.cluster_score.unwrap();
            (c.binding.cluster.to_string(), score.priority_score, score.affinity_score)
        }).collect();
        found.sort();
        expected.sort();
        prop_assert_eq!(found, expected);

        // Nobody is left without a reason: what is not picked is listed with one.
        if !outcome.fulfilled {
            let listed: BTreeSet<&str> = outcome.decisions.iter().map(|d| d.cluster_name.as_str()).collect();
            prop_assert_eq!(listed, clusters.keys().map(String::as_str).collect());
            prop_assert!(outcome.decisions.iter().all(|d| !d.reason.to_string().is_empty()));
        }
        // The order in which clusters are told does not matter.
        let backwards: Fleet = clusters.iter().rev().map(|(name, c)| (name.as_str().into(), c.clone())).collect();
        prop_assert_eq!(&evaluate(&policy, &backwards, &bindings), &outcome);

        // An explanation says the same.
        let fleet = fleet_of(&clusters);
        let (placement, bad_values) = (&key(), BadValues::Error);
        let told = explain(&Request { placement, policy: Some(&policy), policy_index: 1, clusters: &fleet, bindings: &shared(&bindings), keep_held: false, bad_values, tenant: None }).unwrap();
        let mut after = bindings.clone();
        apply(&mut after, &outcome);
        let after: BTreeSet<&str> = after.iter().filter(|b| b.state != BindingState::Unscheduled).map(|b| b.cluster.as_str()).collect();
        let picked: BTreeSet<&str> = told.clusters.iter().filter(|c| c.picked).map(|c| c.cluster_name.as_str()).collect();
        prop_assert_eq!(picked, after);
    }

    #[test]
    fn a_cluster_that_joins_moves_nothing_that_is_satisfied(policy in pick_n(), mut clusters in clusters(), joins in cluster()) {
        let first = evaluate(&policy, &fleet_of(&clusters), &[]);
        prop_assume!(first.fulfilled);
        let mut bindings = Vec::new();
        apply(&mut bindings, &first);
        clusters.insert("z".to_owned(), joins);
        let second = evaluate(&policy, &fleet_of(&clusters), &bindings);
        prop_assert!(second.bindings.is_empty(), "{:?}", second.bindings);
    }

    #[test]
    fn a_hard_spread_stays_within_its_skew(number in 0..10_i32, max_skew in 1..3_i32, zones in prop::collection::vec("[1234]", 0..10)) {
        let label = |zone: &String| BTreeMap::from([("zone".to_owned(), zone.clone())]);
        let clusters: Clusters = zones.iter().enumerate()
            .map(|(n, zone)| (format!("c{n}"), Cluster { labels: label(zone), ..Cluster::default() })).collect();
        let policy = policy(json!({"placementType": "PickN", "numberOfClusters": number,
            "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": max_skew}]}));
        let outcome = evaluate(&policy, &fleet_of(&clusters), &[]);
        let mut counts: BTreeMap<&String, i32> = zones.iter().map(|zone| (zone, 0)).collect();
        for change in &outcome.bindings {
            *counts.get_mut(&clusters[change.binding.cluster.as_str()].labels["zone"]).unwrap() += 1;
        }
        let skew = |counts: &BTreeMap<&String, i32>| counts.values().max().unwrap_or(&0) - counts.values().min().unwrap_or(&0);
        prop_assert!(skew(&counts) <= max_skew, "{counts:?}");
        // A choice is legal if the skew after it is allowed: while there is one, the placement is not done.
        if !outcome.fulfilled {
            let chosen: BTreeSet<&str> = outcome.bindings.iter().map(|c| c.binding.cluster.as_str()).collect();
            for (_, cluster) in clusters.iter().filter(|(name, _)| !chosen.contains(name.as_str())) {
                let mut after = counts.clone();
                *after.get_mut(&cluster.labels["zone"]).unwrap() += 1;
                prop_assert!(skew(&after) > max_skew, "{counts:?}");
            }
        }
    }
}
