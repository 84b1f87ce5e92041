use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::argo;

use super::*;
use model::decisions::ExportedCluster;

/// `data` of the ConfigMap that ours is.
fn config_map() -> Value {
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "placementdecisions",
        "statusListKey": "decisions", "matchKey": "clusterName",
    })
}

fn group(name: &str, clusters: &[&str]) -> ExportedGroup {
    let cluster = |name: &&str| ExportedCluster { cluster_name: (*name).into(), reason: String::new() };
    ExportedGroup { name: name.to_owned(), clusters: clusters.iter().map(cluster).collect() }
}

fn numbered(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|number| format!("c{number:03}")).collect()
}

fn page(number: u32, clusters: &[&str]) -> Page {
    let clusters = clusters.iter().map(|name| (*name).to_owned()).collect();
    Page { number, visible: true, group: Some((0, String::new())), clusters: Some(clusters) }
}

/// The hub, with what a reader sees of it.
#[derive(Clone, Debug, Default)]
struct Hub(BTreeMap<u32, Page>);

impl Hub {
    fn of(pages: &[Page]) -> Self {
        Self(pages.iter().map(|page| (page.number, page.clone())).collect())
    }

    fn pages(&self) -> Vec<Page> {
        self.0.values().cloned().collect()
    }

    fn write(&mut self, write: &PageWrite) {
        match write.clone() {
            PageWrite::Create { number } => {
                let page = Page { number, ..Page::default() };
                assert!(self.0.insert(number, page).is_none(), "page {number} was there already");
            }
            PageWrite::Status { number, clusters } => self.0.get_mut(&number).unwrap().clusters = Some(clusters),
            PageWrite::Label { number, index, group } => {
                let page = self.0.get_mut(&number).unwrap();
                (page.visible, page.group) = (true, Some((index, group)));
            }
            PageWrite::Delete { number } => drop(self.0.remove(&number).unwrap()),
        }
    }

    /// Returns the clusters that Argo CD would make Applications for, in its order; an error keeps what there is.
    fn seen(&self) -> Result<Vec<String>, String> {
        let objects: Vec<Value> = self
            .0
            .values()
            .filter(|page| page.visible)
            .map(|page| {
                let items = |clusters: &Vec<String>| -> Value {
                    clusters.iter().map(|name| json!({"clusterName": name, "reason": ""})).collect()
                };
                let status = page.clusters.as_ref().map(|clusters| json!({"decisions": items(clusters)}));
                json!({"metadata": {"name": page_name("web", page.number)}, "status": status})
            })
            .collect();
        let names: BTreeSet<&str> =
            self.0.values().flat_map(|p| p.clusters.iter().flatten().map(String::as_str)).collect();
        let clusters: Vec<(&str, &str)> = names.iter().map(|name| (*name, "https://example/")).collect();
        let found = argo::generate(Some(&config_map()), &objects.iter().collect::<Vec<_>>(), &clusters)?;
        Ok(found.into_iter().map(|mut parameters| parameters.remove("clusterName").unwrap()).collect())
    }
}

/// Makes the writes one by one and checks what a reader sees after each.
fn replay(before: &[Page], groups: &[ExportedGroup]) -> Hub {
    let mut hub = Hub::of(before);
    let wanted: BTreeSet<String> =
        groups.iter().flat_map(|g| g.clusters.iter().map(|c| c.cluster_name.to_string())).collect();
    let old: BTreeSet<String> = hub.seen().into_iter().flatten().collect();
    let staying: BTreeSet<String> = &old & &wanted;
    let was_seen = before.iter().any(|page| page.visible);
    for write in page_writes(before, groups) {
        hub.write(&write);
        let seen = hub.seen();
        assert!(seen.is_ok() || !was_seen, "{write:?}: no page is left");
        let Ok(seen) = seen else { continue };
        let seen: BTreeSet<String> = seen.into_iter().collect();
        assert!(seen.is_superset(&staying), "{write:?}: {:?} vanished", &staying - &seen);
        assert!(!seen.is_empty() || wanted.is_empty() || (was_seen && old.is_empty()), "{write:?}: nothing is left");
    }
    for (index, group) in groups.iter().enumerate() {
        let label = (u32::try_from(index).unwrap(), group.name.clone());
        let mut held: Vec<&String> = hub
            .0
            .values()
            .filter(|p| p.group.as_ref() == Some(&label))
            .flat_map(|p| p.clusters.iter().flatten())
            .collect();
        held.sort();
        let mut expected: Vec<&str> = group.clusters.iter().map(|c| c.cluster_name.as_str()).collect();
        expected.sort_unstable();
        assert_eq!(held, expected, "group {index}");
    }
    let mut seen = hub.seen().expect("a page is there");
    seen.sort();
    assert_eq!(seen, wanted.into_iter().collect::<Vec<_>>(), "every wanted cluster once, and no other");
    assert!(hub.0.values().all(|page| page.visible && page.clusters.as_ref().is_some_and(|c| c.len() <= 100)));
    assert_eq!(page_writes(&hub.pages(), groups), [], "nothing is left to write");
    hub
}

#[test]
fn names_of_pages_come_back() {
    assert_eq!(page_name("web", 12), "web-decision-12");
    for (name, expected) in [
        ("web-decision-1", Some(("web", 1))),
        ("web-decision-1-decision-20", Some(("web-decision-1", 20))),
        ("web-decision-0", None),
        ("web-decision-01", None),
        ("web-decision-+1", None),
        ("web-decision-", None),
        ("web", None),
    ] {
        assert_eq!(page_of(name), expected, "{name}");
    }
}

#[test]
fn writes_are_as_few_as_can_be() {
    let create = |number, clusters: &[&str]| {
        let clusters = clusters.iter().map(|c| (*c).to_owned()).collect();
        let label = PageWrite::Label { number, index: 0, group: String::new() };
        vec![PageWrite::Create { number }, PageWrite::Status { number, clusters }, label]
    };
    let status = |number, clusters: &[&str]| {
        vec![PageWrite::Status { number, clusters: clusters.iter().map(|c| (*c).to_owned()).collect() }]
    };
    let unlabelled = Page { visible: false, ..page(1, &["a"]) };
    let rows = [
        ("the first time", vec![], vec!["a", "b"], create(1, &["a", "b"])),
        ("no cluster, the first time", vec![], vec![], create(1, &[])),
        ("nothing new", vec![page(1, &["a"])], vec!["a"], vec![]),
        ("one more", vec![page(1, &["b"])], vec!["a", "b"], status(1, &["a", "b"])),
        ("none left", vec![page(1, &["b"])], vec![], status(1, &[])),
        ("no list is not an empty list", vec![Page { clusters: None, ..page(1, &[]) }], vec![], status(1, &[])),
        ("the other way round", vec![page(1, &["b", "a"])], vec!["a", "b"], status(1, &["a", "b"])),
        ("begun before a crash", vec![unlabelled], vec!["a"], create(1, &[])[2..].to_vec()),
        (
            "all others",
            vec![page(1, &["a"]), page(2, &["b"])],
            vec!["x"],
            [status(1, &["x"]), vec![PageWrite::Delete { number: 2 }]].concat(),
        ),
    ];
    for (name, before, wanted, expected) in rows {
        assert_eq!(page_writes(&before, &[group("", &wanted)]), expected, "{name}");
        replay(&before, &[group("", &wanted)]);
    }
}

#[test]
fn a_cluster_keeps_its_page() {
    let all = numbered(0..250);
    let names: Vec<&str> = all.iter().map(String::as_str).collect();
    let hub = replay(&[], &[group("", &names)]);
    let sizes: Vec<usize> = hub.0.values().map(|page| page.clusters.as_ref().unwrap().len()).collect();
    assert_eq!(sizes, [100, 100, 50]);
    // The whole first page goes, one early name comes: nobody else moves.
    let wanted: Vec<&str> = [&["a"], &names[100..]].concat();
    let after = replay(&hub.pages(), &[group("", &wanted)]);
    assert_eq!(after.0[&2].clusters, hub.0[&2].clusters);
    assert_eq!(after.0.keys().copied().collect::<Vec<_>>(), [2, 3]);
    assert!(after.0[&3].clusters.as_ref().unwrap().contains(&"a".to_owned()));
    // A page that went leaves its number to the next.
    let again = replay(&after.pages(), &[group("", &names)]);
    assert_eq!(again.0.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn a_group_that_gets_another_number_changes_labels_only() {
    let before = replay(&[], &[group("", &["x", "y"])]);
    let groups = [group("canary", &["a"]), group("", &["x", "y"])];
    let writes = page_writes(&before.pages(), &groups);
    assert!(writes.contains(&PageWrite::Label { number: 1, index: 1, group: String::new() }), "{writes:?}");
    assert!(!writes.iter().any(|w| matches!(w, PageWrite::Status { number: 1, .. })), "{writes:?}");
    replay(&before.pages(), &groups);
}

#[test]
fn pages_that_wait_for_each_other_are_untied() {
    let before = [page(1, &["a", "b", "x"]), Page { group: Some((1, "late".into())), ..page(2, &["c", "d", "y"]) }];
    replay(&before, &[group("", &["a", "b", "y"]), group("late", &["c", "d", "x"])]);
}

#[test]
fn a_placement_that_is_gone_is_emptied_and_stays_while_it_is_read() {
    let pages = [page(1, &["a"]), page(2, &["b"])];
    let read = retiring_writes(&pages, true);
    let mut hub = Hub::of(&pages);
    for write in &read {
        hub.write(write);
    }
    assert_eq!(hub.seen(), Ok(vec![]), "no error: the Applications go");
    assert_eq!(retiring_writes(&hub.pages(), true), []);
    assert_eq!(retiring_writes(&hub.pages(), false), [PageWrite::Delete { number: 1 }]);
    assert_eq!(retiring_writes(&[], true), []);
}

fn clusters() -> impl Strategy<Value = BTreeSet<u16>> {
    prop_oneof![proptest::collection::btree_set(0u16..12, 0..8), proptest::collection::btree_set(0u16..400, 0..330),]
}

/// Shares clusters out among groups by a rule that changes with `salt`.
fn shared_out(clusters: &BTreeSet<u16>, groups: u16, salt: u16) -> Vec<ExportedGroup> {
    let names: Vec<String> = clusters.iter().map(|number| format!("c{number:03}")).collect();
    let of = |index: u16| {
        let mine = clusters.iter().zip(&names).filter(|(number, _)| (**number / (1 + salt)) % groups == index);
        group(&format!("g{index}"), &mine.map(|(_, name)| name.as_str()).collect::<Vec<_>>())
    };
    (0..groups).map(of).collect()
}

proptest! {
    #[test]
    fn no_cluster_vanishes_between_writes(
        before in clusters(), after in clusters(), groups in (1u16..4, 1u16..4), salts in (0u16..5, 0u16..5),
    ) {
        let hub = replay(&[], &shared_out(&before, groups.0, salts.0));
        replay(&hub.pages(), &shared_out(&after, groups.1, salts.1));
    }

    #[test]
    fn no_cluster_is_seen_twice_where_there_is_one_group(before in clusters(), after in clusters()) {
        let mut hub = replay(&[], &shared_out(&before, 1, 0));
        for write in page_writes(&hub.pages(), &shared_out(&after, 1, 0)) {
            hub.write(&write);
            let seen = hub.seen().unwrap();
            prop_assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len(), "after {:?}", write);
        }
    }

    #[test]
    fn edits_by_hand_are_healed(
        pages in proptest::collection::btree_map(1u32..6, (any::<bool>(), proptest::option::of((0u32..4, "g[0-3]")),
            proptest::option::of(proptest::collection::vec(0u16..150, 0..130))), 0..5),
        after in clusters(), groups in 1u16..4,
    ) {
        let pages: Vec<Page> = pages
            .into_iter()
            .map(|(number, (visible, group, clusters))| {
                let clusters = clusters.map(|list| list.into_iter().map(|c| format!("c{c:03}")).collect());
                Page { number, visible, group, clusters }
            })
            .collect();
        replay(&pages, &shared_out(&after, groups, 0));
    }
}

#[test]
fn w45_a_cluster_in_two_objects_is_an_error_of_the_second_application() {
    let decision = |name: &str, clusters: &[&str]| {
        let items: Value = clusters.iter().map(|c| json!({"clusterName": c, "reason": ""})).collect();
        json!({"metadata": {"name": name}, "status": {"decisions": items}})
    };
    let objects = [decision("web-decision-1", &["fra-1", "lon-9"]), decision("web-decision-2", &["fra-1"])];
    let found = argo::generate(
        Some(&config_map()),
        &[&objects[0], &objects[1]],
        &[("fra-1", "https://fra-1/"), ("ams-2", "https://ams-2")],
    );
    let names: Vec<&str> = found.as_ref().unwrap().iter().map(|p| p["clusterName"].as_str()).collect();
    assert_eq!(names, ["fra-1", "fra-1"], "lon-9 has no secret");
    assert_eq!(found.as_ref().unwrap()[0]["server"], "https://fra-1");
    let after = argo::reconcile(&["fra-1".to_owned(), "lon-9".to_owned()].into(), found);
    assert_eq!(after.applications, ["fra-1".to_owned()].into());
    assert_eq!(after.errors, ["contains applications with duplicate name: fra-1"]);
    // What we write has no cluster twice, whatever was there.
    replay(&[page(1, &["fra-1", "lon-9"]), page(2, &["fra-1"])], &[group("", &["fra-1"])]);
}

#[test]
fn w46_keys_of_an_item_override_the_cluster() {
    let object =
        json!({"metadata": {"name": "d"}, "status": {"decisions": [{"clusterName": "a", "name": "b", "n": 3}]}});
    let found = argo::generate(Some(&config_map()), &[&object], &[("a", "S")]).unwrap();
    let expected = [("clusterName", "a"), ("name", "b"), ("server", "S"), ("n", "3")];
    assert_eq!(found, [expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into()]);
}

#[test]
fn w47_a_config_map_without_the_list_key_deletes_nothing() {
    let object = json!({"metadata": {"name": "d"}, "status": {"decisions": [{"clusterName": "a"}]}});
    let mut data = config_map();
    data.as_object_mut().unwrap().remove("statusListKey");
    let found = argo::generate(Some(&data), &[&object], &[("a", "S")]);
    assert!(found.is_err());
    let before = BTreeSet::from(["a".to_owned()]);
    assert_eq!(argo::reconcile(&before, found).applications, before);
    // Without matchKey it would be no error, and all would go: ours always has it.
    data = config_map();
    data.as_object_mut().unwrap().remove("matchKey");
    assert_eq!(argo::generate(Some(&data), &[&object], &[("a", "S")]), Ok(vec![]));
}
