//! Kinds of notifications, and the forms in which receivers get them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a notification is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
pub enum NotificationKind {
    /// A gate waits for an approval: before or after a stage, or before deletions.
    GateWaiting,
    /// A rollout halted: no cluster is started any more until somebody acts, or a cluster recovers.
    RolloutHalted,
    /// The newest commit has errors: the last good one stays accepted.
    CommitRefused,
    /// The newest commit waits until a person accepts it: history was rewritten, or another branch is checked out.
    CommitHeld,
    /// A rollout returns to an earlier snapshot.
    RolledBack,
    /// A snapshot is available on every picked cluster of a placement, and its run, if it has one, has succeeded.
    RolloutDone,
}

impl NotificationKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::GateWaiting,
        Self::RolloutHalted,
        Self::CommitRefused,
        Self::CommitHeld,
        Self::RolledBack,
        Self::RolloutDone,
    ];

    /// Returns the `type` of its CloudEvents. The number at its end changes if a receiver of today would misread the data.
    pub fn event_type(self) -> &'static str {
        match self {
            Self::GateWaiting => "io.gitfleet.gate.waiting.v1",
            Self::RolloutHalted => "io.gitfleet.rollout.halted.v1",
            Self::CommitRefused => "io.gitfleet.commit.refused.v1",
            Self::CommitHeld => "io.gitfleet.commit.held.v1",
            Self::RolledBack => "io.gitfleet.rollout.rolled-back.v1",
            Self::RolloutDone => "io.gitfleet.rollout.done.v1",
        }
    }
}

/// The form of notifications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NotificationTemplate {
    /// A CloudEvent 1.0 as JSON, for programs.
    #[default]
    CloudEvents,
    /// A message for an incoming webhook of Slack, or a service that takes the same.
    Slack,
    /// A card for a workflow of Microsoft Teams.
    Teams,
    /// Text alone.
    Plain,
}

/// How far a receiver was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotifiedUpTo {
    /// The number of the last journal entry that was sent to it, or need not be.
    pub entry: u64,
}
