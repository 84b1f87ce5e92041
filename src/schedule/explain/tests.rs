use serde_json::{Value, json};

use super::*;
use crate::BadValues;
use model::cluster::Cluster;
use model::id::PlacementKey;
use model::records::Binding;

/// A fleet of edges: free cpu by cluster, and an environment.
fn fleet(cpus: &[(&str, &str, &str)]) -> Fleet {
    let cluster = |env: &str, cpu: &str| Cluster {
        labels: [("env".to_owned(), env.to_owned())].into(),
        properties: [("resources.kubernetes-fleet.io/available-cpu".to_owned(), cpu.to_owned())].into(),
        eligible: if env == "lab" { Err("silent since noon".to_owned()) } else { Ok(()) },
        ..Cluster::default()
    };
    cpus.iter().map(|(name, env, cpu)| ((*name).into(), cluster(env, cpu))).collect()
}

fn told(policy: &Value, fleet: &Fleet, bindings: &[Binding]) -> Explanation {
    let policy: Option<PlacementPolicy> = serde_json::from_value(policy.clone()).unwrap();
    let (placement, policy) = (&PlacementKey::cluster_scoped("p"), policy.as_ref());
    let bad_values = BadValues::Mismatch;
    let bindings: Vec<_> = bindings.iter().cloned().map(std::sync::Arc::new).collect();
    let bindings = &bindings;
    explain(&Request {
        placement,
        policy,
        policy_index: 0,
        clusters: fleet,
        bindings,
        keep_held: true,
        bad_values,
        tenant: None,
    })
    .unwrap()
}

fn pick_two() -> Value {
    let name = "resources.kubernetes-fleet.io/available-cpu";
    json!({"placementType": "PickN", "numberOfClusters": 2, "affinity": {"clusterAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [
            {"propertySelector": {"matchExpressions": [{"name": name, "operator": "Ge", "values": ["4"]}]}}]},
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 10, "preference": {"propertySorter": {"name": name, "sortOrder": "Descending"}}},
            {"weight": 5, "preference": {"labelSelector": {"matchLabels": {"env": "prod"}}}}]}}})
}

const BEFORE: [(&str, &str, &str); 5] = [
    ("edge-05", "lab", "9"),
    ("edge-06", "dev", "4"),
    ("edge-07", "prod", "8"),
    ("edge-08", "prod", "8"),
    ("edge-09", "prod", "3"),
];

#[test]
fn every_cluster_is_explained() {
    let explanation = told(&pick_two(), &fleet(&BEFORE), &[]);
    insta::assert_snapshot!(serde_json::to_string_pretty(&explanation).unwrap());
}

#[test]
fn between_two_fleets_the_moves_are_told() {
    let before = told(&pick_two(), &fleet(&BEFORE), &[]);
    let mut after = BEFORE;
    after[2].2 = "3";
    after[4].2 = "4";
    let found = differences(&before, &told(&pick_two(), &fleet(&after), &[]));
    let texts: Vec<&str> = found.iter().map(|difference| difference.text.as_str()).collect();
    let expected = [
        "edge-07 dropped: available-cpu 3 is below 4",
        "edge-09 picked: rank 2 of 3 (was rejected: available-cpu 3 is below 4)",
    ];
    assert_eq!(texts, expected);
    let gone = differences(&before, &told(&pick_two(), &fleet(&after[..3]), &[]));
    assert!(gone.iter().any(|difference| difference.text == "edge-08 dropped: it left the fleet"), "{gone:?}");
}

#[test]
fn what_is_kept_and_what_is_named() {
    let kept = json!({"name": "b", "placement": "p", "cluster": "edge-09", "state": "Bound", "policyIndex": 0, "generation": 1,
        "decision": {"clusterName": "edge-09", "selected": true, "reason": ""}});
    let kept = [serde_json::from_value(kept).unwrap()];
    let explanation = told(&pick_two(), &fleet(&BEFORE), &kept);
    let reasons: Vec<String> =
        explanation.clusters.iter().map(|cluster| format!("{}: {}", cluster.cluster_name, cluster.reason)).collect();
    insta::assert_snapshot!(reasons.join("\n"), @r"
    edge-08: picked: rank 1 of 3
    edge-07: not picked: rank 2 of 3
    edge-06: not picked: rank 3 of 3
    edge-05: not eligible: silent since noon
    edge-09: kept: picked earlier, and not judged again
    ");

    let fixed = json!({"placementType": "PickFixed", "clusterNames": ["edge-05", "edge-06", "x"]});
    let explanation = told(&fixed, &fleet(&BEFORE), &[]);
    let reasons: Vec<String> =
        explanation.clusters.iter().map(|cluster| format!("{}: {}", cluster.cluster_name, cluster.reason)).collect();
    insta::assert_snapshot!(reasons.join("\n"), @r"
    edge-05: not eligible: silent since noon
    edge-06: picked: the policy names it
    edge-07: the policy does not name it
    edge-08: the policy does not name it
    edge-09: the policy does not name it
    x: the policy names it, and it is not in the fleet
    ");
}
