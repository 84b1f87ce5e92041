//! What is to stand on the forge, and what stands there: pure.
//!
//! Each thing that can be said has a slot of its own: a status its commit and context, a comment its marker. Saying something is
//! setting what the slot is to hold; what is said again before it was written replaces it, so that of many changes the forge
//! sees the last. A slot is kept until it is released, so nothing that stands there is written again after a restart.
//!
//! A write whose answer was lost may have been carried out. Such a slot is unsure: before it is written again, the forge is asked
//! what stands there.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Classify as _, ErrorClass};
use crate::forge::{Error, Limits};
use crate::model::forge::{CommitStatus, Reaction, ThreadNumber};
use crate::model::id::{CommitId, Digest};

/// Pause after the first failure; it doubles with each that follows.
const RETRY_FIRST: SignedDuration = SignedDuration::from_secs(1);
/// The longest pause after failures.
const RETRY_MAX: SignedDuration = SignedDuration::from_mins(2);
/// Pause after a refusal that a person has to fix: a token, a scope, a conversation that is locked.
const DENIED_PAUSE: SignedDuration = SignedDuration::from_mins(10);
/// Things that may wait to be said; a forge that is down for days must not fill the memory.
const WAITING_MAX: usize = 10_000;

/// Where something stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum Slot {
    /// A reaction to a person's comment.
    Reaction {
        /// The comment.
        comment: u64,
        /// Which.
        reaction: Reaction,
    },
    /// One row in a commit's list.
    Status {
        /// The commit.
        commit: CommitId,
        /// The row.
        context: String,
    },
    /// A comment of ours, by its marker.
    Comment {
        /// The marker's id.
        id: String,
    },
}

impl Slot {
    /// Returns the key its record is kept under, below the outbox's prefix.
    pub fn key(&self) -> String {
        match self {
            Self::Status { commit, context } => format!("status/{commit}/{}", crate::store::records::escape(context)),
            Self::Comment { id } => format!("comment/{id}"),
            Self::Reaction { comment, reaction } => format!("reaction/{comment}/{reaction:?}"),
        }
    }
}

/// Something to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum Saying {
    /// A reaction.
    Reaction,
    /// A status.
    Status(CommitStatus),
    /// A comment.
    Comment {
        /// Where.
        thread: ThreadNumber,
        /// Its text, without the marker.
        body: String,
    },
}

impl Saying {
    /// Returns what it is compared by: a status that says the same with another link is the same.
    fn digest(&self) -> Digest {
        let hash = match self {
            Self::Reaction => Sha256::new(),
            Self::Status(status) => Sha256::new().chain_update(format!("{:?}\n{}", status.state, status.description)),
            Self::Comment { body, .. } => Sha256::new().chain_update(body),
        };
        Digest::new(format!("{:x}", hash.finalize()))
    }
}

/// What is known of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The slot.
    pub slot: Slot,
    /// What it is to hold, until that is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Saying>,
    /// When that may be written; later where several changes are to become one.
    pub due: Timestamp,
    /// What stands there, by its digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands: Option<Digest>,
    /// The comment, once it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<u64>,
    /// How often it was written: an older text never takes a newer one's place.
    #[serde(default)]
    pub sequence: u64,
    /// When it was last written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_at: Option<Timestamp>,
    /// A write was begun and nobody knows what came of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsure: bool,
    /// Not written before, whatever it is to hold: a person has to fix something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied_until: Option<Timestamp>,
}

impl Entry {
    /// Returns when what it is to hold may be written.
    fn due(&self) -> Timestamp {
        self.denied_until.map_or(self.due, |until| until.max(self.due))
    }
}

/// A write that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The slot.
    pub slot: Slot,
    /// What is written.
    pub saying: Saying,
    /// The comment that is edited; absent writes a new one.
    pub comment: Option<u64>,
    /// The sequence the text carries.
    pub sequence: u64,
    /// The forge must be asked first what stands there.
    pub unsure: bool,
}

/// What came of a write.
#[derive(Debug)]
pub enum SendOutcome {
    /// It stands there.
    Stands {
        /// The comment that holds it.
        comment: Option<u64>,
    },
    /// The comment that was to be edited is gone: somebody deleted it.
    Gone,
    /// It failed.
    Failed(Error),
}

/// What happens next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// This is due.
    Write(Box<Write>),
    /// Nothing before this instant.
    At(Timestamp),
    /// Nothing, until something is said.
    Nothing,
}

/// Everything that is to be said and that stands.
#[derive(Clone, Debug)]
pub struct Outbox {
    entries: BTreeMap<Slot, Entry>,
    write_pause: SignedDuration,
    /// Nothing is written before: the forge does not answer, or asked for a pause.
    not_before: Option<Timestamp>,
    failures: u32,
    last_write: Option<Timestamp>,
    /// Slots whose record must be written down.
    changed: Vec<Slot>,
}

impl Outbox {
    /// Begins with what an earlier life wrote down.
    pub fn restore(entries: impl IntoIterator<Item = Entry>, limits: Limits) -> Self {
        Self {
            entries: entries.into_iter().map(|entry| (entry.slot.clone(), entry)).collect(),
            write_pause: SignedDuration::try_from(limits.write_pause).unwrap_or_default(),
            not_before: None,
            failures: 0,
            last_write: None,
            changed: Vec::new(),
        }
    }

    /// Returns what is known of a slot.
    pub fn entry(&self, slot: &Slot) -> Option<&Entry> {
        self.entries.get(slot)
    }

    /// Tells whether a comment is known to be one of ours.
    pub fn is_own(&self, comment: u64) -> bool {
        self.entries.values().any(|entry| entry.comment == Some(comment))
    }

    /// Returns how many things wait to be said.
    pub fn waiting(&self) -> usize {
        self.entries.values().filter(|entry| entry.wanted.is_some()).count()
    }

    /// Says something, at `due` at the latest; says nothing where it stands there already. What was to be said there is
    /// replaced, and its time kept where that is earlier.
    pub fn say(&mut self, slot: Slot, saying: Saying, due: Timestamp) {
        let digest = saying.digest();
        let Some(entry) = self.entries.get_mut(&slot) else {
            if self.waiting() >= WAITING_MAX {
                tracing::error!(?slot, "too much waits to be said on the forge; this is not said");
                return;
            }
            let entry = Entry {
                slot: slot.clone(),
                wanted: Some(saying),
                due,
                stands: None,
                comment: None,
                sequence: 0,
                written_at: None,
                unsure: false,
                denied_until: None,
            };
            self.entries.insert(slot.clone(), entry);
            self.changed.push(slot);
            return;
        };
        if entry.stands.as_ref() == Some(&digest) && !entry.unsure {
            // It changed and changed back before it was written: there is nothing to write.
            if entry.wanted.take().is_some() {
                self.changed.push(slot);
            }
            return;
        }
        if entry.wanted.as_ref() == Some(&saying) && entry.due <= due {
            return;
        }
        entry.due = if entry.wanted.is_some() { entry.due.min(due) } else { due };
        entry.wanted = Some(saying);
        self.changed.push(slot);
    }

    /// Has a comment written again though it says the same: a person asked for it, or it may be gone.
    pub fn doubt(&mut self, slot: &Slot) {
        if let Some(entry) = self.entries.get_mut(slot) {
            entry.stands = None;
        }
    }

    /// Forgets a slot. What stands on the forge stays there.
    pub fn release(&mut self, slot: &Slot) {
        if self.entries.remove(slot).is_some() {
            self.changed.push(slot.clone());
        }
    }

    /// Says what is due: people's commands are answered first, then what the commits' lists say, then comments.
    pub fn next(&self, now: Timestamp) -> Next {
        let paced = self.last_write.map(|at| at + self.write_pause);
        let earliest = self.not_before.into_iter().chain(paced).max().filter(|at| *at > now);
        let waiting = || self.entries.values().filter(|entry| entry.wanted.is_some());
        if let Some(at) = earliest {
            return if waiting().next().is_some() { Next::At(at) } else { Next::Nothing };
        }
        // The map is in the order of the variants of `Slot`, and that is the order that is promised.
        if let Some(entry) = waiting().find(|entry| entry.due() <= now)
            && let Some(saying) = entry.wanted.clone()
        {
            return Next::Write(Box::new(Write {
                slot: entry.slot.clone(),
                saying,
                comment: entry.comment,
                sequence: entry.sequence + 1,
                unsure: entry.unsure,
            }));
        }
        waiting().map(Entry::due).min().map_or(Next::Nothing, Next::At)
    }

    /// Has nothing written before this instant: the forge wants a pause.
    pub fn pause_until(&mut self, at: Timestamp) {
        self.not_before = self.not_before.max(Some(at));
    }

    /// Notes that a write begins. What is noted must be written down before it does: else a life that ends in the middle would
    /// say it twice.
    pub fn begins(&mut self, write: &Write, now: Timestamp) {
        self.last_write = Some(now);
        let Some(entry) = self.entries.get_mut(&write.slot) else { return };
        // An edit may be repeated: it makes no second comment. So may a reaction.
        let makes = write.comment.is_none() && !matches!(write.slot, Slot::Reaction { .. });
        if makes && !entry.unsure {
            entry.unsure = true;
            self.changed.push(write.slot.clone());
        }
    }

    /// Takes in what came of a write.
    pub fn ended(&mut self, write: &Write, outcome: SendOutcome, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(&write.slot) else { return };
        self.changed.push(write.slot.clone());
        match outcome {
            SendOutcome::Stands { comment } => {
                (self.failures, self.not_before) = (0, None);
                entry.unsure = false;
                entry.denied_until = None;
                entry.comment = comment;
                entry.sequence = write.sequence;
                entry.stands = Some(write.saying.digest());
                entry.written_at = Some(now);
                // Something newer may have been said while the host was asked: that stays due.
                if entry.wanted.as_ref() == Some(&write.saying) {
                    entry.wanted = None;
                }
                // A comment is dealt with once, and a reaction may be repeated: nothing of it need be remembered.
                if entry.wanted.is_none() && matches!(write.slot, Slot::Reaction { .. }) {
                    self.entries.remove(&write.slot);
                }
            }
            SendOutcome::Gone => {
                entry.comment = None;
                // Perhaps it stands elsewhere: a comment that carries the marker is found again.
                entry.unsure = true;
            }
            // What cannot be seen may be seen again, when the token is repaired; a sign on a comment that is gone cannot.
            SendOutcome::Failed(Error::NotFound { .. }) if !matches!(write.slot, Slot::Reaction { .. }) => {
                entry.unsure = write.unsure;
                entry.denied_until = Some(now + DENIED_PAUSE);
            }
            SendOutcome::Failed(error) => match error.class() {
                ErrorClass::Transient => {
                    if let Error::RateLimited { wait, .. } = error {
                        // It was refused, so it was not carried out.
                        entry.unsure = write.unsure;
                        self.not_before = now.checked_add(wait).ok();
                    } else {
                        // It stays unsure: the host may have carried out what it did not answer.
                        self.failures += 1;
                        let pause = RETRY_FIRST.saturating_mul(1 << self.failures.min(10).saturating_sub(1));
                        self.not_before = Some(now + pause.min(RETRY_MAX));
                    }
                }
                ErrorClass::Denied => {
                    entry.unsure = write.unsure;
                    entry.denied_until = Some(now + DENIED_PAUSE);
                }
                // Trying again changes nothing.
                ErrorClass::Conflict | ErrorClass::Invalid | ErrorClass::Bug => {
                    entry.unsure = false;
                    entry.wanted = None;
                    // As if it stood there: the same words are not sent again, others are.
                    entry.stands = Some(write.saying.digest());
                    if matches!(write.slot, Slot::Reaction { .. }) {
                        self.entries.remove(&write.slot);
                    }
                }
            },
        }
    }

    /// Returns the records that changed since the last call: `None` for those that are gone.
    pub fn take_changed(&mut self) -> BTreeMap<Slot, Option<Entry>> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|slot| (slot.clone(), self.entries.get(&slot).cloned())).collect()
    }

    /// Returns every slot that `is` true of.
    pub fn slots(&self, is: impl Fn(&Slot) -> bool) -> Vec<Slot> {
        self.entries.keys().filter(|slot| is(slot)).cloned().collect()
    }
}

/// Tells whether a commit's list says already what is to be said.
pub fn says_already(statuses: &[CommitStatus], wanted: &CommitStatus) -> bool {
    let words = |status: &CommitStatus| (status.state, status.description.clone());
    statuses.iter().find(|status| status.context == wanted.context).is_some_and(|found| words(found) == words(wanted))
}

#[cfg(test)]
mod tests;
