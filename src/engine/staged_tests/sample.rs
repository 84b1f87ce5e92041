//! The mission's own example of a staged run, unedited, on virtual time.

use serde_json::{Value, json};

use super::*;
use views::runs::{approval_request_objects, run_object};
use views::table::{Columns, TableKind, table};

/// The example as it stands.
const EXAMPLE: &str = include_str!("../../../tests/fixtures/examples/staged-update.yaml");

const RUN: &str = "example-staged-update-run";

fn labelled(name: &str, environment: &str, more: &str) -> String {
    testkit::trees::member(name, &format!("labels: {{environment: {environment}{more}}}"))
}

/// Two clusters of each environment; those of canary are ordered by the integer under the key `name`.
fn example() -> Case {
    let clusters = [
        labelled("east", "staging", ""),
        labelled("west", "staging", ""),
        labelled("north", "canary", ", name: '10'"),
        labelled("south", "canary", ", name: '9'"),
        labelled("asia", "production", ", order: '2'"),
        labelled("europe", "production", ", order: '1'"),
    ];
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: test-namespace}\n";
    Case::on_files(
        "crp-staged-update-sample",
        BTreeMap::from([
            ("clusters.yaml", clusters.concat()),
            ("namespace.yaml", namespace.to_owned()),
            ("staged-update.yaml", EXAMPLE.to_owned()),
        ]),
    )
}

fn condition<'a>(object: &'a Value, type_: &str) -> (&'a str, &'a str) {
    let conditions = object["conditions"].as_array().expect("there are conditions");
    let found = conditions.iter().find(|condition| condition["type"] == type_);
    let text = |key: &str| found.and_then(|condition| condition[key].as_str()).unwrap_or("-");
    (text("status"), text("reason"))
}

#[test]
fn the_staged_update_example_with_its_status_document() {
    let mut case = example();
    assert_eq!(case.settle(), "asia- east0 europe- north- south- west0");
    let object = run_object(case.run(RUN), case.now);
    let status = &object["status"];
    assert_eq!(condition(status, "Initialized"), ("True", "UpdateRunInitializedSuccessfully"));
    assert_eq!(condition(status, "Progressing"), ("False", "UpdateRunWaiting"), "staging waits for its hour");
    assert_eq!((&status["policySnapshotIndexUsed"], &status["resourceSnapshotIndexUsed"]), (&json!("0"), &json!("0")));
    assert_eq!(status["policyObservedClusterCount"], 6);
    let copy = &status["stagedUpdateStrategySnapshot"]["stages"];
    assert_eq!(copy[0]["afterStageTasks"], json!([{"type": "TimedWait", "waitTime": "1h0m0s"}]));
    assert_eq!(copy[1]["sortingLabelKey"], "name");
    assert_eq!(status["deletionStageStatus"]["stageName"], "kubernetes-fleet.io/deleteStage");
    let staging = &status["stagesStatus"][0];
    for cluster in staging["clusters"].as_array().expect("a list") {
        assert_eq!(condition(cluster, "Started"), ("True", "ClusterUpdatingStarted"));
        assert_eq!(condition(cluster, "Succeeded"), ("True", "ClusterUpdatingSucceeded"));
    }
    assert_eq!(case.wake_at, Some(case.now + SignedDuration::from_hours(1)), "time alone, and no polling");

    assert_eq!(case.later(3599), "asia- east0 europe- north- south- west0");
    assert_eq!(case.later(1), "asia- east0 europe- north0 south0 west0");
    let canary: Vec<&str> = case.run(RUN).stages[1].clusters.iter().map(|cluster| cluster.name.as_str()).collect();
    assert_eq!(canary, ["south", "north"], "9 comes before 10");
    let requests = approval_request_objects(case.run(RUN));
    assert_eq!(
        requests.iter().map(|r| r["metadata"]["name"].as_str()).collect::<Vec<_>>(),
        [Some("example-staged-update-run-after-canary")]
    );
    let now = case.now;
    let columns = |kind, objects: &[Value]| table(kind, Columns::KubeFleet, objects, false, now).headers.join(" ");
    assert_eq!(columns(TableKind::Approvals, &requests), "NAME UPDATE-RUN STAGE APPROVED APPROVALACCEPTED AGE");
    let runs = [run_object(case.run(RUN), case.now)];
    assert_eq!(
        columns(TableKind::Runs, &runs),
        "NAME PLACEMENT RESOURCE-SNAPSHOT-INDEX POLICY-SNAPSHOT-INDEX INITIALIZED SUCCEEDED AGE"
    );

    case.say(Verb::Approve, "example-staged-update-run-canary").expect("the shorter name is taken too");
    assert_eq!(case.settle(), "asia0 east0 europe0 north0 south0 west0");
    let object = run_object(case.run(RUN), case.now);
    let status = &object["status"];
    assert_eq!(condition(status, "Succeeded"), ("True", "UpdateRunSucceeded"));
    let production = &status["stagesStatus"][2]["clusters"];
    assert_eq!((&production[0]["clusterName"], &production[1]["clusterName"]), (&json!("europe"), &json!("asia")));
    assert_eq!(condition(&status["deletionStageStatus"], "Succeeded"), ("True", "StageUpdatingSucceeded"));
    for stage in status["stagesStatus"].as_array().expect("a list") {
        assert_eq!(condition(stage, "Succeeded"), ("True", "StageUpdatingSucceeded"));
    }
}
