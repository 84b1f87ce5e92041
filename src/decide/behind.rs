//! Which clusters hold a snapshot as the accepted commit wants it, and which hold it otherwise.

use super::Pass;
use crate::snapshot::Candidates;
use model::records::{Binding, BindingState};

impl Pass<'_> {
    /// Records the clusters that have the newest snapshot with other overrides or values, or another apply strategy, than they are to
    /// have.
    pub(super) fn note_behind(&mut self) {
        let Some(newest) = self.state.newest() else { return self.state.record.behind.clear() };
        if self.state.record.removed {
            return self.state.record.behind.clear();
        }
        let index = newest.index;
        // Without the payload it is unknown which overrides concern it.
        if !self.state.payloads.contains_key(&index) {
            return;
        }
        let is_plain = newest.variants.is_none() && self.candidates.get(&index).is_none_or(Candidates::is_empty);
        let strategy = self.wanted_apply_strategy(index);
        let has_newest = self.state.bindings().filter(|binding| {
            binding.state == BindingState::Bound && !binding.deleting && binding.snapshot == Some(index)
        });
        let behind = has_newest.filter(|binding| {
            if self.state.record.ignores(binding) {
                return false;
            }
            if binding.apply_strategy != strategy {
                return true;
            }
            // Usually nothing concerns the snapshot, and that is cheaper to compare.
            if is_plain {
                !binding.overrides.is_empty()
            } else {
                binding.overrides != self.desired_overrides(&binding.cluster, index)
            }
        });
        self.state.record.behind = behind.map(|binding| binding.cluster.clone()).collect();
    }

    /// Tells whether a binding is assigned a snapshot in the form that the placement wants now.
    pub(super) fn is_at(&self, binding: &Binding, index: u64) -> bool {
        binding.state == BindingState::Bound
            && binding.snapshot == Some(index)
            && binding.apply_strategy == self.wanted_apply_strategy(index)
            && binding.overrides == self.desired_overrides(&binding.cluster, index)
    }

    /// Tells whether every picked cluster that runs update is assigned a snapshot, and no removal is left.
    pub(super) fn is_right_everywhere(&self, index: u64) -> bool {
        self.state
            .bindings()
            .all(|binding| !binding.deleting && (self.is_at(binding, index) || self.state.record.ignores(binding)))
    }
}
