//! The columns of each kind of table: KubeFleet's, and our own.

use super::{Columns, TableKind};
use crate::table::kinds::Cell;
use model::conditions::ConditionType;

/// A column: header, cell, whether only `-o wide` shows it.
pub(super) type TableColumn = (&'static str, Cell, bool);

const CREATED: Cell = Cell::Age("/metadata/creationTimestamp");
const AGE: TableColumn = ("AGE", CREATED, false);
const NAME: TableColumn = ("NAME", Cell::Name, false);
/// Commands take the bare name.
const BARE_NAME: TableColumn = ("NAME", Cell::BareName, false);

static PLACEMENT_COLUMNS: [TableColumn; 10] = [
    NAME,
    ("GEN", Cell::At("/metadata/generation"), false),
    ("TYPE", Cell::At("/spec/policy/placementType"), true),
    ("SCHEDULED", Cell::Status(ConditionType::Scheduled), false),
    ("SCHEDULED-GEN", Cell::Generation(ConditionType::Scheduled), false),
    ("WORK-SYNCHRONIZED", Cell::Status(ConditionType::WorkSynchronized), true),
    ("WORK-SYNCHRONIZED-GEN", Cell::Generation(ConditionType::WorkSynchronized), true),
    ("AVAILABLE", Cell::Status(ConditionType::Available), false),
    ("AVAILABLE-GEN", Cell::Generation(ConditionType::Available), false),
    AGE,
];

static RUN_COLUMNS: [TableColumn; 10] = [
    BARE_NAME,
    ("PLACEMENT", Cell::At("/spec/placementName"), false),
    ("SNAPSHOT", Cell::At("/run/snapshot"), false),
    ("COMMIT", Cell::Commit("/run/commit"), false),
    ("STAGE", Cell::At("/run/stage"), false),
    ("CLUSTERS", Cell::Share("/run/done", "/run/clusters"), false),
    ("STATE", Cell::At("/run/state"), false),
    AGE,
    ("STRATEGY", Cell::At("/spec/stagedRolloutStrategyName"), true),
    ("WAITS-FOR", Cell::At("/run/waitsFor"), false),
];

/// Returns the columns of a table. Kinds without columns of our own have KubeFleet's.
pub(super) fn columns(kind: TableKind, whose: Columns) -> &'static [TableColumn] {
    match whose {
        Columns::Own => own_columns(kind).unwrap_or_else(|| kubefleet_columns(kind)),
        Columns::KubeFleet => kubefleet_columns(kind),
    }
}

/// Returns our own columns; free text stands last, where it may be folded.
///
/// What stands neither in `metadata`, `spec` nor `status` comes from [`crate::rows`].
pub(super) fn own_columns(kind: TableKind) -> Option<&'static [TableColumn]> {
    Some(match kind {
        TableKind::Placements => &[
            BARE_NAME,
            ("STATE", Cell::State("/rollout/state"), false),
            ("CLUSTERS", Cell::Share("/rollout/upToDate", "/rollout/clusters"), false),
            ("SNAPSHOT", Cell::At("/rollout/snapshot"), false),
            ("COMMIT", Cell::Commit("/rollout/commit"), false),
            AGE,
            ("TYPE", Cell::At("/spec/policy/placementType"), true),
            ("REASON", Cell::At("/rollout/detail"), false),
        ],
        TableKind::Snapshots => &[
            BARE_NAME,
            ("INDEX", Cell::At("/snapshot/index"), false),
            ("COMMIT", Cell::Commit("/snapshot/commit"), false),
            ("OBJECTS", Cell::At("/snapshot/objects"), false),
            ("CLUSTERS", Cell::At("/snapshot/clusters"), false),
            ("STATE", Cell::At("/snapshot/state"), false),
            AGE,
            ("SUBJECT", Cell::At("/snapshot/subject"), false),
        ],
        TableKind::Bindings => &[
            BARE_NAME,
            ("CLUSTER", Cell::At("/spec/targetCluster"), false),
            ("SNAPSHOT", Cell::At("/spec/resourceSnapshotName"), false),
            ("STATE", Cell::At("/spec/state"), false),
            ("APPLIED", Cell::Status(ConditionType::Applied), false),
            ("AVAILABLE", Cell::Status(ConditionType::Available), false),
            AGE,
        ],
        TableKind::Clusters => &[
            BARE_NAME,
            ("STATE", Cell::At("/cluster/state"), false),
            ("SINCE", Cell::Age("/cluster/since"), false),
            ("PLACEMENTS", Cell::At("/cluster/placements"), false),
            ("BEHIND", Cell::At("/cluster/behind"), false),
            ("VERSION", Cell::At("/status/properties/k8s.io~1k8s-version/value"), false),
            ("LABELS", Cell::Labels("/cluster/labels"), false),
            ("REASON", Cell::At("/cluster/message"), true),
        ],
        TableKind::Evictions => &[
            BARE_NAME,
            ("PLACEMENT", Cell::At("/spec/placementName"), false),
            ("CLUSTER", Cell::At("/spec/clusterName"), false),
            ("STATE", Cell::At("/eviction/state"), false),
            AGE,
            ("REASON", Cell::At("/eviction/reason"), false),
        ],
        TableKind::Runs => &RUN_COLUMNS,
        TableKind::Approvals => &[
            BARE_NAME,
            ("STATE", Cell::At("/approval/state"), false),
            ("STAGE", Cell::At("/spec/targetStage"), false),
            ("WHEN", Cell::At("/approval/when"), false),
            ("CLUSTERS", Cell::At("/approval/clusters"), false),
            ("SINCE", CREATED, false),
            ("DIGEST", Cell::At("/approval/digest"), false),
            ("WHO", Cell::At("/approval/who"), false),
        ],
        TableKind::Works | TableKind::OcmPlacements | TableKind::Decisions => return None,
    })
}

/// Source: print columns of KubeFleet's and OCM's CRDs; Works and PlacementDecisions have none there, so theirs belong to
/// gitfleet.
fn kubefleet_columns(kind: TableKind) -> &'static [TableColumn] {
    match kind {
        TableKind::Placements => &PLACEMENT_COLUMNS,
        TableKind::Snapshots => &[NAME, ("GEN", Cell::At("/metadata/generation"), false), AGE],
        TableKind::Bindings => &[
            NAME,
            ("WORKSYNCHRONIZED", Cell::Status(ConditionType::WorkSynchronized), false),
            ("RESOURCESAPPLIED", Cell::Status(ConditionType::Applied), false),
            ("RESOURCEAVAILABLE", Cell::Status(ConditionType::Available), true),
            AGE,
        ],
        TableKind::OcmPlacements => &[
            NAME,
            ("SUCCEEDED", Cell::Status(ConditionType::PlacementSatisfied), false),
            ("REASON", Cell::Reason(ConditionType::PlacementSatisfied), false),
            ("SELECTEDCLUSTERS", Cell::At("/status/numberOfSelectedClusters"), false),
        ],
        TableKind::Decisions => &[NAME, ("CLUSTERS", Cell::Count("/status/decisions"), false), AGE],
        TableKind::Evictions => &[
            NAME,
            ("PLACEMENT", Cell::At("/spec/placementName"), false),
            ("CLUSTER", Cell::At("/spec/clusterName"), false),
            ("VALID", Cell::Status(ConditionType::Valid), false),
            ("EXECUTED", Cell::Status(ConditionType::Executed), false),
        ],
        TableKind::Runs => &[
            NAME,
            ("PLACEMENT", Cell::At("/spec/placementName"), false),
            ("RESOURCE-SNAPSHOT-INDEX", Cell::At("/spec/resourceSnapshotIndex"), false),
            ("POLICY-SNAPSHOT-INDEX", Cell::At("/status/policySnapshotIndexUsed"), false),
            ("INITIALIZED", Cell::Status(ConditionType::Initialized), false),
            ("PROGRESSING", Cell::Status(ConditionType::Progressing), true),
            ("SUCCEEDED", Cell::Status(ConditionType::Succeeded), false),
            AGE,
            ("STRATEGY", Cell::At("/spec/stagedRolloutStrategyName"), true),
        ],
        TableKind::Approvals => &[
            BARE_NAME,
            ("UPDATE-RUN", Cell::At("/spec/parentStageRollout"), false),
            ("STAGE", Cell::At("/spec/targetStage"), false),
            ("APPROVED", Cell::Status(ConditionType::Approved), false),
            ("APPROVALACCEPTED", Cell::Status(ConditionType::ApprovalAccepted), false),
            AGE,
        ],
        TableKind::Works => &[
            NAME,
            ("APPLIED", Cell::Status(ConditionType::Applied), false),
            ("AVAILABLE", Cell::Status(ConditionType::Available), false),
            ("DIFF-REPORTED", Cell::Status(ConditionType::DiffReported), true),
            AGE,
        ],
        TableKind::Clusters => &[
            NAME,
            ("JOINED", Cell::Status(ConditionType::Joined), false),
            AGE,
            ("MEMBER-AGENT-LAST-SEEN", Cell::Age("/status/agentStatus/0/lastReceivedHeartbeat"), false),
            ("NODE-COUNT", Cell::At("/status/properties/kubernetes-fleet.io~1node-count/value"), false),
            ("AVAILABLE-CPU", Cell::At("/status/resourceUsage/available/cpu"), false),
            ("AVAILABLE-MEMORY", Cell::At("/status/resourceUsage/available/memory"), false),
            ("ALLOCATABLE-CPU", Cell::At("/status/resourceUsage/allocatable/cpu"), true),
            ("ALLOCATABLE-MEMORY", Cell::At("/status/resourceUsage/allocatable/memory"), true),
        ],
    }
}
