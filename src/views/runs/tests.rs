//! Conditions of every phase, and whole documents.

use std::collections::BTreeMap;

use super::*;
use crate::fixtures::{approval, at, run, run_at_approval, run_in_production, stage};
use decide::status::staged_run::{ClosedGate, active_run};
use model::id::PlacementKey;
use model::overrides::{OverrideKey, OverrideRef, PickedOverrides};

fn facts(conditions: &Value) -> String {
    let text = |c: &Value, field: &str| c[field].as_str().unwrap_or_default().to_owned();
    let fact = |c: &Value| format!("{} {} {}", text(c, "type"), text(c, "status"), text(c, "reason"));
    conditions.as_array().into_iter().flatten().map(fact).collect::<Vec<_>>().join(", ")
}

#[test]
fn conditions_of_every_phase_of_a_run() {
    use RunPhase as P;
    const READY: &str = "Initialized True UpdateRunInitializedSuccessfully";
    let rows = [
        (P::Pending, "Initialized Unknown UpdateRunNotInitializedYet".to_owned()),
        (P::Initialized, READY.to_owned()),
        (P::Updating, format!("{READY}, Progressing True UpdateRunProgressing")),
        (P::Waiting, format!("{READY}, Progressing False UpdateRunWaiting")),
        (P::Halted, format!("{READY}, Progressing False UpdateRunHalted")),
        (P::Stopping, format!("{READY}, Progressing Unknown UpdateRunStopping")),
        (P::Stopped, format!("{READY}, Progressing False UpdateRunStopped")),
        (P::Succeeded, format!("{READY}, Progressing False UpdateRunSucceeded, Succeeded True UpdateRunSucceeded")),
        (P::Failed, format!("{READY}, Progressing False UpdateRunFailed, Succeeded False UpdateRunFailed")),
        (P::Superseded, format!("{READY}, Progressing False UpdateRunFailed, Succeeded False UpdateRunFailed")),
        (P::RolledBack, format!("{READY}, Progressing False UpdateRunFailed, Succeeded False UpdateRunFailed")),
        (P::Rejected, format!("{READY}, Progressing False UpdateRunFailed, Succeeded False UpdateRunFailed")),
    ];
    for (phase, expected) in rows {
        let mut record = run();
        record.phase = phase;
        if phase == P::Pending {
            record.frozen = None;
        }
        let object = run_object(&record, at(60));
        assert_eq!(facts(&object["status"]["conditions"]), expected, "{phase:?}");
        let conditions = object["status"]["conditions"].as_array().expect("conditions");
        let complete =
            |c: &Value| c["observedGeneration"] == 4 && !c["message"].as_str().unwrap_or_default().is_empty();
        assert!(conditions.iter().all(complete), "{phase:?}: {conditions:?}");
    }
    let mut refused = run();
    (refused.phase, refused.frozen, refused.refused) = (P::Pending, None, true);
    refused.message = "placement web is not External".into();
    let conditions = &run_object(&refused, at(60))["status"]["conditions"];
    assert_eq!(facts(conditions), "Initialized False UpdateRunInitializedFailed");
    assert_eq!(conditions[0]["message"], "placement web is not External");
}

#[test]
fn conditions_of_every_phase_of_a_stage() {
    use StagePhase as S;
    let rows = [
        (S::Pending, RunPhase::Updating, ""),
        (S::WaitingBefore, RunPhase::Waiting, "Progressing False StageUpdatingWaiting"),
        (
            S::WaitingBefore,
            RunPhase::Rejected,
            "Progressing False StageUpdatingFailed, Succeeded False StageUpdatingFailed",
        ),
        (S::Updating, RunPhase::Updating, "Progressing True StageUpdatingStarted"),
        (S::Updating, RunPhase::Stopping, "Progressing Unknown StageUpdatingStopping"),
        (S::Updating, RunPhase::Stopped, "Progressing False StageUpdatingStopped"),
        (S::Updating, RunPhase::Halted, "Progressing False StageUpdatingWaiting"),
        (S::WaitingAfter, RunPhase::Waiting, "Progressing False StageUpdatingWaiting"),
        (S::WaitingAfter, RunPhase::Stopped, "Progressing False StageUpdatingStopped"),
        (
            S::Succeeded,
            RunPhase::Stopped,
            "Progressing False StageUpdatingSucceeded, Succeeded True StageUpdatingSucceeded",
        ),
        (
            S::Skipped,
            RunPhase::Updating,
            "Progressing False StageUpdatingSkippedNoClusters, Succeeded True StageUpdatingSkippedNoClusters",
        ),
        (S::Failed, RunPhase::Failed, "Progressing False StageUpdatingFailed, Succeeded False StageUpdatingFailed"),
    ];
    for (phase, of_run, expected) in rows {
        let mut record = run();
        record.phase = of_run;
        record.stages[0].phase = phase;
        let object = run_object(&record, at(60));
        assert_eq!(facts(&object["status"]["stagesStatus"][0]["conditions"]), expected, "{phase:?} {of_run:?}");
    }
    let mut record = run();
    record.deletion = Some(StageRecord { phase: S::Skipped, ..stage(DELETION_STAGE, &[], &[]) });
    let deletion = &run_object(&record, at(60))["status"]["deletionStageStatus"];
    let expected = "Progressing False StageUpdatingSucceeded, Succeeded True StageUpdatingSucceeded";
    assert_eq!(facts(&deletion["conditions"]), expected, "the deletion stage has no reason of its own for none");
}

#[test]
fn conditions_of_every_phase_of_a_cluster() {
    use ClusterPhase as C;
    let rows = [
        (C::Pending, ""),
        (C::Deferred, "Started False ClusterUpdatingDeferred"),
        (C::Updating, "Started True ClusterUpdatingStarted"),
        (C::Succeeded, "Started True ClusterUpdatingStarted, Succeeded True ClusterUpdatingSucceeded"),
        (C::Failed, "Started True ClusterUpdatingStarted, Succeeded False ClusterUpdatingFailed"),
        (C::Skipped, "Started False ClusterUpdatingSkipped"),
    ];
    for (phase, expected) in rows {
        let mut record = run();
        let cluster = &mut record.stages[0].clusters[0];
        (cluster.phase, cluster.message) = (phase, "as it says".into());
        let conditions = &run_object(&record, at(60))["status"]["stagesStatus"][0]["clusters"][0]["conditions"];
        assert_eq!(facts(conditions), expected, "{phase:?}");
        if let Some(last) = conditions.as_array().and_then(|all| all.last()) {
            assert_eq!(last["message"], "as it says", "{phase:?}");
        }
    }
}

#[test]
fn a_cluster_on_its_way_for_long_makes_the_run_stuck() {
    for (now, stopping, expected) in [
        (at(341), false, "Progressing True UpdateRunProgressing"),
        (at(342), false, "Progressing False UpdateRunStuck"),
        (at(342), true, "Progressing False UpdateRunStuck"),
    ] {
        let mut record = run_in_production();
        if stopping {
            record.phase = RunPhase::Stopping;
        }
        let object = run_object(&record, now);
        let conditions = facts(&object["status"]["conditions"]);
        assert_eq!(conditions, format!("Initialized True UpdateRunInitializedSuccessfully, {expected}"), "{now}");
        if expected.ends_with("Stuck") {
            let stuck = &object["status"]["conditions"][1];
            assert_eq!(stuck["lastTransitionTime"], at(341).to_string());
            assert_eq!(stuck["message"], "stage production: on their way for more than 5 minutes: west");
        }
    }
}

#[test]
fn durations_as_go_prints_them() {
    for (millis, expected) in [
        (0, "0s"),
        (1500, "1.5s"),
        (59_000, "59s"),
        (60_000, "1m0s"),
        (90_000, "1m30s"),
        (3_600_000, "1h0m0s"),
        (5_400_250, "1h30m0.25s"),
        (360_000_000, "100h0m0s"),
    ] {
        assert_eq!(go_duration(std::time::Duration::from_millis(millis)), expected);
    }
}

#[test]
fn gates_that_are_closed() {
    let gates = |run: &RunRecord| {
        let gate = |g: &ClosedGate| (g.stage.name.clone(), g.before, g.is_approval(), g.since(), g.opens_at());
        closed_gates(run).iter().map(gate).collect::<Vec<_>>()
    };
    let waiting = run_at_approval();
    assert_eq!(gates(&waiting), [("canary".to_owned(), false, true, at(30), None)]);
    let mut timed = run_at_approval();
    timed.stages[0].phase = StagePhase::WaitingAfter;
    timed.stages[0].after[0].done_at = None;
    assert_eq!(gates(&timed), [("staging".to_owned(), false, false, at(12), Some(at(19 + 3600)))]);
    for phase in [RunPhase::Superseded, RunPhase::Rejected] {
        assert_eq!(gates(&RunRecord { phase, ..run_at_approval() }), [], "{phase:?}");
    }
    assert_eq!(gates(&run_in_production()), []);
}

#[test]
fn the_run_that_moves_is_the_one_that_has_begun() {
    let named = |name: &str, sequence, phase| RunRecord { name: name.into(), sequence, phase, ..run() };
    let table = [
        (vec![], None),
        (vec![named("a", 1, RunPhase::Succeeded)], None),
        (vec![named("a", 1, RunPhase::Pending), named("b", 2, RunPhase::Waiting)], Some("b")),
        (vec![named("a", 2, RunPhase::Pending), named("b", 1, RunPhase::Pending)], Some("b")),
    ];
    for (rows, expected) in table {
        assert_eq!(active_run(&rows.into_iter().collect()).map(|run| run.name.as_str()), expected);
    }
}

#[test]
fn a_whole_run() {
    let mut record = run_in_production();
    let reference = |namespace: Option<&str>, name: &str| OverrideRef {
        key: OverrideKey { namespace: namespace.map(str::to_owned), name: name.into() },
        index: 2,
    };
    record.stages[2].clusters[0].overrides = PickedOverrides {
        cluster: vec![reference(None, "all")],
        namespaced: vec![reference(Some("app"), "replicas")],
        labels: BTreeMap::new(),
        variant: None,
    };
    insta::assert_json_snapshot!(run_object(&record, at(60)));
}

#[test]
fn whole_approval_requests() {
    insta::assert_json_snapshot!(approval_request_objects(&run_in_production()));
    let conditions = |run: &RunRecord| facts(&approval_request_objects(run)[0]["status"]["conditions"]);
    let mut waiting = run_at_approval();
    assert_eq!(conditions(&waiting), "");
    waiting.stages[1].after[0].approvals = vec![approval("ann")];
    assert_eq!(conditions(&waiting), "Approved Unknown MoreApprovalsNeeded");
    let mut rejected = run_at_approval();
    rejected.phase = RunPhase::Rejected;
    rejected.stages[1].phase = StagePhase::Failed;
    assert_eq!(conditions(&rejected), "Approved False Rejected");
    rejected.stages[1].after[0].approvals = vec![approval("ann")];
    assert_eq!(conditions(&rejected), "Approved False Rejected", "a word that was given before opens nothing");
    for phase in [RunPhase::Superseded, RunPhase::RolledBack, RunPhase::Failed] {
        let over = RunRecord { phase, ..run_at_approval() };
        assert_eq!(conditions(&over), "Approved False UpdateRunEnded", "{phase:?}");
        assert!(conditions(&RunRecord { phase, ..run_in_production() }).starts_with("Approved True"), "{phase:?}");
    }
    rejected.stages[1].before = std::mem::take(&mut rejected.stages[1].after);
    rejected.stages[1].phase = StagePhase::WaitingBefore;
    assert_eq!(conditions(&rejected), "Approved False Rejected", "before the stage");
    let mut before = run_at_approval();
    before.stages[2].before = std::mem::take(&mut before.stages[1].after);
    before.placement = PlacementKey::namespaced("app", "web");
    let request = &approval_request_objects(&before)[0];
    assert_eq!(
        [&request["kind"], &request["metadata"]["namespace"], &request["metadata"]["name"]],
        ["ApprovalRequest", "app", "web-3-before-production"]
    );
    assert_eq!(request["metadata"]["labels"]["kubernetes-fleet.io/taskType"], "beforeStage");
    assert_eq!(approval_request_objects(&run()), Vec::<Value>::new(), "nobody is asked yet");
}

#[test]
fn reasons_that_a_condition_cannot_carry_stay_in_the_message() {
    for (reason, expected) in
        [(None, "Approved"), (Some("lgtm"), "lgtm"), (Some("looks good"), "Approved"), (Some("a:"), "Approved")]
    {
        let mut record = run_in_production();
        record.stages[1].after[0].approvals[0].reason = reason.map(str::to_owned);
        let request = &approval_request_objects(&record)[0]["status"]["conditions"][0];
        assert_eq!(request["reason"], expected, "{reason:?}");
        assert!(request["message"].as_str().expect("words").contains(reason.unwrap_or("approved by ann")), "{request}");
    }
}
