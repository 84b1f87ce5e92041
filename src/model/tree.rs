//! A commit as the rooms see it: parsed, checked and indexed.

use std::collections::BTreeMap;

use super::id::{ClusterName, CommitId, PlacementKey};
use super::manifest::{Manifest, Origin};
use crate::api::cluster::MemberCluster;
use crate::api::placement::PlacementSpec;

/// A placement of the source.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// Its name.
    pub key: PlacementKey,
    /// `spec`, as written; defaults are filled in by the API types.
    pub spec: PlacementSpec,
    /// `metadata.annotations`: gitfleet's extensions are annotations.
    pub annotations: BTreeMap<String, String>,
    /// Where it stands.
    pub origin: Origin,
}

/// Whether a kind lives in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Objects have a namespace.
    Namespaced,
    /// Objects have none.
    Cluster,
}

/// Everything a commit says, checked. A commit with any error never becomes a `Tree`.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// The commit; `None` for a folder read as it stands.
    pub commit: Option<CommitId>,
    /// The payload: every manifest that is not one of our own kinds, ordered by identity.
    pub manifests: Vec<Manifest>,
    /// Placements by key.
    pub placements: BTreeMap<PlacementKey, Placement>,
    /// Member clusters by name.
    pub clusters: BTreeMap<ClusterName, MemberCluster>,
    /// Scope of each (group, kind) known from built-in kinds, CRDs of the tree and the documents themselves.
    pub scopes: BTreeMap<(String, String), Scope>,
    /// Documents of our own kinds (placements, strategies, runs, overrides, OCM kinds), MemberClusters apart: checked;
    /// read again where they are used.
    pub inputs: Vec<Manifest>,
    /// Documents that are not Kubernetes objects, by path and line: skipped, named by `validate`.
    pub skipped: Vec<(String, u32)>,
    by_namespace: BTreeMap<String, Vec<usize>>,
    by_kind: BTreeMap<(String, String), Vec<usize>>,
}

impl Tree {
    /// Sets the payload, ordered by identity, and indexes it by namespace and by kind.
    pub fn set_manifests(&mut self, mut manifests: Vec<Manifest>) {
        manifests.sort_by(|a, b| a.id.cmp(&b.id));
        self.by_namespace.clear();
        self.by_kind.clear();
        for (position, manifest) in manifests.iter().enumerate() {
            let id = &manifest.id;
            if !id.namespace.is_empty() {
                self.by_namespace.entry(id.namespace.clone()).or_default().push(position);
            }
            self.by_kind.entry((id.group.clone(), id.kind.clone())).or_default().push(position);
        }
        self.manifests = manifests;
    }

    /// Returns the payload of a kind, in order of identity.
    pub fn of_kind(&self, group: &str, kind: &str) -> impl Iterator<Item = &Manifest> {
        self.at(self.by_kind.get(&(group.to_owned(), kind.to_owned())))
    }

    /// Returns what stands in a namespace (without the Namespace object), in order of identity.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Manifest> {
        self.at(self.by_namespace.get(namespace))
    }

    fn at<'a>(&'a self, positions: Option<&'a Vec<usize>>) -> impl Iterator<Item = &'a Manifest> {
        positions.into_iter().flatten().map(|&position| &self.manifests[position])
    }
}
