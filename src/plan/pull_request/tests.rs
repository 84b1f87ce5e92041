use super::*;
use crate::tests::{cluster, namespace, placement, tree};
use model::forge::StatusState;
use views::pull_request::{COMMENT_CHARS_MAX, plan_comment, summary};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const STAGED: &str = "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterStagedUpdateStrategy\nmetadata: {name: s, \
    annotations: {gitfleet.io/approvers: 'user:ann'}}\nspec: {stages: [{name: all, labelSelector: {}, beforeStageTasks: \
    [{type: Approval}]}]}\n";

fn report_of(base: &str, head: &str) -> PullReport {
    let key = MaskKey::new([1; 32]);
    let candidate =
        Candidate { base: "ba5eba5eba5e".into(), head: "4ead4ead4ead".into(), tree: tree(head), conflicts: Vec::new() };
    let baseline = Baseline::rolled_out(&tree(base), NOW);
    let baseline = Baseline::of(&baseline.fleet, &baseline.placements);
    pull_report(&baseline, &candidate, &Showing { diffs: true, key: &key, only: None }, NOW)
}

fn fleet(value: &str) -> String {
    [cluster("a"), cluster("b"), namespace("web", &[("m", value)]), placement("p", "web", "")].concat()
}

/// A report without its chart, which has tests of its own.
fn comment(mut report: PullReport) -> String {
    assert!(matches!(report.timeline, Timeline::Predicted { .. } | Timeline::None), "{:?}", report.timeline);
    report.timeline = Timeline::None;
    plan_comment(&report, COMMENT_CHARS_MAX)
}

#[test]
fn nothing_to_say() {
    let report = report_of(&fleet("1"), &fleet("1"));
    assert_eq!(summary(&report), (StatusState::Success, "nothing changes on the fleet".to_owned()));
    assert_eq!(report.timeline, Timeline::None);
    insta::assert_snapshot!(comment(report), @"
    ### Plan: nothing changes on the fleet

    Plan for `4ead4ea` on top of `ba5eba5` (the accepted commit).
    ");
}

#[test]
fn ux1a_5_a_merge_that_stops_a_rollout_says_so_first() {
    let key = MaskKey::new([1; 32]);
    let candidate = |value: &str| {
        let (base, head) = ("ba5eba5eba5e".into(), "4ead4ead4ead".into());
        Candidate { base, head, tree: tree(&fleet(value)), conflicts: Vec::new() }
    };
    let mut base = Tree::clone(&tree(&fleet("1")));
    base.commit = Some("ba5eba5eba5e".into());
    let baseline = Baseline::rolled_out(&Arc::new(base), NOW);
    let mut placements = baseline.placements.clone();
    let state = placements.values_mut().next().unwrap();
    let binding = Arc::make_mut(state.bindings.values_mut().next().unwrap());
    (binding.snapshot, binding.started_at) = (None, None);
    let baseline = Baseline::of(&baseline.fleet, &placements);
    let of = |value| pull_report(&baseline, &candidate(value), &Showing { diffs: true, key: &key, only: None }, NOW);
    let said = "\n\n**Merging stops the running rollout of p (1 of 2 clusters have it) and begins again; 1 cluster never gets \
                ba5eba5.**\n\n| placement |";
    let text = comment(of("2"));
    assert!(text.contains(said), "{text}");
    assert!(!comment(of("1")).contains("Merging"), "the same continues");
}

#[test]
fn an_object_changes() {
    let report = report_of(&fleet("1"), &fleet("2"));
    assert_eq!(summary(&report), (StatusState::Success, "1 placement changes, 2 clusters".to_owned()));
    let Timeline::Predicted { chart: Some(chart), takes, .. } = &report.timeline else {
        panic!("{:?}", report.timeline)
    };
    assert!(chart.contains("section p"), "{chart}");
    assert_eq!(takes.len(), 1, "{takes:?}");
    insta::assert_snapshot!(comment(report), @"
    ### Plan: 1 placement changes, 2 clusters

    Plan for `4ead4ea` on top of `ba5eba5` (the accepted commit).

    | placement | clusters | objects | gates |
    |---|---|---|---|
    | `p` | 2 | ~1 |  |

    Rollout of `p` by RollingUpdate.

    <details><summary>changed ConfigMap web/m</summary>

    ```diff
     apiVersion: v1
     data:
    -  k: 1
    +  k: 2
     kind: ConfigMap
     metadata:
       name: m
    ```

    </details>
    ");
}

#[test]
fn stages_gates_clusters_and_deletions() {
    let staged = placement("p", "web", "  strategy: {type: External}\n")
        .replace("{name: p}", "{name: p, annotations: {gitfleet.io/staged-update-strategy: s}}");
    let base = [cluster("a"), cluster("b"), namespace("web", &[]), staged.clone(), STAGED.to_owned()].concat();
    let fixed = staged.replace("spec:\n", "spec:\n  policy: {placementType: PickFixed, clusterNames: [b, c]}\n");
    let head = [cluster("a"), cluster("b"), cluster("c"), namespace("web", &[]), fixed, STAGED.to_owned()].concat();
    insta::assert_snapshot!(comment(report_of(&base, &head)), @"
    ### Plan: 1 placement changes, 2 clusters, 1 deletion on 1 cluster needs approval

    Plan for `4ead4ea` on top of `ba5eba5` (the accepted commit).

    **Deletions of `ClusterResourcePlacement p` need approval** after the merge: 1 object on a would be deleted, with Namespace web.

    - `Namespace web` from 1 cluster: `a`

    | placement | clusters | objects | gates |
    |---|---|---|---|
    | `p` | 2 (+1 −1) |  | 1 approval of deletions, 1 approval |

    Clusters of `p`:

    - gains 1 cluster: `c` (picked: the policy names c)
    - loses 1 cluster: `a` (not picked any more)

    Rollout of `p` by `s`, stage after stage:

    | Stage | Clusters | At once | Before it | After it |
    |---|---|---|---|---|
    | `all` | 2: `b`, `c` | 1 | approval by user:ann |  |

    - 1 cluster is new in the fleet, and taken to answer: c
    ");
}

#[test]
fn what_overrides_make_of_it() {
    let rule = "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourceOverride\nmetadata: {name: o}\nspec:\n  \
        clusterResourceSelectors: [{group: '', version: v1, kind: Namespace, name: web}]\n  policy: {overrideRules: \
        [{clusterSelector: {clusterSelectorTerms: [{labelSelector: {matchLabels: {kubernetes-fleet.io/member-name: b}}}]}, \
        jsonPatchOverrides: [{op: add, path: /metadata/labels, value: {by: me}}]}]}\n";
    let report = report_of(&fleet("1"), &[&fleet("1"), rule].concat());
    insta::assert_snapshot!(comment(report), @"
    ### Plan: 1 placement changes, 1 cluster

    Plan for `4ead4ea` on top of `ba5eba5` (the accepted commit).

    | placement | clusters | objects | gates |
    |---|---|---|---|
    | `p` | 1 |  |  |

    Clusters of `p`:

    - other overrides for 1 cluster: `b`

    Rollout of `p` by RollingUpdate.

    <details><summary>overrides make it otherwise for b</summary>

    ```diff
     Namespace web
     apiVersion: v1
     kind: Namespace
     metadata:
    +  labels:
    +    by: me
       name: web
     ConfigMap web/m
       k: 1
     kind: ConfigMap
     metadata:
    +  labels:
    +    by: me
       name: m
       namespace: web
    ```

    </details>
    ");
}

#[test]
fn a_planted_value_appears_nowhere() {
    let secret = |value: &str| {
        format!(
            "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s, namespace: web, annotations: \
             {{kubectl.kubernetes.io/last-applied-configuration: '{value}'}}}}\nstringData: {{k: '{value}'}}\n\
             ---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c, namespace: web}}\ndata: {{db-password: '{value}'}}\n\
             ---\napiVersion: v1\nkind: Pod\nmetadata: {{name: d, namespace: web}}\nspec: {{containers: [{{name: c, image: i, \
             env: [{{name: API_TOKEN, value: '{value}'}}]}}]}}\n"
        )
    };
    let patch = "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ResourceOverride\nmetadata: {name: o, namespace: web}\n\
        spec:\n  resourceSelectors: [{group: '', version: v1, kind: Secret, name: s}]\n  policy: {overrideRules: \
        [{clusterSelector: {}, jsonPatchOverrides: [{op: add, path: /stringData/z, value: planted-patch}]}]}\n";
    let with = |value: &str| [fleet("1"), secret(value)].concat();
    let rows = [
        ("added", fleet("1"), with("planted-new")),
        ("changed", with("planted-old"), with("planted-new")),
        ("deleted", with("planted-old"), fleet("1")),
        ("overridden", with("planted-old"), [with("planted-old"), patch.to_owned()].concat()),
    ];
    for (name, base, head) in rows {
        let report = report_of(&base, &head);
        let text = plan_comment(&report, COMMENT_CHARS_MAX);
        assert!(!text.contains("planted") && text.contains("masked:"), "{name}: {text}");
        assert!(!text.contains("cGxhbnRlZC"), "{name}: {text}");
    }
}

#[test]
fn a_summary_shows_no_content() {
    let key = MaskKey::new([1; 32]);
    let candidate =
        Candidate { base: "b".into(), head: "h".into(), tree: tree(&fleet("2")), conflicts: vec!["a.yaml".to_owned()] };
    let baseline = Baseline::rolled_out(&tree(&fleet("1")), NOW);
    let report = pull_report(&baseline, &candidate, &Showing { diffs: false, key: &key, only: None }, NOW);
    let text = plan_comment(&report, COMMENT_CHARS_MAX);
    assert!(text.contains("changed `ConfigMap web/m`") && !text.contains("```diff"), "{text}");
    assert!(text.contains("taken from the head here: `a.yaml`"), "{text}");
}

#[test]
fn a_fleet_that_is_too_large_is_not_simulated() {
    let clusters: String = (0..=TIMELINE_MOVES_MAX).map(|n| cluster(&format!("c{n}"))).collect();
    let of = |value: &str| [clusters.clone(), namespace("web", &[("m", value)]), placement("p", "web", "")].concat();
    let report = report_of(&of("1"), &of("2"));
    assert!(matches!(&report.timeline, Timeline::LeftOut(why) if why.contains("1001 moves")), "{:?}", report.timeline);
    assert!(plan_comment(&report, COMMENT_CHARS_MAX).contains("No timeline: 1001 moves"));
}

#[test]
fn of_several_sources_only_the_own_objects_are_printed() {
    use testkit::trees::tree;
    let files = |web: &str, shared: &str| {
        tree(&[
            ("platform/fleet.yaml", &*[cluster("a"), placement("p", "web", "")].concat()),
            ("shop/web.yaml", &namespace("web", &[("m", web)])),
            (
                "platform/shared.yaml",
                &format!(
                    "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: shared, namespace: web}}\ndata: {{k: '{shared}'}}\n"
                ),
            ),
        ])
    };
    let key = MaskKey::new([1; 32]);
    let baseline = Baseline::rolled_out(&files("one", "three"), NOW);
    let candidate = Candidate {
        base: "ba5eba5eba5e".into(),
        head: "4ead4ead4ead".into(),
        tree: files("two", "four"),
        conflicts: Vec::new(),
    };
    for (only, printed) in [
        (None, ["m", "shared"].as_slice()),
        (Some("shop"), &["m"]),
        (Some("platform"), &["shared"]),
        (Some("other"), &[]),
    ] {
        let report = pull_report(&baseline, &candidate, &Showing { diffs: true, key: &key, only }, NOW);
        let named: Vec<&str> = report.objects.iter().map(|object| object.id.name.as_str()).collect();
        assert_eq!(named, ["m", "shared"], "{only:?}: both are named");
        let shown = report.objects.iter().filter(|object| object.text.is_some());
        assert_eq!(shown.map(|object| object.id.name.as_str()).collect::<Vec<_>>(), printed, "{only:?}");
    }
}
