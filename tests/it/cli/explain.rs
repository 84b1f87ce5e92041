//! `gitfleet explain`: from a tree, between two commits, from the store, and from a running daemon.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli::daemon::Daemon;
use crate::cli::scratch::{CONFIG, FLEET, Outcome, Scratch, annotated_placement, namespace, placement};

fn edge(name: &str, env: &str, region: &str, cpu: u32, taint: &str) -> String {
    let taints = if taint.is_empty() { String::new() } else { format!("  taints: [{taint}]\n") };
    format!(
        "---\napiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata:\n  name: {name}\n  labels: \
         {{env: {env}, region: {region}}}\n  annotations:\n    gitfleet.io/properties: \
         '{{\"resources.kubernetes-fleet.io/available-cpu\": \"{cpu}\"}}'\nspec:\n  identity: {{kind: User, name: x}}\n{taints}"
    )
}

fn edges() -> String {
    [
        edge("edge-05", "prod", "west", 8, ""),
        edge("edge-06", "prod", "east", 8, ""),
        edge("edge-07", "prod", "east", 3, ""),
        edge("edge-08", "lab", "east", 9, ""),
        edge("edge-09", "prod", "west", 16, "{key: maintenance, value: \"yes\", effect: NoSchedule}"),
        edge("edge-10", "prod", "west", 8, ""),
    ]
    .concat()
}

/// Two clusters of production with that much cpu, better in the east.
fn pick_two(least: u32) -> String {
    let name = "resources.kubernetes-fleet.io/available-cpu";
    let policy = format!(
        "  policy:\n    placementType: PickN\n    numberOfClusters: 2\n    affinity:\n      clusterAffinity:\n        \
         requiredDuringSchedulingIgnoredDuringExecution:\n          clusterSelectorTerms:\n            - labelSelector: \
         {{matchLabels: {{env: prod}}}}\n              propertySelector: {{matchExpressions: [{{name: {name}, operator: Ge, \
         values: [\"{least}\"]}}]}}\n        preferredDuringSchedulingIgnoredDuringExecution:\n          - {{weight: 20, \
         preference: {{propertySorter: {{name: {name}, sortOrder: Descending}}}}}}\n          - {{weight: 50, preference: \
         {{labelSelector: {{matchLabels: {{region: east}}}}}}}}\n"
    );
    placement("web", "web", &policy)
}

fn ocm(name: &str, kind: &str, version: &str, namespace: &str, fields: &str) -> String {
    let namespace = if namespace.is_empty() { String::new() } else { format!(", namespace: {namespace}") };
    format!(
        "---\n{{apiVersion: cluster.open-cluster-management.io/{version}, kind: {kind}, metadata: {{name: {name}{namespace}\
         {fields}}}\n"
    )
}

fn managed(name: &str, set: &str, env: &str, more: &str) -> String {
    let labels = format!(", labels: {{env: {env}, cluster.open-cluster-management.io/clusterset: {set}}}}}{more}");
    ocm(name, "ManagedCluster", "v1", "", &labels)
}

fn of_ocm() -> String {
    let predicate = "{requiredClusterSelector: {labelSelector: {matchLabels: {env: prod}}}}";
    let taint = ", spec: {taints: [{key: k, value: v, effect: NoSelect, timeAdded: \"2026-01-01T00:00:00Z\"}]}";
    [
        ocm("s", "ManagedClusterSet", "v1beta2", "", "}, spec: {}"),
        ocm("s", "ManagedClusterSetBinding", "v1beta2", "ns1", "}, spec: {clusterSet: s}"),
        ocm(
            "p",
            "Placement",
            "v1beta1",
            "ns1",
            &format!("}}, spec: {{numberOfClusters: 2, predicates: [{predicate}]}}"),
        ),
        managed("m1", "s", "prod", ""),
        managed("m2", "s", "dev", ""),
        managed("m3", "s", "prod", ""),
        managed("m4", "other", "prod", ""),
        managed("m5", "s", "prod", taint),
        managed("m6", "s", "prod", ""),
    ]
    .concat()
}

/// One commit with a placement of KubeFleet's and one of Open Cluster Management's, on clusters of their own.
fn fleet() -> Scratch {
    let scratch = Scratch::new();
    scratch.configure();
    scratch.write("clusters.yaml", &edges()).write("web.yaml", &[namespace("web", &[]), pick_two(4)].concat());
    scratch.commit("first");
    scratch
}

/// A committed tree: an OCM Placement `ns1/p` that picks m1 and m3 of six, and a placement that takes its clusters.
pub fn ocm_fleet() -> Scratch {
    let scratch = Scratch::new();
    scratch.configure();
    let follower = annotated_placement("follower", "{gitfleet.io/placement: ns1/p}", "web", "");
    scratch.write("ocm.yaml", &of_ocm()).write("web.yaml", &[namespace("web", &[]), follower].concat());
    scratch.commit("first");
    scratch
}

fn explain(scratch: &Scratch, args: &[&str]) -> Outcome {
    scratch.run(&[&["explain"], args].concat())
}

/// Returns a text with `TIME` for each moment.
fn without_times(text: &str) -> String {
    let time = regex::Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ").expect("a pattern");
    time.replace_all(text, "TIME").into_owned()
}

fn of_tree(scratch: &Scratch, args: &[&str]) -> String {
    explain(scratch, &[&["--repo", FLEET], args].concat()).text(0).to_owned()
}

#[test]
fn every_cluster_with_the_first_filter_or_the_rank() {
    insta::assert_snapshot!(of_tree(&fleet(), &["web"]), @r#"
    ✓ ClusterResourcePlacement web
        wanted     PickN 2
        outcome    2 of 2 clusters found
        picked     2 of 6 clusters

    CLUSTER   PICKED   RANK   SCORE   WHY
    edge-06   yes      1      58      rank 1 of 3
    edge-10   yes      2      8       rank 2 of 3
    edge-05   no       3      8       rank 3 of 3
    edge-07   no                      available-cpu 3 is below 4
    edge-08   no                      label env is "lab", wanted "prod"
    edge-09   no                      taint maintenance=yes:NoSchedule is not tolerated
    "#);
    insta::assert_snapshot!(of_tree(&fleet(), &["web", "-o", "wide"]), @r#"
    ✓ ClusterResourcePlacement web
        wanted     PickN 2
        outcome    2 of 2 clusters found
        picked     2 of 6 clusters

    CLUSTER   PICKED   RANK   SCORE   preferred[0] available-cpu descending   preferred[1] region=east   WHY
    edge-06   yes      1      58      8                                       50                         rank 1 of 3
    edge-10   yes      2      8       8                                       0                          rank 2 of 3; as good as edge-05, and before it: the larger name comes first
    edge-05   no       3      8       8                                       0                          rank 3 of 3; as good as edge-10, and after it: the larger name comes first
    edge-07   no                                                                                         available-cpu 3 is below 4
    edge-08   no                                                                                         label env is "lab", wanted "prod"
    edge-09   no                                                                                         taint maintenance=yes:NoSchedule is not tolerated
    "#);
    insta::assert_snapshot!(of_tree(&ocm_fleet(), &["ns1/p", "-o", "wide"]), @r#"
    ✓ Placement ns1/p
        wanted     2 clusters
        outcome    All cluster decisions scheduled
        picked     2 of 6 clusters

    CLUSTER   PICKED   RANK   SCORE   Balance   Steady   WHY
    m1        yes      1      100     100       0        rank 1 of 3; as good as m3, and before it: the smaller name comes first
    m3        yes      2      100     100       0        rank 2 of 3; as good as m6, and before it: the smaller name comes first
    m6        no       3      100     100       0        rank 3 of 3; as good as m3, and after it: the smaller name comes first
    m2        no                                         label env is "dev", wanted "prod"
    m4        no                                         not in cluster set s
    m5        no                                         taint k=v:NoSelect since 2026-01-01T00:00:00Z is not tolerated
    "#);
    insta::assert_snapshot!(of_tree(&ocm_fleet(), &["follower"]), @r#"
    ✓ ClusterResourcePlacement follower
        wanted     the clusters of Placement ns1/p (2 clusters)
        outcome    All cluster decisions scheduled
        picked     2 of 6 clusters

    CLUSTER   PICKED   RANK   SCORE   WHY
    m1        yes      1      100     rank 1 of 3
    m3        yes      2      100     rank 2 of 3
    m6        no       3      100     rank 3 of 3
    m2        no                      label env is "dev", wanted "prod"
    m4        no                      not in cluster set s
    m5        no                      taint k=v:NoSelect since 2026-01-01T00:00:00Z is not tolerated
    "#);
}

#[test]
fn one_cluster_with_what_was_compared() {
    let fleet = fleet();
    insta::assert_snapshot!(of_tree(&fleet, &["web", "--cluster", "edge-07"]), @r#"
    ✓ ClusterResourcePlacement web
        wanted     PickN 2
        outcome    2 of 2 clusters found
        picked     2 of 6 clusters

    · edge-07  available-cpu 3 is below 4
        filter     ClusterAffinity
        checked    property resources.kubernetes-fleet.io/available-cpu
        observed   3
        wanted     >= 4
    "#);
    insta::assert_snapshot!(of_tree(&fleet, &["web", "--cluster", "edge-05"]), @r#"
    ✓ ClusterResourcePlacement web
        wanted     PickN 2
        outcome    2 of 2 clusters found
        picked     2 of 6 clusters

    · edge-05  not picked: rank 3 of 3
        term                                    score  weight  observed
        preferred[0] available-cpu descending       8      20  8
        preferred[1] region=east                    0      50
        sum                                         8
        rank       3
        tie-break  as good as edge-10, and after it: the larger name comes first
    "#);
    let fleet = ocm_fleet();
    insta::assert_snapshot!(of_tree(&fleet, &["ns1/p", "--cluster", "m5"]), @r#"
    ✓ Placement ns1/p
        wanted     2 clusters
        outcome    All cluster decisions scheduled
        picked     2 of 6 clusters

    · m5  taint k=v:NoSelect since 2026-01-01T00:00:00Z is not tolerated
        filter     TaintToleration
        checked    taint k
        observed   k=v:NoSelect since 2026-01-01T00:00:00Z
        wanted     a toleration that holds
    "#);
    insta::assert_snapshot!(of_tree(&fleet, &["ns1/p", "--cluster", "m6"]), @r#"
    ✓ Placement ns1/p
        wanted     2 clusters
        outcome    All cluster decisions scheduled
        picked     2 of 6 clusters

    · m6  not picked: rank 3 of 3
        term      score  weight  observed
        Balance     100       1  0 decisions of other placements
        Steady        0       1  not picked before
        sum         100
        rank       3
        tie-break  as good as m3, and after it: the smaller name comes first
    "#);
}

#[test]
fn json_field_by_field() {
    let scratch = fleet();
    let found = explain(&scratch, &["web", "--repo", FLEET, "-o", "json"]).json(0);
    let head = json!({"kind": "ClusterResourcePlacement", "name": "web", "wanted": "PickN 2", "fulfilled": true,
        "message": "2 of 2 clusters found"});
    for (field, value) in head.as_object().expect("fields") {
        assert_eq!(&found[field], value, "{field}");
    }
    assert!(found.get("namespace").is_none() && found.get("changes").is_none(), "{found}");
    let names: Vec<&Value> =
        found["clusters"].as_array().expect("clusters").iter().map(|c| &c["clusterName"]).collect();
    assert_eq!(names, ["edge-06", "edge-10", "edge-05", "edge-07", "edge-08", "edge-09"]);
    let term = |name: &str, weight: i64, observed: Option<&str>, score: i64| match observed {
        Some(observed) => json!({"name": name, "weight": weight, "observed": observed, "score": score}),
        None => json!({"name": name, "weight": weight, "score": score}),
    };
    let (cpu, labels) = ("preferred[0] available-cpu descending", "preferred[1] region=east");
    assert_eq!(
        found["clusters"][2],
        json!({"clusterName": "edge-05", "picked": false, "kept": false, "rank": 3,
            "scores": [term(cpu, 20, Some("8"), 8), term(labels, 50, None, 0)],
            "tieBreak": "as good as edge-10, and after it: the larger name comes first",
            "reason": "not picked: rank 3 of 3"})
    );
    assert_eq!(
        found["clusters"][3],
        json!({"clusterName": "edge-07", "picked": false, "kept": false, "reason": "available-cpu 3 is below 4",
            "rejected": {"filter": "ClusterAffinity", "subject": "property resources.kubernetes-fleet.io/available-cpu",
                "observed": "3", "wanted": ">= 4"}})
    );
    let yaml = explain(&scratch, &["web", "--repo", FLEET, "-o", "yaml", "--cluster", "edge-08"]);
    assert!(yaml.text(0).contains("clusterName: edge-08") && !yaml.out.contains("edge-05"), "{}", yaml.out);
}

#[test]
fn between_two_commits_the_moves_and_why() {
    let scratch = fleet();
    scratch.write("web.yaml", &[namespace("web", &[]), pick_two(2)].concat());
    let base = scratch.commit("cheaper");
    scratch.write("web.yaml", &[namespace("web", &[]), pick_two(4)].concat());
    let head = scratch.commit("dearer");
    let args = ["web", "--base", &base, "--head", &head];
    let moves = "from base to head\n    edge-07 dropped: available-cpu 3 is below 4\n    edge-10 picked: rank 2 of 3 (was not \
                 picked: rank 3 of 4)\n";
    let text = of_tree(&scratch, &args);
    assert!(text.contains(moves), "{text}");
    assert_eq!(text, of_tree(&scratch, &["web", "--base", "HEAD~1"]), "the head is HEAD by itself");
    let one = of_tree(&scratch, &["web", "--base", "HEAD~1", "--cluster", "edge-07"]);
    assert!(one.contains("edge-07 dropped") && !one.contains("edge-10"), "{one}");
    let json = explain(&scratch, &[&args[..], &["--repo", FLEET, "-o", "json"]].concat()).json(0);
    assert_eq!(
        json["changes"][0],
        json!({"clusterName": "edge-07", "text": "edge-07 dropped: available-cpu 3 is below 4"})
    );
    // What a cluster has changes, and the policy does not: nothing moves, and it is said how the cluster would do today.
    scratch.write("clusters.yaml", &edges().replace("edge-06\n  labels: {env: prod", "edge-06\n  labels: {env: lab"));
    scratch.commit("relabelled");
    insta::assert_snapshot!(of_tree(&scratch, &["web", "--base", "HEAD~1"]), @r#"
    ✓ ClusterResourcePlacement web
        wanted     PickN 2
        outcome    2 of 2 clusters found
        picked     2 of 6 clusters

    no cluster moves from base to head

    CLUSTER   PICKED   RANK   SCORE   WHY
    edge-10   yes      1      8       passed every filter (affinity score 8, topology spread score 0); today: rank 1 of 2
    edge-06   yes                     passed every filter (affinity score 58, topology spread score 0); today: label env is "lab", wanted "prod"
    edge-05   no       2      8       rank 2 of 2, but clusters that were picked earlier are kept
    edge-07   no                      available-cpu 3 is below 4
    edge-08   no                      label env is "lab", wanted "prod"
    edge-09   no                      taint maintenance=yes:NoSchedule is not tolerated
    "#);
}

#[test]
fn between_two_commits_of_open_cluster_management() {
    let scratch = ocm_fleet();
    scratch.write("ocm.yaml", &of_ocm().replace("m1, labels: {env: prod", "m1, labels: {env: dev"));
    scratch.commit("relabelled");
    let json = explain(&scratch, &["ns1/p", "--repo", FLEET, "--base", "HEAD~1", "-o", "json"]).json(0);
    let texts: Vec<&str> =
        json["changes"].as_array().expect("changes").iter().filter_map(|c| c["text"].as_str()).collect();
    let expected =
        ["m1 dropped: label env is \"dev\", wanted \"prod\"", "m6 picked: rank 2 of 2 (was not picked: rank 3 of 3)"];
    assert_eq!(texts, expected);
}

#[test]
fn from_the_store_and_from_a_daemon() {
    for (scratch, name) in [(fleet(), "web"), (ocm_fleet(), "ns1/p"), (ocm_fleet(), "follower")] {
        let before = explain(&scratch, &[name, "-c", CONFIG]);
        assert_eq!((before.code, before.out.as_str()), (2, ""), "nothing has run yet");
        scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
        let of_store = explain(&scratch, &[name, "-c", CONFIG, "-o", "json"]).json(0);
        let picked = |explained: &Value| -> Vec<String> {
            let clusters = explained["clusters"].as_array().expect("clusters").iter();
            clusters.filter(|c| c["picked"] == true).map(|c| c["clusterName"].to_string()).collect()
        };
        assert_eq!(picked(&of_store).len(), 2, "{of_store}");
        let daemon = Daemon::start(&scratch);
        of_daemon_until(&scratch, &daemon, name, &of_store);
        let text = explain(&scratch, &[name, "--server", &daemon.address]);
        assert!(text.text(0).contains("    picked     2 of 6 clusters\n"), "{}", text.out);
        let unknown = explain(&scratch, &["nobody", "--server", &daemon.address]);
        assert_eq!((unknown.code, unknown.out.as_str()), (2, ""));
        assert!(unknown.err.contains("there is no placement nobody"), "{}", unknown.err);
    }
    let scratch = fleet();
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
    insta::assert_snapshot!(without_times(explain(&scratch, &["web", "-c", CONFIG]).text(0)), @r#"
    ✓ ClusterResourcePlacement web
        wanted     PickN 2
        outcome    2 of 2 clusters found
        picked     2 of 6 clusters

    CLUSTER   PICKED   RANK   SCORE   WHY
    edge-06   yes      1      58      passed every filter (affinity score 58, topology spread score 0); today: rank 1 of 3; kept since TIME
    edge-10   yes      2      8       passed every filter (affinity score 8, topology spread score 0); today: rank 2 of 3; kept since TIME
    edge-05   no       3      8       rank 3 of 3
    edge-07   no                      available-cpu 3 is below 4
    edge-08   no                      label env is "lab", wanted "prod"
    edge-09   no                      taint maintenance=yes:NoSchedule is not tolerated
    "#);
}

/// Asks a daemon that has just started until it explains as its store did; what it cannot answer yet, it says so.
fn of_daemon_until(scratch: &Scratch, daemon: &Daemon, name: &str, expected: &Value) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let found = explain(scratch, &[name, "--server", &daemon.address, "-o", "json"]);
        if found.code == 2 {
            assert!(found.err.contains("has not read the accepted commit yet"), "{}", found.err);
        } else if found.json(0) == *expected {
            return;
        }
        assert!(Instant::now() < deadline, "{}{}", found.out, found.err);
    }
}

#[test]
fn what_cannot_be_explained_is_2_and_says_what_to_do() {
    let scratch = ocm_fleet();
    let rows: &[(&[&str], &str)] = &[
        (&["folower"], "there is no placement folower; did you mean follower?"),
        (&["p"], "there is no placement p; did you mean ns1/p?"),
        (&["zzz"], "there is no placement zzz; there are follower, ns1/p"),
        (
            &["ns1/p", "--kind", "ResourcePlacement"],
            "of kind ResourcePlacement; there is one of another kind; leave --kind out",
        ),
        (&["ns1/p", "--kind", "works"], "\"works\" is no kind of placement; known: ClusterResourcePlacement"),
        (&["ns1/p", "--kind", "Crp"], "of kind ClusterResourcePlacement; there is one of another kind"),
        (&["ns1/p", "--cluster", "m7"], "the fleet has no cluster m7; it has 6 clusters"),
        (&["follower", "--head", "nowhere"], "nowhere"),
        (&["follower", "--base", "nowhere"], "nowhere"),
    ];
    for (args, words) in rows {
        let found = explain(&scratch, &[args, &["--repo", FLEET][..]].concat());
        assert_eq!((found.code, found.out.as_str()), (2, ""), "{args:?}: {}", found.err);
        assert!(found.err.starts_with("error: ") && found.err.contains(words), "{args:?}: {}", found.err);
    }
    assert!(of_tree(&scratch, &["ns1/p", "--kind", "Placement"]).contains("Placement ns1/p"));
    scratch.write("bad.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {nmae: x}\n");
    let broken = explain(&scratch, &["follower", "--repo", FLEET]);
    assert_eq!(broken.code, 2);
    assert!(broken.err.contains("bad.yaml:3"), "{}", broken.err);
}

#[test]
fn wrong_usage_is_64() {
    let scratch = Scratch::new();
    for args in [&[][..], &["web", "--base", "HEAD"], &["web", "--head", "HEAD"], &["web", "-o", "name"], &["a", "b"]] {
        let found = explain(&scratch, args);
        assert_eq!((found.code, found.out.as_str()), (64, ""), "{args:?}");
    }
}
