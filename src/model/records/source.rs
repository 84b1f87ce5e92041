//! The record of the source.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::CommitId;
use crate::manifest::InputError;

/// The record of the source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceRecord {
    /// Its location, without credentials.
    pub url: String,
    /// Its name in inventories.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// Its names in inventories before it moved, as a person stated them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub formerly: BTreeSet<String>,
    /// The accepted commit.
    pub accepted: Option<CommitId>,
    /// The newest commit seen, accepted or not.
    pub seen: Option<CommitId>,
    /// When `seen` was first seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_at: Option<Timestamp>,
    /// When `accepted` was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<Timestamp>,
    /// Why `seen` is not accepted: every error in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<InputError>,
    /// Warnings about documents of the accepted commit that name what is not there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_effect: Vec<InputError>,
    /// The newest commit that was refused or held, until another is accepted or the tip is taken back: the journal has it once, also
    /// where a process that starts refuses it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journaled: Option<CommitId>,
    /// A tip that does not descend from the accepted commit and waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_rewrite: Option<CommitId>,
    /// Who may approve by comment if a strategy does not say so, as text for users; absent without a forge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvers: Option<String>,
    /// Why the tip waits if its history was not rewritten, as text for users: another branch was checked out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_why: Option<String>,
    /// The branch that is followed because it was checked out; absent if the configuration names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The tip of a rewritten history that a person accepted. The alias is its name in stores of versions before 0.1.
    #[serde(default, alias = "letIn", skip_serializing_if = "Option::is_none")]
    pub accepted_rewrite: Option<CommitId>,
    /// The last failure to read the source (branch gone, no access), as text for users; `None` after a successful read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Why changes of a local source are not noticed, as text for users: it is polled every second then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwatched: Option<String>,
    /// Why commits that the branch dropped are in the mirror of one daemon alone, as text for users: what is at risk, and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unkept: Option<String>,
    /// Why the changed file of the configuration is not used, or not all of it, as text for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<String>,
    /// Each of several sources, by name; the record around them then says what is known of all together.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, SourceRecord>,
    /// Why the accepted commit could not be read since the start, as text for users: nothing is decided until it is read, or
    /// another one is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrestored: Option<String>,
}
