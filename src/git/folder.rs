//! Plain folders: read directly, or written as commits into a repository of gitfleet.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gix::objs::tree::{Entry, EntryKind};
use gix::refs::transaction::{PreviousValue, RefEdit};
use rayon::prelude::*;

use super::repository::{Blob, Reader, open_options};
use super::walk::{self, Child, Children, File, Level, Listing, WalkedKind};
use super::{BLOB_SIZE_MAX_BYTES, ENTRIES_MAX, Error, READ_SIZE_MAX_BYTES, REF_TRACKING, compact, durable, heal};
use crate::bare::create_bare;
use model::id::{BlobId, CommitId};

/// The one name starting with a dot that matters.
const IGNORE_FILE: &str = ".gitfleetignore";
/// Names a file may have to be read; others never get into our commits, however large they are.
const READ_EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];
/// Read only for a good error message: kustomize accepts it without an extension.
const READ_NAMES: [&str; 2] = [IGNORE_FILE, "Kustomization"];
/// The folder or file of a repository, which is never content.
const GIT: &str = ".git";
/// Whom our own commits are by.
const AUTHOR: &str = "gitfleet";
const EMAIL: &str = "gitfleet@localhost";

/// A folder as it stands.
#[derive(Clone, Debug, Default)]
pub struct Folder {
    /// Its files and what is wrong with them; a file that is too large is an error and not in `contents`.
    pub listing: Listing,
    /// What the files hold, by the id git gives it.
    pub contents: BTreeMap<BlobId, Vec<u8>>,
}

/// Reads a folder from disk as it stands, without git: what `plan` and `validate` see of a folder.
///
/// The listing is what [`Reader::files`] gives for a commit of the same files: same filter, same problems, same ids. A
/// folder below that has a `.git` of its own counts as a submodule.
///
/// # Errors
/// `NotARepository` where there is no folder; `Disk`, `FolderChanged`, `SourceTooLarge`.
pub fn read_folder(dir: &Path, is_read: &dyn Fn(&str) -> bool) -> Result<Folder, Error> {
    let level = DiskLevel::new(dir, &[])?;
    let found = walk::walk(&level, level.root.clone(), is_read)?;
    contents(dir, found)
}

/// Reads everything in and below a folder of `dir`, hidden files too: what a program that renders it may read.
///
/// The paths are relative to that folder, and every link is an error. A folder that is not there holds nothing.
///
/// # Errors
/// As [`read_folder`].
pub fn read_folder_below(dir: &Path, folder: &str) -> Result<Folder, Error> {
    let place = dir.join(folder);
    if !place.is_dir() {
        return Ok(Folder::default());
    }
    let mut level = DiskLevel::new(dir, &[])?;
    // A link on the way would lead elsewhere.
    let expected = folder.split('/').filter(|name| !name.is_empty()).fold(level.root.clone(), |at, name| at.join(name));
    level.root = place.canonicalize().map_err(Error::disk_or_change(&place))?;
    if level.root != expected {
        return Ok(Folder::default());
    }
    let found = walk::walk_all(&level, level.root.clone())?;
    contents(dir, found)
}

/// Reads the files that were found.
fn contents(dir: &Path, found: walk::Found<PathBuf>) -> Result<Folder, Error> {
    let mut listing = Listing { files: Vec::new(), errors: found.errors };
    let total = AtomicU64::new(0);
    let read: Vec<_> = found
        .files
        .into_par_iter()
        .map(|(path, disk, executable): (Arc<str>, PathBuf, bool)| {
            let (bytes, size) = read_file(&disk)?;
            let held = bytes.len() as u64;
            if total.fetch_add(held, Ordering::Relaxed) + held > READ_SIZE_MAX_BYTES {
                return Err(Error::SourceTooLarge { location: dir.display().to_string() });
            }
            // Where a file was read in part this is not git's id; such a file ends as an error, and nobody sees it.
            let id = gix::objs::compute_hash(gix::hash::Kind::Sha1, gix::objs::Kind::Blob, &bytes)
                .map_err(Error::at(&path, "hash"))?;
            let blob = if size > BLOB_SIZE_MAX_BYTES { Blob::TooLarge(size) } else { Blob::of(bytes) };
            let blob_id = BlobId::new(id.to_string());
            Ok((File { path, blob: blob_id, executable }, blob))
        })
        .collect::<Result<_, _>>()?;
    let mut contents = BTreeMap::new();
    for (file, blob) in read {
        match blob.into_content(&file.path) {
            Ok(bytes) => {
                contents.insert(file.blob.clone(), bytes);
                listing.files.push(file);
            }
            Err(error) => listing.errors.push(*error),
        }
    }
    listing.errors.sort();
    Ok(Folder { listing, contents })
}

/// Reads a file up to one byte over the limit; returns the bytes and the file's size as far as it matters.
fn read_file(path: &Path) -> Result<(Vec<u8>, u64), Error> {
    let file = fs::File::open(path).map_err(Error::disk_or_change(path))?;
    let size = file.metadata().map_err(Error::disk_or_change(path))?.len();
    let mut bytes = Vec::with_capacity(usize::try_from(size.min(BLOB_SIZE_MAX_BYTES) + 1).unwrap_or_default());
    // Bounded by itself: the file may have grown since its size was asked for.
    file.take(BLOB_SIZE_MAX_BYTES + 1).read_to_end(&mut bytes).map_err(Error::disk_or_change(path))?;
    let read = bytes.len() as u64;
    Ok((bytes, if read > BLOB_SIZE_MAX_BYTES { size.max(read) } else { read }))
}

/// The folders of a disk.
struct DiskLevel {
    root: PathBuf,
    excluded: BTreeSet<PathBuf>,
}

impl DiskLevel {
    fn new(dir: &Path, excluded: &[PathBuf]) -> Result<Self, Error> {
        let location = dir.display().to_string();
        let root = dir.canonicalize().map_err(|error| Error::not_a_repository(&location, &error))?;
        if !root.is_dir() {
            return Err(Error::not_a_repository(&location, &"it is not a folder"));
        }
        // An excluded folder that does not exist yet cannot be met.
        let excluded = excluded.iter().filter_map(|path| path.canonicalize().ok()).collect();
        Ok(Self { root, excluded })
    }
}

impl Level for DiskLevel {
    type Folder = PathBuf;
    type Content = PathBuf;

    fn children(&self, folder: &PathBuf) -> Result<Children<Self>, Error> {
        let mut children = Vec::new();
        for entry in fs::read_dir(folder).map_err(Error::disk_or_change(folder))? {
            let entry = entry.map_err(Error::disk_or_change(folder))?;
            let path = entry.path();
            if self.excluded.contains(&path) {
                continue;
            }
            let kind = entry.file_type().map_err(Error::disk_or_change(&path))?;
            let kind = if kind.is_symlink() {
                WalkedKind::Link(path)
            } else if kind.is_dir() && path.join(".git").exists() {
                // As in a commit, which has only the link to another repository.
                WalkedKind::Submodule
            } else if kind.is_dir() {
                WalkedKind::Folder(path)
            } else if kind.is_file() {
                let metadata = entry.metadata().map_err(Error::disk_or_change(&path))?;
                WalkedKind::File { content: path, executable: is_executable(&metadata) }
            } else {
                WalkedKind::Special
            };
            let name =
                gix::path::os_string_into_bstring(entry.file_name()).map_err(Error::at("disk", "read a name on"))?;
            children.push(Child { name: name.into(), kind });
        }
        children.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(children)
    }

    fn leads_to_file(&self, _: &str, link: &PathBuf) -> Result<bool, Error> {
        let target = fs::read_link(link).map_err(Error::disk_or_change(link))?;
        // As in a commit, which cannot say where an absolute target leads.
        Ok(target.is_relative() && link.is_file())
    }
}

#[cfg(unix)]
fn is_executable(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o100 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &fs::Metadata) -> bool {
    false
}

/// A folder, and gitfleet's repository with its states as commits.
pub(super) struct FolderMirror {
    pub dir: PathBuf,
    pub excluded: Vec<PathBuf>,
    /// All files are recorded, because programs that render folders read them.
    pub everything: bool,
    /// Our repository of its states.
    pub kept: PathBuf,
    pub reader: Reader,
    /// What is wrong with our repository and makes it to be made again.
    pub damage: Option<String>,
}

/// What is to be written; files by their position in the list of paths.
enum FolderNode {
    Folder(Vec<(Vec<u8>, FolderNode)>),
    File { position: usize, executable: bool },
    Link(PathBuf),
    Submodule,
}

impl FolderMirror {
    /// Writes what the folder holds now as a commit on top of the one before; unchanged files are the same commit.
    ///
    /// Only what may be read gets in: manifests by their extension, `.gitfleetignore`, links (so that the reader can
    /// refuse them) and the fact that a folder is another repository. The commit carries no time, so that the same
    /// sequence of contents is the same sequence of commits.
    pub(crate) fn poll(&mut self) -> Result<CommitId, Error> {
        self.record_as(&Recorded::Next)
    }

    /// Writes what the folder holds now as a commit of some kind; see [`Self::poll`].
    pub(crate) fn record_as(&mut self, kind: &Recorded<'_>) -> Result<CommitId, Error> {
        if let Some(damage) = self.damage.take() {
            tracing::warn!(repository = %self.kept.display(), damage, "our record of the folder is damaged; making it again");
            for pin in rebuild_folder(self).inspect_err(|_| self.damage = Some(damage))? {
                tracing::warn!(repository = %self.kept.display(), pin, "it is not whole and could not be kept");
            }
        }
        self.record(kind).inspect_err(|error| {
            if error.may_be_damage() {
                self.damage = heal::damage(&self.reader);
            }
        })
    }

    /// Returns the last commit if it has this message.
    pub(crate) fn recorded(&self, message: &str) -> Option<CommitId> {
        let repo = self.reader.local();
        let last = last(&repo).ok().flatten()?;
        (last.message_raw_sloppy() == message).then(|| CommitId::new(last.id.to_string()))
    }

    fn record(&self, kind: &Recorded<'_>) -> Result<CommitId, Error> {
        let location = self.dir.display().to_string();
        let level = DiskLevel::new(&self.dir, &self.excluded)?;
        let mut collect = Collect { level: &level, everything: self.everything, paths: Vec::new(), entries: 0 };
        let nodes = collect.folder(&level.root)?;
        if nodes.is_empty() {
            // An unmounted volume looks like this, and must not read as a request to delete everything.
            return Err(Error::EmptyRepository { location });
        }
        let writing = Error::at(&location, "record the state of");
        let total = AtomicU64::new(0);
        let blobs = collect.paths.par_iter().map_init(
            || self.reader.local(),
            |repo, path| {
                let (bytes, _) = read_file(path)?;
                let size = bytes.len() as u64;
                if total.fetch_add(size, Ordering::Relaxed) + size > READ_SIZE_MAX_BYTES {
                    return Err(Error::SourceTooLarge { location: location.clone() });
                }
                Ok(repo.write_blob(bytes).map_err(&writing)?.detach())
            },
        );
        let blobs: Vec<gix::ObjectId> = blobs.collect::<Result<_, _>>()?;
        let repo = self.reader.local();
        let tree = write_tree(&repo, nodes, &blobs, &writing)?;
        let (commit, is_new) = commit(&repo, tree, kind).map_err(&writing)?;
        // Only where something was written: it waits for the whole file system.
        if is_new {
            durable::sync_below(&self.kept)?;
        }
        Ok(commit)
    }
}

/// Makes a new repository of a folder's states beside a damaged one and swaps the two, as `mirror` does for a remote.
pub(super) fn rebuild_folder(folder: &mut FolderMirror) -> Result<Vec<String>, Error> {
    let dir = folder.kept.clone();
    let location = folder.reader.location().to_owned();
    let fresh_dir = compact::room_beside(&dir).map_err(Error::disk(&dir))?;
    create_bare(&fresh_dir, &location)?;
    let fresh = Reader::open(&fresh_dir, open_options([]), &location, ".")?;
    let lost = compact::copy_what_is_whole(&folder.reader, &fresh)?;
    drop(fresh);
    let old = compact::swap(&dir)?;
    folder.reader = folder.reader.opened_again(&dir, open_options([]))?;
    compact::put_away(&old, &dir, &lost).map_err(Error::disk(&dir))?;
    Ok(lost)
}

/// Returns whom our own commits are by: no time, so that the same content is the same commit.
pub(super) fn author() -> gix::actor::SignatureRef<'static> {
    gix::actor::SignatureRef { name: AUTHOR.into(), email: EMAIL.into(), time: "0 +0000" }
}

/// What a commit of a state is.
pub(super) enum Recorded<'a> {
    /// The one after the last.
    Next,
    /// One without parents, with this message.
    Alone(&'a str),
}

fn tracking_name() -> gix::refs::FullName {
    gix::refs::FullName::try_from(format!("{REF_TRACKING}folder")).expect("a constant ref name is valid")
}

/// Returns the last commit of ours.
fn last(repo: &gix::Repository) -> gix::Result<Option<gix::Commit<'_>>> {
    Ok(match repo.try_find_reference(tracking_name().as_ref())? {
        Some(mut reference) => Some(reference.peel_to_commit()?),
        None => None,
    })
}

/// Returns the commit that the tree is the newest state of, a new one where it differs from the last, and whether it is new.
fn commit(repo: &gix::Repository, tree: gix::ObjectId, kind: &Recorded<'_>) -> gix::Result<(CommitId, bool)> {
    const STATE: &str = "state of the folder";
    let last = last(repo)?;
    let (parent, message) = match kind {
        Recorded::Next => (last.as_ref(), STATE),
        Recorded::Alone(message) => (None, *message),
    };
    if let Some(last) = &last
        && last.tree_id()?.detach() == tree
        && (matches!(kind, Recorded::Next) || last.message_raw_sloppy() == message)
    {
        return Ok((CommitId::new(last.id.to_string()), false));
    }
    let parents = parent.map(|commit| commit.id);
    let id = repo.new_commit_as(author(), author(), message, tree, parents)?.id;
    repo.edit_reference(RefEdit::update(tracking_name(), id, PreviousValue::Any, STATE))?;
    Ok((CommitId::new(id.to_string()), true))
}

struct Collect<'a> {
    level: &'a DiskLevel,
    everything: bool,
    paths: Vec<PathBuf>,
    entries: usize,
}

impl Collect<'_> {
    fn folder(&mut self, folder: &PathBuf) -> Result<Vec<(Vec<u8>, FolderNode)>, Error> {
        let children = self.level.children(folder)?;
        self.entries += children.len();
        if self.entries > ENTRIES_MAX {
            return Err(Error::SourceTooLarge { location: self.level.root.display().to_string() });
        }
        let mut nodes = Vec::new();
        for child in children {
            if let Some(node) = self.node(&child.name, child.kind)? {
                nodes.push((child.name, node));
            }
        }
        Ok(nodes)
    }

    fn node(&mut self, name: &[u8], kind: WalkedKind<PathBuf, PathBuf>) -> Result<Option<FolderNode>, Error> {
        let text = String::from_utf8_lossy(name);
        if text == GIT || (text.starts_with('.') && text != IGNORE_FILE && !self.everything) {
            return Ok(None);
        }
        let may_be_read = self.everything
            || READ_NAMES.contains(&&*text)
            || text.rsplit_once('.').is_some_and(|(_, extension)| READ_EXTENSIONS.contains(&extension));
        Ok(match kind {
            WalkedKind::Folder(path) => {
                let nodes = self.folder(&path)?;
                // git has no empty folders.
                (!nodes.is_empty()).then_some(FolderNode::Folder(nodes))
            }
            WalkedKind::File { content, executable } if may_be_read => {
                self.paths.push(content);
                Some(FolderNode::File { position: self.paths.len() - 1, executable })
            }
            // One to a file that nobody reads hides nothing; others may hide manifests, and the reader refuses them.
            WalkedKind::Link(path) if may_be_read || !self.level.leads_to_file("", &path)? => {
                Some(FolderNode::Link(path))
            }
            WalkedKind::Submodule => Some(FolderNode::Submodule),
            // A commit has no entry for pipes and sockets, so the reader of the commit could not refuse it.
            WalkedKind::Special if may_be_read => {
                let reason = format!("{text} is not a regular file");
                return Err(Error::NotARepository { location: self.level.root.display().to_string(), reason });
            }
            _ => None,
        })
    }
}

fn write_tree(
    repo: &gix::Repository,
    nodes: Vec<(Vec<u8>, FolderNode)>,
    blobs: &[gix::ObjectId],
    writing: &impl Fn(gix::Error) -> Error,
) -> Result<gix::ObjectId, Error> {
    let mut entries = Vec::with_capacity(nodes.len());
    for (name, node) in nodes {
        let (kind, oid) = match node {
            FolderNode::Folder(nodes) => (EntryKind::Tree, write_tree(repo, nodes, blobs, writing)?),
            FolderNode::File { position, executable: true } => (EntryKind::BlobExecutable, blobs[position]),
            FolderNode::File { position, executable: false } => (EntryKind::Blob, blobs[position]),
            FolderNode::Link(path) => {
                let target = fs::read_link(&path).map_err(Error::disk_or_change(&path))?;
                let target = gix::path::os_string_into_bstring(target.into()).map_err(writing)?;
                (EntryKind::Link, repo.write_blob(&*target).map_err(writing)?.detach())
            }
            // Which commit the other repository is at does not matter: the reader refuses or ignores it either way.
            FolderNode::Submodule => (EntryKind::Commit, gix::ObjectId::empty_tree(repo.object_hash())),
        };
        entries.push(Entry { mode: kind.into(), filename: name.into(), oid });
    }
    // In git's order, in which a folder's name ends with a slash; the order of the names is another.
    entries.sort();
    Ok(repo.write_object(gix::objs::Tree { entries }).map_err(writing)?.detach())
}
