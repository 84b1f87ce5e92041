//! Overrides and envelopes from files to folders: what `plan` shows is what `run` writes.

use serde_json::{Value, json};

use crate::cli::scratch::{CONFIG, FLEET, Scratch, annotated_placement, cluster, namespace};

const CLUSTER_OVERRIDE: &str = "
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourceOverride
metadata: {name: regions}
spec:
  placement: {name: web}
  clusterResourceSelectors: [{group: \"\", version: v1, kind: Namespace, name: web}]
  policy:
    overrideRules:
      - clusterSelector: {clusterSelectorTerms: []}
        jsonPatchOverrides:
          - {op: add, path: /metadata/labels, value: {region: \"${MEMBER-CLUSTER-LABEL-KEY-region}\"}}
";

const RESOURCE_OVERRIDE: &str = "
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceOverride
metadata: {name: settings, namespace: web}
spec:
  resourceSelectors: [{group: \"\", version: v1, kind: ConfigMap, name: settings}]
  policy:
    overrideRules:
      - clusterSelector:
          clusterSelectorTerms: [{labelSelector: {matchLabels: {region: w}}}]
        jsonPatchOverrides:
          - {op: replace, path: /data/key, value: \"of ${MEMBER-CLUSTER-NAME}\"}
";

const ENVELOPE: &str = "
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceEnvelope
metadata: {name: env, namespace: web}
data:
  quota.yaml:
    apiVersion: v1
    kind: ResourceQuota
    metadata: {name: quota, namespace: web}
    spec: {hard: {pods: \"10\"}}
";

fn small() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("clusters.yaml", &[cluster("east", "e"), cluster("west", "w")].concat());
    scratch.write("web.yaml", &namespace("web", &[("settings", "1")]));
    scratch.write("placement.yaml", &annotated_placement("web", "{gitfleet.io/max-failures: \"1\"}", "web", ""));
    scratch.write("overrides.yaml", &[CLUSTER_OVERRIDE, RESOURCE_OVERRIDE, ENVELOPE].concat());
    scratch
}

fn plan(scratch: &Scratch, code: i32) -> Value {
    scratch.run(&["plan", "--repo", FLEET, "-o", "json"]).json(code)
}

#[test]
fn works_are_planned_after_overrides_and_envelopes() {
    let work = |cluster: &str, region: &str, value: &str| {
        let object = |kind: &str, name: &str, namespaced: bool, mut more: Value| {
            let mut metadata = json!({"name": name, "labels": {"region": region}});
            if namespaced {
                metadata["namespace"] = "web".into();
            }
            more["apiVersion"] = "v1".into();
            more["kind"] = kind.into();
            more["metadata"] = metadata;
            more
        };
        json!({"clusterName": cluster, "manifests": [
            object("Namespace", "web", false, json!({})),
            object("ConfigMap", "settings", true, json!({"data": {"key": value}})),
            object("ResourceQuota", "quota", true, json!({"spec": {"hard": {"pods": "10"}}})),
        ]})
    };
    let scratch = small();
    let found = plan(&scratch, 0);
    let mut works = found["placements"][0]["works"].clone();
    // Applied in waves; quotas and maps are of one.
    for work in works.as_array_mut().unwrap() {
        let manifests = work["manifests"].as_array_mut().unwrap();
        manifests
            .sort_by_key(|m| ["Namespace", "ConfigMap", "ResourceQuota"].iter().position(|kind| m["kind"] == *kind));
    }
    assert_eq!(works, json!([work("east", "e", "1"), work("west", "w", "of west")]));
    let resources = found["placements"][0]["snapshot"]["resources"].as_array().unwrap();
    let kinds: Vec<_> = resources.iter().map(|r| r["kind"].as_str().unwrap_or_default()).collect();
    assert_eq!(kinds, ["Namespace", "ConfigMap", "ResourceEnvelope"], "the snapshot has the envelope itself");
}

#[test]
fn what_fails_on_one_cluster_is_said_there() {
    let scratch = small();
    scratch.write("clusters.yaml", &[cluster("east", "e"), cluster("west", "w").replace("region:", "zone:")].concat());
    let found = plan(&scratch, 1);
    let works = &found["placements"][0]["works"];
    assert_eq!((works[0].get("error"), works[1]["manifests"].as_array().map(Vec::len)), (None, Some(0)));
    let error = works[1]["error"].as_str().unwrap_or_default();
    let wanted = "ClusterResourceOverride regions rule 1: add /metadata/labels on Namespace web: the cluster west has no label \
                  region";
    assert_eq!(error, wanted);
    scratch.configure().commit("one cluster without its label");
    scratch.run(&["run", "-c", CONFIG, "--once", "--timeout", "20s"]).text(1);
    let shown = scratch.run(&["get", "bindings", "-c", CONFIG, "-o", "json"]).json(0);
    let reason = |cluster: &str| {
        let items = shown["items"].as_array().unwrap();
        let binding = items.iter().find(|b| b["spec"]["targetCluster"] == cluster).unwrap();
        let conditions = binding["status"]["conditions"].as_array().unwrap();
        conditions.iter().find(|c| c["type"] == "Overridden").map(|c| c["reason"].clone())
    };
    assert_eq!((reason("east"), reason("west")), (Some("OverriddenSucceeded".into()), Some("OverriddenFailed".into())));
}

#[test]
fn what_is_planned_is_written() {
    let scratch = small();
    scratch.configure().commit("first");
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
    let read = |path: &str| std::fs::read_to_string(scratch.path(path)).unwrap_or_default();
    assert!(read("members/west/configmap..web.settings.yaml").contains("of west"));
    assert!(
        read("members/west/configmap..web.settings.yaml")
            .contains("gitfleet.io/placed-by: ClusterResourcePlacement/web")
    );
    assert!(read("members/east/resourcequota..web.quota.yaml").contains("region: e"));
    assert!(!scratch.path("members/east").join("resourceenvelope.placement.kubernetes-fleet.io.web.env.yaml").exists());
    assert_shown_from_records(&scratch);
    // An override that goes takes back what it changed, in a process that only knows the store.
    scratch.write("overrides.yaml", CLUSTER_OVERRIDE);
    let head = scratch.commit("second");
    let plan = scratch.run(&["plan", "--repo", FLEET, "--base", "HEAD~1", "--head", &head, "-o", "json"]).json(0);
    assert_eq!(plan["placements"][0]["changes"]["overridden"], json!(["west"]));
    assert_eq!(plan["placements"][0]["deletions"][0]["resources"][0]["kind"], "ResourceQuota");
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
    assert!(!read("members/west/configmap..web.settings.yaml").contains("of west"));
    assert!(read("members/west/configmap..web.settings.yaml").contains("region: w"));
    assert!(read("members/east/resourcequota..web.quota.yaml").is_empty());
}

/// What a person can see of overrides without looking at a cluster: their snapshots, and the objects that come out of them.
fn assert_shown_from_records(scratch: &Scratch) {
    let overrides = scratch.run(&["get", "overrides", "-c", CONFIG, "-o", "name"]);
    let kinds = [("clusterresourceoverridesnapshot", "regions-0"), ("resourceoverridesnapshot", "settings-0")];
    let names = kinds.map(|(kind, name)| format!("{kind}.placement.kubernetes-fleet.io/{name}\n"));
    assert_eq!(overrides.text(0), names.concat());
    let snapshot = scratch.run(&["get", "overrides", "settings-0", "-c", CONFIG, "-o", "json"]).json(0);
    assert_eq!(snapshot["spec"]["overrideSpec"]["resourceSelectors"][0]["name"], "settings");
    assert_eq!(snapshot["metadata"]["labels"]["kubernetes-fleet.io/is-latest-snapshot"], "true");
    let works = |options: &[&str]| {
        let show = ["get", "works", "fleet-member-west/web-work", "-c", CONFIG, "--manifests", "--repo", FLEET];
        scratch.run(&[show.as_slice(), options].concat())
    };
    let settings = |options: &[&str]| {
        let work = works(options).json(0);
        let manifests = work["spec"]["workload"]["manifests"].as_array().unwrap();
        manifests.iter().find(|m| m["metadata"]["name"] == "settings").unwrap()["data"]["key"].clone()
    };
    assert_eq!(settings(&["-o", "json", "--show-secrets"]), "of west");
    assert!(settings(&["-o", "json"]).as_str().unwrap().starts_with("<masked:"), "a value under the name key");
    assert_eq!(works(&[]).code, 2, "a table has no manifests");
}

#[test]
fn j5_a_changed_override_is_shown_against_what_the_cluster_holds() {
    let scratch = small();
    let of = |value: &str| RESOURCE_OVERRIDE.replace("of ${MEMBER-CLUSTER-NAME}", value);
    scratch.write("overrides.yaml", &of("one"));
    scratch.commit("first");
    scratch.write("overrides.yaml", &of("two"));
    scratch.commit("second");
    let plan = |more: &[&str]| scratch.run(&[&["plan", "--repo", FLEET, "--base", "HEAD~1"], more].concat());
    let shown = plan(&["--show-secrets"]);
    let lines: Vec<&str> = shown.text(0).lines().filter(|line| line.starts_with(['+', '-'])).collect();
    assert_eq!(lines, ["-  key: one", "+  key: two"], "{}", shown.out);
    assert!(shown.out.contains("~ overrides of 1 cluster  of web: west\n"), "{}", shown.out);
    // A change of the object itself reaches it through the override, which hides it.
    scratch.write("web.yaml", &namespace("web", &[("settings", "3")]));
    scratch.commit("third");
    let shown = scratch.run(&["plan", "--repo", FLEET, "--base", "HEAD~1", "--show-secrets"]);
    assert!(!shown.text(0).contains("overrides of"), "west holds what it held: {}", shown.out);
}

#[test]
fn m14_up_to_date_means_the_newest_overrides_too() {
    let scratch = small();
    scratch.configure();
    scratch.write("overrides.yaml", RESOURCE_OVERRIDE);
    scratch.commit("first");
    let once = ["run", "-c", CONFIG, "--once"];
    scratch.run(&once).text(0);
    scratch.run(&["pause", "web", "-c", CONFIG]).text(0);
    scratch.write("overrides.yaml", &RESOURCE_OVERRIDE.replace("of ${", "at ${"));
    scratch.commit("second");
    let found = scratch.run(&once);
    assert_eq!(found.code, 3, "somebody must resume it: {}", found.err);
    let status = scratch.run(&["status", "web", "-c", CONFIG]);
    assert!(status.text(0).contains("1 of 2 clusters up to date"), "{}", status.out);
    let line = "· west  snapshot 0  holds snapshot 0 with earlier overrides or another apply strategy; waits for its turn; \
                paused by ";
    assert!(status.out.contains(line), "{}", status.out);
    let json = scratch.run(&["status", "-c", CONFIG, "-o", "json"]).json(0);
    assert_eq!(json["placements"][0]["upToDate"], 1, "{json}");
    scratch.run(&["resume", "web", "-c", CONFIG]).text(0);
    scratch.run(&once).text(0);
    let status = scratch.run(&["status", "web", "-c", CONFIG]);
    assert!(status.text(0).contains("2 of 2 clusters up to date"), "{}", status.out);
}
