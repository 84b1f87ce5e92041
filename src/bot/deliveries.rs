//! Facts that only signed deliveries contain: the text of a comment at its creation, and who pushed. They are kept over
//! restarts. Losing them opens nothing: a command without proof does not count.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::comment_policy::COMMENT_AGE_MAX;
use super::record_place::RecordPlace;
use engine::store::records::load_all;
use engine::store::{Op, Result, Store};
use model::forge::{ForgeUser, Pushed, Said, ThreadNumber};
use model::id::CommitId;

const COMMENTS: &str = "delivered/";
const PUSHES: &str = "pushed/";

/// Kept deliveries of comments; the oldest are dropped first.
const COMMENTS_MAX: usize = 10_000;
/// Kept pushes; the oldest are dropped first.
const PUSHES_MAX: usize = 10_000;
/// How long a push is kept: longer than most pull requests are open.
const PUSH_KEPT: SignedDuration = SignedDuration::from_hours(24 * 90);

/// A comment whose creation was delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Delivered {
    /// The comment.
    pub id: u64,
    /// Its conversation.
    pub thread: ThreadNumber,
    /// Its text then.
    pub said: Said,
    /// When it was delivered.
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Push {
    pushed: Pushed,
    at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Comment(u64),
    Push(CommitId, u64),
}

/// All kept deliveries.
#[derive(Clone, Debug)]
pub(crate) struct Deliveries {
    place: RecordPlace,
    comments: BTreeMap<u64, Delivered>,
    pushes: BTreeMap<(CommitId, u64), Push>,
    changed: BTreeSet<Key>,
}

impl Deliveries {
    /// Reads the deliveries that an earlier process kept.
    ///
    /// # Errors
    /// A record that cannot be read is named.
    pub(crate) fn read(store: &dyn Store, place: RecordPlace) -> Result<Self> {
        let comments = load_all::<Delivered>(store, &place.key(COMMENTS))?.into_iter().map(|r| (r.value.id, r.value));
        let pushes = load_all::<Push>(store, &place.key(PUSHES))?.into_iter().map(|r| r.value);
        Ok(Self {
            place,
            comments: comments.collect(),
            pushes: pushes.map(|push| ((push.pushed.commit.clone(), push.pushed.by.id), push)).collect(),
            changed: BTreeSet::new(),
        })
    }

    /// Returns the delivery of a comment's creation.
    pub(crate) fn comment(&self, id: u64) -> Option<&Delivered> {
        self.comments.get(&id)
    }

    /// Records the delivery of a comment's creation; only the first one counts.
    pub(crate) fn take_comment(&mut self, thread: ThreadNumber, id: u64, said: Said, now: Timestamp) {
        // Somebody with the webhook's secret could send another one later, with the edited text.
        if let Entry::Vacant(entry) = self.comments.entry(id) {
            entry.insert(Delivered { id, thread, said, at: now });
            self.changed.insert(Key::Comment(id));
        }
    }

    /// Drops a comment that was handled.
    pub(crate) fn drop_comment(&mut self, id: u64) {
        if self.comments.remove(&id).is_some() {
            self.changed.insert(Key::Comment(id));
        }
    }

    /// Records a push.
    pub(crate) fn take_push(&mut self, pushed: Pushed, now: Timestamp) {
        let commit = pushed.commit.clone();
        let by = pushed.by.id;
        if let Entry::Vacant(entry) = self.pushes.entry((commit.clone(), by)) {
            entry.insert(Push { pushed, at: now });
            self.changed.insert(Key::Push(commit, by));
        }
    }

    /// Returns who pushed any of these commits.
    pub(crate) fn pushers<'a>(&'a self, commits: &'a BTreeSet<CommitId>) -> impl Iterator<Item = &'a ForgeUser> {
        let pushes = self.pushes.values().map(|push| &push.pushed);
        pushes.filter(|pushed| commits.contains(&pushed.commit)).map(|pushed| &pushed.by)
    }

    /// Drops what is too old, and the oldest beyond the limits.
    pub(crate) fn forget(&mut self, now: Timestamp) {
        let mut comments: Vec<_> = self.comments.values().map(|known| (known.at, known.id)).collect();
        comments.sort_unstable();
        let extra = comments.len().saturating_sub(COMMENTS_MAX);
        for (position, (at, id)) in comments.into_iter().enumerate() {
            if position < extra || now.duration_since(at) > COMMENT_AGE_MAX {
                self.drop_comment(id);
            }
        }
        let mut pushes: Vec<_> = self.pushes.iter().map(|(key, push)| (push.at, key.clone())).collect();
        pushes.sort_unstable();
        let extra = pushes.len().saturating_sub(PUSHES_MAX);
        for (position, (at, key)) in pushes.into_iter().enumerate() {
            if position < extra || now.duration_since(at) > PUSH_KEPT {
                self.pushes.remove(&key);
                self.changed.insert(Key::Push(key.0, key.1));
            }
        }
    }

    /// Returns the writes of what changed since the last call.
    pub(crate) fn take_changed(&mut self) -> Vec<Result<Op>> {
        let mut ops = Vec::new();
        for key in std::mem::take(&mut self.changed) {
            ops.push(match key {
                Key::Comment(id) => self.place.op(&format!("{COMMENTS}{id}"), self.comments.get(&id)),
                Key::Push(commit, by) => {
                    let path = format!("{PUSHES}{commit}/{by}");
                    self.place.op(&path, self.pushes.get(&(commit, by)))
                }
            });
        }
        ops
    }
}

#[cfg(test)]
mod tests;
