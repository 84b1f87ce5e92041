//! What placements that are decided together have to know of each other: an object that one gives up and another claims changes owner
//! without a deletion and with the approvals that protected it, and a ResourcePlacement waits for its Namespace. Pure.
//!
//! A renamed placement is a removed one and a new one. Decided separately, the removed one would ask a person about deletions
//! that nobody executes, and keep the objects until then.

pub(super) mod contents;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use rayon::prelude::*;

use self::contents::{Contents, Selected};
use super::given_up::add;
use super::guard::is_part_of;
use super::inherit::Inheritance;
use super::objects::{ids_of, stays};
use super::rename::Renamed;
use super::state::{Claims, FleetState, Inhabited, Others, PlacementState};
use super::{Decision, decide, only_reports};
use crate::rollout::staged::waits_for_person;
use model::id::{ClusterName, ObjectKey, PlacementKey};
use model::journal::JournalKind;

/// Decides the placements that are `due`, on all cores. `all` are the known ones; `before` returns the state of one before its
/// decision, and a placement without such a state is not decided. The result also contains placements for which what other placements
/// have changed: claims on what they give up, the Namespace they wait for, approvals that go with an object that they get.
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
    // Also while the source is unread: claims are not stored, and without them a deletion that was decided before another placement was to
    // hold the object would continue after a start.
    let renamed = Renamed::find(all, &mut decided, &before, fleet, now);
    let before = |key: &PlacementKey| renamed.state(key).or_else(|| before(key));
    let mut again = concerned(all, &decided, before, fleet, now);
    decide_again(&again, &mut decided, before, fleet, now);
    let late = claimed_after_all(&decided, &mut again, fleet);
    again.retain(|key, _| late.contains(key));
    decide_again(&again, &mut decided, before, fleet, now);
    decided
}

/// Returns the placements for which what others have changed, each with what it has to know of them.
fn concerned(
    all: &BTreeMap<PlacementKey, PlacementState>,
    decided: &BTreeMap<PlacementKey, Decision>,
    before: impl Fn(&PlacementKey) -> Option<PlacementState>,
    fleet: &FleetState,
    now: Timestamp,
) -> BTreeMap<PlacementKey, Inputs> {
    let states: States<'_> = all.iter().chain(decided.iter().map(|(key, decision)| (key, &decision.state))).collect();
    let news: States<'_> = decided.iter().map(|(key, decision)| (key, &decision.state)).collect();
    let mut again: BTreeMap<PlacementKey, Inputs> = BTreeMap::new();
    let mut taken: BTreeMap<&PlacementKey, Claims> = BTreeMap::new();
    for (key, state) in &states {
        if !decided.contains_key(*key) && !may_change(key, state, &news, fleet) {
            continue;
        }
        let claims = claims(key, state, &states, fleet);
        // A copy of the whole state, so it is made once.
        let before = (!claims.is_empty()).then(|| before(key)).flatten();
        for claim in claims.iter().filter(|claim| claim.heir != *key && !claim.wanted.is_empty()) {
            let mut still_there = held_of(&claim.wanted, state);
            keep_wanted(state, fleet, &mut still_there);
            let of_heir = taken.entry(claim.heir).or_default();
            for cluster in claim.wanted.keys() {
                of_heir.entry(cluster.clone()).or_default().extend(still_there.remove(cluster).unwrap_or_default());
            }
            let clusters = claim.wanted.keys().collect();
            let heir = states[claim.heir];
            if let Some(inheritance) = Inheritance::of(key, state, before.as_ref(), heir, &clusters, fleet) {
                let heir = again.entry(claim.heir.clone()).or_insert_with(|| Inputs::of(states[claim.heir]));
                heir.inherited.push(((*key).clone(), inheritance));
            }
        }
        let (claimed, mut yielded, inhabited) = sums(&claims);
        keep_wanted(state, fleet, &mut yielded);
        let awaited = awaited(key, state, &states, fleet, now);
        let others = Others { claimed, yielded, inhabited, awaited, taking_over: state.others.taking_over.clone() };
        if others != state.others {
            again.entry((*key).clone()).or_insert_with(|| Inputs::of(state)).others = others;
        }
    }
    let had_some = states.iter().filter(|(_, state)| !state.others.taking_over.is_empty()).map(|(key, _)| *key);
    for key in taken.keys().copied().chain(had_some).collect::<BTreeSet<_>>() {
        let clusters = taken.remove(key).unwrap_or_default();
        if states[key].others.taking_over != clusters {
            again.entry(key.clone()).or_insert_with(|| Inputs::of(states[key])).others.taking_over = clusters;
        }
    }
    again
}

/// Tells whether decisions of others may change anything for a placement that was not decided. One that has nothing to delete and waits for
/// no other needs no second decision.
fn may_change(key: &PlacementKey, state: &PlacementState, news: &States<'_>, fleet: &FleetState) -> bool {
    !state.others.claimed.is_empty()
        || !state.others.awaited.is_empty()
        || !state.others.inhabited.is_empty()
        || state.record.closed_gate().is_some()
        // One that waits, as it is paused, may not be decided for long: it yields all the same when another is to have something of it.
        || !claims(key, state, news, fleet).is_empty()
}

/// Decides placements again, with what they have to know of others.
fn decide_again(
    again: &BTreeMap<PlacementKey, Inputs>,
    decided: &mut BTreeMap<PlacementKey, Decision>,
    before: impl Fn(&PlacementKey) -> Option<PlacementState>,
    fleet: &FleetState,
    now: Timestamp,
) {
    for (key, of_others) in again {
        // From the same initial state: applied to the first decision, every move would happen twice.
        if let Some(state) = before(key) {
            let mut decision = decide(of_others.clone().known_to(state), fleet, now);
            let said = decided.get(key).and_then(|first| first.journal.first().cloned());
            decision.journal.splice(0..0, said.filter(|entry| entry.event == JournalKind::Renamed));
            decided.insert(key.clone(), decision);
        }
    }
}

/// Adds what the placements that were decided again have after all: one that turned out to wait for others keeps what its first decision
/// let go, and what it keeps must not be deleted by another. Returns the placements that this concerns.
fn claimed_after_all(
    decided: &BTreeMap<PlacementKey, Decision>,
    again: &mut BTreeMap<PlacementKey, Inputs>,
    fleet: &FleetState,
) -> BTreeSet<PlacementKey> {
    let heirs = decided.iter().filter(|(key, _)| again.contains_key(*key));
    let heirs: States<'_> = heirs.map(|(key, decision)| (key, &decision.state)).collect();
    let mut late = BTreeSet::new();
    if heirs.is_empty() {
        return late;
    }
    for (key, Decision { state, .. }) in decided {
        let (claimed, _, inhabited) = sums(&claims(key, state, &heirs, fleet));
        if is_part_of(&claimed, &state.others.claimed) {
            continue;
        }
        let of = again.entry(key.clone()).or_insert_with(|| Inputs::of(state));
        add(&mut of.others.claimed, &claimed);
        for (container, by) in inhabited {
            of.others.inhabited.entry(container).or_default().extend(by);
        }
        late.insert(key.clone());
    }
    late
}

/// Adds up claims: all claimed objects, those that the heirs get now, and the Namespaces and definitions that stay because other placements have objects there.
fn sums(claims: &[HeirClaim<'_>]) -> (Claims, Claims, Inhabited) {
    let mut claimed = Claims::new();
    let mut yielded = Claims::new();
    let mut inhabited = Inhabited::new();
    for claim in claims {
        add(&mut claimed, &claim.wanted);
        add(&mut claimed, &claim.inhabited);
        for key in claim.inhabited.values().flatten().chain(&claim.left_in) {
            inhabited.entry(key.clone()).or_default().insert(claim.heir.clone());
        }
        add(&mut yielded, &claim.due);
    }
    // One that changes hands stays for that reason.
    let handed: BTreeSet<&ObjectKey> = claims.iter().flat_map(|claim| claim.wanted.values()).flatten().collect();
    inhabited.retain(|key, _| !handed.contains(key));
    (claimed, yielded, inhabited)
}

type States<'a> = BTreeMap<&'a PlacementKey, &'a PlacementState>;

/// The inputs of a second decision: what the placement has to know of others.
#[derive(Clone)]
struct Inputs {
    others: Others,
    /// What goes with objects of other placements, which this one gets.
    inherited: Vec<(PlacementKey, Inheritance)>,
}

impl Inputs {
    fn of(state: &PlacementState) -> Self {
        Self { others: state.others.clone(), inherited: Vec::new() }
    }

    fn known_to(self, mut state: PlacementState) -> PlacementState {
        for (from, inheritance) in self.inherited {
            inheritance.take(from, &mut state);
        }
        PlacementState { others: self.others, ..state }
    }
}

/// Returns the clusters that another placement brings the Namespace of a ResourcePlacement to, and that answer and do not have it yet, each
/// with whether it comes without a person. Looked for while a run is to start: its stages are to have all clusters.
fn awaited(
    key: &PlacementKey,
    state: &PlacementState,
    states: &States<'_>,
    fleet: &FleetState,
    now: Timestamp,
) -> BTreeMap<ClusterName, bool> {
    let nothing = BTreeMap::new();
    let Some(namespace) = key.namespace.as_deref() else { return nothing };
    if state.record.removed {
        return nothing;
    }
    let is_any_starting = state.runs.values().any(|run| match &run.frozen {
        None => !run.phase.is_final(),
        Some(frozen) => frozen.at == now,
    });
    if !is_any_starting {
        return nothing;
    }
    let others = states.iter().filter(|(other, state)| **other != key && !state.record.removed).map(|(_, state)| state);
    let writing = others.filter(|state| !only_reports(&state.record));
    let bringing = writing.filter(|state| brings_namespace(state, namespace));
    let mut found = nothing;
    for state in bringing {
        let stands = state.record.paused.is_some()
            || state.record.halted.is_some()
            || state
                .runs
                .values()
                .any(|run| run.stages.iter().any(|stage| !run.phase.is_final() && waits_for_person(stage)));
        for binding in state.bindings().filter(|b| stays(b) && lacks_namespace(&b.cluster, namespace, fleet)) {
            // Where it is assigned it comes, whatever is held up for other clusters.
            let comes = binding.snapshot.is_some() || !stands;
            *found.entry(binding.cluster.clone()).or_default() |= comes;
        }
    }
    found
}

/// Tells whether a placement has a Namespace in its newest snapshot or in one that a cluster is assigned.
fn brings_namespace(state: &PlacementState, namespace: &str) -> bool {
    let assigned = state.bindings().filter_map(|b| b.snapshot);
    let snapshots: BTreeSet<u64> = assigned.chain(state.newest().map(|newest| newest.index)).collect();
    let mut ids = snapshots.into_iter().flat_map(|index| ids_of(state, index, None));
    ids.any(|id| id.kind == "Namespace" && id.group.is_empty() && id.name == *namespace)
}

/// Tells whether a cluster answers and is known not to have a Namespace.
fn lacks_namespace(cluster: &ClusterName, namespace: &str, fleet: &FleetState) -> bool {
    let namespaces = fleet.clusters.get(cluster.as_str()).and_then(|of| of.namespaces.as_ref());
    namespaces.is_some_and(|names| !names.contains(namespace)) && fleet.is_online(cluster)
}

/// Removes from the objects that a placement yields those that it is to have itself. Otherwise two placements could yield the same object
/// to each other, and neither would apply it.
fn keep_wanted(state: &PlacementState, fleet: &FleetState, yielded: &mut Claims) {
    if yielded.is_empty() {
        return;
    }
    let mut contents = Contents::of(state, fleet);
    for binding in state.bindings().filter(|b| stays(b)) {
        let Some(keys) = yielded.get_mut(&binding.cluster) else { continue };
        if let Some(selected) = contents.newest_on(binding).or_else(|| contents.held_on(binding)) {
            keys.retain(|key| !selected.has(key));
        }
    }
    yielded.retain(|_, keys| !keys.is_empty());
}

/// Returns those of some objects that carried a placement's label when their clusters reported last.
fn held_of(objects: &Claims, state: &PlacementState) -> Claims {
    let held = objects.iter().filter_map(|(cluster, keys)| {
        let held = keys & state.works.get(cluster)?.inventory.seen();
        (!held.is_empty()).then(|| (cluster.clone(), held))
    });
    held.collect()
}

/// What another placement is to have of the objects that one gives up.
struct HeirClaim<'a> {
    heir: &'a PlacementKey,
    /// What it is to have sooner or later.
    wanted: Claims,
    /// What its orders contain now: its turn has come.
    due: Claims,
    /// Namespaces that its objects are in, and definitions of their kinds. They are not deleted while it has these objects.
    inhabited: Claims,
    /// The same on clusters that it leaves. They stay in the deletion that was decided, and the member deletes them last.
    left_in: BTreeSet<ObjectKey>,
}

/// Returns which of the objects that a placement gives up others will hold on the same clusters: placements that are bound there and write,
/// unless an override removes the object from the cluster. The placement itself counts where it is picked again beside a binding that
/// leaves. A Namespace or a definition is kept as long as another placement is to have objects in it.
fn claims<'a>(
    key: &PlacementKey,
    giver: &PlacementState,
    states: &States<'a>,
    fleet: &FleetState,
) -> Vec<HeirClaim<'a>> {
    let mut claims = Vec::new();
    let given_up = &*giver.given_up;
    if given_up.is_empty() {
        return claims;
    }
    let staying: BTreeSet<&ClusterName> = giver.bindings().filter(|b| stays(b)).map(|b| &b.cluster).collect();
    for (heir, state) in states.iter().filter(|(_, state)| !only_reports(&state.record)) {
        let left_in = if *heir == key { BTreeSet::new() } else { left_in(state, given_up) };
        let mut claim =
            HeirClaim { heir, wanted: Claims::new(), due: Claims::new(), inhabited: Claims::new(), left_in };
        let leaving: BTreeSet<&ClusterName> =
            state.bindings().filter(|b| !stays(b)).map(|binding| &binding.cluster).collect();
        let mut contents = Contents::of(state, fleet);
        for binding in state.bindings().filter(|b| stays(b) && !state.record.removed) {
            let Some(keys) = given_up.get(&binding.cluster) else { continue };
            let is_own = *heir == key;
            if is_own && !leaving.contains(&binding.cluster) {
                continue;
            }
            // An eviction removes what is there, although the cluster is picked again.
            let mut evictions = state.record.evictions.values();
            let is_evicted = is_own && evictions.any(|eviction| eviction.cluster == binding.cluster);
            let newest = contents.newest_on(binding);
            let held = contents.held_on(binding);
            for (selected, is_due) in newest.iter().map(|it| (it, false)).chain(held.iter().map(|it| (it, true))) {
                let is_wanted = |object: &&ObjectKey| {
                    selected.has(object)
                        && (!is_evicted || takes_over_in(selected, object, key, &binding.cluster, states))
                };
                extend(&mut claim.wanted, &binding.cluster, keys.iter().filter(is_wanted));
                if !is_own {
                    extend(&mut claim.inhabited, &binding.cluster, keys.iter().filter(|key| selected.inhabits(key)));
                }
                if is_due && !is_own {
                    let cluster = &binding.cluster;
                    // Of two that wait to lose an object one has it until then: neither would, if each left it to the other.
                    let due = keys.iter().filter(is_wanted).filter(|object| {
                        let is_lost = contents.comes && newest.as_ref().is_some_and(|newest| !newest.has(object));
                        let both_wait = is_lost && staying.contains(cluster);
                        !both_wait || rank(key, giver, cluster, object) >= rank(heir, state, cluster, object)
                    });
                    extend(&mut claim.due, cluster, due);
                }
            }
        }
        if !claim.wanted.is_empty() || !claim.inhabited.is_empty() || !claim.left_in.is_empty() {
            claims.push(claim);
        }
    }
    claims
}

/// Orders the placements that wait to lose an object of a cluster: the lowest has it until then.
fn rank<'a>(
    key: &'a PlacementKey,
    state: &PlacementState,
    cluster: &ClusterName,
    object: &ObjectKey,
) -> (bool, &'a PlacementKey) {
    let held = state.works.get(cluster).map(|work| work.inventory.seen());
    (!held.is_some_and(|held| held.contains(object)), key)
}

/// Tells whether what a placement is to have on a cluster is there already, of another placement and in this Namespace or of this definition.
/// A deletion would wait until that is taken over, and that for the end of the deletion.
fn takes_over_in(
    selected: &Selected<'_>,
    container: &ObjectKey,
    of: &PlacementKey,
    cluster: &ClusterName,
    states: &States<'_>,
) -> bool {
    let mut others = states.iter().filter(|(other, _)| **other != of).map(|(_, state)| state);
    container.is_container()
        && others.any(|other| {
            let held = other.works.get(cluster).map(|work| work.inventory.seen());
            let claimed = other.others.claimed.get(cluster);
            let mut objects = held.into_iter().chain(claimed).flatten();
            objects.any(|object| object.is_inside(container) && selected.has(object))
        })
}

/// Returns the Namespaces and definitions among these objects in which a placement has objects on clusters that it leaves, as far as that is
/// known.
fn left_in(state: &PlacementState, given_up: &Claims) -> BTreeSet<ObjectKey> {
    let mut found = BTreeSet::new();
    for binding in state.bindings().filter(|b| !stays(b)) {
        let keys = given_up.get(&binding.cluster).into_iter().flatten().filter(|key| key.is_container());
        let held = state.works.get(&binding.cluster).map(|work| work.inventory.seen());
        let inhabited = keys.filter(|key| held.into_iter().flatten().any(|object| object.is_inside(key)));
        found.extend(inhabited.cloned());
    }
    found
}

fn extend<'a>(claims: &mut Claims, cluster: &ClusterName, keys: impl Iterator<Item = &'a ObjectKey>) {
    let mut keys = keys.peekable();
    if keys.peek().is_some() {
        claims.entry(cluster.clone()).or_default().extend(keys.cloned());
    }
}

impl PlacementState {
    /// Returns the part of an inventory that a placement may delete: another placement holds the rest from now on.
    pub fn unclaimed<'a>(
        &'a self,
        cluster: &'a ClusterName,
        inventory: impl IntoIterator<Item = &'a ObjectKey> + 'a,
    ) -> impl Iterator<Item = &'a ObjectKey> + 'a {
        let claimed = self.others.claimed.get(cluster);
        inventory.into_iter().filter(move |key| !claimed.is_some_and(|claimed| claimed.contains(*key)))
    }
}

#[cfg(test)]
mod tests;
