//! A hub from documents.

use super::*;

fn document(kind: &str, version: &str, namespace: &str, name: &str, rest: Value) -> Value {
    let mut document = json!({"apiVersion": format!("cluster.open-cluster-management.io/{version}"), "kind": kind,
        "metadata": {"name": name}});
    if !namespace.is_empty() {
        document["metadata"]["namespace"] = json!(namespace);
    }
    document.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    document
}

fn decision(namespace: &str, name: &str, placement: Option<&str>, clusters: &[&str]) -> Value {
    let decisions: Vec<Value> = clusters.iter().map(|name| json!({"clusterName": name, "reason": ""})).collect();
    let mut page =
        document("PlacementDecision", "v1beta1", namespace, name, json!({"status": {"decisions": decisions}}));
    if let Some(placement) = placement {
        page["metadata"]["labels"] = json!({PLACEMENT_LABEL: placement});
    }
    page
}

/// Everything that a placement reads, with documents that are none of the hub's in between.
fn documents() -> Vec<Value> {
    let cluster = |name: &str, memory: &str| {
        let quantities = json!({"memory": memory});
        let mut cluster = document(
            "ManagedCluster",
            "v1",
            "",
            name,
            json!({"spec": {}, "status": {"allocatable": quantities, "capacity": quantities}}),
        );
        cluster["metadata"]["labels"] = json!({SET_LABEL: "s"});
        cluster
    };
    let score = json!({"status": {"scores": [{"name": "demo", "value": 10}], "validUntil": "2026-03-01T13:00:00Z"}});
    vec![
        decision("ns1", "demo-decision-1", Some("demo"), &["c1"]),
        document("AddOnPlacementScore", "v1alpha1", "c1", "demo", score.clone()),
        document("AddOnPlacementScore", "v1alpha1", "gone", "demo", score),
        document("ManagedClusterSetBinding", "v1beta2", "ns1", "s", json!({"spec": {"clusterSet": "s"}})),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}}),
        document("ManagedClusterSet", "v1beta2", "", "s", json!({})),
        cluster("c2", "2Gi"),
        decision("ns1", "demo-decision-2", Some("demo"), &["c2"]),
        decision("ns2", "other-decision-1", Some("demo"), &["c2"]),
        decision("ns1", "stray", None, &["c2"]),
        document("Placement", "v1beta1", "ns1", "demo", json!({"spec": {}})),
        document("PlacementDecision", "v1beta1", "ns1", "empty", json!({})),
        cluster("c1", "1Gi"),
    ]
}

#[test]
fn a_hub_is_read_in_any_order_of_documents() {
    let configurations = json!([
        {"scoreCoordinate": {"builtIn": "ResourceAllocatableMemory"}},
        {"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "demo", "scoreName": "demo"}}}
    ]);
    let spec = json!({"prioritizerPolicy": {"configurations": configurations}});
    let (mut documents, mut first) = (documents(), None);
    for _ in 0..documents.len() {
        documents.rotate_left(1);
        let hub = Hub::read(&documents).unwrap();
        assert_eq!(hub.names(), ["c1", "c2"].map(ClusterName::from));
        // Balance: c2 is named by a placement of another namespace and by an object without placement, c1 by none but its own.
        assert_eq!(cells(&hub, spec.clone()), [[100, 100, -100, 10], [-100, 100, 100, 0]]);
        let outcome = run(&hub, spec.clone());
        assert_eq!(outcome.requeue_at, Some("2026-03-01T13:00:00.000000001Z".parse().unwrap()));
        assert_eq!(first.get_or_insert(outcome.clone()), &outcome);
    }
}

/// Each wrong document by its position, and the field by its path.
#[test]
fn the_first_wrong_document_is_named_with_its_fields() {
    let taint = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    let value = |value: i32| json!({"status": {"scores": [{"name": "s", "value": value}]}});
    let selector = json!({"spec": {"clusterSelector": {"selectorType": "Names"}}});
    let table: Vec<(Value, &str)> = vec![
        (document("ManagedCluster", "v1", "", "c9", taint), "spec.taints[0].effect"),
        (document("ManagedClusterSet", "v1beta2", "", "t", selector), "spec.clusterSelector.selectorType"),
        (
            document("ManagedClusterSetBinding", "v1beta2", "ns1", "t", json!({"spec": {"clusterSet": "s"}})),
            "spec.clusterSet",
        ),
        (document("AddOnPlacementScore", "v1alpha1", "c1", "x", value(101)), "status.scores[0].value"),
        (document("AddOnPlacementScore", "v1alpha1", "c1", "x", value(-101)), "status.scores[0].value"),
        (
            document("PlacementDecision", "v1beta1", "ns1", "x", json!({"status": {"decisions": [{"reason": ""}]}})),
            "clusterName",
        ),
        (document("PlacementDecision", "v1beta1", "ns1", "x", json!({"status": {"decisions": 1}})), "decisions"),
    ];
    for (wrong, field) in table {
        let mut documents = documents();
        documents.insert(5, wrong.clone());
        let (position, errors) = Hub::read(&documents).unwrap_err();
        let text = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        assert!(position == 5 && text.contains(field), "{wrong}: {position}: {text}");
    }
}

#[test]
fn properties_stand_in_where_the_status_says_nothing() {
    let properties = |cpu: &str| -> BTreeMap<String, String> {
        let names = ["allocatable-cpu", "total-cpu"].map(|name| format!("resources.kubernetes-fleet.io/{name}"));
        names.map(|name| (name, cpu.to_owned())).into()
    };
    let mut clusters =
        [with_resource("a", "cpu", "4"), ("b".into(), OcmMember::default()), ("c".into(), OcmMember::default())];
    for ((_, member), cpu) in clusters.iter_mut().zip(["99", "2", "3"]) {
        member.fill_resources(&properties(cpu));
    }
    assert_eq!(values(&run(&hub(clusters), exact("ResourceAllocatableCPU"))), [100, -100, 0]);
}
