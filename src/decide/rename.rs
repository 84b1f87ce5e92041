//! A placement that git has under another name continues as it was: with its snapshots, bindings, runs, holds, pause and failures. Only its
//! inventories and the labels of its objects are new. Pure.
//!
//! Git does not say that a placement was renamed. One that is gone and a new one beside it with objects of it are the same, if neither
//! could as well be another: everything else changes hands object by object, see [`hand_over`](super::hand_over).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use model::id::{ClusterName, ObjectId, ObjectKey, PlacementKey};
use model::journal::JournalKind;
use model::overrides::{OverrideRef, PickedOverrides};
use model::records::{
    Binding, BindingState, HeldSnapshot, JournalEntry, PlacementRecord, PolicySnapshot, ResourceSnapshot,
    SucceededState,
};
use model::runs::{RunRecord, Runs};
use schedule::binding_name;
use serde_json::json;

use super::objects::{ids_of, stays};
use super::render::named;
use super::state::{FleetState, PlacementState};
use super::{Decision, decide, only_reports};

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
                let mut state = moved(&old, &new, &lost, now);
                rename_overrides(&mut state, fleet);
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
            let rest = left_behind(old, &to);
            renamed.0.insert(to, state);
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
    // First, because there is mostly none: the states before are copies.
    let removed = decided.iter().filter(|(_, decision)| decision.state.record.removed);
    let gone = removed.filter(|(key, _)| {
        let before = before(key);
        before.is_some_and(|state| !state.record.removed && !only_reports(&state.record))
    });
    let gone: Vec<(&PlacementKey, &PlacementState)> = gone.map(|(key, decision)| (key, &decision.state)).collect();
    if gone.is_empty() {
        return Vec::new();
    }
    let new = decided.iter().filter(|(key, decision)| {
        let record = &decision.state.record;
        let delivers = !record.removed && !only_reports(record) && decision.state.newest().is_some();
        delivers && before(key).is_some_and(|state| is_open(&state))
    });
    let new: Vec<(&PlacementKey, &PlacementState)> = new.map(|(key, decision)| (key, &decision.state)).collect();
    if new.is_empty() {
        return Vec::new();
    }
    let gone: Vec<(&PlacementKey, &PlacementState, BTreeSet<ObjectKey>)> =
        gone.into_iter().map(|(key, state)| (key, state, objects_of(state).collect())).collect();
    // Who takes each object: every placement is read once, however many are gone.
    let mut takers: BTreeMap<&ObjectKey, BTreeSet<&PlacementKey>> =
        gone.iter().flat_map(|(_, _, objects)| objects).map(|object| (object, BTreeSet::new())).collect();
    let known = all.iter().filter(|(key, _)| !decided.contains_key(key));
    let known = known.chain(decided.iter().map(|(key, decision)| (key, &decision.state)));
    for (key, state) in known.filter(|(_, state)| !state.record.removed) {
        for object in objects_of(state) {
            if let Some(takers) = takers.get_mut(&object) {
                takers.insert(key);
            }
        }
    }
    let mut found: Vec<(PlacementKey, PlacementKey)> = Vec::new();
    for (from, old, objects) in &gone {
        let takers: BTreeSet<&PlacementKey> = objects.iter().flat_map(|object| &takers[object]).copied().collect();
        let heirs = new.iter().filter(|(key, _)| takers.len() == 1 && takers.contains(key));
        let heirs = heirs.filter(|(to, heir)| {
            to.namespace == from.namespace && tenant(fleet, &old.record) == tenant(fleet, &heir.record)
        });
        found.extend(heirs.map(|(to, _)| ((*from).clone(), (*to).clone())));
    }
    // Two that became one are neither.
    let single = found.iter().filter(|(_, to)| found.iter().filter(|(_, other)| other == to).count() == 1);
    single.cloned().collect()
}

fn tenant<'a>(fleet: &'a FleetState, record: &PlacementRecord) -> Option<&'a str> {
    fleet.tenant_of(record).map(|tenant| tenant.name.as_str())
}

fn objects_of(state: &PlacementState) -> impl Iterator<Item = ObjectKey> {
    let newest = state.newest().map(|newest| newest.index);
    newest.into_iter().flat_map(|index| ids_of(state, index, None)).map(ObjectId::key)
}

/// Tells whether a placement has nothing of its own that another could not replace: it is new, it comes back to git while clusters still
/// hold what it had, or it never had any object, since all of them are another's.
fn is_open(state: &PlacementState) -> bool {
    if state.record.removed {
        return true;
    }
    let holds_nothing = state.works.values().all(|work| work.inventory.is_known_empty());
    holds_nothing && state.record.last_succeeded.is_none()
}

/// Returns the state of a placement under its new name, without the clusters that it loses with the rename. `new` is what the new name has
/// already: what clusters still hold from an earlier time, or a copy that never got anything.
fn moved(old: &PlacementState, new: &PlacementState, lost: &BTreeSet<ClusterName>, now: Timestamp) -> PlacementState {
    let key = &new.record.key;
    let by = offset(old, new);
    let mut state = PlacementState::new(renamed_record(old, new, by));
    for (index, policy) in &old.policies {
        state.policies.insert(*index, Arc::new(PolicySnapshot { placement: key.clone(), ..policy.as_ref().clone() }));
    }
    state.snapshots.clone_from(&new.snapshots);
    for (index, snapshot) in &old.snapshots {
        let copy = ResourceSnapshot { placement: key.clone(), index: index + by, ..snapshot.as_ref().clone() };
        state.snapshots.entry(index + by).or_insert_with(|| Arc::new(copy));
    }
    for (name, binding) in &new.bindings {
        let mut binding = binding.as_ref().clone();
        if !new.record.removed {
            // It never got anything.
            binding.state = BindingState::Scheduled;
            binding.snapshot = None;
            binding.started_at = None;
            binding.overrides = PickedOverrides::default();
            binding.generation += 1;
        }
        state.bindings.insert(name.clone(), Arc::new(binding));
    }
    for binding in old.bindings().filter(|b| stays(b) && !lost.contains(&b.cluster)) {
        let known = new.bindings().find(|known| known.cluster == binding.cluster);
        let name = known.map_or_else(|| binding_name(key, &binding.cluster, |_| false), |known| known.name.clone());
        let is_bound = binding.state == BindingState::Bound;
        let moved = Binding {
            name: name.clone(),
            placement: key.clone(),
            snapshot: binding.snapshot.map(|index| index + by),
            conditions: Vec::new(),
            generation: known.map_or(1, |known| known.generation + 1),
            // The deadline begins again: members get their objects under the new name.
            started_at: binding.started_at.map(|at| if is_bound { now } else { at }),
            ..binding.clone()
        };
        state.bindings.insert(name, Arc::new(moved));
    }
    for run in old.runs.values() {
        let mut run = RunRecord { placement: key.clone(), ..run.clone() };
        run.wanted_snapshot = run.wanted_snapshot.map(|index| index + by);
        if let Some(frozen) = &mut run.frozen {
            frozen.snapshot += by;
        }
        state.runs.insert(run);
    }
    state.works.clone_from(&new.works);
    // Both names may have a snapshot. A payload that was read for one of them is not requested again for the other.
    state.payloads.clone_from(&new.payloads);
    state.payloads.extend(old.payloads.iter().map(|(index, payload)| (index + by, Arc::clone(payload))));
    let unreadable = old.unreadable.iter().map(|index| index + by);
    state.unreadable = unreadable.filter(|index| !state.payloads.contains_key(index)).collect();
    state
}

/// An override that names the placement has another snapshot since the same commit. Where it does the same, clusters have it already: it
/// is not rolled out, and what failed with it has failed.
fn rename_overrides(state: &mut PlacementState, fleet: &FleetState) {
    let mut names: BTreeMap<OverrideRef, OverrideRef> = BTreeMap::new();
    for id in named([&*state]) {
        if let Some(name) = fleet.overrides.renamed(&id).cloned() {
            names.insert(id, name);
        }
    }
    if names.is_empty() {
        return;
    }
    let bindings = state.bindings.values_mut().map(|binding| &mut Arc::make_mut(binding).overrides);
    let stages = state.runs.some_mut(|_| true).flat_map(|run| &mut run.stages);
    let clusters = stages.flat_map(|stage| &mut stage.clusters).map(|cluster| &mut cluster.overrides);
    let returns_to = state.record.succeeded.iter_mut().chain(&mut state.record.back);
    let succeeded = returns_to.flat_map(|state| &mut state.overrides).map(|shared| &mut shared.picked);
    for picked in bindings.chain(clusters).chain(succeeded) {
        for id in picked.cluster.iter_mut().chain(&mut picked.namespaced) {
            if let Some(name) = names.get(&*id) {
                id.clone_from(name);
            }
        }
    }
}

/// Returns by how much the snapshots of a placement get higher indexes under its new name: no index means two contents.
fn offset(old: &PlacementState, new: &PlacementState) -> u64 {
    let are_same = old.snapshots.iter().all(|(index, snapshot)| {
        let known = new.snapshots.get(index);
        known.is_none_or(|known| known.hash == snapshot.hash)
    });
    if are_same { 0 } else { new.snapshots.keys().next_back().map_or(0, |last| last + 1) }
}

fn renamed_record(old: &PlacementState, new: &PlacementState, by: u64) -> PlacementRecord {
    let record = old.record.clone();
    PlacementRecord {
        key: new.record.key.clone(),
        generation: record.generation.max(new.record.generation),
        removed: false,
        conditions: Vec::new(),
        error: None,
        warnings: Vec::new(),
        deletion_gate: None,
        asked_before: asked_before(old, new),
        handing_over: BTreeSet::new(),
        evictions: new.record.evictions.clone(),
        paused: record.paused.or_else(|| new.record.paused.clone()),
        held: record.held.map(|held| HeldSnapshot { index: held.index + by, ..held }),
        goal: record.goal.map(|index| index + by),
        last_succeeded: record.last_succeeded.map(|index| index + by),
        last_automatic: record.last_automatic.map(|index| index + by),
        journaled: record.journaled.map(|(index, count)| (index + by, count)),
        succeeded: record.succeeded.into_iter().map(|state| renumbered(state, by)).collect(),
        back: record.back.map(|state| renumbered(state, by)),
        ..record
    }
}

fn renumbered(state: SucceededState, by: u64) -> SucceededState {
    SucceededState { snapshot: state.snapshot + by, ..state }
}

/// Returns the approvals that protect clusters beside the runs that move to the new name: those that the old name remembers, and those of
/// clusters that only the new name had runs for. If all of that went to the old name by an earlier rename, it knows that, and what was
/// agreed to since.
fn asked_before(old: &PlacementState, new: &PlacementState) -> BTreeMap<ClusterName, usize> {
    let mut asked = old.record.asked_before.clone();
    if new.record.renamed_to.as_ref() != Some(&old.record.key) {
        let known = old.protections();
        asked.extend(approvals(new).into_iter().filter(|(cluster, _)| !known.contains_key(cluster)));
    }
    asked
}

/// Returns how many approvals protect clusters, for a record that does not get the runs which asked them.
fn approvals(state: &PlacementState) -> BTreeMap<ClusterName, usize> {
    let asked = state.protections().into_iter().map(|(cluster, protection)| (cluster, protection.approvals));
    asked.filter(|(_, approvals)| *approvals > 0).collect()
}

/// Returns what is left of a placement under its old name: what members hold until they have it under the new one, and the approvals that
/// protected them. If the old name comes back before that, no object changes hands, and no other record has these approvals.
fn left_behind(mut old: PlacementState, to: &PlacementKey) -> PlacementState {
    old.record.asked_before = approvals(&old);
    old.record.renamed_to = Some(to.clone());
    old.runs = Runs::default();
    let record = &mut old.record;
    record.paused = None;
    record.held = None;
    record.goal = None;
    record.back = None;
    record.failed = None;
    record.halted = None;
    record.last_automatic = None;
    old
}

#[cfg(test)]
mod tests;
