//! Newer snapshots, failures, pauses, retries and ways back.

use super::*;
use model::commands::RefusalReason;

const QUEUE: &str = "gitfleet.io/staged-update-strategy: s, gitfleet.io/when-superseded: Queue";
const BACK: &str = "gitfleet.io/staged-update-strategy: s, gitfleet.io/on-failure: Rollback";

#[test]
fn a_newer_snapshot_replaces_a_run_before_its_next_cluster() {
    let mut case = Case::rolled_out(&[]);
    case.content("1");
    case.settle();
    case.manner("b", Manner::Slow);
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b1 c0 d0");
    case.content("2");
    assert_eq!(case.settle(), "a2 b1 c0 d0", "from its first stage, with closed gates");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Superseded, p-2 Waiting");
    assert_eq!(case.state.record.superseded, 1);
    case.say(Verb::Approve, "p-2 one").expect("the gate opens");
    assert_eq!(case.settle(), "a2 b2 c0 d0", "b was in flight: it is reached, and c waits for it");
    case.manner("b", Manner::Well);
    assert_eq!(case.settle(), "a2 b2 c2 d2");
    assert_eq!(case.state.record.superseded, 0);
}

#[test]
fn a_cluster_that_only_the_new_snapshot_heals_is_started_first() {
    let mut case = Case::rolled_out(&[]);
    case.content("1");
    case.settle();
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    case.manner("c", Manner::Slow);
    assert_eq!(case.settle(), "a1 b1 c1 d0", "c is on its way");
    case.content("2");
    case.settle();
    case.say(Verb::Approve, "p-2 one").expect("the gate opens");
    assert_eq!(case.settle(), "a2 b1 c2 d0", "b would be a second one unavailable");
    case.manner("c", Manner::Well);
    assert_eq!(case.settle(), "a2 b2 c2 d2");
}

#[test]
fn with_queue_the_newest_waits_its_turn() {
    let mut case = Case::rolled_out(&[("p.yaml", placement(QUEUE))]);
    case.content("1");
    case.settle();
    case.content("2");
    case.settle();
    case.content("3");
    assert_eq!(case.settle(), "a1 b0 c0 d0");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Waiting, p-2 Superseded, p-3 Pending");
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(case.settle(), "a3 b1 c1 d1");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Succeeded, p-2 Superseded, p-3 Waiting");
}

#[test]
fn the_first_failed_cluster_halts_and_the_fix_continues() {
    for annotations in [AUTOMATIC, QUEUE] {
        let mut case = Case::rolled_out(&[("p.yaml", placement(annotations))]);
        case.manner("a", Manner::Refuses);
        case.content("1");
        assert_eq!(case.settle(), "a1 b0 c0 d0");
        assert_eq!(case.phases(), "p-0 Succeeded, p-1 Halted");
        assert!(
            case.state.record.halted.as_ref().is_some_and(|why| why.contains("1 cluster failed (a)")),
            "{:?}",
            case.state.record.halted
        );
        case.manner("a", Manner::Well);
        case.content("2");
        case.settle();
        assert_eq!(case.phases(), "p-0 Succeeded, p-1 Superseded, p-2 Waiting");
        assert_eq!(case.state.record.halted, None);
    }
}

#[test]
fn a_deadline_is_a_failure_and_the_budget_is_of_the_stage() {
    let tolerant =
        "gitfleet.io/staged-update-strategy: s, gitfleet.io/max-failures: '1', gitfleet.io/progress-deadline: 1m";
    let mut case = Case::rolled_out(&[("p.yaml", placement(tolerant))]);
    case.content("1");
    case.settle();
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    case.manner("b", Manner::Slow);
    assert_eq!(case.settle(), "a1 b1 c0 d0");
    assert!(case.wake_at.is_some_and(|at| at <= case.now + SignedDuration::from_secs(60)), "time alone decides");
    assert_eq!(case.later(61), "a1 b1 c1 d1", "one may fail");
    assert!(case.clusters_of("p-1").contains("b Failed"), "{}", case.clusters_of("p-1"));
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Succeeded");
    assert_eq!(case.state.record.last_succeeded, Some(0), "it did not succeed everywhere");
    case.manner("b", Manner::Well);
    case.work();
    case.settle();
}

#[test]
fn retry_tries_failed_clusters_again() {
    let mut case = Case::rolled_out(&[]);
    case.manner("a", Manner::Refuses);
    case.content("1");
    case.settle();
    assert_eq!(case.say(Verb::Retry, "p-0").expect("p is meant"), "1 failed cluster of p-1 is tried again: a");
    case.settle();
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Halted", "it failed again");
    case.manner("a", Manner::Well);
    case.say(Verb::Retry, "p-1").expect("again");
    case.settle();
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Waiting");
    assert_eq!(case.say(Verb::Retry, "p-1").expect_err("nothing failed").reason, RefusalReason::NotPossible);
}

#[test]
fn on_failure_rollback_returns_touched_clusters_and_holds_the_digest() {
    let mut case = Case::rolled_out(&[("p.yaml", placement(BACK))]);
    case.content("1");
    case.settle();
    case.manner("b", Manner::Refuses);
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    case.decide();
    case.work();
    case.decide();
    case.manner("b", Manner::Well);
    assert_eq!(case.settle(), "a0 b0 c0 d0", "without anybody's approval");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 RolledBack, p-1-rollback Succeeded");
    assert_eq!(case.clusters_of("p-1-rollback"), "a Succeeded, b Succeeded", "only those it touched");
    assert_eq!(case.later(3600), "a0 b0 c0 d0", "the digest is held");
    case.content("2");
    case.settle();
    assert!(case.phases().ends_with("p-2 Waiting"), "{}", case.phases());
}

#[test]
fn a_rollback_of_a_rollback_keeps_the_newest_snapshot_held() {
    let mut case = Case::rolled_out(&[("p.yaml", placement(BACK))]);
    case.content("1");
    case.settle();
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    case.settle();
    case.content("2");
    case.settle();
    case.manner("b", Manner::Refuses);
    case.say(Verb::Approve, "p-2 one").expect("the gate opens");
    case.settle();
    let held = |case: &Case| case.state.record.held.as_ref().map(|held| held.index);
    assert_eq!((case.phases().split(", ").last(), held(&case)), (Some("p-2-rollback Halted"), Some(2)));
    case.say_as("ann", Verb::Rollback, "p", None, Some(0)).expect("an earlier one is kept");
    case.manner("b", Manner::Well);
    case.settle();
    assert_eq!(held(&case), Some(2), "nobody asked for it again");
    assert_eq!(case.later(3600), "a0 b0 c0 d0");
    assert_eq!(held(&case), Some(2));
}

#[test]
fn a_rollback_by_hand_goes_to_any_snapshot_that_is_kept() {
    let mut case = Case::rolled_out(&[]);
    for content in ["1", "2"] {
        case.content(content);
        case.settle();
        case.say(Verb::Approve, "p one").expect("the gate opens");
        case.settle();
    }
    assert_eq!(case.places(), "a2 b2 c2 d2");
    case.say_as("ann", Verb::Rollback, "p", None, Some(1)).expect("it is kept");
    assert_eq!(case.settle(), "a1 b1 c1 d1");
    let gone = case.say_as("ann", Verb::Rollback, "p", None, Some(9)).expect_err("it is not kept");
    assert_eq!(gone.reason, RefusalReason::SnapshotGone);
    let there = case.say_as("ann", Verb::Rollback, "p", None, Some(1)).expect_err("it is there");
    assert_eq!(there.reason, RefusalReason::SoAlready);
    assert!(!case.decide(), "and it stays");
}

/// Who lost the answer, because the daemon was killed, says it again before the run has begun.
#[test]
fn a_rollback_that_is_said_twice_begins_once() {
    let mut case = Case::rolled_out(&[]);
    case.content("1");
    case.settle();
    case.say(Verb::Approve, "p one").expect("the gate opens");
    case.settle();
    case.say_as("ann", Verb::Rollback, "p-1", None, Some(0)).expect("it is kept");
    for target in ["p-1", "p"] {
        let again = case.say_as("ann", Verb::Rollback, target, None, Some(0)).expect_err("it begins already");
        assert_eq!(again.reason, RefusalReason::SoAlready);
        assert_eq!(again.message, "p is being rolled back to snapshot 0 by the run p-1-rollback already");
    }
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Succeeded, p-1-rollback Succeeded");
}

#[test]
fn pruned_snapshots_cannot_be_returned_to() {
    let short = testkit::trees::placement("p", AUTOMATIC, ", revisionHistoryLimit: 2, strategy: {type: External}");
    let mut case = Case::rolled_out(&[("p.yaml", short)]);
    for content in ["1", "2", "3"] {
        case.content(content);
        case.settle();
        case.say(Verb::Approve, "p one").expect("the gate opens");
        case.settle();
    }
    let gone = case.say_as("ann", Verb::Rollback, "p", None, Some(0)).expect_err("it was pruned");
    assert_eq!(gone.reason, RefusalReason::SnapshotGone);
    assert!(gone.message.contains("there are 2, 3"), "{}", gone.message);
}

#[test]
fn w17_a_history_of_n_snapshots_has_n() {
    let short = |limit: &str| testkit::trees::placement("p", "", &format!(", revisionHistoryLimit: {limit}"));
    for (limit, expected) in [("1", vec![3]), ("2", vec![2, 3]), ("4", vec![0, 1, 2, 3])] {
        let mut case = Case::of(&[("p.yaml", short(limit))]);
        case.settle();
        for content in ["1", "2", "3"] {
            case.content(content);
            case.settle();
        }
        assert_eq!(case.state.snapshots.keys().copied().collect::<Vec<_>>(), expected, "limit {limit}");
    }
}

#[test]
fn pause_and_resume() {
    let mut case = Case::rolled_out(&[]);
    case.content("1");
    case.settle();
    case.say(Verb::Pause, "p").expect("it goes");
    assert_eq!(case.say(Verb::Pause, "p").expect_err("it is").reason, RefusalReason::SoAlready);
    assert_eq!(case.settle(), "a1 b0 c0 d0");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Stopped");
    case.say(Verb::Resume, "p").expect("it is paused");
    case.settle();
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b1 c1 d1");
    assert_eq!(case.say(Verb::Resume, "p").expect_err("it is not").reason, RefusalReason::SoAlready);
}

#[test]
fn a_rolling_update_pauses_retries_and_returns_too() {
    let rolling = |annotations: &str| testkit::trees::placement("p", annotations, "");
    let mut case = Case::of(&[("p.yaml", rolling("gitfleet.io/on-failure: Rollback"))]);
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    assert_eq!(case.state.record.last_succeeded, Some(0));
    case.say(Verb::Pause, "p").expect("it goes");
    case.content("1");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.manner("a", Manner::Refuses);
    case.say(Verb::Resume, "p").expect("it is paused");
    case.decide();
    case.work();
    case.decide();
    case.manner("a", Manner::Well);
    assert_eq!(case.settle(), "a0 b0 c0 d0", "it halted, and returned");
    assert_eq!(case.state.record.goal, Some(0));
    case.say(Verb::Retry, "p").expect("it is held");
    assert_eq!(case.settle(), "a1 b1 c1 d1");
    case.say_as("ann", Verb::Rollback, "p", None, Some(0)).expect("it is kept");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.content("2");
    assert_eq!(case.settle(), "a2 b2 c2 d2", "another digest");
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
    let mut case = Case::rolled_out(&[("o.yaml", labelled("one"))]);
    case.commit(&[("o.yaml", labelled("two")), ("x.yaml", payload("1"))]);
    case.settle();
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b1 c1 d1");
    let indexes = |case: &Case| -> Vec<u64> {
        case.state.bindings.values().flat_map(|b| b.overrides.cluster.iter().map(|id| id.index)).collect()
    };
    assert_eq!(indexes(&case), [1, 1, 1, 1]);
    case.say_as("ann", Verb::Rollback, "p", None, Some(0)).expect("it is kept");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    assert!(case.phases().ends_with("p-1-rollback Succeeded"), "{}", case.phases());
    assert_eq!(indexes(&case), [0, 0, 0, 0], "and they stay");
}

/// A fault of the fleet with content 2, and what repairs it.
type Fault = (&'static str, &'static str, String, String);

fn faults() -> [Fault; 4] {
    let many = testkit::trees::placement(
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
fn a_run_continues_until_the_one_that_takes_its_place_can_begin() {
    for (name, path, fault, repaired) in faults() {
        let mut case = Case::rolled_out(&[]);
        case.content("1");
        assert_eq!(case.settle(), "a1 b0 c0 d0", "{name}");
        case.commit(&[("x.yaml", payload("2")), (path, fault)]);
        case.settle();
        assert_eq!(case.phases(), "p-0 Succeeded, p-1 Waiting, p-2 Pending", "{name}");
        assert_eq!(case.state.record.superseded, 0, "{name}");
        case.commit(&[(path, repaired)]);
        assert_eq!(case.settle(), "a2 b0 c0 d0", "{name}");
        assert_eq!(case.phases(), "p-0 Succeeded, p-1 Superseded, p-2 Waiting", "{name}");
        assert_eq!(case.state.record.superseded, 1, "{name}");
    }
}

#[test]
fn a_rollback_is_not_stopped_half_way_by_a_run_that_cannot_begin() {
    for (name, path, fault, _) in faults() {
        let mut case = Case::rolled_out(&[]);
        case.content("1");
        case.settle();
        case.say(Verb::Approve, "p-1 one").expect("the gate opens");
        assert_eq!(case.settle(), "a1 b1 c1 d1");
        case.manner("b", Manner::Slow);
        case.say_as("ann", Verb::Rollback, "p", None, Some(0)).expect("it is kept");
        assert_eq!(case.settle(), "a0 b0 c1 d1", "{name}: b and c are of one stage, one at a time");
        case.commit(&[("x.yaml", payload("2")), (path, fault)]);
        assert_eq!(case.settle(), "a0 b0 c1 d1", "{name}");
        case.manner("b", Manner::Well);
        assert_eq!(case.settle(), "a0 b0 c0 d0", "{name}");
        assert!(case.phases().ends_with("p-1-rollback Succeeded, p-2 Pending"), "{name}: {}", case.phases());
    }
}

#[test]
fn of_several_that_cannot_begin_the_newest_is_kept() {
    let mut case = Case::of(&[("s.yaml", String::new())]);
    for content in ["0", "1", "2"] {
        case.content(content);
        case.settle();
    }
    assert_eq!(case.phases(), "p-0 Superseded, p-1 Superseded, p-2 Pending");
    case.commit(&[("s.yaml", STRATEGY.to_owned())]);
    assert_eq!(case.settle(), "a2 b- c- d-");
}

#[test]
fn a_written_run_takes_the_place_of_a_follow_up_run_that_cannot_continue() {
    for (is_there, stuck, after) in [(false, "Updating", "a0 b0 c0 d0 e-"), (true, "Halted", "a0 b0 c0 d0 e0")] {
        let mut case = Case::of(&[("s.yaml", ONE_STAGE.to_owned())]);
        assert_eq!(case.settle(), "a0 b0 c0 d0");
        case.goes("e", is_there);
        case.manner("e", Manner::Refuses);
        case.commit(&[("e.yaml", member("e", "one"))]);
        case.settle();
        assert_eq!(case.phases(), format!("p-0 Succeeded, p-0-2 {stuck}"));
        case.commit(&[("q.yaml", run("q", ""))]);
        assert_eq!(case.settle(), after);
        assert!(case.phases().starts_with("p-0 Succeeded, p-0-2 Superseded, q "), "{}", case.phases());
    }
}

#[test]
fn a_written_run_takes_the_place_of_a_rollback_that_cannot_continue() {
    let back = placement("gitfleet.io/on-failure: Rollback");
    let mut case = Case::of(&[("p.yaml", back), ("s.yaml", ONE_STAGE.to_owned()), ("r.yaml", run("r", ""))]);
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.manner("a", Manner::Refuses);
    case.commit(&[("q.yaml", run("q", "")), ("x.yaml", payload("1"))]);
    case.settle();
    assert_eq!(case.phases(), "r Succeeded, q RolledBack, q-rollback Halted");
    case.commit(&[("t.yaml", run("t", "")), ("x.yaml", payload("2"))]);
    case.manner("a", Manner::Well);
    assert_eq!(case.settle(), "a2 b2 c2 d2");
    assert_eq!(case.phases(), "r Succeeded, q RolledBack, q-rollback Superseded, t Succeeded");
}

#[test]
fn a_wait_begins_again_with_the_run_that_takes_the_place() {
    let timed =
        STRATEGY.replace("afterStageTasks: [{type: Approval}]", "afterStageTasks: [{type: TimedWait, waitTime: 1h}]");
    let mut case = Case::of(&[("s.yaml", timed)]);
    case.settle();
    assert_eq!(case.later(3600), "a0 b0 c0 d0");
    case.content("1");
    case.settle();
    assert_eq!(case.later(3000), "a1 b0 c0 d0");
    case.content("2");
    case.settle();
    assert_eq!(case.later(3599), "a2 b0 c0 d0", "nothing of the earlier wait counts");
    assert_eq!(case.later(1), "a2 b2 c2 d2");
}

#[test]
fn a_deadline_that_passed_during_a_pause_is_no_verdict() {
    let strict =
        "gitfleet.io/staged-update-strategy: s, gitfleet.io/progress-deadline: 1m, gitfleet.io/on-failure: Rollback";
    let mut case = Case::rolled_out(&[("p.yaml", placement(strict))]);
    case.content("1");
    case.settle();
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    case.manner("b", Manner::Slow);
    assert_eq!(case.settle(), "a1 b1 c0 d0");
    case.say(Verb::Pause, "p").expect("it goes");
    assert_eq!(case.later(61), "a1 b1 c0 d0");
    case.say(Verb::Resume, "p").expect("it is paused");
    assert_eq!(case.later(30), "a1 b1 c0 d0", "it has as long again");
    case.manner("b", Manner::Well);
    assert_eq!(case.settle(), "a1 b1 c1 d1");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Succeeded");
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
    let only_b = testkit::trees::member("b", "labels: {stage: two, only: b}");
    let tolerant = "gitfleet.io/staged-update-strategy: s, gitfleet.io/max-failures: '1'";
    for (annotations, places, phase) in
        [(AUTOMATIC, "a1 b1 c0 d0", "p-1 Halted"), (tolerant, "a1 b1 c1 d1", "p-1 Succeeded")]
    {
        let mut case = Case::rolled_out(&[("b.yaml", only_b.clone()), ("p.yaml", placement(annotations))]);
        case.commit(&[("o.yaml", failing_on("b")), ("x.yaml", payload("1"))]);
        case.settle();
        case.say(Verb::Approve, "p-1 one").expect("the gate opens");
        assert_eq!(case.settle(), places, "{annotations}");
        assert!(case.clusters_of("p-1").contains("b Failed"), "{}", case.clusters_of("p-1"));
        assert!(case.phases().ends_with(phase), "{}", case.phases());
    }
}

#[test]
fn a_queued_snapshot_comes_after_the_rollback_of_the_one_before_and_stays() {
    let queue =
        "gitfleet.io/staged-update-strategy: s, gitfleet.io/when-superseded: Queue, gitfleet.io/on-failure: Rollback";
    // Its payload may be there when the rollback is due, or come later.
    for is_late in [false, true] {
        let mut case = Case::of(&[("p.yaml", placement(queue)), ("s.yaml", ONE_STAGE.to_owned())]);
        assert_eq!(case.settle(), "a0 b0 c0 d0");
        case.manner("a", Manner::Slow);
        case.content("1");
        assert_eq!(case.settle(), "a1 b1 c1 d1");
        case.content("2");
        assert_eq!(case.settle(), "a1 b1 c1 d1", "it waits for the run under way");
        if is_late {
            case.state.payloads.remove(&0);
        }
        let library = if is_late { case.library.remove(&0) } else { None };
        case.manner("a", Manner::Refuses);
        case.work();
        case.decide();
        assert!(case.phases().contains("p-1 RolledBack"), "{}", case.phases());
        case.library.extend(library.map(|payload| (0, payload)));
        case.manner("a", Manner::Well);
        assert_eq!(case.settle(), "a2 b2 c2 d2", "late {is_late}: {}", case.phases());
        assert_eq!(case.later(600), "a2 b2 c2 d2", "late {is_late}: {}", case.phases());
    }
}
