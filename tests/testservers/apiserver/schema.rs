//! What the schemas of the built-in kinds say of lists and maps: which are merged by key, which are one value.
//!
//! Known by the names of a field and of the one around it, which is enough for the built-in kinds.
//!
//! Source: the extensions `x-kubernetes-list-type`, `-list-map-keys` and `-map-type` in the OpenAPI document of Kubernetes.

use serde_json::{Map, Value};

/// How a list is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListShape {
    /// As one value.
    Atomic,
    /// By value.
    Set,
    /// Items with the same values of these fields are the same.
    Keyed(&'static [&'static str]),
}

/// Lists that are merged: the field, the field around it (empty for any), how.
const LISTS: &[(&str, &str, ListShape)] = &[
    ("finalizers", "metadata", ListShape::Set),
    ("finalizers", "spec", ListShape::Set),
    ("ownerReferences", "metadata", ListShape::Keyed(&["uid"])),
    ("conditions", "status", ListShape::Keyed(&["type"])),
    ("ports", "spec", ListShape::Keyed(&["port", "protocol"])),
    ("ports", "containers", ListShape::Keyed(&["containerPort", "protocol"])),
    ("ports", "initContainers", ListShape::Keyed(&["containerPort", "protocol"])),
    ("containers", "spec", ListShape::Keyed(&["name"])),
    ("initContainers", "spec", ListShape::Keyed(&["name"])),
    ("ephemeralContainers", "spec", ListShape::Keyed(&["name"])),
    ("volumes", "spec", ListShape::Keyed(&["name"])),
    ("imagePullSecrets", "", ListShape::Keyed(&["name"])),
    ("hostAliases", "spec", ListShape::Keyed(&["ip"])),
    ("topologySpreadConstraints", "spec", ListShape::Keyed(&["topologyKey", "whenUnsatisfiable"])),
    ("schedulingGates", "spec", ListShape::Keyed(&["name"])),
    ("env", "", ListShape::Keyed(&["name"])),
    ("volumeMounts", "", ListShape::Keyed(&["mountPath"])),
    ("volumeDevices", "", ListShape::Keyed(&["devicePath"])),
    ("webhooks", "", ListShape::Keyed(&["name"])),
    ("matchConditions", "", ListShape::Keyed(&["name"])),
    ("secrets", "", ListShape::Keyed(&["name"])),
];

/// Maps that are one value.
const ATOMIC_MAPS: [&str; 11] = [
    "selector",
    "nodeSelector",
    "labelSelector",
    "namespaceSelector",
    "podSelector",
    "roleRef",
    "fieldRef",
    "configMapKeyRef",
    "secretKeyRef",
    "resourceFieldRef",
    "claimRef",
];

/// Fields that are parts of another and no maps: nobody owns them as such.
const STRUCTS: [&str; 5] = ["metadata", "spec", "status", "template", "strategy"];

/// The value of a key field that is not there.
const PROTOCOL: &str = "TCP";

/// The schema of a kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schema {
    /// Definitions say nothing here: below their metadata all lists are atomic.
    pub is_custom: bool,
}

impl Schema {
    /// Tells how a list in a field is merged; `around` is the name of the field around it.
    pub(super) fn list(self, around: &str, field: &str) -> ListShape {
        if self.is_custom && around != "metadata" {
            return ListShape::Atomic;
        }
        let known = LISTS.iter().find(|(name, place, _)| *name == field && (place.is_empty() || *place == around));
        known.map_or(ListShape::Atomic, |(_, _, shape)| *shape)
    }

    /// Tells whether a map in a field is one value.
    pub(super) fn is_atomic(self, field: &str) -> bool {
        !self.is_custom && ATOMIC_MAPS.contains(&field)
    }

    /// Tells whether an update that adds the map adds the map itself, beside what is in it.
    pub(super) fn is_map(self, field: &str) -> bool {
        self.is_custom || !STRUCTS.contains(&field)
    }
}

impl ListShape {
    /// Returns how managed fields name an item; `None` in atomic lists.
    pub(super) fn element(self, item: &Value) -> Option<String> {
        match self {
            Self::Atomic => None,
            Self::Set => Some(format!("v:{item}")),
            Self::Keyed(keys) => {
                let value = |key: &&str| match item.get(*key) {
                    Some(value) => value.clone(),
                    None if *key == "protocol" => PROTOCOL.into(),
                    None => Value::Null,
                };
                let keys: Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), value(key))).collect();
                Some(format!("k:{}", Value::Object(keys)))
            }
        }
    }
}
