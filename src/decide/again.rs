//! Halted runs that begin again, because git has other inputs for them than they were prepared with.

use super::Pass;
use super::strategies::Strategy;
use model::api::annotations::STAGED_UPDATE_STRATEGY;
use model::placement_phase::PhaseAct;
use model::runs::{ClusterPhase, RunCause, RunPhase, RunRecord, StageRecord};

impl Pass<'_> {
    /// Starts a halted run again, through the same stages with closed gates, when git has other overrides, labels, apply strategy or
    /// stages for it than it was prepared with: its failure may be about them.
    pub(super) fn begin_repaired_run(&mut self) {
        let Some(run) = self.active_run().filter(|run| run.phase == RunPhase::Halted) else { return };
        let is_any_waiting = self.state.runs.values().any(|other| other.frozen.is_none() && !other.phase.is_final());
        if is_any_waiting || !self.state.record.permits(PhaseAct::BeginRuns) {
            return;
        }
        let Some(index) = run.snapshot().filter(|index| self.is_prepared_otherwise(run, *index)) else { return };
        let run = run.clone();
        match &run.cause {
            // It returns clusters to inputs of the past, which no commit changes.
            RunCause::Rollback { .. } => {}
            // Its document names it, so it keeps its name.
            RunCause::Written { .. } => {
                let why = "git has other overrides, apply strategy or stages for it by now: it begins again";
                self.end_run(&run.name, RunPhase::Superseded, why);
                self.leave_behind(run.sequence);
                self.begin_run(run.name, run.cause, run.strategy, run.wanted_snapshot, run.state);
            }
            RunCause::FollowUp { .. } => {
                let of = self.root(&run);
                let name = self.free_name(&of);
                self.begin_run(name, RunCause::FollowUp { of }, run.strategy, Some(index), None);
            }
            RunCause::Snapshot => {
                let strategy = self.state.record.annotations.get(STAGED_UPDATE_STRATEGY).cloned();
                let name = self.free_name(&self.root(&run));
                self.begin_run(name, RunCause::Snapshot, strategy.unwrap_or(run.strategy), Some(index), None);
            }
        }
    }

    /// Tells whether a run would be prepared otherwise by now: with other overrides for a cluster that it has not updated, another apply
    /// strategy, other stages or checks. A strategy that is gone is no other one.
    fn is_prepared_otherwise(&self, run: &RunRecord, snapshot: u64) -> bool {
        let Some(frozen) = &run.frozen else { return false };
        let named = match self.state.record.annotations.get(STAGED_UPDATE_STRATEGY) {
            Some(annotated) if run.cause == RunCause::Snapshot => annotated,
            _ => &run.strategy,
        };
        let Some(strategy) = self.fleet.staged.strategy(&self.state.record.key, named) else { return false };
        let clusters = run.stages.iter().flat_map(|stage| &stage.clusters);
        let open = clusters.filter(|c| !matches!(c.phase, ClusterPhase::Succeeded | ClusterPhase::Skipped));
        // One that has left tells nothing: its labels are gone.
        let mut open = open.filter(|cluster| self.is_picked(&cluster.name));
        frozen.apply_strategy != self.wanted_apply_strategy(snapshot)
            || frozen.strategy != strategy.spec
            || run.stages.iter().any(|stage| has_other_checks(stage, strategy))
            || open.any(|cluster| cluster.overrides != self.desired_overrides(&cluster.name, snapshot))
    }
}

/// Tells whether a strategy has other checks for a stage than the stage began with.
fn has_other_checks(stage: &StageRecord, strategy: &Strategy) -> bool {
    let given = stage.checks.as_ref().map(|checks| &checks.given);
    given != strategy.checks.get(&stage.name)
}
