//! What is to be decided, because of what happened: who reads what changed, and who has something on a cluster.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::api::annotations::OCM_PLACEMENT;
use crate::decide::state::PlacementState;
use crate::model::id::{ClusterName, PlacementKey};
use crate::model::tree::Tree;
use crate::schedule::ocm::Key;
use crate::schedule::{Change, Readers, Reads};
use crate::snapshot::scheduled_policy;

/// What is to be decided, and the indexes that say so.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Placements.
    pub placements: BTreeSet<PlacementKey>,
    /// OCM Placements.
    pub ocm: BTreeSet<Key>,
    /// Clusters that scheduling does not see yet as they are.
    pub clusters: BTreeSet<ClusterName>,
    readers: Readers,
    holders: BTreeMap<ClusterName, BTreeSet<PlacementKey>>,
    held: BTreeMap<PlacementKey, BTreeSet<ClusterName>>,
    wakes: BTreeMap<PlacementKey, Timestamp>,
    ocm_wakes: BTreeMap<Key, Timestamp>,
    silences: BTreeMap<ClusterName, Timestamp>,
    rereads: BTreeMap<PlacementKey, Timestamp>,
    /// When the store, which refused something, is tried again.
    retry_at: Option<Timestamp>,
}

impl Queue {
    /// Tells whether there is nothing to decide.
    pub fn is_empty(&self) -> bool {
        self.placements.is_empty() && self.ocm.is_empty() && self.clusters.is_empty()
    }

    /// Returns when time alone puts something here.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let clusters = self.silences.values();
        let wakes = self.wakes.values().chain(self.ocm_wakes.values()).chain(clusters).chain(self.rereads.values());
        wakes.copied().chain(self.retry_at).min()
    }

    /// Puts here what is due.
    pub fn mark_due(&mut self, now: Timestamp) {
        self.placements.extend(take_due(&mut self.wakes, now));
        self.ocm.extend(take_due(&mut self.ocm_wakes, now));
        self.clusters.extend(take_due(&mut self.silences, now));
        self.retry_at = self.retry_at.filter(|at| *at > now);
    }

    /// Sets when the payloads of a placement that could not be read are read again.
    pub fn read_again(&mut self, key: &PlacementKey, at: Timestamp) {
        self.rereads.insert(key.clone(), at);
    }

    /// Takes the placements whose payloads are due to be read again.
    pub fn take_rereads(&mut self, now: Timestamp) -> Vec<PlacementKey> {
        take_due(&mut self.rereads, now)
    }

    /// Puts back what was taken from here and could not be written down: it is still to be decided, and nothing is before then.
    pub fn put_back(
        &mut self,
        placements: impl IntoIterator<Item = PlacementKey>,
        ocm: impl IntoIterator<Item = Key>,
        retry_at: Timestamp,
    ) {
        self.placements.extend(placements);
        self.ocm.extend(ocm);
        self.retry_at = Some(retry_at);
    }

    /// Tells whether the store refused something and is left alone for a moment.
    pub fn waits(&self) -> bool {
        self.retry_at.is_some()
    }

    /// Sets when a placement is decided though nothing happens.
    pub fn wake(&mut self, key: &PlacementKey, at: Option<Timestamp>) {
        set(&mut self.wakes, key, at);
    }

    /// Sets when an OCM Placement is decided though nothing happens.
    pub fn wake_ocm(&mut self, key: &Key, at: Option<Timestamp>) {
        set(&mut self.ocm_wakes, key, at);
    }

    /// Sets when a cluster that does not answer has been silent for too long.
    pub fn expect_silence(&mut self, cluster: &ClusterName, at: Option<Timestamp>) {
        set(&mut self.silences, cluster, at);
    }

    /// Puts here the placements that read what changed of the fleet.
    pub fn changed(&mut self, change: &Change) {
        self.placements.extend(self.readers.affected(change));
    }

    /// Puts here the placements that have something on a cluster: whether it answers is part of how they stand.
    pub fn concerns_holders(&mut self, cluster: &ClusterName) {
        self.placements.extend(self.holders.get(cluster).into_iter().flatten().cloned());
    }

    /// Puts here the placements that take their clusters from an OCM Placement.
    pub fn concerns_followers(&mut self, tree: &Tree, key: &Key) {
        let name = key.to_string();
        let follows = |annotations: &BTreeMap<String, String>| annotations.get(OCM_PLACEMENT) == Some(&name);
        let followers = tree.placements.iter().filter(|(_, placement)| follows(&placement.annotations));
        self.placements.extend(followers.map(|(key, _)| key.clone()));
    }

    /// Puts here the placements that a commit may decide anew: all of them where it changes payload or anything else that
    /// they share, else those whose own document changed.
    pub fn compare(&mut self, old: &Tree, new: &Tree) {
        let keys: BTreeSet<&PlacementKey> = old.placements.keys().chain(new.placements.keys()).collect();
        // A selector may select whatever changed.
        let all = !same_payload(old, new);
        let changed = keys.into_iter().filter(|key| all || old.placements.get(*key) != new.placements.get(*key));
        self.placements.extend(changed.cloned());
    }

    /// Takes down what a placement reads and where it is, after a decision.
    pub fn note(&mut self, state: &PlacementState) {
        let key = &state.record.key;
        let policy = scheduled_policy(key, state.record.spec.policy.as_ref());
        let settled = state.record.error.is_none() && state.policy().is_some_and(|policy| policy.fulfilled);
        self.readers.set(key.clone(), Reads::of(key, policy.as_ref(), settled));
        let mut clusters: Vec<&ClusterName> = state.bindings().map(|b| &b.cluster).collect();
        clusters.sort_unstable();
        clusters.dedup();
        self.hold(key, &clusters);
    }

    /// Forgets a placement that is gone.
    pub fn forget(&mut self, key: &PlacementKey) {
        self.readers.remove(key);
        self.hold(key, &[]);
        self.held.remove(key);
        self.wakes.remove(key);
        self.rereads.remove(key);
    }

    /// Takes down where a placement is: on these clusters, in order.
    fn hold(&mut self, key: &PlacementKey, clusters: &[&ClusterName]) {
        let before = self.held.entry(key.clone()).or_default();
        // Most decisions leave a placement where it is: nothing is copied for them.
        if before.iter().eq(clusters.iter().copied()) {
            return;
        }
        let clusters: BTreeSet<ClusterName> = clusters.iter().copied().cloned().collect();
        for gone in before.difference(&clusters) {
            if let Some(holders) = self.holders.get_mut(gone) {
                holders.remove(key);
                if holders.is_empty() {
                    self.holders.remove(gone);
                }
            }
        }
        for new in clusters.difference(before) {
            self.holders.entry(new.clone()).or_default().insert(key.clone());
        }
        *before = clusters;
    }
}

fn take_due<K: Ord + Clone>(wakes: &mut BTreeMap<K, Timestamp>, now: Timestamp) -> Vec<K> {
    let due: Vec<K> = wakes.iter().filter(|(_, at)| **at <= now).map(|(key, _)| key.clone()).collect();
    for key in &due {
        wakes.remove(key);
    }
    due
}

fn set<K: Ord + Clone>(wakes: &mut BTreeMap<K, Timestamp>, key: &K, at: Option<Timestamp>) {
    match at {
        Some(at) => drop(wakes.insert(key.clone(), at)),
        None => drop(wakes.remove(key)),
    }
}

/// Kinds whose documents concern only what names them, or clusters.
fn is_own_business(kind: &str) -> bool {
    matches!(
        kind,
        "ClusterResourcePlacement"
            | "ResourcePlacement"
            | "ClusterResourcePlacementEviction"
            | "ClusterResourcePlacementDisruptionBudget"
            | "ManagedCluster"
            | "ManagedClusterSet"
            | "ManagedClusterSetBinding"
            | "Placement"
            | "PlacementDecision"
            | "AddOnPlacementScore"
    )
}

/// Tells whether two commits have the same payload and the same overrides, envelopes and so on, at the same places.
fn same_payload(old: &Tree, new: &Tree) -> bool {
    let payload = old.manifests.iter().map(|m| (&m.id, &m.origin)).eq(new.manifests.iter().map(|m| (&m.id, &m.origin)));
    let shared = |tree: &'_ Tree| {
        let inputs = tree.inputs.iter().filter(|m| !is_own_business(&m.id.kind));
        inputs.map(|m| (m.id.clone(), m.origin.clone())).collect::<Vec<_>>()
    };
    payload && old.scopes == new.scopes && shared(old) == shared(new)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decide::fixtures::{eviction, member, ocm_placement, payload, placement, tree};
    use crate::model::records::{Binding, PlacementRecord};

    fn key(name: &str) -> PlacementKey {
        PlacementKey::cluster_scoped(name)
    }

    fn state(name: &str, clusters: &[&str]) -> PlacementState {
        let record: PlacementRecord = serde_json::from_value(json!({
            "key": name, "spec": {"resourceSelectors": [], "policy": {"placementType": "PickAll"}}, "annotations": {},
            "generation": 1, "createdAt": "2026-01-01T00:00:00Z",
        }))
        .expect("a record");
        let mut state = PlacementState::new(record);
        for cluster in clusters {
            let binding: Binding = serde_json::from_value(json!({
                "name": cluster, "placement": name, "cluster": cluster, "state": "Bound", "policyIndex": 0, "generation": 1,
                "decision": {"clusterName": cluster, "selected": true, "reason": ""},
            }))
            .expect("a binding");
            state.bindings.insert(binding.name.clone(), binding.into());
        }
        state
    }

    #[test]
    fn a_cluster_concerns_those_that_have_something_there() {
        let mut queue = Queue::default();
        queue.note(&state("web", &["a", "b"]));
        queue.note(&state("db", &["b"]));
        queue.note(&state("web", &["a"]));
        let held_by = |queue: &mut Queue, cluster: &str| {
            queue.concerns_holders(&ClusterName::from(cluster));
            std::mem::take(&mut queue.placements).into_iter().map(|key| key.name).collect::<Vec<_>>()
        };
        assert_eq!(held_by(&mut queue, "a"), ["web"]);
        assert_eq!(held_by(&mut queue, "b"), ["db"]);
        queue.forget(&key("db"));
        assert_eq!(held_by(&mut queue, "b"), Vec::<String>::new());
    }

    #[test]
    fn what_is_due_is_taken_once() {
        let mut queue = Queue::default();
        let at = |second: i64| Timestamp::from_second(second).expect("an instant");
        queue.wake(&key("web"), Some(at(10)));
        queue.wake_ocm(&Key::new("ns", "p"), Some(at(5)));
        queue.expect_silence(&ClusterName::from("a"), Some(at(20)));
        assert_eq!(queue.next_wake(), Some(at(5)));
        queue.mark_due(at(10));
        assert_eq!((queue.placements.len(), queue.ocm.len(), queue.clusters.len()), (1, 1, 0));
        assert_eq!(queue.next_wake(), Some(at(20)));
        queue.expect_silence(&ClusterName::from("a"), None);
        assert_eq!(queue.next_wake(), None);
    }

    #[test]
    fn what_cannot_be_written_down_stays_to_be_decided() {
        let at = |second: i64| Timestamp::from_second(second).expect("an instant");
        let mut queue = Queue::default();
        queue.wake(&key("web"), Some(at(50)));
        queue.put_back([key("web")], [Key::new("ns", "p")], at(10));
        assert!(!queue.is_empty() && queue.waits(), "a single pass does not end here");
        assert_eq!(queue.next_wake(), Some(at(10)), "time alone goes on from here");
        queue.mark_due(at(10));
        assert!(!queue.waits());
        assert_eq!((queue.placements.len(), queue.ocm.len()), (1, 1));
        assert_eq!(queue.next_wake(), Some(at(50)), "what waited for time waits for it still");
    }

    #[test]
    fn whom_a_commit_concerns() {
        let files = |change: &[(&'static str, String)]| {
            let mut files = BTreeMap::from([
                ("c.yaml", member("a", "")),
                ("d.yaml", payload("1")),
                ("o.yaml", ocm_placement("o", "{}")),
                ("p.yaml", placement("p", "", "")),
                ("q.yaml", placement("q", "", "")),
            ]);
            files.extend(change.iter().cloned());
            files.into_iter().filter(|(_, text)| !text.is_empty()).collect::<Vec<_>>()
        };
        let commit = |change: &[(&'static str, String)]| {
            let files = files(change);
            tree(&files.iter().map(|(path, text)| (*path, text.as_str())).collect::<Vec<_>>())
        };
        let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: ws.x.io}\n\
            spec: {group: x.io, scope: Cluster, names: {kind: W, plural: ws}, versions: []}\n";
        let budget = "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterResourcePlacementDisruptionBudget\n\
            metadata: {name: p}\nspec: {minAvailable: 1}\n";
        let rows: [(&str, (&'static str, String), &[&str]); 11] = [
            ("nothing", ("c.yaml", member("a", "")), &[]),
            ("a cluster alone: who reads it is asked elsewhere", ("c.yaml", member("a", "labels: {tier: gold}")), &[]),
            ("another cluster: all are asked elsewhere", ("e.yaml", member("b", "")), &[]),
            (
                "an OCM Placement: who follows is asked elsewhere",
                ("o.yaml", ocm_placement("o", "{numberOfClusters: 1}")),
                &[],
            ),
            ("payload", ("d.yaml", payload("2")), &["p", "q"]),
            ("a placement", ("p.yaml", placement("p", "", ", revisionHistoryLimit: 3")), &["p"]),
            ("its annotations", ("p.yaml", placement("p", "a: b", "")), &["p"]),
            ("a placement that goes", ("q.yaml", String::new()), &["q"]),
            ("a placement that comes", ("r.yaml", placement("r", "", "")), &["r"]),
            ("an eviction: whom it names is asked elsewhere", ("v.yaml", eviction("v", "p", "a")), &[]),
            ("a kind that becomes known", ("k.yaml", definition.to_owned()), &["p", "q"]),
        ];
        let old = commit(&[]);
        let budgets = ("a budget: as an eviction", ("b.yaml", budget.to_owned()), &[][..]);
        for (name, change, wanted) in rows.into_iter().chain([budgets]) {
            let mut queue = Queue::default();
            queue.compare(&old, &commit(&[change]));
            assert_eq!(queue.placements.iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), wanted, "{name}");
        }
    }

    #[test]
    fn who_follows_an_ocm_placement() {
        let texts = [
            ("p.yaml", placement("p", "gitfleet.io/placement: ns/o", "")),
            ("q.yaml", placement("q", "gitfleet.io/placement: ns/other", "")),
            ("r.yaml", placement("r", "", "")),
        ];
        let texts: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (*path, text.as_str())).collect();
        let mut queue = Queue::default();
        queue.concerns_followers(&tree(&texts), &Key::new("ns", "o"));
        assert_eq!(queue.placements, BTreeSet::from([key("p")]));
    }
}
