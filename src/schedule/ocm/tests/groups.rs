//! W26, W27, W29 to W37: numbers of clusters, groups and pages.

use super::*;
use model::conditions::Reason;

fn grouped(length: Value, groups: &[(&str, &str)]) -> Value {
    let group = |(name, cloud): &(&str, &str)| json!({"groupName": name, "groupClusterSelector": {"labelSelector": {"matchLabels": {"cloud": cloud}}}});
    let groups: Vec<Value> = groups.iter().map(group).collect();
    json!({"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": length, "decisionGroups": groups}}})
}

fn clouds(clusters: &[(&str, &str)]) -> Hub {
    hub(clusters.iter().map(|(name, cloud)| member(name, json!({"cloud": cloud}), json!({}))))
}

/// Group name, index and clusters of every object.
fn objects(hub: &Hub, spec: Value) -> Vec<(String, String, Vec<String>)> {
    let pages = run(hub, spec).pages(&key(), hub).unwrap().into_iter().enumerate();
    let row = |(position, page): (usize, Page)| {
        assert_eq!((page.name, &*page.labels[PLACEMENT_LABEL]), (format!("demo-decision-{}", position + 1), "demo"));
        let clusters = page.clusters.iter().map(ToString::to_string).collect();
        (page.labels[GROUP_NAME_LABEL].clone(), page.labels[GROUP_INDEX_LABEL].clone(), clusters)
    };
    pages.map(row).collect()
}

/// Group name, index and size of every object.
fn sizes(hub: &Hub, spec: Value) -> Vec<(String, String, usize)> {
    objects(hub, spec).into_iter().map(|(name, index, clusters)| (name, index, clusters.len())).collect()
}

fn status(hub: &Hub, spec: Value) -> Status {
    run(hub, spec).status(&key(), &[], now())
}

#[test]
fn w26_too_few_are_published_all_the_same() {
    let outcome = run(&plain(["c1"]), json!({"numberOfClusters": 3}));
    let said = (outcome.satisfied.holds, outcome.satisfied.reason, &*outcome.satisfied.message);
    assert_eq!(said, (false, Reason::NotAllDecisionsScheduled, "2 cluster decisions unscheduled"));
    assert_eq!(objects(&plain(["c1"]), json!({"numberOfClusters": 3}))[0].2, ["c1"]);
}

#[test]
fn w27_a_placement_of_no_cluster_has_one_empty_object() {
    let none = json!({"numberOfClusters": 0});
    let outcome = run(&named(5), none.clone());
    assert_eq!((outcome.satisfied.holds, outcome.satisfied.reason), (false, Reason::NoManagedClusterMatched));
    assert_eq!(sizes(&named(5), none.clone()), [(String::new(), "0".to_owned(), 0)]);
    let status = status(&named(5), none);
    assert_eq!((status.number_of_selected_clusters, status.decision_groups.unwrap()[0].cluster_count), (0, 0));
}

#[test]
fn w29_w30_the_status_counts_groups_and_names_objects() {
    let ten = status(&named(10), json!({})).decision_groups.unwrap();
    assert_eq!((ten.len(), ten[0].cluster_count, &*ten[0].decision_group_name), (1, 10, ""), "w29");
    let names: Vec<String> = (1..=101).map(|n| format!("c{n}")).collect();
    let hub = named(101);
    let (first, second) = (&objects(&hub, json!({}))[0], &objects(&hub, json!({}))[1]);
    let mut sorted = names;
    sorted.sort();
    assert_eq!((&first.2[..], &second.2[..]), (&sorted[..100], &sorted[100..]), "w30");
    assert_eq!((&*first.1, &*second.1), ("0", "0"), "w30");
    let groups = serde_json::to_value(status(&hub, json!({})).decision_groups).unwrap();
    let wanted = json!([{"decisionGroupIndex": 0, "decisionGroupName": "",
        "decisions": ["demo-decision-1", "demo-decision-2"], "clusterCount": 101}]);
    assert_eq!(groups, wanted, "w30");
}

/// Group name, index and size of every object that is wanted.
type Objects = Vec<(&'static str, usize, usize)>;

#[test]
fn w31_to_w37_groups_and_pages() {
    let names: Vec<String> = (0..310).map(|n| format!("c{n:03}")).collect();
    let cloud = |n: usize| ["west", "east", "rest"][(n / 10).min(2)];
    let many: Vec<(&str, &str)> = names.iter().enumerate().map(|(n, name)| (name.as_str(), cloud(n))).collect();
    let three = clouds(&[("c1", "Amazon"), ("c2", "Amazon"), ("c3", "Azure")]);
    let table: Vec<(&str, Hub, Value, Objects)> = vec![
        ("w31", named(3), grouped(json!("25%"), &[]), vec![("", 0, 1), ("", 1, 1), ("", 2, 1)]),
        ("w34", three, grouped(json!("100%"), &[("canary", "Google")]), vec![("", 0, 3)]),
        (
            "w35",
            clouds(&many),
            grouped(json!(150), &[("west", "west"), ("east", "east")]),
            vec![("west", 0, 10), ("east", 1, 10), ("", 2, 100), ("", 2, 50), ("", 3, 100), ("", 3, 40)],
        ),
        ("w36", named(7), grouped(json!("30%"), &[]), vec![("", 0, 3), ("", 1, 3), ("", 2, 1)]),
        ("w36 quarters", named(10), grouped(json!("25%"), &[]), vec![("", 0, 3), ("", 1, 3), ("", 2, 3), ("", 3, 1)]),
        ("w37", named(20), grouped(json!(50), &[]), vec![("", 0, 20)]),
    ];
    for (case, hub, spec, wanted) in table {
        let wanted: Vec<_> =
            wanted.into_iter().map(|(name, index, size)| (name.to_owned(), index.to_string(), size)).collect();
        assert_eq!(sizes(&hub, spec), wanted, "{case}");
    }
}

#[test]
fn w32_w33_named_groups_come_first_and_no_cluster_twice() {
    let clusters = [("c1", "Amazon"), ("c2", "Amazon"), ("c3", "Azure"), ("c4", "Azure")];
    let object = |name: &str, index: &str, clusters: &[&str]| {
        (name.to_owned(), index.to_owned(), clusters.iter().map(|cluster| (*cluster).to_owned()).collect::<Vec<_>>())
    };
    let canary = [
        object("canary", "0", &["c3"]),
        object("canary", "1", &["c4"]),
        object("", "2", &["c1"]),
        object("", "3", &["c2"]),
    ];
    assert_eq!(objects(&clouds(&clusters), grouped(json!(1), &[("canary", "Azure")])), canary, "w32");
    let two = grouped(json!("100%"), &[("group1", "Amazon"), ("group2", "Azure"), ("group3", "Amazon")]);
    let wanted = [object("group1", "0", &["c1", "c2"]), object("group2", "1", &["c3"])];
    assert_eq!(objects(&clouds(&clusters[..3]), two), wanted, "w33");
}

/// Source: the reference's rules of groups (2.9): a wrong length leaves no object, a wrong selector those before it.
#[test]
fn strategies_that_cannot_be_carried_out_leave_what_comes_before() {
    let wrong = grouped(json!("5"), &[]);
    let outcome = run(&named(3), wrong.clone());
    assert_eq!(outcome.misconfigured, Some(Notice::new("", "5 invalid type: string is not a percentage")));
    assert_eq!((objects(&named(3), wrong).len(), outcome.satisfied.holds), (0, true));
    let mut wrong = grouped(json!(1), &[("first", "Amazon"), ("second", "a b"), ("third", "Azure")]);
    let hub = clouds(&[("c1", "Amazon"), ("c2", "Azure")]);
    let outcome = run(&hub, wrong.clone());
    assert_eq!(sizes(&hub, wrong.clone()), [("first".to_owned(), "0".to_owned(), 1)]);
    let message = &outcome.status(&key(), &[], now()).conditions[0].message;
    assert!(message.starts_with(":values[0][cloud]: Invalid value: \"a b\""), "{message}");
    wrong["decisionStrategy"]["groupStrategy"]["decisionGroups"][1]["groupClusterSelector"] =
        json!({"claimSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}});
    let message = run(&hub, wrong).misconfigured.unwrap().message;
    assert_eq!(message, "\"Near\" is not a valid label selector operator");
}
