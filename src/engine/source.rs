//! The source: its events, and what an accepted commit changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use super::persist::write_down;
use super::persist::{self, SOURCE_NAME};
use super::sources;
use super::{Batch, Core, Effect, FIRST_LOOK_MAX, PAYLOAD_RETRY, SourceEvent};
use crate::store::{Op, records};
use config::{Approvals, Configuration};
use decide::evictions::Disruptions;
use decide::render::named;
use decide::rollout::Heard;
use decide::state::{Payload, PlacementState};
use decide::strategies::Staged;
use decide::without_effect::without_effect;
use model::id::{CommitId, PlacementKey};
use model::journal::JournalKind;
use model::manifest::InputError;
use model::records::{JournalEntry, ResourceSnapshot, SourceRecord};
use model::tree::{Skipped, Tree};
use model::work::SourceName;

/// The message while the source could not be read since the start.
const NOTHING_NEW: &str =
    "; it was not read since gitfleet started, so nothing new begins until it is, or until `gitfleet resume` says so";
/// Documents without an object that the log names for one commit; the rest is counted.
const SKIPPED_NAMED_MAX: usize = 20;
/// Warnings about documents without effect that the source's record keeps.
const WITHOUT_EFFECT_MAX: usize = 100;
/// Errors of a refused commit that the log names.
const REFUSAL_ERRORS_MAX: usize = 20;
/// Characters of a refused commit's first error that the journal keeps; the source's record has all errors.
const REFUSAL_CHARS_MAX: usize = 1_000;

/// Whether this process has read the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceLook {
    /// The source has neither answered nor failed yet.
    Awaited,
    /// The source did not answer within the time limit.
    Silent,
    /// The source answered or failed: its state is not from an earlier process.
    Seen,
}

impl Core {
    /// Handles an event of the source.
    pub(super) fn handle_source(&mut self, news: SourceEvent, now: Timestamp) {
        if let SourceEvent::Of(name, news) = news {
            return self.handle_one_source(&name, *news, now);
        }
        if matches!(news, SourceEvent::Unchanged) && !self.source.sources.is_empty() {
            return self.note_first_round(now);
        }
        let Some(news) = self.handle_aside(news, now) else { return };
        // A person accepted the pending tip: any later event about a tip ends that.
        if !matches!(news, SourceEvent::Readable | SourceEvent::Failed(_)) {
            self.source.accepted_rewrite = None;
        }
        self.source.failure = None;
        if matches!(news, SourceEvent::Failed(_)) {
            self.continue_without_source();
        } else {
            self.note_source_read(now);
        }
        self.source_look = SourceLook::Seen;
        match news {
            SourceEvent::Of(..)
            | SourceEvent::Restored(_)
            | SourceEvent::Payload(..)
            | SourceEvent::HeldRead(..)
            | SourceEvent::Unwatched(_)
            | SourceEvent::Unkept(_)
            | SourceEvent::Seen(_)
            | SourceEvent::Follows(_) => {}
            SourceEvent::Accepted(tree) => {
                self.accept(&tree, now);
                // Of several sources another may still be refused.
                if self.source.refused.is_empty() && self.source.held_rewrite.is_none() {
                    self.source.journaled = None;
                }
            }
            SourceEvent::Unchanged => {
                // A refused or rewritten tip was taken back.
                self.source.seen.clone_from(&self.source.accepted);
                self.source.seen_at = self.source.accepted_at;
                self.source.refused.clear();
                (self.source.held_rewrite, self.source.held_why) = (None, None);
                self.source.journaled = None;
            }
            SourceEvent::Readable => tracing::info!("the source can be read again"),
            SourceEvent::Refused(commit, errors) => {
                log_refusal(&commit, &errors);
                self.see(commit, now);
                self.source.refused = errors;
                // A person may have accepted the history that it rewrites: it is not what it waits for any more.
                (self.source.held_rewrite, self.source.held_why) = (None, None);
            }
            SourceEvent::Rewritten(commit) => self.hold_rewrite(commit, None, now),
            SourceEvent::Switched(commit, text) => self.hold_rewrite(commit, Some(text), now),
            SourceEvent::Failed(reason) => {
                tracing::error!(reason, "the source cannot be read; nothing changes");
                let nothing_new = if self.fleet.source_unread { NOTHING_NEW } else { "" };
                self.source.failure = Some(format!("{reason}{nothing_new}"));
            }
        }
    }

    /// Keeps the last good commit until a person accepts one that does not descend from it. `why` says what else is to be accepted with it.
    fn hold_rewrite(&mut self, commit: CommitId, why: Option<String>, now: Timestamp) {
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
        (self.source.held_rewrite, self.source.held_why) = (Some(commit), why);
    }

    /// Decides now what waited while the source was unread.
    pub(super) fn note_source_read(&mut self, now: Timestamp) {
        if std::mem::take(&mut self.fleet.source_unread) {
            self.decide_what_waited(now);
        }
    }

    /// Decides about all placements. Deletions waited as well, and work that waits for them is not complete: that is no failure of the
    /// clusters, so their deadlines count from now on.
    fn decide_what_waited(&mut self, now: Timestamp) {
        for heard in self.fleet.heard.values_mut().flat_map(BTreeMap::values_mut) {
            if let Heard::Since(at) = heard {
                *at = now;
            }
        }
        self.queue.placements.extend(self.placements.keys().cloned());
    }

    /// Handles events that concern no tip; returns the others.
    fn handle_aside(&mut self, news: SourceEvent, now: Timestamp) -> Option<SourceEvent> {
        match news {
            // A newer commit may have been accepted while the commit of an earlier process was read.
            SourceEvent::Restored(Ok(_)) if self.fleet.tree.commit.is_some() => {}
            SourceEvent::Restored(Ok(tree)) => self.accept(&tree, now),
            SourceEvent::Restored(Err(reason)) => {
                tracing::error!(
                    reason,
                    "the accepted commit cannot be read; nothing is decided and clusters keep what they have until it can, or \
                     another commit is accepted"
                );
                self.source.unrestored = Some(reason);
            }
            SourceEvent::Payload(snapshot, payload) => self.load_payload(&snapshot, payload, now),
            SourceEvent::HeldRead(key, index, found) => self.note_found(key, index, found),
            SourceEvent::Seen(commit) => drop(self.note_seen(&commit, now)),
            SourceEvent::Unwatched(reason) => {
                tracing::warn!(reason, "the source cannot be watched for changes; gitfleet polls it every second");
                self.source.unwatched = Some(reason);
            }
            SourceEvent::Unkept(reason) => self.source.unkept = reason,
            SourceEvent::Follows(branch) => {
                let repository = &self.source.url;
                tracing::info!(
                    repository,
                    branch,
                    "following the branch that is checked out; `source.branch` names another"
                );
                self.source.branch = Some(branch);
            }
            news => return Some(news),
        }
        None
    }

    /// Continues what has begun although this process could not read the source. Nothing new starts: a newer commit may stop or
    /// correct what the accepted one would start.
    fn continue_without_source(&mut self) {
        // After a first read in this process a later failure holds nothing back.
        self.fleet.source_unread |= self.source_look == SourceLook::Awaited;
    }

    /// Lets the accepted commit continue in this process on a person's command, although a newer commit may stop or correct it.
    pub(super) fn continue_unread(&mut self, now: Timestamp) {
        if !std::mem::take(&mut self.fleet.source_unread) {
            return;
        }
        tracing::warn!("the source cannot be read; a person lets gitfleet continue with the accepted commit");
        self.decide_what_waited(now);
        if let Some(failure) = &mut self.source.failure {
            *failure = failure.replace(NOTHING_NEW, "; a person lets gitfleet continue with the accepted commit");
        }
    }

    /// Handles a source that did not answer within the time limit.
    pub(super) fn give_up_source(&mut self) {
        if self.source_look != SourceLook::Awaited {
            return;
        }
        self.continue_without_source();
        self.source_look = SourceLook::Silent;
        let text = format!("it has not answered within {} s{NOTHING_NEW}", FIRST_LOOK_MAX.as_secs());
        tracing::warn!(about = %text, "the source cannot be read");
        self.source.failure = Some(text);
    }

    /// Records what is known of the source if it changed.
    pub(super) fn write_source(&mut self, batch: &mut Batch, now: Timestamp) {
        // Compared with what is stored: the entry of a batch that the store refused is written again.
        let entry = unaccepted(&self.source, now).filter(|entry| {
            // Of one commit, too, there is news: a person accepted it and it is refused, or it is refused for another reason.
            let stored = &self.stored_source;
            let was_accepted = entry.event == JournalKind::CommitRefused && stored.accepted_rewrite == self.source.seen;
            let is_other = unaccepted(stored, now).is_some_and(|before| before != *entry);
            self.source.seen != stored.journaled || was_accepted || is_other
        });
        if entry.is_some() {
            self.source.journaled.clone_from(&self.source.seen);
        }
        if self.source != self.stored_source && write_down(batch, records::source_key(SOURCE_NAME), &self.source) {
            batch.ops.extend(entry.map(Op::Journal));
            batch.source = Some(self.source.clone());
        }
    }

    /// Writes changed override snapshots: a decision may name one, so both are stored in one batch or the snapshot first.
    pub(super) fn write_overrides(&mut self, batch: &mut Batch) {
        batch.overrides = self.fleet.overrides.take_unwritten();
        for id in &batch.overrides {
            match persist::override_op(&self.fleet.overrides, id) {
                Ok(op) => batch.ops.push(op),
                Err(error) => {
                    tracing::error!(name = id.name(), %error, "the snapshot of an override could not be stored; the next start takes it again");
                }
            }
        }
    }

    /// Records a commit as the newest.
    fn see(&mut self, commit: CommitId, now: Timestamp) {
        let first = self.note_seen(&commit, now);
        let before = self.source.seen.replace(commit);
        if before == self.source.seen {
            return;
        }
        self.source.seen_at = Some(first);
        // No snapshot names a commit that was not accepted.
        if let Some(before) = before.filter(|before| self.source.accepted.as_ref() != Some(before)) {
            self.seen_at.remove(&before);
        }
    }

    /// Makes a commit the accepted one.
    fn accept(&mut self, tree: &Arc<Tree>, now: Timestamp) {
        let commit = tree.commit.clone();
        let again = self.source.accepted == commit;
        let short = commit.as_ref().map(|c| c.short().to_owned()).unwrap_or_default();
        let _commit = tracing::error_span!("commit", commit = %short).entered();
        let placements = tree.placements.len();
        let clusters = tree.clusters.len();
        let objects = tree.manifests.len();
        if again {
            tracing::info!(placements, clusters, objects, "accepted commit");
        } else {
            tracing::info!(placements, clusters, objects, "commit accepted");
        }
        if !again {
            self.source.accepted_at = Some(now);
        }
        self.source.accepted.clone_from(&commit);
        if let Some(commit) = commit {
            self.see(commit, now);
        }
        self.source.refused.clear();
        (self.source.held_rewrite, self.source.held_why) = (None, None);
        self.source.unrestored = None;
        self.accept_sources(&tree.sources, now);
        let before = std::mem::replace(&mut self.fleet.tree, Arc::clone(tree));
        let changed = tree.sources.iter().filter(|source| !before.sources.contains(source));
        self.fleet.changed_sources = changed.cloned().collect();
        self.fleet.staged = Staged::of(tree);
        log_skipped(tree);
        self.fleet.overrides.follow(tree, &named(self.placements.values()), now);
        self.note_without_effect();
        let disruptions = std::mem::replace(&mut self.fleet.disruptions, Disruptions::of(tree));
        self.note_members(&before, now);
        for key in self.placements.keys().cloned().collect::<Vec<_>>() {
            self.retry_unreadable(&key);
            self.load_payloads(&key);
        }
        for (key, placement) in &tree.placements {
            self.placements.entry(key.clone()).or_insert_with(|| PlacementState::begin(placement, now));
            self.note_names(key);
        }
        let wishes = self.fleet.ocm.follow(tree);
        self.queue.ocm.extend(wishes);
        if before.commit.is_none() {
            self.members_from = now;
            // The first commit of this process: earlier decisions may be about another commit.
            self.queue.placements.extend(self.placements.keys().cloned());
        } else {
            self.queue.compare(&before, tree);
            self.queue.placements.extend(self.fleet.disruptions.differing(&disruptions));
            self.note_concerned(tree.commit.as_ref());
        }
        // The batch in the store may name a commit that no record here names yet.
        if !self.outstanding {
            self.retain();
        }
    }

    /// Records which documents of the accepted commit name what is not there.
    fn note_without_effect(&mut self) {
        let mut documents = without_effect(&self.fleet);
        documents.truncate(WITHOUT_EFFECT_MAX);
        for document in &documents {
            tracing::warn!(about = %document, "a document has no effect");
        }
        self.source.without_effect = documents;
    }

    /// Says which commits are to be kept. What was decided must be stored. The next process begins with the commit that the
    /// store names as accepted, and may decide about it: that is kept until the store has another.
    pub(super) fn retain(&mut self) {
        let Some(at) = self.fleet.tree.commit.clone() else { return };
        let snapshots = self.placements.values().flat_map(|p| p.snapshots.values());
        let accepted = self.stored_source.accepted.clone().into_iter().chain([at.clone()]);
        let in_doubt = self.in_doubt.iter().cloned();
        let named: BTreeSet<CommitId> =
            snapshots.flat_map(|s| s.commits().cloned()).chain(accepted).chain(in_doubt).collect();
        self.seen_at.retain(|commit, _| named.contains(commit) || self.source.seen.as_ref() == Some(commit));
        self.retained = Some(at.clone());
        self.effects.push(Effect::Retain { named, at });
    }

    /// Requests payloads that no selection provides: after a restart, and of older snapshots for rollbacks.
    pub(super) fn load_payloads(&mut self, key: &PlacementKey) {
        let Some(state) = self.placements.get(key) else { return };
        let is_missing =
            |s: &&Arc<ResourceSnapshot>| !state.payloads.contains_key(&s.index) && !state.unreadable.contains(&s.index);
        for snapshot in state.snapshots_in_use().filter(is_missing) {
            if self.reading.insert((key.clone(), snapshot.index)) {
                self.effects.push(Effect::ReadPayload(Arc::clone(snapshot)));
            }
        }
    }

    /// Requests payloads again that could not be read earlier and are still needed.
    pub(super) fn read_again(&mut self, now: Timestamp) {
        for key in self.queue.take_rereads(now) {
            self.read_unreadable(&key);
        }
    }

    /// Requests payloads of a placement again. They count as unreadable until they are read, so that it does not wait for them: another
    /// placement may get what it has, and both are decided together.
    fn read_unreadable(&mut self, key: &PlacementKey) {
        let Some(state) = self.placements.get(key) else { return };
        for snapshot in state.snapshots_in_use().filter(|s| state.unreadable.contains(&s.index)) {
            if self.reading.insert((key.clone(), snapshot.index)) {
                self.effects.push(Effect::ReadPayload(Arc::clone(snapshot)));
            }
        }
    }

    /// Requests payloads that could not be read and may be readable at a new commit. Those that a selection has provided, or that nothing
    /// needs any more, are not missing: a run that stopped for one continues.
    fn retry_unreadable(&mut self, key: &PlacementKey) {
        let Some(state) = self.placements.get_mut(key).filter(|state| !state.unreadable.is_empty()) else { return };
        let in_use: BTreeSet<u64> = state.snapshots_in_use().map(|snapshot| snapshot.index).collect();
        let PlacementState { unreadable, payloads, .. } = state;
        let before = unreadable.len();
        unreadable.retain(|index| in_use.contains(index) && !payloads.contains_key(index));
        if unreadable.len() < before {
            self.queue.placements.insert(key.clone());
        }
        self.read_unreadable(key);
    }

    fn load_payload(&mut self, snapshot: &ResourceSnapshot, payload: Result<Payload, String>, now: Timestamp) {
        let key = &snapshot.placement;
        self.reading.remove(&(key.clone(), snapshot.index));
        let Some(state) = self.placements.get_mut(key) else { return };
        match payload {
            Ok(payload) => {
                state.payloads.insert(snapshot.index, Arc::new(payload));
                state.unreadable.remove(&snapshot.index);
            }
            Err(reason) => {
                tracing::error!(placement = %key, reason, "payload missing; clusters keep what they have, and it is tried again");
                state.unreadable.insert(snapshot.index);
                self.queue.read_again(key, now + PAYLOAD_RETRY);
            }
        }
        // Even if it could not be read: the rest of the placement does not wait for it.
        self.queue.placements.insert(key.clone());
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

/// Logs the documents of a commit that are not read, so that nobody misses a manifest that became plain text by accident.
fn log_skipped(tree: &Tree) {
    let odd: Vec<_> = tree.skipped.iter().filter_map(Skipped::complaint).collect();
    for complaint in odd.iter().take(SKIPPED_NAMED_MAX) {
        tracing::warn!(about = %complaint, "a document is no Kubernetes object");
    }
    if odd.len() > SKIPPED_NAMED_MAX {
        let more = odd.len() - SKIPPED_NAMED_MAX;
        tracing::warn!(more, "more documents are no Kubernetes objects; `gitfleet validate` names all of them");
    }
    for complaint in tree.warnings.iter().take(SKIPPED_NAMED_MAX) {
        tracing::warn!(about = %complaint, "the commit has a warning");
    }
    if tree.warnings.len() > SKIPPED_NAMED_MAX {
        tracing::warn!(
            more = tree.warnings.len() - SKIPPED_NAMED_MAX,
            "more warnings; `gitfleet validate` names all of them"
        );
    }
    let untyped = tree.skipped.len() - odd.len();
    if untyped > 0 {
        tracing::info!(documents = untyped, "documents with neither apiVersion nor kind are not read");
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
pub(super) fn begin(configuration: &Configuration, known: &SourceRecord) -> SourceRecord {
    let name = source_name(configuration, known);
    let is_same = known.url == configuration.source.url || name.is(&known.identity);
    let base = if is_same {
        known.clone()
    } else {
        SourceRecord { formerly: known.formerly.clone(), ..SourceRecord::default() }
    };
    let branch = base.branch.clone().filter(|_| configuration.source.branch.is_none());
    let approvers = configuration.approvals().map(Approvals::who);
    let (url, sources) = (configuration.source.url.clone(), sources::begin(configuration, &base));
    SourceRecord {
        url,
        sources,
        identity: name.name,
        unwatched: None,
        unkept: None,
        configuration: None,
        branch,
        approvers,
        ..base
    }
}

fn derived(configuration: &Configuration) -> String {
    let source = &configuration.source;
    let branch = source.branch.as_deref().unwrap_or("HEAD");
    format!("{}#{branch}:{}", source.place(), source.path)
}
