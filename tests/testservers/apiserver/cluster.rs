//! One cluster: its objects, versions and watch history.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::answer::{Status, namespace_not_found, namespace_terminating};
use super::body::{Body, Name, Object, Pool, Times};
use super::kinds::{Kind, KindKey, built_in};
use super::manifest::Manifest;

/// Events of one kind that a cluster keeps for watches. A watch that is further behind is told so (410).
pub const HISTORY_EVENTS_MAX: usize = 1000;
/// The version of a cluster before anything is written: some below it are too old, as in a cluster that was compacted.
const FIRST_VERSION: u64 = 100;
/// Namespaces that every cluster has.
const FIRST_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happening {
    Added,
    Modified,
    Deleted,
}

/// One change of one object.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub happening: Happening,
    pub name: Arc<Name>,
    /// As it is after the change, or was before its deletion; its version is that of the change.
    pub object: Object,
    /// What it was before: a watch that selects by label needs to know.
    pub before: Option<Arc<Body>>,
}

/// The objects of one kind.
#[derive(Debug)]
pub(super) struct Table {
    pub kind: Arc<Kind>,
    pub objects: BTreeMap<Arc<Name>, Object>,
    pub history: VecDeque<Event>,
    /// Events up to this version are not known any more.
    pub forgotten: u64,
    /// Tells watches the version of the last event.
    pub news: watch::Sender<u64>,
}

/// What is behind a cluster's lock.
#[derive(Debug)]
pub(super) struct State {
    pub version: u64,
    pub uids: u64,
    pub custom: BTreeMap<KindKey, Arc<Kind>>,
    tables: BTreeMap<KindKey, Table>,
}

/// What all clusters share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub bodies: Pool<Body>,
    pub names: Pool<Name>,
}

/// A cluster.
#[derive(Debug)]
pub(super) struct Cluster {
    pub number: u32,
    state: Mutex<State>,
}

impl Cluster {
    /// Makes a cluster with the namespaces that every cluster has.
    pub(super) fn new(number: u32, shared: &Shared, now: u32) -> Self {
        let mut state = State { version: FIRST_VERSION, uids: 0, custom: BTreeMap::new(), tables: BTreeMap::new() };
        let namespaces = namespaces();
        for name in FIRST_NAMESPACES {
            let content = json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
            });
            let body = shared.bodies.keep(Body::of(&Manifest { content, managers: Vec::new() }));
            let object = state.new_object(body, Times::of(&[]), now);
            state.put(&namespaces, shared.names.keep(Name::new("", name)), object);
        }
        Self { number, state: Mutex::new(state) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the kind of namespaces.
pub(super) fn namespaces() -> Arc<Kind> {
    Arc::clone(&built_in()[&(String::new(), "namespaces".to_owned())])
}

impl State {
    /// Returns the table of a kind.
    pub(super) fn table(&mut self, kind: &Arc<Kind>) -> &mut Table {
        let version = self.version;
        self.tables.entry(kind.key()).or_insert_with(|| Table {
            kind: Arc::clone(kind),
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            forgotten: version,
            news: watch::Sender::new(version),
        })
    }

    pub(super) fn objects(&self) -> usize {
        self.tables.values().map(|table| table.objects.len()).sum()
    }

    /// Forgets all events, as a server does that starts again.
    pub(super) fn forget(&mut self) {
        for table in self.tables.values_mut() {
            table.history.clear();
            table.forgotten = self.version;
        }
    }

    /// Makes an object of a version and a uid of its own.
    pub(super) fn new_object(&mut self, body: Arc<Body>, times: Times, now: u32) -> Object {
        self.uids += 1;
        Object { body, uid: self.uids, version: 0, times, generation: 1, created: now, deleted: 0 }
    }

    /// Writes an object in a new version; returns it.
    pub(super) fn put(&mut self, kind: &Arc<Kind>, name: Arc<Name>, mut object: Object) -> Object {
        self.version += 1;
        object.version = self.version;
        let table = self.table(kind);
        let before = table.objects.insert(Arc::clone(&name), object.clone());
        let happening = if before.is_some() { Happening::Modified } else { Happening::Added };
        table.note(Event { happening, name, object: object.clone(), before: before.map(|object| object.body) });
        if kind.is_definition()
            && let Some(defined) = Kind::defined(&object.body.content())
        {
            self.custom.insert(defined.key(), Arc::new(defined));
        }
        object
    }

    /// Removes an object, and what goes with it; returns it in the version of its end.
    pub(super) fn remove(&mut self, kind: &Arc<Kind>, name: &Name) -> Option<Object> {
        let (name, mut object) = self.table(kind).objects.remove_entry(name)?;
        self.version += 1;
        object.version = self.version;
        let before = Some(Arc::clone(&object.body));
        let event = Event { happening: Happening::Deleted, name: Arc::clone(&name), object: object.clone(), before };
        self.table(kind).note(event);
        if kind.is_definition() {
            self.undefine(&object.body.content());
        }
        if kind.is_namespaced {
            self.end_namespace(&name.namespace);
        }
        Some(object)
    }

    /// Marks an object as being deleted; returns it.
    pub(super) fn mark(&mut self, kind: &Arc<Kind>, name: &Arc<Name>, now: u32) -> Option<Object> {
        let mut object = self.table(kind).objects.get(name)?.clone();
        if object.deleted > 0 {
            return Some(object);
        }
        object.deleted = now.max(1);
        Some(self.put(kind, Arc::clone(name), object))
    }

    /// Deletes a namespace's content, as its controller does, and the namespace once nothing is left in it.
    pub(super) fn empty_namespace(&mut self, namespace: &str, now: u32) {
        let content: Vec<(Arc<Kind>, Arc<Name>, bool)> = self
            .tables
            .values()
            .filter(|table| table.kind.is_namespaced)
            .flat_map(|table| table.objects.iter().map(|(name, object)| (&table.kind, name, object)))
            .filter(|(_, name, _)| *name.namespace == *namespace)
            .map(|(kind, name, object)| (Arc::clone(kind), Arc::clone(name), object.body.has_finalizers))
            .collect();
        for (kind, name, is_held) in content {
            if is_held {
                self.mark(&kind, &name, now);
            } else {
                self.remove(&kind, &name);
            }
        }
        self.end_namespace(namespace);
    }

    /// Removes a namespace that is being deleted and empty.
    fn end_namespace(&mut self, namespace: &str) {
        let (namespaces, name) = (namespaces(), Name::new("", namespace));
        let is_ending = self.table(&namespaces).objects.get(&name).is_some_and(|found| found.deleted > 0);
        let is_in = |table: &Table| {
            let mut from = table.objects.range::<Name, _>(Name::new(namespace, "")..);
            from.next().is_some_and(|(name, _)| *name.namespace == *namespace)
        };
        if is_ending && !self.tables.values().any(is_in) {
            self.remove(&namespaces, &name);
        }
    }

    /// Forgets a kind with its objects.
    fn undefine(&mut self, definition: &Value) {
        let Some(kind) = Kind::defined(definition).and_then(|kind| self.custom.remove(&kind.key())) else { return };
        let names: Vec<Arc<Name>> = self.table(&kind).objects.keys().cloned().collect();
        for name in names {
            self.remove(&kind, &name);
        }
        self.tables.remove(&kind.key());
    }

    /// Checks that an object may be created in its namespace.
    pub(super) fn check_namespace(&mut self, kind: &Kind, name: &Name) -> Result<(), Status> {
        if !kind.is_namespaced {
            return Ok(());
        }
        match self.table(&namespaces()).objects.get(&Name::new("", &name.namespace)) {
            None => Err(namespace_not_found(&name.namespace)),
            Some(found) if found.deleted > 0 => Err(namespace_terminating(kind, &name.name, &name.namespace)),
            Some(_) => Ok(()),
        }
    }
}

impl Table {
    fn note(&mut self, event: Event) {
        if self.history.len() == HISTORY_EVENTS_MAX {
            let oldest = self.history.pop_front();
            self.forgotten = oldest.map_or(self.forgotten, |event| event.object.version);
        }
        let version = event.object.version;
        self.history.push_back(event);
        self.news.send_replace(version);
    }
}
