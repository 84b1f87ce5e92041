//! How runs move: the worked examples, then every sentence of the design.

use super::world::{World, minute, play};

#[test]
fn example_29_the_next_cluster_starts_when_one_is_done() {
    play(&[(
        "two at once",
        "s/2: a b c",
        &[
            ("", "Updating | s Updating a=U b=U c=P"),
            ("a ready", "Updating | s Updating a=S b=U c=U"),
            ("b ready, c ready", "Succeeded | s Succeeded a=S b=S c=S"),
        ],
    )]);
}

#[test]
fn example_30_a_wait_continues_through_a_stop() {
    // Minutes after 11:00. KubeFleet starts the wait again at 12:30 and passes at 13:30.
    play(&[
        (
            "as KubeFleet without a stop",
            "s after wait=60: a",
            &[
                ("", "Updating | s Updating a=U"),
                ("at 60, a ready", "Waiting | s WaitingAfter a=S"),
                ("at 70, approve s ann", "Waiting | s WaitingAfter a=S"),
                ("at 119", "Waiting | s WaitingAfter a=S"),
                ("at 120", "Succeeded | s Succeeded a=S"),
            ],
        ),
        (
            "stopped in between",
            "s after wait=60: a",
            &[
                ("", "Updating | s Updating a=U"),
                ("at 60, a ready", "Waiting | s WaitingAfter a=S"),
                ("at 70, approve s ann", "Waiting | s WaitingAfter a=S"),
                ("at 90, state Stop", "Stopped | s WaitingAfter a=S"),
                ("at 100, state Run", "Waiting | s WaitingAfter a=S"),
                ("at 120", "Succeeded | s Succeeded a=S"),
            ],
        ),
        (
            "stopped while it ends",
            "s wait=60: a; t: b",
            &[
                ("a right", "Waiting | s WaitingAfter a=S | t Pending b=P"),
                ("at 30, stop", "Stopped | s WaitingAfter a=S | t Pending b=P"),
                ("at 90", "Stopped | s WaitingAfter a=S | t Pending b=P"),
                ("at 91, resume", "Updating | s Succeeded a=S | t Updating b=U"),
            ],
        ),
    ]);
}

#[test]
fn example_31_empty_stages_ask_nobody() {
    let mut world = World::new("s1: a; s2 before after wait=60:; delete: x");
    world.settle();
    world.tell("a ready");
    let step = world.settle();
    assert_eq!(world.text(), "Updating | s1 Succeeded a=S | s2 Skipped | delete Updating x=U");
    assert_eq!(step.remove, ["x".into()]);
    let events: Vec<String> = step.notes.iter().map(|note| note.event.to_string()).collect();
    assert_eq!(
        events,
        ["ClusterSucceeded", "StageSucceeded", "StageSkipped", "StageStarted", "ClusterStarted"],
        "no approval is asked for"
    );
    let skipped = &world.run.stages[1];
    assert!(skipped.before.iter().chain(&skipped.after).all(|task| task.asked_at.is_none() && task.done_at.is_none()));
    assert_eq!((skipped.started_at, skipped.ended_at), (Some(minute(0)), Some(minute(0))));
    world.tell("x removed");
    world.settle();
    assert_eq!(world.text(), "Succeeded | s1 Succeeded a=S | s2 Skipped | delete Succeeded x=S");
}

#[test]
fn it_begins_when_it_may() {
    play(&[
        ("no state", "s: a", &[("", "Updating | s Updating a=U")]),
        ("nothing to do", "s: a b", &[("a right, b right", "Succeeded | s Succeeded a=S b=S")]),
        ("no clusters at all", "s:; t:", &[("", "Succeeded | s Skipped | t Skipped")]),
        (
            "Initialize waits",
            "s: a",
            &[
                ("state Initialize", "Initialized | s Pending a=P"),
                ("", "Initialized | s Pending a=P"),
                ("state Run", "Updating | s Updating a=U"),
                ("state Initialize", "Stopping | s Updating a=U"),
            ],
        ),
        (
            "prepared while paused",
            "s: a",
            &[("stop", "Stopped | s Pending a=P"), ("resume", "Updating | s Updating a=U")],
        ),
    ]);
}

#[test]
fn a_stage_that_is_right_already_began_and_ended() {
    let mut world = World::new("s: a b; t: c");
    world.tell("a right, b right");
    world.settle();
    let times = |index: usize| (world.run.stages[index].started_at, world.run.stages[index].ended_at);
    assert_eq!((times(0), times(1)), ((Some(minute(0)), Some(minute(0))), (Some(minute(0)), None)));
}

#[test]
fn gates_hold_stages() {
    play(&[
        (
            "before",
            "s before: a",
            &[
                ("", "Waiting | s WaitingBefore a=P"),
                ("at 5, approve s ann", "Updating | s Updating a=U"),
                ("a ready", "Succeeded | s Succeeded a=S"),
            ],
        ),
        (
            "two people",
            "s before: a",
            &[
                ("quorum 2", "Waiting | s WaitingBefore a=P"),
                ("approve s ann", "Waiting | s WaitingBefore a=P"),
                ("approve s bob", "Updating | s Updating a=U"),
            ],
        ),
        (
            "a word that is too old",
            "s before: a",
            &[
                ("quorum 2", "Waiting | s WaitingBefore a=P"),
                ("at 4000, approve s ann", "Waiting | s WaitingBefore a=P"),
                ("at 4320, retry, approve s bob", "Updating | s Updating a=U"),
            ],
        ),
        (
            "before and after are two gates",
            "s before after: a; t: b",
            &[
                ("", "Waiting | s WaitingBefore a=P | t Pending b=P"),
                ("approve s ann", "Updating | s Updating a=U | t Pending b=P"),
                ("a ready", "Waiting | s WaitingAfter a=S | t Pending b=P"),
                ("approve s ann", "Updating | s Succeeded a=S | t Updating b=U"),
            ],
        ),
        (
            "a rollback asks nobody",
            "s before wait=60 after: a",
            &[("ungated", "Updating | s Updating a=U"), ("a ready", "Succeeded | s Succeeded a=S")],
        ),
        (
            "approved while stopped: opens on resume",
            "s before: a",
            &[
                ("", "Waiting | s WaitingBefore a=P"),
                ("stop", "Stopped | s WaitingBefore a=P"),
                ("approve s ann", "Stopped | s WaitingBefore a=P"),
                ("at 9000, resume", "Updating | s Updating a=U"),
            ],
        ),
        (
            "all clusters left while it waits",
            "s before: a; t: b",
            &[
                ("", "Waiting | s WaitingBefore a=P | t Pending b=P"),
                ("a gone", "Waiting | s WaitingBefore a=x | t Pending b=P"),
                ("b gone", "Succeeded | s Skipped a=x | t Skipped b=x"),
            ],
        ),
    ]);
}

#[test]
fn leavers_are_skipped() {
    play(&[
        ("before its turn", "s: a b", &[("b unpicked", "Updating | s Updating a=U b=x")]),
        ("in flight", "s: a b", &[("", "Updating | s Updating a=U b=P"), ("a gone", "Updating | s Updating a=x b=U")]),
        (
            "picked again: a follow-up run takes it",
            "s: a b",
            &[
                ("b unpicked", "Updating | s Updating a=U b=x"),
                ("b picked, a ready", "Succeeded | s Succeeded a=S b=x"),
            ],
        ),
        (
            "after its turn",
            "s: a b",
            &[
                ("", "Updating | s Updating a=U b=P"),
                ("a ready", "Updating | s Updating a=S b=U"),
                ("a gone", "Updating | s Updating a=S b=U"),
            ],
        ),
        (
            "a binding that was evicted and created again starts again",
            "s: a",
            &[("", "Updating | s Updating a=U"), ("a lost", "Updating | s Updating a=U")],
        ),
        (
            "a failed one that leaves does not end the halt",
            "s: a b",
            &[
                ("", "Updating | s Updating a=U b=P"),
                ("a failed", "Halted | s Updating a=F b=P"),
                ("a gone", "Halted | s Updating a=F b=P"),
            ],
        ),
    ]);
    let mut world = World::new("s: a");
    world.settle();
    world.tell("a lost");
    assert_eq!(world.settle().start, ["a".into()], "the engine is told again");
}

#[test]
fn concurrency_counts_what_an_earlier_run_left() {
    play(&[
        (
            "it may start the one it broke, and nothing else",
            "s: a b",
            &[("b broken", "Updating | s Updating a=P b=U"), ("b ready", "Updating | s Updating a=U b=S")],
        ),
        (
            "two at once, one of them broken before",
            "s/2: a b c",
            &[("c broken", "Updating | s Updating a=U b=P c=U"), ("c ready", "Updating | s Updating a=U b=U c=S")],
        ),
        (
            "a broken one that is offline holds until it fails",
            "s: a b",
            &[("b broken, b offline", "Updating | s Updating a=P b=D"), ("b failed", "Updating | s Updating a=U b=D")],
        ),
        (
            "a cluster without a report may be available",
            "s: a b",
            &[("a untold, b untold", "Updating | s Updating a=P b=P"), ("b ready", "Updating | s Updating a=U b=P")],
        ),
        (
            "those that are tried again go before one that is available",
            "s/2: a b c",
            &[
                ("a offline", "Updating | s Updating a=D b=U c=U"),
                ("b failed, c failed", "Halted | s Updating a=D b=F c=F"),
                ("a online, retry", "Updating | s Updating a=D b=U c=U"),
                ("b ready", "Updating | s Updating a=U b=S c=U"),
            ],
        ),
        (
            "those that failed with something else go before one that is available",
            "s/2: a b c",
            &[
                ("a failed, c failed", "Updating | s Updating a=U b=P c=U"),
                ("a ready", "Updating | s Updating a=S b=U c=U"),
            ],
        ),
        ("right ones need no turn", "s: a b c", &[("c right", "Updating | s Updating a=U b=P c=S")]),
    ]);
}

#[test]
fn offline_clusters_are_deferred() {
    play(&[
        (
            "the others continue",
            "s: a b; t: c",
            &[
                ("a offline", "Updating | s Updating a=D b=U | t Pending c=P"),
                ("b ready", "Updating | s Succeeded a=D b=S | t Updating c=U"),
                ("a online", "Updating | s Succeeded a=U b=S | t Updating c=U"),
                ("c ready", "Updating | s Succeeded a=U b=S | t Succeeded c=S"),
                ("a ready", "Succeeded | s Succeeded a=S b=S | t Succeeded c=S"),
            ],
        ),
        (
            "a stage of deferred ones waits",
            "s: a b; t: c",
            &[
                ("a offline, b offline", "Updating | s Updating a=D b=D | t Pending c=P"),
                ("b online", "Updating | s Updating a=D b=U | t Pending c=P"),
                ("b ready", "Updating | s Succeeded a=D b=S | t Updating c=U"),
            ],
        ),
        (
            "those that left do not prove a stage",
            "s: a b; t: c",
            &[("a offline, b gone", "Updating | s Updating a=D b=x | t Pending c=P")],
        ),
        (
            "under the same limits when they return",
            "s: a b c",
            &[
                ("a offline, b offline", "Updating | s Updating a=D b=D c=U"),
                ("a online, b online", "Updating | s Updating a=D b=D c=U"),
                ("c ready", "Updating | s Updating a=U b=D c=S"),
            ],
        ),
        (
            "after the run has succeeded",
            "s: a b",
            &[
                ("a offline", "Updating | s Updating a=D b=U"),
                ("b ready", "Succeeded | s Succeeded a=D b=S"),
                ("stop, a online", "Succeeded | s Succeeded a=D b=S"),
                ("resume", "Succeeded | s Succeeded a=U b=S"),
                ("a failed", "Succeeded | s Succeeded a=F b=S"),
                ("retry", "Succeeded | s Succeeded a=U b=S"),
                ("a ready", "Succeeded | s Succeeded a=S b=S"),
            ],
        ),
        (
            "lost after its start: fails by its deadline",
            "s: a b",
            &[
                ("", "Updating | s Updating a=U b=P"),
                ("a offline", "Updating | s Updating a=U b=P"),
                ("a failed", "Halted | s Updating a=F b=P"),
            ],
        ),
        (
            "a deferred one that fails later halts",
            "s: a b; t/2: c d",
            &[
                ("a offline", "Updating | s Updating a=D b=U | t Pending c=P d=P"),
                ("b ready, a online", "Updating | s Updating a=U b=S | t Pending c=P d=P"),
                ("a failed", "Halted | s Updating a=F b=S | t Pending c=P d=P"),
            ],
        ),
    ]);
}
