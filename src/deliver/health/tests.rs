use serde_json::json;

use super::*;

#[test]
fn availability_by_kind() {
    use Availability::{Available, ManifestNotAvailableYet, NotTrackable};
    let deployment = |generation: i64, observed: i64, replicas: i64, available: i64, updated: i64, gone: i64| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "generation": generation},
            "spec": {"replicas": replicas},
            "status": {"observedGeneration": observed, "availableReplicas": available, "updatedReplicas": updated,
                "unavailableReplicas": gone}})
    };
    let service = |spec: Value, status: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec, "status": status});
    let rows = [
        ("deployment ready", deployment(2, 2, 3, 3, 3, 0), Available),
        ("deployment not observed", deployment(2, 1, 3, 3, 3, 0), ManifestNotAvailableYet),
        ("deployment not updated", deployment(2, 2, 3, 3, 2, 0), ManifestNotAvailableYet),
        ("deployment with one unavailable", deployment(2, 2, 3, 3, 3, 1), ManifestNotAvailableYet),
        ("deployment of zero", deployment(1, 1, 0, 0, 0, 0), Available),
        (
            "replicas default to one",
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "generation": 1},
                "status": {"observedGeneration": 1, "availableReplicas": 1, "updatedReplicas": 1}}),
            Available,
        ),
        ("headless service", service(json!({"clusterIPs": ["None"]}), json!({})), Available),
        ("service without address", service(json!({}), json!({})), ManifestNotAvailableYet),
        ("load balancer waiting", service(json!({"type": "LoadBalancer"}), json!({})), ManifestNotAvailableYet),
        (
            "load balancer by name",
            service(
                json!({"type": "LoadBalancer"}),
                json!({"loadBalancer": {"ingress": [{"hostname": "lb.example"}]}}),
            ),
            Available,
        ),
        ("external name", service(json!({"type": "ExternalName"}), json!({})), NotTrackable),
        ("config map", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}), Available),
        ("job", json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}), NotTrackable),
        (
            "definition not established",
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "w"}, "status": {"conditions": [{"type": "NamesAccepted", "status": "True"}]}}),
            ManifestNotAvailableYet,
        ),
        (
            "stateful set mid-update",
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s", "generation": 1},
                "spec": {"replicas": 1}, "status": {"observedGeneration": 1, "availableReplicas": 1,
                "currentReplicas": 1, "updatedReplicas": 1, "currentRevision": "a", "updateRevision": "b"}}),
            ManifestNotAvailableYet,
        ),
        (
            "daemon set ready",
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "s", "generation": 1},
                "status": {"observedGeneration": 1, "numberAvailable": 2, "desiredNumberScheduled": 2,
                "currentNumberScheduled": 2, "updatedNumberScheduled": 2}}),
            Available,
        ),
    ];
    for (name, object, expected) in rows {
        let id = ObjectId::of(&object).expect("the row is an object");
        assert_eq!(availability(&id, &object), expected, "{name}");
    }
}
