//! Assembles the result from what was observed.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::watch::{Seen, Watch};
use decide::state::{FleetState, PlacementState};
use decide::status::placement::PlacementView;
use decide::status::rollout::{Failure, RolloutState, rollout_state};
use model::api::staged::StageTaskType;
use model::id::PlacementKey;
use model::runs::{ChecksRecord, ClusterPhase, RunCause, RunCluster, RunRecord, StageRecord, TaskRecord};
use views::simulation::{
    GateSide, GateType, Offset, Outcome, Simulated, SimulatedCluster, SimulatedGate, SimulatedPlacement, SimulatedRun,
    SimulatedStage, longest_wait,
};

impl Watch {
    /// Returns the result at the end.
    pub(super) fn finish(
        self,
        core: Option<(&FleetState, &BTreeMap<PlacementKey, PlacementState>)>,
        now: Timestamp,
        until: Offset,
    ) -> Simulated {
        let mut placements = Vec::new();
        for (key, seen) in self.placements.iter().filter(|(key, _)| self.is_chosen(key)) {
            let state = core.and_then(|(fleet, all)| Some((fleet, all.get(key)?)));
            placements.push(self.placement(key, seen, state, now));
        }
        let ended_at = self.events.last().map(|event| event.at).unwrap_or_default();
        Simulated { until, ended_at, placements, events: self.events, errors: Vec::new() }
    }

    fn placement(
        &self,
        key: &PlacementKey,
        seen: &Seen,
        state: Option<(&FleetState, &PlacementState)>,
        now: Timestamp,
    ) -> SimulatedPlacement {
        let bindings = state.map(|(_, state)| state.shared_bindings()).unwrap_or_default();
        let view = state.map(|(fleet, state)| state.view(&bindings, fleet, now));
        let (outcome, message) = match &view {
            Some(view) => ended(view, seen),
            None if seen.changed_at.is_some() => (Outcome::Done, "it is removed".to_owned()),
            None => (Outcome::Failed, "nothing was decided about it".to_owned()),
        };
        let mut runs: BTreeMap<&String, &RunRecord> = seen.ended.iter().collect();
        // Records of old runs may be gone; the remaining ones have more details.
        runs.extend(state.iter().flat_map(|(_, state)| state.runs.values()).map(|run| (&run.name, run)));
        let mut runs: Vec<&RunRecord> = runs.into_values().filter(|run| !seen.before.contains(&run.name)).collect();
        runs.sort_by_key(|run| run.sequence);
        let runs: Vec<SimulatedRun> = runs.into_iter().map(|run| self.run(seen, run)).collect();
        let of_runs = runs.iter().flat_map(|run| &run.stages).flat_map(|stage| &stage.clusters);
        let started_at = of_runs.chain(&seen.moves).filter_map(|cluster| cluster.started_at).min();
        let mut placement = SimulatedPlacement {
            kind: key.kind(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            snapshot: view.and_then(|view| view.newest()),
            outcome,
            message,
            started_at,
            ended_at: seen.changed_at,
            clusters_picked: view.map_or(0, |view| view.selected().count()),
            runs,
            clusters: seen.moves.clone(),
            gates: seen.gates.clone(),
            longest_wait: None,
            failed_at: seen.failed_at,
            touched_at_failure: seen.touched.iter().cloned().collect(),
            max_unavailable: seen.max_unavailable,
        };
        placement.longest_wait = longest_wait(&placement);
        placement
    }

    fn run(&self, seen: &Seen, run: &RunRecord) -> SimulatedRun {
        let approvers =
            self.strategies.strategy(&run.placement, &run.strategy).and_then(|strategy| strategy.approvers.clone());
        let deletion = run.deletion.iter().filter(|stage| !stage.clusters.is_empty());
        let stages = run.stages.iter().chain(deletion);
        SimulatedRun {
            name: run.name.clone(),
            strategy: run.strategy.clone(),
            snapshot: run.snapshot(),
            phase: format!("{:?}", run.phase),
            message: run.message.clone(),
            rollback_of: if let RunCause::Rollback { of, .. } = &run.cause { Some(of.clone()) } else { None },
            started_at: run.frozen.as_ref().map(|frozen| self.offset(frozen.at)),
            ended_at: run.phase.is_final().then(|| self.offset(run.since)),
            stages: stages.map(|stage| self.stage(seen, run, stage, approvers.as_ref())).collect(),
        }
    }

    fn stage(&self, seen: &Seen, run: &RunRecord, stage: &StageRecord, approvers: Option<&String>) -> SimulatedStage {
        let before = stage.before.iter().map(|task| self.task_gate(task, GateSide::Before, approvers));
        let after = stage.after.iter().map(|task| self.task_gate(task, GateSide::After, approvers));
        let checks = stage.checks.iter().map(|checks| self.checks_gate(checks));
        SimulatedStage {
            name: stage.name.clone(),
            phase: format!("{:?}", stage.phase),
            max_concurrency: stage.max_concurrency,
            started_at: stage.started_at.map(|at| self.offset(at)),
            ended_at: stage.ended_at.map(|at| self.offset(at)),
            clusters: stage.clusters.iter().map(|cluster| self.cluster(seen, run, cluster)).collect(),
            gates: before.chain(after).chain(checks).collect(),
        }
    }

    fn task_gate(&self, task: &TaskRecord, when: GateSide, approvers: Option<&String>) -> SimulatedGate {
        let asked = task.asked_at.map(|at| self.offset(at));
        let done = task.done_at.map(|at| self.offset(at));
        let is_approval = task.type_ == StageTaskType::Approval;
        SimulatedGate {
            type_: if is_approval { GateType::Approval } else { GateType::TimedWait },
            when: Some(when),
            approvers: if is_approval { approvers.cloned() } else { None },
            asked_at: asked,
            opened_at: done,
            waited: asked.zip(done).map(|(asked, done)| done.since(asked)),
            assumed: Vec::new(),
        }
    }

    fn checks_gate(&self, checks: &ChecksRecord) -> SimulatedGate {
        let asked = checks.asked_at.map(|at| self.offset(at));
        let done = checks.done_at.map(|at| self.offset(at));
        SimulatedGate {
            type_: GateType::Checks,
            when: Some(GateSide::After),
            approvers: None,
            asked_at: asked,
            opened_at: done,
            waited: asked.zip(done).map(|(asked, done)| done.since(asked)),
            assumed: checks.given.metrics.iter().map(|metric| metric.name.clone()).collect(),
        }
    }

    fn cluster(&self, seen: &Seen, run: &RunRecord, cluster: &RunCluster) -> SimulatedCluster {
        let outcome = cluster.phase;
        let is_over = matches!(outcome, ClusterPhase::Succeeded | ClusterPhase::Failed | ClusterPhase::Skipped);
        SimulatedCluster {
            name: cluster.name.clone(),
            deferred_at: seen.deferred.get(&(run.name.clone(), cluster.name.clone())).copied(),
            started_at: cluster.started_at.map(|at| self.offset(at)),
            ended_at: is_over.then(|| self.offset(cluster.since)),
            outcome,
            message: if outcome == ClusterPhase::Failed { cluster.message.clone() } else { String::new() },
        }
    }
}

/// Describes the outcome of a placement.
fn ended(view: &PlacementView<'_>, seen: &Seen) -> (Outcome, String) {
    match rollout_state(view) {
        RolloutState::AllAtTarget => (Outcome::Done, String::new()),
        RolloutState::WaitingForPerson(wait) => (Outcome::WaitsForPerson, wait.to_string()),
        RolloutState::Unreachable(why) => (Outcome::Offline, why),
        RolloutState::WaitingForTime(_) => (Outcome::NotFinished, "it waits only for a timer".to_owned()),
        RolloutState::Progressing => (Outcome::NotFinished, String::new()),
        RolloutState::Failed(why @ (Failure::Halted(_) | Failure::RunHalted(_))) => (Outcome::Halted, why.to_string()),
        RolloutState::Failed(why) if seen.rolled_back => (Outcome::RolledBack, why.to_string()),
        RolloutState::Failed(why) => (Outcome::Failed, why.to_string()),
    }
}
