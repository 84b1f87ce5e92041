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
        match &self.run {
            Some(run) => command_name(&self.placement, run),
            None => self.placement.to_string(),
        }
    }
}

/// Returns the waiting gates of a placement.
pub(super) fn open_gates(key: &PlacementKey, state: &PlacementState) -> Vec<OpenGate> {
    let mut open = Vec::new();
    for run in state.runs.values() {
        for closed in closed_gates(run).into_iter().filter(ClosedGate::is_approval) {
            let run = Some(run.name.clone());
            open.push(OpenGate { placement: key.clone(), run, stage: closed.stage.name.clone() });
        }
    }
    if state.record.closed_gate().is_some() {
        open.push(OpenGate { placement: key.clone(), run: None, stage: DELETION_GATE.to_owned() });
    }
    open
}
