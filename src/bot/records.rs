//! The bot's records: its slots, its rollouts, the comments it handled, the pull requests it planned.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::commit_rollout::CommitRollout;
use super::deliveries::Deliveries;
use super::executed::Executions;
use super::outbox::{Entry, Slot};
use super::own_commits::OwnCommits;
use super::record_place::RecordPlace;
use engine::store::records::{EXECUTED_PREFIX, load_all};
use engine::store::{Op, Result, Store};
use model::forge::ThreadNumber;
use model::id::{CommitId, Digest};

const OUTBOX: &str = "outbox/";
const ROLLOUT: &str = "story/";
const HANDLED: &str = "heard/";
const PULL: &str = "pull/";

/// A comment that was handled: it is never handled again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HandledComment {
    /// The comment.
    pub id: u64,
    /// Its conversation.
    pub thread: ThreadNumber,
    /// The author's id.
    pub author: u64,
    /// When it was handled.
    pub at: Timestamp,
    /// SHA-256 of its text as it was read.
    pub body: Digest,
    /// The result, as text for users.
    pub outcome: String,
    /// It contained no command: it is remembered so that a later edit cannot add one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignored: bool,
    /// The comment whose written answer also covers this one; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<u64>,
}

/// A pull request with a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Planned {
    /// Its number.
    pub number: ThreadNumber,
    /// Its head commit.
    pub head: CommitId,
    /// The accepted commit of its plan; absent before the first plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<CommitId>,
}

/// The stored records of an earlier process.
#[derive(Debug)]
pub(crate) struct SavedRecords {
    /// The slots.
    pub outbox: Vec<Entry>,
    /// The rollouts.
    pub rollouts: Vec<CommitRollout>,
    /// Handled comments, by id.
    pub handled: BTreeMap<u64, HandledComment>,
    /// Open pull requests.
    pub pulls: BTreeMap<ThreadNumber, Planned>,
    /// The kept deliveries.
    pub deliveries: Deliveries,
    /// Executed commands of comments that are not among the handled ones.
    pub executed: Executions,
    /// What the tree's commits mean for a source that is one of several.
    pub own: Option<OwnCommits>,
}

impl SavedRecords {
    /// Reads those of a source's bot; the only source has no name.
    ///
    /// # Errors
    /// A record that cannot be read is named.
    pub(crate) fn read(store: &dyn Store, source: &str) -> Result<Self> {
        let place = RecordPlace::of(source);
        let own = (!source.is_empty()).then(|| OwnCommits::read(source, store, &place)).transpose()?;
        Ok(Self {
            outbox: load_all(store, &place.key(OUTBOX))?.into_iter().map(|record| record.value).collect(),
            rollouts: load_all::<CommitRollout>(store, &place.key(ROLLOUT))?.into_iter().map(|r| r.value).collect(),
            handled: load_all::<HandledComment>(store, &place.key(HANDLED))?
                .into_iter()
                .map(|r| (r.value.id, r.value))
                .collect(),
            pulls: load_all::<Planned>(store, &place.key(PULL))?
                .into_iter()
                .map(|r| (r.value.number, r.value))
                .collect(),
            deliveries: Deliveries::read(store, place)?,
            executed: Executions::restore(
                load_all(store, EXECUTED_PREFIX)?.into_iter().map(|record| (record.key, record.value)).collect(),
            ),
            own,
        })
    }
}

/// Returns the write of a slot, or its deletion for `None`.
pub(crate) fn outbox_op(place: &RecordPlace, slot: &Slot, entry: Option<&Entry>) -> Result<Op> {
    place.op(&format!("{OUTBOX}{}", slot.key()), entry)
}

/// Returns the write of a rollout, or its deletion for `None`.
pub(crate) fn rollout_op(place: &RecordPlace, commit: &CommitId, rollout: Option<&CommitRollout>) -> Result<Op> {
    place.op(&format!("{ROLLOUT}{commit}"), rollout)
}

/// Returns the write of a pull request, or its deletion for `None`.
pub(crate) fn pull_op(place: &RecordPlace, number: ThreadNumber, pull: Option<&Planned>) -> Result<Op> {
    place.op(&format!("{PULL}{number}"), pull)
}

/// Returns the write of a handled comment, or its deletion for `None`.
pub(crate) fn handled_op(place: &RecordPlace, id: u64, handled: Option<&HandledComment>) -> Result<Op> {
    place.op(&format!("{HANDLED}{id}"), handled)
}
