//! Notices that files of the configuration change: watches their folders, and checks the files now and then, because a watch may miss some.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{Event, RecursiveMode};
use tokio::sync::Notify;

use crate::watch;
use crate::watch::Watching;

/// How often a file is checked without a change in its folder: a folder that is replaced takes its watch along.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// How long a folder must be quiet before a file in it counts as written.
const SETTLE_TIME: Duration = Duration::from_millis(200);
/// The longest wait for that, for a folder that is never quiet.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(5);

/// What tells that a file was written, without reading it: when, how long it is, and which file it is.
type Stamp = Option<(Option<SystemTime>, u64, u64)>;

/// Tells when a file may have changed.
pub struct WatchedFile {
    file: PathBuf,
    stamp: Stamp,
    changed: Arc<Notify>,
    _watching: Option<Watching>,
}

impl WatchedFile {
    /// Watches the folder of a file. A Secret that is mounted is a link there, and its content changes with another link beside it.
    pub fn of(file: &Path) -> Self {
        let changed = Arc::new(Notify::new());
        let noted = Arc::clone(&changed);
        let folder = folder_of(file);
        let watching = watch::watch(&[(folder.clone(), RecursiveMode::NonRecursive)], move |event| {
            // An error means that something may have been missed.
            if event.as_ref().map_or(true, is_write) {
                noted.notify_one();
            }
        });
        let watching = watching.inspect_err(|error| {
            tracing::debug!(folder = %folder.display(), %error, "the folder cannot be watched; its files are checked now and then");
        });
        Self { file: file.to_owned(), stamp: stamp(file), changed, _watching: watching.ok() }
    }

    /// Waits until something was written in the folder of the file and the folder is quiet, or the file was replaced unseen.
    ///
    /// # Cancel safety
    /// A change of the file is noticed by a later call, after half a minute at the latest; one of another file in the folder may be missed.
    pub async fn next(&mut self) {
        while tokio::time::timeout(CHECK_INTERVAL, self.changed.notified()).await.is_err() {
            let before = std::mem::replace(&mut self.stamp, stamp(&self.file));
            if before != self.stamp {
                return;
            }
        }
        let settled = async { while tokio::time::timeout(SETTLE_TIME, self.changed.notified()).await.is_ok() {} };
        // A folder that is never quiet is read all the same.
        let _ = tokio::time::timeout(SETTLE_TIME_MAX, settled).await;
        self.stamp = stamp(&self.file);
    }
}

fn stamp(file: &Path) -> Stamp {
    let found = std::fs::metadata(file).ok()?;
    Some((found.modified().ok(), found.len(), found.ino()))
}

fn folder_of(file: &Path) -> PathBuf {
    let whole = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let folder = whole.parent().unwrap_or(Path::new("/"));
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

/// Tells whether an event is a write: our own reads must not wake us.
fn is_write(event: &Event) -> bool {
    match event.kind {
        EventKind::Access(kind) => event.need_rescan() || kind == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn writes_wake_and_reads_do_not() {
        use notify::event::{CreateKind, ModifyKind, RenameMode};
        for (kind, wakes) in [
            (EventKind::Create(CreateKind::File), true),
            (EventKind::Modify(ModifyKind::Name(RenameMode::To)), true),
            (EventKind::Access(AccessKind::Close(AccessMode::Write)), true),
            (EventKind::Access(AccessKind::Open(AccessMode::Any)), false),
            (EventKind::Access(AccessKind::Close(AccessMode::Read)), false),
        ] {
            assert_eq!(is_write(&Event::new(kind)), wakes, "{kind:?}");
        }
    }

    #[tokio::test]
    async fn a_file_that_is_written_or_replaced_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("token");
        let mut changes = WatchedFile::of(&file);
        let limit = CHECK_INTERVAL / 2;
        fs::write(&file, "1").expect("it is written");
        tokio::time::timeout(limit, changes.next()).await.expect("a new file is noticed");
        // As the kubelet replaces the content of a Secret.
        fs::write(folder.path().join("new"), "2").expect("it is written");
        fs::rename(folder.path().join("new"), &file).expect("it is moved");
        tokio::time::timeout(limit, changes.next()).await.expect("a replaced file is noticed");
    }
}
