//! Documents of a commit that name what is not there and so do nothing: runs, budgets, evictions and overrides. They refuse
//! nothing; `validate`, `plan` and `status` show them.

use std::collections::BTreeMap;

use crate::snapshot::{enveloped, fits_rule, select, selectors_that_hit};
use crate::state::FleetState;
use model::api::overrides::{PlacementRef, PlacementScope};
use model::api::table::PLACEMENT_GROUP;
use model::id::{ClusterName, ObjectId, PlacementKey};
use model::manifest::{InputError, Manifest};
use model::overrides::{OverrideKey, OverrideSnapshot, OverrideSpec};
use model::text::suggest;
use model::tree::{Placement, Tree};

/// Returns a warning for each of them.
pub fn without_effect(fleet: &FleetState) -> Vec<InputError> {
    let tree = &*fleet.tree;
    let mut warnings: Vec<InputError> = fleet.staged.orphans(tree).collect();
    let origins = fleet.tree.inputs.iter().filter(|manifest| manifest.id.group == PLACEMENT_GROUP);
    for manifest in origins.clone() {
        match manifest.id.kind.as_str() {
            "ClusterResourcePlacementEviction" => eviction(tree, manifest, &mut warnings),
            "ClusterResourcePlacementDisruptionBudget" => warnings.extend(budget(tree, manifest)),
            _ => {}
        }
    }
    let overrides = origins.filter(|manifest| manifest.id.kind.ends_with("Override"));
    let documents: BTreeMap<OverrideKey, &Manifest> = overrides
        .map(|manifest| {
            let namespace = Some(manifest.id.namespace.clone()).filter(|namespace| !namespace.is_empty());
            (OverrideKey { namespace, name: manifest.id.name.clone() }, manifest)
        })
        .collect();
    let mut delivered = Delivered { tree, objects: BTreeMap::new() };
    for snapshot in fleet.overrides.newest() {
        let Some(manifest) = documents.get(&snapshot.id.key) else { continue };
        delivered.check(snapshot, manifest, &mut warnings);
        warnings.extend(clusters(tree, snapshot, manifest));
    }
    warnings.sort();
    warnings
}

fn warning(manifest: &Manifest, field: &str, message: String, hint: Option<String>) -> InputError {
    InputError {
        path: manifest.origin.path.to_string(),
        line: manifest.origin.line,
        object: Some(manifest.id.to_string()),
        field: Some(field.to_owned()),
        message,
        hint,
    }
}

fn text<'a>(manifest: &'a Manifest, pointer: &str) -> &'a str {
    manifest.object.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default()
}

/// Says that the source has no placement of this name, unless it has; `consequence` follows.
fn missing_placement(
    tree: &Tree,
    (manifest, field): (&Manifest, &str),
    key: &PlacementKey,
    consequence: &str,
) -> Option<InputError> {
    if tree.placements.contains_key(key) {
        return None;
    }
    let message = format!("the source has no {} {key}, so {consequence}", key.kind());
    let like = tree.placements.keys().filter(|other| other.namespace == key.namespace);
    let near = suggest(&key.name, like.map(|other| other.name.as_str()));
    Some(warning(manifest, field, message, near.map(|near| format!("did you mean `{near}`?"))))
}

/// A budget protects the placement of its own name.
fn budget(tree: &Tree, manifest: &Manifest) -> Option<InputError> {
    let key = PlacementKey::cluster_scoped(manifest.id.name.as_str());
    missing_placement(tree, (manifest, "metadata.name"), &key, "the budget protects nothing")
}

fn eviction(tree: &Tree, manifest: &Manifest, warnings: &mut Vec<InputError>) {
    let key = PlacementKey::cluster_scoped(text(manifest, "/spec/placementName"));
    warnings.extend(missing_placement(tree, (manifest, "spec.placementName"), &key, "nothing is evicted"));
    let cluster = text(manifest, "/spec/clusterName");
    // A folder without any cluster is a part of a source.
    if !tree.clusters.is_empty() && !tree.clusters.contains_key(cluster) {
        let message = format!("the source has no cluster {cluster}, so nothing is evicted");
        let near = suggest(cluster, tree.clusters.keys().map(ClusterName::as_str));
        let hint = near.map(|near| format!("did you mean `{near}`?"));
        warnings.push(warning(manifest, "spec.clusterName", message, hint));
    }
}

/// Names the rules of an override that fit no cluster.
fn clusters(tree: &Tree, snapshot: &OverrideSnapshot, manifest: &Manifest) -> Vec<InputError> {
    if tree.clusters.is_empty() {
        return Vec::new();
    }
    let rules = match &snapshot.spec {
        OverrideSpec::Cluster(spec) => &spec.policy.override_rules,
        OverrideSpec::Namespaced(spec) => &spec.policy.override_rules,
    };
    let mut warnings = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        if tree.clusters.values().any(|cluster| fits_rule(rule, &cluster.labels)) {
            continue;
        }
        let message = match rule.cluster_selector {
            Some(_) => "fits no cluster of the source, so the rule overrides nothing",
            None => "is missing, so the rule fits no cluster and overrides nothing",
        };
        let field = format!("spec.policy.overrideRules[{index}].clusterSelector");
        warnings.push(warning(manifest, &field, message.to_owned(), None));
    }
    warnings
}

/// The objects that placements deliver, looked up once for each placement that an override needs.
struct Delivered<'a> {
    tree: &'a Tree,
    /// `None` where it is not known: the selection fails, or each cluster has its own.
    objects: BTreeMap<&'a PlacementKey, Option<Vec<Manifest>>>,
}

impl Delivered<'_> {
    /// Names the placement of an override if it is missing, else the objects that none of its placements delivers.
    fn check(&mut self, snapshot: &OverrideSnapshot, manifest: &Manifest, warnings: &mut Vec<InputError>) {
        let tree = self.tree;
        let named = named_placement(snapshot);
        if let Some(key) = &named {
            let of = (manifest, "spec.placement.name");
            if let Some(missing) = missing_placement(tree, of, key, "nothing is overridden") {
                return warnings.push(missing);
            }
        }
        let (list, selected) = snapshot.selected();
        let mut hit = vec![false; selected.len()];
        for placement in tree.placements.values().filter(|placement| {
            named.as_ref().is_none_or(|key| *key == placement.key) && snapshot.concerns(placement.folder())
        }) {
            let unhit = selected.iter().zip(&hit).filter(|(_, hit)| !**hit);
            if unhit.clone().count() == 0 {
                return;
            }
            let may_hold_any = unhit.map(|(id, _)| id).any(|id| may_select(placement, id));
            if !may_hold_any && !selects_envelopes(placement) {
                continue;
            }
            let Some(objects) = self.objects.entry(&placement.key).or_insert_with(|| delivered(tree, placement)) else {
                return;
            };
            for (hit, new) in hit.iter_mut().zip(selectors_that_hit(snapshot, objects.iter())) {
                *hit |= new;
            }
        }
        for (index, (id, _)) in selected.iter().zip(&hit).enumerate().filter(|(_, (_, hit))| !**hit) {
            let (message, advice) = described(tree, id, named.as_ref());
            warnings.push(warning(manifest, &format!("spec.{list}[{index}]"), message, advice));
        }
    }
}

fn named_placement(snapshot: &OverrideSnapshot) -> Option<PlacementKey> {
    let named = match &snapshot.spec {
        OverrideSpec::Cluster(spec) => spec.placement.as_ref(),
        OverrideSpec::Namespaced(spec) => spec.placement.as_ref(),
    };
    named.map(|PlacementRef { name, scope }| PlacementKey {
        namespace: match scope {
            PlacementScope::Namespaced => snapshot.id.key.namespace.clone(),
            PlacementScope::Cluster => None,
        },
        name: name.clone(),
    })
}

fn selects_envelopes(placement: &Placement) -> bool {
    placement.spec.resource_selectors.iter().any(|selector| selector.kind.ends_with("Envelope"))
}

/// Tells whether the selectors of a placement may lead to an object: those that cannot are most, and need no selection.
fn may_select(placement: &Placement, id: &ObjectId) -> bool {
    // An override of a Namespace is also one of what is in it.
    let namespace = if id.kind == "Namespace" && id.group.is_empty() { &id.name } else { &id.namespace };
    if placement.key.namespace.as_ref().is_some_and(|own| own != namespace) {
        return false;
    }
    placement.spec.resource_selectors.iter().any(|selector| {
        let is_of = |name: &str| selector.name.is_empty() || selector.name == name;
        let is_namespace = selector.group.is_empty() && selector.kind == "Namespace";
        (is_namespace && is_of(namespace))
            || (selector.group == id.group && selector.kind == id.kind && is_of(&id.name))
            // It selects what is in the Namespace.
            || (id.kind == "Namespace" && placement.key.namespace.is_some())
    })
}

/// Returns what a placement delivers to clusters without overrides; `None` where that is not known.
fn delivered(tree: &Tree, placement: &Placement) -> Option<Vec<Manifest>> {
    if placement.renders_for_cluster() {
        return None;
    }
    let mut manifests = select(tree, placement).ok()?;
    manifests.extend(enveloped(&manifests, &placement.key).ok()?);
    Some(manifests)
}

/// Says why an object is not overridden.
fn described(tree: &Tree, id: &ObjectId, placement: Option<&PlacementKey>) -> (String, Option<String>) {
    let of_kind = tree.of_kind(&id.group, &id.kind);
    let there = of_kind.filter(|found| found.id.namespace == id.namespace || found.id.namespace.is_empty());
    let there: Vec<&Manifest> = there.collect();
    let Some(found) = there.iter().find(|found| found.id.name == id.name) else {
        let near = suggest(&id.name, there.iter().map(|found| found.id.name.as_str()));
        let hint = near.map(|near| format!("did you mean `{near}`?"));
        return (format!("the source has no {id}, so nothing is overridden"), hint);
    };
    if found.id.version != id.version {
        let message = format!("{id} has version {} in the source, so nothing is overridden", found.id.version);
        return (message, Some(format!("write version: {}", found.id.version)));
    }
    let message = match placement {
        Some(placement) => format!("{} {placement} does not deliver {id}, so nothing is overridden", placement.kind()),
        None => format!("no placement delivers {id}, so nothing is overridden"),
    };
    (message, None)
}
