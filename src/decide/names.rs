//! The names of placements and runs: which are in use, and which name more than one thing.

use std::collections::{BTreeMap, BTreeSet};

use model::id::PlacementKey;
use model::runs::Runs;
use model::target::is_kind_word;

/// The names in use, by placement. Changing one placement costs what it has itself.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// The names of each placement's runs.
    of: BTreeMap<PlacementKey, BTreeSet<String>>,
    placements: BTreeMap<String, BTreeSet<PlacementKey>>,
    runs: BTreeMap<String, BTreeSet<PlacementKey>>,
}

impl Names {
    /// Collects the names of placements and of their runs.
    pub fn of<'a>(placements: impl IntoIterator<Item = (&'a PlacementKey, &'a Runs)>) -> Self {
        let mut names = Self::default();
        for (key, runs) in placements {
            names.set(key, Some(runs));
        }
        names
    }

    /// Takes the present names of a placement; `None` of one that is gone. Returns the other placements that have one of the names
    /// which came or went.
    pub fn set(&mut self, key: &PlacementKey, runs: Option<&Runs>) -> BTreeSet<PlacementKey> {
        let known = self.of.get(key);
        if let (Some(known), Some(runs)) = (known, runs)
            && known.iter().eq(runs.records().keys())
        {
            return BTreeSet::new();
        }
        let is_known = known.is_some();
        let before = self.of.remove(key).unwrap_or_default();
        let now: BTreeSet<String> = runs.into_iter().flat_map(|runs| runs.records().keys().cloned()).collect();
        let mut moved: BTreeSet<&String> = before.symmetric_difference(&now).collect();
        for name in before.difference(&now) {
            remove(&mut self.runs, name, key);
        }
        for name in now.difference(&before) {
            self.runs.entry(name.clone()).or_default().insert(key.clone());
        }
        if is_known != runs.is_some() {
            moved.insert(&key.name);
        }
        if runs.is_none() {
            remove(&mut self.placements, &key.name, key);
        } else if !is_known {
            self.placements.entry(key.name.clone()).or_default().insert(key.clone());
        }
        let others = moved.into_iter().flat_map(|name| self.owners(name)).filter(|other| *other != key).cloned();
        let others = others.collect();
        if runs.is_some() {
            self.of.insert(key.clone(), now);
        }
        others
    }

    fn owners<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a PlacementKey> + use<'a> {
        let placements = self.placements.get(name).into_iter().flatten();
        placements.chain(self.runs.get(name).into_iter().flatten())
    }

    /// Tells whether a name that commands use for a placement or its unfinished runs may also mean another placement or its run. Such a
    /// placement is named by [`PlacementKey::qualified`].
    pub fn is_shared(&self, key: &PlacementKey, runs: &Runs) -> bool {
        if key.namespace.as_deref().is_some_and(is_kind_word) {
            return true;
        }
        let active = runs.values().filter(|run| !run.phase.is_final()).map(|run| run.name.as_str());
        let names = std::iter::once(key.name.as_str()).chain(active);
        let mut others = names.flat_map(|name| self.owners(name)).filter(|other| *other != key);
        // A bare name is looked for everywhere, one with a namespace in that alone.
        others.any(|other| key.namespace.is_none() || other.namespace == key.namespace)
    }

    /// Tells whether a run of another placement in the same scope has a name.
    pub fn has_run_beside(&self, key: &PlacementKey, name: &str) -> bool {
        let owners = self.runs.get(name).into_iter().flatten();
        owners.filter(|other| *other != key).any(|other| other.namespace == key.namespace)
    }
}

fn remove(names: &mut BTreeMap<String, BTreeSet<PlacementKey>>, name: &str, key: &PlacementKey) {
    let Some(owners) = names.get_mut(name) else { return };
    owners.remove(key);
    if owners.is_empty() {
        names.remove(name);
    }
}

#[cfg(test)]
mod tests;
