//! OCM Placements and their decisions as objects of their API, for `get`.

use serde_json::{Value, json};

use decide::status::decision_pages::page_name;
use model::api::ocm::{GROUP_INDEX_LABEL, GROUP_NAME_LABEL, PLACEMENT_LABEL};
use model::ocm::OcmPlacementRecord;

/// Group and version of what is shown.
const API_VERSION: &str = "cluster.open-cluster-management.io/v1beta1";

/// Returns the Placement with its status.
pub fn placement_object(record: &OcmPlacementRecord) -> Value {
    let mut pages = record.pages().enumerate().peekable();
    let groups = record.groups.iter().enumerate().map(|(index, group)| {
        let mut names = Vec::new();
        while let Some((position, _)) = pages.next_if(|(_, (of, _))| *of == index) {
            names.push(page_name(&record.name, page_number(position)));
        }
        json!({
            "decisionGroupIndex": index,
            "decisionGroupName": group.name,
            "decisions": names,
            "clusterCount": group.clusters.len(),
        })
    });
    let groups: Vec<Value> = groups.collect();
    let mut object = json!({
        "apiVersion": API_VERSION,
        "kind": "Placement",
        "metadata": {
            "name": record.name,
            "namespace": record.namespace,
            "generation": record.generation,
            "creationTimestamp": record.created_at,
            "annotations": record.annotations,
        },
        "spec": record.spec,
        "status": {
            "numberOfSelectedClusters": record.clusters().count(),
            "decisionGroups": groups,
            "conditions": record.conditions,
        },
    });
    if !record.scores.is_empty() {
        let scores = record.scores.iter().map(|(cluster, score)| json!({"clusterName": cluster, "score": score}));
        object["status"]["scores"] = scores.collect();
    }
    object
}

/// Returns the PlacementDecisions: pages of at most 100 clusters per group, numbered across all groups.
pub fn decision_objects(record: &OcmPlacementRecord) -> Vec<Value> {
    let mut objects = Vec::new();
    for (position, (index, clusters)) in record.pages().enumerate() {
        let decisions: Vec<Value> =
            clusters.iter().map(|cluster| json!({"clusterName": cluster, "reason": ""})).collect();
        objects.push(json!({
            "apiVersion": API_VERSION,
            "kind": "PlacementDecision",
            "metadata": {
                "name": page_name(&record.name, page_number(position)),
                "namespace": record.namespace,
                "creationTimestamp": record.created_at,
                "labels": {
                    PLACEMENT_LABEL: record.name,
                    GROUP_INDEX_LABEL: index.to_string(),
                    GROUP_NAME_LABEL: record.groups[index].name,
                },
            },
            "status": {"decisions": decisions},
        }));
    }
    objects
}

/// Returns the number in the name of the page at a position; pages are numbered from 1.
fn page_number(position: usize) -> u32 {
    u32::try_from(position + 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(groups: &[(&str, usize)]) -> OcmPlacementRecord {
        let group = |(name, count): &(&str, usize)| {
            let clusters: Vec<String> = (0..*count).map(|n| format!("{name}c{n:03}")).collect();
            json!({"name": name, "clusters": clusters})
        };
        let record = json!({
            "namespace": "ns1", "name": "web", "spec": {}, "generation": 2, "createdAt": "2026-01-01T00:00:00Z",
            "origin": {"path": "p.yaml", "line": 1, "blob": "b", "ordinal": 0},
            "groups": groups.iter().map(group).collect::<Vec<_>>(),
        });
        serde_json::from_value(record).expect("a record")
    }

    #[test]
    fn pages_are_numbered_over_all_groups() {
        let record = record(&[("canary", 2), ("", 201)]);
        let objects = decision_objects(&record);
        let pages: Vec<(String, String, usize)> = objects
            .iter()
            .map(|object| {
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                let index = object["metadata"]["labels"][GROUP_INDEX_LABEL].as_str().unwrap().to_owned();
                (name, index, object["status"]["decisions"].as_array().unwrap().len())
            })
            .collect();
        let page = |name: &str, index: &str, count| (name.to_owned(), index.to_owned(), count);
        assert_eq!(
            pages,
            [
                page("web-decision-1", "0", 2),
                page("web-decision-2", "1", 100),
                page("web-decision-3", "1", 100),
                page("web-decision-4", "1", 1),
            ]
        );
        let status = &placement_object(&record)["status"];
        assert_eq!(status["numberOfSelectedClusters"], 203);
        assert_eq!(status["decisionGroups"][0]["decisions"], json!(["web-decision-1"]));
        assert_eq!(
            status["decisionGroups"][1]["decisions"],
            json!(["web-decision-2", "web-decision-3", "web-decision-4"])
        );
    }

    #[test]
    fn a_group_without_clusters_has_a_page() {
        let record = record(&[("", 0)]);
        assert_eq!(decision_objects(&record).len(), 1);
        assert_eq!(placement_object(&record)["status"]["decisionGroups"][0]["decisions"], json!(["web-decision-1"]));
    }
}
