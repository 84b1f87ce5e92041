//! Journal entries about how a rollout stands: it halted, its deletions wait, it is done. Each once, when that begins.

use serde_json::{Value, json};

use super::Pass;
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

impl Pass<'_> {
    /// Writes what is different from how the rollout stood.
    pub(super) fn note_standing(&mut self, before: &Standing) {
        let record = &self.state.record;
        let mut notes: Vec<(JournalKind, Value)> = Vec::new();
        if let Some(gate) = record.closed_gate()
            && !before.holds_deletions
        {
            // Its digest may change while clusters report: one entry for each change would be many for one question.
            notes.push((JournalKind::DeletionsHeld, json!({"digest": gate.digest, "message": gate.reason})));
        }
        if let Some(why) = &record.halted
            && !before.is_halted
        {
            let run = self.active_run().filter(|run| run.phase == RunPhase::Halted);
            let of_run = run.and_then(RunRecord::snapshot);
            let snapshot = of_run.or(record.goal).or_else(|| self.state.newest().map(|newest| newest.index));
            let commit = snapshot.and_then(|index| self.commit_of(index));
            let run = run.map(|run| &run.name);
            let facts = json!({"run": run, "snapshot": snapshot, "commit": commit, "message": why});
            notes.push((JournalKind::RolloutHalted, facts));
        }
        if let Some(index) = record.last_succeeded.filter(|index| before.succeeded != Some(*index)) {
            let facts = json!({"snapshot": index, "commit": self.commit_of(index)});
            notes.push((JournalKind::RolloutSucceeded, facts));
        }
        for (kind, facts) in notes {
            self.note(kind, None, facts);
        }
    }

    /// Returns the commit of a snapshot that is still recorded.
    pub(super) fn commit_of(&self, index: u64) -> Option<&CommitId> {
        self.state.snapshots.get(&index).map(|snapshot| &snapshot.commit)
    }
}
