//! Journal entries about a rollout: each step once.

use super::state::PlacementState;
use model::api::condition::{Condition, ConditionStatus, find_condition};
use model::api::placement::StrategyType;
use model::conditions::ConditionType;
use model::journal::JournalKind;
use model::records::BindingState;

/// The journal entries for conditions of a placement that become true, in the order of the chain.
///
/// Source: the events of KubeFleet's placement controller.
const PROGRESS_EVENTS: [(ConditionType, JournalKind); 5] = [
    (ConditionType::RolloutStarted, JournalKind::PlacementRolloutStarted),
    (ConditionType::Overridden, JournalKind::PlacementOverriddenSucceeded),
    (ConditionType::WorkSynchronized, JournalKind::PlacementWorkSynchronized),
    (ConditionType::Applied, JournalKind::PlacementApplied),
    (ConditionType::Available, JournalKind::PlacementRolloutCompleted),
];

/// The entries about a rollout that are due, and how many of it there are then.
pub(super) struct DueEntries {
    /// The snapshot that is rolled out.
    pub snapshot: u64,
    /// What has become true, in order.
    pub new: Vec<JournalKind>,
    /// How many entries there are about this rollout, with the new ones.
    pub written: usize,
}

/// Returns the entries for conditions that have become true: each once per rollout. A rollout starts with a snapshot, and when clusters join.
pub(super) fn progress_since(before: &[Condition], state: &PlacementState) -> Option<DueEntries> {
    let record = &state.record;
    let snapshot = reported_snapshot(state)?;
    let is_namespaced = record.key.namespace.is_some();
    let first = &PROGRESS_EVENTS[0].0;
    let begins = holds(&record.conditions, first, is_namespaced) && !holds(before, first, is_namespaced);
    let known = record.journaled.filter(|(of, _)| *of == snapshot && !begins).map_or(0, |(_, written)| written);
    let due = PROGRESS_EVENTS[known..].iter().take_while(|(type_, _)| holds(&record.conditions, type_, is_namespaced));
    let new: Vec<JournalKind> = due.map(|(_, event)| event.clone()).collect();
    let written = known + new.len();
    (written > 0).then_some(DueEntries { snapshot, new, written })
}

/// Tells whether a condition of a placement is true.
fn holds(conditions: &[Condition], type_: &ConditionType, is_namespaced: bool) -> bool {
    let condition = find_condition(conditions, &type_.on_placement(is_namespaced));
    condition.is_some_and(|condition| condition.status == ConditionStatus::True)
}

/// Returns the snapshot that the conditions describe: the one of the rolling update, or the one that all clusters of an
/// External placement are ordered to hold. `None` while they are ordered to hold several.
fn reported_snapshot(state: &PlacementState) -> Option<u64> {
    let record = &state.record;
    if record.spec.strategy.type_ != StrategyType::External {
        return record.goal.or(state.newest().map(|newest| newest.index));
    }
    let mut assigned = state.bindings().filter(|b| b.state != BindingState::Unscheduled).map(|b| b.snapshot);
    let first = assigned.next()??;
    assigned.all(|index| index == Some(first)).then_some(first)
}
