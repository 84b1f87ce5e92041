use ApplyOutcome as O;
use Availability as A;

use super::*;
use crate::status::fixtures::{at, binding, condition, manifest, work};
use model::api::condition::ConditionStatus::{False, True};
use model::records::{ApplyOutcome, Glimpse};

const STARTED: (&str, ConditionStatus, &str) = ("RolloutStarted", True, "RolloutStarted");
const PLAIN: (&str, ConditionStatus, &str) = ("Overridden", True, "NoOverrideSpecified");
const SYNCED: (&str, ConditionStatus, &str) = ("WorkSynchronized", True, "AllWorkSynced");
const APPLIED: (&str, ConditionStatus, &str) = ("Applied", True, "AllWorkHaveBeenApplied");

fn facts(conditions: &[Condition]) -> Vec<(&str, ConditionStatus, &str)> {
    conditions.iter().map(|c| (c.type_.as_str(), c.status, c.reason.as_str())).collect()
}

type Row = (&'static str, Binding, Option<WorkStatus>, Vec<(&'static str, ConditionStatus, &'static str)>);

#[expect(clippy::too_many_lines, reason = "a table of situations")]
fn rows() -> Vec<Row> {
    let bound = || binding("east", 3);
    let in_mode = |type_| {
        let mut bound = bound();
        bound.apply_strategy.type_ = type_;
        bound
    };
    let saying = |conditions| Binding { conditions, ..bound() };
    let with = |outcome, availability| Some(work(7, vec![manifest("a", outcome, availability)]));
    let failing = WorkStatus { failure: Some("owned by another source".into()), ..work(7, vec![]) };
    let begun = WorkStatus { complete: false, ..work(7, vec![manifest("a", O::Applied, None)]) };
    let chain = |last: &[(&'static str, ConditionStatus, &'static str)]| [&[STARTED, PLAIN, SYNCED], last].concat();
    let diff = ApplyStrategyType::ReportDiff;
    vec![
        (
            "scheduled",
            Binding { state: BindingState::Scheduled, snapshot: None, ..bound() },
            None,
            vec![("RolloutStarted", False, "RolloutNotStartedYet")],
        ),
        ("no work yet", bound(), None, chain(&[("Applied", False, "ApplyInProgress")])),
        ("older work", bound(), Some(work(6, vec![])), chain(&[("Applied", False, "ApplyInProgress")])),
        ("incomplete", bound(), Some(begun), chain(&[("Applied", False, "ApplyInProgress")])),
        ("diff begins", in_mode(diff), None, chain(&[("DiffReported", False, "DiffReportInProgress")])),
        ("work failed", bound(), Some(failing), vec![STARTED, PLAIN, ("WorkSynchronized", False, "SyncWorkFailed")]),
        (
            "stale: the rollout's word stands and delivery is still told",
            saying(vec![condition("RolloutStarted", False, "RolloutNotStartedYet", 7)]),
            with(O::Applied, Some(A::Available)),
            vec![
                ("RolloutStarted", False, "RolloutNotStartedYet"),
                PLAIN,
                SYNCED,
                APPLIED,
                ("Available", True, "AllWorkAreAvailable"),
            ],
        ),
        (
            "an older word does not stand",
            saying(vec![condition("RolloutStarted", False, "RolloutNotStartedYet", 6)]),
            None,
            chain(&[("Applied", False, "ApplyInProgress")]),
        ),
        (
            "override failed",
            saying(vec![condition("Overridden", False, "OverriddenFailed", 7)]),
            with(O::Applied, Some(A::Available)),
            vec![STARTED, ("Overridden", False, "OverriddenFailed")],
        ),
        (
            "overridden",
            saying(vec![condition("Overridden", True, "OverriddenSucceeded", 7)]),
            None,
            vec![STARTED, ("Overridden", True, "OverriddenSucceeded"), SYNCED, ("Applied", False, "ApplyInProgress")],
        ),
        (
            "apply failed",
            bound(),
            with(O::ManifestApplyFailed, None),
            chain(&[("Applied", False, "NotAllWorkHaveBeenApplied")]),
        ),
        ("apply pending", bound(), with(O::Pending, None), chain(&[("Applied", False, "NotAllWorkHaveBeenApplied")])),
        (
            "availability unknown",
            bound(),
            with(O::Applied, None),
            chain(&[APPLIED, ("Available", False, "NotAllWorkAreAvailable")]),
        ),
        (
            "not available",
            bound(),
            with(O::Applied, Some(A::ManifestNotAvailableYet)),
            chain(&[APPLIED, ("Available", False, "NotAllWorkAreAvailable")]),
        ),
        (
            "untrackable",
            bound(),
            with(O::Applied, Some(A::NotTrackable)),
            chain(&[APPLIED, ("Available", True, "NotAllWorkAreAvailabilityTrackable")]),
        ),
        (
            "available",
            bound(),
            with(O::Applied, Some(A::Available)),
            chain(&[APPLIED, ("Available", True, "AllWorkAreAvailable")]),
        ),
        (
            "nothing to deliver",
            bound(),
            Some(work(7, vec![])),
            chain(&[APPLIED, ("Available", True, "AllWorkAreAvailable")]),
        ),
        (
            "compared",
            in_mode(diff),
            with(O::FoundDiff, None),
            chain(&[("DiffReported", True, "AllWorkHaveDiffReported")]),
        ),
        (
            "not compared",
            in_mode(diff),
            with(O::FailedToReportDiff, None),
            chain(&[("DiffReported", False, "NotAllWorkHaveDiffReported")]),
        ),
    ]
}

#[test]
fn conditions_by_situation() {
    for (name, binding, work, expected) in rows() {
        let conditions = binding_conditions(&binding, work.as_ref(), true, at(60));
        assert_eq!(facts(&conditions), expected, "{name}");
        assert!(conditions.iter().all(|c| c.observed_generation == 7), "{name}: {conditions:?}");
        let again = Binding { conditions: conditions.clone(), ..binding };
        assert_eq!(binding_conditions(&again, work.as_ref(), true, at(600)), conditions, "{name}: not quiet");
    }
}

#[test]
fn transition_times() {
    let mut bound = binding("east", 3);
    let done =
        WorkStatus { available_since: Some(at(30)), ..work(7, vec![manifest("a", O::Applied, Some(A::NotTrackable))]) };
    bound.conditions = binding_conditions(&bound, Some(&done), true, at(60));
    let time = |b: &Binding, type_: &str| find_condition(&b.conditions, &type_.into()).map(|c| c.last_transition_time);
    assert_eq!(time(&bound, "Available"), Some(at(30)), "since the objects are available");
    assert_eq!(time(&bound, "Applied"), Some(at(60)));

    bound.generation = 8;
    let next = WorkStatus { generation: 8, available_since: Some(at(90)), ..done };
    bound.conditions = binding_conditions(&bound, Some(&next), true, at(100));
    assert_eq!(time(&bound, "Available"), Some(at(90)), "a new generation starts a new wait");
    assert_eq!(time(&bound, "RolloutStarted"), Some(at(60)), "the status stayed");
}

#[test]
fn a_binding_being_deleted_keeps_its_conditions() {
    let conditions = vec![condition("Applied", True, "AllWorkHaveBeenApplied", 5)];
    let leaving = Binding { deleting: true, conditions: conditions.clone(), ..binding("east", 3) };
    assert_eq!(binding_conditions(&leaving, None, true, at(0)), conditions);
}

#[test]
fn lists_by_situation() {
    let drifted = || {
        let mut m = manifest("d", O::Applied, Some(A::Available));
        m.differences = vec![model::diff::missing_object()];
        m
    };
    let differing = |outcome| {
        let mut m = manifest("f", outcome, None);
        m.differences = vec![model::diff::missing_object()];
        m
    };
    let diff_mode = ApplyStrategyType::ReportDiff;
    let apply_mode = ApplyStrategyType::ServerSideApply;
    let rows = [
        ("in progress", apply_mode, 6, vec![drifted(), differing(O::FailedToTakeOver)], [0, 0, 0]),
        ("apply failed", apply_mode, 7, vec![drifted(), differing(O::FailedToTakeOver)], [1, 1, 1]),
        (
            "not available",
            apply_mode,
            7,
            vec![drifted(), manifest("n", O::Applied, Some(A::ManifestNotAvailableYet))],
            [1, 1, 0],
        ),
        ("all well", apply_mode, 7, vec![drifted()], [0, 1, 0]),
        ("compared", diff_mode, 7, vec![differing(O::FoundDiff)], [0, 0, 1]),
        (
            "not compared",
            diff_mode,
            7,
            vec![differing(O::FoundDiff), manifest("x", O::FailedToReportDiff, None)],
            [0, 0, 0],
        ),
    ];
    for (name, mode, generation, manifests, expected) in rows {
        let mut bound = binding("east", 3);
        bound.apply_strategy.type_ = mode;
        let lists = binding_lists(&bound, Some(&work(generation, manifests)));
        assert_eq!([lists.failed.len(), lists.drifted.len(), lists.diffed.len()], expected, "{name}");
    }
}

#[test]
fn d02_words_for_a_kind_that_cannot_be_listed() {
    let unlisted = [("Secret".to_owned(), "403 Forbidden".to_owned())].into();
    let inventory = Inventory::Unknown(Glimpse { unlisted, ..Glimpse::default() });
    let manifests = vec![manifest("a", O::Applied, None), manifest("b", O::Pending, None)];
    let begun = WorkStatus { complete: false, inventory, ..work(7, manifests) };
    let conditions = binding_conditions(&binding("east", 3), Some(&begun), true, at(0));
    insta::assert_snapshot!(conditions[3].message, @"1 of 2 objects applied so far; what it holds is not known, so nothing is deleted there (Secret: 403 Forbidden)");
}

#[test]
fn words_for_an_offline_cluster() {
    let begun = WorkStatus {
        complete: false,
        ..work(7, vec![manifest("a", O::Applied, None), manifest("b", O::Pending, None)])
    };
    let conditions = binding_conditions(&binding("east", 3), Some(&begun), false, at(0));
    insta::assert_snapshot!(conditions[3].message, @"1 of 2 objects applied so far; the cluster is offline and continues when it answers");
}
