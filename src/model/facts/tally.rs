//! Sums over the nodes and pods of a member, updated with each watch event.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::NodeFacts;
use super::amounts::{Amounts, Named, NodeStatus, PodSpec, PodStatus, Totals};

/// The identity of a node or pod: the first half of its uid's SHA-256, 16 bytes for any uid.
type Identity = [u8; 16];

fn identity(uid: &str) -> Identity {
    let digest = Sha256::digest(uid);
    let mut identity = Identity::default();
    identity.copy_from_slice(&digest[..16]);
    identity
}

/// What one node or pod has: `N` amounts of cpu and memory, each with what has a name.
type OwnAmounts<const N: usize> = [(Amounts, Named); N];

/// Nodes or pods with `N` amounts each, and the sums of these.
#[derive(Debug)]
struct Sums<const N: usize> {
    held: BTreeMap<Identity, [Amounts; N]>,
    /// Apart from the others: most pods have none, and shall not cost the room.
    named: BTreeMap<Identity, Box<[Named; N]>>,
    totals: [Totals; N],
}

impl<const N: usize> Default for Sums<N> {
    fn default() -> Self {
        Self { held: BTreeMap::new(), named: BTreeMap::new(), totals: std::array::from_fn(|_| Totals::default()) }
    }
}

impl<const N: usize> Sums<N> {
    /// Replaces the amounts of an object; without amounts it is gone.
    fn set(&mut self, identity: Identity, amounts: Option<&OwnAmounts<N>>) {
        let now = amounts.map(|held| std::array::from_fn(|position| held[position].0));
        let named_now = amounts.filter(|held| held.iter().any(|(_, named)| !named.is_empty()));
        let named_now = named_now.map(|held| Box::new(std::array::from_fn(|position| held[position].1.clone())));
        let before = match now {
            Some(now) => self.held.insert(identity, now),
            None => self.held.remove(&identity),
        };
        // Never below zero: what is taken away here was added before.
        for (position, total) in self.totals.iter_mut().enumerate() {
            *total -= before.map(|before| before[position]).unwrap_or_default();
            *total += now.map(|now| now[position]).unwrap_or_default();
        }
        for (total, named) in self.totals.iter_mut().zip(self.named.remove(&identity).iter().flat_map(|n| n.iter())) {
            *total -= named;
        }
        let Some(named_now) = named_now else { return };
        for (total, named) in self.totals.iter_mut().zip(named_now.iter()) {
            *total += named;
        }
        self.named.insert(identity, named_now);
    }
}

/// Objects of one kind from a watch: a complete list replaces the earlier objects.
#[derive(Debug, Default)]
struct WatchedKind<const N: usize> {
    known: Option<Sums<N>>,
    listing: Option<Sums<N>>,
}

impl<const N: usize> WatchedKind<N> {
    fn set(&mut self, uid: &str, amounts: Option<&OwnAmounts<N>>) {
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
    /// What they have, what pods may ask for, and the machine type of each, as if it had one of that name.
    nodes: WatchedKind<3>,
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
    pub fn set_node(&mut self, uid: &str, machine_type: Option<&str>, status: &NodeStatus) {
        let machine = machine_type.map(|name| (name.to_owned(), 1)).into_iter().collect();
        self.nodes.set(uid, Some(&[status.capacity(), status.allocatable(), (Amounts::default(), machine)]));
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
        let request = (spec.is_bound() && !status.is_finished()).then(|| [spec.request()]);
        self.pods.set(uid, request.as_ref());
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
        let [capacity, allocatable, machines] = sums.totals.clone();
        Some(NodeFacts { count: sums.held.len(), capacity, allocatable, machine_types: machines.extended })
    }

    /// Returns the sum of the pods' requests; `None` before their first list is complete.
    pub fn requested(&self) -> Option<Totals> {
        self.pods.known.as_ref().map(|sums| sums.totals[0].clone())
    }
}
