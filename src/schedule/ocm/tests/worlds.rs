//! Small hubs and placements of every sort, as documents.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;

/// Names of clusters; some are on the hub.
pub(super) const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
const SETS: [&str; 4] = ["s1", "s2", "everything", "a-env"];
const API: &str = "cluster.open-cluster-management.io";

/// What a hub has, and a placement of `ns1` named `demo`.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) documents: Vec<Value>,
    pub(super) spec: Value,
}

/// Returns a moment so many seconds before or (negative) after now.
pub(super) fn ago(seconds: i64) -> String {
    now().checked_sub(jiff::SignedDuration::from_secs(seconds)).unwrap().to_string()
}

fn without_absent(value: Value) -> Value {
    model::api::object::without_nulls(&value)
}

fn taint() -> impl Strategy<Value = Value> {
    let effect = select(vec!["NoSelect", "NoSelectIfNew", "PreferNoSelect"]);
    (select(vec!["k", "l"]), select(vec!["", "v"]), effect, prop::option::of(5..15_i64)).prop_map(
        |(key, value, effect, since)| json!({"key": key, "value": value, "effect": effect, "timeAdded": since.map(ago)}),
    )
}

/// A cluster with its labels, claims, taints and resources.
pub(super) fn cluster(name: &'static str) -> impl Strategy<Value = Value> {
    let labels = (
        prop::option::of(select(vec!["s1", "s2"])),
        prop::option::of(select(vec!["a", "b"])),
        prop::option::of(select(vec!["x", "y"])),
    );
    let resource = || (prop::option::weighted(0.8, 0..6_u32), prop::bool::weighted(0.9));
    let taints = prop::collection::vec(taint(), 0..3);
    (labels, prop::option::of(select(vec!["AWS", "GCP"])), taints, resource(), resource(), prop::bool::weighted(0.1))
        .prop_map(move |((set, env, tier), platform, taints, cpu, memory, deleting)| {
            let claims: Vec<Value> =
                platform.into_iter().map(|value| json!({"name": "platform", "value": value})).collect();
            let capacity = |(_, known): (Option<u32>, bool)| known.then_some("100");
            without_absent(json!({"apiVersion": format!("{API}/v1"), "kind": "ManagedCluster",
            "metadata": {"name": name, "labels": {SET_LABEL: set, "env": env, "tier": tier},
                "deletionTimestamp": deleting.then(|| ago(1))},
            "spec": {"taints": taints},
            "status": {
                "allocatable": {"cpu": cpu.0.map(|n| format!("{n}00m")), "memory": memory.0.map(|n| format!("{n}Gi"))},
                "capacity": {"cpu": capacity(cpu), "memory": capacity(memory)},
                "clusterClaims": claims,
            }}))
        })
}

/// An AddOnPlacementScore of a cluster.
pub(super) fn scores(cluster: &'static str) -> impl Strategy<Value = Value> {
    let value = || prop::option::of(-100..=100_i32);
    (value(), value(), prop::option::of(-2..3_i64)).prop_map(move |(one, two, until)| {
        let scores: Vec<Value> = [("one", one), ("two", two)]
            .into_iter()
            .filter_map(|(name, value)| Some(json!({"name": name, "value": value?})))
            .collect();
        without_absent(json!({"apiVersion": format!("{API}/v1alpha1"), "kind": "AddOnPlacementScore",
            "metadata": {"name": "demo", "namespace": cluster},
            "status": {"scores": scores, "validUntil": until.map(ago)}}))
    })
}

fn decision(namespace: &str, name: String, placement: Option<&str>, clusters: &[&str]) -> Value {
    let decisions: Vec<Value> = clusters.iter().map(|name| json!({"clusterName": name, "reason": ""})).collect();
    without_absent(json!({"apiVersion": format!("{API}/v1beta1"), "kind": "PlacementDecision",
        "metadata": {"name": name, "namespace": namespace, "labels": {PLACEMENT_LABEL: placement}},
        "status": {"decisions": decisions}}))
}

/// The sets that there can be.
pub(super) fn set(name: &str) -> Value {
    let selector = match name {
        "everything" => json!({"selectorType": "LabelSelector", "labelSelector": {}}),
        "a-env" => json!({"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"env": "a"}}}),
        _ => json!({}),
    };
    json!({"apiVersion": format!("{API}/v1beta2"), "kind": "ManagedClusterSet", "metadata": {"name": name},
        "spec": {"clusterSelector": selector}})
}

/// The binding of a set to a namespace.
pub(super) fn binding(namespace: &str, set: &str) -> Value {
    json!({"apiVersion": format!("{API}/v1beta2"), "kind": "ManagedClusterSetBinding",
        "metadata": {"name": set, "namespace": namespace}, "spec": {"clusterSet": set}})
}

fn documents() -> impl Strategy<Value = Vec<Value>> {
    let clusters = subsequence(NAMES.to_vec(), 0..=NAMES.len())
        .prop_flat_map(|names| names.into_iter().map(|name| cluster(name).boxed()).collect::<Vec<_>>());
    let scores = subsequence(NAMES.to_vec(), 0..=4)
        .prop_flat_map(|names| names.into_iter().map(|name| scores(name).boxed()).collect::<Vec<_>>());
    let mut named = NAMES.to_vec();
    named.push("unknown");
    let page = || subsequence(named.clone(), 0..5);
    let others = prop::collection::vec((select(vec!["ns1", "ns2"]), any::<bool>(), page()), 0..4);
    let own = prop::collection::vec(page(), 0..3);
    let sets = subsequence(SETS.to_vec(), 0..=SETS.len());
    let bound = subsequence(SETS.to_vec(), 1..=SETS.len());
    (clusters, scores, others, own, sets, bound).prop_map(|(clusters, scores, others, own, sets, bound)| {
        let others = others.iter().enumerate().map(|(position, (namespace, labelled, names))| {
            decision(namespace, format!("other-{position}"), labelled.then_some("other"), names)
        });
        let own = own
            .iter()
            .enumerate()
            .map(|(position, names)| decision("ns1", format!("demo-decision-{}", position + 1), Some("demo"), names));
        let of_sets = sets.into_iter().map(set).chain(bound.into_iter().map(|set| binding("ns1", set)));
        clusters.into_iter().chain(scores).chain(others).chain(own).chain(of_sets).collect()
    })
}

fn requirement(keys: &'static [&'static str], values: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let operator = select(vec!["In", "NotIn", "Exists", "DoesNotExist"]);
    (select(keys), operator, subsequence(values, 1..=values.len())).prop_map(|(key, operator, values)| {
        let takes_values = matches!(operator, "In" | "NotIn");
        without_absent(json!({"key": key, "operator": operator, "values": takes_values.then_some(values)}))
    })
}

fn selector() -> impl Strategy<Value = Value> {
    let labels = prop::collection::vec(requirement(&["env", "tier", "zone"], &["a", "b", "x"]), 0..2);
    let claims = prop::collection::vec(requirement(&["platform", "product"], &["AWS", "GCP"]), 0..2);
    let equal = prop::option::of(select(vec!["a", "b"]));
    (labels, claims, equal).prop_map(|(labels, claims, equal)| {
        without_absent(json!({"labelSelector": {"matchLabels": {"env": equal}, "matchExpressions": labels},
            "claimSelector": {"matchExpressions": claims}}))
    })
}

fn toleration() -> impl Strategy<Value = Value> {
    let exists = (select(vec![None, Some("k"), Some("l")]), Just(Some("Exists")), Just(None));
    let equal = (
        select(vec![Some("k"), Some("l")]),
        select(vec![None, Some("Equal"), Some("Near")]),
        select(vec![None, Some("v")]),
    );
    let effect = prop::option::of(select(vec!["NoSelect", "NoSelectIfNew"]));
    (prop_oneof![exists, equal], effect, prop::option::of(6..14_i64)).prop_map(
        |((key, operator, value), effect, seconds)| {
            without_absent(json!({"key": key, "operator": operator, "value": value, "effect": effect, "tolerationSeconds": seconds}))
        },
    )
}

/// Prioritizers, none of them twice.
fn prioritizers() -> impl Strategy<Value = Vec<Value>> {
    let built_in = |name: &str| json!({"builtIn": name});
    let add_on = |score: &str| json!({"type": "AddOn", "addOn": {"resourceName": "demo", "scoreName": score}});
    let mut all: Vec<Value> =
        ["Balance", "Steady", "ResourceAllocatableCPU", "ResourceAllocatableMemory"].map(built_in).into();
    all.extend(["one", "three"].map(add_on));
    let weight = prop::option::of(-3..=3_i32);
    (subsequence(all, 0..5).prop_shuffle(), prop::collection::vec(weight, 5)).prop_map(|(coordinates, weights)| {
        let configured = coordinates.into_iter().zip(weights);
        configured.map(|(at, weight)| without_absent(json!({"scoreCoordinate": at, "weight": weight}))).collect()
    })
}

/// The spec of a placement that can be carried out.
pub(super) fn spec() -> impl Strategy<Value = Value> {
    let length = prop_oneof![
        Just(json!(null)),
        (1..5_u32).prop_map(|n| json!(n)),
        (1..=100_u32).prop_map(|percent| json!(format!("{percent}%"))),
    ];
    let predicates = prop::collection::vec(selector(), 0..3);
    let groups = prop::collection::vec(selector(), 0..3);
    let tolerations = prop::collection::vec(toleration(), 0..3);
    let sets = prop_oneof![2 => Just(Vec::new()), 1 => subsequence(SETS.to_vec(), 1..3)];
    let mode = select(vec![None, Some("Additive"), Some("Exact")]);
    (prop::option::of(0..7_i32), sets, predicates, tolerations, mode, prioritizers(), length, groups).prop_map(
        |(number, sets, predicates, tolerations, mode, configurations, length, groups)| {
            let predicates: Vec<Value> =
                predicates.into_iter().map(|selector| json!({"requiredClusterSelector": selector})).collect();
            let groups = groups.into_iter().enumerate();
            let groups: Vec<Value> = groups
                .map(|(index, selector)| json!({"groupName": format!("g{index}"), "groupClusterSelector": selector}))
                .collect();
            without_absent(json!({
                "numberOfClusters": number, "clusterSets": sets, "predicates": predicates, "tolerations": tolerations,
                "prioritizerPolicy": {"mode": mode, "configurations": configurations},
                "decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": length, "decisionGroups": groups}},
            }))
        },
    )
}

/// Any hub and any placement on it.
pub(super) fn world() -> impl Strategy<Value = World> {
    (documents(), spec()).prop_map(|(documents, spec)| World { documents, spec })
}
