//! Placement status, situation by situation.

use ConditionStatus::{False, True, Unknown};

use super::*;
use crate::status::fixtures::{Case, CaseStatus as _, at, condition, decision, manifest, snapshot};
use crate::status::placement::placement_status;
use model::api::condition::find_condition;
use model::api::placement::{ApplyStrategy, ApplyStrategyType, PlacementPolicy, PlacementType, StrategyType};
use model::id::PlacementKey;
use model::records::{ApplyOutcome as O, Availability as A, BindingState};

type Fact = (&'static str, ConditionStatus, &'static str);

const SCHEDULED: Fact = ("Scheduled", True, "SchedulingPolicyFulfilled");
const STARTED: Fact = ("RolloutStarted", True, "RolloutStarted");
const PLAIN: Fact = ("Overridden", True, "NoOverrideSpecified");
const SYNCED: Fact = ("WorkSynchronized", True, "WorkSynchronized");
const APPLIED: Fact = ("Applied", True, "ApplySucceeded");

fn owned(facts: &[Fact]) -> Vec<(String, ConditionStatus, String)> {
    facts.iter().map(|(t, s, r)| ((*t).to_owned(), *s, (*r).to_owned())).collect()
}

fn facts(conditions: &[Condition], prefix: &str) -> Vec<(String, ConditionStatus, String)> {
    let plain = |t: &str| t.strip_prefix(prefix).unwrap_or(t).to_owned();
    conditions.iter().map(|c| (plain(c.type_.as_str()), c.status, c.reason.to_string())).collect()
}

fn with_work(cluster: &'static str, outcome: O, availability: Option<A>) -> impl FnOnce(&mut Case) {
    move |case| case.work(cluster).manifests = vec![manifest("a", outcome, availability)].into()
}

fn report_diff(case: &mut Case) {
    let strategy = ApplyStrategy { type_: ApplyStrategyType::ReportDiff, ..ApplyStrategy::default() };
    case.record.spec.strategy.apply_strategy = Some(strategy.clone());
    for binding in case.bindings_mut() {
        binding.apply_strategy = strategy.clone();
    }
    for work in case.works.values_mut().map(std::sync::Arc::make_mut) {
        work.manifests = vec![manifest("a", O::FoundDiff, None)].into();
    }
}

fn set(case: &mut Case, cluster: &str, conditions: Vec<Condition>) {
    case.binding(cluster).conditions = conditions;
}

type Row = (&'static str, Box<dyn FnOnce(&mut Case)>, Vec<Fact>);

#[expect(clippy::too_many_lines, reason = "a table of situations")]
fn rows() -> Vec<Row> {
    let chain = |last: &[Fact]| [&[SCHEDULED, STARTED, PLAIN, SYNCED], last].concat();
    let stop = |last: Fact| vec![SCHEDULED, last];
    vec![
        ("all well", Box::new(|_| ()), chain(&[APPLIED, ("Available", True, "ResourceAvailable")])),
        ("never scheduled", Box::new(|c| c.policy = None), vec![("Scheduled", Unknown, "SchedulePending")]),
        (
            "older generation scheduled",
            Box::new(|c| c.record.generation = 3),
            vec![("Scheduled", Unknown, "SchedulePending")],
        ),
        (
            "selection failed",
            Box::new(|c| {
                c.policy = None;
                c.record.error = Some("selects a reserved namespace".into());
            }),
            vec![("Scheduled", False, "InvalidResourceSelectors"), ("Stalled", True, "PlacementInvalid")],
        ),
        ("nothing picked", Box::new(|c| c.policy.as_mut().expect("a policy").target_clusters.clear()), vec![SCHEDULED]),
        (
            "unfulfilled, the rest continues",
            Box::new(|c| c.policy.as_mut().expect("a policy").fulfilled = false),
            vec![
                ("Scheduled", False, "SchedulingPolicyUnfulfilled"),
                STARTED,
                PLAIN,
                SYNCED,
                APPLIED,
                ("Available", True, "ResourceAvailable"),
            ],
        ),
        (
            "no binding",
            Box::new(|c| drop(c.bindings.pop())),
            stop(("RolloutStarted", Unknown, "RolloutStartedUnknown")),
        ),
        (
            "a binding being deleted does not speak",
            Box::new(|c| c.binding("east").deleting = true),
            stop(("RolloutStarted", Unknown, "RolloutStartedUnknown")),
        ),
        (
            "older snapshot, rollout silent",
            Box::new(|c| c.binding("east").snapshot = Some(2)),
            stop(("RolloutStarted", Unknown, "RolloutStartedUnknown")),
        ),
        (
            "older snapshot, rollout says wait",
            Box::new(|c| {
                c.binding("east").snapshot = Some(2);
                set(c, "east", vec![condition("RolloutStarted", False, "RolloutNotStartedYet", 7)]);
            }),
            stop(("RolloutStarted", False, "RolloutNotStartedYet")),
        ),
        (
            "unknown beats false",
            Box::new(|c| {
                c.bindings.remove(0);
                c.binding("west").snapshot = Some(2);
                set(c, "west", vec![condition("RolloutStarted", False, "RolloutNotStartedYet", 7)]);
            }),
            stop(("RolloutStarted", Unknown, "RolloutStartedUnknown")),
        ),
        (
            "override failed",
            Box::new(|c| set(c, "east", vec![condition("Overridden", False, "OverriddenFailed", 7)])),
            vec![SCHEDULED, STARTED, ("Overridden", False, "OverriddenFailed")],
        ),
        (
            "one overridden",
            Box::new(|c| set(c, "east", vec![condition("Overridden", True, "OverriddenSucceeded", 7)])),
            vec![
                SCHEDULED,
                STARTED,
                ("Overridden", True, "OverriddenSucceeded"),
                SYNCED,
                APPLIED,
                ("Available", True, "ResourceAvailable"),
            ],
        ),
        (
            "work failed",
            Box::new(|c| c.work("east").failure = Some("inventory of another source".into())),
            vec![SCHEDULED, STARTED, PLAIN, ("WorkSynchronized", False, "WorkNotSynchronizedYet")],
        ),
        ("in progress", Box::new(|c| c.work("east").complete = false), chain(&[("Applied", False, "ApplyFailed")])),
        (
            "apply failed",
            Box::new(with_work("east", O::ManifestApplyFailed, None)),
            chain(&[("Applied", False, "ApplyFailed")]),
        ),
        (
            "not available",
            Box::new(with_work("east", O::Applied, Some(A::ManifestNotAvailableYet))),
            chain(&[APPLIED, ("Available", False, "ResourceNotAvailableYet")]),
        ),
        ("compared", Box::new(report_diff), chain(&[("DiffReported", True, "DiffReportingCompleted")])),
        (
            "not compared",
            Box::new(|c| {
                report_diff(c);
                with_work("east", O::FailedToReportDiff, None)(c);
            }),
            chain(&[("DiffReported", False, "DiffReportingIncompleteOrFailed")]),
        ),
        (
            "External, different snapshots",
            Box::new(|c| {
                c.record.spec.strategy.type_ = StrategyType::External;
                c.binding("east").snapshot = Some(2);
            }),
            stop(("RolloutStarted", Unknown, "RolloutControlledByExternalController")),
        ),
        (
            "External, nothing yet",
            Box::new(|c| {
                c.record.spec.strategy.type_ = StrategyType::External;
                c.bindings_mut().for_each(|b| (b.state, b.snapshot) = (BindingState::Scheduled, None));
            }),
            stop(("RolloutStarted", Unknown, "RolloutControlledByExternalController")),
        ),
        (
            "External, together",
            Box::new(|c| c.record.spec.strategy.type_ = StrategyType::External),
            chain(&[APPLIED, ("Available", True, "ResourceAvailable")]),
        ),
        (
            "our own",
            Box::new(|c| {
                c.binding("east").snapshot = Some(2);
                c.offline("east");
                c.gate(&["west"]);
                c.record.halted = Some("too many failures".into());
                c.record.removed = true;
            }),
            vec![
                SCHEDULED,
                ("RolloutStarted", Unknown, "RolloutStartedUnknown"),
                ("Halted", True, "FailuresExceedMax"),
                ("DeletionGuarded", True, "ApprovalRequired"),
                ("ClustersDeferred", True, "ClustersOffline"),
                ("Removing", True, "RemovedFromGit"),
            ],
        ),
    ]
}

#[test]
fn conditions_by_situation() {
    for (name, change, expected) in rows() {
        let mut case = Case::healthy(&["east", "west"]);
        change(&mut case);
        case.settle();
        let status = placement_status(&case.view());
        assert_eq!(facts(&status.conditions, "ClusterResourcePlacement"), owned(&expected), "{name}");
        let generation = case.record.generation;
        assert!(status.conditions.iter().all(|c| c.observed_generation == generation), "{name}");
        case.record.conditions = status.conditions.clone();
        case.now = at(9000);
        assert_eq!(placement_status(&case.view()), status, "{name}: not quiet");
    }
}

#[test]
fn while_scheduling_is_pending_the_rest_stays() {
    let mut case = Case::healthy(&["east"]);
    case.record.conditions = placement_status(&case.view()).conditions;
    case.record.generation = 3;
    let status = placement_status(&case.view());
    assert!(status.placement_statuses.is_empty());
    assert_eq!(status.conditions.len(), 6);
    let generations: Vec<_> = status.conditions.iter().map(|c| c.observed_generation).collect();
    assert_eq!(generations, [3, 2, 2, 2, 2, 2]);
}

#[test]
fn own_conditions_go_when_they_no_longer_apply() {
    let mut case = Case::healthy(&["east"]);
    case.record.halted = Some("x".into());
    case.record.conditions = placement_status(&case.view()).conditions;
    case.record.halted = None;
    assert!(find_condition(&placement_status(&case.view()).conditions, &ConditionType::Halted).is_none());
}

#[test]
fn types_carry_the_kind() {
    let mut case = Case::healthy(&["east"]);
    case.record.key = PlacementKey::namespaced("app", "web");
    let status = placement_status(&case.view());
    assert!(
        status.conditions.iter().all(|c| c.type_.as_str().starts_with("ResourcePlacement")),
        "{:?}",
        status.conditions
    );
    assert!(status.placement_statuses[0].conditions.iter().all(|c| !c.type_.as_str().contains("Placement")));
}

#[test]
fn clusters_carry_the_bindings_reasons_up_to_the_first_that_fails() {
    let mut case = Case::healthy(&["east", "south", "west"]);
    with_work("east", O::Applied, Some(A::NotTrackable))(&mut case);
    case.work("south").complete = false;
    case.binding("west").snapshot = Some(2);
    case.settle();
    let status = placement_status(&case.view());
    let reasons = |at: usize| {
        status.placement_statuses[at].conditions.iter().map(|c| c.reason.as_str()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        reasons(0),
        "Scheduled RolloutStarted NoOverrideSpecified AllWorkSynced AllWorkHaveBeenApplied \
         NotAllWorkAreAvailabilityTrackable"
    );
    assert_eq!(reasons(1), "Scheduled RolloutStarted NoOverrideSpecified AllWorkSynced ApplyInProgress");
    assert_eq!(reasons(2), "Scheduled RolloutStartedUnknown");
    let indexes: Vec<_> = status.placement_statuses.iter().map(|c| c.observed_resource_index.as_str()).collect();
    assert_eq!(indexes, ["3", "3", "3"], "RollingUpdate shows the latest index, reached or not");
}

#[test]
fn wanted_clusters_that_were_not_found() {
    let rows = [
        ("PickN", PlacementType::PickN, Some(3), 0, 2),
        ("capped by what is listed", PlacementType::PickN, Some(9), 0, 2),
        ("PickFixed", PlacementType::PickFixed, None, 2, 1),
        ("PickAll wants none in particular", PlacementType::PickAll, None, 0, 0),
        ("fewer wanted than picked", PlacementType::PickN, Some(0), 0, 0),
    ];
    for (name, placement_type, number, fixed, expected) in rows {
        let mut case = Case::healthy(&["east"]);
        let policy = case.policy.as_mut().expect("a policy");
        policy.target_clusters.extend([decision("north", false), decision("south", false)]);
        policy.number_of_clusters = number;
        let cluster_names = vec!["x".to_owned(); fixed];
        policy.policy = Some(PlacementPolicy { placement_type, cluster_names, ..PlacementPolicy::default() });
        let status = placement_status(&case.view());
        let missing: Vec<_> = status.placement_statuses.iter().filter(|c| c.cluster_name.is_empty()).collect();
        assert_eq!(missing.len(), expected, "{name}");
        for entry in missing {
            assert_eq!(facts(&entry.conditions, ""), owned(&[("Scheduled", False, "ScheduleFailed")]), "{name}");
            assert!(entry.conditions[0].message.ends_with("has a taint"), "{name}");
        }
    }
}

#[test]
fn external_shows_the_common_snapshot() {
    let rows = [
        ("latest", [Some(3), Some(3)], "3", 2),
        ("older, still kept", [Some(2), Some(2)], "2", 1),
        ("older, pruned", [Some(1), Some(1)], "", 0),
        ("different", [Some(2), Some(3)], "", 0),
        ("none", [None, None], "", 0),
    ];
    for (name, held, index, count) in rows {
        let mut case = Case::healthy(&["east", "west"]);
        case.record.spec.strategy.type_ = StrategyType::External;
        case.snapshot = Some(snapshot(3, &["a", "b"]));
        for (binding, held) in case.bindings_mut().zip(held) {
            binding.snapshot = held;
        }
        case.settle();
        let status = placement_status(&case.view());
        assert_eq!(
            (status.observed_resource_index.as_str(), status.selected_resources.len()),
            (index, count),
            "{name}"
        );
    }
}

#[test]
fn messages_name_clusters_and_reasons() {
    let mut case = Case::healthy(&["east", "north", "south", "west"]);
    for cluster in ["east", "north", "south"] {
        case.binding(cluster).snapshot = Some(2);
    }
    case.work("north").complete = false;
    case.offline("south");
    case.gate(&["west"]);
    case.record.halted = Some("1 cluster failed, allowed: 0".into());
    case.settle();
    let status = placement_status(&case.view());
    let lines: Vec<_> = status.conditions.iter().map(|c| format!("{}: {}", c.type_, c.message)).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    ClusterResourcePlacementScheduled: 4 clusters picked
    ClusterResourcePlacementRolloutStarted: 3 of 4 clusters not known to have started: east, north, south; the rollout is halted: 1 cluster failed, allowed: 0
    Halted: 1 cluster failed, allowed: 0
    DeletionGuarded: 1 deletion on 1 cluster waiting for approval of digest 9f8e7d6c5b4a: more than half of the objects would go
    ClustersDeferred: 1 offline cluster to update on return: south (connection refused)
    "#);
    let of_clusters: Vec<_> = status.placement_statuses.iter().map(|c| c.conditions[1].message.as_str()).collect();
    insta::assert_snapshot!(of_clusters.join("\n"), @r#"
    holds snapshot 2; waits for its turn for snapshot 3; the rollout is halted: 1 cluster failed, allowed: 0
    snapshot 2 was superseded by snapshot 3 before it was done here; waits for its turn; the rollout is halted: 1 cluster failed, allowed: 0
    deferred, the cluster is offline (connection refused): holds snapshot 2; waits for its turn for snapshot 3
    snapshot 3 is on its way
    "#);
}
