//! A placement whose clusters an OCM Placement picked, named by annotation.

use std::collections::BTreeMap;

use super::bindings::{Classified, patch, unschedule};
use super::{BindingChange, DECISIONS_MAX, Error, Outcome, Request};
use model::id::ClusterName;
use model::records::{Binding, BindingState, ClusterDecision, PickReason};

/// Adapts a placement's bindings to the decided clusters, each with the reason to record.
///
/// The request's policy is ignored, and no cluster is filtered again: the OCM Placement has evaluated them. A cluster that is
/// not in the fleet is skipped, with a message.
///
/// # Errors
/// [`Error::DuplicateBinding`] and [`Error::NoPreviousState`]: records that contradict each other.
pub fn schedule_decided(request: &Request<'_>, decided: &BTreeMap<ClusterName, String>) -> Result<Outcome, Error> {
    let bindings = Classified::of(request)?;
    let all = [&bindings.scheduled, &bindings.bound, &bindings.obsolete, &bindings.unscheduled].into_iter().flatten();
    // Bindings that are being removed are not among them: their clusters get a new one beside the old one. No cluster has two
    // of the others, or the classification would have failed.
    let mut present: BTreeMap<&ClusterName, &Binding> = all.map(|&binding| (&binding.cluster, binding)).collect();
    let mut created = Vec::new();
    let mut patched = Vec::new();
    let mut decisions = Vec::new();
    let mut missing = Vec::new();
    for (cluster, reason) in decided {
        if !request.clusters.contains(cluster.as_str()) {
            missing.push(cluster.as_str());
            continue;
        }
        let decision = ClusterDecision {
            cluster_name: cluster.clone(),
            selected: true,
            cluster_score: None,
            reason: PickReason::Other(reason.clone()),
        };
        match present.remove(cluster) {
            None => created.push(bindings.create(request, decision.clone())),
            Some(binding) => {
                let is_current = binding.policy_index == request.policy_index;
                // A new reason alone, such as another group, does not change the binding.
                if binding.state == BindingState::Unscheduled || !is_current {
                    patched.push(patch(request, binding, decision.clone())?);
                }
            }
        }
        decisions.push(decision);
    }
    // Bindings that were already unscheduled wait for their removal.
    let dropped = present.into_values().filter(|binding| binding.state != BindingState::Unscheduled);
    let unscheduled: Vec<BindingChange> = dropped.map(unschedule).collect();
    // Only the list is truncated, because of the API's limit: every decided cluster has its binding.
    decisions.truncate(DECISIONS_MAX);
    let found = decided.len() - missing.len();
    let absent = match missing.as_slice() {
        [] => String::new(),
        names => format!("; not in the fleet: {}", names.join(", ")),
    };
    Ok(Outcome {
        bindings: [created, patched, unscheduled].into_iter().flatten().chain(bindings.leaves()).collect(),
        decisions,
        fulfilled: missing.is_empty(),
        message: format!("{found} clusters found{absent}"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Action, BadValues, Fleet};
    use model::cluster::Cluster;
    use model::id::PlacementKey;

    fn binding(cluster: &str, state: &str, policy: u64) -> Binding {
        let binding = json!({
            "name": format!("p-{cluster}"), "placement": "p", "cluster": cluster, "state": state, "previousState": "Bound",
            "policyIndex": policy, "generation": 1, "decision": {"clusterName": cluster, "selected": true, "reason": ""},
        });
        serde_json::from_value(binding).expect("a binding")
    }

    #[test]
    fn bindings_follow_what_was_decided() {
        let fleet: Fleet =
            ["a", "b", "c", "d", "e"].into_iter().map(|name| (ClusterName::from(name), Cluster::default())).collect();
        let bindings = [
            binding("a", "Bound", 0),
            binding("b", "Unscheduled", 0),
            binding("c", "Scheduled", 0),
            binding("d", "Bound", 3),
            binding("gone", "Bound", 0),
        ]
        .map(std::sync::Arc::new);
        let key = PlacementKey::cluster_scoped("p");
        let request = Request {
            placement: &key,
            policy: None,
            policy_index: 0,
            clusters: &fleet,
            bindings: &bindings,
            keep_held: true,
            bad_values: BadValues::Mismatch,
            tenant: None,
        };
        let wanted = ["a", "b", "d", "e", "nowhere"].map(|name| (ClusterName::from(name), format!("why {name}")));
        let outcome = schedule_decided(&request, &BTreeMap::from(wanted)).expect("it is scheduled");
        let changes: Vec<(Action, &str, BindingState)> =
            outcome.bindings.iter().map(|c| (c.action, c.binding.cluster.as_str(), c.binding.state)).collect();
        assert_eq!(
            changes,
            [
                (Action::Create, "e", BindingState::Scheduled),
                (Action::Patch, "b", BindingState::Bound),
                (Action::Patch, "d", BindingState::Bound),
                (Action::Unschedule, "c", BindingState::Unscheduled),
                (Action::Leave, "gone", BindingState::Bound),
            ]
        );
        let decided: Vec<&str> = outcome.decisions.iter().map(|d| d.cluster_name.as_str()).collect();
        assert_eq!(decided, ["a", "b", "d", "e"]);
        assert_eq!(
            (outcome.fulfilled, outcome.message.as_str()),
            (false, "4 clusters found; not in the fleet: nowhere")
        );
    }
}
