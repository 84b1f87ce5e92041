//! The namespaces of clusters once a tree is rolled out: ResourcePlacements go where theirs is.

use std::collections::{BTreeMap, BTreeSet};

use super::works::Projection;
use decide::state::{FleetState, PlacementState};
use model::cluster::Cluster;
use model::id::{ClusterName, ObjectKey};
use model::records::Inventory;

/// Names of namespaces by cluster.
type Namespaces = BTreeMap<ClusterName, BTreeSet<String>>;

/// Gives the clusters of a fleet the namespaces that placements bring, and takes those that they brought `before` and bring no more.
/// Returns whether a cluster changed, so that ResourcePlacements must be decided again.
///
/// A cluster that was never observed has what the tree brings, and each namespace that the tree has no manifest of. Of one whose
/// namespaces cannot be listed nothing is assumed: ResourcePlacements go there.
pub(super) fn bring_namespaces<'a>(
    fleet: &mut FleetState,
    is_observed: impl Fn(&ClusterName) -> bool,
    before: impl Iterator<Item = &'a PlacementState>,
    after: &[PlacementState],
) -> bool {
    if fleet.tree.placements.keys().all(|key| key.namespace.is_none()) {
        return false;
    }
    let gone = held(before);
    let brought = brought(fleet, after);
    let nothing = BTreeSet::new();
    let names: Vec<ClusterName> = fleet.clusters.iter().map(|(name, _)| name.clone()).collect();
    let mut is_changed = false;
    for name in names {
        let Some(cluster) = fleet.clusters.get(name.as_str()) else { continue };
        let known = cluster.namespaces.as_ref();
        let Some(known) = known.or_else(|| (!is_observed(&name)).then(|| fleet.tree.unmanaged_namespaces())) else {
            continue;
        };
        let kept = known.difference(gone.get(&name).unwrap_or(&nothing));
        let namespaces = kept.chain(brought.get(&name).unwrap_or(&nothing)).cloned().collect();
        let cluster = Cluster { namespaces: Some(namespaces), ..cluster.clone() };
        is_changed |= !fleet.clusters.set(name, cluster).is_empty();
    }
    is_changed
}

/// Returns the namespaces that placements hold on clusters.
fn held<'a>(placements: impl Iterator<Item = &'a PlacementState>) -> Namespaces {
    let mut held = Namespaces::new();
    for (cluster, work) in placements.flat_map(|state| &state.works) {
        let keys = match &work.inventory {
            Inventory::Known(keys) => keys,
            Inventory::Unknown(glimpse) => &glimpse.seen,
        };
        note(&mut held, cluster, keys);
    }
    held
}

/// Returns the namespaces that placements hold on clusters once their newest snapshot is everywhere.
fn brought(fleet: &FleetState, placements: &[PlacementState]) -> Namespaces {
    let mut brought = Namespaces::new();
    // Only placements of the cluster scope select Namespaces.
    for state in placements.iter().filter(|state| state.record.key.namespace.is_none() && !state.record.removed) {
        for (cluster, target) in &Projection::new(state, fleet).clusters {
            note(&mut brought, cluster, &target.keys);
        }
    }
    brought
}

fn note(namespaces: &mut Namespaces, cluster: &ClusterName, keys: &BTreeSet<ObjectKey>) {
    let first = ObjectKey { kind: "Namespace".into(), ..ObjectKey::default() };
    // Keys are in order: those of Namespaces stand together.
    let namespace_keys = keys.range(first..).take_while(|key| key.is_namespace());
    let mut names = namespace_keys.map(|key| key.name.to_string()).peekable();
    if names.peek().is_some() {
        namespaces.entry(cluster.clone()).or_default().extend(names);
    }
}
