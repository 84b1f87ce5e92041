//! ResourcePlacements go where their namespace is.

use crate::cli::scratch::{CONFIG, Scratch, cluster};

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: app}\n---\n";
const PAYLOAD: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: app}\ndata: {a: b}\n---\n\
    apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more, namespace: app}\n";
const BRINGS_NAMESPACE: &str = "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {name: ns}\nspec:\n  \
    policy: {placementType: PickFixed, clusterNames: [m1]}\n  \
    resourceSelectors: [{group: '', version: v1, kind: Namespace, name: app, selectionScope: NamespaceOnly}]\n";

fn placements() -> String {
    let placement = |name: &str, policy: &str, map: &str| {
        format!(
            "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ResourcePlacement\nmetadata: {{name: {name}, namespace: app}}\nspec:\n  \
             policy: {policy}\n  resourceSelectors: [{{group: '', version: v1, kind: ConfigMap, name: {map}}}]\n---\n"
        )
    };
    let all = placement("all", "{placementType: PickAll}", "settings");
    let one = placement("one", "{placementType: PickN, numberOfClusters: 1}", "more");
    [all, one].concat()
}

fn fleet(files: &[(&str, &str)]) -> Scratch {
    let scratch = Scratch::new();
    scratch.configure().write("clusters.yaml", &[cluster("m1", "east"), cluster("m2", "west")].concat());
    scratch.write("payload.yaml", PAYLOAD).write("placements.yaml", &placements());
    for (path, text) in files {
        scratch.write(path, text);
    }
    scratch.commit("first");
    scratch
}

#[test]
fn w5_resource_placements_follow_their_namespace() {
    let scratch = fleet(&[("namespace.yaml", NAMESPACE), ("brings.yaml", BRINGS_NAMESPACE)]);
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
    assert!(scratch.member("m2").is_empty(), "{:?}", scratch.member("m2"));
    assert_eq!(scratch.member("m1").len(), 3, "{:?}", scratch.member("m1"));
    let why = scratch.run(&["explain", "app/all", "-c", CONFIG]);
    assert!(why.text(0).contains("namespace app"), "{}", why.out);
    // The namespace comes to the other cluster, and what lives in it follows.
    scratch.write("brings.yaml", &BRINGS_NAMESPACE.replace("[m1]", "[m1, m2]")).commit("both");
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
    assert_eq!(scratch.member("m2").len(), 2, "{:?}", scratch.member("m2"));
}

#[test]
fn w5_a_folder_says_nothing_of_namespaces_that_git_does_not_bring() {
    let scratch = fleet(&[]);
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
    assert_eq!((scratch.member("m1").len(), scratch.member("m2").len()), (1, 2));
}
