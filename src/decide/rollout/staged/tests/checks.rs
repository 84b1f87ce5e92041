//! Checks of stages: availability for a time, and answers within limits.

use super::world::{World, minute, play};
use crate::rollout::staged::*;
use model::journal::JournalKind;

#[test]
fn clusters_must_stay_available() {
    play(&[
        (
            "for a time",
            "s healthy=10: a b",
            &[
                ("a right", "Updating | s Updating a=S b=U"),
                ("at 1, b ready", "Waiting | s WaitingAfter a=S b=S"),
                ("at 10", "Waiting | s WaitingAfter a=S b=S"),
                ("at 11", "Succeeded | s Succeeded a=S b=S"),
            ],
        ),
        (
            "without interruption",
            "s healthy=10: a b",
            &[
                ("a right, b right", "Waiting | s WaitingAfter a=S b=S"),
                ("at 9, a broken", "Waiting | s WaitingAfter a=S b=S"),
                ("at 12", "Waiting | s WaitingAfter a=S b=S"),
                ("at 13, a ready", "Waiting | s WaitingAfter a=S b=S"),
                ("at 22", "Waiting | s WaitingAfter a=S b=S"),
                ("at 23", "Succeeded | s Succeeded a=S b=S"),
            ],
        ),
        (
            "and answer",
            "s healthy=10: a b",
            &[
                ("a right, b right", "Waiting | s WaitingAfter a=S b=S"),
                ("at 9, a offline", "Waiting | s WaitingAfter a=S b=S"),
                ("at 10, a online", "Waiting | s WaitingAfter a=S b=S"),
                ("at 19", "Waiting | s WaitingAfter a=S b=S"),
                ("at 20", "Succeeded | s Succeeded a=S b=S"),
            ],
        ),
        (
            "unless they leave",
            "s healthy=10: a b",
            &[
                ("a right, b right", "Waiting | s WaitingAfter a=S b=S"),
                ("at 9, b broken", "Waiting | s WaitingAfter a=S b=S"),
                ("at 10, b gone", "Waiting | s WaitingAfter a=S b=S"),
                ("at 20", "Succeeded | s Succeeded a=S b=S"),
            ],
        ),
        (
            "but not those that are offline at their turn, or may fail",
            "s/3 healthy=10: a b c",
            &[
                ("failures 1, b offline, a right", "Updating | s Updating a=S b=D c=U"),
                ("c failed", "Waiting | s WaitingAfter a=S b=D c=F"),
                ("at 10", "Succeeded | s Succeeded a=S b=D c=F"),
            ],
        ),
        (
            "and those that return meanwhile",
            "s/2 healthy=10: a b",
            &[
                ("b offline, a right", "Waiting | s WaitingAfter a=S b=D"),
                ("at 9, b online", "Waiting | s WaitingAfter a=S b=U"),
                ("at 10", "Waiting | s WaitingAfter a=S b=U"),
                ("at 12, b ready", "Waiting | s WaitingAfter a=S b=S"),
                ("at 22", "Succeeded | s Succeeded a=S b=S"),
            ],
        ),
    ]);
}

#[test]
fn answers_must_be_within_limits() {
    play(&[
        (
            "an answer opens the stage",
            "s metric=m: a; t: b",
            &[
                ("answer m=0", "Updating | s Updating a=U | t Pending b=P"),
                ("a ready", "Waiting | s WaitingAfter a=S | t Pending b=P"),
                ("answer m=1", "Updating | s Succeeded a=S | t Updating b=U"),
            ],
        ),
        (
            "one outside halts the run, one within continues it",
            "s after metric=m: a; t: b",
            &[
                ("a right", "Waiting | s WaitingAfter a=S | t Pending b=P"),
                ("answer m=2", "Halted | s WaitingAfter a=S | t Pending b=P"),
                ("approve s ann", "Halted | s WaitingAfter a=S | t Pending b=P"),
                ("answer m=?", "Halted | s WaitingAfter a=S | t Pending b=P"),
                ("answer m=1", "Updating | s Succeeded a=S | t Updating b=U"),
            ],
        ),
        (
            "none opens and closes nothing",
            "s metric=m: a",
            &[
                ("a right", "Waiting | s WaitingAfter a=S"),
                ("answer m=?", "Waiting | s WaitingAfter a=S"),
                ("answer m=0", "Succeeded | s Succeeded a=S"),
            ],
        ),
        (
            "all at the same time",
            "s wait=5 healthy=3 metric=m metric=n: a",
            &[
                ("a right", "Waiting | s WaitingAfter a=S"),
                ("answer m=0", "Waiting | s WaitingAfter a=S"),
                ("answer n=0", "Waiting | s WaitingAfter a=S"),
                // The answers are two minutes old, and count no longer.
                ("at 5", "Waiting | s WaitingAfter a=S"),
                ("answer m=0", "Waiting | s WaitingAfter a=S"),
                ("at 7, answer n=0", "Succeeded | s Succeeded a=S"),
            ],
        ),
        (
            "retry asks again",
            "s metric=m: a",
            &[
                ("a right", "Waiting | s WaitingAfter a=S"),
                ("answer m=2", "Halted | s WaitingAfter a=S"),
                ("at 1, retry", "Waiting | s WaitingAfter a=S"),
                ("answer m=3", "Halted | s WaitingAfter a=S"),
                ("at 2, retry, answer m=0", "Succeeded | s Succeeded a=S"),
            ],
        ),
        (
            "a stop hides the halt, and no answer opens a stopped run",
            "s metric=m: a",
            &[
                ("a right", "Waiting | s WaitingAfter a=S"),
                ("stop", "Stopped | s WaitingAfter a=S"),
                ("answer m=2", "Stopped | s WaitingAfter a=S"),
                ("answer m=1", "Stopped | s WaitingAfter a=S"),
                ("resume", "Succeeded | s Succeeded a=S"),
            ],
        ),
        (
            "what passed once is not asked",
            "s metric=m healthy=9: a",
            &[("ungated, a right", "Succeeded | s Succeeded a=S")],
        ),
        (
            "nobody is asked of a stage without clusters",
            "s metric=m: ; t: b",
            &[("", "Updating | s Skipped | t Updating b=U")],
        ),
    ]);
}

/// A world that was told these things, and what its run says.
fn told(stages: &str, steps: &[&str]) -> (World, String) {
    let mut world = World::new(stages);
    for commands in steps {
        world.tell(commands);
        world.settle();
    }
    let message = world.run.message.clone();
    (world, message)
}

#[test]
fn messages_say_what_is_awaited() {
    let rows: [(&str, &[&str], &str); 9] = [
        ("s healthy=10: a", &["a right"], "waits for its clusters to stay available until 00:10 UTC on 1970-01-01"),
        (
            "s healthy=10: a",
            &["a right", "a broken"],
            "waits for its clusters to be available for 10m (not available: a)",
        ),
        ("s metric=m: a", &["a right"], "waits for an answer to the check m"),
        ("s metric=m: a", &["a right", "answer m=?"], "waits for an answer to the check m (no data)"),
        ("s metric=m: a", &["a right", "answer m=1.5"], "stage s: the check m answers 1.5, allowed: at most 1"),
        // The first answer outside the limits, so that not every further one is a new message.
        (
            "s metric=m: a",
            &["a right", "answer m=1.5", "answer m=3"],
            "stage s: the check m answers 1.5, allowed: at most 1",
        ),
        ("s metric=m: a", &["servers gone, a right"], "waits for the check m (the configuration has no server)"),
        (
            "s metric=m: a",
            &["server other, a right"],
            "waits for the check m (it names no server, and the configuration has several)",
        ),
        ("s wait=5 metric=m: a", &["a right"], "waits for 00:05 UTC on 1970-01-01 and an answer to the check m"),
    ];
    for (stages, steps, expected) in rows {
        let (_, message) = told(stages, steps);
        assert!(message.contains(expected), "{stages}, {steps:?}: {message}");
    }
}

#[test]
fn queries_are_asked_while_the_stage_waits() {
    let (world, _) = told("s metric=m metric=n: a; t: b", &[""]);
    assert_eq!(queries(&world.run, &world.servers), []);
    let (mut world, _) = told("s metric=m metric=n: a; t: b", &["at 3, a right"]);
    let asked = queries(&world.run, &world.servers);
    let names: Vec<&str> = asked.iter().map(|query| query.metric.as_str()).collect();
    assert_eq!(names, ["m", "n"]);
    assert_eq!((asked[0].since, asked[0].server.as_str(), asked[0].query.as_str()), (minute(3), "main", "sum(m)"));
    world.tell("answer m=2");
    world.settle();
    assert_eq!(queries(&world.run, &world.servers), asked, "also while the run is halted");
    world.tell("at 4, retry");
    world.settle();
    let since: Vec<_> = queries(&world.run, &world.servers).into_iter().map(|query| query.since).collect();
    assert_eq!(since, [minute(4), minute(3)], "what failed is asked at once");
    world.tell("answer m=0, answer n=0");
    let step = world.settle();
    assert_eq!(queries(&world.run, &world.servers), []);
    let done = step.notes.iter().filter(|note| note.event == JournalKind::TaskDone);
    let done: Vec<&str> = done.map(|note| note.message.as_str()).collect();
    assert_eq!(done, ["m answers 0, allowed: at most 1", "n answers 0, allowed: at most 1"]);
}

#[test]
fn a_run_wakes_when_its_clusters_were_available_for_long_enough() {
    let mut world = World::new("s healthy=10 wait=4: a");
    world.tell("at 1, a right");
    assert_eq!(world.settle().wake_at, Some(minute(5)));
    world.tell("at 5");
    assert_eq!(world.settle().wake_at, Some(minute(11)));
    world.tell("a broken");
    assert_eq!(world.settle().wake_at, None);
}
