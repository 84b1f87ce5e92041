//! What is odd and refuses nothing: `validate`, `plan` and `status` say it, each in its form.

use std::fs;

use serde_json::Value;

use crate::cli::scratch::{CONFIG, FLEET, Scratch, cluster, namespace, placement};

/// A placement's file with more of its spec, and what is said of it.
const CASES: [(&str, &str, &str); 6] = [
    (
        "w10-fixed",
        "  policy: {placementType: PickFixed, clusterNames: [east, wst]}\n",
        "spec.policy.clusterNames: cannot be fulfilled: wst, which is not in the fleet (did you mean `west`?)",
    ),
    (
        "w10-number",
        "  policy: {placementType: PickN, numberOfClusters: 20}\n",
        "spec.policy: cannot be fulfilled: 2 of 20 clusters fit",
    ),
    (
        "w11-zero",
        "  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0}}\n",
        "spec.strategy.rollingUpdate.maxUnavailable: 0 lets no update start: clusters keep what they have (write at least 1)",
    ),
    (
        "w11-percent",
        "  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0%}}\n",
        "spec.strategy.rollingUpdate.maxUnavailable: 0 lets no update start: clusters keep what they have (write at least 1)",
    ),
    (
        "no-run",
        "  strategy: {type: External}\n",
        "spec.strategy.type: is External, and neither a run nor an annotation names a staged strategy: nothing moves its \
         clusters (annotate the placement with gitfleet.io/staged-update-strategy, or add a run)",
    ),
    ("quiet", "", ""),
];

const POD: &str =
    "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p1, namespace: web}\nspec: {containers: [{name: a, image: b}]}\n";

fn fleet() -> Scratch {
    let scratch = Scratch::new();
    scratch.configure();
    scratch.write("clusters.yaml", &[cluster("east", "e"), cluster("west", "w")].concat());
    scratch.write("web.yaml", &namespace("web", &[("a", "1")]));
    scratch
}

/// Returns the warnings of all surfaces that need no daemon, each as one text.
fn said(scratch: &Scratch) -> [String; 4] {
    let validate = scratch.run(&["validate", FLEET]);
    let text = scratch.run(&["plan", "--repo", FLEET]);
    let json: Value = scratch.run(&["plan", "--repo", FLEET, "-o", "json"]).json(text.code);
    let warnings = json["warnings"].as_array().cloned().unwrap_or_default();
    let lines = warnings.iter().map(|it| {
        let part = |name: &str| it[name].as_str().unwrap_or_default().to_owned();
        let hint = if it["hint"].is_null() { String::new() } else { format!(" ({})", part("hint")) };
        format!("{}: {}: {}{hint}\n", part("object"), part("field"), part("message"))
    });
    let markdown = scratch.run(&["plan", "--repo", FLEET, "-o", "markdown", "--base", "HEAD~1"]);
    [validate.err, text.out, lines.collect(), markdown.out]
}

#[test]
fn w10_w11_what_cannot_happen_is_a_warning_of_validate_and_plan() {
    for (name, more, expected) in CASES {
        let scratch = fleet();
        scratch.commit("clusters");
        scratch.write("placement.yaml", &placement(name, "web", more));
        scratch.commit("placement");
        let [validate, text, json, markdown] = said(&scratch);
        if expected.is_empty() {
            assert!(validate.ends_with(": no errors\n") && !text.contains('!') && json.is_empty(), "{validate}{text}");
            assert!(!markdown.contains("Warnings"), "{markdown}");
            continue;
        }
        let whole = format!("ClusterResourcePlacement {name}: {expected}\n");
        assert!(validate.contains(&format!("warning: placement.yaml:2: {whole}")), "{name}: {validate}");
        assert!(text.contains(&format!("! placement.yaml:2: {whole}")), "{name}: {text}");
        assert_eq!(json, whole);
        // What people wrote is escaped there.
        let plain = markdown.replace("&#96;", "");
        let line = format!("**Warnings.**\n\n- placement.yaml:2: {}", whole.replace('`', ""));
        assert!(plain.contains(&line), "{name}: {markdown}");
    }
}

#[test]
fn w15_pods_and_empty_selections_are_warnings() {
    let scratch = fleet();
    let others = namespace("payments", &[]);
    scratch.write("web.yaml", &[namespace("web", &[("a", "1")]), POD.to_owned(), others].concat());
    scratch.write("a.yaml", &placement("pods", "web", ""));
    scratch.write("b.yaml", &placement("misspelt", "paymets", ""));
    let labels = placement("labels", "web", "").replace(", name: web", ", labelSelector: {matchLabels: {tier: none}}");
    assert!(labels.contains("tier: none"), "{labels}");
    scratch.write("c.yaml", &labels);
    let found = scratch.run(&["validate", FLEET]);
    insta::assert_snapshot!(found.err, @"
    warning: a.yaml:2: ClusterResourcePlacement pods: Pod web/p1 (web.yaml) is not delivered: Pods never are, as on a KubeFleet hub (write a Deployment, a Job or the like)
    warning: b.yaml:2: ClusterResourcePlacement misspelt: spec.resourceSelectors[0]: selects nothing: the source has no Namespace paymets (did you mean `payments`?)
    warning: c.yaml:2: ClusterResourcePlacement labels: spec.resourceSelectors: the selectors select nothing, so nothing is delivered
    4 objects, 3 placements, 2 clusters: no errors, 3 warnings
    ");
}

#[test]
fn w10_status_says_what_plan_says() {
    let scratch = fleet();
    scratch.write(
        "placement.yaml",
        &placement("p", "web", "  policy: {placementType: PickFixed, clusterNames: [east, wst]}\n"),
    );
    scratch.commit("first");
    assert_eq!(scratch.run(&["run", "-c", CONFIG, "--once"]).code, 1);
    let status = scratch.run(&["status", "--exit-code", "-c", CONFIG]);
    let line =
        "! spec.policy.clusterNames: cannot be fulfilled: wst, which is not in the fleet (did you mean `west`?)\n";
    assert!(status.text(1).contains(line), "{}", status.out);
}

/// Replaces the members of the configuration.
fn members(scratch: &Scratch, entries: &str) {
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    let entry = "  - {name: \"*\", directory: \"./members/{name}\"}\n";
    assert!(text.contains(entry), "{text}");
    fs::write(scratch.path(CONFIG), text.replace(entry, entries)).expect("a file");
}

fn joined(scratch: &Scratch, name: &str) -> String {
    let clusters = scratch.run(&["get", "clusters", name, "-c", CONFIG, "-o", "json"]).json(0);
    let conditions = clusters["status"]["conditions"].as_array().expect("conditions").clone();
    let joined = conditions.iter().find(|it| it["type"] == "Joined").expect("the condition");
    joined["status"].as_str().expect("text").to_owned()
}

#[test]
fn ux1a_2_clusters_without_an_entry_lead_the_status() {
    let scratch = fleet();
    members(&scratch, "  - {name: \"east\", directory: \"./members/{name}\"}\n");
    scratch.write(
        "placement.yaml",
        &placement("p", "web", "  policy: {placementType: PickFixed, clusterNames: [east]}\n"),
    );
    scratch.commit("first");
    let once = scratch.run(&["run", "-c", CONFIG, "--once"]);
    let said = "1 cluster has no entry in `members:`: west";
    assert_eq!(once.code, 1, "{}", once.err);
    assert_eq!(
        once.err
            .lines()
            .filter(|line| line.contains("WARN") && line.contains(said) && !line.contains("state="))
            .count(),
        1,
        "{}",
        once.err
    );
    let status = scratch.run(&["status", "--exit-code", "-c", CONFIG]);
    assert!(status.text(1).starts_with(&format!("! {said}")), "{}", status.out);
    assert!(status.out.contains("\np  ✓ 1/1  "), "{}", status.out);
    assert_eq!((joined(&scratch, "east"), joined(&scratch, "west")), ("True".into(), "False".into()));
    // One that is left alone on purpose is suspended.
    let west = cluster("west", "w")
        .replace("  name: west\n", "  name: west\n  annotations: {gitfleet.io/suspended: \"true\"}\n");
    scratch.write("clusters.yaml", &[cluster("east", "e"), west].concat());
    scratch.commit("suspended");
    assert_eq!(scratch.run(&["run", "-c", CONFIG, "--once"]).code, 0);
    assert!(scratch.run(&["status", "--exit-code", "-c", CONFIG]).text(0).starts_with("source "));
}

#[test]
fn ux1a_3_a_cluster_that_never_answered_is_not_joined() {
    let scratch = fleet();
    members(
        &scratch,
        "  - {name: east, directory: \"./members/{name}\"}\n  - {name: west, kubeconfig: {path: ./west.kubeconfig}}\n",
    );
    let kubeconfig = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n\
                      users: [{name: a, user: {token: x}}]\nclusters: [{name: a, cluster: {server: \"http://127.0.0.1:1\"}}]\n";
    fs::write(scratch.path("west.kubeconfig"), kubeconfig).expect("a file");
    scratch.write(
        "placement.yaml",
        &placement("p", "web", "  policy: {placementType: PickFixed, clusterNames: [east]}\n"),
    );
    scratch.commit("first");
    let once = scratch.run(&["run", "-c", CONFIG, "--once"]);
    assert_eq!(once.code, 1, "{}", once.err);
    let status = scratch.run(&["status", "--exit-code", "-c", CONFIG]);
    assert!(status.text(1).starts_with("! 1 cluster has never answered: west: "), "{}", status.out);
    assert_eq!((joined(&scratch, "east"), joined(&scratch, "west")), ("True".into(), "False".into()));
    let table = scratch.run(&["get", "clusters", "west", "-c", CONFIG]);
    assert!(table.text(0).contains("never answered"), "{}", table.out);
}

const PROTECTING: &str = "\
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacementDisruptionBudget
metadata: {name: wbe}
spec: {minAvailable: 1}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacementDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacementEviction
metadata: {name: e1}
spec: {placementName: other, clusterName: eats}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacementEviction
metadata: {name: e2}
spec: {placementName: web, clusterName: east}
";

/// An override of one object of a namespace, or of a Namespace; for a placement, on clusters with this label.
fn overriding(kind: &str, name: &str, selector: &str, placement: &str, env: &str) -> String {
    let (namespace, list) = match kind {
        "ResourceOverride" => (", namespace: web", "resourceSelectors"),
        _ => ("", "clusterResourceSelectors"),
    };
    format!(
        "---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: {kind}\nmetadata: {{name: {name}{namespace}}}\n\
         spec:\n{placement}  {list}: [{{{selector}}}]\n  policy:\n    overrideRules:\n    - clusterSelector: \
         {{clusterSelectorTerms: [{{labelSelector: {{matchLabels: {{region: {env}}}}}}}]}}\n      \
         jsonPatchOverrides: [{{op: add, path: /metadata/annotations, value: {{a: b}}}}]\n"
    )
}

#[test]
fn m14_what_protects_and_names_nothing_is_a_warning() {
    let scratch = fleet();
    scratch.write("placement.yaml", &placement("web", "web", "")).write("protect.yaml", PROTECTING);
    let config_map = |name: &str| format!("group: '', version: v1, kind: ConfigMap, name: {name}");
    let of = |name: &str, map: &str, placement: &str, env: &str| {
        overriding("ResourceOverride", name, &config_map(map), placement, env)
    };
    let unselected = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: db}\n";
    let overrides = [
        of("good", "a", "", "e"),
        of("missing", "aa", "", "e"),
        of("nowhere", "a2", "", "north"),
        of("placed", "a3", "  placement: {name: wbe}\n", "e"),
        of("version", "a4", "", "e").replace("version: v1, kind", "version: v2, kind"),
        overriding("ClusterResourceOverride", "whole", "group: '', version: v1, kind: Namespace, name: web", "", "w"),
        overriding("ClusterResourceOverride", "db", "group: '', version: v1, kind: Namespace, name: db", "", "w"),
        unselected.to_owned(),
    ];
    let maps = ["a", "a2", "a3", "a4"].map(|name| (name, "1"));
    scratch.write("web.yaml", &namespace("web", &maps)).write("overrides.yaml", &overrides.concat());
    scratch.commit("first");
    let found = scratch.run(&["validate", FLEET]);
    assert_eq!(found.code, 0, "{}", found.err);
    insta::assert_snapshot!(found.err, @r"
    warning: overrides.yaml:12: ResourceOverride.placement.kubernetes-fleet.io web/missing: spec.resourceSelectors[0]: the source has no ConfigMap web/aa, so nothing is overridden
    warning: overrides.yaml:22: ResourceOverride.placement.kubernetes-fleet.io web/nowhere: spec.policy.overrideRules[0].clusterSelector: fits no cluster of the source, so the rule overrides nothing
    warning: overrides.yaml:32: ResourceOverride.placement.kubernetes-fleet.io web/placed: spec.placement.name: the source has no ClusterResourcePlacement wbe, so nothing is overridden
    warning: overrides.yaml:43: ResourceOverride.placement.kubernetes-fleet.io web/version: spec.resourceSelectors[0]: ConfigMap web/a4 has version v1 in the source, so nothing is overridden (write version: v1)
    warning: overrides.yaml:63: ClusterResourceOverride.placement.kubernetes-fleet.io db: spec.clusterResourceSelectors[0]: no placement delivers Namespace db, so nothing is overridden
    warning: protect.yaml:2: ClusterResourcePlacementDisruptionBudget.placement.kubernetes-fleet.io wbe: metadata.name: the source has no ClusterResourcePlacement wbe, so the budget protects nothing
    warning: protect.yaml:12: ClusterResourcePlacementEviction.placement.kubernetes-fleet.io e1: spec.clusterName: the source has no cluster eats, so nothing is evicted (did you mean `east`?)
    warning: protect.yaml:12: ClusterResourcePlacementEviction.placement.kubernetes-fleet.io e1: spec.placementName: the source has no ClusterResourcePlacement other, so nothing is evicted
    6 objects, 1 placement, 2 clusters: no errors, 8 warnings
    ");
    let plan = scratch.run(&["plan", "--repo", FLEET]);
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
    let status = scratch.run(&["status", "-c", CONFIG]);
    for line in found.err.lines().filter_map(|line| line.strip_prefix("warning: ")) {
        assert!(plan.text(0).contains(&format!("! {line}\n")), "{line}: {}", plan.out);
        assert!(status.text(0).contains(&format!("! {line}\n")), "{line}: {}", status.out);
    }
    // Corrected ones are said no more.
    scratch.remove("protect.yaml").remove("overrides.yaml").commit("second");
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
    let status = scratch.run(&["status", "-c", CONFIG]);
    assert!(!status.text(0).contains('!'), "{}", status.out);
}

#[test]
fn m14_objects_for_other_hubs_are_named_and_not_delivered() {
    let scratch = fleet();
    let other = "---\napiVersion: placement.kubefleet.dev/v1alpha1\nkind: PlacementPolicy\nmetadata: {name: p, namespace: web}\n\
                 ---\napiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ClusterProfile\nmetadata: {name: c, namespace: web}\n\
                 ---\napiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ServiceExport\nmetadata: {name: s, namespace: web}\n";
    scratch.write("other.yaml", other).write("placement.yaml", &placement("web", "web", ""));
    scratch.commit("first");
    let found = scratch.run(&["validate", FLEET]);
    insta::assert_snapshot!(found.err, @r"
    warning: other.yaml:2: PlacementPolicy.placement.kubefleet.dev web/p: gitfleet does not read PlacementPolicy of placement.kubefleet.dev, and no placement delivers it (write it in group placement.kubernetes-fleet.io or cluster.kubernetes-fleet.io, or remove it)
    warning: other.yaml:6: ClusterProfile.multicluster.x-k8s.io web/c: gitfleet does not read ClusterProfile of multicluster.x-k8s.io, and no placement delivers it (write it in group placement.kubernetes-fleet.io or cluster.kubernetes-fleet.io, or remove it)
    5 objects, 1 placement, 2 clusters: no errors, 2 warnings
    ");
    assert!(scratch.run(&["plan", "--repo", FLEET]).text(0).contains("! other.yaml:2: "));
    let run = scratch.run(&["run", "-c", CONFIG, "--once"]);
    run.text(0);
    assert!(run.err.contains("no placement delivers it"), "{}", run.err);
    let delivered = scratch.member("east");
    assert_eq!(
        delivered,
        ["configmap..web.a.yaml", "namespace...web.yaml", "serviceexport.multicluster.x-k8s.io.web.s.yaml"]
    );
}
