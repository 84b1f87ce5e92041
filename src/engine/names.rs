//! The names of placements and runs while decisions give new ones.

use std::collections::BTreeSet;

use super::Core;
use model::id::PlacementKey;
use model::runs::Runs;

/// The names that decisions of one batch give to runs: each was made without knowing those of the others.
#[derive(Debug, Default)]
pub(super) struct GivenNames(BTreeSet<(Option<String>, String)>);

impl GivenNames {
    /// Adds the names that a decision gives. Returns whether it may: none is that of another decision in the same scope.
    pub(super) fn add(&mut self, key: &PlacementKey, known: Option<&Runs>, decided: &Runs) -> bool {
        let new = decided.values().filter(|run| known.is_none_or(|known| !known.contains_key(&run.name)));
        let new: Vec<_> = new.map(|run| (key.namespace.clone(), run.name.clone())).collect();
        let is_free = !new.iter().any(|name| self.0.contains(name));
        if is_free {
            self.0.extend(new);
        }
        is_free
    }
}

impl Core {
    /// Follows the names of a placement and of its runs. Another one that a name may mean from now on, or no longer, is shown and
    /// decided again, because its messages hold commands.
    pub(super) fn note_names(&mut self, key: &PlacementKey) {
        let others = self.fleet.names.set(key, self.placements.get(key).map(|state| &state.runs));
        for key in others.into_iter().chain([key.clone()]) {
            let Some(state) = self.placements.get_mut(&key) else { continue };
            let is_shared = self.fleet.names.is_shared(&key, &state.runs);
            if state.shared_name != is_shared {
                state.shared_name = is_shared;
                self.listeners.changed.placements.insert(key.clone(), true);
                self.queue.placements.insert(key);
            }
        }
    }
}
