//! A member cluster as scheduling sees it.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::cluster::{MemberCluster, Taint};

/// What is known of a member cluster when a placement is scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Labels, with `kubernetes-fleet.io/member-name`.
    pub labels: BTreeMap<String, String>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Whether new placements may go there; otherwise why not, for people.
    pub eligible: Result<(), String>,
    /// Property names with their values, as Kubernetes quantities; `resources.kubernetes-fleet.io/` names included.
    pub properties: BTreeMap<String, String>,
    /// The namespaces it has, where somebody collects them; namespaced placements go only where their namespace is.
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
    /// Takes labels and taints; the cluster counts as joined and healthy, without properties: those are observed.
    fn from(member: &MemberCluster) -> Self {
        Self { labels: member.labels.clone(), taints: member.spec.taints.clone(), ..Self::default() }
    }
}
