//! Commits on a branch that a person names: the only writing outside `refs/gitfleet/`, and only where a command asks for it.

use gix::bstr::{BString, ByteSlice};
use gix::objs::tree::{Entry, EntryKind};
use gix::refs::transaction::{PreviousValue, RefEdit};

use super::{Error, Reader};
use model::id::CommitId;

/// A commit to be made.
#[derive(Clone, Debug)]
pub struct NewCommit<'a> {
    /// The branch, without `refs/heads/`.
    pub branch: &'a str,
    /// Files by their path in the reader's subtree, with their content: new ones, and those that change.
    pub files: &'a [(String, String)],
    /// What it says.
    pub message: &'a str,
    /// Name and address of whom it is by where the repository's own configuration has no `user`.
    pub author: (&'a str, &'a str),
    /// When, in seconds since 1970.
    pub seconds: i64,
}

impl Reader {
    /// Returns the commit that a commit on a branch follows: the branch's newest, or `HEAD` where there is no such branch.
    ///
    /// # Errors
    /// `BranchName`; `BranchCheckedOut`, because the work tree would not follow; `RevisionUnknown` without any commit.
    pub fn base_of(&self, branch: &str) -> Result<CommitId, Error> {
        let name = full_name(branch)?;
        let repo = self.local();
        let reading = Error::at(self.location(), "read the branches of");
        if repo.head_name().map_err(&reading)?.is_some_and(|head| head == name) {
            return Err(Error::BranchCheckedOut { location: self.location().to_owned(), branch: branch.to_owned() });
        }
        match repo.try_find_reference(name.as_ref()).map_err(&reading)? {
            Some(mut found) => Ok(CommitId::new(found.peel_to_commit().map_err(&reading)?.id.to_string())),
            None => self.resolve("HEAD"),
        }
    }

    /// Makes a commit that follows `base` on a branch, which is made where it is not there. The work tree stays as it is.
    ///
    /// # Errors
    /// As [`Self::base_of`]; `Repository` where it cannot be written, or the branch has moved.
    pub fn commit_on(&self, base: &CommitId, new: &NewCommit<'_>) -> Result<CommitId, Error> {
        let parent = self.commit_id(&self.local(), base)?;
        self.commit_after(Some(parent), new)
    }

    /// Makes a commit that follows another, or the first one of a repository.
    pub(super) fn commit_after(&self, parent: Option<gix::ObjectId>, new: &NewCommit<'_>) -> Result<CommitId, Error> {
        let name = full_name(new.branch)?;
        let written = self.write_commit(name, parent, new).map_err(Error::at(self.location(), "commit to"))?;
        Ok(CommitId::new(written.to_string()))
    }

    fn write_commit(
        &self,
        name: gix::refs::FullName,
        parent: Option<gix::ObjectId>,
        new: &NewCommit<'_>,
    ) -> gix::Result<gix::ObjectId> {
        let repo = self.local();
        let mut tree = match parent {
            Some(parent) => Some(repo.find_object(parent)?.try_into_commit()?.tree_id()?.detach()),
            None => None,
        };
        for (path, content) in new.files {
            let blob = repo.write_blob(content)?.detach();
            let names: Vec<&str> =
                self.subtree().split('/').chain(path.split('/')).filter(|name| !name.is_empty()).collect();
            tree = Some(put(&repo, tree, &names, blob)?);
        }
        let tree = tree.unwrap_or_else(|| gix::ObjectId::empty_tree(repo.object_hash()));
        let configuration = repo.config_snapshot();
        let (person, address) = match (configuration.string("user.name"), configuration.string("user.email")) {
            (Some(person), Some(address)) => (person, address),
            _ => (BString::from(new.author.0), BString::from(new.author.1)),
        };
        let time = format!("{} +0000", new.seconds);
        let author = gix::actor::SignatureRef { name: person.as_bstr(), email: address.as_bstr(), time: &time };
        let id = repo.new_commit_as(author, author, new.message, tree, parent)?.id;
        let before = match (repo.try_find_reference(name.as_ref())?, parent) {
            (Some(_), Some(parent)) => PreviousValue::MustExistAndMatch(parent.into()),
            _ => PreviousValue::MustNotExist,
        };
        repo.edit_reference(RefEdit::update(name, id, before, "gitfleet"))?;
        Ok(id)
    }
}

fn full_name(branch: &str) -> Result<gix::refs::FullName, Error> {
    gix::refs::FullName::try_from(format!("refs/heads/{branch}"))
        .map_err(|_| Error::BranchName { name: branch.to_owned() })
}

/// Puts a file into a folder, and returns the folder as it is then. A file that is there keeps its mode.
fn put(
    repo: &gix::Repository,
    folder: Option<gix::ObjectId>,
    path: &[&str],
    blob: gix::ObjectId,
) -> gix::Result<gix::ObjectId> {
    let Some((first, rest)) = path.split_first() else { return Ok(blob) };
    let mut entries = match folder {
        Some(id) => {
            let tree = repo.find_object(id)?.try_into_tree()?;
            let entries = tree.decode()?.entries;
            let own = entries.iter().map(|entry| Entry {
                mode: entry.mode,
                filename: entry.filename.to_owned(),
                oid: entry.oid.to_owned(),
            });
            own.collect()
        }
        None => Vec::new(),
    };
    let known = entries.iter().position(|entry: &Entry| entry.filename == *first).map(|at| entries.remove(at));
    let below = known.as_ref().filter(|entry| entry.mode.is_tree()).map(|entry| entry.oid);
    let oid = put(repo, below, rest, blob)?;
    let mode = match (rest, &known) {
        ([], Some(known)) if !known.mode.is_tree() => known.mode,
        ([], _) => EntryKind::Blob.into(),
        _ => EntryKind::Tree.into(),
    };
    entries.push(Entry { mode, filename: (*first).into(), oid });
    // In git's order, in which a folder's name ends with a slash; the order of the names is another.
    entries.sort();
    Ok(repo.write_object(gix::objs::Tree { entries })?.detach())
}
