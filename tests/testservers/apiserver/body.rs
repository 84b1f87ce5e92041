//! Objects as they are kept: what is the same in every cluster once, what is a cluster's own in a few words.

use std::collections::HashSet;
use std::hash::Hash;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::kinds::Kind;
use super::manifest::{Manager, Manifest};

/// Entries of a pool before it is looked through for the first time for those that nobody uses.
const SWEEP_FIRST: usize = 4096;

/// A namespace and a name; the namespace is empty in kinds without.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Name {
    pub namespace: Box<str>,
    pub name: Box<str>,
}

impl Name {
    pub(super) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

/// A manifest as text, shared by all clusters that have it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Body {
    /// The fields of the metadata, without braces.
    metadata: Box<str>,
    /// The other fields, each with a comma before it.
    rest: Box<str>,
    /// The entries of the managed fields, without their times and closing braces.
    managers: Box<[Box<str>]>,
    pub labels: Box<[(Box<str>, Box<str>)]>,
    pub has_finalizers: bool,
}

impl Body {
    pub(super) fn of(manifest: &Manifest) -> Self {
        let content = &manifest.content;
        let opened = |value: &Value| -> Box<str> {
            let text = value.to_string();
            text[..text.len() - 1].into()
        };
        let fields = content.as_object().into_iter().flatten().filter(|(name, _)| *name != "metadata");
        let mut rest = Vec::new();
        fields.for_each(|(name, value)| push(&mut rest, format_args!(",{}:{value}", json!(name))));
        let rest = String::from_utf8(rest).expect("JSON is UTF-8");
        let labels = content.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
        let finalizers = content.pointer("/metadata/finalizers").and_then(Value::as_array);
        Self {
            metadata: opened(&content["metadata"])[1..].into(),
            rest: rest.into(),
            managers: manifest.managers.iter().map(|manager| opened(&manager.to_json())).collect(),
            labels: labels
                .map(|(name, value)| (name.as_str().into(), value.as_str().unwrap_or_default().into()))
                .collect(),
            has_finalizers: finalizers.is_some_and(|all| !all.is_empty()),
        }
    }

    pub(super) fn manifest(&self) -> Manifest {
        Manifest {
            content: self.content(),
            managers: self.managers.iter().map(|entry| Manager::read(&parsed(&format!("{entry}}}")))).collect(),
        }
    }

    pub(super) fn content(&self) -> Value {
        parsed(&format!("{{\"metadata\":{{{}}}{}}}", self.metadata, self.rest))
    }

    pub(super) fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| **label == *name).map(|(_, value)| &**value)
    }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("what was written as JSON is JSON")
}

/// When each entry of the managed fields was written, in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Times {
    One(u32),
    Many(Arc<[u32]>),
}

impl Times {
    pub(super) fn of(times: &[u32]) -> Self {
        match times {
            [] => Self::One(0),
            [one] => Self::One(*one),
            many => Self::Many(many.into()),
        }
    }

    pub(super) fn get(&self, position: usize) -> u32 {
        match self {
            Self::One(time) => *time,
            Self::Many(times) => times.get(position).copied().unwrap_or_default(),
        }
    }
}

/// An object of one cluster.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub body: Arc<Body>,
    pub uid: u64,
    pub version: u64,
    pub times: Times,
    pub generation: u32,
    pub created: u32,
    /// When its deletion was asked for; 0 where it was not.
    pub deleted: u32,
}

/// What is sent of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Whole,
    /// As a `PartialObjectMetadata`.
    Metadata,
}

/// Who renders objects: a kind in a version, of a cluster.
#[derive(Clone, Debug)]
pub(super) struct Pen {
    pub kind: Arc<Kind>,
    pub api_version: String,
    pub form: Form,
    /// The cluster's number, which is part of the uids.
    pub cluster: u32,
}

impl Pen {
    /// Returns the uid of an object.
    pub(super) fn uid(&self, uid: u64) -> String {
        format!("{:08x}-0000-4000-8000-{uid:012x}", self.cluster)
    }

    /// Writes an object. Items of lists of built-in kinds have no type.
    pub(super) fn write(&self, out: &mut Vec<u8>, object: &Object, is_item: bool) {
        let body = &object.body;
        out.push(b'{');
        if self.form == Form::Metadata {
            out.extend_from_slice(br#""kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","#);
        } else if !is_item || self.kind.is_custom {
            push(out, format_args!(r#""kind":"{}","apiVersion":"{}","#, self.kind.name, self.api_version));
        }
        push(out, format_args!(r#""metadata":{{{},"uid":"{}""#, body.metadata, self.uid(object.uid)));
        if object.version > 0 {
            push(out, format_args!(r#","resourceVersion":"{}""#, object.version));
        }
        if self.kind.has_generation {
            push(out, format_args!(r#","generation":{}"#, object.generation));
        }
        push(out, format_args!(r#","creationTimestamp":"{}""#, timestamp(object.created)));
        if object.deleted > 0 {
            let at = timestamp(object.deleted);
            push(out, format_args!(r#","deletionTimestamp":"{at}""#));
            if !self.kind.is_core("Namespace") {
                out.extend_from_slice(br#","deletionGracePeriodSeconds":0"#);
            }
        }
        for (position, entry) in body.managers.iter().enumerate() {
            out.extend_from_slice(if position == 0 { br#","managedFields":["# } else { b"," });
            push(out, format_args!(r#"{entry},"time":"{}"}}"#, timestamp(object.times.get(position))));
        }
        out.extend_from_slice(if body.managers.is_empty() { b"}" } else { b"]}" });
        if self.form == Form::Whole {
            out.extend_from_slice(body.rest.as_bytes());
        }
        out.push(b'}');
    }
}

pub(super) fn push(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a vector takes everything");
}

fn timestamp(seconds: u32) -> jiff::Timestamp {
    jiff::Timestamp::from_second(i64::from(seconds)).unwrap_or_default()
}

/// Values that are kept once.
#[derive(Debug)]
pub(super) struct Pool<T>(Mutex<Kept<T>>);

#[derive(Debug)]
struct Kept<T> {
    values: HashSet<Arc<T>>,
    sweep_at: usize,
}

impl<T: Eq + Hash> Default for Pool<T> {
    fn default() -> Self {
        Self(Mutex::new(Kept { values: HashSet::new(), sweep_at: SWEEP_FIRST }))
    }
}

impl<T: Eq + Hash> Pool<T> {
    /// Returns the value that is kept, or keeps this one.
    pub(super) fn keep(&self, value: T) -> Arc<T> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.values.get(&value) {
            return Arc::clone(known);
        }
        if kept.values.len() >= kept.sweep_at {
            kept.values.retain(|value| Arc::strong_count(value) > 1);
            kept.sweep_at = SWEEP_FIRST.max(kept.values.len() * 2);
        }
        let value = Arc::new(value);
        kept.values.insert(Arc::clone(&value));
        value
    }
}
