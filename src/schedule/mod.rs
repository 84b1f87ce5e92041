//! Room 3: where does it go? Filter, score, pick, bind.
//!
//! [`schedule`] evaluates one placement's bindings and picks clusters for it. Bindings of the current policy are never evaluated
//! again; a changed policy evaluates all of them from scratch.
//!
//! Source: KubeFleet's scheduler; its rules are restated where they are carried out.

mod bindings;
mod column;
mod decided;
pub mod eligibility;
pub mod eviction;
pub mod explain;
mod filter;
pub mod fleet;
pub mod labels;
pub mod ocm;
mod pick;
mod properties;
mod rank;
pub mod reads;
mod score;
mod spread;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::api::placement::{PlacementPolicy, PlacementType};
use crate::error::{Classify, ErrorClass};
use crate::model::id::{ClusterName, PlacementKey};
use crate::model::records::{Binding, ClusterDecision};

pub use bindings::binding_name;
pub use decided::schedule_decided;
pub use explain::{differences, explain};
pub use fleet::{Fleet, FleetChange};
pub use reads::{Readers, Reads};

/// Decisions a policy snapshot lists at most; the API allows no more.
pub const DECISIONS_MAX: usize = 1000;
/// Clusters that were not picked and are listed all the same, at most: enough to explain, small enough to store.
pub const UNSELECTED_DECISIONS_MAX: usize = 20;

/// What one placement's scheduling depends on.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The placement. One with a namespace goes only to clusters that have it.
    pub placement: &'a PlacementKey,
    /// Its policy, with defaults; `None` picks every cluster.
    pub policy: Option<&'a PlacementPolicy>,
    /// The index of the policy's snapshot: bindings of another index are evaluated again.
    pub policy_index: u64,
    /// The fleet: every cluster git names, eligible or not.
    pub clusters: &'a Fleet,
    /// The placement's bindings, in any order.
    pub bindings: &'a [Arc<Binding>],
    /// A cluster that holds the placement (its binding is scheduled or bound and not being removed) counts as eligible,
    /// whatever it reports: so an outage does not become a removal when a changed policy evaluates every cluster again.
    pub keep_held: bool,
    /// What becomes of a property that is no quantity.
    pub bad_values: BadValues,
}

/// What becomes of a cluster's property that is asked for and is no quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BadValues {
    /// The cluster does not match, and the reason says so.
    #[default]
    Mismatch,
    /// Nothing is scheduled, as KubeFleet does.
    Error,
}

/// What is to happen to a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// It is new.
    Create,
    /// It now belongs to the current policy, and is back in the state it had if it was unscheduled.
    Patch,
    /// Its cluster is no longer picked: what it delivered is to be removed.
    Unschedule,
    /// Its cluster is no longer in the fleet: the record goes, and nothing on the cluster is touched.
    Leave,
}

/// A binding that changes.
#[derive(Clone, Debug, PartialEq)]
pub struct BindingChange {
    /// What happens to it.
    pub action: Action,
    /// The binding as it is afterwards; for [`Action::Leave`] as it was.
    pub binding: Binding,
}

/// What came of scheduling a placement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// What happens to bindings: those created, patched, unscheduled and left, in this order.
    pub bindings: Vec<BindingChange>,
    /// The decisions in KubeFleet's order: picked clusters first, then some that were not.
    pub decisions: Vec<ClusterDecision>,
    /// Whether the policy got the clusters it asks for.
    pub fulfilled: bool,
    /// How many clusters were found, for people.
    pub message: String,
}

/// Why a placement cannot be scheduled. Each concerns that placement alone, which keeps its last good state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A cluster's property is asked for and is no quantity.
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
    /// A requirement that no property can be compared with.
    #[error("{field}: {why}; correct it")]
    BadRequirement {
        /// The field.
        field: String,
        /// What is wrong.
        why: String,
    },
    /// A policy without what its type requires.
    #[error("{field} is required for {placement_type}; set it")]
    Incomplete {
        /// The field.
        field: &'static str,
        /// The type.
        placement_type: &'static str,
    },
    /// Two bindings of one placement are for one cluster.
    #[error("bindings {first} and {second} are both for cluster {cluster}; this should not happen, report it")]
    DuplicateBinding {
        /// The first by name.
        first: String,
        /// The second by name.
        second: String,
        /// The cluster.
        cluster: ClusterName,
    },
    /// An unscheduled binding is picked again, and nobody knows what it was.
    #[error("binding {binding} is unscheduled without the state it had before; this should not happen, report it")]
    NoPreviousState {
        /// The binding.
        binding: String,
    },
}

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::BadValue { .. } | Self::BadRequirement { .. } | Self::Incomplete { .. } => ErrorClass::Invalid,
            Self::DuplicateBinding { .. } | Self::NoPreviousState { .. } => ErrorClass::Bug,
        }
    }
}

/// Decides which clusters a placement goes to, and what that means for its bindings. The order of `bindings` does not
/// matter.
///
/// # Errors
/// [`Error::Incomplete`] for the policy; [`Error::BadValue`] and [`Error::BadRequirement`] with [`BadValues::Error`]; the others
/// for records that contradict each other.
///
/// Source: KubeFleet, one scheduling cycle. It differs where a cluster is no longer in the fleet: KubeFleet unschedules
/// that binding, here it is left.
pub fn schedule(request: &Request<'_>) -> Result<Outcome, Error> {
    let placement_type = request.policy.map_or(PlacementType::PickAll, |policy| policy.placement_type);
    let bindings = bindings::Classified::of(request)?;
    match (placement_type, request.policy) {
        (PlacementType::PickN, Some(policy)) => pick::pick_n(request, &bindings, policy),
        (PlacementType::PickFixed, Some(policy)) => pick::pick_fixed(request, &bindings, policy),
        _ => pick::pick_all(request, &bindings),
    }
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
