//! The snapshot of a plan.

use serde::Serialize;

use crate::id::{ClusterName, Digest, ObjectId};
use crate::records::ResourceSnapshot;
use crate::variants::ClusterInputs;

/// A frozen selection.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotPlan {
    /// The index, as a string like in the API.
    pub index: String,
    /// The hash of the real content, even if values are hidden elsewhere.
    pub hash: Digest,
    /// The objects, in snapshot order.
    pub resources: Vec<Resource>,
}

impl From<&ResourceSnapshot> for SnapshotPlan {
    fn from(snapshot: &ResourceSnapshot) -> Self {
        Self {
            index: snapshot.index.to_string(),
            hash: snapshot.hash.clone(),
            resources: snapshot.resources.iter().map(|r| Resource(r.id.clone())).collect(),
        }
    }
}

/// What some clusters get of a snapshot that was rendered for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VariantPlan {
    /// What it was rendered with: fields of the cluster, such as `label region`.
    pub values: ClusterInputs,
    /// The clusters.
    pub clusters: Vec<ClusterName>,
}

/// An object, printed with all five fields: an empty group or namespace is `""`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resource(pub ObjectId);

impl Serialize for Resource {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ObjectId { group, version, kind, namespace, name } = &self.0;
        serializer.collect_map([
            ("group", group),
            ("version", version),
            ("kind", kind),
            ("namespace", namespace),
            ("name", name),
        ])
    }
}
