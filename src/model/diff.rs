//! How a member's object differs from its manifest, field by field, for people and for drift.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::records::Difference;
use super::secrets::for_each_secret;
use crate::api::placement::ComparisonOption;

/// Differences reported for one object at most, as KubeFleet limits them.
pub const DIFFERENCES_MAX: usize = 100;

/// Characters of a reported value at most: reports are for reading, not for restoring.
pub const VALUE_CHARS_MAX: usize = 256;

/// Path of the single difference of an object the member does not have.
pub const WHOLE_OBJECT_PATH: &str = "/";

/// Fields of `metadata` that say nothing about what was wished: identity, bookkeeping of the server, ownership.
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

/// A label or annotation whose key contains one of these belongs to the machinery.
const KEYS_IGNORED: [&str; 4] = ["kubernetes.io/", "k8s.io/", "kubernetes-fleet.io/", "gitfleet.io/"];

/// Where pod templates stand, whose `creationTimestamp` the server writes as null.
const TEMPLATES: [&str; 3] = ["/spec/template", "/spec/jobTemplate", "/spec/jobTemplate/spec/template"];

/// Stands before a secret value while it is compared.
const HIDDEN: &str = "\u{0}secret ";

/// Fields that tell the items of a list apart, the most telling first: mounts repeat their volume's name, ports may have
/// no name.
///
/// Source: `x-kubernetes-list-map-keys` of the built-in kinds.
const LIST_KEYS: [&str; 9] =
    ["mountPath", "devicePath", "containerPort", "name", "port", "key", "ip", "topologyKey", "type"];

/// Returns where a member's object differs from its manifest, at most [`DIFFERENCES_MAX`], in order of path.
///
/// `PartialComparison` looks at the fields of the manifest only, so what defaulting and other managers add is no
/// difference; `FullComparison` reports those too. Lists whose items carry a telling key are compared by it, others by
/// position. Paths are JSON pointers with the manifest's positions, or the member's for what only the member has. Absent,
/// null and empty are the same. Values of a Secret's `data` and `stringData` (`secret`), and others that
/// [`super::secrets`] knows, never appear: a marker names key and side.
///
/// Source: KubeFleet's drift detection, for what is ignored and limited.
///
/// # Example
///
/// ```
/// use gitfleet::api::placement::ComparisonOption;
/// use gitfleet::model::diff::differences;
/// use serde_json::json;
///
/// let manifest = json!({"spec": {"replicas": 2}});
/// let live = json!({"spec": {"replicas": 5, "paused": true}});
/// let found = differences(&manifest, &live, ComparisonOption::PartialComparison, false);
/// assert_eq!(found.len(), 1);
/// assert_eq!(found[0].path, "/spec/replicas");
/// ```
pub fn differences(manifest: &Value, live: &Value, comparison: ComparisonOption, secret: bool) -> Vec<Difference> {
    let mut walk = Walk { full: comparison == ComparisonOption::FullComparison, secret, found: Vec::new() };
    let (mut manifest, mut live) = (prepared(manifest, secret), prepared(live, secret));
    if !secret {
        // Each value is compared as ever and cannot be shown any more.
        for object in [&mut manifest, &mut live] {
            for_each_secret(object, &mut |value, _| *value = Value::String(format!("{HIDDEN}{value}")));
        }
    }
    walk.compare(&mut String::new(), Some(&manifest), Some(&live));
    walk.found
}

/// Returns the difference that stands for an object the member does not have at all.
pub fn missing_object() -> Difference {
    Difference {
        path: WHOLE_OBJECT_PATH.to_owned(),
        value_in_member: None,
        value_in_hub: Some("(the whole object)".to_owned()),
    }
}

/// Returns the object without what is never compared, and a Secret's `stringData` folded into `data` as the server does.
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

struct Walk {
    full: bool,
    secret: bool,
    found: Vec<Difference>,
}

impl Walk {
    fn compare(&mut self, path: &mut String, hub: Option<&Value>, member: Option<&Value>) {
        if self.found.len() >= DIFFERENCES_MAX {
            return;
        }
        match (hub, member) {
            (Some(Value::Object(hub)), Some(Value::Object(member))) => self.maps(path, hub, member),
            (Some(Value::Array(hub)), Some(Value::Array(member))) => self.lists(path, hub, member),
            (hub, member) if same(hub, member) => {}
            (None | Some(Value::Null), _) if !self.full => {}
            (hub, member) => self.report(path, hub, member),
        }
    }

    fn maps(&mut self, path: &mut String, hub: &Map<String, Value>, member: &Map<String, Value>) {
        let keys: std::collections::BTreeSet<&String> = hub.keys().chain(member.keys()).collect();
        for key in keys {
            self.below(path, key, hub.get(key), member.get(key));
        }
    }

    fn lists(&mut self, path: &mut String, hub: &[Value], member: &[Value]) {
        // One key for both sides: with two different ones no item would find its twin.
        let Some((hub_keys, member_keys)) =
            LIST_KEYS.iter().find_map(|key| Some((by_key(hub, key)?, by_key(member, key)?)))
        else {
            // Without keys an item more is a change of the list itself, so it counts in a partial comparison as well.
            let full = self.full;
            for position in 0..hub.len().max(member.len()) {
                self.full = full || position >= hub.len();
                self.below(path, &position.to_string(), hub.get(position), member.get(position));
            }
            self.full = full;
            return;
        };
        for (position, item) in hub.iter().enumerate() {
            let twin = hub_keys.iter().find(|(_, at)| **at == position).and_then(|(key, _)| member_keys.get(key));
            self.below(path, &position.to_string(), Some(item), twin.map(|&at| &member[at]));
        }
        for (key, position) in &member_keys {
            if !hub_keys.contains_key(key) {
                self.below(path, &position.to_string(), None, Some(&member[*position]));
            }
        }
    }

    fn below(&mut self, path: &mut String, key: &str, hub: Option<&Value>, member: Option<&Value>) {
        let length = path.len();
        path.push('/');
        // `~` first, because the escape of `/` has one.
        path.push_str(&key.replace('~', "~0").replace('/', "~1"));
        self.compare(path, hub, member);
        path.truncate(length);
    }

    fn report(&mut self, path: &str, hub: Option<&Value>, member: Option<&Value>) {
        let in_secret = self.secret && (path == "/data" || path.starts_with("/data/"));
        let shown = |value: Option<&Value>, side: &str| {
            let value = value.filter(|v| !v.is_null())?;
            let hidden = in_secret || value.as_str().is_some_and(|text| text.starts_with(HIDDEN));
            Some(if hidden { format!("(redacted: {path} {side})") } else { shown(value) })
        };
        self.found.push(Difference {
            path: path.to_owned(),
            value_in_member: shown(member, "in the member"),
            value_in_hub: shown(hub, "in git"),
        });
    }
}

/// Returns the positions of items by the value of a key; `None` unless every item has the key and no two share a value.
fn by_key(items: &[Value], key: &str) -> Option<BTreeMap<String, usize>> {
    let mut positions = BTreeMap::new();
    for (position, item) in items.iter().enumerate() {
        let value = item.as_object()?.get(key)?;
        if positions.insert(value.to_string(), position).is_some() {
            return None;
        }
    }
    Some(positions)
}

fn same(hub: Option<&Value>, member: Option<&Value>) -> bool {
    let empty = |value: Option<&Value>| match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(_) => false,
    };
    match (hub, member) {
        (Some(Value::Number(a)), Some(Value::Number(b))) => {
            // JSON keeps 1 and 1.0 apart; to an API server they are one number.
            a == b || ((a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64())
        }
        (Some(a), Some(b)) if a == b => true,
        (a, b) => empty(a) && empty(b),
    }
}

/// Returns a value with everything secret in it taken away.
fn without_hidden(value: &Value) -> Value {
    match value {
        Value::String(text) if text.starts_with(HIDDEN) => "(redacted)".into(),
        Value::Array(items) => items.iter().map(without_hidden).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), without_hidden(value))).collect(),
        other => other.clone(),
    }
}

fn shown(value: &Value) -> String {
    let value = &without_hidden(value);
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests;
