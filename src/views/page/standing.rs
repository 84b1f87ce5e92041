//! The state of a placement or a cluster in one word.

use super::badge::Tone;
use decide::status::rollout::{PersonWait, RolloutState};
use model::records::{ClusterRecord, MemberKind};

/// The state of a placement, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PlacementStanding {
    /// It will not reach its goal by itself.
    Failed,
    /// A person must act.
    Person,
    /// Only clusters that do not answer are missing.
    Offline,
    /// A person paused it.
    Paused,
    /// Clusters move.
    Moving,
    /// It waits for time to pass.
    Waiting,
    /// It has reached its goal.
    Done,
}

impl PlacementStanding {
    /// All of them.
    pub(super) const ALL: [Self; 7] =
        [Self::Failed, Self::Person, Self::Offline, Self::Paused, Self::Moving, Self::Waiting, Self::Done];

    /// Returns the word for the state of a rollout.
    pub(super) fn of(state: &RolloutState) -> Self {
        match state {
            RolloutState::AllAtTarget => Self::Done,
            RolloutState::Progressing => Self::Moving,
            RolloutState::WaitingForTime(_) => Self::Waiting,
            RolloutState::Unreachable(_) => Self::Offline,
            RolloutState::WaitingForPerson(PersonWait::Paused(_)) => Self::Paused,
            RolloutState::WaitingForPerson(_) => Self::Person,
            RolloutState::Failed(_) => Self::Failed,
        }
    }

    /// Returns its word in addresses.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Person => "person",
            Self::Offline => "offline",
            Self::Paused => "paused",
            Self::Moving => "moving",
            Self::Waiting => "waiting",
            Self::Done => "done",
        }
    }

    /// Returns its words for people.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Person => "waiting for a person",
            Self::Offline => "waiting for clusters",
            Self::Paused => "paused",
            Self::Moving => "on the way",
            Self::Waiting => "waiting for time",
            Self::Done => "up to date",
        }
    }

    /// Returns how it looks.
    pub(super) fn tone(self) -> Tone {
        match self {
            Self::Failed => Tone::Bad,
            Self::Person => Tone::Person,
            Self::Offline | Self::Paused | Self::Waiting => Tone::Waiting,
            Self::Moving => Tone::Moving,
            Self::Done => Tone::Ok,
        }
    }

    /// Tells whether somebody must see it.
    pub(super) fn is_trouble(self) -> bool {
        matches!(self, Self::Failed | Self::Person | Self::Offline)
    }
}

/// The state of a cluster, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClusterStanding {
    /// No entry of the configuration names it.
    NoAccess,
    /// It does not answer.
    Offline,
    /// A person suspended it.
    Suspended,
    /// It answers.
    Online,
    /// It left the fleet.
    Left,
}

impl ClusterStanding {
    /// All of them.
    pub(super) const ALL: [Self; 5] = [Self::NoAccess, Self::Offline, Self::Suspended, Self::Online, Self::Left];

    /// Returns the state of a cluster.
    pub(super) fn of(cluster: &ClusterRecord) -> Self {
        match cluster {
            cluster if cluster.left => Self::Left,
            cluster if cluster.is_suspended() => Self::Suspended,
            cluster if cluster.online => Self::Online,
            cluster if cluster.kind == MemberKind::Unreachable => Self::NoAccess,
            _ => Self::Offline,
        }
    }

    /// Returns its word in addresses.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::NoAccess => "no-access",
            Self::Offline => "offline",
            Self::Suspended => "suspended",
            Self::Online => "online",
            Self::Left => "left",
        }
    }

    /// Returns its words for people.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::NoAccess => "no access",
            Self::Offline => "offline",
            Self::Suspended => "suspended",
            Self::Online => "online",
            Self::Left => "left",
        }
    }

    /// Returns how it looks.
    pub(super) fn tone(self) -> Tone {
        match self {
            Self::NoAccess | Self::Offline => Tone::Bad,
            Self::Suspended => Tone::Waiting,
            Self::Online => Tone::Ok,
            Self::Left => Tone::Quiet,
        }
    }

    /// Tells whether somebody must see it.
    pub(super) fn is_trouble(self) -> bool {
        matches!(self, Self::NoAccess | Self::Offline)
    }
}
