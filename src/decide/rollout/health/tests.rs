use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::rolling::evaluate;
use crate::rollout::BindingView;
use crate::state::Claims;
use model::records::ManifestStatus;

/// A condition that speaks of generation 1, changed this many seconds after the epoch.
fn condition(type_: &str, status: ConditionStatus, reason: &str, at: i64) -> Condition {
    Condition {
        type_: type_.into(),
        status,
        reason: reason.into(),
        message: String::new(),
        observed_generation: 1,
        last_transition_time: second(at),
    }
}

fn second(at: i64) -> Timestamp {
    Timestamp::from_second(at).unwrap()
}

#[test]
fn example_24_untrackable_objects_are_ready_after_the_period() {
    let conditions = [condition("Available", ConditionStatus::True, "NotAllWorkAreAvailabilityTrackable", 0)];
    let period = Duration::from_mins(1);
    let rows = [
        (20, Readiness::NotYet(Some(Duration::from_secs(40)))),
        (59, Readiness::NotYet(Some(Duration::from_secs(1)))),
        (60, Readiness::Ready),
        (61, Readiness::Ready),
    ];
    for (now, expected) in rows {
        assert_eq!(readiness(&conditions, 1, period, second(now)), expected, "{now}");
    }
    // A clock that went back waits the whole period, not longer.
    assert_eq!(readiness(&conditions, 1, period, second(-5)), Readiness::NotYet(Some(period)));
}

fn limits() -> Limits {
    Limits::resolve(None, &BTreeMap::new(), 1).unwrap()
}

/// A binding that was started at second 0.
fn binding(conditions: Vec<Condition>) -> Binding {
    let mut binding: Binding = serde_json::from_value(json!({
        "name": "b", "placement": "p", "cluster": "c", "state": "Bound", "policyIndex": 0, "generation": 1,
        "decision": {"clusterName": "c", "selected": true, "reason": ""}, "startedAt": "1970-01-01T00:00:00Z",
    }))
    .unwrap();
    binding.conditions = conditions;
    binding
}

/// A work of generation 1, every object of which was tried.
fn work() -> WorkStatus {
    WorkStatus { generation: 1, complete: true, ..WorkStatus::default() }
}

#[test]
fn an_object_that_failed_is_a_failure_before_the_deadline() {
    let conditions = [condition("Available", ConditionStatus::False, "NotAllWorkAreAvailable", 0)];
    let rows = [
        (Availability::Failed, (true, None)),
        (Availability::ManifestNotAvailableYet, (false, Some(Duration::from_secs(599)))),
    ];
    for (availability, expected) in rows {
        let manifest =
            json!({"version": "v1", "kind": "Job", "name": "j", "applied": "Applied", "availability": availability});
        let work = WorkStatus { manifests: vec![serde_json::from_value(manifest).unwrap()].into(), ..work() };
        let deadline = Duration::from_mins(10);
        assert_eq!(failed(&conditions, 1, Some(&work), deadline, Some(second(0)), second(1)), expected);
    }
}

/// Another placement lets an object go with an order that comes later than this one's, by way of an agent. Only what is not going to come by
/// itself is a failure before the deadline (seed 639 of the simulation with agents).
#[test]
fn m02_what_another_placement_is_to_let_go_is_no_failure_before_the_deadline() {
    let refused = binding(vec![condition("Applied", ConditionStatus::False, "NotAllWorkHaveBeenApplied", 0)]);
    let (taken, other) = ("FailedToTakeOver", "ManifestApplyFailed");
    let differences = json!([{"path": "/data/v", "valueInMember": "1", "valueInHub": "2"}]);
    // what became of objects a and b, whether a differs, what others have still, whether it fails at once
    let rows = [
        ("both are to come", [taken, taken], false, vec!["a", "b"], false),
        ("one is there", [taken, "Applied"], false, vec!["a"], false),
        ("no other placement is to let it go", [taken, "Applied"], false, vec![], true),
        ("the other is not let go", [taken, taken], false, vec!["a"], true),
        ("the other is refused", [taken, other], false, vec!["a", "b"], true),
        ("it may not be taken over", [taken, "Applied"], true, vec!["a"], true),
    ];
    for (name, outcomes, differs, others, fails) in rows {
        let manifest = |(name, applied): (&str, &str)| {
            let differences = if differs && name == "a" { differences.clone() } else { json!([]) };
            let manifest = json!({
                "version": "v1", "kind": "ConfigMap", "name": name, "applied": applied, "differences": differences,
            });
            serde_json::from_value(manifest).expect("a manifest")
        };
        let manifests: Vec<ManifestStatus> = ["a", "b"].into_iter().zip(outcomes).map(manifest).collect();
        let key = |name: &&str| manifests.iter().map(|manifest| manifest.id.key()).find(|key| *key.name == **name);
        let taking_over = Claims::from([("c".into(), others.iter().filter_map(key).collect())]);
        let work = WorkStatus { manifests: manifests.clone().into(), ..work() };
        let [early, late] =
            [1, 600].map(|at| evaluate(&refused, Some(&work), &taking_over, None, &limits(), second(at)));
        assert_eq!([early.failed, late.failed], [fails, true], "{name}");
        assert!(early.seen_unavailable, "{name}: a newer snapshot does not wait for it");
    }
}

#[test]
fn the_deadline_counts_from_the_first_report() {
    let limits = limits();
    let told = binding(vec![]);
    let rows = [
        ("it was heard all the time", None, 600, true),
        ("it was heard before it was told", Some(Heard::Since(second(-100))), 600, true),
        ("the daemon was down until after the deadline", Some(Heard::NotYet), 700, false),
        ("it has reported since", Some(Heard::Since(second(700))), 701, false),
        ("it had as long again", Some(Heard::Since(second(700))), 1300, true),
    ];
    for (name, heard, now, failed) in rows {
        let evaluated = health(&told, None, heard, &limits, second(now));
        assert_eq!(evaluated.failed, failed, "{name}");
    }
}

#[test]
fn failures_are_real_or_late() {
    use ConditionStatus::{False, True, Unknown};
    let deadline = Duration::from_mins(10);
    let rest = |seconds| (false, Some(Duration::from_secs(seconds)));
    let one = |type_, status, reason| vec![condition(type_, status, reason, 0)];
    let rows = [
        ("nothing said yet", vec![], false, Some(0), 100, rest(500)),
        ("never started", vec![], false, None, 1000, (false, None)),
        ("the last second", vec![], false, Some(0), 599, rest(1)),
        ("the deadline", vec![], false, Some(0), 600, (true, None)),
        ("overriding failed", one("Overridden", False, "OverriddenFailed"), false, Some(0), 1, (true, None)),
        ("overriding pending", one("Overridden", False, "OverriddenPending"), false, Some(0), 1, rest(599)),
        ("delivering failed", one("WorkSynchronized", False, "SyncWorkFailed"), false, Some(0), 1, (true, None)),
        ("some objects refused", one("Applied", False, "NotAllWorkHaveBeenApplied"), true, Some(0), 1, (true, None)),
        ("some objects not tried", one("Applied", False, "NotAllWorkHaveBeenApplied"), false, Some(0), 1, rest(599)),
        ("applying", one("Applied", False, "ApplyInProgress"), true, Some(0), 1, rest(599)),
        ("not available yet", one("Available", False, "NotAllWorkAreAvailable"), true, Some(0), 1, rest(599)),
        ("not available in time", one("Available", False, "NotAllWorkAreAvailable"), true, Some(0), 600, (true, None)),
        ("unknown is not available", one("Available", Unknown, ""), true, Some(0), 600, (true, None)),
        ("available", one("Available", True, "AllWorkAreAvailable"), true, Some(0), 9000, (false, None)),
        (
            "differences reported",
            one("DiffReported", True, "AllWorkHaveDiffReported"),
            true,
            Some(0),
            9000,
            (false, None),
        ),
        (
            "lost long after",
            vec![condition("Available", False, "NotAllWorkAreAvailable", 5000)],
            true,
            Some(0),
            5100,
            rest(500),
        ),
        (
            "lost for good",
            vec![condition("Available", False, "NotAllWorkAreAvailable", 5000)],
            true,
            Some(0),
            5600,
            (true, None),
        ),
        (
            "put back long after",
            vec![condition("Applied", False, "ApplyInProgress", 5000)],
            false,
            Some(0),
            5100,
            rest(500),
        ),
        (
            "lost before its deadline",
            vec![condition("Available", False, "NotAllWorkAreAvailable", 599)],
            true,
            Some(0),
            600,
            (true, None),
        ),
        (
            "of another generation",
            {
                let mut old = one("Overridden", False, "OverriddenFailed");
                old[0].observed_generation = 0;
                old
            },
            false,
            Some(0),
            1,
            rest(599),
        ),
    ];
    for (name, conditions, complete, started, now, expected) in rows {
        let answer = failed(&conditions, 1, complete.then(work).as_ref(), deadline, started.map(second), second(now));
        assert_eq!(answer, expected, "{name}");
    }
}

#[test]
fn readiness_needs_the_current_generation() {
    use ConditionStatus::{False, True};
    let rows = [
        ("nothing", vec![], Readiness::NotYet(None)),
        ("available", vec![condition("Available", True, "AllWorkAreAvailable", 0)], Readiness::Ready),
        ("not available", vec![condition("Available", False, "NotAllWorkAreAvailable", 0)], Readiness::NotYet(None)),
        ("reported", vec![condition("DiffReported", True, "AllWorkHaveDiffReported", 0)], Readiness::Ready),
        (
            "not reported",
            vec![condition("DiffReported", False, "NotAllWorkHaveDiffReported", 0)],
            Readiness::NotYet(None),
        ),
    ];
    for (name, conditions, expected) in rows {
        assert_eq!(readiness(&conditions, 1, Duration::ZERO, second(1)), expected, "{name}");
        assert_eq!(readiness(&conditions, 2, Duration::ZERO, second(1)), Readiness::NotYet(None), "{name}, stale");
    }
}

#[test]
fn health_is_readiness_and_failure_with_the_earlier_instant() {
    let limits = limits();
    let untracked =
        binding(vec![condition("Available", ConditionStatus::True, "NotAllWorkAreAvailabilityTrackable", 0)]);
    let seconds = |s| Some(Duration::from_secs(s));
    let expected = Health {
        ready: Readiness::NotYet(seconds(50)),
        failed: false,
        undelivered: false,
        diff_reported: false,
        seen_unavailable: false,
        changes_in: seconds(50),
    };
    assert_eq!(health(&untracked, Some(&work()), None, &limits, second(10)), expected);
    let reporting = binding(vec![condition("DiffReported", ConditionStatus::False, "DiffReportInProgress", 0)]);
    let expected = Health {
        ready: Readiness::NotYet(None),
        failed: false,
        undelivered: false,
        diff_reported: true,
        seen_unavailable: false,
        changes_in: seconds(590),
    };
    assert_eq!(health(&reporting, Some(&work()), None, &limits, second(10)), expected);
    let view = BindingView::new(&reporting, expected, true, false);
    assert_eq!(
        (view.name.as_str(), view.diff_reported, view.outdated, view.changes_in),
        ("b", true, true, seconds(590))
    );
}
