//! The placement under decision: the steps read and change it one after the other.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::state::{Claims, FleetState, PlacementState};
use crate::snapshot::Candidates;
use model::id::ClusterName;
use model::journal::JournalKind;
use model::records::JournalEntry;

/// The placement under decision, and the inputs of the decision.
pub struct Pass<'a> {
    /// The placement as it stands so far.
    pub state: PlacementState,
    /// The fleet as it stands.
    pub fleet: &'a FleetState,
    /// The instant of the decision.
    pub(super) now: Timestamp,
    /// The overrides that concern the payload of a snapshot, by its index.
    pub(super) candidates: BTreeMap<u64, Candidates>,
    /// Bindings that were assigned a snapshot.
    pub(super) moved: BTreeSet<String>,
    /// Objects that clusters which stay lose on the way to an upcoming snapshot.
    pub(super) lost: Claims,
    /// What happened so far, for the journal.
    pub journal: Vec<JournalEntry>,
}

impl<'a> Pass<'a> {
    /// Begins with a state.
    pub fn new(state: PlacementState, fleet: &'a FleetState, now: Timestamp) -> Self {
        let candidates = BTreeMap::new();
        let moved = BTreeSet::new();
        let lost = Claims::new();
        let mut pass = Self { state, fleet, now, candidates, moved, lost, journal: Vec::new() };
        pass.find_candidates();
        pass
    }

    /// Adds to the journal.
    pub fn note(&mut self, event: JournalKind, cluster: Option<&ClusterName>, facts: serde_json::Value) {
        debug_assert!(event.documents(&facts), "{event} has a fact that src/model/journal.rs does not list: {facts}");
        self.journal.push(JournalEntry {
            at: self.now,
            event,
            placement: Some(self.state.record.key.clone()),
            cluster: cluster.cloned(),
            facts,
        });
    }
}
