use serde_json::json;

use super::*;
use crate::api::object;

#[test]
fn patches_keep_kubefleets_rules() {
    let table = [
        ("add", "/spec/replicas", json!(1), ""),
        ("add", "/metadata/labels/a", json!("b"), ""),
        ("remove", "/metadata/annotations", json!(null), ""),
        ("remove", "/spec/a", json!(1), "takes no value"),
        ("add", "spec", json!(1), "start with a slash"),
        ("add", "/spec//a", json!(1), "empty segment"),
        ("add", "/metadata", json!({}), "only labels and annotations"),
        ("add", "/metadata/name", json!("a"), "only labels and annotations"),
        ("add", "/status/x", json!("a"), "cannot be overridden"),
        ("add", "/kind", json!("a"), "cannot be overridden"),
        ("move", "/spec/a", json!(1), "not one of add, remove, replace"),
    ];
    for (op, path, value, expected) in table {
        let mut patch = json!({"op": op, "path": path});
        if !value.is_null() {
            patch["value"] = value;
        }
        let object = json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": {
            "clusterResourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "a"}],
            "policy": {"overrideRules": [{"clusterSelector": {}, "jsonPatchOverrides": [patch]}]}}});
        let errors = object::read::<ClusterResourceOverrideSpec>(&object).err().unwrap_or_default();
        match expected {
            "" => assert_eq!(errors, [], "{op} {path}"),
            _ => assert!(errors.len() == 1 && errors[0].message.contains(expected), "{op} {path}: {errors:?}"),
        }
    }
}
