//! `gitfleet validate`: every error with file and line, and the exit codes.

use serde_json::json;

use crate::cli::fleet_tree::fleet;
use crate::cli::scratch::{FLEET, Scratch, annotated_placement, cluster, namespace, placement};

#[test]
fn a_good_tree() {
    let scratch = Scratch::new();
    scratch.write("clusters.yaml", &cluster("east", "e"));
    scratch.write("web.yaml", &[namespace("web", &[("m", "1")]), placement("p", "web", "")].concat());
    scratch.write("values.yaml", "# nothing of Kubernetes\nreplicas: 3\n");
    let found = scratch.run(&["validate", FLEET]);
    assert_eq!(found.text(0), "");
    let expected =
        "skipped: values.yaml:2 has neither apiVersion nor kind\n2 objects, 1 placement, 1 cluster: no errors\n";
    assert_eq!(found.err, expected);
}

#[test]
fn every_error_in_order_with_file_and_line() {
    let scratch = Scratch::new();
    scratch.write("b.yaml", &[namespace("web", &[]), placement("p", "web", "  polcy: {}\n")].concat());
    scratch.write(
        "a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n---\nkind: Secret\nmetadata: {name: y}\n",
    );
    scratch.write("values.yaml", "replicas: 3\n");
    let found = scratch.run(&["validate", FLEET]);
    insta::assert_snapshot!(found.text(1), @r#"
    a.yaml:1: ConfigMap x: metadata.namespace: a ConfigMap is namespaced, and this one names no namespace (add metadata.namespace)
    a.yaml:5: apiVersion: required and missing
    b.yaml:15: ClusterResourcePlacement.placement.kubernetes-fleet.io p: spec.polcy: unknown field (did you mean `policy`?)
    "#);
    assert_eq!(found.err, "skipped: values.yaml:1 has neither apiVersion nor kind\n3 errors\n");
    let json = scratch.run(&["validate", FLEET, "-o", "json"]).json(1);
    let lines: Vec<_> = json["errors"].as_array().expect("a list").iter().map(|e| (&e["path"], &e["line"])).collect();
    assert_eq!(lines.len(), found.out.lines().count());
    for ((path, line), text) in lines.iter().zip(found.out.lines()) {
        assert!(text.starts_with(&format!("{}:{line}: ", path.as_str().unwrap_or_default())), "{text}");
    }
    let skipped = json!([{"path": "values.yaml", "line": 1, "reason": "has neither apiVersion nor kind"}]);
    assert_eq!(json["skipped"], skipped);
}

#[test]
fn point_11_keys_that_kubectl_reads_as_truth_values() {
    let scratch = Scratch::new();
    scratch.write("clusters.yaml", &cluster("east", "e").replace("{region", "{n: x, region"));
    let found = scratch.run(&["validate", FLEET]);
    let line = "metadata.labels.n: the key n is read as \"false\", as kubectl reads it (put it in quotes: \"n\")\n";
    assert!(found.text(1).starts_with("clusters.yaml:") && found.text(1).ends_with(line), "{}", found.out);
    scratch.write("clusters.yaml", &cluster("east", "e"));
    let thing = "apiVersion: e.io/v1\nkind: Thing\nmetadata: {name: a}\nspec: {y: 2, text: 'one\ntwo'}\n";
    let late = "---\napiVersion: e.io/v1\nkind: Thing\nmetadata: {name: b}\nspec:\n    text: 'one\n  two'\n";
    scratch.write("thing.yaml", &[thing, late].concat());
    let found = scratch.run(&["validate", FLEET]);
    assert_eq!(found.text(0), "");
    let warning = "warning: thing.yaml:4: Thing.e.io a: spec.y: the key y is read as \"true\"";
    assert!(found.err.starts_with(warning), "{}", found.err);
    let plan = scratch.run(&["plan", "--repo", FLEET, "-o", "json"]).json(0);
    assert_eq!(plan["warnings"][0]["field"], json!("spec.y"));
}

#[test]
fn what_only_the_whole_tree_shows_is_a_warning() {
    let scratch = Scratch::new();
    let picked_elsewhere = annotated_placement("p", "{gitfleet.io/placement: ns1/nobody}", "web", "");
    let tree = [namespace("web", &[]), placement("gone", "nowhere", ""), picked_elsewhere, cluster("east", "e")];
    scratch.write("all.yaml", &tree.concat());
    let wrong = "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ResourcePlacement\nmetadata: {name: r, namespace: \
                 web}\nspec:\n  resourceSelectors: [{group: \"\", version: v1, kind: Namespace, name: web}]\n";
    scratch.write("wrong.yaml", wrong);
    let found = scratch.run(&["validate", FLEET]);
    assert_eq!(found.text(0), "");
    insta::assert_snapshot!(found.err, @r#"
    warning: all.yaml:7: ClusterResourcePlacement gone: spec.resourceSelectors[0]: selects nothing: the source has no Namespace nowhere
    warning: all.yaml:16: ClusterResourcePlacement p: the annotation gitfleet.io/placement names the OCM Placement ns1/nobody, which the source does not have; add it, or give the placement a policy instead
    warning: wrong.yaml:2: ResourcePlacement web/r: spec.resourceSelectors[0] selects a Namespace, which a ResourcePlacement cannot place; use a ClusterResourcePlacement
    1 object, 3 placements, 1 cluster: no errors, 3 warnings
    "#);
    let json = scratch.run(&["validate", FLEET, "-o", "json"]).json(0);
    assert_eq!((&json["errors"], json["warnings"].as_array().map(Vec::len)), (&json!([]), Some(3)));
}

#[test]
fn the_generated_fleet_is_valid_and_as_large_as_asked() {
    for (objects, placements, clusters) in [(60, 6, 5), (101, 7, 23), (1, 1, 1)] {
        let scratch = Scratch::new();
        fleet(&scratch.path(FLEET), objects, placements, clusters);
        let found = scratch.run(&["validate", FLEET]);
        assert_eq!(found.text(0), "");
        // A fleet of a few clusters has fewer than some policy asks for.
        let summary = found.err.lines().last().expect("a summary");
        let summary = summary.split(": ").next().expect("the figures");
        let numbers: Vec<usize> = summary.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
        assert_eq!(numbers, [objects, placements, clusters], "{}", found.err);
        assert!(found.err.contains(": no errors"), "{}", found.err);
    }
}

#[test]
fn a_folder_that_is_not_there() {
    let scratch = Scratch::new();
    let found = scratch.run(&["validate", "nowhere"]);
    assert_eq!((found.code, found.out.as_str()), (2, ""));
    assert!(found.err.contains("nowhere"), "{}", found.err);
}

#[test]
fn an_ignore_file_that_cannot_be_read_is_not_skipped() {
    let scratch = Scratch::new();
    scratch.write("excluded.yaml", "a: [\n");
    std::fs::create_dir(scratch.path(FLEET).join(".gitfleetignore")).expect("a folder in its place");
    let found = scratch.run(&["validate", FLEET]);
    assert_eq!(found.code, 2, "{}{}", found.out, found.err);
    assert!(found.err.contains("cannot read") && found.err.contains(".gitfleetignore"), "{}", found.err);
}
