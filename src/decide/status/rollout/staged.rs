//! The rollout state of a placement that staged update runs move.

use super::{Failure, PersonWait, RolloutState};
use crate::status::placement::{PlacementView, why};
use crate::status::staged_run::{
    ClosedGate, active_run, approve_line, closed_gates, clusters_summary, command_name, current_stage, message_or,
    run_word,
};
use crate::status::work::listing;
use model::api::annotations::STAGED_UPDATE_STRATEGY;
use model::records::HeldSnapshot;
use model::runs::{
    ChecksRecord, ClusterPhase, DELETION_STAGE, MetricState, RunCause, RunCluster, RunPhase, RunRecord, StageRecord,
};

/// Returns the state of the run that moves the placement; `None` if none does.
pub(super) fn by_run(view: &PlacementView) -> Option<RolloutState> {
    let run = active_run(view.runs)?;
    let name = command_name(&run.placement, &run.name);
    Some(match run.phase {
        // It begins with the first cluster that is picked: until then there is nothing to do.
        RunPhase::Pending if run.without_clusters => return None,
        RunPhase::Pending if run.refused => {
            let why = message_or(run, "it cannot begin");
            RolloutState::Failed(Failure::RunRefused(format!("run {name}: {why}")))
        }
        RunPhase::Halted => RolloutState::Failed(Failure::RunHalted(format!(
            "run {name} is halted: {}; gitfleet retry {}",
            message_or(run, "too many clusters failed"),
            run_word(run, view.shared_name)
        ))),
        RunPhase::Initialized => waits_for_state(&name, "is prepared and starts"),
        // A command ends a pause, and not the run's `state`.
        RunPhase::Stopped if view.record.paused.is_some() => RolloutState::WaitingForPerson(paused(view)?),
        RunPhase::Stopped => waits_for_state(&name, "is stopped and continues"),
        RunPhase::Waiting => at_gates(view, run, &name),
        RunPhase::Updating => moving(view, run).unwrap_or(RolloutState::Progressing),
        _ => paused(view).map_or(RolloutState::Progressing, RolloutState::WaitingForPerson),
    })
}

/// Returns the wait for somebody who lets a run move; `what` says how it stands, and what it does then.
fn waits_for_state(run: &str, what: &str) -> RolloutState {
    RolloutState::WaitingForPerson(PersonWait::Run(format!("run {run} {what} when its `state` says Run")))
}

/// Returns the wait for a resume, if somebody paused the placement.
pub(super) fn paused(view: &PlacementView) -> Option<PersonWait> {
    let pause = view.record.paused.as_ref()?;
    let reason = pause.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    Some(PersonWait::Paused(format!("paused by {}{reason}; gitfleet resume {}", pause.by, view.word())))
}

/// Returns the command that rolls a held snapshot out again.
///
/// # Errors
/// Only a run that somebody writes moves the placement: which one.
pub fn way_out(view: &PlacementView, held: &HeldSnapshot) -> Result<String, String> {
    let is_written = view.is_external() && !view.record.annotations.contains_key(STAGED_UPDATE_STRATEGY);
    if is_written && !view.runs.values().any(|run| has_ended_with(run, held.index)) {
        return Err(format!("a run with resourceSnapshotIndex {}", held.index));
    }
    Ok(format!("gitfleet retry {}", view.word()))
}

/// Tells whether a run that somebody wrote has ended, and was to a snapshot.
fn has_ended_with(run: &RunRecord, snapshot: u64) -> bool {
    matches!(run.cause, RunCause::Written { .. }) && run.phase.is_final() && run.snapshot() == Some(snapshot)
}

/// Returns why the newest snapshot is not rolled out, if it was rolled back or rejected.
pub(super) fn held(view: &PlacementView) -> Option<Failure> {
    let held = view.record.held.as_ref()?;
    let newest = view.snapshot?;
    // What was held under an earlier index is held again when it comes back.
    if held.index != newest.index && held.hash != newest.hash {
        return None;
    }
    let way = match way_out(view, held) {
        Ok(line) => format!("`{line}`"),
        Err(run) => run,
    };
    Some(Failure::Held(format!("snapshot {} is held until {way}: {}", held.index, held.why)))
}

/// Returns the state at closed gates. An approval goes first: time passes meanwhile.
fn at_gates(view: &PlacementView, run: &RunRecord, name: &str) -> RolloutState {
    let gates = closed_gates(run);
    if let Some(gate) = gates.iter().find(|gate| gate.is_approval()) {
        let line = approve_line(run, gate, Some(view.record), view.shared_name);
        let expired = if gate.task.expired { ", and the request has expired" } else { "" };
        let words = format!("run {name}, stage {} waits for approval{expired}; {line}", gate.stage.name);
        return RolloutState::WaitingForPerson(PersonWait::Approval(words));
    }
    if let Some(pause) = paused(view) {
        return RolloutState::WaitingForPerson(pause);
    }
    let times = gates.iter().filter_map(ClosedGate::opens_at);
    match run.waiting_checks() {
        // An answer, or a cluster that recovers, may come at any moment.
        Some((_, checks)) if !only_time_is_left(checks) => RolloutState::Progressing,
        Some((_, checks)) => RolloutState::WaitingForTime(times.chain(checks.healthy_at()).max()),
        None => RolloutState::WaitingForTime(times.max()),
    }
}

/// Tells whether checks hold as soon as their clusters have been available for long enough.
fn only_time_is_left(checks: &ChecksRecord) -> bool {
    let is_healthy = checks.given.healthy_for.is_none() || checks.healthy_since.is_some();
    is_healthy && checks.metrics().all(|(_, state)| state.is_some_and(is_answered))
}

/// Tells whether a check has an answer that is within its limits.
fn is_answered(state: &MetricState) -> bool {
    state.answer.is_some() && state.problem.is_none() && state.failed.is_none()
}

/// Returns what a stage waits for if nothing in it moves.
fn moving(view: &PlacementView, run: &RunRecord) -> Option<RolloutState> {
    let stage = current_stage(run)?;
    let left: Vec<&RunCluster> = stage.clusters.iter().filter(|cluster| is_left(cluster)).collect();
    if left.is_empty() {
        return None;
    }
    if let Some(gate) = view.record.closed_gate()
        && stage.name == DELETION_STAGE
        && left.iter().all(|cluster| gate.holds(&cluster.name))
    {
        return super::deletions_wait(view).map(RolloutState::WaitingForPerson);
    }
    if left.iter().any(|cluster| cluster.phase == ClusterPhase::Updating) {
        return None;
    }
    if left.iter().all(|cluster| cluster.phase == ClusterPhase::Deferred) {
        return Some(RolloutState::Unreachable(deferred_message(view, stage, &left)));
    }
    paused(view).map(RolloutState::WaitingForPerson)
}

fn is_left(cluster: &RunCluster) -> bool {
    matches!(cluster.phase, ClusterPhase::Pending | ClusterPhase::Deferred | ClusterPhase::Updating)
}

fn deferred_message(view: &PlacementView, stage: &StageRecord, left: &[&RunCluster]) -> String {
    let names = left.iter().map(|cluster| match view.offline(&cluster.name) {
        Some(offline) => format!("{}{}", cluster.name, why(offline)),
        None => cluster.name.to_string(),
    });
    format!("stage {}, {}: {}", stage.name, clusters_summary(stage), listing(names))
}

#[cfg(test)]
mod tests;
