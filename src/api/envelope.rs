//! Envelopes: objects that take effect on members only.
//!
//! Source: KubeFleet API, `placement.kubernetes-fleet.io` v1beta1.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::check::FieldError;
use super::object::Metadata;
use crate::model::kinds;
use crate::model::tree::Scope;

/// Objects of one envelope.
pub const OBJECTS_MAX: usize = 50;

/// A ClusterResourceEnvelope or ResourceEnvelope.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Envelope {
    /// Group and version, as written.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name, labels, annotations.
    pub metadata: Metadata,
    /// The objects, by a name of the writer's choice.
    pub data: BTreeMap<String, Value>,
}

/// The schema of an envelope's `data`.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "exists for its schema")]
pub(super) struct EnvelopeData {
    /// The objects, by a name of the writer's choice.
    #[schemars(length(min = 1, max = 50))]
    pub data: BTreeMap<String, super::object::AnyJson>,
}

impl Envelope {
    /// Returns the rules it breaks: each entry is one object, of a scope that fits the envelope.
    pub fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        super::check::count(&mut errors, "data", self.data.len(), 1, OBJECTS_MAX);
        for (name, object) in &self.data {
            let path = format!("data.{name}");
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let missing = [("/apiVersion", "apiVersion"), ("/kind", "kind"), ("/metadata/name", "metadata.name")];
            for (_, field) in missing.into_iter().filter(|(pointer, _)| text(pointer).is_empty()) {
                errors.push(FieldError::new(&path, format!("{field} is missing")));
            }
            let group = text("/apiVersion").split_once('/').map_or("", |(group, _)| group);
            let is_namespaced = self.kind == "ResourceEnvelope";
            let known = kinds::lookup(group, text("/kind")).map(|k| k.scope == Scope::Namespaced);
            if known.is_some_and(|object_is_namespaced| object_is_namespaced != is_namespaced) {
                errors.push(FieldError::new(&path, format!("a {} does not fit into a {}", text("/kind"), self.kind)));
            }
            let namespace = text("/metadata/namespace");
            if is_namespaced && !namespace.is_empty() && namespace != self.metadata.namespace {
                let message = format!("is in namespace {namespace:?}, the envelope is not");
                errors.push(FieldError::new(path, message));
            }
        }
        errors
    }
}
