//! A member that is a folder of manifests, for pull-based agents and for running without any cluster.
//!
//! One file per object, replaced atomically; the inventory's parents are files whose names start with a dot, so that agents
//! that follow the folder skip them. `names` maps objects to file names, `folder` keeps all access inside the folder.

mod folder;
pub mod names;
#[cfg(test)]
mod tests;

use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use notify::event::ModifyKind;
use notify::{Event, EventKind, RecursiveMode};
use serde_json::Value;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit, mpsc};

use self::folder::Folder;
use self::names::{FileName, first_name, kind_prefix};
use super::live::Inventory;
use super::{ApplyOptions, Deletion, Error, Observation, Target, WatchHandle, WatchedKind};
use crate::model::id::{ObjectId, ObjectKey};
use crate::model::kinds;
use crate::model::work::Release;
use crate::watch::{self, Watching};
use crate::yaml;

/// How long a folder must be quiet before it is read again.
const CHANGES_QUIET: Duration = Duration::from_millis(50);
/// Files that are written at once, in all folders together: each waits for the disk on a thread of its own.
const WRITES_IN_FLIGHT_MAX: usize = 16;

static WRITES: Semaphore = Semaphore::const_new(WRITES_IN_FLIGHT_MAX);

/// Lists that are read at once, in all folders together: an object of a list takes kilobytes until its member has taken it in.
const LISTS_IN_FLIGHT_MAX: usize = 8;

/// Objects of a list that are read before they are sent.
const LISTED_MAX: usize = 32;

static LISTS: Semaphore = Semaphore::const_new(LISTS_IN_FLIGHT_MAX);

/// A folder of manifests.
#[derive(Clone)]
pub struct Directory {
    cluster: Arc<str>,
    path: Arc<Path>,
    inventory: Inventory,
    synced: Arc<Synced>,
}

/// Which changes of names are on the disk.
#[derive(Default)]
struct Synced {
    /// Changes that were made so far.
    made: AtomicU64,
    /// Changes that are on the disk; whoever holds the lock waits for the disk, for all who made one before.
    kept: Mutex<u64>,
}

/// Why a file could not be written or removed.
enum FileFailure {
    /// It concerns the folder, and so the member.
    Folder(io::Error),
    /// It concerns this file alone; for people.
    File(String),
}

impl From<io::Error> for FileFailure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::IsADirectory => Self::File("a folder is in the place of its file; move it away".to_owned()),
            _ => Self::Folder(error),
        }
    }
}

impl Directory {
    /// Names a folder; it is created when something is written.
    pub fn new(cluster: &str, path: PathBuf, inventory: Inventory) -> Self {
        Self { cluster: cluster.into(), path: path.into(), inventory, synced: Arc::default() }
    }

    fn unreachable(&self, path: &Path, error: &io::Error) -> Error {
        Error::Unreachable { cluster: self.cluster.to_string(), reason: format!("{}: {error}", path.display()) }
    }

    /// Returns the name of an object's file.
    fn name(&self, key: &ObjectKey) -> FileName {
        // That namespace is reserved, so no ConfigMap of a placement is ever written there.
        let is_inventory = key.namespace == self.inventory.namespace && key.kind == "ConfigMap" && key.group.is_empty();
        if is_inventory { FileName::of_inventory(&key.name) } else { FileName::of(key) }
    }

    /// Opens the folder; `None` where it is not there.
    fn open(&self) -> Result<Option<Folder>, Error> {
        match Folder::open(&self.path) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.unreachable(&self.path, &error)),
        }
    }

    fn read(&self, folder: &Folder, name: &FileName) -> Result<Option<Value>, Error> {
        let path = || self.path.join(name.as_str());
        let text = folder.read(name).map_err(|error| self.unreachable(&path(), &error))?;
        match text.as_deref().and_then(|text| yaml::parse_documents(text).pop()) {
            Some(Ok(document)) => Ok(Some(document.value)),
            Some(Err(error)) => Err(Error::Unanswered {
                object: path().display().to_string(),
                reason: format!("is not one of our manifests: {error}; move it away"),
            }),
            None => Ok(None),
        }
    }

    /// Reads the file of an object; another object in its place is not it.
    fn read_object(&self, key: &ObjectKey) -> Result<Option<Value>, Error> {
        let Some(folder) = self.open()? else { return Ok(None) };
        let object = self.read(&folder, &self.name(key))?;
        Ok(object.filter(|object| key_of(object).as_ref() == Some(key)))
    }

    /// Makes a change of a file and waits until it is on the disk.
    async fn change(
        &self,
        permit: SemaphorePermit<'_>,
        id: &ObjectId,
        change: impl FnOnce(&Folder, &FileName) -> Result<(), FileFailure> + Send + 'static,
    ) -> Result<(), Error> {
        let (path, name) = (Arc::clone(&self.path), self.name(&id.key()));
        let file = self.path.join(name.as_str());
        blocking(move || change(&Folder::create(&path)?, &name)).await.map_err(|failure| match failure {
            FileFailure::Folder(error) => self.unreachable(&file, &error),
            FileFailure::File(reason) => Error::File { object: id.to_string(), reason },
        })?;
        // Given back before the wait: otherwise no more than may write at once could share one look at the disk.
        drop(permit);
        self.sync().await.map_err(|error| self.unreachable(&self.path, &error))
    }

    /// Waits for the turn to change a file.
    async fn turn() -> SemaphorePermit<'static> {
        WRITES.acquire().await.expect("the semaphore is never closed")
    }

    /// Waits until the changes so far are on the disk. Many wait for one look at the disk.
    async fn sync(&self) -> io::Result<()> {
        let own = self.synced.made.fetch_add(1, Ordering::Relaxed) + 1;
        let mut kept = self.synced.kept.lock().await;
        if *kept >= own {
            return Ok(());
        }
        // Numbers are taken after the change is made: what has one by now is kept by the look that follows.
        let made = self.synced.made.load(Ordering::Relaxed);
        let path = Arc::clone(&self.path);
        blocking(move || Folder::create(&path)?.sync()).await?;
        *kept = made;
        Ok(())
    }

    /// Watches the folder; `news` gets a message when a file of the kind changed. One waiting message covers many changes.
    /// `gone` is set when the folder itself was removed: its watch sees nothing any more.
    fn watcher(&self, kind: &WatchedKind, news: mpsc::Sender<()>, gone: Arc<AtomicBool>) -> notify::Result<Watching> {
        Folder::create(&self.path)?;
        let (prefix, folder) = (kind_prefix(kind), self.path.canonicalize()?);
        let place = folder.clone();
        let handler = move |event: &notify::Result<Event>| {
            let matters = event.as_ref().map_or(true, |event| {
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
        watch::watch(&[(place, RecursiveMode::NonRecursive)], handler)
    }

    /// Passes the objects of a kind that carry the label to `found`, each once, one file at a time, until it returns false. A file
    /// is one of gitfleet by its label and its name together: a copy under a name of somebody's choice is not.
    fn list(&self, kind: &WatchedKind, mut found: impl FnMut(Value) -> bool) -> Result<(), Error> {
        let Some(folder) = self.open()? else { return Ok(()) };
        let unreachable = |error: io::Error| self.unreachable(&self.path, &error);
        let names = folder.names().map_err(unreachable)?;
        let mut is_renamed = false;
        for name in names.iter().filter(|name| name.is_of_kind(kind)) {
            let Some(object) = self.read(&folder, name)? else { continue };
            let labels = object.pointer("/metadata/labels");
            let Some(key) = key_of(&object).filter(|key| key.group == kind.group && key.kind == kind.kind) else {
                continue;
            };
            if labels.is_none_or(|labels| labels.get(self.inventory.part_of_label).is_none()) {
                continue;
            }
            let own = self.name(&key);
            if *name != own {
                if name.as_str() != first_name(&key) {
                    continue;
                }
                folder.rename(name, &own).map_err(unreachable)?;
                is_renamed = true;
                // After a crash in the middle of a change of names the same object has two files: the other one is passed on.
                if names.binary_search(&own).is_ok() {
                    continue;
                }
            }
            if !found(with_uid(object)) {
                break;
            }
        }
        if is_renamed {
            folder.sync().map_err(unreachable)?;
        }
        Ok(())
    }

    /// Sends a list, object by object; a thread that may wait for the disk reads it.
    async fn send_list(&self, kind: &WatchedKind, sink: &mpsc::Sender<Observation>) -> Result<(), Error> {
        let _turn = LISTS.acquire().await.expect("the semaphore is never closed");
        let (read, mut objects) = mpsc::channel(LISTED_MAX);
        let (directory, listed) = (self.clone(), kind.clone());
        let listing =
            tokio::task::spawn_blocking(move || directory.list(&listed, |object| read.blocking_send(object).is_ok()));
        // An error means that nobody listens any more: the thread ends when `objects` is dropped.
        if sink.send(Observation::ListStarted(kind.clone())).await.is_ok() {
            while let Some(object) = objects.recv().await {
                if sink.send(Observation::Listed(object)).await.is_err() {
                    break;
                }
            }
        }
        drop(objects);
        listing.await.unwrap_or_else(|panic| resume_unwind(panic.into_panic()))
    }
}

/// Runs what waits for the disk on a thread that may wait.
async fn blocking<T: Send + 'static, E: From<io::Error> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error).into()))
}

fn key_of(object: &Value) -> Option<ObjectKey> {
    Some(ObjectId::of(object)?.key())
}

fn is_named(path: &Path, prefix: &str) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_none_or(|name| name.starts_with(prefix))
}

/// Sets the uid that deletions of a file's object must name: it depends on the file's content.
fn with_uid(mut object: Value) -> Value {
    if let Some(key) = key_of(&object) {
        object["metadata"]["uid"] = Value::from(first_name(&key));
    }
    object
}

/// Writes an object's file, unless another object has that name by right.
fn write(folder: &Folder, name: &FileName, key: &ObjectKey, text: &str) -> Result<(), FileFailure> {
    // No other spelling of a built-in kind is accepted by `api::identity`. What cannot be read has no right to the name.
    let is_known = kinds::lookup(&key.group, &key.kind).is_some();
    let there = if is_known { None } else { folder.read(name).ok().flatten() };
    let there = there.and_then(|text| key_of(&yaml::parse_documents(&text).pop()?.ok()?.value));
    if let Some(other) = there.filter(|other| other != key && FileName::of(other) == *name) {
        return Err(FileFailure::File(format!(
            "its file {} holds {other}, whose kind differs in capital letters only; rename one of the two kinds",
            name.as_str()
        )));
    }
    Ok(folder.replace(name, text)?)
}

/// Removes an object's file; another object in its place is not it.
fn remove(folder: &Folder, name: &FileName, key: &ObjectKey) -> Result<(), FileFailure> {
    let Some(text) = folder.read(name)? else { return Ok(()) };
    match yaml::parse_documents(&text).pop() {
        Some(Ok(document)) if key_of(&document.value).as_ref() == Some(key) => Ok(folder.remove(name)?),
        Some(Err(error)) => {
            let reason = format!("{} is not one of our manifests: {error}; move it away", name.as_str());
            Err(FileFailure::File(reason))
        }
        _ => Ok(()),
    }
}

#[async_trait]
impl Target for Directory {
    async fn connect(&self) -> Result<Option<String>, Error> {
        let tidied = Folder::create(&self.path).and_then(|folder| {
            let names = folder.names()?;
            names.iter().filter(|name| name.is_temporary()).try_for_each(|name| folder.remove(name))
        });
        tidied.map_err(|error| self.unreachable(&self.path, &error))?;
        Ok(None)
    }

    fn has_health(&self) -> bool {
        false
    }

    async fn parents(&self) -> Result<Vec<Value>, Error> {
        let Some(folder) = self.open()? else { return Ok(Vec::new()) };
        let names = folder.names().map_err(|error| self.unreachable(&self.path, &error))?;
        let inventories = names.iter().filter(|name| name.is_inventory());
        let read = |name: &FileName| match self.read(&folder, name) {
            // A copy under another name is nobody's inventory.
            Ok(parent) => parent.filter(|parent| key_of(parent).is_some_and(|key| self.name(&key) == *name)).map(Ok),
            Err(error) => Some(Err(error)),
        };
        inventories.filter_map(read).collect()
    }

    async fn apply(&self, object: &Value, options: ApplyOptions) -> Result<Value, Error> {
        let id = ObjectId::of(object).expect("manifests are checked to be named objects");
        if options.dry_run {
            // Nothing fills in defaults here: what would be written is the whole answer.
            return Ok(with_uid(object.clone()));
        }
        // First: the texts of many waiting objects would take much memory.
        let permit = Self::turn().await;
        let text = yaml::to_string(object);
        // Read again, so that an answer is what a later look sees: what YAML makes of a number is no drift.
        let answer = match yaml::parse_documents(&text).pop() {
            Some(Ok(document)) => document.value,
            _ => object.clone(),
        };
        let key = id.key();
        self.change(permit, &id, move |folder, name| write(folder, name, &key, &text)).await?;
        Ok(with_uid(answer))
    }

    async fn get(&self, id: &ObjectId) -> Result<Option<Value>, Error> {
        Ok(self.read_object(&id.key())?.map(with_uid))
    }

    async fn delete(&self, id: &ObjectId, uid: &str) -> Result<Deletion, Error> {
        let key = id.key();
        // A folder that is not there holds nothing, and a deletion must not make it.
        if uid == first_name(&key) && self.open()?.is_some() {
            self.change(Self::turn().await, id, move |folder, name| remove(folder, name, &key)).await?;
        }
        Ok(Deletion::Gone)
    }

    async fn release(&self, id: &ObjectId, uid: &str, _release: Release) -> Result<(), Error> {
        let key = id.key();
        let Some(mut object) = self.read_object(&key)?.filter(|_| uid == first_name(&key)) else { return Ok(()) };
        let metadata = &mut object["metadata"];
        let annotations = self.inventory.part_annotations.iter().map(|name| ("annotations", *name));
        for (map, name) in std::iter::once(("labels", self.inventory.part_of_label)).chain(annotations) {
            if let Some(entries) = metadata[map].as_object_mut() {
                entries.remove(name);
            }
        }
        let text = yaml::to_string(&object);
        self.change(Self::turn().await, id, move |folder, name| write(folder, name, &key, &text)).await
    }

    fn watch(&self, kind: &WatchedKind, _version: Option<&str>, sink: mpsc::Sender<Observation>) -> WatchHandle {
        WatchHandle::start(sink.clone(), Observation::panicked, follow(self.clone(), kind.clone(), sink))
    }
}

/// Lists a kind, and lists it again whenever the folder changed: file events are less reliable than a new list. An object that
/// was written and removed again between two lists would be missed, so it is reported separately.
///
/// Where the folder cannot be watched, such as at the limits of inotify, it is listed once and a change by hand is seen at the
/// next start.
async fn follow(directory: Directory, kind: WatchedKind, sink: mpsc::Sender<Observation>) {
    let (news, mut changes) = mpsc::channel(1);
    let gone = Arc::new(AtomicBool::default());
    let watcher = directory.watcher(&kind, news, Arc::clone(&gone));
    if let Err(error) = &watcher {
        tracing::warn!(cluster = &*directory.cluster, %error, "the folder cannot be watched; changes by hand are seen at a start");
        if sink.send(Observation::Unwatched(error.to_string())).await.is_err() {
            return;
        }
    }
    loop {
        let listed = if gone.load(Ordering::Relaxed) {
            Err(directory.unreachable(&directory.path, &io::ErrorKind::NotFound.into()))
        } else {
            directory.send_list(&kind, &sink).await
        };
        let failed = listed.as_ref().is_err_and(Error::is_offline);
        let end = listed
            .map_or_else(|error| Observation::Failed(kind.clone(), error), |()| Observation::ListDone(kind.clone()));
        if sink.send(end).await.is_err() {
            return;
        }
        // Offline: the member's task connects again and begins its watches again.
        if failed || changes.recv().await.is_none() {
            return;
        }
        // An editor empties a file before it fills it: what is read in between would count as a change of its own.
        while let Ok(Some(())) = tokio::time::timeout(CHANGES_QUIET, changes.recv()).await {}
    }
}
