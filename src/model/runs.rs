//! The records of staged update runs: the frozen inputs of a run, and its progress.
//!
//! `rollout` decides how a run moves between phases; `views` renders it for KubeFleet's API.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::commands::Person;
use super::forge::Permission;
use super::id::{ClusterName, Digest, PlacementKey};
use super::manifest::Origin;
use super::overrides::PickedOverrides;
use crate::api::placement::ApplyStrategy;
use crate::api::staged::{RunState, StageTaskType, StagedUpdateStrategySpec};

mod checks;
mod shared;

pub use checks::{ChecksRecord, MetricAnswer, MetricQuery, MetricReply, MetricServers, MetricState, number_text};
pub use shared::Runs;

/// The name of the stage that removes objects from clusters that are no longer picked.
///
/// Source: KubeFleet.
pub const DELETION_STAGE: &str = "kubernetes-fleet.io/deleteStage";

/// The name of a placement's deletion gate in commands and tables, in place of a stage.
pub const DELETION_GATE: &str = "deletion";
/// After this time a cluster whose update began and that is not available is called stuck.
///
/// Source: KubeFleet's update run controller.
pub const STUCK_AFTER: Duration = Duration::from_mins(5);

/// The cause of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum RunCause {
    /// A document of the source.
    Written {
        /// Its position.
        origin: Origin,
    },
    /// A new snapshot of a placement whose annotation names a strategy.
    Snapshot,
    /// Clusters in a wrong state after a finished run: joined clusters, changed overrides, clusters to be cleaned up.
    FollowUp {
        /// The run it follows.
        of: String,
    },
    /// A rollback to an earlier snapshot.
    Rollback {
        /// The run that is rolled back.
        of: String,
        /// Who requested it; absent if the placement's annotation did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
}

impl RunCause {
    /// Tells whether its run rolls out what a commit brought; the others repair or return.
    pub fn brings_a_snapshot(&self) -> bool {
        matches!(self, Self::Written { .. } | Self::Snapshot)
    }
}

/// The phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RunPhase {
    /// Not prepared: the policy has not settled, another run is active, or the run is invalid.
    Pending,
    /// Prepared, and its document says `state: Initialize`.
    Initialized,
    /// A stage moves its clusters, or the deletion stage removes some.
    Updating,
    /// A gate is closed.
    Waiting,
    /// More clusters of a stage failed than allowed.
    Halted,
    /// Stopped, while clusters still move.
    Stopping,
    /// Stopped, and nothing moves.
    Stopped,
    /// All stages are done.
    Succeeded,
    /// It cannot continue: its placement or its snapshot is gone.
    Failed,
    /// A newer snapshot has a run of its own.
    Superseded,
    /// A rollback moves its clusters.
    RolledBack,
    /// A person rejected it.
    Rejected,
}

impl RunPhase {
    /// Tells whether the run has ended for good.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Superseded | Self::RolledBack | Self::Rejected)
    }
}

/// The phase of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StagePhase {
    /// Its turn has not come.
    Pending,
    /// The tasks before it are not done.
    WaitingBefore,
    /// Its clusters move.
    Updating,
    /// Its clusters are done, the tasks after it are not.
    WaitingAfter,
    /// Done.
    Succeeded,
    /// It has no clusters: done immediately, without its tasks.
    Skipped,
    /// The run ended in it.
    Failed,
}

impl StagePhase {
    /// Tells whether the next stage may begin.
    pub fn is_done(self) -> bool {
        matches!(self, Self::Succeeded | Self::Skipped)
    }

    /// Tells whether its clusters may move, or have moved.
    pub fn is_reached(self) -> bool {
        !matches!(self, Self::Pending | Self::WaitingBefore)
    }
}

/// The phase of a cluster in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ClusterPhase {
    /// Its turn has not come.
    Pending,
    /// It did not answer at its turn: it moves when it returns.
    Deferred,
    /// Told to move.
    Updating,
    /// Available at the run's snapshot, or gone in the deletion stage.
    Succeeded,
    /// It failed, or was not available in time.
    Failed,
    /// It left the fleet, or the placement: skipped.
    Skipped,
}

/// A run and its progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// Its name; it is in the placement's namespace, if that has one.
    pub name: String,
    /// The placement.
    pub placement: PlacementKey,
    /// Its cause.
    pub cause: RunCause,
    /// Its strategy.
    pub strategy: String,
    /// The requested snapshot; absent takes the newest when the run starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted_snapshot: Option<u64>,
    /// Who may approve, by the strategy's annotation at the last accepted commit; absent means no restriction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvers: Option<String>,
    /// The approvers of the run before, which count, too. Only a store of an earlier version has them; see `PlacementRecord::replaced`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvers_before: Option<String>,
    /// The state in its document; absent means `Run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<RunState>,
    /// Grows with every change of its document.
    pub generation: i64,
    /// When it was first seen.
    pub created_at: Timestamp,
    /// Grows by one with every run of the placement: the run with the larger number is newer.
    pub sequence: u64,
    /// Its phase.
    pub phase: RunPhase,
    /// Since when.
    pub since: Timestamp,
    /// The reason, as text for users.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// `Pending` only: it was refused, and is retried when its inputs change. `message` says why.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
    /// `Pending` only: the placement picks no cluster, so there is nothing to do; it begins with the first that is picked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_clusters: bool,
    /// The frozen inputs; absent while `Pending`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<Frozen>,
    /// Its stages, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageRecord>,
    /// The stage after the last: clusters that are no longer picked. Without clusters it is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<StageRecord>,
}

impl RunRecord {
    /// Returns its snapshot, if known.
    pub fn snapshot(&self) -> Option<u64> {
        self.frozen.as_ref().map(|frozen| frozen.snapshot).or(self.wanted_snapshot)
    }

    /// Returns the stage that waits until its checks hold, with the checks. At most one stage waits at a time.
    pub fn waiting_checks(&self) -> Option<(&StageRecord, &ChecksRecord)> {
        if self.phase.is_final() {
            return None;
        }
        let stage = self.stages.iter().find(|stage| stage.phase == StagePhase::WaitingAfter)?;
        Some((stage, stage.checks.as_ref()?))
    }
}

/// The frozen inputs of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Frozen {
    /// Index of the resource snapshot.
    pub snapshot: u64,
    /// Its hash.
    pub hash: Digest,
    /// Index of the policy snapshot.
    pub policy: u64,
    /// The number of clusters that the policy wanted; -1 if it picks every fitting cluster.
    pub policy_clusters: i32,
    /// The apply strategy.
    pub apply_strategy: ApplyStrategy,
    /// The strategy.
    pub strategy: StagedUpdateStrategySpec,
    /// When.
    pub at: Timestamp,
}

/// One stage of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageRecord {
    /// Its name; [`DELETION_STAGE`] for the last.
    pub name: String,
    /// Clusters that may move at the same time.
    pub max_concurrency: usize,
    /// Its phase.
    pub phase: StagePhase,
    /// Since when it is in this phase. In `WaitingAfter` a `TimedWait` counts from this instant.
    pub since: Timestamp,
    /// When the update of its first cluster began or it was already right, or the stage was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it succeeded, or the run ended in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// SHA-256 over placement, snapshot, rendered works by cluster, the list of stages with their checks, and this stage's
    /// clusters: approvals of this stage name it.
    pub digest: Digest,
    /// The tasks before its first cluster moves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<TaskRecord>,
    /// The tasks before the next stage starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<TaskRecord>,
    /// What must hold, beside these tasks, before the next stage starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<ChecksRecord>,
    /// Its clusters, in update order.
    pub clusters: Vec<RunCluster>,
    /// What becomes of its tasks where it has had no clusters from the start; absent where they protect nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub while_empty: Option<WhileEmpty>,
}

impl StageRecord {
    /// Tells whether its tasks are asked as far as the run decides: it has clusters, or protects later ones without them.
    pub fn asks(&self) -> bool {
        !self.clusters.is_empty() || self.while_empty == Some(WhileEmpty::Asked)
    }

    /// Returns its clusters that have not left.
    pub fn remaining(&self) -> impl Iterator<Item = &RunCluster> {
        self.clusters.iter().filter(|cluster| cluster.phase != ClusterPhase::Skipped)
    }
}

/// What becomes of the tasks of a stage without clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WhileEmpty {
    /// Its clusters have what the run brings already, and so does the stage of every cluster that the run updates: skipped.
    Passed,
    /// They protect clusters that get something nobody approved: asked as if the stage had clusters.
    Asked,
}

/// One task before or after a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRecord {
    /// What it waits for.
    #[serde(rename = "type")]
    pub type_: StageTaskType,
    /// Who requires it.
    #[serde(default, skip_serializing_if = "WantedBy::is_strategy")]
    pub wanted_by: WantedBy,
    /// The duration of a `TimedWait`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Duration>,
    /// Since when the run waits here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<Timestamp>,
    /// The request for an approval is too old to be answered; a retry asks again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expired: bool,
    /// When it was done: the time had passed, or it had enough approvals. Never reverted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_at: Option<Timestamp>,
    /// Who approved so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<Approval>,
}

/// Who requires a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WantedBy {
    /// The strategy.
    #[default]
    Strategy,
    /// The configuration, whatever the strategy says.
    Configuration,
    /// The run before: a change that removes an approval must get it once more.
    RunBefore,
}

impl WantedBy {
    /// Tells whether the strategy itself requires it.
    pub fn is_strategy(&self) -> bool {
        *self == Self::Strategy
    }
}

/// One person's approval of exactly one digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Who approved, and through which channel.
    #[serde(flatten)]
    pub by: Person,
    /// When.
    pub at: Timestamp,
    /// The approved digest.
    pub digest: Digest,
    /// The reason code, from the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The message, from the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Approval {
    /// Tells whether the same person approved: two accounts on the forge are compared by id, others by name.
    pub fn is_by(&self, person: &Person) -> bool {
        match (&self.by.credentials, &person.credentials) {
            (Some(one), Some(other)) => one.id == other.id,
            // A token and an account with one name may be one person, and two approvals of one person must not count twice.
            _ => self.by.name.eq_ignore_ascii_case(&person.name),
        }
    }
}

/// The side of a stage that a gate is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// Before its first cluster moves.
    Before,
    /// Before the next stage begins.
    After,
}

/// Returns the name of a gate's approval request.
///
/// Source: KubeFleet.
pub fn request_name(run: &str, stage: &str, gate: Gate) -> String {
    let side = match gate {
        Gate::Before => "before",
        Gate::After => "after",
    };
    format!("{run}-{side}-{stage}")
}

/// The configured rules for approvals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApprovalRules {
    /// How many people must approve, at least 1.
    pub required: u32,
    /// How long an approval is valid.
    pub expire_after: Duration,
    /// The least permission on the repository for approvals by comment.
    pub min_permission: Permission,
    /// Whether somebody who opened or merged a change may approve it.
    pub self_approval: bool,
}

impl Default for ApprovalRules {
    fn default() -> Self {
        Self {
            required: 1,
            expire_after: Duration::from_hours(72),
            min_permission: Permission::Write,
            self_approval: false,
        }
    }
}

/// The channel of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Channel {
    /// `gitfleet approve` and similar commands on the machine of the store, while no daemon runs.
    CommandLine,
    /// The daemon's API.
    Api,
    /// A comment on the forge.
    Comment,
}

/// One cluster of a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunCluster {
    /// The cluster.
    pub name: ClusterName,
    /// Its phase.
    pub phase: ClusterPhase,
    /// Since when it is in this phase.
    pub since: Timestamp,
    /// When its update began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// The overrides of its objects, picked when the run started.
    #[serde(default, skip_serializing_if = "PickedOverrides::is_empty")]
    pub overrides: PickedOverrides,
    /// Why it failed, waits or was skipped, as text for users.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}
