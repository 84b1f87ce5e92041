//! A live object, reduced to the fields that decisions need.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::health::{self, HealthRules, ObjectHealth};
use super::inventory::{PART_OF_LABEL, SPEC_HASH};
use model::api::FIELD_MANAGER;
use model::encrypted::{DigestKey, is_of_encrypted};
use model::id::{Digest, ObjectId, ObjectKey};
use model::records::Availability;
use model::shared::{Pool, Pooled, Shared};
use model::watched::{SplitObject, WatchedObject};

mod known;
pub use known::KnownContents;

/// The stored state of an object with an ApplySet's label: what its members have in common, and what is its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveObject {
    content: Shared<PooledContent>,
    /// `metadata.uid`: deletions name it, so that they never hit a recreated object.
    pub uid: Uid,
    /// `metadata.resourceVersion`: an event with a lower version is stale and skipped. 0 for files.
    pub resource_version: u64,
    /// `metadata.generation`; 0 where its kind has none.
    generation: i64,
}

/// What an object has in common with those of the same manifest on other members: it is in memory once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LiveContent {
    /// Its identity, in the version it was watched in.
    pub id: ObjectId,
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

/// The content in the pool, with what follows from it and is made once for all members.
#[derive(Debug)]
struct PooledContent {
    content: LiveContent,
    key: OnceLock<Arc<ObjectKey>>,
}

impl From<LiveContent> for PooledContent {
    fn from(content: LiveContent) -> Self {
        Self { content, key: OnceLock::new() }
    }
}

impl PartialEq for PooledContent {
    fn eq(&self, other: &Self) -> bool {
        self.content == other.content
    }
}

impl Eq for PooledContent {}

impl Hash for PooledContent {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.content.hash(state);
    }
}

impl Pooled for PooledContent {
    fn pool() -> &'static Pool<Self> {
        static POOL: Pool<PooledContent> = Pool::new();
        &POOL
    }
}

impl Deref for LiveObject {
    type Target = LiveContent;

    fn deref(&self) -> &LiveContent {
        &self.content.content
    }
}

impl LiveObject {
    /// Creates the state of an object without a generation.
    pub fn new(content: LiveContent, uid: Uid, resource_version: u64) -> Self {
        Self { content: PooledContent::from(content).into(), uid, resource_version, generation: 0 }
    }

    /// Returns its identity, whatever version it was watched in: the one copy of it.
    pub fn key(&self) -> Arc<ObjectKey> {
        Arc::clone(self.content.key.get_or_init(|| self.id.key().shared()))
    }

    /// Returns `metadata.generation`; `None` where its kind has none.
    pub fn generation(&self) -> Option<i64> {
        Some(self.generation).filter(|generation| *generation != 0)
    }

    /// Changes the content; other holders of the same content keep theirs.
    pub fn change(&mut self, change: impl FnOnce(&mut LiveContent)) {
        let mut content = LiveContent::clone(self);
        change(&mut content);
        self.content = PooledContent::from(content).into();
    }

    /// Returns the object with another content.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut LiveContent)) -> Self {
        self.change(change);
        self
    }

    /// Reads an object that a watch saw, as [`LiveObject::read`]; what was read of the same text before is not read again.
    pub fn watched(object: &WatchedObject, rules: &HealthRules, known: &KnownContents) -> Option<Self> {
        match object {
            WatchedObject::Whole(object) => Self::read(object, rules),
            WatchedObject::Split(object) => Self::split(object, rules, known),
        }
    }

    fn split(object: &SplitObject, rules: &HealthRules, known: &KnownContents) -> Option<Self> {
        let digest = object.digest();
        let content = if let Some(content) = known.get(&digest) {
            content
        } else {
            let read = Self::read(&object.common(), rules)?;
            if rules.have(&read.id) {
                // An expression may ask for any field, so the content follows from the whole object.
                return Self::read(&object.whole(), rules);
            }
            known.insert(digest, &read.content);
            read.content
        };
        Some(Self {
            content,
            uid: object.uid.as_str().into(),
            resource_version: object.resource_version.parse().unwrap_or_default(),
            generation: object.generation,
        })
    }

    /// Reads a live object; `None` if it is not a named Kubernetes object. An object in the namespace of the inventories is
    /// never part of a placement, whatever label it carries: otherwise it would be pruned, and all inventories with it.
    pub fn read(object: &Value, rules: &HealthRules) -> Option<Self> {
        let id = ObjectId::of(object).filter(|id| !id.is_reserved())?;
        let metadata = object.get("metadata")?;
        let ObjectHealth { availability, why } = health::health(&id, object, rules);
        let content = LiveContent {
            applyset: metadata["labels"][PART_OF_LABEL].as_str().unwrap_or_default().into(),
            manifest: metadata["annotations"][SPEC_HASH].as_str().map(Digest::from),
            owned: owned_digest(object, &rules.digest_key),
            owner: foreign_owner(object).map(Arc::from),
            terminating: metadata.get("deletionTimestamp").is_some(),
            availability,
            unavailable_because: why,
            id,
        };
        Some(Self {
            uid: metadata["uid"].as_str().unwrap_or_default().into(),
            resource_version: metadata["resourceVersion"].as_str().unwrap_or_default().parse().unwrap_or_default(),
            generation: metadata.get("generation").and_then(Value::as_i64).unwrap_or_default(),
            content: PooledContent::from(content).into(),
        })
    }
}

/// The uid of an object. API servers give UUIDs, which are kept as the 16 bytes that they are; a folder gives names of files.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Uid {
    /// A UUID in lower case, as RFC 9562 writes it.
    Uuid([u8; 16]),
    /// Another text: members with the same object share it.
    Text(Shared<str>),
}

/// Where RFC 9562 has dashes in a UUID.
const UUID_DASHES: [usize; 4] = [8, 13, 18, 23];

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        uuid(text).map_or_else(|| Self::Text(Shared::new(text)), Self::Uuid)
    }
}

/// Returns the bytes of a UUID; `None` for a text that would not come back from them as it is.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let has_form = text.bytes().enumerate().all(|(at, byte)| match byte {
        b'-' => UUID_DASHES.contains(&at),
        b'0'..=b'9' | b'a'..=b'f' => !UUID_DASHES.contains(&at),
        _ => false,
    });
    if text.len() != 36 || !has_form {
        return None;
    }
    let number = u128::from_str_radix(&text.replace('-', ""), 16).ok()?;
    Some(number.to_be_bytes())
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Uuid(bytes) => {
                let digits = format!("{:032x}", u128::from_be_bytes(*bytes));
                let (a, rest) = digits.split_at(8);
                write!(f, "{a}-{}-{}-{}-{}", &rest[..4], &rest[4..8], &rest[8..12], &rest[12..])
            }
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// Returns the owner of an object by an owner reference, as `Kind name`: the controlling one, else the first. gitfleet sets
/// none.
pub fn foreign_owner(object: &Value) -> Option<String> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true).or(owners.first())?;
    let kind = owner["kind"].as_str().unwrap_or_default();
    let name = owner["name"].as_str().unwrap_or_default();
    Some(format!("{kind} {name}"))
}

/// Returns the digest of the fields that our field manager applied, with their live values.
///
/// An object without managed fields (a directory member's file) is owned as a whole. Of an object that is encrypted in the source the digest
/// needs a key: it is stored, and a plain one would tell whoever guesses a value that the guess is right.
///
/// Source: Kubernetes server-side apply, `FieldsV1`: `f:` field, `k:` list item by key, `v:` set member, `i:` index, `.` the
/// node itself. A change by another manager takes the field from us, so it also changes the set of paths.
fn owned_digest(object: &Value, key: &DigestKey) -> Digest {
    let mut text = Vec::new();
    let managed = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    match managed {
        None => write_json(object, &mut text),
        Some(entries) => {
            for entry in entries {
                // Server-side apply treats a manager's updates as a different owner than its applies.
                if entry["manager"] == FIELD_MANAGER
                    && entry["operation"] == "Apply"
                    && let Some(fields) = entry["fieldsV1"].as_object()
                {
                    write_fields(fields, Some(object), &mut text);
                }
            }
        }
    }
    let applied_from = object.pointer("/metadata/annotations").and_then(|all| all.get(SPEC_HASH)?.as_str());
    if applied_from.is_some_and(is_of_encrypted) {
        return key.member_digest(&text);
    }
    Digest::new(format!("{:x}", Sha256::digest(&text)))
}

/// Writes the paths of fields and their values, each so that no other text can stand for it.
fn write_fields(fields: &Map<String, Value>, value: Option<&Value>, text: &mut Vec<u8>) {
    for (path, below) in fields {
        text.extend_from_slice(path.as_bytes());
        if path == "." {
            text.push(u8::from(value.is_some()));
            continue;
        }
        let child = value.and_then(|v| child(v, path));
        match below.as_object() {
            Some(below) if !below.is_empty() => {
                text.push(b'{');
                write_fields(below, child, text);
                text.push(b'}');
            }
            _ => match child {
                Some(leaf) => write_json(leaf, text),
                None => text.push(0),
            },
        }
    }
}

fn write_json(value: &Value, text: &mut Vec<u8>) {
    // A buffer in memory refuses no byte, and the keys of a JSON value are texts.
    serde_json::to_writer(text, value).unwrap_or_default();
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
