//! The runs of one placement.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::RunRecord;

/// Runs by name. Copies share unchanged runs: finished ones are kept, and a decision changes at most one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runs(BTreeMap<String, Arc<RunRecord>>);

impl Runs {
    /// Creates an empty map.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Returns a run.
    pub fn get(&self, name: &str) -> Option<&RunRecord> {
        self.0.get(name).map(AsRef::as_ref)
    }

    /// Returns a run for changes.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut RunRecord> {
        self.0.get_mut(name).map(Arc::make_mut)
    }

    /// Tells whether there is a run.
    pub fn contains_key(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns the runs in order of their names.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &RunRecord> {
        self.0.values().map(AsRef::as_ref)
    }

    /// Returns the matching runs for changes.
    pub fn some_mut(&mut self, is_wanted: impl Fn(&RunRecord) -> bool) -> impl Iterator<Item = &mut RunRecord> {
        // Filtered first: `make_mut` copies a shared record.
        self.0.values_mut().filter(move |run| is_wanted(run)).map(Arc::make_mut)
    }

    /// Inserts a run, replacing one with the same name.
    pub fn insert(&mut self, run: RunRecord) {
        self.0.insert(run.name.clone(), Arc::new(run));
    }

    /// Removes a run and returns it.
    pub fn remove(&mut self, name: &str) -> Option<Arc<RunRecord>> {
        self.0.remove(name)
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the shared records, by name.
    pub fn records(&self) -> &BTreeMap<String, Arc<RunRecord>> {
        &self.0
    }
}

impl FromIterator<RunRecord> for Runs {
    fn from_iter<T: IntoIterator<Item = RunRecord>>(runs: T) -> Self {
        Self(runs.into_iter().map(|run| (run.name.clone(), Arc::new(run))).collect())
    }
}
