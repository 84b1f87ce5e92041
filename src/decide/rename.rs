//! A placement that git has under another name goes on as it was: with its snapshots, bindings, runs, holds, pause and failures. Only its
//! inventories and the labels of its objects are new. Pure.
//!
//! Git does not say that a placement was renamed. One that is gone and a new one beside it with objects of it are the same, if neither
//! could as well be another: everything else changes hands object by object, see [`hand_over`](super::hand_over).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use model::id::{ClusterName, ObjectKey, PlacementKey};
use model::records::{Binding, BindingState, PlacementRecord};
use model::runs::{RunCause, Runs};
use schedule::binding_name;
use serde_json::json;

use super::hand_over::{ids_of, stays};
use super::state::{FleetState, PlacementState};
use super::{Decision, decide, only_reports};
use model::journal::JournalKind;
use model::records::JournalEntry;

/// The states from which renamed placements are decided: under the new name with everything, under the old one with what members still
/// hold.
#[derive(Default)]
pub(super) struct Renamed(BTreeMap<PlacementKey, PlacementState>);

impl Renamed {
    /// Returns the state of a placement before its decision, where a rename changes it.
    pub(super) fn state(&self, key: &PlacementKey) -> Option<PlacementState> {
        self.0.get(key).cloned()
    }

    /// Finds the renamed placements among those that are decided for the first time, and decides them again.
    pub(super) fn find(
        all: &BTreeMap<PlacementKey, PlacementState>,
        decided: &mut BTreeMap<PlacementKey, Decision>,
        before: impl Fn(&PlacementKey) -> Option<PlacementState>,
        fleet: &FleetState,
        now: Timestamp,
    ) -> Self {
        let mut renamed = Self::default();
        for (from, to) in pairs(all, decided, &before, fleet) {
            let (Some(old), Some(new)) = (before(&from), before(&to)) else { continue };
            let mut lost = BTreeSet::new();
            // What the new policy does not pick stays with the old name, which removes it: one name for each cluster.
            let (state, mut decision) = loop {
                let state = moved(&old, &new, &lost, now);
                let decision = decide(state.clone(), fleet, now);
                let left = decision.state.bindings().filter(|b| !stays(b)).map(|b| b.cluster.clone());
                let left: BTreeSet<ClusterName> = left.chain(lost.iter().cloned()).collect();
                if left == lost {
                    break (state, decision);
                }
                lost = left;
            };
            let facts = json!({"from": from.to_string()});
            let entry = JournalEntry {
                at: now,
                event: JournalKind::Renamed,
                placement: Some(to.clone()),
                cluster: None,
                facts,
            };
            decision.journal.insert(0, entry);
            decided.insert(to.clone(), decision);
            renamed.0.insert(to, state);
            let rest = left_behind(old);
            decided.insert(from.clone(), decide(rest.clone(), fleet, now));
            renamed.0.insert(from, rest);
        }
        renamed
    }
}

/// Returns the placements that were renamed, each with its new name.
fn pairs(
    all: &BTreeMap<PlacementKey, PlacementState>,
    decided: &BTreeMap<PlacementKey, Decision>,
    before: impl Fn(&PlacementKey) -> Option<PlacementState>,
    fleet: &FleetState,
) -> Vec<(PlacementKey, PlacementKey)> {
    let is_new = |key: &PlacementKey| {
        before(key)
            .is_some_and(|it| it.snapshots.is_empty() && it.bindings.is_empty() && it.runs.values().next().is_none())
    };
    let new = decided.iter().filter(|(key, decision)| {
        let record = &decision.state.record;
        !record.removed && !only_reports(record) && decision.state.newest().is_some() && is_new(key)
    });
    let new: Vec<(&PlacementKey, &PlacementState)> = new.map(|(key, decision)| (key, &decision.state)).collect();
    if new.is_empty() {
        return Vec::new();
    }
    let is_gone = |key: &PlacementKey| before(key).is_some_and(|it| !it.record.removed && !only_reports(&it.record));
    let gone = decided.iter().filter(|(key, decision)| decision.state.record.removed && is_gone(key));
    let gone: Vec<(&PlacementKey, &PlacementState)> = gone.map(|(key, decision)| (key, &decision.state)).collect();
    let known = all.iter().filter(|(key, _)| !decided.contains_key(key));
    let known = known.chain(decided.iter().map(|(key, decision)| (key, &decision.state)));
    let present: Vec<(&PlacementKey, &PlacementState)> = known.filter(|(_, state)| !state.record.removed).collect();
    let mut found: Vec<(PlacementKey, PlacementKey)> = Vec::new();
    for (from, old) in gone {
        let objects = objects_of(old);
        let mut takers = present.iter().filter(|(_, state)| objects_of(state).intersection(&objects).next().is_some());
        let (Some((to, heir)), None) = (takers.next(), takers.next()) else { continue };
        let may_be = new.iter().any(|(key, _)| key == to) && to.namespace == from.namespace;
        if may_be && tenant(fleet, &old.record) == tenant(fleet, &heir.record) {
            found.push((from.clone(), (*to).clone()));
        }
    }
    let times = |to: &PlacementKey| found.iter().filter(|(_, other)| other == to).count();
    // Two that became one are neither.
    found.iter().filter(|(_, to)| times(to) == 1).cloned().collect()
}

fn tenant<'a>(fleet: &'a FleetState, record: &PlacementRecord) -> Option<&'a str> {
    fleet.tenant_of(record).map(|tenant| tenant.name.as_str())
}

fn objects_of(state: &PlacementState) -> BTreeSet<ObjectKey> {
    let newest = state.newest().map(|newest| newest.index);
    newest.into_iter().flat_map(|index| ids_of(state, index, None)).map(|id| id.key()).collect()
}

/// Returns the state of a placement under its new name, without the clusters that it loses with the rename.
fn moved(old: &PlacementState, new: &PlacementState, lost: &BTreeSet<ClusterName>, now: Timestamp) -> PlacementState {
    let key = &new.record.key;
    let record = PlacementRecord {
        key: key.clone(),
        removed: false,
        conditions: Vec::new(),
        error: None,
        warnings: Vec::new(),
        deletion_gate: None,
        handing_over: BTreeSet::new(),
        heirs: BTreeSet::new(),
        evictions: BTreeMap::new(),
        ..old.record.clone()
    };
    let mut state = PlacementState::new(record);
    for (index, policy) in &old.policies {
        let mut policy = policy.as_ref().clone();
        policy.placement = key.clone();
        state.policies.insert(*index, Arc::new(policy));
    }
    for (index, snapshot) in &old.snapshots {
        let mut snapshot = snapshot.as_ref().clone();
        snapshot.placement = key.clone();
        state.snapshots.insert(*index, Arc::new(snapshot));
    }
    for binding in old.bindings().filter(|b| stays(b) && !lost.contains(&b.cluster)) {
        let name = binding_name(key, &binding.cluster, |_| false);
        let is_bound = binding.state == BindingState::Bound;
        let moved = Binding {
            name: name.clone(),
            placement: key.clone(),
            conditions: Vec::new(),
            generation: 1,
            // The deadline begins again: members get their objects under the new name.
            started_at: binding.started_at.map(|at| if is_bound { now } else { at }),
            ..binding.clone()
        };
        state.bindings.insert(name, Arc::new(moved));
    }
    let runs = old.runs.values().filter(|run| !matches!(run.cause, RunCause::Written { .. }));
    for run in runs {
        let mut run = run.clone();
        run.placement = key.clone();
        state.runs.insert(run);
    }
    state.payloads.clone_from(&old.payloads);
    state.unreadable.clone_from(&old.unreadable);
    state
}

/// Returns what is left of a placement under its old name: what members hold until they have it under the new one.
fn left_behind(mut old: PlacementState) -> PlacementState {
    old.runs = Runs::default();
    let record = &mut old.record;
    (record.paused, record.held, record.goal, record.back, record.failed) = (None, None, None, None, None);
    record.halted = None;
    old
}
