//! Whole trees, as people see them.

mod signs;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::fixtures::{
    Case, CaseStatus as _, answered, at, decision, manifest, run, run_at_approval, run_at_checks, run_in_production,
};
use crate::summary::Summary;
use decide::status::placement::PlacementView;
use model::api::annotations::STAGED_UPDATE_STRATEGY;
use model::id::{ClusterName, Digest};
use model::manifest::InputError;
use model::ocm::OcmPlacementRecord;
use model::records::{
    ApplyOutcome, Availability, Binding, BindingState, ClusterRecord, HeldSnapshot, Pause, SourceRecord,
};
use model::runs::{ClusterPhase, MetricState, RunPhase, RunRecord, StagePhase};

pub(super) fn source() -> SourceRecord {
    SourceRecord {
        url: "https://git.example/platform/fleet.git".into(),
        accepted: Some("1a2b3c4d5e6f".into()),
        seen: Some("1a2b3c4d5e6f".into()),
        ..SourceRecord::default()
    }
}

static NO_CLUSTERS: BTreeMap<ClusterName, ClusterRecord> = BTreeMap::new();

/// Everything that is shown.
#[derive(Clone, Copy)]
struct StatusView<'a> {
    source: &'a SourceRecord,
    branch: Option<&'a str>,
    placements: &'a [PlacementView<'a>],
    clusters: &'a BTreeMap<ClusterName, ClusterRecord>,
    ocm: &'a [OcmPlacementRecord],
    now: Timestamp,
}

fn status_lines(view: &StatusView) -> Vec<Line> {
    let StatusView { source, branch, placements, clusters, ocm, now } = *view;
    let summary = Summary {
        complaint: None,
        waiting: Vec::new(),
        waiting_unlisted: 0,
        standing: BTreeSet::new(),
        states: BTreeMap::new(),
        source: source_lines(&SourceView { source, branch, subject: None, clusters, now }),
        placements: placements.iter().map(|view| PlacementRow::of(view, source.approvers.as_deref())).collect(),
        unlisted: BTreeMap::new(),
        ocm: ocm.iter().flat_map(ocm_lines).collect(),
        clock_ahead: jiff::SignedDuration::ZERO,
    };
    // What is shown has come over the network.
    let json = serde_json::to_string(&summary).expect("JSON");
    serde_json::from_str::<Summary>(&json).expect("a summary").lines(now)
}

fn view<'a>(source: &'a SourceRecord, placements: &'a [PlacementView<'a>]) -> StatusView<'a> {
    StatusView { source, branch: Some("main"), placements, clusters: &NO_CLUSTERS, ocm: &[], now: at(60) }
}

pub(super) fn text(line: Line) -> String {
    line.spans.into_iter().map(|s| s.text).collect::<String>().trim_end().to_owned()
}

fn shown(source: &SourceRecord, cases: &mut [Case]) -> String {
    cases.iter_mut().for_each(Case::settle);
    let views: Vec<_> = cases.iter().map(Case::view).collect();
    let view = view(source, &views);
    status_lines(&view).into_iter().map(text).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_healthy_fleet() {
    let mut api = Case::healthy(&["east", "north-1"]);
    api.record.key.name = "api".into();
    insta::assert_snapshot!(shown(&source(), &mut [api, Case::healthy(&["west"])]), @r#"
    source https://git.example/platform/fleet.git (main)
      accepted 1a2b3c4

    ✓ ClusterResourcePlacement api  snapshot 3 (1a2b3c4), 2 of 2 clusters up to date
    ├─ ✓ east     snapshot 3  available for 50s
    └─ ✓ north-1  snapshot 3  available for 50s

    ✓ ClusterResourcePlacement web  snapshot 3 (1a2b3c4), 1 of 1 cluster up to date
    └─ ✓ west  snapshot 3  available for 50s
    "#);
}

#[test]
fn in_the_middle_of_a_rollout() {
    let mut case = Case::healthy(&["east", "north-1", "south", "west"]);
    case.work("north-1").complete = false;
    case.work("north-1").manifests[1] = manifest("b", ApplyOutcome::Pending, None);
    case.work("south").manifests[1] = manifest("b", ApplyOutcome::Applied, Some(Availability::ManifestNotAvailableYet));
    case.binding("west").snapshot = Some(2);
    let mut gone = Binding::clone(&case.bindings[0]);
    gone.name = "web-old-99999999".into();
    gone.cluster = "east-old".into();
    gone.state = BindingState::Unscheduled;
    case.clusters.insert("east-old".into(), crate::fixtures::cluster("east-old", true));
    case.bindings.push(gone.into());
    insta::assert_snapshot!(shown(&source(), &mut [case]), @r#"
    source https://git.example/platform/fleet.git (main)
      accepted 1a2b3c4

    ↻ ClusterResourcePlacement web  snapshot 3 (1a2b3c4), 1 of 4 clusters up to date: in progress
    ├─ ✓ east      snapshot 3  available for 50s
    ├─ ↻ north-1   snapshot 3  1 of 2 objects applied so far
    ├─ ↻ south     snapshot 3  1 of 2 objects available
    │      ConfigMap web/b: ManifestNotAvailableYet: the object is not available yet
    ├─ · west      snapshot 2  holds snapshot 2; waits for its turn for snapshot 3
    └─ - east-old  no longer picked; waits for its removal
    "#);
}

#[test]
fn everything_that_can_be_wrong() {
    let mut source = source();
    source.seen = Some("9f8e7d6c5b4a".into());
    source.refused = vec![
        InputError {
            path: "web/all.yaml".into(),
            line: 12,
            object: Some("Deployment.apps web/web".into()),
            field: Some("spec.replicas".into()),
            message: "expected a number, found \"three\"".into(),
            hint: None,
        },
        InputError {
            path: "placements/web.yaml".into(),
            line: 3,
            object: None,
            field: Some("spec.polici".into()),
            message: "unknown field".into(),
            hint: Some("did you mean `policy`?".into()),
        },
    ];
    let mut case = Case::healthy(&["east", "north-1", "south", "west"]);
    case.binding("north-1").snapshot = Some(2);
    case.offline("north-1");
    case.offline("west");
    let mut broken = manifest("b", ApplyOutcome::ManifestApplyFailed, None);
    broken.message = "field is immutable".into();
    case.work("south").manifests[1] = broken;
    case.work("south").manifests[0].differences = vec![model::diff::missing_object()];
    case.gate(&["east"]);
    case.record.halted = Some("1 of 4 clusters failed, allowed: 0".into());
    insta::assert_snapshot!(shown(&source, &mut [case]), @r#"
    ✗ commit 9f8e7d6 is refused; 1a2b3c4 stays accepted
        web/all.yaml:12: Deployment.apps web/web: spec.replicas: expected a number, found "three"
        placements/web.yaml:3: spec.polici: unknown field (did you mean `policy`?)
    source https://git.example/platform/fleet.git (main)
      accepted 1a2b3c4, seen 9f8e7d6

    ✗ ClusterResourcePlacement web  snapshot 3 (1a2b3c4), 2 of 4 clusters up to date: the rollout is halted: 1 of 4 clusters failed, allowed: 0
    ├─ ! deletions wait for a person, for 60s: more than half of the objects would go, digest 9f8e7d6c5b4a
    │      by anybody who may command the daemon
    │      gitfleet approve web deletion
    │      east: ConfigMap web/old
    ├─ ✓ east     snapshot 3  available for 50s
    ├─ ? north-1  snapshot 2  deferred, the cluster is offline (connection refused): holds snapshot 2; waits for its turn for snapshot 3
    ├─ ✗ south    snapshot 3  1 of 2 objects applied
    │      ConfigMap web/b: ManifestApplyFailed: field is immutable
    │      1 object drifted
    └─ ? west     snapshot 3  available when it answered last; offline (connection refused) for 60s
    "#);
}

#[test]
fn styles_carry_the_meaning() {
    let mut case = Case::healthy(&["east", "south"]);
    case.work("south").manifests = vec![manifest("b", ApplyOutcome::ManifestApplyFailed, None)].into();
    case.settle();
    let source = source();
    let views = [case.view()];
    let lines = status_lines(&view(&source, &views));
    let style = |name: &str| {
        let line =
            lines.iter().find(|l| l.spans.iter().any(|s| s.text.trim() == name)).expect("the cluster has a line");
        line.spans.last().map(|s| s.style)
    };
    assert_eq!(style("east"), Some(Style::Ok));
    assert_eq!(style("south"), Some(Style::Bad));
}

#[test]
fn a_cluster_that_was_wanted_and_not_found_is_not_listed() {
    let mut case = Case::healthy(&["east"]);
    case.policy.as_mut().expect("a policy").target_clusters.push(decision("west", false));
    let text = shown(&source(), &mut [case]);
    assert!(!text.contains("west"), "{text}");
}

#[test]
fn ocm_placements_say_what_is_wrong_with_them() {
    let record = |satisfied: &str, misconfigured: &str, error: Option<&str>| -> OcmPlacementRecord {
        let condition = |type_: &str, status: &str, message: &str| {
            json!({"type": type_, "status": status, "reason": "R", "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let record = json!({
            "namespace": "ns1", "name": "web", "spec": {}, "generation": 1, "createdAt": "2026-01-01T00:00:00Z",
            "origin": {"path": "p.yaml", "line": 1, "blob": "b", "ordinal": 0}, "error": error,
            "groups": [{"clusters": ["east"]}],
            "conditions": [
                condition("PlacementSatisfied", satisfied, "2 cluster decisions unscheduled"),
                condition("PlacementMisconfigured", misconfigured, "a toleration is wrong"),
            ],
        });
        serde_json::from_value(record).expect("a record")
    };
    let rows = [
        (record("True", "False", None), vec!["✓ Placement ns1/web  1 cluster decided"]),
        (
            record("False", "True", Some("a set cannot be read")),
            vec![
                "! Placement ns1/web  1 cluster decided",
                "    2 cluster decisions unscheduled",
                "    a toleration is wrong",
                "    a set cannot be read",
            ],
        ),
    ];
    for (record, expected) in rows {
        let source = SourceRecord::default();
        let view = StatusView { ocm: std::slice::from_ref(&record), ..view(&source, &[]) };
        let lines: Vec<String> = status_lines(&view).into_iter().map(text).collect();
        assert_eq!(lines[lines.len() - expected.len()..], expected);
    }
}

fn staged(run: RunRecord) -> Case {
    Case::healthy(&["east", "north", "south", "west"]).with_run(run)
}

#[test]
fn a_run_that_waits_for_a_person() {
    let mut case = staged(run_at_approval());
    case.binding("west").snapshot = Some(2);
    case.record.superseded = 2;
    insta::assert_snapshot!(shown(&source(), &mut [case]), @r#"
    source https://git.example/platform/fleet.git (main)
      accepted 1a2b3c4

    ! ClusterResourcePlacement web  snapshot 3 (1a2b3c4), 3 of 4 clusters up to date: waits for a person
    ├─ superseded 2 times before a rollout finished
    └─ ! run web-3  to snapshot 3 by three-stages  waits
       ├─ ✓ stage staging  1 of 1 cluster done, ended 41s ago
       ├─ ! stage canary  2 of 2 clusters done
       │      waits for approval before the next stage, for 30s, digest canary-0a1b2
       │      by anybody who may command the daemon
       │      gitfleet approve web-3 canary
       └─ · stage production  1 cluster
    "#);
}

#[test]
fn ux1a_9_a_gate_names_the_approvers_that_its_comment_names() {
    let source = SourceRecord { approvers: Some("user:approver".into()), ..source() };
    for (narrowed, by) in [(None, "user:approver"), (Some("team:org/release"), "team:org/release")] {
        let run = RunRecord { approvers: narrowed.map(str::to_owned), ..run_at_approval() };
        let text = shown(&source, &mut [staged(run)]);
        assert!(text.contains(&format!("by {by} by comment, or a token of the API\n")), "{text}");
        let mut guarded = staged(run_in_production());
        guarded.gate(&["west"]);
        guarded.record.deletion_gate.as_mut().expect("it was closed").approvers = narrowed.map(str::to_owned);
        let text = shown(&source, &mut [guarded]);
        let lines = format!("    by {by} by comment, or a token of the API\n");
        let (_, after) = text.split_once(&lines).unwrap_or_else(|| panic!("{text}"));
        assert!(after.lines().next().is_some_and(|line| line.ends_with("gitfleet approve web deletion")), "{text}");
    }
}

#[test]
fn a_run_in_its_last_stage() {
    let mut case = staged(run_in_production());
    case.work("west").manifests[1] = manifest("b", ApplyOutcome::Applied, Some(Availability::ManifestNotAvailableYet));
    insta::assert_snapshot!(shown(&source(), &mut [case]), @r#"
    source https://git.example/platform/fleet.git (main)
      accepted 1a2b3c4

    ↻ ClusterResourcePlacement web  snapshot 3 (1a2b3c4), 3 of 4 clusters up to date: in progress
    └─ ↻ run web-3  to snapshot 3 by three-stages  in progress
       ├─ ✓ stage staging  1 of 1 cluster done, ended 41s ago
       ├─ ✓ stage canary  2 of 2 clusters done, ended 20s ago
       └─ ↻ stage production  0 of 1 cluster done
          └─ ↻ west  snapshot 3  1 of 2 objects available
                 ConfigMap web/b: ManifestNotAvailableYet: the object is not available yet
    "#);
}

#[test]
fn a_run_that_waits_for_time_while_it_is_paused() {
    let mut run = run_at_approval();
    run.stages[0].phase = StagePhase::WaitingAfter;
    run.stages[0].after[0].done_at = None;
    run.stages[1] = crate::fixtures::stage("canary", &["north", "south"], &[]);
    let mut case = staged(run);
    case.record.paused = Some(Pause { by: "ann".into(), at: at(9), reason: Some("a freeze".into()) });
    insta::assert_snapshot!(shown(&source(), &mut [case]), @r#"
    source https://git.example/platform/fleet.git (main)
      accepted 1a2b3c4

    ! ClusterResourcePlacement web  snapshot 3 (1a2b3c4), 4 of 4 clusters up to date: waits for a person
    ├─ ! paused by ann 51s ago (a freeze); gitfleet resume web
    └─ ! run web-3  to snapshot 3 by three-stages  waits
       ├─ ! stage staging  1 of 1 cluster done, ended 41s ago
       │      waits 59m more before the next stage
       ├─ · stage canary  2 clusters
       └─ · stage production  1 cluster
    "#);
}

#[test]
fn a_run_that_waits_for_its_checks() {
    let text = |state: MetricState| shown(&source(), &mut [staged(run_at_checks(state))]);
    insta::assert_snapshot!(text(answered(0.002)), @r#"
    source https://git.example/platform/fleet.git (main)
      accepted 1a2b3c4

    ↻ ClusterResourcePlacement web  snapshot 3 (1a2b3c4), 4 of 4 clusters up to date: waits 30s more
    └─ ! run web-3  to snapshot 3 by three-stages  waits
       ├─ ✓ stage staging  1 of 1 cluster done, ended 41s ago
       ├─ ! stage canary  2 of 2 clusters done
       │      available for 30s, 30s more
       │      check error-rate, at most 0.01: answers 0.002, 10s ago
       └─ · stage production  1 cluster
    "#);
    let mut halted = run_at_checks(answered(0.5));
    (halted.phase, halted.message) = (RunPhase::Halted, "stage canary: the check error-rate answers 0.5".into());
    halted.stages[1].checks.as_mut().unwrap().healthy_since = None;
    insta::assert_snapshot!(shown(&source(), &mut [staged(halted)]), @r#"
    source https://git.example/platform/fleet.git (main)
      accepted 1a2b3c4

    ✗ ClusterResourcePlacement web  snapshot 3 (1a2b3c4), 4 of 4 clusters up to date: cannot continue
    └─ ✗ run web-3  to snapshot 3 by three-stages  halted: stage canary: the check error-rate answers 0.5; gitfleet retry web-3
       ├─ ✓ stage staging  1 of 1 cluster done, ended 41s ago
       ├─ ✗ stage canary  2 of 2 clusters done
       │      waits for all clusters to be available for 1m
       │      check error-rate, at most 0.01: answers 0.5, 10s ago
       └─ · stage production  1 cluster
    "#);
    for (state, expected) in [
        (MetricState::asked(at(30)), "check error-rate, at most 0.01: not answered yet"),
        (
            MetricState { problem: Some("no data".into()), ..answered(0.002) },
            "check error-rate, at most 0.01: answers 0.002, 10s ago; no answer: no data",
        ),
    ] {
        assert!(text(state.clone()).contains(expected), "{}", text(state));
    }
}

#[test]
fn a_wait_that_is_over_is_no_instant_that_has_passed() {
    let mut run = run_at_approval();
    run.stages[0].phase = StagePhase::WaitingAfter;
    run.stages[0].after[0].done_at = None;
    run.stages[0].since = Timestamp::UNIX_EPOCH;
    let text = shown(&source(), &mut [staged(run)]);
    assert!(text.contains("up to date: the wait is over") && !text.contains("<invalid>"), "{text}");
}

#[test]
fn a_halted_run_with_a_cluster_that_is_offline() {
    let mut run = run_in_production();
    (run.phase, run.message) = (RunPhase::Halted, "1 cluster of stage production failed, allowed: 0".into());
    let mut deferred = run.stages[0].clusters[0].clone();
    (deferred.name, deferred.phase) = ("east-2".into(), ClusterPhase::Deferred);
    run.stages[0].clusters.push(deferred);
    let west = &mut run.stages[2].clusters[0];
    (west.phase, west.message) = (ClusterPhase::Failed, "1 of 2 objects failed".into());
    let mut case = staged(run);
    case.offline("east-2");
    let mut broken = manifest("b", ApplyOutcome::ManifestApplyFailed, None);
    broken.message = "field is immutable".into();
    case.work("west").manifests[1] = broken;
    insta::assert_snapshot!(shown(&source(), &mut [case]), @r#"
    source https://git.example/platform/fleet.git (main)
      accepted 1a2b3c4

    ✗ ClusterResourcePlacement web  snapshot 3 (1a2b3c4), 3 of 4 clusters up to date: cannot continue
    └─ ✗ run web-3  to snapshot 3 by three-stages  halted: 1 cluster of stage production failed, allowed: 0; gitfleet retry web-3
       ├─ ✓ stage staging  1 of 2 clusters done, 1 deferred while offline, ended 41s ago
       │  └─ ? east-2  snapshot -  deferred, offline (connection refused); updated when it returns
       ├─ ✓ stage canary  2 of 2 clusters done, ended 20s ago
       └─ ✗ stage production  0 of 1 cluster done, 1 failed
          └─ ✗ west  snapshot 3  1 of 2 objects failed
                 ConfigMap web/b: ManifestApplyFailed: field is immutable
    "#);
}

#[test]
fn after_a_run() {
    let done = staged(RunRecord { phase: RunPhase::Succeeded, ..run_in_production() });
    let ended =
        RunRecord { phase: RunPhase::Rejected, message: "rejected by ann: too slow".into(), ..run_at_approval() };
    let mut rejected = staged(ended);
    rejected.binding("west").snapshot = Some(2);
    let why = "was rejected by ann".to_owned();
    let strategy = (STAGED_UPDATE_STRATEGY.to_owned(), "three-stages".to_owned());
    rejected.record.annotations.extend([strategy]);
    rejected.record.held =
        Some(HeldSnapshot { index: 3, hash: Digest::new("abc123"), why, since: at(30), returns: false, inputs: None });
    insta::assert_snapshot!(shown(&source(), &mut [done, rejected]), @r#"
    source https://git.example/platform/fleet.git (main)
      accepted 1a2b3c4

    ✓ ClusterResourcePlacement web  snapshot 3 (1a2b3c4), 4 of 4 clusters up to date
    ├─ run web-3 done 20s ago, 3 stages
    ├─ ✓ east   snapshot 3  available for 50s
    ├─ ✓ north  snapshot 3  available for 50s
    ├─ ✓ south  snapshot 3  available for 50s
    └─ ✓ west   snapshot 3  available for 50s

    ✗ ClusterResourcePlacement web  snapshot 3 (1a2b3c4), 3 of 4 clusters up to date: cannot continue
    ├─ ✗ snapshot 3 is held, for 30s: it was rejected by ann; gitfleet retry web
    ├─ ✗ run web-3  ended 30s ago: rejected by ann: too slow
    ├─ ✓ east   snapshot 3  available for 50s
    ├─ ✓ north  snapshot 3  available for 50s
    ├─ ✓ south  snapshot 3  available for 50s
    └─ · west   snapshot 2  holds snapshot 2; snapshot 3 is held: it was rejected by ann
    "#);
}

#[test]
fn runs_that_do_not_go() {
    let pending = |refused, message: &str| RunRecord {
        phase: RunPhase::Pending,
        refused,
        message: message.into(),
        frozen: None,
        stages: vec![],
        deletion: None,
        ..run()
    };
    let mut cases = [
        staged(pending(false, "the policy is not settled")),
        staged(pending(true, "strategy three-stages is missing")),
        staged(run()),
        staged(RunRecord { phase: RunPhase::Stopped, ..run_in_production() }),
    ];
    insta::assert_snapshot!(shown(&source(), &mut cases), @r#"
    source https://git.example/platform/fleet.git (main)
      accepted 1a2b3c4

    ↻ ClusterResourcePlacement web  snapshot 3 (1a2b3c4), 4 of 4 clusters up to date: in progress
    ├─ · run web-3  to snapshot 3 by three-stages  the policy is not settled
    ├─ ✓ east   snapshot 3  available for 50s
    ├─ ✓ north  snapshot 3  available for 50s
    ├─ ✓ south  snapshot 3  available for 50s
    └─ ✓ west   snapshot 3  available for 50s

    ✗ ClusterResourcePlacement web  snapshot 3 (1a2b3c4), 4 of 4 clusters up to date: cannot continue
    ├─ ✗ run web-3  to snapshot 3 by three-stages  cannot begin: strategy three-stages is missing
    ├─ ✓ east   snapshot 3  available for 50s
    ├─ ✓ north  snapshot 3  available for 50s
    ├─ ✓ south  snapshot 3  available for 50s
    └─ ✓ west   snapshot 3  available for 50s

    ! ClusterResourcePlacement web  snapshot 3 (1a2b3c4), 4 of 4 clusters up to date: waits for a person
    └─ ! run web-3  to snapshot 3 by three-stages  prepared; starts when its `state` says Run
       ├─ · stage staging  1 cluster, next
       ├─ · stage canary  2 clusters
       └─ · stage production  1 cluster

    ! ClusterResourcePlacement web  snapshot 3 (1a2b3c4), 4 of 4 clusters up to date: waits for a person
    └─ ! run web-3  to snapshot 3 by three-stages  stopped; continues when its `state` says Run
       ├─ ✓ stage staging  1 of 1 cluster done, ended 41s ago
       ├─ ✓ stage canary  2 of 2 clusters done, ended 20s ago
       └─ ↻ stage production  0 of 1 cluster done
          └─ ✓ west  snapshot 3  available for 50s
    "#);
}

#[test]
fn a_payload_that_cannot_be_read() {
    let mut case = Case::healthy(&["east"]);
    case.record.unreadable.insert(3);
    assert!(shown(&source(), &mut [case]).contains("the payload of snapshot 3 cannot be read from git; clusters keep"));
}
