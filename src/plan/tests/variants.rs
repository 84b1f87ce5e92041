//! Values by cluster: what each cluster gets, and when that is another snapshot.

use std::collections::BTreeMap;

use super::*;
use testkit::trees as fixtures;

const PLACEMENT: &str = "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\n\
    metadata: {name: web, annotations: {gitfleet.io/render-for: cluster, gitfleet.io/path: charts/web}}\n\
    spec: {resourceSelectors: [{group: '', version: v1, kind: Namespace, name: web}], policy: {placementType: PickAll}}\n";

fn map(name: &str, value: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: web}}\ndata: {{k: '{value}'}}\n"
    )
}

/// What a chart is rendered to: the region stands in one object, and europe has one more and lacks another.
fn rendered(version: &str, region: &str, suffix: &str) -> String {
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n".to_owned();
    let mut text = [namespace, map("same", version), map("a", &format!("{region}{suffix}"))].concat();
    text.push_str(&if region == "eu" { map("only-eu", "x") } else { map("not-eu", "x") });
    text
}

/// A tree whose folder `charts/web` is rendered for the regions of its clusters, with `suffix` after each region, and overrides beside.
fn varied(clusters: &[(&str, &str)], version: &str, suffix: &str, more: &str) -> Arc<Tree> {
    let rendered = |region: &str| match region {
        "none" => rendered(version, region, ""),
        region => rendered(version, region, suffix),
    };
    fixtures::varied(&format!("{version}{suffix}"), clusters, &[PLACEMENT, more], rendered)
}

/// Each cluster's ConfigMaps with their values.
fn held(plan: &Plan) -> BTreeMap<String, Vec<String>> {
    let text = |object: &serde_json::Value| {
        Some(format!("{}={}", object["metadata"]["name"].as_str()?, object.pointer("/data/k")?.as_str()?))
    };
    let work = |work: &model::plan::WorkPlan| {
        assert_eq!(work.error, None);
        (work.cluster_name.to_string(), work.manifests.iter().filter_map(|object| text(object)).collect())
    };
    of(plan, "web").works.iter().map(work).collect()
}

fn held_as(rows: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
    rows.iter().map(|(name, maps)| ((*name).to_owned(), maps.iter().map(|map| (*map).to_owned()).collect())).collect()
}

const THREE: [(&str, &str); 3] = [("east", "eu"), ("north", "eu"), ("west", "us")];

#[test]
fn each_cluster_gets_its_variant_and_plan_counts_them() {
    let plan = plan(&varied(&THREE, "1", "", ""), None, NOW);
    let eu: &[&str] = &["a=eu", "only-eu=x", "same=1"];
    assert_eq!(held(&plan), held_as(&[("east", eu), ("north", eu), ("west", &["a=us", "not-eu=x", "same=1"])]));
    let placement = of(&plan, "web");
    let variants = serde_json::to_value(&placement.variants).expect("it is JSON");
    assert_eq!(
        variants,
        serde_json::json!([
            {"values": {"label region": "eu"}, "clusters": ["east", "north"]},
            {"values": {"label region": "us"}, "clusters": ["west"]},
        ])
    );
    // The snapshot's own objects are those without a cluster.
    let snapshot = placement.snapshot.as_ref().expect("it is there");
    assert_eq!(
        names(&snapshot.resources),
        ["Namespace web", "ConfigMap web/a", "ConfigMap web/not-eu", "ConfigMap web/same"]
    );
    assert_eq!(held(&super::plan(&varied(&THREE[..1], "1", "", ""), None, NOW)), held_as(&[("east", eu)]));
}

fn index(plan: &Plan) -> &str {
    &of(plan, "web").snapshot.as_ref().expect("it is there").index
}

#[test]
fn a_new_snapshot_is_for_what_changes() {
    let base = varied(&THREE, "1", "", "");
    let change = |head: &Arc<Tree>| {
        let plan = plan(head, Some(&base), NOW);
        let changes = of(&plan, "web").changes.clone().expect("there is a base");
        (index(&plan).to_owned(), names(&changes.resources.changed), changes.overridden, plan)
    };
    let nothing = (Vec::<String>::new(), BTreeSet::new());
    // The same in another commit.
    let (at, changed, overridden, plan) = change(&varied(&THREE, "1", "", ""));
    assert_eq!((at.as_str(), (changed, overridden)), ("0", nothing.clone()));
    assert!(!plan.has_changes());
    // A cluster with other values comes: no other cluster is concerned.
    let (at, changed, overridden, plan) =
        change(&varied(&[THREE.as_slice(), &[("south", "za")]].concat(), "1", "", ""));
    assert_eq!((at.as_str(), (changed, overridden)), ("0", nothing.clone()));
    assert_eq!(held(&plan)["south"], ["a=za", "not-eu=x", "same=1"]);
    assert_eq!(of(&plan, "web").changes.as_ref().expect("a base").clusters.gained, clusters(&["south"]));
    // One gets another label: it alone moves, and loses what only europe has.
    let (at, changed, overridden, plan) =
        change(&varied(&[("east", "eu"), ("north", "us"), ("west", "us")], "1", "", ""));
    assert_eq!((at.as_str(), (changed, overridden)), ("0", (Vec::new(), clusters(&["north"]))));
    assert_eq!(held(&plan)["north"], ["a=us", "not-eu=x", "same=1"]);
    let deletions = &of(&plan, "web").deletions;
    assert_eq!((deletions.len(), names(&deletions[0].resources)), (1, vec!["ConfigMap web/only-eu".to_owned()]));
    // A change that only clusters see is a snapshot, though its own objects are the same.
    let (at, changed, overridden, plan) = change(&varied(&THREE, "1", "-2", ""));
    assert_eq!((at.as_str(), (changed, overridden)), ("1", (vec!["ConfigMap web/a".to_owned()], BTreeSet::new())));
    assert_eq!(held(&plan)["west"], ["a=us-2", "not-eu=x", "same=1"]);
    // A change of what all have.
    let (at, changed, _, _) = change(&varied(&THREE, "2", "", ""));
    assert_eq!((at.as_str(), changed), ("1", vec!["ConfigMap web/same".to_owned()]));
}

#[test]
fn overrides_act_on_what_a_cluster_gets() {
    let rules = |kind: &str, name: &str, op: &str| {
        format!(
            "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ResourceOverride\nmetadata: {{name: {name}, namespace: web}}\nspec:\n  \
             resourceSelectors: [{{group: '', version: v1, kind: ConfigMap, name: {kind}}}]\n  policy: {{overrideRules: [{{clusterSelector: \
             {{clusterSelectorTerms: []}}, {op}}}]}}\n"
        )
    };
    let add = "jsonPatchOverrides: [{op: replace, path: /data/k, value: '${MEMBER-CLUSTER-NAME}'}]";
    // Objects that only some clusters have can be overridden, too.
    let more = [rules("only-eu", "one", add), rules("same", "two", "overrideType: Delete")].concat();
    let plan = plan(&varied(&THREE, "1", "", &more), None, NOW);
    assert_eq!(
        held(&plan),
        held_as(&[
            ("east", &["a=eu", "only-eu=east"]),
            ("north", &["a=eu", "only-eu=north"]),
            ("west", &["a=us", "not-eu=x"]),
        ])
    );
}
