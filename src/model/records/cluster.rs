//! What is kept of a member cluster.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::api::cluster::Taint;
use crate::api::ocm::ManagedClusterTaint;
use crate::model::id::ClusterName;

/// More than half of the fleet's clusters left in one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MassLeave {
    /// How many left.
    pub left: usize,
    /// Of how many.
    pub of: usize,
}

/// How a member is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberKind {
    /// An API server.
    Live,
    /// A folder.
    Directory,
    /// No `members:` entry names it.
    #[default]
    Unreachable,
}

/// Why a suspended cluster does not answer.
pub const SUSPENDED_WORDS: &str = "suspended by the annotation gitfleet.io/suspended";

/// What is known of a member cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRecord {
    /// The cluster.
    pub name: ClusterName,
    /// Its labels in git.
    pub labels: BTreeMap<String, String>,
    /// How it is reached.
    pub kind: MemberKind,
    /// Whether it answers; a suspended cluster counts as offline.
    pub online: bool,
    /// Why it does not answer, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether it has ever answered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answered: bool,
    /// Since when it does or does not.
    pub since: Timestamp,
    /// Gone from git, or from the configuration's `members:`: nothing on it is touched any more.
    #[serde(default)]
    pub left: bool,
    /// Who left with it, where that was more than half of the fleet: placements keep their bindings here until a person has
    /// agreed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_with: Option<MassLeave>,
    /// When git first named it, or named it again after it had left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined_at: Option<Timestamp>,
    /// Its taints in git.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Its taints as a ManagedCluster, each since when: where git does not say, since it was first seen there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed_taints: Vec<ManagedClusterTaint>,
    /// Properties that git states; see [`stated`](crate::model::facts::stated).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stated: BTreeMap<String, String>,
    /// Properties that were seen on the cluster: Kubernetes version, node count and the like; kept while it does not answer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
    /// Why some of them cannot be seen, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties_unknown: Option<String>,
    /// The namespaces that were seen on the cluster, and kept while it does not answer; of a folder those that are delivered there.
    /// `None` where they were never seen, or cannot be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<BTreeSet<String>>,
    /// Why they cannot be seen, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces_unknown: Option<String>,
    /// Why changes by hand are not heard of in this life, for people: the folder of a member cannot be watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwatched: Option<String>,
}

impl ClusterRecord {
    /// Tells whether it answers and may be written to.
    pub fn answers(&self) -> bool {
        self.online && !self.left
    }

    /// Tells whether it has ever answered; stores of earlier versions know it by what was seen there.
    pub fn has_answered(&self) -> bool {
        self.answered || self.online || !self.properties.is_empty()
    }

    /// Tells whether a person wants nothing delivered to it.
    pub fn is_suspended(&self) -> bool {
        self.message.as_deref() == Some(SUSPENDED_WORDS)
    }

    /// Begins the record of a cluster that nothing is known of yet.
    pub fn new(name: ClusterName, now: Timestamp) -> Self {
        Self {
            name,
            labels: BTreeMap::new(),
            kind: MemberKind::Unreachable,
            online: false,
            message: None,
            answered: false,
            since: now,
            left: false,
            left_with: None,
            joined_at: Some(now),
            taints: Vec::new(),
            managed_taints: Vec::new(),
            stated: BTreeMap::new(),
            properties: BTreeMap::new(),
            properties_unknown: None,
            namespaces: None,
            namespaces_unknown: None,
            unwatched: None,
        }
    }

    /// Returns what is known of the cluster's properties: what git states, and over it what was seen.
    pub fn known_properties(&self) -> BTreeMap<String, String> {
        let mut properties = self.stated.clone();
        properties.extend(self.properties.clone());
        properties
    }
}
