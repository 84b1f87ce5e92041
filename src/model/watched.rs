//! An object as a watch saw it.
//!
//! The same object on a thousand members differs in few fields. They are kept apart while the API server's text is read, so that the
//! rest can be compared as text: what was understood of one member's object is then known of the others'.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::api::FIELD_MANAGER;

/// An object that a watch saw.
#[derive(Clone, Debug)]
pub enum WatchedObject {
    /// One in a folder, as it is.
    Whole(Value),
    /// One on an API server.
    Split(SplitObject),
}

impl WatchedObject {
    /// Returns the object; of one on an API server, the managed fields of others are missing.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Whole(object) => object.clone(),
            Self::Split(object) => object.whole(),
        }
    }
}

/// An object on an API server, with what it has in common with that of the same manifest on other members as text.
#[derive(Clone, Debug, Default)]
pub struct SplitObject {
    /// The beginning of the text: the type, which lists leave out.
    type_text: Arc<str>,
    /// The other fields, with a comma before the first and between them, without those below and without the managed fields of others.
    fields: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.namespace`; empty where it has none.
    pub namespace: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.generation`, which is part of the text too: the status refers to it. 0 where its kind has none.
    pub generation: i64,
    /// `metadata.creationTimestamp`.
    created: Option<String>,
}

impl SplitObject {
    /// Returns the text of a type, as [`SplitObject::with_type`] takes it.
    pub fn type_text(api_version: &str, kind: &str) -> Arc<str> {
        format!(r#"{{"apiVersion":{},"kind":{}"#, Value::from(api_version), Value::from(kind)).into()
    }

    /// Gives the object its type.
    #[must_use]
    pub fn with_type(self, type_text: Arc<str>) -> Self {
        Self { type_text, ..self }
    }

    /// Returns the SHA-256 of the text: objects with the same one differ in nothing but uid, resource version, creation time and the
    /// managed fields of others.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::new().chain_update(&*self.type_text).chain_update(&self.fields).finalize().into()
    }

    /// Returns what it has in common with others: the object without uid, resource version and creation time.
    pub fn common(&self) -> Value {
        let read = serde_json::from_str(&format!("{}{}}}", self.type_text, self.fields));
        // Names and values come from a text that was read as JSON, and are nested no deeper here: only an error of ours could make
        // another text of them. An object without fields would be one that is unlike its manifest, and is applied again.
        debug_assert!(read.is_ok(), "{read:?}");
        read.unwrap_or_default()
    }

    /// Returns the object with the fields that are its own.
    pub fn whole(&self) -> Value {
        let mut object = self.common();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            let own = [
                ("uid", Some(&self.uid).filter(|uid| !uid.is_empty())),
                ("resourceVersion", Some(&self.resource_version).filter(|version| !version.is_empty())),
                ("creationTimestamp", self.created.as_ref()),
            ];
            metadata
                .extend(own.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?.clone().into()))));
        }
        object
    }

    /// Adds a field whose value is JSON already.
    fn add(&mut self, field: &str, json: &str) {
        self.begin(field);
        self.fields.push_str(json);
    }

    /// Adds a field's name; its value is added next.
    fn begin(&mut self, field: &str) {
        if !self.fields.ends_with('{') {
            self.fields.push(',');
        }
        self.fields.push_str(&Value::from(field).to_string());
        self.fields.push(':');
    }
}

impl<'de> Deserialize<'de> for SplitObject {
    /// Reads the object in one pass, from a text in memory.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

/// A field's name, which is not copied where it has no escaped characters.
#[derive(Deserialize)]
struct FieldName<'a>(#[serde(borrow)] Cow<'a, str>);

/// An entry of `metadata.managedFields`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManagedFields<'a> {
    #[serde(borrow, default)]
    manager: Cow<'a, str>,
    #[serde(borrow, default)]
    operation: Cow<'a, str>,
    #[serde(borrow, default)]
    fields_v1: Option<&'a RawValue>,
}

/// Reads the fields of an object.
struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = SplitObject;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SplitObject, A::Error> {
        let mut object = SplitObject::default();
        while let Some(FieldName(key)) = map.next_key()? {
            match &*key {
                "apiVersion" | "kind" => drop(map.next_value::<IgnoredAny>()?),
                "metadata" => map.next_value_seed(Metadata(&mut object))?,
                other => object.add(other, map.next_value::<&'de RawValue>()?.get()),
            }
        }
        Ok(object)
    }
}

/// Reads the fields of an object's metadata into it.
struct Metadata<'a>(&'a mut SplitObject);

impl<'de> DeserializeSeed<'de> for Metadata<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Metadata<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object's metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let object = self.0;
        object.begin("metadata");
        object.fields.push('{');
        while let Some(FieldName(key)) = map.next_key()? {
            match &*key {
                // These three differ from member to member, so the text that members share goes without them.
                "uid" => object.uid = text(&mut map)?,
                "resourceVersion" => object.resource_version = text(&mut map)?,
                "creationTimestamp" => object.created = map.next_value()?,
                "name" => {
                    object.name = text(&mut map)?;
                    object.add("name", &Value::from(object.name.as_str()).to_string());
                }
                "namespace" => {
                    object.namespace = text(&mut map)?;
                    object.add("namespace", &Value::from(object.namespace.as_str()).to_string());
                }
                "generation" => {
                    object.generation = map.next_value::<Option<i64>>()?.unwrap_or_default();
                    object.add("generation", &object.generation.to_string());
                }
                "managedFields" => {
                    if let Some(managers) = map.next_value::<Option<Vec<ManagedFields<'de>>>>()? {
                        object.add("managedFields", &ours(&managers));
                    }
                }
                other => object.add(other, map.next_value::<&'de RawValue>()?.get()),
            }
        }
        object.fields.push('}');
        Ok(())
    }
}

/// Reads a text; null is an empty one.
fn text<'de, A: MapAccess<'de>>(map: &mut A) -> Result<String, A::Error> {
    Ok(map.next_value::<Option<String>>()?.unwrap_or_default())
}

/// Returns the entries of what gitfleet applied, as JSON, without their times.
fn ours(managers: &[ManagedFields<'_>]) -> String {
    let ours = managers.iter().filter(|entry| entry.manager == FIELD_MANAGER && entry.operation == "Apply");
    let entries = ours.map(|entry| {
        let fields = entry.fields_v1.map_or("null", RawValue::get);
        format!(r#"{{"manager":"{FIELD_MANAGER}","operation":"Apply","fieldsV1":{fields}}}"#)
    });
    format!("[{}]", entries.collect::<Vec<String>>().join(","))
}

#[cfg(test)]
mod tests;
