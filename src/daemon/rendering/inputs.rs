//! The files that programs may read: of a commit, of a merge, or of a folder on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use git::{Blob, Listing, OpenedReader, Reader};
use model::folder::{below, folder_of};
use model::id::{BlobId, CommitId};
use model::manifest::InputError;
use source::{Files, Filter};

/// How long programs may render for one commit of a source, in a daemon.
pub const COMMIT_TIME_MAX: Duration = Duration::from_mins(10);

/// The same for a pull request: whoever opens one must not keep the branch waiting.
pub const PULL_TIME_MAX: Duration = Duration::from_mins(2);

/// Lists and reads files of one tree.
pub trait Lister: Sync {
    /// How long programs may render for one such tree; what is left then is rendered in a later attempt.
    const TIME_MAX: Duration = COMMIT_TIME_MAX;

    /// Lists all files in and below a folder, hidden files too; paths are relative to it. What is not there holds nothing.
    fn list(&mut self, folder: &str) -> Result<Listing, git::Error>;

    /// Reads a listed file.
    fn read(&self, blob: &BlobId) -> Result<Blob, git::Error>;
}

/// A commit's files.
pub struct OfCommit<'a> {
    opened: OpenedReader<'a>,
    commit: &'a CommitId,
}

impl<'a> OfCommit<'a> {
    /// Takes what reads the commit.
    pub fn new(reader: &'a Reader, commit: &'a CommitId) -> Self {
        Self { opened: reader.opened(), commit }
    }
}

impl Lister for OfCommit<'_> {
    fn list(&mut self, folder: &str) -> Result<Listing, git::Error> {
        self.opened.files_below(self.commit, folder)
    }

    fn read(&self, blob: &BlobId) -> Result<Blob, git::Error> {
        self.opened.blob(blob)
    }
}

/// The files that a merge has.
pub struct Merge<'a> {
    /// What reads the commits.
    pub reader: &'a Reader,
    /// Where the two parted.
    pub fork: &'a CommitId,
    /// What is merged into.
    pub base: &'a CommitId,
    /// What is merged.
    pub head: &'a CommitId,
}

/// The files of a merge, with those that both changed.
pub struct OfMerge<'a> {
    merge: Merge<'a>,
    opened: OpenedReader<'a>,
    /// Files that both changed.
    pub conflicts: BTreeSet<String>,
}

impl<'a> OfMerge<'a> {
    /// Takes the merge, and the files that are known to be changed by both.
    pub fn new(merge: Merge<'a>, conflicts: BTreeSet<String>) -> Self {
        Self { opened: merge.reader.opened(), merge, conflicts }
    }
}

impl Lister for OfMerge<'_> {
    const TIME_MAX: Duration = PULL_TIME_MAX;

    fn list(&mut self, folder: &str) -> Result<Listing, git::Error> {
        let Merge { fork, base, head, .. } = self.merge;
        let at = |commit: &CommitId| match self.opened.files_below(commit, folder) {
            // The source's path may have been added after the two parted.
            Err(git::Error::PathMissing { .. }) if commit == fork => Ok(Listing::default()),
            other => other,
        };
        if fork == base {
            return at(head);
        }
        let merged = git::merged(at(fork)?, at(base)?, at(head)?);
        self.conflicts.extend(merged.conflicts.into_iter().map(|path| below(folder, &path)));
        Ok(merged.listing)
    }

    fn read(&self, blob: &BlobId) -> Result<Blob, git::Error> {
        self.opened.blob(blob)
    }
}

/// The files of a folder on disk.
pub struct OnDisk<'a> {
    dir: &'a Path,
    contents: BTreeMap<BlobId, Vec<u8>>,
}

impl<'a> OnDisk<'a> {
    /// Takes the folder.
    pub fn new(dir: &'a Path) -> Self {
        Self { dir, contents: BTreeMap::new() }
    }
}

impl Lister for OnDisk<'_> {
    fn list(&mut self, folder: &str) -> Result<Listing, git::Error> {
        let git::Folder { listing, contents } = git::read_folder_below(self.dir, folder)?;
        self.contents.extend(contents);
        Ok(listing)
    }

    fn read(&self, blob: &BlobId) -> Result<Blob, git::Error> {
        let content = self.contents.get(blob).cloned();
        content
            .map(Blob::Content)
            .ok_or_else(|| git::Error::ObjectMissing { location: self.dir.display().to_string(), id: blob.to_string() })
    }
}

/// The files of a tree that were asked for, each folder listed once.
pub struct Inputs<L> {
    lister: L,
    filter: Filter,
    /// When the tree was begun to be read.
    pub begun: Instant,
    listed: BTreeMap<String, Vec<Arc<str>>>,
    /// What is wrong with paths of folders that were listed for one file alone.
    unused_errors: BTreeMap<String, Vec<InputError>>,
    blobs: BTreeMap<Arc<str>, BlobId>,
    /// What is wrong with paths that were listed: each refuses the commit.
    pub errors: Vec<InputError>,
}

impl<L: Lister> Inputs<L> {
    /// Takes what lists files, and what is ignored: a complaint about an ignored path is none.
    pub fn new(lister: L, filter: Filter) -> Self {
        Self {
            lister,
            filter,
            begun: Instant::now(),
            listed: BTreeMap::new(),
            unused_errors: BTreeMap::new(),
            blobs: BTreeMap::new(),
            errors: Vec::new(),
        }
    }

    /// Returns what lists the files.
    pub fn into_lister(self) -> L {
        self.lister
    }

    /// Lists a folder whose files are all read, or may be.
    fn list(&mut self, folder: &str) -> Result<&[Arc<str>], git::Error> {
        self.look_up(folder)?;
        self.errors.extend(self.unused_errors.remove(folder).into_iter().flatten());
        Ok(self.listed.get(folder).map(Vec::as_slice).unwrap_or_default())
    }

    /// Lists the folder of one file. Errors about other paths there count only where the whole folder is read.
    fn look_up(&mut self, folder: &str) -> Result<(), git::Error> {
        if !self.listed.contains_key(folder) {
            let listing = self.lister.list(folder)?;
            let mut paths = Vec::with_capacity(listing.files.len());
            for file in listing.files {
                let path: Arc<str> = below(folder, &file.path).into();
                self.blobs.insert(Arc::clone(&path), file.blob);
                paths.push(path);
            }
            paths.sort();
            let errors = listing.errors.into_iter().map(|error| error.below(folder));
            let errors: Vec<_> = errors.filter(|error| !self.filter.ignores(&error.path)).collect();
            self.unused_errors.insert(folder.to_owned(), errors);
            self.listed.insert(folder.to_owned(), paths);
        }
        Ok(())
    }

    /// Returns all files in and below some folders, by path; of a file that is known that file.
    ///
    /// # Errors
    /// They cannot be listed.
    pub fn files_in(&mut self, places: &BTreeSet<String>) -> Result<Vec<(Arc<str>, BlobId)>, git::Error> {
        let mut found = BTreeSet::new();
        for place in places {
            match self.blobs.get_key_value(place.as_str()) {
                Some((file, _)) => drop(found.insert(Arc::clone(file))),
                None => found.extend(self.list(place)?.iter().cloned()),
            }
        }
        let with_blob = |path: Arc<str>| self.blobs.get(&path).map(|blob| (Arc::clone(&path), blob.clone()));
        Ok(found.into_iter().filter_map(with_blob).collect())
    }

    /// Reads a listed file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn blob(&self, blob: &BlobId) -> Result<Blob, git::Error> {
        self.lister.read(blob)
    }
}

impl<L: Lister> Files for Inputs<L> {
    type Error = git::Error;

    fn below(&mut self, folder: &str) -> Result<Vec<String>, git::Error> {
        Ok(self.list(folder)?.iter().map(ToString::to_string).collect())
    }

    fn id(&mut self, path: &str) -> Result<Option<BlobId>, git::Error> {
        // A marker is asked for before its folder is listed.
        if !self.blobs.contains_key(path) {
            self.look_up(folder_of(path))?;
        }
        Ok(self.blobs.get(path).cloned())
    }

    fn content(&mut self, path: &str) -> Result<Option<Vec<u8>>, git::Error> {
        let Some(blob) = self.id(path)? else { return Ok(None) };
        match self.lister.read(&blob)?.into_content(path) {
            Ok(content) => Ok(Some(content)),
            Err(error) => {
                self.errors.push(*error);
                Ok(None)
            }
        }
    }
}
