//! What changed on the hub, as far as a placement can read it.

use std::collections::{BTreeMap, BTreeSet};

use super::hub::RESOURCES;
use super::member::OcmMember;
use crate::api::ocm::AddOnScoreStatus;
use crate::model::id::ClusterName;

/// What changed on the hub, as far as a placement can read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing that any placement reads.
    Nothing,
    /// A cluster.
    Cluster(ClusterChange),
    /// A set, or its selector.
    Set(String),
    /// The binding of a set to a namespace.
    Binding {
        /// The namespace.
        namespace: String,
        /// The set.
        set: String,
    },
    /// Scores of a cluster.
    Score {
        /// Name of the AddOnPlacementScore.
        resource: String,
        /// The cluster.
        cluster: ClusterName,
        /// The scores whose values differ; `None` where the time until which they hold does, which concerns every reader.
        names: Option<BTreeSet<String>>,
    },
}

/// What changed about a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterChange {
    /// Sets that have it and had it before.
    pub in_sets: BTreeSet<String>,
    /// Sets that it joined or left; all of its sets where it arrived, left, or began to be deleted.
    pub moved_sets: BTreeSet<String>,
    /// Labels that differ.
    pub labels: BTreeSet<String>,
    /// Claims that differ.
    pub claims: BTreeSet<String>,
    /// Whether taints differ.
    pub taints: bool,
    /// Resources that it ranks differently by: `cpu`, `memory`.
    pub resources: BTreeSet<&'static str>,
    /// Whether anything of the object differs.
    pub object: bool,
}

/// Returns the scores whose values differ between two states of an AddOnPlacementScore; `None` where the end of validity does.
pub(super) fn differing_scores(
    before: Option<&AddOnScoreStatus>,
    after: Option<&AddOnScoreStatus>,
) -> Option<BTreeSet<String>> {
    let values = |status: Option<&AddOnScoreStatus>| -> BTreeMap<String, i32> {
        status.into_iter().flat_map(|status| &status.scores).map(|score| (score.name.clone(), score.value)).collect()
    };
    let same_end = before.and_then(|status| status.valid_until) == after.and_then(|status| status.valid_until);
    same_end.then(|| differing_keys(&values(before), &values(after)))
}

/// Returns the keys whose values differ.
fn differing_keys<V: PartialEq>(before: &BTreeMap<String, V>, after: &BTreeMap<String, V>) -> BTreeSet<String> {
    let gone = before.iter().filter(|(key, value)| after.get(*key) != Some(value));
    let come = after.keys().filter(|key| !before.contains_key(*key));
    gone.map(|(key, _)| key.clone()).chain(come.cloned()).collect()
}

type SeenMember<'a> = Option<(&'a OcmMember, &'a BTreeSet<String>)>;

impl ClusterChange {
    /// Returns what differs between two states of a cluster; `None` where nothing does.
    pub(super) fn between(before: SeenMember<'_>, after: SeenMember<'_>) -> Option<Self> {
        let (Some((old, old_sets)), Some((new, new_sets))) = (before, after) else {
            let (_, sets) = before.or(after)?;
            return Some(Self { moved_sets: sets.clone(), object: true, ..Self::default() });
        };
        if old == new {
            return None;
        }
        let resources = RESOURCES.iter().map(|(resource, _)| *resource);
        let mut change = Self {
            in_sets: old_sets.intersection(new_sets).cloned().collect(),
            moved_sets: old_sets.symmetric_difference(new_sets).cloned().collect(),
            labels: differing_keys(&old.labels, &new.labels),
            claims: differing_keys(&old.claims, &new.claims),
            taints: old.taints != new.taints,
            // Capacity has to be there and is not ranked by: another number of it changes nothing.
            resources: resources.filter(|r| old.ranked_resource(r) != new.ranked_resource(r)).collect(),
            object: old.object != new.object,
        };
        if old.deleting != new.deleting {
            change.moved_sets.append(&mut change.in_sets);
        }
        Some(change)
    }
}
