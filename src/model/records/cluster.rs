//! The record of a member cluster.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::agent::AgentChoice;
use crate::api::cluster::MemberClusterSpec;
use crate::api::ocm::ManagedClusterTaint;
use crate::id::ClusterName;
use crate::pushed::Pushed;

/// A mass removal: more than half of the fleet's clusters left in one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MassLeave {
    /// The number of clusters that left.
    pub left: usize,
    /// The number of clusters before.
    pub of: usize,
}

/// The access to a member.
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

/// Says that a cluster leads to the API server of another.
pub fn same_server(cluster: &ClusterName, first: &ClusterName) -> String {
    format!(
        "{cluster} is the same server as {first}: both lead to one API server (its Namespace kube-system has one uid), so nothing is \
         delivered to {cluster}; correct its entry of `members:`, or remove one of the two MemberClusters"
    )
}

/// The record of a member cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRecord {
    /// The cluster.
    pub name: ClusterName,
    /// Its labels in git.
    pub labels: BTreeMap<String, String>,
    /// Its annotations in git, without the one in which kubectl keeps the object as it was applied.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The access to it.
    pub kind: MemberKind,
    /// The agent that delivers to it; absent: the daemon itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentChoice>,
    /// Whether it answers; a suspended cluster counts as offline.
    pub online: bool,
    /// Why it does not answer, as text for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether it has ever answered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answered: bool,
    /// Since when it does or does not.
    pub since: Timestamp,
    /// Gone from git, or from the configuration's `members:`: gitfleet no longer changes anything on it.
    #[serde(default)]
    pub left: bool,
    /// The mass removal it is part of: placements keep their bindings here until a person has agreed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_with: Option<MassLeave>,
    /// When git first named it, or named it again after it had left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined_at: Option<Timestamp>,
    /// Its `spec` in git.
    #[serde(default)]
    pub spec: MemberClusterSpec,
    /// Its taints as a ManagedCluster, each with a date: that in git, else when it was first seen there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed_taints: Vec<ManagedClusterTaint>,
    /// Properties in git; see [`stated`](crate::facts::stated).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stated: BTreeMap<String, String>,
    /// Properties observed on the cluster: Kubernetes version, node count and so on; kept while it does not answer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
    /// What machines pushed about it.
    #[serde(default, skip_serializing_if = "Pushed::is_empty")]
    pub pushed: Pushed,
    /// What the cluster claims of itself, by name; kept while that cannot be read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub claims: BTreeMap<String, String>,
    /// Why some properties or claims cannot be seen, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties_unknown: Option<String>,
    /// The namespaces that were seen on the cluster, and kept while it does not answer; of a folder those that are delivered there.
    /// `None` where they were never seen, or cannot be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<BTreeSet<String>>,
    /// Why they cannot be seen, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces_unknown: Option<String>,
    /// The API server that it leads to and was delivered to at: the uid of its Namespace `kube-system`, where that can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Another cluster that leads to the same API server and came first: nothing is delivered to this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<ClusterName>,
    /// Why changes by hand are not noticed in this process, for people: the folder of a member cannot be watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwatched: Option<String>,
}

impl ClusterRecord {
    /// Tells whether it answers and may be written to.
    pub fn answers(&self) -> bool {
        self.online && !self.left
    }

    /// Tells whether it has ever answered; in stores of earlier versions its observed properties show that.
    pub fn has_answered(&self) -> bool {
        self.answered || self.online || !self.properties.is_empty()
    }

    /// Tells whether a person suspended it: nothing is delivered.
    pub fn is_suspended(&self) -> bool {
        self.message.as_deref() == Some(SUSPENDED_WORDS)
    }

    /// Says that it is another cluster's server, for people; `None` where it is not.
    pub fn same_server(&self) -> Option<String> {
        Some(same_server(&self.name, self.same_as.as_ref()?))
    }

    /// Tells whether another record says the same of whether and since when it answers and belongs to the fleet.
    pub fn stands_as(&self, other: &Self) -> bool {
        self.online == other.online
            && self.left == other.left
            && self.left_with == other.left_with
            && self.kind == other.kind
            && self.since == other.since
            && self.message == other.message
    }

    /// Creates the record of an unknown cluster.
    pub fn new(name: ClusterName, now: Timestamp) -> Self {
        Self {
            name,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            kind: MemberKind::Unreachable,
            agent: None,
            online: false,
            message: None,
            answered: false,
            since: now,
            left: false,
            left_with: None,
            joined_at: Some(now),
            spec: MemberClusterSpec::default(),
            managed_taints: Vec::new(),
            stated: BTreeMap::new(),
            properties: BTreeMap::new(),
            pushed: Pushed::default(),
            claims: BTreeMap::new(),
            properties_unknown: None,
            namespaces: None,
            namespaces_unknown: None,
            server: None,
            same_as: None,
            unwatched: None,
        }
    }

    /// Returns what is known of the cluster's properties: what git states, over it what was pushed, and over both what was seen.
    pub fn known_properties(&self, now: Timestamp) -> BTreeMap<String, String> {
        let mut properties = self.stated.clone();
        properties.extend(self.pushed.properties(now));
        properties.extend(self.properties.clone());
        properties
    }
}
