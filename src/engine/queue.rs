//! The work queue: which placements must be decided again after a change, by what they read and which clusters they use.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use decide::snapshot::scheduled_policy;
use decide::state::PlacementState;
use decide::strategies::Staged;
use model::api::annotations::{InNoStage, OCM_PLACEMENT, STAGED_UPDATE_STRATEGY};
use model::api::placement::LabelSelector;
use model::api::staged::StagedUpdateStrategySpec;
use model::id::{ClusterName, ObjectId, PlacementKey};
use model::manifest::Origin;
use model::tenants::Tenant;
use model::tree::Tree;
use model::variants::ClusterInputs;
use schedule::ocm::Key;
use schedule::{FleetChange, Readers, Reads};

/// The work queue and its indexes.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Placements.
    pub placements: BTreeSet<PlacementKey>,
    /// OCM Placements.
    pub ocm: BTreeSet<Key>,
    /// Clusters with changes that scheduling has not seen yet.
    pub clusters: BTreeSet<ClusterName>,
    readers: Readers,
    holders: BTreeMap<ClusterName, BTreeSet<PlacementKey>>,
    held: BTreeMap<PlacementKey, BTreeSet<ClusterName>>,
    wakes: BTreeMap<PlacementKey, Timestamp>,
    ocm_wakes: BTreeMap<Key, Timestamp>,
    cluster_wakes: BTreeMap<ClusterName, Timestamp>,
    rereads: BTreeMap<PlacementKey, Timestamp>,
    /// When to retry the store after a refusal.
    retry_at: Option<Timestamp>,
}

impl Queue {
    /// Begins with the clusters of stored placements.
    pub(crate) fn holding(placements: &BTreeMap<PlacementKey, PlacementState>) -> Self {
        let mut queue = Self::default();
        for (key, state) in placements {
            queue.hold(key, &clusters_of(state));
        }
        queue
    }

    /// Tells whether a placement has a binding to a cluster.
    pub(crate) fn holds(&self, key: &PlacementKey, cluster: &ClusterName) -> bool {
        self.held.get(key).is_some_and(|clusters| clusters.contains(cluster))
    }

    /// Tells whether there is nothing to decide.
    pub(crate) fn is_empty(&self) -> bool {
        self.placements.is_empty() && self.ocm.is_empty() && self.clusters.is_empty()
    }

    /// Returns when time alone queues something.
    pub(crate) fn next_wake(&self) -> Option<Timestamp> {
        let clusters = self.cluster_wakes.values();
        let wakes = self.wakes.values().chain(self.ocm_wakes.values()).chain(clusters).chain(self.rereads.values());
        wakes.copied().chain(self.retry_at).min()
    }

    /// Queues what is due.
    pub(crate) fn mark_due(&mut self, now: Timestamp) {
        self.placements.extend(take_due(&mut self.wakes, now));
        self.ocm.extend(take_due(&mut self.ocm_wakes, now));
        self.clusters.extend(take_due(&mut self.cluster_wakes, now));
        self.retry_at = self.retry_at.filter(|at| *at > now);
    }

    /// Sets when the payloads of a placement that could not be read are read again.
    pub(crate) fn read_again(&mut self, key: &PlacementKey, at: Timestamp) {
        self.rereads.insert(key.clone(), at);
    }

    /// Takes the placements whose payloads are due to be read again.
    pub(crate) fn take_rereads(&mut self, now: Timestamp) -> Vec<PlacementKey> {
        take_due(&mut self.rereads, now)
    }

    /// Sets when the store is tried again that refused something; nothing is decided before.
    pub(crate) fn retry_at(&mut self, at: Timestamp) {
        self.retry_at = Some(at);
    }

    /// Tells whether the store refused something and the retry pause is not over.
    pub(crate) fn waits(&self) -> bool {
        self.retry_at.is_some()
    }

    /// Sets when to decide a placement without an event.
    pub(crate) fn wake(&mut self, key: &PlacementKey, at: Option<Timestamp>) {
        set(&mut self.wakes, key, at);
    }

    /// Sets when to decide an OCM Placement without an event.
    pub(crate) fn wake_ocm(&mut self, key: &Key, at: Option<Timestamp>) {
        set(&mut self.ocm_wakes, key, at);
    }

    /// Sets when a cluster is checked though nothing happens: its silence becomes too long, or what was pushed about it ends.
    pub(crate) fn wake_cluster(&mut self, cluster: &ClusterName, at: Option<Timestamp>) {
        set(&mut self.cluster_wakes, cluster, at);
    }

    /// Queues the placements that read a changed part of the fleet.
    pub(crate) fn changed(&mut self, change: &FleetChange) {
        self.placements.extend(self.readers.affected(change));
    }

    /// Returns the placements with a binding to a cluster.
    pub(crate) fn holders(&self, cluster: &ClusterName) -> impl Iterator<Item = &PlacementKey> {
        self.holders.get(cluster).into_iter().flatten()
    }

    /// Queues the placements with something on a cluster: their state depends on whether it answers.
    pub(crate) fn concerns_holders(&mut self, cluster: &ClusterName) {
        self.placements.extend(self.holders.get(cluster).into_iter().flatten().cloned());
    }

    /// Queues the placements that take their clusters from an OCM Placement.
    pub(crate) fn concerns_followers(&mut self, tree: &Tree, key: &Key) {
        let name = key.to_string();
        let follows = |annotations: &BTreeMap<String, String>| annotations.get(OCM_PLACEMENT) == Some(&name);
        let followers = tree.placements.iter().filter(|(_, placement)| follows(&placement.annotations));
        self.placements.extend(followers.map(|(key, _)| key.clone()));
    }

    /// Queues the placements that a commit may change: all of them if it changes payload or another shared document, else those
    /// whose own document changed.
    pub(crate) fn compare(&mut self, old: &Tree, new: &Tree) {
        let keys: BTreeSet<&PlacementKey> = old.placements.keys().chain(new.placements.keys()).collect();
        // A selector may select any changed object.
        let all = !same_payload(old, new);
        let changed = keys.into_iter().filter(|key| all || old.placements.get(*key) != new.placements.get(*key));
        self.placements.extend(changed.cloned());
    }

    /// Indexes what a placement of a tenant, or of nobody's, reads and which clusters it uses, after a decision.
    pub(crate) fn note(&mut self, state: &PlacementState, staged: &Staged, tenant: Option<&Tenant>) {
        let key = &state.record.key;
        let policy = scheduled_policy(key, state.record.spec.policy.as_ref());
        let settled = state.record.error.is_none() && state.policy().is_some_and(|policy| policy.fulfilled);
        let of_runs = state.runs.values().map(|run| (&run.strategy, run.refused));
        let annotated = state.record.annotations.get(STAGED_UPDATE_STRATEGY).map(|name| (name, false));
        let named = of_runs.chain(annotated).filter_map(|(name, refused)| Some((staged.strategy(key, name)?, refused)));
        // When the labels in the selectors of its stages change, a refused run can start, and an ignored cluster gets a run.
        let strategies = named.filter(|(strategy, refused)| *refused || strategy.in_no_stage == InNoStage::Ignore);
        let labels = strategies.flat_map(|(strategy, _)| stage_labels(&strategy.spec));
        let of_tenant =
            tenant.and_then(|tenant| tenant.clusters.as_ref()).into_iter().flat_map(LabelSelector::keys).cloned();
        let labels = labels.chain(of_tenant);
        self.readers.set(key.clone(), Reads::of(key, policy.as_ref(), settled).and_labels(labels));
        self.hold(key, &clusters_of(state));
    }

    /// Forgets a placement that is gone.
    pub(crate) fn forget(&mut self, key: &PlacementKey) {
        self.readers.remove(key);
        self.hold(key, &[]);
        self.held.remove(key);
        self.wakes.remove(key);
        self.rereads.remove(key);
    }

    /// Indexes the clusters of a placement, in order.
    fn hold(&mut self, key: &PlacementKey, clusters: &[&ClusterName]) {
        let before = self.held.entry(key.clone()).or_default();
        // Most decisions do not change the clusters of a placement: nothing is copied for them.
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

/// Returns the clusters of a placement's bindings, in order.
fn clusters_of(state: &PlacementState) -> Vec<&ClusterName> {
    let mut clusters: Vec<&ClusterName> = state.bindings().map(|binding| &binding.cluster).collect();
    clusters.sort_unstable();
    clusters.dedup();
    clusters
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

/// Tells whether documents of a kind concern only clusters or the objects that they name.
fn queues_by_itself(kind: &str) -> bool {
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
    let reads = old.varied.values().map(|varied| &varied.reads).eq(new.varied.values().map(|varied| &varied.reads));
    let payload = payload && reads && of_clusters(old).eq(of_clusters(new));
    // Which Namespaces a folder sees around it depends on the folders that others name.
    payload && old.scopes == new.scopes && old.folders == new.folders && shared(old).eq(shared(new))
}

/// Returns the objects that are rendered with values of clusters: folder, values, identity and place of each.
fn of_clusters(tree: &Tree) -> impl Iterator<Item = (&String, &ClusterInputs, &ObjectId, &Origin)> {
    let each = tree.varied.iter().flat_map(|(path, varied)| varied.variants.iter().map(move |one| (path, one)));
    each.flat_map(|(path, (inputs, objects))| objects.iter().map(move |m| (path, inputs, &m.id, &m.origin)))
}

/// Returns the inputs that may change the payload of any placement.
fn shared(tree: &Tree) -> impl Iterator<Item = (&ObjectId, &Origin)> {
    tree.inputs.iter().filter(|m| !queues_by_itself(&m.id.kind)).map(|m| (&m.id, &m.origin))
}

/// Returns the keys of the labels that sort clusters into stages.
fn stage_labels(strategy: &StagedUpdateStrategySpec) -> impl Iterator<Item = String> {
    let selectors = strategy.stages.iter().filter_map(|stage| stage.label_selector.as_ref());
    selectors.flat_map(LabelSelector::keys).cloned()
}

#[cfg(test)]
mod tests;
