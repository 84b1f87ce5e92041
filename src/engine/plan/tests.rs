use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::view::{PlacementPlan, Plan, Resource};
use super::*;
use crate::api::placement::StrategyType;
use crate::model::id::BlobId;
use crate::source::{assemble, parse_blob, select};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// Reads a tree from the text of one file.
fn tree(text: &str) -> Arc<Tree> {
    let path = "tree.yaml";
    let selection = select([path], None);
    let file = (path.into(), BlobId::from("b10b"), Arc::new(parse_blob(text.as_bytes())));
    Arc::new(assemble(None, &selection, [file]).expect("the test's tree has no errors"))
}

fn cluster(name: &str) -> String {
    format!(
        "---\napiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {{name: {name}}}\nspec: {{}}\n"
    )
}

fn namespace(name: &str, maps: &[(&str, &str)]) -> String {
    let mut text = format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n");
    text.extend(maps.iter().map(|(map, value)| {
        format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {map}, namespace: {name}}}\ndata: {{k: {value}}}\n"
        )
    }));
    text
}

fn placement(name: &str, namespace: &str, more: &str) -> String {
    format!(
        "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {{name: {name}}}\n\
         spec:\n  resourceSelectors: [{{group: '', version: v1, kind: Namespace, name: {namespace}}}]\n{more}"
    )
}

fn names(resources: &[Resource]) -> Vec<String> {
    resources.iter().map(|r| r.0.to_string()).collect()
}

fn of<'a>(plan: &'a Plan, name: &str) -> &'a PlacementPlan {
    plan.placements.iter().find(|p| p.name == name).expect("the placement is planned")
}

fn clusters(names: &[&str]) -> BTreeSet<ClusterName> {
    names.iter().map(|name| (*name).into()).collect()
}

#[test]
fn a_plan_from_nothing_places_everything_once() {
    let text = [cluster("a"), cluster("b"), namespace("web", &[("m", "1")]), placement("p", "web", "")].concat();
    let plan = plan(&tree(&text), None, NOW);
    let p = of(&plan, "p");
    assert_eq!(p.snapshot.as_ref().map(|s| (s.index.as_str(), s.resources.len())), Some(("0", 2)));
    assert_eq!(p.works.iter().map(|w| w.cluster_name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert!(Arc::ptr_eq(&p.works[0].manifests, &p.works[1].manifests));
    assert_eq!(
        (p.deletions.len(), p.changes.is_none(), plan.has_errors(), plan.has_changes()),
        (0, true, false, false)
    );
}

#[test]
fn the_base_is_where_the_head_starts() {
    let fleet = [cluster("a"), cluster("b"), cluster("c")].concat();
    let base =
        [&fleet, &namespace("web", &[("kept", "1"), ("edited", "1"), ("gone", "1")]), &placement("p", "web", "")];
    let base = tree(&base.map(String::as_str).concat());
    let fixed = "  policy: {placementType: PickFixed, clusterNames: [a, c]}\n";
    let fleet = [cluster("a"), cluster("b")].concat();
    let head =
        [&fleet, &namespace("web", &[("kept", "1"), ("edited", "2"), ("new", "1")]), &placement("p", "web", fixed)];
    let head = tree(&head.map(String::as_str).concat());

    let same = plan(&base, Some(&base), NOW);
    assert!(!same.has_changes(), "{same:?}");
    assert_eq!(of(&same, "p").snapshot.as_ref().map(|s| s.index.as_str()), Some("0"));

    let plan = plan(&head, Some(&base), NOW);
    let p = of(&plan, "p");
    assert_eq!(p.snapshot.as_ref().map(|s| s.index.as_str()), Some("1"));
    let changes = p.changes.as_ref().expect("there is a base");
    assert_eq!(names(&changes.resources.added), ["ConfigMap web/new"]);
    assert_eq!(names(&changes.resources.changed), ["ConfigMap web/edited"]);
    assert_eq!(names(&changes.resources.removed), ["ConfigMap web/gone"]);
    // c left the fleet, so it keeps what it has; b is still there and is no longer picked.
    assert_eq!((&changes.clusters.gained, &changes.clusters.lost), (&clusters(&[]), &clusters(&["b", "c"])));
    let gone: Vec<_> = p.deletions.iter().map(|d| (d.cluster_name.as_str(), d.resources.len())).collect();
    assert_eq!(gone, [("a", 1), ("b", 4)]);
    assert_eq!(p.deletion_guard.as_deref(), Some("Namespace web would be deleted from b"));
}

#[test]
fn what_a_removed_placement_leaves() {
    let fleet = [cluster("a"), namespace("web", &[("m", "1")]), namespace("db", &[])].concat();
    let base = tree(&[&*fleet, &placement("p", "web", ""), &placement("q", "db", "")].concat());
    let head = tree(&[&*fleet, &placement("q", "db", "")].concat());
    let removed = plan(&head, Some(&base), NOW);
    let p = of(&removed, "p");
    assert_eq!((p.removed, p.works.len(), p.decisions.len(), p.snapshot.is_none()), (true, 0, 0, true));
    assert_eq!(names(&p.deletions[0].resources), ["ConfigMap web/m", "Namespace web"]);
    assert_eq!(p.deletion_guard.as_deref(), Some("the placement was removed"));
    assert!(!of(&removed, "q").removed);
    // Another placement takes the objects over: nothing is deleted.
    let renamed =
        plan(&tree(&[&*fleet, &placement("r", "web", ""), &placement("q", "db", "")].concat()), Some(&base), NOW);
    assert_eq!(of(&renamed, "p").deletions.len(), 0);
    assert!(renamed.has_changes());
}

#[test]
fn report_diff_deletes_nothing() {
    let fleet = [cluster("a"), namespace("web", &[("m", "1")])].concat();
    let report = "  strategy: {applyStrategy: {type: ReportDiff}}\n";
    let base = tree(&[&*fleet, &placement("p", "web", "")].concat());
    let head = [&*cluster("a"), &*namespace("web", &[]), &placement("p", "web", report)].concat();
    assert_eq!(of(&plan(&tree(&head), Some(&base), NOW), "p").deletions.len(), 0);
    let never = tree(&[&*fleet, &placement("p", "web", report)].concat());
    assert_eq!(of(&plan(&tree(&cluster("a")), Some(&never), NOW), "p").deletions.len(), 0);
}

#[test]
fn two_placements_of_one_object_clash_where_they_meet() {
    let fixed = "  policy: {placementType: PickFixed, clusterNames: [b]}\n";
    let text = [
        cluster("a"),
        cluster("b"),
        namespace("web", &[("m", "1")]),
        placement("p", "web", ""),
        placement("q", "web", fixed),
    ];
    let plan = plan(&tree(&text.concat()), None, NOW);
    assert!(of(&plan, "p").works.iter().all(|w| w.error.is_none()));
    let q = &of(&plan, "q").works;
    assert_eq!(q.iter().map(|w| w.cluster_name.as_str()).collect::<Vec<_>>(), ["b"]);
    let error = q[0].error.as_deref().unwrap_or_default();
    assert!(error.contains("placed there by ClusterResourcePlacement p (and 1 more"), "{error}");
    assert!(plan.has_errors());
}

#[test]
fn how_rollouts_are_announced() {
    let external = "  strategy: {type: External}\n";
    let few = "  policy: {placementType: PickN, numberOfClusters: 5}\n  strategy: {type: External}\n";
    let run = |placement: &str| {
        format!(
            "---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateRun\nmetadata: {{name: r}}\n\
             spec: {{placementName: {placement}, stagedRolloutStrategyName: s}}\n"
        )
    };
    let rows = [
        ("rolling", "", String::new(), (StrategyType::RollingUpdate, None, None), ""),
        (
            "rolling with a run",
            "",
            run("p"),
            (StrategyType::RollingUpdate, None, Some("r")),
            "strategy is RollingUpdate",
        ),
        ("a run of another", "", run("x"), (StrategyType::RollingUpdate, None, None), ""),
        ("external alone", external, String::new(), (StrategyType::External, None, None), ""),
        (
            "external with a run",
            external,
            run("p"),
            (StrategyType::External, Some("s"), Some("r")),
            "the ClusterStagedUpdateStrategy s is missing",
        ),
        (
            "external, too few",
            few,
            run("p"),
            (StrategyType::External, Some("s"), Some("r")),
            "not fulfilled (1 clusters",
        ),
    ];
    for (name, more, run, (type_, strategy, run_name), error) in rows {
        let text = [cluster("a"), namespace("web", &[]), placement("p", "web", more), run].concat();
        let plan = plan(&tree(&text), None, NOW);
        let rollout = &of(&plan, "p").rollout;
        let found = (rollout.type_, rollout.strategy.as_deref(), rollout.run.as_deref());
        assert_eq!(found, (type_, strategy, run_name), "{name}");
        let said = rollout.error.as_deref().unwrap_or_default();
        assert!(said.contains(error) && said.is_empty() == error.is_empty(), "{name}: {said}");
        assert_eq!(of(&plan, "p").works.len(), 1, "{name}");
    }
}

#[test]
fn a_commit_moves_no_ocm_decision_that_does_not_read_it() {
    use super::super::fixtures::{self, BOUND, managed, ocm_placement};
    // The second placement takes the first one's cluster, which balance would now move.
    let narrow = "{predicates: [{requiredClusterSelector: {labelSelector: {matchLabels: {zone: east}}}}]}";
    let text = [
        BOUND,
        &managed("a", "{zone: east}", "[]"),
        &managed("b", "{}", "[]"),
        &ocm_placement("one", "{numberOfClusters: 1}"),
        &ocm_placement("two", narrow),
        &fixtures::placement("p", "gitfleet.io/placement: ns/one", ""),
        &fixtures::payload("1"),
    ]
    .concat();
    let base = fixtures::tree(&[("f.yaml", &text)]);
    let head = fixtures::tree(&[("f.yaml", &text), ("g.yaml", &namespace("unrelated", &[]))]);
    let plan = plan(&head, Some(&base), NOW);
    let p = of(&plan, "p");
    assert_eq!(p.works.iter().map(|w| w.cluster_name.as_str()).collect::<Vec<_>>(), ["a"], "{p:?}");
    assert!(!plan.has_changes());
}

/// A ClusterResourceOverride of Namespace `web` and all that is in it.
fn override_of(rules: &str) -> String {
    format!(
        "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourceOverride\nmetadata: {{name: o}}\nspec:\n  \
         clusterResourceSelectors: [{{group: '', version: v1, kind: Namespace, name: web}}]\n  policy: {{overrideRules: [{rules}]}}\n"
    )
}

#[test]
fn works_are_those_after_overrides() {
    let fleet = [cluster("a"), cluster("b"), namespace("web", &[("m", "1")]), placement("p", "web", "")].concat();
    let on = |cluster: &str| {
        format!(
            "clusterSelector: {{clusterSelectorTerms: [{{labelSelector: {{matchLabels: \
             {{kubernetes-fleet.io/member-name: {cluster}}}}}}}]}}"
        )
    };
    let labels = "jsonPatchOverrides: [{op: add, path: /metadata/labels, value: {by: '${MEMBER-CLUSTER-NAME}'}}]";
    let fails = "jsonPatchOverrides: [{op: remove, path: /data/gone}]";
    let rows = [
        ("none", String::new(), [2, 2], "", 0),
        ("a label", format!("{{{}, {labels}}}", on("b")), [2, 2], "", 0),
        ("a deletion", format!("{{{}, overrideType: Delete}}", on("b")), [2, 0], "", 2),
        (
            "a patch that fails",
            format!("{{{}, {fails}}}", on("b")),
            [2, 0],
            "rule 1: remove /data/gone on Namespace web",
            0,
        ),
    ];
    let base = tree(&fleet);
    for (name, rules, counts, error, deletions) in rows {
        let text = if rules.is_empty() { fleet.clone() } else { [fleet.clone(), override_of(&rules)].concat() };
        let plan = plan(&tree(&text), Some(&base), NOW);
        let p = of(&plan, "p");
        assert_eq!(p.works.iter().map(|w| w.manifests.len()).collect::<Vec<_>>(), counts, "{name}");
        let said = p.works[1].error.as_deref().unwrap_or_default();
        assert!(said.contains(error) && said.is_empty() == error.is_empty(), "{name}: {said}");
        assert_eq!(plan.has_errors(), !error.is_empty(), "{name}");
        assert_eq!(p.deletions.iter().map(|d| d.resources.len()).sum::<usize>(), deletions, "{name}");
        let by = p.works[1].manifests.first().and_then(|object| object.pointer("/metadata/labels/by"));
        assert_eq!(by.is_some_and(|by| by == "b"), name == "a label");
        let concerned = if rules.is_empty() { [].as_slice() } else { &["b"] };
        assert_eq!(p.changes.as_ref().map(|changes| changes.overridden.clone()), Some(clusters(concerned)), "{name}");
        assert_eq!(plan.has_changes(), !rules.is_empty(), "{name}");
    }
}

#[test]
fn the_base_has_its_own_overrides() {
    let fleet = [cluster("a"), namespace("web", &[("m", "1")]), placement("p", "web", "")].concat();
    let delete = "{clusterSelector: {}, overrideType: Delete}";
    let base = tree(&[fleet.clone(), override_of(delete)].concat());
    let same = plan(&base, Some(&base), NOW);
    assert!(!same.has_changes() && of(&same, "p").deletions.is_empty(), "{same:?}");
    let without = plan(&tree(&fleet), Some(&base), NOW);
    assert_eq!((of(&without, "p").works[0].manifests.len(), of(&without, "p").deletions.len()), (2, 0));
    assert!(without.has_changes() && !without.has_errors());
}
