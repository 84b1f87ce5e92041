//! The tree of a commit: parsed, checked and indexed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::id::{ClusterName, CommitId, ObjectId, PlacementKey};
use super::manifest::{InputError, Manifest, Origin};
use super::rendering::InputFolder;
use crate::api::annotations::{DEFAULT_NAMESPACE, PATH, RENDER_FOR};
use crate::api::cluster::MemberCluster;
use crate::api::placement::PlacementSpec;

mod seen;
mod varied;

use self::seen::Index;
pub use self::seen::SeenObjects;
pub use self::varied::VariedFolder;

/// A placement of the source.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// Its name.
    pub key: PlacementKey,
    /// `spec`, as in the document; the API types fill in defaults.
    pub spec: PlacementSpec,
    /// `metadata.annotations`, which hold gitfleet's extensions.
    pub annotations: BTreeMap<String, String>,
    /// Its position.
    pub origin: Origin,
    /// The owners of its file by the CODEOWNERS file of an accepted commit, as approvers are written. None where the configuration reads
    /// no such file, where it names none, and in a pull request.
    pub owners: Vec<String>,
}

impl Placement {
    /// Returns the folder whose objects its selectors see; `None` if they see the whole source.
    pub fn folder(&self) -> Option<&str> {
        self.annotations.get(PATH).map(String::as_str)
    }

    /// Returns the namespace that it gives to namespaced objects that name none.
    pub fn default_namespace(&self) -> Option<&str> {
        self.annotations.get(DEFAULT_NAMESPACE).map(String::as_str)
    }

    /// Tells whether the folders that it sees are rendered with values of each cluster.
    pub fn renders_for_cluster(&self) -> bool {
        // `cluster` is the only value.
        self.annotations.contains_key(RENDER_FOR)
    }
}

/// Whether the objects of a kind have a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Objects have a namespace.
    Namespaced,
    /// Objects have none.
    Cluster,
}

/// Why a document is skipped: it is no Kubernetes object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoObject {
    /// A mapping with neither apiVersion nor kind, such as a file of values.
    Untyped,
    /// A list.
    List,
    /// A string, a number or another scalar: often a manifest that is indented with tabs or has lost its line breaks.
    Scalar,
}

impl NoObject {
    /// Tells whether it may be a mistake: many trees contain a file of values, but a string that should be a manifest is a
    /// mistake.
    pub fn is_odd(self) -> bool {
        self != Self::Untyped
    }
}

impl std::fmt::Display for NoObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Untyped => "has neither apiVersion nor kind",
            Self::List => "is a list and no mapping, hence no Kubernetes object",
            Self::Scalar => "is plain text and no mapping, hence no Kubernetes object",
        })
    }
}

/// A skipped document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skipped {
    /// Path from the root of the source's subtree.
    pub path: String,
    /// One-based line where the document starts.
    pub line: u32,
    /// The reason.
    pub why: NoObject,
}

impl Skipped {
    /// Returns it as an error in the source, if it may be a mistake.
    pub fn complaint(&self) -> Option<InputError> {
        self.why.is_odd().then(|| InputError {
            path: self.path.clone(),
            line: self.line,
            object: None,
            field: None,
            message: format!("{}; it is not read", self.why),
            hint: Some("correct it, or add the file to .gitfleetignore".to_owned()),
        })
    }
}

/// One of several sources in a commit that joins them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct JoinedSource {
    /// Its name, which is the folder of its files.
    pub name: String,
    /// The commit that it is at.
    pub commit: CommitId,
}

/// The checked content of a commit. A commit with any error never becomes a `Tree`.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// The commit; `None` for a folder.
    pub commit: Option<CommitId>,
    /// The sources that the commit joins, by name; none where there is one source.
    pub sources: Vec<JoinedSource>,
    /// The payload: every manifest that is not one of our own kinds, ordered by identity. Several may have one identity, in different
    /// folders.
    pub manifests: Vec<Manifest>,
    /// Placements by key.
    pub placements: BTreeMap<PlacementKey, Placement>,
    /// Member clusters by name.
    pub clusters: BTreeMap<ClusterName, MemberCluster>,
    /// Where each MemberCluster stands.
    pub member_origins: BTreeMap<ClusterName, Origin>,
    /// Scope of each (group, kind) known from built-in kinds, CRDs of the tree and the documents themselves.
    pub scopes: BTreeMap<(String, String), Scope>,
    /// The kinds of `scopes` of which only documents without a namespace tell: whether their objects have one is a guess.
    pub guessed: BTreeSet<(String, String)>,
    /// The folders that placements name.
    pub folders: BTreeSet<String>,
    /// The folders whose files a kustomization or a chart takes.
    pub input_folders: BTreeSet<InputFolder>,
    /// The folders that were rendered for clusters, by the path of their objects.
    pub varied: BTreeMap<String, VariedFolder>,
    /// Documents of gitfleet's own kinds (placements, strategies, runs, overrides, OCM kinds) without MemberClusters: checked
    /// here, and deserialized again by their users.
    pub inputs: Vec<Manifest>,
    /// Documents that are not Kubernetes objects, by path and line: named by `validate`, odd ones in plans and logs too.
    pub skipped: Vec<Skipped>,
    /// Warnings about files, by path and line: keys that are read differently from how they are written.
    pub warnings: Vec<InputError>,
    index: Index,
    by_path: OnceLock<Vec<usize>>,
    unmanaged_namespaces: OnceLock<BTreeSet<String>>,
}

impl Tree {
    /// Sets the payload, ordered by identity, and indexes it by namespace and by kind.
    pub fn set_manifests(&mut self, mut manifests: Vec<Manifest>) {
        manifests.sort_by(|a, b| a.id.cmp(&b.id));
        self.unmanaged_namespaces = OnceLock::new();
        self.by_path = OnceLock::new();
        self.index = Index::of(&manifests);
        self.manifests = manifests;
    }

    /// Returns the payload of a kind, in order of identity.
    pub fn of_kind(&self, group: &str, kind: &str) -> impl Iterator<Item = &Manifest> {
        self.index.of_kind(&self.manifests, group, kind)
    }

    /// Returns the namespaces of ResourcePlacements that git has no manifest of: somebody else makes them on the clusters.
    pub fn unmanaged_namespaces(&self) -> &BTreeSet<String> {
        self.unmanaged_namespaces.get_or_init(|| {
            let managed: BTreeSet<&str> =
                self.of_kind("", "Namespace").map(|manifest| manifest.id.name.as_str()).collect();
            let of_placements = self.placements.keys().filter_map(|key| key.namespace.as_deref());
            of_placements.filter(|namespace| !managed.contains(namespace)).map(str::to_owned).collect()
        })
    }

    /// Returns the payload of an identity: several objects if they are in different folders.
    pub fn at(&self, id: &ObjectId) -> &[Manifest] {
        let end = self.manifests.partition_point(|manifest| manifest.id <= *id);
        &self.manifests[self.manifests.partition_point(|manifest| manifest.id < *id)..end]
    }

    /// Tells whether an object is of a namespaced kind and names no namespace.
    pub fn lacks_namespace(&self, manifest: &Manifest) -> bool {
        let id = &manifest.id;
        id.namespace.is_empty()
            && self.scopes.get(&(id.group.clone(), id.kind.clone())).is_some_and(|scope| *scope == Scope::Namespaced)
    }
}
