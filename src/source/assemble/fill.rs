//! Fills the tree of a commit from its documents.

use std::collections::BTreeMap;

use serde_json::Value;

use super::check::FoundObject;
use model::api::cluster::MemberCluster;
use model::api::ocm::ManagedCluster;
use model::api::table::{Checked, MEMBER_NAME_LABEL};
use model::id::{ClusterName, PlacementKey};
use model::tree::{Placement, Tree};

pub(super) fn fill(tree: &mut Tree, found: Vec<FoundObject<'_>>) {
    let mut payload = Vec::new();
    let mut managed: Vec<(ClusterName, ManagedCluster)> = Vec::new();
    for item in found {
        let id = &item.document.id;
        match &item.document.checked {
            _ if item.document.is_payload() => payload.push(item.manifest()),
            None | Some(Checked::Other) => tree.inputs.push(item.manifest()),
            Some(Checked::Placement(spec)) => {
                let key = PlacementKey::of_namespace(&id.namespace, &id.name);
                let annotations = annotations(&item.document.object);
                let spec = spec.as_ref().clone();
                tree.inputs.push(item.manifest());
                let placement =
                    Placement { key: key.clone(), spec, annotations, origin: item.origin, owners: Vec::new() };
                tree.placements.insert(key, placement);
            }
            Some(Checked::MemberCluster(cluster)) => {
                let name = ClusterName::new(id.name.as_str());
                tree.member_origins.insert(name.clone(), item.origin);
                tree.clusters.insert(name, cluster.as_ref().clone());
            }
            Some(Checked::ManagedCluster(cluster)) => {
                managed.push((ClusterName::new(id.name.as_str()), cluster.as_ref().clone()));
                tree.inputs.push(item.manifest());
            }
        }
    }
    // After all documents: the MemberCluster of the same name may be in a later file.
    for (name, cluster) in managed {
        let member = tree
            .clusters
            .entry(name.clone())
            .or_insert_with(|| MemberCluster { only_managed: true, ..MemberCluster::default() });
        join(member, &name, cluster);
    }
    tree.folders = tree.placements.values().filter_map(Placement::folder).map(str::to_owned).collect();
    tree.inputs.sort_by(|a, b| a.id.cmp(&b.id));
    tree.set_manifests(payload);
}

/// Merges a MemberCluster and a ManagedCluster of one name; the MemberCluster's values win.
pub(super) fn join(member: &mut MemberCluster, name: &ClusterName, managed: ManagedCluster) {
    for (key, value) in &managed.labels {
        member.labels.entry(key.clone()).or_insert_with(|| value.clone());
    }
    for (key, value) in &managed.annotations {
        member.annotations.entry(key.clone()).or_insert_with(|| value.clone());
    }
    // Last, so that no document can give a cluster another name.
    member.labels.insert(MEMBER_NAME_LABEL.to_owned(), name.to_string());
    member.managed = Some(managed);
}

pub(super) fn annotations(object: &Value) -> BTreeMap<String, String> {
    let map = object.pointer("/metadata/annotations").and_then(Value::as_object);
    map.into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
