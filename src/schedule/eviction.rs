//! Evaluates evictions against disruption budgets.
//!
//! An eviction is evaluated once: to try again, write a new one.
//!
//! Source: KubeFleet, eviction controller.

use model::api::condition::{ConditionStatus, find_condition};
use model::api::eviction::DisruptionBudgetSpec;
use model::api::placement::{IntOrPercent, PlacementPolicy, PlacementType};
use model::conditions::{ConditionType, Reason};
use model::id::ClusterName;
use model::records::{Binding, BindingState};

/// The inputs of an eviction's verdict.
#[derive(Clone, Copy, Debug)]
pub struct EvictionRequest<'a> {
    /// The cluster to leave.
    pub cluster: &'a ClusterName,
    /// The ClusterResourcePlacement of that name, if there is one.
    pub placement: Option<EvictedPlacement<'a>>,
    /// All its bindings, in any order.
    pub bindings: &'a [Binding],
    /// The binding on that cluster has failed: its objects were not applied, or did not become available in time.
    pub failed: bool,
    /// The budget with the placement's name.
    pub budget: Option<&'a DisruptionBudgetSpec>,
}

/// The placement to evict.
#[derive(Clone, Copy, Debug)]
pub struct EvictedPlacement<'a> {
    /// Its policy; `None` picks every cluster.
    pub policy: Option<&'a PlacementPolicy>,
    /// It is being removed.
    pub removed: bool,
}

/// The result of an eviction: its conditions `Valid` and `Executed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the eviction is valid.
    pub valid: bool,
    /// Whether the placement leaves the cluster; `None` for an invalid eviction.
    pub executed: Option<bool>,
    /// The reason, as text for users.
    pub message: String,
    /// The binding to remove, by name; `None` if none is removed.
    pub remove: Option<String>,
}

impl Verdict {
    /// Returns the reason of the condition `Valid`.
    pub fn valid_reason(&self) -> Reason {
        if self.valid {
            Reason::ClusterResourcePlacementEvictionValid
        } else {
            Reason::ClusterResourcePlacementEvictionInvalid
        }
    }

    /// Returns the reason of the condition `Executed`, if there is one.
    pub fn executed_reason(&self) -> Option<Reason> {
        self.executed.map(|executed| {
            if executed {
                Reason::ClusterResourcePlacementEvictionExecuted
            } else {
                Reason::ClusterResourcePlacementEvictionNotExecuted
            }
        })
    }

    fn invalid(message: impl Into<String>) -> Self {
        Self { valid: false, executed: None, message: message.into(), remove: None }
    }

    fn blocked(message: impl Into<String>) -> Self {
        Self { valid: true, executed: Some(false), message: message.into(), remove: None }
    }

    fn executed(message: impl Into<String>, remove: Option<&Binding>) -> Self {
        let remove = remove.map(|binding| binding.name.clone());
        Self { valid: true, executed: Some(true), message: message.into(), remove }
    }
}

/// Evaluates an eviction.
pub fn evict(request: &EvictionRequest<'_>) -> Verdict {
    let Some(placement) = request.placement else { return Verdict::invalid("there is no such placement") };
    let type_ = placement.policy.map_or(PlacementType::PickAll, |policy| policy.placement_type);
    if placement.removed {
        return Verdict::invalid("the placement is being removed");
    }
    if type_ == PlacementType::PickFixed {
        return Verdict::invalid("a PickFixed placement names its clusters; take the cluster off its list instead");
    }
    let mut targets = request.bindings.iter().filter(|binding| binding.cluster == *request.cluster);
    let binding = match (targets.next(), targets.next()) {
        (None, _) => return Verdict::invalid("the placement is not on that cluster"),
        (Some(_), Some(_)) => return Verdict::invalid("the placement has two bindings for that cluster"),
        (Some(binding), None) => binding,
    };
    if binding.deleting {
        return Verdict::executed("the placement is leaving the cluster already", None);
    }
    // An unscheduled binding that was bound still has its objects on the cluster.
    let was_bound = binding.state == BindingState::Unscheduled && binding.previous_state == Some(BindingState::Bound);
    if binding.state != BindingState::Bound && !was_bound {
        return Verdict::blocked("nothing is placed on that cluster yet");
    }
    // With `ReportDiff` nothing is applied there, so an eviction disrupts nothing.
    let reports = find_condition(&binding.conditions, &ConditionType::DiffReported)
        .is_some_and(|condition| condition.observed_generation == binding.generation);
    if request.failed || reports {
        return Verdict::executed("what is placed there does not work, so no budget counts", Some(binding));
    }
    let Some(budget) = request.budget else {
        return Verdict::executed("no budget limits the placement", Some(binding));
    };
    if type_ == PlacementType::PickAll
        && (budget.max_unavailable.is_some() || matches!(budget.min_available, Some(IntOrPercent::Text(_))))
    {
        return Verdict::blocked(
            "the budget cannot be for a PickAll placement, which has no number of clusters; set minAvailable to a number",
        );
    }
    let (allowed, text) = allowed(request.bindings, placement.policy, budget);
    if allowed > 0 { Verdict::executed(text, Some(binding)) } else { Verdict::blocked(text) }
}

/// Returns how many clusters may be disrupted now, and a text with the numbers.
fn allowed(bindings: &[Binding], policy: Option<&PlacementPolicy>, budget: &DisruptionBudgetSpec) -> (i64, String) {
    // KubeFleet counts all bindings, including those that are being removed.
    let total = number(bindings.len());
    let available = number(bindings.iter().filter(|binding| is_available(binding)).count());
    // `PickAll` has no number: percentages were refused for it before.
    let wanted = policy.and_then(|policy| policy.number_of_clusters).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    let allowed = match (&budget.max_unavailable, &budget.min_available) {
        (Some(max), _) => clusters(max, wanted) - (total - available),
        (None, Some(min)) => available - clusters(min, wanted),
        // An empty budget allows nothing, as in KubeFleet.
        (None, None) => 0,
    };
    (
        allowed,
        format!("{available} of {total} clusters are available, and the budget allows {} more to go", allowed.max(0)),
    )
}

fn is_available(binding: &Binding) -> bool {
    find_condition(&binding.conditions, &ConditionType::Available)
        .is_some_and(|condition| condition.is(ConditionStatus::True, binding.generation))
}

/// Returns a limit as a number of clusters; a percentage is one of those wanted.
fn clusters(limit: &IntOrPercent, wanted: usize) -> i64 {
    limit.rounded_up(wanted).map_or(0, number)
}

fn number(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
