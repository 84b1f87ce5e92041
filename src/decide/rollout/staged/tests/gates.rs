//! People's words at gates.

use std::fmt::Write as _;

use super::world::{DIGEST, World, said};
use crate::rollout::staged::*;
use model::commands::{RefusalReason, Verb};
use model::id::Digest;
use model::runs::{Gate, RunPhase, request_name};

/// A world that was told these things, one after the other.
fn world(stages: &str, steps: &[&str]) -> World {
    let mut world = World::new(stages);
    for commands in steps {
        world.tell(commands);
        world.settle();
    }
    world
}

/// Name, world, stage, side and digest shown; the refusal, and what it says.
type Row<'a> = (&'a str, World, &'a str, Option<Gate>, Option<&'a str>, RefusalReason, &'a str);

#[test]
fn refusals_have_reasons_and_change_nothing() {
    use RefusalReason::{DigestMismatch, Expired, NotFound, NotPossible, NotWaiting};
    let waits = || world("s before after: a; t: b", &["quorum 2"]);
    let short = &DIGEST[..6];
    let rows: [Row; 10] = [
        ("no such stage", waits(), "u", None, None, NotFound, "its stages are: s, t"),
        ("a later stage", waits(), "t", None, None, NotWaiting, "does not wait for an approval now"),
        ("the other side", waits(), "s", Some(Gate::After), None, NotWaiting, "what waits is run-before-s"),
        ("another digest", waits(), "s", None, Some("fedcba9876"), DigestMismatch, "decide again"),
        ("too little of it", waits(), "s", None, Some(short), DigestMismatch, "at least 7"),
        ("more than it", waits(), "s", None, Some("0123456789abcdef-s-"), DigestMismatch, "decide again"),
        (
            "the same person",
            world("s before: a", &["quorum 2", "approve s ann"]),
            "s",
            None,
            None,
            NotPossible,
            "1 of 2",
        ),
        ("asked too long ago", world("s before: a", &["", "at 4320"]), "s", None, None, Expired, "gitfleet retry run"),
        (
            "open already",
            world("s after wait=9: a", &["a right", "approve s ann"]),
            "s",
            None,
            None,
            NotWaiting,
            "needs no approval",
        ),
        ("ended", world("s before: a", &["", "superseded"]), "s", None, None, NotWaiting, "has ended"),
    ];
    for (name, mut world, stage, gate, shown, reason, message) in rows {
        let before = world.run.clone();
        let refusal = world.approve(stage, gate, "ann", shown).expect_err(name);
        assert_eq!(refusal.reason, reason, "{name}: {refusal}");
        assert!(refusal.message.contains(message), "{name}: {refusal}");
        assert_eq!(world.run, before, "{name}");
    }
}

#[test]
fn approvals_open_exactly_their_gate() {
    for shown in [None, Some(&DIGEST[..7]), Some("0123456789abcdef-s")] {
        let mut world = world("s before: a", &[""]);
        let approved = world.approve("s", Some(Gate::Before), "ann", shown).unwrap();
        assert_eq!(approved, Approved { opened: true, given: 1, required: 1 });
        let task = &world.run.stages[0].before[0];
        assert_eq!((task.approvals[0].digest.as_str(), task.done_at), ("0123456789abcdef-s", Some(world.now)));
    }
    // A word for another digest, or one that is too old, does not count, and its speaker may speak again.
    let mut other = world("s before: a", &["quorum 2", "approve s ann"]);
    other.run.stages[0].before[0].approvals[0].digest = Digest::new("another");
    assert_eq!(other.approve("s", None, "bob", None).unwrap(), Approved { opened: false, given: 1, required: 2 });
    assert_eq!(other.approve("s", None, "ann", None).unwrap(), Approved { opened: true, given: 2, required: 2 });
    // Asked again, a word that still counts stays.
    let mut late = world("s before: a", &["quorum 2", "at 10, approve s ann", "at 4325, retry"]);
    assert_eq!(late.approve("s", None, "bob", None).unwrap(), Approved { opened: true, given: 2, required: 2 });
    let mut later = world("s before: a", &["quorum 2", "at 10, approve s ann", "at 4330, retry"]);
    assert_eq!(later.approve("s", None, "bob", None).unwrap(), Approved { opened: false, given: 1, required: 2 });
    // What is done stays done, though more people are wanted now or the word grows old.
    let done = world("s after wait=5000: a", &["a right", "approve s ann", "quorum 2, at 4999", "at 5000"]);
    assert_eq!(done.run.phase, RunPhase::Succeeded);
}

#[test]
fn a_no_ends_the_run() {
    let at = |gate| GateName { run: "run".to_owned(), stage: "s".to_owned(), gate };
    for (stages, steps, phase) in [
        ("s before: a", &[""] as &[&str], "Rejected | s WaitingBefore a=P"),
        ("s after: a", &["a right"], "Rejected | s Failed a=S"),
        ("s after: a", &["a right", "stop"], "Rejected | s Failed a=S"),
        ("s before: a", &["", "at 9999"], "Rejected | s WaitingBefore a=P"),
    ] {
        let mut world = world(stages, steps);
        let (person, command) = said(Verb::Reject, "ann", None);
        let wrong = said(Verb::Reject, "ann", Some("another digest")).1;
        assert!(reject(&mut world.run, &at(None), &person, &wrong, world.now).is_err());
        reject(&mut world.run, &at(None), &person, &command, world.now).unwrap();
        assert_eq!(world.run.message, "ann rejected stage s: seen");
        assert_eq!(world.run.stages[0].ended_at, Some(world.now), "{stages}");
        world.settle();
        assert_eq!(world.text(), phase, "{stages}");
        assert!(reject(&mut world.run, &at(None), &person, &command, world.now).is_err(), "it has ended");
    }
    let mut moving = world("s after: a", &[""]);
    let (person, command) = said(Verb::Reject, "ann", None);
    let refusal = reject(&mut moving.run, &at(None), &person, &command, moving.now).unwrap_err();
    assert_eq!(refusal.reason, RefusalReason::NotWaiting);
}

#[test]
fn requests_have_names() {
    assert_eq!(request_name("web-3", "canary", Gate::After), "web-3-after-canary");
    let mut runs = [World::new("canary before after: a; free: b").run, World::new("canary after: a; last: b").run];
    ["web-3", "web-3-after"].into_iter().zip(&mut runs).for_each(|(name, run)| name.clone_into(&mut run.name));
    let rows = [
        ("web-3-before-canary", "web-3 canary Some(Before)"),
        ("web-3-after-canary", "web-3 canary Some(After); web-3-after canary None"),
        ("web-3-canary", "web-3 canary None"),
        ("web-3-after-after-canary", "web-3-after canary Some(After)"),
        ("web-3-after-before-canary", ""),
        ("web-3-after-free", ""),
        ("web-3-free", ""),
        ("web-3canary", ""),
        ("web-4-canary", ""),
    ];
    for (name, expected) in rows {
        let mut text = String::new();
        for found in named_request(name, &runs) {
            let separator = if text.is_empty() { "" } else { "; " };
            write!(text, "{separator}{} {} {:?}", found.run, found.stage, found.gate).unwrap();
        }
        assert_eq!(text, expected, "{name}");
    }
}
