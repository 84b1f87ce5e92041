//! W26, W27, W29 to W37: conditions, groups and pages.

use super::*;

fn grouped(length: Value, groups: &[(&str, &str)]) -> Value {
    let group = |(name, cloud): &(&str, &str)| json!({"groupName": name, "groupClusterSelector": {"labelSelector": {"matchLabels": {"cloud": cloud}}}});
    let groups: Vec<Value> = groups.iter().map(group).collect();
    json!({"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": length, "decisionGroups": groups}}})
}

fn clouds(clusters: &[(&str, &str)]) -> Hub {
    hub(clusters.iter().map(|(name, cloud)| member(name, json!({"cloud": cloud}), json!({}))))
}

/// Group name, index and size of every object.
fn shape(hub: &Hub, spec: Value) -> Vec<(String, String, usize)> {
    let pages = run(hub, spec).pages(&key(), hub).unwrap().into_iter().enumerate();
    let row = |(index, page): (usize, Page)| {
        assert_eq!((page.name, &*page.labels[PLACEMENT_LABEL]), (format!("demo-decision-{}", index + 1), "demo"));
        (page.labels[GROUP_NAME_LABEL].clone(), page.labels[GROUP_INDEX_LABEL].clone(), page.clusters.len())
    };
    pages.map(row).collect()
}

#[test]
fn w26_w27_too_few_and_none() {
    let outcome = run(&plain(["c1"]), json!({"numberOfClusters": 3}));
    assert_eq!(
        (outcome.satisfied.reason, &*outcome.satisfied.message),
        ("NotAllDecisionsScheduled", "2 cluster decisions unscheduled")
    );
    assert_eq!(outcome.selected.count_ones(..), 1, "w26");
    let none = json!({"numberOfClusters": 0});
    assert_eq!(run(&named(5), none.clone()).satisfied.reason, "NoManagedClusterMatched");
    assert_eq!(shape(&named(5), none), [(String::new(), "0".to_owned(), 0)], "w27");
}

#[test]
fn w29_to_w37_groups_and_pages() {
    let names: Vec<String> = (0..310).map(|n| format!("c{n:03}")).collect();
    let cloud = |n: usize| ["west", "east", "rest"][(n / 10).min(2)];
    let many: Vec<(&str, &str)> = names.iter().enumerate().map(|(n, name)| (name.as_str(), cloud(n))).collect();
    let four = clouds(&[("c1", "Amazon"), ("c2", "Amazon"), ("c3", "Azure"), ("c4", "Azure")]);
    let three = clouds(&[("c1", "Amazon"), ("c2", "Amazon"), ("c3", "Azure")]);
    let table: Vec<(&str, Hub, Value, Vec<(&str, usize, usize)>)> = vec![
        ("w29", named(10), json!({}), vec![("", 0, 10)]),
        ("w30", named(101), json!({}), vec![("", 0, 100), ("", 0, 1)]),
        ("w31", named(3), grouped(json!("25%"), &[]), vec![("", 0, 1), ("", 1, 1), ("", 2, 1)]),
        (
            "w32",
            four,
            grouped(json!(1), &[("canary", "Azure")]),
            vec![("canary", 0, 1), ("canary", 1, 1), ("", 2, 1), ("", 3, 1)],
        ),
        (
            "w33",
            three.clone(),
            grouped(json!("100%"), &[("group1", "Amazon"), ("group2", "Azure")]),
            vec![("group1", 0, 2), ("group2", 1, 1)],
        ),
        ("w34", three, grouped(json!("100%"), &[("canary", "Google")]), vec![("", 0, 3)]),
        (
            "w35",
            clouds(&many),
            grouped(json!(150), &[("west", "west"), ("east", "east")]),
            vec![("west", 0, 10), ("east", 1, 10), ("", 2, 100), ("", 2, 50), ("", 3, 100), ("", 3, 40)],
        ),
        ("w36", named(7), grouped(json!("30%"), &[]), vec![("", 0, 3), ("", 1, 3), ("", 2, 1)]),
        ("w37", named(20), grouped(json!(50), &[]), vec![("", 0, 20)]),
    ];
    for (case, hub, spec, wanted) in table {
        let wanted: Vec<_> =
            wanted.into_iter().map(|(name, index, size)| (name.to_owned(), index.to_string(), size)).collect();
        assert_eq!(shape(&hub, spec), wanted, "{case}");
    }
}
