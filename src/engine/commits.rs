//! What a commit changes: its clusters, placements and payloads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Core, Effect, SourceEvent};
use decide::evictions::Disruptions;
use decide::render::named;
use decide::rollout::Heard;
use decide::state::{Payload, PlacementState};
use decide::strategies::Staged;
use decide::without_effect::without_effect;
use model::id::{CommitId, PlacementKey};
use model::records::ResourceSnapshot;
use model::tree::{Skipped, Tree};

/// Pause before a payload that could not be read is read again.
pub(super) const PAYLOAD_RETRY: SignedDuration = SignedDuration::from_secs(30);
/// Documents without an object that the log names for one commit; the rest is counted.
const SKIPPED_NAMED_MAX: usize = 20;
/// Warnings about documents without effect that the source's record keeps.
const WITHOUT_EFFECT_MAX: usize = 100;
impl Core {
    /// Handles an event of the source.
    pub(super) fn handle_source(&mut self, news: SourceEvent, now: Timestamp) {
        match &news {
            // After a first read in this process a later failure holds nothing back.
            SourceEvent::Failed(_) => self.fleet.source_unread |= self.source.is_awaited(),
            SourceEvent::Accepted(_)
            | SourceEvent::Unchanged
            | SourceEvent::Readable
            | SourceEvent::Refused(..)
            | SourceEvent::Rewritten(_)
            | SourceEvent::Switched(..) => self.note_source_read(now),
            SourceEvent::Of(..)
            | SourceEvent::Restored(_)
            | SourceEvent::Payload(..)
            | SourceEvent::HeldRead(..)
            | SourceEvent::Unwatched(_)
            | SourceEvent::Unkept(_)
            | SourceEvent::Seen(_)
            | SourceEvent::Follows(_) => {}
        }
        match news {
            SourceEvent::Of(name, news) => {
                if self.source.handle_one(&name, *news, now) {
                    self.note_source_read(now);
                }
            }
            // Of several sources each was asked once: what was new then is accepted or refused.
            SourceEvent::Unchanged if !self.source.record.sources.is_empty() => self.source.note_look(),
            // A newer commit may have been accepted while the commit of an earlier process was read.
            SourceEvent::Restored(Ok(_)) if self.fleet.tree.commit.is_some() => {}
            SourceEvent::Restored(Ok(tree)) => self.accept(&tree, now),
            SourceEvent::Restored(Err(reason)) => {
                tracing::error!(
                    reason,
                    "the accepted commit cannot be read; nothing is decided and clusters keep what they have until it can, or \
                     another commit is accepted"
                );
                self.source.record.unrestored = Some(reason);
            }
            SourceEvent::Accepted(tree) => {
                self.source.note_tip();
                self.accept(&tree, now);
                self.source.forget_journaled();
            }
            SourceEvent::Payload(snapshot, payload) => self.load_payload(&snapshot, payload, now),
            SourceEvent::HeldRead(key, index, found) => self.note_found(key, index, found),
            news => self.source.handle(news, self.fleet.source_unread, now),
        }
    }

    /// Decides now what waited while the source was unread.
    fn note_source_read(&mut self, now: Timestamp) {
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

    /// Lets the accepted commit continue in this process on a person's command, although a newer commit may stop or correct it.
    pub(super) fn continue_unread(&mut self, now: Timestamp) {
        if !std::mem::take(&mut self.fleet.source_unread) {
            return;
        }
        tracing::warn!("the source cannot be read; a person lets gitfleet continue with the accepted commit");
        self.decide_what_waited(now);
        self.source.note_continued();
    }

    /// Handles a source that did not answer within the time limit. What has begun continues, and nothing new starts: a newer commit may
    /// stop or correct what the accepted one would start.
    pub(super) fn give_up_source(&mut self) {
        if self.source.is_awaited() {
            self.fleet.source_unread = true;
            self.source.give_up();
        }
    }

    /// Makes a commit the accepted one.
    fn accept(&mut self, tree: &Arc<Tree>, now: Timestamp) {
        let again = self.source.record.accepted == tree.commit;
        let short = tree.commit.as_ref().map(|c| c.short().to_owned()).unwrap_or_default();
        let _commit = tracing::error_span!("commit", commit = %short).entered();
        let placements = tree.placements.len();
        let clusters = tree.clusters.len();
        let objects = tree.manifests.len();
        if again {
            tracing::info!(placements, clusters, objects, "accepted commit");
        } else {
            tracing::info!(placements, clusters, objects, "commit accepted");
        }
        self.source.accept(tree, now);
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
            self.request_payloads(&key);
        }
        for (key, placement) in &tree.placements {
            self.placements.entry(key.clone()).or_insert_with(|| PlacementState::begin(placement, now));
            self.note_names(key);
        }
        let wishes = self.fleet.ocm.follow(tree);
        self.queue.ocm.extend(wishes);
        if before.commit.is_none() {
            self.members.awaited_since = now;
            // The first commit of this process: earlier decisions may be about another commit.
            self.queue.placements.extend(self.placements.keys().cloned());
        } else {
            self.queue.compare(&before, tree);
            self.queue.placements.extend(self.fleet.disruptions.differing(&disruptions));
            if let (Some(commit), Some(forge)) = (&tree.commit, &mut self.listeners.forge) {
                forge.note_concerned(commit, self.queue.placements.iter());
            }
        }
        // The batch in the store may name a commit that no record here names yet.
        if !self.persistence.outstanding {
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
        self.source.record.without_effect = documents;
    }

    /// Says which commits are to be kept. What was decided must be stored. The next process begins with the commit that the
    /// store names as accepted, and may decide about it: that is kept until the store has another.
    pub(super) fn retain(&mut self) {
        let Some(at) = self.fleet.tree.commit.clone() else { return };
        let snapshots = self.placements.values().flat_map(|p| p.snapshots.values());
        let snapshots = snapshots.flat_map(|snapshot| snapshot.commits());
        let stored = self.persistence.commits();
        let named: BTreeSet<CommitId> = snapshots.chain(stored).chain([&at]).cloned().collect();
        self.source.retain(&at, &named);
        self.effects.push(Effect::Retain { named, at });
    }

    /// Requests payloads that no selection provides: after a restart, and of older snapshots for rollbacks.
    pub(super) fn request_payloads(&mut self, key: &PlacementKey) {
        if let Some(state) = self.placements.get(key) {
            self.effects.extend(self.source.payloads.request_missing(state));
        }
    }

    /// Requests payloads again that could not be read earlier and are still needed.
    pub(super) fn read_again(&mut self, now: Timestamp) {
        for key in self.queue.take_rereads(now) {
            if let Some(state) = self.placements.get(&key) {
                self.effects.extend(self.source.payloads.request_unreadable(state));
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
        self.effects.extend(self.source.payloads.request_unreadable(state));
    }

    fn load_payload(&mut self, snapshot: &ResourceSnapshot, payload: Result<Payload, String>, now: Timestamp) {
        let key = &snapshot.placement;
        self.source.payloads.end(key, snapshot.index);
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
