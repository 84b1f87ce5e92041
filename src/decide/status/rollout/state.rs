//! The states of a rollout: the one vocabulary that all views translate or use.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The state of the rollout of a placement, or of the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RolloutState {
    /// Every picked cluster holds the newest snapshot, available or compared, and nothing is left to remove.
    AllAtTarget,
    /// The rollout waits only for time: until this instant, if known.
    WaitingForTime(Option<Timestamp>),
    /// Only unreachable clusters are missing; the text names them.
    Unreachable(String),
    /// A person must act.
    WaitingForPerson(PersonWait),
    /// It will not reach its goal by itself.
    Failed(Failure),
    /// Something moves or is about to.
    Progressing,
}

/// What a person must do. The texts contain the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PersonWait {
    /// Approve deletions.
    Deletions(String),
    /// Resume a paused placement.
    Paused(String),
    /// Approve at the gate of a stage.
    Approval(String),
    /// Start a prepared run, or continue a stopped one.
    Run(String),
    /// Start a run: only runs move an External placement.
    NoRun,
    /// Adopt the store.
    Store(String),
}

/// Why it will not reach its goal by itself. The texts have details.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Failure {
    /// The payload of this snapshot cannot be read from git.
    Payload(u64),
    /// The placement has an error.
    Invalid(String),
    /// More clusters failed than may.
    Halted(String),
    /// Clusters failed, and no other cluster moves.
    Clusters(String),
    /// The newest snapshot was rolled back or rejected.
    Held(String),
    /// The run cannot begin.
    RunRefused(String),
    /// The run is halted.
    RunHalted(String),
    /// Fewer clusters fit than the policy asks for.
    Unfulfilled,
    /// The source cannot be read or followed.
    Source(String),
}

/// [`RolloutState`] without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StateKind {
    /// [`RolloutState::AllAtTarget`].
    AtTarget,
    /// [`RolloutState::Progressing`].
    Progressing,
    /// [`RolloutState::WaitingForTime`].
    WaitingForTime,
    /// [`RolloutState::WaitingForPerson`].
    WaitingForPerson,
    /// [`RolloutState::Unreachable`].
    Unreachable,
    /// [`RolloutState::Failed`].
    Failed,
}

impl fmt::Display for StateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtTarget => "up to date",
            Self::Progressing => "in progress",
            Self::WaitingForTime => "waiting for time",
            Self::WaitingForPerson => "waiting for a person",
            Self::Unreachable => "waiting for clusters",
            Self::Failed => "failed",
        })
    }
}

impl RolloutState {
    /// Returns which state it is.
    pub fn kind(&self) -> StateKind {
        match self {
            Self::AllAtTarget => StateKind::AtTarget,
            Self::Progressing => StateKind::Progressing,
            Self::WaitingForTime(_) => StateKind::WaitingForTime,
            Self::WaitingForPerson(_) => StateKind::WaitingForPerson,
            Self::Unreachable(_) => StateKind::Unreachable,
            Self::Failed(_) => StateKind::Failed,
        }
    }

    /// Returns what it waits for or why it failed, without the state itself; empty where there is nothing more to say.
    pub fn detail(&self) -> String {
        match self {
            Self::AllAtTarget | Self::Progressing | Self::WaitingForTime(None) => String::new(),
            Self::WaitingForTime(Some(until)) => format!("until {until:.0}"),
            Self::WaitingForPerson(wait) => wait.to_string(),
            Self::Failed(why) => why.to_string(),
            Self::Unreachable(why) => why.clone(),
        }
    }

    /// Returns the more urgent of two states. A moving one may still change the other, so it goes first.
    #[must_use]
    pub fn or_worse(self, other: Self) -> Self {
        if other.rank() > self.rank() { other } else { self }
    }

    /// Returns how urgent it is.
    pub fn rank(&self) -> u8 {
        match self {
            Self::AllAtTarget => 0,
            Self::WaitingForTime(_) => 1,
            Self::Unreachable(_) => 2,
            Self::WaitingForPerson(_) => 3,
            Self::Failed(_) => 4,
            Self::Progressing => 5,
        }
    }
}

impl fmt::Display for RolloutState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllAtTarget => f.write_str("all at the newest snapshot"),
            Self::WaitingForPerson(wait) => write!(f, "waits for a person: {wait}"),
            Self::WaitingForTime(_) => f.write_str("waits for time to pass"),
            Self::Progressing => f.write_str("in progress"),
            Self::Failed(why) => write!(f, "cannot continue: {why}"),
            Self::Unreachable(why) => write!(f, "waits for clusters: {why}"),
        }
    }
}

impl fmt::Display for PersonWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deletions(text) | Self::Paused(text) | Self::Approval(text) | Self::Run(text) | Self::Store(text) => {
                f.write_str(text)
            }
            Self::NoRun => f.write_str("clusters of an External placement wait for a staged update run"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Payload(snapshot) => write!(
                f,
                "the payload of snapshot {snapshot} cannot be read from git; clusters keep what they have, and it is tried again"
            ),
            Self::Halted(why) => write!(f, "the rollout is halted: {why}"),
            Self::Unfulfilled => f.write_str("fewer clusters fit than the policy asks for"),
            Self::Invalid(text)
            | Self::Clusters(text)
            | Self::Held(text)
            | Self::RunRefused(text)
            | Self::RunHalted(text)
            | Self::Source(text) => f.write_str(text),
        }
    }
}
