use super::*;
use crate::status::fixtures::{
    Case, CaseStatus as _, answered, at, run, run_at_approval, run_at_checks, run_in_production, snapshot, stage,
};
use crate::status::rollout::rollout_state;
use model::id::Digest;
use model::records::Pause;
use model::runs::StagePhase;

fn case(run: RunRecord) -> Case {
    Case::healthy(&["east", "north", "south", "west"]).with_run(run)
}

fn pause(case: &mut Case) {
    case.record.paused = Some(Pause { by: "ann".into(), at: at(9), reason: Some("a freeze".into()) });
}

fn hold(case: &mut Case) {
    let hash = Digest::new("other");
    // Only of a placement that names a strategy a command rolls it out again.
    case.record.annotations.insert(STAGED_UPDATE_STRATEGY.to_owned(), "three-stages".to_owned());
    case.record.held = Some(HeldSnapshot {
        index: 3,
        hash,
        why: "was rolled back".into(),
        since: at(0),
        returns: false,
        inputs: None,
    });
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
            run("run web-3 is prepared and starts when its `state` says Run"),
        ),
        ("moves", run_in_production(), nothing, C::Progressing),
        ("halted", phase(RunPhase::Halted), nothing, C::Failed(Failure::RunHalted(halted.into()))),
        ("stopping", phase(RunPhase::Stopping), nothing, C::Progressing),
        (
            "stopped",
            phase(RunPhase::Stopped),
            nothing,
            run("run web-3 is stopped and continues when its `state` says Run"),
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
            deletions("deletions need approval: more than half of the objects would go; gitfleet approve web deletion"),
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
            deletions("deletions need approval: more than half of the objects would go; gitfleet approve web deletion"),
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

#[test]
fn what_checks_wait_for() {
    let problem = MetricState { problem: Some("no data".into()), ..answered(0.0) };
    for (state, expected) in [
        (MetricState::asked(at(30)), RolloutState::Progressing),
        (problem, RolloutState::Progressing),
        (answered(0.0), RolloutState::WaitingForTime(Some(at(90)))),
    ] {
        let case = case(run_at_checks(state.clone()));
        assert_eq!(rollout_state(&case.view()), expected, "{state:?}");
    }
}
