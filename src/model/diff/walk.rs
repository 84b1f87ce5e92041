//! Walks through a manifest and a live object, field by field.

use crate::records::Difference;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Differences reported for one object at most, as KubeFleet limits them.
pub const DIFFERENCES_MAX: usize = 100;
/// Characters of a reported value at most: reports are for reading, not for restoring.
pub const VALUE_CHARS_MAX: usize = 256;
/// Marks a secret value during the comparison.
pub(super) const HIDDEN: &str = "\u{0}secret ";

/// Fields that identify the items of a list, the best first: mounts repeat their volume's name, ports may have no name.
///
/// Source: `x-kubernetes-list-map-keys` of the built-in kinds.
const LIST_KEYS: [&str; 9] =
    ["mountPath", "devicePath", "containerPort", "name", "port", "key", "ip", "topologyKey", "type"];

pub(super) struct Walk {
    pub(super) full: bool,
    pub(super) secret: bool,
    pub(super) found: Vec<Difference>,
}

impl Walk {
    pub(super) fn compare(&mut self, path: &mut String, hub: Option<&Value>, member: Option<&Value>) {
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

    pub(super) fn maps(&mut self, path: &mut String, hub: &Map<String, Value>, member: &Map<String, Value>) {
        let keys: std::collections::BTreeSet<&String> = hub.keys().chain(member.keys()).collect();
        for key in keys {
            self.below(path, key, hub.get(key), member.get(key));
        }
    }

    pub(super) fn lists(&mut self, path: &mut String, hub: &[Value], member: &[Value]) {
        // One key for both sides: with two different ones no item would find its counterpart.
        let Some((hub_keys, member_keys)) =
            LIST_KEYS.iter().find_map(|key| Some((by_key(hub, key)?, by_key(member, key)?)))
        else {
            // Without keys an additional item changes the list itself, so it counts in a partial comparison as well.
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

    pub(super) fn below(&mut self, path: &mut String, key: &str, hub: Option<&Value>, member: Option<&Value>) {
        let length = path.len();
        path.push('/');
        // `~` first, because the escape of `/` contains one.
        path.push_str(&key.replace('~', "~0").replace('/', "~1"));
        self.compare(path, hub, member);
        path.truncate(length);
    }

    pub(super) fn report(&mut self, path: &str, hub: Option<&Value>, member: Option<&Value>) {
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
pub(super) fn by_key(items: &[Value], key: &str) -> Option<BTreeMap<String, usize>> {
    let mut positions = BTreeMap::new();
    for (position, item) in items.iter().enumerate() {
        let value = item.as_object()?.get(key)?;
        if positions.insert(value.to_string(), position).is_some() {
            return None;
        }
    }
    Some(positions)
}

pub(super) fn same(hub: Option<&Value>, member: Option<&Value>) -> bool {
    match (hub, member) {
        (Some(Value::Number(a)), Some(Value::Number(b))) => {
            // JSON distinguishes 1 and 1.0; an API server does not.
            a == b || ((a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64())
        }
        (Some(a), Some(b)) if a == b => true,
        (a, b) => is_empty(a) && is_empty(b),
    }
}

fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(_) => false,
    }
}

/// Returns a value without its secrets.
pub(super) fn without_hidden(value: &Value) -> Value {
    match value {
        Value::String(text) if text.starts_with(HIDDEN) => "(redacted)".into(),
        Value::Array(items) => items.iter().map(without_hidden).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), without_hidden(value))).collect(),
        other => other.clone(),
    }
}

pub(super) fn shown(value: &Value) -> String {
    let value = &without_hidden(value);
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
