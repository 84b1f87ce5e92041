//! Facts about members: what real API servers say of their nodes and pods.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::e2e::daemon::{Daemon, World, access, config_map, member_clusters, namespace, placement};
use crate::e2e::fleet::Member;
use crate::e2e::shared;

/// The properties that are checked, in the order of the rows below.
const PROPERTIES: [&str; 5] = [
    "/status/properties/kubernetes-fleet.io~1node-count/value",
    "/status/resourceUsage/capacity/cpu",
    "/status/resourceUsage/allocatable/memory",
    "/status/resourceUsage/available/cpu",
    "/status/resourceUsage/available/memory",
];

/// Returns a policy that goes to one cluster with so many cores left.
pub fn pick_one(cores: u32) -> String {
    format!(
        "  policy:
    placementType: PickN
    numberOfClusters: 1
    affinity:
      clusterAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          clusterSelectorTerms:
            - propertySelector:
                matchExpressions:
                  - {{name: resources.kubernetes-fleet.io/available-cpu, operator: Ge, values: ['{cores}']}}
"
    )
}

/// Returns a Node document.
pub fn node(name: &str, cpu: &str, memory: &str) -> String {
    let amounts = json!({"cpu": cpu, "memory": memory, "pods": "110"});
    let status = json!({"capacity": amounts, "allocatable": amounts});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}).to_string()
}

/// Returns a Pod document, in the namespace `facts`; besides what it says, a sidecar asks for 100m and 16Mi.
pub fn pod(name: &str, node: &str, cpu: &str, memory: &str) -> String {
    let requests = |cpu: &str, memory: &str| json!({"requests": {"cpu": cpu, "memory": memory}});
    let container = json!({"name": "main", "image": "web:1", "resources": requests(cpu, memory)});
    let sidecar = json!({
        "name": "side", "image": "side:1", "restartPolicy": "Always", "resources": requests("100m", "16Mi"),
    });
    let mut spec = json!({"containers": [container], "initContainers": [sidecar], "terminationGracePeriodSeconds": 0});
    if !node.is_empty() {
        spec["nodeName"] = json!(node);
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "facts"}, "spec": spec})
        .to_string()
}

/// Writes a kubeconfig with which a member takes the daemon for another user.
pub fn impersonating(world: &World, member: &Member, user: &str) -> PathBuf {
    let config = member.kubectl(&["config", "view", "--raw", "--flatten", "-o", "json"]).expect("the kubeconfig");
    let mut config: Value = serde_json::from_str(&config).expect("it is JSON");
    config["users"][0]["user"]["as"] = json!(user);
    let kubeconfig = world.path().join(format!("{user}.kubeconfig"));
    fs::write(&kubeconfig, config.to_string()).expect("the kubeconfig of another user");
    kubeconfig
}

/// Waits until the daemon shows these values of a cluster.
fn await_facts(daemon: &Daemon<'_>, member: &str, what: &str, wanted: [&str; 5]) -> Value {
    let mut seen = Value::Null;
    daemon.until(&format!("{what}: {wanted:?}"), || {
        let mut clusters = daemon.get("clusters");
        clusters.retain(|cluster| cluster["metadata"]["name"] == member);
        seen = clusters.pop().unwrap_or_default();
        PROPERTIES.iter().zip(wanted).all(|(pointer, value)| seen.pointer(pointer) == Some(&json!(value)))
    });
    seen
}

fn change(member: &Member, args: &[&str]) {
    member.kubectl(args).expect("a change by hand");
}

#[test]
fn facts_about_a_member_follow_its_nodes_and_pods() {
    let members = &shared().members[..2];
    let (other, member) = (&members[0], &members[1]);
    let world = World::new(None, &access(members));
    let stated =
        "  annotations: {gitfleet.io/properties: '{\"cost\": \"0.5\", \"kubernetes-fleet.io/node-count\": 99}'}\n";
    world.write(
        "fleet.yaml",
        &format!(
            "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata:\n  name: {}\n{stated}spec: {{}}\n",
            member.name
        ),
    );
    world.write("other.yaml", &member_clusters([other.name.as_str()]));
    world.write("picky.yaml", &[placement("picky", &pick_one(4)), namespace("picky")].concat());
    world.commit("Two members");
    member.kubectl_apply(&namespace("facts")).expect("a namespace");
    let daemon = world.start();
    let await_facts = |what: &str, wanted: [&str; 5]| await_facts(&daemon, &member.name, what, wanted);
    await_facts("no node, whatever git states", ["0", "0", "0", "0", "0"]);

    member.kubectl_apply(&node("facts-1", "4", "8Gi")).expect("a node");
    member.kubectl_apply(&node("facts-2", "2500m", "4Gi")).expect("a node");
    let cluster = await_facts("two nodes", ["2", "6500m", "12Gi", "6500m", "12Gi"]);
    let property = |name: &str| cluster["status"]["properties"][name]["value"].as_str().unwrap_or_default().to_owned();
    assert_eq!(property("kubernetes.azure.com/node-count"), "2");
    assert!(property("k8s.io/k8s-version").starts_with("v1."), "{cluster}");
    assert_eq!(property("cost"), "0.5", "what nobody can see is as git states it");
    let age = cluster["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
    assert!(!age.is_empty(), "{cluster}");

    // The placement waited for a cluster like this, and stays there whatever becomes of it.
    daemon.await_rolled_out("picky", 0);
    let picked = || {
        let bindings = daemon.get("bindings");
        bindings.iter().map(|b| b["spec"]["targetCluster"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(picked(), [member.name.as_str()]);

    // Pods that a node was given count, with their sidecars, whether the node is there or not; others do not.
    member.kubectl_apply(&pod("one", "facts-gone", "1500m", "1008Mi")).expect("a pod");
    member.kubectl_apply(&pod("waits", "", "1", "1Gi")).expect("a pod without a node");
    await_facts("a pod", ["2", "6500m", "12Gi", "4900m", "11Gi"]);
    change(member, &["cordon", "facts-1"]);
    member.kubectl_apply(&pod("two", "facts-2", "9", "1008Mi")).expect("a pod that is too large");
    await_facts("cordoned, and filled", ["2", "6500m", "12Gi", "0", "10Gi"]);

    assert_eq!(picked(), [member.name.as_str()], "a satisfied decision does not move");

    // What is deleted or done gives back.
    change(member, &["-n", "facts", "delete", "pod", "two", "--force", "--grace-period=0"]);
    await_facts("a pod less", ["2", "6500m", "12Gi", "4900m", "11Gi"]);
    let done = json!({"status": {"phase": "Succeeded"}}).to_string();
    change(member, &["-n", "facts", "patch", "pod", "one", "--subresource=status", "--type=merge", "-p", &done]);
    await_facts("a pod is done", ["2", "6500m", "12Gi", "6500m", "12Gi"]);
    let grown = json!({"status": {"capacity": {"cpu": "8"}, "allocatable": {"memory": "16Gi"}}}).to_string();
    change(member, &["patch", "node", "facts-1", "--subresource=status", "--type=merge", "-p", &grown]);
    await_facts("a node grows", ["2", "10500m", "20Gi", "6500m", "20Gi"]);
    change(member, &["delete", "node", "facts-1", "facts-2"]);
    await_facts("no node", ["0", "0", "0", "0", "0"]);
    change(member, &["-n", "facts", "delete", "pod", "--all", "--force", "--grace-period=0"]);
}

#[test]
fn a_member_that_shows_no_nodes_is_delivered_to_all_the_same() {
    let member = &shared().members[1];
    let world = World::new(None, &[]);
    let rules = json!([
        {"apiGroups": [""], "resources": ["namespaces", "configmaps"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
    ]);
    let metadata = json!({"name": "no-nodes"});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules});
    member.kubectl_apply(&role.to_string()).expect("a role");
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "no-nodes"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "no-nodes"}],
    });
    member.kubectl_apply(&binding.to_string()).expect("a binding");
    let kubeconfig = impersonating(&world, member, "no-nodes");
    world.configure(None, &[(member.name.as_str(), &kubeconfig)]);
    world.write("fleet.yaml", &member_clusters([member.name.as_str()]));
    let app = [placement("blind", ""), namespace("blind"), config_map("blind", "a", "1")].concat();
    world.write("a.yaml", &app);
    world.commit("Blind");
    let daemon = world.start();
    daemon.await_rolled_out("blind", 0);
    let cluster = daemon.get("clusters").pop().unwrap_or_default();
    let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let collected = conditions.iter().find(|c| c["type"] == "ClusterPropertyCollectionSucceeded");
    let collected = collected.unwrap_or_else(|| panic!("{cluster}"));
    assert_eq!(collected["status"], "False");
    let message = collected["message"].as_str().unwrap_or_default();
    assert!(message.contains("403") && message.contains("nodes"), "{message}");
    let properties = cluster["status"]["properties"].as_object().cloned().unwrap_or_default();
    assert_eq!(properties.keys().collect::<Vec<_>>(), ["k8s.io/k8s-version"], "what is not known is absent");
    assert_eq!(world.logged("not all facts about the cluster can be seen").len(), 1, "it is said once");
}

/// The kind as Open Cluster Management defines it, as far as it is read.
const CLUSTER_CLAIMS: &str = "---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterclaims.cluster.open-cluster-management.io}
spec:
  group: cluster.open-cluster-management.io
  names: {kind: ClusterClaim, listKind: ClusterClaimList, plural: clusterclaims, singular: clusterclaim}
  scope: Cluster
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties: {spec: {type: object, properties: {value: {type: string}}}}
";

fn claim(name: &str, value: &str) -> String {
    format!(
        "---\napiVersion: cluster.open-cluster-management.io/v1alpha1\nkind: ClusterClaim\nmetadata: {{name: {name}}}\n\
         spec: {{value: {value}}}\n"
    )
}

#[test]
fn claims_of_a_member_are_followed_and_nothing_is_missing_without_the_kind() {
    let members = &shared().members[..2];
    let (plain, member) = (&members[0], &members[1]);
    let world = World::new(None, &access(members));
    world.write("fleet.yaml", &member_clusters([plain.name.as_str(), member.name.as_str()]));
    world.commit("Two members");
    member.kubectl_apply(CLUSTER_CLAIMS).expect("a definition");
    let definition = "crd/clusterclaims.cluster.open-cluster-management.io";
    change(member, &["wait", "--for=condition=Established", definition]);
    member.kubectl_apply(&claim("site.example", "first")).expect("a claim");
    let daemon = world.start();
    let status = |name: &str| {
        let clusters = daemon.get("clusters");
        clusters.into_iter().find(|cluster| cluster["metadata"]["name"] == name).unwrap_or_default()["status"].clone()
    };
    let claims = |value: &str| json!([{"name": "site.example", "value": value}]);
    daemon.until("it is known", || status(&member.name)["clusterClaims"] == claims("first"));
    member.kubectl_apply(&claim("site.example", "second")).expect("a change");
    daemon.until("it is followed", || status(&member.name)["clusterClaims"] == claims("second"));
    change(member, &["delete", "clusterclaim", "site.example"]);
    daemon.until("it is gone", || status(&member.name)["clusterClaims"].is_null());
    let collected = |status: &Value| {
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|c| c["type"] == "ClusterPropertyCollectionSucceeded" && c["status"] == "True")
    };
    daemon.until("nothing is missed there", || collected(&status(&plain.name)));
    change(member, &["delete", definition]);
}
