//! What people tell gitfleet to do, whatever surface they say it on, and what it answers.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::forge::Credentials;
use super::runs::Surface;

/// What a person wants done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Command {
    /// What.
    pub verb: Verb,
    /// On what: a run, an approval request, or a placement, as `NAME` or `NAMESPACE/NAME`. Empty for the source, which only
    /// `Resume` knows: a rewritten history is let in.
    #[serde(default)]
    pub target: String,
    /// `Approve` and `Reject` of a run: the stage; `deletion` for the deletion gate of a placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// `Rollback`: the snapshot to go to; absent is the last that succeeded everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// `Rollback`: the commit whose snapshot to go to, or the beginning of its id; instead of `to`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_commit: Option<String>,
    /// The digest that was shown, or the beginning of it: a gate of another is not opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Why, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, at length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Say yes at a gate.
    Approve,
    /// Say no at a gate: the run ends, and its snapshot is not rolled out again.
    Reject,
    /// Start nothing new for a placement.
    Pause,
    /// Go on; for the source: let a rewritten history in.
    Resume,
    /// Try failed clusters again, and a snapshot that was rolled back or rejected.
    Retry,
    /// Return to an earlier snapshot.
    Rollback,
}

/// Who wants it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Person {
    /// A forge user, the name of an API token, or the user of the operating system.
    #[serde(alias = "person")]
    pub name: String,
    /// Where it was said.
    pub surface: Surface,
    /// What the forge vouches for; of comments only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
}

impl Person {
    /// Returns somebody who said it elsewhere than on the forge.
    pub fn of(name: impl Into<String>, surface: Surface) -> Self {
        Self { name: name.into(), surface, credentials: None }
    }
}

/// What came of a command that was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    /// What happened, for people.
    pub message: String,
    /// When.
    pub at: Timestamp,
}

/// Why a command is not carried out; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What kind of refusal.
    pub reason: RefusalReason,
    /// What was refused, why, and what to do, for people.
    pub message: String,
}

/// Kinds of refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RefusalReason {
    /// Nothing has this name.
    NotFound,
    /// The name fits more than one thing.
    Ambiguous,
    /// The person may not.
    NotAllowed,
    /// The gate is for another digest than the one shown.
    DigestMismatch,
    /// Nothing waits there.
    NotWaiting,
    /// It was asked for too long ago.
    Expired,
    /// The snapshot is not there any more.
    SnapshotGone,
    /// It cannot be done as things stand.
    NotPossible,
}

impl std::fmt::Display for Verb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Retry => "retry",
            Self::Rollback => "rollback",
        })
    }
}
