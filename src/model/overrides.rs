//! Snapshots of overrides, and the overrides for one cluster's objects.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::folder::holds;
use super::id::{CommitId, Digest, ObjectId};
use super::variants::ClusterInputs;
use crate::api::overrides::{ClusterResourceOverrideSpec, ResourceOverrideSpec};

/// Names an override: with a namespace a ResourceOverride, without one a ClusterResourceOverride.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OverrideKey {
    /// Its namespace; absent for a ClusterResourceOverride.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// Names one snapshot of an override.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OverrideRef {
    /// The override.
    #[serde(flatten)]
    pub key: OverrideKey,
    /// Zero-based; grows by one where the spec changed.
    pub index: u64,
}

impl OverrideRef {
    /// Returns the name KubeFleet gives the snapshot: `<override>-<index>`.
    pub fn name(&self) -> String {
        format!("{}-{}", self.key.name, self.index)
    }
}

/// The spec of an override.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OverrideSpec {
    /// Of a ClusterResourceOverride.
    Cluster(ClusterResourceOverrideSpec),
    /// Of a ResourceOverride.
    Namespaced(ResourceOverrideSpec),
}

/// A snapshot of an override. Immutable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OverrideSnapshot {
    /// Override and index of the snapshot.
    #[serde(flatten)]
    pub id: OverrideRef,
    /// Digest of the spec.
    pub hash: Digest,
    /// The spec.
    pub spec: OverrideSpec,
    /// The folder whose placements it concerns; absent if it concerns all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The commit that first had it.
    pub commit: CommitId,
    /// When it was created.
    pub created_at: Timestamp,
}

impl OverrideSnapshot {
    /// Tells whether it concerns a placement that sees this folder: its own, or one in it. By the placement and not by the files of the
    /// objects: a file may move, and the snapshot stays.
    pub fn concerns(&self, seen: Option<&str>) -> bool {
        self.folder.as_deref().is_none_or(|folder| seen.is_some_and(|seen| holds(folder, seen)))
    }

    /// Returns the field with its selectors, and what each of them names. Of a `ClusterResourceOverride` these are objects without a
    /// namespace, and Namespaces stand for what is in them; of a `ResourceOverride` objects of its own namespace.
    pub fn selected(&self) -> (&'static str, Vec<ObjectId>) {
        let namespace = self.id.key.namespace.as_deref().unwrap_or_default();
        let id = |group: &str, version: &str, kind: &str, name: &str| ObjectId {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        match &self.spec {
            OverrideSpec::Cluster(spec) => {
                let selectors = spec.cluster_resource_selectors.iter();
                ("clusterResourceSelectors", selectors.map(|s| id(&s.group, &s.version, &s.kind, &s.name)).collect())
            }
            OverrideSpec::Namespaced(spec) => {
                let selectors = spec.resource_selectors.iter();
                ("resourceSelectors", selectors.map(|s| id(&s.group, &s.version, &s.kind, &s.name)).collect())
            }
        }
    }
}

/// The overrides for one cluster's objects. The objects depend only on this and the snapshot: a relabelled cluster or a changed
/// override results in another value, which rolls out like content.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PickedOverrides {
    /// Snapshots of ClusterResourceOverrides with a rule for the cluster, in the order they apply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cluster: Vec<OverrideRef>,
    /// Snapshots of ResourceOverrides with a rule for the cluster, in the order they apply; after the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaced: Vec<OverrideRef>,
    /// The cluster's labels that select their rules or appear in their values, at the time of the pick.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What the snapshot was rendered with for the cluster, where it was rendered for clusters; overrides act on that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<ClusterInputs>,
}

impl PickedOverrides {
    /// Tells whether the cluster gets the snapshot's objects as they are.
    pub fn is_empty(&self) -> bool {
        !self.has_overrides() && self.variant.is_none()
    }

    /// Returns the snapshots of overrides that apply to the cluster.
    pub fn ids(&self) -> impl Iterator<Item = &OverrideRef> {
        self.cluster.iter().chain(&self.namespaced)
    }

    /// Tells whether an override applies to the cluster.
    pub fn has_overrides(&self) -> bool {
        !self.cluster.is_empty() || !self.namespaced.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_of_a_folder_concerns_placements_of_that_folder() {
        let of = |folder: Option<&str>| {
            let spec = serde_json::json!({"name": "o", "index": 0, "hash": "h", "commit": "c",
                "createdAt": "2026-01-01T00:00:00Z",
                "spec": {"clusterResourceSelectors": [], "policy": {"overrideRules": []}}});
            let snapshot: OverrideSnapshot = serde_json::from_value(spec).expect("as records without a folder are");
            OverrideSnapshot { folder: folder.map(str::to_owned), ..snapshot }
        };
        let rows = [
            (None, None, true),
            (None, Some("apps/production"), true),
            (Some("apps/production"), Some("apps/production"), true),
            (Some("apps/production"), Some("apps/production/eu"), true),
            (Some("apps/production"), Some("apps"), false),
            (Some("apps/production"), Some("apps/production-eu"), false),
            (Some("apps/production"), None, false),
        ];
        for (folder, seen, wanted) in rows {
            assert_eq!(of(folder).concerns(seen), wanted, "{folder:?} {seen:?}");
        }
        assert!(!serde_json::to_string(&of(None)).expect("a record").contains("folder"), "records stay as they were");
    }
}
