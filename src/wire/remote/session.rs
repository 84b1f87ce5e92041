//! One session of an agent: what it may fetch, and what is still to be sent to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::agent::OrderDigests;
use super::credentials::TokenDigest;
use model::id::{ClusterName, Digest, PlacementKey};
use model::records::WorkStatus;
use model::uptime::Uptime;
use model::work::WorkOrder;

/// A message about one placement on one member; a later one takes its place, so that a slow agent costs no more than its orders.
#[derive(Clone, Debug)]
pub(super) enum Pending {
    /// The newest order.
    Order {
        /// Names it.
        digest: Digest,
        /// The last report about it.
        reported: Option<Arc<WorkStatus>>,
    },
    /// Its objects are left alone.
    Forget,
}

/// A session that is open.
#[derive(Debug)]
pub(super) struct RemoteSession {
    /// Names it.
    pub(super) id: String,
    /// Names the start of the agent.
    pub(super) instance: String,
    /// The digest of the token that opened it: it ends with the token.
    pub(super) token: TokenDigest,
    /// The pools that the agent joined.
    pub(super) pools: BTreeSet<String>,
    /// The version of the protocol that counts.
    pub(super) protocol: u32,
    /// When the agent was last heard.
    pub(super) heard: Uptime,
    /// The highest number of a report that was taken.
    pub(super) seq: u64,
    /// The welcome is still to be sent.
    pub(super) is_new: bool,
    /// The list of members is to be sent again.
    pub(super) lists: bool,
    /// No list is sent yet: the agent would take it for all that it has, and forget the rest.
    pub(super) waits: bool,
    /// The members that the agent ran when the session began, with their orders, as far as none was sent to them since.
    pub(super) running: OrderDigests,
    /// The agent's members.
    pub(super) members: BTreeSet<ClusterName>,
    /// What is to be sent about placements.
    pub(super) pending: BTreeMap<(ClusterName, PlacementKey), Pending>,
    /// Members of which the agent is to be told all placements, after their orders.
    pub(super) placements: BTreeMap<ClusterName, BTreeSet<PlacementKey>>,
    /// What the agent may fetch.
    pub(super) content: AgentContent,
}

impl RemoteSession {
    /// Tells whether the agent does not know a member: it cannot say that it stopped it.
    pub(super) fn never_ran(&self, cluster: &ClusterName) -> bool {
        self.waits && !self.running.contains_key(cluster)
    }
}

/// What the orders of one agent's members name. It shares the objects with the orders, and holds each once.
#[derive(Debug, Default)]
pub(super) struct AgentContent {
    orders: BTreeMap<Digest, Arc<WorkOrder>>,
    objects: BTreeMap<Digest, (Arc<Value>, usize)>,
}

impl AgentContent {
    /// Adds what an order names.
    pub(super) fn add(&mut self, digest: &Digest, order: &Arc<WorkOrder>) {
        if self.orders.insert(digest.clone(), Arc::clone(order)).is_some() {
            return;
        }
        for desired in order.manifests.iter() {
            let entry = self.objects.entry(desired.content().clone());
            entry.or_insert_with(|| (desired.carried(), 0)).1 += 1;
        }
    }

    /// Removes what an order named, as far as no other names it.
    pub(super) fn remove(&mut self, digest: &Digest) {
        let Some(order) = self.orders.remove(digest) else { return };
        for desired in order.manifests.iter() {
            let Some((_, users)) = self.objects.get_mut(desired.content()) else { continue };
            *users -= 1;
            if *users == 0 {
                self.objects.remove(desired.content());
            }
        }
    }

    /// Returns a current order.
    pub(super) fn order(&self, digest: &Digest) -> Option<Arc<WorkOrder>> {
        self.orders.get(digest).cloned()
    }

    /// Returns an object that a current order names.
    pub(super) fn object(&self, digest: &Digest) -> Option<Arc<Value>> {
        self.objects.get(digest).map(|(object, _)| Arc::clone(object))
    }
}
