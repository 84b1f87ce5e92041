//! Commits that are pushed during the rollout of the one before, and their failures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::{Driver, commit_of, global, prepared};
use crate::simulate::{Fate, FateOf};
use decide::snapshot::sanitised;
use model::id::{ClusterName, Digest, ObjectKey};
use model::tree::Tree;
use views::simulation::EventKind;

/// The content of clusters, by digest.
pub(super) type Held = BTreeMap<ClusterName, BTreeMap<ObjectKey, Digest>>;

impl Driver<'_> {
    /// Returns the present content of the clusters with failures.
    pub(super) fn held_now(&self) -> Held {
        let clusters: BTreeSet<&ClusterName> = self.scenario.failures.iter().map(|failure| &failure.cluster).collect();
        let members = clusters.into_iter().filter_map(|name| Some((name.clone(), self.simulation.members.get(name)?)));
        members
            .map(|(name, member)| {
                let objects = member.objects.iter();
                (name, objects.filter_map(|(key, live)| Some((key.clone(), live.manifest.clone()?))).collect())
            })
            .collect()
    }

    /// Pushes a commit on top of the last one.
    pub(super) fn push_later(&mut self, tree: &Tree) {
        let commit = commit_of(tree);
        let now = self.simulation.now;
        // A second push of the same commit is skipped.
        if self.pushed.as_ref() == Some(&commit) {
            let message = format!("commit {} is pushed, which is there already", commit.short());
            return self.watch.push(now, global(EventKind::Pushed, message));
        }
        self.watch.push(now, global(EventKind::Pushed, format!("commit {} is pushed", commit.short())));
        self.watch.follow(tree);
        self.simulation.fate = self.fate(true);
        self.simulation.push(prepared(tree));
        self.pushed = Some(commit);
    }

    /// Returns the behaviour of objects after a push: the content of the first push fails. With `is_later`, an object that a
    /// later push changes fails only with its content from the first push.
    pub(super) fn fate(&self, is_later: bool) -> FateOf {
        let failures = self.scenario.failures.clone();
        let held = self.held.clone();
        let first = if is_later { self.corrected() } else { BTreeMap::new() };
        // With overrides the content differs from the tree's: present or refused content of a cluster is the first push's.
        let delivered = if is_later { self.delivered() } else { BTreeSet::new() };
        Box::new(move |cluster, desired| {
            let failure = failures.iter().find(|failure| {
                failure.cluster == *cluster
                    && failure.objects.as_ref().is_none_or(|objects| objects.contains(&desired.key))
            });
            let Some(failure) = failure else { return Fate::Good };
            let is_old = held.get(cluster).and_then(|held| held.get(&desired.key)) == Some(&desired.digest);
            let contents = first.get(&*desired.key);
            let is_other = contents.is_some_and(|contents| contents.iter().all(|one| **one != *desired.object));
            let is_corrected = is_other && !delivered.contains(&(cluster.clone(), desired.digest.clone()));
            if is_old || is_corrected { Fate::Good } else { failure.fate }
        })
    }

    /// Returns the objects that later pushes change, with the content of the first one: one for each folder that an object is in.
    fn corrected(&self) -> BTreeMap<ObjectKey, Vec<Arc<Value>>> {
        let later: Vec<_> = self.scenario.then.iter().map(|push| contents(&push.tree)).collect();
        let mut first = contents(&self.scenario.head);
        first.retain(|key, object| later.iter().any(|tree| tree.get(key).is_some_and(|other| other != object)));
        first
    }

    /// Returns the content in the present orders of clusters.
    fn delivered(&self) -> BTreeSet<(ClusterName, Digest)> {
        let core = self.simulation.core();
        let orders = core.into_iter().flat_map(engine::Core::orders);
        let named = orders.flat_map(|order| order.manifests.iter().map(move |desired| (order, desired)));
        named.map(|(order, desired)| (order.cluster.clone(), desired.digest.clone())).collect()
    }
}

fn contents(tree: &Tree) -> BTreeMap<ObjectKey, Vec<Arc<Value>>> {
    let mut contents: BTreeMap<ObjectKey, Vec<Arc<Value>>> = BTreeMap::new();
    for manifest in tree.manifests.iter().chain(&tree.in_given_namespaces()) {
        contents.entry(manifest.id.key()).or_default().push(sanitised(manifest).object);
    }
    contents
}
