//! Events on git hosts: edits, reactions, approvals, pushes.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ForgeUser, Permission, ThreadNumber};
use crate::id::{CommitId, Digest};

/// Whether a comment was edited, as far as its host tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// Never: it has its author's text.
    Untouched,
    /// Somebody edited it, its author or another.
    Edited,
    /// The host does not tell.
    Untold,
}

/// A reaction to a comment. Nobody can react in another's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reacted {
    /// Who.
    pub by: ForgeUser,
    /// When, by the host's clock.
    pub at: Timestamp,
}

/// A review that approves a pull request; its text is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// Its id.
    pub id: u64,
    /// Who.
    pub by: ForgeUser,
    /// The reviewed commit.
    pub commit: CommitId,
    /// When it was submitted, by the host's clock.
    pub at: Timestamp,
    /// Its URL.
    pub url: String,
}

/// How somebody contributed to a change.
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
    /// Returns the contribution as a phrase that follows the name of the account.
    pub fn description(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Authored => "wrote a commit of",
            Self::Pushed => "pushed a commit of",
            Self::Merged => "merged",
        }
    }
}

/// The commits of a pull request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commits {
    /// The last one.
    pub head: Option<CommitId>,
    /// All of them.
    pub all: BTreeSet<CommitId>,
    /// Accounts that the host names as their authors and committers.
    pub authors: Vec<ForgeUser>,
    /// Accounts that pushed them, as far as the host tells.
    pub pushers: Vec<ForgeUser>,
}

/// A push that a git host reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pushed {
    /// The head of the branch after it.
    pub commit: CommitId,
    /// Who pushed.
    pub by: ForgeUser,
}

/// A comment in the delivery of its creation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Said {
    /// The author's id.
    pub author: u64,
    /// SHA-256 of the text, in hexadecimal digits.
    pub body: Digest,
}

/// An event from a webhook. It is only a hint, and the state is read again. It also proves two facts: the text of a comment at
/// its creation, and who pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForgeEvent {
    /// A branch moved.
    Push {
        /// Its short name.
        branch: String,
        /// Who pushed which commit.
        pushed: Option<Pushed>,
    },
    /// A pull request was opened, changed, merged or closed.
    PullRequest {
        /// Its number.
        number: ThreadNumber,
        /// Who pushed to it, if somebody did.
        pushed: Option<Pushed>,
    },
    /// A comment was written or edited. Deletions are ignored.
    Comment {
        /// Its conversation.
        thread: ThreadNumber,
        /// Its id.
        id: u64,
        /// Its text at creation; absent for an edit.
        said: Option<Said>,
    },
}

/// The forge's facts about a person who commands by comment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Credentials {
    /// The account's id.
    pub id: u64,
    /// Its permission on the repository.
    pub permission: Permission,
    /// Its teams, as `ORG/NAME`, among those that gitfleet asked about.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub teams: BTreeSet<String>,
    /// Its contribution to the change: `opened the pull request`, `merged it`. Absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_part: Option<String>,
    /// The URL of its comment.
    pub comment: String,
}
