//! Several sources as one: commits that say at which commit each source is.
//!
//! Such a commit is what git calls a superproject: each source is an entry at its root, under its name, that names a commit of another
//! repository. It has no history and no time, so the same commits of the same sources are the same commit, on every machine. Only
//! gitfleet writes the repository that holds them; the files stay in the repositories of the sources, and of those that are read in place it
//! has copies.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use gix::objs::tree::{Entry, EntryKind};
use gix::objs::{Kind, Write as _};

use super::folder::author;
use super::rendered::sweep;
use super::repository::{Reader, open_options};
use super::spec::SourceSpec;
use super::{Error, JOINED_FOLDER, durable, heal};
use model::id::CommitId;
use model::tree::JoinedSource;

/// The repository of commits that join sources. Cheap to clone, usable from several threads at once.
#[derive(Clone)]
pub struct JoinedRepository {
    reader: Reader,
    dir: PathBuf,
}

impl JoinedRepository {
    /// Opens or creates the repository below a state folder. A damaged one is set aside: its commits are made again.
    ///
    /// # Errors
    /// `Disk`, `Repository`.
    pub fn open(state_dir: &Path) -> Result<Self, Error> {
        let dir = state_dir.join(JOINED_FOLDER);
        let location = dir.display().to_string();
        let options = open_options([]);
        let (mut reader, damage) = heal::open(&dir, &options, &location, ".")?;
        if let Some(damage) = damage {
            tracing::warn!(repository = %location, damage, "the repository of joined sources is damaged; it is set aside, and its commits are made again");
            drop(reader);
            heal::set_aside(&dir, &dir).map_err(Error::disk(&dir))?;
            reader = heal::open(&dir, &options, &location, ".")?.0;
        }
        Ok(Self { reader, dir })
    }

    /// Returns what reads the commits. Files are in the repositories of the sources: see [`Reader::with_blobs_of`].
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Returns the commit that joins sources, each at its commit, and writes it where it is new.
    ///
    /// # Errors
    /// `ObjectMissing` where an id is none; `Repository` where it cannot be written.
    pub fn join(&self, sources: &[JoinedSource]) -> Result<CommitId, Error> {
        let repo = self.reader.local();
        let mut entries = Vec::with_capacity(sources.len());
        let mut subject = String::new();
        let by_name: BTreeMap<&str, &JoinedSource> = sources.iter().map(|source| (&*source.name, source)).collect();
        for source in by_name.values() {
            let oid = self.reader.object_id(source.commit.as_str())?;
            entries.push(Entry { mode: EntryKind::Commit.into(), filename: source.name.as_str().into(), oid });
            let comma = if subject.is_empty() { "" } else { ", " };
            write!(subject, "{comma}{} {}", source.name, source.commit.short())
                .expect("writing to a string cannot fail");
        }
        entries.sort();
        let written = write_commit(&repo, gix::objs::Tree { entries }, &subject);
        written.map_err(Error::at(self.reader.location(), "write a commit to"))
    }

    /// Copies what a source has of a commit, without its history: it is read from here while the source is away.
    ///
    /// # Errors
    /// `ObjectMissing` where it is not whole; `Repository`, `Disk` where it cannot be read or written.
    pub fn copy(&self, from: &Reader, commit: &CommitId) -> Result<(), Error> {
        let there = from.local();
        let here = self.reader.local();
        for id in from.held(&there, commit, &HashSet::new())? {
            if here.has_object(id) {
                continue;
            }
            let object = from.find(&there, id)?;
            if object.kind == Kind::Commit {
                // A commit that is there counts as whole, also after a power cut.
                durable::sync_below(&self.dir.join("objects"))?;
            }
            let written = here.objects.write_buf(object.kind, &object.data);
            written.map_err(Error::at(self.reader.location(), "write an object to"))?;
        }
        Ok(())
    }

    /// Returns what reads the copies of a source.
    pub(super) fn copies_of(&self, spec: &SourceSpec) -> Result<Reader, Error> {
        Reader::open(&self.dir, open_options([]), &spec.location, &spec.path)
    }

    /// Keeps the pinned commits, and removes the objects of all others.
    ///
    /// # Errors
    /// `Repository`, `Disk`.
    pub fn sweep(&self) -> Result<(), Error> {
        sweep(&self.reader, &self.dir)
    }
}

/// Writes a commit without history.
fn write_commit(repo: &gix::Repository, root: gix::objs::Tree, message: &str) -> gix::Result<CommitId> {
    let tree = repo.write_object(root)?.detach();
    let none = std::iter::empty::<gix::ObjectId>();
    Ok(CommitId::new(repo.new_commit_as(author(), author(), message, tree, none)?.id.to_string()))
}

/// Returns the sources that a commit joins, by name; `None` where the commit is not there.
///
/// # Errors
/// `Repository`.
pub fn joined_sources(reader: &Reader, commit: &CommitId) -> Result<Option<Vec<JoinedSource>>, Error> {
    if !reader.has(commit) {
        return Ok(None);
    }
    let repo = reader.local();
    let root = reader.tree_of(&repo, commit)?;
    let reading = Error::at(reader.location(), "read a commit of");
    let tree = reader.find(&repo, root)?.try_into_tree().map_err(&reading)?;
    let tree = tree.decode().map_err(&reading)?;
    let linked = tree.entries.iter().filter(|entry| entry.mode.kind() == EntryKind::Commit);
    let sources = linked
        .map(|entry| JoinedSource { name: entry.filename.to_string(), commit: CommitId::new(entry.oid.to_string()) });
    Ok(Some(sources.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, digit: char) -> JoinedSource {
        JoinedSource { name: name.to_owned(), commit: CommitId::new(digit.to_string().repeat(40)) }
    }

    #[test]
    fn the_same_sources_are_the_same_commit_everywhere() {
        let one = tempfile::tempdir().expect("a folder");
        let other = tempfile::tempdir().expect("a folder");
        let one = JoinedRepository::open(one.path()).expect("it opens");
        let other = JoinedRepository::open(other.path()).expect("it opens");
        let sources = [source("platform", 'a'), source("shop", 'b')];
        let commit = one.join(&sources).expect("it is written");
        assert_eq!(other.join(&sources).expect("it is written"), commit);
        assert_eq!(other.join(&[sources[1].clone(), sources[0].clone()]).expect("it is written"), commit);
        assert_ne!(one.join(&[source("platform", 'a'), source("shop", 'c')]).expect("it is written"), commit);
        assert_eq!(joined_sources(one.reader(), &commit).expect("it is read"), Some(sources.to_vec()));
        assert_eq!(one.reader().subject(&commit).expect("it is read"), "platform aaaaaaa, shop bbbbbbb");
        assert_eq!(joined_sources(other.reader(), &CommitId::new("d".repeat(40))).expect("it is read"), None);
    }

    #[test]
    fn only_pinned_commits_stay() {
        let dir = tempfile::tempdir().expect("a folder");
        let joined = JoinedRepository::open(dir.path()).expect("it opens");
        let kept = joined.join(&[source("a", '1')]).expect("it is written");
        let gone = joined.join(&[source("a", '2')]).expect("it is written");
        joined.reader().pin("commit-kept", &kept).expect("it is pinned");
        joined.sweep().expect("it is swept");
        let again = JoinedRepository::open(dir.path()).expect("it opens");
        assert_eq!(joined_sources(again.reader(), &kept).expect("it is read"), Some(vec![source("a", '1')]));
        assert_eq!(joined_sources(again.reader(), &gone).expect("it is read"), None);
    }
}
