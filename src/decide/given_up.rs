//! The objects that a placement gives up: other placements may have them.

use std::collections::BTreeSet;

use super::hand_over::contents::Contents;
use super::objects::{ids_of, stays};
use super::state::{Claims, FleetState, PlacementState};
use model::id::{ObjectId, ObjectKey};
use model::records::Binding;

/// Returns the objects that a placement gives up, or would after an approval, as far as they are known: objects observed on
/// members that it leaves, or that an upcoming snapshot lacks, objects whose removal was decided although they cannot be listed
/// now, and those that its orders would ask for again although other placements may have them.
pub(super) fn given_up(state: &PlacementState, lost: &Claims, fleet: &FleetState) -> Claims {
    // Objects claimed before count as well: they exist until the other placement takes them.
    let mut given_up = state.others.claimed.clone();
    add(&mut given_up, &outdated(state, fleet));
    let leaving: Vec<&Binding> = state.bindings().filter(|b| !stays(b)).collect();
    let decided = leaving.iter().map(|b| (&b.cluster, &b.removes));
    let held = leaving.iter().filter_map(|b| Some((&b.cluster, state.works.get(&b.cluster)?.inventory.seen())));
    let gate = state.record.closed_gate().into_iter().flat_map(|gate| &gate.deletions);
    for (cluster, keys) in held.chain(decided).chain(gate).chain(lost).filter(|(_, keys)| !keys.is_empty()) {
        given_up.entry(cluster.clone()).or_default().extend(keys.iter().cloned());
    }
    given_up
}

/// Returns what clusters have by their snapshot and are not to keep: everything where the placement leaves, and what the newest snapshot
/// lacks where they wait for their turn. What another placement took over is in no inventory of this one any more, and claims are not stored:
/// after a start nothing else tells that an order must not ask for it again.
fn outdated(state: &PlacementState, fleet: &FleetState) -> Claims {
    let mut outdated = Claims::new();
    let mut contents = Contents::of(state, fleet);
    for binding in state.bindings().filter(|b| !b.deleting) {
        let keys: BTreeSet<ObjectKey> = match binding.snapshot {
            Some(index) if !stays(binding) => {
                ids_of(state, index, binding.overrides.variant.as_ref()).map(ObjectId::key).collect()
            }
            _ => contents.lost_on(binding),
        };
        if !keys.is_empty() {
            outdated.entry(binding.cluster.clone()).or_default().extend(keys);
        }
    }
    outdated
}

/// Adds claims to others.
pub(super) fn add(to: &mut Claims, more: &Claims) {
    for (cluster, keys) in more {
        to.entry(cluster.clone()).or_default().extend(keys.iter().cloned());
    }
}
