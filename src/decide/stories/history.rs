//! What ended runs still do, and what they do no more.

use super::*;
use crate::model::commands::RefusalReason;
use crate::model::runs::RunCause;

fn rolling(annotations: &str) -> String {
    crate::decide::fixtures::placement("p", annotations, "")
}

#[test]
fn a_rollback_goes_through_the_gates_of_a_snapshot_that_never_passed_them() {
    let queue = "gitfleet.io/staged-update-strategy: s, gitfleet.io/when-superseded: Queue";
    let mut story = Story::rolled_out(&[("p.yaml", placement(queue))]);
    story.content("1");
    story.settle();
    story.content("2");
    assert_eq!(story.settle(), "a1 b0 c0 d0");
    story.say_as("ann", Verb::Rollback, "p", None, Some(2)).expect("it is kept");
    assert_eq!(story.settle(), "a2 b0 c0 d0");
    let back = story.run("p-1-rollback");
    assert!(matches!(back.cause, RunCause::Rollback { .. }) && back.stages[0].after.len() == 1, "{back:#?}");

    let mut story = Story::rolled_out(&[]);
    story.content("1");
    story.settle();
    story.say(Verb::Reject, "p-1 one").expect("she may");
    story.content("2");
    story.settle();
    story.say(Verb::Approve, "p-2 one").expect("the gate opens");
    assert_eq!(story.settle(), "a2 b2 c2 d2");
    story.say_as("ann", Verb::Rollback, "p", None, Some(1)).expect("it is kept");
    assert_eq!(story.settle(), "a1 b2 c2 d2", "nobody ever approved snapshot 1");
    assert!(story.phases().ends_with("p-2-rollback Waiting"), "{}", story.phases());
    story.say(Verb::Reject, "p-2-rollback one").expect("she may");
    assert_eq!(story.settle(), "a1 b2 c2 d2", "it stays as it is");
    assert_eq!(story.state.record.held.as_ref().map(|held| held.index), Some(2), "what was left is held still");
    story.say(Verb::Retry, "p").expect("it is held");
    assert_eq!(story.settle(), "a2 b2 c2 d2");
}

#[test]
fn a_cluster_that_returns_after_a_rollback_is_not_brought_to_what_is_held() {
    let mut story = Story::rolled_out(&[]);
    story.content("1");
    story.settle();
    story.goes("b", false);
    story.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(story.settle(), "a1 b0 c1 d1");
    story.say_as("ann", Verb::Rollback, "p", None, Some(0)).expect("it is kept");
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    story.goes("b", true);
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    assert_eq!(story.phases(), "p-0 Succeeded, p-1 Succeeded, p-1-rollback Succeeded");
}

#[test]
fn only_the_run_that_moved_last_is_rolled_back() {
    let mut story = Story::rolled_out(&[]);
    story.content("1");
    story.settle();
    story.say(Verb::Approve, "p-1 one").expect("the gate opens");
    story.settle();
    story.content("2");
    assert_eq!(story.settle(), "a2 b1 c1 d1");
    let refused = story.say_as("ann", Verb::Rollback, "p-1", None, Some(0)).expect_err("another run is under way");
    assert_eq!(refused.reason, RefusalReason::NotPossible);
    story.say_as("ann", Verb::Rollback, "p-2", None, Some(1)).expect("it is the last");
    assert_eq!(story.settle(), "a1 b1 c1 d1");
}

#[test]
fn an_older_run_brings_nothing_back_when_the_document_of_the_newest_goes() {
    let by_hand = [("p.yaml", placement("")), ("s.yaml", ONE_STAGE.to_owned()), ("r.yaml", run("r", ""))];
    let mut story = Story::of(&by_hand);
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    story.commit(&[("q.yaml", run("q", "")), ("x.yaml", payload("1"))]);
    assert_eq!(story.settle(), "a1 b1 c1 d1");
    story.commit(&[("q.yaml", String::new())]);
    assert_eq!(story.settle(), "a1 b1 c1 d1", "clusters stay as they are");
    assert_eq!(story.phases(), "r Succeeded");
    story.commit(&[("q.yaml", run("q", "")), ("x.yaml", payload("2"))]);
    assert_eq!(story.settle(), "a2 b2 c2 d2", "another run goes on");
}

#[test]
fn what_moved_by_itself_meanwhile_is_not_taken_back() {
    let by_hand = [("p.yaml", placement("")), ("s.yaml", ONE_STAGE.to_owned()), ("r.yaml", run("r", ""))];
    let mut story = Story::of(&by_hand);
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    story.commit(&[("p.yaml", rolling("")), ("x.yaml", payload("1"))]);
    story.later(600);
    assert_eq!(story.later(600), "a1 b1 c1 d1");
    story.commit(&[("p.yaml", placement(""))]);
    assert_eq!(story.settle(), "a1 b1 c1 d1");
    assert_eq!(story.phases(), "r Succeeded");
}

#[test]
fn a_deferral_is_forgotten_when_a_placement_moves_by_itself() {
    let mut story = Story::rolled_out(&[]);
    story.content("1");
    story.settle();
    story.goes("b", false);
    story.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(story.settle(), "a1 b0 c1 d1");
    story.commit(&[("p.yaml", rolling("")), ("x.yaml", payload("2"))]);
    story.goes("b", true);
    story.settle();
    story.say(Verb::Resume, "p").expect("it was paused");
    story.later(600);
    assert_eq!(story.later(600), "a2 b2 c2 d2");
    story.goes("b", false);
    story.commit(&[("p.yaml", placement(""))]);
    story.settle();
    story.goes("b", true);
    assert_eq!(story.settle(), "a2 b2 c2 d2");
}

#[test]
fn a_joiner_of_a_placement_that_had_moved_by_itself_gets_a_run() {
    let mut story = Story::of(&[("p.yaml", rolling(""))]);
    story.later(600);
    assert_eq!(story.later(600), "a0 b0 c0 d0");
    story.commit(&[("p.yaml", placement(AUTOMATIC))]);
    assert_eq!((story.settle().as_str(), story.phases().as_str()), ("a0 b0 c0 d0", ""), "everybody is right already");
    story.commit(&[("e.yaml", member("e", "one"))]);
    assert_eq!(story.settle(), "a0 b0 c0 d0 e0");
    assert_eq!(story.phases(), "p-0 Waiting");
}

#[test]
fn a_rejected_snapshot_stays_held_when_the_placement_moves_by_itself() {
    let mut story = Story::rolled_out(&[]);
    story.content("1");
    story.settle();
    story.say(Verb::Reject, "p-1 one").expect("she may");
    assert_eq!(story.settle(), "a1 b0 c0 d0");
    story.commit(&[("p.yaml", rolling(""))]);
    story.settle();
    story.say(Verb::Resume, "p").expect("it was paused");
    story.later(600);
    assert_eq!(story.later(600), "a0 b0 c0 d0", "it goes to what succeeded last");
    story.say(Verb::Retry, "p").expect("it is held");
    story.later(600);
    assert_eq!(story.later(600), "a1 b1 c1 d1");
}

#[test]
fn failed_clusters_of_a_run_that_succeeded_are_tried_again() {
    let tolerant = "gitfleet.io/staged-update-strategy: s, gitfleet.io/max-failures: '1'";
    let mut story = Story::rolled_out(&[("p.yaml", placement(tolerant))]);
    story.content("1");
    story.settle();
    story.manner("b", Manner::Refuses);
    story.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(story.settle(), "a1 b1 c1 d1");
    assert_eq!(story.phases(), "p-0 Succeeded, p-1 Succeeded");
    let generation =
        |story: &Story| story.state.bindings.values().find(|b| b.cluster == "b".into()).map(|b| b.generation);
    let before = generation(&story);
    story.manner("b", Manner::Well);
    assert_eq!(story.say(Verb::Retry, "p").expect("b failed"), "1 failed clusters of p-1 are tried again");
    story.settle();
    assert!(story.clusters_of("p-1").contains("b Succeeded"), "{}", story.clusters_of("p-1"));
    assert!(generation(&story) > before, "told once more");
    assert_eq!(story.state.record.last_succeeded, Some(1), "and now it succeeded everywhere");
}

#[test]
fn a_dropped_cluster_that_does_not_answer_is_cleaned_up_when_it_returns() {
    let mut story = Story::rolled_out(&[("p.yaml", placement(UNGUARDED))]);
    story.goes("d", false);
    story.commit(&[("p.yaml", fixed(UNGUARDED, "a, b, c"))]);
    assert_eq!(story.settle(), "a0 b0 c0 d0?");
    assert_eq!(story.phases(), "p-0 Succeeded, p-0-2 Succeeded");
    assert_eq!(story.wake_at, None, "nothing is left but to wait for it");
    story.goes("d", true);
    assert_eq!(story.settle(), "a0 b0 c0");
}

#[test]
fn a_written_run_takes_no_run_under_way_off_its_name() {
    let mut story = Story::rolled_out(&[]);
    story.commit(&[("e.yaml", member("e", "one"))]);
    story.settle();
    assert_eq!(story.phases(), "p-0 Succeeded, p-0-2 Waiting");
    story.commit(&[("r.yaml", run("p-0-2", ""))]);
    story.settle();
    assert!(matches!(story.run("p-0-2").cause, RunCause::FollowUp { .. }), "{:?}", story.run("p-0-2").cause);
    story.say(Verb::Approve, "p-0-2 one").expect("the gate opens");
    story.settle();
    assert_eq!(story.places(), "a0 b0 c0 d0 e0");
}

#[test]
fn a_deferral_outlives_no_snapshot() {
    let short = |annotations: &str| {
        let more = ", revisionHistoryLimit: 1, strategy: {type: External}";
        crate::decide::fixtures::placement("p", annotations, more)
    };
    let mut story = Story::rolled_out(&[("p.yaml", short(AUTOMATIC))]);
    story.content("1");
    story.settle();
    story.goes("b", false);
    story.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(story.settle(), "a1 b0 c1 d1");
    story.commit(&[("c.yaml", String::new()), ("d.yaml", String::new()), ("x.yaml", payload("2"))]);
    assert_eq!(story.settle(), "a2 b0");
    story.content("3");
    assert_eq!(story.settle(), "a3 b0");
    story.goes("b", true);
    story.settle();
    let held = story.state.bindings.values().find(|b| b.cluster == "b".into()).and_then(|b| b.snapshot);
    assert!(
        held.is_some_and(|held| story.state.snapshots.contains_key(&held)),
        "{held:?}: {:?}",
        story.state.snapshots.keys()
    );
}

#[test]
fn nothing_is_removed_while_a_placement_is_paused() {
    let mut story = Story::rolled_out(&[("p.yaml", placement(UNGUARDED))]);
    story.say(Verb::Pause, "p").expect("it goes");
    story.commit(&[("p.yaml", String::new())]);
    assert_eq!(story.settle(), "a0? b0? c0? d0?");
    story.say(Verb::Resume, "p").expect("it is paused");
    assert_eq!(story.settle(), "");
}

#[test]
fn a_rollback_returns_clusters_that_were_to_be_tried_again() {
    let mut story = Story::rolled_out(&[]);
    story.content("1");
    story.settle();
    story.manner("b", Manner::Refuses);
    story.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(story.settle(), "a1 b1 c0 d0");
    story.say(Verb::Pause, "p").expect("it goes");
    story.say(Verb::Retry, "p").expect("b failed");
    story.settle();
    story.say(Verb::Rollback, "p").expect("0 succeeded");
    story.manner("b", Manner::Well);
    story.say(Verb::Resume, "p").expect("it is paused");
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    assert_eq!(story.phases(), "p-0 Succeeded, p-1 RolledBack, p-1-rollback Succeeded");
}

#[test]
fn a_run_that_is_only_prepared_is_not_rolled_back() {
    let mut story = Story::of(&[("p.yaml", placement("")), ("s.yaml", ONE_STAGE.to_owned()), ("r.yaml", run("r", ""))]);
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    story.commit(&[("q.yaml", run("q", ", state: Initialize")), ("x.yaml", payload("1"))]);
    story.settle();
    assert_eq!(story.phases(), "r Succeeded, q Initialized");
    let refused = story.say(Verb::Rollback, "q").expect_err("it has moved nothing");
    assert_eq!(refused.reason, RefusalReason::NotPossible);
}

#[test]
fn a_percentage_is_of_the_stage_and_rounded_down() {
    let half = "gitfleet.io/staged-update-strategy: s, gitfleet.io/max-failures: 50%";
    let mut story = Story::rolled_out(&[("p.yaml", placement(half))]);
    for cluster in ["b", "d"] {
        story.manner(cluster, Manner::Slow);
    }
    story.content("1");
    story.settle();
    story.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(story.settle(), "a1 b1 c0 d0");
    let deadline = story.wake_at.expect("time alone decides");
    while story.wake_at.is_some_and(|at| at <= story.now + SignedDuration::from_secs(601))
        && story.places() == "a1 b1 c0 d0"
    {
        story.now = story.wake_at.expect("it was there");
        story.settle();
    }
    assert!(deadline <= story.now);
    assert_eq!(story.places(), "a1 b1 c1 d1", "one of two may fail, at the very instant of the deadline");
    assert_eq!(story.later(600), "a1 b1 c1 d1");
    assert_eq!(story.phases(), "p-0 Succeeded, p-1 Halted", "of one none may");
}

/// As [`STRATEGY`], with an approval before the second stage as well.
fn gated_twice() -> String {
    let two = "{name: two, labelSelector: {matchLabels: {stage: two}}";
    STRATEGY.replace(two, &format!("{two}, beforeStageTasks: [{{type: Approval}}]"))
}

#[test]
fn a_stage_that_was_passed_over_at_a_snapshot_is_asked_about_it() {
    let mut story = Story::of(&[("s.yaml", gated_twice())]);
    let pass = |story: &mut Story, run: &str| {
        for stage in ["one", "two"] {
            story.settle();
            story.say(Verb::Approve, &format!("{run} {stage}")).expect("the gate opens");
        }
        story.settle()
    };
    assert_eq!(pass(&mut story, "p-0"), "a0 b0 c0 d0");
    story.content("1");
    story.settle();
    story.say(Verb::Reject, "p-1 one").expect("she may");
    story.content("2");
    story.settle();
    story.say_as("ann", Verb::Rollback, "p", None, Some(1)).expect("it is kept");
    assert_eq!(story.settle(), "a1 b0 c0 d0");
    story.say(Verb::Approve, "p-2-rollback one").expect("nobody approved snapshot 1 before");
    story.settle();
    assert_eq!(story.run("p-2-rollback").phase, crate::model::runs::RunPhase::Succeeded);
    story.content("3");
    assert_eq!(pass(&mut story, "p-3"), "a3 b3 c3 d3");
    story.say_as("ann", Verb::Rollback, "p", None, Some(1)).expect("it is kept");
    assert_eq!(story.settle(), "a1 b3 c3 d3", "stage one was asked, stage two never");
    story.say(Verb::Approve, "p-3-rollback two").expect("it waits");
    assert_eq!(story.settle(), "a1 b1 c1 d1");
}

#[test]
fn nothing_goes_back_to_the_content_that_it_leaves() {
    let wished = "gitfleet.io/on-failure: Rollback";
    let staged = format!("{AUTOMATIC}, {wished}");
    for (annotations, is_rolling) in [(wished, true), (staged.as_str(), false)] {
        let written = if is_rolling { rolling(annotations) } else { placement(annotations) };
        let mut story = Story::of(&[("p.yaml", written), ("s.yaml", ONE_STAGE.to_owned())]);
        assert_eq!(story.later(600), "a0 b0 c0 d0");
        story.manner("a", Manner::Slow);
        story.content("1");
        assert!(story.settle().starts_with("a1"), "{annotations}: a is waited for");
        for cluster in ["a", "b", "c", "d"] {
            story.manner(cluster, Manner::Refuses);
        }
        story.content("0");
        let halted = story.settle();
        assert!(halted.contains('2'), "{annotations}: {halted}");
        assert!(story.state.record.halted.is_some(), "{annotations}: snapshot 2 is what succeeded as 0, and fails now");
        assert_eq!(story.state.record.held, None, "{annotations}");
        let refused = story.say(Verb::Rollback, "p").expect_err("it is the same content");
        assert!(refused.message.contains("snapshot 0 of p has the content of snapshot 2"), "{refused:?}");
    }
}

#[test]
fn what_is_held_is_no_goal_of_a_rollback() {
    let mut story = Story::of(&[("p.yaml", rolling(""))]);
    assert_eq!(story.later(600), "a0 b0 c0 d0");
    story.content("1");
    assert_eq!(story.later(600), "a1 b1 c1 d1");
    story.say_as("ann", Verb::Rollback, "p", None, Some(0)).expect("it is kept");
    assert_eq!(story.later(600), "a0 b0 c0 d0");
    let refused = story.say_as("ann", Verb::Rollback, "p", None, Some(1)).expect_err("it is held");
    assert!(refused.message.contains("`gitfleet retry p` rolls it out again"), "{refused:?}");
    story.say(Verb::Retry, "p").expect("it is held");
    assert_eq!(story.later(600), "a1 b1 c1 d1");
}

#[test]
fn a_rejected_content_is_not_gone_back_to_under_an_older_number() {
    let mut story = Story::rolled_out(&[]);
    story.content("1");
    story.settle();
    story.content("0");
    assert_eq!(story.settle(), "a2 b0 c0 d0");
    story.say(Verb::Reject, "p-2 one").expect("she may");
    story.commit(&[("p.yaml", rolling(""))]);
    story.settle();
    story.say(Verb::Resume, "p").expect("it was paused");
    assert_eq!(story.settle(), "a2 b0 c0 d0", "nothing moves to it");
}
