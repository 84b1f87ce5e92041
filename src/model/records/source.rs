//! What is known of the source.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::id::CommitId;
use crate::model::manifest::InputError;

/// What is known of the source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceRecord {
    /// Where it is, without credentials.
    pub url: String,
    /// What inventories name it by.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// What they named it by before it moved, as a person said.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub formerly: BTreeSet<String>,
    /// The accepted commit.
    pub accepted: Option<CommitId>,
    /// The newest commit seen, accepted or not.
    pub seen: Option<CommitId>,
    /// When `seen` was seen first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_at: Option<Timestamp>,
    /// When `accepted` was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<Timestamp>,
    /// Why `seen` is not accepted: every error in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<InputError>,
    /// A tip that does not descend from the accepted commit and waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_rewrite: Option<CommitId>,
    /// Who may approve by comment where a strategy does not say, for people; absent without a forge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvers: Option<String>,
    /// Why that waits where it is no rewritten history, for people: another branch was checked out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_why: Option<String>,
    /// The branch that is followed because it was checked out; absent where the configuration names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The tip of a rewritten history that a person accepted. The alias is its name in stores of versions before 0.1.
    #[serde(default, alias = "letIn", skip_serializing_if = "Option::is_none")]
    pub accepted_rewrite: Option<CommitId>,
    /// The last failure to read the source (branch gone, no access), for people; `None` when it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Why changes of a source on this machine are not heard of, for people: it is looked at every second then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwatched: Option<String>,
    /// Why the accepted commit could not be read since the daemon started, for people: until it is, or another is accepted,
    /// nothing is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrestored: Option<String>,
}
