//! Reading a repository at a commit, without a work tree; and the pins that keep what we still need.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gix::bstr::ByteSlice;
use gix::objs::tree::EntryKind;
use gix::refs::transaction::{PreviousValue, RefEdit};
use rayon::prelude::*;

use super::trees::KnownTrees;
use super::walk::{self};
use super::{BLOB_SIZE_MAX_BYTES, Error, OBJECT_SIZE_MAX_BYTES, PACK_SLOTS, READ_SIZE_MAX_BYTES, REF_PINS, durable};
use model::id::{BlobId, CommitId};
use model::manifest::InputError;

/// How a file that is kept elsewhere by Git LFS starts.
///
/// Source: Git LFS specification, pointer files.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";
/// Memory for decoded objects while ancestry is walked, in bytes.
const ANCESTRY_CACHE_BYTES: usize = 16 * 1024 * 1024;
/// Blobs a thread reads at least: opening a thread's view of a repository costs about as much.
const BLOBS_PER_TASK_MIN: usize = 64;

/// Identifies a folder of a commit; equal ids are equal contents, names and modes included.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeId(String);

impl TreeId {
    /// Returns the id as lowercase hexadecimal.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What reading one blob gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blob {
    /// Its bytes, as they are in git: no filter and no end-of-line conversion is applied.
    Content(Vec<u8>),
    /// It was not read, because of its size in bytes.
    TooLarge(u64),
    /// Git LFS keeps the content elsewhere.
    LfsPointer,
}

impl Blob {
    /// Evaluates content that was read.
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        if bytes.starts_with(LFS_POINTER) { Self::LfsPointer } else { Self::Content(bytes) }
    }

    /// Returns the bytes, or the complaint about the file at `path`.
    pub fn into_content(self, path: &str) -> Result<Vec<u8>, Box<InputError>> {
        match self {
            Self::Content(bytes) => Ok(bytes),
            Self::TooLarge(size) => {
                let message = format!("{size} bytes, more than the {BLOB_SIZE_MAX_BYTES} that are read");
                Err(Box::new(walk::complaint(path, message, "split it, or list it in .gitfleetignore")))
            }
            Self::LfsPointer => {
                let hint = "keep manifests out of Git LFS, or list it in .gitfleetignore";
                Err(Box::new(walk::complaint(path, "the content is kept by Git LFS, which is not read", hint)))
            }
        }
    }
}

/// What stands at a path of a repository.
#[derive(Debug, PartialEq, Eq)]
pub enum RootFile {
    /// No file.
    Absent,
    /// A symbolic link, which is not followed.
    Link,
    /// A file.
    Content(Vec<u8>),
}

/// Reads one repository; cheap to clone, usable from several threads at once.
///
/// A reader taken before a poll keeps working after it and sees new objects too.
#[derive(Clone)]
pub struct Reader {
    repo: gix::ThreadSafeRepository,
    location: Arc<str>,
    subtree: Arc<str>,
    pub(super) trees: KnownTrees,
    /// Where blobs are found that this repository lacks: what programs made of folders, and the files of joined sources.
    others: Vec<gix::ThreadSafeRepository>,
}

/// Returns options that keep everything but the repository's own configuration out, and let nothing run or prompt.
///
/// A repository of another user is read like any other: its configuration is then not trusted, its objects are data.
pub(super) fn open_options(overrides: impl IntoIterator<Item = String>) -> gix::open::Options {
    let fixed = [
        // A mirror allows its own scheme on top. Others, such as ssh and ext, would start programs.
        "protocol.allow=never",
        // A replaced object would be read under an id that its content does not have.
        "core.useReplaceRefs=false",
        "core.logAllRefUpdates=false",
        "gitoxide.credentials.terminalPrompt=false",
        "gitoxide.committer.nameFallback=gitfleet",
        "gitoxide.committer.emailFallback=gitfleet@localhost",
        "http.followRedirects=initial",
        // One at a time: each holds an object and what it is made from.
        "pack.threads=1",
    ];
    let limit = format!("gitoxide.objects.allocLimit={OBJECT_SIZE_MAX_BYTES}");
    gix::open::Options::isolated()
        .config_overrides(fixed.into_iter().map(str::to_owned).chain([limit]).chain(overrides))
        .object_store_slots(gix::odb::store::init::Slots::Given(PACK_SLOTS))
}

/// Returns a subtree's path without `.` and doubled slashes; empty for the root.
pub(super) fn normal_subtree(path: &str) -> Result<String, Error> {
    let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    if path.starts_with('/') || path.contains(['\\', '\0']) || names.contains(&"..") {
        return Err(Error::PathInvalid { path: path.to_owned() });
    }
    Ok(names.join("/"))
}

/// Finds the repository that a folder is in, upwards, and the folder's path in it (empty at its root).
///
/// The reader's subtree is that path.
///
/// # Errors
/// `NotARepository` where no parent is a repository; `Disk` where the folder cannot be read.
pub fn discover(dir: &Path) -> Result<(Reader, String), Error> {
    let location = dir.display().to_string();
    let dir = dir.canonicalize().map_err(Error::disk(dir))?;
    let (found, _) = gix::discover::upwards(&dir).map_err(|error| Error::not_a_repository(&location, &error))?;
    let (git_dir, work_dir) = found.into_repository_and_work_tree_directories();
    let subtree = match work_dir.as_ref().and_then(|work| dir.strip_prefix(work.canonicalize().ok()?).ok()) {
        Some(path) => path.to_str().ok_or_else(|| Error::PathInvalid { path: path.display().to_string() })?.to_owned(),
        None => String::new(),
    };
    let reader = Reader::open(&work_dir.unwrap_or(git_dir), open_options([]), location.as_str(), &subtree)?;
    Ok((reader, subtree))
}

impl Reader {
    /// Opens the repository at a path.
    pub(super) fn open(path: &Path, options: gix::open::Options, location: &str, subtree: &str) -> Result<Self, Error> {
        let repo = gix::ThreadSafeRepository::open_opts(path, options).map_err(Error::at(location, "open"))?;
        let subtree = normal_subtree(subtree)?.into();
        Ok(Self { repo, location: location.into(), subtree, trees: KnownTrees::default(), others: Vec::new() })
    }

    /// Returns a reader that finds blobs of another repository too.
    #[must_use]
    pub fn with_blobs_of(&self, other: &Self) -> Self {
        let mut others = self.others.clone();
        others.push(other.repo.clone());
        others.extend(other.others.iter().cloned());
        Self { others, ..self.clone() }
    }

    /// Opens another repository in its place, for the same location and subtree.
    pub(super) fn opened_again(&self, path: &Path, options: gix::open::Options) -> Result<Self, Error> {
        Self::open(path, options, &self.location, &self.subtree)
    }

    pub(super) fn local(&self) -> gix::Repository {
        self.repo.to_thread_local()
    }

    /// Returns where the repository is, as text for users; never holds a token.
    pub fn location(&self) -> &str {
        &self.location
    }

    /// Returns the folder of the repository that is read; empty for all of it.
    pub fn subtree(&self) -> &str {
        &self.subtree
    }

    /// Returns the folder that holds refs and objects.
    pub fn git_dir(&self) -> PathBuf {
        self.local().common_dir().to_owned()
    }

    pub(super) fn missing(&self, id: &impl ToString) -> Error {
        Error::ObjectMissing { location: self.location.to_string(), id: id.to_string() }
    }

    pub(super) fn object_id(&self, text: &str) -> Result<gix::ObjectId, Error> {
        gix::ObjectId::from_hex(text.as_bytes()).map_err(|_| self.missing(&text))
    }

    pub(super) fn find<'r>(&self, repo: &'r gix::Repository, id: gix::ObjectId) -> Result<gix::Object<'r>, Error> {
        let found = repo.try_find_object(id).map_err(Error::at(&self.location, "read an object of"))?;
        found.ok_or_else(|| self.missing(&id))
    }

    pub(super) fn tree_of(&self, repo: &gix::Repository, commit: &CommitId) -> Result<gix::ObjectId, Error> {
        let reading = Error::at(&self.location, "read a commit of");
        let commit = self.find(repo, self.object_id(commit.as_str())?)?.try_into_commit().map_err(&reading)?;
        Ok(commit.tree_id().map_err(&reading)?.detach())
    }

    pub(super) fn folder(&self, repo: &gix::Repository, commit: &CommitId) -> Result<gix::ObjectId, Error> {
        let root = self.tree_of(repo, commit)?;
        if self.subtree.is_empty() {
            return Ok(root);
        }
        let entry = self.entry(repo, root, &self.subtree)?;
        entry.filter(|(kind, _)| *kind == EntryKind::Tree).map(|(_, id)| id).ok_or_else(|| Error::PathMissing {
            location: self.location.to_string(),
            path: self.subtree.to_string(),
            commit: commit.clone(),
        })
    }

    /// Opens a view with room for walking through history.
    pub(super) fn ancestry(&self) -> gix::Repository {
        let mut repo = self.local();
        repo.object_cache_size_if_unset(ANCESTRY_CACHE_BYTES);
        repo
    }

    /// Returns the id of a commit that is there.
    pub(super) fn commit_id(&self, repo: &gix::Repository, commit: &CommitId) -> Result<gix::ObjectId, Error> {
        let id = self.object_id(commit.as_str())?;
        self.find(repo, id)?;
        Ok(id)
    }

    /// Tells whether `new` is `old` or comes after it; `false` after a force-push, also where `old` is gone.
    ///
    /// In a shallow repository a commit beyond its border looks unrelated.
    ///
    /// # Errors
    /// `ObjectMissing` where `new` is not there.
    pub fn descends(&self, old: &CommitId, new: &CommitId) -> Result<bool, Error> {
        let repo = self.ancestry();
        let old = self.object_id(old.as_str())?;
        let new = self.object_id(new.as_str())?;
        self.find(&repo, new)?;
        if old == new {
            return Ok(true);
        }
        if !repo.has_object(old) {
            return Ok(false);
        }
        let base = repo.merge_base(old, new).map_err(Error::at(&self.location, "compare commits of"))?;
        Ok(base.is_some_and(|base| base.detach() == old))
    }

    /// Finds the commit that a revision names: a branch, a tag, an id, `HEAD~1` and the like.
    ///
    /// # Errors
    /// `RevisionUnknown` where it names none, more than one, or no commit.
    pub fn resolve(&self, revision: &str) -> Result<CommitId, Error> {
        let repo = self.local();
        let object = repo.rev_parse_single(revision.as_bytes().as_bstr()).and_then(|id| id.object());
        let commit = object.and_then(gix::Object::peel_to_commit).map_err(|error| Error::RevisionUnknown {
            location: self.location.to_string(),
            revision: revision.to_owned(),
            cause: super::Cause::last(&error),
        })?;
        Ok(CommitId::new(commit.id.to_string()))
    }

    /// Returns the id of the subtree at a commit: equal ids mean that nothing that is read has changed.
    ///
    /// # Errors
    /// `PathMissing` where the commit has no such folder; `ObjectMissing` for an unknown commit.
    pub fn tree_id(&self, commit: &CommitId) -> Result<TreeId, Error> {
        Ok(TreeId(self.folder(&self.local(), commit)?.to_string()))
    }

    /// Reads one file of the subtree at a commit, such as `.gitfleetignore`; `None` where there is none.
    ///
    /// # Errors
    /// As [`Self::files`] and [`Self::blob`]. A link or folder of that name is as if absent.
    pub fn file(&self, commit: &CommitId, path: &str) -> Result<Option<Vec<u8>>, Error> {
        let repo = self.local();
        let path = normal_subtree(path)?;
        let folder = self.folder(&repo, commit)?;
        match self.entry(&repo, folder, &path)? {
            Some((EntryKind::Blob | EntryKind::BlobExecutable, id)) => {
                self.blob(&BlobId::new(id.to_string())).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Reads one file of the whole repository at a commit, such as `CODEOWNERS`, wherever the subtree is.
    ///
    /// # Errors
    /// As [`Self::file`].
    pub fn file_of_root(&self, commit: &CommitId, path: &str) -> Result<RootFile, Error> {
        let repo = self.local();
        let root = self.tree_of(&repo, commit)?;
        Ok(match self.entry(&repo, root, path)? {
            Some((EntryKind::Blob | EntryKind::BlobExecutable, id)) => {
                RootFile::Content(self.blob(&BlobId::new(id.to_string()))?)
            }
            Some((EntryKind::Link, _)) => RootFile::Link,
            _ => RootFile::Absent,
        })
    }

    /// Returns a blob's size in bytes without reading it.
    ///
    /// # Errors
    /// `ObjectMissing`.
    pub fn size(&self, blob: &BlobId) -> Result<u64, Error> {
        self.size_in(&self.local(), blob)
    }

    pub(super) fn size_in(&self, repo: &gix::Repository, blob: &BlobId) -> Result<u64, Error> {
        let id = self.object_id(blob.as_str())?;
        let reading = Error::at(&self.location, "read an object of");
        let mut header = repo.try_find_header(id).map_err(&reading)?;
        let mut others = self.others.iter();
        while let (None, Some(other)) = (&header, others.next()) {
            header = other.to_thread_local().try_find_header(id).map_err(&reading)?;
        }
        header.map(|header| header.size()).ok_or_else(|| self.missing(blob))
    }

    /// Reads a blob of this repository, or of the others.
    pub(super) fn data(&self, repo: &gix::Repository, blob: &BlobId) -> Result<Vec<u8>, Error> {
        let id = self.object_id(blob.as_str())?;
        let mut others = self.others.iter();
        let mut found = self.find(repo, id).map(|object| object.detach().data);
        while let (Err(Error::ObjectMissing { .. }), Some(other)) = (&found, others.next()) {
            found = self.find(&other.to_thread_local(), id).map(|object| object.detach().data);
        }
        found
    }

    /// Reads one blob.
    ///
    /// # Errors
    /// `ObjectMissing`: the payload is gone; `BlobTooLarge`.
    pub fn blob(&self, blob: &BlobId) -> Result<Vec<u8>, Error> {
        let repo = self.local();
        let size = self.size_in(&repo, blob)?;
        if size > BLOB_SIZE_MAX_BYTES {
            return Err(Error::BlobTooLarge { blob: blob.clone(), size });
        }
        self.data(&repo, blob)
    }

    /// Reads many blobs on all cores; the answers are in the order of the question.
    ///
    /// # Errors
    /// `ObjectMissing` as soon as one is gone; `SourceTooLarge` where all together exceed what is read at once.
    pub fn blobs(&self, blobs: &[BlobId]) -> Result<Vec<Blob>, Error> {
        self.each_blob(blobs, |_, blob| blob)
    }

    /// Reads many blobs on all cores and keeps what `take` makes of each, by its position in the question; so that no more
    /// contents than cores are held at once.
    ///
    /// # Errors
    /// As [`Self::blobs`].
    pub fn each_blob<T: Send>(
        &self,
        blobs: &[BlobId],
        take: impl Fn(usize, Blob) -> T + Sync,
    ) -> Result<Vec<T>, Error> {
        let total = AtomicU64::new(0);
        let blobs = blobs.par_iter().enumerate().with_min_len(BLOBS_PER_TASK_MIN);
        let taken = blobs.map_init(
            || self.local(),
            |repo, (position, blob)| {
                // The header says the size, so nothing that is too large is inflated.
                let size = self.size_in(repo, blob)?;
                if size > BLOB_SIZE_MAX_BYTES {
                    return Ok(take(position, Blob::TooLarge(size)));
                }
                // Added before it is read: threads that read at the same time must not go over the limit together.
                if total.fetch_add(size, Ordering::Relaxed) + size > READ_SIZE_MAX_BYTES {
                    return Err(Error::SourceTooLarge { location: self.location.to_string() });
                }
                Ok(take(position, Blob::of(self.data(repo, blob)?)))
            },
        );
        taken.collect()
    }

    /// Keeps a commit, and everything it holds, under a name of the caller's; an existing pin moves.
    ///
    /// In a local repository read in place this writes a ref below `refs/gitfleet/` into the user's repository: that
    /// is the only thing ever written there, and it keeps `git gc` from dropping what a cluster runs.
    ///
    /// # Errors
    /// `PinName`; `ObjectMissing` for an unknown commit; `Repository` where the ref cannot be written.
    pub fn pin(&self, name: &str, commit: &CommitId) -> Result<(), Error> {
        let repo = self.local();
        let id = self.object_id(commit.as_str())?;
        // A ref to a missing commit counts as damage at the next start: the mirror would be cloned again.
        self.find(&repo, id)?;
        let edit = RefEdit::update(pin_name(name)?, id, PreviousValue::Any, "pin");
        repo.edit_reference(edit).map_err(Error::at(&self.location, "write a pin to"))?;
        // A commit is accepted only after this: without its pin its objects may be collected after a power cut.
        durable::sync(&[&repo.common_dir().join(format!("{REF_PINS}{name}"))])
    }

    /// Removes a pin; a pin that is not there is no error.
    ///
    /// # Errors
    /// `PinName`; `Repository` where the ref cannot be removed.
    pub fn unpin(&self, name: &str) -> Result<(), Error> {
        let edit = RefEdit::delete(pin_name(name)?, PreviousValue::Any);
        self.local().edit_reference(edit).map_err(Error::at(&self.location, "remove a pin from"))?;
        Ok(())
    }

    /// Returns the pins with their commits.
    ///
    /// # Errors
    /// `Repository` where the refs cannot be read.
    pub fn pins(&self) -> Result<BTreeMap<String, CommitId>, Error> {
        let repo = self.local();
        let reading = Error::at(&self.location, "read the pins of");
        let refs = repo.references().map_err(&reading)?;
        let mut pins = BTreeMap::new();
        for reference in refs.prefixed(REF_PINS).map_err(&reading)? {
            let reference = reference.map_err(&reading)?;
            let name = reference.name().as_bstr().to_str_lossy();
            if let (Some(name), Some(id)) = (name.strip_prefix(REF_PINS), reference.try_id()) {
                pins.insert(name.to_owned(), CommitId::new(id.to_string()));
            }
        }
        Ok(pins)
    }
}

fn pin_name(name: &str) -> Result<gix::refs::FullName, Error> {
    gix::refs::FullName::try_from(format!("{REF_PINS}{name}")).map_err(|_| Error::PinName { name: name.to_owned() })
}
