//! The fields of an object that a snapshot keeps, and the order of objects.

use std::cmp::Ordering;
use std::sync::Arc;

use serde_json::Value;

use model::id::ObjectId;
use model::manifest::Manifest;

/// Fields that snapshots drop, as JSON pointers: the API server or another controller writes them.
const DROPPED: &[&str] = &[
    "/metadata/resourceVersion",
    "/metadata/generation",
    "/metadata/uid",
    "/metadata/selfLink",
    "/metadata/deletionTimestamp",
    "/metadata/managedFields",
    "/metadata/ownerReferences",
    "/metadata/creationTimestamp",
    "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
    "/metadata/annotations/deployment.kubernetes.io~1revision",
    "/status",
];

/// Fields that an API server adds to a Job without a manual pod selector.
const DROPPED_OF_JOB: &[&str] = &[
    "/spec/selector/matchLabels/controller-uid",
    "/spec/selector/matchLabels/batch.kubernetes.io~1controller-uid",
    "/spec/template/metadata/labels/controller-uid",
    "/spec/template/metadata/labels/batch.kubernetes.io~1controller-uid",
    "/spec/template/metadata/creationTimestamp",
];

const ANNOTATIONS: &str = "/metadata/annotations";

/// Kinds in the order snapshots list them, whatever their group; all others follow.
const KIND_ORDER: [&str; 32] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// Returns the object without fields that the hub's API server or controllers would have written: server-side metadata, owner
/// references, `status`, two bookkeeping annotations, a Service's allocated addresses and node ports, and a Job's generated
/// labels. A second application changes nothing.
///
/// Source: KubeFleet, what the placement controller stores of a selected resource.
pub fn sanitise(object: &Value) -> Value {
    let mut clean = object.clone();
    for pointer in dropped(object) {
        remove(&mut clean, &pointer);
    }
    // A map that lost its last annotation must equal one that never had any.
    if is_empty_map(clean.pointer(ANNOTATIONS)) {
        remove(&mut clean, ANNOTATIONS);
    }
    clean
}

/// Returns the manifest with its sanitised object; shared instead of copied if nothing is dropped.
pub fn sanitised(manifest: &Manifest) -> Manifest {
    let clean = dropped(&manifest.object).is_empty() && !is_empty_map(manifest.object.pointer(ANNOTATIONS));
    let object = if clean { Arc::clone(&manifest.object) } else { Arc::new(sanitise(&manifest.object)) };
    Manifest { object, ..manifest.clone() }
}

/// Returns the pointers of all fields to drop.
fn dropped(object: &Value) -> Vec<String> {
    let mut pointers = present(object, DROPPED);
    match (text(object, "apiVersion"), text(object, "kind")) {
        ("v1", "Service") => {
            // `None` makes a Service headless: a person wrote it, and it is no allocated address.
            if object.pointer("/spec/clusterIP").is_some_and(|ip| ip != "None") {
                pointers.extend(present(object, &["/spec/clusterIP", "/spec/clusterIPs"]));
            }
            pointers.extend(present(object, &["/spec/healthCheckNodePort"]));
            // Node ports are dropped even if a person wrote them, as in KubeFleet.
            let ports = object.pointer("/spec/ports").and_then(Value::as_array).map_or(0, Vec::len);
            pointers.extend(
                (0..ports).map(|port| format!("/spec/ports/{port}/nodePort")).filter(|p| object.pointer(p).is_some()),
            );
        }
        ("batch/v1", "Job") if object.pointer("/spec/manualSelector") != Some(&Value::Bool(true)) => {
            pointers.extend(present(object, DROPPED_OF_JOB));
        }
        _ => {}
    }
    pointers
}

/// Returns the pointers to fields that an object has.
fn present(object: &Value, pointers: &[&str]) -> Vec<String> {
    pointers.iter().filter(|p| object.pointer(p).is_some()).map(|&p| p.to_owned()).collect()
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn is_empty_map(value: Option<&Value>) -> bool {
    value.and_then(Value::as_object).is_some_and(serde_json::Map::is_empty)
}

/// Removes the member of a map that a pointer names.
fn remove(object: &mut Value, pointer: &str) {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return };
    if let Some(map) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
        // No pointer of the tables above has `~0`.
        map.remove(&key.replace("~1", "/"));
    }
}

/// The sort key of objects: rank of the kind, then version (listed kinds) or version and kind (all others), then
/// `namespace/name` as one text.
fn order_key(id: &ObjectId) -> (usize, String, String) {
    let rank = KIND_ORDER.iter().position(|kind| *kind == id.kind).unwrap_or(KIND_ORDER.len());
    let type_ = if rank < KIND_ORDER.len() {
        id.api_version()
    } else {
        format!("{}/{}, Kind={}", id.group, id.version, id.kind)
    };
    (rank, type_, format!("{}/{}", id.namespace, id.name))
}

/// Compares two objects in snapshot order: by KubeFleet's list of kinds, then by version, then by namespace and name. The order
/// determines hash and split; clusters apply in waves instead.
///
/// Source: KubeFleet, the order of selected resources.
pub fn snapshot_order(a: &ObjectId, b: &ObjectId) -> Ordering {
    order_key(a).cmp(&order_key(b))
}

/// Sorts manifests into [`snapshot_order`].
pub fn sort_for_snapshot(manifests: &mut [Manifest]) {
    manifests.sort_by_cached_key(|manifest| order_key(&manifest.id));
}

#[cfg(test)]
mod tests;
