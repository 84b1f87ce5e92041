//! Notices local changes immediately; polling continues, because a watch may miss some.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{Event, RecursiveMode};

use super::{Error, Source, WATCH_COALESCE, WATCH_DEBOUNCE, WATCH_DEBOUNCE_MAX};
use system::watch;
use system::watch::Watching;

/// Watches until it is dropped.
pub struct Watch {
    _watching: Watching,
}

/// Calls `on_change` whenever the branch of a source on this machine may have moved: at once in a repository, and some
/// 100 ms after the last of several changes. Spurious calls happen, missed ones may: keep polling, less often.
///
/// `None` for a remote, which cannot be watched. The call comes from a thread of its own; it must not block for long.
///
/// # Errors
/// `Watch`, such as where inotify's limits are reached: poll often.
pub fn watch(source: &Source, on_change: impl Fn() + Send + 'static) -> Result<Option<Watch>, Error> {
    let Some((root, excluded)) = source.watched_place() else { return Ok(None) };
    let root = root.canonicalize().map_err(|error| failed(source, &error))?;
    let matters: Box<dyn Fn(&Path) -> bool + Send + Sync> = if let Some(excluded) = &excluded {
        let excluded: Vec<PathBuf> = excluded.iter().filter_map(|path| path.canonicalize().ok()).collect();
        let root = root.clone();
        Box::new(move |path| folder_path_matters(&root, &excluded, path))
    } else {
        let root = root.clone();
        Box::new(move |path| ref_path_matters(&root, path))
    };
    let at_once = excluded.is_none();
    let (sender, receiver) = channel();
    let places: Vec<(PathBuf, RecursiveMode)> = if excluded.is_some() {
        vec![(root, RecursiveMode::Recursive)]
    } else {
        // Not the whole folder: objects change with every fetch. HEAD and packed-refs are at the top.
        vec![(root.join("refs"), RecursiveMode::Recursive), (root, RecursiveMode::NonRecursive)]
    };
    let watching = watch::watch(&places, move |event: &notify::Result<Event>| {
        if is_news(event, &*matters) {
            // The other side is gone when the watch is being dropped.
            let _ = sender.send(());
        }
    });
    let watching = watching.map_err(|error| failed(source, &error))?;
    let debouncing = std::thread::Builder::new().name("gitfleet-watch".to_owned()).spawn(move || {
        let ended = catch_unwind(AssertUnwindSafe(|| debounce(&receiver, at_once, &on_change)));
        if ended.is_err() {
            tracing::error!(
                "watching the source for local changes ended because of an error in gitfleet; it is polled instead. Please report it"
            );
        }
    });
    debouncing.map_err(|error| failed(source, &error))?;
    Ok(Some(Watch { _watching: watching }))
}

fn failed(source: &Source, error: &dyn std::fmt::Display) -> Error {
    Error::Watch { location: source.location().to_owned(), reason: error.to_string() }
}

/// Calls back once for each burst, when it is over; with `at_once` also when it begins: a branch moves by one atomic rename,
/// so that the first word of it is the whole news. Ends when the watch, which holds the sender, is dropped.
fn debounce(news: &Receiver<()>, at_once: bool, on_change: &(impl Fn() + Send)) {
    while news.recv().is_ok() {
        if at_once {
            on_change();
        }
        let mut untold = !at_once;
        let quiet = if at_once { WATCH_COALESCE } else { WATCH_DEBOUNCE };
        let mut waited = Duration::ZERO;
        while waited < WATCH_DEBOUNCE_MAX {
            match news.recv_timeout(quiet) {
                // How long a message took is not measured; counting each as a whole interval only shortens the wait.
                Ok(()) => {
                    untold = true;
                    waited += quiet / 10;
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        if untold {
            on_change();
        }
    }
}

/// Tells whether an event may be a change of the source.
fn is_news(event: &notify::Result<Event>, matters: &dyn Fn(&Path) -> bool) -> bool {
    match event {
        Ok(event) => is_change(event) && (event.paths.is_empty() || event.paths.iter().any(|path| matters(path))),
        // Something may have been missed.
        Err(_) => true,
    }
}

/// Tells whether an event is a write: our own reads must not wake us.
fn is_change(event: &Event) -> bool {
    event.need_rescan()
        || match event.kind {
            // A file that somebody wrote is whole only when it is closed.
            EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
            _ => true,
        }
}

/// Tells whether a path of a plain folder may be read; a store inside it changes with every poll.
fn folder_path_matters(root: &Path, excluded: &[PathBuf], path: &Path) -> bool {
    let Ok(below) = path.strip_prefix(root) else { return true };
    let dotted = below.components().any(|part| {
        let name = part.as_os_str().to_string_lossy();
        name.starts_with('.') && name != ".gitfleetignore"
    });
    !dotted && !excluded.iter().any(|folder| path.starts_with(folder))
}

/// Tells whether a path of a repository decides where branches are; our own pins do not.
fn ref_path_matters(git_dir: &Path, path: &Path) -> bool {
    let Ok(below) = path.strip_prefix(git_dir) else { return true };
    // A lock comes with every write of a ref; the rename that ends the write is told by itself.
    let lock = path.extension().is_some_and(|extension| extension == "lock");
    let refs = below.starts_with("refs") && !below.starts_with("refs/gitfleet");
    !lock && (refs || below == Path::new("HEAD") || below == Path::new("packed-refs"))
}

#[cfg(test)]
mod tests;
