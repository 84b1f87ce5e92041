//! Events that wait for a server: of each kind the newest about each member and placement.

use std::collections::BTreeMap;

use crate::{EVENTS_MAX, ToServer};
use model::id::{ClusterName, PlacementKey};

/// Objects that the reports of one request may be about, before the next report waits for another request.
const OBJECTS_MAX: usize = 20_000;

/// What an event replaces: an earlier one of the same key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EventKey {
    Presence(ClusterName),
    Restarted(ClusterName),
    Namespaces(ClusterName),
    Facts(ClusterName),
    Unwatched(ClusterName),
    Stopped(ClusterName),
    Work(ClusterName, PlacementKey),
    Bye,
}

/// The waiting events, in the order in which they go.
#[derive(Debug, Default)]
pub struct Outbox {
    next: u64,
    waiting: BTreeMap<u64, (EventKey, ToServer)>,
    places: BTreeMap<EventKey, u64>,
}

impl Outbox {
    /// Adds an event; an earlier one that it replaces goes.
    pub fn push(&mut self, event: ToServer) {
        let Some(key) = key(&event) else { return };
        self.next += 1;
        let mut place = self.next;
        if let Some(earlier) = self.places.remove(&key) {
            self.waiting.remove(&earlier);
            // A report about a namespace's objects goes after the namespace.
            if matches!(key, EventKey::Namespaces(_)) {
                place = earlier;
            }
        }
        self.places.insert(key.clone(), place);
        self.waiting.insert(place, (key, event));
    }

    /// Takes the oldest events, as many as one request brings.
    pub fn take(&mut self) -> Vec<ToServer> {
        let mut taken = Vec::new();
        let mut objects = 0;
        while taken.len() < EVENTS_MAX && objects < OBJECTS_MAX {
            let Some((_, (key, event))) = self.waiting.pop_first() else { break };
            self.places.remove(&key);
            if let ToServer::Work { status, .. } = &event {
                objects += status.manifests.len();
            }
            taken.push(event);
        }
        taken
    }

    /// Puts events back that no server has; a newer event of the same kind stays instead.
    pub fn put_back(&mut self, events: Vec<ToServer>) {
        let newer = std::mem::take(self);
        for event in events.into_iter().chain(newer.waiting.into_values().map(|(_, event)| event)) {
            self.push(event);
        }
    }

    /// Drops what is waiting about a member.
    pub fn forget(&mut self, cluster: &ClusterName) {
        self.waiting.retain(|_, (_, event)| event.cluster() != Some(cluster));
        let waiting = &self.waiting;
        self.places.retain(|_, place| waiting.contains_key(place));
    }

    /// Tells whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

fn key(event: &ToServer) -> Option<EventKey> {
    Some(match event {
        ToServer::Online { cluster, .. } | ToServer::Offline { cluster, .. } => EventKey::Presence(cluster.clone()),
        ToServer::Restarted { cluster } => EventKey::Restarted(cluster.clone()),
        ToServer::Namespaces { cluster, .. } => EventKey::Namespaces(cluster.clone()),
        ToServer::Facts { cluster, .. } => EventKey::Facts(cluster.clone()),
        ToServer::Unwatched { cluster, .. } => EventKey::Unwatched(cluster.clone()),
        ToServer::Stopped { cluster } => EventKey::Stopped(cluster.clone()),
        ToServer::Work { cluster, placement, .. } => EventKey::Work(cluster.clone(), placement.clone()),
        ToServer::Bye => EventKey::Bye,
        ToServer::Unknown => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offline(cluster: &str, reason: &str) -> ToServer {
        ToServer::Offline { cluster: cluster.into(), reason: reason.to_owned() }
    }

    fn namespaces(cluster: &str, name: &str) -> ToServer {
        ToServer::Namespaces { cluster: cluster.into(), namespaces: Ok([name.to_owned()].into()) }
    }

    #[test]
    fn of_each_kind_the_newest_waits_and_namespaces_keep_their_place() {
        let mut outbox = Outbox::default();
        for event in
            [namespaces("a", "1"), offline("a", "1"), offline("b", "1"), offline("a", "2"), namespaces("a", "2")]
        {
            outbox.push(event);
        }
        let taken = outbox.take();
        assert_eq!(taken, [namespaces("a", "2"), offline("b", "1"), offline("a", "2")]);
        assert!(outbox.is_empty());
        outbox.push(offline("b", "2"));
        outbox.put_back(taken);
        assert_eq!(outbox.take(), [namespaces("a", "2"), offline("a", "2"), offline("b", "2")]);
        outbox.push(offline("b", "3"));
        outbox.forget(&"b".into());
        assert!(outbox.is_empty());
    }
}
