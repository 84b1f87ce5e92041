//! What people tell gitfleet to do, whatever surface they say it on, and what it answers.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::forge::Credentials;
use super::glob::glob_matches;
use super::id::{ClusterName, Digest, PlacementKey};
use super::runs::Channel;

/// What a person wants done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Command {
    /// What.
    pub verb: Verb,
    /// On what: a run, an approval request, or a placement, as `NAME` or `NAMESPACE/NAME`. Empty for the source, which only
    /// `Resume` knows: a rewritten history is accepted.
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
    /// `Enroll`: what the new token is known by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Box<NewAgentToken>>,
    /// Why, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, at length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Command {
    /// Makes a command that says no more than what is to be done on what.
    pub fn new(verb: Verb, target: impl Into<String>) -> Self {
        let target = target.into();
        Self {
            verb,
            target,
            stage: None,
            to: None,
            to_commit: None,
            digest: None,
            token: None,
            reason: None,
            message: None,
        }
    }
}

/// A new token of an agent. Whoever made it keeps it: nobody else learns it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewAgentToken {
    /// SHA-256 of the token, in hexadecimal digits.
    pub sha256: String,
    /// The pools that the agent may join.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub pools: BTreeSet<String>,
}

/// What can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Approve a gate.
    Approve,
    /// Say no at a gate: the run ends, and its snapshot is not rolled out again.
    Reject,
    /// Start nothing new for a placement.
    Pause,
    /// Continue; for the source: accept a rewritten history.
    Resume,
    /// Try failed clusters again, and a snapshot that was rolled back or rejected.
    Retry,
    /// Return to an earlier snapshot.
    Rollback,
    /// Let a new store continue with what members hold.
    Adopt,
    /// Let an agent connect with a new token.
    Enroll,
    /// Make an agent's token invalid.
    Revoke,
}

impl Verb {
    /// Tells whether it is about the token of an agent, whose name is the target then.
    pub fn is_about_agents(self) -> bool {
        matches!(self, Self::Enroll | Self::Revoke)
    }
}

/// Who wants it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Person {
    /// A forge user, the name of an API token, or the user of the operating system.
    #[serde(alias = "person")]
    pub name: String,
    /// Where it was said.
    pub surface: Channel,
    /// What the forge vouches for; of comments only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
    /// What the configuration allows this person; of API tokens only, and only while a command is carried out.
    #[serde(skip)]
    pub grant: Grant,
}

impl Person {
    /// Returns somebody who said it elsewhere than on the forge.
    pub fn of(name: impl Into<String>, surface: Channel) -> Self {
        Self { name: name.into(), surface, credentials: None, grant: Grant::default() }
    }
}

/// What an API token may do. The default is everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The commands; absent: all.
    pub verbs: Option<BTreeSet<Verb>>,
    /// The placements, as names or patterns of `NAME` or `NAMESPACE/NAME`; absent: all, and the source.
    pub placements: Option<Vec<String>>,
}

impl Grant {
    /// Says whether a command on a placement is allowed; without a placement it is one on the source.
    ///
    /// # Errors
    /// What the grant covers instead, for people.
    pub fn check(&self, verb: Verb, placement: Option<&PlacementKey>) -> Result<(), String> {
        if let Some(verbs) = self.verbs.as_ref().filter(|verbs| !verbs.contains(&verb)) {
            let allowed: Vec<String> = verbs.iter().map(ToString::to_string).collect();
            return Err(format!("its token may {} only, not {verb}", allowed.join(", ")));
        }
        let Some(patterns) = &self.placements else { return Ok(()) };
        let name = placement.map(ToString::to_string);
        if name.as_ref().is_some_and(|name| patterns.iter().any(|pattern| glob_matches(pattern, name))) {
            return Ok(());
        }
        let what = name.map_or_else(|| "the source".to_owned(), |name| format!("placement {name}"));
        Err(format!("its token is for the placements {} only, not for {what}", patterns.join(", ")))
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
    /// The gate it was about; of `Approve` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<WaitingGate>,
}

/// A command of a comment, a reaction or a review that was executed. It is stored with what the command changed, and deleted with the
/// record that the comment was handled: who reads the comment again in between finds the first answer here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutedCommand {
    /// The URL of the comment or the review.
    pub comment: String,
    /// The account's id.
    pub author: u64,
    /// What was done.
    pub verb: Verb,
    /// On what, as the command named it.
    pub target: String,
    /// The stage that it named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// What happened, for people.
    pub message: String,
    /// When.
    pub at: Timestamp,
}

impl ExecutedCommand {
    /// Returns the record of a command that was executed; `None` if it did not come from the git host.
    pub fn of(command: &Command, person: &Person, done: &Done) -> Option<Self> {
        let credentials = person.credentials.as_ref().filter(|credentials| !credentials.comment.is_empty())?;
        Some(Self {
            comment: credentials.comment.clone(),
            author: credentials.id,
            verb: command.verb,
            target: command.target.clone(),
            stage: command.stage.clone(),
            message: done.message.clone(),
            at: done.at,
        })
    }

    /// Returns what tells it from all others: SHA-256 of who said it where, and of what it names. The digest of the gate is no part of
    /// it: one comment does one thing to a gate, whatever waits there when it is read again.
    pub fn id(&self) -> Digest {
        let Self { comment, author, verb, target, stage, .. } = self;
        let stage = stage.as_deref().unwrap_or_default();
        Digest::new(format!("{:x}", Sha256::digest(format!("{comment}\0{author}\0{verb}\0{target}\0{stage}"))))
    }

    /// Tells whether this is the record of a command of a person.
    pub fn is_of(&self, command: &Command, person: &Person) -> bool {
        let Some(credentials) = &person.credentials else { return false };
        credentials.comment == self.comment
            && credentials.id == self.author
            && self.verb == command.verb
            && self.target == command.target
            && self.stage == command.stage
    }
}

/// A gate that waits for a person, and what it would let through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingGate {
    /// The run, or the placement where deletions wait; what `gitfleet approve` takes as its first word.
    pub name: String,
    /// The stage; `deletion` for deletions.
    pub stage: String,
    /// What an approval binds to.
    pub digest: Digest,
    /// The clusters it concerns.
    pub clusters: Vec<ClusterName>,
    /// What happens when it opens, for people.
    pub opens: String,
    /// Of a rollback: the snapshot that is returned to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u64>,
}

impl WaitingGate {
    /// Returns the line that opens exactly this gate.
    pub fn line(&self, verb: Verb) -> String {
        format!("gitfleet {verb} {} {} --digest {}", self.name, self.stage, self.digest.short())
    }
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
    /// A stage must be named, or a digest: what waits is in the message.
    NotSpecific,
    /// Nothing waits there.
    NotWaiting,
    /// It was asked for too long ago.
    Expired,
    /// The snapshot is not there any more.
    SnapshotGone,
    /// It cannot be done as things stand.
    NotPossible,
    /// What is asked for is so already.
    SoAlready,
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
            Self::Adopt => "adopt",
            Self::Enroll => "enroll",
            Self::Revoke => "revoke",
        })
    }
}
