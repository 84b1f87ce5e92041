//! The worked examples of Open Cluster Management's placement, by their numbers in the reference.

#![allow(clippy::needless_pass_by_value, reason = "tests read better so")]

mod conditions;
mod documents;
mod explained;
mod expressions;
mod filters;
mod groups;
mod guide;
mod naive;
mod properties;
mod scores;
mod worlds;

use serde_json::{Value, json};

use super::*;
use model::api::ocm::{GROUP_INDEX_LABEL, GROUP_NAME_LABEL, PLACEMENT_LABEL, SET_LABEL};
use model::explanation::{ClusterExplanation, Explanation};
use model::id::ClusterName;

/// The placement under test.
fn key() -> Key {
    Key::new("ns1", "demo")
}

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn policy(spec: Value) -> OcmPolicy {
    OcmPolicy::new(serde_json::from_value(spec).unwrap())
}

/// A cluster of labels and what else its document has.
fn member(name: &str, labels: Value, rest: Value) -> (ClusterName, OcmMember) {
    let mut document = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {"name": name, "labels": labels},
    });
    document.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    OcmMember::read(&document).unwrap()
}

/// A hub on which a set of all clusters is bound to `ns1`.
fn hub(members: impl IntoIterator<Item = (ClusterName, OcmMember)>) -> Hub {
    let mut hub = Hub::new(members.into_iter().collect());
    let all = json!({"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}});
    hub.set_set("global", Some(serde_json::from_value(all).unwrap()));
    hub.set_binding("ns1", "global", true);
    hub
}

fn plain<'n>(names: impl IntoIterator<Item = &'n str>) -> Hub {
    hub(names.into_iter().map(|name| (ClusterName::from(name), OcmMember::default())))
}

fn named(count: usize) -> Hub {
    let names: Vec<String> = (1..=count).map(|n| format!("c{n}")).collect();
    plain(names.iter().map(String::as_str))
}

fn with_resource(name: &str, resource: &str, value: &str) -> (ClusterName, OcmMember) {
    let quantities = json!({resource: value});
    member(name, json!({}), json!({"status": {"allocatable": quantities, "capacity": quantities}}))
}

fn with_memory(values: &[(&str, &str)]) -> Hub {
    hub(values.iter().map(|(name, value)| with_resource(name, "memory", value)))
}

fn run_at(hub: &Hub, spec: Value, now: Timestamp) -> OcmOutcome {
    let (key, policy) = (key(), policy(spec));
    let on_misconfigured = OnMisconfigured::Withdraw;
    schedule(&Request { key: &key, policy: &policy, hub, now, on_misconfigured }).unwrap()
}

fn run(hub: &Hub, spec: Value) -> OcmOutcome {
    run_at(hub, spec, now())
}

fn explained(hub: &Hub, spec: Value) -> Explanation {
    let (key, policy) = (key(), policy(spec));
    explain(&Request { key: &key, policy: &policy, hub, now: now(), on_misconfigured: OnMisconfigured::Withdraw })
        .unwrap()
}

fn of<'e>(explanation: &'e Explanation, cluster: &str) -> &'e ClusterExplanation {
    explanation.clusters.iter().find(|explained| explained.cluster_name.as_str() == cluster).unwrap()
}

/// What each prioritizer adds to each cluster, clusters in order of name.
fn cells(hub: &Hub, spec: Value) -> Vec<Vec<i64>> {
    let mut clusters = explained(hub, spec).clusters;
    clusters.sort_by(|a, b| a.cluster_name.cmp(&b.cluster_name));
    clusters.iter().map(|explained| explained.scores.iter().map(|term| term.score).collect()).collect()
}

fn values(outcome: &OcmOutcome) -> Vec<i64> {
    outcome.scores.iter().map(|&(_, total)| total).collect()
}

fn picked(hub: &Hub, outcome: &OcmOutcome) -> Vec<String> {
    outcome.selected.ones().map(|slot| hub.names()[slot].to_string()).collect()
}

/// A policy that ranks by one built-in alone.
fn exact(built_in: &str) -> Value {
    json!({"prioritizerPolicy": {"mode": "Exact", "configurations": [{"scoreCoordinate": {"builtIn": built_in}}]}})
}

fn additive(n: i32, weights: &[(&str, i32)]) -> Value {
    let configuration = |(name, weight): &(&str, i32)| json!({"scoreCoordinate": {"builtIn": name}, "weight": weight});
    let configurations: Vec<Value> = weights.iter().map(configuration).collect();
    json!({"numberOfClusters": n, "prioritizerPolicy": {"mode": "Additive", "configurations": configurations}})
}

fn others(hub: &mut Hub, decisions: &[&[&str]]) {
    for (index, clusters) in decisions.iter().enumerate() {
        hub.set_decisions(&Key::new("elsewhere", format!("p{index}")), clusters.iter().copied());
    }
}

fn score(hub: &mut Hub, cluster: &str, value: i32, valid_until: Option<&str>) {
    let scores = json!({"scores": [{"name": "demo", "value": value}], "validUntil": valid_until});
    hub.set_score("demo", &ClusterName::from(cluster), Some(serde_json::from_value(scores).unwrap()));
}
