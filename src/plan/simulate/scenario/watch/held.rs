//! What clusters are assigned, and whether they have it.

use std::collections::{BTreeMap, BTreeSet};

use decide::state::{FleetState, PlacementState};
use decide::status::binding::settled_work;
use decide::status::placement::is_right;
use decide::status::work::Mode;
use model::api::placement::ApplyStrategy;
use model::overrides::PickedOverrides;
use model::records::Binding;

/// Snapshot, overrides and apply strategy.
type Assigned = (Option<u64>, PickedOverrides, ApplyStrategy);

/// What each binding was assigned when it was last checked, and whether its cluster had that, available or compared.
#[derive(Debug, Default)]
pub(super) struct Assignments(BTreeMap<String, (Assigned, bool)>);

impl Assignments {
    /// Looks at the bindings of a placement. Returns those that are assigned something else than before.
    ///
    /// One that is only decided again, as by another policy, has what it had until its cluster reports something else.
    pub(super) fn look(&mut self, state: &PlacementState) -> BTreeSet<String> {
        let before = std::mem::take(&mut self.0);
        let mut new = BTreeSet::new();
        for binding in state.bindings() {
            let assigned = (binding.snapshot, binding.overrides.clone(), binding.apply_strategy.clone());
            let known = before.get(&binding.name).filter(|(of, _)| *of == assigned);
            let heard = settled_work(binding, state.works.get(&binding.cluster).map(AsRef::as_ref));
            let stays = known.is_some_and(|(_, has)| *has) && heard.is_none();
            if known.is_none() {
                new.insert(binding.name.clone());
            }
            self.0.insert(binding.name.clone(), (assigned, stays || is_available(binding)));
        }
        new
    }

    /// Counts the clusters that are assigned something and do not have it. Those that left the fleet cannot get it.
    pub(super) fn unavailable(&self, state: &PlacementState, fleet: &FleetState) -> usize {
        let assigned = state.bindings().filter(|binding| {
            let left = fleet.records.get(&binding.cluster).is_none_or(|record| record.left);
            binding.snapshot.is_some() && !binding.deleting && !left
        });
        assigned.filter(|binding| !self.has(binding)).count()
    }

    fn has(&self, binding: &Binding) -> bool {
        self.0.get(&binding.name).is_some_and(|(_, has)| *has)
    }
}

/// Tells whether a cluster reports that it has what it is assigned.
pub(super) fn is_available(binding: &Binding) -> bool {
    is_right(binding, Mode::of(&binding.apply_strategy))
}
