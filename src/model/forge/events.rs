//! What happens on git hosts: edits, reactions, approvals, pushes.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ForgeUser, Permission, ThreadNumber};
use crate::model::id::{CommitId, Digest};

/// Whether a comment's text was changed since it was written, as far as its host tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// Never: it is the text that its author wrote.
    Untouched,
    /// Somebody did, its author or another.
    Edited,
    /// The host does not tell us.
    Untold,
}

/// A reaction that somebody gave to a comment. Nobody can give one in another's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reacted {
    /// Who.
    pub by: ForgeUser,
    /// When, by the host's clock.
    pub at: Timestamp,
}

/// A review that approves a pull request; its text means nothing to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// Its id.
    pub id: u64,
    /// Who.
    pub by: ForgeUser,
    /// The commit that was looked at.
    pub commit: CommitId,
    /// When it was submitted, by the host's clock.
    pub at: Timestamp,
    /// Its place on its page.
    pub url: String,
}

/// What somebody had to do with a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Opened the pull request.
    Opened,
    /// Is author or committer of one of its commits.
    Authored,
    /// Pushed one of its commits.
    Pushed,
    /// Merged it.
    Merged,
}

impl Part {
    /// Says what was done with a pull request, after the name of who did it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Authored => "wrote a commit of",
            Self::Pushed => "pushed a commit of",
            Self::Merged => "merged",
        }
    }
}

/// What a host knows of a pull request's commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commits {
    /// The last one.
    pub head: Option<CommitId>,
    /// All of them.
    pub all: BTreeSet<CommitId>,
    /// Accounts that the host takes for their authors and committers.
    pub authors: Vec<ForgeUser>,
    /// Accounts that pushed them, as far as the host tells.
    pub pushers: Vec<ForgeUser>,
}

/// A push that a git host reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pushed {
    /// The commit that a branch ended with after it.
    pub commit: CommitId,
    /// Who pushed.
    pub by: ForgeUser,
}

/// A comment as the delivery of its creation had it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Said {
    /// The author's id.
    pub author: u64,
    /// SHA-256 of the text, in hexadecimal digits.
    pub body: Digest,
}

/// Something a webhook says has happened. It is a hint: what counts is read again. Beyond that, it is a witness: of what a
/// comment's text was when it was written, and of who pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForgeEvent {
    /// A branch moved.
    Push {
        /// Its short name.
        branch: String,
        /// Who moved it where.
        pushed: Option<Pushed>,
    },
    /// A pull request was opened, changed, merged or closed.
    PullRequest {
        /// Its number.
        number: ThreadNumber,
        /// Who pushed to it, where somebody did.
        pushed: Option<Pushed>,
    },
    /// A comment was written or changed. Deletions are no news.
    Comment {
        /// Where.
        thread: ThreadNumber,
        /// Which.
        id: u64,
        /// What it was when it was written; absent where it was changed.
        said: Option<Said>,
    },
}

/// What the forge vouches for about a person who commands by comment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Credentials {
    /// The account's id.
    pub id: u64,
    /// What it may do with the repository.
    pub permission: Permission,
    /// The teams it is in, as `ORG/NAME`, of those that were asked about.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub teams: BTreeSet<String>,
    /// How it took part in the change: `opened the pull request`, `merged it`. Absent where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_part: Option<String>,
    /// The page of the comment it spoke in.
    pub comment: String,
}
