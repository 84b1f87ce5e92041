//! Evictions and disruption budgets of a commit, and the results of evictions: pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::DeserializeOwned;

use model::api::condition::{Condition, ConditionStatus};
use model::api::eviction::{DisruptionBudgetSpec, EvictionSpec};
use model::api::object::{Object, without_nulls};
use model::api::table::PLACEMENT_GROUP;
use model::conditions::ConditionType;
use model::id::{ClusterName, PlacementKey};
use model::manifest::Manifest;
use model::records::{Binding, EvictionRecord, PlacementRecord};
use model::tree::Tree;
use model::yaml;
use schedule::eviction::{EvictedPlacement, EvictionRequest, Verdict, evict};

/// Evictions and budgets by the name of the ClusterResourcePlacement they are for.
#[derive(Clone, Debug, Default)]
pub struct Disruptions {
    evictions: BTreeMap<String, BTreeMap<String, ClusterName>>,
    budgets: BTreeMap<String, DisruptionBudgetSpec>,
}

/// What became of the evictions of a placement.
#[derive(Debug)]
pub struct Evicted {
    /// The evictions of git that are evaluated, by name.
    pub records: BTreeMap<String, EvictionRecord>,
    /// The bindings that are to be removed, each with its cluster.
    pub left: Vec<(String, ClusterName)>,
}

impl Disruptions {
    /// Collects those of a commit.
    pub fn of(tree: &Tree) -> Self {
        let mut disruptions = Self::default();
        for manifest in tree.inputs.iter().filter(|manifest| manifest.id.group == PLACEMENT_GROUP) {
            match manifest.id.kind.as_str() {
                "ClusterResourcePlacementEviction" => {
                    let Some(spec) = read::<EvictionSpec>(manifest) else { continue };
                    let of = disruptions.evictions.entry(spec.placement_name).or_default();
                    of.insert(manifest.id.name.clone(), ClusterName::new(spec.cluster_name.as_str()));
                }
                "ClusterResourcePlacementDisruptionBudget" => {
                    let Some(spec) = read::<DisruptionBudgetSpec>(manifest) else { continue };
                    disruptions.budgets.insert(manifest.id.name.clone(), spec);
                }
                _ => {}
            }
        }
        disruptions
    }

    /// Returns the placements whose evictions or budgets differ from `other`.
    pub fn differing<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = PlacementKey> + 'a {
        let all: BTreeSet<&String> = self.placements().chain(other.placements()).collect();
        let differing = all.into_iter().filter(|name| {
            self.evictions.get(*name) != other.evictions.get(*name)
                || self.budgets.get(*name) != other.budgets.get(*name)
        });
        differing.map(PlacementKey::cluster_scoped)
    }

    /// Returns the names of the placements that have evictions or a budget; twice of those that have both.
    fn placements(&self) -> impl Iterator<Item = &String> {
        self.evictions.keys().chain(self.budgets.keys())
    }

    /// Evaluates new evictions of a placement one after the other, by name.
    ///
    /// An eviction is evaluated once, and forgotten when git removes it. `failed` tells whether the placement has failed on a
    /// cluster.
    pub fn evaluate(
        &self,
        record: &PlacementRecord,
        bindings: &BTreeMap<String, Arc<Binding>>,
        failed: impl Fn(&Binding) -> bool,
        now: Timestamp,
    ) -> Evicted {
        // Source: KubeFleet, which has no evictions of ResourcePlacements.
        if record.key.namespace.is_some() {
            return Evicted { records: record.evictions.clone(), left: Vec::new() };
        }
        let nothing = BTreeMap::new();
        let wished = self.evictions.get(&record.key.name).unwrap_or(&nothing);
        let mut records = record.evictions.clone();
        // The same name with another cluster is another eviction.
        records.retain(|name, known| wished.get(name) == Some(&known.cluster));
        let mut left = Vec::new();
        if wished.keys().all(|name| records.contains_key(name)) {
            return Evicted { records, left };
        }
        let mut bindings: Vec<Binding> = bindings.values().map(|binding| Binding::clone(binding)).collect();
        for (name, cluster) in wished {
            if records.contains_key(name) {
                continue;
            }
            let target = bindings.iter().find(|binding| binding.cluster == *cluster);
            let verdict = evict(&EvictionRequest {
                cluster,
                placement: Some(EvictedPlacement { policy: record.spec.policy.as_ref(), removed: record.removed }),
                bindings: &bindings,
                failed: target.is_some_and(&failed),
                budget: self.budgets.get(&record.key.name),
            });
            if let Some(removed) = &verdict.remove
                && let Some(binding) = bindings.iter_mut().find(|binding| binding.name == *removed)
            {
                // The bindings removed by earlier ones count against the budget.
                binding.deleting = true;
                binding.generation += 1;
                left.push((binding.name.clone(), binding.cluster.clone()));
            }
            let conditions = conditions(&verdict, now);
            records.insert(name.clone(), EvictionRecord { cluster: cluster.clone(), conditions, at: now });
        }
        Evicted { records, left }
    }

    /// Tells whether a placement has evictions that were not evaluated yet.
    pub fn concerns(&self, key: &PlacementKey) -> bool {
        key.namespace.is_none() && self.evictions.contains_key(&key.name)
    }
}

/// Source: KubeFleet, conditions of an eviction.
fn conditions(verdict: &Verdict, now: Timestamp) -> Vec<Condition> {
    let valid = (ConditionType::Valid, verdict.valid, verdict.valid_reason());
    let executed = verdict.executed.zip(verdict.executed_reason());
    let executed = executed.map(|(holds, reason)| (ConditionType::Executed, holds, reason));
    let mut conditions = Vec::new();
    for (type_, holds, reason) in std::iter::once(valid).chain(executed) {
        let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
        conditions.push(Condition::new(type_, status, reason, verdict.message.clone(), 1, now));
    }
    conditions
}

/// Reads a document whose spec may be left out. One of a tree can be read: it was checked.
fn read<S: DeserializeOwned>(manifest: &Manifest) -> Option<S> {
    let mut document = without_nulls(&manifest.object);
    document.as_object_mut()?.entry("spec").or_insert_with(|| serde_json::json!({}));
    yaml::typed::<Object<S>>(&document).ok().map(|object| object.spec)
}

#[cfg(test)]
mod tests;
