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
