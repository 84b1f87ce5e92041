//! Names, labels and shapes of the shown objects.

use super::*;
use crate::fixtures::{Case, CaseStatus as _, at, cluster, object, snapshot};
use model::api::cluster::{Taint, TaintEffect};
use model::api::placement::{ApplyStrategyType, ComparisonOption};
use model::diff::differences;
use model::overrides::{OverrideKey, OverrideRef};
use model::records::BindingState;

fn pointers<'a>(object: &'a Value, rows: &[(&str, Value)]) -> Vec<(String, &'a Value, Value)> {
    rows.iter().map(|(p, v)| ((*p).to_owned(), object.pointer(p).unwrap_or(&Value::Null), v.clone())).collect()
}

fn check(name: &str, object: &Value, rows: &[(&str, Value)]) {
    for (pointer, found, expected) in pointers(object, rows) {
        assert_eq!(found, &expected, "{name} {pointer}");
    }
}

#[test]
fn names_labels_and_shapes() {
    let case = Case::healthy(&["east"]);
    check(
        "placement",
        &placement_object(&case.view()),
        &[
            ("/kind", json!("ClusterResourcePlacement")),
            ("/apiVersion", json!("placement.kubernetes-fleet.io/v1beta1")),
            ("/metadata/generation", json!(2)),
            ("/spec/policy/placementType", json!("PickAll")),
            ("/status/observedResourceIndex", json!("3")),
            (
                "/status/selectedResources/0",
                json!({"version": "v1", "kind": "ConfigMap", "namespace": "web", "name": "a"}),
            ),
            ("/status/placementStatuses/0/clusterName", json!("east")),
            ("/status/conditions/0/type", json!("ClusterResourcePlacementScheduled")),
        ],
    );
    let mut picked = case.policy.clone().expect("a policy");
    picked.number_of_clusters = Some(2);
    picked.policy = serde_json::from_value(json!({"placementType": "PickN", "numberOfClusters": 2})).expect("a policy");
    let policy = policy_snapshot_object(&picked, true);
    check(
        "policy snapshot",
        &policy,
        &[
            ("/kind", json!("ClusterSchedulingPolicySnapshot")),
            ("/metadata/name", json!("web-0")),
            ("/metadata/labels/kubernetes-fleet.io~1policy-index", json!("0")),
            ("/metadata/labels/kubernetes-fleet.io~1parent-CRP", json!("web")),
            ("/metadata/annotations/kubernetes-fleet.io~1CRP-generation", json!("2")),
            ("/spec/policyHash", json!("ZmYwMA==")),
            ("/spec/policy/placementType", json!("PickN")),
            ("/spec/policy/numberOfClusters", Value::Null),
            ("/metadata/annotations/kubernetes-fleet.io~1number-of-clusters", json!("2")),
            ("/status/observedCRPGeneration", json!(2)),
            ("/status/conditions/0/reason", json!("SchedulingPolicyFulfilled")),
            ("/status/targetClusters/0/clusterScore", json!({"affinityScore": 0, "priorityScore": 0})),
        ],
    );
    let mut bound = Binding::clone(&case.bindings[0]);
    bound.started_at = Some(at(60));
    check(
        "binding",
        &binding_object(&bound, case.works.get("east").map(AsRef::as_ref)),
        &[
            ("/kind", json!("ClusterResourceBinding")),
            ("/metadata/creationTimestamp", json!("2026-03-01T12:00:00Z")),
            ("/spec/resourceSnapshotName", json!("web-3-snapshot")),
            ("/spec/schedulingPolicySnapshotName", json!("web-0")),
            ("/spec/targetCluster", json!("east")),
            ("/spec/state", json!("Bound")),
            ("/status/failedPlacements", Value::Null),
            ("/status/conditions/4/reason", json!("AllWorkAreAvailable")),
        ],
    );
    check(
        "work",
        &work_object(&bound, &case.works["east"], at(0)),
        &[
            ("/metadata/name", json!("web-work")),
            ("/metadata/namespace", json!("fleet-member-east")),
            ("/metadata/labels/kubernetes-fleet.io~1parent-resource-snapshot-index", json!("3")),
            ("/spec/workload/manifests/1/metadata/name", json!("b")),
            ("/status/manifestConditions/1/identifier/ordinal", json!(1)),
            ("/status/manifestConditions/1/conditions/1/reason", json!("Available")),
            ("/status/conditions/1/reason", json!("AllManifestsAvailable")),
        ],
    );
    // As earlier versions kept it.
    bound.created_at = None;
    bound.placement = PlacementKey::namespaced("app", "web");
    bound.state = BindingState::Unscheduled;
    bound.previous_state = Some(BindingState::Bound);
    check(
        "namespaced",
        &binding_object(&bound, None),
        &[
            ("/kind", json!("ResourceBinding")),
            ("/metadata/namespace", json!("app")),
            ("/metadata/creationTimestamp", json!("2026-03-01T12:01:00Z")),
            ("/metadata/annotations/kubernetes-fleet.io~1previous-binding-state", json!("Bound")),
        ],
    );
    assert_eq!(work_name(&bound.placement), "app.web-work");
}

#[test]
fn a_snapshot_in_parts() {
    let mut parted = snapshot(3, &["a", "b", "c"]);
    parted.parts = vec![2, 1];
    parted.resources[2].id =
        ObjectId { group: "placement.kubernetes-fleet.io".into(), kind: "ResourceEnvelope".into(), ..object("c") };
    let objects = resource_snapshot_objects(&parted, true);
    assert_eq!(objects.len(), 2);
    check(
        "master",
        &objects[0],
        &[
            ("/metadata/name", json!("web-3-snapshot")),
            ("/metadata/labels/kubernetes-fleet.io~1is-latest-snapshot", json!("true")),
            ("/metadata/annotations/kubernetes-fleet.io~1resource-hash", json!("abc123")),
            ("/metadata/annotations/kubernetes-fleet.io~1number-of-resource-snapshots", json!("2")),
            ("/metadata/annotations/kubernetes-fleet.io~1number-of-enveloped-object", json!("1")),
            ("/metadata/annotations/gitfleet.io~1commit", json!("1a2b3c4d5e6f")),
            ("/spec/selectedResources/1/metadata/name", json!("b")),
            ("/spec/selectedResources/1/metadata/annotations/gitfleet.io~1source", json!("web/all.yaml:4")),
            ("/spec/selectedResources/2", Value::Null),
        ],
    );
    check(
        "sub",
        &objects[1],
        &[
            ("/metadata/name", json!("web-3-0")),
            ("/metadata/labels/kubernetes-fleet.io~1is-latest-snapshot", Value::Null),
            ("/metadata/annotations/kubernetes-fleet.io~1resource-hash", Value::Null),
            ("/metadata/annotations/kubernetes-fleet.io~1subindex-of-resource-snapshot", json!("0")),
            ("/spec/selectedResources/0/metadata/name", json!("c")),
        ],
    );
    parted.resources.clear();
    parted.parts = vec![];
    assert_eq!(resource_snapshot_objects(&parted, false).len(), 1, "an empty selection has an empty master");
}

#[test]
fn members() {
    let mut member = cluster("east", true);
    let properties = [
        ("kubernetes-fleet.io/node-count", "3"),
        ("resources.kubernetes-fleet.io/total-cpu", "12"),
        ("resources.kubernetes-fleet.io/available-memory", "8Gi"),
    ];
    member.properties = properties.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    check(
        "online",
        &member_cluster_object(&member, at(90)),
        &[
            ("/status/conditions/1/reason", json!("MemberClusterJoined")),
            ("/status/agentStatus/0/conditions/1/status", json!("True")),
            ("/status/agentStatus/0/lastReceivedHeartbeat", json!("2026-03-01T12:01:30Z")),
            ("/status/properties/kubernetes-fleet.io~1node-count/value", json!("3")),
            ("/status/resourceUsage", json!({"available": {"memory": "8Gi"}, "capacity": {"cpu": "12"}})),
        ],
    );
    check(
        "offline",
        &member_cluster_object(&cluster("west", false), at(90)),
        &[
            ("/status/agentStatus/0/conditions/1/message", json!("connection refused")),
            ("/status/agentStatus/0/lastReceivedHeartbeat", json!("2026-03-01T12:00:00Z")),
            ("/status/resourceUsage", Value::Null),
        ],
    );
    member.stated.insert("cost".into(), "1".into());
    member.stated.insert("kubernetes-fleet.io/node-count".into(), "9".into());
    member.properties_unknown = Some("pods may not be read".into());
    member.spec.heartbeat_period_seconds = Some(30);
    member.spec.taints.push(Taint { key: "edge".into(), value: String::new(), effect: TaintEffect::NoSchedule });
    check(
        "with what git says, and without all facts",
        &member_cluster_object(&member, at(90)),
        &[
            ("/metadata/creationTimestamp", json!("2026-03-01T12:00:00Z")),
            ("/spec", json!({"heartbeatPeriodSeconds": 30, "taints": [{"key": "edge", "effect": "NoSchedule"}]})),
            ("/status/properties/cost/value", json!("1")),
            ("/status/properties/kubernetes-fleet.io~1node-count/value", json!("3")),
            ("/status/conditions/2/type", json!("ClusterPropertyCollectionSucceeded")),
            ("/status/conditions/2/status", json!("False")),
            ("/status/conditions/2/message", json!("pods may not be read")),
        ],
    );
    member.left = true;
    check(
        "left",
        &member_cluster_object(&member, at(90)),
        &[
            ("/status/conditions/0/reason", json!("MemberClusterNotReadyToJoin")),
            ("/status/conditions/1/reason", json!("MemberClusterLeft")),
        ],
    );
}

#[test]
fn what_failed_drifted_or_differs_is_listed_with_its_paths_and_without_secrets() {
    let manifest_of = |replicas: &str| json!({"spec": {"replicas": replicas}, "data": {"password": replicas}});
    let found = |secret| differences(&manifest_of("1"), &manifest_of("2"), ComparisonOption::PartialComparison, secret);
    let mut case = Case::healthy(&["east", "north", "west"]);
    let drifted = &mut case.work("east").manifests[0];
    (drifted.differences, drifted.differs_since) = (found(true), Some(at(5)));
    let other = &mut case.work("west").manifests[1];
    (other.applied, other.availability) = (ApplyOutcome::FailedToTakeOver, None);
    (other.differences, other.differs_since) = (found(false), Some(at(6)));
    let reports = case.binding("north");
    reports.apply_strategy.type_ = ApplyStrategyType::ReportDiff;
    reports.overrides.cluster =
        vec![OverrideRef { key: OverrideKey { namespace: None, name: "all".into() }, index: 1 }];
    reports.overrides.namespaced =
        vec![OverrideRef { key: OverrideKey { namespace: Some("web".into()), name: "few".into() }, index: 0 }];
    for manifest in case.work("north").manifests.iter_mut() {
        (manifest.applied, manifest.availability) = (ApplyOutcome::FoundDiff, None);
        (manifest.differences, manifest.differs_since) = (found(true), Some(at(7)));
    }
    case.settle();
    let bindings: Vec<Value> = case
        .bindings
        .iter()
        .map(|binding| binding_object(binding, case.works.get(&binding.cluster).map(AsRef::as_ref)))
        .collect();
    for (place, lists) in [
        ("/status/driftedPlacements", [1, 0, 0]),
        ("/status/diffedPlacements", [0, 2, 1]),
        ("/status/failedPlacements", [0, 0, 1]),
    ] {
        let counts = bindings.iter().map(|b| b.pointer(place).and_then(Value::as_array).map_or(0, Vec::len));
        assert_eq!(counts.collect::<Vec<_>>(), lists, "{place}");
    }
    check(
        "binding",
        &bindings[1],
        &[
            ("/spec/clusterResourceOverrideSnapshots", json!(["all-1"])),
            ("/spec/resourceOverrideSnapshots", json!([{"name": "few-0", "namespace": "web"}])),
        ],
    );
    let mut statuses = placement_object(&case.view())["status"]["placementStatuses"].take();
    for status in statuses.as_array_mut().expect("a list") {
        status["conditions"].take();
    }
    insta::assert_json_snapshot!(statuses);
}
