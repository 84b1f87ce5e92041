#![allow(
    clippy::disallowed_methods,
    reason = "the files of deploy/ are compared, and written where a person asks for it"
)]

use std::path::PathBuf;

use super::*;
use crate::yaml;

fn each_schema(schema: &Value, path: &str, visit: &mut impl FnMut(&Map<String, Value>, &str)) {
    let map = schema.as_object().unwrap_or_else(|| panic!("{path}: {schema}"));
    visit(map, path);
    for (name, property) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
        each_schema(property, &format!("{path}.{name}"), visit);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(schema) = map.get(key) {
            each_schema(schema, &format!("{path}.{key}"), visit);
        }
    }
}

#[test]
fn schemas_are_structural() {
    const KNOWN: [&str; 22] = [
        "type",
        "description",
        "properties",
        "required",
        "items",
        "additionalProperties",
        "enum",
        "default",
        "format",
        "minimum",
        "maximum",
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "pattern",
        "minProperties",
        "maxProperties",
        "x-kubernetes-int-or-string",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-validations",
    ];
    for crd in crds().into_iter().chain([placement_decision_crd()]) {
        for version in crd["spec"]["versions"].as_array().unwrap() {
            let name = crd["spec"]["names"]["kind"].as_str().unwrap();
            each_schema(&version["schema"]["openAPIV3Schema"], name, &mut |schema, path| {
                for key in schema.keys() {
                    assert!(KNOWN.contains(&key.as_str()), "{path}: {key}");
                }
                let free = ["x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"];
                assert!(schema.contains_key("type") || free.iter().any(|k| schema.contains_key(*k)), "{path}: no type");
                assert!(!(schema.contains_key("type") && schema.contains_key(free[0])), "{path}: two types");
                assert!(!(schema.contains_key("properties") && schema.contains_key("additionalProperties")), "{path}");
                let format = schema.get("format").and_then(Value::as_str);
                assert!(format.is_none_or(|f| matches!(f, "int32" | "int64")), "{path}: {format:?}");
            });
        }
        let stored = crd["spec"]["versions"].as_array().unwrap().iter().filter(|v| v["storage"] == true).count();
        assert_eq!(stored, 1);
        serde_json::from_value::<
            k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
        >(crd)
        .expect("a CustomResourceDefinition");
    }
}

/// `UPDATE=1 cargo test crd` writes the files again.
#[test]
fn files_are_fresh() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let update = std::env::var_os("UPDATE").is_some();
    let mut expected = Vec::new();
    for crd in crds() {
        let group = crd["spec"]["group"].as_str().unwrap();
        let plural = crd["spec"]["names"]["plural"].as_str().unwrap();
        let file = folder.join(format!("{group}_{plural}.yaml"));
        let text = yaml::to_string(&crd);
        assert_eq!(yaml::parse_documents(&text)[0].as_ref().unwrap().value, crd, "{plural} reads back");
        if update {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&file, &text).unwrap();
        }
        let found = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(found == text, "{} is stale: run `UPDATE=1 cargo test --lib crd`", file.display());
        expected.push(file);
    }
    let mut found: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

/// It stands apart: applied where OCM runs, it would replace OCM's own.
#[test]
fn the_file_of_placement_decisions_is_fresh() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/argocd/placementdecisions.yaml");
    let text = yaml::to_string(&placement_decision_crd());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(found == text, "{} is stale: run `UPDATE=1 cargo test --lib crd`", file.display());
}
