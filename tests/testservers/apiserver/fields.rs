//! Sets of fields, as managed fields record them.
//!
//! Source: Kubernetes server-side apply, `FieldsV1`: `f:` a field, `k:` a list's item by its keys, `v:` an item of a set, `.` the
//! place itself.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::schema::{ListShape, Schema};

/// Fields that every object has and nobody owns.
const UNOWNED: [&str; 2] = ["f:apiVersion", "f:kind"];
const UNOWNED_METADATA: [&str; 2] = ["f:name", "f:namespace"];

/// A set of paths, as a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    /// The path to here is in the set.
    pub is_member: bool,
    /// What is below, by `f:`, `k:` or `v:`.
    pub below: BTreeMap<String, Fields>,
}

/// Who asks for the fields of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Somebody applied it: maps that only hold fields are not in the set.
    Applied,
    /// An update added it: they are.
    Added,
}

impl Fields {
    pub(super) fn leaf() -> Self {
        Self { is_member: true, below: BTreeMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.is_member && self.below.is_empty()
    }

    /// Returns the fields of an applied object.
    pub(super) fn applied(object: &Value, schema: Schema) -> Self {
        Self::of(object, schema, "", "", Way::Applied).owned()
    }

    /// Returns the fields of a part that an update adds.
    pub(super) fn added(value: &Value, schema: Schema, around: &str, field: &str) -> Self {
        Self::of(value, schema, around, field, Way::Added)
    }

    /// Takes out what nobody owns.
    pub(super) fn owned(mut self) -> Self {
        self.is_member = false;
        for name in UNOWNED {
            self.below.remove(name);
        }
        if let Some(metadata) = self.below.get_mut("f:metadata") {
            for name in UNOWNED_METADATA {
                metadata.below.remove(name);
            }
            if metadata.is_empty() {
                self.below.remove("f:metadata");
            }
        }
        self
    }

    fn of(value: &Value, schema: Schema, around: &str, field: &str, way: Way) -> Self {
        match value {
            Value::Object(map) if !schema.is_atomic(field) => {
                let mut fields = Self::default();
                for (name, value) in map {
                    let mut child = Self::of(value, schema, field, name, way);
                    child.is_member |= value.is_null() || value.as_object().is_some_and(Map::is_empty);
                    fields.put(format!("f:{name}"), &child);
                }
                fields.is_member = way == Way::Added && schema.is_map(field);
                fields
            }
            Value::Array(items) => match schema.list(around, field) {
                ListShape::Atomic => Self::leaf(),
                shape => {
                    let mut fields = Self::default();
                    for item in items {
                        let mut child = match item {
                            Value::Object(_) => Self::of(item, schema, around, field, way),
                            _ => Self::default(),
                        };
                        child.is_member = true;
                        fields.put(shape.element(item).unwrap_or_default(), &child);
                    }
                    fields
                }
            },
            _ => Self::leaf(),
        }
    }

    /// Adds what is below an element; nothing where that is empty.
    pub(super) fn put(&mut self, element: String, child: &Self) {
        if !child.is_empty() {
            self.below.entry(element).or_default().add(child);
        }
    }

    /// Adds the members of another set.
    pub(super) fn add(&mut self, other: &Self) {
        self.is_member |= other.is_member;
        for (element, child) in &other.below {
            self.below.entry(element.clone()).or_default().add(child);
        }
    }

    /// Returns the members that are not in another set.
    pub(super) fn minus(&self, other: &Self) -> Self {
        let mut rest = Self { is_member: self.is_member && !other.is_member, below: BTreeMap::new() };
        for (element, child) in &self.below {
            let left = other.below.get(element).map_or_else(|| child.clone(), |other| child.minus(other));
            rest.put(element.clone(), &left);
        }
        rest
    }

    /// Returns the members that are neither in another set nor below one of its members.
    pub(super) fn without(&self, gone: &Self) -> Self {
        let mut rest = Self { is_member: self.is_member, below: BTreeMap::new() };
        for (element, child) in &self.below {
            match gone.below.get(element) {
                Some(gone) if gone.is_member => {}
                Some(gone) => rest.put(element.clone(), &child.without(gone)),
                None => rest.put(element.clone(), child),
            }
        }
        rest
    }

    /// Returns the members of both sets.
    pub(super) fn common(&self, other: &Self) -> Self {
        let mut both = Self { is_member: self.is_member && other.is_member, below: BTreeMap::new() };
        for (element, child) in &self.below {
            if let Some(other) = other.below.get(element) {
                both.put(element.clone(), &child.common(other));
            }
        }
        both
    }

    /// Returns the members as messages name them: `.spec.containers[name="main"].image`.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect(&mut String::new(), &mut paths);
        paths
    }

    fn collect(&self, path: &mut String, paths: &mut Vec<String>) {
        if self.is_member {
            paths.push(path.clone());
        }
        for (element, child) in &self.below {
            let length = path.len();
            path.push_str(&spelled(element));
            child.collect(path, paths);
            path.truncate(length);
        }
    }

    /// Returns the set in the form of `fieldsV1`.
    pub(super) fn to_json(&self) -> Value {
        let mut map = Map::new();
        if self.is_member && !self.below.is_empty() {
            map.insert(".".to_owned(), json!({}));
        }
        map.extend(self.below.iter().map(|(element, child)| (element.clone(), child.to_json())));
        Value::Object(map)
    }

    /// Reads a set from the form of `fieldsV1`.
    pub(super) fn from_json(value: &Value) -> Self {
        let Some(map) = value.as_object() else { return Self::default() };
        let mut fields = Self { is_member: map.is_empty(), below: BTreeMap::new() };
        for (element, child) in map {
            if element == "." {
                fields.is_member = true;
            } else {
                fields.below.insert(element.clone(), Self::from_json(child));
            }
        }
        fields
    }
}

fn spelled(element: &str) -> String {
    match element.split_at_checked(2) {
        Some(("f:", name)) => format!(".{name}"),
        Some(("v:", value)) => format!("[={value}]"),
        Some(("k:", keys)) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("[{}]", keys.join(","))
        }
        _ => element.to_owned(),
    }
}
