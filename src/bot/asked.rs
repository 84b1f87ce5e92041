//! What gitfleet's comments ask people for, and since when: pure.
//!
//! Needs that arise together are asked for in one comment, because each new comment sends a mail. A reaction to it counts for the
//! gates that it showed before the reaction was given.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use model::id::{Digest, PlacementKey};
use model::progress::GateProgress;
use model::runs::DELETION_GATE;

/// The least time between two edits of a comment, unless a person has to act or the rollout ended. Needs that arise within it
/// are asked for together.
pub(crate) const EDIT_PAUSE: SignedDuration = SignedDuration::from_secs(10);
/// How long a comment takes in further gates of its stages while one of its own still waits. Later ones get a comment of their
/// own: an edit sends no mail.
const JOINED_FOR: SignedDuration = SignedDuration::from_hours(1);

/// A gate, and a comment of gitfleet that asks for its approval: a reaction to it, or a review after it, counts for this gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Asked {
    /// The placement.
    pub placement: PlacementKey,
    /// The stage, or `deletion`.
    pub stage: String,
    /// The digest that was approved.
    pub digest: Digest,
    /// Since when the gate waits, by our clock.
    pub since: Timestamp,
    /// The comment.
    pub comment: u64,
    /// SHA-256 of its text as we wrote it.
    pub text: Digest,
    /// Since when it shows this gate, by the forge's clock.
    pub at: Timestamp,
    /// When we last wrote it, by the forge's clock; absent if never since `at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_at: Option<Timestamp>,
    /// Accounts whose reaction was handled, with its time: a repeated reaction counts again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub heard: BTreeMap<u64, Timestamp>,
}

impl Asked {
    /// Tells whether a gate of a placement asks for this digest now.
    pub(crate) fn is_of(&self, placement: &PlacementKey, gate: &GateProgress) -> bool {
        (&self.placement, &self.stage, &self.digest, self.since) == (placement, &gate.stage, &gate.digest, gate.since)
    }

    /// Tells whether one of these gates asks for this digest now.
    pub(crate) fn is_of_one(&self, gates: &[(PlacementKey, GateProgress)]) -> bool {
        gates.iter().any(|(placement, gate)| self.is_of(placement, gate))
    }

    /// Tells whether another names the same gate and the same comment.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.comment, &self.placement, &self.stage, &self.digest, self.since)
            == (other.comment, &other.placement, &other.stage, &other.digest, other.since)
    }

    /// Returns when we last wrote the comment, by the forge's clock.
    pub(crate) fn written_at(&self) -> Timestamp {
        self.edited_at.unwrap_or(self.at)
    }
}

/// A comment that asks people to act.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Notice {
    /// The marker of the comment.
    pub id: String,
    /// When it first asked, by our clock.
    pub began_at: Timestamp,
    /// The marks of everything that it was ever to ask for.
    pub needs: BTreeSet<String>,
    /// The stages of these needs.
    pub stages: BTreeSet<String>,
}

impl Notice {
    /// Tells whether a reaction to the comment approves a gate that it asks for. Deletions must be asked for alone: nobody shall
    /// approve them together with something else.
    pub(crate) fn takes_reaction_for(&self, gate: &GateProgress) -> bool {
        gate.stage != DELETION_GATE || self.needs.len() == 1
    }

    /// Tells whether the comment is to ask for one more need.
    pub(super) fn takes_in(&self, need: &NeedMark, waiting: &[NeedMark], now: Timestamp) -> bool {
        let age = now.duration_since(self.began_at);
        let is_open = waiting.iter().any(|waiting| self.needs.contains(&waiting.mark));
        age < EDIT_PAUSE || (age < JOINED_FOR && self.stages.contains(&need.stage) && is_open)
    }
}

/// A need, as notices remember it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NeedMark {
    /// Its mark: the same as long as the same thing is needed.
    pub mark: String,
    /// The stage that it is about; empty without one.
    pub stage: String,
}
