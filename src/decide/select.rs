//! Selection: the placement's objects in the accepted commit, frozen if they are new.

use std::sync::Arc;

use serde_json::json;

use super::Pass;
use super::bindings::BindingEdit;
use super::found::FoundSnapshot;
use super::memo::Selected;
use super::state::Payload;
use super::variants::SelectedVariants;
use crate::snapshot::{Frozen, Next, freeze, freeze_variants, is_encrypted_again, next_snapshot, not_selected, select};
use model::api::placement::StrategyType;
use model::id::CommitId;
use model::journal::JournalKind;
use model::manifest::Manifest;
use model::placement_phase::PhaseAct;
use model::records::{Binding, BindingState, Kept, ResourceSnapshot};
use model::tree::Placement;

impl Pass<'_> {
    /// Takes over pauses and holds that members keep: the store with them was lost, or is older.
    pub(super) fn take_over(&mut self) {
        let Some(Kept { paused, held }) = self.fleet.kept.get(&self.state.record.key).cloned() else {
            return;
        };
        if let Some(pause) = paused
            && self.state.record.paused.is_none()
        {
            self.note(JournalKind::PauseFound, None, json!({"by": pause.by, "reason": pause.reason}));
            self.state.record.paused = Some(pause);
        }
        if let Some(held) = held
            && self.state.record.held.is_none()
        {
            self.note(JournalKind::HoldFound, None, json!({"index": held.index, "why": held.why}));
            self.state.record.held = Some(held);
        }
        self.take_found();
    }

    /// Makes the snapshot that members hold the target of the rollback again: members keep it, and clusters that join or answer again
    /// get it.
    pub(super) fn take_found(&mut self) {
        let Some(found) = self.found() else { return };
        let index = found.held.index;
        if self.state.snapshots.contains_key(&index) {
            return;
        }
        self.note(JournalKind::SnapshotFound, None, json!({"index": index}));
        self.insert_snapshot(index, found.held.commit.clone(), &found.frozen);
        self.state.payloads.insert(index, Arc::clone(&found.payload));
        let record = &mut self.state.record;
        if record.spec.strategy.type_ != StrategyType::External || record.held.as_ref().is_some_and(|held| held.returns)
        {
            // Most members have all of it: no gate asks for it again.
            record.goal = Some(index);
            record.last_succeeded = Some(index);
        }
    }

    /// Binds the clusters of a staged placement to the snapshot that they hold where the newest was rejected: no run is left that would, and
    /// those that have what was rejected keep it.
    pub(super) fn bind_found(&mut self) {
        let record = &self.state.record;
        let Some((holders, found)) = self.fleet.holders.get(&record.key).zip(self.found()) else { return };
        let is_begun = self.state.runs.values().any(|run| run.frozen.is_some()) || record.goal.is_some();
        if record.spec.strategy.type_ != StrategyType::External || is_begun || !record.permits(PhaseAct::Start) {
            return;
        }
        let index = found.held.index;
        let scheduled = self.state.bindings().filter(|b| b.state == BindingState::Scheduled && !b.deleting);
        let free = scheduled.filter(|b| b.snapshot.is_none());
        let holding = free.filter(|b| holders.has(&b.cluster, &found.held));
        for (name, cluster) in holding.map(|b| (b.name.clone(), b.cluster.clone())).collect::<Vec<_>>() {
            let overrides = self.desired_overrides(&cluster, index);
            self.bring(&name, index, self.wanted_apply_strategy(index), overrides);
        }
    }

    /// Returns what members hold instead of the held snapshot, if the accepted commit has the same beside its content.
    fn found(&self) -> Option<Arc<FoundSnapshot>> {
        let record = &self.state.record;
        let hold = record.held.as_ref()?;
        let holders = self.fleet.holders.get(&record.key)?;
        let found = holders.found.as_ref()?.as_ref().filter(|found| holders.agreed(hold) == Some(&found.held))?;
        let today = self.fleet.tree.placements.get(&record.key)?;
        found.is_as(today, &self.fleet.overrides, &self.fleet.tree).then(|| Arc::clone(found))
    }

    /// Unbinds clusters that hold a newer snapshot than the store knows: they received it after the backup that the store was
    /// restored from. They keep it until they are bound again, because the old binding would roll them back.
    pub(super) fn unbind_clusters_ahead(&mut self) {
        let Some(ahead) = self.fleet.ahead.get(&self.state.record.key) else { return };
        let older = self.state.bindings().filter(|b| {
            let held = ahead.get(&b.cluster);
            !b.deleting && b.snapshot.zip(held).is_some_and(|(assigned, held)| assigned < *held)
        });
        let found: Vec<Binding> = older.cloned().collect();
        self.change_all(found.iter().map(|binding| (binding.name.clone(), BindingEdit::Unassign)));
        // A run from the backup would return the cluster to its own snapshot.
        if let Some(newest) = ahead.values().max()
            && !found.is_empty()
        {
            self.leave_older_runs_behind(
                *newest,
                "the store was restored from a backup that is older than what clusters hold",
            );
        }
        for binding in found {
            let facts = json!({"binding": binding.name, "from": binding.snapshot});
            self.note(JournalKind::NewerSnapshotFound, Some(&binding.cluster), facts);
        }
    }

    /// Selects, freezes and schedules. An error affects only this placement: it keeps its last good state.
    pub(super) fn freeze_and_schedule(&mut self) {
        let selected = self.selected();
        self.state.memo.selected = Some(Arc::clone(&selected));
        self.state.record.error = None;
        let result = match selected.outcome.as_ref() {
            Err(error) => Err(error.clone()),
            Ok((frozen, payload)) => {
                self.take_snapshot(frozen, payload);
                // Overrides of a new payload may end a hold.
                if self.state.newest().is_some_and(|newest| !self.candidates.contains_key(&newest.index)) {
                    self.find_candidates();
                }
                // Before clusters are picked: other content has the policy of the accepted commit again.
                self.release_held();
                self.scheduled().map(|scheduled| self.take_scheduled(scheduled))
            }
        };
        if let Err(error) = result {
            self.state.record.error = Some(error);
        }
    }

    /// Returns what the accepted commit selects, frozen.
    fn selected(&self) -> Arc<Selected> {
        let tree = &self.fleet.tree;
        let generation = self.state.record.generation;
        // Every member report queues a decision, and nearly always the commit is unchanged.
        if let Some(known) = &self.state.memo.selected
            && Arc::ptr_eq(&known.tree, tree)
            && known.generation == generation
        {
            return Arc::clone(known);
        }
        let record = &self.state.record;
        let placement = Placement {
            key: record.key.clone(),
            spec: record.spec.clone(),
            annotations: record.annotations.clone(),
            origin: record.origin.clone().expect("a placement of the tree has an origin"),
            owners: Vec::new(),
        };
        let before = self.state.memo.selected.as_ref();
        let selected = select(tree, &placement).map_err(|error| error.to_string());
        let selected = selected.and_then(|manifests| self.permitted(manifests));
        let selected = selected.and_then(|manifests| Ok((manifests, self.selected_variants(&placement)?)));
        let outcome = match selected {
            Err(error) => Arc::new(Err(error)),
            Ok((manifests, None)) => match before.filter(|before| before.is_of(&manifests)) {
                Some(same) => Arc::clone(&same.outcome),
                None => Arc::new(self.frozen(manifests, None)),
            },
            Ok((manifests, variants)) => Arc::new(self.frozen(manifests, variants)),
        };
        let warnings = if outcome.is_ok() { not_selected(tree, &placement) } else { Vec::new() };
        Arc::new(Selected { tree: Arc::clone(tree), generation, outcome, warnings })
    }

    /// Freezes a selection; it shares the newest snapshot's payload if that is the same.
    fn frozen(
        &self,
        manifests: Vec<Manifest>,
        variants: Option<SelectedVariants>,
    ) -> Result<(Frozen, Arc<Payload>), String> {
        let newest = self.state.newest().map(AsRef::as_ref);
        let mut frozen = freeze(&manifests, newest);
        let mut of_clusters = None;
        if let Some((reads, variants)) = variants {
            frozen = freeze_variants(frozen, reads, &variants, &self.accepted_commit(), newest);
            of_clusters = Some(variants);
        }
        if let Some(newest) = newest
            && newest.hash == frozen.hash
            && !is_encrypted_again(&newest.resources, &frozen.resources)
            && let Some(payload) = self.state.payloads.get(&newest.index)
            && payload.has_inputs(frozen.variants.as_ref())
        {
            return Ok((frozen, Arc::clone(payload)));
        }
        let key = &self.state.record.key;
        let payload = Payload::of(manifests, &frozen, key)?;
        let payload = match of_clusters {
            Some(variants) => payload.for_clusters(variants, key)?,
            None => payload,
        };
        Ok((frozen, Arc::new(payload)))
    }

    fn take_snapshot(&mut self, frozen: &Frozen, payload: &Arc<Payload>) {
        let key = self.state.record.key.clone();
        let mut existing: Vec<_> = self.state.snapshots.values().map(|s| (s.index, s.hash.clone())).collect();
        // The highest index wins: the store may be new, or older than the snapshots on members.
        if let Some(held) = self.fleet.held.get(&key)
            && existing.iter().all(|(index, _)| *index < held.index)
        {
            existing.push((held.index, held.digest.clone()));
        }
        let index = match next_snapshot(&existing, &frozen.hash, self.state.record.spec.revision_history_limit) {
            Next::Keep(index) if self.state.snapshots.contains_key(&index) => {
                self.renew_encrypted(index, frozen, payload);
                self.extend_variants(index, frozen, payload);
                index
            }
            // Only members have it: the store was lost, or is older.
            Next::Keep(index) => {
                self.note(JournalKind::SnapshotFound, None, json!({"index": index}));
                self.insert_snapshot(index, self.accepted_commit(), frozen);
                index
            }
            // Old ones go when nothing names them any more: see `forget_snapshots`.
            Next::Create { index, prune: _ } => {
                let facts = json!({"index": index, "hash": frozen.hash, "objects": frozen.resources.len()});
                self.note(JournalKind::SnapshotCreated, None, facts);
                self.insert_snapshot(index, self.accepted_commit(), frozen);
                index
            }
        };
        self.provide(index, frozen, payload);
    }

    /// Takes objects from where they are encrypted now: the keys that open an earlier file may be gone when they are needed.
    fn renew_encrypted(&mut self, index: u64, frozen: &Frozen, payload: &Arc<Payload>) {
        let known = &self.state.snapshots[&index];
        if !is_encrypted_again(&known.resources, &frozen.resources) {
            return;
        }
        let encrypted_at = self.fleet.tree.commit.clone();
        let resources = frozen.resources.clone();
        let renewed = ResourceSnapshot { encrypted_at, resources, ..ResourceSnapshot::clone(known) };
        self.state.snapshots.insert(index, Arc::new(renewed));
        self.state.payloads.insert(index, Arc::clone(payload));
        self.state.memo.rendered.retain(|_, snapshot, _| snapshot != index);
    }

    /// Forgets the snapshots beyond the history limit that nothing goes to any more.
    pub(super) fn forget_snapshots(&mut self) {
        let limit = usize::try_from(self.state.record.spec.revision_history_limit).unwrap_or(usize::MAX);
        let surplus = self.state.snapshots.len().saturating_sub(limit);
        if surplus == 0 {
            return;
        }
        let mut kept = self.state.snapshots_named();
        // A rollback goes there, though nothing names it until then.
        kept.extend(self.state.record.last_succeeded);
        let oldest: Vec<u64> = self.state.snapshots.keys().take(surplus).copied().collect();
        for index in oldest.iter().filter(|index| !kept.contains(index)) {
            self.state.snapshots.remove(index);
            self.state.payloads.remove(index);
        }
    }

    fn accepted_commit(&self) -> CommitId {
        self.fleet.tree.commit.clone().unwrap_or_else(|| "".into())
    }

    pub(super) fn insert_snapshot(&mut self, index: u64, commit: CommitId, frozen: &Frozen) {
        let is_accepted = self.fleet.tree.commit.as_ref() == Some(&commit);
        let snapshot = ResourceSnapshot {
            placement: self.state.record.key.clone(),
            index,
            changed_sources: if is_accepted { self.fleet.changed_sources.clone() } else { Vec::new() },
            commit,
            encrypted_at: None,
            hash: frozen.hash.clone(),
            resources: frozen.resources.clone(),
            parts: frozen.parts.clone(),
            variants: frozen.variants.clone(),
            created_at: self.now,
        };
        self.state.snapshots.insert(index, Arc::new(snapshot));
    }

    /// Uses the selection as the newest payload if the hashes agree, so a restart reads nothing again.
    pub(super) fn load_newest_payload(&mut self) {
        let Some(selected) = self.state.memo.selected.clone() else { return };
        let Ok((frozen, payload)) = selected.outcome.as_ref() else { return };
        // A return to earlier content makes a new snapshot, so several may have this hash.
        let same: Vec<u64> = self.state.snapshots.values().filter(|s| s.hash == frozen.hash).map(|s| s.index).collect();
        for index in same {
            self.provide(index, frozen, payload);
        }
    }
}
