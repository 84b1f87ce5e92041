//! The progress of a placement towards a snapshot, reduced to what a forge shows.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::id::{ClusterName, CommitId, Digest, PlacementKey};

/// The progress of a placement towards one snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// The placement.
    pub placement: PlacementKey,
    /// The snapshot's index; absent if the placement is removed and only deletions are left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u64>,
    /// The snapshot's commit; absent without a snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitId>,
    /// The run towards it, by its name in commands; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Its state.
    pub state: ProgressState,
    /// The reason, as text for users; may contain foreign text, so escape it before printing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Clusters with the snapshot.
    pub done: usize,
    /// Clusters in all.
    pub total: usize,
    /// The stages, in order; empty without a run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageProgress>,
    /// Without stages: clusters that failed, that move or that do not answer; the worst first, a limited number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterProgress>,
    /// Deletions that wait for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletions: Option<GateProgress>,
}

/// A state of progress.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum ProgressState {
    /// Its turn has not come.
    Queued,
    /// Clusters move.
    Moving,
    /// It waits for a person.
    WaitingForPerson,
    /// It waits for time, or for clusters that do not answer.
    Waiting,
    /// A person paused it, or stopped it.
    Paused,
    /// It has reached its goal.
    Done,
    /// It has no clusters, or was skipped.
    Skipped,
    /// Too many clusters failed, or it cannot continue; it needs a person or a new commit.
    Failed,
    /// It cannot start, and no cluster is the cause: a mistake in the placement, an unreadable payload.
    Error,
    /// A person rejected it.
    Rejected,
    /// A newer commit superseded it.
    Superseded {
        /// The newer commit.
        by: CommitId,
    },
    /// It was rolled back.
    RolledBack {
        /// The target commit.
        to: CommitId,
    },
}

impl ProgressState {
    /// Tells whether neither time nor a person can change the state.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Done | Self::Skipped | Self::Rejected | Self::Superseded { .. } | Self::RolledBack { .. })
    }

    /// Tells whether somebody must act for it to continue.
    pub fn needs_person(&self) -> bool {
        matches!(self, Self::WaitingForPerson | Self::Failed | Self::Error)
    }
}

/// One stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageProgress {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: ProgressState,
    /// The reason, as text for users; escape it before printing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Clusters that are done.
    pub done: usize,
    /// Clusters in all.
    pub total: usize,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Its gate, while one waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateProgress>,
    /// Who approved, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved_by: Vec<String>,
    /// Clusters that failed, that move or that do not answer; the worst first, a limited number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterProgress>,
}

/// A gate that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GateProgress {
    /// Its name in commands: that of its stage, or `deletion`.
    pub stage: String,
    /// The digest that approvals name.
    pub digest: Digest,
    /// Since when it waits.
    pub since: Timestamp,
    /// Approvals so far.
    pub given: u32,
    /// Approvals in all.
    pub required: u32,
    /// Who may approve, by the strategy's annotation or the placement's file; absent: everybody whom the configuration allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvers: Option<String>,
    /// The owners of the placement's file, now and before the change: they are looked up beside the approvers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<String>,
    /// For deletions: the guard's reason, and the objects by cluster; a limited number of lines, escape them before printing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub what: Vec<String>,
}

/// One cluster with a line of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProgress {
    /// Its name.
    pub name: ClusterName,
    /// Its state.
    pub state: ProgressState,
    /// What blocks it, in the cluster's words; escape it before printing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}
