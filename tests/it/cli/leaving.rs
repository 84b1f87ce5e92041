//! Placements that are renamed, and placements whose objects stay behind.

use std::fs;

use crate::cli::scratch::{CONFIG, Scratch, cluster, namespace, placement};

const ONCE: [&str; 4] = ["run", "-c", CONFIG, "--once"];

/// A fleet of five members that hold a placement of everything in a namespace.
fn fleet(more: &str) -> Scratch {
    let scratch = Scratch::new();
    scratch.configure();
    scratch.write("clusters.yaml", &["a", "b", "c", "d", "e"].map(|name| cluster(name, "r")).concat());
    scratch.write("web.yaml", &namespace("web", &[("settings", "1")]));
    scratch.write("placement.yaml", &placement("old", "web", more));
    scratch.commit("first");
    scratch.run(&ONCE).text(0);
    scratch
}

fn label(scratch: &Scratch, member: &str) -> Option<String> {
    let file = scratch.path("members").join(member).join("configmap..web.settings.yaml");
    let text = fs::read_to_string(file).expect("the object is there");
    text.lines().find_map(|line| line.trim().strip_prefix("applyset.kubernetes.io/part-of:").map(str::to_owned))
}

#[test]
fn w16_a_renamed_placement_hands_its_objects_over() {
    let scratch = fleet("");
    let before = label(&scratch, "a");
    scratch.write("placement.yaml", &placement("new", "web", ""));
    let base = scratch.commit("rename the placement");
    let plan = scratch.run(&["plan", "--repo", "fleet", "--base", "HEAD~1", "--head", &base, "-o", "json"]).json(0);
    let deletions = |placement: &serde_json::Value| placement["deletions"].as_array().is_some_and(|d| !d.is_empty());
    let placements = plan["placements"].as_array().expect("a list");
    assert_eq!(placements.len(), 2, "{plan}");
    assert!(placements.iter().all(|p| !deletions(p) && p["deletionGuard"].is_null()), "{plan}");

    let once = scratch.run(&ONCE);
    assert_eq!(once.code, 0, "nobody is asked: {}", once.err);
    for member in ["a", "b", "c", "d", "e"] {
        let after = label(&scratch, member);
        assert!(after.is_some() && after != before, "{member} holds it of the new placement: {after:?}");
    }
    let placements = scratch.run(&["get", "placements", "-c", CONFIG, "-o", "json"]).json(0);
    assert!(!placements.to_string().contains("\"old\""), "nothing of the old one is left: {placements}");
}

#[test]
fn w16_what_the_new_placement_does_not_hold_is_asked_about() {
    let scratch = fleet("");
    let narrow = placement("new", "web", "  policy: {placementType: PickFixed, clusterNames: [a]}\n");
    scratch.write("placement.yaml", &narrow);
    scratch.commit("rename and narrow the placement");
    let once = scratch.run(&ONCE);
    assert_eq!(once.code, 3, "{}", once.err);
    let status = scratch.run(&["status", "-c", CONFIG]);
    assert!(status.out.contains("gitfleet approve old deletion"), "{}", status.out);
    assert!(label(&scratch, "b").is_some(), "it is held");
    scratch.run(&["approve", "old", "deletion", "-c", CONFIG]).text(0);
    scratch.run(&ONCE).text(0);
    assert!(label(&scratch, "a").is_some(), "what changed hands stays");
    assert!(!scratch.path("members/b/configmap..web.settings.yaml").exists(), "what nobody holds goes");
}

#[test]
fn w16_what_an_override_takes_off_one_cluster_does_not_change_hands_there() {
    let scratch = fleet("");
    scratch.write("placement.yaml", &placement("new", "web", ""));
    scratch.write(
        "override.yaml",
        "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ResourceOverride\nmetadata: {name: without, namespace: web}\nspec:\n  \
         placement: {name: new}\n  resourceSelectors: [{group: '', version: v1, kind: ConfigMap, name: settings}]\n  policy: \
         {overrideRules: [{overrideType: Delete, clusterSelector: {clusterSelectorTerms: [{labelSelector: {matchLabels: \
         {kubernetes-fleet.io/member-name: b}}}]}}]}\n",
    );
    scratch.commit("rename it, and take the object off b");
    scratch.run(&ONCE);
    let status = scratch.run(&["status", "--all", "-c", CONFIG]).out;
    if status.contains("gitfleet approve old deletion") {
        assert!(status.contains("b: ConfigMap web/settings") && !status.contains("a: ConfigMap"), "{status}");
        scratch.run(&["approve", "old", "deletion", "-c", CONFIG]).text(0);
    }
    scratch.run(&ONCE).text(0);
    assert!(!scratch.path("members/b/configmap..web.settings.yaml").exists(), "{status}");
    assert!(label(&scratch, "a").is_some(), "what changed hands stays");
    let placements = scratch.run(&["get", "placements", "-c", CONFIG, "-o", "json"]).json(0);
    assert!(!placements.to_string().contains("\"old\""), "nothing of the old one is left: {placements}");
}

#[test]
fn w09_an_abandoned_placement_leaves_its_files() {
    let scratch = fleet("  strategy: {deleteStrategy: {propagationPolicy: Abandon}}\n");
    scratch.remove("placement.yaml");
    let head = scratch.commit("remove the placement");
    let plan = scratch.run(&["plan", "--repo", "fleet", "--base", "HEAD~1", "--head", &head, "-o", "json"]).json(0);
    assert_eq!(plan["placements"][0]["deletions"].as_array().map(Vec::len), Some(0), "{plan}");
    scratch.run(&ONCE).text(0);
    assert_eq!(label(&scratch, "a"), None, "the file stays, and nothing names us");
}

#[test]
fn w16_the_plan_of_a_rename_deletes_nothing() {
    let scratch = fleet("");
    scratch.write("placement.yaml", &placement("new", "web", ""));
    scratch.commit("rename the placement");
    let plan = |more: &[&str]| scratch.run(&[&["plan", "--repo", "fleet", "--base", "HEAD~1"], more].concat());
    insta::assert_snapshot!(plan(&[]).text(0), @"
    ~ ClusterResourcePlacement new  was old, and keeps what it has
      snapshot  0, 2 objects, as before
      clusters  5: a, b, c, d, e
      rollout   RollingUpdate

    Plan: 1 placement changes
    ");
    let comment = plan(&["-o", "markdown"]);
    let text = comment.text(0);
    assert!(text.contains("| `new` was `old` |"), "{text}");
    for part in ["deleted", "loses", "−", "need approval", "Changes hands", "does not change"] {
        assert!(!text.contains(part), "{part}: {text}");
    }
    let json = plan(&["-o", "json"]).json(0);
    let old = &json["placements"][1];
    assert_eq!((&old["name"], &old["deletions"]), (&"old".into(), &serde_json::json!([])), "{old}");
    assert_eq!((&json["placements"][0]["renamedFrom"], &old["renamedTo"]), (&"old".into(), &"new".into()), "{json}");
    let handed = old["handsOver"].as_array().expect("a list");
    assert_eq!((handed.len(), &handed[0]["to"], &handed[0]["clusterName"]), (5, &"new".into(), &"a".into()), "{old}");

    // One that changes with the rename is shown as a change, and one that is dropped as a deletion.
    scratch.write("web.yaml", &namespace("web", &[("settings", "2")]));
    scratch.commit("and change the object");
    let both = scratch.run(&["plan", "--repo", "fleet", "--base", "HEAD~2"]);
    assert!(both.text(0).contains("~ ConfigMap web/settings  of new\n"), "{}", both.out);
    assert!(!both.out.contains("- ConfigMap"), "{}", both.out);
}

#[test]
fn m2_what_moves_to_another_placement_changes_hands_in_the_plan() {
    let scratch = fleet("");
    let settings =
        |name: &str| placement(name, "web", "").replace("name: web}", "name: web, selectionScope: NamespaceOnly}");
    let rp = "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ResourcePlacement\nmetadata: {name: cm, namespace: web}\n\
              spec:\n  resourceSelectors: [{group: '', version: v1, kind: ConfigMap, name: settings}]\n";
    scratch.write("placement.yaml", &settings("old")).write("rp.yaml", rp);
    scratch.commit("a placement of its own");
    let plan = scratch.run(&["plan", "--repo", "fleet", "--base", "HEAD~1"]);
    let text = plan.text(0);
    assert!(text.contains("  1 object changes hands, old -> web/cm, on 5 clusters: a, b, c, d, e\n"), "{text}");
    assert!(!text.contains("deletes") && !text.contains("- ConfigMap") && !text.contains("- 1 object"), "{text}");
}
