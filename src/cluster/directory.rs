//! A member that is a folder of manifests, for pull-based agents and for running without any cluster.
//!
//! One file an object, replaced atomically, named `<kind>.<group>.<namespace>.<name>.yaml`; the inventory's parents are files
//! whose names start with a dot, so that agents that follow the folder pass them over.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use notify::event::ModifyKind;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use serde_json::Value;
use tokio::sync::mpsc;

use super::live::Inventory;
use super::{ApplyOptions, Deletion, Error, Observation, Target, WatchHandle, WatchedKind};
use crate::model::id::{ObjectId, ObjectKey};
use crate::yaml;

/// How long a folder must be quiet before it is looked at again.
const CHANGES_QUIET: Duration = Duration::from_millis(50);
/// How the name of an inventory file starts.
const INVENTORY_PREFIX: &str = ".inventory.";

/// A folder of manifests.
#[derive(Clone)]
pub struct Directory {
    cluster: String,
    path: PathBuf,
    inventory: Inventory,
}

impl Directory {
    /// Names a folder; it is created when something is written.
    pub fn new(cluster: &str, path: PathBuf, inventory: Inventory) -> Self {
        Self { cluster: cluster.to_owned(), path, inventory }
    }

    fn unreachable(&self, path: &Path, error: &std::io::Error) -> Error {
        Error::Unreachable { cluster: self.cluster.clone(), reason: format!("{}: {error}", path.display()) }
    }

    fn file(&self, id: &ObjectId) -> PathBuf {
        if id.namespace == self.inventory.namespace {
            return self.path.join(format!("{INVENTORY_PREFIX}{}.yaml", id.name));
        }
        self.path.join(file_name(&id.key()))
    }

    fn write(&self, id: &ObjectId, object: &Value) -> Result<(), Error> {
        let target = self.file(id);
        let text = yaml::to_string(object);
        let unreachable = |error: std::io::Error| self.unreachable(&target, &error);
        fs::create_dir_all(&self.path).map_err(unreachable)?;
        let mut name = target.file_name().expect("a file name was just joined").to_owned();
        name.push(".tmp");
        let temporary = self.path.join(Path::new(".").join(name)).with_extension("tmp");
        let written = fs::File::create(&temporary).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            fs::rename(&temporary, &target)
        });
        written.inspect_err(|_| drop(fs::remove_file(&temporary))).map_err(unreachable)
    }

    fn read(&self, path: &Path) -> Result<Option<Value>, Error> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.unreachable(path, &error)),
        };
        match yaml::parse_documents(&text).pop() {
            Some(Ok(document)) => Ok(Some(document.value)),
            Some(Err(error)) => Err(Error::Unreachable {
                cluster: self.cluster.clone(),
                reason: format!("{} is not one of our manifests: {error}; move it away", path.display()),
            }),
            None => Ok(None),
        }
    }

    /// Watches the folder; `news` gets a word when a file of the kind changed. One waiting word is enough for many changes.
    /// `gone` is raised when the folder itself went: a watch of it sees nothing any more.
    fn watcher(
        &self,
        kind: &WatchedKind,
        news: mpsc::Sender<()>,
        gone: Arc<AtomicBool>,
    ) -> notify::Result<RecommendedWatcher> {
        fs::create_dir_all(&self.path)?;
        let (prefix, folder) = (file_prefix(kind), self.path.canonicalize()?);
        let place = folder.clone();
        let handler = move |event: notify::Result<Event>| {
            let matters = event.map_or(true, |event| {
                let reads = matches!(event.kind, EventKind::Access(_));
                let went = matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)));
                if went && event.paths.contains(&folder) {
                    gone.store(true, Ordering::Relaxed);
                    return true;
                }
                event.need_rescan() || !reads && event.paths.iter().any(|path| is_named(path, &prefix))
            });
            if matters {
                // Full means that a word waits already; closed that nobody listens any more.
                let _ = news.try_send(());
            }
        };
        let mut watcher = notify::recommended_watcher(handler)?;
        watcher.watch(&place, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    }

    /// Returns the paths in the folder whose names start and end as asked, in order.
    fn paths(&self, keep: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, Error> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.unreachable(&self.path, &error)),
        };
        let mut paths = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| self.unreachable(&self.path, &error))?;
            if entry
                .file_name()
                .to_str()
                .is_some_and(|name| Path::new(name).extension().is_some_and(|e| e == "yaml") && keep(name))
            {
                paths.push(entry.path());
            }
        }
        paths.sort();
        Ok(paths)
    }

    fn list(&self, kind: &WatchedKind) -> Result<Vec<Value>, Error> {
        let prefix = file_prefix(kind);
        let mut objects = Vec::new();
        for path in self.paths(|name| name.starts_with(&prefix))? {
            if let Some(object) = self.read(&path)?
                && object.pointer("/metadata/labels").is_some_and(|l| l.get(self.inventory.part_of_label).is_some())
            {
                objects.push(with_uid(object));
            }
        }
        Ok(objects)
    }
}

/// Returns how the names of a kind's files start.
fn file_prefix(kind: &WatchedKind) -> String {
    format!("{}.{}.", kind.kind.to_lowercase(), kind.group)
}

fn is_named(path: &Path, prefix: &str) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_none_or(|name| name.starts_with(prefix))
}

/// Gives a file's object the uid that deleting it must name: a file is what its name says.
fn with_uid(mut object: Value) -> Value {
    if let Some(id) = ObjectId::of(&object) {
        object["metadata"]["uid"] = Value::from(file_name(&id.key()));
    }
    object
}

/// Returns the name of an object's file: `<kind>.<group>.<namespace>.<name>.yaml`, lower case; the parts never contain a slash.
pub fn file_name(key: &ObjectKey) -> String {
    format!("{}.{}.{}.{}.yaml", key.kind.to_lowercase(), key.group, key.namespace, key.name.replace(':', "_"))
}

#[async_trait]
impl Target for Directory {
    async fn connect(&self) -> Result<Option<String>, Error> {
        fs::create_dir_all(&self.path).map_err(|error| self.unreachable(&self.path, &error))?;
        Ok(None)
    }

    fn has_health(&self) -> bool {
        false
    }

    async fn parents(&self) -> Result<Vec<Value>, Error> {
        let paths = self.paths(|name| name.starts_with(INVENTORY_PREFIX))?;
        paths.iter().filter_map(|path| self.read(path).transpose()).collect()
    }

    async fn apply(&self, object: &Value, options: ApplyOptions) -> Result<Value, Error> {
        let id = ObjectId::of(object).expect("manifests are checked to be named objects");
        if options.dry_run {
            return Ok(with_uid(object.clone()));
        }
        self.write(&id, object)?;
        // Read back, so that an answer is what a later look sees: what YAML makes of a number is no drift.
        Ok(self.read(&self.file(&id))?.map_or_else(|| with_uid(object.clone()), with_uid))
    }

    async fn get(&self, id: &ObjectId) -> Result<Option<Value>, Error> {
        Ok(self.read(&self.file(id))?.map(with_uid))
    }

    async fn delete(&self, id: &ObjectId, uid: &str) -> Result<Deletion, Error> {
        if uid != file_name(&id.key()) {
            return Ok(Deletion::Gone);
        }
        let path = self.file(id);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(self.unreachable(&path, &error)),
            _ => Ok(Deletion::Gone),
        }
    }

    fn watch(&self, kind: &WatchedKind, _version: Option<&str>, sink: mpsc::Sender<Observation>) -> WatchHandle {
        WatchHandle(Some(tokio::spawn(follow(self.clone(), kind.clone(), sink))))
    }
}

/// Lists a kind, and lists it again whenever the folder changed: files have no events worth more than a new look.
///
/// Where the folder cannot be watched, such as at the limits of inotify, it is listed once and a change by hand is seen at the
/// next start.
async fn follow(directory: Directory, kind: WatchedKind, sink: mpsc::Sender<Observation>) {
    let (news, mut changes) = mpsc::channel(1);
    let gone = Arc::new(AtomicBool::default());
    let _watcher = directory.watcher(&kind, news, Arc::clone(&gone)).inspect_err(|error| {
        tracing::warn!(cluster = directory.cluster, %error, "the folder cannot be watched; changes by hand are seen at a start");
    });
    let mut before = None;
    loop {
        let listed = if gone.load(Ordering::Relaxed) {
            Err(directory.unreachable(&directory.path, &std::io::ErrorKind::NotFound.into()))
        } else {
            directory.list(&kind)
        };
        let failed = listed.is_err();
        let observations = match listed {
            Err(error) => vec![Observation::Failed(kind.clone(), error)],
            Ok(objects) if before.as_ref() == Some(&objects) => Vec::new(),
            Ok(objects) => {
                before = Some(objects.clone());
                std::iter::once(Observation::ListStarted(kind.clone()))
                    .chain(objects.into_iter().map(Observation::Listed))
                    .chain([Observation::ListDone(kind.clone())])
                    .collect()
            }
        };
        for observation in observations {
            if sink.send(observation).await.is_err() {
                return;
            }
        }
        if failed || changes.recv().await.is_none() {
            return;
        }
        // An editor empties a file before it fills it: what is read in between would count as a change of its own.
        while let Ok(Some(())) = tokio::time::timeout(CHANGES_QUIET, changes.recv()).await {}
    }
}
