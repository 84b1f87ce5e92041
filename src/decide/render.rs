//! Renders clusters' objects with overrides: pure.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::overrides::Objects;
use super::state::{FleetState, Payload, PlacementState, desired};
use crate::snapshot::{Candidates, works_for_cluster};
use model::id::ClusterName;
use model::overrides::{OverrideRef, PickedOverrides};
use model::records::PlacementRecord;
use model::records::SucceededState;

/// Returns the overrides of the accepted commit that concern a placement's payload.
pub fn candidates(fleet: &FleetState, placement: &PlacementRecord, payload: &Payload) -> Candidates {
    fleet.overrides.candidates(&placement.key, &placement.annotations, payload)
}

/// Renders a cluster's objects from a payload and its picked overrides. Unchanged objects are shared with the payload.
///
/// # Errors
/// Which override failed on which object, or that the payload has nothing for such a cluster, as text for users.
pub fn render(fleet: &FleetState, payload: &Payload, cluster: &ClusterName, picked: &PickedOverrides) -> Objects {
    let payload = payload.variant(picked.variant.as_ref())?;
    let works = works_for_cluster(&payload.manifests, cluster, picked, |id| fleet.overrides.get(id))?;
    let Cow::Owned(works) = works else { return Ok(Arc::clone(&payload.desired)) };
    // Overrides drop and change objects and never reorder them, so one pass over both lists is enough.
    let mut plain = payload.desired.iter();
    let made = works.iter().map(|manifest| {
        let same = plain.find(|desired| desired.id == manifest.id);
        let same = same.filter(|desired| Arc::ptr_eq(&desired.object, &manifest.object));
        same.cloned().unwrap_or_else(|| desired(manifest))
    });
    Ok(made.collect())
}

/// Returns the snapshots of overrides that bindings and runs of these placements name.
pub fn named<'a>(states: impl IntoIterator<Item = &'a PlacementState>) -> BTreeSet<OverrideRef> {
    states.into_iter().flat_map(named_by).cloned().collect()
}

fn named_by(state: &PlacementState) -> impl Iterator<Item = &OverrideRef> {
    let of_bindings = state.bindings().map(|binding| &binding.overrides);
    let clusters = state.runs.values().flat_map(|run| &run.stages).flat_map(|stage| &stage.clusters);
    let picked = of_bindings.chain(clusters.map(|cluster| &cluster.overrides));
    let succeeded = state.record.succeeded.iter().chain(&state.record.back);
    picked.flat_map(PickedOverrides::ids).chain(succeeded.flat_map(SucceededState::override_refs))
}
