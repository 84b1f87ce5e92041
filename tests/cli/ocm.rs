//! Objects of Open Cluster Management, and what `schedule` says of them.

use serde_json::{Value, json};

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
