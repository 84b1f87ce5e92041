//! Exported decisions: the clusters of a placement for other tools, and the objects on a hub that hold them.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::id::{ClusterName, PlacementKey};

/// The key of an exported decision: a ClusterResourcePlacement, a ResourcePlacement or an OCM Placement. If names clash, the
/// first in order wins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionsKey {
    /// Kind.
    pub kind: String,
    /// Namespace; `None` for a cluster-scoped kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
}

impl From<&PlacementKey> for DecisionsKey {
    fn from(key: &PlacementKey) -> Self {
        Self { kind: key.kind().to_owned(), namespace: key.namespace.clone(), name: key.name.clone() }
    }
}

impl fmt::Display for DecisionsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// One exported cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportedCluster {
    /// The cluster.
    pub cluster_name: ClusterName,
    /// The reason, as text for users.
    pub reason: String,
}

/// The clusters of one decision group; its index is its place among the groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportedGroup {
    /// Its name; empty for the group of the remaining clusters.
    pub name: String,
    /// Its clusters by name; no cluster is in two groups.
    pub clusters: Vec<ExportedCluster>,
}

/// The export of a placement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionsRecord {
    /// The placement.
    #[serde(flatten)]
    pub key: DecisionsKey,
    /// The value of the placement label on its PlacementDecisions; `None` if it has none, and `problem` says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Why no PlacementDecisions contain its decisions, as text for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Gone from git and from every cluster: a decision without clusters, which differs from no decision.
    #[serde(default)]
    pub removed: bool,
    /// Its groups in order; at least one.
    pub groups: Vec<ExportedGroup>,
}

impl DecisionsRecord {
    /// Finds the placement that a reader names; kind and namespace are optional.
    ///
    /// If several match, the one with the label is found, as on the hub.
    ///
    /// # Errors
    /// No such placement was decided, as text for users. Never an empty list, which would delete Applications.
    pub fn find<'a>(
        records: impl IntoIterator<Item = &'a Self>,
        kind: Option<&str>,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<&'a Self, String> {
        let meant = records.into_iter().filter(|record| {
            record.key.name == name
                && kind.is_none_or(|kind| record.key.kind == kind)
                && namespace.is_none_or(|namespace| record.key.namespace.as_deref().unwrap_or_default() == namespace)
        });
        let first = meant.min_by_key(|record| (record.label.is_none(), record.removed, record.key.clone()));
        first.ok_or_else(|| {
            let kind = kind.unwrap_or("placement");
            let place = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
            format!("no {kind} {name}{place} has been decided; `gitfleet export decisions` lists those that have")
        })
    }
}

/// The state of the hub that decisions are written to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HubRecord {
    /// The namespace of the decisions.
    pub namespace: String,
    /// Whether it answers.
    pub online: bool,
    /// Why it does not answer, as text for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Objects that were left alone or could not be written, as text for users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Since when it is in this state.
    pub since: Timestamp,
}

/// A PlacementDecision of gitfleet on the hub: one page of a placement's decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The number in its name.
    pub number: u32,
    /// Whether it carries the placement label, so that readers see it.
    pub visible: bool,
    /// Index and name of its group, from its labels; `None` if they are missing or no number.
    pub group: Option<(u32, String)>,
    /// Its clusters; `None` if it has no list of them.
    pub clusters: Option<Vec<String>>,
}

/// One write to a hub. Each is atomic; readers may read between any two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageWrite {
    /// Create the page without the labels that readers select by, and without clusters.
    Create {
        /// The page.
        number: u32,
    },
    /// Replace its clusters.
    Status {
        /// The page.
        number: u32,
        /// All of them, by name.
        clusters: Vec<String>,
    },
    /// Set its labels: from now on readers see it.
    Label {
        /// The page.
        number: u32,
        /// Index of its group.
        index: u32,
        /// Name of its group.
        group: String,
    },
    /// Delete it.
    Delete {
        /// The page.
        number: u32,
    },
}
