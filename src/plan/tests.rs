mod namespaces;
mod variants;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::*;
use model::api::placement::StrategyType;
use model::id::BlobId;
use model::plan::{PlacementPlan, Plan, Resource};
use source::{assemble, parse_blob, select};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// Reads a tree from the text of one file.
pub(super) fn tree(text: &str) -> Arc<Tree> {
    let path = "tree.yaml";
    let selection = select([path], None);
    let file = (path.into(), BlobId::from(text), Arc::new(parse_blob(text.as_bytes())));
    Arc::new(assemble(None, &selection, [file]).expect("the test's tree has no errors"))
}

pub(super) fn cluster(name: &str) -> String {
    format!(
        "---\napiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {{name: {name}}}\nspec: {{}}\n"
    )
}

pub(super) fn namespace(name: &str, maps: &[(&str, &str)]) -> String {
    let mut text = format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n");
    text.extend(maps.iter().map(|(map, value)| {
        format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {map}, namespace: {name}}}\ndata: {{k: {value}}}\n"
        )
    }));
    text
}

pub(super) fn placement(name: &str, namespace: &str, more: &str) -> String {
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
    assert_eq!(p.deletion_guard.as_deref(), Some("5 objects on 2 clusters would be deleted, with Namespace web"));
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
    assert_eq!(
        p.deletion_guard.as_deref(),
        Some("the placement was removed: 2 objects on a would be deleted, with Namespace web")
    );
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
        let warnings: Vec<String> = plan.warnings.iter().map(ToString::to_string).collect();
        let is_orphan = warnings.iter().any(|it| it.contains("the run r names the ClusterResourcePlacement x"));
        assert_eq!(is_orphan, name == "a run of another", "{warnings:?}");
        let odd = usize::from(["a run of another", "external alone", "external, too few"].contains(&name));
        assert_eq!(warnings.len(), odd, "{name}: {warnings:?}");
        assert!(!is_orphan || !plan.has_errors(), "{name}: it harms nobody");
    }
}

#[test]
fn stages_that_do_not_fit_the_fleet() {
    let external = "  strategy: {type: External}\n";
    let annotated = |name: &str| {
        placement("p", "web", external)
            .replace("{name: p}", &format!("{{name: p, annotations: {{gitfleet.io/staged-update-strategy: {name}}}}}"))
    };
    let rows = [
        ("{name: s, labelSelector: {}}, {name: t, labelSelector: {}}", "stages s and t both select a, b;"),
        (
            "{name: s, labelSelector: {matchLabels: {tier: none}}}",
            "2 clusters that the placement picked are in no stage: a, b;",
        ),
        ("{name: s, labelSelector: {}, sortingLabelKey: order}", "cluster a does not have it"),
        ("{name: s, labelSelector: {}, sortingLabelKey: wave}", "cluster b has \"first\" there"),
        (
            "{name: s, labelSelector: {}, afterStageTasks: [{type: TimedWait, waitTime: 0s}]}",
            "stage s: the waitTime \"0s\" of its TimedWait is no time",
        ),
    ];
    for (stages, expected) in rows {
        let fleet = [("a", "1"), ("b", "first")].map(|(name, wave)| {
            cluster(name)
                .replace(&format!("{{name: {name}}}"), &format!("{{name: {name}, labels: {{wave: '{wave}'}}}}"))
        });
        let strategy = format!(
            "---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\nmetadata: {{name: s}}\n\
             spec: {{stages: [{stages}]}}\n"
        );
        let text = [fleet.concat(), namespace("web", &[]), annotated("s"), strategy].concat();
        let plan = plan(&tree(&text), None, NOW);
        let said = of(&plan, "p").rollout.error.clone().unwrap_or_default();
        assert!(said.contains(expected) && plan.has_errors(), "{stages}: {said}");
    }
}

#[test]
fn a_commit_moves_no_ocm_decision_that_does_not_read_it() {
    use testkit::trees as fixtures;
    use testkit::trees::{BOUND, managed, ocm_placement};
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

mod from_records {
    //! Plans that start from a daemon's records.

    use super::*;
    use decide::state::PlacementState;
    use model::records::{BindingState, WorkStatus};

    /// Returns the records of a daemon that has rolled a tree out.
    fn daemon(text: &str) -> Baseline {
        let baseline = Baseline::rolled_out(&tree(text), NOW);
        Baseline::of(&baseline.fleet, &baseline.placements)
    }

    fn state<'a>(baseline: &'a mut Baseline, name: &str) -> &'a mut PlacementState {
        baseline.placements.get_mut(&PlacementKey::cluster_scoped(name)).expect("the placement is there")
    }

    fn fleet(values: &str) -> String {
        [cluster("a"), cluster("b"), namespace("web", &[("m", values)]), placement("p", "web", "")].concat()
    }

    #[test]
    fn the_same_tree_changes_nothing() {
        let baseline = daemon(&fleet("1"));
        for head in [Arc::clone(baseline.tree()), tree(&fleet("1"))] {
            let plan = plan_from(&baseline, &head, NOW);
            assert!(!plan.has_changes() && !plan.has_errors(), "{plan:?}");
            assert_eq!(of(&plan, "p").snapshot.as_ref().map(|s| s.index.as_str()), Some("0"));
        }
    }

    #[test]
    fn indexes_continue_from_the_records() {
        let baseline = daemon(&fleet("1"));
        let first = plan_from(&baseline, &tree(&fleet("2")), NOW);
        let p = of(&first, "p");
        assert_eq!(p.snapshot.as_ref().map(|s| s.index.as_str()), Some("1"));
        assert_eq!(names(&p.changes.as_ref().expect("there is a baseline").resources.changed), ["ConfigMap web/m"]);
        assert_eq!((p.deletions.len(), &p.deletion_guard), (0, &None));
        let mut lost = baseline.clone();
        let held = deliver::inventory::Held { index: 7, commit: "".into(), digest: "".into() };
        lost.fleet.held.insert(PlacementKey::cluster_scoped("p"), held);
        lost.placements.clear();
        let rebuilt = plan_from(&lost, &tree(&fleet("2")), NOW);
        assert_eq!(of(&rebuilt, "p").snapshot.as_ref().map(|s| s.index.as_str()), Some("8"), "members know better");
    }

    #[test]
    fn a_rollout_on_its_way_counts_as_there() {
        let mut baseline = daemon(&fleet("1"));
        let newer = plan_state(&baseline, &fleet("2"));
        baseline.fleet.tree = tree(&fleet("2"));
        baseline.placements.insert(newer.record.key.clone(), newer);
        // Neither cluster has moved: both hold snapshot 0, and what is compared with is snapshot 1.
        let bound: Vec<_> = state(&mut baseline, "p").bindings().map(|b| b.snapshot).collect();
        assert!(bound.contains(&Some(0)), "{bound:?}");
        let same = plan_from(&baseline, &tree(&fleet("2")), NOW);
        assert!(!same.has_changes(), "{same:?}");
        let next = plan_from(&baseline, &tree(&fleet("3")), NOW);
        let p = of(&next, "p");
        assert_eq!(p.snapshot.as_ref().map(|s| s.index.as_str()), Some("2"));
        assert_eq!(names(&p.changes.as_ref().expect("there is a baseline").resources.changed), ["ConfigMap web/m"]);
    }

    fn plan_state(baseline: &Baseline, head: &str) -> PlacementState {
        let fleet = baseline.fleet_after(&tree(head), NOW);
        decided(baseline, &fleet, NOW).0.pop().expect("there is a placement")
    }

    #[test]
    fn deletions_are_those_of_the_inventory() {
        let with = |maps: &[(&str, &str)]| {
            [cluster("a"), cluster("b"), namespace("web", maps), placement("p", "web", "")].concat()
        };
        let mut baseline = daemon(&with(&[("m", "1"), ("nn", "1"), ("o", "1")]));
        // b never got `o`, and holds `old`, whose deletion is under way already.
        let works = &mut state(&mut baseline, "p").works;
        let status = WorkStatus::clone(&works[&ClusterName::from("b")]);
        let old =
            ObjectKey { kind: "ConfigMap".into(), namespace: "web".into(), name: "old".into(), ..ObjectKey::default() };
        let mut inventory = status.inventory.known().expect("it is known").clone();
        inventory.retain(|key| key.name != "o");
        inventory.insert(old);
        works.insert("b".into(), Arc::new(WorkStatus { inventory: inventory.into_iter().collect(), ..status }));
        let plan = plan_from(&baseline, &tree(&with(&[("m", "1"), ("nn", "1")])), NOW);
        let p = of(&plan, "p");
        let gone: Vec<_> = p.deletions.iter().map(|d| (d.cluster_name.as_str(), names(&d.resources))).collect();
        assert_eq!(gone, [("a", vec!["ConfigMap web/o".to_owned()])]);
        let removed = plan_from(&baseline, &tree(&[cluster("a"), cluster("b")].concat()), NOW);
        let p = of(&removed, "p");
        let reason = "the placement was removed: 8 objects on 2 clusters would be deleted, with Namespace web";
        assert_eq!((p.removed, p.deletion_guard.as_deref()), (true, Some(reason)));
        assert_eq!(p.deletions.len(), 2);
    }

    #[test]
    fn a_removal_that_continues_is_not_the_heads() {
        let mut baseline = daemon(&fleet("1"));
        let head = tree(&[cluster("a"), cluster("b")].concat());
        baseline.fleet.tree = Arc::clone(&head);
        let plan = plan_from(&baseline, &head, NOW);
        assert!(plan.placements.is_empty() && !plan.has_changes(), "{plan:?}");
    }

    #[test]
    fn a_label_moves_a_cluster_and_one_that_is_silent_stays_known() {
        let labelled = |zone: &str| {
            let text =
                fleet("1").replace("metadata: {name: b}", &format!("metadata: {{name: b, labels: {{zone: {zone}}}}}"));
            let policy = "  policy: {placementType: PickAll, affinity: {clusterAffinity: \
                {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: \
                [{labelSelector: {matchLabels: {zone: east}}}]}}}}\n";
            text.replace(&placement("p", "web", ""), &placement("p", "web", policy))
        };
        let later = NOW + jiff::SignedDuration::from_hours(1);
        for silent in [false, true] {
            let from = |zone: &str| {
                let mut baseline = daemon(&labelled(zone));
                baseline.fleet.records.get_mut("b").expect("b is known").online = !silent;
                baseline
            };
            let mut there = from("east");
            let same = plan_from(&there, &tree(&labelled("east")), later);
            assert!(!same.has_changes(), "{same:?}");
            assert_eq!(of(&same, "p").works.len(), 1, "silent: {silent}");
            assert!(state(&mut there, "p").bindings().all(|b| b.state == BindingState::Bound));
            let moved = plan_from(&from("west"), &tree(&labelled("east")), later);
            let changes = of(&moved, "p").changes.as_ref().expect("there is a baseline");
            // Nothing new goes to a cluster that has been silent for long.
            let gained: &[&str] = if silent { &[] } else { &["b"] };
            assert_eq!(changes.clusters.gained, clusters(gained), "silent: {silent}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_never_deleted() {
        let mut baseline = daemon(&fleet("1"));
        let p = state(&mut baseline, "p");
        p.payloads.clear();
        p.memo.selected = None;
        // The selection of the head fails, so that the old snapshot stays, which nobody can read.
        let broken = fleet("1").replace("kind: Namespace, name: web}]", "kind: Namespace, name: kube-system}]");
        let plan = plan_from(&baseline, &tree(&broken), NOW);
        let p = of(&plan, "p");
        assert!(p.error.is_some() && p.deletions.is_empty() && p.deletion_guard.is_none(), "{p:?}");
        assert!(p.works.iter().all(|work| work.error.is_some()));
    }

    #[test]
    fn gates_are_announced_with_who_opens_them() {
        let staged = "  strategy: {type: External}\n".to_owned();
        let text = [
            cluster("a"),
            namespace("web", &[]),
            placement("p", "web", &staged).replace("{name: p}", "{name: p, annotations: {gitfleet.io/staged-update-strategy: s}}"),
            "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterStagedUpdateStrategy\nmetadata: {name: s, \
             annotations: {gitfleet.io/approvers: 'user:ann'}}\nspec: {stages: [{name: all, labelSelector: {}, \
             afterStageTasks: [{type: TimedWait, waitTime: 10m}, {type: Approval}]}]}\n"
                .to_owned(),
        ];
        let plan = plan(&tree(&text.concat()), None, NOW);
        let rollout = &of(&plan, "p").rollout;
        assert_eq!(rollout.error, None);
        let gates: Vec<_> =
            rollout.stages[0].after.iter().map(|g| (g.wait_time.as_deref(), g.approvers.as_deref())).collect();
        assert_eq!(gates, [(Some("10m"), None), (None, Some("user:ann"))]);
    }
}
