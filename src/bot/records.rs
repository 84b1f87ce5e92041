//! The bot's records: its slots, its rollouts, the comments it handled, the pull requests it planned.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::commit_rollout::CommitRollout;
use super::deliveries::Deliveries;
use super::executed::Executions;
use super::outbox::Entry;
use super::own_commits::OwnCommits;
use engine::store::records::{EXECUTED_PREFIX, FORGE_PREFIX, load_all, put};
use engine::store::{Expected, Op, Result, Store};
use model::forge::ThreadNumber;
use model::id::{CommitId, Digest};

const OUTBOX: &str = "outbox/";
const ROLLOUT: &str = "story/";
const HEARD: &str = "heard/";
const PULL: &str = "pull/";
/// Where the records of the bots of several sources are, each below the source's name.
const SOURCES: &str = "source/";

/// How long a handled comment is remembered: longer than the greatest age of a comment at its first reading.
const HEARD_KEPT: SignedDuration = SignedDuration::from_hours(24 * 30);

/// Remembered comments; the oldest are dropped first. A dropped one is evaluated again, under the same rules.
const HEARD_MAX: usize = 20_000;

/// A comment that was handled: it is never handled again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Heard {
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
pub struct Planned {
    /// Its number.
    pub number: ThreadNumber,
    /// Its head commit.
    pub head: CommitId,
    /// The accepted commit of its plan; absent before the first plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<CommitId>,
}

/// Where a bot's records are: of several sources each has a bot of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordPlace(String);

impl RecordPlace {
    /// Returns the place of a source's bot; the only source has no name.
    pub fn of(source: &str) -> Self {
        Self(if source.is_empty() { FORGE_PREFIX.to_owned() } else { format!("{FORGE_PREFIX}{SOURCES}{source}/") })
    }

    /// Returns the key of a record at this place.
    pub fn key(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }

    /// Returns the write of a record at this place, or its deletion for `None`.
    pub fn op<T: Serialize>(&self, path: &str, value: Option<&T>) -> Result<Op> {
        let key = self.key(path);
        match value {
            Some(value) => put(key, value, Expected::Any),
            None => Ok(Op::Delete { key, expected: Expected::Any }),
        }
    }
}

/// The stored records of an earlier process.
#[derive(Debug)]
pub(crate) struct SavedRecords {
    /// The slots.
    pub outbox: Vec<Entry>,
    /// The rollouts.
    pub rollouts: Vec<CommitRollout>,
    /// Handled comments, by id.
    pub heard: BTreeMap<u64, Heard>,
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
            heard: load_all::<Heard>(store, &place.key(HEARD))?.into_iter().map(|r| (r.value.id, r.value)).collect(),
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

impl RecordPlace {
    /// Returns the write of a slot, or its deletion for `None`.
    pub fn outbox_op(&self, slot: &super::outbox::Slot, entry: Option<&Entry>) -> Result<Op> {
        self.op(&format!("{OUTBOX}{}", slot.key()), entry)
    }

    /// Returns the write of a rollout, or its deletion for `None`.
    pub fn rollout_op(&self, commit: &CommitId, rollout: Option<&CommitRollout>) -> Result<Op> {
        self.op(&format!("{ROLLOUT}{commit}"), rollout)
    }

    /// Returns the write of a pull request, or its deletion for `None`.
    pub fn pull_op(&self, number: ThreadNumber, pull: Option<&Planned>) -> Result<Op> {
        self.op(&format!("{PULL}{number}"), pull)
    }

    /// Returns the write of a handled comment.
    pub fn heard_op(&self, heard: &Heard) -> Result<Op> {
        self.op(&format!("{HEARD}{}", heard.id), Some(heard))
    }
}

/// Drops comments that are too old to be handled again, and returns the deletions.
pub(crate) fn forget_heard(heard: &mut BTreeMap<u64, Heard>, place: &RecordPlace, now: Timestamp) -> Vec<Op> {
    let mut by_age: Vec<(Timestamp, u64)> = heard.values().map(|h| (h.at, h.id)).collect();
    by_age.sort_unstable();
    let extra = by_age.len().saturating_sub(HEARD_MAX);
    let is_old = |position, at| position < extra || now.duration_since(at) > HEARD_KEPT;
    let old: Vec<u64> = by_age
        .into_iter()
        .enumerate()
        .filter(|(position, (at, _))| is_old(*position, *at))
        .map(|(_, (_, id))| id)
        .collect();
    let forget = |id| {
        heard.remove(&id);
        Op::Delete { key: place.key(&format!("{HEARD}{id}")), expected: Expected::Any }
    };
    old.into_iter().map(forget).collect()
}
