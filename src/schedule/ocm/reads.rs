//! Finds the placements that a change affects.
//!
//! Source: Open Cluster Management finds them through the sets bound to a namespace; here the attributes that a placement reads
//! narrow that further, and scores in its expressions widen it.

use std::collections::{BTreeMap, BTreeSet};

use super::change::ClusterChange;
use super::hub::RESOURCES;
use super::prioritize::PrioritizerKind;
use super::{Change, Hub, Key, OcmPolicy};

/// The data that a placement reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reads {
    /// Sets it may pick from; empty means every bound one.
    sets: Vec<String>,
    labels: BTreeSet<String>,
    claims: BTreeSet<String>,
    resources: BTreeSet<&'static str>,
    /// Whether an expression reads clusters whole.
    objects: bool,
    /// Scores by AddOnPlacementScore; an empty set is all of its scores.
    scores: BTreeMap<String, BTreeSet<String>>,
    /// Whether an expression computes the name of an AddOnPlacementScore.
    any_score: bool,
}

impl Reads {
    fn of(policy: &OcmPolicy) -> Self {
        let spec = policy.spec();
        let mut reads = Self { sets: spec.cluster_sets.clone(), objects: policy.reads_objects(), ..Self::default() };
        let predicates = spec.predicates.iter().map(|predicate| &predicate.required_cluster_selector);
        let groups =
            spec.decision_strategy.group_strategy.decision_groups.iter().map(|group| &group.group_cluster_selector);
        let selectors = predicates.map(|selector| (&selector.label_selector, &selector.claim_selector));
        let selectors = selectors.chain(groups.map(|selector| (&selector.label_selector, &selector.claim_selector)));
        for (by_label, by_claim) in selectors {
            reads.labels.extend(by_label.keys().cloned());
            reads.claims.extend(by_claim.match_expressions.iter().map(|requirement| requirement.key.clone()));
        }
        for prioritizer in policy.prioritizers.iter().flatten() {
            if let PrioritizerKind::Resource(resource) = prioritizer.kind {
                reads.resources.insert(RESOURCES[resource].0);
            }
        }
        for (resource, score) in policy.score_names() {
            reads.scores.entry(resource.to_owned()).or_default().insert(score.to_owned());
        }
        match policy.score_names_of_expressions() {
            // The text does not show which scores of an object an expression reads, so all of them count.
            Some(names) => reads.scores.extend(names.into_iter().map(|name| (name.to_owned(), BTreeSet::new()))),
            None => reads.any_score = true,
        }
        reads
    }

    fn picks_from(&self, set: &str) -> bool {
        self.sets.is_empty() || self.sets.iter().any(|wanted| wanted == set)
    }

    /// Tells whether it reads a changed attribute of a cluster in its sets.
    fn looks_at(&self, change: &ClusterChange) -> bool {
        change.taints
            || (self.objects && change.object)
            || !self.labels.is_disjoint(&change.labels)
            || !self.claims.is_disjoint(&change.claims)
            || !self.resources.is_disjoint(&change.resources)
    }

    fn looks_at_score(&self, resource: &str, names: Option<&BTreeSet<String>>) -> bool {
        if self.any_score {
            return true;
        }
        let Some(read) = self.scores.get(resource) else { return false };
        read.is_empty() || names.is_none_or(|names| !read.is_disjoint(names))
    }
}

/// The placements by namespace, with their inputs.
#[derive(Clone, Debug, Default)]
pub struct Readers {
    namespaces: BTreeMap<String, BTreeMap<String, Reads>>,
}

impl Readers {
    /// Sets, replaces or removes a placement.
    pub fn set(&mut self, key: &Key, policy: Option<&OcmPolicy>) {
        let placements = self.namespaces.entry(key.namespace.clone()).or_default();
        match policy {
            Some(policy) => drop(placements.insert(key.name.clone(), Reads::of(policy))),
            None => drop(placements.remove(&key.name)),
        }
        if placements.is_empty() {
            self.namespaces.remove(&key.namespace);
        }
    }

    /// Returns the placements that a change of the hub may affect; call it after the change. All others would decide the same
    /// again.
    pub fn affected(&self, hub: &Hub, change: &Change) -> BTreeSet<Key> {
        match change {
            Change::Nothing => BTreeSet::new(),
            // Placements with other sets are included too: the message of an empty candidate list depends on whether any set is
            // bound.
            Change::Binding { namespace, .. } => self.of(namespace).collect(),
            // As with a binding: each message depends on whether there is any set at all.
            Change::Set(set) => {
                let bound = self.namespaces.keys().filter(|namespace| hub.is_bound(namespace, set));
                bound.flat_map(|namespace| self.of(namespace)).collect()
            }
            Change::Cluster(change) => {
                let mut affected = self.where_(hub, change.moved_sets.iter().map(String::as_str), |_| true);
                let staying = change.in_sets.iter().map(String::as_str);
                affected.extend(self.where_(hub, staying, |reads| reads.looks_at(change)));
                affected
            }
            Change::Score { resource, cluster, names } => {
                let Some(slot) = hub.slot(cluster.as_str()) else { return BTreeSet::new() };
                let sets = hub.sets_of(slot as usize);
                let sets = sets.iter().map(String::as_str);
                self.where_(hub, sets, |reads| reads.looks_at_score(resource, names.as_ref()))
            }
        }
    }

    /// Returns the placements of a namespace.
    fn of(&self, namespace: &str) -> impl Iterator<Item = Key> {
        let placements = self.namespaces.get_key_value(namespace).into_iter();
        placements.flat_map(|(namespace, placements)| placements.keys().map(move |name| Key::new(namespace, name)))
    }

    /// Returns the matching placements that pick from one of the sets. A set that is gone is still bound.
    fn where_<'s>(
        &self,
        hub: &Hub,
        sets: impl Iterator<Item = &'s str>,
        holds: impl Fn(&Reads) -> bool,
    ) -> BTreeSet<Key> {
        let sets: Vec<&str> = sets.collect();
        let mut found = BTreeSet::new();
        for (namespace, placements) in &self.namespaces {
            let bound: Vec<&str> = sets.iter().copied().filter(|set| hub.is_bound(namespace, set)).collect();
            if bound.is_empty() {
                continue;
            }
            for (name, reads) in placements {
                if bound.iter().any(|set| reads.picks_from(set)) && holds(reads) {
                    found.insert(Key::new(namespace, name));
                }
            }
        }
        found
    }
}
