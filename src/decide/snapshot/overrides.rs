//! Overrides: the only place where clusters' objects start to differ.
//!
//! [`Candidates`] are the overrides that apply to a placement's snapshot; [`Candidates::pick`] selects those with a rule for
//! one cluster, and the labels that decide. [`works_for_cluster`] renders the cluster's objects from the snapshot and this
//! selection only.
//!
//! Source: KubeFleet, fetching and applying of overrides.

mod patch;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::api::overrides::{OverrideRule, OverrideType, PlacementRef, PlacementScope};
use model::id::{ClusterName, ObjectId, ObjectKey, PlacementKey};
use model::manifest::{Manifest, malformed_metadata};
use model::overrides::{OverrideRef, OverrideSnapshot, OverrideSpec, PickedOverrides};

/// The overrides that apply to a placement's objects, in order of application.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    cluster: Vec<OverrideCandidate>,
    namespaced: Vec<OverrideCandidate>,
}

/// One of them, read once for all clusters.
#[derive(Clone, Debug)]
struct OverrideCandidate {
    snapshot: Arc<OverrideSnapshot>,
    /// The keys of labels that select its rules for a cluster.
    selector_keys: BTreeSet<String>,
    /// The keys of labels in the values of each rule, before the cluster's name is inserted.
    value_keys: Vec<Vec<String>>,
}

impl OverrideCandidate {
    fn new(snapshot: &Arc<OverrideSnapshot>) -> Self {
        let rules = rules(snapshot);
        Self {
            snapshot: Arc::clone(snapshot),
            selector_keys: rules.iter().flat_map(selector_keys).collect(),
            value_keys: rules.iter().map(value_keys).collect(),
        }
    }

    /// Picks it for a cluster if one of its rules applies, and records the keys of the relevant labels.
    fn pick<'a>(
        &'a self,
        cluster: &ClusterName,
        labels: &BTreeMap<String, String>,
        keys: &mut BTreeSet<Cow<'a, str>>,
    ) -> Option<OverrideRef> {
        let rules = rules(&self.snapshot).iter().zip(&self.value_keys);
        let mut fitting = rules.filter(|(rule, _)| fits_rule(rule, labels)).peekable();
        // Without a matching rule no label is recorded: a label that makes a rule match changes the pick by itself.
        fitting.peek()?;
        // Also those of rules that do not match: later only the recorded labels tell which rules apply.
        keys.extend(self.selector_keys.iter().map(|key| Cow::Borrowed(key.as_str())));
        keys.extend(fitting.flat_map(|(_, keys)| keys).map(|key| patch::key_on(key, cluster)));
        Some(self.snapshot.id.clone())
    }
}

impl Candidates {
    /// Finds the newest snapshots of overrides that apply to the placement, by name or to all, and select one of its delivered
    /// objects. A ClusterResourceOverride of a Namespace applies to everything in it.
    pub fn of<'a>(
        newest: impl Iterator<Item = &'a Arc<OverrideSnapshot>>,
        placement: &PlacementKey,
        manifests: impl Iterator<Item = &'a Manifest>,
    ) -> Self {
        let mut found = Self::default();
        let mut objects = None;
        let mut manifests = Some(manifests);
        for snapshot in newest.filter(|snapshot| is_for(snapshot, placement)) {
            // Created lazily, because most placements have no override.
            let objects = objects.get_or_insert_with(|| Objects::of(manifests.take().into_iter().flatten()));
            if !objects.has_one_of(snapshot) {
                continue;
            }
            match snapshot.spec {
                OverrideSpec::Cluster(_) => found.cluster.push(OverrideCandidate::new(snapshot)),
                OverrideSpec::Namespaced(_) => found.namespaced.push(OverrideCandidate::new(snapshot)),
            }
        }
        found.cluster.sort_by_cached_key(|candidate| candidate.snapshot.id.name());
        found.namespaced.sort_by_cached_key(|candidate| {
            (candidate.snapshot.id.key.namespace.clone(), candidate.snapshot.id.name())
        });
        found
    }

    /// Returns the overrides that may apply.
    pub fn ids(&self) -> impl Iterator<Item = &OverrideRef> {
        self.cluster.iter().chain(&self.namespaced).map(|candidate| &candidate.snapshot.id)
    }

    /// Tells whether no override applies to the placement.
    pub fn is_empty(&self) -> bool {
        self.cluster.is_empty() && self.namespaced.is_empty()
    }

    /// Picks those with at least one rule for a cluster of this name and these labels, with the labels that select their rules
    /// or appear in their values.
    pub fn pick(&self, name: &ClusterName, labels: &BTreeMap<String, String>) -> PickedOverrides {
        let mut keys = BTreeSet::new();
        let cluster = self.cluster.iter().filter_map(|candidate| candidate.pick(name, labels, &mut keys)).collect();
        let namespaced =
            self.namespaced.iter().filter_map(|candidate| candidate.pick(name, labels, &mut keys)).collect();
        let labels = keys.iter().filter_map(|key| labels.get_key_value(key.as_ref()));
        PickedOverrides {
            cluster,
            namespaced,
            labels: labels.map(|(key, value)| (key.clone(), value.clone())).collect(),
            variant: None,
        }
    }
}

/// What can be selected of a placement's objects.
struct Objects<'a> {
    ids: BTreeSet<&'a ObjectId>,
    namespaces: BTreeSet<&'a str>,
}

impl<'a> Objects<'a> {
    fn of(manifests: impl Iterator<Item = &'a Manifest>) -> Self {
        let ids: BTreeSet<&ObjectId> = manifests.map(|manifest| &manifest.id).collect();
        let namespaces = ids.iter().map(|id| id.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        Self { namespaces: namespaces.collect(), ids }
    }

    fn has_one_of(&self, snapshot: &OverrideSnapshot) -> bool {
        self.hits(snapshot).any(|hit| hit)
    }

    /// Tells of each selector of an override whether it selects one of the objects.
    fn hits<'b>(&'b self, snapshot: &OverrideSnapshot) -> impl Iterator<Item = bool> + 'b {
        let selected = snapshot.selected().1.into_iter();
        selected.map(move |id| self.ids.contains(&id) || self.is_whole_namespace(&id))
    }

    /// Tells whether an override's selector is a Namespace, and stands for the objects in it.
    fn is_whole_namespace(&self, selected: &ObjectId) -> bool {
        is_namespace(&selected.group, &selected.version, &selected.kind)
            && selected.namespace.is_empty()
            && self.namespaces.contains(selected.name.as_str())
    }
}

/// Tells of each selector of an override whether it selects one of a placement's delivered objects.
pub fn selectors_that_hit<'a>(snapshot: &OverrideSnapshot, manifests: impl Iterator<Item = &'a Manifest>) -> Vec<bool> {
    Objects::of(manifests).hits(snapshot).collect()
}

fn is_namespace(group: &str, version: &str, kind: &str) -> bool {
    (group, version, kind) == ("", "v1", "Namespace")
}

/// Tells whether an override applies to a placement. One in a namespace names a ResourcePlacement of its own namespace.
fn is_for(snapshot: &OverrideSnapshot, placement: &PlacementKey) -> bool {
    let named = match &snapshot.spec {
        OverrideSpec::Cluster(spec) => spec.placement.as_ref(),
        OverrideSpec::Namespaced(spec) => spec.placement.as_ref(),
    };
    named.is_none_or(|PlacementRef { name, scope }| {
        let namespace = match scope {
            PlacementScope::Cluster => None,
            PlacementScope::Namespaced => snapshot.id.key.namespace.as_ref(),
        };
        *name == placement.name && namespace == placement.namespace.as_ref()
    })
}

fn rules(snapshot: &OverrideSnapshot) -> &[OverrideRule] {
    match &snapshot.spec {
        OverrideSpec::Cluster(spec) => &spec.policy.override_rules,
        OverrideSpec::Namespaced(spec) => &spec.policy.override_rules,
    }
}

/// Tells whether a rule applies to clusters with these labels: no selector matches none, no terms match all, a term without a
/// label selector matches none.
pub fn fits_rule(rule: &OverrideRule, labels: &BTreeMap<String, String>) -> bool {
    rule.cluster_selector.as_ref().is_some_and(|selector| {
        let terms = &selector.cluster_selector_terms;
        terms.is_empty() || terms.iter().any(|t| t.label_selector.as_ref().is_some_and(|s| s.matches(labels)))
    })
}

/// Returns the label keys that select a rule for a cluster.
fn selector_keys(rule: &OverrideRule) -> impl Iterator<Item = String> {
    let terms = rule.cluster_selector.iter().flat_map(|selector| &selector.cluster_selector_terms);
    let selectors = terms.filter_map(|term| term.label_selector.as_ref());
    selectors.flat_map(|s| s.match_labels.keys().chain(s.match_expressions.iter().map(|e| &e.key))).cloned()
}

/// Returns the keys of labels in the values of a rule.
fn value_keys(rule: &OverrideRule) -> Vec<String> {
    rule.json_patch_overrides.iter().flat_map(patch::label_keys).collect()
}

/// Tells whether an override changes an object.
fn changes(snapshot: &OverrideSnapshot, id: &ObjectId) -> bool {
    match &snapshot.spec {
        OverrideSpec::Cluster(spec) if id.namespace.is_empty() => {
            spec.cluster_resource_selectors.iter().any(|s| is_named(id, &s.group, &s.version, &s.kind, &s.name))
        }
        // A selected Namespace stands for all objects in it.
        OverrideSpec::Cluster(spec) => spec
            .cluster_resource_selectors
            .iter()
            .any(|s| is_namespace(&s.group, &s.version, &s.kind) && s.name == id.namespace),
        OverrideSpec::Namespaced(spec) => {
            snapshot.id.key.namespace.as_deref() == Some(id.namespace.as_str())
                && spec.resource_selectors.iter().any(|s| is_named(id, &s.group, &s.version, &s.kind, &s.name))
        }
    }
}

/// Tells whether an object has this type and name, in any namespace.
fn is_named(id: &ObjectId, group: &str, version: &str, kind: &str, name: &str) -> bool {
    id.group == group && id.version == version && id.kind == kind && id.name == name
}

/// Returns the objects of one cluster, in the order of `manifests`; borrowed if no override changes one.
///
/// On each object first all picked ClusterResourceOverrides act, then all ResourceOverrides; of each override all rules for the
/// cluster, from the first to the last, so that the last write wins. Patches of one rule act together or not at all. A deleted
/// object stays deleted: later overrides ignore it.
///
/// # Errors
/// The override, rule and operation that failed, and its object, as text for users and without any value; the cluster then
/// keeps its objects.
pub fn works_for_cluster<'a, 's>(
    manifests: &'a [Manifest],
    cluster: &ClusterName,
    picked: &PickedOverrides,
    lookup: impl Fn(&OverrideRef) -> Option<&'s OverrideSnapshot>,
) -> Result<Cow<'a, [Manifest]>, String> {
    let mut picked_snapshots = Vec::new();
    for id in picked.cluster.iter().chain(&picked.namespaced) {
        let Some(snapshot) = lookup(id) else {
            // Without the snapshot the object would be delivered without its override.
            return Err(format!("the snapshot {} of an override is gone; change the override", id.name()));
        };
        picked_snapshots.push(snapshot);
    }
    if !manifests.iter().any(|manifest| picked_snapshots.iter().any(|snapshot| changes(snapshot, &manifest.id))) {
        return Ok(Cow::Borrowed(manifests));
    }
    let mut works = Vec::with_capacity(manifests.len());
    for manifest in manifests {
        let concerned = picked_snapshots.iter().filter(|snapshot| changes(snapshot, &manifest.id));
        works.extend(overridden(manifest, concerned.copied(), cluster, &picked.labels)?);
    }
    Ok(Cow::Owned(works))
}

/// Returns the objects that picked overrides delete on a cluster. It needs no content, so it also works for snapshots with an
/// unread payload.
pub fn left_out<'a, 's>(
    ids: impl IntoIterator<Item = &'a ObjectId>,
    picked: &PickedOverrides,
    lookup: impl Fn(&OverrideRef) -> Option<&'s OverrideSnapshot>,
) -> BTreeSet<ObjectKey> {
    let snapshots = picked.cluster.iter().chain(&picked.namespaced).filter_map(lookup);
    let deleting: Vec<&OverrideSnapshot> = snapshots.filter(|snapshot| deletes(snapshot, &picked.labels)).collect();
    if deleting.is_empty() {
        return BTreeSet::new();
    }
    let left_out = ids.into_iter().filter(|id| deleting.iter().any(|snapshot| changes(snapshot, id)));
    left_out.map(ObjectId::key).collect()
}

/// Tells whether an override deletes what it selects on a cluster with these labels.
fn deletes(snapshot: &OverrideSnapshot, labels: &BTreeMap<String, String>) -> bool {
    rules(snapshot).iter().any(|rule| rule.override_type == OverrideType::Delete && fits_rule(rule, labels))
}

/// Applies overrides to one object; `None` if one of them deletes it.
fn overridden<'s>(
    manifest: &Manifest,
    overrides: impl Iterator<Item = &'s OverrideSnapshot>,
    cluster: &ClusterName,
    labels: &BTreeMap<String, String>,
) -> Result<Option<Manifest>, String> {
    let mut manifest = manifest.clone();
    for snapshot in overrides {
        for (position, rule) in rules(snapshot).iter().enumerate().filter(|(_, rule)| fits_rule(rule, labels)) {
            if rule.override_type == OverrideType::Delete {
                return Ok(None);
            }
            // Copied at the first change: until then all clusters share the object.
            let object = Arc::make_mut(&mut manifest.object);
            let patches = &rule.json_patch_overrides;
            patch::apply(object, patches, cluster, labels).map_err(|failure| {
                let op = patch::operation_name(failure.patch.op);
                let path = &failure.patch.path;
                format!(
                    "{} rule {}: {op} {path} on {}: {}",
                    described(snapshot),
                    position + 1,
                    manifest.id,
                    failure.why
                )
            })?;
            if ObjectId::of(object).as_ref() != Some(&manifest.id) {
                let rule = position + 1;
                let id = &manifest.id;
                let why = "group, version, kind, namespace and name cannot be overridden";
                return Err(format!("{} rule {rule}: it makes another object of {id}; {why}", described(snapshot)));
            }
            if let Some((field, why)) = malformed_metadata(object) {
                let rule = position + 1;
                let id = &manifest.id;
                return Err(format!("{} rule {rule}: it leaves {field} of {id} unusable: {why}", described(snapshot)));
            }
        }
    }
    Ok(Some(manifest))
}

/// Names an override with its kind.
fn described(snapshot: &OverrideSnapshot) -> String {
    match &snapshot.id.key.namespace {
        Some(namespace) => format!("ResourceOverride {namespace}/{}", snapshot.id.key.name),
        None => format!("ClusterResourceOverride {}", snapshot.id.key.name),
    }
}
