use super::*;

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

/// Says what every story tells of the placement.
fn states(stories: &Stories) -> String {
    let one = |story: &Story| {
        let state = match story.placements.get(&key()).map(|way| &way.state) {
            None => "-".to_owned(),
            Some(ProgressState::Superseded { by }) => format!("superseded by {by}"),
            Some(state) => format!("{state:?}"),
        };
        format!("{} {state}{}", story.commit, if story.ended_at.is_some() { ", over" } else { "" })
    };
    stories.iter().map(one).collect::<Vec<_>>().join("; ")
}

#[test]
fn what_placements_say_becomes_stories() {
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
            "what failed goes on after a retry",
            vec![told(vec![way("a", 0, Failed)]), told(vec![way("a", 0, Moving)])],
            "a Moving",
        ),
        (
            "what was rejected goes on after a retry",
            vec![told(vec![way("a", 0, Failed)]), told(vec![way("a", 0, Rejected)]), told(vec![way("a", 0, Moving)])],
            "a Moving",
        ),
        (
            "superseded, as the placement says",
            vec![told(vec![way("a", 0, Moving)]), told(vec![way("b", 1, Moving), way("a", 0, by("b"))])],
            "a superseded by b, over; b Moving",
        ),
        (
            "superseded, by being told of no more",
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
        let mut stories = Stories::default();
        for (second, told) in all.iter().enumerate() {
            stories.take(told, at(i64::try_from(second).expect("few")));
        }
        assert_eq!(states(&stories), wanted, "{name}");
    }
}

#[test]
fn a_removed_placement_is_told_with_the_commit_that_removed_it() {
    let mut stories = Stories::default();
    stories.take_source(&source("a"), at(0));
    stories.take(&told(vec![way("a", 0, ProgressState::Moving)]), at(0));
    stories.take(&told(vec![way("a", 0, ProgressState::Done)]), at(0));
    stories.take_source(&source("b"), at(1));
    let waiting = removal(ProgressState::WaitingForPerson, Some(gate("deletion", "d1")));
    stories.take(&concerned("b", vec![waiting.clone()]), at(1));
    assert_eq!(states(&stories), "a Done, over; b WaitingForPerson");
    let story = stories.get(&commit("b")).expect("it is told");
    assert_eq!(story.from, Some(commit("a")), "what was in force before");
    assert_eq!(story.gates().map(|(_, _, gate)| gate.stage.as_str()).collect::<Vec<_>>(), ["deletion"]);
    // Another commit comes meanwhile; the removal goes on where it began.
    stories.take_source(&source("c"), at(2));
    stories.take(&told(vec![removal(ProgressState::Moving, None)]), at(2));
    assert_eq!(states(&stories), "a Done, over; b Moving");
    stories.take(&told(vec![]), at(3));
    assert_eq!(states(&stories), "a Done, over; b Done, over");
}

#[test]
fn a_restart_does_not_move_what_was_told_elsewhere() {
    let mut first = Stories::default();
    first.take_source(&source("b"), at(1));
    first.take(&told(vec![removal(ProgressState::Moving, None)]), at(1));
    let mut second = Stories::restore(first.take_changed().into_values().flatten());
    second.take_source(&source("b"), at(2));
    second.take(&told(vec![removal(ProgressState::WaitingForPerson, Some(gate("deletion", "d")))]), at(2));
    assert_eq!(states(&second), "b WaitingForPerson");
    second.take(&told(vec![]), at(3));
    assert_eq!(states(&second), "b Done, over");
}

#[test]
fn superseded_gates_wait_for_nobody() {
    let mut stories = Stories::default();
    let mut waiting = way("a", 0, ProgressState::WaitingForPerson);
    waiting.deletions = Some(gate("deletion", "d"));
    waiting.message = "waits".into();
    stories.take(&told(vec![waiting]), at(0));
    stories.take(&told(vec![way("b", 1, ProgressState::Moving)]), at(1));
    let story = stories.get(&commit("a")).expect("it is kept");
    assert_eq!(story.gates().count(), 0);
    assert_eq!(story.placements[&key()].message, "");
}

fn refused(accepted: &str, seen: &str, count: usize) -> SourceRecord {
    let error =
        |line| InputError { path: "a.yaml".into(), line, object: None, field: None, message: "no".into(), hint: None };
    let refused = (1..).take(count).map(error).collect();
    SourceRecord { seen: Some(commit(seen)), refused, ..source(accepted) }
}

#[test]
fn a_refused_commit_is_a_story_until_the_next_is_there() {
    let mut stories = Stories::default();
    stories.take_source(&source("a"), at(0));
    stories.take_source(&refused("a", "b", 30), at(1));
    let story = stories.get(&commit("b")).expect("it is told");
    assert_eq!((story.from.clone(), story.ended_at), (Some(commit("a")), None));
    let Some(Trouble::Refused { errors, count }) = &story.trouble else { panic!("{:?}", story.trouble) };
    assert_eq!((errors.len(), *count), (ERRORS_MAX, 30));
    assert_eq!(stories.take_changed().len(), 1);
    stories.take_source(&refused("a", "b", 30), at(2));
    assert_eq!(stories.take_changed().len(), 0, "nothing new");
    stories.take_source(&source("c"), at(3));
    let story = stories.get(&commit("b")).expect("it is kept");
    assert_eq!(story.ended_at, Some(at(3)));
    assert!(story.trouble.is_some(), "what was wrong stays on record");
}

#[test]
fn a_held_rewrite_ends_when_it_is_let_in_or_goes_away() {
    let held = SourceRecord { seen: Some(commit("r")), held_rewrite: Some(commit("r")), ..source("a") };
    for (name, then, trouble) in [("let in", source("r"), None), ("gone", source("a"), Some(Trouble::Rewritten))] {
        let mut stories = Stories::default();
        stories.take_source(&source("a"), at(0));
        stories.take_source(&held, at(1));
        let story = stories.get(&commit("r")).expect("it is told");
        assert_eq!((&story.trouble, story.ended_at), (&Some(Trouble::Rewritten), None), "{name}");
        stories.take_source(&then, at(2));
        let story = stories.get(&commit("r")).expect("it is kept");
        assert_eq!((&story.trouble, story.ended_at), (&trouble, Some(at(2))), "{name}");
        if trouble.is_none() {
            stories.take(&told(vec![way("r", 1, ProgressState::Moving)]), at(3));
            assert_eq!(states(&stories), "r Moving", "what it brings is told there too");
        }
    }
}

#[test]
fn what_is_shown_is_noted_once() {
    let mut stories = Stories::default();
    let mut waiting = way("a", 0, ProgressState::WaitingForPerson);
    waiting.deletions = Some(gate("deletion", "d1"));
    stories.take(&told(vec![waiting.clone()]), at(0));
    let note = |stories: &mut Stories, second| {
        let story = stories.get_mut(&commit("a")).expect("it is told");
        story.note_shown(at(second));
        story.shown.iter().map(|shown| format!("{} {}", shown.digest, shown.from.as_second())).collect::<Vec<_>>()
    };
    assert_eq!(note(&mut stories, 5), ["d1 5"]);
    assert_eq!(note(&mut stories, 9), ["d1 5"], "since the first time");
    waiting.deletions = Some(gate("deletion", "d2"));
    stories.take(&told(vec![waiting]), at(10));
    assert_eq!(note(&mut stories, 11), ["d1 5", "d2 11"]);
}

#[test]
fn the_conversation_of_several_stories_is_the_newest_open_ones() {
    let mut stories = Stories::default();
    for (name, began, ended, number, also) in
        [("a", 0, None, 1, vec![2]), ("b", 5, Some(6), 1, vec![]), ("c", 3, None, 3, vec![2])]
    {
        stories.begin(commit(name), at(began));
        let story = stories.get_mut(&commit(name)).expect("it began");
        story.thread = Some(Thread { number, is_issue: false });
        story.also = also.into_iter().collect();
        story.ended_at = ended.map(at);
    }
    let told_in = |number| stories.told_in(number).map(|story| story.commit.to_string());
    assert_eq!(told_in(1).as_deref(), Some("a"), "what goes on, though the other is newer");
    assert_eq!(told_in(2).as_deref(), Some("c"), "the newer of two");
    assert_eq!(told_in(4), None);
}

#[test]
fn old_ends_are_forgotten_and_nothing_that_goes_on() {
    let mut stories = Stories::default();
    let count = i64::try_from(ENDED_STORIES_MAX).expect("few") + 3;
    for number in 0..count {
        let name = format!("{number:03}");
        stories.begin(commit(&name), at(number));
        stories.get_mut(&commit(&name)).expect("it began").ended_at = Some(at(number));
    }
    stories.take(&told(vec![way("open", 0, ProgressState::Moving)]), at(0));
    stories.take_changed();
    assert!(stories.forget(at(count)).is_empty(), "the hour is not over");
    let gone = stories.forget(at(count + 3600));
    assert_eq!(gone, ["000", "001", "002"].map(commit));
    assert_eq!(stories.iter().count(), ENDED_STORIES_MAX + 1);
    assert!(stories.take_changed().values().all(Option::is_none), "their records go");
}
