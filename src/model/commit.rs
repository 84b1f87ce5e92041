//! A commit as a list of commits shows it.

use crate::id::CommitId;

/// A commit on a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its id.
    pub commit: CommitId,
    /// The first paragraph of its message on one line, cut short. As its author wrote it: not safe to print.
    pub subject: String,
    /// The author's address, as the author wrote it: anybody can write any.
    pub author_email: String,
}
