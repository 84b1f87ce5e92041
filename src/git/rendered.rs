//! What programs made of folders: results under keys, in a bare repository of gitfleet. Source repositories of others are never
//! written, and results outlive a mirror that is cloned again.
//!
//! A result is a commit without history, whose files are the parts of the output. A pin is a commit that has the results that one
//! commit of the source needs, by key.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gix::objs::tree::{Entry, EntryKind};
use gix::refs::transaction::{PreviousValue, RefEdit};

use super::folder::author;
use super::repository::{Reader, open_options};
use super::{Error, REF_PINS, durable, heal};
use model::id::{BlobId, CommitId};

/// How names of results start.
const RESULT: &str = "result-";

/// How names of pins start.
const PIN: &str = "of-";

/// Results that are known without asking the disk; with more, all are asked for again.
const KNOWN_MAX: usize = 20_000;

/// Results that no pin needs and that are kept all the same: those of pull requests, which may be merged.
pub const UNPINNED_MAX: usize = 500;

/// The repository of results. Cheap to clone, usable from several threads at once.
#[derive(Clone)]
pub struct RenderedStore {
    pub(super) reader: Reader,
    dir: PathBuf,
    /// What was read or written since the repository was opened, by key: nearly all folders of a commit are those of the one before.
    known: Arc<Mutex<BTreeMap<String, KnownResult>>>,
    /// Whether something was written since the disk had all of it. Locked while it is written to the disk: who needs it there waits.
    is_unsynced: Arc<Mutex<bool>>,
}

/// A result that is whole.
#[derive(Clone, Debug)]
struct KnownResult {
    tree: gix::ObjectId,
    parts: Vec<BlobId>,
}

impl RenderedStore {
    /// Opens or creates the repository. A damaged one is set aside: results are made again.
    ///
    /// # Errors
    /// `Disk`, `Repository`.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let location = dir.display().to_string();
        let (reader, damage) = heal::open(dir, &open_options([]), &location, ".")?;
        let Some(damage) = damage else { return Ok(Self::new(reader, dir)) };
        tracing::warn!(repository = %location, damage, "the repository of rendered folders is damaged; it is set aside, and folders are rendered again");
        drop(reader);
        heal::set_aside(dir, dir).map_err(Error::disk(dir))?;
        let (reader, _) = heal::open(dir, &open_options([]), &location, ".")?;
        Ok(Self::new(reader, dir))
    }

    fn new(reader: Reader, dir: &Path) -> Self {
        Self { reader, dir: dir.to_owned(), known: Arc::default(), is_unsynced: Arc::default() }
    }

    /// Opens the repository that a daemon keeps, for reading alone; `None` where there is none.
    pub fn kept(dir: &Path) -> Option<Self> {
        let reader = Reader::open(dir, open_options([]), &dir.display().to_string(), ".").ok()?;
        Some(Self::new(reader, dir))
    }

    /// Returns the parts of results, in the order of the keys; `None` where one was never made or is incomplete.
    ///
    /// # Errors
    /// `Repository`.
    pub fn get<'k>(&self, keys: impl IntoIterator<Item = &'k str>) -> Result<Vec<Option<Vec<BlobId>>>, Error> {
        let reading = Error::at(self.reader.location(), "read a result of");
        let mut known = self.known();
        let mut repo = None;
        let mut results = Vec::new();
        for key in keys {
            if let Some(result) = known.get(key) {
                results.push(Some(result.parts.clone()));
                continue;
            }
            let found = read(repo.get_or_insert_with(|| self.reader.local()), key).map_err(&reading)?;
            results.push(found.map(|result| note(&mut known, key, result).parts.clone()));
        }
        Ok(results)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, KnownResult>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a part.
    ///
    /// # Errors
    /// As [`Reader::blob`].
    pub fn content(&self, part: &BlobId) -> Result<Vec<u8>, Error> {
        self.reader.blob(part)
    }

    /// Keeps a result, and returns its parts. It is on the disk after the next [`pin`](Self::pin) or [`sync`](Self::sync).
    ///
    /// # Errors
    /// `Repository`: it cannot be written.
    pub fn put(&self, key: &str, parts: &[Vec<u8>]) -> Result<Vec<BlobId>, Error> {
        let written = write(&self.reader.local(), key, parts);
        let result = written.map_err(Error::at(self.reader.location(), "keep a result in"))?;
        *self.is_unsynced() = true;
        Ok(note(&mut self.known(), key, result).parts.clone())
    }

    /// Has everything that was kept written to the disk. It does nothing where that is the case already.
    ///
    /// # Errors
    /// `Disk`.
    pub fn sync(&self) -> Result<(), Error> {
        let mut is_unsynced = self.is_unsynced();
        if *is_unsynced {
            durable::sync_below(&self.dir)?;
            *is_unsynced = false;
        }
        Ok(())
    }

    fn is_unsynced(&self) -> MutexGuard<'_, bool> {
        self.is_unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the results that a commit of the source needs, beside those it needed before: snapshots of it may be of another version
    /// of a program. All of it is on the disk then: a commit is accepted only after this.
    ///
    /// # Errors
    /// `Repository`, `Disk`.
    pub fn pin(&self, commit: &CommitId, keys: &BTreeSet<String>) -> Result<(), Error> {
        self.write_pin(commit, keys).map_err(Error::at(self.reader.location(), "write a pin to"))?;
        self.sync()
    }

    fn write_pin(&self, commit: &CommitId, keys: &BTreeSet<String>) -> gix::Result<()> {
        let repo = self.reader.local();
        let name = ref_name(PIN, commit.as_str());
        let before = match repo.try_find_reference(&name)?.and_then(|found| found.try_id().map(gix::Id::detach)) {
            Some(pin) => entries(&repo, pin)?.into_iter().collect(),
            None => BTreeMap::new(),
        };
        let mut needed = before.clone();
        let known = self.known();
        for key in keys {
            let tree = match known.get(key) {
                Some(result) => Some(result.tree),
                None => result_tree(&repo, key)?,
            };
            needed.extend(tree.map(|tree| (key.clone(), tree)));
        }
        if needed == before {
            return Ok(());
        }
        let entries =
            needed.into_iter().map(|(key, oid)| Entry { mode: EntryKind::Tree.into(), filename: key.into(), oid });
        save(&repo, &name, entries.collect(), "results that a commit needs")?;
        *self.is_unsynced() = true;
        Ok(())
    }

    /// Drops the pins of commits that are not kept, and more than [`UNPINNED_MAX`] results that no pin needs, with their objects.
    ///
    /// # Errors
    /// `Repository`, `Disk`.
    pub fn retain(&self, is_kept: impl Fn(&CommitId) -> bool) -> Result<(), Error> {
        let pins = self.reader.pins()?;
        let mut changed = false;
        for name in pins.keys() {
            let commit = name.strip_prefix(PIN).map(CommitId::new);
            if commit.is_some_and(|commit| !is_kept(&commit)) {
                self.reader.unpin(name)?;
                changed = true;
            }
        }
        let repo = self.reader.local();
        let reading = Error::at(self.reader.location(), "read the pins of");
        let mut needed = BTreeSet::new();
        for (name, pin) in self.reader.pins()?.iter().filter(|(name, _)| name.starts_with(PIN)) {
            let id = self.reader.commit_id(&repo, pin)?;
            needed.extend(entries(&repo, id).map_err(&reading)?.into_iter().map(|(key, _)| format!("{RESULT}{key}")));
            tracing::trace!(pin = name, "results of a commit are kept");
        }
        let unpinned: Vec<&String> =
            pins.keys().filter(|name| name.starts_with(RESULT) && !needed.contains(*name)).collect();
        // Which of them goes does not matter: keys say nothing of their age, and a result can be made again.
        for name in unpinned.iter().skip(UNPINNED_MAX) {
            self.reader.unpin(name)?;
            changed = true;
        }
        if !changed {
            return Ok(());
        }
        self.known().clear();
        sweep(&self.reader, &self.dir)
    }
}

impl Reader {
    /// Returns a reader that finds blobs of rendered folders too.
    #[must_use]
    pub fn with_rendered(&self, store: &RenderedStore) -> Self {
        self.with_blobs_of(&store.reader)
    }
}

/// Removes objects that no pin reaches. Nobody else writes the repository, and every object is a file of its own.
pub(super) fn sweep(reader: &Reader, dir: &Path) -> Result<(), Error> {
    let repo = reader.local();
    let reading = Error::at(reader.location(), "read the pins of");
    let mut reached: BTreeSet<gix::ObjectId> = BTreeSet::new();
    for pin in reader.pins()?.values() {
        let commit = reader.commit_id(&repo, pin)?;
        reach(&repo, commit, &mut reached).map_err(&reading)?;
    }
    let objects = dir.join("objects");
    for folder in fs::read_dir(&objects).map_err(Error::disk(&objects))? {
        let folder = folder.map_err(Error::disk(&objects))?;
        let first = folder.file_name().to_string_lossy().into_owned();
        if first.len() != 2 {
            continue;
        }
        for file in fs::read_dir(folder.path()).map_err(Error::disk(&objects))? {
            let file = file.map_err(Error::disk(&objects))?;
            let id = format!("{first}{}", file.file_name().to_string_lossy());
            if gix::ObjectId::from_hex(id.as_bytes()).is_ok_and(|id| !reached.contains(&id)) {
                fs::remove_file(file.path()).map_err(Error::disk(&objects))?;
            }
        }
    }
    Ok(())
}

fn ref_name(prefix: &str, name: &str) -> String {
    format!("{REF_PINS}{prefix}{name}")
}

/// Keeps in memory what a result is.
fn note<'m>(known: &'m mut BTreeMap<String, KnownResult>, key: &str, result: KnownResult) -> &'m KnownResult {
    if known.len() >= KNOWN_MAX {
        known.clear();
    }
    known.entry(key.to_owned()).insert_entry(result).into_mut()
}

/// Returns the tree of a result, if it was made.
fn result_tree(repo: &gix::Repository, key: &str) -> gix::Result<Option<gix::ObjectId>> {
    let Some(id) =
        repo.try_find_reference(&ref_name(RESULT, key))?.and_then(|found| found.try_id().map(gix::Id::detach))
    else {
        return Ok(None);
    };
    Ok(Some(repo.find_object(id)?.try_into_commit()?.tree_id()?.detach()))
}

/// Reads a result; `None` where it was never made or lacks a part.
fn read(repo: &gix::Repository, key: &str) -> gix::Result<Option<KnownResult>> {
    let Some(tree) = result_tree(repo, key)? else { return Ok(None) };
    let parts: Vec<gix::ObjectId> = tree_entries(repo, tree)?.into_iter().map(|(_, id)| id).collect();
    if !parts.iter().all(|part| repo.has_object(*part)) {
        return Ok(None);
    }
    let parts = parts.iter().map(|part| BlobId::new(part.to_string())).collect();
    Ok(Some(KnownResult { tree, parts }))
}

/// Writes a result, a file for each part.
fn write(repo: &gix::Repository, key: &str, parts: &[Vec<u8>]) -> gix::Result<KnownResult> {
    let mut entries = Vec::with_capacity(parts.len());
    for (position, part) in parts.iter().enumerate() {
        let filename = format!("{position:06}.yaml").into();
        entries.push(Entry { mode: EntryKind::Blob.into(), filename, oid: repo.write_blob(part)?.detach() });
    }
    let parts = entries.iter().map(|entry| BlobId::new(entry.oid.to_string())).collect();
    let tree = save(repo, &ref_name(RESULT, key), entries, "result of a rendered folder")?;
    Ok(KnownResult { tree, parts })
}

/// Writes a commit without history, and the ref to it. Returns the commit's tree.
fn save(repo: &gix::Repository, name: &str, mut entries: Vec<Entry>, message: &str) -> gix::Result<gix::ObjectId> {
    entries.sort();
    let tree = repo.write_object(gix::objs::Tree { entries })?.detach();
    let commit = repo.new_commit_as(author(), author(), message, tree, std::iter::empty::<gix::ObjectId>())?.id;
    let name = gix::refs::FullName::try_from(name).expect("a prefix and hexadecimal digits are a valid name");
    repo.edit_reference(RefEdit::update(name, commit, PreviousValue::Any, message))?;
    Ok(tree)
}

/// Returns names and ids of what a commit has at its root.
fn entries(repo: &gix::Repository, commit: gix::ObjectId) -> gix::Result<Vec<(String, gix::ObjectId)>> {
    tree_entries(repo, repo.find_object(commit)?.try_into_commit()?.tree_id()?.detach())
}

/// Returns names and ids of what a tree has.
fn tree_entries(repo: &gix::Repository, tree: gix::ObjectId) -> gix::Result<Vec<(String, gix::ObjectId)>> {
    let tree = repo.find_object(tree)?.try_into_tree()?;
    let tree = tree.decode()?;
    Ok(tree.entries.iter().map(|entry| (entry.filename.to_string(), entry.oid.to_owned())).collect())
}

/// Adds a commit and everything below it.
fn reach(repo: &gix::Repository, commit: gix::ObjectId, reached: &mut BTreeSet<gix::ObjectId>) -> gix::Result<()> {
    reached.insert(commit);
    let mut trees = vec![repo.find_object(commit)?.try_into_commit()?.tree_id()?.detach()];
    while let Some(id) = trees.pop() {
        if !reached.insert(id) {
            continue;
        }
        let tree = repo.find_object(id)?.try_into_tree()?;
        let tree = tree.decode()?;
        for entry in &tree.entries {
            let id = entry.oid.to_owned();
            if entry.mode.kind() == EntryKind::Tree {
                trees.push(id);
            } else {
                reached.insert(id);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> String {
        format!("{number:064x}")
    }

    fn one(store: &RenderedStore, number: usize) -> Option<Vec<BlobId>> {
        store.get([key(number).as_str()]).expect("it is read").remove(0)
    }

    #[test]
    fn results_are_kept_as_long_as_a_pin_needs_them() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = RenderedStore::open(&dir.path().join("rendered.git")).expect("it opens");
        assert_eq!(one(&store, 1), None);
        let parts = [b"a: 1\n".to_vec(), b"b: 2\n".to_vec()];
        let put = store.put(&key(1), &parts).expect("it is kept");
        assert_eq!(one(&store, 1), Some(put.clone()));
        assert_eq!(store.reader.blob(&put[1]).expect("it is read"), parts[1]);
        assert!(*store.is_unsynced());
        // Nothing at all is a result too.
        store.put(&key(2), &[]).expect("it is kept");
        assert_eq!(one(&store, 2), Some(Vec::new()));
        let commit = CommitId::new("a".repeat(40));
        store.pin(&commit, &BTreeSet::from([key(1)])).expect("it is pinned");
        store.pin(&commit, &BTreeSet::from([key(2)])).expect("it is pinned");
        assert!(!*store.is_unsynced(), "what a commit needs is on the disk");
        for number in 3..3 + UNPINNED_MAX + 2 {
            store.put(&key(number), &[format!("n: {number}\n").into_bytes()]).expect("it is kept");
        }
        store.retain(|kept| *kept == commit).expect("the others go");
        let left = (3..3 + UNPINNED_MAX + 2).filter(|number| one(&store, *number).is_some());
        assert_eq!(left.count(), UNPINNED_MAX);
        assert!(one(&store, 1).is_some() && one(&store, 2).is_some());
        // Without its pin a result is one of many.
        store.retain(|_| false).expect("all pins go");
        assert!(store.reader.pins().expect("they are read").keys().all(|name| !name.starts_with(PIN)));
        // It opens again as it is, and a damaged one is made again.
        let dir = store.dir.clone();
        drop(store);
        let again = RenderedStore::open(&dir).expect("it opens");
        assert!(again.reader.pins().expect("they are read").len() <= UNPINNED_MAX);
        let lost = again.put(&key(1), &parts).expect("it is kept");
        fs::remove_dir_all(dir.join("objects")).expect("it is damaged");
        let again = RenderedStore::open(&dir).expect("it opens");
        assert_eq!(one(&again, 1), None);
        assert_eq!(again.put(&key(1), &parts).expect("it is made again"), lost);
    }

    #[test]
    fn a_reader_of_another_repository_finds_results() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = RenderedStore::open(&dir.path().join("rendered.git")).expect("it opens");
        let source = RenderedStore::open(&dir.path().join("source.git")).expect("it opens").reader;
        let part = store.put(&key(1), &[b"a: 1\n".to_vec()]).expect("it is kept").remove(0);
        assert!(matches!(source.blob(&part), Err(Error::ObjectMissing { .. })));
        let source = source.with_rendered(&store);
        assert_eq!(source.blob(&part).expect("it is read"), b"a: 1\n");
        assert_eq!(source.blobs(&[part]).expect("they are read"), [super::super::Blob::Content(b"a: 1\n".to_vec())]);
    }
}
