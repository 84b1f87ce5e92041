//! What follows after the store has answered.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::{Batch, Core, Effect, MemberCommand, Reports, STORE_RETRY, log_entries, persist};
use crate::store::{Op, Result};
use decide::Decision;
use decide::rollout::staged::queries;
use decide::state::PlacementState;
use model::id::{ClusterName, PlacementKey};
use model::warning::WarningKind;

impl Core {
    /// Handles a batch that the store kept. Returns its effects.
    pub fn written(&mut self, batch: Batch, now: Timestamp) -> Vec<Effect> {
        self.outstanding = false;
        // The next batch decides what was queued again, and overwrites what is in doubt.
        if self.queue.placements.is_empty() && !self.queue.waits() {
            self.in_doubt.clear();
        }
        if let Some(source) = batch.source {
            self.stored_source = source;
            self.changed.source = true;
        }
        if batch.continues {
            self.continue_unread(now);
        }
        // A command changes a copy: the core takes it over once it is stored.
        if batch.adopts {
            self.store.clone_from(&batch.store);
        }
        if batch.store.is_some() {
            self.stored_store = batch.store;
            self.changed.store = true;
        }
        if batch.hub.is_some() {
            self.stored_hub = batch.hub;
        }
        if let Some(commit) = batch.accepted_rewrite {
            self.source.accepted_rewrite = Some(commit.clone());
            self.effects.push(Effect::AcceptRewrite(commit));
        }
        if let Some(tokens) = batch.agent_tokens {
            self.agent_tokens = Arc::clone(&tokens);
            self.effects.push(Effect::AgentTokens(tokens));
        }
        self.forget_reports(batch.reports);
        if let Some(state) = batch.executed {
            self.take_executed(*state, now);
        }
        self.changed.clusters.extend(batch.clusters.iter().map(|record| record.name.clone()));
        self.changed.clusters.extend(batch.pushed.keys().cloned());
        self.changed.ocm |= !batch.picked.is_empty();
        self.stored_clusters.extend(batch.clusters.into_iter().map(|record| (record.name.clone(), record)));
        for (name, record) in batch.pushed {
            if let Some(known) = self.fleet.records.get_mut(&name) {
                known.pushed.clone_from(&record.pushed);
            }
            self.stored_clusters.insert(name.clone(), record);
            self.queue.clusters.insert(name);
        }
        for picked in batch.picked {
            log_entries(&picked.journal);
            self.queue.wake_ocm(&picked.key, picked.wake_at);
        }
        if let Some(exports) = batch.exports.filter(|exports| !Arc::ptr_eq(exports, &self.exports)) {
            self.effects.push(Effect::Publish(Arc::clone(&exports)));
            self.exports = exports;
        }
        // A placement that gives up an object tells so before the one that takes it over asks for it.
        let (yielding, others): (Vec<_>, Vec<_>) =
            batch.decided.into_iter().partition(|(_, decision)| !decision.state.others.yielded.is_empty());
        for (key, decision) in yielding.into_iter().chain(others) {
            self.act(&key, decision, now);
        }
        self.tell_placements(batch.restarted);
        if self.retained != self.fleet.tree.commit {
            self.retain();
        }
        std::mem::take(&mut self.effects)
    }

    /// Handles a batch that the store refused or may have kept. Everything in it is decided again after a pause.
    pub fn refused(&mut self, batch: Batch, now: Timestamp) {
        self.outstanding = false;
        let snapshots = batch.decided.iter().flat_map(|(_, decision)| decision.state.snapshots.values());
        let accepted = batch.source.iter().filter_map(|source| source.accepted.clone());
        self.in_doubt.extend(snapshots.flat_map(|snapshot| snapshot.commits().cloned()).chain(accepted));
        // Reports that arrived meanwhile join those of the batch.
        for (key, kept) in batch.kept {
            self.fleet.kept.entry(key).or_default().join(kept);
        }
        if let Some((store, before)) = self.store.as_mut().zip(batch.took_over) {
            store.takes_over |= before.takes_over;
            store.unseen.extend(before.unseen);
        }
        for (key, clusters) in batch.ahead {
            self.fleet.ahead.entry(key).or_default().extend(clusters);
        }
        for picked in batch.picked.iter().rev() {
            self.fleet.ocm.hold_again(&picked.key, picked.known.clone());
        }
        self.fleet.overrides.refused(batch.overrides);
        self.restarted.extend(batch.restarted);
        // A command is not repeated by itself. What may be there of it is taken back: nobody was told that it was carried out.
        let executed = batch.executed.iter().map(|state| (&state.record.key, Some(&**state)));
        let decided = batch.decided.iter().map(|(key, it)| (key, (!it.finished).then_some(&it.state)));
        for (key, state) in executed.chain(decided) {
            let written = self.difference(key, state).map(|ops| persist::keys(&ops)).unwrap_or_default();
            self.doubted.entry(key.clone()).or_default().extend(written);
        }
        let executed = batch.executed.into_iter().map(|state| state.record.key.clone());
        let placements = batch.decided.into_iter().map(|(key, _)| key).chain(executed);
        let ocm = batch.picked.into_iter().map(|picked| picked.key);
        self.queue.clusters.extend(batch.clusters.into_iter().map(|record| record.name));
        self.queue.put_back(placements, ocm, now + STORE_RETRY);
    }

    /// Returns what to write so that the store has a placement as it is to be, `None` for one without records. What it is known to have is
    /// left out; what is in doubt is not.
    ///
    /// # Errors
    /// As [`persist::difference`].
    pub(super) fn difference(&self, key: &PlacementKey, next: Option<&PlacementState>) -> Result<Vec<Op>> {
        let mut ops = persist::difference(self.placements.get(key), next)?;
        if let Some(doubted) = self.doubted.get(key) {
            let known = persist::keys(&ops);
            ops.extend(persist::restated(next, &doubted.difference(&known).cloned().collect())?);
        }
        Ok(ops)
    }

    /// Takes over a placement that a command changed.
    fn take_executed(&mut self, state: PlacementState, now: Timestamp) {
        let key = state.record.key.clone();
        if let Some(before) = self.placements.remove(&key) {
            self.measure(&before, &state, now);
        }
        self.queue.placements.insert(key.clone());
        self.changed.placements.insert(key.clone(), true);
        self.placements.insert(key.clone(), state);
        self.note_names(&key);
    }

    /// Tells members whose tasks began which placements they have: those with orders, those that are bound to them and have none yet, and
    /// those whose clusters are not known yet.
    fn tell_placements(&mut self, restarted: BTreeSet<ClusterName>) {
        for cluster in restarted.into_iter().filter(|cluster| self.members.contains_key(cluster)) {
            let sent = self.sent.iter().filter(|(_, sent)| sent.contains_key(&cluster)).map(|(key, _)| key);
            let undecided = self.placements.iter().filter(|(_, state)| state.policies.is_empty()).map(|(key, _)| key);
            let all = sent.chain(undecided).chain(self.queue.holders(&cluster)).cloned();
            let placements = MemberCommand::Placements(all.collect());
            self.effects.push(Effect::Command(cluster, placements));
        }
    }

    /// Forgets stored reports; reports that arrived meanwhile are decided next.
    fn forget_reports(&mut self, written: Reports) {
        for (placement, reports) in written {
            let Some(known) = self.reports.get_mut(&placement) else { continue };
            known.retain(|cluster, work| !reports.get(cluster).is_some_and(|written| Arc::ptr_eq(written, work)));
            if known.is_empty() {
                self.reports.remove(&placement);
            }
        }
    }

    /// Applies a stored decision.
    fn act(&mut self, key: &PlacementKey, decision: Decision, now: Timestamp) {
        self.doubted.remove(key);
        let accepted = self.source.accepted.clone();
        let commit = accepted.as_ref().map(|commit| tracing::field::display(commit.short()));
        let _decision = tracing::error_span!("decision", placement = %key, commit).entered();
        log_entries(&decision.journal);
        if !decision.forget.is_empty() {
            // What left a cluster may have been in the way of what members refused: a single pass has them try once more.
            self.tried_again.clear();
        }
        for cluster in decision.forget {
            let sent = self.sent.get_mut(key).and_then(|sent| sent.remove(&cluster));
            if sent.is_some() && self.members.contains_key(&cluster) {
                self.effects.push(Effect::Command(cluster, MemberCommand::Forget(key.clone())));
            }
        }
        self.send(key, &decision.orders, &decision.state.works);
        self.queue.wake(key, decision.wake_at);
        let known = self.placements.remove(key);
        self.changed.placements.insert(key.clone(), !decision.finished);
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
            self.sent.remove(key);
            self.fleet.heard.remove(key);
            self.settled.remove(key);
            self.measures.forget(key);
            self.ask(key, BTreeSet::new());
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
        self.ask(key, queries);
        self.placements.insert(key.clone(), state);
        self.note_names(key);
        self.load_payloads(key);
        self.announce(key, now);
        self.publish_placement(key, now);
    }
}

impl Batch {
    /// Collects the writes of one decision.
    pub(super) fn take(&mut self, difference: Vec<Op>) {
        if difference.is_empty() {
            self.unchanged += 1;
        } else {
            self.changed += 1;
        }
        self.ops.extend(difference);
    }
}
