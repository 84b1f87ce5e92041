//! Journal entries about how a rollout stands: it halted, its deletions wait, it is done. Each once, when that begins.

use serde_json::{Value, json};

use super::state::PlacementState;
use model::id::CommitId;
use model::journal::JournalKind;
use model::records::PlacementRecord;
use model::runs::{RunPhase, RunRecord};

/// How a rollout stood before a decision.
pub(super) struct Standing {
    is_halted: bool,
    holds_deletions: bool,
    succeeded: Option<u64>,
}

impl Standing {
    pub(super) fn of(record: &PlacementRecord) -> Self {
        Self {
            is_halted: record.halted.is_some(),
            holds_deletions: record.closed_gate().is_some(),
            succeeded: record.last_succeeded,
        }
    }
}

/// Returns the entries about what is different from how the rollout stood before.
pub(super) fn changes_since(before: &Standing, state: &PlacementState) -> Vec<(JournalKind, Value)> {
    let record = &state.record;
    let mut entries = Vec::new();
    if let Some(gate) = record.closed_gate()
        && !before.holds_deletions
    {
        // Its digest may change while clusters report: one entry for each change would be many for one question.
        entries.push((JournalKind::DeletionsHeld, json!({"digest": gate.digest, "message": gate.reason})));
    }
    if let Some(why) = &record.halted
        && !before.is_halted
    {
        let run = state.runs.values().find(|run| run.frozen.is_some() && run.phase == RunPhase::Halted);
        let of_run = run.and_then(RunRecord::snapshot);
        let snapshot = of_run.or(record.goal).or_else(|| state.newest().map(|newest| newest.index));
        let commit = snapshot.and_then(|index| commit_of(state, index));
        let run = run.map(|run| &run.name);
        let facts = json!({"run": run, "snapshot": snapshot, "commit": commit, "message": why});
        entries.push((JournalKind::RolloutHalted, facts));
    }
    if let Some(index) = record.last_succeeded.filter(|index| before.succeeded != Some(*index)) {
        let facts = json!({"snapshot": index, "commit": commit_of(state, index)});
        entries.push((JournalKind::RolloutSucceeded, facts));
    }
    entries
}

/// Returns the commit of a snapshot that is still recorded.
pub(super) fn commit_of(state: &PlacementState, index: u64) -> Option<&CommitId> {
    state.snapshots.get(&index).map(|snapshot| &snapshot.commit)
}
