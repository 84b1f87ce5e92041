//! What clusters get of a snapshot that was rendered for them: selection, what a snapshot keeps of it, and each cluster's inputs. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Pass;
use super::payload::Payload;
use super::state::{FleetState, PlacementState};
use crate::snapshot::{Candidates, Frozen, select_for, with_variants};
use model::id::ClusterName;
use model::manifest::Manifest;
use model::overrides::PickedOverrides;
use model::records::ResourceSnapshot;
use model::tree::{Placement, Tree};
use model::variants::{ClusterField, ClusterInputs, described, inputs_of};

/// What is selected for clusters: what is asked of them, and their objects by inputs.
pub(super) type SelectedVariants = (BTreeSet<ClusterField>, Vec<(ClusterInputs, Vec<Manifest>)>);

/// Returns the overrides for a cluster's objects of a snapshot, and what the snapshot was rendered with for it, by its present labels. A
/// cluster that git does not name gets neither.
pub fn pick(
    fleet: &FleetState,
    snapshot: &ResourceSnapshot,
    candidates: Option<&Candidates>,
    cluster: &ClusterName,
) -> PickedOverrides {
    let candidates = candidates.filter(|candidates| !candidates.is_empty());
    let member = candidates.and_then(|candidates| Some((candidates, fleet.clusters.get(cluster.as_str())?)));
    let picked = member.map(|(candidates, member)| candidates.pick(cluster, &member.labels)).unwrap_or_default();
    PickedOverrides { variant: inputs(&fleet.tree, snapshot, cluster), ..picked }
}

fn inputs(tree: &Tree, snapshot: &ResourceSnapshot, cluster: &ClusterName) -> Option<ClusterInputs> {
    let variants = snapshot.variants.as_ref()?;
    tree.clusters.get(cluster).map(|member| inputs_of(&variants.reads, cluster, member))
}

impl Pass<'_> {
    /// Returns what a placement selects for clusters; `None` where it is not rendered for clusters.
    ///
    /// # Errors
    /// What cannot be selected or is not permitted, with the inputs, as text for users.
    pub(super) fn selected_variants(&self, placement: &Placement) -> Result<Option<SelectedVariants>, String> {
        let tree = &self.fleet.tree;
        let Some(reads) = tree.reads_of(placement) else { return Ok(None) };
        let mut variants = Vec::new();
        for inputs in tree.inputs_for(placement) {
            let of_cluster = |why: String| format!("for clusters with {}: {why}", described(&inputs));
            // A tree that was read without rendering has none.
            let Some(selected) = select_for(tree, placement, &inputs) else { continue };
            let selected = selected.map_err(|error| of_cluster(error.to_string()))?;
            let permitted = self.permitted(selected).map_err(of_cluster)?;
            variants.push((inputs, permitted));
        }
        Ok(Some((reads, variants)))
    }

    /// Adds to a snapshot what the accepted commit has of it for other clusters, and drops what no cluster has any more.
    pub(super) fn extend_variants(&mut self, index: u64, frozen: &Frozen, payload: &Arc<Payload>) {
        let needed = held_inputs(&self.state, index);
        let known = &self.state.snapshots[&index];
        let Some(extended) = with_variants(known, frozen, |inputs| needed.contains(inputs)) else { return };
        if let Some((before, named)) = self.state.payloads.get(&index).zip(extended.variants.as_ref()) {
            // The present objects stay the same values: an order that holds them is no other order.
            let joined = before.joined(payload, named);
            self.state.payloads.insert(index, Arc::new(joined));
        }
        self.state.snapshots.insert(index, Arc::new(extended));
    }

    /// Uses a selection as the payload of a snapshot that has none, if it has everything that the snapshot names.
    pub(super) fn provide(&mut self, index: u64, frozen: &Frozen, payload: &Arc<Payload>) {
        let Some(snapshot) = self.state.snapshots.get(&index) else { return };
        let selected = frozen.variants.as_ref();
        let mut named = snapshot.variants.iter().flat_map(|variants| &variants.made);
        // Snapshots with one hash may have got variants later.
        let has_all = named.all(|named| {
            let variant = selected.and_then(|selected| selected.of(&named.inputs));
            variant.is_some_and(|variant| variant.is_like(named))
        });
        if has_all {
            self.state.payloads.entry(index).or_insert_with(|| Arc::clone(payload));
        }
    }
}

/// Returns the inputs of clusters that have a snapshot or are about to get it.
fn held_inputs(state: &PlacementState, index: u64) -> BTreeSet<ClusterInputs> {
    let bound = state.bindings().filter(|binding| binding.snapshot == Some(index)).map(|binding| &binding.overrides);
    let runs = state.runs.values().filter(|run| run.snapshot() == Some(index));
    let of_runs = runs.flat_map(|run| &run.stages).flat_map(|stage| &stage.clusters).map(|cluster| &cluster.overrides);
    bound.chain(of_runs).filter_map(|picked| picked.variant.clone()).collect()
}

/// Counts the clusters of each variant.
pub fn by_inputs<'a>(
    picked: impl IntoIterator<Item = (&'a ClusterName, &'a PickedOverrides)>,
) -> BTreeMap<&'a ClusterInputs, Vec<&'a ClusterName>> {
    let mut found: BTreeMap<&ClusterInputs, Vec<&ClusterName>> = BTreeMap::new();
    for (cluster, picked) in picked {
        if let Some(inputs) = &picked.variant {
            found.entry(inputs).or_default().push(cluster);
        }
    }
    found
}
