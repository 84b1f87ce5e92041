//! Orders by digest: a work order without its objects, and the objects one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::Error;
use model::api::placement::ApplyStrategy;
use model::encrypted::taken_apart;
use model::id::{ClusterName, CommitId, Digest, ObjectId, ObjectKey, PlacementKey};
use model::records::Kept;
use model::work::{Desired, SourceName, WorkOrder};

/// A [`WorkOrder`] whose manifests are named by digest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentOrder {
    /// The placement.
    pub placement: PlacementKey,
    /// The member.
    pub cluster: ClusterName,
    /// The binding's generation; reports repeat it.
    pub generation: i64,
    /// Identity of the source.
    pub source: SourceName,
    /// The resource snapshot's index.
    pub snapshot: u64,
    /// The commit that holds the payload.
    pub commit: CommitId,
    /// The resource snapshot's hash.
    pub digest: Digest,
    /// The apply strategy.
    pub strategy: ApplyStrategy,
    /// The manifests in apply order.
    pub manifests: Vec<ManifestRef>,
    /// Deletions that wait for an approval.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub held: BTreeSet<ObjectKey>,
    /// Objects that may be pruned.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub prune: BTreeSet<ObjectKey>,
    /// Decisions of people about the placement.
    #[serde(default, skip_serializing_if = "Kept::is_empty")]
    pub kept: Kept,
    /// The user under which the member is written to, where a tenant has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The tenant whose placement it is, where it is one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The placement leaves this member.
    #[serde(default)]
    pub remove: bool,
    /// It leaves and abandons its objects.
    #[serde(default)]
    pub abandon: bool,
}

/// One manifest of an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManifestRef {
    /// The object.
    pub id: ObjectId,
    /// Names its content.
    pub digest: Digest,
    /// The wave of its kind.
    pub wave: u16,
    /// Names an encrypted object together with its file, instead of `digest`: the same values may be encrypted again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<Digest>,
}

impl ManifestRef {
    /// Returns what its content is fetched by.
    fn content(&self) -> &Digest {
        self.encrypted.as_ref().unwrap_or(&self.digest)
    }
}

/// An order with the objects that its digests name.
#[derive(Clone, Debug, PartialEq)]
pub struct WholeOrder {
    /// The order.
    pub order: AgentOrder,
    /// The objects by digest.
    pub objects: BTreeMap<Digest, Arc<Value>>,
}

/// The body of a request for objects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FetchObjects {
    /// The digests; at most [`super::OBJECTS_MAX`].
    pub digests: Vec<Digest>,
}

/// One frame of the answer. A digest without a frame is not in a current order of the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FetchedObject {
    /// Names it.
    pub digest: Digest,
    /// The object.
    pub object: Arc<Value>,
}

impl From<&WorkOrder> for AgentOrder {
    fn from(order: &WorkOrder) -> Self {
        let manifests = order.manifests.iter().map(|desired| ManifestRef {
            id: desired.id.clone(),
            digest: desired.digest.clone(),
            wave: desired.wave,
            encrypted: desired.encrypted.as_ref().map(|encrypted| encrypted.content.clone()),
        });
        Self {
            placement: order.placement.clone(),
            cluster: order.cluster.clone(),
            generation: order.generation,
            source: order.source.clone(),
            snapshot: order.snapshot,
            commit: order.commit.clone(),
            digest: order.digest.clone(),
            strategy: order.strategy.clone(),
            manifests: manifests.collect(),
            held: order.held.clone(),
            prune: order.prune.clone(),
            kept: order.kept.clone(),
            user: order.user.clone(),
            tenant: order.tenant.clone(),
            remove: order.remove,
            abandon: order.abandon,
        }
    }
}

impl AgentOrder {
    /// Returns the JSON that is sent and kept, and the digest that names the order: its SHA-256.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub fn encode(&self) -> Result<(Digest, Vec<u8>), Error> {
        let json = serde_json::to_vec(self)?;
        Ok((digest_of(&json), json))
    }

    /// Reads an order from its JSON; `None` where the JSON is not what the digest names.
    ///
    /// # Errors
    /// The form is another than this version knows.
    pub fn decode(digest: &Digest, json: &[u8]) -> Result<Option<Self>, Error> {
        Ok(if digest_of(json) == *digest { Some(serde_json::from_slice(json)?) } else { None })
    }

    /// Returns the digests of its objects.
    pub fn objects(&self) -> BTreeSet<&Digest> {
        self.manifests.iter().map(ManifestRef::content).collect()
    }
}

fn digest_of(json: &[u8]) -> Digest {
    Digest::new(format!("{:x}", Sha256::digest(json)))
}

impl WholeOrder {
    /// Splits an order into itself by digests and its objects.
    pub fn of(order: &WorkOrder) -> Self {
        let objects = order.manifests.iter().map(|desired| (desired.content().clone(), desired.carried()));
        Self { order: order.into(), objects: objects.collect() }
    }

    /// Joins an order with its objects; the first object that is missing or is another than the order says is the error.
    ///
    /// # Errors
    /// The digest of that object.
    pub fn join(&self) -> Result<WorkOrder, Digest> {
        let order = &self.order;
        Ok(WorkOrder {
            placement: order.placement.clone(),
            cluster: order.cluster.clone(),
            generation: order.generation,
            source: order.source.clone(),
            snapshot: order.snapshot,
            commit: order.commit.clone(),
            digest: order.digest.clone(),
            strategy: order.strategy.clone(),
            manifests: order.manifests.iter().map(|named| self.desired(named)).collect::<Result<_, _>>()?,
            held: order.held.clone(),
            prune: order.prune.clone(),
            kept: order.kept.clone(),
            user: order.user.clone(),
            tenant: order.tenant.clone(),
            remove: order.remove,
            abandon: order.abandon,
        })
    }

    /// Joins a manifest with its object; the digest of the object is the error where it is missing or another.
    fn desired(&self, named: &ManifestRef) -> Result<Desired, Digest> {
        let carried = self.objects.get(named.content()).filter(|object| is_named(object, &named.id));
        let parts = carried.and_then(|carried| match &named.encrypted {
            None => Some((Arc::clone(carried), None)),
            Some(content) => {
                taken_apart(carried, content).map(|(object, encrypted)| (Arc::new(object), Some(encrypted)))
            }
        });
        let (object, encrypted) = parts.ok_or_else(|| Digest::clone(named.content()))?;
        Ok(Desired {
            id: named.id.clone(),
            key: named.id.key().shared(),
            object,
            digest: named.digest.clone(),
            wave: named.wave,
            encrypted,
        })
    }
}

/// Tells whether an object is the one that an identity names. The namespace may come from the placement.
fn is_named(object: &Value, id: &ObjectId) -> bool {
    ObjectId::of(object).is_some_and(|found| {
        (found.group.as_str(), found.kind.as_str(), found.name.as_str())
            == (id.group.as_str(), id.kind.as_str(), id.name.as_str())
    })
}
