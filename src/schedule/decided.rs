//! A placement whose clusters somebody else picked: an OCM Placement, named by annotation.

use std::collections::BTreeMap;

use super::bindings::{Class, Classified, patch, unschedule};
use super::{Action, BindingChange, DECISIONS_MAX, Error, Outcome, Request};
use crate::model::id::ClusterName;
use crate::model::records::{BindingState, ClusterDecision};

/// Brings a placement's bindings to the clusters that were decided, each with the reason to record.
///
/// The policy of the request is not looked at. Whoever decided has judged clusters already: none is filtered again. A cluster
/// that is not in the fleet is passed over and said so.
///
/// # Errors
/// [`Error::DuplicateBinding`] and [`Error::NoPreviousState`]: records that contradict each other.
pub fn schedule_decided(request: &Request<'_>, decided: &BTreeMap<ClusterName, String>) -> Result<Outcome, Error> {
    let bindings = Classified::of(request)?;
    let (mut changes, mut unscheduled, mut decisions, mut missing) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (cluster, reason) in decided {
        if !request.clusters.contains(cluster.as_str()) {
            missing.push(cluster.as_str());
            continue;
        }
        let decision = ClusterDecision {
            cluster_name: cluster.clone(),
            selected: true,
            cluster_score: None,
            reason: reason.clone(),
        };
        match bindings.by_cluster.get(cluster) {
            None => changes.push(bindings.create(request, decision.clone())),
            Some((Class::Obsolete | Class::Unscheduled, binding)) => {
                changes.push(patch(request, binding, decision.clone())?);
            }
            Some((Class::Scheduled | Class::Bound, _)) => {}
        }
        decisions.push(decision);
    }
    for (cluster, (_, binding)) in &bindings.by_cluster {
        if !decided.contains_key(*cluster) && binding.state != BindingState::Unscheduled {
            unscheduled.push(unschedule(binding));
        }
    }
    changes.sort_by_key(|change: &BindingChange| change.action != Action::Create);
    decisions.truncate(DECISIONS_MAX);
    let found = decided.len() - missing.len();
    let absent = match missing.as_slice() {
        [] => String::new(),
        names => format!("; not in the fleet: {}", names.join(", ")),
    };
    Ok(Outcome {
        bindings: changes.into_iter().chain(unscheduled).chain(bindings.leaves()).collect(),
        decisions,
        fulfilled: missing.is_empty(),
        message: format!("{found} clusters found{absent}"),
    })
}
