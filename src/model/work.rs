//! What one member shall hold of one placement, as the daemon hands it to a member's delivery.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::id::{ClusterName, CommitId, Digest, ObjectId, ObjectKey, PlacementKey};
use super::records::Kept;
use crate::api::placement::ApplyStrategy;

/// One manifest of a work, ready to be delivered.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The object.
    pub id: ObjectId,
    /// `id` without the version, kept because every lookup uses it; shared by the tasks of all members.
    pub key: Arc<ObjectKey>,
    /// The sanitised object after overrides, without anything of gitfleet's own.
    pub object: Arc<Value>,
    /// SHA-256 of `object`.
    pub digest: Digest,
}

/// What inventories name a source by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceName {
    /// What is written.
    pub name: String,
    /// What it was before the source moved: such inventories are its own, and are written anew.
    pub formerly: Arc<BTreeSet<String>>,
}

impl SourceName {
    /// Tells whether a name on an inventory means this source.
    pub fn is(&self, name: &str) -> bool {
        self.name == name || self.formerly.contains(name)
    }
}

impl<T: Into<String>> From<T> for SourceName {
    fn from(name: T) -> Self {
        Self { name: name.into(), formerly: Arc::default() }
    }
}

/// What becomes of an object that is given up and stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Our label and what else names us go; it stays as it is.
    Whole,
    /// Our fields go as well; what others applied stays.
    Fields,
}

/// What one member shall hold of one placement.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkOrder {
    /// The placement.
    pub placement: PlacementKey,
    /// The member.
    pub cluster: ClusterName,
    /// The binding's generation: reports name it.
    pub generation: i64,
    /// Identity of the source, written on the inventory: two sources never share one.
    pub source: SourceName,
    /// The resource snapshot's index.
    pub snapshot: u64,
    /// The commit that holds the payload.
    pub commit: CommitId,
    /// The resource snapshot's hash.
    pub digest: Digest,
    /// How objects are applied.
    pub strategy: ApplyStrategy,
    /// The manifests in apply order; empty where everything is to go.
    pub manifests: Arc<[Desired]>,
    /// Deletions that wait for a person.
    pub held: BTreeSet<ObjectKey>,
    /// What may be pruned: the objects that the decision knew of, and let go. Whatever else turns up is reported and decided
    /// about first.
    pub prune: BTreeSet<ObjectKey>,
    /// What people decided of the placement, which its inventory keeps.
    pub kept: Kept,
    /// The placement leaves this member: after the last object the inventory goes too.
    pub remove: bool,
    /// It leaves, and its objects stay: they are given up, not deleted.
    pub abandon: bool,
}
