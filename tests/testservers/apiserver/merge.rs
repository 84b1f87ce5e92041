//! Merges an applied object into the live one, compares two objects, and removes what nobody wants any more.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::fields::Fields;
use super::schema::{ListShape, Schema};

/// How one object differs from another.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// What was added or has another value.
    pub set: Fields,
    /// What is gone, with all below it.
    pub removed: Fields,
}

/// Returns the live value with an applied one merged into it.
pub(super) fn merge(live: &Value, applied: &Value, schema: Schema, around: &str, field: &str) -> Value {
    match (live, applied) {
        (Value::Object(live), Value::Object(applied)) if !schema.is_atomic(field) => {
            let mut merged = live.clone();
            for (name, value) in applied {
                let value = match live.get(name) {
                    _ if value.is_null() => {
                        merged.remove(name);
                        continue;
                    }
                    Some(live) => merge(live, value, schema, field, name),
                    None => merge(&Value::Null, value, schema, field, name),
                };
                merged.insert(name.clone(), value);
            }
            Value::Object(merged)
        }
        // Nulls that were applied are no values.
        (_, Value::Object(applied)) if !schema.is_atomic(field) => {
            let kept = applied.iter().filter(|(_, value)| !value.is_null());
            let kept = kept.map(|(name, value)| (name.clone(), merge(&Value::Null, value, schema, field, name)));
            Value::Object(kept.collect::<Map<_, _>>())
        }
        (Value::Array(live), Value::Array(applied)) => match schema.list(around, field) {
            ListShape::Atomic => Value::Array(applied.clone()),
            shape => {
                let mut merged = live.clone();
                for item in applied {
                    match find(&merged, shape, shape.element(item).as_deref()) {
                        Some(at) => merged[at] = merge(&merged[at], item, schema, around, field),
                        None => merged.push(item.clone()),
                    }
                }
                Value::Array(merged)
            }
        },
        (_, applied) => applied.clone(),
    }
}

fn find(items: &[Value], shape: ListShape, element: Option<&str>) -> Option<usize> {
    items.iter().position(|item| shape.element(item).as_deref() == element)
}

/// Returns how a new object differs from an old one.
pub(super) fn compare(old: &Value, new: &Value, schema: Schema) -> Changes {
    let mut changes = compare_at(old, new, schema, "", "");
    changes.set = changes.set.owned();
    changes
}

fn compare_at(old: &Value, new: &Value, schema: Schema, around: &str, field: &str) -> Changes {
    let mut changes = Changes::default();
    match (old, new) {
        (old, new) if old == new => {}
        (Value::Object(old), Value::Object(new)) if !schema.is_atomic(field) => {
            let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                let there = |map: &'_ Map<String, Value>| map.get(name).filter(|value| !value.is_null()).cloned();
                changes.take(format!("f:{name}"), there(old), there(new), schema, field, name);
            }
        }
        (Value::Array(old), Value::Array(new)) if schema.list(around, field) != ListShape::Atomic => {
            let shape = schema.list(around, field);
            let element = |item: &Value| shape.element(item);
            let elements: BTreeSet<String> = old.iter().chain(new).filter_map(element).collect();
            for element in elements {
                let there = |items: &[Value]| {
                    find(items, shape, Some(element.as_str())).map(|position| items[position].clone())
                };
                let (before, after) = (there(old), there(new));
                let is_new = before.is_none();
                changes.take(element.clone(), before, after, schema, around, field);
                if is_new {
                    changes.set.below.entry(element).or_default().is_member = true;
                }
            }
        }
        _ => changes.set = Fields::leaf(),
    }
    changes
}

impl Changes {
    fn take(
        &mut self,
        element: String,
        old: Option<Value>,
        new: Option<Value>,
        schema: Schema,
        around: &str,
        field: &str,
    ) {
        match (old, new) {
            (None, None) => {}
            (Some(_), None) => self.removed.put(element, &Fields::leaf()),
            (None, Some(new)) => {
                let mut added = Fields::added(&new, schema, around, field);
                added.is_member |= new.as_object().is_some_and(Map::is_empty);
                self.set.put(element, &added);
            }
            (Some(old), Some(new)) => {
                let below = compare_at(&old, &new, schema, around, field);
                self.set.put(element.clone(), &below.set);
                self.removed.put(element, &below.removed);
            }
        }
    }
}

/// Removes the members of `gone`; what holds something of `kept` stays.
pub(super) fn remove(value: &mut Value, gone: &Fields, kept: &Fields, schema: Schema) {
    remove_at(value, gone, kept, schema, ("", ""), &[]);
}

fn remove_at(
    value: &mut Value,
    gone: &Fields,
    kept: &Fields,
    schema: Schema,
    (around, field): (&str, &str),
    keys: &[&str],
) {
    let nothing = Fields::default();
    for (element, below) in &gone.below {
        let kept = kept.below.get(element).unwrap_or(&nothing);
        let goes = below.is_member && kept.is_empty();
        match value {
            Value::Object(map) => {
                let Some(name) = element.strip_prefix("f:") else { continue };
                let Some(child) = map.get_mut(name).filter(|_| !keys.contains(&name)) else { continue };
                if !goes {
                    remove_at(child, below, kept, schema, (field, name), &[]);
                }
                if goes || is_hollow(child) {
                    map.remove(name);
                }
            }
            Value::Array(items) => {
                let shape = schema.list(around, field);
                let Some(at) = find(items, shape, Some(element)) else { continue };
                if goes {
                    items.remove(at);
                } else {
                    let keys = if let ListShape::Keyed(keys) = shape { keys } else { &[] };
                    remove_at(&mut items[at], below, kept, schema, (around, field), keys);
                }
            }
            _ => {}
        }
    }
}

fn is_hollow(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}
