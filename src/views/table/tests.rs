use serde_json::json;

use super::*;
use crate::fixtures::{Case, CaseStatus as _, at, cluster, run, run_at_approval, run_in_production};
use crate::objects::{
    binding_object, member_cluster_object, placement_object, policy_snapshot_object, resource_snapshot_objects,
    work_object,
};
use crate::runs::{approval_request_objects, deletion_gate_object, run_object};
use model::runs::RunPhase;

fn shown(kind: TableKind, objects: &[Value], wide: bool) -> String {
    let table = table(kind, Columns::KubeFleet, objects, wide, at(7200));
    let rows = std::iter::once(&table.headers).chain(&table.rows);
    rows.map(|row| row.join(" | ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn ages() {
    let rows = [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (659, "10m"),
        (10_799, "179m"),
        (11_520, "3h12m"),
        (28_800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (180_000, "2d2h"),
        (691_200, "8d"),
        (63_072_000, "2y"),
        (63_158_400, "2y1d"),
        (252_288_000, "8y"),
    ];
    for (seconds, expected) in rows {
        assert_eq!(age(at(0), at(seconds)), expected, "{seconds}");
    }
}

#[test]
fn placements() {
    let case = Case::healthy(&["east"]);
    let mut scoped = placement_object(&case.view());
    insta::assert_snapshot!(shown(TableKind::Placements, &[scoped.clone()], true), @r#"
        NAME | GEN | TYPE | SCHEDULED | SCHEDULED-GEN | WORK-SYNCHRONIZED | WORK-SYNCHRONIZED-GEN | AVAILABLE | AVAILABLE-GEN | AGE
        web | 2 | PickAll | True | 2 | True | 2 | True | 2 | 120m
        "#);
    scoped["metadata"]["namespace"] = json!("app");
    scoped["metadata"]["name"] = json!("pending");
    scoped["status"]["conditions"] = json!([]);
    insta::assert_snapshot!(shown(TableKind::Placements, &[placement_object(&case.view()), scoped], false), @r#"
        NAMESPACE | NAME | GEN | SCHEDULED | SCHEDULED-GEN | AVAILABLE | AVAILABLE-GEN | AGE
         | web | 2 | True | 2 | True | 2 | 120m
        app | pending | 2 |  |  |  |  | 120m
        "#);
}

#[test]
fn the_other_kinds() {
    let case = Case::healthy(&["east"]);
    let mut snapshots = resource_snapshot_objects(case.snapshot.as_ref().expect("a snapshot"), true);
    insta::assert_snapshot!(shown(TableKind::Snapshots, &snapshots, false), @r#"
        NAME | GEN | AGE
        web-3-snapshot | 1 | 120m
        "#);
    snapshots.push(policy_snapshot_object(case.policy.as_ref().expect("a policy"), true));
    insta::assert_snapshot!(shown(TableKind::Snapshots, &snapshots, false), @r#"
        NAME | GEN | AGE
        clusterresourcesnapshot.placement.kubernetes-fleet.io/web-3-snapshot | 1 | 120m
        clusterschedulingpolicysnapshot.placement.kubernetes-fleet.io/web-0 | 1 | 120m
        "#);
    let binding = &case.bindings[0];
    insta::assert_snapshot!(shown(TableKind::Bindings, &[binding_object(binding, case.works.get("east").map(AsRef::as_ref))], true), @r#"
        NAME | WORKSYNCHRONIZED | RESOURCESAPPLIED | RESOURCEAVAILABLE | AGE
        web-east-0a1b2c3d | True | True | True | 120m
        "#);
    insta::assert_snapshot!(shown(TableKind::Works, &[work_object(binding, &case.works["east"], at(0))], true), @r#"
        NAMESPACE | NAME | APPLIED | AVAILABLE | DIFF-REPORTED | AGE
        fleet-member-east | web-work | True | True |  | 120m
        "#);
    let mut known = cluster("east", true);
    known.properties.insert("kubernetes-fleet.io/node-count".into(), "3".into());
    known.properties.insert("resources.kubernetes-fleet.io/allocatable-cpu".into(), "11500m".into());
    let clusters = [member_cluster_object(&known, at(7200)), member_cluster_object(&cluster("west", false), at(7200))];
    insta::assert_snapshot!(shown(TableKind::Clusters, &clusters, true), @r#"
        NAME | JOINED | AGE | MEMBER-AGENT-LAST-SEEN | NODE-COUNT | AVAILABLE-CPU | AVAILABLE-MEMORY | ALLOCATABLE-CPU | ALLOCATABLE-MEMORY
        east | True | 120m | 0s | 3 |  |  | 11500m | 
        west | True | 120m | 120m |  |  |  |  |
        "#);
}

#[test]
fn runs_and_approvals() {
    let mut pending = run();
    (pending.name, pending.phase, pending.frozen) = ("web-4".into(), RunPhase::Pending, None);
    pending.wanted_snapshot = None;
    let runs = [run_object(&run_in_production(), at(60)), run_object(&pending, at(60))];
    insta::assert_snapshot!(shown(TableKind::Runs, &runs, false), @r#"
        NAME | PLACEMENT | RESOURCE-SNAPSHOT-INDEX | POLICY-SNAPSHOT-INDEX | INITIALIZED | SUCCEEDED | AGE
        web-3 | web | 3 | 0 | True |  | 120m
        web-4 | web |  |  | Unknown |  | 120m
        "#);
    insta::assert_snapshot!(shown(TableKind::Runs, &runs, true), @r#"
        NAME | PLACEMENT | RESOURCE-SNAPSHOT-INDEX | POLICY-SNAPSHOT-INDEX | INITIALIZED | PROGRESSING | SUCCEEDED | AGE | STRATEGY
        web-3 | web | 3 | 0 | True | True |  | 120m | three-stages
        web-4 | web |  |  | Unknown |  |  | 120m | three-stages
        "#);
    let mut case = Case::healthy(&["east"]);
    case.gate(&["east"]);
    let mut approvals = approval_request_objects(&run_in_production());
    let mut waiting = run_at_approval();
    waiting.name = "web-4".into();
    approvals.extend(approval_request_objects(&waiting));
    approvals.extend(deletion_gate_object(&case.record));
    insta::assert_snapshot!(shown(TableKind::Approvals, &approvals, false), @r#"
        NAME | UPDATE-RUN | STAGE | APPROVED | APPROVALACCEPTED | AGE
        web-3-after-canary | web-3 | canary | True | True | 119m
        web-4-after-canary | web-4 | canary |  |  | 119m
        web-deletion |  | deletion |  |  | 120m
        "#);
}

#[test]
fn names() {
    let case = Case::healthy(&["east"]);
    let rows = [
        (placement_object(&case.view()), "clusterresourceplacement.placement.kubernetes-fleet.io/web"),
        (member_cluster_object(&cluster("east", true), at(0)), "membercluster.cluster.kubernetes-fleet.io/east"),
        (json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}), "namespace/a"),
    ];
    for (object, expected) in rows {
        assert_eq!(name_line(&object), expected);
    }
}
