use super::*;
use crate::status::fixtures::{
    Case, CaseStatus as _, answered, approval, at, run, run_at_approval, run_at_checks, run_in_production, snapshot,
};
use model::id::Digest;
use model::records::{HeldSnapshot, Pause};
use model::runs::{ClusterPhase, RunCluster, StagePhase};

/// Returns a case whose snapshot 3 is of commit c3, and so on.
fn case() -> Case {
    let mut case = Case::healthy(&["east", "north", "south", "west"]);
    for index in [1, 2] {
        case.history.insert(index, of(index).into());
    }
    case.snapshot = Some(of(3));
    case
}

fn of(index: u64) -> ResourceSnapshot {
    ResourceSnapshot { commit: commit(index), ..snapshot(index, &["a"]) }
}

fn commit(index: u64) -> CommitId {
    CommitId::new(format!("c{index}"))
}

fn told(case: &mut Case) -> Vec<(String, ProgressState, String)> {
    case.settle();
    let ways = progress(&case.view(), ApprovalRules::default());
    let told = |way: Progress| {
        let commit = way.commit.map(|commit| commit.to_string()).unwrap_or_default();
        (commit, way.state, format!("{}/{} {}", way.done, way.total, way.message))
    };
    ways.into_iter().map(told).collect()
}

fn staged(run: RunRecord) -> Case {
    case().with_run(run)
}

fn phase(phase: RunPhase) -> RunRecord {
    RunRecord { phase, message: "as it says".into(), ..run_in_production() }
}

fn old(case: &mut Case, clusters: &[&str]) {
    for cluster in clusters {
        case.binding(cluster).snapshot = Some(2);
    }
}

fn hold(case: &mut Case) {
    case.record.held = Some(HeldSnapshot {
        index: 3,
        hash: Digest::new("x"),
        why: "ann rolled back".into(),
        since: at(0),
        returns: false,
        inputs: None,
    });
}

fn back(phase: RunPhase) -> RunRecord {
    let cause = RunCause::Rollback { of: "web-3".into(), by: Some("ann".into()) };
    let mut back = RunRecord { name: "web-3-rollback".into(), cause, sequence: 2, phase, ..run_in_production() };
    back.wanted_snapshot = Some(2);
    back.frozen.iter_mut().for_each(|frozen| frozen.snapshot = 2);
    back
}

type Row = (&'static str, Case, fn(&mut Case), Vec<(u64, ProgressState, &'static str)>);

fn check(rows: Vec<Row>) {
    for (name, mut case, change, wanted) in rows {
        change(&mut case);
        let wanted: Vec<_> =
            wanted.into_iter().map(|(c, state, words)| (format!("c{c}"), state, words.to_owned())).collect();
        assert_eq!(told(&mut case), wanted, "{name}");
    }
}

#[test]
fn rolling_updates() {
    use ProgressState as S;
    let earlier = |by: u64| S::Superseded { by: commit(by) };
    let both = || vec![(2, earlier(3), "0/0 "), (1, earlier(2), "0/0 ")];
    let after = |state: S, words: &'static str| [vec![(3, state, words)], both()].concat();
    check(vec![
        ("done", case(), |c| c.record.last_succeeded = Some(3), vec![(3, S::Done, "4/4 ")]),
        (
            "the one before was done",
            case(),
            |c| {
                c.record.last_succeeded = Some(2);
                old(c, &["west"]);
            },
            vec![(3, S::Moving, "3/4 "), (2, S::Done, "0/0 ")],
        ),
        ("nothing was done ever", case(), |c| old(c, &["east", "west"]), after(S::Moving, "2/4 ")),
        (
            "halted",
            case(),
            |c| {
                old(c, &["east"]);
                c.record.halted = Some("1 cluster failed".into());
            },
            after(S::Failed, "3/4 1 cluster failed"),
        ),
        (
            "paused",
            case(),
            |c| {
                old(c, &["east"]);
                c.record.paused = Some(Pause { by: "ann".into(), at: at(9), reason: Some("a freeze".into()) });
            },
            after(S::Paused, "3/4 paused by ann: a freeze"),
        ),
        ("wrong", case(), |c| c.record.error = Some("no such kind".into()), after(S::Error, "4/4 no such kind")),
        ("deletions", case(), |c| c.gate(&["east"]), after(S::WaitingForPerson, "4/4 deletions wait for approval")),
        (
            "offline",
            case(),
            |c| {
                old(c, &["east"]);
                c.offline("east");
            },
            after(S::Waiting, "3/4 does not answer: east (connection refused)"),
        ),
        (
            "goes back",
            case(),
            |c| {
                (c.record.goal, c.record.last_succeeded) = (Some(2), Some(2));
                old(c, &["east"]);
                hold(c);
            },
            vec![(3, S::Moving, "1/4 rolling back to c2: ann rolled back"), (2, S::Done, "0/0 ")],
        ),
        (
            "is back",
            case(),
            |c| {
                (c.record.goal, c.record.last_succeeded) = (Some(2), Some(2));
                old(c, &["east", "north", "south", "west"]);
                hold(c);
            },
            vec![(3, S::RolledBack { to: commit(2) }, "4/4 ann rolled back"), (2, S::Done, "0/0 ")],
        ),
    ]);
}

#[test]
fn staged_runs() {
    use ProgressState as S;
    let none: fn(&mut Case) = |_| ();
    let pause: fn(&mut Case) =
        |c| c.record.paused = Some(Pause { by: "ann".into(), at: at(9), reason: Some("a freeze".into()) });
    let one = |state: S, words: &'static str| vec![(3, state, words)];
    check(vec![
        ("begins", staged(RunRecord { phase: RunPhase::Pending, ..run() }), none, one(S::Queued, "0/4 ")),
        (
            "refused",
            staged(RunRecord { phase: RunPhase::Pending, refused: true, message: "twice".into(), ..run() }),
            none,
            one(S::Error, "0/4 twice"),
        ),
        ("prepared", staged(run()), none, one(S::Paused, "0/4 prepared; starts when its `state` says Run")),
        ("moves", staged(run_in_production()), none, one(S::Moving, "3/4 ")),
        ("a gate", staged(run_at_approval()), none, one(S::WaitingForPerson, "3/4 ")),
        ("halted", staged(phase(RunPhase::Halted)), none, one(S::Failed, "3/4 as it says")),
        ("stopped", staged(phase(RunPhase::Stopped)), pause, one(S::Paused, "3/4 paused by ann: a freeze")),
        ("done", staged(phase(RunPhase::Succeeded)), none, one(S::Done, "3/4 as it says")),
        ("rejected", staged(phase(RunPhase::Rejected)), none, one(S::Rejected, "3/4 as it says")),
        ("wrong", staged(run_in_production()), |c| c.record.error = Some("bad".into()), one(S::Error, "3/4 bad")),
        (
            "nobody goes",
            staged(phase(RunPhase::Succeeded)),
            |c| c.snapshot = Some(of(4)),
            vec![(4, S::WaitingForPerson, "0/4 clusters of an External placement wait for a staged update run")],
        ),
        (
            "goes back",
            staged(phase(RunPhase::RolledBack)).with_run(back(RunPhase::Updating)),
            none,
            one(S::Moving, "3/4 rolling back to c2"),
        ),
        (
            "cannot go back",
            staged(phase(RunPhase::RolledBack)).with_run(back(RunPhase::Halted)),
            none,
            one(S::Failed, "3/4 rolling back to c2"),
        ),
        (
            "is back",
            staged(phase(RunPhase::RolledBack)).with_run(back(RunPhase::Succeeded)),
            none,
            one(S::RolledBack { to: commit(2) }, "3/4 as it says"),
        ),
        (
            "was taken back after it was done",
            staged(phase(RunPhase::Succeeded)).with_run(back(RunPhase::Succeeded)),
            none,
            one(S::RolledBack { to: commit(2) }, "3/4 "),
        ),
        (
            "superseded",
            staged(phase(RunPhase::Superseded)),
            |c| {
                let mut newer = RunRecord { name: "web-4".into(), sequence: 2, ..run_in_production() };
                newer.frozen.iter_mut().for_each(|frozen| frozen.snapshot = 4);
                c.history.insert(3, of(3).into());
                c.snapshot = Some(of(4));
                c.runs.insert(newer);
            },
            vec![(4, S::Moving, "3/4 "), (3, S::Superseded { by: commit(4) }, "3/4 ")],
        ),
    ]);
}

#[test]
fn stages_of_runs() {
    use ProgressState as S;
    let mut case = staged(run_at_approval());
    let run = case.runs.get_mut("web-3").expect("the case has the run");
    run.approvers = Some("team:org/release".into());
    run.stages[1].after[0].approvals = vec![approval("ann")];
    case.settle();
    let rules = ApprovalRules { required: 2, ..ApprovalRules::default() };
    let way = progress(&case.view(), rules).remove(0);
    let states: Vec<_> = way.stages.iter().map(|s| (s.name.as_str(), s.state.clone(), s.done, s.total)).collect();
    assert_eq!(
        states,
        [("staging", S::Done, 1, 1), ("canary", S::WaitingForPerson, 2, 2), ("production", S::Queued, 0, 1)]
    );
    let gate = way.stages[1].gate.as_ref().expect("a gate waits");
    assert_eq!((gate.stage.as_str(), gate.given, gate.required), ("canary", 1, 2));
    assert_eq!(gate.approvers.as_deref(), Some("team:org/release"));
    assert_eq!(way.stages[1].message, "waits for approval before the next stage");
    assert_eq!(way.stages[1].approved_by, ["ann"]);
}

#[test]
fn checks_of_a_stage_are_said_without_what_changes_with_each_answer() {
    let said = |run: RunRecord| {
        let mut case = staged(run);
        case.settle();
        let way = progress(&case.view(), ApprovalRules::default()).remove(0);
        (way.state.clone(), way.stages[1].state.clone(), way.stages[1].message.clone())
    };
    let waits = "waits for its clusters to be available for 1m (until 12:01 UTC on 2026-03-01) and waits for error-rate to be at most 0.01 \
                 (within its limits)";
    for value in [0.001, 0.002] {
        let found = said(run_at_checks(answered(value)));
        assert_eq!(found, (ProgressState::Waiting, ProgressState::Waiting, waits.to_owned()));
    }
    let halted = RunRecord { phase: RunPhase::Halted, message: "why".into(), ..run_at_checks(answered(0.5)) };
    assert_eq!(said(halted), (ProgressState::Failed, ProgressState::Failed, "why".to_owned()));
}

#[test]
fn clusters_of_a_stage_the_worst_first() {
    let mut run = run_in_production();
    run.phase = RunPhase::Halted;
    let stage = &mut run.stages[2];
    stage.clusters = (0..30)
        .map(|number| RunCluster { name: format!("c{number:02}").as_str().into(), ..stage.clusters[0].clone() })
        .collect();
    stage.clusters[29].phase = ClusterPhase::Failed;
    stage.clusters[29].message = "no room".into();
    let mut case = staged(run);
    case.settle();
    let way = progress(&case.view(), ApprovalRules::default()).remove(0);
    let stage = &way.stages[2];
    assert_eq!((stage.clusters.len(), &*stage.clusters[0].message), (CLUSTERS_MAX, "no room"));
    assert_eq!(stage.state, ProgressState::Failed);
    assert_eq!(stage.clusters[1].state, ProgressState::Moving);
    assert_eq!(case.runs.get("web-3").expect("the case has the run").stages[2].phase, StagePhase::Updating);
}

#[test]
fn what_is_gone_from_git() {
    let mut case = case();
    case.record.removed = true;
    case.gate(&["east", "west"]);
    case.settle();
    let ways = progress(&case.view(), ApprovalRules::default());
    assert_eq!(ways.len(), 1);
    assert_eq!((ways[0].commit.as_ref(), ways[0].snapshot, ways[0].total), (None, None, 4));
    let gate = ways[0].deletions.as_ref().expect("deletions wait");
    assert_eq!(gate.stage, DELETION_GATE);
    assert_eq!(gate.what[0], "more than half of the objects would go");
    assert!(gate.what[1].starts_with("east: 1 object: "), "{:?}", gate.what);
}
