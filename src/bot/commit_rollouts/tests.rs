use super::*;
use crate::commit_rollout::Thread;
use model::id::Digest;
use model::manifest::InputError;
use model::progress::GateProgress;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("a test's instant is one")
}

fn commit(name: &str) -> CommitId {
    CommitId::new(name)
}

fn key() -> PlacementKey {
    PlacementKey::cluster_scoped("web")
}

fn gate(stage: &str, digest: &str) -> GateProgress {
    GateProgress {
        stage: stage.into(),
        digest: Digest::new(digest),
        since: at(0),
        given: 0,
        required: 1,
        approvers: None,
        owners: vec![],
        what: vec![],
    }
}

fn way(commit_name: &str, snapshot: u64, state: ProgressState) -> Progress {
    Progress {
        placement: key(),
        snapshot: Some(snapshot),
        commit: Some(commit(commit_name)),
        run: Some(format!("web-{snapshot}")),
        state,
        message: String::new(),
        done: 0,
        total: 3,
        stages: vec![],
        clusters: vec![],
        deletions: None,
    }
}

fn told(ways: Vec<Progress>) -> PlacementUpdate {
    PlacementUpdate { placement: key(), ways, concerned_by: None }
}

fn concerned(commit_name: &str, ways: Vec<Progress>) -> PlacementUpdate {
    PlacementUpdate { concerned_by: Some(commit(commit_name)), ..told(ways) }
}

fn source(accepted: &str) -> SourceRecord {
    SourceRecord { accepted: Some(commit(accepted)), seen: Some(commit(accepted)), ..SourceRecord::default() }
}

fn removal(state: ProgressState, deletions: Option<GateProgress>) -> Progress {
    Progress { snapshot: None, commit: None, run: None, deletions, ..way("", 0, state) }
}

/// Says what every rollout tells of the placement.
fn states(rollouts: &CommitRollouts) -> String {
    let one = |rollout: &CommitRollout| {
        let state = match rollout.placements.get(&key()).map(|way| &way.state) {
            None => "-".to_owned(),
            Some(ProgressState::Superseded { by }) => format!("superseded by {by}"),
            Some(state) => format!("{state:?}"),
        };
        format!("{} {state}{}", rollout.commit, if rollout.ended_at.is_some() { ", over" } else { "" })
    };
    rollouts.iter().map(one).collect::<Vec<_>>().join("; ")
}

#[test]
fn what_placements_say_becomes_rollouts() {
    use ProgressState::{Done, Failed, Moving, Rejected};
    let by = |name: &str| ProgressState::Superseded { by: commit(name) };
    // what is told in order; what stands in the end
    let rows: Vec<(&str, Vec<PlacementUpdate>, &str)> = vec![
        ("over before anybody was told", vec![told(vec![way("a", 0, Done)])], ""),
        ("begun", vec![told(vec![way("a", 0, Moving)])], "a Moving"),
        ("begun and done", vec![told(vec![way("a", 0, Moving)]), told(vec![way("a", 0, Done)])], "a Done, over"),
        (
            "what was done is done",
            vec![told(vec![way("a", 0, Moving)]), told(vec![way("a", 0, Done)]), told(vec![way("a", 0, Failed)])],
            "a Done, over",
        ),
        (
            "what failed continues after a retry",
            vec![told(vec![way("a", 0, Failed)]), told(vec![way("a", 0, Moving)])],
            "a Moving",
        ),
        (
            "what was rejected continues after a retry",
            vec![told(vec![way("a", 0, Failed)]), told(vec![way("a", 0, Rejected)]), told(vec![way("a", 0, Moving)])],
            "a Moving",
        ),
        (
            "superseded, as the placement says",
            vec![told(vec![way("a", 0, Moving)]), told(vec![way("b", 1, Moving), way("a", 0, by("b"))])],
            "a superseded by b, over; b Moving",
        ),
        (
            "superseded, because it is not reported any more",
            vec![told(vec![way("a", 0, Moving)]), told(vec![way("b", 1, Moving)])],
            "a superseded by b, over; b Moving",
        ),
        (
            "what is over is not superseded",
            vec![told(vec![way("a", 0, Moving)]), told(vec![way("a", 0, Done)]), told(vec![way("b", 1, Moving)])],
            "a Done, over; b Moving",
        ),
        ("gone altogether", vec![told(vec![way("a", 0, Moving)]), told(vec![])], "a Done, over"),
        (
            "moved again by a later commit without a snapshot of its own, as a life after a restart is told",
            vec![
                told(vec![way("a", 0, Moving)]),
                told(vec![way("a", 0, Done)]),
                concerned("b", vec![way("a", 0, Moving)]),
                told(vec![way("a", 0, Done)]),
            ],
            "a Done, over; b Done, over",
        ),
        (
            "the same, to its end",
            vec![
                told(vec![way("a", 0, Moving)]),
                told(vec![way("a", 0, Done)]),
                concerned("b", vec![way("a", 0, Moving)]),
                concerned("b", vec![way("a", 0, Done)]),
            ],
            "a Done, over; b Done, over",
        ),
        (
            "a later commit that concerns what still moves tells of it where it began",
            vec![told(vec![way("a", 0, Moving)]), concerned("b", vec![way("a", 0, Moving)])],
            "a Moving",
        ),
        (
            "a later commit that changes nothing",
            vec![
                told(vec![way("a", 0, Moving)]),
                told(vec![way("a", 0, Done)]),
                concerned("b", vec![way("a", 0, Done)]),
            ],
            "a Done, over",
        ),
    ];
    for (name, all, wanted) in rows {
        let mut rollouts = CommitRollouts::default();
        for (second, told) in all.iter().enumerate() {
            rollouts.take(told, at(i64::try_from(second).expect("few")));
        }
        assert_eq!(states(&rollouts), wanted, "{name}");
    }
}

#[test]
fn a_removed_placement_is_told_with_the_commit_that_removed_it() {
    let mut rollouts = CommitRollouts::default();
    rollouts.take_source(&source("a"), at(0));
    rollouts.take(&told(vec![way("a", 0, ProgressState::Moving)]), at(0));
    rollouts.take(&told(vec![way("a", 0, ProgressState::Done)]), at(0));
    rollouts.take_source(&source("b"), at(1));
    let waiting = removal(ProgressState::WaitingForPerson, Some(gate("deletion", "d1")));
    rollouts.take(&concerned("b", vec![waiting.clone()]), at(1));
    assert_eq!(states(&rollouts), "a Done, over; b WaitingForPerson");
    let rollout = rollouts.get(&commit("b")).expect("it is told");
    assert_eq!(rollout.from, Some(commit("a")), "what was accepted before");
    assert_eq!(rollout.gates().map(|(_, _, gate)| gate.stage.as_str()).collect::<Vec<_>>(), ["deletion"]);
    // Another commit comes meanwhile; the removal continues where it began.
    rollouts.take_source(&source("c"), at(2));
    rollouts.take(&told(vec![removal(ProgressState::Moving, None)]), at(2));
    assert_eq!(states(&rollouts), "a Done, over; b Moving");
    rollouts.take(&told(vec![]), at(3));
    assert_eq!(states(&rollouts), "a Done, over; b Done, over");
}

#[test]
fn a_restart_does_not_move_what_was_told_elsewhere() {
    let mut first = CommitRollouts::default();
    first.take_source(&source("b"), at(1));
    first.take(&told(vec![removal(ProgressState::Moving, None)]), at(1));
    let mut second = CommitRollouts::restore(first.take_changed().into_values().flatten());
    second.take_source(&source("b"), at(2));
    second.take(&told(vec![removal(ProgressState::WaitingForPerson, Some(gate("deletion", "d")))]), at(2));
    assert_eq!(states(&second), "b WaitingForPerson");
    second.take(&told(vec![]), at(3));
    assert_eq!(states(&second), "b Done, over");
}

#[test]
fn superseded_gates_wait_for_nobody() {
    let mut rollouts = CommitRollouts::default();
    let mut waiting = way("a", 0, ProgressState::WaitingForPerson);
    waiting.deletions = Some(gate("deletion", "d"));
    waiting.message = "waits".into();
    rollouts.take(&told(vec![waiting]), at(0));
    rollouts.take(&told(vec![way("b", 1, ProgressState::Moving)]), at(1));
    let rollout = rollouts.get(&commit("a")).expect("it is kept");
    assert_eq!(rollout.gates().count(), 0);
    assert_eq!(rollout.placements[&key()].message, "");
}

fn refused(accepted: &str, seen: &str, count: usize) -> SourceRecord {
    let error =
        |line| InputError { path: "a.yaml".into(), line, object: None, field: None, message: "no".into(), hint: None };
    let refused = (1..).take(count).map(error).collect();
    SourceRecord { seen: Some(commit(seen)), refused, ..source(accepted) }
}

#[test]
fn a_refused_commit_is_a_rollout_until_the_next_is_there() {
    let mut rollouts = CommitRollouts::default();
    rollouts.take_source(&source("a"), at(0));
    rollouts.take_source(&refused("a", "b", 30), at(1));
    let rollout = rollouts.get(&commit("b")).expect("it is told");
    assert_eq!((rollout.from.clone(), rollout.ended_at), (Some(commit("a")), None));
    let Some(Trouble::Refused { errors, count }) = &rollout.trouble else { panic!("{:?}", rollout.trouble) };
    assert_eq!((errors.len(), *count), (ERRORS_MAX, 30));
    assert_eq!(rollouts.take_changed().len(), 1);
    rollouts.take_source(&refused("a", "b", 30), at(2));
    assert_eq!(rollouts.take_changed().len(), 0, "nothing new");
    rollouts.take_source(&source("c"), at(3));
    let rollout = rollouts.get(&commit("b")).expect("it is kept");
    assert_eq!(rollout.ended_at, Some(at(3)));
    assert!(rollout.trouble.is_some(), "what was wrong stays on record");
}

#[test]
fn a_held_rewrite_ends_when_it_is_accepted_or_goes_away() {
    let held = SourceRecord { seen: Some(commit("r")), held_rewrite: Some(commit("r")), ..source("a") };
    for (name, then, trouble) in [("accepted", source("r"), None), ("gone", source("a"), Some(Trouble::Rewritten))] {
        let mut rollouts = CommitRollouts::default();
        rollouts.take_source(&source("a"), at(0));
        rollouts.take_source(&held, at(1));
        let rollout = rollouts.get(&commit("r")).expect("it is told");
        assert_eq!((&rollout.trouble, rollout.ended_at), (&Some(Trouble::Rewritten), None), "{name}");
        rollouts.take_source(&then, at(2));
        let rollout = rollouts.get(&commit("r")).expect("it is kept");
        assert_eq!((&rollout.trouble, rollout.ended_at), (&trouble, Some(at(2))), "{name}");
        if trouble.is_none() {
            rollouts.take(&told(vec![way("r", 1, ProgressState::Moving)]), at(3));
            assert_eq!(states(&rollouts), "r Moving", "what it brings is told there too");
        }
    }
}

#[test]
fn what_is_shown_is_noted_once() {
    let mut rollouts = CommitRollouts::default();
    let mut waiting = way("a", 0, ProgressState::WaitingForPerson);
    waiting.deletions = Some(gate("deletion", "d1"));
    rollouts.take(&told(vec![waiting.clone()]), at(0));
    let note = |rollouts: &mut CommitRollouts, second| {
        let rollout = rollouts.get_mut(&commit("a")).expect("it is told");
        rollout.note_shown(&rollout.waiting_gates(), at(second));
        rollout.shown.iter().map(|shown| format!("{} {}", shown.digest, shown.from.as_second())).collect::<Vec<_>>()
    };
    assert_eq!(note(&mut rollouts, 5), ["d1 5"]);
    assert_eq!(note(&mut rollouts, 9), ["d1 5"], "since the first time");
    waiting.deletions = Some(gate("deletion", "d2"));
    rollouts.take(&told(vec![waiting]), at(10));
    assert_eq!(note(&mut rollouts, 11), ["d1 5", "d2 11"]);
}

#[test]
fn the_conversation_of_several_rollouts_is_the_newest_open_ones() {
    let mut rollouts = CommitRollouts::default();
    for (name, began, ended, number, also) in
        [("a", 0, None, 1, vec![2]), ("b", 5, Some(6), 1, vec![]), ("c", 3, None, 3, vec![2])]
    {
        rollouts.begin(commit(name), at(began));
        let rollout = rollouts.get_mut(&commit(name)).expect("it began");
        rollout.thread = Some(Thread { number, is_issue: false });
        rollout.also = also.into_iter().collect();
        rollout.ended_at = ended.map(at);
    }
    let rollout_in = |number| rollouts.rollout_in(number).map(|rollout| rollout.commit.to_string());
    assert_eq!(rollout_in(1).as_deref(), Some("a"), "what continues, though the other is newer");
    assert_eq!(rollout_in(2).as_deref(), Some("c"), "the newer of two");
    assert_eq!(rollout_in(4), None);
}

#[test]
fn old_ends_are_forgotten_and_nothing_that_continues() {
    let mut rollouts = CommitRollouts::default();
    let count = i64::try_from(ENDED_ROLLOUTS_MAX).expect("few") + 3;
    for number in 0..count {
        let name = format!("{number:03}");
        rollouts.begin(commit(&name), at(number));
        rollouts.get_mut(&commit(&name)).expect("it began").ended_at = Some(at(number));
    }
    rollouts.take(&told(vec![way("open", 0, ProgressState::Moving)]), at(0));
    rollouts.take_changed();
    assert!(rollouts.forget(at(count)).is_empty(), "the hour is not over");
    let gone = rollouts.forget(at(count + 3600));
    assert_eq!(gone, ["000", "001", "002"].map(commit));
    assert_eq!(rollouts.iter().count(), ENDED_ROLLOUTS_MAX + 1);
    assert!(rollouts.take_changed().values().all(Option::is_none), "their records go");
}

#[test]
fn placements_that_went_while_nobody_looked_are_brought_to_an_end() {
    let mut rollouts = CommitRollouts::default();
    rollouts.take_source(&source("one"), at(0));
    rollouts.take(&told(vec![way("one", 0, ProgressState::Moving)]), at(1));
    let mut rollouts = CommitRollouts::restore(rollouts.take_changed().into_values().flatten());
    assert_eq!(rollouts.changed().collect::<Vec<_>>(), [&commit("one")], "its texts are compared with what stands");
    rollouts.end_others(&[key()].into(), at(2));
    assert_eq!(rollouts.get(&commit("one")).and_then(|rollout| rollout.ended_at), None);
    rollouts.end_others(&BTreeSet::new(), at(3));
    let rollout = rollouts.get(&commit("one")).expect("it is kept");
    assert_eq!((rollout.ended_at, &rollout.placements[&key()].state), (Some(at(3)), &ProgressState::Done));
    let mut rollouts = CommitRollouts::restore([rollout.clone()]);
    assert!(rollouts.take_changed().is_empty(), "what has ended stays as it is");
}
