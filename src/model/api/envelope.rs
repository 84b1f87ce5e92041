//! Envelopes: objects that take effect on members only.
//!
//! Source: KubeFleet API, `placement.kubernetes-fleet.io` v1beta1; for ConfigMaps its documents.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::check::FieldError;
use super::groups::PLACEMENT_GROUP;
use super::identity::identify;
use super::object::Metadata;
use crate::kinds;
use crate::manifest::malformed_metadata;
use crate::tree::Scope;
use crate::yaml;

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
        let room = if self.kind == "ResourceEnvelope" { Room::Namespace } else { Room::Cluster };
        for (name, object) in &self.data {
            let complaints = room.complaints(&self.kind, &self.metadata.namespace, object);
            errors.extend(complaints.into_iter().map(|message| FieldError::new(format!("data.{name}"), message)));
        }
        errors
    }
}

/// Which objects an envelope has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    /// A ClusterResourceEnvelope: objects without a namespace.
    Cluster,
    /// A ResourceEnvelope: objects of its own namespace.
    Namespace,
    /// A ConfigMap: objects of its own namespace, and objects without one.
    Both,
}

impl Room {
    /// Says what keeps an object out of an envelope of this kind and namespace.
    fn complaints(self, kind: &str, namespace: &str, object: &Value) -> Vec<String> {
        let wanted = [("/apiVersion", "apiVersion"), ("/kind", "kind"), ("/metadata/name", "metadata.name")];
        let missing = wanted.into_iter().filter(|(pointer, _)| text(object, pointer).is_empty());
        let mut complaints: Vec<String> = missing.map(|(_, field)| format!("{field} is missing")).collect();
        // What is missing would be complained about a second time.
        if complaints.is_empty() {
            complaints.extend(identify(object).err().map(|error| format!("{}: {}", error.field, error.message)));
        }
        complaints.extend(malformed_metadata(object).map(|(field, why)| format!("{field}: {why}")));
        let group = text(object, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
        let object_kind = text(object, "/kind");
        let own = text(object, "/metadata/namespace");
        // Of a kind that is not built in nothing is known here but the namespace that its object names.
        let scope = kinds::lookup(group, object_kind).map(|known| known.scope);
        match (self, scope) {
            (Self::Cluster, Some(Scope::Namespaced)) | (Self::Namespace, Some(Scope::Cluster)) => {
                complaints.push(format!("a {object_kind} does not fit into a {kind}"));
            }
            (Self::Cluster, _) if !own.is_empty() => {
                complaints.push(format!("is in namespace {own:?}; a {kind} holds objects without a namespace"));
            }
            (Self::Both, Some(Scope::Cluster)) if !own.is_empty() => {
                complaints.push(format!("a {object_kind} is cluster-scoped, and this one names {own:?}"));
            }
            (Self::Namespace, _) | (Self::Both, Some(Scope::Namespaced)) if own.is_empty() => {
                complaints.push(format!("metadata.namespace is missing; write {namespace:?}, where the envelope is"));
            }
            (Self::Namespace | Self::Both, _) if !own.is_empty() && own != namespace => {
                complaints.push(format!("is in namespace {own:?}, the envelope is not"));
            }
            _ => {}
        }
        complaints
    }
}

/// The annotation that makes a ConfigMap an envelope.
///
/// Source: KubeFleet's documents; later versions have the constant and no code for it.
const CONFIG_MAP_ANNOTATION: &str = "kubernetes-fleet.io/envelope-configmap";

/// Tells whether an object holds other objects, which are delivered in its stead.
pub fn is_envelope(object: &Value) -> bool {
    room(object).is_some()
}

fn room(object: &Value) -> Option<Room> {
    let version = text(object, "/apiVersion");
    let is_ours = version.split_once('/').is_some_and(|(group, _)| group == PLACEMENT_GROUP);
    match text(object, "/kind") {
        "ClusterResourceEnvelope" if is_ours => Some(Room::Cluster),
        "ResourceEnvelope" if is_ours => Some(Room::Namespace),
        "ConfigMap" if version == "v1" => {
            let annotation = object.pointer("/metadata/annotations")?.get(CONFIG_MAP_ANNOTATION)?.as_str()?;
            (annotation == "true").then_some(Room::Both)
        }
        _ => None,
    }
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the objects of an envelope by entry, as written; none for an object that is no envelope.
///
/// # Errors
/// Entry and reason of the first that is no object, or of a scope that does not fit.
///
/// Source: KubeFleet's work generator.
pub fn entries(envelope: &Value) -> Result<Vec<(String, Value)>, (String, String)> {
    let Some(room) = room(envelope) else { return Ok(Vec::new()) };
    if let Some((entry, _)) = envelope.get("binaryData").and_then(Value::as_object).and_then(|data| data.iter().next())
    {
        return Err((entry.clone(), "is binary data; an envelope holds one manifest an entry".to_owned()));
    }
    let kind = text(envelope, "/kind");
    let namespace = text(envelope, "/metadata/namespace");
    let mut entries = Vec::new();
    for (entry, value) in envelope.get("data").and_then(Value::as_object).into_iter().flatten() {
        let object = match room {
            Room::Both => one_document(value).map_err(|why| (entry.clone(), why))?,
            Room::Cluster | Room::Namespace => value.clone(),
        };
        if let Some(complaint) = room.complaints(kind, namespace, &object).into_iter().next() {
            return Err((entry.clone(), complaint));
        }
        entries.push((entry.clone(), object));
    }
    Ok(entries)
}

/// Returns what is wrong with the identities of the objects in an annotated ConfigMap: by its files alone, whoever selects it.
/// The envelopes of a kind of their own are checked with the rest of them.
pub fn identity_errors(envelope: &Value) -> Vec<FieldError> {
    if room(envelope) != Some(Room::Both) {
        return Vec::new();
    }
    let data = envelope.get("data").and_then(Value::as_object).into_iter().flatten();
    let wrong = data.filter_map(|(entry, value)| {
        // An entry that is no manifest at all is an error of the placements that select it, and no wrong identity.
        let error = identify(&one_document(value).ok()?).err()?;
        let message = format!("{}: {}", error.field, error.message);
        Some(FieldError { message, field: format!("data.{entry}"), ..error })
    });
    wrong.collect()
}

/// Reads the one document that an entry of a ConfigMap is.
fn one_document(value: &Value) -> Result<Value, String> {
    let mut documents = yaml::parse_documents(value.as_str().unwrap_or_default());
    match (documents.pop(), documents.len()) {
        (Some(Ok(document)), 0) => Ok(document.value),
        (Some(Err(error)), 0) => Err(format!("line {}: {}", error.line, error.message)),
        (None, _) => Err("is empty; it is to hold one manifest".to_owned()),
        (_, more) => Err(format!("holds {} documents; give each an entry of its own", more + 1)),
    }
}

#[cfg(test)]
mod tests;
