//! What ended runs still do, and what they do no more.

use super::joints::without_b;
use super::*;
use model::commands::RefusalReason;
use model::runs::RunCause;

fn rolling(annotations: &str) -> String {
    testkit::trees::placement("p", annotations, "")
}

#[test]
fn a_rollback_goes_through_the_gates_of_a_snapshot_that_never_passed_them() {
    let queue = "gitfleet.io/staged-update-strategy: s, gitfleet.io/when-superseded: Queue";
    let mut case = Case::rolled_out(&[("p.yaml", placement(queue))]);
    case.content("1");
    case.settle();
    case.content("2");
    assert_eq!(case.settle(), "a1 b0 c0 d0");
    case.say_as("ann", Verb::Rollback, "p", None, Some(2)).expect("it is kept");
    assert_eq!(case.settle(), "a2 b0 c0 d0");
    let back = case.run("p-1-rollback");
    assert!(matches!(back.cause, RunCause::Rollback { .. }) && back.stages[0].after.len() == 1, "{back:#?}");

    let mut case = Case::rolled_out(&[]);
    case.content("1");
    case.settle();
    case.say(Verb::Reject, "p-1 one").expect("she may");
    case.content("2");
    case.settle();
    case.say(Verb::Approve, "p-2 one").expect("the gate opens");
    assert_eq!(case.settle(), "a2 b2 c2 d2");
    case.say_as("ann", Verb::Rollback, "p", None, Some(1)).expect("it is kept");
    assert_eq!(case.settle(), "a1 b2 c2 d2", "nobody ever approved snapshot 1");
    assert!(case.phases().ends_with("p-2-rollback Waiting"), "{}", case.phases());
    case.say(Verb::Reject, "p-2-rollback one").expect("she may");
    assert_eq!(case.settle(), "a1 b2 c2 d2", "it stays as it is");
    assert_eq!(case.state.record.held.as_ref().map(|held| held.index), Some(2), "what was left is held still");
    case.say(Verb::Retry, "p").expect("it is held");
    assert_eq!(case.settle(), "a2 b2 c2 d2");
}

#[test]
fn a_cluster_that_returns_after_a_rollback_is_not_brought_to_what_is_held() {
    let mut case = without_b();
    case.say_as("ann", Verb::Rollback, "p", None, Some(0)).expect("it is kept");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.goes("b", true);
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Succeeded, p-1-rollback Succeeded");
}

#[test]
fn only_the_run_that_moved_last_is_rolled_back() {
    let mut case = Case::rolled_out(&[]);
    case.content("1");
    case.settle();
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    case.settle();
    case.content("2");
    assert_eq!(case.settle(), "a2 b1 c1 d1");
    let refused = case.say_as("ann", Verb::Rollback, "p-1", None, Some(0)).expect_err("another run is under way");
    assert_eq!(refused.reason, RefusalReason::NotPossible);
    case.say_as("ann", Verb::Rollback, "p-2", None, Some(1)).expect("it is the last");
    assert_eq!(case.settle(), "a1 b1 c1 d1");
}

/// What clusters have came in no run: all of them return, and what they leave is held.
#[test]
fn a_rollback_takes_back_what_a_rolling_update_brought_since_the_last_run() {
    for annotations in [AUTOMATIC, ""] {
        let mut case = Case::of(&[("s.yaml", ONE_STAGE.to_owned())]);
        assert_eq!(case.settle(), "a0 b0 c0 d0");
        case.commit(&[("p.yaml", rolling("")), ("x.yaml", payload("1"))]);
        case.later(600);
        assert_eq!(case.later(600), "a1 b1 c1 d1");
        case.commit(&[("p.yaml", placement(annotations))]);
        assert_eq!(case.settle(), "a1 b1 c1 d1");
        assert_eq!(case.phases(), "p-0 Succeeded", "all have it: nothing begins");
        let refused = case.say(Verb::Rollback, "p-0").expect_err("clusters have left what it brought");
        assert!(refused.message.contains("were moved in another way since"), "{refused}");
        let answer = case.say(Verb::Rollback, "p");
        if annotations.is_empty() {
            let refused = answer.expect_err("no strategy says how");
            assert!(refused.message.contains("write a run with resourceSnapshotIndex 0"), "{refused}");
            continue;
        }
        answer.expect("there is a way back");
        assert_eq!(case.settle(), "a0 b0 c0 d0");
        assert_eq!(case.phases(), "p-0 Succeeded, p-1-rollback Succeeded");
        assert_eq!(case.state.record.held.as_ref().map(|held| held.index), Some(1));
    }
}

/// Its policy is that of then: no commit says that fewer clusters are enough.
#[test]
fn a_rollback_does_not_wait_for_a_cluster_that_has_left() {
    let four = ", policy: {placementType: PickN, numberOfClusters: 4}, strategy: {type: External}";
    let mut case = Case::rolled_out(&[("p.yaml", testkit::trees::placement("p", AUTOMATIC, four))]);
    case.content("1");
    case.settle();
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b1 c1 d1");
    case.commit(&[("d.yaml", String::new())]);
    assert_eq!(case.settle(), "a1 b1 c1");
    case.say_as("ann", Verb::Rollback, "p", None, Some(0)).expect("it is kept");
    assert_eq!(case.settle(), "a0 b0 c0", "{}", case.phases());
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Succeeded, p-1-rollback Succeeded");
}

/// Of a rollback that returns the placement as a whole.
#[test]
fn a_rollback_removes_nothing_while_the_policy_of_then_misses_a_cluster() {
    let rolling = |clusters: &str| fixed("", clusters).replace(", strategy: {type: External}", "");
    let mut case = Case::of(&[("p.yaml", rolling("a, b, e")), ("s.yaml", ONE_STAGE.to_owned())]);
    case.later(600);
    assert_eq!(case.later(600), "a0 b0");
    case.commit(&[("p.yaml", rolling("a, b, c, d")), ("x.yaml", payload("1"))]);
    case.later(600);
    assert_eq!(case.later(600), "a1 b1 c1 d1");
    case.commit(&[("p.yaml", fixed(AUTOMATIC, "a, b, c, d"))]);
    assert_eq!(case.settle(), "a1 b1 c1 d1");
    case.say_as("ann", Verb::Rollback, "p", None, Some(0)).expect("it is kept");
    assert_eq!(case.settle(), "a0 b0 c1? d1?", "{}", case.phases());
    case.commit(&[("e.yaml", member("e", "one"))]);
    assert_eq!(case.settle(), "a0 b0 c1? d1? e0", "the removal is asked first: {}", case.phases());
    case.say(Verb::Approve, "p deletion").expect("it waits");
    assert_eq!(case.settle(), "a0 b0 e0", "{}", case.phases());
    assert_eq!(case.phases(), "p-1-rollback Succeeded, p-1-rollback-2 Succeeded");
}

#[test]
fn an_older_run_brings_nothing_back_when_the_document_of_the_newest_goes() {
    let by_hand = [("p.yaml", placement("")), ("s.yaml", ONE_STAGE.to_owned()), ("r.yaml", run("r", ""))];
    let mut case = Case::of(&by_hand);
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.commit(&[("q.yaml", run("q", "")), ("x.yaml", payload("1"))]);
    assert_eq!(case.settle(), "a1 b1 c1 d1");
    case.commit(&[("q.yaml", String::new())]);
    assert_eq!(case.settle(), "a1 b1 c1 d1", "clusters stay as they are");
    assert_eq!(case.phases(), "r Succeeded");
    case.commit(&[("q.yaml", run("q", "")), ("x.yaml", payload("2"))]);
    assert_eq!(case.settle(), "a2 b2 c2 d2", "another run continues");
}

#[test]
fn what_moved_by_itself_meanwhile_is_not_taken_back() {
    let by_hand = [("p.yaml", placement("")), ("s.yaml", ONE_STAGE.to_owned()), ("r.yaml", run("r", ""))];
    let mut case = Case::of(&by_hand);
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.commit(&[("p.yaml", rolling("")), ("x.yaml", payload("1"))]);
    case.later(600);
    assert_eq!(case.later(600), "a1 b1 c1 d1");
    case.commit(&[("p.yaml", placement(""))]);
    assert_eq!(case.settle(), "a1 b1 c1 d1");
    assert_eq!(case.phases(), "r Succeeded");
}

#[test]
fn a_deferral_is_forgotten_when_a_placement_moves_by_itself() {
    let mut case = without_b();
    case.commit(&[("p.yaml", rolling("")), ("x.yaml", payload("2"))]);
    case.goes("b", true);
    case.settle();
    case.say(Verb::Resume, "p").expect("it was paused");
    case.later(600);
    assert_eq!(case.later(600), "a2 b2 c2 d2");
    case.goes("b", false);
    case.commit(&[("p.yaml", placement(""))]);
    case.settle();
    case.goes("b", true);
    assert_eq!(case.settle(), "a2 b2 c2 d2");
}

#[test]
fn a_joiner_of_a_placement_that_had_moved_by_itself_gets_a_run() {
    let mut case = Case::of(&[("p.yaml", rolling(""))]);
    case.later(600);
    assert_eq!(case.later(600), "a0 b0 c0 d0");
    case.commit(&[("p.yaml", placement(AUTOMATIC))]);
    assert_eq!((case.settle().as_str(), case.phases().as_str()), ("a0 b0 c0 d0", ""), "everybody is right already");
    case.commit(&[("e.yaml", member("e", "one"))]);
    assert_eq!(case.settle(), "a0 b0 c0 d0 e0");
    assert_eq!(case.phases(), "p-0 Waiting");
}

#[test]
fn what_failed_in_a_run_counts_when_the_placement_moves_by_itself() {
    let mut case = Case::of(&[("p.yaml", placement(AUTOMATIC)), ("s.yaml", ONE_STAGE.to_owned())]);
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.manner("a", Manner::Refuses);
    case.content("1");
    assert_eq!(case.settle(), "a1 b1 c1 d1");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Halted");
    // With another policy no report covers the binding of a: only the run knows that it failed.
    let rolling = testkit::trees::placement("p", "", ", policy: {placementType: PickN, numberOfClusters: 5}");
    case.commit(&[("p.yaml", rolling), ("e.yaml", member("e", "one"))]);
    case.settle();
    assert_eq!(case.later(600), "a1 b1 c1 d1 e-", "{:?}", case.state.record.halted);
    case.manner("a", Manner::Well);
    case.say(Verb::Retry, "p").expect("a failed");
    case.settle();
    assert_eq!(case.later(600), "a1 b1 c1 d1 e1");
}

#[test]
fn a_rejected_snapshot_stays_held_when_the_placement_moves_by_itself() {
    let mut case = Case::rolled_out(&[]);
    case.content("1");
    case.settle();
    case.say(Verb::Reject, "p-1 one").expect("she may");
    assert_eq!(case.settle(), "a1 b0 c0 d0");
    case.commit(&[("p.yaml", rolling(""))]);
    case.settle();
    case.say(Verb::Resume, "p").expect("it was paused");
    case.later(600);
    assert_eq!(case.later(600), "a0 b0 c0 d0", "it goes to what succeeded last");
    case.say(Verb::Retry, "p").expect("it is held");
    case.later(600);
    assert_eq!(case.later(600), "a1 b1 c1 d1");
}

#[test]
fn failed_clusters_of_a_run_that_succeeded_are_tried_again() {
    let tolerant = "gitfleet.io/staged-update-strategy: s, gitfleet.io/max-failures: '1'";
    let mut case = Case::rolled_out(&[("p.yaml", placement(tolerant))]);
    case.content("1");
    case.settle();
    case.manner("b", Manner::Refuses);
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b1 c1 d1");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Succeeded");
    let generation = |case: &Case| case.state.bindings.values().find(|b| b.cluster == "b".into()).map(|b| b.generation);
    let before = generation(&case);
    case.manner("b", Manner::Well);
    assert_eq!(case.say(Verb::Retry, "p").expect("b failed"), "1 failed cluster of p-1 is tried again: b");
    case.settle();
    assert!(case.clusters_of("p-1").contains("b Succeeded"), "{}", case.clusters_of("p-1"));
    assert!(generation(&case) > before, "told once more");
    assert_eq!(case.state.record.last_succeeded, Some(1), "and now it succeeded everywhere");
}

#[test]
fn a_dropped_cluster_that_does_not_answer_is_cleaned_up_when_it_returns() {
    let mut case = Case::rolled_out(&[("p.yaml", placement(UNGUARDED))]);
    case.goes("d", false);
    case.commit(&[("p.yaml", fixed(UNGUARDED, "a, b, c"))]);
    assert_eq!(case.settle(), "a0 b0 c0 d0?");
    assert_eq!(case.phases(), "p-0 Succeeded, p-0-2 Succeeded");
    assert_eq!(case.wake_at, None, "nothing is left but to wait for it");
    case.goes("d", true);
    assert_eq!(case.settle(), "a0 b0 c0");
}

#[test]
fn a_written_run_takes_no_run_under_way_off_its_name() {
    let mut case = Case::rolled_out(&[]);
    case.commit(&[("e.yaml", member("e", "one"))]);
    case.settle();
    assert_eq!(case.phases(), "p-0 Succeeded, p-0-2 Waiting");
    case.commit(&[("r.yaml", run("p-0-2", ""))]);
    case.settle();
    assert!(matches!(case.run("p-0-2").cause, RunCause::FollowUp { .. }), "{:?}", case.run("p-0-2").cause);
    case.say(Verb::Approve, "p-0-2 one").expect("the gate opens");
    case.settle();
    assert_eq!(case.places(), "a0 b0 c0 d0 e0");
}

#[test]
fn another_strategy_in_the_same_document_is_no_way_round_an_approval() {
    let open = ONE_STAGE.replace("name: s", "name: t");
    let mut case = Case::of(&[("p.yaml", placement("")), ("r.yaml", run("r", "")), ("t.yaml", open)]);
    case.settle();
    case.say(Verb::Approve, "r one").expect("the gate opens");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    let by_t = run("r", "").replace("stagedRolloutStrategyName: s", "stagedRolloutStrategyName: t");
    case.commit(&[("r.yaml", by_t), ("x.yaml", payload("1"))]);
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.say(Verb::Approve, "r all").expect("it is asked once more");
    assert_eq!(case.settle(), "a1 b1 c1 d1");
}

#[test]
fn a_deferral_outlives_no_snapshot() {
    let short = |annotations: &str| {
        let more = ", revisionHistoryLimit: 1, strategy: {type: External}";
        testkit::trees::placement("p", annotations, more)
    };
    let mut case = Case::rolled_out(&[("p.yaml", short(AUTOMATIC))]);
    case.content("1");
    case.settle();
    case.goes("b", false);
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b0 c1 d1");
    case.commit(&[("c.yaml", String::new()), ("d.yaml", String::new()), ("x.yaml", payload("2"))]);
    assert_eq!(case.settle(), "a2 b0");
    case.content("3");
    assert_eq!(case.settle(), "a3 b0");
    case.goes("b", true);
    case.settle();
    let held = case.state.bindings.values().find(|b| b.cluster == "b".into()).and_then(|b| b.snapshot);
    assert!(
        held.is_some_and(|held| case.state.snapshots.contains_key(&held)),
        "{held:?}: {:?}",
        case.state.snapshots.keys()
    );
}

#[test]
fn nothing_is_removed_while_a_placement_is_paused() {
    let mut case = Case::rolled_out(&[("p.yaml", placement(UNGUARDED))]);
    case.say(Verb::Pause, "p").expect("it goes");
    case.commit(&[("p.yaml", String::new())]);
    assert_eq!(case.settle(), "a0? b0? c0? d0?");
    case.say(Verb::Resume, "p").expect("it is paused");
    assert_eq!(case.settle(), "");
}

#[test]
fn a_rollback_returns_clusters_that_were_to_be_tried_again() {
    let mut case = Case::rolled_out(&[]);
    case.content("1");
    case.settle();
    case.manner("b", Manner::Refuses);
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b1 c0 d0");
    case.say(Verb::Pause, "p").expect("it goes");
    case.say(Verb::Retry, "p").expect("b failed");
    case.settle();
    case.say(Verb::Rollback, "p").expect("0 succeeded");
    case.manner("b", Manner::Well);
    case.say(Verb::Resume, "p").expect("it is paused");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 RolledBack, p-1-rollback Succeeded");
}

#[test]
fn a_run_that_is_only_prepared_is_not_rolled_back() {
    let mut case = Case::of(&[("p.yaml", placement("")), ("s.yaml", ONE_STAGE.to_owned()), ("r.yaml", run("r", ""))]);
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.commit(&[("q.yaml", run("q", ", state: Initialize")), ("x.yaml", payload("1"))]);
    case.settle();
    assert_eq!(case.phases(), "r Succeeded, q Initialized");
    let refused = case.say(Verb::Rollback, "q").expect_err("it has moved nothing");
    assert_eq!(refused.reason, RefusalReason::NotPossible);
}

#[test]
fn a_percentage_is_of_the_stage_and_rounded_down() {
    let half = "gitfleet.io/staged-update-strategy: s, gitfleet.io/max-failures: 50%";
    let mut case = Case::rolled_out(&[("p.yaml", placement(half))]);
    for cluster in ["b", "d"] {
        case.manner(cluster, Manner::Slow);
    }
    case.content("1");
    case.settle();
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b1 c0 d0");
    let deadline = case.wake_at.expect("time alone decides");
    while case.wake_at.is_some_and(|at| at <= case.now + SignedDuration::from_secs(601))
        && case.places() == "a1 b1 c0 d0"
    {
        case.now = case.wake_at.expect("it was there");
        case.settle();
    }
    assert!(deadline <= case.now);
    assert_eq!(case.places(), "a1 b1 c1 d1", "one of two may fail, at the very instant of the deadline");
    assert_eq!(case.later(600), "a1 b1 c1 d1");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Halted", "of one none may");
}

/// As [`STRATEGY`], with an approval before the second stage as well.
fn gated_twice() -> String {
    let two = "{name: two, labelSelector: {matchLabels: {stage: two}}";
    STRATEGY.replace(two, &format!("{two}, beforeStageTasks: [{{type: Approval}}]"))
}

#[test]
fn a_stage_that_was_skipped_at_a_snapshot_is_asked_about_it() {
    let mut case = Case::of(&[("s.yaml", gated_twice())]);
    let pass = |case: &mut Case, run: &str| {
        for stage in ["one", "two"] {
            case.settle();
            case.say(Verb::Approve, &format!("{run} {stage}")).expect("the gate opens");
        }
        case.settle()
    };
    assert_eq!(pass(&mut case, "p-0"), "a0 b0 c0 d0");
    case.content("1");
    case.settle();
    case.say(Verb::Reject, "p-1 one").expect("she may");
    case.content("2");
    case.settle();
    case.say_as("ann", Verb::Rollback, "p", None, Some(1)).expect("it is kept");
    assert_eq!(case.settle(), "a1 b0 c0 d0");
    case.say(Verb::Approve, "p-2-rollback one").expect("nobody approved snapshot 1 before");
    case.settle();
    assert_eq!(case.run("p-2-rollback").phase, model::runs::RunPhase::Succeeded);
    case.content("3");
    assert_eq!(pass(&mut case, "p-3"), "a3 b3 c3 d3");
    case.say_as("ann", Verb::Rollback, "p", None, Some(1)).expect("it is kept");
    assert_eq!(case.settle(), "a1 b3 c3 d3", "stage one was asked, stage two never");
    case.say(Verb::Approve, "p-3-rollback two").expect("it waits");
    assert_eq!(case.settle(), "a1 b1 c1 d1");
}

#[test]
fn nothing_goes_back_to_the_content_that_it_leaves() {
    let wished = "gitfleet.io/on-failure: Rollback";
    let staged = format!("{AUTOMATIC}, {wished}");
    for (annotations, is_rolling) in [(wished, true), (staged.as_str(), false)] {
        let written = if is_rolling { rolling(annotations) } else { placement(annotations) };
        let mut case = Case::of(&[("p.yaml", written), ("s.yaml", ONE_STAGE.to_owned())]);
        assert_eq!(case.later(600), "a0 b0 c0 d0");
        case.manner("a", Manner::Slow);
        case.content("1");
        assert!(case.settle().starts_with("a1"), "{annotations}: the rollout waits for a");
        for cluster in ["a", "b", "c", "d"] {
            case.manner(cluster, Manner::Refuses);
        }
        case.content("0");
        let halted = case.settle();
        assert!(halted.contains('2'), "{annotations}: {halted}");
        assert!(case.state.record.halted.is_some(), "{annotations}: snapshot 2 is what succeeded as 0, and fails now");
        assert_eq!(case.state.record.held, None, "{annotations}");
        let refused = case.say(Verb::Rollback, "p").expect_err("it is the same content");
        assert!(refused.message.contains("snapshot 0 of p has the content of snapshot 2"), "{refused:?}");
    }
}

#[test]
fn what_is_held_is_no_goal_of_a_rollback() {
    let mut case = Case::of(&[("p.yaml", rolling(""))]);
    assert_eq!(case.later(600), "a0 b0 c0 d0");
    case.content("1");
    assert_eq!(case.later(600), "a1 b1 c1 d1");
    case.say_as("ann", Verb::Rollback, "p", None, Some(0)).expect("it is kept");
    assert_eq!(case.later(600), "a0 b0 c0 d0");
    let refused = case.say_as("ann", Verb::Rollback, "p", None, Some(1)).expect_err("it is held");
    assert!(refused.message.contains("`gitfleet retry p` rolls it out again"), "{refused:?}");
    case.say(Verb::Retry, "p").expect("it is held");
    assert_eq!(case.later(600), "a1 b1 c1 d1");
}

#[test]
fn a_rejected_content_is_not_gone_back_to_under_an_older_number() {
    let mut case = Case::rolled_out(&[]);
    case.content("1");
    case.settle();
    case.content("0");
    assert_eq!(case.settle(), "a2 b0 c0 d0");
    case.say(Verb::Reject, "p-2 one").expect("she may");
    case.commit(&[("p.yaml", rolling(""))]);
    case.settle();
    case.say(Verb::Resume, "p").expect("it was paused");
    assert_eq!(case.settle(), "a2 b0 c0 d0", "nothing moves to it");
}
