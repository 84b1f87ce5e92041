//! Waiting gates, for the approvers of a scenario.

use decide::state::PlacementState;
use decide::status::staged_run::{ClosedGate, closed_gates, command_name};
use model::id::PlacementKey;
use model::runs::DELETION_GATE;

/// A gate that waits for an approval.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OpenGate {
    pub placement: PlacementKey,
    /// Absent for the deletion gate of the placement.
    pub run: Option<String>,
    pub stage: String,
}

impl OpenGate {
    /// Returns its name for approvals.
    pub(super) fn target(&self) -> String {
        let own = || self.placement.to_string();
        self.run.as_ref().map_or_else(own, |run| command_name(&self.placement, run))
    }
}

/// Returns the waiting gates of a placement.
pub(super) fn open_gates(key: &PlacementKey, state: &PlacementState) -> Vec<OpenGate> {
    let gate = |run: Option<&str>, stage: &str| OpenGate {
        placement: key.clone(),
        run: run.map(str::to_owned),
        stage: stage.to_owned(),
    };
    let of_runs = state.runs.values().flat_map(|run| {
        closed_gates(run).into_iter().filter(ClosedGate::is_approval).map(move |closed| (run, closed.stage))
    });
    let mut open: Vec<OpenGate> = of_runs.map(|(run, stage)| gate(Some(&run.name), &stage.name)).collect();
    open.extend(state.record.closed_gate().map(|_| gate(None, DELETION_GATE)));
    open
}
