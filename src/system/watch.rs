//! Notices file changes on this machine: one watcher for the process.
//!
//! Linux allows a user 128 watchers and many more watched folders, so all watches share one watcher and its thread.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};

/// What a listener is called with. An error, and an event that asks for a new look, concern everybody.
type Handler = Arc<dyn Fn(&notify::Result<Event>) + Send + Sync>;

/// The one watcher, made when somebody watches first, and how many watch each folder.
static WATCHER: Mutex<WatcherState> = Mutex::new(WatcherState { watcher: None, next: 0, watched: BTreeMap::new() });
/// Who listens. A lock of its own: the watcher's thread takes it while somebody waits for that thread to watch a folder.
static LISTENERS: Mutex<BTreeMap<PathBuf, Vec<Listener>>> = Mutex::new(BTreeMap::new());

struct WatcherState {
    watcher: Option<RecommendedWatcher>,
    /// The number of the next watch.
    next: u64,
    watched: BTreeMap<PathBuf, usize>,
}

#[derive(Clone)]
struct Listener {
    number: u64,
    mode: RecursiveMode,
    handler: Handler,
}

/// Watches until it is dropped.
pub struct Watching {
    number: u64,
    places: Vec<PathBuf>,
}

/// Calls `handler` with what happens in some folders, and in those below the recursive ones. It is called on the watcher's thread:
/// it must not block.
///
/// # Errors
/// A folder cannot be watched, such as where a limit of inotify is reached; none of them is then.
pub fn watch(
    places: &[(PathBuf, RecursiveMode)],
    handler: impl Fn(&notify::Result<Event>) + Send + Sync + 'static,
) -> notify::Result<Watching> {
    let handler: Handler = Arc::new(handler);
    let mut shared = lock(&WATCHER);
    let number = shared.next;
    shared.next += 1;
    let mut watching = Watching { number, places: Vec::new() };
    let mut failure = None;
    for (path, mode) in places {
        // It listens first, so that nothing is missed between the two.
        let listener = Listener { number, mode: *mode, handler: Arc::clone(&handler) };
        lock(&LISTENERS).entry(path.clone()).or_default().push(listener);
        *shared.watched.entry(path.clone()).or_default() += 1;
        watching.places.push(path.clone());
        // Also where others watch it: it may be a new folder under an old name.
        if let Err(error) = shared.watcher().and_then(|watcher| watcher.watch(path, *mode)) {
            failure = Some(error);
            break;
        }
    }
    drop(shared);
    failure.map_or(Ok(watching), Err)
}

impl WatcherState {
    fn watcher(&mut self) -> notify::Result<&mut RecommendedWatcher> {
        if self.watcher.is_none() {
            self.watcher = Some(notify::recommended_watcher(|event| notify(&event))?);
        }
        Ok(self.watcher.as_mut().expect("it was made above"))
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut shared = lock(&WATCHER);
        for path in &self.places {
            let mut listeners = lock(&LISTENERS);
            if let Some(here) = listeners.get_mut(path) {
                here.retain(|listener| listener.number != self.number);
                if here.is_empty() {
                    listeners.remove(path);
                }
            }
            drop(listeners);
            let Some(others) = shared.watched.get_mut(path) else { continue };
            *others -= 1;
            if *others == 0 {
                shared.watched.remove(path);
                // What went by itself is not watched any more.
                shared.watcher.iter_mut().for_each(|watcher| drop(watcher.unwatch(path)));
            }
        }
    }
}

/// A lock that somebody panicked with holds lists that are whole all the same.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn notify(event: &notify::Result<Event>) {
    let concerned = concerned(&lock(&LISTENERS), event.as_ref().ok().filter(|event| !event.need_rescan()));
    for listener in concerned {
        (listener.handler)(event);
    }
}

/// Returns who is notified of an event, each once; everybody without one.
fn concerned(listeners: &BTreeMap<PathBuf, Vec<Listener>>, event: Option<&Event>) -> Vec<Listener> {
    let mut known = BTreeSet::new();
    let Some(event) = event.filter(|event| !event.paths.is_empty()) else {
        return listeners.values().flatten().filter(|listener| known.insert(listener.number)).cloned().collect();
    };
    let hears = |path: &Path| -> Vec<Listener> {
        let depths = path.ancestors().enumerate();
        let here = depths.filter_map(|(depth, place)| Some((depth, listeners.get(place)?)));
        here.flat_map(|(depth, all)| all.iter().filter(move |l| depth <= 1 || l.mode == RecursiveMode::Recursive))
            .cloned()
            .collect()
    };
    event.paths.iter().flat_map(|path| hears(path)).filter(|listener| known.insert(listener.number)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use notify::EventKind;
    use notify::event::CreateKind;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn who_is_notified_of_what() {
        let listener = |number, mode| Listener { number, mode, handler: Arc::new(|_| ()) };
        let listeners = BTreeMap::from([
            (
                PathBuf::from("/a"),
                vec![listener(1, RecursiveMode::Recursive), listener(2, RecursiveMode::NonRecursive)],
            ),
            (
                PathBuf::from("/a/b"),
                vec![listener(3, RecursiveMode::NonRecursive), listener(1, RecursiveMode::Recursive)],
            ),
        ]);
        let event = |path: &str| Event::new(EventKind::Create(CreateKind::File)).add_path(path.into());
        for (path, heard) in [
            ("/a", vec![1, 2]),
            ("/a/x", vec![1, 2]),
            ("/a/b", vec![1, 2, 3]),
            ("/a/b/x", vec![1, 3]),
            ("/a/b/x/y", vec![1]),
            ("/c", vec![]),
        ] {
            let mut numbers: Vec<u64> = concerned(&listeners, Some(&event(path))).iter().map(|l| l.number).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, heard, "{path}");
        }
        assert_eq!(concerned(&listeners, None).len(), 3, "what is not known concerns everybody");
    }

    #[test]
    fn one_that_goes_leaves_the_others_their_watch() {
        let dir = tempfile::tempdir().unwrap();
        let place = [(dir.path().canonicalize().unwrap(), RecursiveMode::NonRecursive)];
        let (sender, news) = channel();
        let _stays = watch(&place, move |_| sender.send(()).unwrap_or(())).unwrap();
        drop(watch(&place, |_| ()).unwrap());
        fs::write(dir.path().join("a"), "a").unwrap();
        news.recv_timeout(PATIENCE).expect("a notification arrives");
    }

    #[test]
    fn a_folder_that_went_and_came_back_is_watched_again() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap().join("f");
        let place = [(folder.clone(), RecursiveMode::NonRecursive)];
        fs::create_dir(&folder).unwrap();
        let _before = watch(&place, |_| ()).unwrap();
        fs::remove_dir(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        let (sender, news) = channel();
        let _after = watch(&place, move |event| {
            let names = event.as_ref().map(|event| event.paths.clone()).unwrap_or_default();
            let _ = sender.send(names.iter().any(|path| path.ends_with("a")));
        })
        .unwrap();
        fs::write(folder.join("a"), "a").unwrap();
        while !news.recv_timeout(PATIENCE).expect("a notification arrives") {}
    }
}
