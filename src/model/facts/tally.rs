//! Sums over the nodes and pods of a member, updated with each watch event.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::NodeFacts;
use super::amounts::{Amounts, NodeStatus, PodSpec, PodStatus, Totals};

/// The identity of a node or pod: the first half of its uid's SHA-256, 16 bytes for any uid.
type Identity = [u8; 16];

fn identity(uid: &str) -> Identity {
    let digest = Sha256::digest(uid);
    let mut identity = Identity::default();
    identity.copy_from_slice(&digest[..16]);
    identity
}

/// Nodes or pods with `N` amounts each, and the sums of these.
#[derive(Debug)]
struct Sums<const N: usize> {
    held: BTreeMap<Identity, [Amounts; N]>,
    totals: [Totals; N],
}

impl<const N: usize> Default for Sums<N> {
    fn default() -> Self {
        Self { held: BTreeMap::new(), totals: [Totals::default(); N] }
    }
}

impl<const N: usize> Sums<N> {
    /// Replaces the amounts of an object; without amounts it is gone.
    fn set(&mut self, identity: Identity, amounts: Option<[Amounts; N]>) {
        let before = match amounts {
            Some(amounts) => self.held.insert(identity, amounts),
            None => self.held.remove(&identity),
        };
        for (position, total) in self.totals.iter_mut().enumerate() {
            // Never negative: the subtracted amounts were added before.
            *total -= before.map(|before| before[position]).unwrap_or_default();
            *total += amounts.map(|amounts| amounts[position]).unwrap_or_default();
        }
    }
}

/// Objects of one kind from a watch: a complete list replaces the earlier objects.
#[derive(Debug, Default)]
struct WatchedKind<const N: usize> {
    known: Option<Sums<N>>,
    listing: Option<Sums<N>>,
}

impl<const N: usize> WatchedKind<N> {
    fn set(&mut self, uid: &str, amounts: Option<[Amounts; N]>) {
        let identity = identity(uid);
        // While a list is under way the old sums are still valid, so an event changes both.
        for sums in self.known.as_mut().into_iter().chain(&mut self.listing) {
            sums.set(identity, amounts);
        }
    }
}

/// The sums over a cluster's nodes and pods, updated one event at a time.
///
/// A repeated event changes nothing, and a deletion subtracts exactly what was added.
#[derive(Debug, Default)]
pub struct Tally {
    nodes: WatchedKind<2>,
    pods: WatchedKind<1>,
}

impl Tally {
    /// Starts a list of nodes: nodes that it does not name are gone when it is complete.
    pub fn list_nodes(&mut self) {
        self.nodes.listing = Some(Sums::default());
    }

    /// Ends the list of nodes.
    pub fn nodes_listed(&mut self) {
        self.nodes.known = self.nodes.listing.take();
    }

    /// Sets a node; unready and cordoned nodes count too.
    pub fn set_node(&mut self, uid: &str, status: &NodeStatus) {
        self.nodes.set(uid, Some([status.capacity(), status.allocatable()]));
    }

    /// Removes a node.
    pub fn delete_node(&mut self, uid: &str) {
        self.nodes.set(uid, None);
    }

    /// Drops all nodes, because they cannot be observed any more.
    pub fn forget_nodes(&mut self) {
        self.nodes = WatchedKind::default();
    }

    /// Starts a list of pods: pods that it does not name are gone when it is complete.
    pub fn list_pods(&mut self) {
        self.pods.listing = Some(Sums::default());
    }

    /// Ends the list of pods.
    pub fn pods_listed(&mut self) {
        self.pods.known = self.pods.listing.take();
    }

    /// Sets a pod; only one that is on a node and not finished counts.
    pub fn set_pod(&mut self, uid: &str, spec: &PodSpec, status: &PodStatus) {
        self.pods.set(uid, (spec.is_bound() && !status.is_finished()).then(|| [spec.request()]));
    }

    /// Removes a pod.
    pub fn delete_pod(&mut self, uid: &str) {
        self.pods.set(uid, None);
    }

    /// Drops all pods, because they cannot be observed any more.
    pub fn forget_pods(&mut self) {
        self.pods = WatchedKind::default();
    }

    /// Returns the sums over the nodes; `None` before their first list is complete.
    pub fn nodes(&self) -> Option<NodeFacts> {
        let sums = self.nodes.known.as_ref()?;
        let [capacity, allocatable] = sums.totals;
        Some(NodeFacts { count: sums.held.len(), capacity, allocatable })
    }

    /// Returns the sum of the pods' requests; `None` before their first list is complete.
    pub fn requested(&self) -> Option<Totals> {
        self.pods.known.as_ref().map(|sums| sums.totals[0])
    }
}
