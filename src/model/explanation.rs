//! Why clusters were picked or not: the output of `gitfleet explain`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::id::{ClusterName, PlacementKey};
use super::target::TargetWord;

/// The placement to explain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Query {
    /// `NAME`, or `NAMESPACE/NAME`.
    pub placement: String,
    /// The kind, if the name is ambiguous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

impl Query {
    /// Returns the key with this name, for a ClusterResourcePlacement or ResourcePlacement.
    pub fn key(&self) -> PlacementKey {
        TargetWord::read(&self.placement).placement()
    }
}

/// Why each cluster was picked or not.
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
    /// The desired clusters, as a short sentence: `PickN 3`, `every cluster that passes`.
    pub wanted: String,
    /// Whether the policy got enough clusters.
    pub fulfilled: bool,
    /// The result, as text for users.
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
    /// An earlier evaluation picked it; it is kept without a new evaluation.
    #[serde(default)]
    pub kept: bool,
    /// Since when a kept cluster is picked, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picked_at: Option<Timestamp>,
    /// The first filter that rejected it, or would reject a kept cluster now; absent for a cluster that passes all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<Refusal>,
    /// The terms of its score, in the order of the policy; empty without scoring.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<ScoreTerm>,
    /// The sum of the scores that decided, when the clusters of an OCM Placement last changed; absent where it is the same now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_score: Option<i64>,
    /// Its place among the clusters that passed, from 1; absent without ranking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// The rule that decided between it and its neighbour of equal score: `larger name first`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie_break: Option<String>,
    /// The whole as a sentence: `picked: rank 2 of 5`, `available-cpu 3 is below 4`.
    pub reason: String,
}

impl ClusterExplanation {
    /// Returns the sum of its scores; `None` where nothing is scored.
    pub fn total(&self) -> Option<i64> {
        (!self.scores.is_empty()).then(|| self.scores.iter().map(|term| term.score).sum())
    }
}

/// A rejection by a filter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// The filter by its name in the original: `ClusterAffinity`, `TaintToleration`, `Predicate`.
    pub filter: String,
    /// What the filter checked: a label, a property, a taint, the heartbeat.
    pub subject: String,
    /// The cluster's value; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<String>,
    /// The required value: `>= 4`, `In [east, west]`.
    pub wanted: String,
}

/// One term of a score.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScoreTerm {
    /// The term: `topology spread on zone`, `preferred[0] available-cpu descending`, `Balance`, `AddOn/default/cpuratio`.
    pub name: String,
    /// Its weight, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i64>,
    /// The cluster's value, if the term reads one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<String>,
    /// Its contribution to the score, with its weight.
    pub score: i64,
}

/// A cluster that was added or dropped between two explanations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Moved {
    /// The cluster.
    pub cluster_name: ClusterName,
    /// What happened and why: `edge-07 dropped: available-cpu 3 is below 4`.
    pub text: String,
}

/// The output of `gitfleet explain`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    /// The present decision.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// With two commits: the clusters that were added or dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<Moved>>,
}
