//! How runs halt, stop, remove, end, and what they say meanwhile.

use super::world::{World, minute, play};

/// What is told before each advance, and the minute at which it then wants to be called.
type Wakes = &'static [(&'static str, Option<i64>)];

#[test]
fn superseded_runs_catch_up() {
    play(&[
        (
            "deferred ones of reached stages, nothing else",
            "s: a b; t: c",
            &[
                ("a offline", "Updating | s Updating a=D b=U | t Pending c=P"),
                ("superseded, a online", "Superseded | s Failed a=D b=U | t Pending c=P"),
                ("b ready", "Superseded | s Failed a=U b=S | t Pending c=P"),
                ("c gone", "Superseded | s Failed a=U b=S | t Pending c=P"),
            ],
        ),
        (
            "the newer run takes what it reaches",
            "s/2: a b c",
            &[
                ("a offline", "Updating | s Updating a=D b=U c=U"),
                ("superseded, a taken, b taken, a online", "Superseded | s Failed a=x b=x c=U"),
                ("c failed", "Superseded | s Failed a=x b=x c=F"),
            ],
        ),
        (
            "what failed too often is brought nowhere",
            "s/2: a b c",
            &[
                ("a offline", "Updating | s Updating a=D b=U c=U"),
                ("b failed", "Halted | s Updating a=D b=F c=U"),
                ("superseded, a online, c ready", "Superseded | s Failed a=D b=F c=S"),
                ("retry", "Superseded | s Failed a=D b=F c=S"),
            ],
        ),
        (
            "nothing that had not begun",
            "s: a b",
            &[("", "Updating | s Updating a=U b=P"), ("superseded, a ready", "Superseded | s Failed a=S b=P")],
        ),
        (
            "a gate that was closed stays",
            "s before: a",
            &[("", "Waiting | s WaitingBefore a=P"), ("superseded", "Superseded | s WaitingBefore a=P")],
        ),
        (
            "what was rolled back is brought nowhere",
            "s: a b",
            &[
                ("a offline", "Updating | s Updating a=D b=U"),
                ("rolled-back, a online, b lost", "RolledBack | s Failed a=D b=U"),
                ("b taken", "RolledBack | s Failed a=D b=x"),
            ],
        ),
    ]);
}

#[test]
fn failures_halt_beyond_the_budget() {
    play(&[
        (
            "the first one, and those in flight arrive",
            "s/2: a b c",
            &[
                ("", "Updating | s Updating a=U b=U c=P"),
                ("a failed", "Halted | s Updating a=F b=U c=P"),
                ("b ready", "Halted | s Updating a=F b=S c=P"),
                ("a ready", "Updating | s Updating a=S b=S c=U"),
            ],
        ),
        (
            "tried again",
            "s: a b",
            &[
                ("", "Updating | s Updating a=U b=P"),
                ("a failed", "Halted | s Updating a=F b=P"),
                ("retry", "Updating | s Updating a=U b=P"),
            ],
        ),
        (
            "within the budget they hold nothing",
            "s: a b; t: c",
            &[
                ("failures 1", "Updating | s Updating a=U b=P | t Pending c=P"),
                ("a failed", "Updating | s Updating a=F b=U | t Pending c=P"),
                ("b ready", "Updating | s Succeeded a=F b=S | t Updating c=U"),
                ("c failed", "Succeeded | s Succeeded a=F b=S | t Succeeded c=F"),
                ("a ready", "Succeeded | s Succeeded a=S b=S | t Succeeded c=F"),
            ],
        ),
        (
            "a percentage of the stage, rounded down",
            "s/5: a b c d e",
            &[
                ("failures 39%", "Updating | s Updating a=U b=U c=U d=U e=U"),
                ("a failed", "Updating | s Updating a=F b=U c=U d=U e=U"),
                ("b failed", "Halted | s Updating a=F b=F c=U d=U e=U"),
            ],
        ),
        (
            "no gate opens",
            "s after: b a; t: c",
            &[
                ("b offline", "Updating | s Updating b=D a=U | t Pending c=P"),
                ("a ready", "Waiting | s WaitingAfter b=D a=S | t Pending c=P"),
                ("b online", "Waiting | s WaitingAfter b=U a=S | t Pending c=P"),
                ("b failed", "Halted | s WaitingAfter b=F a=S | t Pending c=P"),
                ("approve s ann", "Halted | s WaitingAfter b=F a=S | t Pending c=P"),
                ("b ready", "Updating | s Succeeded b=S a=S | t Updating c=U"),
            ],
        ),
    ]);
}

#[test]
fn stopped_runs_start_nothing() {
    play(&[
        (
            "those in flight arrive",
            "s/2: a b c; t: d",
            &[
                ("", "Updating | s Updating a=U b=U c=P | t Pending d=P"),
                ("stop, a ready", "Stopping | s Updating a=S b=U c=P | t Pending d=P"),
                ("b ready", "Stopped | s Updating a=S b=S c=P | t Pending d=P"),
                ("resume", "Updating | s Updating a=S b=S c=U | t Pending d=P"),
            ],
        ),
        (
            "the next stage waits",
            "s: a; t: b",
            &[
                ("", "Updating | s Updating a=U | t Pending b=P"),
                ("stop, a ready", "Stopped | s Succeeded a=S | t Pending b=P"),
                ("resume", "Updating | s Succeeded a=S | t Updating b=U"),
            ],
        ),
        (
            "failed while stopping: halted on resume",
            "s: a b",
            &[
                ("", "Updating | s Updating a=U b=P"),
                ("stop, a failed", "Stopped | s Updating a=F b=P"),
                ("resume", "Halted | s Updating a=F b=P"),
            ],
        ),
    ]);
}

#[test]
fn a_lost_binding_is_not_made_again_while_nothing_new_may_start() {
    for (stops, continues) in [("stop", "resume"), ("state Stop", "state Run"), ("b failed", "b ready")] {
        let mut world = World::new("s/2: a b c");
        world.settle();
        world.tell(stops);
        world.tell("a lost");
        assert_eq!(world.settle().start, [], "{stops}");
        world.tell(continues);
        assert_eq!(world.settle().start[0], "a".into(), "{continues}");
    }
    let mut world = World::new("s/2: a b");
    world.settle();
    world.tell("superseded, stop, a lost");
    assert_eq!(world.settle().start, [], "an ended run starts nothing either");
}

#[test]
fn removals_come_last_and_at_once() {
    play(&[
        (
            "all but those that are held",
            "s: a; delete: x y z",
            &[
                ("z held", "Updating | s Updating a=U | delete Pending x=P y=P z=P"),
                ("a ready", "Waiting | s Succeeded a=S | delete Updating x=U y=U z=P"),
                ("x removed, y removed", "Waiting | s Succeeded a=S | delete Updating x=S y=S z=P"),
                ("z free", "Updating | s Succeeded a=S | delete Updating x=S y=S z=U"),
                ("z removed", "Succeeded | s Succeeded a=S | delete Succeeded x=S y=S z=S"),
            ],
        ),
        (
            "picked again, left, or gone already",
            "s: a; delete: w x y z",
            &[
                ("x picked, y gone, z removed", "Updating | s Updating a=U | delete Pending w=P x=x y=x z=P"),
                ("a ready", "Updating | s Succeeded a=S | delete Updating w=U x=x y=x z=S"),
                ("w picked", "Succeeded | s Succeeded a=S | delete Succeeded w=x x=x y=x z=S"),
            ],
        ),
        (
            "stopped before and in it",
            "s: a; delete: x y",
            &[
                ("y held", "Updating | s Updating a=U | delete Pending x=P y=P"),
                ("stop, a ready", "Stopped | s Succeeded a=S | delete Pending x=P y=P"),
                ("resume", "Waiting | s Succeeded a=S | delete Updating x=U y=P"),
                ("stop, y free", "Stopping | s Succeeded a=S | delete Updating x=U y=P"),
                ("x removed", "Stopped | s Succeeded a=S | delete Updating x=S y=P"),
                ("resume", "Updating | s Succeeded a=S | delete Updating x=S y=U"),
            ],
        ),
        (
            "lost on its way: when it returns",
            "s: a; delete: x y",
            &[
                ("a right", "Updating | s Succeeded a=S | delete Updating x=U y=U"),
                ("x offline, y removed", "Succeeded | s Succeeded a=S | delete Succeeded x=D y=S"),
                ("x online", "Succeeded | s Succeeded a=S | delete Succeeded x=U y=S"),
                ("x removed", "Succeeded | s Succeeded a=S | delete Succeeded x=S y=S"),
            ],
        ),
        (
            "kept for other placements: nothing waits for it",
            "s: a; delete: x y",
            &[
                ("a right", "Updating | s Succeeded a=S | delete Updating x=U y=U"),
                ("x kept", "Updating | s Succeeded a=S | delete Updating x=x y=U"),
                ("y removed", "Succeeded | s Succeeded a=S | delete Succeeded x=x y=S"),
            ],
        ),
        (
            "offline: when it returns",
            "s: a; delete: x",
            &[
                ("a right, x offline", "Succeeded | s Succeeded a=S | delete Succeeded x=D"),
                ("x online", "Succeeded | s Succeeded a=S | delete Succeeded x=U"),
                ("x removed", "Succeeded | s Succeeded a=S | delete Succeeded x=S"),
            ],
        ),
    ]);
}

#[test]
fn it_wakes_when_time_alone_changes_something() {
    let rows: [(&str, &str, Wakes); 7] = [
        ("a cluster is stuck after five minutes", "s: a", &[("", Some(5)), ("at 4", Some(5)), ("at 5", None)]),
        ("a wait", "s wait=60: a", &[("at 1, a right", Some(61)), ("at 60", Some(61)), ("at 61", None)]),
        (
            "a request, and a word, are too old after three days",
            "s before: a",
            &[
                ("quorum 2", Some(4320)),
                ("at 10, approve s ann", Some(4320)),
                ("at 4320", Some(4330)),
                ("at 4330", None),
            ],
        ),
        ("nothing to wait for", "s: a", &[("state Initialize", None)]),
        ("stopped", "s: a", &[("stop", None)]),
        ("what an earlier run broke fails in time", "s: a b", &[("b broken, b offline, b in=7", Some(7))]),
        ("the deadline of what is on its way", "s: a", &[("", Some(5)), ("at 1, a in=2", Some(3))]),
    ];
    for (name, stages, steps) in rows {
        let mut world = World::new(stages);
        for (commands, expected) in steps {
            world.tell(commands);
            assert_eq!(world.settle().wake_at, expected.map(minute), "{name} ({commands}): {}", world.text());
        }
    }
}

#[test]
fn runs_say_what_they_wait_for() {
    let rows: [(&str, &[&str], &str); 10] = [
        (
            "s after: a b",
            &["b offline, a right"],
            "the clusters of stage s are done; waits for approval run-after-s (0 of 1 given); 1 offline or suspended (b)",
        ),
        ("s before: a", &[""], "stage s has not begun; waits for approval run-before-s (0 of 1 given)"),
        (
            "s after wait=60: a",
            &["quorum 2, a right", "approve s ann"],
            "the clusters of stage s are done; waits for approval run-after-s (1 of 2 given) and 01:00 UTC on 1970-01-01",
        ),
        ("s: a b; t: c", &["a offline, b offline"], "stage s waits: all its clusters are offline or suspended (a, b)"),
        (
            "s/3: a b c d",
            &["failures 1, d offline", "a ready, b failed"],
            "stage s: 1 of 4 clusters done, 1 on the way (c), 1 failed (b), 1 offline or suspended (d)",
        ),
        ("s: a b", &["b broken, b offline"], "waits for what an earlier run left unavailable (b)"),
        ("s: a", &["", "a failed"], "stage s: 1 cluster failed (a), allowed: 0"),
        ("s: a b", &["", "stop"], "stopped, waits for a"),
        ("s: a; delete: x", &["x held, a right"], "removal from x waits for the deletion to be approved"),
        (
            "s/9: a b c d e f g",
            &["failures 9, g offline", "a ready, b failed, c failed, d failed, e failed, f failed"],
            "all stages are done; 5 clusters failed, within the allowed failures (b, c, d, e, f); 1 cluster offline or suspended",
        ),
    ];
    for (stages, steps, expected) in rows {
        let mut world = World::new(stages);
        for commands in steps {
            world.tell(commands);
            world.settle();
        }
        assert!(world.run.message.contains(expected), "{stages}: {}", world.run.message);
    }
}
