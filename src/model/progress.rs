//! How far a placement is on its way to a snapshot, reduced to what people are told on a forge.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::id::{ClusterName, CommitId, Digest, PlacementKey};

/// A placement's way to one snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// The placement.
    pub placement: PlacementKey,
    /// The snapshot's index; absent where the placement is removed and only deletions are left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u64>,
    /// The commit the snapshot was taken at; absent with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitId>,
    /// The run that goes there, as commands name it; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// How it stands.
    pub state: ProgressState,
    /// Why, for people; as clusters and people put it, so never safe to print as it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Clusters that are there.
    pub done: usize,
    /// Clusters in all.
    pub total: usize,
    /// The stages, in order; none where there is no run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageProgress>,
    /// Without stages: clusters that failed, are on their way or do not answer; the worst first, a limited number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterProgress>,
    /// Deletions that wait for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletions: Option<GateProgress>,
}

/// How something stands on its way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum ProgressState {
    /// Its turn has not come.
    Queued,
    /// Clusters move.
    Moving,
    /// A person is waited for.
    WaitingForPerson,
    /// Time, or clusters that do not answer, are waited for.
    Waiting,
    /// A person paused it, or stopped it.
    Paused,
    /// Everything is where it should be.
    Done,
    /// It has no clusters, or was skipped.
    Skipped,
    /// Too many clusters failed, or it cannot go on; a person or a new commit is needed.
    Failed,
    /// It cannot be carried out for a reason that is no cluster's: a mistake in the placement, an unreadable payload.
    Error,
    /// A person said no.
    Rejected,
    /// A newer commit has taken its place.
    Superseded {
        /// The newer commit.
        by: CommitId,
    },
    /// It was taken back.
    RolledBack {
        /// The commit that was returned to.
        to: CommitId,
    },
}

impl ProgressState {
    /// Tells whether nothing more happens of itself or by a person's word.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Done | Self::Skipped | Self::Rejected | Self::Superseded { .. } | Self::RolledBack { .. })
    }

    /// Tells whether somebody must act for it to go on.
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
    /// How it stands.
    pub state: ProgressState,
    /// Why, for people; not safe to print as it is.
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
    /// Clusters that failed, are on their way, or do not answer; the worst first, a limited number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterProgress>,
}

/// A gate that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GateProgress {
    /// What commands name as the stage: its name, or `deletion`.
    pub stage: String,
    /// What an approval is an approval of.
    pub digest: Digest,
    /// Since when it waits.
    pub since: Timestamp,
    /// Approvals so far.
    pub given: u32,
    /// Approvals in all.
    pub required: u32,
    /// Who may approve, as the strategy's annotation says; absent: whoever the configuration lets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvers: Option<String>,
    /// Of deletions: why they are guarded, and what goes from where; a limited number of lines, not safe to print.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub what: Vec<String>,
}

/// One cluster that is worth a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProgress {
    /// Its name.
    pub name: ClusterName,
    /// How it stands.
    pub state: ProgressState,
    /// What blocks it, in its own words; not safe to print as it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}
