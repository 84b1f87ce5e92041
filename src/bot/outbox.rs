//! The outbox: the desired and the known state of each slot on the forge. Pure.
//!
//! Each text has a slot: a status its commit and context, a comment its marker. Writing a text sets the desired content of its
//! slot; a newer text replaces one that was not sent yet, so the forge gets only the last of many changes. A slot is kept until
//! it is released, so a restart does not send its content again.
//!
//! Several writes may be under way at a time, of one slot only one: an older text never arrives after a newer one.
//!
//! A write without an answer may have been executed. Such a slot is unsure: before the next write the bot reads it from the
//! forge.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use forge::{Error, Limits};
use model::error::ErrorClass;
use model::forge::{CommitStatus, Reaction, ThreadNumber};
use model::id::{CommitId, Digest};

/// Pause after the first failure; it doubles with each that follows.
const RETRY_FIRST: SignedDuration = SignedDuration::from_secs(1);
/// The longest pause after failures.
const RETRY_MAX: SignedDuration = SignedDuration::from_mins(2);
/// Pause after a refusal that a person has to fix: a token, a scope, a locked conversation.
const DENIED_PAUSE: SignedDuration = SignedDuration::from_mins(10);
/// The greatest number of waiting texts; a forge that is down for days must not fill the memory.
const WAITING_MAX: usize = 10_000;

/// A place on the forge.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub(crate) enum Slot {
    /// A reaction to a person's comment.
    Reaction {
        /// The comment.
        comment: u64,
        /// The reaction.
        reaction: Reaction,
    },
    /// A status of a commit.
    Status {
        /// The commit.
        commit: CommitId,
        /// Its context.
        context: String,
    },
    /// A comment of gitfleet, by its marker.
    Comment {
        /// The marker's id.
        id: String,
    },
}

impl Slot {
    /// Returns the key its record is kept under, below the outbox's prefix.
    pub(crate) fn key(&self) -> String {
        match self {
            Self::Status { commit, context } => format!("status/{commit}/{}", engine::store::records::escape(context)),
            Self::Comment { id } => format!("comment/{id}"),
            Self::Reaction { comment, reaction } => format!("reaction/{comment}/{reaction:?}"),
        }
    }
}

/// The content of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub(crate) enum SlotContent {
    /// A reaction.
    Reaction,
    /// A status.
    Status(CommitStatus),
    /// A comment.
    Comment {
        /// Its conversation.
        thread: ThreadNumber,
        /// Its text, without the marker.
        body: String,
        /// The moment that the text is of, which is written into it; absent if it needs none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<Timestamp>,
    },
}

impl SlotContent {
    /// Creates a text that names no moment.
    pub(crate) fn comment(thread: ThreadNumber, body: String) -> Self {
        Self::Comment { thread, body, of: None }
    }

    /// Returns the digest for comparison: it ignores the link of a status, and the moment of a text.
    fn digest(&self) -> Digest {
        let hash = match self {
            Self::Reaction => Sha256::new(),
            Self::Status(status) => Sha256::new().chain_update(format!("{:?}\n{}", status.state, status.description)),
            Self::Comment { body, .. } => Sha256::new().chain_update(body),
        };
        Digest::new(format!("{:x}", hash.finalize()))
    }
}

/// The state of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    /// The slot.
    pub slot: Slot,
    /// The desired content, until it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<SlotContent>,
    /// When it may be written; later if several changes shall become one.
    pub due: Timestamp,
    /// The digest of the written content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands: Option<Digest>,
    /// The comment, once it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<u64>,
    /// The number of writes: an older text never replaces a newer one.
    #[serde(default)]
    pub sequence: u64,
    /// When it was last written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_at: Option<Timestamp>,
    /// A write was started and its result is unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsure: bool,
    /// No write before this instant: a person has to fix something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied_until: Option<Timestamp>,
}

impl Entry {
    /// Returns when the desired content may be written.
    fn due(&self) -> Timestamp {
        self.denied_until.map_or(self.due, |until| until.max(self.due))
    }

    /// Drops the desired content, if it is the one that was written.
    fn drop_written(&mut self, written: &Digest) {
        if self.wanted.as_ref().is_some_and(|wanted| wanted.digest() == *written) {
            self.wanted = None;
        }
    }
}

/// A write that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    /// The slot.
    pub slot: Slot,
    /// The content to write.
    pub content: SlotContent,
    /// The comment that is edited; absent writes a new one.
    pub comment: Option<u64>,
    /// The sequence number in the text.
    pub sequence: u64,
    /// The forge must be read first.
    pub unsure: bool,
}

/// The result of a write.
#[derive(Debug)]
pub(crate) enum SendOutcome {
    /// The content was written.
    Stands {
        /// The comment.
        comment: Option<u64>,
    },
    /// The comment to edit is gone: somebody deleted it.
    Gone,
    /// It failed.
    Failed(Error),
}

/// What happens next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Write this.
    Write(Box<Write>),
    /// Nothing before this instant.
    At(Timestamp),
    /// Nothing, until the next text.
    Nothing,
}

/// All slots.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    entries: BTreeMap<Slot, Entry>,
    /// Slots whose write was started and has no result yet.
    under_way: BTreeSet<Slot>,
    writes_max: usize,
    write_pause: SignedDuration,
    /// No write before this instant: the forge does not answer, or asked for a pause.
    not_before: Option<Timestamp>,
    failures: u32,
    last_write: Option<Timestamp>,
    /// Slots whose record must be stored.
    changed: Vec<Slot>,
}

impl Outbox {
    /// Restores the slots that an earlier process stored.
    pub(crate) fn restore(entries: impl IntoIterator<Item = Entry>, limits: Limits) -> Self {
        Self {
            entries: entries.into_iter().map(|entry| (entry.slot.clone(), entry)).collect(),
            under_way: BTreeSet::new(),
            writes_max: limits.writes_max.max(1),
            write_pause: SignedDuration::try_from(limits.write_pause).unwrap_or_default(),
            not_before: None,
            failures: 0,
            last_write: None,
            changed: Vec::new(),
        }
    }

    /// Returns the state of a slot.
    pub(crate) fn entry(&self, slot: &Slot) -> Option<&Entry> {
        self.entries.get(slot)
    }

    /// Tells whether a comment is known to be one of gitfleet.
    pub(crate) fn is_own(&self, comment: u64) -> bool {
        self.entries.values().any(|entry| entry.comment == Some(comment))
    }

    /// Tells whether a comment has the text that was last written for certain: no edit is under way, and none failed without an
    /// answer.
    pub(crate) fn is_settled(&self, comment: u64) -> bool {
        let entry = self.entries.values().find(|entry| entry.comment == Some(comment));
        entry
            .is_none_or(|entry| !self.under_way.contains(&entry.slot) && (entry.wanted.is_none() || self.failures == 0))
    }

    /// Returns the number of waiting texts.
    pub(crate) fn waiting(&self) -> usize {
        self.entries.values().filter(|entry| entry.wanted.is_some()).count()
    }

    /// Sets the desired content of a slot, to be written at `due` at the latest; does nothing if it was written already. It
    /// replaces a waiting content and keeps its due time if that is earlier.
    pub(crate) fn set(&mut self, slot: Slot, content: SlotContent, due: Timestamp) {
        let digest = content.digest();
        let Some(entry) = self.entries.get_mut(&slot) else {
            if self.waiting() >= WAITING_MAX {
                tracing::error!(?slot, "too many messages to the forge are waiting; this one is dropped");
                return;
            }
            let entry = Entry {
                slot: slot.clone(),
                wanted: Some(content),
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
        // A write under way replaces what stands.
        if entry.stands.as_ref() == Some(&digest) && !entry.unsure && !self.under_way.contains(&slot) {
            // The content changed and changed back before it was written: there is nothing to write.
            if entry.wanted.take().is_some() {
                self.changed.push(slot);
            }
            return;
        }
        if entry.wanted.as_ref() == Some(&content) && entry.due <= due {
            return;
        }
        entry.due = if entry.wanted.is_some() { entry.due.min(due) } else { due };
        entry.wanted = Some(content);
        self.changed.push(slot);
    }

    /// Marks a comment to be written again although its text is the same: a person asked for it, or it may be gone.
    pub(crate) fn doubt(&mut self, slot: &Slot) {
        if let Some(entry) = self.entries.get_mut(slot) {
            entry.stands = None;
        }
    }

    /// Drops a slot. Its content on the forge stays.
    pub(crate) fn release(&mut self, slot: &Slot) {
        if self.entries.remove(slot).is_some() {
            self.changed.push(slot.clone());
        }
    }

    /// Returns the next write: answers to commands first, then statuses, then comments. Nothing while as many writes are under
    /// way as may be.
    pub(crate) fn next(&self, now: Timestamp) -> Next {
        // After a failure one write shows whether the forge answers again.
        let most = if self.failures > 0 { 1 } else { self.writes_max };
        if self.under_way.len() >= most {
            return Next::Nothing;
        }
        let paced = self.last_write.map(|at| at + self.write_pause);
        let earliest = self.not_before.into_iter().chain(paced).max().filter(|at| *at > now);
        if let Some(at) = earliest {
            return if self.to_write().next().is_some() { Next::At(at) } else { Next::Nothing };
        }
        // The map has the order of the variants of `Slot`, which is the promised order.
        if let Some(entry) = self.to_write().find(|entry| entry.due() <= now)
            && let Some(content) = entry.wanted.clone()
        {
            return Next::Write(Box::new(Write {
                slot: entry.slot.clone(),
                content,
                comment: entry.comment,
                sequence: entry.sequence + 1,
                unsure: entry.unsure,
            }));
        }
        self.to_write().map(Entry::due).min().map_or(Next::Nothing, Next::At)
    }

    /// Returns the slots whose content waits and is not under way.
    fn to_write(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values().filter(|entry| entry.wanted.is_some() && !self.under_way.contains(&entry.slot))
    }

    /// Stops all writes until an instant: the forge asked for a pause.
    pub(crate) fn pause_until(&mut self, at: Timestamp) {
        self.not_before = self.not_before.max(Some(at));
    }

    /// Records the start of a write. The record must be stored first: a process that ends during the write would repeat it
    /// otherwise.
    pub(crate) fn begins(&mut self, write: &Write, now: Timestamp) {
        self.last_write = Some(now);
        self.under_way.insert(write.slot.clone());
        let Some(entry) = self.entries.get_mut(&write.slot) else { return };
        // Edits and reactions may be repeated: they create no second comment.
        let makes = write.comment.is_none() && !matches!(write.slot, Slot::Reaction { .. });
        if makes && !entry.unsure {
            entry.unsure = true;
            self.changed.push(write.slot.clone());
        }
    }

    /// Handles the result of a write.
    pub(crate) fn ended(&mut self, write: &Write, outcome: SendOutcome, now: Timestamp) {
        self.under_way.remove(&write.slot);
        let Some(entry) = self.entries.get_mut(&write.slot) else { return };
        let written = write.content.digest();
        self.changed.push(write.slot.clone());
        match outcome {
            SendOutcome::Stands { comment } => {
                // Without the pause: the forge may have asked another write for it meanwhile.
                self.failures = 0;
                entry.unsure = false;
                entry.denied_until = None;
                entry.comment = comment;
                entry.sequence = write.sequence;
                // A newer content may have arrived during the write: it stays due.
                entry.drop_written(&written);
                entry.stands = Some(written);
                entry.written_at = Some(now);
                // A comment is handled once, and a reaction may be repeated: no record is needed.
                if entry.wanted.is_none() && matches!(write.slot, Slot::Reaction { .. }) {
                    self.entries.remove(&write.slot);
                }
            }
            SendOutcome::Gone => {
                entry.comment = None;
                // It may be in another place: a comment with the marker will be found.
                entry.unsure = true;
            }
            // An invisible conversation may become visible when the token is repaired; a deleted comment does not come back for
            // its reaction.
            SendOutcome::Failed(Error::NotFound { .. }) if !matches!(write.slot, Slot::Reaction { .. }) => {
                entry.unsure = write.unsure;
                entry.denied_until = Some(now + DENIED_PAUSE);
            }
            SendOutcome::Failed(error) => match error.class() {
                ErrorClass::Transient => {
                    if let Error::RateLimited { wait, .. } = error {
                        // It was refused, so it was not executed.
                        entry.unsure = write.unsure;
                        self.not_before = self.not_before.max(now.checked_add(wait).ok());
                    } else {
                        // It stays unsure: the host may have executed it without an answer.
                        // Writes that were under way together fail together, which is one failure.
                        if self.not_before.is_some_and(|at| at > now) {
                            return;
                        }
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
                    entry.drop_written(&written);
                    // Treated as written: the same text is not sent again, others are.
                    entry.stands = Some(written);
                    if matches!(write.slot, Slot::Reaction { .. }) {
                        self.entries.remove(&write.slot);
                    }
                }
            },
        }
    }

    /// Returns the records that changed since the last call: `None` for dropped slots.
    pub(crate) fn take_changed(&mut self) -> BTreeMap<Slot, Option<Entry>> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|slot| (slot.clone(), self.entries.get(&slot).cloned())).collect()
    }

    /// Returns every slot that matches.
    pub(crate) fn slots(&self, is: impl Fn(&Slot) -> bool) -> Vec<Slot> {
        self.entries.keys().filter(|slot| is(slot)).cloned().collect()
    }
}

/// Tells whether a commit already has a status.
pub(crate) fn is_set_already(statuses: &[CommitStatus], wanted: &CommitStatus) -> bool {
    let found = statuses.iter().find(|status| status.context == wanted.context);
    found.is_some_and(|found| found.state == wanted.state && found.description == wanted.description)
}

#[cfg(test)]
mod tests;
