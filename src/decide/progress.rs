//! Journal entries about a rollout: each step once.

use serde_json::json;

use super::Pass;
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

impl Pass<'_> {
    /// Writes entries for conditions that have become true: in order, and each once per rollout. A rollout starts with a
    /// snapshot, and when clusters join.
    pub(super) fn note_progress(&mut self, before: &[Condition]) {
        let namespaced = self.state.record.key.namespace.is_some();
        let holds = |conditions: &[Condition], type_: &ConditionType| {
            find_condition(conditions, &type_.on_placement(namespaced))
                .is_some_and(|c| c.status == ConditionStatus::True)
        };
        let record = &self.state.record;
        let Some(snapshot) = self.reported_snapshot() else { return };
        let first = &PROGRESS_EVENTS[0].0;
        let now = &record.conditions;
        let begins = holds(now, first) && !holds(before, first);
        let written = record.journaled.filter(|(of, _)| *of == snapshot && !begins).map_or(0, |(_, written)| written);
        let new = PROGRESS_EVENTS[written..].iter().take_while(|(type_, _)| holds(now, type_)).count();
        for (_, event) in &PROGRESS_EVENTS[written..written + new] {
            self.note(event.clone(), None, json!({"snapshot": snapshot}));
        }
        if written + new > 0 {
            self.state.record.journaled = Some((snapshot, written + new));
        }
    }

    /// Returns the snapshot that the conditions describe: the one of the rolling update, or the one that all clusters of an
    /// External placement are ordered to hold. `None` while they are ordered to hold several.
    fn reported_snapshot(&self) -> Option<u64> {
        let record = &self.state.record;
        if record.spec.strategy.type_ != StrategyType::External {
            return record.goal.or(self.state.newest().map(|newest| newest.index));
        }
        let mut assigned = self.state.bindings().filter(|b| b.state != BindingState::Unscheduled).map(|b| b.snapshot);
        let first = assigned.next()??;
        assigned.all(|index| index == Some(first)).then_some(first)
    }
}
