//! The rights that gitfleet needs on a member: the API resources that the placements of a tree deliver, and no others.

use std::collections::{BTreeMap, BTreeSet};

use decide::snapshot;
use model::id::ObjectId;
use model::kinds;
use model::manifest::Manifest;
use model::tree::Tree;

/// API group of definitions.
const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

/// A resource as RBAC names it: API group and plural.
pub type Named = (String, String);

/// The delivered resources, on any cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Resources by the namespace of their objects.
    pub in_namespaces: BTreeMap<String, BTreeSet<Named>>,
    /// Resources without a namespace, Namespaces apart.
    pub cluster_wide: BTreeSet<Named>,
    /// Delivered Namespaces.
    pub namespaces: BTreeSet<String>,
}

impl Needs {
    /// Sums up what all placements of a tree select, including the contents of envelopes.
    ///
    /// # Errors
    /// Placements whose resources cannot be determined, with the reason.
    pub fn of(tree: &Tree) -> Result<Self, Vec<String>> {
        let mut needs = Self::default();
        let mut errors = Vec::new();
        let plurals = plurals(tree);
        for (key, placement) in &tree.placements {
            let selected = snapshot::select(tree, placement).map_err(|error| error.to_string());
            let whole = selected.and_then(|selected| Ok((snapshot::enveloped(&selected, key)?, selected)));
            match whole {
                Ok((held, selected)) => {
                    // An envelope itself is never delivered: its contents are.
                    let plain = selected.iter().filter(|manifest| !snapshot::is_envelope(manifest));
                    plain.chain(&held).for_each(|manifest| needs.add(&manifest.id, &plurals));
                }
                Err(why) => errors.push(format!("{key}: {why}")),
            }
        }
        if errors.is_empty() { Ok(needs) } else { Err(errors) }
    }

    fn add(&mut self, id: &ObjectId, plurals: &BTreeMap<Named, String>) {
        if id.group.is_empty() && id.kind == "Namespace" {
            self.namespaces.insert(id.name.clone());
            return;
        }
        // A definition in the tree is exact; for other kinds that are not built in the plural is guessed.
        let defined = plurals.get(&(id.group.clone(), id.kind.clone())).cloned();
        let plural = defined.unwrap_or_else(|| kinds::plural(&id.group, &id.version, &id.kind));
        let named = (id.group.clone(), plural);
        if id.namespace.is_empty() {
            self.cluster_wide.insert(named);
        } else {
            self.in_namespaces.entry(id.namespace.clone()).or_default().insert(named);
        }
    }

    /// Returns every resource with a namespace, once.
    pub fn namespaced(&self) -> BTreeSet<&Named> {
        self.in_namespaces.values().flatten().collect()
    }

    /// Tells whether roles or bindings are delivered, which may grant rights that gitfleet itself does not have.
    pub fn has_rbac(&self) -> bool {
        self.cluster_wide.iter().chain(self.namespaced()).any(|(group, _)| group == "rbac.authorization.k8s.io")
    }
}

/// Returns the plurals in definitions of the tree, by group and kind.
fn plurals(tree: &Tree) -> BTreeMap<Named, String> {
    tree.of_kind(DEFINITIONS.0, DEFINITIONS.1).filter_map(plural).collect()
}

/// Returns the group and kind that a definition defines, with the plural.
fn plural(definition: &Manifest) -> Option<(Named, String)> {
    let spec = &definition.object["spec"];
    let names = &spec["names"];
    let kind = (spec["group"].as_str()?.to_owned(), names["kind"].as_str()?.to_owned());
    Some((kind, names["plural"].as_str()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c14_only_what_placements_deliver_is_needed() {
        let text = "\
apiVersion: placement.kubernetes-fleet.io/v1
kind: ClusterResourcePlacement
metadata: {name: web}
spec:
  resourceSelectors:
    - {group: '', version: v1, kind: Namespace, name: web}
    - {group: apiextensions.k8s.io, version: v1, kind: CustomResourceDefinition, name: geese.example.com}
---
{apiVersion: v1, kind: Namespace, metadata: {name: web}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: web}, spec: {}}
---
{apiVersion: example.com/v1, kind: Goose, metadata: {name: one, namespace: web}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: geese.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Goose, plural: geese}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceEnvelope
metadata: {name: held, namespace: web}
data:
  quota.yaml: {apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: web}, spec: {}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: other}}
---
{apiVersion: v1, kind: Secret, metadata: {name: not-placed, namespace: other}}
";
        let tree = testkit::trees::tree(&[("tree.yaml", text)]);
        let named = |list: &[(&str, &str)]| list.iter().map(|(g, p)| ((*g).to_owned(), (*p).to_owned())).collect();
        let needs = Needs::of(&tree).expect("it selects");
        let web = named(&[("", "resourcequotas"), ("apps", "deployments"), ("example.com", "geese")]);
        assert_eq!(needs.in_namespaces, BTreeMap::from([("web".to_owned(), web)]));
        assert_eq!(needs.cluster_wide, named(&[("apiextensions.k8s.io", "customresourcedefinitions")]));
        assert_eq!(needs.namespaces, BTreeSet::from(["web".to_owned()]));
        assert!(!needs.has_rbac());
    }
}
