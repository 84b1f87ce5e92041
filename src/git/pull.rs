//! Pull requests: their heads, the result of a merge, and the landed commits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gix::bstr::ByteSlice;
use gix::refs::transaction::{PreviousValue, RefEdit};

use super::repository::Reader;
use super::walk::{File, Listing};
use super::{Error, LANDED_MAX, REF_PULLS};
use model::commit::Commit;
use model::id::CommitId;
use model::manifest::InputError;

/// Characters of a subject that are kept.
const SUBJECT_CHARS_MAX: usize = 200;

/// Where servers publish the head of a pull request.
///
/// Source: GitHub and Gitea, both publish this ref and keep it after the branch is gone.
pub(super) fn pull_head(number: u64) -> String {
    format!("refs/pull/{number}/head")
}

/// Where we keep it.
pub(super) fn pull_ref(number: u64) -> String {
    format!("{REF_PULLS}{number}")
}

/// The files as they would be after a merge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// The files that are read.
    pub listing: Listing,
    /// Paths that both sides changed, and not to the same; the head's file stands there.
    pub conflicts: Vec<String>,
}

impl Reader {
    /// Returns the head of a pull request where the repository itself has it.
    pub(super) fn published_pull(&self, number: u64) -> Result<Option<CommitId>, Error> {
        let reading = Error::at(self.location(), "read a pull request of");
        let repo = self.local();
        let Some(mut found) = repo.try_find_reference(pull_head(number).as_str()).map_err(&reading)? else {
            return Ok(None);
        };
        let commit = found.peel_to_commit().map_err(&reading)?;
        Ok(Some(CommitId::new(commit.id.to_string())))
    }

    /// Forgets the head of a pull request; one that is not there is no error.
    ///
    /// # Errors
    /// `Repository` where the ref cannot be removed.
    pub fn forget_pull(&self, number: u64) -> Result<(), Error> {
        let name = gix::refs::FullName::try_from(pull_ref(number)).expect("a number makes a valid name");
        let edit = RefEdit::delete(name, PreviousValue::Any);
        self.local().edit_reference(edit).map_err(Error::at(self.location(), "remove a pull request from"))?;
        Ok(())
    }

    /// Returns the best common ancestor of two commits.
    ///
    /// # Errors
    /// `Unrelated` where they share no history; `ObjectMissing` where one of them is not there.
    pub fn merge_base(&self, one: &CommitId, other: &CommitId) -> Result<CommitId, Error> {
        let repo = self.ancestry();
        let ids = [self.commit_id(&repo, one)?, self.commit_id(&repo, other)?];
        let bases =
            repo.merge_bases_many(ids[0], &ids[1..]).map_err(Error::at(self.location(), "compare commits of"))?;
        let base = bases.first().map(|base| CommitId::new(base.to_string()));
        base.ok_or_else(|| Error::Unrelated {
            location: self.location().to_owned(),
            one: one.clone(),
            other: other.clone(),
        })
    }

    /// Returns the commits that a branch gained between two of its tips, newest first, along first parents: what each merge
    /// brought is one commit here. At most [`LANDED_MAX`].
    ///
    /// Without `from`, or where it is gone, that is `to` alone. Where `to` does not descend from `from`, these are the commits
    /// that `from` did not have.
    ///
    /// # Errors
    /// `ObjectMissing` where `to` is not there.
    pub fn landed(&self, from: Option<&CommitId>, to: &CommitId) -> Result<Vec<Commit>, Error> {
        let reading = Error::at(self.location(), "read commits of");
        let repo = self.ancestry();
        let to = self.commit_id(&repo, to)?;
        let known = from.and_then(|from| self.commit_id(&repo, from).ok());
        let max = if known.is_some() { LANDED_MAX } else { 1 };
        let walk = repo.rev_walk([to]).first_parent_only().all().map_err(&reading)?;
        let mut commits = Vec::new();
        for found in walk.take(max) {
            let found = found.map_err(|error| reading(gix::Error::from_error(error)))?;
            // The earlier tip may have come in as another parent, so that the branch passes it by.
            if let Some(known) = known
                && repo.merge_bases_many(found.id(), &[known]).map_err(&reading)?.iter().any(|base| *base == found.id())
            {
                break;
            }
            commits.push(commit(&found.object().map_err(&reading)?));
        }
        Ok(commits)
    }

    /// Returns a commit's subject.
    ///
    /// # Errors
    /// `ObjectMissing` where the commit is not there.
    pub fn subject(&self, id: &CommitId) -> Result<String, Error> {
        let repo = self.local();
        let id = self.commit_id(&repo, id)?;
        let found = repo.find_commit(id).map_err(Error::at(self.location(), "read commits of"))?;
        Ok(commit(&found).subject)
    }
}

fn commit(object: &gix::Commit<'_>) -> Commit {
    let message = object.message_raw_sloppy().to_str_lossy().into_owned();
    let subject: Vec<&str> = message.trim_start().lines().take_while(|line| !line.trim().is_empty()).collect();
    let author_email = object.author().map(|author| author.email.to_str_lossy().into_owned());
    Commit {
        commit: CommitId::new(object.id.to_string()),
        subject: subject.join(" ").chars().take(SUBJECT_CHARS_MAX).collect(),
        author_email: author_email.unwrap_or_default(),
    }
}

/// A path's content, or what is wrong with it.
type Entry = Result<File, InputError>;

/// Merges three listings by path and content: what `theirs` changed since `base`, on top of `ours`. Lines are not merged: a
/// file that both changed is a conflict, whatever a host makes of it.
pub fn merged(base: Listing, ours: Listing, theirs: Listing) -> Merged {
    let base = entries(base);
    let mut ours = entries(ours);
    let theirs = entries(theirs);
    let mut conflicts = Vec::new();
    let paths: BTreeSet<&Arc<str>> = base.keys().chain(theirs.keys()).collect();
    for path in paths {
        let before = base.get(path);
        let wanted = theirs.get(path);
        // What `theirs` did not change stays as `ours` has it.
        if same(before, wanted) {
            continue;
        }
        let there = ours.get(path);
        if !same(there, before) && !same(there, wanted) {
            conflicts.push(path.to_string());
        }
        // Of a conflict, too, the content of `theirs` is taken: it is what the pull request asks for.
        match wanted {
            Some(entry) => drop(ours.insert(Arc::clone(path), entry.clone())),
            None => drop(ours.remove(path)),
        }
    }
    let mut listing = Listing::default();
    for entry in ours.into_values() {
        match entry {
            Ok(file) => listing.files.push(file),
            Err(error) => listing.errors.push(error),
        }
    }
    Merged { listing, conflicts }
}

fn entries(listing: Listing) -> BTreeMap<Arc<str>, Entry> {
    // A problem counts as the content of its path: one that a pull request solves is gone after the merge.
    let errors = listing.errors.into_iter().map(|error| (error.path.as_str().into(), Err(error)));
    let files = listing.files.into_iter().map(|file| (Arc::clone(&file.path), Ok(file)));
    errors.chain(files).collect()
}

/// Tells whether two entries mean the same to us; the executable bit means nothing.
fn same(one: Option<&Entry>, other: Option<&Entry>) -> bool {
    match (one, other) {
        (Some(Ok(one)), Some(Ok(other))) => one.blob == other.blob,
        (one, other) => one == other,
    }
}
