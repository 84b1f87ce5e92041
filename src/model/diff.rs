//! Compares a member's object with its manifest, field by field, for users and for drift.

mod walk;

use serde_json::{Map, Value};

pub use self::walk::{DIFFERENCES_MAX, VALUE_CHARS_MAX};
use self::walk::{HIDDEN, Walk};
use super::records::Difference;
use super::secrets::for_each_secret;
use crate::api::placement::ComparisonOption;

/// Path of the single difference of an object the member does not have.
pub const WHOLE_OBJECT_PATH: &str = "/";

/// Fields of `metadata` without desired content: identity, bookkeeping of the server, ownership.
const METADATA_IGNORED: [&str; 13] = [
    "name",
    "namespace",
    "generateName",
    "finalizers",
    "ownerReferences",
    "managedFields",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "uid",
    "selfLink",
    "creationTimestamp",
];

/// A label or annotation whose key contains one of these belongs to Kubernetes or gitfleet.
const KEYS_IGNORED: [&str; 4] = ["kubernetes.io/", "k8s.io/", "kubernetes-fleet.io/", "gitfleet.io/"];

/// Paths of pod templates, whose `creationTimestamp` the server writes as null.
const TEMPLATES: [&str; 3] = ["/spec/template", "/spec/jobTemplate", "/spec/jobTemplate/spec/template"];

/// Returns the differences between a member's object and its manifest, at most [`DIFFERENCES_MAX`], sorted by path.
///
/// `PartialComparison` compares only the fields of the manifest, so defaults and fields of other managers are no difference;
/// `FullComparison` reports those too. Lists whose items have an identifying key are compared by it, others by position. Paths
/// are JSON pointers with the manifest's positions, or the member's for additional items. Absent, null and empty are equal.
/// Values of a Secret's `data` and `stringData` (`secret`), and others that [`super::secrets`] knows, never appear: a marker
/// names key and side.
///
/// Source: KubeFleet's drift detection, for ignored fields and limits.
pub fn differences(manifest: &Value, live: &Value, comparison: ComparisonOption, secret: bool) -> Vec<Difference> {
    let mut walk = Walk { full: comparison == ComparisonOption::FullComparison, secret, found: Vec::new() };
    let mut manifest = prepared(manifest, secret);
    let mut live = prepared(live, secret);
    if !secret {
        // Each value is still compared but can no longer be shown.
        for object in [&mut manifest, &mut live] {
            for_each_secret(object, &mut |value, _| *value = Value::String(format!("{HIDDEN}{value}")));
        }
    }
    walk.compare(&mut String::new(), Some(&manifest), Some(&live));
    walk.found
}

/// Returns the difference for an object that the member does not have.
pub fn missing_object() -> Difference {
    Difference {
        path: WHOLE_OBJECT_PATH.to_owned(),
        value_in_member: None,
        value_in_hub: Some("(the whole object)".to_owned()),
    }
}

/// Returns the object without fields that are never compared, and with a Secret's `stringData` merged into `data` as the server
/// does.
fn prepared(object: &Value, secret: bool) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
        if secret {
            fold_string_data(fields);
        }
    }
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        strip_metadata(metadata);
    }
    for template in TEMPLATES {
        if let Some(Value::Object(metadata)) = object.pointer_mut(template).and_then(|t| t.get_mut("metadata")) {
            metadata.remove("creationTimestamp");
        }
    }
    object
}

fn strip_metadata(metadata: &mut Map<String, Value>) {
    for field in METADATA_IGNORED {
        metadata.remove(field);
    }
    for field in ["labels", "annotations"] {
        if let Some(Value::Object(entries)) = metadata.get_mut(field) {
            entries.retain(|key, _| !KEYS_IGNORED.iter().any(|part| key.contains(part)));
        }
    }
}

fn fold_string_data(fields: &mut Map<String, Value>) {
    let Some(Value::Object(texts)) = fields.remove("stringData") else { return };
    let data = fields.entry("data").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(data) = data {
        for (key, text) in texts {
            let bytes = k8s_openapi::ByteString(text.as_str().unwrap_or_default().as_bytes().to_vec());
            data.insert(key, serde_json::to_value(bytes).expect("bytes become a JSON string"));
        }
    }
}

#[cfg(test)]
mod tests;
