//! Types for git hosts: the forge adapter reads and writes them, and other modules use them.

mod events;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::id::CommitId;

pub use events::*;

/// Number of a pull request or an issue; both share one sequence.
pub type ThreadNumber = u64;

/// The pull requests that brought each commit, as far as the bot learned of them; commits without one are absent.
pub type CommitPulls = BTreeMap<CommitId, BTreeSet<ThreadNumber>>;

/// An account of a person or a bot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForgeUser {
    /// Constant when the account is renamed: accounts are compared by it.
    pub id: u64,
    /// The name, as text for users. Compared without regard to case.
    pub login: String,
    /// The host marks it as a bot; Gitea never does.
    #[serde(default)]
    pub is_bot: bool,
}

/// The state of a commit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StatusState {
    /// Not finished.
    Pending,
    /// Finished with success.
    Success,
    /// Finished without success.
    Failure,
    /// Unknown, or an error in gitfleet.
    Error,
}

/// The status of a commit in one context.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitStatus {
    /// Its context: `gitfleet`, `gitfleet/PLACEMENT` or `gitfleet/PLACEMENT/STAGE`.
    pub context: String,
    /// Its state.
    pub state: StatusState,
    /// Its text, one line.
    pub description: String,
    /// The URL with details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_url: Option<String>,
}

/// A pull request as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PullRequest {
    /// Its number.
    pub number: ThreadNumber,
    /// Its title, as its author wrote it.
    pub title: String,
    /// Who opened it.
    pub author: ForgeUser,
    /// Its base branch.
    pub base: String,
    /// Its head commit.
    pub head: CommitId,
    /// Its head branch.
    pub head_ref: String,
    /// It comes from another repository, or from one that is gone.
    pub is_fork: bool,
    /// It is neither merged nor closed.
    pub is_open: bool,
    /// The merge, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<Merge>,
    /// Its URL.
    pub url: String,
}

/// The merge of a pull request into its base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Merge {
    /// The merge commit, or the last commit of the merge.
    pub commit: CommitId,
    /// Who merged it, if the host says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<ForgeUser>,
}

/// A comment in the conversation of a pull request or an issue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Comment {
    /// Its id, unique in the repository's host.
    pub id: u64,
    /// Its conversation, if the host says so.
    pub thread: ThreadNumber,
    /// Who wrote it; an edit by somebody else does not change this.
    pub author: ForgeUser,
    /// Its text, as it was written.
    pub body: String,
    /// When it was written, by the host's clock.
    pub created_at: Timestamp,
    /// When it was last changed, by the host's clock.
    pub updated_at: Timestamp,
    /// An app wrote it in somebody's name.
    #[serde(default)]
    pub via_app: bool,
    /// Its URL.
    pub url: String,
}

/// The permission of an account on the repository, weakest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// Nothing.
    #[default]
    None,
    /// Read.
    Read,
    /// Sort issues; GitHub only.
    Triage,
    /// Push.
    Write,
    /// Manage the repository without its dangerous settings; GitHub only.
    Maintain,
    /// Everything.
    Admin,
}

/// A reaction to a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reaction {
    /// Accepted, in progress. gitfleet does not give it; an outbox that an earlier version stored may name it.
    Eyes,
    /// Done.
    Rocket,
    /// Not done.
    Confused,
}
