//! Newer snapshots, failures, pauses, retries and ways back.

use super::*;
use crate::model::commands::RefusalReason;

const QUEUE: &str = "gitfleet.io/staged-update-strategy: s, gitfleet.io/when-superseded: Queue";
const BACK: &str = "gitfleet.io/staged-update-strategy: s, gitfleet.io/on-failure: Rollback";

#[test]
fn a_newer_snapshot_replaces_a_run_before_its_next_cluster() {
    let mut story = Story::rolled_out(&[]);
    story.content("1");
    story.settle();
    story.manner("b", Manner::Slow);
    story.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(story.settle(), "a1 b1 c0 d0");
    story.content("2");
    assert_eq!(story.settle(), "a2 b1 c0 d0", "from its first stage, with closed gates");
    assert_eq!(story.phases(), "p-0 Succeeded, p-1 Superseded, p-2 Waiting");
    assert_eq!(story.state.record.superseded, 1);
    story.say(Verb::Approve, "p-2 one").expect("the gate opens");
    assert_eq!(story.settle(), "a2 b2 c0 d0", "b was in flight: it is reached, and c waits for it");
    story.manner("b", Manner::Well);
    assert_eq!(story.settle(), "a2 b2 c2 d2");
    assert_eq!(story.state.record.superseded, 0);
}

#[test]
fn a_cluster_that_only_the_new_snapshot_heals_is_started_first() {
    let mut story = Story::rolled_out(&[]);
    story.content("1");
    story.settle();
    story.say(Verb::Approve, "p-1 one").expect("the gate opens");
    story.manner("c", Manner::Slow);
    assert_eq!(story.settle(), "a1 b1 c1 d0", "c is on its way");
    story.content("2");
    story.settle();
    story.say(Verb::Approve, "p-2 one").expect("the gate opens");
    assert_eq!(story.settle(), "a2 b1 c2 d0", "b would be a second one unavailable");
    story.manner("c", Manner::Well);
    assert_eq!(story.settle(), "a2 b2 c2 d2");
}

#[test]
fn with_queue_the_newest_waits_its_turn() {
    let mut story = Story::rolled_out(&[("p.yaml", placement(QUEUE))]);
    story.content("1");
    story.settle();
    story.content("2");
    story.settle();
    story.content("3");
    assert_eq!(story.settle(), "a1 b0 c0 d0");
    assert_eq!(story.phases(), "p-0 Succeeded, p-1 Waiting, p-2 Superseded, p-3 Pending");
    story.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(story.settle(), "a3 b1 c1 d1");
    assert_eq!(story.phases(), "p-0 Succeeded, p-1 Succeeded, p-2 Superseded, p-3 Waiting");
}

#[test]
fn the_first_failed_cluster_halts_and_the_fix_goes_on() {
    for annotations in [AUTOMATIC, QUEUE] {
        let mut story = Story::rolled_out(&[("p.yaml", placement(annotations))]);
        story.manner("a", Manner::Refuses);
        story.content("1");
        assert_eq!(story.settle(), "a1 b0 c0 d0");
        assert_eq!(story.phases(), "p-0 Succeeded, p-1 Halted");
        assert!(
            story.state.record.halted.as_ref().is_some_and(|why| why.contains("1 cluster failed (a)")),
            "{:?}",
            story.state.record.halted
        );
        story.manner("a", Manner::Well);
        story.content("2");
        story.settle();
        assert_eq!(story.phases(), "p-0 Succeeded, p-1 Superseded, p-2 Waiting");
        assert_eq!(story.state.record.halted, None);
    }
}

#[test]
fn a_deadline_is_a_failure_and_the_budget_is_of_the_stage() {
    let tolerant =
        "gitfleet.io/staged-update-strategy: s, gitfleet.io/max-failures: '1', gitfleet.io/progress-deadline: 1m";
    let mut story = Story::rolled_out(&[("p.yaml", placement(tolerant))]);
    story.content("1");
    story.settle();
    story.say(Verb::Approve, "p-1 one").expect("the gate opens");
    story.manner("b", Manner::Slow);
    assert_eq!(story.settle(), "a1 b1 c0 d0");
    assert!(story.wake_at.is_some_and(|at| at <= story.now + SignedDuration::from_secs(60)), "time alone decides");
    assert_eq!(story.later(61), "a1 b1 c1 d1", "one may fail");
    assert!(story.clusters_of("p-1").contains("b Failed"), "{}", story.clusters_of("p-1"));
    assert_eq!(story.phases(), "p-0 Succeeded, p-1 Succeeded");
    assert_eq!(story.state.record.last_succeeded, Some(0), "it did not succeed everywhere");
    story.manner("b", Manner::Well);
    story.work();
    story.settle();
}

#[test]
fn retry_tries_failed_clusters_again() {
    let mut story = Story::rolled_out(&[]);
    story.manner("a", Manner::Refuses);
    story.content("1");
    story.settle();
    assert_eq!(story.say(Verb::Retry, "p-0").expect("p is meant"), "1 failed clusters of p-1 are tried again");
    story.settle();
    assert_eq!(story.phases(), "p-0 Succeeded, p-1 Halted", "it failed again");
    story.manner("a", Manner::Well);
    story.say(Verb::Retry, "p-1").expect("again");
    story.settle();
    assert_eq!(story.phases(), "p-0 Succeeded, p-1 Waiting");
    assert_eq!(story.say(Verb::Retry, "p-1").expect_err("nothing failed").reason, RefusalReason::NotPossible);
}

#[test]
fn on_failure_rollback_returns_touched_clusters_and_holds_the_digest() {
    let mut story = Story::rolled_out(&[("p.yaml", placement(BACK))]);
    story.content("1");
    story.settle();
    story.manner("b", Manner::Refuses);
    story.say(Verb::Approve, "p-1 one").expect("the gate opens");
    story.decide();
    story.work();
    story.decide();
    story.manner("b", Manner::Well);
    assert_eq!(story.settle(), "a0 b0 c0 d0", "without anybody's approval");
    assert_eq!(story.phases(), "p-0 Succeeded, p-1 RolledBack, p-1-rollback Succeeded");
    assert_eq!(story.clusters_of("p-1-rollback"), "a Succeeded, b Succeeded", "only those it touched");
    assert_eq!(story.later(3600), "a0 b0 c0 d0", "the digest is held");
    story.content("2");
    story.settle();
    assert!(story.phases().ends_with("p-2 Waiting"), "{}", story.phases());
}

#[test]
fn a_rollback_by_hand_goes_to_any_snapshot_that_is_kept() {
    let mut story = Story::rolled_out(&[]);
    for content in ["1", "2"] {
        story.content(content);
        story.settle();
        story.say(Verb::Approve, "p one").expect("the gate opens");
        story.settle();
    }
    assert_eq!(story.places(), "a2 b2 c2 d2");
    story.say_as("ann", Verb::Rollback, "p", None, Some(1)).expect("it is kept");
    assert_eq!(story.settle(), "a1 b1 c1 d1");
    let gone = story.say_as("ann", Verb::Rollback, "p", None, Some(9)).expect_err("it is not kept");
    assert_eq!(gone.reason, RefusalReason::SnapshotGone);
    let there = story.say_as("ann", Verb::Rollback, "p", None, Some(1)).expect_err("it is there");
    assert_eq!(there.reason, RefusalReason::NotPossible);
    assert!(!story.decide(), "and it stays");
}

#[test]
fn pruned_snapshots_cannot_be_returned_to() {
    let short =
        crate::decide::fixtures::placement("p", AUTOMATIC, ", revisionHistoryLimit: 2, strategy: {type: External}");
    let mut story = Story::rolled_out(&[("p.yaml", short)]);
    for content in ["1", "2", "3"] {
        story.content(content);
        story.settle();
        story.say(Verb::Approve, "p one").expect("the gate opens");
        story.settle();
    }
    let gone = story.say_as("ann", Verb::Rollback, "p", None, Some(0)).expect_err("it was pruned");
    assert_eq!(gone.reason, RefusalReason::SnapshotGone);
    assert!(gone.message.contains("there are 2, 3"), "{}", gone.message);
}

#[test]
fn pause_and_resume() {
    let mut story = Story::rolled_out(&[]);
    story.content("1");
    story.settle();
    story.say(Verb::Pause, "p").expect("it goes");
    assert_eq!(story.say(Verb::Pause, "p").expect_err("it is").reason, RefusalReason::NotPossible);
    assert_eq!(story.settle(), "a1 b0 c0 d0");
    assert_eq!(story.phases(), "p-0 Succeeded, p-1 Stopped");
    story.say(Verb::Resume, "p").expect("it is paused");
    story.settle();
    story.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(story.settle(), "a1 b1 c1 d1");
    assert_eq!(story.say(Verb::Resume, "p").expect_err("it is not").reason, RefusalReason::NotPossible);
}

#[test]
fn a_rolling_update_pauses_retries_and_returns_too() {
    let rolling = |annotations: &str| crate::decide::fixtures::placement("p", annotations, "");
    let mut story = Story::of(&[("p.yaml", rolling("gitfleet.io/on-failure: Rollback"))]);
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    assert_eq!(story.state.record.last_succeeded, Some(0));
    story.say(Verb::Pause, "p").expect("it goes");
    story.content("1");
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    story.manner("a", Manner::Refuses);
    story.say(Verb::Resume, "p").expect("it is paused");
    story.decide();
    story.work();
    story.decide();
    story.manner("a", Manner::Well);
    assert_eq!(story.settle(), "a0 b0 c0 d0", "it halted, and returned");
    assert_eq!(story.state.record.goal, Some(0));
    story.say(Verb::Retry, "p").expect("it is held");
    assert_eq!(story.settle(), "a1 b1 c1 d1");
    story.say_as("ann", Verb::Rollback, "p", None, Some(0)).expect("it is kept");
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    story.content("2");
    assert_eq!(story.settle(), "a2 b2 c2 d2", "another digest");
}

/// An override of what `p` places, with a label that has a value.
fn labelled(value: &str) -> String {
    format!(
        "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterResourceOverride\nmetadata: {{name: o}}\nspec:\n  \
         clusterResourceSelectors: [{{group: '', version: v1, kind: Namespace, name: a}}]\n  policy:\n    overrideRules:\n      \
         - clusterSelector: {{clusterSelectorTerms: []}}\n        jsonPatchOverrides: [{{op: add, path: /metadata/labels, value: \
         {{tier: {value}}}}}]\n---\n"
    )
}

#[test]
fn a_rollback_brings_back_the_overrides_that_passed_with_the_snapshot() {
    let mut story = Story::rolled_out(&[("o.yaml", labelled("one"))]);
    story.commit(&[("o.yaml", labelled("two")), ("x.yaml", payload("1"))]);
    story.settle();
    story.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(story.settle(), "a1 b1 c1 d1");
    let indexes = |story: &Story| -> Vec<u64> {
        story.state.bindings.values().flat_map(|b| b.overrides.cluster.iter().map(|id| id.index)).collect()
    };
    assert_eq!(indexes(&story), [1, 1, 1, 1]);
    story.say_as("ann", Verb::Rollback, "p", None, Some(0)).expect("it is kept");
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    assert!(story.phases().ends_with("p-1-rollback Succeeded, p-1-rollback-2 Waiting"), "{}", story.phases());
    assert_eq!(indexes(&story)[1..], [0, 0, 0], "what nobody approved with this snapshot waits for a person");
}

/// A fault of the world with content 2, and what mends it.
type Fault = (&'static str, &'static str, String, String);

fn faults() -> [Fault; 4] {
    let many = crate::decide::fixtures::placement(
        "p",
        AUTOMATIC,
        ", policy: {placementType: PickN, numberOfClusters: 5}, strategy: {type: External}",
    );
    let overlapping = STRATEGY.replace("{matchLabels: {stage: two}}", "{}");
    [
        ("no strategy", "s.yaml", String::new(), STRATEGY.to_owned()),
        ("a cluster in no stage", "c.yaml", member("c", "four"), member("c", "two")),
        ("a cluster in two stages", "s.yaml", overlapping, STRATEGY.to_owned()),
        ("a policy that is not fulfilled", "p.yaml", many, placement(AUTOMATIC)),
    ]
}

#[test]
fn a_run_goes_on_until_the_one_that_takes_its_place_can_begin() {
    for (name, path, fault, mended) in faults() {
        let mut story = Story::rolled_out(&[]);
        story.content("1");
        assert_eq!(story.settle(), "a1 b0 c0 d0", "{name}");
        story.commit(&[("x.yaml", payload("2")), (path, fault)]);
        story.settle();
        assert_eq!(story.phases(), "p-0 Succeeded, p-1 Waiting, p-2 Pending", "{name}");
        assert_eq!(story.state.record.superseded, 0, "{name}");
        story.commit(&[(path, mended)]);
        assert_eq!(story.settle(), "a2 b0 c0 d0", "{name}");
        assert_eq!(story.phases(), "p-0 Succeeded, p-1 Superseded, p-2 Waiting", "{name}");
        assert_eq!(story.state.record.superseded, 1, "{name}");
    }
}

#[test]
fn a_rollback_is_not_stopped_half_way_by_a_run_that_cannot_begin() {
    for (name, path, fault, _) in faults() {
        let mut story = Story::rolled_out(&[]);
        story.content("1");
        story.settle();
        story.say(Verb::Approve, "p-1 one").expect("the gate opens");
        assert_eq!(story.settle(), "a1 b1 c1 d1");
        story.manner("b", Manner::Slow);
        story.say_as("ann", Verb::Rollback, "p", None, Some(0)).expect("it is kept");
        assert_eq!(story.settle(), "a0 b0 c1 d1", "{name}: b and c are of one stage, one at a time");
        story.commit(&[("x.yaml", payload("2")), (path, fault)]);
        assert_eq!(story.settle(), "a0 b0 c1 d1", "{name}");
        story.manner("b", Manner::Well);
        assert_eq!(story.settle(), "a0 b0 c0 d0", "{name}");
        assert!(story.phases().ends_with("p-1-rollback Succeeded, p-2 Pending"), "{name}: {}", story.phases());
    }
}

#[test]
fn of_several_that_cannot_begin_the_newest_is_kept() {
    let mut story = Story::of(&[("s.yaml", String::new())]);
    for content in ["0", "1", "2"] {
        story.content(content);
        story.settle();
    }
    assert_eq!(story.phases(), "p-0 Superseded, p-1 Superseded, p-2 Pending");
    story.commit(&[("s.yaml", STRATEGY.to_owned())]);
    assert_eq!(story.settle(), "a2 b- c- d-");
}

#[test]
fn a_written_run_takes_the_place_of_a_follow_up_run_that_cannot_go_on() {
    for (is_there, stuck, after) in [(false, "Updating", "a1 b1 c1 d1 e-"), (true, "Halted", "a1 b1 c1 d1 e1")] {
        let by_hand = [("p.yaml", placement("")), ("s.yaml", ONE_STAGE.to_owned()), ("r.yaml", run("r", ""))];
        let mut story = Story::of(&by_hand);
        assert_eq!(story.settle(), "a0 b0 c0 d0");
        story.goes("e", is_there);
        story.manner("e", Manner::Refuses);
        story.commit(&[("e.yaml", member("e", "one"))]);
        story.settle();
        assert_eq!(story.phases(), format!("r Succeeded, r-2 {stuck}"));
        story.commit(&[("q.yaml", run("q", "")), ("x.yaml", payload("1"))]);
        assert_eq!(story.settle(), after);
        assert!(story.phases().starts_with("r Succeeded, r-2 Superseded, q "), "{}", story.phases());
    }
}

#[test]
fn a_written_run_takes_the_place_of_a_rollback_that_cannot_go_on() {
    let back = placement("gitfleet.io/on-failure: Rollback");
    let mut story = Story::of(&[("p.yaml", back), ("s.yaml", ONE_STAGE.to_owned()), ("r.yaml", run("r", ""))]);
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    story.manner("a", Manner::Refuses);
    story.commit(&[("q.yaml", run("q", "")), ("x.yaml", payload("1"))]);
    story.settle();
    assert_eq!(story.phases(), "r Succeeded, q RolledBack, q-rollback Halted");
    story.commit(&[("t.yaml", run("t", "")), ("x.yaml", payload("2"))]);
    story.manner("a", Manner::Well);
    assert_eq!(story.settle(), "a2 b2 c2 d2");
    assert_eq!(story.phases(), "r Succeeded, q RolledBack, q-rollback Superseded, t Succeeded");
}

#[test]
fn a_wait_begins_anew_with_the_run_that_takes_the_place() {
    let timed =
        STRATEGY.replace("afterStageTasks: [{type: Approval}]", "afterStageTasks: [{type: TimedWait, waitTime: 1h}]");
    let mut story = Story::of(&[("s.yaml", timed)]);
    story.settle();
    assert_eq!(story.later(3600), "a0 b0 c0 d0");
    story.content("1");
    story.settle();
    assert_eq!(story.later(3000), "a1 b0 c0 d0");
    story.content("2");
    story.settle();
    assert_eq!(story.later(3599), "a2 b0 c0 d0", "nothing of the earlier wait counts");
    assert_eq!(story.later(1), "a2 b2 c2 d2");
}

#[test]
fn a_deadline_that_passed_during_a_pause_is_no_verdict() {
    let strict =
        "gitfleet.io/staged-update-strategy: s, gitfleet.io/progress-deadline: 1m, gitfleet.io/on-failure: Rollback";
    let mut story = Story::rolled_out(&[("p.yaml", placement(strict))]);
    story.content("1");
    story.settle();
    story.say(Verb::Approve, "p-1 one").expect("the gate opens");
    story.manner("b", Manner::Slow);
    assert_eq!(story.settle(), "a1 b1 c0 d0");
    story.say(Verb::Pause, "p").expect("it goes");
    assert_eq!(story.later(61), "a1 b1 c0 d0");
    story.say(Verb::Resume, "p").expect("it is paused");
    assert_eq!(story.later(30), "a1 b1 c0 d0", "it has as long again");
    story.manner("b", Manner::Well);
    assert_eq!(story.settle(), "a1 b1 c1 d1");
    assert_eq!(story.phases(), "p-0 Succeeded, p-1 Succeeded");
}

/// An override of what `p` places, which adds a label below labels that the objects do not have: that fails on the clusters
/// of a stage.
fn failing_on(stage: &str) -> String {
    format!(
        "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterResourceOverride\nmetadata: {{name: o}}\nspec:\n  \
         clusterResourceSelectors: [{{group: '', version: v1, kind: Namespace, name: a}}]\n  policy:\n    overrideRules:\n      \
         - clusterSelector: {{clusterSelectorTerms: [{{labelSelector: {{matchLabels: {{only: {stage}}}}}}}]}}\n        \
         jsonPatchOverrides: [{{op: remove, path: /metadata/annotations/none}}]\n---\n"
    )
}

#[test]
fn an_override_that_fails_on_one_cluster_fails_that_cluster() {
    let only_b = crate::decide::fixtures::member("b", "labels: {stage: two, only: b}");
    let tolerant = "gitfleet.io/staged-update-strategy: s, gitfleet.io/max-failures: '1'";
    for (annotations, places, phase) in
        [(AUTOMATIC, "a1 b1 c0 d0", "p-1 Halted"), (tolerant, "a1 b1 c1 d1", "p-1 Succeeded")]
    {
        let mut story = Story::rolled_out(&[("b.yaml", only_b.clone()), ("p.yaml", placement(annotations))]);
        story.commit(&[("o.yaml", failing_on("b")), ("x.yaml", payload("1"))]);
        story.settle();
        story.say(Verb::Approve, "p-1 one").expect("the gate opens");
        assert_eq!(story.settle(), places, "{annotations}");
        assert!(story.clusters_of("p-1").contains("b Failed"), "{}", story.clusters_of("p-1"));
        assert!(story.phases().ends_with(phase), "{}", story.phases());
    }
}

#[test]
fn a_queued_snapshot_comes_after_the_rollback_of_the_one_before_and_stays() {
    let queue =
        "gitfleet.io/staged-update-strategy: s, gitfleet.io/when-superseded: Queue, gitfleet.io/on-failure: Rollback";
    // Its payload may be there when the rollback is due, or come later.
    for is_late in [false, true] {
        let mut story = Story::of(&[("p.yaml", placement(queue)), ("s.yaml", ONE_STAGE.to_owned())]);
        assert_eq!(story.settle(), "a0 b0 c0 d0");
        story.manner("a", Manner::Slow);
        story.content("1");
        assert_eq!(story.settle(), "a1 b1 c1 d1");
        story.content("2");
        assert_eq!(story.settle(), "a1 b1 c1 d1", "it waits for the run under way");
        if is_late {
            story.state.payloads.remove(&0);
        }
        let library = if is_late { story.library.remove(&0) } else { None };
        story.manner("a", Manner::Refuses);
        story.work();
        story.decide();
        assert!(story.phases().contains("p-1 RolledBack"), "{}", story.phases());
        story.library.extend(library.map(|payload| (0, payload)));
        story.manner("a", Manner::Well);
        assert_eq!(story.settle(), "a2 b2 c2 d2", "late {is_late}: {}", story.phases());
        assert_eq!(story.later(600), "a2 b2 c2 d2", "late {is_late}: {}", story.phases());
    }
}
