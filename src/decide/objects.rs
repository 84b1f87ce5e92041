//! Which objects a placement has for a cluster. Pure.

use std::collections::BTreeSet;

use super::state::PlacementState;
use model::id::{ObjectId, ObjectKey};
use model::records::{Binding, BindingState};
use model::variants::ClusterInputs;

/// Tells whether a binding is neither removed nor to be removed.
pub(super) fn stays(binding: &Binding) -> bool {
    !binding.deleting && binding.state != BindingState::Unscheduled
}

/// What a snapshot has for clusters with the same inputs, before overrides.
pub(super) struct SnapshotObjects<'a> {
    pub(super) keys: BTreeSet<ObjectKey>,
    /// The namespaces that its objects are in.
    pub(super) namespaces: BTreeSet<&'a str>,
}

impl<'a> SnapshotObjects<'a> {
    pub(super) fn of(state: &'a PlacementState, snapshot: u64, inputs: Option<&ClusterInputs>) -> Self {
        let in_namespaces = ids_of(state, snapshot, inputs).map(|id| &*id.namespace);
        Self {
            keys: ids_of(state, snapshot, inputs).map(ObjectId::key).collect(),
            namespaces: in_namespaces.filter(|namespace| !namespace.is_empty()).collect(),
        }
    }
}

/// Returns what a cluster with these inputs has of a snapshot, before overrides: the contents of envelopes, and not these, where the payload
/// is read.
pub(super) fn ids_of<'a>(
    state: &'a PlacementState,
    snapshot: u64,
    inputs: Option<&ClusterInputs>,
) -> impl Iterator<Item = &'a ObjectId> {
    let read = state.payloads.get(&snapshot).and_then(|payload| payload.variant(inputs).ok());
    let snapshot = if read.is_none() { state.snapshots.get(&snapshot) } else { None };
    let variant = snapshot.and_then(|of| of.variants.as_ref()?.of(inputs?));
    let resources = snapshot.map(|of| of.resources.as_slice()).unwrap_or_default();
    let plain = variant.is_none().then_some(resources).into_iter().flatten();
    let known = plain.chain(variant.into_iter().flat_map(|variant| variant.resources(resources)));
    let delivered = read.into_iter().flat_map(|payload| payload.manifests.iter());
    delivered.map(|manifest| &manifest.id).chain(known.map(|resource| &resource.id))
}
