//! Staged update runs as the store keeps them: what was frozen when a run began, and how far it is.
//!
//! How a run moves from one phase to the next is decided in `rollout`; what KubeFleet's API shows of it is made in `report`.

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

mod shared;

pub use shared::Runs;

/// The name of the stage that removes what is no longer picked.
///
/// Source: KubeFleet.
pub const DELETION_STAGE: &str = "kubernetes-fleet.io/deleteStage";

/// The name by which the deletion gate of a placement is approved, where commands and tables name stages.
pub const DELETION_GATE: &str = "deletion";
/// After which time a cluster that was told to move and is not available is called stuck.
///
/// Source: KubeFleet's update run controller.
pub const STUCK_AFTER: Duration = Duration::from_mins(5);

/// Where a run comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum RunCause {
    /// A document of the source.
    Written {
        /// Where it stands.
        origin: Origin,
    },
    /// A new snapshot of a placement whose annotation names a strategy.
    Snapshot,
    /// Clusters that are not right though a run has finished: joiners, changed overrides, clusters to be cleaned up.
    FollowUp {
        /// The run it follows.
        of: String,
    },
    /// A return to an earlier snapshot.
    Rollback {
        /// The run that is taken back.
        of: String,
        /// Who wanted it; absent where the placement's annotation did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RunPhase {
    /// Not prepared: the policy is not settled, another run is under way, or something about it is wrong.
    Pending,
    /// Prepared, and `state: Initialize` was written out.
    Initialized,
    /// A stage moves its clusters, or the deletion stage removes some.
    Updating,
    /// A gate is closed.
    Waiting,
    /// More clusters of a stage failed than may.
    Halted,
    /// Stopped, while clusters are still on their way.
    Stopping,
    /// Stopped, and nothing is on its way.
    Stopped,
    /// All stages are done.
    Succeeded,
    /// It cannot go on: its placement or what it was frozen from is gone.
    Failed,
    /// A newer snapshot has a run of its own.
    Superseded,
    /// A rollback took its clusters over.
    RolledBack,
    /// A person said no.
    Rejected,
}

impl RunPhase {
    /// Tells whether the run has ended for good.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Superseded | Self::RolledBack | Self::Rejected)
    }
}

/// How far a stage is.
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
    /// It has no clusters: done at once, without its tasks.
    Skipped,
    /// The run ended in it.
    Failed,
}

impl StagePhase {
    /// Tells whether the next stage may begin.
    pub fn is_done(self) -> bool {
        matches!(self, Self::Succeeded | Self::Skipped)
    }

    /// Tells whether its clusters may be moved, or were.
    pub fn is_reached(self) -> bool {
        !matches!(self, Self::Pending | Self::WaitingBefore)
    }
}

/// How far a cluster is in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ClusterPhase {
    /// Its turn has not come.
    Pending,
    /// Its turn came while it did not answer: moved when it returns.
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

/// A run and how far it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// Its name; it is in the placement's namespace, if that has one.
    pub name: String,
    /// The placement that moves.
    pub placement: PlacementKey,
    /// Where it comes from.
    pub cause: RunCause,
    /// The strategy it moves by.
    pub strategy: String,
    /// The snapshot it was told to move to; absent takes the newest when it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted_snapshot: Option<u64>,
    /// Who may approve, as the strategy's annotation said at the last accepted commit; absent narrows nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvers: Option<String>,
    /// Who might approve in the run before, where that is another list: both count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvers_before: Option<String>,
    /// Whether its document lets it go; absent runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<RunState>,
    /// Grows with every change of its document.
    pub generation: i64,
    /// When it was first seen.
    pub created_at: Timestamp,
    /// Grows by one with every run of the placement: of two runs the one with the larger number is the newer.
    pub sequence: u64,
    /// How far it is.
    pub phase: RunPhase,
    /// Since when.
    pub since: Timestamp,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// `Pending` only: it was refused, and is tried again when what it reads changes. `message` says why.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
    /// What was frozen when it began; absent while `Pending`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<Frozen>,
    /// Its stages, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageRecord>,
    /// The stage after the last: clusters that are no longer picked. Without clusters it does nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<StageRecord>,
}

impl RunRecord {
    /// Returns the snapshot it moves to, as far as that is known.
    pub fn snapshot(&self) -> Option<u64> {
        self.frozen.as_ref().map(|frozen| frozen.snapshot).or(self.wanted_snapshot)
    }
}

/// What a run moves to, as it was when the run began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Frozen {
    /// Index of the resource snapshot.
    pub snapshot: u64,
    /// Its hash.
    pub hash: Digest,
    /// Index of the policy snapshot.
    pub policy: u64,
    /// Clusters the policy was for; -1 where every fitting cluster is picked.
    pub policy_clusters: i32,
    /// How objects are applied.
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
    /// Clusters that may be on their way at once.
    pub max_concurrency: usize,
    /// How far it is.
    pub phase: StagePhase,
    /// Since when. Of `WaitingAfter` it is the instant from which a `TimedWait` counts.
    pub since: Timestamp,
    /// When its first cluster was told to move or found right, or it was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it was done, or the run ended in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// SHA-256 over placement, snapshot, rendered works by cluster, the list of stages and this stage's clusters: what an
    /// approval of this stage is an approval of.
    pub digest: Digest,
    /// What must be done before its first cluster moves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<TaskRecord>,
    /// What must be done before the next stage begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<TaskRecord>,
    /// Its clusters, in the order they move.
    pub clusters: Vec<RunCluster>,
}

/// One task before or after a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRecord {
    /// What it waits for.
    #[serde(rename = "type")]
    pub type_: StageTaskType,
    /// Who wants it.
    #[serde(default, skip_serializing_if = "WantedBy::is_strategy")]
    pub wanted_by: WantedBy,
    /// How long a `TimedWait` waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Duration>,
    /// Since when the run waits here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<Timestamp>,
    /// When it was done: the time had passed, or enough people had approved. Never taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_at: Option<Timestamp>,
    /// Who approved so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<Approval>,
}

/// Who wants a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WantedBy {
    /// The strategy.
    #[default]
    Strategy,
    /// The configuration, whatever the strategy says.
    Configuration,
    /// The run before: a change that takes an approval away is asked about once more.
    RunBefore,
}

impl WantedBy {
    /// Tells whether the strategy itself wants it.
    pub fn is_strategy(&self) -> bool {
        *self == Self::Strategy
    }
}

/// One person's yes to exactly one digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Who said it, and where.
    #[serde(flatten)]
    pub by: Person,
    /// When.
    pub at: Timestamp,
    /// What it is for.
    pub digest: Digest,
    /// Why, as the person put it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// More, as the person put it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Approval {
    /// Tells whether the same person speaks: of two accounts on the forge the id counts, else the name.
    pub fn is_by(&self, person: &Person) -> bool {
        match (&self.by.credentials, &person.credentials) {
            (Some(one), Some(other)) => one.id == other.id,
            // A token and an account of one name may be one person, whose two words must not open a gate for two.
            _ => self.by.name.eq_ignore_ascii_case(&person.name),
        }
    }
}

/// Which side of a stage a gate is on.
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

/// What a gate asks for, as the configuration says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApprovalRules {
    /// How many people must approve, at least 1.
    pub required: u32,
    /// How long a person's word counts.
    pub expire_after: Duration,
    /// What somebody who approves by comment may do with the repository at least.
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

/// Where a person said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Channel {
    /// `gitfleet approve` and its like on the machine of the store, while no daemon ran.
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
    /// How far it is.
    pub phase: ClusterPhase,
    /// Since when.
    pub since: Timestamp,
    /// When it was told to move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// The overrides its objects are made with, picked when the run began.
    #[serde(default, skip_serializing_if = "PickedOverrides::is_empty")]
    pub overrides: PickedOverrides,
    /// Why it failed, waits or was skipped, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}
