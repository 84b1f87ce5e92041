//! The record of an OCM Placement: its spec and its decisions.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::id::ClusterName;
use super::manifest::Origin;
use crate::api::condition::{Condition, ConditionStatus};
use crate::api::ocm::{OcmPlacementSpec, PAGE_CLUSTERS_MAX};
use crate::conditions::ConditionType;

/// One group of decisions; its index is its place among the groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecidedGroup {
    /// Its name in the strategy; empty for the group of the remaining clusters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its clusters, by name.
    pub clusters: Vec<ClusterName>,
}

/// An OCM Placement in git with its last decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OcmPlacementRecord {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `spec` at the accepted commit.
    pub spec: OcmPlacementSpec,
    /// `metadata.annotations` at the accepted commit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Grows with every change of spec or annotations.
    pub generation: i64,
    /// The file it is in.
    pub origin: Origin,
    /// When it was first seen.
    pub created_at: Timestamp,
    /// The decisions, by group. Empty if it was never decided.
    #[serde(default)]
    pub groups: Vec<DecidedGroup>,
    /// The totals that decided, when the clusters last changed; empty where nothing is scored.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<ClusterName, i64>,
    /// PlacementSatisfied and PlacementMisconfigured.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// A warning that changes nothing, such as expired scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Why it was not evaluated: it keeps its clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl OcmPlacementRecord {
    /// Returns the decided clusters, group by group.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterName> {
        self.groups.iter().flat_map(|group| &group.clusters)
    }

    /// Returns the clusters of each PlacementDecision, with the index of their group: at most 100 for each, numbered on over all
    /// groups. A group without clusters has one nevertheless: readers find a list that is empty, and not none.
    ///
    /// Source: OCM.
    pub fn pages(&self) -> impl Iterator<Item = (usize, &[ClusterName])> {
        self.groups.iter().enumerate().flat_map(|(index, group)| {
            let empty = group.clusters.is_empty().then_some(&[][..]);
            empty.into_iter().chain(group.clusters.chunks(PAGE_CLUSTERS_MAX)).map(move |clusters| (index, clusters))
        })
    }

    /// Returns its misconfiguration, as text for users.
    pub fn misconfiguration(&self) -> Option<&str> {
        let mut of_type = self.conditions.iter().filter(|c| c.type_ == ConditionType::PlacementMisconfigured);
        of_type.find(|c| c.status == ConditionStatus::True).map(|c| c.message.as_str())
    }

    /// Tells whether it got as many clusters as it wants.
    pub fn is_satisfied(&self) -> bool {
        self.conditions
            .iter()
            .any(|c| c.type_ == ConditionType::PlacementSatisfied && c.status == ConditionStatus::True)
    }
}
