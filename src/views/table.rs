//! Tables with the columns the KubeFleet kinds print, read from the objects of [`super::objects`].
//!
//! Columns are paths into objects, as `additionalPrinterColumns` are, so the same table comes from records and from what
//! the daemon's API answered.

use crate::model::conditions::ConditionType;
use jiff::Timestamp;
use serde_json::Value;

/// What a table lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ClusterResourcePlacement and ResourcePlacement.
    Placements,
    /// Resource and policy snapshots.
    Snapshots,
    /// Bindings.
    Bindings,
    /// Works.
    Works,
    /// Member clusters.
    Clusters,
    /// OCM Placements.
    OcmPlacements,
    /// PlacementDecisions.
    Decisions,
    /// Evictions that were judged.
    Evictions,
    /// Staged update runs.
    Runs,
    /// Approval requests and closed deletion gates.
    Approvals,
}

/// Headers and rows of text, not laid out yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// One for each column.
    pub headers: Vec<String>,
    /// Rows with as many cells.
    pub rows: Vec<Vec<String>>,
}

/// Where a cell comes from.
enum Cell {
    /// A JSON pointer.
    At(&'static str),
    /// A JSON pointer to a time, shown as age.
    Age(&'static str),
    /// The status of the condition of a type; of a placement, the type that has its kind as prefix.
    Status(ConditionType),
    /// The reason of such a condition.
    Reason(ConditionType),
    /// How long the list at a JSON pointer is.
    Count(&'static str),
    /// The observed generation of such a condition.
    Generation(ConditionType),
    /// The name, with the kind in front where a listing mixes kinds.
    Name,
    /// The name alone, as commands take it.
    BareName,
}

/// A column: header, cell, whether only `-o wide` shows it.
type Column = (&'static str, Cell, bool);

const CREATED: Cell = Cell::Age("/metadata/creationTimestamp");
const NAME: Column = ("NAME", Cell::Name, false);

static PLACEMENT_COLUMNS: [Column; 10] = [
    NAME,
    ("GEN", Cell::At("/metadata/generation"), false),
    ("TYPE", Cell::At("/spec/policy/placementType"), true),
    ("SCHEDULED", Cell::Status(ConditionType::Scheduled), false),
    ("SCHEDULED-GEN", Cell::Generation(ConditionType::Scheduled), false),
    ("WORK-SYNCHRONIZED", Cell::Status(ConditionType::WorkSynchronized), true),
    ("WORK-SYNCHRONIZED-GEN", Cell::Generation(ConditionType::WorkSynchronized), true),
    ("AVAILABLE", Cell::Status(ConditionType::Available), false),
    ("AVAILABLE-GEN", Cell::Generation(ConditionType::Available), false),
    ("AGE", CREATED, false),
];

/// Source: print columns of KubeFleet's and OCM's CRDs; Works and PlacementDecisions have none there, so theirs are ours.
fn columns(kind: Kind) -> &'static [Column] {
    match kind {
        Kind::Placements => &PLACEMENT_COLUMNS,
        Kind::Snapshots => &[NAME, ("GEN", Cell::At("/metadata/generation"), false), ("AGE", CREATED, false)],
        Kind::Bindings => &[
            NAME,
            ("WORKSYNCHRONIZED", Cell::Status(ConditionType::WorkSynchronized), false),
            ("RESOURCESAPPLIED", Cell::Status(ConditionType::Applied), false),
            ("RESOURCEAVAILABLE", Cell::Status(ConditionType::Available), true),
            ("AGE", CREATED, false),
        ],
        Kind::OcmPlacements => &[
            NAME,
            ("SUCCEEDED", Cell::Status(ConditionType::PlacementSatisfied), false),
            ("REASON", Cell::Reason(ConditionType::PlacementSatisfied), false),
            ("SELECTEDCLUSTERS", Cell::At("/status/numberOfSelectedClusters"), false),
        ],
        Kind::Decisions => &[NAME, ("CLUSTERS", Cell::Count("/status/decisions"), false), ("AGE", CREATED, false)],
        Kind::Evictions => &[
            NAME,
            ("PLACEMENT", Cell::At("/spec/placementName"), false),
            ("CLUSTER", Cell::At("/spec/clusterName"), false),
            ("VALID", Cell::Status(ConditionType::Valid), false),
            ("EXECUTED", Cell::Status(ConditionType::Executed), false),
        ],
        Kind::Runs => &[
            NAME,
            ("PLACEMENT", Cell::At("/spec/placementName"), false),
            ("RESOURCE-SNAPSHOT-INDEX", Cell::At("/spec/resourceSnapshotIndex"), false),
            ("POLICY-SNAPSHOT-INDEX", Cell::At("/status/policySnapshotIndexUsed"), false),
            ("INITIALIZED", Cell::Status(ConditionType::Initialized), false),
            ("PROGRESSING", Cell::Status(ConditionType::Progressing), true),
            ("SUCCEEDED", Cell::Status(ConditionType::Succeeded), false),
            ("AGE", CREATED, false),
            ("STRATEGY", Cell::At("/spec/stagedRolloutStrategyName"), true),
        ],
        Kind::Approvals => &[
            ("NAME", Cell::BareName, false),
            ("UPDATE-RUN", Cell::At("/spec/parentStageRollout"), false),
            ("STAGE", Cell::At("/spec/targetStage"), false),
            ("APPROVED", Cell::Status(ConditionType::Approved), false),
            ("APPROVALACCEPTED", Cell::Status(ConditionType::ApprovalAccepted), false),
            ("AGE", CREATED, false),
        ],
        Kind::Works => &[
            NAME,
            ("APPLIED", Cell::Status(ConditionType::Applied), false),
            ("AVAILABLE", Cell::Status(ConditionType::Available), false),
            ("DIFF-REPORTED", Cell::Status(ConditionType::DiffReported), true),
            ("AGE", CREATED, false),
        ],
        Kind::Clusters => &[
            NAME,
            ("JOINED", Cell::Status(ConditionType::Joined), false),
            ("AGE", CREATED, false),
            ("MEMBER-AGENT-LAST-SEEN", Cell::Age("/status/agentStatus/0/lastReceivedHeartbeat"), false),
            ("NODE-COUNT", Cell::At("/status/properties/kubernetes-fleet.io~1node-count/value"), false),
            ("AVAILABLE-CPU", Cell::At("/status/resourceUsage/available/cpu"), false),
            ("AVAILABLE-MEMORY", Cell::At("/status/resourceUsage/available/memory"), false),
            ("ALLOCATABLE-CPU", Cell::At("/status/resourceUsage/allocatable/cpu"), true),
            ("ALLOCATABLE-MEMORY", Cell::At("/status/resourceUsage/allocatable/memory"), true),
        ],
    }
}

/// Returns the table of objects, in their order, with a namespace column where one of them has a namespace.
///
/// What an object does not have is an empty cell, as with kubectl.
pub fn table(kind: Kind, objects: &[Value], wide: bool, now: Timestamp) -> Table {
    let namespaced = objects.iter().any(|o| o.pointer("/metadata/namespace").is_some());
    let mixed = objects.iter().any(|o| o.get("kind") != objects[0].get("kind"));
    let columns: Vec<_> = columns(kind).iter().filter(|(_, _, only_wide)| wide || !only_wide).collect();
    let mut table = Table::default();
    table.headers.extend(namespaced.then(|| "NAMESPACE".to_owned()));
    table.headers.extend(columns.iter().map(|(header, _, _)| (*header).to_owned()));
    for object in objects {
        let mut row = Vec::with_capacity(table.headers.len());
        row.extend(namespaced.then(|| text(object.pointer("/metadata/namespace"))));
        row.extend(columns.iter().map(|(_, cell, _)| cell_text(cell, object, mixed, now)));
        table.rows.push(row);
    }
    table
}

/// Returns an object's line of `-o name`: `kind.group/name`, in lower case as kubectl writes it.
pub fn name_line(object: &Value) -> String {
    let api_version = text(object.get("apiVersion"));
    let kind = text(object.get("kind")).to_lowercase();
    let name = text(object.pointer("/metadata/name"));
    match api_version.split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

fn cell_text(cell: &Cell, object: &Value, mixed: bool, now: Timestamp) -> String {
    let condition = |type_: &ConditionType, field: &str| {
        let type_ = match object.get("kind").and_then(Value::as_str) {
            Some("ClusterResourcePlacement") => type_.on_placement(false),
            Some("ResourcePlacement") => type_.on_placement(true),
            _ => type_.clone(),
        };
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        let found =
            conditions.into_iter().flatten().find(|c| c.get("type").and_then(Value::as_str) == Some(type_.as_str()));
        text(found.and_then(|c| c.get(field)))
    };
    match cell {
        Cell::At(pointer) => text(object.pointer(pointer)),
        Cell::Age(pointer) => match object.pointer(pointer).and_then(Value::as_str).and_then(|t| t.parse().ok()) {
            Some(then) => age(then, now),
            None => String::new(),
        },
        Cell::Status(type_) => condition(type_, "status"),
        Cell::Reason(type_) => condition(type_, "reason"),
        Cell::Count(pointer) => object.pointer(pointer).and_then(Value::as_array).map_or(0, Vec::len).to_string(),
        Cell::Generation(type_) => condition(type_, "observedGeneration"),
        Cell::Name if mixed => name_line(object),
        Cell::Name | Cell::BareName => text(object.pointer("/metadata/name")),
    }
}

/// Returns a value as a cell shows it: nothing for what is not there.
pub(super) fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Returns an age as kubectl shows it: two units while the first is small, one later.
///
/// Source: `duration.HumanDuration` of k8s.io/apimachinery.
pub fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs();
    let two = |big: i64, big_unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{big}{big_unit}") } else { format!("{big}{big_unit}{small}{small_unit}") }
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::runs::RunPhase;
    use crate::status::fixtures::{Case, at, cluster, run, run_at_approval, run_in_production};
    use crate::views::objects::{
        binding_object, member_cluster_object, placement_object, policy_snapshot_object, resource_snapshot_objects,
        work_object,
    };
    use crate::views::runs::{approval_request_objects, deletion_gate_object, run_object};

    fn shown(kind: Kind, objects: &[Value], wide: bool) -> String {
        let table = table(kind, objects, wide, at(7200));
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
        insta::assert_snapshot!(shown(Kind::Placements, &[scoped.clone()], true), @r#"
        NAME | GEN | TYPE | SCHEDULED | SCHEDULED-GEN | WORK-SYNCHRONIZED | WORK-SYNCHRONIZED-GEN | AVAILABLE | AVAILABLE-GEN | AGE
        web | 2 | PickAll | True | 2 | True | 2 | True | 2 | 120m
        "#);
        scoped["metadata"]["namespace"] = json!("app");
        scoped["metadata"]["name"] = json!("pending");
        scoped["status"]["conditions"] = json!([]);
        insta::assert_snapshot!(shown(Kind::Placements, &[placement_object(&case.view()), scoped], false), @r#"
        NAMESPACE | NAME | GEN | SCHEDULED | SCHEDULED-GEN | AVAILABLE | AVAILABLE-GEN | AGE
         | web | 2 | True | 2 | True | 2 | 120m
        app | pending | 2 |  |  |  |  | 120m
        "#);
    }

    #[test]
    fn the_other_kinds() {
        let case = Case::healthy(&["east"]);
        let mut snapshots = resource_snapshot_objects(case.snapshot.as_ref().expect("a snapshot"), true);
        insta::assert_snapshot!(shown(Kind::Snapshots, &snapshots, false), @r#"
        NAME | GEN | AGE
        web-3-snapshot | 1 | 120m
        "#);
        snapshots.push(policy_snapshot_object(case.policy.as_ref().expect("a policy"), true));
        insta::assert_snapshot!(shown(Kind::Snapshots, &snapshots, false), @r#"
        NAME | GEN | AGE
        clusterresourcesnapshot.placement.kubernetes-fleet.io/web-3-snapshot | 1 | 120m
        clusterschedulingpolicysnapshot.placement.kubernetes-fleet.io/web-0 | 1 | 120m
        "#);
        let binding = &case.bindings[0];
        insta::assert_snapshot!(shown(Kind::Bindings, &[binding_object(binding, case.works.get("east").map(AsRef::as_ref))], true), @r#"
        NAME | WORKSYNCHRONIZED | RESOURCESAPPLIED | RESOURCEAVAILABLE | AGE
        web-east-0a1b2c3d | True | True | True | 120m
        "#);
        insta::assert_snapshot!(shown(Kind::Works, &[work_object(binding, &case.works["east"], at(0))], true), @r#"
        NAMESPACE | NAME | APPLIED | AVAILABLE | DIFF-REPORTED | AGE
        fleet-member-east | web-work | True | True |  | 120m
        "#);
        let mut known = cluster("east", true);
        known.properties.insert("kubernetes-fleet.io/node-count".into(), "3".into());
        known.properties.insert("resources.kubernetes-fleet.io/allocatable-cpu".into(), "11500m".into());
        let clusters =
            [member_cluster_object(&known, at(7200)), member_cluster_object(&cluster("west", false), at(7200))];
        insta::assert_snapshot!(shown(Kind::Clusters, &clusters, true), @r#"
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
        insta::assert_snapshot!(shown(Kind::Runs, &runs, false), @r#"
        NAME | PLACEMENT | RESOURCE-SNAPSHOT-INDEX | POLICY-SNAPSHOT-INDEX | INITIALIZED | SUCCEEDED | AGE
        web-3 | web | 3 | 0 | True |  | 120m
        web-4 | web |  |  | Unknown |  | 120m
        "#);
        insta::assert_snapshot!(shown(Kind::Runs, &runs, true), @r#"
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
        insta::assert_snapshot!(shown(Kind::Approvals, &approvals, false), @r#"
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
}
