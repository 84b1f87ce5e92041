//! What follows after the store has answered.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::batch::{BatchChange, DecidedPlacement};
use super::journal_log::log_entries;
use super::measures::ended_waits;
use super::{Batch, Core, Effect, STORE_RETRY};
use decide::rollout::staged::queries;
use decide::state::PlacementState;
use model::id::PlacementKey;
use model::records::ClusterRecord;
use model::warning::WarningKind;

impl Core {
    /// Handles a batch that the store kept. Returns its effects.
    pub fn written(&mut self, batch: Batch, now: Timestamp) -> Vec<Effect> {
        self.persistence.outstanding = false;
        // The next batch decides what was queued again, and overwrites what is in doubt.
        if self.queue.placements.is_empty() && !self.queue.waits() {
            self.persistence.trust_commits();
        }
        for change in batch.changes {
            self.keep(change, now);
        }
        if self.source.retained != self.fleet.tree.commit {
            self.retain();
        }
        std::mem::take(&mut self.effects)
    }

    /// Handles a batch that the store refused or may have kept. Everything in it is decided again after a pause.
    pub fn refused(&mut self, batch: Batch, now: Timestamp) {
        self.persistence.outstanding = false;
        // The last first, because each was made with those before it.
        for change in batch.changes.into_iter().rev() {
            self.undo(change);
        }
        self.queue.retry_at(now + STORE_RETRY);
    }

    /// Lets a change count that the store has kept.
    fn keep(&mut self, change: BatchChange, now: Timestamp) {
        match change {
            BatchChange::Source(source) => {
                self.persistence.stored_source = *source;
                self.listeners.changed.source = true;
            }
            BatchChange::AcceptedRewrite(commit) => {
                self.source.record.accepted_rewrite = Some(commit.clone());
                self.effects.push(Effect::AcceptRewrite(commit));
            }
            BatchChange::Continued => self.continue_unread(now),
            BatchChange::Store(store) => {
                self.persistence.stored_store = Some(store);
                self.listeners.changed.store = true;
            }
            BatchChange::Adopted(store) => {
                self.persistence.store = Some(store.clone());
                self.persistence.stored_store = Some(store);
                self.listeners.changed.store = true;
            }
            // Both count already: decisions of this batch were made with them.
            BatchChange::TookOver(_) | BatchChange::Override(_) => {}
            BatchChange::Hub(hub) => self.exports.keep_hub(hub),
            BatchChange::AgentTokens(tokens) => {
                self.persistence.agent_tokens = Arc::clone(&tokens);
                self.effects.push(Effect::AgentTokens(tokens));
            }
            BatchChange::Cluster(record) => self.keep_cluster(*record),
            BatchChange::Pushed(record) => {
                if let Some(known) = self.fleet.records.get_mut(&record.name) {
                    known.pushed.clone_from(&record.pushed);
                }
                self.queue.clusters.insert(record.name.clone());
                self.keep_cluster(*record);
            }
            BatchChange::Picked(picked) => {
                self.listeners.changed.ocm = true;
                log_entries(&picked.journal);
                self.queue.wake_ocm(&picked.key, picked.wake_at);
            }
            BatchChange::Exported(exports) => {
                self.exports.decisions = Arc::clone(&exports);
                self.effects.push(Effect::Publish(exports));
            }
            BatchChange::Decided(decided) => self.act(*decided, now),
            BatchChange::Executed(state) => self.take_executed(*state, now),
            BatchChange::Restarted(cluster) => {
                self.effects.extend(self.members.tell_placements(cluster, &self.queue, &self.placements));
            }
        }
    }

    /// Undoes a change that the store has refused, or may have kept: it is decided again.
    fn undo(&mut self, change: BatchChange) {
        match change {
            BatchChange::Source(source) => self.persistence.doubt_commits(source.accepted),
            // A command is not repeated by itself, nor is what was pushed. The others are written again because they still differ from what
            // is stored.
            BatchChange::AcceptedRewrite(_)
            | BatchChange::Continued
            | BatchChange::Adopted(_)
            | BatchChange::AgentTokens(_)
            | BatchChange::Pushed(_)
            | BatchChange::Store(_)
            | BatchChange::Hub(_)
            | BatchChange::Exported(_) => {}
            BatchChange::TookOver(before) => self.persistence.take_over_again(before),
            BatchChange::Override(id) => self.fleet.overrides.refused(BTreeSet::from([id])),
            BatchChange::Cluster(record) => drop(self.queue.clusters.insert(record.name)),
            BatchChange::Picked(picked) => {
                self.fleet.ocm.hold_again(&picked.key, picked.known);
                self.queue.ocm.insert(picked.key);
            }
            BatchChange::Decided(decided) => self.undo_decision(*decided),
            // What may be there of a command is taken back: nobody was told that it was carried out.
            BatchChange::Executed(state) => {
                let key = &state.record.key;
                self.persistence.doubt(key, self.placements.get(key), Some(&*state));
                self.queue.placements.insert(key.clone());
            }
            BatchChange::Restarted(cluster) => drop(self.members.restarted.insert(cluster)),
        }
    }

    fn undo_decision(&mut self, decided: DecidedPlacement) {
        let DecidedPlacement { key, decision, reports: _, kept, ahead } = decided;
        let snapshots = decision.state.snapshots.values();
        self.persistence.doubt_commits(snapshots.flat_map(|snapshot| snapshot.commits().cloned()));
        // Reports that arrived meanwhile join those of the batch.
        if let Some(kept) = kept {
            self.fleet.kept.entry(key.clone()).or_default().join(kept);
        }
        if let Some(clusters) = ahead {
            self.fleet.ahead.entry(key.clone()).or_default().extend(clusters);
        }
        let next = if decision.finished { None } else { Some(&decision.state) };
        self.persistence.doubt(&key, self.placements.get(&key), next);
        self.queue.placements.insert(key);
    }

    fn keep_cluster(&mut self, record: ClusterRecord) {
        self.listeners.changed.clusters.insert(record.name.clone());
        self.persistence.stored_clusters.insert(record.name.clone(), record);
    }

    /// Takes over a placement that a command changed.
    fn take_executed(&mut self, state: PlacementState, now: Timestamp) {
        let key = state.record.key.clone();
        if let Some(before) = self.placements.remove(&key) {
            self.measure(&before, &state, now);
        }
        self.queue.placements.insert(key.clone());
        self.listeners.changed.placements.insert(key.clone(), true);
        self.placements.insert(key.clone(), state);
        self.note_names(&key);
    }

    /// Has the waits counted that ended between two states of a placement.
    fn measure(&mut self, before: &PlacementState, after: &PlacementState, now: Timestamp) {
        let ended = ended_waits(before, after, &self.source.seen_at, now);
        self.effects.extend(ended.into_iter().map(Effect::Measured));
    }

    /// Sends the bot the state of a placement if it changed.
    fn publish_placement(&mut self, key: &PlacementKey, now: Timestamp) {
        if let Some(forge) = &mut self.listeners.forge {
            self.effects.extend(forge.placement(key, self.placements.get(key), &self.fleet, now));
        }
    }

    /// Applies a stored decision.
    fn act(&mut self, decided: DecidedPlacement, now: Timestamp) {
        let DecidedPlacement { key, decision, reports, .. } = decided;
        let key = &key;
        self.members.forget_reports(key, &reports);
        self.persistence.trust(key);
        let accepted = self.source.record.accepted.clone();
        let commit = accepted.as_ref().map(|commit| tracing::field::display(commit.short()));
        let _decision = tracing::error_span!("decision", placement = %key, commit).entered();
        log_entries(&decision.journal);
        if !decision.forget.is_empty() {
            // What left a cluster may have been in the way of what members refused: a single pass has them try once more.
            self.members.allow_another_try();
        }
        for cluster in decision.forget {
            self.effects.extend(self.members.withdraw_order(key, cluster));
        }
        self.effects.extend(self.members.send(key, &decision.orders, &decision.state.works));
        self.queue.wake(key, decision.wake_at);
        let known = self.placements.remove(key);
        self.listeners.changed.placements.insert(key.clone(), !decision.finished);
        if let Some(before) = &known {
            self.measure(before, &decision.state, now);
        }
        for warning in &decision.state.record.warnings {
            // The log message about the placement's state already covers unfulfilled policies.
            let is_known = known.as_ref().is_some_and(|known| known.record.warnings.contains(warning));
            if !is_known && warning.kind != WarningKind::PolicyUnfulfilled {
                tracing::warn!(about = %warning, "the placement has a warning");
            }
        }
        if decision.finished {
            tracing::info!("removed everywhere");
            self.queue.forget(key);
            self.members.forget(key);
            self.fleet.heard.remove(key);
            self.listeners.forget(key);
            self.effects.extend(self.checks.ask(key, BTreeSet::new(), &mut self.fleet));
            // A commit may have brought the placement back while its end was being stored.
            if let Some(placement) = self.fleet.tree.placements.get(key) {
                self.placements.insert(key.clone(), PlacementState::begin(placement, now));
                self.queue.placements.insert(key.clone());
            }
            self.note_names(key);
            self.publish_placement(key, now);
            return;
        }
        let tenant = self.fleet.tenant_of(&decision.state.record);
        self.queue.note(&decision.state, &self.fleet.staged, tenant);
        let mut state = decision.state;
        state.unreadable = known.as_ref().map(|known| known.unreadable.clone()).unwrap_or_default();
        let in_use: BTreeSet<u64> = state.snapshots_in_use().map(|snapshot| snapshot.index).collect();
        for (index, payload) in known.into_iter().flat_map(|known| known.payloads) {
            // The payload may have been read while the decision was being stored.
            if in_use.contains(&index) {
                state.payloads.entry(index).or_insert(payload);
            }
        }
        let queries = state.runs.values().flat_map(|run| queries(run, &self.fleet.servers)).collect();
        self.effects.extend(self.checks.ask(key, queries, &mut self.fleet));
        self.placements.insert(key.clone(), state);
        self.note_names(key);
        self.request_payloads(key);
        if let Some(state) = self.placements.get(key) {
            let standing = self.members.rollout_state(state, &self.fleet, now);
            self.listeners.announce(state, &standing);
        }
        self.publish_placement(key, now);
    }
}
