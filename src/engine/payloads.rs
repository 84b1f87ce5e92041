//! Payloads of snapshots that are read from git.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::effect::Effect;
use decide::state::PlacementState;
use model::id::PlacementKey;
use model::records::ResourceSnapshot;
use model::tree::Tree;

/// Snapshots whose payload is being read.
#[derive(Debug, Default)]
pub(super) struct PayloadReads(BTreeSet<(PlacementKey, u64)>);

impl PayloadReads {
    /// Tells whether nothing is being read.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes that a payload is being read. Returns whether that is new.
    pub(super) fn begin(&mut self, key: &PlacementKey, index: u64) -> bool {
        self.0.insert((key.clone(), index))
    }

    /// Notes that a payload was read, or could not be.
    pub(super) fn end(&mut self, key: &PlacementKey, index: u64) {
        self.0.remove(&(key.clone(), index));
    }

    /// Requests payloads that no selection provides: after a restart, and of older snapshots for rollbacks.
    pub(super) fn request_missing(&mut self, state: &PlacementState) -> Vec<Effect> {
        self.request(state, |index| !state.payloads.contains_key(&index) && !state.unreadable.contains(&index))
    }

    /// Requests payloads of a placement again. They count as unreadable until they are read, so that it does not wait for them: another
    /// placement may get what it has, and both are decided together.
    pub(super) fn request_unreadable(&mut self, state: &PlacementState) -> Vec<Effect> {
        self.request(state, |index| state.unreadable.contains(&index))
    }

    fn request(&mut self, state: &PlacementState, is_wanted: impl Fn(u64) -> bool) -> Vec<Effect> {
        let mut reads = Vec::new();
        for snapshot in state.snapshots_in_use() {
            let snapshot: &Arc<ResourceSnapshot> = snapshot;
            if is_wanted(snapshot.index) && self.begin(&state.record.key, snapshot.index) {
                reads.push(Effect::ReadPayload(Arc::clone(snapshot)));
            }
        }
        reads
    }

    /// Tells whether a placement waits for payloads: for its own, or, where git has just brought it, for those of a placement that git has no
    /// more. Both may be one that was renamed, and only a decision about both finds that out.
    pub(super) fn are_awaited(
        &self,
        key: &PlacementKey,
        placements: &BTreeMap<PlacementKey, PlacementState>,
        tree: &Tree,
    ) -> bool {
        if self.0.is_empty() {
            return false;
        }
        if self.is_reading(key, placements) {
            return true;
        }
        let is_coming = tree.placements.contains_key(key)
            && placements.get(key).is_some_and(|state| state.record.generation == 0 || state.record.removed);
        is_coming
            && self.0.iter().any(|(other, _)| is_leaving(other, placements, tree) && self.is_reading(other, placements))
    }

    /// Tells whether a payload of the placement is being read for the first time. A payload that could not be read holds nothing up
    /// while it is read again: the placement was decided without it already.
    fn is_reading(&self, key: &PlacementKey, placements: &BTreeMap<PlacementKey, PlacementState>) -> bool {
        let unreadable = placements.get(key).map(|state| &state.unreadable);
        let mut of_placement = self.0.range((key.clone(), 0)..=(key.clone(), u64::MAX));
        of_placement.any(|(_, index)| unreadable.is_none_or(|unreadable| !unreadable.contains(index)))
    }
}

/// Tells whether git has a placement no more and that is not decided yet.
fn is_leaving(key: &PlacementKey, placements: &BTreeMap<PlacementKey, PlacementState>, tree: &Tree) -> bool {
    !tree.placements.contains_key(key) && placements.get(key).is_some_and(|state| !state.record.removed)
}
