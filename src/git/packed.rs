//! Commits that leave their repository: packed as bytes, and written into another copy of it.
//!
//! A packed commit has its files and no earlier commits, and none of the objects that the branch's tip has: whoever writes it into a
//! copy fetches the branch first. No ref names it there. A fetch would tell the server that the copy holds its history, and the server
//! would leave out what the copy lacks.
//!
//! The form is one deflated stream. Each object is a letter for its kind, its size in eight bytes, the first the highest, and its
//! content; a commit comes after all that it holds.

use std::collections::{BTreeSet, HashSet};
use std::io::{self, Read as _};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use gix::ObjectId;
use gix::objs::{Kind, Write as _};

use super::repository::Reader;
use super::{Error, PACKED_SIZE_MAX_BYTES, durable};
use model::id::CommitId;

/// The letters of kinds.
const LETTERS: [(u8, Kind); 3] = [(b'b', Kind::Blob), (b't', Kind::Tree), (b'c', Kind::Commit)];

/// Commits as bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedCommits {
    /// The commits that are in it.
    pub commits: BTreeSet<CommitId>,
    /// Those that are not, for all together would be too large.
    pub left_out: BTreeSet<CommitId>,
    /// Their objects.
    pub bytes: Vec<u8>,
}

impl Reader {
    /// Tells whether a commit is there.
    pub fn has(&self, commit: &CommitId) -> bool {
        ObjectId::from_hex(commit.as_str().as_bytes()).is_ok_and(|id| self.local().has_object(id))
    }

    /// Returns those of some commits that are no part of a tip's history.
    ///
    /// # Errors
    /// `ObjectMissing` where the tip is not there; `Repository` where its history cannot be read.
    pub fn unreached(&self, commits: &BTreeSet<CommitId>, tip: &CommitId) -> Result<BTreeSet<CommitId>, Error> {
        let repo = self.ancestry();
        let mut left = commits.clone();
        let reading = Error::at(self.location(), "read the history of");
        let walk = repo.rev_walk([self.commit_id(&repo, tip)?]).all().map_err(&reading)?;
        for found in walk {
            if left.is_empty() {
                break;
            }
            let found = found.map_err(|error| reading(gix::Error::from_error(error)))?;
            left.remove(&CommitId::new(found.id.to_string()));
        }
        Ok(left)
    }

    /// Packs commits whose objects have [`PACKED_SIZE_MAX_BYTES`] at most, in the order of their ids. Commits beyond that are left out.
    ///
    /// # Errors
    /// `ObjectMissing` where a commit or the tip is not whole; `Repository` where they cannot be read.
    pub fn pack(&self, commits: &BTreeSet<CommitId>, tip: &CommitId) -> Result<PackedCommits, Error> {
        self.pack_within(commits, tip, PACKED_SIZE_MAX_BYTES)
    }

    pub(super) fn pack_within(
        &self,
        commits: &BTreeSet<CommitId>,
        tip: &CommitId,
        bytes_max: u64,
    ) -> Result<PackedCommits, Error> {
        let repo = self.local();
        let mut packed = PackedCommits::default();
        let mut room = bytes_max;
        // Whoever writes them has the branch, and so all that its tip holds.
        let mut known = HashSet::new();
        known.extend(self.held(&repo, tip, &known)?);
        let mut stream = DeflateEncoder::new(Vec::new(), Compression::default());
        for commit in commits {
            let held = self.held(&repo, commit, &known)?;
            let mut size = 0;
            for id in &held {
                size += self.find(&repo, *id)?.data.len() as u64;
            }
            if size > room {
                packed.left_out.insert(commit.clone());
                continue;
            }
            room -= size;
            for id in held {
                let object = self.find(&repo, id)?;
                write(&mut stream, object.kind, &object.data).map_err(|source| self.disk(source))?;
                known.insert(id);
            }
            packed.commits.insert(commit.clone());
        }
        packed.bytes = stream.finish().map_err(|source| self.disk(source))?;
        Ok(packed)
    }

    /// Returns what a commit holds beyond what is known: its files, then its folders, then itself.
    pub(super) fn held(
        &self,
        repo: &gix::Repository,
        commit: &CommitId,
        known: &HashSet<ObjectId>,
    ) -> Result<Vec<ObjectId>, Error> {
        let root = self.tree_of(repo, commit)?;
        let commit = self.commit_id(repo, commit)?;
        let mut files = Vec::new();
        let mut folders = Vec::new();
        let mut open = vec![root];
        let mut seen = HashSet::new();
        let reading = Error::at(self.location(), "read a folder of");
        while let Some(id) = open.pop() {
            if known.contains(&id) || !seen.insert(id) {
                continue;
            }
            let tree = self.find(repo, id)?.try_into_tree().map_err(&reading)?;
            for entry in tree.decode().map_err(&reading)?.entries {
                if entry.mode.is_tree() {
                    open.push(entry.oid.to_owned());
                } else if !entry.mode.is_commit() && !known.contains(entry.oid) && seen.insert(entry.oid.to_owned()) {
                    // The commit that a submodule names is in another repository.
                    files.push(entry.oid.to_owned());
                }
            }
            folders.push(id);
        }
        // A folder comes after those in it.
        files.extend(folders.into_iter().rev());
        files.extend((!known.contains(&commit)).then_some(commit));
        Ok(files)
    }

    /// Writes packed commits. They are on the disk when it returns.
    ///
    /// # Errors
    /// `Disk` where the bytes are damaged or cannot be written; `Repository` where git refuses an object.
    pub fn unpack(&self, bytes: &[u8]) -> Result<(), Error> {
        let repo = self.local();
        let mut stream = DeflateDecoder::new(bytes).take(2 * PACKED_SIZE_MAX_BYTES);
        while let Some((kind, content)) = read(&mut stream).map_err(|source| self.disk(source))? {
            if kind == Kind::Commit {
                // A commit that is there counts as whole, also after a power cut.
                durable::sync_below(&self.git_dir().join("objects"))?;
            }
            repo.objects.write_buf(kind, &content).map_err(Error::at(self.location(), "write an object to"))?;
        }
        durable::sync_below(&self.git_dir().join("objects"))
    }

    fn disk(&self, source: io::Error) -> Error {
        Error::Disk { path: self.git_dir(), source }
    }
}

fn write(stream: &mut impl io::Write, kind: Kind, content: &[u8]) -> io::Result<()> {
    let letter = LETTERS.iter().find(|(_, of)| *of == kind).map(|(letter, _)| *letter);
    let letter = letter.ok_or_else(|| io::Error::other(format!("a commit holds no {kind}")))?;
    stream.write_all(&[letter])?;
    stream.write_all(&(content.len() as u64).to_be_bytes())?;
    stream.write_all(content)
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the packed commits are damaged")
}

/// Reads the next object; `None` at the end.
fn read(stream: &mut impl io::Read) -> io::Result<Option<(Kind, Vec<u8>)>> {
    let mut letter = [0];
    if stream.read(&mut letter)? == 0 {
        return Ok(None);
    }
    let kind = LETTERS.iter().find(|(of, _)| *of == letter[0]).map(|(_, kind)| *kind).ok_or_else(damaged)?;
    let mut size = [0; size_of::<u64>()];
    stream.read_exact(&mut size)?;
    let size = u64::from_be_bytes(size);
    let mut content = Vec::new();
    stream.take(size.min(PACKED_SIZE_MAX_BYTES)).read_to_end(&mut content)?;
    if content.len() as u64 == size { Ok(Some((kind, content))) } else { Err(damaged()) }
}
