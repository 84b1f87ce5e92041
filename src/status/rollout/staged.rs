//! What is left to happen to a placement that staged update runs move.

use super::{Failure, PersonWait, RolloutState};
use crate::model::runs::{ClusterPhase, DELETION_STAGE, RunCluster, RunPhase, RunRecord, StageRecord};
use crate::status::placement::{PlacementView, why};
use crate::status::staged_run::{ClosedGate, active_run, closed_gates, clusters_words, command_name, current_stage};
use crate::status::work::listing;

/// Returns how the run stands that moves the placement; `None` where none does.
pub fn by_run(view: &PlacementView) -> Option<RolloutState> {
    let run = active_run(view.runs)?;
    let name = command_name(&run.placement, &run.name);
    let waits = |words: &str| RolloutState::WaitingForPerson(PersonWait::Run(format!("run {name} {words}")));
    let pause = || paused(view).map(RolloutState::WaitingForPerson);
    let says = |otherwise: &str| if run.message.is_empty() { otherwise.to_owned() } else { run.message.clone() };
    Some(match run.phase {
        RunPhase::Pending if run.refused => {
            RolloutState::Failed(Failure::RunRefused(format!("run {name}: {}", says("it cannot begin"))))
        }
        RunPhase::Halted => RolloutState::Failed(Failure::RunHalted(format!(
            "run {name} is halted: {}; gitfleet retry {name}",
            says("too many clusters failed")
        ))),
        RunPhase::Initialized => waits("is prepared and goes when its `state` says Run"),
        RunPhase::Stopped if view.record.paused.is_some() => pause()?,
        RunPhase::Stopped => waits("is stopped and goes on when its `state` says Run"),
        RunPhase::Waiting => at_gates(view, run, &name),
        RunPhase::Updating => moving(view, run).unwrap_or(RolloutState::Progressing),
        _ => pause().unwrap_or(RolloutState::Progressing),
    })
}

/// Returns who paused the placement, where somebody did.
pub fn paused(view: &PlacementView) -> Option<PersonWait> {
    let pause = view.record.paused.as_ref()?;
    let reason = pause.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let key = &view.record.key;
    Some(PersonWait::Paused(format!("paused by {}{reason}; gitfleet resume {key}", pause.by)))
}

/// Returns why the newest snapshot is not rolled out, where it was rolled back or rejected.
pub fn held(view: &PlacementView) -> Option<Failure> {
    let held = view.record.held.as_ref()?;
    let newest = view.snapshot?;
    let is_it = held.index == newest.index || held.hash == newest.hash;
    let words = format!("snapshot {} is held until `gitfleet retry {}`: {}", held.index, view.record.key, held.why);
    is_it.then_some(Failure::Held(words))
}

/// A person's gate first: time passes meanwhile.
fn at_gates(view: &PlacementView, run: &RunRecord, name: &str) -> RolloutState {
    let gates = closed_gates(run);
    if let Some(gate) = gates.iter().find(|gate| gate.is_approval()) {
        let line = approve_line(name, gate);
        let words = format!("run {name}, stage {} waits for approval; {line}", gate.stage.name);
        return RolloutState::WaitingForPerson(PersonWait::Approval(words));
    }
    match paused(view) {
        Some(pause) => RolloutState::WaitingForPerson(pause),
        None => RolloutState::WaitingForTime(gates.iter().filter_map(ClosedGate::opens_at).max()),
    }
}

/// Returns the line that opens a gate.
pub fn approve_line(run: &str, gate: &ClosedGate) -> String {
    format!("gitfleet approve {run} {}", gate.stage.name)
}

/// Returns what a stage waits for that would move, where nothing in it does.
fn moving(view: &PlacementView, run: &RunRecord) -> Option<RolloutState> {
    let stage = current_stage(run)?;
    let left: Vec<&RunCluster> = stage.clusters.iter().filter(|cluster| is_left(cluster)).collect();
    if left.is_empty() {
        return None;
    }
    if let Some(gate) = view.record.closed_gate().filter(|_| stage.name == DELETION_STAGE)
        && left.iter().all(|cluster| gate.holds(&cluster.name))
    {
        return super::deletions_wait(view).map(RolloutState::WaitingForPerson);
    }
    if left.iter().any(|cluster| cluster.phase == ClusterPhase::Updating) {
        return None;
    }
    if left.iter().all(|cluster| cluster.phase == ClusterPhase::Deferred) {
        return Some(RolloutState::Unreachable(deferred_words(view, stage, &left)));
    }
    paused(view).map(RolloutState::WaitingForPerson)
}

fn is_left(cluster: &RunCluster) -> bool {
    matches!(cluster.phase, ClusterPhase::Pending | ClusterPhase::Deferred | ClusterPhase::Updating)
}

fn deferred_words(view: &PlacementView, stage: &StageRecord, left: &[&RunCluster]) -> String {
    let name = |cluster: &&RunCluster| match view.offline(&cluster.name) {
        Some(offline) => format!("{}{}", cluster.name, why(offline)),
        None => cluster.name.to_string(),
    };
    format!("stage {}, {}: {}", stage.name, clusters_words(stage), listing(left.iter().map(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::Digest;
    use crate::model::records::{HeldSnapshot, Pause};
    use crate::model::runs::StagePhase;
    use crate::status::fixtures::{Case, at, run, run_at_approval, run_in_production, snapshot, stage};
    use crate::status::rollout::rollout_state;

    fn case(run: RunRecord) -> Case {
        Case::healthy(&["east", "north", "south", "west"]).with_run(run)
    }

    fn pause(case: &mut Case) {
        case.record.paused = Some(Pause { by: "ann".into(), at: at(9), reason: Some("a freeze".into()) });
    }

    fn hold(case: &mut Case) {
        let hash = Digest::new("other");
        case.record.held = Some(HeldSnapshot { index: 3, hash, why: "was rolled back".into(), since: at(0) });
    }

    fn phase(phase: RunPhase) -> RunRecord {
        RunRecord { phase, message: "as it says".into(), ..run() }
    }

    fn timed() -> RunRecord {
        let mut run = run_at_approval();
        run.stages[0].phase = StagePhase::WaitingAfter;
        run.stages[0].after[0].done_at = None;
        run
    }

    fn deferred() -> RunRecord {
        let mut run = run_in_production();
        run.stages[2].clusters[0].phase = ClusterPhase::Deferred;
        run
    }

    fn deleting() -> RunRecord {
        let mut run = run_in_production();
        run.stages[2].phase = StagePhase::Succeeded;
        let mut deletion = stage(DELETION_STAGE, &["old"], &[]);
        (deletion.phase, deletion.clusters[0].phase) = (StagePhase::Updating, ClusterPhase::Updating);
        run.deletion = Some(deletion);
        run
    }

    type Row = (&'static str, RunRecord, fn(&mut Case), RolloutState);

    fn rows() -> Vec<Row> {
        use RolloutState as C;
        let run = |text: &str| C::WaitingForPerson(PersonWait::Run(text.to_owned()));
        let paused_by = |text: &str| C::WaitingForPerson(PersonWait::Paused(text.to_owned()));
        let held = |text: &str| C::Failed(Failure::Held(text.to_owned()));
        let deletions = |text: &str| C::WaitingForPerson(PersonWait::Deletions(text.to_owned()));

        let nothing: fn(&mut Case) = |_| ();
        let halted = "run web-3 is halted: as it says; gitfleet retry web-3";
        let paused = "paused by ann (a freeze); gitfleet resume web";
        vec![
            ("begins", phase(RunPhase::Pending), nothing, C::Progressing),
            (
                "refused",
                RunRecord { refused: true, ..phase(RunPhase::Pending) },
                nothing,
                C::Failed(Failure::RunRefused("run web-3: as it says".into())),
            ),
            (
                "prepared",
                phase(RunPhase::Initialized),
                nothing,
                run("run web-3 is prepared and goes when its `state` says Run"),
            ),
            ("moves", run_in_production(), nothing, C::Progressing),
            ("halted", phase(RunPhase::Halted), nothing, C::Failed(Failure::RunHalted(halted.into()))),
            ("stopping", phase(RunPhase::Stopping), nothing, C::Progressing),
            (
                "stopped",
                phase(RunPhase::Stopped),
                nothing,
                run("run web-3 is stopped and goes on when its `state` says Run"),
            ),
            (
                "approval",
                run_at_approval(),
                nothing,
                C::WaitingForPerson(PersonWait::Approval(
                    "run web-3, stage canary waits for approval; gitfleet approve web-3 canary".into(),
                )),
            ),
            ("timed", timed(), nothing, C::WaitingForTime(Some(at(19 + 3600)))),
            ("timed, paused", timed(), pause, paused_by(paused)),
            (
                "timed, and deletions wait for a person",
                timed(),
                |c| c.gate(&["old"]),
                deletions(
                    "deletions need approval: more than half of the objects would go; gitfleet approve web deletion",
                ),
            ),
            (
                "deferred",
                deferred(),
                |c| c.offline("west"),
                C::Unreachable(
                    "stage production, 0 of 1 cluster done, 1 deferred while offline: west (connection refused)".into(),
                ),
            ),
            ("paused, one is on its way", run_in_production(), pause, C::Progressing),
            (
                "paused",
                {
                    let mut run = run_in_production();
                    run.stages[2].clusters[0].phase = ClusterPhase::Pending;
                    run
                },
                pause,
                paused_by(paused),
            ),
            ("removes", deleting(), nothing, C::Progressing),
            (
                "removals wait for a person",
                deleting(),
                |c| c.gate(&["old"]),
                deletions(
                    "deletions need approval: more than half of the objects would go; gitfleet approve web deletion",
                ),
            ),
            ("done", phase(RunPhase::Succeeded), nothing, C::AllAtTarget),
            (
                "rolled back",
                phase(RunPhase::RolledBack),
                |c| {
                    c.binding("west").snapshot = Some(2);
                    hold(c);
                },
                held("snapshot 3 is held until `gitfleet retry web`: was rolled back"),
            ),
            ("a rollback moves", run_in_production(), hold, C::Progressing),
            (
                "held, and a newer snapshot has no run",
                phase(RunPhase::RolledBack),
                |c| {
                    hold(c);
                    c.snapshot = Some(snapshot(4, &["a"]));
                },
                C::WaitingForPerson(PersonWait::NoRun),
            ),
        ]
    }

    #[test]
    fn what_is_left_to_happen() {
        for (name, run, change, expected) in rows() {
            let mut case = case(run);
            change(&mut case);
            case.settle();
            assert_eq!(rollout_state(&case.view()), expected, "{name}");
        }
    }
}
