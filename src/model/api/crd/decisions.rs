//! The CustomResourceDefinition of OCM's PlacementDecision, for clusters that Argo CD runs in and OCM does not.
//!
//! Not among [`super::crds`]: where OCM is installed, its own definition must stay.

use serde_json::{Value, json};

use crate::api::table;
use crate::api::table::OCM_GROUP;

fn text(description: &str) -> Value {
    json!({"description": description, "type": "string"})
}

/// Returns the definition: what OCM's objects may hold fits into it, and nothing else is needed by who reads decisions.
pub fn placement_decision_crd() -> Value {
    let kind = table::lookup(OCM_GROUP, "PlacementDecision").expect("the kind is in the table");
    let item = json!({
        "description": "One decided cluster.",
        "type": "object",
        "required": ["clusterName", "reason"],
        "properties": {
            "clusterName": text("The cluster."),
            "reason": text("Why it was picked; may be empty."),
            "score": {"description": "Its score; absent for zero.", "type": "integer", "format": "int64"},
        },
    });
    let status = json!({
        "description": "The decisions; written through the status sub-resource only.",
        "type": "object",
        "required": ["decisions"],
        "properties": {
            "decisions": {"description": "The clusters, by convention at most 100.", "type": "array", "items": item},
        },
    });
    let schema = json!({
        "description": "One page of the clusters that were decided for a placement, which a label names.",
        "type": "object",
        "properties": {
            "apiVersion": text("Group and version of the object."),
            "kind": text("Kind of the object."),
            "metadata": {"type": "object"},
            "status": status,
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{OCM_GROUP}", kind.plural)},
        "spec": {
            "group": OCM_GROUP,
            "names": {
                "kind": kind.kind, "listKind": "PlacementDecisionList", "plural": kind.plural,
                "singular": "placementdecision",
            },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1beta1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
            }],
        },
    })
}
