//! Records as objects of KubeFleet's API, for `get -o json|yaml` and for tables.
//!
//! Payload stays in git: resource snapshots and works list identities, with commit, file and line as annotations.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

use decide::status::binding::binding_lists;
use decide::status::placement::{PlacementView, placement_status};
use decide::status::work::{Mode, manifest_conditions, work_conditions};
use model::api::annotations;
use model::api::condition::Condition;
use model::api::placement::PlacementPolicy;
use model::api::table::PLACEMENT_GROUP;
use model::conditions::{ConditionType, Reason};
use model::facts::{NODE_COUNT, RESOURCE_PREFIX, resource_usage};
use model::id::{ClusterName, Digest, ObjectId, PlacementKey};
use model::overrides::{OverrideSnapshot, PickedOverrides};
use model::pushed::TimedValues;
use model::records::{
    ApplyOutcome, Binding, BindingState, ClusterRecord, PlacementRecord, PolicySnapshot, ResourceSnapshot,
    SnapshotResource, WorkStatus, snapshot_name,
};

/// Group and version of the placement kinds that are shown.
pub const PLACEMENT_API_VERSION: &str = "placement.kubernetes-fleet.io/v1beta1";

/// Group and version of MemberCluster.
pub const CLUSTER_API_VERSION: &str = "cluster.kubernetes-fleet.io/v1beta1";

const PARENT_LABEL: &str = "kubernetes-fleet.io/parent-CRP";

/// Returns the placement with its status.
pub fn placement_object(view: &PlacementView) -> Value {
    let mut object = placement_head(view.record);
    object["status"] = value(&placement_status(view));
    object
}

/// Returns the placement without its status.
pub(super) fn placement_head(record: &PlacementRecord) -> Value {
    let mut metadata = metadata(record.key.namespace.as_deref(), &record.key.name, Some(record.created_at));
    metadata.insert("generation".into(), record.generation.into());
    if !record.annotations.is_empty() {
        metadata.insert("annotations".into(), value(&record.annotations));
    }
    json!({
        "apiVersion": PLACEMENT_API_VERSION,
        "kind": record.key.kind(),
        "metadata": metadata,
        "spec": value(&record.spec),
    })
}

/// Returns the master resource snapshot and its sub-snapshots, as KubeFleet splits and names them.
///
/// `latest` tells whether no newer snapshot of the placement exists. The count of enveloped objects is the count of envelopes.
pub fn resource_snapshot_objects(snapshot: &ResourceSnapshot, latest: bool) -> Vec<Value> {
    let key = &snapshot.placement;
    let whole = [snapshot.resources.len()];
    let parts = if snapshot.parts.is_empty() { &whole[..] } else { &snapshot.parts };
    let mut rest = snapshot.resources.as_slice();
    let mut objects = Vec::new();
    for (part, count) in parts.iter().enumerate() {
        let (resources, others) = rest.split_at((*count).min(rest.len()));
        rest = others;
        let mut labels = labels(key, [("kubernetes-fleet.io/resource-index", snapshot.index.to_string())]);
        let mut annotations = Map::new();
        annotations.insert(annotations::COMMIT.into(), value(&snapshot.commit));
        let name = if part == 0 {
            let envelopes = snapshot.resources.iter().filter(|r| is_envelope(&r.id)).count();
            labels.insert("kubernetes-fleet.io/is-latest-snapshot".into(), latest.to_string().into());
            annotations.insert("kubernetes-fleet.io/resource-hash".into(), value(&snapshot.hash));
            annotations
                .insert("kubernetes-fleet.io/number-of-resource-snapshots".into(), parts.len().to_string().into());
            annotations.insert("kubernetes-fleet.io/number-of-enveloped-object".into(), envelopes.to_string().into());
            snapshot.name()
        } else {
            let position = (part - 1).to_string();
            let name = format!("{}-{}-{position}", key.name, snapshot.index);
            annotations.insert("kubernetes-fleet.io/subindex-of-resource-snapshot".into(), position.into());
            name
        };
        let mut metadata = metadata(key.namespace.as_deref(), &name, Some(snapshot.created_at));
        metadata.insert("generation".into(), 1.into());
        metadata.insert("labels".into(), labels.into());
        metadata.insert("annotations".into(), annotations.into());
        objects.push(json!({
            "apiVersion": PLACEMENT_API_VERSION,
            "kind": scoped(key, "ResourceSnapshot"),
            "metadata": metadata,
            "spec": {"selectedResources": resources.iter().map(resource).collect::<Vec<_>>()},
        }));
    }
    objects
}

/// Returns the snapshot of an override; `latest` is whether no newer one of the override exists.
pub fn override_snapshot_object(snapshot: &OverrideSnapshot, latest: bool) -> Value {
    let key = &snapshot.id.key;
    let mut metadata = metadata(key.namespace.as_deref(), &snapshot.id.name(), Some(snapshot.created_at));
    metadata.insert("generation".into(), 1.into());
    let labels = json!({
        "kubernetes-fleet.io/override-index": snapshot.id.index.to_string(),
        "kubernetes-fleet.io/parent-resource-override": key.name,
        "kubernetes-fleet.io/is-latest-snapshot": latest.to_string(),
    });
    metadata.insert("labels".into(), labels);
    let mut notes = json!({annotations::COMMIT: snapshot.commit});
    if let Some(folder) = &snapshot.folder {
        notes[annotations::PATH] = json!(folder);
    }
    metadata.insert("annotations".into(), notes);
    let kind = if key.namespace.is_some() { "ResourceOverrideSnapshot" } else { "ClusterResourceOverrideSnapshot" };
    json!({
        "apiVersion": PLACEMENT_API_VERSION,
        "kind": kind,
        "metadata": metadata,
        "spec": {"overrideSpec": snapshot.spec, "overrideHash": hash_bytes(&snapshot.hash)},
    })
}

/// Returns a hash as the API has it.
///
/// Source: KubeFleet, whose hash is the bytes of the hexadecimal text and not those that it stands for.
fn hash_bytes(hash: &Digest) -> k8s_openapi::ByteString {
    k8s_openapi::ByteString(hash.as_str().as_bytes().to_vec())
}

/// Returns the evaluated evictions of a placement, with their conditions.
pub fn eviction_objects(record: &PlacementRecord) -> Vec<Value> {
    let objects = record.evictions.iter().map(|(name, eviction)| {
        json!({
            "apiVersion": PLACEMENT_API_VERSION,
            "kind": "ClusterResourcePlacementEviction",
            "metadata": {"name": name, "creationTimestamp": eviction.at},
            "spec": {"placementName": record.key.name, "clusterName": eviction.cluster},
            "status": {"conditions": eviction.conditions},
        })
    });
    objects.collect()
}

/// Returns the policy snapshot with its decisions.
pub fn policy_snapshot_object(snapshot: &PolicySnapshot, latest: bool) -> Value {
    let key = &snapshot.placement;
    let mut annotations = Map::new();
    annotations.insert("kubernetes-fleet.io/CRP-generation".into(), snapshot.observed_generation.to_string().into());
    if let Some(count) = snapshot.number_of_clusters {
        annotations.insert("kubernetes-fleet.io/number-of-clusters".into(), count.to_string().into());
    }
    let labels = labels(
        key,
        [
            ("kubernetes-fleet.io/policy-index", snapshot.index.to_string()),
            ("kubernetes-fleet.io/is-latest-snapshot", latest.to_string()),
        ],
    );
    let mut metadata = metadata(key.namespace.as_deref(), &snapshot.name(), Some(snapshot.created_at));
    metadata.insert("generation".into(), 1.into());
    metadata.insert("labels".into(), labels.into());
    metadata.insert("annotations".into(), annotations.into());
    let picked = snapshot.target_clusters.iter().filter(|d| d.selected).count();
    let reason =
        if snapshot.fulfilled { Reason::SchedulingPolicyFulfilled } else { Reason::SchedulingPolicyUnfulfilled };
    let message = format!("{} picked", decide::status::work::counted(picked, "cluster"));
    let at = snapshot.created_at;
    let scheduled = Condition::new(ConditionType::Scheduled, snapshot.fulfilled, reason, message, 1, at);
    // Source: KubeFleet, whose number is an annotation.
    let policy = snapshot.policy.as_ref().map(|policy| PlacementPolicy { number_of_clusters: None, ..policy.clone() });
    json!({
        "apiVersion": PLACEMENT_API_VERSION,
        "kind": scoped(key, "SchedulingPolicySnapshot"),
        "metadata": metadata,
        "spec": without_nulls(json!({"policy": policy, "policyHash": hash_bytes(&snapshot.hash)})),
        "status": {
            "observedCRPGeneration": snapshot.observed_generation,
            "conditions": [scheduled],
            "targetClusters": snapshot.target_clusters,
        },
    })
}

/// Returns the binding with its conditions and lists.
pub fn binding_object(binding: &Binding, work: Option<&WorkStatus>) -> Value {
    let key = &binding.placement;
    let lists = binding_lists(binding, work);
    let mut metadata = metadata(key.namespace.as_deref(), &binding.name, binding.created());
    metadata.insert("generation".into(), binding.generation.into());
    metadata.insert("labels".into(), labels(key, []).into());
    if let (BindingState::Unscheduled, Some(previous)) = (binding.state, binding.previous_state) {
        metadata.insert("annotations".into(), json!({"kubernetes-fleet.io/previous-binding-state": previous}));
    }
    let (namespaced, cluster_wide) = override_lists(&binding.overrides);
    json!({
        "apiVersion": PLACEMENT_API_VERSION,
        "kind": scoped(key, "ResourceBinding"),
        "metadata": metadata,
        "spec": without_nulls(json!({
            "state": binding.state,
            "resourceSnapshotName": binding.snapshot.map(|index| snapshot_name(key, index)),
            "resourceOverrideSnapshots": namespaced,
            "clusterResourceOverrideSnapshots": cluster_wide,
            "schedulingPolicySnapshotName": format!("{}-{}", key.name, binding.policy_index),
            "targetCluster": binding.cluster,
            "clusterDecision": binding.decision,
            "applyStrategy": binding.apply_strategy,
        })),
        "status": without_empty(json!({
            "failedPlacements": lists.failed,
            "driftedPlacements": lists.drifted,
            "diffedPlacements": lists.diffed,
            "conditions": binding.conditions,
        })),
    })
}

/// Returns the names of the override snapshots for a cluster's objects, as in bindings and runs: those of ResourceOverrides and
/// those of ClusterResourceOverrides; null if there are none.
pub(super) fn override_lists(picked: &PickedOverrides) -> (Value, Value) {
    let namespaced = picked.namespaced.iter().map(|id| json!({"name": id.name(), "namespace": id.key.namespace}));
    let cluster_wide = picked.cluster.iter().map(|id| id.name().into());
    (list_or_null(namespaced.collect()), list_or_null(cluster_wide.collect()))
}

fn list_or_null(items: Vec<Value>) -> Value {
    if items.is_empty() { Value::Null } else { items.into() }
}

/// Returns the Work of a binding without its objects.
pub(super) fn work_head(binding: &Binding, work: &WorkStatus, now: Timestamp) -> Value {
    let key = &binding.placement;
    let mode = Mode::of(&binding.apply_strategy);
    let mut labels = labels(key, [("kubernetes-fleet.io/parent-resource-binding", binding.name.clone())]);
    if let Some(namespace) = &key.namespace {
        labels.insert("kubernetes-fleet.io/parent-placement-namespace".into(), namespace.clone().into());
    }
    if let Some(index) = binding.snapshot {
        labels.insert("kubernetes-fleet.io/parent-resource-snapshot-index".into(), index.to_string().into());
    }
    let mut metadata = metadata(Some(&member_namespace(&binding.cluster)), &work_name(key), binding.created());
    metadata.insert("generation".into(), work.generation.into());
    metadata.insert("labels".into(), labels.into());
    json!({
        "apiVersion": PLACEMENT_API_VERSION,
        "kind": "Work",
        "metadata": metadata,
        "status": {"conditions": work_conditions(work, mode, &binding.conditions, now)},
    })
}

/// Returns the Work of a binding: KubeFleet's names, the objects' identities and the result of each.
pub fn work_object(binding: &Binding, work: &WorkStatus, now: Timestamp) -> Value {
    let mode = Mode::of(&binding.apply_strategy);
    let mut object = work_head(binding, work, now);
    let since = work.available_since.or(binding.started_at).unwrap_or(now);
    let manifests = work.manifests.iter().enumerate().map(|(ordinal, manifest)| {
        // An object that was not taken over differs from the manifest; only gitfleet's objects can drift.
        let differs = match (mode, manifest.applied) {
            (Mode::ReportDiff, _) | (_, ApplyOutcome::FailedToTakeOver) => {
                json!({"diffDetails": {"observedDiffs": manifest.differences}})
            }
            (Mode::Apply, _) => json!({"driftDetails": {"observedDrifts": manifest.differences}}),
        };
        let mut identifier = object_of(value(&manifest.id));
        identifier.insert("ordinal".into(), ordinal.into());
        let mut entry = Map::new();
        entry.insert("identifier".into(), identifier.into());
        entry.insert("conditions".into(), value(&manifest_conditions(manifest, mode, since)));
        if !manifest.differences.is_empty() {
            entry.extend(object_of(differs));
        }
        Value::from(entry)
    });
    object["status"]["manifestConditions"] = manifests.collect::<Vec<_>>().into();
    object["spec"] = json!({
        "workload": {"manifests": work.manifests.iter().map(|m| identity(&m.id)).collect::<Vec<_>>()},
        "applyStrategy": binding.apply_strategy,
    });
    object
}

/// Returns the member cluster with joined and health conditions and its properties.
///
/// A cluster is joined if a `members:` entry names it, it has answered once and has not left; it is healthy while it answers.
pub fn member_cluster_object(cluster: &ClusterRecord, now: Timestamp) -> Value {
    use model::records::MemberKind;
    let is_reached = cluster.kind != MemberKind::Unreachable;
    let joined = is_reached && !cluster.left && cluster.has_answered();
    let by_agent = cluster.agent.as_ref().map(|agent| format!("the cluster is a member, by {agent}"));
    let join_message = match (cluster.left, joined) {
        (true, _) => "the cluster left the fleet; nothing on it is touched",
        (false, true) => by_agent.as_deref().unwrap_or("the cluster is a member"),
        (false, false) if is_reached => "the cluster has never answered",
        (false, false) => "no entry of `members` in the configuration names the cluster",
    };
    // There are no heartbeats: an open connection proves that the member answers.
    let seen = if cluster.online { now } else { cluster.since };
    let known = cluster.known_properties(now);
    // Source: KubeFleet, which shows resources as `resourceUsage`.
    let listed = known.iter().filter(|(name, _)| !name.starts_with(RESOURCE_PREFIX));
    let properties: Map<String, Value> =
        listed.map(|(name, property)| (name.clone(), json!({"value": property, "observationTime": seen}))).collect();
    // A field of ManagedCluster: what claim selectors read of the cluster itself.
    let claims = cluster.claims.iter().map(|(name, value)| json!({"name": name, "value": value}));
    let conditions = member_conditions(cluster, joined, join_message);
    let mut metadata = metadata(None, cluster.name.as_str(), cluster.joined_at);
    if !cluster.labels.is_empty() {
        metadata.insert("labels".into(), value(&cluster.labels));
    }
    if !cluster.annotations.is_empty() {
        metadata.insert("annotations".into(), value(&cluster.annotations));
    }
    json!({
        "apiVersion": CLUSTER_API_VERSION,
        "kind": "MemberCluster",
        "metadata": metadata,
        "spec": cluster.spec,
        "status": without_empty(json!({
            "conditions": conditions,
            "properties": properties,
            "resourceUsage": resource_usage(&known),
            "clusterClaims": claims.collect::<Vec<Value>>(),
            "addOnScores": pushed_scores(cluster),
            "pushedProperties": pushed_properties(cluster, now),
            "agentStatus": [member_agent(cluster, joined, join_message, seen)],
        })),
    })
}

/// Returns the scores that machines pushed, those that have expired too.
fn pushed_scores(cluster: &ClusterRecord) -> Vec<Value> {
    let scores = cluster.pushed.scores.iter();
    scores.flat_map(|(by, said)| said.values.iter().map(move |score| said_by(value(score), by, said))).collect()
}

/// Returns the properties that machines pushed, as long as they hold.
fn pushed_properties(cluster: &ClusterRecord, now: Timestamp) -> Vec<Value> {
    let mut properties = Vec::new();
    for (by, said) in cluster.pushed.properties.iter().filter(|(_, said)| said.holds(now)) {
        for (name, value) in &said.values {
            properties.push(said_by(json!({"name": name, "value": value}), by, said));
        }
    }
    properties
}

/// Adds who pushed something, and until when it holds.
fn said_by<T>(mut shown: Value, by: &str, said: &TimedValues<T>) -> Value {
    shown["pushedBy"] = json!(by);
    if let Some(end) = said.valid_until {
        shown["validUntil"] = json!(end);
    }
    shown
}

fn member_condition(
    cluster: &ClusterRecord,
    type_: ConditionType,
    (holds, holding, failing): (bool, Reason, Reason),
    message: &str,
) -> Condition {
    Condition::new(type_, holds, if holds { holding } else { failing }, message, 0, cluster.since)
}

fn member_conditions(cluster: &ClusterRecord, joined: bool, join_message: &str) -> Vec<Condition> {
    use {ConditionType as T, Reason as R};
    let ready = (joined, R::MemberClusterReadyToJoin, R::MemberClusterNotReadyToJoin);
    let member = (joined, R::MemberClusterJoined, R::MemberClusterLeft);
    let mut conditions = vec![
        member_condition(cluster, T::ReadyToJoin, ready, join_message),
        member_condition(cluster, T::Joined, member, join_message),
    ];
    let unknown = cluster.properties_unknown.as_deref();
    if unknown.is_some() || cluster.properties.contains_key(NODE_COUNT) {
        let collected = (unknown.is_none(), R::PropertiesCollected, R::PropertiesNotCollected);
        let words = unknown.unwrap_or("nodes and pods are watched");
        conditions.push(member_condition(cluster, T::ClusterPropertyCollectionSucceeded, collected, words));
    }
    conditions
}

fn member_agent(cluster: &ClusterRecord, joined: bool, join_message: &str, seen: Timestamp) -> Value {
    use {ConditionType as T, Reason as R};
    let why = cluster.message.as_deref().unwrap_or_default();
    let member = (joined, R::InternalMemberClusterJoined, R::InternalMemberClusterLeft);
    let healthy = (cluster.online, R::InternalMemberClusterHealthy, R::InternalMemberClusterUnhealthy);
    let conditions = [
        member_condition(cluster, T::Joined, member, join_message),
        member_condition(cluster, T::Healthy, healthy, why),
    ];
    let mut agent = json!({"type": "MemberAgent", "conditions": conditions, "lastReceivedHeartbeat": seen});
    if !cluster.has_answered() {
        // It was never observed.
        agent.as_object_mut().into_iter().for_each(|agent| drop(agent.remove("lastReceivedHeartbeat")));
    }
    agent
}

/// Returns the name KubeFleet gives the Work of a placement's master snapshot.
pub fn work_name(placement: &PlacementKey) -> String {
    match &placement.namespace {
        Some(namespace) => format!("{namespace}.{}-work", placement.name),
        None => format!("{}-work", placement.name),
    }
}

/// Returns the namespace KubeFleet keeps a member's Works in.
pub fn member_namespace(cluster: &ClusterName) -> String {
    format!("fleet-member-{cluster}")
}

fn is_envelope(id: &ObjectId) -> bool {
    id.group == PLACEMENT_GROUP && ["ClusterResourceEnvelope", "ResourceEnvelope"].contains(&id.kind.as_str())
}

/// Returns the kind of a placement's internal object: cluster-scoped placements have cluster-scoped ones.
pub(super) fn scoped(placement: &PlacementKey, kind: &str) -> String {
    if placement.namespace.is_some() { kind.to_owned() } else { format!("Cluster{kind}") }
}

pub(super) fn metadata(namespace: Option<&str>, name: &str, created: Option<Timestamp>) -> Map<String, Value> {
    let mut metadata = Map::new();
    metadata.insert("name".into(), name.into());
    if let Some(namespace) = namespace {
        metadata.insert("namespace".into(), namespace.into());
    }
    if let Some(created) = created {
        metadata.insert("creationTimestamp".into(), value(&created));
    }
    metadata
}

fn labels<const N: usize>(placement: &PlacementKey, others: [(&str, String); N]) -> Map<String, Value> {
    let mut labels = Map::new();
    labels.insert(PARENT_LABEL.into(), placement.name.clone().into());
    labels.extend(others.map(|(key, text)| (key.to_owned(), text.into())));
    labels
}

fn identity(id: &ObjectId) -> Value {
    json!({"apiVersion": id.api_version(), "kind": id.kind, "metadata": metadata(some(&id.namespace), &id.name, None)})
}

fn resource(resource: &SnapshotResource) -> Value {
    let mut object = identity(&resource.id);
    let place = format!("{}:{}", resource.origin.path, resource.origin.line);
    object["metadata"]["annotations"] = json!({annotations::SOURCE: place, annotations::DIGEST: resource.digest});
    object
}

fn some(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

pub(super) fn value(thing: &(impl Serialize + ?Sized)) -> Value {
    serde_json::to_value(thing).expect("records have text keys only")
}

fn object_of(value: Value) -> Map<String, Value> {
    if let Value::Object(fields) = value { fields } else { Map::new() }
}

fn without_nulls(value: Value) -> Value {
    Value::Object(object_of(value).into_iter().filter(|(_, v)| !v.is_null()).collect())
}

fn without_empty(value: Value) -> Value {
    Value::Object(object_of(value).into_iter().filter(|(_, v)| !is_empty(v)).collect())
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
}

#[cfg(test)]
mod tests;
