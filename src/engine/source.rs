//! The source: what is known of it, and its events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::batch::{Batch, BatchChange};
use super::event::SourceEvent;
use super::payloads::PayloadReads;
use super::persist::SOURCE_NAME;
use crate::store::{Op, records};
use config::{Approvals, Configuration};
use model::id::CommitId;
use model::journal::JournalKind;
use model::manifest::InputError;
use model::records::{JournalEntry, SourceRecord};
use model::tree::Tree;
use model::work::SourceName;

/// Longest wait of the first decision for the source, and for members that have neither answered nor failed.
pub(super) const FIRST_LOOK_MAX: SignedDuration = SignedDuration::from_secs(15);
/// The message while the source could not be read since the start.
const NOTHING_NEW: &str =
    "; it was not read since gitfleet started, so nothing new begins until it is, or until `gitfleet resume` says so";
/// Errors of a refused commit that the log names.
const REFUSAL_ERRORS_MAX: usize = 20;
/// Characters of a refused commit's first error that the journal keeps; the source's record has all errors.
const REFUSAL_CHARS_MAX: usize = 1_000;

/// Whether this process has read the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SourceLook {
    /// The source has neither answered nor failed yet.
    Awaited,
    /// The source did not answer within the time limit.
    Silent,
    /// The source answered or failed: its state is not from an earlier process.
    Seen,
}

/// What is known of the source, and what is being read from it.
#[derive(Debug)]
pub(super) struct FollowedSource {
    pub record: SourceRecord,
    look: SourceLook,
    /// Since when its first answer is awaited: since this process started.
    pub awaited_since: Timestamp,
    /// When this process first saw the commits that snapshots name, and the newest commit.
    pub seen_at: BTreeMap<CommitId, Timestamp>,
    /// The accepted commit when the source was last told which commits are to be kept.
    pub retained: Option<CommitId>,
    pub payloads: PayloadReads,
}

impl FollowedSource {
    /// Begins with what an earlier process knew of the source.
    pub(super) fn begin(configuration: &Configuration, known: &SourceRecord, now: Timestamp) -> Self {
        let record = begin_record(configuration, known);
        Self {
            seen_at: record.seen.clone().zip(record.seen_at).into_iter().collect(),
            record,
            look: SourceLook::Awaited,
            awaited_since: now,
            retained: None,
            payloads: PayloadReads::default(),
        }
    }

    /// Tells whether the source has neither answered nor failed yet, within the time limit.
    pub(super) fn is_awaited(&self) -> bool {
        self.look == SourceLook::Awaited
    }

    /// Tells whether the source answered or failed: its state is not from an earlier process.
    pub(super) fn is_seen(&self) -> bool {
        self.look == SourceLook::Seen
    }

    /// Notes that the source answered or failed.
    pub(super) fn note_look(&mut self) {
        self.look = SourceLook::Seen;
    }

    /// Notes an event about a tip: a person who accepted the pending tip accepted no other.
    pub(super) fn note_tip(&mut self) {
        self.record.accepted_rewrite = None;
        self.record.failure = None;
        self.note_look();
    }

    /// Handles an event that changes nothing but what is known of the source. `is_unread` says that this process has not read it yet.
    pub(super) fn handle(&mut self, news: SourceEvent, is_unread: bool, now: Timestamp) {
        match news {
            SourceEvent::Seen(commit) => drop(self.note_seen(&commit, now)),
            SourceEvent::Unwatched(reason) => {
                tracing::warn!(reason, "the source cannot be watched for changes; gitfleet polls it every second");
                self.record.unwatched = Some(reason);
            }
            SourceEvent::Unkept(reason) => self.record.unkept = reason,
            SourceEvent::Follows(branch) => {
                let repository = &self.record.url;
                tracing::info!(
                    repository,
                    branch,
                    "following the branch that is checked out; `source.branch` names another"
                );
                self.record.branch = Some(branch);
            }
            SourceEvent::Unchanged => {
                self.note_tip();
                // A refused or rewritten tip was taken back.
                self.record.seen.clone_from(&self.record.accepted);
                self.record.seen_at = self.record.accepted_at;
                self.record.refused.clear();
                (self.record.held_rewrite, self.record.held_why) = (None, None);
                self.record.journaled = None;
            }
            SourceEvent::Readable => {
                self.record.failure = None;
                self.note_look();
                tracing::info!("the source can be read again");
            }
            SourceEvent::Refused(commit, errors) => {
                self.note_tip();
                log_refusal(&commit, &errors);
                self.see(commit, now);
                self.record.refused = errors;
                // A person may have accepted the history that it rewrites: it is not what it waits for any more.
                (self.record.held_rewrite, self.record.held_why) = (None, None);
            }
            SourceEvent::Rewritten(commit) => self.hold_rewrite(commit, None, now),
            SourceEvent::Switched(commit, text) => self.hold_rewrite(commit, Some(text), now),
            SourceEvent::Failed(reason) => {
                self.note_look();
                tracing::error!(reason, "the source cannot be read; nothing changes");
                let nothing_new = if is_unread { NOTHING_NEW } else { "" };
                self.record.failure = Some(format!("{reason}{nothing_new}"));
            }
            // These change more than what is known of the source, or are about one of several.
            SourceEvent::Of(..)
            | SourceEvent::Restored(_)
            | SourceEvent::Accepted(_)
            | SourceEvent::Payload(..)
            | SourceEvent::HeldRead(..) => {}
        }
    }

    /// Keeps the last good commit until a person accepts one that does not descend from it. `why` says what else is to be accepted with it.
    fn hold_rewrite(&mut self, commit: CommitId, why: Option<String>, now: Timestamp) {
        self.note_tip();
        match &why {
            None => tracing::warn!(
                commit = commit.short(),
                "history was rewritten; the last good commit stays accepted until a person accepts the new one"
            ),
            Some(text) => tracing::warn!(
                commit = commit.short(),
                about = %text,
                "nothing of the newest commit begins until a person accepts it (gitfleet resume)"
            ),
        }
        self.see(commit.clone(), now);
        (self.record.held_rewrite, self.record.held_why) = (Some(commit), why);
    }

    /// Says that the accepted commit continues on a person's command, although the source could not be read.
    pub(super) fn note_continued(&mut self) {
        if let Some(failure) = &mut self.record.failure {
            *failure = failure.replace(NOTHING_NEW, "; a person lets gitfleet continue with the accepted commit");
        }
    }

    /// Handles a source that did not answer within the time limit.
    pub(super) fn give_up(&mut self) {
        self.look = SourceLook::Silent;
        let text = format!("it has not answered within {} s{NOTHING_NEW}", FIRST_LOOK_MAX.as_secs());
        tracing::warn!(about = %text, "the source cannot be read");
        self.record.failure = Some(text);
    }

    /// Records what is known of the source if it differs from what is stored.
    pub(super) fn write(&mut self, stored: &SourceRecord, batch: &mut Batch, now: Timestamp) {
        // Compared with what is stored: the entry of a batch that the store refused is written again.
        let entry = unaccepted(&self.record, now).filter(|entry| {
            // Of one commit, too, there is news: a person accepted it and it is refused, or it is refused for another reason.
            let was_accepted = entry.event == JournalKind::CommitRefused && stored.accepted_rewrite == self.record.seen;
            let is_other = unaccepted(stored, now).is_some_and(|before| before != *entry);
            self.record.seen != stored.journaled || was_accepted || is_other
        });
        if entry.is_some() {
            self.record.journaled.clone_from(&self.record.seen);
        }
        if self.record != *stored && batch.write(records::source_key(SOURCE_NAME), &self.record) {
            batch.ops.extend(entry.map(Op::Journal));
            batch.changes.push(BatchChange::Source(Box::new(self.record.clone())));
        }
    }

    /// Notes when a commit was seen first.
    pub(super) fn note_seen(&mut self, commit: &CommitId, now: Timestamp) -> Timestamp {
        *self.seen_at.entry(commit.clone()).or_insert(now)
    }

    /// Records a commit as the newest.
    fn see(&mut self, commit: CommitId, now: Timestamp) {
        let first = self.note_seen(&commit, now);
        let before = self.record.seen.replace(commit);
        if before == self.record.seen {
            return;
        }
        self.record.seen_at = Some(first);
        // No snapshot names a commit that was not accepted.
        if let Some(before) = before.filter(|before| self.record.accepted.as_ref() != Some(before)) {
            self.seen_at.remove(&before);
        }
    }

    /// Makes a commit the accepted one.
    pub(super) fn accept(&mut self, tree: &Tree, now: Timestamp) {
        if self.record.accepted != tree.commit {
            self.record.accepted_at = Some(now);
        }
        self.record.accepted.clone_from(&tree.commit);
        if let Some(commit) = &tree.commit {
            self.see(commit.clone(), now);
        }
        self.record.refused.clear();
        (self.record.held_rewrite, self.record.held_why) = (None, None);
        self.record.unrestored = None;
        self.accept_sources(&tree.sources, now);
    }

    /// Forgets which refused or held tip was journaled, after a tip was accepted.
    pub(super) fn forget_journaled(&mut self) {
        // Of several sources another may still be refused.
        if self.record.refused.is_empty() && self.record.held_rewrite.is_none() {
            self.record.journaled = None;
        }
    }

    /// Notes that the source was told to keep these commits, the accepted one among them, and forgets when others were seen.
    pub(super) fn retain(&mut self, at: &CommitId, named: &BTreeSet<CommitId>) {
        self.seen_at.retain(|commit, _| named.contains(commit) || self.record.seen.as_ref() == Some(commit));
        self.retained = Some(at.clone());
    }
}

/// Returns the journal entry about a newest commit that is refused or held.
fn unaccepted(source: &SourceRecord, at: Timestamp) -> Option<JournalEntry> {
    let commit = source.seen.as_ref()?;
    let (event, facts) = if source.held_rewrite.as_ref() == Some(commit) {
        let message = source.held_why.as_deref().unwrap_or("history was rewritten");
        (JournalKind::CommitHeld, json!({"commit": commit, "message": message}))
    } else {
        let message: String = source.refused.first()?.to_string().chars().take(REFUSAL_CHARS_MAX).collect();
        (JournalKind::CommitRefused, json!({"commit": commit, "errors": source.refused.len(), "message": message}))
    };
    Some(JournalEntry { at, event, placement: None, cluster: None, facts })
}

/// Logs a refused commit, with its first errors.
pub(super) fn log_refusal(commit: &CommitId, errors: &[InputError]) {
    tracing::error!(commit = commit.short(), errors = errors.len(), "commit refused; the last good one stays accepted");
    for error in errors.iter().take(REFUSAL_ERRORS_MAX) {
        tracing::error!(about = %error, "an error in the refused commit");
    }
}

/// Returns the name of the source in inventories: the configured name, else its location and the path that is read.
pub fn identity(configuration: &Configuration) -> String {
    configuration.source.identity.clone().unwrap_or_else(|| derived(configuration))
}

/// Returns what names the source, and what named it before it moved: what the store remembers, and where it is now, which is its
/// name while the configuration gives none.
pub fn source_name(configuration: &Configuration, known: &SourceRecord) -> SourceName {
    let name = identity(configuration);
    let mut formerly = known.formerly.clone();
    formerly.insert(derived(configuration));
    formerly.remove(&name);
    SourceName { name, formerly: Arc::new(formerly) }
}

/// Returns the source record that a process starts with: the stored one, if it belongs to this source.
fn begin_record(configuration: &Configuration, known: &SourceRecord) -> SourceRecord {
    let name = source_name(configuration, known);
    let is_same = known.url == configuration.source.url || name.is(&known.identity);
    let base = if is_same {
        known.clone()
    } else {
        SourceRecord { formerly: known.formerly.clone(), ..SourceRecord::default() }
    };
    let branch = if configuration.source.branch.is_none() { base.branch.clone() } else { None };
    let approvers = configuration.approvals().map(Approvals::who);
    SourceRecord {
        url: configuration.source.url.clone(),
        sources: begin_sources(configuration, &base),
        identity: name.name,
        unwatched: None,
        unkept: None,
        configuration: None,
        branch,
        approvers,
        ..base
    }
}

/// Returns the records of the sources that a process starts with. A source is the same for as long as its name is, also at another place.
fn begin_sources(configuration: &Configuration, known: &SourceRecord) -> BTreeMap<String, SourceRecord> {
    let record = |source: &config::Source| {
        let base = known.sources.get(&source.name).cloned().unwrap_or_default();
        let branch = if source.branch.is_none() { base.branch.clone() } else { None };
        let record = SourceRecord { url: source.url.clone(), branch, unwatched: None, unkept: None, ..base };
        (source.name.clone(), record)
    };
    configuration.sources.iter().map(record).collect()
}

fn derived(configuration: &Configuration) -> String {
    let source = &configuration.source;
    let branch = source.branch.as_deref().unwrap_or("HEAD");
    format!("{}#{branch}:{}", source.place(), source.path)
}
