//! KubeFleet's placements: from exported snapshots and bindings to a policy snapshot with status.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::baseline::exported;
use super::complain;
use decide::ocm::{key_named, reason};
use decide::snapshot::{policy_hash, scheduled_policy};
use model::api::FieldError;
use model::api::annotations::OCM_PLACEMENT;
use model::api::object::Metadata;
use model::api::placement::{ApplyStrategy, PlacementPolicy, PlacementType};
use model::api::scheduling::{
    BindingObject, LATEST_LABEL, PARENT_LABEL, POLICY_INDEX_LABEL, PREVIOUS_STATE_ANNOTATION, PolicySnapshotObject,
};
use model::api::table::PLACEMENT_GROUP;
use model::id::{ClusterName, ObjectId, PlacementKey};
use model::manifest::{InputError, Manifest};
use model::overrides::PickedOverrides;
use model::records::{Binding, BindingState, ClusterDecision, PolicySnapshot};
use model::tree::Tree;
use model::yaml;
use schedule::ocm::Key;
use schedule::{BadValues, Request};
use views::objects::policy_snapshot_object;

/// Index of bindings whose policy snapshot is not the latest: they are evaluated again, whichever it was.
const OTHER_POLICY: u64 = u64::MAX;

/// A placement's policy, and its current snapshot.
struct InForce {
    policy: Option<PlacementPolicy>,
    index: u64,
    name: String,
}

/// Returns the policy snapshot of every ClusterResourcePlacement and ResourcePlacement, by key, with its status.
///
/// # Errors
/// Every unreadable snapshot and binding, and every placement whose scheduling fails.
pub(super) fn policy_snapshots(
    tree: &Tree,
    decided: &BTreeMap<Key, BTreeMap<ClusterName, String>>,
    now: Timestamp,
) -> Result<Vec<Value>, Vec<InputError>> {
    let mut errors = Vec::new();
    let kept: Kept<PolicySnapshotObject> = Kept::read(tree, "SchedulingPolicySnapshot", &mut errors, snapshot_owner);
    let bindings: Kept<BindingObject> = Kept::read(tree, "ResourceBinding", &mut errors, binding_owner);
    let clusters = exported(tree, false, now);
    let with_managed = exported(tree, true, now);
    let mut objects = Vec::new();
    for manifest in tree.inputs.iter().filter(|m| is_placement(m)) {
        let key = PlacementKey::of_namespace(&manifest.id.namespace, &manifest.id.name);
        let metadata: Metadata = metadata(manifest);
        if metadata.deletion_timestamp.is_some() {
            continue;
        }
        let policy = match policy(&key, tree, kept.of(&key)) {
            Ok(policy) => policy,
            Err((of, error)) => {
                errors.push(complain(of, error));
                continue;
            }
        };
        let own = bindings.of(&key).iter().map(|(_, object)| {
            let member = tree.clusters.get(object.spec.target_cluster.as_str());
            Arc::new(binding(&key, &policy, object, member.is_some_and(|member| member.deleting)))
        });
        let own: Vec<Arc<Binding>> = own.collect();
        let delegated = match delegated(tree, &key, decided) {
            Ok(delegated) => delegated,
            Err(error) => {
                errors.push(complain(manifest, error));
                continue;
            }
        };
        let request = Request {
            placement: &key,
            policy: policy.policy.as_ref(),
            policy_index: policy.index,
            // An OCM Placement may pick a ManagedCluster that has no MemberCluster.
            clusters: if delegated.is_some() { &with_managed } else { &clusters },
            bindings: &own,
            // As on a hub: a cluster with the placement is evaluated like any other.
            keep_held: false,
            // KubeFleet ends the whole cycle if a property is no quantity.
            bad_values: BadValues::Error,
            tenant: None,
        };
        match scheduled(&request, &policy.name, delegated.as_ref(), metadata.generation.unwrap_or(1), now) {
            Ok(object) => objects.push(object),
            Err(error) => errors.push(complain(manifest, error)),
        }
    }
    if errors.is_empty() { Ok(objects) } else { Err(errors) }
}

/// Returns the clusters that an OCM Placement picked for a placement, with the reason; `None` where it has its own policy.
fn delegated(
    tree: &Tree,
    key: &PlacementKey,
    decided: &BTreeMap<Key, BTreeMap<ClusterName, String>>,
) -> Result<Option<BTreeMap<ClusterName, String>>, FieldError> {
    let annotations = tree.placements.get(key).map(|placement| &placement.annotations);
    let Some(name) = annotations.and_then(|annotations| annotations.get(OCM_PLACEMENT)) else { return Ok(None) };
    let Some(clusters) = key_named(name).and_then(|key| decided.get(&key)) else {
        let message = format!("there are no decisions of an OCM Placement {name}");
        return Err(FieldError::new(format!("metadata.annotations.{OCM_PLACEMENT}"), message).hint("add the Placement"));
    };
    Ok(Some(clusters.iter().map(|(cluster, group)| (cluster.clone(), reason(name, group))).collect()))
}

fn scheduled(
    request: &Request<'_>,
    name: &str,
    delegated: Option<&BTreeMap<ClusterName, String>>,
    generation: i64,
    now: Timestamp,
) -> Result<Value, FieldError> {
    let policy = request.policy;
    let skipped = policy
        .is_some_and(|policy| policy.placement_type == PlacementType::PickFixed && policy.cluster_names.is_empty());
    let outcome = match delegated {
        Some(clusters) => schedule::schedule_decided(request, clusters),
        None if skipped => Ok(schedule::Outcome::default()),
        None => schedule::schedule(request),
    };
    let outcome = outcome.map_err(|error| FieldError::new("", error.to_string()))?;
    let snapshot = PolicySnapshot {
        placement: request.placement.clone(),
        index: request.policy_index,
        hash: policy_hash(policy),
        number_of_clusters: match delegated {
            Some(clusters) => i32::try_from(clusters.len()).ok(),
            None => policy.and_then(|p| p.number_of_clusters),
        },
        policy: policy.cloned(),
        observed_generation: generation,
        fulfilled: outcome.fulfilled,
        target_clusters: outcome.decisions,
        created_at: now,
    };
    let mut object = policy_snapshot_object(&snapshot, true);
    object["metadata"]["name"] = json!(name);
    if skipped && let Some(status) = object["status"].as_object_mut() {
        // KubeFleet skips the cycle of a PickFixed policy without names, and never writes a status.
        status.clear();
    }
    Ok(object)
}

/// Returns the policy to schedule: the latest snapshot if its policy is the same, else a new one.
fn policy<'m>(
    key: &PlacementKey,
    tree: &Tree,
    snapshots: &[(&'m Manifest, PolicySnapshotObject)],
) -> Result<InForce, (&'m Manifest, FieldError)> {
    let policy = scheduled_policy(key, tree.placements.get(key).and_then(|placement| placement.spec.policy.as_ref()));
    let mut by_index = BTreeMap::new();
    for (manifest, object) in snapshots {
        by_index.insert(index(object).map_err(|error| (*manifest, error))?, (*manifest, object));
    }
    let is_latest =
        |object: &PolicySnapshotObject| object.metadata.labels.get(LATEST_LABEL).is_some_and(|value| value == "true");
    let mut marked = by_index.iter().filter(|(_, (_, object))| is_latest(object));
    let latest = match (marked.next(), marked.next()) {
        (Some(_), Some((_, (manifest, _)))) => {
            let message = format!("a second policy snapshot of placement {key} is labelled as the latest");
            let error = FieldError::new(format!("metadata.labels.{LATEST_LABEL}"), message);
            return Err((*manifest, error.hint("label one of them \"false\"")));
        }
        (Some(marked), None) => Some(marked),
        _ => by_index.last_key_value(),
    };
    if let Some((&index, (_, object))) = latest {
        let before = scheduled_policy(key, object.spec.policy.as_ref());
        if policy_hash(before.as_ref()) == policy_hash(policy.as_ref()) {
            return Ok(InForce { policy, index, name: object.metadata.name.clone() });
        }
    }
    // After the highest of all, labelled or not: a hub may hold newer snapshots than the one in use.
    let index = by_index.last_key_value().map_or(0, |(index, _)| index + 1);
    Ok(InForce { policy, index, name: format!("{}-{index}", key.name) })
}

fn index(snapshot: &PolicySnapshotObject) -> Result<u64, FieldError> {
    let metadata = &snapshot.metadata;
    let text = match metadata.labels.get(POLICY_INDEX_LABEL) {
        Some(text) => text,
        None => metadata.name.rsplit_once('-').map_or("", |(_, index)| index),
    };
    text.parse().map_err(|_| {
        let message = format!("{text:?} is no index; the name ends with one, or this label holds it");
        FieldError::new(format!("metadata.labels.{POLICY_INDEX_LABEL}"), message)
    })
}

/// Returns a binding for scheduling. KubeFleet first unschedules a binding whose cluster is `leaving`.
fn binding(key: &PlacementKey, policy: &InForce, object: &BindingObject, leaving: bool) -> Binding {
    let BindingObject { metadata, spec } = object;
    let previous = match metadata.annotations.get(PREVIOUS_STATE_ANNOTATION).map(String::as_str) {
        Some("Bound") => Some(BindingState::Bound),
        Some("Scheduled") => Some(BindingState::Scheduled),
        _ => None,
    };
    let cluster = ClusterName::new(spec.target_cluster.as_str());
    let current = spec.scheduling_policy_snapshot_name == policy.name;
    Binding {
        name: metadata.name.clone(),
        placement: key.clone(),
        cluster: cluster.clone(),
        state: if leaving { BindingState::Unscheduled } else { spec.state },
        previous_state: if leaving { previous.or(Some(spec.state)) } else { previous },
        policy_index: if current { policy.index } else { OTHER_POLICY },
        decision: ClusterDecision {
            cluster_name: cluster,
            selected: true,
            cluster_score: spec.cluster_decision.cluster_score,
            reason: spec.cluster_decision.reason.as_str().into(),
        },
        snapshot: None,
        removes: std::collections::BTreeSet::new(),
        abandons: false,
        apply_strategy: ApplyStrategy::default(),
        overrides: PickedOverrides::default(),
        created_at: None,
        started_at: None,
        generation: metadata.generation.unwrap_or(1),
        conditions: Vec::new(),
        deleting: metadata.deletion_timestamp.is_some(),
    }
}

/// The objects of placements on a hub, by placement, sorted by name.
struct Kept<'m, T> {
    by_placement: BTreeMap<PlacementKey, Vec<(&'m Manifest, T)>>,
}

impl<'m, T: DeserializeOwned> Kept<'m, T> {
    /// Reads the cluster-scoped and the namespaced kind of a name. An object that belongs to no placement is an error.
    fn read(
        tree: &'m Tree,
        kind: &str,
        errors: &mut Vec<InputError>,
        owner: fn(&T) -> Result<String, FieldError>,
    ) -> Self {
        let mut by_placement: BTreeMap<PlacementKey, Vec<(&Manifest, T)>> = BTreeMap::new();
        for manifest in &tree.inputs {
            let ObjectId { group, kind: found, .. } = &manifest.id;
            if *group != PLACEMENT_GROUP || found.strip_prefix("Cluster").unwrap_or(found) != kind {
                continue;
            }
            let read = yaml::typed::<T>(&manifest.object).and_then(|object| match owner(&object) {
                Ok(name) => Ok((name, object)),
                Err(error) => Err(vec![error]),
            });
            match read {
                Ok((name, object)) => {
                    let key = PlacementKey::of_namespace(&manifest.id.namespace, &name);
                    by_placement.entry(key).or_default().push((manifest, object));
                }
                Err(found) => errors.extend(found.into_iter().map(|error| complain(manifest, error))),
            }
        }
        Self { by_placement }
    }

    fn of(&self, key: &PlacementKey) -> &[(&'m Manifest, T)] {
        self.by_placement.get(key).map_or(&[], Vec::as_slice)
    }
}

fn snapshot_owner(object: &PolicySnapshotObject) -> Result<String, FieldError> {
    owner(&object.metadata, &object.metadata.name)
}

fn binding_owner(object: &BindingObject) -> Result<String, FieldError> {
    owner(&object.metadata, &object.spec.scheduling_policy_snapshot_name)
}

/// Returns the placement in the label; without it, the one whose policy snapshot has this name.
fn owner(metadata: &Metadata, snapshot: &str) -> Result<String, FieldError> {
    if let Some(name) = metadata.labels.get(PARENT_LABEL) {
        return Ok(name.clone());
    }
    match snapshot.rsplit_once('-') {
        Some((name, index)) if !name.is_empty() && index.parse::<u64>().is_ok() => Ok(name.to_owned()),
        _ => {
            let error = FieldError::new(format!("metadata.labels.{PARENT_LABEL}"), "required and missing");
            Err(error.hint("name the placement that this belongs to"))
        }
    }
}

fn is_placement(manifest: &Manifest) -> bool {
    manifest.id.group == PLACEMENT_GROUP
        && matches!(manifest.id.kind.as_str(), "ClusterResourcePlacement" | "ResourcePlacement")
}

fn metadata(manifest: &Manifest) -> Metadata {
    let metadata = manifest.object.get("metadata");
    metadata.and_then(|metadata| serde_json::from_value(metadata.clone()).ok()).unwrap_or_default()
}
