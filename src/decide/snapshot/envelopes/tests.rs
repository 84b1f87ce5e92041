use serde_json::{Value, json};

use super::*;
use crate::snapshot::tests::{manifest, manifest_of};
use crate::snapshot::work_names;
use model::api::table::PLACEMENT_GROUP;

fn envelope(kind: &str, name: &str, data: &Value) -> Manifest {
    let namespace = if kind == "ClusterResourceEnvelope" { "" } else { "app" };
    manifest_of(json!({"apiVersion": format!("{PLACEMENT_GROUP}/v1beta1"), "kind": kind,
        "metadata": {"name": name, "namespace": namespace}, "data": data}))
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "app"}})
}

#[test]
fn example_40_names_of_envelope_works() {
    let placement = PlacementKey::namespaced("app", "web");
    let work = &work_names(&placement, 1)[0];
    assert_eq!(work, "app.web-work");
    let named = |kind: &str| envelope_work_name(work, &envelope(kind, "env1", &json!({})).id);
    assert_eq!(named("ResourceEnvelope"), "app.web-work-envelope-b8cf6b607ef55b5e");
    assert_eq!(named("ClusterResourceEnvelope"), "app.web-work-envelope-706715ce411cc776");
}

#[test]
fn contents_come_by_their_bytes_descending() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "app"},
        "status": {"x": 1}});
    let selected = [
        manifest("v1", "Namespace", "", "app"),
        envelope("ResourceEnvelope", "one", &json!({"1": config_map("a"), "2": secret, "3": config_map("b")})),
        envelope("ResourceEnvelope", "two", &json!({"1": config_map("c")})),
    ];
    let found = enveloped(&selected, &PlacementKey::cluster_scoped("p")).unwrap();
    let names: Vec<String> = found.iter().map(|m| m.id.to_string()).collect();
    assert_eq!(names, ["Secret app/a", "ConfigMap app/b", "ConfigMap app/a", "ConfigMap app/c"]);
    assert!(found[0].object.get("status").is_none() && found[0].origin == selected[1].origin);
    assert_eq!(enveloped(&selected[..1], &PlacementKey::cluster_scoped("p")), Ok(vec![]));
}

#[test]
fn what_an_envelope_may_not_hold() {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}});
    let one = |data: &Value| envelope("ResourceEnvelope", "one", data);
    let (cluster, namespaced) = (PlacementKey::cluster_scoped("p"), PlacementKey::namespaced("app", "p"));
    let wrong = "ResourceEnvelope.placement.kubernetes-fleet.io app/one, entry ";
    let rows = [
        ("a scope", vec![one(&json!({"e": role}))], &cluster, "e: a ClusterRole does not fit"),
        (
            "a plain object again",
            vec![manifest("v1", "ConfigMap", "app", "a"), one(&json!({"e": config_map("a")}))],
            &cluster,
            "e: ConfigMap app/a is placed by itself too",
        ),
        (
            "one object twice",
            vec![one(&json!({"e": config_map("a"), "f": config_map("a")}))],
            &cluster,
            "f: ConfigMap app/a is placed by entry e of ResourceEnvelope",
        ),
        (
            "d13: the namespace of the inventories",
            vec![envelope(
                "ClusterResourceEnvelope",
                "two",
                &json!({"e": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gitfleet-system"}}}),
            )],
            &cluster,
            "e: Namespace gitfleet-system is reserved",
        ),
        (
            "outside the placement's namespace",
            vec![envelope("ClusterResourceEnvelope", "two", &json!({"e": role}))],
            &namespaced,
            "ClusterRole.rbac.authorization.k8s.io r is cluster-scoped",
        ),
    ];
    for (name, selected, placement, wanted) in rows {
        let error = enveloped(&selected, placement).unwrap_err();
        assert!(error.contains(wanted), "{name}: {error}");
        assert!(error.starts_with(wrong) || error.contains(" two, entry e"), "{name}: {error}");
    }
}
