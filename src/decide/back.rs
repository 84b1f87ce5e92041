//! What a rollback returns to: snapshot, overrides, apply strategy and policy together. What was rolled back comes again only when a person
//! or another content asks for it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::Pass;
use super::objects::stays;
use super::state::PlacementState;
use model::api::placement::{ApplyStrategy, PlacementPolicy};
use model::id::{ClusterName, Digest};
use model::journal::JournalKind;
use model::overrides::{OverrideKey, OverrideRef, PickedOverrides};
use model::records::{HeldInputs, HeldSnapshot, SharedOverrides, SucceededState};
use model::runs::{RunCause, RunRecord};

/// States that are kept for rollbacks, beside the limit of snapshots.
const SUCCEEDED_MAX: usize = 10;

impl Pass<'_> {
    /// Records what clusters have now that everything has succeeded everywhere.
    pub(super) fn keep_succeeded(&mut self, snapshot: u64) {
        let mut shared: BTreeMap<&PickedOverrides, BTreeSet<ClusterName>> = BTreeMap::new();
        let mut apply_strategy = None;
        for binding in self.updated() {
            apply_strategy.get_or_insert(&binding.apply_strategy);
            if !binding.overrides.is_empty() {
                shared.entry(&binding.overrides).or_default().insert(binding.cluster.clone());
            }
        }
        let overrides =
            shared.into_iter().map(|(picked, clusters)| SharedOverrides { picked: picked.clone(), clusters });
        let state = SucceededState {
            snapshot,
            apply_strategy: apply_strategy.cloned().unwrap_or_default(),
            policy: self.state.wanted_policy().cloned(),
            overrides: overrides.collect(),
        };
        let snapshots = &self.state.snapshots;
        let succeeded = &mut self.state.record.succeeded;
        succeeded.retain(|state| snapshots.contains_key(&state.snapshot));
        if succeeded.last() != Some(&state) {
            succeeded.push(state);
            let surplus = succeeded.len().saturating_sub(SUCCEEDED_MAX);
            succeeded.drain(..surplus);
        }
    }
}

impl PlacementState {
    /// Returns the policy that clusters are picked by: that of the accepted commit, or while something is held the one that a rollback
    /// returned to.
    pub fn wanted_policy(&self) -> Option<&PlacementPolicy> {
        let record = &self.record;
        // Where others were rolled back, the policy is followed.
        let is_back = record
            .held
            .as_ref()
            .and_then(|held| held.inputs.as_ref())
            .is_none_or(|of| of.policy.is_some() || of.is_unknown());
        match &record.back {
            Some(back) if is_back => back.policy.as_ref(),
            _ => record.spec.policy.as_ref(),
        }
    }
}

impl Pass<'_> {
    /// Returns the apply strategy that clusters are to have with a snapshot.
    pub(super) fn wanted_apply_strategy(&self, snapshot: u64) -> ApplyStrategy {
        let record = &self.state.record;
        let held = record.held.as_ref().and_then(|held| held.inputs.as_ref());
        let is_back = held.is_none_or(|of| of.apply_strategy.is_some() || of.is_unknown());
        match record.back.as_ref().filter(|back| is_back && back.snapshot == snapshot) {
            Some(back) => back.apply_strategy.clone(),
            None => record.spec.strategy.apply_strategy.clone().unwrap_or_default(),
        }
    }

    /// Returns the overrides that a rollback returns a cluster to, if it does for this snapshot: those that it had, or of today's those
    /// that others had, as they were then.
    pub(super) fn overrides_back(
        &self,
        cluster: &ClusterName,
        snapshot: u64,
        today: &PickedOverrides,
    ) -> Option<PickedOverrides> {
        let back = self.state.record.back.as_ref().filter(|back| back.snapshot == snapshot)?;
        if let Some(had) = back.overrides_of(cluster).filter(|had| self.are_kept(had)) {
            return Some(had.clone());
        }
        let then: BTreeMap<&OverrideKey, &OverrideRef> = back.override_refs().map(|id| (&id.key, id)).collect();
        let mut picked = PickedOverrides {
            cluster: as_then(&today.cluster, &then),
            namespaced: as_then(&today.namespaced, &then),
            ..today.clone()
        };
        // Labels are recorded only with overrides: the store omits a value without any.
        if !picked.has_overrides() {
            picked.labels.clear();
        }
        Some(picked)
    }

    /// Tells whether the snapshots of overrides are still there.
    pub(super) fn are_kept(&self, picked: &PickedOverrides) -> bool {
        picked.ids().all(|id| self.fleet.overrides.get(id).is_some())
    }

    /// Returns the last state that had succeeded everywhere and that differs from what clusters have of a snapshot: in its snapshot, or in
    /// overrides, apply strategy or policy alone. From the records, since a command on a store knows no more.
    pub fn last_other_state(&self, snapshot: u64) -> Option<&SucceededState> {
        let mut newest_first = self.state.record.succeeded.iter().rev();
        newest_first.find(|state| state.snapshot != snapshot || !self.is_held_now(state))
    }

    /// Returns the last state with a snapshot that had succeeded everywhere.
    pub fn state_with(&self, snapshot: u64) -> Option<&SucceededState> {
        self.state.record.succeeded.iter().rev().find(|state| state.snapshot == snapshot)
    }

    /// Tells whether clusters have the overrides and apply strategy of a state, and are picked by its policy.
    fn is_held_now(&self, state: &SucceededState) -> bool {
        let none = PickedOverrides::default();
        let mut picked = self.state.bindings().filter(|b| stays(b));
        state.policy == self.state.record.spec.policy
            && picked.all(|binding| {
                binding.apply_strategy == state.apply_strategy
                    && binding.overrides == *state.overrides_of(&binding.cluster).unwrap_or(&none)
            })
    }

    /// Returns what the accepted commit has otherwise than what a rollback returned to.
    fn inputs_today(&self, snapshot: u64, back: &SucceededState) -> HeldInputs {
        let spec = &self.state.record.spec;
        let picked = self.state.bindings().filter(|b| stays(b));
        let picked: BTreeMap<&ClusterName, PickedOverrides> =
            picked.map(|b| (&b.cluster, self.picked_today(&b.cluster, snapshot))).collect();
        let today = self.effects(picked.values().flat_map(PickedOverrides::ids));
        let then = self.effects(back.override_refs());
        let keys: BTreeSet<&String> = today.keys().chain(then.keys()).collect();
        let other = keys.into_iter().filter(|key| today.get(*key) != then.get(*key));
        let strategy = spec.strategy.apply_strategy.clone().unwrap_or_default();
        let none = PickedOverrides::default();
        let mut clusters = BTreeMap::new();
        for (cluster, today) in picked {
            let today = read_of(&today);
            if read_of(back.overrides_of(cluster).unwrap_or(&none)) != today {
                clusters.insert(cluster.clone(), today);
            }
        }
        HeldInputs {
            overrides: other.map(|key| (key.clone(), today.get(key).cloned())).collect(),
            apply_strategy: (strategy != back.apply_strategy).then(|| digest_of(&strategy)),
            policy: (spec.policy != back.policy).then(|| digest_of(&spec.policy)),
            clusters,
        }
    }

    /// Returns the digests of what overrides do, by their names.
    fn effects<'i>(&self, ids: impl Iterator<Item = &'i OverrideRef>) -> BTreeMap<String, Digest> {
        ids.filter_map(|id| Some((text_of(&id.key), self.fleet.overrides.effect(id)?))).collect()
    }

    /// Tells whether the accepted commit has something else for what a rollback took back beside content.
    fn has_other_inputs(&self, snapshot: u64, held: &HeldInputs) -> bool {
        let spec = &self.state.record.spec;
        let today = self.effects(self.candidate_ids(snapshot));
        let is_any_changed = held.overrides.iter().any(|(key, known)| match known {
            // Under another name it does the same.
            Some(known) => !today.values().any(|digest| digest == known),
            None => today.contains_key(key),
        });
        if is_any_changed {
            return true;
        }
        for (cluster, known) in &held.clusters {
            if self.is_picked(cluster) && read_of(&self.picked_today(cluster, snapshot)) != *known {
                return true;
            }
        }
        if let Some(known) = &held.apply_strategy
            && *known != digest_of(&spec.strategy.apply_strategy.clone().unwrap_or_default())
        {
            return true;
        }
        held.policy.as_ref().is_some_and(|known| *known != digest_of(&spec.policy))
    }

    /// Holds a snapshot, so that no automatic rollout delivers it again. A newer held snapshot stays held: leaving the target
    /// of a rollback does not roll forward.
    pub fn hold(&mut self, index: u64, why: String) {
        if self.state.record.held.as_ref().is_some_and(|held| held.index > index) {
            return;
        }
        let Some(snapshot) = self.state.snapshots.get(&index) else { return };
        let held =
            HeldSnapshot { index, hash: snapshot.hash.clone(), why, since: self.now, returns: false, inputs: None };
        self.note(JournalKind::SnapshotHeld, None, json!({"index": index, "why": held.why}));
        self.state.record.held = Some(held);
    }

    /// Tells whether an automatic run would roll out the held snapshot.
    pub(super) fn brings_held(&self, run: &RunRecord) -> bool {
        let held = self.state.record.held.as_ref().filter(|held| held.inputs.is_none());
        let is_automatic = matches!(run.cause, RunCause::Snapshot | RunCause::FollowUp { .. });
        let brings = held.zip(run.wanted_snapshot);
        is_automatic && brings.is_some_and(|(held, index)| self.are_alike(index, held.index))
    }

    /// Holds a snapshot that is rolled back, and returns with its target to the overrides, apply strategy and policy of then. Where these
    /// alone are rolled back, the snapshot is held until they change.
    pub(super) fn hold_for(&mut self, index: u64, to: u64, why: &str) {
        let is_alike = self.are_alike(index, to);
        let state = if is_alike { self.last_other_state(index) } else { self.state_with(to) };
        let back = state.filter(|state| state.snapshot == to).cloned();
        let what = if is_alike {
            "was rolled back to earlier overrides, apply strategy or policy"
        } else {
            "was rolled back to snapshot"
        };
        let to = if is_alike { String::new() } else { format!(" {to}") };
        self.hold(index, format!("{what}{to}: {why}"));
        // A command on a store does not know them: the next decision notes them.
        let inputs = is_alike.then(HeldInputs::default);
        if let Some(held) = self.state.record.held.as_mut().filter(|held| held.index == index) {
            held.returns = true;
            held.inputs = inputs;
        }
        self.state.record.back = back;
    }

    /// Tells whether two snapshots have the same content: a rollback from one does not go to the other.
    pub fn are_alike(&self, one: u64, other: u64) -> bool {
        if one == other {
            return true;
        }
        let snapshots = &self.state.snapshots;
        snapshots.get(&one).zip(snapshots.get(&other)).is_some_and(|(one, other)| one.hash == other.hash)
    }

    /// Ends a hold, and the rollback with it, when the content gets a different digest, or what was rolled back beside it changes.
    pub(super) fn release_held(&mut self) {
        let newest = self.state.newest().map(|newest| (newest.index, newest.hash.clone()));
        let index = newest.as_ref().map(|(index, _)| *index).filter(|index| self.state.payloads.contains_key(index));
        // A command on a store does not know what the accepted commit has: noted with the next decision.
        let inputs = self.state.record.held.as_ref().and_then(|held| held.inputs.as_ref());
        if let (Some(index), Some(back)) = (index, self.state.record.back.clone())
            && inputs.is_some_and(HeldInputs::is_unknown)
        {
            let today = self.inputs_today(index, &back);
            if let Some(inputs) = self.state.record.held.as_mut().and_then(|held| held.inputs.as_mut()) {
                *inputs = today;
            }
        }
        let is_over = self.state.record.held.as_ref().is_some_and(|held| match &newest {
            Some((_, hash)) if *hash != held.hash => true,
            Some(_) => held.inputs.as_ref().zip(index).is_some_and(|(held, index)| self.has_other_inputs(index, held)),
            None => true,
        });
        if is_over {
            self.state.record.held = None;
        }
        if self.state.record.held.is_none() {
            self.state.record.back = None;
            self.state.record.goal = None;
        }
    }
}

/// Returns those of some overrides that there were then, as they were.
fn as_then(today: &[OverrideRef], then: &BTreeMap<&OverrideKey, &OverrideRef>) -> Vec<OverrideRef> {
    today.iter().filter_map(|id| then.get(&id.key).copied().cloned()).collect()
}

/// Returns the digest of what overrides and renderings read of a cluster.
fn read_of(picked: &PickedOverrides) -> Digest {
    digest_of(&(&picked.labels, &picked.variant))
}

fn digest_of(value: &impl serde::Serialize) -> Digest {
    Digest::new(format!("{:x}", Sha256::digest(json!(value).to_string())))
}

/// Writes the key of an override as `[NAMESPACE/]NAME`.
fn text_of(key: &OverrideKey) -> String {
    key.namespace.as_ref().map_or_else(|| key.name.clone(), |namespace| format!("{namespace}/{}", key.name))
}
