//! The fields of every object around its spec, and the conversion of a document to a checked object.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::check::{FieldError, is_dns_label, is_dns_subdomain};
use crate::yaml;

/// `metadata` of an object. Fields that only an API server writes are accepted, so that exported objects work too.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(missing_docs, reason = "Kubernetes' ObjectMeta, field by field")]
pub struct Metadata {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub generate_name: String,
    #[serde(default)]
    pub namespace: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    #[serde(default)]
    pub generation: Option<i64>,
    #[serde(default)]
    pub uid: Option<String>,
    #[serde(default)]
    pub resource_version: Option<String>,
    #[serde(default)]
    pub self_link: Option<String>,
    #[serde(default)]
    pub creation_timestamp: Option<Value>,
    #[serde(default)]
    pub deletion_timestamp: Option<Value>,
    #[serde(default)]
    pub deletion_grace_period_seconds: Option<i64>,
    #[serde(default)]
    pub owner_references: Option<Vec<Value>>,
    #[serde(default)]
    pub finalizers: Option<Vec<String>>,
    #[serde(default)]
    pub managed_fields: Option<Vec<Value>>,
}

/// An object with a spec. `status` is what some cluster said once: accepted, and read only where a kind says so.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Object<S> {
    /// Group and version, as written.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name, labels, annotations.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: S,
    /// The observed state.
    #[serde(default)]
    pub status: Option<Value>,
}

/// A spec with rules beyond its types: limits, and fields that depend on each other.
pub trait Validate {
    /// Returns every rule that the value breaks, with paths from the object's root.
    fn validate(&self) -> Vec<FieldError>;
}

/// Any JSON, for fields whose content belongs to others. In a CRD it is an object whose fields are kept.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, Deserialize)]
#[serde(transparent)]
pub struct AnyJson(pub Value);

impl JsonSchema for AnyJson {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AnyJson".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"x-kubernetes-preserve-unknown-fields": true})
    }
}

/// Returns the object without its null fields, which an API server would drop; values of JSON patches stay as they are.
pub fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, v)| !v.is_null()).map(|(key, v)| {
                // A patch may set a null on purpose, and the contents of an envelope's `data` must stay unchanged.
                let v = if key == "jsonPatchOverrides" || key == "data" { v.clone() } else { without_nulls(v) };
                (key.clone(), v)
            });
            Value::Object(kept.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        scalar => scalar.clone(),
    }
}

/// Reads a document as an object with a spec and applies the spec's rules.
///
/// # Errors
/// Every field that does not fit.
pub fn read<S: DeserializeOwned + Validate>(value: &Value) -> Result<Object<S>, Vec<FieldError>> {
    let object: Object<S> = yaml::typed(value)?;
    let errors = object.spec.validate();
    if errors.is_empty() { Ok(object) } else { Err(errors) }
}

/// Checks name, namespace and labels of one of our kinds.
pub fn metadata_errors(metadata: &Metadata, name_length_max: usize) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = &metadata.name;
    if name.is_empty() {
        errors.push(FieldError::new("metadata.name", "required and missing"));
    } else if !is_dns_subdomain(name) {
        let hint = "lowercase letters, digits, `-` and `.`, beginning and ending with a letter or digit";
        errors.push(FieldError::new("metadata.name", format!("{name:?} is not an object name")).hint(hint));
    } else if name.len() > name_length_max {
        let message = format!("{name:?} has {} characters, the limit is {name_length_max}", name.len());
        errors.push(FieldError::new("metadata.name", message));
    }
    if !metadata.namespace.is_empty() && !is_dns_label(&metadata.namespace) {
        let message = format!("{:?} is not a namespace name", metadata.namespace);
        errors.push(FieldError::new("metadata.namespace", message));
    }
    super::check::labels(&mut errors, "metadata.labels", &metadata.labels);
    errors
}
