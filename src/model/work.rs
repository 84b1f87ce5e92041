//! Work orders: the desired objects of one placement on one member, from the daemon to the member's delivery.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::encrypted::{EncryptedWork, carried};
use super::id::{ClusterName, CommitId, Digest, ObjectId, ObjectKey, PlacementKey};
use super::records::Kept;
use crate::api::placement::ApplyStrategy;

/// One manifest of a work, ready for delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The object.
    pub id: ObjectId,
    /// `id` without the version, kept because every lookup uses it; shared by the tasks of all members.
    pub key: Arc<ObjectKey>,
    /// The sanitised object after overrides, without gitfleet's own labels and annotations.
    pub object: Arc<Value>,
    /// SHA-256 of `object`, or of what identifies it where it is encrypted.
    pub digest: Digest,
    /// The wave of its kind: lower waves are applied first. Kept because every plan of every member orders by it.
    pub wave: u16,
    /// What decrypts it, if it is encrypted in the source: `object` is then as overrides left it, and nobody may write it so.
    pub encrypted: Option<EncryptedWork>,
}

impl Desired {
    /// Returns what names its content as it passes to an agent.
    pub fn content(&self) -> &Digest {
        self.encrypted.as_ref().map_or(&self.digest, |encrypted| &encrypted.content)
    }

    /// Returns the object as it passes to an agent: an encrypted one with its file.
    pub fn carried(&self) -> Arc<Value> {
        match &self.encrypted {
            None => Arc::clone(&self.object),
            Some(of) => Arc::new(carried(&self.object, &of.file, &of.path, of.ordinal)),
        }
    }
}

/// The name of a source in inventories.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceName {
    /// The present name.
    pub name: String,
    /// Its earlier names: inventories with one of them belong to the source, and are rewritten.
    #[serde(default)]
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

/// How an object is given up, which stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Our label and our other marks are removed; the rest stays.
    Whole,
    /// Our fields are removed too; fields of others stay.
    Fields,
}

/// The desired objects of one placement on one member.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkOrder {
    /// The placement.
    pub placement: PlacementKey,
    /// The member.
    pub cluster: ClusterName,
    /// The binding's generation; reports repeat it.
    pub generation: i64,
    /// Identity of the source, written on the inventory: two sources never share an inventory.
    pub source: SourceName,
    /// The resource snapshot's index.
    pub snapshot: u64,
    /// The commit that holds the payload.
    pub commit: CommitId,
    /// The resource snapshot's hash.
    pub digest: Digest,
    /// The apply strategy.
    pub strategy: ApplyStrategy,
    /// The manifests in apply order; empty if everything is removed.
    pub manifests: Arc<[Desired]>,
    /// Deletions that wait for an approval.
    pub held: BTreeSet<ObjectKey>,
    /// Objects that may be pruned: those that the decision knew and released. Objects that appear later are reported and
    /// decided first.
    pub prune: BTreeSet<ObjectKey>,
    /// Decisions of people about the placement, which its inventory keeps.
    pub kept: Kept,
    /// The user under which the member is written to, where a tenant has one; `None` means gitfleet's own.
    pub user: Option<String>,
    /// The tenant whose placement it is, where it is one's: such a placement never takes what one of no tenant delivers.
    pub tenant: Option<String>,
    /// The placement leaves this member: after the last object the inventory is removed too.
    pub remove: bool,
    /// The placement leaves and abandons its objects: they are given up, not deleted.
    pub abandon: bool,
}
