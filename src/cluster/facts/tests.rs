use kube::api::ObjectList;
use kube::core::Status;
use serde_json::{Value, json};

use super::*;

/// A pod as an API server sends it, with much that nobody asks for.
fn pod() -> Value {
    json!({
        "metadata": {
            "name": "web-0", "namespace": "shop", "uid": "8ec1b1d6-4e5b-4b34-9f0a-6a5fc0b6b2f1", "resourceVersion": "42",
            "labels": {"app": "web"}, "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
        },
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "c", "image": "web:1", "env": [{"name": "A", "value": "b"}],
                "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}, "limits": {"cpu": "2"}}}],
            "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}],
            "overhead": {"memory": "1Mi"},
            "tolerations": [{"operator": "Exists"}],
        },
        "status": {"phase": "Running", "containerStatuses": [{"name": "c", "ready": true}]},
    })
}

fn node() -> Value {
    json!({
        "metadata": {"name": "n1", "uid": "n1", "resourceVersion": "7",
            "labels": {"beta.kubernetes.io/instance-type": "old", "node.kubernetes.io/instance-type": "Standard_D4", "a": "b"}},
        "spec": {"unschedulable": true, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]},
        "status": {
            "capacity": {"cpu": "4", "memory": "16393244Ki", "nvidia.com/gpu": "2", "ephemeral-storage": "1", "pods": "110"},
            "allocatable": {"cpu": "3920m", "memory": "16Gi"},
            "conditions": [{"type": "Ready", "status": "False"}],
            "images": [{"names": ["web:1"], "sizeBytes": 1}],
        },
    })
}

fn failed(code: u16, message: &str) -> watcher::Error {
    watcher::Error::InitialListFailed(kube::Error::Api(Status::failure(message, "Reason").with_code(code).boxed()))
}

fn view() -> View {
    View::new("m".into())
}

fn list_no_nodes(view: &mut View) {
    for event in [Event::Init, Event::InitDone] {
        view.take_node(Ok(event)).expect("no failure");
    }
}

fn list_no_pods(view: &mut View) {
    for event in [Event::Init, Event::InitDone] {
        view.take_pod(Ok(event)).expect("no failure");
    }
}

#[test]
fn lists_are_read_and_added_up() {
    let pods: ObjectList<Pod> = serde_json::from_value(json!({
        "kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "50"}, "items": [pod()],
    }))
    .expect("a list of pods");
    assert_eq!(pods.items[0].metadata.resource_version.as_deref(), Some("42"));
    assert!(pods.items[0].metadata.labels.is_none(), "labels are skipped");
    let nodes: ObjectList<Node> =
        serde_json::from_value(json!({"metadata": {}, "items": [node()]})).expect("a list of nodes");
    let mut view = view();
    for event in [Event::Init, Event::InitApply(pods.items[0].clone()), Event::InitDone] {
        view.take_pod(Ok(event)).expect("no failure");
    }
    assert_eq!(view.facts(), None, "nodes are not listed yet");
    for event in [Event::Init, Event::InitApply(nodes.items[0].clone()), Event::InitDone] {
        view.take_node(Ok(event)).expect("no failure");
    }
    let facts = view.facts().expect("both are listed");
    let lines: Vec<String> = facts.properties().iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        lines,
        [
            "kubernetes-fleet.io/node-count=1",
            "kubernetes.azure.com/node-count=1",
            "kubernetes.azure.com/vm-sizes/Standard_D4/count=1",
            "resources.kubernetes-fleet.io/allocatable-cpu=3920m",
            "resources.kubernetes-fleet.io/allocatable-memory=16Gi",
            "resources.kubernetes-fleet.io/available-cpu=1920m",
            "resources.kubernetes-fleet.io/available-memory=15359Mi",
            "resources.kubernetes-fleet.io/total-cpu=4",
            "resources.kubernetes-fleet.io/total-memory=16393244Ki",
            "resources.kubernetes-fleet.io/total-nvidia.com/gpu=2",
        ]
    );
    view.take_pod(Ok(Event::Delete(pods.items[0].clone()))).expect("no failure");
    assert_eq!(view.facts().expect("both are listed").available().map(|a| a.cpu_milli), Some(3920));
}

#[test]
fn failures() {
    // Code, whether the member counts as not answering, whether what was known is forgotten, words of the complaint.
    let rows = [
        (403, false, true, "nodes is forbidden"),
        (400, false, true, "nodes is forbidden"),
        (500, false, false, ""),
        (429, false, false, ""),
        (401, true, false, ""),
    ];
    for (code, offline, forgotten, words) in rows {
        let mut view = view();
        list_no_pods(&mut view);
        list_no_nodes(&mut view);
        let taken = view.take_node(Err(failed(code, "nodes is forbidden")));
        assert_eq!(taken.is_err_and(|error| error.is_offline()), offline, "{code}");
        let facts = view.facts().expect("listed, or failed");
        assert_eq!(facts.nodes.is_err(), forgotten, "{code}");
        assert!(facts.complaint().unwrap_or_default().contains(words), "{code}: {:?}", facts.complaint());
    }
}

#[test]
fn a_watch_that_fell_behind_is_no_complaint() {
    let mut view = view();
    list_no_pods(&mut view);
    let gone = watcher::Error::WatchError(Status::failure("too old", "Expired").with_code(410).boxed());
    view.take_node(Err(gone)).expect("the member answers");
    assert_eq!(view.facts(), None, "nodes are still to be listed");
    view.take_node(Err(failed(500, "etcd is away"))).expect("the member answers");
    let complaint = view.facts().expect("it failed").complaint().unwrap_or_default();
    assert!(complaint.contains("etcd is away"), "nobody waits for what may never come: {complaint}");
    list_no_nodes(&mut view);
    assert_eq!(view.facts().expect("listed").complaint(), None);
}

#[test]
fn a_member_without_claims_is_no_complaint_and_one_that_hides_them_is() {
    let mut view = view();
    list_no_nodes(&mut view);
    list_no_pods(&mut view);
    let facts = view.facts().expect("both are listed");
    assert_eq!((facts.claims.as_ref(), facts.complaint()), (None, None), "facts do not wait for claims");
    view.take_claims(ClaimEvent::Absent).expect("no failure");
    let facts = view.facts().expect("both are listed");
    assert_eq!((facts.claims.as_ref(), facts.complaint()), (Some(&BTreeMap::new()), None));
    view.take_claims(ClaimEvent::Watch(Box::new(Err(failed(403, "clusterclaims is forbidden"))))).expect("it answers");
    let facts = view.facts().expect("both are listed");
    assert_eq!(facts.claims, None, "what is kept of them is not touched");
    assert!(facts.complaint().is_some_and(|why| why.contains("clusterclaims is forbidden")), "{:?}", facts.complaint());
    let gone = Error::Unreachable { cluster: "m".into(), reason: "it is gone".into() };
    assert!(view.take_claims(ClaimEvent::Unknown(gone)).is_err());
}
