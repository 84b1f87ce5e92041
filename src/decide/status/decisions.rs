//! Exported decisions: the clusters of a placement, for Argo CD and other tools.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::placement::PlacementView;
use model::api::annotations::DECISIONS;
use model::decisions::{DecisionsKey, DecisionsRecord, ExportedCluster, ExportedGroup};
use model::id::ClusterName;

/// Characters a label value may have.
///
/// Source: Kubernetes, "Labels and Selectors".
pub const LABEL_VALUE_MAX: usize = 63;

/// The value of [`DECISIONS`] that exports a cluster only after its rollout has reached it.
const ROLLED_OUT: &str = "rolled-out";

/// The exports of all placements.
pub type Exports = BTreeMap<DecisionsKey, Arc<DecisionsRecord>>;

/// A picked cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pick {
    /// The cluster.
    pub cluster: ClusterName,
    /// The reason, as text for users.
    pub reason: String,
    /// Whether the rollout has reached it: the cluster is bound to the newest snapshot, which is available there (or compared,
    /// if the placement only compares).
    pub reached: bool,
}

/// The decision about a placement, by either scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decided {
    /// The placement's annotations.
    pub annotations: BTreeMap<String, String>,
    /// Name and picked clusters of each decision group, in order; one group without a name if there are none.
    pub groups: Vec<(String, Vec<Pick>)>,
    /// Clusters that are no longer picked and whose deletions wait for a person.
    pub held: BTreeSet<ClusterName>,
}

/// Returns the decision about a ClusterResourcePlacement or ResourcePlacement; `None` if there is none yet, which differs from
/// a decision without clusters.
///
/// A placement that is gone from git picks nothing any more. Clusters that its deletion gate protects are held.
pub fn decided(view: &PlacementView) -> Option<Decided> {
    view.policy?;
    let picked = if view.record.removed { Vec::new() } else { view.picked() };
    let picks = picked.into_iter().map(|(decision, binding)| Pick {
        cluster: decision.cluster_name.clone(),
        reason: decision.reason.to_string(),
        reached: binding.is_some_and(|binding| view.has_newest(binding)),
    });
    let gate = view.record.closed_gate();
    Some(Decided {
        annotations: view.record.annotations.clone(),
        groups: vec![(String::new(), picks.collect())],
        held: gate.map(|gate| gate.deletions.keys().chain(&gate.leaving).cloned().collect()).unwrap_or_default(),
    })
}

/// Returns the export of a placement, without its label: clusters by name inside each group, without duplicates.
///
/// With `gitfleet.io/decisions: rolled-out` a cluster is exported once the rollout has reached it. A cluster in `before` stays
/// while it is picked, even if a newer snapshot is on its way to it, and until a person has approved its deletions: its
/// Applications would be deleted otherwise.
pub fn record(key: DecisionsKey, decided: &Decided, before: Option<&DecisionsRecord>) -> DecisionsRecord {
    let before: &[ExportedGroup] = before.map_or(&[], |record| record.groups.as_slice());
    let rolled_out = decided.annotations.get(DECISIONS).is_some_and(|value| value == ROLLED_OUT);
    let mut seen: BTreeSet<&ClusterName> =
        decided.groups.iter().flat_map(|(_, picks)| picks.iter().map(|pick| &pick.cluster)).collect();
    let mut held = Vec::new();
    for (index, group) in before.iter().enumerate() {
        for cluster in group.clusters.iter().filter(|c| decided.held.contains(&c.cluster_name)) {
            if seen.insert(&cluster.cluster_name) {
                held.push((index, cluster.clone()));
            }
        }
    }
    let mut listed = BTreeSet::new();
    let mut groups = Vec::with_capacity(decided.groups.len());
    for (name, picks) in &decided.groups {
        let wanted = picks.iter().filter(|pick| !rolled_out || pick.reached || is_listed(before, &pick.cluster));
        let clusters = wanted.filter(|pick| listed.insert(&pick.cluster));
        let exported =
            clusters.map(|pick| ExportedCluster { cluster_name: pick.cluster.clone(), reason: pick.reason.clone() });
        groups.push(ExportedGroup { name: name.clone(), clusters: exported.collect() });
    }
    if groups.is_empty() {
        groups.push(ExportedGroup::default());
    }
    let last = groups.len() - 1;
    for (index, cluster) in held {
        groups[index.min(last)].clusters.push(cluster);
    }
    for group in &mut groups {
        group.clusters.sort_by(|a, b| a.cluster_name.cmp(&b.cluster_name));
    }
    DecisionsRecord { key, label: None, problem: None, removed: false, groups }
}

fn is_listed(groups: &[ExportedGroup], cluster: &ClusterName) -> bool {
    groups.iter().flat_map(|group| &group.clusters).any(|listed| listed.cluster_name == *cluster)
}

/// Returns the export of a placement that is gone from everywhere: a decision without clusters.
pub fn removed(key: DecisionsKey) -> DecisionsRecord {
    DecisionsRecord { key, label: None, problem: None, removed: true, groups: vec![ExportedGroup::default()] }
}

/// Assigns each placement its label value, which is its name: if several have one name, the first by kind, namespace and name
/// gets it, placements that are gone last. The others get a reason instead. Names are never truncated: truncated names would
/// collide.
pub fn assign_labels(exports: &mut Exports) {
    let mut owners: BTreeMap<&str, &DecisionsKey> = BTreeMap::new();
    for wanted in [false, true] {
        for (key, _) in exports.iter().filter(|(_, record)| record.removed == wanted) {
            owners.entry(&key.name).or_insert(key);
        }
    }
    let owners: BTreeMap<String, DecisionsKey> =
        owners.into_iter().map(|(name, key)| (name.to_owned(), key.clone())).collect();
    for (key, record) in exports {
        let (label, problem) = label(key, &owners[&key.name]);
        if (&record.label, &record.problem) != (&label, &problem) {
            let record = Arc::make_mut(record);
            record.label = label;
            record.problem = problem;
        }
    }
}

fn label(key: &DecisionsKey, owner: &DecisionsKey) -> (Option<String>, Option<String>) {
    if key.name.len() > LABEL_VALUE_MAX {
        let length = key.name.len();
        let problem = format!(
            "{key} has no PlacementDecisions: its name has {length} characters, and the label that names it there may have \
             {LABEL_VALUE_MAX}; give it a shorter name, or read its decisions through the plugin generator"
        );
        return (None, Some(problem));
    }
    if key != owner {
        let problem = format!(
            "{key} has no PlacementDecisions: {owner} has the same name, which is the label of both; rename one of them, or \
             read its decisions through the plugin generator"
        );
        return (None, Some(problem));
    }
    (Some(key.name.clone()), None)
}

/// Tells whether an ApplicationSet reads pages with these labels and names through a ConfigMap, in a generator or in a
/// child of a matrix or merge generator.
///
/// An unreadable selector counts as matching: an unnecessary refresh costs nothing.
pub fn reads(application_set: &Value, config_map: &str, pages: &[(&str, BTreeMap<String, String>)]) -> bool {
    let generators = application_set.pointer("/spec/generators");
    generators.and_then(Value::as_array).into_iter().flatten().any(|g| generator_reads(g, config_map, pages))
}

fn generator_reads(generator: &Value, config_map: &str, pages: &[(&str, BTreeMap<String, String>)]) -> bool {
    let children = ["matrix", "merge"].iter().filter_map(|kind| generator.get(kind)?.get("generators")?.as_array());
    if children.flatten().any(|child| generator_reads(child, config_map, pages)) {
        return true;
    }
    let Some(resource) = generator.get("clusterDecisionResource") else { return false };
    if resource.get("configMapRef").and_then(Value::as_str) != Some(config_map) {
        return false;
    }
    if let Some(name) = resource.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()) {
        return pages.iter().any(|(page, _)| *page == name);
    }
    let selector = resource.get("labelSelector").cloned().unwrap_or_default();
    serde_json::from_value::<model::api::placement::LabelSelector>(selector)
        .map_or(true, |selector| pages.iter().any(|(_, labels)| selector.matches(labels)))
}

#[cfg(test)]
mod tests;
