//! Reports of members about their ordered objects.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Inventory, Kept};
use crate::conditions::Reason;
use crate::id::{Digest, ObjectId, ObjectKey};
use crate::shared::{Pool, Pooled, Shared};

/// The result of one manifest on a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManifestStatus {
    /// The object.
    #[serde(flatten)]
    pub id: ObjectId,
    /// Whether it was applied, and why not.
    pub applied: ApplyOutcome,
    /// The error or the differences, as text for users; bounded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Its health, once applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability: Option<Availability>,
    /// `metadata.generation` of the object on the member, where the object is there and has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Digest of the manifest that was last tried, or that `owned` belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Digest>,
    /// Digest of the fields gitfleet owns on the member: it shows drift from before a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owned: Option<Digest>,
    /// The differences of the live object: drift after an apply, or the report of `ReportDiff`. At most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// Since when it differs; absent if it does not. Kept while nobody can tell whether it still does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differs_since: Option<Timestamp>,
    /// When exactly these differences were first observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Timestamp>,
}

/// One differing field.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// JSON pointer.
    pub path: String,
    /// The member's value; absent where the member has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_in_member: Option<String>,
    /// The manifest's value; absent where the manifest has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_in_hub: Option<String>,
}

/// Whether a manifest was applied; the names are KubeFleet's `Applied` and `DiffReported` reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ApplyOutcome {
    /// Not tried yet.
    Pending,
    /// Applied.
    Applied,
    /// The API server refused it.
    ManifestApplyFailed,
    /// The API server does not know its kind.
    DecodingErred,
    /// Another placement or source owns it, or it differs and `IfNoDiff` forbids.
    FailedToTakeOver,
    /// It existed before, and `Never` forbids taking it over.
    NotTakenOver,
    /// It drifted, and `IfNotDrifted` leaves it.
    FoundDrifts,
    /// Somebody changed it, `IfNotDrifted` leaves it, and the differences could not be read.
    FailedToRunDriftDetection,
    /// The member could not be asked for the object.
    FailedToFindObjInMemberCluster,
    /// `ReportDiff`: nothing differs.
    NoDiffFound,
    /// `ReportDiff`: something differs.
    FoundDiff,
    /// `ReportDiff`: it could not be compared.
    FailedToReportDiff,
}

impl ApplyOutcome {
    /// Tells whether the object is tried again after a pause, because the refusal may be over then.
    pub fn is_tried_again(self) -> bool {
        use ApplyOutcome::{DecodingErred, FailedToFindObjInMemberCluster, FailedToReportDiff, ManifestApplyFailed};
        matches!(self, ManifestApplyFailed | DecodingErred | FailedToFindObjInMemberCluster | FailedToReportDiff)
    }

    /// Returns the reason as KubeFleet spells it.
    pub fn reason(self) -> Reason {
        match self {
            Self::Pending => Reason::PreparingToProcess,
            Self::Applied => Reason::Applied,
            Self::ManifestApplyFailed => Reason::ManifestApplyFailed,
            Self::DecodingErred => Reason::DecodingErred,
            Self::FailedToTakeOver => Reason::FailedToTakeOver,
            Self::NotTakenOver => Reason::NotTakenOver,
            Self::FoundDrifts => Reason::FoundDrifts,
            Self::FailedToRunDriftDetection => Reason::FailedToRunDriftDetection,
            Self::FailedToFindObjInMemberCluster => Reason::FailedToFindObjInMemberCluster,
            Self::NoDiffFound => Reason::NoDiffFound,
            Self::FoundDiff => Reason::FoundDiff,
            Self::FailedToReportDiff => Reason::FailedToReportDiff,
        }
    }
}

/// Whether an applied object is available; the names are KubeFleet's `Available` reasons, except `Failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Availability {
    /// Available.
    Available,
    /// It says nothing of its availability that gitfleet can read; counts as available after a while.
    NotTrackable,
    /// Not available yet.
    ManifestNotAvailableYet,
    /// Not available, and it says that it will not become so by itself. KubeFleet has no such reason: it is shown as
    /// `ManifestNotAvailableYet`.
    Failed,
}

impl Availability {
    /// Tells whether the object counts as available: it is, or nothing tells.
    pub fn counts_as_available(self) -> bool {
        matches!(self, Self::Available | Self::NotTrackable)
    }
}

/// What one member holds of one placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkStatus {
    /// The binding generation of this report; reports of older ones do not describe the present target.
    pub generation: i64,
    /// Whether every step of that generation was executed: applies tried, left-overs pruned, inventory recorded.
    pub complete: bool,
    /// A failure of the work as a whole (inventory owned by another source, payload missing), as text for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Each manifest. Members with equal results share them.
    #[serde(default)]
    pub manifests: Shared<[ManifestStatus]>,
    /// When the manifests' availability last changed as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_since: Option<Timestamp>,
    /// Objects on the member that carry this placement's inventory label.
    #[serde(default)]
    pub inventory: Inventory,
    /// Deletions that wait for an approval.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub held_deletions: BTreeSet<ObjectKey>,
    /// Decisions of people in its inventory.
    #[serde(default, skip_serializing_if = "Kept::is_empty")]
    pub kept: Kept,
}

impl Pooled for [ManifestStatus] {
    fn pool() -> &'static Pool<Self> {
        static POOL: Pool<[ManifestStatus]> = Pool::new();
        &POOL
    }
}
