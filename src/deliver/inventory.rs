//! The inventory: the objects that gitfleet put on a member, and hence may remove. One ApplySet per placement and member.
//!
//! Source: KEP-3659 (ApplySet): a parent object with `applyset.kubernetes.io/id`, a label on every part.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use model::api::RESERVED_NAMESPACE;
use model::api::annotations::{COMMIT, DIGEST, HELD, PAUSED, PLACED_BY, PLACEMENT, SNAPSHOT_INDEX, SOURCE};
use model::id::{CommitId, Digest, ObjectKey, PlacementKey};
use model::manifest::malformed_metadata;
use model::records::{Kept, Pause};
use model::shared::{Pool, Pooled};
use model::work::WorkOrder;

/// The namespace on members that holds the inventories.
pub const NAMESPACE: &str = RESERVED_NAMESPACE;
/// The label on a parent that holds its ApplySet's id.
pub const ID_LABEL: &str = "applyset.kubernetes.io/id";
/// The label on every part that names its ApplySet.
pub const PART_OF_LABEL: &str = "applyset.kubernetes.io/part-of";
/// The annotation on every part that holds the digest of its manifest, under KubeFleet's name.
pub const SPEC_HASH: &str = "kubernetes-fleet.io/spec-hash";
/// All annotations on a part that are ours. Those that say who placed it are for people at the member: nothing is decided by them,
/// and an object that lacks them gets them with its next apply.
pub const PART_ANNOTATIONS: &[&str] = &[SPEC_HASH, PLACED_BY, SOURCE];
/// The annotation on a parent that says who manages it.
const TOOLING: &str = "applyset.kubernetes.io/tooling";
/// The annotation on a parent that lists `Kind.group` of all parts.
const GROUP_KINDS: &str = "applyset.kubernetes.io/contains-group-kinds";
/// The annotation on a parent that lists the namespaces of its parts beside its own.
const NAMESPACES: &str = "applyset.kubernetes.io/additional-namespaces";

/// Returns the name of a placement's parent: `crp.<name>` or `rp.<namespace>.<name>`.
pub fn parent_name(placement: &PlacementKey) -> String {
    match &placement.namespace {
        None => format!("crp.{}", placement.name),
        // A namespace contains no dots, so the first dot after it ends it: no two placements share a name.
        Some(namespace) => format!("rp.{namespace}.{}", placement.name),
    }
}

/// Returns the id of a placement's ApplySet, which is also the value of the label on its parts.
///
/// Source: KEP-3659, `applyset-<base64(sha256(<name>.<namespace>.<kind>.<group>))>-v1`.
pub fn applyset_id(placement: &PlacementKey) -> String {
    // ConfigMaps are in the core group, whose name is empty: hence the last dot.
    let identity = format!("{}.{NAMESPACE}.ConfigMap.", parent_name(placement));
    format!("applyset-{}-v1", URL_SAFE_NO_PAD.encode(Sha256::digest(identity)))
}

/// The parent object of an inventory, present or desired.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Parent {
    /// Identity of the source that owns it.
    pub source: String,
    /// `None` if the annotation is missing or names no valid placement: the parent does not belong to gitfleet.
    pub placement: Option<PlacementKey>,
    /// `Kind` or `Kind.group` of all parts.
    pub group_kinds: BTreeSet<String>,
    /// Namespaces of all parts.
    pub namespaces: BTreeSet<String>,
    /// The snapshot that the member holds completely: index, commit and digest. `None` until the first one. Objects that were
    /// not taken over do not count: a lost store continues from here all the same.
    pub holds: Option<Held>,
    /// Decisions of people about the placement.
    pub kept: Kept,
}

/// The snapshot a member holds completely.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// The resource snapshot's index.
    pub index: u64,
    /// Its commit.
    pub commit: CommitId,
    /// Its hash.
    pub digest: Digest,
}

impl Pooled for Parent {
    fn pool() -> &'static Pool<Self> {
        static POOL: Pool<Parent> = Pool::new();
        &POOL
    }
}

impl Parent {
    /// Reads a parent from its ConfigMap.
    pub fn read(object: &Value) -> Self {
        let placement = annotation(object, PLACEMENT).and_then(|placement| placement.parse().ok());
        Self {
            source: annotation(object, SOURCE).unwrap_or_default().to_owned(),
            placement: placement.filter(PlacementKey::is_wellformed),
            group_kinds: list(object, GROUP_KINDS),
            namespaces: list(object, NAMESPACES),
            holds: held(object),
            kept: Kept {
                paused: annotation(object, PAUSED).map(read_pause),
                // A hold that cannot be read names no snapshot, so it cannot hold one.
                held: annotation(object, HELD).and_then(|held| serde_json::from_str(held).ok()),
            },
        }
    }

    /// Returns the kinds of parts that may be in a Namespace, or of a definition: those of its group.
    pub fn kinds_in(&self, container: &ObjectKey) -> impl Iterator<Item = &String> {
        let is_namespace = container.is_namespace();
        let is_there = is_namespace && self.namespaces.contains(&*container.name);
        let group = container.name.split_once('.').map(|(_, group)| group);
        self.group_kinds.iter().filter(move |kind| {
            let is_of_group = !is_namespace && kind.split_once('.').map(|(_, of)| of) == group;
            is_there || is_of_group
        })
    }

    /// Returns the complete ConfigMap of a placement's parent, for server-side apply.
    pub fn object(&self, placement: &PlacementKey) -> Value {
        let mut annotations = BTreeMap::from([
            (TOOLING, concat!("gitfleet/v", env!("CARGO_PKG_VERSION")).to_owned()),
            (GROUP_KINDS, joined(&self.group_kinds)),
            (NAMESPACES, joined(&self.namespaces)),
            (SOURCE, self.source.clone()),
            (PLACEMENT, placement.to_string()),
        ]);
        if let Some(held) = &self.holds {
            annotations.insert(SNAPSHOT_INDEX, held.index.to_string());
            annotations.insert(COMMIT, held.commit.to_string());
            annotations.insert(DIGEST, held.digest.to_string());
        }
        let Kept { paused, held } = &self.kept;
        annotations.extend(paused.as_ref().map(|paused| (PAUSED, json!(paused).to_string())));
        annotations.extend(held.as_ref().map(|held| (HELD, json!(held).to_string())));
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": parent_name(placement),
                "namespace": NAMESPACE,
                "labels": {ID_LABEL: applyset_id(placement)},
                "annotations": annotations,
            },
        })
    }

    /// Returns this parent widened to cover an order's manifests too. It is written before any apply, so that the inventory
    /// covers every part.
    #[must_use]
    pub fn widened(&self, order: &WorkOrder) -> Self {
        let mut wide = Self {
            source: order.source.name.clone(),
            placement: Some(order.placement.clone()),
            kept: order.kept.clone(),
            ..self.clone()
        };
        for desired in order.manifests.iter() {
            wide.group_kinds.insert(group_kind(&desired.id.group, &desired.id.kind));
            if !desired.id.namespace.is_empty() {
                wide.namespaces.insert(desired.id.namespace.clone());
            }
        }
        wide
    }
}

fn annotation<'o>(object: &'o Value, key: &str) -> Option<&'o str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

fn list(object: &Value, key: &str) -> BTreeSet<String> {
    let entries = annotation(object, key).unwrap_or_default().split(',');
    entries.filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}

fn joined(list: &BTreeSet<String>) -> String {
    list.iter().cloned().collect::<Vec<_>>().join(",")
}

/// Returns the snapshot that a parent says is held completely.
fn held(object: &Value) -> Option<Held> {
    Some(Held {
        index: annotation(object, SNAPSHOT_INDEX)?.parse().ok()?,
        commit: CommitId::from(annotation(object, COMMIT)?),
        digest: Digest::from(annotation(object, DIGEST)?),
    })
}

/// Reads a pause. An unreadable one still counts as a pause: somebody wanted that nothing starts.
fn read_pause(text: &str) -> Pause {
    serde_json::from_str(text).unwrap_or_else(|_| Pause {
        by: "an inventory whose annotation cannot be read".to_owned(),
        at: jiff::Timestamp::UNIX_EPOCH,
        reason: None,
    })
}

/// Returns `Kind` or `Kind.group`, as the annotation lists them.
pub fn group_kind(group: &str, kind: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") }
}

/// Returns a manifest in the form in which API servers keep it: for a Secret, `stringData` is merged over `data`.
///
/// Unmerged, gitfleet would own `stringData` and nobody `data`: drift would not be detected, and a key removed in git would
/// stay on the member. A Secret that an API server would refuse anyway stays as it is.
///
/// Source: Kubernetes API reference, Secret: `stringData` is write-only and overwrites `data`.
pub fn stored(object: &Value) -> Value {
    let mut object = object.clone();
    let is_secret = object["apiVersion"] == "v1" && object["kind"] == "Secret";
    if !is_secret {
        return object;
    }
    let Some(plain) = object.get("stringData").and_then(Value::as_object) else { return object };
    let encoded: Option<Vec<(String, Value)>> =
        plain.iter().map(|(key, text)| Some((key.clone(), Value::from(STANDARD.encode(text.as_str()?))))).collect();
    let Some(encoded) = encoded else { return object };
    // An API server reads `data: null` as an absent map.
    let data = object.get("data").filter(|data| !data.is_null()).cloned().unwrap_or_else(|| json!({}));
    let Value::Object(mut data) = data else { return object };
    data.extend(encoded);
    if let Some(fields) = object.as_object_mut() {
        fields.remove("stringData");
        fields.insert("data".to_owned(), Value::Object(data));
    }
    object
}

/// Returns the manifest as it is written to a member: with the ApplySet's label, the digest of the manifest, and who placed it.
///
/// # Errors
/// Its labels or annotations are no maps, as text for users: without the label the object would belong to no placement.
pub fn labelled(object: &Value, placement: &PlacementKey, source: &str, digest: &Digest) -> Result<Value, String> {
    if let Some((field, why)) = malformed_metadata(object) {
        return Err(format!("{field}: {why}"));
    }
    let mut object = stored(object);
    let metadata = &mut object["metadata"];
    // Indexing adds missing maps, and panics on other values, which were refused above.
    metadata["labels"][PART_OF_LABEL] = Value::from(applyset_id(placement));
    metadata["annotations"][SPEC_HASH] = Value::from(digest.as_str());
    metadata["annotations"][PLACED_BY] = Value::from(format!("{}/{placement}", placement.kind()));
    metadata["annotations"][SOURCE] = Value::from(source);
    Ok(object)
}

#[cfg(test)]
mod tests;
