//! Rolls up clusters into the conditions of their placement.

use std::collections::BTreeSet;

use super::links::{LINKS_MAX, Link, chain};
use super::placement::{PlacementView, reported, why};
use super::work::{counted, listing};
use model::along::Along;
use model::api::condition::{Condition, ConditionStatus, set_condition};
use model::conditions::{ConditionType, Reason};
use model::id::ClusterName;
use model::records::{Binding, ClusterDecision, DeletionGate};

/// gitfleet's own types, in display order.
const OWN_TYPES: [ConditionType; 5] = [
    ConditionType::Stalled,
    ConditionType::Halted,
    ConditionType::DeletionGuarded,
    ConditionType::ClustersDeferred,
    ConditionType::Removing,
];

/// A picked cluster with its present binding.
type Picked<'a> = (&'a ClusterDecision, Option<&'a Binding>);

struct RollUp<'a> {
    view: &'a PlacementView<'a>,
    picked: Vec<Picked<'a>>,
    conditions: Vec<Condition>,
    kept: BTreeSet<ConditionType>,
}

/// The contribution of a cluster: how far its chain of conditions is true.
struct ClusterLinks<'a> {
    cluster: &'a ClusterName,
    /// The snapshot shown for it.
    shown: Option<u64>,
    /// The status of each link of the chain, in order.
    links: [ConditionStatus; LINKS_MAX],
    /// Overrides changed its objects.
    overridden: bool,
}

impl<'a> ClusterLinks<'a> {
    fn of(view: &PlacementView, (decision, binding): Picked<'a>) -> Self {
        let mut found = Self {
            cluster: &decision.cluster_name,
            shown: view.shown_index(binding),
            links: [ConditionStatus::Unknown; LINKS_MAX],
            overridden: false,
        };
        for (place, (_, own)) in found.links.iter_mut().zip(reported(view, binding)) {
            *place = own.map_or(ConditionStatus::Unknown, |own| own.status);
            found.overridden |= own.is_some_and(|own| own.reason == Reason::OverriddenSucceeded);
        }
        found
    }
}

/// Returns the placement's conditions: Scheduled, the chain as far as every cluster got, and gitfleet's own.
///
/// One cluster with an unknown link makes the placement's condition Unknown, else one with a false link makes it False; both
/// end the chain. While scheduling is pending the rest of the chain stays as it was, with its old generation.
pub fn placement_conditions(view: &PlacementView) -> Vec<Condition> {
    let picked = view.picked();
    let conditions = view.record.conditions.clone();
    let mut roll = RollUp { view, picked, conditions, kept: BTreeSet::new() };
    let pending = roll.scheduled();
    if pending {
        roll.kept.extend(roll.conditions.iter().map(|c| c.type_.clone()));
        for own in OWN_TYPES {
            roll.kept.remove(&own);
        }
    } else {
        let clusters: Vec<_> = roll.picked.iter().map(|picked| ClusterLinks::of(view, *picked)).collect();
        if !clusters.is_empty() {
            roll.chain(&clusters);
        }
    }
    roll.own();
    roll.in_order()
}

/// Returns the index of the snapshot shown for all of these clusters; `None` if they differ.
pub fn common_index(view: &PlacementView, picked: &[Picked]) -> Option<u64> {
    common(picked.iter().map(|(_, binding)| view.shown_index(*binding)))
}

fn common(mut indexes: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let first = indexes.next()??;
    indexes.all(|index| index == Some(first)).then_some(first)
}

impl RollUp<'_> {
    fn set(&mut self, type_: ConditionType, status: ConditionStatus, reason: Reason, message: String) {
        self.kept.insert(type_.clone());
        set_condition(
            &mut self.conditions,
            Condition::new(type_, status, reason, message, self.view.record.generation, self.view.now),
        );
    }

    fn prefixed(&self, type_: &ConditionType) -> ConditionType {
        type_.on_placement(self.view.record.key.namespace.is_some())
    }

    /// Sets Scheduled and tells whether the rest is still undetermined.
    fn scheduled(&mut self) -> bool {
        let type_ = self.prefixed(&ConditionType::Scheduled);
        let view = self.view;
        if !view.is_scheduled() {
            if let Some(error) = &view.record.error {
                self.set(type_, ConditionStatus::False, Reason::InvalidResourceSelectors, error.clone());
                return false;
            }
            let message = "clusters are being picked for the placement as it is now".to_owned();
            self.set(type_, ConditionStatus::Unknown, Reason::SchedulePending, message);
            return true;
        }
        let picked = counted(view.selected().count(), "cluster");
        if view.policy.is_some_and(|p| p.fulfilled) {
            self.set(type_, ConditionStatus::True, Reason::SchedulingPolicyFulfilled, format!("{picked} picked"));
        } else {
            let message = format!("{picked} picked, fewer than the policy asks for");
            self.set(type_, ConditionStatus::False, Reason::SchedulingPolicyUnfulfilled, message);
        }
        false
    }

    fn chain(&mut self, clusters: &[ClusterLinks]) {
        if self.view.is_external() && self.is_external_open(clusters) {
            return;
        }
        for (position, link) in chain(self.view.mode()).iter().enumerate() {
            let unknown = in_status(clusters, position, ConditionStatus::Unknown).count();
            let failed = in_status(clusters, position, ConditionStatus::False).count();
            let (state, reason, text, count) = match (unknown, failed) {
                (0, 0) => (ConditionStatus::True, holding_reason(link, clusters), link.phrases[2], clusters.len()),
                (0, _) => (ConditionStatus::False, link.failed.clone(), link.phrases[1], failed),
                _ => (ConditionStatus::Unknown, link.unknown.clone(), link.phrases[0], unknown),
            };
            let mut message = format!("{count} of {} {text}", counted(clusters.len(), "cluster"));
            if state != ConditionStatus::True {
                let names = in_status(clusters, position, state).map(|c| c.cluster.to_string());
                message = format!("{message}: {}", listing(names));
                if let Some(halted) = &self.view.record.halted {
                    message = format!("{message}; the rollout is halted: {halted}");
                }
            }
            self.set(self.prefixed(&link.type_), state, reason, message);
            // A link says nothing while an earlier one does not hold.
            if state != ConditionStatus::True {
                return;
            }
        }
    }

    /// Sets RolloutStarted to Unknown if only update runs can bring the clusters to one snapshot; returns whether it did.
    fn is_external_open(&mut self, clusters: &[ClusterLinks]) -> bool {
        let message = if clusters.iter().all(|c| c.shown.is_none()) {
            "no cluster holds a snapshot yet: a staged update run moves them"
        } else if common(clusters.iter().map(|c| c.shown)).is_none() {
            "clusters hold different snapshots: staged update runs move them"
        } else if clusters.iter().any(|c| c.links[0] == ConditionStatus::Unknown) {
            "staged update runs move the clusters"
        } else {
            return false;
        };
        self.set(
            self.prefixed(&ConditionType::RolloutStarted),
            ConditionStatus::Unknown,
            Reason::RolloutControlledByExternalController,
            format!("{message}{}", self.ignored_words()),
        );
        true
    }

    /// Names the clusters that runs do not move.
    fn ignored_words(&self) -> String {
        let ignored = &self.view.record.ignored;
        if ignored.is_empty() {
            return String::new();
        }
        let count = counted(ignored.len(), "cluster");
        let names = listing(ignored.iter().map(ToString::to_string));
        format!("; {count} in no stage, and left as they are: {names}")
    }

    fn own(&mut self) {
        let record = self.view.record;
        let removing = "gone from git; what it delivered is being removed".to_owned();
        let rows = [
            (Reason::PlacementInvalid, record.error.clone()),
            (Reason::FailuresExceedMax, record.halted.clone()),
            (Reason::ApprovalRequired, record.closed_gate().map(gate_message)),
            (Reason::ClustersOffline, self.deferred()),
            (Reason::RemovedFromGit, record.removed.then_some(removing)),
        ];
        for (type_, (reason, message)) in OWN_TYPES.into_iter().zip(rows) {
            if let Some(message) = message {
                self.set(type_, ConditionStatus::True, reason, message);
            }
        }
    }

    fn deferred(&self) -> Option<String> {
        let view = self.view;
        let mut clusters = Along::new(view.clusters);
        let mut names = Vec::new();
        for (decision, binding) in &self.picked {
            let Some(offline) = clusters.get(&decision.cluster_name).filter(|cluster| !cluster.online) else {
                continue;
            };
            if !binding.is_some_and(|b| view.is_up_to_date(b)) {
                names.push(format!("{}{}", decision.cluster_name, why(offline)));
            }
        }
        if names.is_empty() {
            return None;
        }
        let count = counted(names.len(), "offline cluster");
        Some(format!("{count} to update on return: {}", listing(names.into_iter())))
    }

    fn in_order(mut self) -> Vec<Condition> {
        self.conditions.retain(|c| self.kept.contains(&c.type_));
        // The chain first: its types are not among gitfleet's own.
        self.conditions.sort_by_key(|c| (OWN_TYPES.iter().position(|t| *t == c.type_), c.type_.chain_position()));
        self.conditions
    }
}

/// Returns the clusters whose link at a position of the chain has a status.
fn in_status<'c, 'n>(
    clusters: &'c [ClusterLinks<'n>],
    position: usize,
    status: ConditionStatus,
) -> impl Iterator<Item = &'c ClusterLinks<'n>> {
    clusters.iter().filter(move |cluster| cluster.links[position] == status)
}

/// Describes what a closed deletion gate protects, and why it is closed.
fn gate_message(gate: &DeletionGate) -> String {
    let objects: usize = gate.deletions.values().map(BTreeSet::len).sum();
    let mut what = Vec::new();
    if objects > 0 {
        what.push(format!("{} on {}", counted(objects, "deletion"), counted(gate.deletions.len(), "cluster")));
    }
    if !gate.leaving.is_empty() {
        what.push(format!("{} that left", counted(gate.leaving.len(), "cluster")));
    }
    format!("{} waiting for approval of digest {}: {}", what.join(" and "), gate.digest.short(), gate.reason)
}

fn holding_reason(link: &Link, clusters: &[ClusterLinks]) -> Reason {
    let overridden = clusters.iter().any(|c| c.overridden);
    if link.type_ == ConditionType::Overridden && !overridden {
        Reason::NoOverrideSpecified
    } else {
        link.holds.clone()
    }
}

#[cfg(test)]
mod tests;
