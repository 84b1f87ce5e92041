//! Roll-up of clusters into the conditions of their placement.

use std::collections::BTreeSet;

use super::placement::{ClusterPlacementStatus, Link, PlacementStatus, PlacementView, chain, identities, why};
use super::work::{counted, listing};
use crate::api::condition::{Condition, ConditionStatus, find_condition, set_condition};
use crate::model::records::{Binding, ClusterDecision};

/// Types of our own, in the order they are shown.
const OWN_TYPES: [&str; 5] = ["Stalled", "Halted", "DeletionGuarded", "ClustersDeferred", "Removing"];

/// Reason of a RolloutStarted that only staged update runs can answer.
const EXTERNAL: &str = "RolloutControlledByExternalController";

/// Hexadecimal digits of a digest that a message shows; enough to tell gates apart.
const DIGEST_SHOWN: usize = 12;

struct RollUp<'a> {
    view: &'a PlacementView<'a>,
    conditions: Vec<Condition>,
    kept: BTreeSet<String>,
}

/// Returns the placement's conditions: Scheduled, the chain as far as every cluster got, and our own.
///
/// In the chain, one cluster that cannot be told makes the placement's condition Unknown, else one that fails makes it
/// False; both end the chain. While scheduling is pending the rest of the chain stays as it was, with its old generation.
pub fn placement_conditions(view: &PlacementView, status: &PlacementStatus) -> Vec<Condition> {
    let mut roll = RollUp { view, conditions: view.record.conditions.clone(), kept: BTreeSet::new() };
    let pending = roll.scheduled();
    if pending {
        roll.kept.extend(roll.conditions.iter().map(|c| c.type_.clone()));
        for own in OWN_TYPES {
            roll.kept.remove(own);
        }
    } else {
        let clusters: Vec<_> = status.placement_statuses.iter().filter(|c| !c.cluster_name.is_empty()).collect();
        if !clusters.is_empty() {
            roll.chain(&clusters, status);
        }
    }
    roll.own();
    roll.in_order()
}

/// Shows the snapshot that all clusters of an External placement hold; none where they differ.
pub fn show_common_snapshot(view: &PlacementView, status: &mut PlacementStatus) {
    let mut indexes =
        status.placement_statuses.iter().filter(|c| !c.cluster_name.is_empty()).map(|c| &c.observed_resource_index);
    let Some(first) = indexes.next() else { return };
    let common = if indexes.all(|i| i == first) { first.clone() } else { String::new() };
    let shown = common.parse().ok().and_then(|index| view.snapshot_at(index));
    status.selected_resources = shown.map(identities).unwrap_or_default();
    status.observed_resource_index = common;
}

impl RollUp<'_> {
    fn set(&mut self, type_: String, status: ConditionStatus, reason: &str, message: String) {
        self.kept.insert(type_.clone());
        set_condition(
            &mut self.conditions,
            Condition {
                type_,
                status,
                reason: reason.to_owned(),
                message,
                observed_generation: self.view.record.generation,
                last_transition_time: self.view.now,
            },
        );
    }

    fn prefixed(&self, type_: &str) -> String {
        format!("{}{type_}", self.view.record.key.kind())
    }

    /// Sets Scheduled and tells whether nothing later can be said yet.
    fn scheduled(&mut self) -> bool {
        let type_ = self.prefixed("Scheduled");
        let view = self.view;
        if !view.is_scheduled() {
            if let Some(error) = &view.record.error {
                self.set(type_, ConditionStatus::False, "InvalidResourceSelectors", error.clone());
                return false;
            }
            let message = "clusters are being picked for the placement as it is now".to_owned();
            self.set(type_, ConditionStatus::Unknown, "SchedulePending", message);
            return true;
        }
        let picked = counted(view.selected().count(), "cluster");
        if view.policy.is_some_and(|p| p.fulfilled) {
            self.set(type_, ConditionStatus::True, "SchedulingPolicyFulfilled", format!("{picked} picked"));
        } else {
            let message = format!("{picked} picked, fewer than the policy asks for");
            self.set(type_, ConditionStatus::False, "SchedulingPolicyUnfulfilled", message);
        }
        false
    }

    fn chain(&mut self, clusters: &[&ClusterPlacementStatus], status: &PlacementStatus) {
        if self.view.is_external() && self.is_external_open(clusters, status) {
            return;
        }
        for link in chain(self.view.mode()) {
            let in_status = |wanted: ConditionStatus| {
                let is = |c: &&&ClusterPlacementStatus| {
                    find_condition(&c.conditions, link.type_).map_or(ConditionStatus::Unknown, |c| c.status) == wanted
                };
                clusters.iter().filter(is).map(|c| c.cluster_name.clone()).collect::<Vec<_>>()
            };
            let (state, reason, words, names) =
                match (in_status(ConditionStatus::Unknown), in_status(ConditionStatus::False)) {
                    (unknown, _) if !unknown.is_empty() => {
                        (ConditionStatus::Unknown, link.unknown, link.words[0], unknown)
                    }
                    (_, failed) if !failed.is_empty() => (ConditionStatus::False, link.failed, link.words[1], failed),
                    _ => (
                        ConditionStatus::True,
                        holding_reason(link, clusters),
                        link.words[2],
                        in_status(ConditionStatus::True),
                    ),
                };
            let mut message = format!("{} of {} {words}", names.len(), counted(clusters.len(), "cluster"));
            if state != ConditionStatus::True {
                message = format!("{message}: {}", listing(names.into_iter()));
                if let Some(halted) = &self.view.record.halted {
                    message = format!("{message}; the rollout is halted: {halted}");
                }
            }
            self.set(self.prefixed(link.type_), state, reason, message);
            if state != ConditionStatus::True {
                return;
            }
        }
    }

    /// Sets RolloutStarted to Unknown where only update runs can bring the clusters together, and tells so.
    fn is_external_open(&mut self, clusters: &[&ClusterPlacementStatus], status: &PlacementStatus) -> bool {
        let told = |c: &&ClusterPlacementStatus| {
            find_condition(&c.conditions, "RolloutStarted").is_some_and(|c| c.status != ConditionStatus::Unknown)
        };
        let message = if clusters.iter().all(|c| c.observed_resource_index.is_empty()) {
            "no cluster holds a snapshot yet: a staged update run moves them"
        } else if status.observed_resource_index.is_empty() {
            "clusters hold different snapshots: staged update runs move them"
        } else if !clusters.iter().all(told) {
            "staged update runs move the clusters"
        } else {
            return false;
        };
        self.set(self.prefixed("RolloutStarted"), ConditionStatus::Unknown, EXTERNAL, message.to_owned());
        true
    }

    fn own(&mut self) {
        let record = self.view.record;
        let gate = record.closed_gate().map(|gate| {
            let objects: usize = gate.deletions.values().map(BTreeSet::len).sum();
            let digest: String = gate.digest.as_str().chars().take(DIGEST_SHOWN).collect();
            format!(
                "{} on {} waiting for approval of digest {digest}: {}",
                counted(objects, "deletion"),
                counted(gate.deletions.len(), "cluster"),
                gate.reason
            )
        });
        let removing = "gone from git; what it delivered is being removed".to_owned();
        let rows = [
            ("PlacementInvalid", record.error.clone()),
            ("FailuresExceedMax", record.halted.clone()),
            ("ApprovalRequired", gate),
            ("ClustersOffline", self.deferred()),
            ("RemovedFromGit", record.removed.then_some(removing)),
        ];
        for (type_, (reason, message)) in OWN_TYPES.into_iter().zip(rows) {
            if let Some(message) = message {
                self.set(type_.to_owned(), ConditionStatus::True, reason, message);
            }
        }
    }

    fn deferred(&self) -> Option<String> {
        let view = self.view;
        let late = |(decision, binding): (&ClusterDecision, Option<&Binding>)| {
            let offline = view.offline(&decision.cluster_name)?;
            let late = !binding.is_some_and(|b| view.is_up_to_date(b));
            late.then(|| format!("{}{}", decision.cluster_name, why(offline)))
        };
        let names: Vec<String> = view.picked().into_iter().filter_map(late).collect();
        let count = counted(names.len(), "offline cluster");
        (!names.is_empty()).then(|| format!("{count} brought up to date on return: {}", listing(names.into_iter())))
    }

    fn in_order(mut self) -> Vec<Condition> {
        self.conditions.retain(|c| self.kept.contains(&c.type_));
        let prefix = self.view.record.key.kind();
        let place = |condition: &Condition| {
            const ORDER: [&str; 7] = [
                "Scheduled",
                "RolloutStarted",
                "Overridden",
                "WorkSynchronized",
                "Applied",
                "Available",
                "DiffReported",
            ];
            match condition.type_.strip_prefix(prefix) {
                Some(type_) => ORDER.iter().position(|t| *t == type_).unwrap_or(ORDER.len()),
                None => ORDER.len() + 1 + OWN_TYPES.iter().position(|t| *t == condition.type_).unwrap_or_default(),
            }
        };
        self.conditions.sort_by_key(place);
        self.conditions
    }
}

fn holding_reason(link: &Link, clusters: &[&ClusterPlacementStatus]) -> &'static str {
    let overridden = |c: &&ClusterPlacementStatus| {
        find_condition(&c.conditions, "Overridden").is_some_and(|c| c.reason == "OverriddenSucceeded")
    };
    if link.type_ == "Overridden" && !clusters.iter().any(overridden) { "NoOverrideSpecified" } else { link.holds }
}

#[cfg(test)]
mod tests;
