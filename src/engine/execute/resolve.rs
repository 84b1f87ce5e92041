//! Finds what a command is about.

use std::collections::BTreeMap;

use super::{CommandTarget, gates, refusal};
use decide::rollout::staged::named_request;
use decide::state::PlacementState;
use decide::status::staged_run::asks;
use model::commands::{Command, Refusal, RefusalReason, Verb, WaitingGate};
use model::id::PlacementKey;
use model::runs::{DELETION_GATE, StagePhase};
use model::target::TargetWord;

/// Finds the target of a command, as [`TargetWord`] names it: a run, a gate by the name of its request, or a placement. A placement stands
/// for its active run; its deletion gate is the target only if named.
///
/// # Errors
/// Nothing has the name, or more than one thing has.
pub fn resolve(
    placements: &BTreeMap<PlacementKey, PlacementState>,
    command: &Command,
) -> Result<CommandTarget, Refusal> {
    let named = TargetWord::read(&command.target);
    let mut targets: Vec<CommandTarget> = Vec::new();
    for (key, state) in placements.iter().filter(|(key, _)| named.has_scope_of(key)) {
        if state.runs.contains_key(named.name()) && named.is_run(key, named.name()) {
            let run = Some(named.name().to_owned());
            targets.push(CommandTarget { placement: key.clone(), run, stage: command.stage.clone(), gate: None });
        } else if command.stage.is_none() && named.is_of_any_kind() {
            let requests = named_request(named.name(), state.runs.values());
            targets.extend(requests.into_iter().map(|request| CommandTarget {
                placement: key.clone(),
                run: Some(request.run),
                stage: Some(request.stage),
                gate: request.gate,
            }));
            if named.name() == format!("{}-{DELETION_GATE}", key.name) {
                let stage = Some(DELETION_GATE.to_owned());
                targets.push(CommandTarget { placement: key.clone(), run: None, stage, gate: None });
            }
        }
    }
    // What has ended, or waits for a placement to come back, is not meant where something else may be.
    let is_over = |target: &CommandTarget| {
        let state = placements.get(&target.placement);
        let run = state.zip(target.run.as_ref()).and_then(|(state, run)| state.runs.get(run));
        run.is_some_and(|run| run.phase.is_final()) || state.is_some_and(|state| state.record.removed)
    };
    if !targets.iter().all(is_over) {
        targets.retain(|target| !is_over(target));
    }
    // A run of one placement may have the name of another placement: `web-1`. A pause applies to placements, so nothing is done
    // if a run may be meant.
    let is_of_placements = matches!(command.verb, Verb::Pause | Verb::Resume);
    let is_of_run = command.stage.as_ref().is_some_and(|stage| stage != DELETION_GATE);
    if targets.is_empty() || is_of_placements || !is_of_run {
        let of_name = placements.iter().filter(|(key, _)| named.is_placement(key));
        // A run with the name of its own placement: both names lead to the same target.
        let is_known = |key: &PlacementKey| targets.iter().any(|target| target.placement == *key);
        let of_name = of_name.filter(|(key, _)| !is_known(key));
        let of_name: Vec<CommandTarget> = of_name.map(|(key, state)| target_in(key, state, command)).collect();
        if is_of_placements && !of_name.is_empty() {
            targets.clear();
        }
        targets.extend(of_name);
    }
    match targets.len() {
        0 => Err(refusal(RefusalReason::NotFound, unknown(placements, command))),
        1 => Ok(targets.remove(0)),
        _ => {
            let all: Vec<String> =
                targets.iter().map(|target| format!("{} {}", target.placement.kind(), target.placement)).collect();
            let line = |target: &CommandTarget| {
                let gate = placements.get(&target.placement).and_then(|state| gates::waiting_gate(state, target));
                let stage = command.stage.clone().or(gate.map(|gate| gate.stage)).filter(|_| is_at_gate(command.verb));
                let stage = stage.map(|stage| format!(" {stage}")).unwrap_or_default();
                let to = command.to.map(|to| format!(" --to {to}")).unwrap_or_default();
                format!("\n  gitfleet {} {}{stage}{to}", command.verb, target.placement.qualified())
            };
            let lines: String = targets.iter().map(line).collect();
            let message = format!("{} fits {}; write one of these:{lines}", command.target, all.join(" and "));
            Err(refusal(RefusalReason::Ambiguous, message))
        }
    }
}

pub(super) fn is_at_gate(verb: Verb) -> bool {
    matches!(verb, Verb::Approve | Verb::Reject)
}

/// Says that nothing has a name, and for an answer to a gate which gates wait: those of a stage of that name, else all.
fn unknown(placements: &BTreeMap<PlacementKey, PlacementState>, command: &Command) -> String {
    let nothing = format!(
        "nothing is called {}: no run, no approval request, no placement; `gitfleet get runs` lists runs",
        command.target
    );
    if !is_at_gate(command.verb) {
        return nothing;
    }
    let of_state = |(key, state): (&PlacementKey, &PlacementState)| {
        let run = state.runs.values().find(|run| run.frozen.is_some() && !run.phase.is_final());
        let run = run.filter(|run| asks(&state.record, run)).map(|run| run.name.clone());
        gates::waiting_gates(state, &CommandTarget { placement: key.clone(), run, stage: None, gate: None })
    };
    let all: Vec<WaitingGate> = placements.iter().flat_map(of_state).collect();
    let is_of_stage = |gate: &&WaitingGate| gate.stage == command.target;
    let meant: Vec<&WaitingGate> = all.iter().filter(is_of_stage).collect();
    let meant = if meant.is_empty() { all.iter().collect() } else { meant };
    nothing + &gates::lines(meant, command.verb)
}

fn target_in(key: &PlacementKey, state: &PlacementState, command: &Command) -> CommandTarget {
    let active = state.runs.values().find(|run| run.frozen.is_some() && !run.phase.is_final());
    // A removed placement moves nothing: its runs wait for it to come back.
    let active = active.filter(|_| !state.record.removed);
    let waiting = active.and_then(|run| run.stages.iter().find(|stage| is_waiting(stage.phase)));
    // Never guess a gate: an approval names its stage, and a bare name never means deletions.
    let guessed = waiting.filter(|_| command.verb != Verb::Approve).map(|stage| stage.name.clone());
    let named = command.stage.clone().or(guessed);
    let is_deletion = named.as_deref() == Some(DELETION_GATE);
    let run = active.filter(|_| !is_deletion).map(|run| run.name.clone());
    CommandTarget { placement: key.clone(), run, stage: named, gate: None }
}

pub(super) fn is_waiting(phase: StagePhase) -> bool {
    matches!(phase, StagePhase::WaitingBefore | StagePhase::WaitingAfter)
}
