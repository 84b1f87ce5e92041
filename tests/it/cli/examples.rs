//! The example files as they stand, scheduled over the fleets that their headers speak of.

use serde_json::{Value, json};

use crate::cli::ocm::{bound, clusters, managed, resources, scores};
use crate::cli::schedule::{NOW, member};
use crate::cli::scratch::{Scratch, fixture};

/// Schedules an example, with objects beside it.
fn schedule(example: &str, objects: &[Value]) -> Value {
    let scratch = Scratch::new();
    let objects: String = objects.iter().map(|object| format!("---\n{object}\n")).collect();
    std::fs::write(scratch.path("example.yaml"), example).expect("a file");
    std::fs::write(scratch.path("fleet.yaml"), objects).expect("a file");
    let args = ["schedule", "--now", NOW, "-o", "json", "-f", "example.yaml", "-f", "fleet.yaml"];
    scratch.run(&args).json(0)
}

/// Each cluster of one placement as `NAME picked TOPOLOGY/AFFINITY`, or with the reason it was not picked.
fn decisions(list: &Value, snapshot: &str) -> Vec<String> {
    let items = list["items"].as_array().expect("items");
    let object = items.iter().find(|item| item["metadata"]["name"] == snapshot).expect("the policy snapshot");
    let targets = object["status"]["targetClusters"].as_array().expect("decisions").iter();
    let shown = targets.map(|target| {
        let name = target["clusterName"].as_str().expect("a name");
        let score = &target["clusterScore"];
        match target["selected"].as_bool() {
            Some(true) => format!("{name} picked {}/{}", score["priorityScore"], score["affinityScore"]),
            _ => format!("{name}: {}", target["reason"].as_str().expect("a reason")),
        }
    });
    shown.collect()
}

#[test]
fn topology_spread() {
    let fleet: Vec<Value> = ["dev-1", "prod-1", "prod-2", "prod-3"]
        .map(|name| member(name, json!({"env": name.split_once('-').expect("two parts").0})))
        .into();
    let found = decisions(&schedule(&fixture("examples/crp-topology-spread.yaml"), &fleet), "crp-1-0");
    // The first could be any, and the larger name wins; the second evens the environments out. Listed by score.
    assert_eq!(found[..2], ["dev-1 picked 1/0", "prod-3 picked -1/0"], "{found:?}");
    let only_prod = decisions(&schedule(&fixture("examples/crp-topology-spread.yaml"), &fleet[1..]), "crp-1-0");
    assert_eq!(only_prod[..2], ["prod-2 picked -1/0", "prod-3 picked -1/0"], "{only_prod:?}");
}

#[test]
fn filtering_by_property() {
    let nodes = |name: &str, region: &str, count: &str| {
        with_properties(name, &json!({"region": region}), &[("kubernetes.azure.com/node-count", count)])
    };
    let fleet = [
        nodes("five", "east", "5"),
        nodes("four", "east", "4"),
        nodes("west", "west", "9"),
        member("unknown", json!({"region": "east"})),
    ];
    let found = decisions(&schedule(&fixture("examples/crp-properties.yaml"), &fleet), "crp-filter-0");
    let expected = [
        "five picked 0/0",
        "four: ClusterUnschedulable, property kubernetes.azure.com/node-count is 4, wanted >= 5",
        "unknown: ClusterUnschedulable, property kubernetes.azure.com/node-count is missing, wanted >= 5",
        "west: ClusterUnschedulable, label region is \"west\", wanted \"east\"",
    ];
    assert_eq!(found, expected);
}

#[test]
fn ranking_by_property() {
    let example = fixture("examples/crp-properties.yaml");
    let percent = example.replace("weight: 20", "weight: 100");
    let cost = "kubernetes.azure.com/per-cpu-core-cost";
    let ascending = percent
        .replace("resources.kubernetes-fleet.io/total-cpu", cost)
        .replace("sortOrder: Descending", "sortOrder: Ascending");
    let cpu = "resources.kubernetes-fleet.io/total-cpu";
    let rows = [
        ("as it stands", &example, cpu, ["100", "20", "10"], [("bravelion", 20), ("smartfish", 2), ("jumpingcat", 0)]),
        ("in percent", &percent, cpu, ["100", "20", "10"], [("bravelion", 100), ("smartfish", 11), ("jumpingcat", 0)]),
        ("cost", &ascending, cost, ["1", "0.2", "0.1"], [("jumpingcat", 100), ("smartfish", 89), ("bravelion", 0)]),
    ];
    for (name, example, property, values, expected) in rows {
        let fleet: Vec<Value> = ["bravelion", "smartfish", "jumpingcat"]
            .into_iter()
            .zip(values)
            .map(|(name, value)| with_properties(name, &json!({"env": "prod"}), &[(property, value)]))
            .collect();
        let expected = expected.map(|(cluster, score)| format!("{cluster} picked 0/{score}"));
        assert_eq!(decisions(&schedule(example, &fleet), "crp-rank-0"), expected, "{name}");
    }
}

fn with_properties(name: &str, labels: &Value, properties: &[(&str, &str)]) -> Value {
    let mut cluster = member(name, labels.clone());
    for (property, value) in properties {
        cluster["status"]["properties"][*property] = json!({"value": value, "observationTime": NOW});
    }
    cluster
}

fn memory(name: &str, megabytes: u32) -> Value {
    managed("clusterset1", name, &[("vendor", "OpenShift")], resources(&format!("{megabytes}M")))
}

fn fleet(fourth: Option<u32>) -> Vec<Value> {
    let mut fleet = bound("clusterset1");
    fleet.extend([memory("cluster1", 60), memory("cluster2", 80), memory("cluster3", 100)]);
    fleet.extend(fourth.map(|megabytes| memory("cluster4", megabytes)));
    fleet
}

#[test]
fn the_placement_of_open_cluster_management_as_it_stands() {
    let mut objects = fleet(Some(100));
    let other = managed("clusterset1", "cluster5", &[("vendor", "Other")], resources("900M"));
    objects.extend([other, managed("elsewhere", "cluster6", &[("vendor", "OpenShift")], resources("900M"))]);
    objects.push(json!({"apiVersion": "cluster.open-cluster-management.io/v1alpha1", "kind": "AddOnPlacementScore",
        "metadata": {"name": "default", "namespace": "cluster1"}, "status": {"scores": [{"name": "cpuratio", "value": 7}]}}));
    let list = schedule(&fixture("examples/ocm-placement.yaml"), &objects);
    assert_eq!(clusters(&list), ["cluster1", "cluster2", "cluster3", "cluster4"]);
    assert_eq!(scores(&list), [("cluster1", -93), ("cluster2", 0), ("cluster3", 100), ("cluster4", 100)]);
}

#[test]
fn the_totals_of_its_header() {
    let memory = |weight: i32| json!({"scoreCoordinate": {"builtIn": "ResourceAllocatableMemory"}, "weight": weight});
    let steady = json!({"scoreCoordinate": {"builtIn": "Steady"}, "weight": 3});
    let rows: [(&str, Value, [i64; 3], u32, [i64; 4], [&str; 2]); 4] = [
        ("memory", json!([memory(1)]), [0, 100, 200], 100, [0, 200, 300, 200], ["cluster2", "cluster3"]),
        ("memory", json!([memory(1)]), [0, 100, 200], 150, [0, 145, 189, 200], ["cluster3", "cluster4"]),
        ("memory 3", json!([memory(3)]), [-200, 100, 400], 100, [-200, 200, 500, 400], ["cluster3", "cluster4"]),
        ("steady 3", json!([memory(1), steady]), [0, 100, 200], 150, [0, 345, 389, 200], ["cluster2", "cluster3"]),
    ];
    for (name, configurations, first, fourth, second, picked) in rows {
        let placement = json!({"apiVersion": "cluster.open-cluster-management.io/v1alpha1", "kind": "Placement",
            "metadata": {"name": "placement", "namespace": "ns1"},
            "spec": {"numberOfClusters": 2, "prioritizerPolicy": {"configurations": configurations}}});
        let names = ["cluster1", "cluster2", "cluster3", "cluster4"];
        let list = schedule(&placement.to_string(), &fleet(None));
        assert_eq!(scores(&list), names.into_iter().zip(first).collect::<Vec<_>>(), "{name}");
        assert_eq!(clusters(&list), ["cluster2", "cluster3"], "{name}");
        let mut objects = fleet(Some(fourth));
        let pages = list["items"].as_array().expect("items").iter().filter(|item| item["kind"] == "PlacementDecision");
        objects.extend(pages.cloned());
        let list = schedule(&placement.to_string(), &objects);
        assert_eq!(scores(&list), names.into_iter().zip(second).collect::<Vec<_>>(), "{name} {fourth}");
        assert_eq!(clusters(&list), picked, "{name} {fourth}");
    }
}
