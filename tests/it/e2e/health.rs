//! Objects that tell their health by conditions: a canary waits for each, and the first that fails halts the run. No controller
//! runs on the members: the test writes what they would write.

use std::time::Duration;

use serde_json::{Value, json};

use crate::e2e::daemon::{Daemon, World, access, clusters_of, manifest, namespace};
use crate::e2e::fleet::{Fleet, Member, Options};

const DEFINITIONS: [(&str, &str, &str, &str); 2] = [
    ("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases"),
    ("cert-manager.io", "v1", "Certificate", "certificates"),
];

fn definition(&(group, version, kind, plural): &(&str, &str, &str, &str)) -> String {
    format!(
        "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {plural}.{group}}}\nspec:\n  \
         group: {group}\n  scope: Namespaced\n  names: {{kind: {kind}, plural: {plural}, singular: {}}}\n  versions:\n    \
         - name: {version}\n      served: true\n      storage: true\n      subresources: {{status: {{}}}}\n      \
         schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}\n",
        kind.to_lowercase()
    )
}

/// A placement by two stages of a Namespace with a Job, a HelmRelease and a Certificate.
fn payload(name: &str, chart: &str) -> String {
    let stage = |stage: &str| format!("    - {{name: {stage}, labelSelector: {{matchLabels: {{stage: {stage}}}}}}}\n");
    let selector = |(group, .., plural): &(&str, &str, &str, &str)| {
        format!(
            "    - {{group: apiextensions.k8s.io, version: v1, kind: CustomResourceDefinition, name: {plural}.{group}}}\n"
        )
    };
    [
        format!(
            "---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\nmetadata: {{name: {name}}}\n\
             spec:\n  stages:\n{}{}---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata:\n  \
             name: {name}\n  annotations: {{gitfleet.io/staged-update-strategy: {name}}}\nspec:\n  strategy: {{type: External}}\n  \
             resourceSelectors:\n    - {{group: '', version: v1, kind: Namespace, name: {name}}}\n{}",
            stage("canary"),
            stage("rest"),
            DEFINITIONS.iter().map(selector).collect::<String>()
        ),
        namespace(name),
        DEFINITIONS.iter().map(definition).collect(),
        format!(
            "---\napiVersion: batch/v1\nkind: Job\nmetadata: {{name: migrate, namespace: {name}}}\nspec:\n  template:\n    spec:\n      \
             restartPolicy: Never\n      containers: [{{name: main, image: 'migrate:1'}}]\n\
             ---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: shop, namespace: {name}}}\nspec: {{chart: {chart}}}\n\
             ---\napiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {{name: tls, namespace: {name}}}\nspec: {{secretName: tls}}\n"
        ),
    ]
    .concat()
}

fn write_status(member: &Member, namespace: &str, kind: &str, name: &str, status: &Value) {
    let change = json!({"status": status}).to_string();
    member
        .kubectl(&["-n", namespace, "patch", kind, name, "--subresource=status", "--type=merge", "-p", &change])
        .expect("the status is written");
}

fn is_there(member: &Member, namespace: &str, kind: &str, name: &str) -> bool {
    member.get(namespace, kind, name).ok().flatten().is_some()
}

/// Returns the status of an object's condition Available; empty where it has none.
fn available(daemon: &Daemon<'_>, placement: &str, member: &Member, object: &str) -> String {
    let manifest = manifest(daemon, placement, &member.name, object);
    let conditions = manifest["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == "Available");
    found.and_then(|condition| condition["status"].as_str()).unwrap_or_default().to_owned()
}

fn condition(type_: &str, status: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": "Test", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

/// What the controllers write of objects that are well: object, kind and name for kubectl, status.
fn well(name: &str) -> [(String, &'static str, &'static str, Value); 3] {
    let complete = json!({
        "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:01:00Z", "succeeded": 1,
        "conditions": [condition("SuccessCriteriaMet", "True", ""), condition("Complete", "True", "")],
    });
    let ready = json!({"observedGeneration": 1, "conditions": [condition("Ready", "True", "")]});
    let issued = json!({"conditions": [condition("Ready", "True", "")]});
    [
        (format!("Job {name}/migrate"), "job", "migrate", complete),
        (format!("HelmRelease {name}/shop"), "helmrelease", "shop", ready),
        (format!("Certificate {name}/tls"), "certificate", "tls", issued),
    ]
}

#[test]
fn a_canary_waits_for_jobs_and_custom_resources_and_halts_when_one_fails() {
    const NAME: &str = "shop";
    let fleet = Fleet::start(Options::members(2)).expect("the test fleet starts");
    let [canary, rest] = &fleet.members[..] else { panic!("a fleet of two") };
    let world = World::new(None, &access(&fleet.members));
    world.write("fleet.yaml", &clusters_of(&fleet.members, ["canary", "rest"]));
    world.write("a.yaml", &payload(NAME, "one"));
    world.commit("One");
    let daemon = world.start();
    for (object, kind, name, status) in well(NAME) {
        daemon
            .until(&format!("the canary waits for {object}"), || available(&daemon, NAME, canary, &object) == "False");
        assert!(!is_there(rest, NAME, "job", "migrate"), "the next stage begins after {object}");
        write_status(canary, NAME, kind, name, &status);
        daemon.until(&format!("{object} is available"), || available(&daemon, NAME, canary, &object) == "True");
    }
    daemon.until("the next stage begins", || is_there(rest, NAME, "certificate", "tls"));
    for (object, kind, name, status) in well(NAME) {
        daemon.until(&format!("{object} is awaited"), || available(&daemon, NAME, rest, &object) == "False");
        write_status(rest, NAME, kind, name, &status);
    }
    daemon.await_rolled_out(NAME, 0);

    world.write("a.yaml", &payload(NAME, "two"));
    world.commit("Two");
    let limit = Duration::from_secs(90);
    let release = (NAME, "helmrelease", "shop");
    canary.await_object(release, limit, |release| release["spec"]["chart"] == "two").expect("the canary gets it");
    let stalled = condition("Stalled", "True", "install retries exhausted");
    let status = json!({"observedGeneration": 2, "conditions": [condition("Ready", "False", ""), stalled]});
    write_status(canary, NAME, "helmrelease", "shop", &status);
    // The progress deadline is ten minutes away.
    let status = daemon.await_status("halted: stage canary");
    assert!(status.contains("install retries exhausted"), "{status}");
    let release = rest.get(NAME, "helmrelease", "shop").expect("asked").expect("it is there");
    assert_eq!(release["spec"]["chart"], "one", "the next stage is as it was");
}
