//! What scheduling is asked, and what it answers.

use std::sync::Arc;

use crate::fleet::Fleet;
use model::api::placement::{PlacementPolicy, PlacementType};
use model::id::{ClusterName, PlacementKey};
use model::records::{Binding, ClusterDecision};
use model::tenants::Tenant;

/// The greatest number of decisions in a policy snapshot, from the API.
pub const DECISIONS_MAX: usize = 1000;
/// The greatest number of listed clusters that were not picked: enough to explain, small enough to store.
pub const UNSELECTED_DECISIONS_MAX: usize = 20;

/// The inputs of one placement's scheduling.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The placement. One with a namespace goes only to clusters with that namespace.
    pub placement: &'a PlacementKey,
    /// Its policy, with defaults; `None` picks every cluster.
    pub policy: Option<&'a PlacementPolicy>,
    /// The index of the policy's snapshot: bindings of another index are evaluated again.
    pub policy_index: u64,
    /// The fleet: every cluster git names, eligible or not.
    pub clusters: &'a Fleet,
    /// The placement's bindings, in any order.
    pub bindings: &'a [Arc<Binding>],
    /// A cluster with the placement (its binding is scheduled or bound and not being removed) counts as eligible, whatever its
    /// status: so an outage does not become a removal when a changed policy evaluates every cluster again.
    pub keep_held: bool,
    /// How to treat a property that is no quantity.
    pub bad_values: BadValues,
    /// The tenant of the placement, which may use only some clusters.
    pub tenant: Option<&'a Tenant>,
}

/// How to treat a requested property of a cluster that is no quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BadValues {
    /// The cluster does not match, and the reason says so.
    #[default]
    Mismatch,
    /// Nothing is scheduled, as KubeFleet does.
    Error,
}

/// The change of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// It is new.
    Create,
    /// It moves to the current policy, and gets its earlier state back if it was unscheduled.
    Patch,
    /// Its cluster is no longer picked: its objects must be removed.
    Unschedule,
    /// Its cluster is no longer in the fleet: the record is deleted, and nothing on the cluster changes.
    Leave,
}

/// A binding that changes.
#[derive(Clone, Debug, PartialEq)]
pub struct BindingChange {
    /// The change.
    pub action: Action,
    /// The binding afterwards; for [`Action::Leave`] before.
    pub binding: Binding,
}

/// The result of scheduling a placement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The changes of bindings: created, patched, unscheduled and left, in this order.
    pub bindings: Vec<BindingChange>,
    /// The decisions in KubeFleet's order: picked clusters first, then some of the others.
    pub decisions: Vec<ClusterDecision>,
    /// Whether the policy got enough clusters.
    pub fulfilled: bool,
    /// How many clusters were found, as text for users.
    pub message: String,
}

/// Why a placement cannot be scheduled. An error affects only that placement, which keeps its last good state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A requested property of a cluster is no quantity.
    #[error(
        "cluster {cluster} has property {property} = {value:?}, which is no quantity, and {field} compares it; correct the \
         value, or ask for another property"
    )]
    BadValue {
        /// The cluster.
        cluster: ClusterName,
        /// The property.
        property: String,
        /// Its value.
        value: String,
        /// The field that compares it.
        field: String,
    },
    /// A requirement that cannot be compared with any property.
    #[error("{field}: {why}; correct it")]
    BadRequirement {
        /// The field.
        field: String,
        /// What is wrong.
        why: String,
    },
    /// A policy without a field that its type requires.
    #[error("{field} is required for {placement_type}; set it")]
    Incomplete {
        /// The field.
        field: &'static str,
        /// The type.
        placement_type: &'static str,
    },
    /// Two bindings of one placement have the same cluster.
    #[error("bindings {first} and {second} are both for cluster {cluster}; this should not happen, report it")]
    DuplicateBinding {
        /// The first by name.
        first: String,
        /// The second by name.
        second: String,
        /// The cluster.
        cluster: ClusterName,
    },
    /// An unscheduled binding is picked again, and its earlier state is unknown.
    #[error("binding {binding} is unscheduled without the state it had before; this should not happen, report it")]
    NoPreviousState {
        /// The binding.
        binding: String,
    },
}

/// Returns how many clusters a policy is meant to have, which rolling limits are percentages of: N for `PickN`, the number
/// of names for `PickFixed`, and for `PickAll` the clusters that were `picked` (its scheduled and bound bindings).
pub fn target(policy: Option<&PlacementPolicy>, picked: usize) -> usize {
    match policy {
        Some(policy) if policy.placement_type == PlacementType::PickN => {
            policy.number_of_clusters.and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
        }
        Some(policy) if policy.placement_type == PlacementType::PickFixed => policy.cluster_names.len(),
        _ => picked,
    }
}
