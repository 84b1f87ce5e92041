//! `gitfleet schedule` with Open Cluster Management's objects: the worked examples of groups, pages, scores and conditions.

use serde_json::{Value, json};

use crate::cli::ocm::{GROUP, bound, clusters, label, managed, object, of_kind, plain, resources, scores};
use crate::cli::schedule::{decided, member, schedule, with};

const FINE: &str = "Placement configurations check pass";
const NOBODY: &str = "No ManagedCluster matches any of the cluster predicate";
const ALL: &str = "All cluster decisions scheduled";

fn tainted(name: &str, effect: &str, since: &str) -> Value {
    let taint = json!({"key": "k", "value": "v", "effect": effect, "timeAdded": since});
    managed("s", name, &[], json!({"spec": {"taints": [taint]}}))
}

fn ocm(spec: Value) -> Value {
    object("Placement", "v1beta1", "ns1", "p", json!({"spec": spec}))
}

fn held(of: &str, clusters: &[&str]) -> Value {
    let decisions: Vec<Value> = clusters.iter().map(|name| json!({"clusterName": name, "reason": ""})).collect();
    let labels = json!({label("placement"): of, label("decision-group-index"): "0", label("decision-group-name"): ""});
    let fields = json!({"metadata": {"labels": labels}, "status": {"decisions": decisions}});
    object("PlacementDecision", "v1beta1", "ns1", &format!("{of}-decision-1"), fields)
}

fn exact(configurations: Value, number: i32) -> Value {
    json!({"numberOfClusters": number, "prioritizerPolicy": {"mode": "Exact", "configurations": configurations}})
}

/// `s`, bound, with these clusters and these objects.
fn hub(clusters: impl IntoIterator<Item = Value>, more: impl IntoIterator<Item = Value>) -> Vec<Value> {
    with(with(bound("s"), clusters), more)
}

fn three() -> [Value; 3] {
    ["c1", "c2", "c3"].map(plain)
}

/// Each page as `INDEX NAME: clusters`, with `N clusters` for more than a dozen.
fn pages(list: &Value) -> Vec<String> {
    let pages = of_kind(list, "PlacementDecision").into_iter().enumerate().map(|(position, page)| {
        let place = page["metadata"]["labels"][label("placement")].as_str().expect("a label");
        assert_eq!(page["metadata"]["name"], format!("{place}-decision-{}", position + 1));
        let decisions = page["status"]["decisions"].as_array().expect("decisions");
        let names: Vec<&str> = decisions.iter().map(|d| d["clusterName"].as_str().expect("a name")).collect();
        let names = if names.len() > 12 { format!("{} clusters", names.len()) } else { names.join(" ") };
        let of = |name: &str| page["metadata"]["labels"][label(name)].as_str().expect("a label").to_owned();
        format!("{} {}: {names}", of("decision-group-index"), of("decision-group-name"))
    });
    pages.collect()
}

fn condition<'a>(list: &'a Value, type_: &str) -> [&'a str; 3] {
    let conditions = of_kind(list, "Placement")[0]["status"]["conditions"].as_array().expect("conditions");
    let found = conditions.iter().find(|condition| condition["type"] == type_).expect("a condition");
    ["status", "reason", "message"].map(|field| found[field].as_str().expect("text"))
}

#[test]
fn the_contract_field_by_field() {
    let list = decided(&hub(three(), [ocm(json!({"numberOfClusters": 2}))]));
    let decision = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "PlacementDecision",
        "metadata": {"name": "p-decision-1", "namespace": "ns1", "labels": {
            "cluster.open-cluster-management.io/placement": "p",
            "cluster.open-cluster-management.io/decision-group-index": "0",
            "cluster.open-cluster-management.io/decision-group-name": ""}},
        "status": {"decisions": [{"clusterName": "c1", "reason": ""}, {"clusterName": "c2", "reason": ""}]}});
    let condition = |type_: &str, status: &str, reason: &str, message: &str| {
        json!({"type": type_, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-31T12:00:00Z"})
    };
    let placement = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
        "metadata": {"name": "p", "namespace": "ns1"}, "spec": {"numberOfClusters": 2},
        "status": {
            "numberOfSelectedClusters": 2,
            "decisionGroups": [{"decisionGroupIndex": 0, "decisionGroupName": "", "decisions": ["p-decision-1"],
                "clusterCount": 2}],
            "conditions": [
                condition("PlacementMisconfigured", "False", "Succeedconfigured", FINE),
                condition("PlacementSatisfied", "True", "AllDecisionsScheduled", ALL)],
            "scores": [{"clusterName": "c1", "score": 100}, {"clusterName": "c2", "score": 100},
                {"clusterName": "c3", "score": 100}]}});
    assert_eq!(list, json!({"apiVersion": "v1", "kind": "List", "items": [decision, placement]}));
}

#[test]
fn a_condition_s_time_moves_only_with_its_status() {
    let before = |status: &str| {
        let condition = |type_: &str, status: &str| {
            json!({"type": type_, "status": status, "reason": "Old", "message": "old",
                "lastTransitionTime": "2025-01-01T00:00:00Z"})
        };
        let mut placement = ocm(json!({}));
        placement["status"] = json!({"numberOfSelectedClusters": 0, "decisionGroups": [],
            "conditions": [condition("PlacementSatisfied", status), condition("PlacementMisconfigured", "False")]});
        placement
    };
    for (status, time) in [("True", "2025-01-01T00:00:00Z"), ("False", "2026-01-31T12:00:00Z")] {
        let list = decided(&hub(three(), [before(status)]));
        let conditions = of_kind(&list, "Placement")[0]["status"]["conditions"].as_array().expect("conditions").clone();
        let satisfied = conditions.iter().find(|c| c["type"] == "PlacementSatisfied").expect("a condition");
        assert_eq!(
            (&satisfied["reason"], &satisfied["lastTransitionTime"]),
            (&json!("AllDecisionsScheduled"), &json!(time))
        );
    }
}

#[test]
fn groups_and_pages() {
    let many = |count: usize| (0..count).map(|n| plain(&format!("c{n:03}"))).collect::<Vec<_>>();
    let vendors = |vendors: &str| {
        let vendor = |letter: char| if letter == 'Z' { "Azure" } else { "Amazon" };
        let clusters = vendors.chars().zip(1..);
        clusters.map(|(letter, n)| managed("s", &format!("c{n}"), &[("vendor", vendor(letter))], json!({}))).collect()
    };
    let regions = (0..310).map(|n| {
        let region = if n < 10 {
            "west"
        } else if n < 20 {
            "east"
        } else {
            "other"
        };
        managed("s", &format!("c{n:03}"), &[("vendor", region)], json!({}))
    });
    let groups = |groups: &[(&str, &str)]| -> Value {
        let group = |(name, vendor): &(&str, &str)| json!({"groupName": name, "groupClusterSelector": {"labelSelector": {"matchLabels": {"vendor": vendor}}}});
        groups.iter().map(group).collect()
    };
    let canary: &[(&str, &str)] = &[("canary", "Azure")];
    let rows: [(&str, Vec<Value>, Value, &[(&str, &str)], &[&str]); 11] = [
        ("W29", many(10), json!("100%"), &[], &["0 : c000 c001 c002 c003 c004 c005 c006 c007 c008 c009"]),
        ("W30", many(101), json!("100%"), &[], &["0 : 100 clusters", "0 : c100"]),
        ("W31", many(3), json!("25%"), &[], &["0 : c000", "1 : c001", "2 : c002"]),
        ("W32", vendors("AAZZ"), json!(1), canary, &["0 canary: c3", "1 canary: c4", "2 : c1", "3 : c2"]),
        (
            "W33",
            vendors("AAZ"),
            json!("100%"),
            &[("group1", "Amazon"), ("group2", "Azure")],
            &["0 group1: c1 c2", "1 group2: c3"],
        ),
        ("W34", vendors("AAA"), json!("100%"), canary, &["0 : c1 c2 c3"]),
        (
            "W35",
            regions.collect(),
            json!(150),
            &[("west", "west"), ("east", "east")],
            &[
                "0 west: c000 c001 c002 c003 c004 c005 c006 c007 c008 c009",
                "1 east: c010 c011 c012 c013 c014 c015 c016 c017 c018 c019",
                "2 : 100 clusters",
                "2 : 50 clusters",
                "3 : 100 clusters",
                "3 : 40 clusters",
            ],
        ),
        ("W36 30%", many(7), json!("30%"), &[], &["0 : c000 c001 c002", "1 : c003 c004 c005", "2 : c006"]),
        (
            "W36 25%",
            many(10),
            json!("25%"),
            &[],
            &["0 : c000 c001 c002", "1 : c003 c004 c005", "2 : c006 c007 c008", "3 : c009"],
        ),
        ("W37", many(20), json!(50), &[], &["0 : 20 clusters"]),
        ("nobody", many(0), json!(5), canary, &["0 : "]),
    ];
    for (name, fleet, length, named, expected) in rows {
        let count = fleet.len();
        let strategy = json!({"clustersPerDecisionGroup": length, "decisionGroups": groups(named)});
        let list = decided(&hub(fleet, [ocm(json!({"decisionStrategy": {"groupStrategy": strategy}}))]));
        assert_eq!(pages(&list), expected, "{name}");
        let status = &of_kind(&list, "Placement")[0]["status"];
        assert_eq!(status["numberOfSelectedClusters"], count, "{name}");
        let counts: u64 = status["decisionGroups"]
            .as_array()
            .expect("groups")
            .iter()
            .filter_map(|g| g["clusterCount"].as_u64())
            .sum();
        assert_eq!(counts, count as u64, "{name}");
    }
}

#[test]
fn what_is_not_satisfied_exits_0_with_its_condition() {
    let prod = json!([{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"env": "prod"}}}}]);
    let one = || [managed("s", "c1", &[("env", "prod")], json!({})), plain("c2"), plain("c3")];
    let intersection = "None of ManagedClusterSets [x,y] is bound to placement namespace";
    let short = ("NotAllDecisionsScheduled", "2 cluster decisions unscheduled");
    let rows: [(&str, Vec<Value>, Value, (&str, &str), &[&str]); 6] = [
        ("W26", hub(one(), []), json!({"numberOfClusters": 3, "predicates": prod}), short, &["c1"]),
        ("W27", hub(three(), []), json!({"numberOfClusters": 0}), ("NoManagedClusterMatched", NOBODY), &[]),
        ("W39", bound("z"), json!({"clusterSets": ["x", "y"]}), ("NoIntersection", intersection), &[]),
        (
            "no bindings",
            three().to_vec(),
            json!({}),
            ("NoManagedClusterSetBindings", "No valid ManagedClusterSetBindings found in placement namespace"),
            &[],
        ),
        (
            "an empty set",
            bound("z"),
            json!({}),
            ("AllManagedClusterSetsEmpty", "All ManagedClusterSets [z] have no member ManagedCluster"),
            &[],
        ),
        ("nobody matches", hub(three(), []), json!({"predicates": prod}), ("NoManagedClusterMatched", NOBODY), &[]),
    ];
    for (name, objects, spec, (reason, message), expected) in rows {
        let list = decided(&with(objects, [ocm(spec)]));
        assert_eq!(clusters(&list), expected, "{name}");
        assert_eq!(condition(&list, "PlacementSatisfied"), ["False", reason, message], "{name}");
        assert_eq!(condition(&list, "PlacementMisconfigured"), ["False", "Succeedconfigured", FINE], "{name}");
        assert_eq!(of_kind(&list, "PlacementDecision").len(), 1, "{name}: an empty page is a page");
    }
}

#[test]
fn what_open_cluster_management_calls_misconfigured_exits_0() {
    let expression =
        |text: &str| json!({"predicates": [{"requiredClusterSelector": {"celSelector": {"celExpressions": [text]}}}]});
    let claim = json!([{"requiredClusterSelector": {"claimSelector": {"matchExpressions": [
        {"key": "a", "operator": "Gt", "values": ["1"]}]}}}]);
    let additive = |configuration: Value| json!({"prioritizerPolicy": {"configurations": [configuration]}});
    let rows = [
        ("mode", json!({"prioritizerPolicy": {"mode": "Exac"}}), ":incorrect prioritizer policy mode: Exac"),
        (
            "an empty key",
            json!({"tolerations": [{"operator": "Equal", "value": "v"}]}),
            "TaintToleration:If the key is empty, operator must be Exists.",
        ),
        (
            "Exists with a value",
            json!({"tolerations": [{"key": "k", "operator": "Exists", "value": "v"}]}),
            "TaintToleration:If the operator is Exists, the value should be empty.",
        ),
        ("CEL", expression("managedCluster.metadata.name =="), "Predicate:compilation failed: "),
        (
            "an unknown prioritizer",
            additive(json!({"scoreCoordinate": {"builtIn": "Blance"}})),
            ":incorrect builtin prioritizer: Blance",
        ),
        ("an operator", json!({"predicates": claim}), "Predicate:\"Gt\" is not a valid label selector operator"),
        ("AddOn without addOn", additive(json!({"scoreCoordinate": {"type": "AddOn"}})), ":addOn should not be empty"),
    ];
    for (name, spec, message) in rows {
        let objects = hub(three(), [held("p", &["c1"]), ocm(spec)]);
        let list = decided(&objects);
        let [status, reason, found] = condition(&list, "PlacementMisconfigured");
        assert_eq!((status, reason), ("True", "Misconfigured"), "{name}");
        assert!(found.starts_with(message), "{name}: {found}");
        assert_eq!(condition(&list, "PlacementSatisfied"), ["False", "NoManagedClusterMatched", NOBODY], "{name}");
        assert_eq!(pages(&list), ["0 : "], "{name}: decisions are withdrawn, as in the original");
        let warning = schedule(&objects, &[]).err;
        let words = message.trim_start_matches(':');
        assert!(warning.starts_with(&format!("warning: Placement ns1/p: {words}")), "{name}: {warning}");
    }
    assert_eq!(
        clusters(&decided(&hub(three(), [ocm(expression("managedCluster.metadata.name != 'c2'"))]))),
        ["c1", "c3"]
    );
}

#[test]
fn one_invalid_object_fails_the_whole_call() {
    let toleration = |fields: Value| ocm(json!({"tolerations": [fields]}));
    let strategy = |fields: Value| ocm(json!({"decisionStrategy": {"groupStrategy": fields}}));
    let weight = |weight: i32| exact(json!([{"scoreCoordinate": {"builtIn": "Steady"}, "weight": weight}]), 1);
    let score = json!({"status": {"scores": [{"name": "demo", "value": 101}]}});
    let spread = json!({"spreadConstraints": [{"topologyKey": "a", "topologyKeyType": "Label", "maxSkew": 0}]});
    let rows = [
        ("Placement", ocm(weight(11)), "spec.prioritizerPolicy.configurations[0].weight"),
        ("Placement", ocm(weight(-11)), "spec.prioritizerPolicy.configurations[0].weight"),
        (
            "AddOnPlacementScore",
            object("AddOnPlacementScore", "v1alpha1", "c1", "demo", score),
            "status.scores[0].value",
        ),
        ("Placement", ocm(json!({"numberOfClusters": -1})), "spec.numberOfClusters"),
        ("Placement", ocm(json!({"numberOfCluster": 1})), "spec.numberOfCluster"),
        ("Placement", ocm(exact(json!([{"weight": 1}]), 1)), "scoreCoordinate"),
        ("Placement", ocm(exact(json!([{"scoreCoordinate": {"type": "Addon"}}]), 1)), "scoreCoordinate.type"),
        ("Placement", toleration(json!({"key": "a", "effect": "NoSchedule"})), "spec.tolerations[0].effect"),
        ("Placement", toleration(json!({"key": "-a-", "operator": "Exists"})), "spec.tolerations[0].key"),
        ("Placement", strategy(json!({"clustersPerDecisionGroup": "0%"})), "clustersPerDecisionGroup"),
        (
            "Placement",
            strategy(json!({"decisionGroups": [{"groupName": "a", "groupClusterSelector": {}}]})),
            "decisionGroups[0].groupName",
        ),
        ("Placement", ocm(json!({"spreadPolicy": spread})), "spreadConstraints[0].maxSkew"),
        ("Placement", ocm(json!({"sortBy": "Name"})), "spec.sortBy"),
    ];
    for (kind, wrong, field) in rows {
        let mut good = ocm(json!({}));
        good["metadata"]["name"] = "other".into();
        let outcome = schedule(&hub(three(), [good, wrong]), &["-o", "json"]);
        assert_eq!((outcome.code, outcome.out.as_str()), (1, ""), "{field}: {}", outcome.err);
        for part in ["error: objects.yaml:", kind, field] {
            assert!(outcome.err.contains(part), "{field}: {} lacks {part}", outcome.err);
        }
    }
}

#[test]
fn what_stands_already_counts() {
    let memory = |weight: i32| json!({"scoreCoordinate": {"builtIn": "ResourceAllocatableMemory"}, "weight": weight});
    let balance = json!([{"scoreCoordinate": {"builtIn": "Balance"}}]);
    let others = [held("o", &["c1", "c2"]), held("q", &["c1", "c3"])];
    let list = decided(&hub(three(), with(others.to_vec(), [ocm(exact(balance, 3))])));
    assert_eq!(scores(&list), [("c1", -100), ("c2", 0), ("c3", 0)], "W10");

    let more =
        [held("p", &["c3"]), held("o", &["c2", "c3"]), held("q", &["c1", "c2"]), ocm(json!({"numberOfClusters": 1}))];
    let list = decided(&hub(three(), more));
    assert_eq!(scores(&list), [("c1", 0), ("c2", -100), ("c3", 100)], "W14");
    assert_eq!(clusters(&list), ["c3"], "W14");

    let ranked = ["60M", "80M", "100M"].into_iter().zip(1..);
    let fleet: Vec<Value> = ranked.map(|(m, n)| managed("s", &format!("c{n}"), &[], resources(m))).collect();
    let list = decided(&hub(fleet, [ocm(exact(json!([memory(-2)]), 1))]));
    assert_eq!((scores(&list), clusters(&list)), (vec![("c1", 200), ("c2", 0), ("c3", -200)], vec!["c1"]));
}

#[test]
fn taints_are_judged_at_the_given_instant() {
    let at = |second: u8| format!("2026-01-31T11:59:{second:02}Z");
    let fleet =
        || [52, 51, 50].into_iter().zip(["a", "b", "c"]).map(|(second, name)| tainted(name, "NoSelect", &at(second)));
    let for_10s = json!({"tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 10}]});
    let objects = hub(fleet(), [ocm(for_10s)]);
    assert_eq!(clusters(&decided(&objects)), ["a", "b"], "W23");

    let new = |name: &str| tainted(name, "NoSelectIfNew", &at(0));
    let list = decided(&hub([new("a"), new("b")], [held("p", &["a"]), ocm(json!({}))]));
    assert_eq!(clusters(&list), ["a"], "W21");
    let list = decided(&hub([tainted("a", "PreferNoSelect", &at(0))], [ocm(json!({}))]));
    assert_eq!((clusters(&list), scores(&list)), (vec!["a"], vec![("a", 100)]), "W22");
}

#[test]
fn an_expired_score_counts_nothing() {
    let score = |cluster: &str, value: i32, until: &str| {
        let fields = json!({"status": {"scores": [{"name": "demo", "value": value}], "validUntil": until}});
        object("AddOnPlacementScore", "v1alpha1", cluster, "demo", fields)
    };
    let addon = json!([{"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "demo", "scoreName": "demo"}}}]);
    for (until, totals, picked) in [
        ("2026-01-31T11:59:59Z", [("c1", 0), ("c2", 10), ("c3", 0)], "c2"),
        ("2026-01-31T12:00:00Z", [("c1", 80), ("c2", 10), ("c3", 0)], "c1"),
    ] {
        let given = [score("c1", 80, until), score("c2", 10, "2026-02-01T00:00:00Z"), ocm(exact(addon.clone(), 1))];
        let list = decided(&hub(three(), given));
        assert_eq!((scores(&list), clusters(&list)), (totals.to_vec(), vec![picked]), "{until}");
    }
}

#[test]
fn a_disabled_placement_stays_as_it_is() {
    let mut disabled = ocm(json!({"numberOfClusters": 1}));
    disabled["metadata"]["annotations"] = json!({label("experimental-scheduling-disable"): "true"});
    disabled["status"] = json!({"numberOfSelectedClusters": 2, "decisionGroups": [], "conditions": []});
    let list = decided(&hub(three(), [held("p", &["c2", "c3"]), disabled.clone(), delegating()]));
    assert_eq!(clusters(&list), ["c2", "c3"]);
    assert_eq!(of_kind(&list, "Placement")[0]["status"], disabled["status"]);
    assert_eq!(targets(&list), ["c2", "c3"], "who takes its clusters has those that stand");
    disabled.as_object_mut().expect("an object").remove("status");
    let list = decided(&hub(three(), [disabled.clone()]));
    assert!(of_kind(&list, "PlacementDecision").is_empty() && of_kind(&list, "Placement")[0].get("status").is_none());
    disabled["metadata"]["deletionTimestamp"] = json!("2026-01-31T00:00:00Z");
    assert_eq!(decided(&hub(three(), [disabled]))["items"], json!([]));
}

fn delegating() -> Value {
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "ClusterResourcePlacement",
        "metadata": {"name": "web", "annotations": {"gitfleet.io/placement": "ns1/p"}}, "spec": {
        "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "web"}]}})
}

fn targets(list: &Value) -> Vec<&str> {
    let targets = of_kind(list, "ClusterSchedulingPolicySnapshot")[0]["status"]["targetClusters"].as_array();
    let picked = targets.expect("decisions").iter().filter(|target| target["selected"] == true);
    picked.map(|target| target["clusterName"].as_str().expect("a name")).collect()
}

#[test]
fn a_kubefleet_placement_may_take_the_clusters_of_another() {
    let objects = hub(three(), [member("m", json!({})), ocm(json!({"numberOfClusters": 2})), delegating()]);
    let list = decided(&objects);
    assert_eq!(targets(&list), ["c1", "c2"]);
    let status = &of_kind(&list, "ClusterSchedulingPolicySnapshot")[0]["status"];
    assert_eq!(status["conditions"][0]["reason"], "SchedulingPolicyFulfilled");
    let reason = "selected by OCM Placement ns1/p";
    assert_eq!(status["targetClusters"][0]["reason"], reason);

    let mut with_policy = delegating();
    with_policy["spec"]["policy"] = json!({"placementType": "PickAll"});
    let mut unfollowed = delegating();
    unfollowed["metadata"]["annotations"]["gitfleet.io/placement"] = json!("ns1/nobody");
    for wrong in [with_policy, unfollowed] {
        let outcome = schedule(&hub(three(), [ocm(json!({})), wrong]), &["-o", "json"]);
        assert_eq!((outcome.code, outcome.out.as_str()), (1, ""));
        assert!(outcome.err.contains("metadata.annotations.gitfleet.io/placement: "), "{}", outcome.err);
    }
}

#[test]
fn each_dialect_knows_its_own_clusters() {
    let mut crp = delegating();
    crp["metadata"] = json!({"name": "web"});
    let list = decided(&hub(
        [plain("managed"), plain("both")],
        [member("both", json!({})), member("member", json!({})), crp, ocm(json!({}))],
    ));
    assert_eq!((targets(&list), clusters(&list)), (vec!["both", "member"], vec!["both", "managed"]));
}

#[test]
fn properties_stated_by_hand_rank() {
    let stated = |name: &str, memory: &str| {
        let name_of = |what: &str| format!("resources.kubernetes-fleet.io/{what}-memory");
        let properties = json!({name_of("total"): memory, name_of("allocatable"): memory}).to_string();
        managed("s", name, &[], json!({"metadata": {"annotations": {"gitfleet.io/properties": properties}}}))
    };
    let memory = json!([{"scoreCoordinate": {"builtIn": "ResourceAllocatableMemory"}}]);
    let list = decided(&hub([stated("a", "8Gi"), stated("b", "16Gi")], [ocm(exact(memory, 1))]));
    assert_eq!((scores(&list), clusters(&list)), (vec![("a", -100), ("b", 100)], vec!["b"]));
}

#[test]
fn older_spellings_are_read_and_the_newer_printed() {
    let named = json!([{"name": "ResourceAllocatableMemory", "weight": 2}]);
    let old = object("Placement", "v1alpha1", "ns1", "p", json!({"spec": exact(named, 1)}));
    let legacy = json!({"spec": {"clusterSelector": {"selectorType": "LegacyClusterSetLabel"}}});
    let list = decided(&[
        object("ManagedClusterSet", "v1alpha1", "", "s", legacy),
        object("ManagedClusterSetBinding", "v1beta1", "ns1", "s", json!({"spec": {"clusterSet": "s"}})),
        managed("s", "a", &[], resources("1Gi")),
        managed("s", "b", &[], resources("2Gi")),
        old,
    ]);
    assert_eq!((scores(&list), clusters(&list)), (vec![("a", -200), ("b", 200)], vec!["b"]));
    let placement = of_kind(&list, "Placement")[0];
    assert_eq!(placement["apiVersion"], format!("{GROUP}/v1beta1"));
    let configuration =
        json!({"scoreCoordinate": {"type": "BuiltIn", "builtIn": "ResourceAllocatableMemory"}, "weight": 2});
    assert_eq!(placement["spec"]["prioritizerPolicy"]["configurations"], json!([configuration]));
}

#[test]
fn a_person_reads_a_table_with_warnings_beside_it() {
    let fleet = [managed("s", "c1", &[("env", "prod")], json!({})), plain("c2"), plain("c3")];
    let group =
        json!([{"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"env": "prod"}}}}]);
    let spec = |number: i32| json!({"numberOfClusters": number, "decisionStrategy": {"groupStrategy": {"decisionGroups": group}}});
    let found = schedule(&hub(fleet.clone(), [ocm(spec(2))]), &[]);
    insta::assert_snapshot!(found.text(0), @r#"
    PLACEMENT   CLUSTER   PICKED   SCORE   REASON
    ns1/p       c1        yes      100     decision group 0 (canary)
    ns1/p       c2        yes      100     decision group 1
    ns1/p       c3        no       100     not picked: clusters that rank higher fill the number asked for
    "#);
    assert_eq!(found.err, "");
    let short = schedule(&hub(fleet, [ocm(spec(5))]), &["-o", "wide"]);
    insta::assert_snapshot!(short.text(0), @r#"
    PLACEMENT   KIND        CLUSTER   PICKED   SCORE   REASON
    ns1/p       Placement   c1        yes      100     decision group 0 (canary)
    ns1/p       Placement   c2        yes      100     decision group 1
    ns1/p       Placement   c3        yes      100     decision group 1
    "#);
    assert_eq!(short.err, "warning: Placement ns1/p: 2 cluster decisions unscheduled\n");

    let many: Vec<Value> = (0..61).map(|n| plain(&format!("c{n:02}"))).collect();
    let objects = hub(many, [ocm(json!({}))]);
    let table = schedule(&objects, &[]);
    assert_eq!(table.text(0).lines().count(), 52, "a header, fifty clusters, and how many more");
    assert!(table.out.ends_with("and 11 more clusters; -o wide shows all\n"), "{}", table.out);
    assert_eq!(schedule(&objects, &["-o", "wide"]).text(0).lines().count(), 62);
}
