//! Which clusters hold the newest snapshot, and not as the accepted commit wants it.

use super::Pass;
use crate::snapshot::Candidates;
use model::records::BindingState;

impl Pass<'_> {
    /// Records the clusters that have the newest snapshot with other overrides or values, or another apply strategy, than they are to
    /// have.
    pub(super) fn note_behind(&mut self) {
        let Some(newest) = self.state.newest() else { return self.state.record.behind.clear() };
        if self.state.record.removed {
            return self.state.record.behind.clear();
        }
        let index = newest.index;
        // Without the payload nobody knows which overrides concern it.
        if !self.state.payloads.contains_key(&index) {
            return;
        }
        let is_plain = newest.variants.is_none() && self.candidates.get(&index).is_none_or(Candidates::is_empty);
        let strategy = self.wanted_apply_strategy(index);
        let has_newest = self.state.bindings().filter(|binding| {
            binding.state == BindingState::Bound && !binding.deleting && binding.snapshot == Some(index)
        });
        let behind = has_newest.filter(|binding| {
            let is_made_so = || {
                if is_plain {
                    binding.overrides.is_empty()
                } else {
                    binding.overrides == self.desired_overrides(&binding.cluster, index)
                }
            };
            !self.state.record.ignores(binding) && (binding.apply_strategy != strategy || !is_made_so())
        });
        self.state.record.behind = behind.map(|binding| binding.cluster.clone()).collect();
    }
}
