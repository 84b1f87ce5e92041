//! One object in several folders: each placement delivers that of its own.

use std::fs;

use serde_json::Value;

use crate::cli::scratch::{CONFIG, FLEET, Scratch, annotated_placement, cluster};

const ONCE: [&str; 4] = ["run", "-c", CONFIG, "--once"];

fn map(name: &str, namespace: &str, value: &str) -> String {
    let namespace = if namespace.is_empty() { String::new() } else { format!(", namespace: {namespace}") };
    format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}{namespace}}}\ndata: {{key: {value}}}\n")
}

fn namespace(name: &str) -> String {
    format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
}

/// A placement of the Namespace `shop` on one cluster.
fn placement(name: &str, annotations: &str, cluster: &str) -> String {
    let policy = format!("  policy: {{placementType: PickFixed, clusterNames: [{cluster}]}}\n");
    annotated_placement(name, &format!("{{{annotations}}}"), "shop", &policy)
}

fn fleet() -> Scratch {
    let scratch = Scratch::new();
    scratch.configure();
    scratch.write("clusters.yaml", &[cluster("east", "e"), cluster("west", "w")].concat());
    scratch
}

/// `staging/` and `production/` with objects of the same names, each on a cluster of its own.
fn two_environments() -> Scratch {
    let scratch = fleet();
    for (folder, cluster) in [("staging", "east"), ("production", "west")] {
        scratch.write(&format!("{folder}/shop.yaml"), &[namespace("shop"), map("c", "shop", folder)].concat());
        let of = placement(folder, &format!("gitfleet.io/path: {folder}"), cluster);
        scratch.write(&format!("placements/{folder}.yaml"), &of);
    }
    scratch
}

/// Reads what a member's ConfigMap `shop/c` says.
fn held(scratch: &Scratch, member: &str) -> String {
    let path = scratch.path("members").join(member).join("configmap..shop.c.yaml");
    let text = fs::read_to_string(&path).unwrap_or_default();
    text.lines().find_map(|line| line.trim().strip_prefix("key: ")).unwrap_or_default().to_owned()
}

#[test]
fn each_environment_gets_the_object_of_its_folder() {
    let scratch = two_environments();
    let found = scratch.run(&["validate", FLEET]);
    assert_eq!((found.text(0), &*found.err), ("", "4 objects, 2 placements, 2 clusters: no errors\n"));
    scratch.commit("first");
    let plan = scratch.run(&["plan", "--repo", FLEET, "-o", "json"]).json(0);
    let placements = plan["placements"].as_array().expect("a list");
    for (placement, wanted) in placements.iter().zip(["production", "staging"]) {
        assert_eq!(placement["name"], wanted);
        assert_eq!(placement["works"][0]["manifests"][1]["data"]["key"], wanted);
        assert!(placement["error"].is_null() && placement["works"][0]["error"].is_null(), "{placement}");
    }
    scratch.run(&ONCE).text(0);
    assert_eq!((held(&scratch, "east"), held(&scratch, "west")), ("staging".to_owned(), "production".to_owned()));
    assert_eq!(scratch.member("east"), ["configmap..shop.c.yaml", "namespace...shop.yaml"]);

    // A change of one folder is one of its placement.
    scratch.write("production/shop.yaml", &[namespace("shop"), map("c", "shop", "changed")].concat());
    scratch.commit("second");
    let plan = scratch.run(&["plan", "--repo", FLEET, "--base", "HEAD~1", "-o", "json"]).json(0);
    let changed =
        |position: usize| plan["placements"][position]["changes"]["resources"]["changed"].as_array().map(Vec::len);
    assert_eq!((changed(0), changed(1)), (Some(1), Some(0)), "{plan}");
    scratch.run(&ONCE).text(0);
    assert_eq!((held(&scratch, "east"), held(&scratch, "west")), ("staging".to_owned(), "changed".to_owned()));
}

#[test]
fn without_folders_an_object_is_there_once() {
    let scratch = two_environments();
    scratch.write("placements/staging.yaml", &placement("staging", "", "east"));
    let found = scratch.run(&["validate", FLEET]);
    insta::assert_snapshot!(found.text(1), @r#"
    staging/shop.yaml:2: Namespace shop: metadata.name: the same object stands at production/shop.yaml:2 too, and the ClusterResourcePlacement staging (placements/staging.yaml:2) selects from both files (annotate the placement with gitfleet.io/path and the folder that it means, or remove or rename one of the two)
    staging/shop.yaml:6: ConfigMap shop/c: metadata.name: the same object stands at production/shop.yaml:6 too, and the ClusterResourcePlacement staging (placements/staging.yaml:2) selects from both files (annotate the placement with gitfleet.io/path and the folder that it means, or remove or rename one of the two)
    "#);
    scratch.write("placements/production.yaml", &placement("production", "", "west"));
    let found = scratch.run(&["validate", FLEET]);
    insta::assert_snapshot!(found.text(1), @r#"
    staging/shop.yaml:2: Namespace shop: metadata.name: the same object stands at production/shop.yaml:2 too (remove one of the two, or leave a folder out with .gitfleetignore; where the folders are for different clusters, have the placements name them: gitfleet.io/path)
    staging/shop.yaml:6: ConfigMap shop/c: metadata.name: the same object stands at production/shop.yaml:6 too (remove one of the two, or leave a folder out with .gitfleetignore; where the folders are for different clusters, have the placements name them: gitfleet.io/path)
    "#);
    scratch.write("placements/staging.yaml", &placement("staging", "gitfleet.io/path: stagin", "east"));
    scratch.write("placements/production.yaml", &placement("production", "gitfleet.io/path: ../production", "west"));
    let found = scratch.run(&["validate", FLEET]);
    insta::assert_snapshot!(found.text(1), @r#"
    placements/production.yaml:6: ClusterResourcePlacement.placement.kubernetes-fleet.io production: metadata.annotations.gitfleet.io/path: "../production" is not a folder as it is named from the root of the source, such as apps/production
    placements/staging.yaml:2: ClusterResourcePlacement.placement.kubernetes-fleet.io staging: metadata.annotations.gitfleet.io/path: no file of the source is read in stagin (did you mean `staging`?)
    "#);
}

#[test]
fn objects_get_the_namespace_of_their_placement() {
    let scratch = fleet();
    // The Namespace stands outside: it serves both.
    scratch.write("namespaces.yaml", &namespace("shop"));
    for (folder, cluster) in [("staging", "east"), ("production", "west")] {
        scratch.write(&format!("apps/{folder}/c.yaml"), &map("c", "", folder));
        let annotations = format!("gitfleet.io/path: apps/{folder}, gitfleet.io/default-namespace: shop");
        scratch.write(&format!("{folder}.yaml"), &placement(folder, &annotations, cluster));
    }
    let found = scratch.run(&["validate", FLEET]);
    assert_eq!((found.text(0), &*found.err), ("", "3 objects, 2 placements, 2 clusters: no errors\n"));
    scratch.commit("first");
    scratch.run(&ONCE).text(0);
    assert_eq!((held(&scratch, "east"), held(&scratch, "west")), ("staging".to_owned(), "production".to_owned()));
    assert_eq!(scratch.member("west"), ["configmap..shop.c.yaml", "namespace...shop.yaml"]);

    // The same as if their author had written it.
    let hash = |scratch: &Scratch| {
        let list = scratch.run(&["get", "crs", "-c", CONFIG, "-o", "json"]).json(0);
        let items = list["items"].as_array().expect("a list").iter();
        let hashes = items.map(|item| item["metadata"]["annotations"]["kubernetes-fleet.io/resource-hash"].clone());
        hashes.collect::<Vec<Value>>()
    };
    let given = hash(&scratch);
    assert!(given.len() == 2 && given.iter().all(Value::is_string), "{given:?}");
    for folder in ["staging", "production"] {
        scratch.write(&format!("apps/{folder}/c.yaml"), &map("c", "shop", folder));
    }
    scratch.commit("second");
    scratch.run(&ONCE).text(0);
    assert_eq!(hash(&scratch), given, "no second snapshot");

    // What is read again from git, as after a restart, is in that namespace too.
    for folder in ["staging", "production"] {
        scratch.write(&format!("apps/{folder}/c.yaml"), &map("c", "", &format!("{folder}-again")));
    }
    scratch.commit("third");
    scratch.run(&ONCE).text(0);
    let works = scratch.run(&["get", "works", "-c", CONFIG, "--manifests", "--repo", FLEET, "-o", "yaml"]);
    works.text(0);
    // Each in the object and in its status.
    assert_eq!(works.out.matches("namespace: shop\n").count(), 4, "{}", works.out);
}

#[test]
fn two_placements_with_one_object_on_one_cluster_are_named() {
    let scratch = two_environments();
    scratch.write("placements/production.yaml", &placement("production", "gitfleet.io/path: production", "east"));
    scratch.commit("first");
    let plan = scratch.run(&["plan", "--repo", FLEET]);
    insta::assert_snapshot!(plan.out, @"
    ClusterResourcePlacement production
      snapshot  0, 2 objects
      clusters  1: east
      rollout   RollingUpdate
          Namespace shop
          ConfigMap shop/c

    ClusterResourcePlacement staging
      ✗ east: ConfigMap shop/c is placed there by ClusterResourcePlacement production (and 1 more of its objects are placed by others); an object of a cluster belongs to one placement, narrow one of them
      snapshot  0, 2 objects
      clusters  1: east
      rollout   RollingUpdate
          Namespace shop
          ConfigMap shop/c

    Plan: 2 placements on 1 cluster, 4 objects, 1 error
    ");
    let found = scratch.run(&["validate", FLEET]);
    assert_eq!(found.text(0), "");
    let named = "ConfigMap shop/c is placed there by ClusterResourcePlacement production (and 1 more";
    assert!(found.err.contains(named), "{}", found.err);
    assert_eq!(scratch.run(&ONCE).code, 1);
    assert_eq!(held(&scratch, "east"), "production", "the first keeps it");
}

/// The other placement comes first by name, so its orders come first after each start.
#[test]
fn n01_a_placement_that_came_later_takes_nothing_at_a_restart() {
    let scratch = fleet();
    for (folder, value) in [("prod", "production"), ("staging", "STAGING")] {
        scratch.write(&format!("apps/{folder}/shop.yaml"), &[namespace("shop"), map("c", "shop", value)].concat());
    }
    scratch.write("placements/prod.yaml", &placement("shop-prod", "gitfleet.io/path: apps/prod", "east"));
    scratch.commit("first");
    scratch.run(&ONCE).text(0);
    scratch.write("placements/staging.yaml", &placement("a-staging", "gitfleet.io/path: apps/staging", "east"));
    scratch.commit("second");
    for start in 0..8 {
        assert_eq!(scratch.run(&ONCE).code, 1, "start {start}");
        assert_eq!(held(&scratch, "east"), "production", "start {start}");
        let status = scratch.run(&["status", "-c", CONFIG, "--all"]);
        let refused = "ConfigMap shop/c on east belongs to placement shop-prod";
        assert!(status.out.contains(refused), "start {start}: {}", status.out);
    }
    // Without the object nothing on the cluster says whose it was; the records do.
    fs::remove_file(scratch.path("members/east/configmap..shop.c.yaml")).expect("the object is there");
    scratch.run(&ONCE);
    assert_eq!(held(&scratch, "east"), "production");
    // A new store knows neither; the object's label does.
    fs::remove_dir_all(scratch.path("store")).expect("a store");
    scratch.run(&ONCE);
    scratch.run(&["store", "adopt", "-c", CONFIG]).text(0);
    for start in 0..4 {
        scratch.run(&ONCE);
        assert_eq!(held(&scratch, "east"), "production", "start {start} after the store was lost");
    }
    // The owner goes, and the other has it at last, without a deletion.
    scratch.remove("placements/prod.yaml");
    scratch.commit("third");
    for _ in 0..3 {
        scratch.run(&ONCE);
    }
    assert_eq!(held(&scratch, "east"), "STAGING");
}

#[test]
fn a_cluster_moves_from_one_environment_to_the_other_without_a_deletion() {
    let scratch = two_environments();
    scratch.commit("first");
    scratch.run(&ONCE).text(0);
    scratch.write("placements/staging.yaml", &placement("staging", "gitfleet.io/path: staging", "west"));
    scratch.write("placements/production.yaml", &placement("production", "gitfleet.io/path: production", "east"));
    scratch.commit("second");
    scratch.run(&ONCE).text(0);
    assert_eq!((held(&scratch, "east"), held(&scratch, "west")), ("production".to_owned(), "staging".to_owned()));
}

#[test]
fn m12_a_label_and_an_eviction_move_a_cluster_without_a_deletion() {
    let scratch = two_environments();
    let of = |name: &str, region: &str| {
        format!(
            "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {{name: {name}, \
             annotations: {{gitfleet.io/path: {name}}}}}\nspec:\n  resourceSelectors: [{{group: '', version: v1, kind: Namespace, \
             name: shop}}]\n  policy: {{affinity: {{clusterAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
             {{clusterSelectorTerms: [{{labelSelector: {{matchLabels: {{region: {region}}}}}}}]}}}}}}}}\n"
        )
    };
    scratch.write("placements/staging.yaml", &of("staging", "s"));
    scratch.write("placements/production.yaml", &of("production", "p"));
    scratch.write("clusters.yaml", &[cluster("east", "s"), cluster("north", "s"), cluster("west", "p")].concat());
    scratch.commit("first");
    scratch.run(&ONCE).text(0);
    scratch.write("clusters.yaml", &[cluster("east", "p"), cluster("north", "s"), cluster("west", "p")].concat());
    scratch.write(
        "eviction.yaml",
        "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterResourcePlacementEviction\nmetadata: {name: e}\n\
         spec: {placementName: staging, clusterName: east}\n",
    );
    scratch.commit("second");
    let run = scratch.run(&ONCE);
    run.text(0);
    assert!(!run.err.contains("pruned"), "{}", run.err);
    let held = ["east", "north", "west"].map(|name| held(&scratch, name));
    assert_eq!(held, ["production", "staging", "production"]);
}

/// A ResourceOverride that gives `shop/c` another value.
fn value_override(name: &str, annotations: &str, value: &str) -> String {
    format!(
        "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ResourceOverride\nmetadata: {{name: {name}, namespace: shop, annotations: \
         {{{annotations}}}}}\nspec:\n  resourceSelectors: [{{group: '', version: v1, kind: ConfigMap, name: c}}]\n  policy:\n    \
         overrideRules: [{{clusterSelector: {{clusterSelectorTerms: []}}, jsonPatchOverrides: [{{op: add, path: /data/key, value: \
         {value}}}]}}]\n"
    )
}

#[test]
fn a_folder_that_moves_is_no_new_content_and_keeps_its_overrides() {
    let scratch = two_environments();
    scratch.write("override.yaml", &value_override("o", "gitfleet.io/path: production", "other"));
    scratch.commit("first");
    scratch.run(&ONCE).text(0);
    scratch.remove("production/shop.yaml");
    scratch.write("apps/prod/shop.yaml", &[namespace("shop"), map("c", "shop", "production")].concat());
    scratch.write("placements/production.yaml", &placement("production", "gitfleet.io/path: apps/prod", "west"));
    scratch.write("override.yaml", &value_override("o", "gitfleet.io/path: apps", "another"));
    scratch.commit("second");
    scratch.run(&ONCE).text(0);
    assert_eq!((held(&scratch, "east"), held(&scratch, "west")), ("staging".to_owned(), "another".to_owned()));
    let snapshots = scratch.run(&["get", "crs", "-c", CONFIG, "-o", "json"]).json(0);
    assert_eq!(snapshots["items"].as_array().map(Vec::len), Some(2), "{snapshots}");
}

#[test]
fn an_override_is_for_its_folder() {
    let scratch = two_environments();
    let of = value_override;
    scratch.write("override.yaml", &of("o", "gitfleet.io/path: production", "other"));
    scratch.commit("first");
    scratch.run(&ONCE).text(0);
    assert_eq!((held(&scratch, "east"), held(&scratch, "west")), ("staging".to_owned(), "other".to_owned()));
    let snapshots = scratch.run(&["get", "resourceoverridesnapshots", "-c", CONFIG, "-o", "yaml"]);
    assert!(snapshots.text(0).contains("gitfleet.io/path: production\n"), "{}", snapshots.out);

    // Another folder is another snapshot, and rolls out.
    scratch.write("override.yaml", &of("o", "gitfleet.io/path: staging", "other"));
    scratch.commit("second");
    scratch.run(&ONCE).text(0);
    assert_eq!((held(&scratch, "east"), held(&scratch, "west")), ("other".to_owned(), "production".to_owned()));

    scratch.write("override.yaml", &of("o", "", "all"));
    scratch.commit("third");
    scratch.run(&ONCE).text(0);
    assert_eq!((held(&scratch, "east"), held(&scratch, "west")), ("all".to_owned(), "all".to_owned()));

    let both = [of("o", "gitfleet.io/path: staging", "s"), of("p", "gitfleet.io/path: production", "p")].concat();
    scratch.write("override.yaml", &both);
    scratch.commit("fourth");
    scratch.run(&ONCE).text(0);
    assert_eq!((held(&scratch, "east"), held(&scratch, "west")), ("s".to_owned(), "p".to_owned()));
    scratch.write("override.yaml", &[of("o", "", "s"), of("p", "gitfleet.io/path: production", "p")].concat());
    let found = scratch.run(&["validate", FLEET]);
    assert!(found.text(1).contains("o at override.yaml:2 overrides ConfigMap c too"), "{}", found.out);
}

#[test]
fn what_is_in_no_namespace_is_named() {
    let scratch = fleet();
    scratch.write("apps/shop.yaml", &[namespace("shop"), map("c", "", "1")].concat());
    scratch.write("apps/thing.yaml", "apiVersion: e.io/v1\nkind: Thing\nmetadata: {name: t}\n");
    let given = "gitfleet.io/path: apps, gitfleet.io/default-namespace: shop";
    let outside = placement("outside", "gitfleet.io/path: clusters.yaml", "west");
    let blind = placement("blind", "gitfleet.io/path: apps", "west");
    scratch.write("p.yaml", &[placement("shop", given, "east"), outside, blind].concat());
    let found = scratch.run(&["validate", FLEET]);
    assert_eq!(found.text(0), "");
    insta::assert_snapshot!(found.err, @"
    warning: p.yaml:2: ClusterResourcePlacement shop: Thing.e.io t (apps/thing.yaml) is in no namespace: whether the kind has namespaces is not known (add its CustomResourceDefinition, or write metadata.namespace)
    warning: p.yaml:12: ClusterResourcePlacement outside: spec.resourceSelectors[0]: selects nothing: the folder clusters.yaml has no Namespace shop (one is at apps/shop.yaml:2)
    warning: p.yaml:22: ClusterResourcePlacement blind: ConfigMap c (apps/shop.yaml) is in no namespace: no namespace is named there or by the placement (annotate the placement with gitfleet.io/default-namespace)
    3 objects, 3 placements, 2 clusters: no errors, 3 warnings
    ");
}

#[test]
fn a_simulation_knows_folders_and_namespaces() {
    let scratch = fleet();
    scratch.write("namespaces.yaml", &namespace("shop"));
    for (folder, cluster) in [("staging", "east"), ("production", "west")] {
        scratch.write(&format!("{folder}/c.yaml"), &map("c", "", folder));
        let annotations = format!("gitfleet.io/path: {folder}, gitfleet.io/default-namespace: shop");
        scratch.write(&format!("{folder}.yaml"), &placement(folder, &annotations, cluster));
    }
    scratch.commit("first");
    let found = scratch.run(&["simulate", FLEET, "--never-available", "east=ConfigMap/shop/c", "-o", "json"]);
    assert!(found.code < 2 && found.out.contains("production"), "{}{}", found.out, found.err);
}
