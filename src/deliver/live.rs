//! A live object, reduced to the fields that decisions need.

use std::sync::Arc;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::health::{self, HealthRules, ObjectHealth};
use super::inventory::{PART_OF_LABEL, SPEC_HASH};
use crate::api::FIELD_MANAGER;
use crate::model::id::{Digest, ObjectId};
use crate::model::records::Availability;
use crate::model::shared::Shared;

/// The stored state of an object with an ApplySet's label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveObject {
    /// Its identity, in the version it was watched in.
    pub id: Shared<ObjectId>,
    /// `metadata.uid`: deletions name it, so that they never hit a recreated object.
    pub uid: String,
    /// `metadata.resourceVersion`: an event with a lower version is stale and skipped. 0 for files.
    pub resource_version: u64,
    /// `metadata.generation`; absent where its kind has none.
    pub generation: Option<i64>,
    /// The ApplySet it belongs to; empty without such a label.
    pub applyset: Arc<str>,
    /// The digest of the manifest it was last applied from.
    pub manifest: Option<Digest>,
    /// Digest of the fields we own and their values: it differs from that of our last apply exactly when somebody else
    /// changed, took or removed one of them.
    pub owned: Digest,
    /// Its other owner by an owner reference, as `Kind name`: the controlling one, else the first.
    pub owner: Option<Arc<str>>,
    /// Being deleted.
    pub terminating: bool,
    /// Whether it is available.
    pub availability: Availability,
    /// Why it is not, where it says so.
    pub unavailable_because: Option<Arc<str>>,
}

impl LiveObject {
    /// Reads a live object; `None` if it is not a named Kubernetes object. An object in the namespace of the inventories is
    /// never part of a placement, whatever label it carries: otherwise it would be pruned, and all inventories with it.
    pub fn read(object: &Value, rules: &HealthRules) -> Option<Self> {
        let id = ObjectId::of(object).filter(|id| !id.is_reserved())?;
        let metadata = object.get("metadata")?;
        let ObjectHealth { availability, why } = health::health(&id, object, rules);
        let text = |map: &str, key: &str| metadata.get(map).and_then(|m| m.get(key)?.as_str());
        Some(Self {
            uid: metadata.get("uid").and_then(Value::as_str).unwrap_or_default().to_owned(),
            resource_version: metadata
                .get("resourceVersion")
                .and_then(Value::as_str)
                .and_then(|v| v.parse().ok())
                .unwrap_or_default(),
            generation: metadata.get("generation").and_then(Value::as_i64),
            applyset: text("labels", PART_OF_LABEL).unwrap_or_default().into(),
            manifest: text("annotations", SPEC_HASH).map(|digest| Digest::from(digest).shared()),
            owned: owned_digest(object).shared(),
            owner: foreign_owner(object).map(Arc::from),
            terminating: metadata.get("deletionTimestamp").is_some(),
            availability,
            unavailable_because: why,
            id: id.into(),
        })
    }
}

/// Returns the owner of an object by an owner reference, as `Kind name`: the controlling one, else the first. gitfleet sets
/// none.
pub fn foreign_owner(object: &Value) -> Option<String> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true).or(owners.first())?;
    let text = |field: &str| owner[field].as_str().unwrap_or_default();
    Some(format!("{} {}", text("kind"), text("name")))
}

/// Returns the digest of the fields that our field manager applied, with their live values.
///
/// An object without managed fields (a directory member's file) is owned as a whole.
///
/// Source: Kubernetes server-side apply, `FieldsV1`: `f:` field, `k:` list item by key, `v:` set member, `i:` index, `.` the
/// node itself. A change by another manager takes the field from us, so it also changes the set of paths.
fn owned_digest(object: &Value) -> Digest {
    let mut hasher = Sha256::new();
    let managed = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    match managed {
        None => hasher.update(object.to_string()),
        Some(entries) => {
            for entry in entries {
                // Server-side apply treats a manager's updates as a different owner than its applies.
                if entry["manager"] == FIELD_MANAGER
                    && entry["operation"] == "Apply"
                    && let Some(fields) = entry["fieldsV1"].as_object()
                {
                    hash_fields(fields, Some(object), &mut hasher);
                }
            }
        }
    }
    Digest::new(format!("{:x}", hasher.finalize()))
}

fn hash_fields(fields: &Map<String, Value>, value: Option<&Value>, hasher: &mut Sha256) {
    for (path, below) in fields {
        hasher.update(path);
        if path == "." {
            hasher.update([u8::from(value.is_some())]);
            continue;
        }
        let child = value.and_then(|v| child(v, path));
        match below.as_object() {
            Some(below) if !below.is_empty() => {
                hasher.update("{");
                hash_fields(below, child, hasher);
                hasher.update("}");
            }
            _ => match child {
                Some(leaf) => hasher.update(leaf.to_string()),
                None => hasher.update("\0"),
            },
        }
    }
}

/// Returns what a path element of `FieldsV1` leads to.
fn child<'a>(value: &'a Value, element: &str) -> Option<&'a Value> {
    let (tag, rest) = element.split_once(':')?;
    match tag {
        "f" => value.get(rest),
        "k" => {
            let keys: Map<String, Value> = serde_json::from_str(rest).ok()?;
            value.as_array()?.iter().find(|item| keys.iter().all(|(k, v)| item.get(k) == Some(v)))
        }
        "v" => {
            let wanted: Value = serde_json::from_str(rest).ok()?;
            value.as_array()?.iter().find(|item| **item == wanted)
        }
        "i" => value.get(rest.parse::<usize>().ok()?),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
