//! Why clusters were picked and others not: what `gitfleet explain` shows.

use serde::{Deserialize, Serialize};

use super::id::{ClusterName, PlacementKey};

/// Which placement is to be explained.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Query {
    /// `NAME`, or `NAMESPACE/NAME`.
    pub placement: String,
    /// The kind, where the name alone could mean two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

impl Query {
    /// Returns the key that the name is of, as a ClusterResourcePlacement or ResourcePlacement.
    pub fn key(&self) -> PlacementKey {
        let Ok(key) = self.placement.parse();
        key
    }
}

/// How one placement's clusters came to be picked, cluster by cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `ClusterResourcePlacement`, `ResourcePlacement` or `Placement` (OCM).
    pub kind: String,
    /// Namespace; empty for a cluster-scoped placement.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// What is asked for, as a short sentence: `PickN 3`, `every cluster that passes`.
    pub wanted: String,
    /// Whether the policy got the clusters it asks for.
    pub fulfilled: bool,
    /// What came of it, for people.
    pub message: String,
    /// Every cluster of the fleet: picked ones first, each part by rank and then by name.
    pub clusters: Vec<ClusterExplanation>,
}

/// One cluster of an [`Explanation`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterExplanation {
    /// The cluster.
    pub cluster_name: ClusterName,
    /// Whether the placement has it.
    pub picked: bool,
    /// It was picked by an earlier evaluation and is kept without being evaluated again.
    #[serde(default)]
    pub kept: bool,
    /// The first filter that said no, or to a cluster that is kept would say no now; absent for a cluster that passes all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<Refusal>,
    /// The terms of its score, in the order of the policy; empty where nothing is scored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<ScoreTerm>,
    /// Its place among the clusters that passed, from 1; absent where nothing is ranked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// What decided between it and its neighbour of equal score: `larger name first`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie_break: Option<String>,
    /// The whole as a sentence: `picked: rank 2 of 5`, `available-cpu 3 is below 4`.
    pub reason: String,
}

/// A filter that said no.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// The filter by its name in the original: `ClusterAffinity`, `TaintToleration`, `Predicate`.
    pub filter: String,
    /// What was looked at: a label, a property, a taint, the heartbeat.
    pub subject: String,
    /// What the cluster has; absent where it has nothing of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<String>,
    /// What was asked for: `>= 4`, `In [east, west]`.
    pub wanted: String,
}

/// One term of a score.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScoreTerm {
    /// The term: `topology spread on zone`, `preferred[0] available-cpu descending`, `Balance`, `AddOn/default/cpuratio`.
    pub name: String,
    /// Its weight, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i64>,
    /// What the cluster has, where a value is looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<String>,
    /// What it adds to the score, the weight included.
    pub score: i64,
}

/// A cluster that came or went between two explanations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Moved {
    /// The cluster.
    pub cluster_name: ClusterName,
    /// What happened and why: `edge-07 dropped: available-cpu 3 is below 4`.
    pub text: String,
}

/// What `gitfleet explain` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    /// How it stands.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// With two commits: which clusters came and went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<Moved>>,
}
