//! Objects of Open Cluster Management, and what `schedule` says of them.

use serde_json::{Value, json};

use crate::cli::scratch::{CONFIG, FLEET, Scratch};

/// The group of its kinds.
pub const GROUP: &str = "cluster.open-cluster-management.io";

/// Returns the name of a label of Open Cluster Management.
pub fn label(name: &str) -> String {
    format!("{GROUP}/{name}")
}

/// Returns an object with these fields, its name and its namespace.
pub fn object(kind: &str, version: &str, namespace: &str, name: &str, fields: Value) -> Value {
    let mut object = fields;
    object["apiVersion"] = format!("{GROUP}/{version}").into();
    object["kind"] = kind.into();
    object["metadata"]["name"] = name.into();
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

/// A cluster set, and its binding to namespace `ns1`.
pub fn bound(set: &str) -> Vec<Value> {
    vec![
        object("ManagedClusterSet", "v1beta2", "", set, json!({"spec": {}})),
        object("ManagedClusterSetBinding", "v1beta2", "ns1", set, json!({"spec": {"clusterSet": set}})),
    ]
}

/// A cluster of a set, with more fields.
pub fn managed(set: &str, name: &str, labels: &[(&str, &str)], fields: Value) -> Value {
    let mut cluster = object("ManagedCluster", "v1", "", name, fields);
    cluster["metadata"]["labels"][label("clusterset")] = set.into();
    for (key, value) in labels {
        cluster["metadata"]["labels"][*key] = (*value).into();
    }
    cluster
}

/// Returns a cluster of set `s` with nothing to tell it from others.
pub fn plain(name: &str) -> Value {
    managed("s", name, &[], json!({}))
}

/// What a cluster has of memory and cpu.
pub fn resources(memory: &str) -> Value {
    let amounts = json!({"memory": memory, "cpu": "4"});
    json!({"status": {"capacity": amounts, "allocatable": amounts}})
}

/// Returns the objects of a kind in a List.
pub fn of_kind<'a>(list: &'a Value, kind: &str) -> Vec<&'a Value> {
    list["items"].as_array().expect("items").iter().filter(|item| item["kind"] == kind).collect()
}

/// Returns the totals, by cluster.
pub fn scores(list: &Value) -> Vec<(&str, i64)> {
    let scores = of_kind(list, "Placement")[0]["status"]["scores"].as_array().expect("scores").iter();
    scores
        .map(|score| (score["clusterName"].as_str().expect("a name"), score["score"].as_i64().expect("a score")))
        .collect()
}

/// Returns the clusters that are picked, page after page.
pub fn clusters(list: &Value) -> Vec<&str> {
    let pages = of_kind(list, "PlacementDecision").into_iter();
    let decisions = pages.flat_map(|page| page["status"]["decisions"].as_array().expect("decisions"));
    decisions.map(|decision| decision["clusterName"].as_str().expect("a name")).collect()
}

/// What a new user of Open Cluster Management writes: clusters without a set, and the sets that every hub has.
const FIRST_STEPS: &str = "---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: cluster1, labels: {purpose: test}}
spec: {hubAcceptsClient: true}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: cluster2, labels: {cluster.open-cluster-management.io/clusterset: prod}}
spec: {hubAcceptsClient: true}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSet
metadata: {name: prod}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: default, namespace: apps}
spec: {clusterSet: default}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: global, namespace: all}
spec: {clusterSet: global}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: first, namespace: apps}
spec:
  numberOfClusters: 1
  clusterSets: [default]
  predicates:
    - requiredClusterSelector: {labelSelector: {matchLabels: {purpose: test}}}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: everywhere, namespace: all}
spec:
  tolerations: [{key: cluster.open-cluster-management.io/unreachable, operator: Exists}]
";

#[test]
fn the_sets_that_every_hub_has_need_not_be_written() {
    let scratch = Scratch::new();
    scratch.write("ocm.yaml", FIRST_STEPS);
    let file = format!("{FLEET}/ocm.yaml");
    let found = scratch.run(&["validate", FLEET]);
    assert_eq!((found.text(0), &*found.err), ("", "0 objects, 2 placements, 2 clusters: no errors\n"));
    let list = scratch.run(&["schedule", "-o", "json", "-f", &file]).json(0);
    let decided: Vec<(&Value, Value)> = of_kind(&list, "PlacementDecision")
        .into_iter()
        .map(|page| {
            let decisions = page["status"]["decisions"].as_array().expect("decisions");
            (&page["metadata"]["namespace"], decisions.iter().map(|d| d["clusterName"].clone()).collect())
        })
        .collect();
    assert_eq!(decided, [(&json!("all"), json!(["cluster1", "cluster2"])), (&json!("apps"), json!(["cluster1"]))]);
    scratch.commit("first steps");
    let plan = scratch.run(&["plan", "--repo", FLEET, "-o", "json"]);
    assert!(!plan.out.contains("NoManagedClusterSetBindings") && !plan.out.contains("No valid"), "{}", plan.out);
}

/// Three clusters of a set, and a Placement of the two with the most memory.
fn by_memory() -> Scratch {
    let scratch = Scratch::new();
    scratch.configure();
    let by_memory = json!([{"scoreCoordinate": {"builtIn": "ResourceAllocatableMemory"}}]);
    let spec = json!({"numberOfClusters": 2, "prioritizerPolicy": {"configurations": by_memory}});
    let mut objects = bound("s");
    objects.push(object("Placement", "v1beta1", "ns1", "demo", json!({"spec": spec})));
    let memory = [("cluster1", "60M"), ("cluster2", "80M"), ("cluster3", "100M")];
    objects.extend(memory.map(|(name, memory)| managed("s", name, &[], resources(memory))));
    let text: String = objects.iter().map(|object| format!("---\n{object}\n")).collect();
    scratch.write("ocm.yaml", &text);
    scratch.commit("first");
    scratch
}

#[test]
fn w8_describe_shows_what_happened_to_a_placement_with_its_scores() {
    let scratch = by_memory();
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
    let whole = scratch.run(&["describe", "ocmplacements", "ns1/demo", "-c", CONFIG]);
    for args in
        [&["placement", "demo", "-n", "ns1"][..], &["placement", "ns1/demo"], &["ocmplacement", "demo", "-n", "ns1"]]
    {
        assert_eq!(scratch.run(&[&["describe"], args, &["-c", CONFIG]].concat()).text(0), whole.text(0), "{args:?}");
    }
    let none = scratch.run(&["describe", "placement", "demo", "-n", "ns2", "-c", CONFIG]);
    assert!(none.code == 2 && none.err.contains("there is no placement ns2/demo"), "{}", none.err);
    let events = || {
        let described = scratch.run(&["describe", "placement", "demo", "-n", "ns1", "-c", CONFIG]);
        let (_, events) = described.text(0).split_once("Events:\n").expect("events");
        // TYPE REASON AGE FROM MESSAGE: the age is not compared.
        let row = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            [&words[..2], &words[4..]].concat().join(" ")
        };
        events.lines().skip(1).map(row).collect::<Vec<_>>()
    };
    let updated = "Normal DecisionUpdate Decision demo-decision-1 is updated with placement demo in namespace ns1";
    let first = [
        "Normal DecisionCreate Decision demo-decision-1 is created with placement demo in namespace ns1",
        updated,
        "Normal ScoreUpdate cluster1:0 cluster2:100 cluster3:200",
    ];
    assert_eq!(events(), first);
    let shown = scratch.run(&["get", "ocmplacements", "-c", CONFIG, "-o", "json"]).json(0);
    let scores = shown.pointer("/items/0/status/scores").or_else(|| shown.pointer("/status/scores"));
    assert_eq!(scores.and_then(|scores| scores[2]["score"].as_i64()), Some(200), "{shown}");
    let explained = scratch.run(&["explain", "ns1/demo", "-c", CONFIG, "--cluster", "cluster3"]);
    assert!(explained.text(0).contains("with 200, when the clusters last changed"), "{}", explained.out);
    assert!(explained.out.contains("sum") && explained.out.contains("300"), "{}", explained.out);
    scratch.write("more.yaml", &managed("s", "cluster4", &[], resources("150M")).to_string());
    scratch.commit("second");
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
    let second = [updated, "Normal ScoreUpdate cluster1:0 cluster2:145 cluster3:189 cluster4:200"];
    assert_eq!(events(), [&first[..], &second[..]].concat());
    let journal = scratch.run(&["export", "journal", "ns1/demo", "-c", CONFIG]);
    assert_eq!(journal.text(0).lines().count(), 5, "{}", journal.out);
}
