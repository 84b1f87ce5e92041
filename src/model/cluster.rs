//! A member cluster for scheduling.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::cluster::{MemberCluster, Taint};

/// The data of a member cluster that scheduling reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Labels, with `kubernetes-fleet.io/member-name`.
    pub labels: BTreeMap<String, String>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Whether new placements may go there; otherwise the reason, as text for users.
    pub eligible: Result<(), String>,
    /// Property names with their values, as Kubernetes quantities; `resources.kubernetes-fleet.io/` names included.
    pub properties: BTreeMap<String, String>,
    /// Its namespaces, if they are collected; namespaced placements go only to clusters with their namespace.
    pub namespaces: Option<BTreeSet<String>>,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            labels: BTreeMap::new(),
            taints: Vec::new(),
            eligible: Ok(()),
            properties: BTreeMap::new(),
            namespaces: None,
        }
    }
}

impl From<&MemberCluster> for Cluster {
    /// Copies labels and taints; the cluster counts as joined and healthy. It has no properties yet: those are observed.
    fn from(member: &MemberCluster) -> Self {
        Self { labels: member.labels.clone(), taints: member.spec.taints.clone(), ..Self::default() }
    }
}
