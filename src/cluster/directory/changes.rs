//! Notices what others change in a member's folder.

use std::collections::BTreeSet;
use std::io;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::ModifyKind;
use notify::{Event, EventKind, RecursiveMode};
use serde_json::Value;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::{Instant, timeout_at};

use super::folder::Folder;
use super::names::{FileName, kind_prefix};
use super::{Directory, with_uid};
use crate::directory::threads::blocking;
use crate::{Error, Observation, WatchedKind, WatchedObject};
use model::yaml;
use system::watch;
use system::watch::Watching;

/// How long a folder must be quiet before its changed files are read.
const QUIET: Duration = Duration::from_millis(50);
/// How long the files of a folder that is never quiet may stay unread.
const QUIET_WAIT_MAX: Duration = Duration::from_secs(1);
/// Changed files that are read one by one; of more the whole kind is listed again.
const CHANGED_MAX: usize = 1024;
/// Lists that are read at once, in all folders together: an object of a list takes kilobytes until its member has taken it in.
const LISTS_IN_FLIGHT_MAX: usize = 8;
/// Objects of a list that are read before they are sent.
const LISTED_MAX: usize = 32;

static LISTS: Semaphore = Semaphore::const_new(LISTS_IN_FLIGHT_MAX);

/// The changes of a kind's files that were not read yet.
#[derive(Debug, Default)]
struct FileChanges {
    state: Mutex<Unread>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Unread {
    names: BTreeSet<FileName>,
    /// What changed is not known: the kind must be listed again.
    is_unknown: bool,
    /// The folder itself was removed: its watch sees nothing any more.
    is_gone: bool,
}

impl FileChanges {
    fn note(&self, change: impl FnOnce(&mut Unread)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.news.notify_one();
    }

    fn take(&self) -> Unread {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // A folder that went stays gone for this watch.
        let left = Unread { is_gone: state.is_gone, ..Unread::default() };
        std::mem::replace(&mut state, left)
    }

    /// Waits for a change, and then until the folder is quiet.
    async fn wait(&self) {
        self.news.notified().await;
        let end = Instant::now() + QUIET_WAIT_MAX;
        // An editor empties a file before it fills it: what is read in between would count as a change of its own.
        while timeout_at(end.min(Instant::now() + QUIET), self.news.notified()).await.is_ok() {}
    }
}

/// What became of changed files.
enum Read {
    /// These objects have a new content; the other files are as gitfleet left them.
    Changed(Vec<Value>),
    /// More than the content of objects changed, such as which files there are.
    ListAgain,
}

/// Lists a kind, and then passes on what others change. Where more than the content of objects changed, the kind is listed again:
/// file events are less reliable than a new list. An object that was written and removed again between two lists would be missed,
/// so it is reported separately.
///
/// Where the folder cannot be watched, such as at the limits of inotify, it is listed once and a change by hand is seen at the
/// next start.
pub(super) async fn follow(directory: Directory, kind: WatchedKind, sink: mpsc::Sender<Observation>) {
    let changes = Arc::new(FileChanges::default());
    let watching = watch_files(&directory, &kind, &changes);
    if let Err(error) = &watching {
        tracing::warn!(cluster = &*directory.cluster, %error, "the folder cannot be watched; changes by hand are seen at a start");
        if sink.send(Observation::Unwatched(error.to_string())).await.is_err() {
            return;
        }
    }
    loop {
        let listed = if changes.take().is_gone {
            Err(directory.unreachable(&directory.path, &io::ErrorKind::NotFound.into()))
        } else {
            send_list(&directory, &kind, &sink).await
        };
        let has_failed = listed.as_ref().is_err_and(Error::is_offline);
        let end = listed
            .map_or_else(|error| Observation::Failed(kind.clone(), error), |()| Observation::ListDone(kind.clone()));
        // Offline: the member's task connects again and begins its watches again.
        if sink.send(end).await.is_err() || has_failed || watching.is_err() {
            return;
        }
        loop {
            changes.wait().await;
            match read_changed(&directory, &kind, changes.take()).await {
                Read::ListAgain => break,
                Read::Changed(objects) => {
                    for object in objects {
                        if sink.send(Observation::Changed(WatchedObject::Whole(object))).await.is_err() {
                            return;
                        }
                    }
                }
            }
        }
    }
}

/// Watches the files of a kind.
fn watch_files(directory: &Directory, kind: &WatchedKind, changes: &Arc<FileChanges>) -> notify::Result<Watching> {
    Folder::create(&directory.path)?;
    let prefix = kind_prefix(kind);
    let folder = directory.path.canonicalize()?;
    let place = folder.clone();
    let changes = Arc::clone(changes);
    let handler = move |event: &notify::Result<Event>| {
        let Some(event) = event.as_ref().ok().filter(|event| !event.need_rescan()) else {
            return changes.note(|unread| unread.is_unknown = true);
        };
        let went = matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)));
        if went && event.paths.contains(&folder) {
            return changes.note(|unread| unread.is_gone = true);
        }
        if matches!(event.kind, EventKind::Access(_)) {
            return;
        }
        for path in event.paths.iter().filter(|path| is_named(path, &prefix)) {
            let name = path.file_name().and_then(|name| FileName::listed(name.to_str()?));
            changes.note(|unread| match name {
                Some(name) if unread.names.len() < CHANGED_MAX => drop(unread.names.insert(name)),
                _ => unread.is_unknown = true,
            });
        }
    };
    watch::watch(&[(place, RecursiveMode::NonRecursive)], handler)
}

fn is_named(path: &Path, prefix: &str) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_none_or(|name| name.starts_with(prefix))
}

/// Reads changed files. What gitfleet wrote itself is skipped: its writers know it.
async fn read_changed(directory: &Directory, kind: &WatchedKind, unread: Unread) -> Read {
    if unread.is_unknown || unread.is_gone {
        return Read::ListAgain;
    }
    let directory = directory.clone();
    let kind = kind.clone();
    let read = blocking(move || {
        let Ok(Some(folder)) = directory.open() else { return Ok(Read::ListAgain) };
        let mut objects = Vec::new();
        for name in &unread.names {
            let text = folder.read(name)?;
            if directory.own.take(name, text.as_deref()) {
                continue;
            }
            let object = text.and_then(|text| yaml::parse_documents(&text).pop()?.ok());
            match object.map(|document| document.value).filter(|object| directory.is_own(name, object, &kind)) {
                Some(object) => objects.push(with_uid(object)),
                None => return Ok(Read::ListAgain),
            }
        }
        Ok::<_, io::Error>(Read::Changed(objects))
    });
    // The list says what is wrong with a file.
    read.await.unwrap_or(Read::ListAgain)
}

/// Sends a list, object by object; a thread that may wait for the disk reads it.
async fn send_list(directory: &Directory, kind: &WatchedKind, sink: &mpsc::Sender<Observation>) -> Result<(), Error> {
    let _turn = LISTS.acquire().await.expect("the semaphore is never closed");
    let (read, mut objects) = mpsc::channel(LISTED_MAX);
    let directory = directory.clone();
    let listed = kind.clone();
    let listing =
        tokio::task::spawn_blocking(move || directory.list(&listed, |object| read.blocking_send(object).is_ok()));
    // An error means that nobody listens any more: the thread ends when `objects` is dropped.
    if sink.send(Observation::ListStarted(kind.clone())).await.is_ok() {
        while let Some(object) = objects.recv().await {
            if sink.send(Observation::Listed(WatchedObject::Whole(object))).await.is_err() {
                break;
            }
        }
    }
    drop(objects);
    listing.await.unwrap_or_else(|panic| resume_unwind(panic.into_panic()))
}
