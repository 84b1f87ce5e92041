//! Hand-over between placements that are decided together: an object that one gives up and another claims changes owner without
//! a deletion. Pure.
//!
//! A renamed placement is a removed one and a new one. Decided separately, the removed one would ask a person about deletions
//! that nobody executes, and keep the objects until then.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use rayon::prelude::*;

use super::render::candidates;
use super::state::{Claims, FleetState, PlacementState};
use super::variants::pick;
use super::{Decision, decide, only_reports};
use crate::snapshot::left_out;
use model::id::{ClusterName, ObjectId, ObjectKey, PlacementKey};
use model::records::BindingState;
use model::variants::ClusterInputs;

/// Decides the placements that are `due`, on all cores. `all` are the known ones; `before` returns the state of one before its
/// decision, and a placement without such a state is not decided. The result also contains placements that give up something
/// whose claim by another placement began or ended.
pub fn decide_each(
    due: &BTreeSet<PlacementKey>,
    all: &BTreeMap<PlacementKey, PlacementState>,
    before: impl Fn(&PlacementKey) -> Option<PlacementState> + Sync,
    fleet: &FleetState,
    now: Timestamp,
) -> BTreeMap<PlacementKey, Decision> {
    let one = |key: &PlacementKey| Some((key.clone(), decide(before(key)?, fleet, now)));
    // Passing one decision to another thread costs more than the decision itself.
    let mut decided: BTreeMap<PlacementKey, Decision> =
        if due.len() == 1 { due.iter().filter_map(one).collect() } else { due.par_iter().filter_map(one).collect() };
    if fleet.source_unread {
        return decided;
    }
    let states: BTreeMap<&PlacementKey, &PlacementState> =
        all.iter().chain(decided.iter().map(|(key, decision)| (key, &decision.state))).collect();
    // A placement that has nothing to delete needs no second decision.
    let may_change = |key: &PlacementKey, state: &PlacementState| {
        decided.contains_key(key) || !state.claimed.is_empty() || state.record.closed_gate().is_some()
    };
    let mut again = Vec::new();
    for (key, state) in states.iter().filter(|(key, state)| may_change(key, state)) {
        let given_up = given_up(state);
        let claims = if given_up.is_empty() { Claims::new() } else { claims(key, &given_up, &states, fleet) };
        if claims != state.claimed {
            again.push(((*key).clone(), claims));
        }
    }
    for (key, claimed) in again {
        // From the same initial state: applied to the first decision, every move would happen twice.
        if let Some(state) = before(&key) {
            decided.insert(key, decide(PlacementState { claimed, ..state }, fleet, now));
        }
    }
    decided
}

/// Returns the objects that a placement gives up, or would after an approval, as far as they are known: objects observed on
/// members, and objects whose removal was decided although they cannot be listed now.
fn given_up(state: &PlacementState) -> Claims {
    // Objects claimed before count as well: they exist until the other placement takes them.
    let mut given_up = state.claimed.clone();
    let leaving = || state.bindings().filter(|b| b.deleting || b.state == BindingState::Unscheduled);
    let held = leaving().filter_map(|b| Some((&b.cluster, state.works.get(&b.cluster)?.inventory.known()?)));
    let decided = leaving().map(|b| (&b.cluster, &b.removes));
    let gate = state.record.closed_gate().into_iter().flat_map(|gate| &gate.deletions);
    for (cluster, keys) in held.chain(decided).chain(gate).filter(|(_, keys)| !keys.is_empty()) {
        given_up.entry(cluster.clone()).or_default().extend(keys.iter().cloned());
    }
    given_up
}

/// Returns which of these objects other placements will hold on the same clusters: placements that are bound there and write,
/// unless an override removes the object from the cluster.
fn claims(
    key: &PlacementKey,
    given_up: &Claims,
    states: &BTreeMap<&PlacementKey, &PlacementState>,
    fleet: &FleetState,
) -> Claims {
    let mut claims = Claims::new();
    let others = states.iter().filter(|(other, state)| **other != key && !state.record.removed);
    for (_, state) in others.filter(|(_, state)| !only_reports(&state.record)) {
        let newest = state.newest().map(|newest| newest.index);
        let payload = newest.and_then(|index| state.payloads.get(&index)).filter(|_| !fleet.overrides.is_empty());
        let candidates = payload.map(|payload| candidates(fleet, &state.record, payload));
        let mut objects: BTreeMap<(u64, Option<ClusterInputs>), BTreeSet<ObjectKey>> = BTreeMap::new();
        for binding in state.bindings().filter(|b| !b.deleting && b.state != BindingState::Unscheduled) {
            let Some(keys) = given_up.get(&binding.cluster) else { continue };
            // Without the newest snapshot's payload its overrides are unknown: the present content of the cluster counts.
            let is_known = candidates.is_some() || fleet.overrides.is_empty();
            let now = |index: u64| {
                let known = state.snapshots.get(&index).filter(|_| is_known);
                let now = known.map(|of| pick(fleet, of, candidates.as_ref(), &binding.cluster));
                now.unwrap_or_else(|| binding.overrides.clone())
            };
            let held = binding.snapshot.map(|index| (index, binding.overrides.clone()));
            let newest = newest.filter(|_| !state.record.ignores(binding));
            let newest = newest.map(|index| (index, now(index)));
            for (index, picked) in newest.into_iter().chain(held) {
                let inputs = picked.variant.as_ref();
                let wanted =
                    objects.entry((index, picked.variant.clone())).or_insert_with(|| keys_of(state, index, inputs));
                let left_out = left_out(ids_of(state, index, inputs), &picked, |id| fleet.overrides.get(id));
                let is_wanted = |key: &&ObjectKey| wanted.contains(*key) && !left_out.contains(*key);
                let claimed: Vec<&ObjectKey> = keys.iter().filter(is_wanted).collect();
                if !claimed.is_empty() {
                    let of_cluster: &mut BTreeSet<ObjectKey> = claims.entry(binding.cluster.clone()).or_default();
                    of_cluster.extend(claimed.into_iter().cloned());
                }
            }
        }
    }
    claims
}

fn keys_of(state: &PlacementState, snapshot: u64, inputs: Option<&ClusterInputs>) -> BTreeSet<ObjectKey> {
    ids_of(state, snapshot, inputs).map(ObjectId::key).collect()
}

/// Returns what a cluster with these inputs has of a snapshot, before overrides.
fn ids_of<'a>(
    state: &'a PlacementState,
    snapshot: u64,
    inputs: Option<&ClusterInputs>,
) -> impl Iterator<Item = &'a ObjectId> {
    let snapshot = state.snapshots.get(&snapshot);
    let variant = snapshot.and_then(|of| of.variants.as_ref()?.of(inputs?));
    let resources = snapshot.map(|of| of.resources.as_slice()).unwrap_or_default();
    let plain = variant.is_none().then_some(resources).into_iter().flatten();
    plain.chain(variant.into_iter().flat_map(|variant| variant.resources(resources))).map(|resource| &resource.id)
}

impl PlacementState {
    /// Returns the part of an inventory that a placement may delete: another placement holds the rest from now on.
    pub fn unclaimed<'a>(
        &'a self,
        cluster: &'a ClusterName,
        inventory: impl IntoIterator<Item = &'a ObjectKey> + 'a,
    ) -> impl Iterator<Item = &'a ObjectKey> + 'a {
        let claimed = self.claimed.get(cluster);
        inventory.into_iter().filter(move |key| !claimed.is_some_and(|claimed| claimed.contains(*key)))
    }
}

#[cfg(test)]
mod tests;
