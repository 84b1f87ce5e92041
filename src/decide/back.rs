//! What a rollback returns to: snapshot, overrides, apply strategy and policy together. What was rolled back comes again only when a person
//! or another content asks for it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::Pass;
use model::api::placement::{ApplyStrategy, PlacementPolicy};
use model::id::{ClusterName, Digest};
use model::overrides::{OverrideKey, OverrideRef, PickedOverrides};
use model::records::{BindingState, SharedOverrides, SucceededState};

/// States that are kept for rollbacks, beside the limit of snapshots.
const SUCCEEDED_MAX: usize = 10;

impl Pass<'_> {
    /// Records what clusters have now that everything has succeeded everywhere.
    pub(super) fn keep_succeeded(&mut self, snapshot: u64) {
        let record = &self.state.record;
        let picked = self.state.bindings().filter(|b| b.state != BindingState::Unscheduled && !record.ignores(b));
        let mut shared: BTreeMap<&PickedOverrides, BTreeSet<ClusterName>> = BTreeMap::new();
        let mut apply_strategy = None;
        for binding in picked {
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
            policy: self.wanted_policy().cloned(),
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

    /// Returns the policy that clusters are picked by: that of the accepted commit, or while something is held the one that a rollback
    /// returned to.
    pub(super) fn wanted_policy(&self) -> Option<&PlacementPolicy> {
        let record = &self.state.record;
        record.back.as_ref().map_or(record.spec.policy.as_ref(), |back| back.policy.as_ref())
    }

    /// Returns the apply strategy that clusters are to have with a snapshot.
    pub(super) fn wanted_apply_strategy(&self, snapshot: u64) -> ApplyStrategy {
        let record = &self.state.record;
        match record.back.as_ref().filter(|back| back.snapshot == snapshot) {
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
        let as_then = |ids: &[OverrideRef]| ids.iter().filter_map(|id| Some((*then.get(&id.key)?).clone())).collect();
        Some(PickedOverrides {
            cluster: as_then(&today.cluster),
            namespaced: as_then(&today.namespaced),
            ..today.clone()
        })
    }

    /// Tells whether the snapshots of overrides are still there.
    pub(super) fn are_kept(&self, picked: &PickedOverrides) -> bool {
        picked.cluster.iter().chain(&picked.namespaced).all(|id| self.fleet.overrides.get(id).is_some())
    }

    /// Returns the last state that had succeeded everywhere and that differs from what clusters have of a snapshot: in its snapshot, or in
    /// overrides, apply strategy or policy alone. From the records, since a command on a store knows no more.
    pub fn last_other_state(&self, snapshot: u64) -> Option<&SucceededState> {
        let is_other = |state: &&SucceededState| state.snapshot != snapshot || !self.is_held_now(state);
        self.state.record.succeeded.iter().rev().find(is_other)
    }

    /// Returns the last state with a snapshot that had succeeded everywhere.
    pub fn state_with(&self, snapshot: u64) -> Option<&SucceededState> {
        self.state.record.succeeded.iter().rev().find(|state| state.snapshot == snapshot)
    }

    /// Tells whether clusters have the overrides and apply strategy of a state, and are picked by its policy.
    fn is_held_now(&self, state: &SucceededState) -> bool {
        let none = PickedOverrides::default();
        let mut picked = self.state.bindings().filter(|b| b.state != BindingState::Unscheduled && !b.deleting);
        state.policy == self.state.record.spec.policy
            && picked.all(|binding| {
                binding.apply_strategy == state.apply_strategy
                    && binding.overrides == *state.overrides_of(&binding.cluster).unwrap_or(&none)
            })
    }

    /// Returns the digest of what the accepted commit wants beside content: overrides, apply strategy and policy.
    pub(super) fn inputs_today(&self, snapshot: u64) -> Digest {
        let spec = &self.state.record.spec;
        let picked = self.state.bindings().filter(|b| b.state != BindingState::Unscheduled && !b.deleting);
        let overrides: BTreeSet<PickedOverrides> = picked.map(|b| self.picked_today(&b.cluster, snapshot)).collect();
        let strategy = spec.strategy.apply_strategy.clone().unwrap_or_default();
        let text = json!([overrides, strategy, spec.policy]).to_string();
        Digest::new(format!("{:x}", Sha256::digest(text)))
    }
}
