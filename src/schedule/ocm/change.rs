//! A change on the hub, as far as a placement can read it.

use std::collections::{BTreeMap, BTreeSet};

use super::hub::RESOURCES;
use super::member::OcmMember;
use model::api::ocm::AddOnScoreStatus;
use model::id::ClusterName;

/// A change on the hub, as far as a placement can read it.
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
        /// The scores with different values; `None` if the time until which they are valid differs, which affects every reader.
        names: Option<BTreeSet<String>>,
    },
}

/// The changed attributes of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterChange {
    /// Sets that contained it before and still do.
    pub in_sets: BTreeSet<String>,
    /// Sets that it joined or left; all of its sets if it was added, removed, or is being deleted.
    pub moved_sets: BTreeSet<String>,
    /// Labels with different values.
    pub labels: BTreeSet<String>,
    /// Claims with different values.
    pub claims: BTreeSet<String>,
    /// Whether taints differ.
    pub taints: bool,
    /// Resources with a different rank value: `cpu`, `memory`.
    pub resources: BTreeSet<&'static str>,
    /// Whether anything in the object differs.
    pub object: bool,
}

/// Returns the scores with different values in two states of an AddOnPlacementScore; `None` if the end of validity differs.
pub(super) fn differing_scores(
    before: Option<&AddOnScoreStatus>,
    after: Option<&AddOnScoreStatus>,
) -> Option<BTreeSet<String>> {
    let same_end = before.and_then(|status| status.valid_until) == after.and_then(|status| status.valid_until);
    same_end.then(|| differing_keys(&values(before), &values(after)))
}

/// Returns the value of each score.
fn values(status: Option<&AddOnScoreStatus>) -> BTreeMap<String, i32> {
    status.into_iter().flat_map(|status| &status.scores).map(|score| (score.name.clone(), score.value)).collect()
}

/// Returns the keys whose values differ.
fn differing_keys<V: PartialEq>(before: &BTreeMap<String, V>, after: &BTreeMap<String, V>) -> BTreeSet<String> {
    let gone = before.iter().filter(|(key, value)| after.get(*key) != Some(value));
    let come = after.keys().filter(|key| !before.contains_key(*key));
    gone.map(|(key, _)| key.clone()).chain(come.cloned()).collect()
}

type SeenMember<'a> = Option<(&'a OcmMember, &'a BTreeSet<String>)>;

impl ClusterChange {
    /// Returns the differences between two states of a cluster; `None` if there are none.
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
            // Capacity must exist and does not affect ranks: another value changes nothing.
            resources: resources.filter(|r| old.ranked_resource(r) != new.ranked_resource(r)).collect(),
            object: old.object != new.object,
        };
        if old.deleting != new.deleting {
            change.moved_sets.append(&mut change.in_sets);
        }
        Some(change)
    }
}
