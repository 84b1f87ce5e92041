//! Sums over the nodes and pods of a member, kept as watches change them.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::NodeFacts;
use super::amounts::{Amounts, NodeStatus, PodSpec, PodStatus, Totals};

/// What identifies a node or pod here: the first half of its uid's SHA-256, 16 bytes for any uid.
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
    /// Takes what an object has now instead of what it had; without amounts it is gone.
    fn set(&mut self, identity: Identity, amounts: Option<[Amounts; N]>) {
        let before = match amounts {
            Some(amounts) => self.held.insert(identity, amounts),
            None => self.held.remove(&identity),
        };
        for (position, total) in self.totals.iter_mut().enumerate() {
            // Never below zero: what is taken away here was added before.
            *total -= before.map(|before| before[position]).unwrap_or_default();
            *total += amounts.map(|amounts| amounts[position]).unwrap_or_default();
        }
    }
}

/// Objects of one kind as a watch shows them: a list replaces what was known when it is complete.
#[derive(Debug, Default)]
struct WatchedKind<const N: usize> {
    known: Option<Sums<N>>,
    listing: Option<Sums<N>>,
}

impl<const N: usize> WatchedKind<N> {
    fn set(&mut self, uid: &str, amounts: Option<[Amounts; N]>) {
        let identity = identity(uid);
        // While a list is under way the old sums count still, so an event is for both.
        for sums in self.known.as_mut().into_iter().chain(&mut self.listing) {
            sums.set(identity, amounts);
        }
    }
}

/// What a cluster's nodes and pods add up to, kept up to date one event at a time.
///
/// The same event twice changes nothing, and what was added is what a deletion takes away.
#[derive(Debug, Default)]
pub struct Tally {
    nodes: WatchedKind<2>,
    pods: WatchedKind<1>,
}

impl Tally {
    /// Begins a list of nodes: what it does not name is gone when it is complete.
    pub fn list_nodes(&mut self) {
        self.nodes.listing = Some(Sums::default());
    }

    /// The list of nodes is complete.
    pub fn nodes_listed(&mut self) {
        self.nodes.known = self.nodes.listing.take();
    }

    /// Takes a node as it is now; unready and cordoned nodes count like others.
    pub fn set_node(&mut self, uid: &str, status: &NodeStatus) {
        self.nodes.set(uid, Some([status.capacity(), status.allocatable()]));
    }

    /// A node is gone.
    pub fn delete_node(&mut self, uid: &str) {
        self.nodes.set(uid, None);
    }

    /// Nodes cannot be seen any more.
    pub fn forget_nodes(&mut self) {
        self.nodes = WatchedKind::default();
    }

    /// Begins a list of pods: what it does not name is gone when it is complete.
    pub fn list_pods(&mut self) {
        self.pods.listing = Some(Sums::default());
    }

    /// The list of pods is complete.
    pub fn pods_listed(&mut self) {
        self.pods.known = self.pods.listing.take();
    }

    /// Takes a pod as it is now; only one that is on a node and not finished counts.
    pub fn set_pod(&mut self, uid: &str, spec: &PodSpec, status: &PodStatus) {
        self.pods.set(uid, (spec.is_bound() && !status.is_finished()).then(|| [spec.request()]));
    }

    /// A pod is gone.
    pub fn delete_pod(&mut self, uid: &str) {
        self.pods.set(uid, None);
    }

    /// Pods cannot be seen any more.
    pub fn forget_pods(&mut self) {
        self.pods = WatchedKind::default();
    }

    /// Returns what the nodes add up to; `None` before their first list is complete.
    pub fn nodes(&self) -> Option<NodeFacts> {
        let sums = self.nodes.known.as_ref()?;
        let [capacity, allocatable] = sums.totals;
        Some(NodeFacts { count: sums.held.len(), capacity, allocatable })
    }

    /// Returns what pods ask for together; `None` before their first list is complete.
    pub fn requested(&self) -> Option<Totals> {
        self.pods.known.as_ref().map(|sums| sums.totals[0])
    }
}
