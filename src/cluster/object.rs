//! An object of any kind, as API servers answer with it.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use model::watched::SplitObject;

/// An object of any kind as it came, read once. kube's `DynamicObject` reads metadata into a type of its own, and writes it again to
/// give the JSON back.
#[derive(Clone, Debug)]
pub(super) struct RawObject<T = Value> {
    /// The object.
    pub json: T,
    /// The fields that kube's watcher reads; the others are absent here.
    meta: ObjectMeta,
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Value::deserialize(deserializer)?;
        let text = |field: &str| json.get("metadata")?.get(field)?.as_str().map(str::to_owned);
        let meta = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        Ok(Self { json, meta })
    }
}

impl<'de> Deserialize<'de> for RawObject<SplitObject> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = SplitObject::deserialize(deserializer)?;
        let meta = ObjectMeta {
            name: unless_empty(&json.name),
            namespace: unless_empty(&json.namespace),
            resource_version: unless_empty(&json.resource_version),
            ..ObjectMeta::default()
        };
        Ok(Self { json, meta })
    }
}

fn unless_empty(field: &str) -> Option<String> {
    if field.is_empty() { None } else { Some(field.to_owned()) }
}

impl<T> Resource for RawObject<T> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}
