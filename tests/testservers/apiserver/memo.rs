//! Remembers what a write makes of an object: a thousand clusters ask for the same, and each answer is worked out once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::body::{Body, Name};
use super::kinds::Kind;
use super::manifest::Author;
use super::request::Verb;

/// Results that are remembered; then all are forgotten.
const REMEMBERED_MAX: usize = 20_000;

/// What a write makes of an object.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub body: Arc<Body>,
    /// For each entry of its managed fields the entry before whose time it keeps.
    pub kept_times: Box<[Option<usize>]>,
    /// Something other than metadata and status changed.
    pub is_generation: bool,
    pub named: Named,
}

/// The uid and the version that a request names.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub uid: Option<String>,
    pub version: Option<String>,
}

/// Everything that a result depends on; kinds and bodies are kept once, so their addresses name them.
#[derive(Debug)]
pub(super) struct Question {
    kind: Arc<Kind>,
    live: Option<Arc<Body>>,
    rest: (Verb, Author, bool, Name, Bytes),
}

impl Question {
    pub(super) fn new(kind: &Arc<Kind>, live: Option<&Arc<Body>>, rest: (Verb, Author, bool, Name, Bytes)) -> Self {
        Self { kind: Arc::clone(kind), live: live.cloned(), rest }
    }

    fn addresses(&self) -> (*const Kind, Option<*const Body>) {
        (Arc::as_ptr(&self.kind), self.live.as_ref().map(Arc::as_ptr))
    }
}

impl PartialEq for Question {
    fn eq(&self, other: &Self) -> bool {
        self.addresses() == other.addresses() && self.rest == other.rest
    }
}

impl Eq for Question {}

impl std::hash::Hash for Question {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.addresses().hash(state);
        self.rest.hash(state);
    }
}

/// The results.
#[derive(Debug, Default)]
pub(super) struct Memo(Mutex<HashMap<Question, Arc<Made>>>);

impl Memo {
    pub(super) fn get(&self, question: &Question) -> Option<Arc<Made>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(question).cloned()
    }

    pub(super) fn put(&self, question: Question, made: Made) -> Arc<Made> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        Arc::clone(known.entry(question).or_insert_with(|| Arc::new(made)))
    }
}
