use super::*;

const IN_WEB: &str = "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ResourcePlacement\nmetadata: {name: maps, namespace: web}\nspec:\n  \
    resourceSelectors: [{group: '', version: v1, kind: ConfigMap, name: m}]\n";

/// A placement of the Namespace `web` alone on these clusters.
fn brings(clusters: &str) -> String {
    format!(
        "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {{name: ns}}\nspec:\n  \
         policy: {{placementType: PickFixed, clusterNames: [{clusters}]}}\n  resourceSelectors:\n    \
         - {{group: '', version: v1, kind: Namespace, name: web, selectionScope: NamespaceOnly}}\n"
    )
}

/// A tree of two clusters with a ResourcePlacement in `web`, and more.
fn in_web(more: &str) -> Arc<Tree> {
    tree(&[&*cluster("a"), &cluster("b"), &namespace("web", &[("m", "1")]), IN_WEB, more].concat())
}

fn works(plan: &Plan) -> Vec<&str> {
    of(plan, "maps").works.iter().map(|work| work.cluster_name.as_str()).collect()
}

#[test]
fn w5_a_resource_placement_follows_what_brings_its_namespace() {
    let (one, both) = (in_web(&brings("a")), in_web(&brings("a, b")));
    assert_eq!(works(&plan(&one, None, NOW)), ["a"]);
    let more = plan(&both, Some(&one), NOW);
    assert_eq!(works(&more), ["a", "b"]);
    let changes = of(&more, "maps").changes.as_ref().expect("there is a base");
    assert_eq!((&changes.clusters.gained, &changes.clusters.lost), (&clusters(&["b"]), &clusters(&[])));
    // A policy drops no cluster that it picked, whatever changes there: as on a KubeFleet hub.
    assert_eq!(works(&plan(&one, Some(&both), NOW)), ["a", "b"]);
    assert!(!plan(&one, Some(&one), NOW).has_changes());
}

#[test]
fn w5_a_namespace_that_git_does_not_bring_is_taken_to_be_there() {
    let text = in_web("");
    assert_eq!(works(&plan(&text, None, NOW)), [""; 0], "git has the Namespace, and no placement brings it");
    let map = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, namespace: web}\n";
    let unmanaged = tree(&[&*cluster("a"), &cluster("b"), map, IN_WEB].concat());
    assert_eq!(works(&plan(&unmanaged, None, NOW)), ["a", "b"]);
}
