use serde_json::json;

use super::*;
use crate::status::fixtures::{Case, CaseStatus as _};
use model::api::ocm::PLACEMENT_LABEL;
use model::id::PlacementKey;

fn key(kind: &str, namespace: Option<&str>, name: &str) -> DecisionsKey {
    DecisionsKey { kind: kind.to_owned(), namespace: namespace.map(str::to_owned), name: name.to_owned() }
}

fn web() -> DecisionsKey {
    DecisionsKey::from(&PlacementKey::cluster_scoped("web"))
}

fn names(record: &DecisionsRecord) -> Vec<&str> {
    record.groups.iter().flat_map(|g| g.clusters.iter().map(|c| c.cluster_name.as_str())).collect()
}

fn exported(case: &Case, before: Option<&DecisionsRecord>) -> DecisionsRecord {
    record(web(), &decided(&case.view()).expect("the case is decided"), before)
}

fn rolled_out(case: &mut Case) {
    case.record.annotations.insert(DECISIONS.to_owned(), ROLLED_OUT.to_owned());
}

#[test]
fn every_picked_cluster_is_exported_in_one_group() {
    let mut case = Case::healthy(&["b", "a"]);
    case.bindings.clear();
    let record = exported(&case, None);
    assert_eq!((names(&record), record.groups.len(), record.removed), (vec!["a", "b"], 1, false));
    assert_eq!(record.groups[0].clusters[0].reason, "picked a");
}

#[test]
fn undecided_is_not_empty() {
    let mut case = Case::healthy(&["a"]);
    case.policy = None;
    assert_eq!(decided(&case.view()), None);
    let nowhere = Case::healthy(&[]);
    assert_eq!(exported(&nowhere, None).groups, [ExportedGroup::default()]);
}

#[test]
fn with_rolled_out_a_cluster_waits_for_its_rollout_and_then_stays() {
    let mut case = Case::healthy(&["a", "b", "c"]);
    rolled_out(&mut case);
    case.binding("b").snapshot = Some(2);
    case.binding("c").generation = 8;
    let first = exported(&case, None);
    assert_eq!(names(&first), ["a"], "b holds an older snapshot, c is not available yet");
    case.binding("b").snapshot = Some(3);
    case.binding("c").generation = 7;
    let second = exported(&case, Some(&first));
    assert_eq!(names(&second), ["a", "b", "c"]);
    // A newer snapshot is on its way: nobody vanishes.
    case.snapshot = Some(crate::status::fixtures::snapshot(4, &["a"]));
    assert_eq!(names(&exported(&case, None)), Vec::<&str>::new());
    assert_eq!(names(&exported(&case, Some(&second))), ["a", "b", "c"]);
    // De-selected: it goes.
    case.policy.as_mut().unwrap().target_clusters.retain(|d| d.cluster_name.as_str() != "b");
    assert_eq!(names(&exported(&case, Some(&second))), ["a", "c"]);
}

#[test]
fn what_a_deletion_gate_holds_stays_listed() {
    let mut case = Case::healthy(&["a", "b"]);
    let before = exported(&case, None);
    case.gate(&["b", "z"]);
    case.policy.as_mut().unwrap().target_clusters.retain(|d| d.cluster_name.as_str() != "b");
    assert_eq!(names(&exported(&case, Some(&before))), ["a", "b"], "z was never listed");
    assert_eq!(names(&exported(&case, None)), ["a"]);
    case.record.deletion_gate = None;
    assert_eq!(names(&exported(&case, Some(&before))), ["a"]);

    let mut gone = Case::healthy(&["a", "b"]);
    gone.record.removed = true;
    gone.gate(&["a", "b"]);
    assert_eq!(names(&exported(&gone, Some(&before))), ["a", "b"], "the gate is closed");
    gone.record.deletion_gate = None;
    assert_eq!(names(&exported(&gone, Some(&before))), Vec::<&str>::new(), "a person let it go");
}

#[test]
fn groups_keep_their_order_and_no_cluster_is_in_two() {
    let pick = |name: &str, reached| Pick { cluster: name.into(), reason: String::new(), reached };
    let mut decided = Decided {
        groups: vec![
            ("canary".to_owned(), vec![pick("z", true), pick("a", false)]),
            (String::new(), vec![pick("z", true), pick("b", true)]),
        ],
        ..Decided::default()
    };
    let all = record(web(), &decided, None);
    assert_eq!((names(&all), all.groups[0].name.as_str()), (vec!["a", "z", "b"], "canary"));
    decided.annotations.insert(DECISIONS.to_owned(), ROLLED_OUT.to_owned());
    let reached = record(web(), &decided, None);
    assert_eq!(
        (names(&reached), reached.groups.len()),
        (vec!["z", "b"], 2),
        "a group without clusters keeps its index"
    );
}

#[test]
fn the_first_of_a_name_has_the_label() {
    let long = "x".repeat(64);
    let mut exports = Exports::new();
    for key in [
        key("ResourcePlacement", Some("a"), "web"),
        key("Placement", Some("b"), "web"),
        key("ClusterResourcePlacement", None, "web"),
        key("ClusterResourcePlacement", None, &long),
        key("ClusterResourcePlacement", None, &long[1..]),
        key("ResourcePlacement", Some("a"), "gone"),
    ] {
        let record = record(key.clone(), &Decided::default(), None);
        exports.insert(key, record.into());
    }
    let gone = key("ClusterResourcePlacement", None, "gone");
    exports.insert(gone.clone(), removed(gone).into());
    assign_labels(&mut exports);
    let shown = |record: &DecisionsRecord| format!("{}: {:?}", record.key, record.label.as_deref());
    let labels: Vec<String> = exports.values().map(|record| shown(record)).filter(|text| !text.contains('x')).collect();
    assert_eq!(
        labels,
        [
            "ClusterResourcePlacement gone: None",
            "ClusterResourcePlacement web: Some(\"web\")",
            "Placement b/web: None",
            "ResourcePlacement a/gone: Some(\"gone\")",
            "ResourcePlacement a/web: None",
        ]
    );
    let of = |name: &str| exports.values().find(|record| record.key.name == name).unwrap();
    assert_eq!((of(&long).label.as_deref(), of(&long[1..]).label.as_deref()), (None, Some(&long[1..])));
    assert!(of(&long).problem.as_ref().unwrap().contains("64 characters"));
    let clash = &exports[&key("ResourcePlacement", Some("a"), "web")];
    let words = clash.problem.as_ref().unwrap();
    assert!(
        words.starts_with("ResourcePlacement a/web has no PlacementDecisions: ClusterResourcePlacement web has"),
        "{words}"
    );
    // The first goes: the next has the label, and no words are left.
    exports.remove(&web());
    assign_labels(&mut exports);
    let next = &exports[&key("Placement", Some("b"), "web")];
    assert_eq!((next.label.as_deref(), next.problem.as_deref()), (Some("web"), None));
}

#[test]
fn a_reader_finds_what_it_names_or_is_told_that_there_is_none() {
    let mut exports = Exports::new();
    for key in [key("ClusterResourcePlacement", None, "web"), key("ResourcePlacement", Some("a"), "web")] {
        exports.insert(key.clone(), record(key, &Decided::default(), None).into());
    }
    assign_labels(&mut exports);
    let found = |kind, namespace, name| {
        DecisionsRecord::find(exports.values().map(AsRef::as_ref), kind, namespace, name).map(|r| r.key.to_string())
    };
    assert_eq!(found(None, None, "web").as_deref(), Ok("ClusterResourcePlacement web"));
    assert_eq!(found(None, Some("a"), "web").as_deref(), Ok("ResourcePlacement a/web"));
    assert_eq!(found(Some("ResourcePlacement"), None, "web").as_deref(), Ok("ResourcePlacement a/web"));
    let words = found(Some("Placement"), Some("b"), "web").unwrap_err();
    assert!(words.starts_with("no Placement web in namespace b has been decided"), "{words}");
}

#[test]
fn application_sets_that_read_a_page_are_known() {
    let labels = BTreeMap::from([(PLACEMENT_LABEL.to_owned(), "web".to_owned())]);
    let pages = [("web-decision-1", labels)];
    let of = |resource: serde_json::Value| json!({"clusterDecisionResource": resource});
    let by_label = |value: &str| {
        of(json!({"configMapRef": "ocm-placement", "labelSelector": {"matchLabels": {PLACEMENT_LABEL: value}}}))
    };
    let rows = [
        ("by label", by_label("web"), true),
        ("another placement", by_label("shop"), false),
        (
            "another ConfigMap",
            of(json!({"configMapRef": "other", "labelSelector": {"matchLabels": {PLACEMENT_LABEL: "web"}}})),
            false,
        ),
        ("by name", of(json!({"configMapRef": "ocm-placement", "name": "web-decision-1"})), true),
        ("another page", of(json!({"configMapRef": "ocm-placement", "name": "web-decision-2"})), false),
        ("inside a matrix", json!({"matrix": {"generators": [{"git": {}}, by_label("web")]}}), true),
        (
            "inside a merge of a matrix",
            json!({"merge": {"generators": [{"matrix": {"generators": [by_label("web")]}}]}}),
            true,
        ),
        (
            "by expression",
            of(json!({"configMapRef": "ocm-placement", "labelSelector": {"matchExpressions": [
            {"key": PLACEMENT_LABEL, "operator": "In", "values": ["web", "shop"]}]}})),
            true,
        ),
        (
            "an unreadable selector",
            of(json!({"configMapRef": "ocm-placement", "labelSelector": {"matchExpressions": 1}})),
            true,
        ),
        ("another generator", json!({"clusters": {}}), false),
    ];
    for (name, generator, expected) in rows {
        let set = json!({"spec": {"generators": [generator]}});
        assert_eq!(reads(&set, "ocm-placement", &pages), expected, "{name}");
    }
}
