//! The rollout state of a placement that staged update runs move.

use super::{Failure, PersonWait, RolloutState};
use crate::status::placement::{PlacementView, why};
use crate::status::staged_run::{
    ClosedGate, active_run, approve_line, closed_gates, clusters_summary, command_name, current_stage, run_word,
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
    let waits = |words: &str| RolloutState::WaitingForPerson(PersonWait::Run(format!("run {name} {words}")));
    let pause = || paused(view).map(RolloutState::WaitingForPerson);
    let says = |otherwise: &str| if run.message.is_empty() { otherwise.to_owned() } else { run.message.clone() };
    Some(match run.phase {
        // It begins with the first cluster that is picked: until then there is nothing to do.
        RunPhase::Pending if run.without_clusters => return None,
        RunPhase::Pending if run.refused => {
            RolloutState::Failed(Failure::RunRefused(format!("run {name}: {}", says("it cannot begin"))))
        }
        RunPhase::Halted => RolloutState::Failed(Failure::RunHalted(format!(
            "run {name} is halted: {}; gitfleet retry {}",
            says("too many clusters failed"),
            run_word(run, view.shared_name)
        ))),
        RunPhase::Initialized => waits("is prepared and starts when its `state` says Run"),
        RunPhase::Stopped if view.record.paused.is_some() => pause()?,
        RunPhase::Stopped => waits("is stopped and continues when its `state` says Run"),
        RunPhase::Waiting => at_gates(view, run, &name),
        RunPhase::Updating => moving(view, run).unwrap_or(RolloutState::Progressing),
        _ => pause().unwrap_or(RolloutState::Progressing),
    })
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
    let ended = |run: &RunRecord| {
        matches!(run.cause, RunCause::Written { .. }) && run.phase.is_final() && run.snapshot() == Some(held.index)
    };
    if is_written && !view.runs.values().any(ended) {
        return Err(format!("a run with resourceSnapshotIndex {}", held.index));
    }
    Ok(format!("gitfleet retry {}", view.word()))
}

/// Returns why the newest snapshot is not rolled out, if it was rolled back or rejected.
pub(super) fn held(view: &PlacementView) -> Option<Failure> {
    let held = view.record.held.as_ref()?;
    let newest = view.snapshot?;
    let is_it = held.index == newest.index || held.hash == newest.hash;
    let way = way_out(view, held).map_or_else(|run| run, |line| format!("`{line}`"));
    let words = format!("snapshot {} is held until {way}: {}", held.index, held.why);
    is_it.then_some(Failure::Held(words))
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
    let is_answered = |state: &MetricState| state.answer.is_some() && state.problem.is_none() && state.failed.is_none();
    is_healthy && checks.metrics().all(|(_, state)| state.is_some_and(is_answered))
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
    let name = |cluster: &&RunCluster| match view.offline(&cluster.name) {
        Some(offline) => format!("{}{}", cluster.name, why(offline)),
        None => cluster.name.to_string(),
    };
    format!("stage {}, {}: {}", stage.name, clusters_summary(stage), listing(left.iter().map(name)))
}

#[cfg(test)]
mod tests;
