//! A member that is a folder of manifests, for pull-based agents and for running without any cluster.
//!
//! One file per object, replaced atomically; the inventory's parents are files whose names start with a dot, so that agents
//! that follow the folder skip them. `names` maps objects to file names, `folder` keeps all access inside the folder, `disk` waits
//! for the disk, `changes` notices what others change.

mod changes;
mod disk;
mod folder;
pub mod names;
mod own;
#[cfg(test)]
mod tests;
mod threads;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};

use self::disk::Disk;
use self::folder::Folder;
use self::names::{FileName, first_name};
use self::own::OwnChanges;
use super::live::Inventory;
use super::{ApplyOptions, Deletion, Error, Observation, Target, WatchHandle, WatchedKind};
use crate::directory::threads::blocking;
use model::id::{ObjectId, ObjectKey};
use model::kinds;
use model::work::Release;
use model::yaml;

/// Changes of files under way at once, in all folders together: they wait for the disk together.
const CHANGES_IN_FLIGHT_MAX: usize = 256;

static CHANGES: Semaphore = Semaphore::const_new(CHANGES_IN_FLIGHT_MAX);

/// Changes of names under way at once, in all folders together, on as many threads.
const THREADS_MAX: usize = 8;

static THREADS: Semaphore = Semaphore::const_new(THREADS_MAX);

/// A folder of manifests.
#[derive(Clone)]
pub struct Directory {
    cluster: Arc<str>,
    path: Arc<Path>,
    inventory: Inventory,
    own: Arc<OwnChanges>,
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
        Self { cluster: cluster.into(), path: path.into(), inventory, own: Arc::default() }
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

    /// Writes an object's file, and waits until it is on the disk. `is_part`: it carries the label, so a watch sees the change.
    async fn write(&self, id: &ObjectId, text: String, is_part: bool) -> Result<(), Error> {
        let key = id.key();
        let path = Arc::clone(&self.path);
        let name = self.name(&key);
        let own = Arc::clone(&self.own);
        let file = self.path.join(name.as_str());
        let written = async {
            let (folder, content, text) = on_thread({
                let name = name.clone();
                move || {
                    let folder = Folder::create(&path)?;
                    refuse_another(&folder, &name, &key)?;
                    let content = folder.write(&name, &text)?;
                    Ok((folder, content, text))
                }
            })
            .await?;
            let disk = Disk::of(&folder)?;
            // Before it gets its name: after a power cut the name must not lead to an empty file.
            Arc::clone(&disk).sync(content).await?;
            let folder = on_thread(move || {
                if is_part {
                    own.note(&name, Some(&text));
                }
                folder.replace(&name)?;
                Ok(folder)
            });
            Ok(disk.sync(folder.await?.into_file()).await?)
        };
        written.await.map_err(|failure| self.failed(id, &file, failure))
    }

    /// Removes an object's file, and waits until that is on the disk.
    async fn remove(&self, id: &ObjectId) -> Result<(), Error> {
        let key = id.key();
        let path = Arc::clone(&self.path);
        let name = self.name(&key);
        let own = Arc::clone(&self.own);
        let file = self.path.join(name.as_str());
        let removed = async {
            let folder = on_thread(move || {
                let folder = Folder::create(&path)?;
                remove(&folder, &name, &key, &own)?;
                Ok(folder)
            });
            let folder = folder.await?;
            Ok(Disk::of(&folder)?.sync(folder.into_file()).await?)
        };
        removed.await.map_err(|failure| self.failed(id, &file, failure))
    }

    fn failed(&self, id: &ObjectId, file: &Path, failure: FileFailure) -> Error {
        match failure {
            FileFailure::Folder(error) => self.unreachable(file, &error),
            FileFailure::File(reason) => Error::File { object: id.to_string(), reason },
        }
    }

    /// Waits for the turn to change a file.
    async fn turn() -> SemaphorePermit<'static> {
        CHANGES.acquire().await.expect("the semaphore is never closed")
    }

    /// Returns the identity of an object of a kind that carries the label.
    fn key_of_part(&self, object: &Value, kind: &WatchedKind) -> Option<ObjectKey> {
        let is_part = self.is_part(object);
        key_of(object).filter(|key| is_part && key.group == kind.group && key.kind == kind.kind)
    }

    fn is_part(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels");
        labels.is_some_and(|labels| labels.get(self.inventory.part_of_label).is_some())
    }

    /// Tells whether a file is that of the object in it, which is of a kind and carries the label.
    fn is_own(&self, name: &FileName, object: &Value, kind: &WatchedKind) -> bool {
        self.key_of_part(object, kind).is_some_and(|key| self.name(&key) == *name)
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
            let Some(key) = self.key_of_part(&object, kind) else { continue };
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
}

fn key_of(object: &Value) -> Option<ObjectKey> {
    Some(ObjectId::of(object)?.key())
}

/// Sets the uid that deletions of a file's object must name: it depends on the file's content.
fn with_uid(mut object: Value) -> Value {
    if let Some(key) = key_of(&object) {
        object["metadata"]["uid"] = Value::from(first_name(&key));
    }
    object
}

/// Runs a change of names on a thread that may wait.
async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileFailure> + Send + 'static,
) -> Result<T, FileFailure> {
    let _turn = THREADS.acquire().await.expect("the semaphore is never closed");
    blocking(work).await
}

/// Refuses a file name that another object has by right.
fn refuse_another(folder: &Folder, name: &FileName, key: &ObjectKey) -> Result<(), FileFailure> {
    // No other spelling of a built-in kind is accepted by `api::identity`. What cannot be read has no right to the name.
    let is_known = kinds::lookup(&key.group, &key.kind).is_some();
    let there = if is_known { None } else { folder.read(name).ok().flatten() };
    let there = there.and_then(|text| key_of(&yaml::parse_documents(&text).pop()?.ok()?.value));
    match there.filter(|other| other != key && FileName::of(other) == *name) {
        None => Ok(()),
        Some(other) => Err(FileFailure::File(format!(
            "its file {} holds {other}, whose kind differs in capital letters only; rename one of the two kinds",
            name.as_str()
        ))),
    }
}

/// Removes an object's file; another object in its place is not it.
fn remove(folder: &Folder, name: &FileName, key: &ObjectKey, own: &OwnChanges) -> Result<(), FileFailure> {
    let Some(text) = folder.read(name)? else { return Ok(()) };
    match yaml::parse_documents(&text).pop() {
        Some(Ok(document)) if key_of(&document.value).as_ref() == Some(key) => {
            own.note(name, None);
            Ok(folder.remove(name)?)
        }
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
        let _turn = Self::turn().await;
        let text = yaml::to_string(object);
        // Read again, so that an answer is what a later look sees: what YAML makes of a number is no drift.
        let answer = match yaml::parse_documents(&text).pop() {
            Some(Ok(document)) => document.value,
            _ => object.clone(),
        };
        self.write(&id, text, self.is_part(object)).await?;
        Ok(with_uid(answer))
    }

    async fn get(&self, id: &ObjectId) -> Result<Option<Value>, Error> {
        Ok(self.read_object(&id.key())?.map(with_uid))
    }

    async fn delete(&self, id: &ObjectId, uid: &str, _version: Option<u64>) -> Result<Deletion, Error> {
        if uid != first_name(&id.key()) {
            return Ok(if self.read_object(&id.key())?.is_some() { Deletion::Changed } else { Deletion::Gone });
        }
        // A folder that is not there holds nothing, and a deletion must not make it.
        if self.open()?.is_some() {
            let _turn = Self::turn().await;
            self.remove(id).await?;
        }
        Ok(Deletion::Gone)
    }

    async fn release(&self, id: &ObjectId, uid: &str, _release: Release) -> Result<(), Error> {
        let key = id.key();
        let Some(mut object) = self.read_object(&key)? else { return Ok(()) };
        if uid != first_name(&key) {
            return Ok(());
        }
        let metadata = &mut object["metadata"];
        let annotations = self.inventory.part_annotations.iter().map(|name| ("annotations", *name));
        for (map, name) in std::iter::once(("labels", self.inventory.part_of_label)).chain(annotations) {
            if let Some(entries) = metadata[map].as_object_mut() {
                entries.remove(name);
            }
        }
        let _turn = Self::turn().await;
        self.write(id, yaml::to_string(&object), false).await
    }

    fn watch(&self, kind: &WatchedKind, _version: Option<&str>, sink: mpsc::Sender<Observation>) -> WatchHandle {
        WatchHandle::start(sink.clone(), Observation::panicked, changes::follow(self.clone(), kind.clone(), sink))
    }
}
