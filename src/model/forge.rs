//! What git hosts know, in types of our own: what the adapter reads and writes, and what the others pass on.

mod events;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::id::CommitId;

pub use events::*;

/// Number of a pull request or an issue; both are counted together.
pub type ThreadNumber = u64;

/// A person or machine with an account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForgeUser {
    /// Stays when the account is renamed: accounts are compared by it.
    pub id: u64,
    /// The name, for people. Compared without regard to case.
    pub login: String,
    /// The host says that it is a machine; Gitea never does.
    #[serde(default)]
    pub is_bot: bool,
}

/// How something stands, as commit statuses say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StatusState {
    /// Not over.
    Pending,
    /// Over, and as wished.
    Success,
    /// Over, and not as wished.
    Failure,
    /// It cannot be told, or it is our own fault.
    Error,
}

/// What is said of a commit under one context.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitStatus {
    /// What it is about: `gitfleet/<placement>/<stage>`. One row of a commit's list.
    pub context: String,
    /// How it stands.
    pub state: StatusState,
    /// Why, in a line.
    pub description: String,
    /// Where more is said.
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
    /// The branch it is to be merged into.
    pub base: String,
    /// The commit it ends with.
    pub head: CommitId,
    /// The branch it comes from.
    pub head_ref: String,
    /// It comes from another repository, or from one that is gone.
    pub is_fork: bool,
    /// It is neither merged nor closed.
    pub is_open: bool,
    /// The merge, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<Merge>,
    /// Its page.
    pub url: String,
}

/// A pull request's way into its base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Merge {
    /// The last commit it brought.
    pub commit: CommitId,
    /// Who merged it, where the host says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<ForgeUser>,
}

/// A comment in the conversation of a pull request or an issue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Comment {
    /// Its id, unique in the repository's host.
    pub id: u64,
    /// Where it stands, as far as the host says.
    pub thread: ThreadNumber,
    /// Who wrote it; an edit by somebody else does not change this.
    pub author: ForgeUser,
    /// Its text, as it was written.
    pub body: String,
    /// When it was written, by the host's clock.
    pub created_at: Timestamp,
    /// When it was last changed, by the host's clock.
    pub updated_at: Timestamp,
    /// It was written through an app in somebody's name.
    #[serde(default)]
    pub via_app: bool,
    /// Its place on its page.
    pub url: String,
}

/// What an account may do with the repository, weakest first.
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
    /// Run the repository without its dangerous settings; GitHub only.
    Maintain,
    /// Everything.
    Admin,
}

/// An answer without words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reaction {
    /// Understood, and being done.
    Eyes,
    /// Done.
    Rocket,
    /// Not done.
    Confused,
}
