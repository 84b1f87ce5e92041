//! Where one cluster's objects come to differ from another's.
//!
//! Overrides are read and checked, and not applied yet. Leaving one out would deliver what its author did not mean, so an
//! override that concerns a placement is that placement's error.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::model::id::{ClusterName, ObjectId};
use crate::model::manifest::Manifest;
use crate::model::tree::{Placement, Tree};

/// Returns the objects one cluster is to hold, in snapshot order. Overrides act here and nowhere else; until they are
/// built every cluster holds the snapshot as it is (`concerning` sees to it that none is left out silently).
///
/// # Errors
/// Why the objects cannot be made for this cluster (an override that fails), for people; the cluster then keeps what it
/// has.
pub fn works_for_cluster<'a>(
    manifests: &'a [Manifest],
    _cluster: &ClusterName,
    _labels: &BTreeMap<String, String>,
) -> Result<Cow<'a, [Manifest]>, String> {
    Ok(Cow::Borrowed(manifests))
}

/// Returns the first override that would change one of a placement's objects, and that object.
///
/// Source: KubeFleet's matching of overrides: by the placement they name, if any, and by objects; a Namespace stands for all
/// that is in it.
pub fn concerning<'a>(
    tree: &'a Tree,
    placement: &Placement,
    manifests: &[Manifest],
) -> Option<(&'a ObjectId, ObjectId)> {
    tree.inputs.iter().filter(|input| is_for(input, placement)).find_map(|input| {
        let selectors = ["/spec/clusterResourceSelectors", "/spec/resourceSelectors"];
        let selectors = selectors.iter().filter_map(|pointer| input.object.pointer(pointer)?.as_array()).flatten();
        let hit = selectors.into_iter().find_map(|selector| {
            manifests.iter().find(|manifest| selects(selector, &input.id.namespace, &manifest.id))
        });
        hit.map(|manifest| (&input.id, manifest.id.clone()))
    })
}

fn is_for(input: &Manifest, placement: &Placement) -> bool {
    let is_override = matches!(input.id.kind.as_str(), "ClusterResourceOverride" | "ResourceOverride");
    let named = input.object.pointer("/spec/placement/name").and_then(Value::as_str);
    is_override && named.is_none_or(|name| name == placement.key.name)
}

/// Tells whether one selector of an override (in `namespace`, or cluster-scoped) selects an object.
fn selects(selector: &Value, namespace: &str, id: &ObjectId) -> bool {
    let text = |field: &str| selector.get(field).and_then(Value::as_str).unwrap_or_default();
    let is_named = text("group") == id.group && text("kind") == id.kind && text("name") == id.name;
    let holds =
        namespace.is_empty() && text("group").is_empty() && text("kind") == "Namespace" && text("name") == id.namespace;
    (is_named && id.namespace == namespace) || holds
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{manifest, manifest_of};
    use super::*;
    use crate::model::id::PlacementKey;

    #[test]
    fn a_cluster_holds_the_snapshot_as_it_is() {
        let objects = [manifest("v1", "Namespace", "", "a")];
        let works = works_for_cluster(&objects, &"c".into(), &BTreeMap::new()).unwrap();
        assert_eq!(*works, objects);
    }

    #[test]
    fn overrides_are_found_by_what_they_change() {
        let cluster = |selector: Value, placement: Value| {
            manifest_of(
                json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourceOverride",
                "metadata": {"name": "o"}, "spec": {"clusterResourceSelectors": [selector], "placement": placement}}),
            )
        };
        let namespaced = |namespace: &str| {
            manifest_of(json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceOverride",
                "metadata": {"name": "o", "namespace": namespace},
                "spec": {"resourceSelectors": [{"group": "apps", "version": "v1", "kind": "Deployment", "name": "web"}]}}))
        };
        let namespace = |name: &str| json!({"group": "", "version": "v1", "kind": "Namespace", "name": name});
        let rows = [
            ("a namespace and all in it", cluster(namespace("app"), Value::Null), true),
            ("another namespace", cluster(namespace("other"), Value::Null), false),
            ("this placement", cluster(namespace("app"), json!({"name": "p"})), true),
            ("another placement", cluster(namespace("app"), json!({"name": "q"})), false),
            ("an object of its namespace", namespaced("app"), true),
            ("an object of another namespace", namespaced("other"), false),
        ];
        for (name, input, expected) in rows {
            let mut tree = Tree::default();
            tree.inputs.push(input);
            let objects = [manifest("v1", "Namespace", "", "app"), manifest("apps/v1", "Deployment", "app", "web")];
            let placement = Placement {
                key: PlacementKey::cluster_scoped("p"),
                spec: crate::api::placement::PlacementSpec::default(),
                annotations: BTreeMap::new(),
                origin: objects[0].origin.clone(),
            };
            assert_eq!(concerning(&tree, &placement, &objects).is_some(), expected, "{name}");
        }
    }
}
