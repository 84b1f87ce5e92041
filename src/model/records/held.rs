//! What is held, and what a rollback returns to.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::api::placement::{ApplyStrategy, PlacementPolicy};
use crate::id::{ClusterName, Digest};
use crate::overrides::{OverrideRef, PickedOverrides};

/// A snapshot that was rolled back or rejected.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldSnapshot {
    /// Its index.
    pub index: u64,
    /// Its hash: another snapshot of the same content is held as well.
    pub hash: Digest,
    /// The reason, as text for users.
    pub why: String,
    /// Since when.
    pub since: Timestamp,
    /// It was rolled back: clusters return to what they had before. One that was rejected stays where it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub returns: bool,
    /// Where content was not rolled back: what was, and the hold ends when some of it changes.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "heldInputs")]
    pub inputs: Option<HeldInputs>,
}

/// What a rollback took back beside content, as the commit has it. Digests of what is written, so they are the same in every store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldInputs {
    /// Overrides by `[NAMESPACE/]NAME`; without a digest where the commit has none of that name.
    pub overrides: BTreeMap<String, Option<Digest>>,
    /// The apply strategy, if it was rolled back.
    pub apply_strategy: Option<Digest>,
    /// The policy, if it was rolled back.
    pub policy: Option<Digest>,
    /// Clusters whose labels, or what is rendered for them, were rolled back: the digest of what overrides and renderings read of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clusters: BTreeMap<ClusterName, Digest>,
}

impl HeldInputs {
    /// Tells whether nothing is noted yet: a command on a store does not know what a commit has.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// What clusters had when everything had succeeded everywhere: a rollback returns to all of it together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SucceededState {
    /// The resource snapshot.
    pub snapshot: u64,
    /// The apply strategy.
    #[serde(default)]
    pub apply_strategy: ApplyStrategy,
    /// The policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PlacementPolicy>,
    /// The overrides of clusters that had any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<SharedOverrides>,
}

/// Overrides of several clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedOverrides {
    /// The overrides.
    pub picked: PickedOverrides,
    /// The clusters.
    pub clusters: BTreeSet<ClusterName>,
}

impl SucceededState {
    /// Returns the overrides that a cluster had; `None` if it had none, or was not there.
    pub fn overrides_of(&self, cluster: &ClusterName) -> Option<&PickedOverrides> {
        let mut shared = self.overrides.iter();
        shared.find(|shared| shared.clusters.contains(cluster)).map(|shared| &shared.picked)
    }

    /// Returns the snapshots of overrides that clusters had.
    pub fn override_refs(&self) -> impl Iterator<Item = &OverrideRef> {
        self.overrides.iter().flat_map(|shared| shared.picked.ids())
    }
}
