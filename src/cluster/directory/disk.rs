//! Waits until files are on the disk. All writers of a file system share the waits: what many members write at once costs one.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::stat::fstat;
use nix::unistd::fsync;
use tokio::sync::oneshot;

use crate::directory::threads::blocking;

/// Files that are synced one by one; if more wait, their whole file system is synced at once, which waits for the writes of
/// others as well.
#[cfg(target_os = "linux")]
const SINGLE_MAX: usize = 8;

/// How often a file waits. The task that syncs for all may end with its runtime, of which tests have several.
const TURNS_MAX: usize = 3;

/// The file systems that members' folders are on, by device number.
static DISKS: Mutex<BTreeMap<nix::libc::dev_t, Arc<Disk>>> = Mutex::new(BTreeMap::new());

/// One file system.
#[derive(Debug, Default)]
pub(super) struct Disk(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<(Arc<OwnedFd>, oneshot::Sender<SyncOutcome>)>,
    is_syncing: bool,
}

/// The result of one sync, which many wait for.
type SyncOutcome = Result<(), Arc<io::Error>>;

impl Disk {
    /// Returns the file system of an open file or folder.
    pub(super) fn of(file: impl AsFd) -> io::Result<Arc<Self>> {
        let device = fstat(file)?.st_dev;
        Ok(Arc::clone(lock(&DISKS).entry(device).or_default()))
    }

    /// Waits until the content of a file, or the names in a folder, are on the disk.
    pub(super) async fn sync(self: Arc<Self>, file: OwnedFd) -> io::Result<()> {
        let file = Arc::new(file);
        for _ in 0..TURNS_MAX {
            if let Ok(outcome) = self.turn(&file).await {
                return outcome.map_err(|error| io::Error::new(error.kind(), error));
            }
        }
        Err(io::Error::other("the process is ending"))
    }

    /// Returns when the file was synced; nothing where whoever syncs for all has ended without.
    fn turn(self: &Arc<Self>, file: &Arc<OwnedFd>) -> oneshot::Receiver<SyncOutcome> {
        let (sender, outcome) = oneshot::channel();
        let is_first = {
            let mut queue = lock(&self.0);
            queue.waiting.push((Arc::clone(file), sender));
            !std::mem::replace(&mut queue.is_syncing, true)
        };
        if is_first {
            // A task of its own: whoever came first may be cancelled, and others wait with it.
            tokio::spawn(Turn { disk: Arc::clone(self), is_cut: true }.sync_all());
        }
        outcome
    }
}

/// The task that syncs for all.
struct Turn {
    disk: Arc<Disk>,
    /// It has not come to its end.
    is_cut: bool,
}

impl Turn {
    /// Syncs what waits, and then what began to wait meanwhile, until nothing waits.
    async fn sync_all(mut self) {
        loop {
            let waiting = {
                let mut queue = lock(&self.disk.0);
                queue.is_syncing = !queue.waiting.is_empty();
                std::mem::take(&mut queue.waiting)
            };
            if waiting.is_empty() {
                self.is_cut = false;
                return;
            }
            let (files, senders): (Vec<Arc<OwnedFd>>, Vec<_>) = waiting.into_iter().unzip();
            let outcome = blocking(move || sync(&files)).await.map_err(Arc::new);
            for sender in senders {
                // Whoever waited may have been cancelled.
                drop(sender.send(outcome.clone()));
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A task that is dropped with its runtime leaves nobody who syncs: the next file begins another.
        if self.is_cut {
            let mut queue = lock(&self.disk.0);
            queue.is_syncing = false;
            queue.waiting.clear();
        }
    }
}

fn sync(files: &[Arc<OwnedFd>]) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if let [first, ..] = files
        && files.len() > SINGLE_MAX
    {
        return Ok(nix::unistd::syncfs(first)?);
    }
    files.iter().try_for_each(|file| Ok(fsync(file)?))
}

/// What a panic leaves is whole.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use futures::future::join_all;

    use super::*;

    #[test]
    fn a_task_that_ends_with_its_runtime_leaves_the_disk_to_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let file = || OwnedFd::from(File::create(folder.path().join("file")).unwrap());
        let disk = Arc::new(Disk::default());
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // Dropped before its task ran.
        runtime().block_on(async { drop(futures::poll!(std::pin::pin!(Arc::clone(&disk).sync(file())))) });
        runtime().block_on(Arc::clone(&disk).sync(file())).unwrap();
        // Dropped while a file of another runtime waits for it, too.
        let first = runtime();
        let second = runtime();
        first.block_on(async { drop(futures::poll!(std::pin::pin!(Arc::clone(&disk).sync(file())))) });
        let mut waits = Box::pin(Arc::clone(&disk).sync(file()));
        second.block_on(async { assert!(futures::poll!(&mut waits).is_pending()) });
        drop(first);
        second.block_on(waits).unwrap();
    }

    #[tokio::test]
    async fn many_share_a_wait_and_each_gets_the_answer() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::of(File::open(dir.path()).unwrap()).unwrap();
        let file = |n: usize| OwnedFd::from(File::create(dir.path().join(n.to_string())).unwrap());
        for count in [1, SINGLE_MAX, 10 * SINGLE_MAX] {
            let synced = join_all((0..count).map(|n| Arc::clone(&disk).sync(file(n)))).await;
            assert!(synced.iter().all(Result::is_ok), "{synced:?}");
        }
        // The thread that answered the last one ends a moment later.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let is_idle = || {
            let queue = lock(&disk.0);
            queue.waiting.is_empty() && !queue.is_syncing
        };
        while !is_idle() {
            assert!(std::time::Instant::now() < until, "nobody waits any more");
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_failure_concerns_whoever_waited_for_it_and_nobody_later() {
        let disk = Arc::new(Disk::default());
        // A pipe cannot be synced.
        let (reader, _writer) = std::io::pipe().unwrap();
        assert!(Arc::clone(&disk).sync(reader.into()).await.is_err());
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("a")).unwrap();
        disk.sync(file.into()).await.expect("it is on the disk");
    }
}
