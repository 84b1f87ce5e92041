//! The share of placements that are Open Cluster Management's.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use model::id::ClusterName;
use rayon::prelude::*;
use schedule::ocm::reads::Readers;
use schedule::ocm::{Hub, Key, OcmMember, OcmOutcome, OcmPolicy, OnMisconfigured, Request, schedule};
use serde_json::{Value, json};

use super::{ROUNDS, median, scatter, timed};

/// Namespaces that the placements are in, each bound to all sets.
const NAMESPACES: usize = 10;
/// Placements with expressions, measured apart.
const WITH_EXPRESSIONS: usize = 4;
const SET_LABEL: &str = "cluster.open-cluster-management.io/clusterset";

fn document(number: usize) -> Value {
    let cpu = format!("{}", 8 + scatter(number, 5) % 1000);
    let memory = format!("{}Gi", 16 + scatter(number, 6) % 4000);
    let quantities = json!({"cpu": cpu, "memory": memory});
    let taints = match scatter(number, 8) % 20 {
        0 => json!([{"key": "maintenance", "effect": "NoSelect", "timeAdded": "2026-03-01T11:50:00Z"}]),
        1 => json!([{"key": "new", "effect": "NoSelectIfNew"}]),
        _ => json!([]),
    };
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {"name": format!("member-{number:05}"), "labels": {
            SET_LABEL: format!("set-{}", scatter(number, 9) % 4),
            "env": (["dev", "staging", "prod"][scatter(number, 1) % 3]),
            "region": format!("region-{}", scatter(number, 2) % 20),
            "tier": format!("t{}", scatter(number, 4) % 4),
        }},
        "spec": {"taints": taints},
        "status": {"allocatable": quantities, "capacity": quantities, "clusterClaims": [
            {"name": "platform", "value": (["AWS", "GCP", "Azure"][scatter(number, 3) % 3])},
            {"name": "kubeversion", "value": format!("v1.{}.0", 28 + scatter(number, 7) % 6)},
        ]},
    })
}

fn name(number: usize) -> ClusterName {
    format!("member-{number:05}").as_str().into()
}

fn member(document: &Value) -> OcmMember {
    OcmMember::read(document).expect("the clusters are well-formed").1
}

fn hub(clusters: usize) -> Hub {
    let mut hub = Hub::new((0..clusters).map(|number| (name(number), member(&document(number)))).collect());
    let spec = |spec: Value| serde_json::from_value(spec).expect("the sets are well-formed");
    hub.set_set(
        "global",
        Some(spec(json!({"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}}))),
    );
    for set in 0..4 {
        hub.set_set(&format!("set-{set}"), Some(spec(json!({}))));
    }
    for namespace in 0..NAMESPACES {
        hub.set_binding(&format!("team-{namespace}"), "global", true);
        (0..4).for_each(|set| drop(hub.set_binding(&format!("team-{namespace}"), &format!("set-{set}"), true)));
    }
    for number in 0..clusters {
        let value = i64::try_from(scatter(number, 1) % 201).expect("a small number") - 100;
        hub.set_score("demo", &name(number), Some(spec_of_score(value)));
    }
    hub
}

fn spec_of_score(value: i64) -> model::api::ocm::AddOnScoreStatus {
    serde_json::from_value(json!({"scores": [{"name": "cpuratio", "value": value}]})).expect("a well-formed score")
}

/// Six kinds of placement in turn.
fn policy(number: usize) -> OcmPolicy {
    let env = ["dev", "staging", "prod"][scatter(number, 1) % 3];
    let region = format!("region-{}", scatter(number, 2) % 20);
    let labelled = |labels: Value| json!([{"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}}]);
    let claimed = |operator: &str, values: Value| {
        json!([{"requiredClusterSelector": {"claimSelector": {"matchExpressions":
            [{"key": "platform", "operator": operator, "values": values}]}}}])
    };
    let by = |name: &str, weight: i32| json!({"scoreCoordinate": {"builtIn": name}, "weight": weight});
    let add_on =
        json!({"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "demo", "scoreName": "cpuratio"}}});
    let grouped = |length: Value, tiers: &[&str]| {
        let group = |tier: &&str| json!({"groupName": format!("group-{tier}"), "groupClusterSelector": {"labelSelector": {"matchLabels": {"tier": tier}}}});
        json!({"groupStrategy": {"clustersPerDecisionGroup": length, "decisionGroups": tiers.iter().map(group).collect::<Vec<_>>()}})
    };
    let spec = match number % 6 {
        0 => json!({"predicates": labelled(json!({"env": env, "region": region})),
            "decisionStrategy": grouped(json!("25%"), &["t0"])}),
        1 => json!({"numberOfClusters": 3, "predicates": labelled(json!({"env": env})),
            "prioritizerPolicy": {"configurations": [by("ResourceAllocatableMemory", 1), by("Steady", 3)]}}),
        2 => json!({"numberOfClusters": 10, "clusterSets": [format!("set-{}", number % 4)],
            "prioritizerPolicy": {"configurations": [by("ResourceAllocatableCPU", 2)]},
            "tolerations": [{"key": "maintenance", "operator": "Exists"}]}),
        3 => json!({"numberOfClusters": 5, "predicates": claimed("In", json!(["AWS", "GCP"])),
            "prioritizerPolicy": {"mode": "Exact", "configurations": [add_on, by("ResourceAllocatableMemory", 1), by("Steady", 3)]}}),
        4 => json!({"numberOfClusters": 20, "predicates": claimed("NotIn", json!(["Azure"])),
            "decisionStrategy": grouped(json!(5), &["t0", "t1"])}),
        _ => json!({"numberOfClusters": 100, "predicates": labelled(json!({"env": env})),
            "tolerations": [{"operator": "Exists", "tolerationSeconds": 3600}]}),
    };
    OcmPolicy::new(serde_json::from_value(spec).expect("the placements are well-formed"))
}

fn expressions(number: usize) -> OcmPolicy {
    let expressions = [
        "managedCluster.metadata.labels.env == 'prod'",
        "managedCluster.status.clusterClaims.exists(c, c.name == 'kubeversion' && semver(c.value, true).minor() >= 30)",
        "quantity(managedCluster.status.allocatable.cpu).isGreaterThan(quantity('500'))",
        "managedCluster.scores('demo').exists(s, s.name == 'cpuratio' && s.value > 50)",
    ];
    let selector = json!({"celSelector": {"celExpressions": [expressions[number % expressions.len()]]}});
    let spec = json!({"numberOfClusters": 10, "predicates": [{"requiredClusterSelector": selector}]});
    OcmPolicy::new(serde_json::from_value(spec).expect("the placements are well-formed"))
}

fn run(hub: &Hub, key: &Key, policy: &OcmPolicy) -> OcmOutcome {
    let now = "2026-03-01T12:00:00Z".parse::<Timestamp>().expect("a moment");
    schedule(&Request { key, policy, hub, now, on_misconfigured: OnMisconfigured::Keep }).expect("all sets can be read")
}

fn picks(hub: &Hub, placements: &BTreeMap<Key, OcmPolicy>) -> usize {
    placements.par_iter().map(|(key, policy)| run(hub, key, policy).selected.count_ones(..)).sum()
}

/// Changes clusters and decides who reads it: the time, and how many placements were asked and decided otherwise.
fn change(
    hub: &mut Hub,
    placements: &BTreeMap<Key, OcmPolicy>,
    readers: &Readers,
    changed: Vec<(usize, OcmMember)>,
) -> (f64, usize, usize) {
    let (time, (asked, moved)) = timed(|| {
        let mut affected = BTreeSet::new();
        for (number, member) in changed {
            let change = hub.set_cluster(&name(number), Some(member));
            affected.extend(readers.affected(hub, &change));
        }
        let affected: Vec<Key> = affected.into_iter().collect();
        let differs = |key: &&Key| hub.held(key).is_none_or(|held| run(hub, key, &placements[*key]).selected != *held);
        (affected.len(), affected.par_iter().filter(differs).count())
    });
    (time, asked, moved)
}

/// Measures so many placements on so many clusters.
pub fn row(clusters: usize, placements: usize) -> Value {
    let (build, mut hub) = timed(|| hub(clusters));
    let key = |number: usize| Key::new(format!("team-{}", number % NAMESPACES), format!("app-{number}"));
    let placements: BTreeMap<Key, OcmPolicy> = (0..placements).map(|number| (key(number), policy(number))).collect();
    let full = median((0..ROUNDS).map(|_| timed(|| picks(&hub, &placements)).0).collect());
    let mut readers = Readers::default();
    for (key, policy) in &placements {
        let selected = run(&hub, key, policy).selected;
        hub.set_selected(key, &selected);
        readers.set(key, Some(policy));
    }
    let again = median((0..ROUNDS).map(|_| timed(|| picks(&hub, &placements)).0).collect());
    let with_expressions: BTreeMap<Key, OcmPolicy> = (0..WITH_EXPRESSIONS)
        .map(|number| (Key::new("team-0", format!("cel-{number}")), expressions(number)))
        .collect();
    let cel: BTreeMap<String, f64> = with_expressions
        .iter()
        .map(|(key, policy)| (key.name.clone(), median((0..3).map(|_| timed(|| run(&hub, key, policy)).0).collect())))
        .collect();

    let (mut flips, mut asked, mut moved) = (Vec::new(), 0, 0);
    for round in 0..ROUNDS {
        let number = scatter(round, 3) % clusters;
        let mut flipped = document(number);
        flipped["metadata"]["labels"]["env"] = json!("flipped");
        let found = change(&mut hub, &placements, &readers, vec![(number, member(&flipped))]);
        flips.push(found.0);
        (asked, moved) = (asked.max(found.1), moved + found.2);
        hub.set_cluster(&name(number), Some(member(&document(number))));
    }
    let (mut percents, mut percent_asked, mut percent_moved) = (Vec::new(), 0, 0);
    for round in 0..ROUNDS {
        let changed = (0..clusters / 100).map(|place| {
            let number = scatter(place, round) % clusters;
            let mut changed = document(number);
            changed["status"]["allocatable"]["memory"] = json!(format!("{}Gi", 16 + scatter(number, round) % 4000));
            changed["status"]["allocatable"]["cpu"] = json!(format!("{}", 8 + scatter(number, round + 1) % 1000));
            (number, member(&changed))
        });
        let found = change(&mut hub, &placements, &readers, changed.collect());
        percents.push(found.0);
        (percent_asked, percent_moved) = (percent_asked.max(found.1), percent_moved + found.2);
    }
    json!({
        "placements": placements.len(),
        "indexMs": median(vec![build]), "fullMs": full, "fullWithDecisionsMs": again, "celMs": cel,
        "labelFlipMs": median(flips), "labelFlipAsked": asked, "labelFlipMoved": moved,
        "onePercentMs": median(percents), "onePercentAsked": percent_asked, "onePercentMoved": percent_moved,
    })
}
