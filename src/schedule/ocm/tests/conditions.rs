//! W39 and the other rows of the conditions (2.11), and what becomes of placements that are misconfigured.

use super::*;
use model::api::condition::{Condition, ConditionStatus};
use model::conditions::Reason;

fn set(hub: &mut Hub, name: &str, spec: Value) {
    hub.set_set(name, Some(serde_json::from_value(spec).unwrap()));
    hub.set_binding("ns1", name, true);
}

/// Type, status, reason and message, in order of type.
fn said(outcome: &OcmOutcome) -> Vec<(String, ConditionStatus, String, String)> {
    let conditions = outcome.status(&key(), &[], now()).conditions.into_iter();
    conditions.map(|c: Condition| (c.type_.to_string(), c.status, c.reason.to_string(), c.message)).collect()
}

#[test]
fn w39_the_first_row_that_holds_says_why_nobody_is_picked() {
    let mut hub = Hub::new([member("c1", json!({SET_LABEL: "z"}), json!({}))].into());
    let none = "No valid ManagedClusterSetBindings found in placement namespace";
    let row = |hub: &Hub, spec: Value| {
        let satisfied = run(hub, spec).satisfied;
        (satisfied.holds, satisfied.reason, satisfied.message)
    };
    assert_eq!(row(&hub, json!({})), (false, Reason::NoManagedClusterSetBindings, none.to_owned()));
    hub.set_binding("ns1", "z", true);
    assert_eq!(row(&hub, json!({})).1, Reason::NoManagedClusterSetBindings, "a binding without its set");
    set(&mut hub, "z", json!({}));
    let message = "None of ManagedClusterSets [x,y] is bound to placement namespace";
    assert_eq!(row(&hub, json!({"clusterSets": ["x", "y"]})), (false, Reason::NoIntersection, message.to_owned()));
    assert!(row(&hub, json!({"clusterSets": ["x", "z"]})).0, "one bound set suffices");
    set(&mut hub, "a", json!({"clusterSelector": {"selectorType": "LabelSelector"}}));
    let message = "All ManagedClusterSets [a] have no member ManagedCluster";
    assert_eq!(
        row(&hub, json!({"clusterSets": ["a"]})),
        (false, Reason::AllManagedClusterSetsEmpty, message.to_owned())
    );
    let (name, gone) = member("c1", json!({SET_LABEL: "z"}), json!({}));
    hub.set_cluster(&name, Some(OcmMember { deleting: true, ..gone }));
    let message = "All ManagedClusterSets [a,z] have no member ManagedCluster";
    assert_eq!(
        row(&hub, json!({})),
        (false, Reason::AllManagedClusterSetsEmpty, message.to_owned()),
        "it is being deleted"
    );
    let matched = "No ManagedCluster matches any of the cluster predicate";
    let nobody = json!({"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"a": "b"}}}}]});
    assert_eq!(row(&plain(["c1"]), nobody), (false, Reason::NoManagedClusterMatched, matched.to_owned()));
    assert_eq!(
        row(&plain(["c1"]), json!({})),
        (true, Reason::AllDecisionsScheduled, "All cluster decisions scheduled".to_owned())
    );
}

#[test]
fn a_set_that_cannot_be_read_stops_those_who_pick_from_it() {
    let mut hub = plain(["c1"]);
    let wrong = json!({"matchExpressions": [{"key": "a", "operator": "In"}]});
    set(&mut hub, "bad", json!({"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": wrong}}));
    let ask = |spec: Value| {
        let (key, policy) = (key(), policy(spec));
        let request =
            Request { key: &key, policy: &policy, hub: &hub, now: now(), on_misconfigured: OnMisconfigured::Keep };
        (schedule(&request), explain(&request).map(|explanation| explanation.clusters.len()))
    };
    let (scheduled, explained) = ask(json!({}));
    let message = scheduled.unwrap_err().to_string();
    assert!(
        message.starts_with("ManagedClusterSet bad cannot be read, and placement ns1/demo picks from it"),
        "{message}"
    );
    assert_eq!(explained.unwrap_err().to_string(), message);
    let (scheduled, explained) = ask(json!({"clusterSets": ["global"]}));
    assert_eq!((scheduled.unwrap().selected.count_ones(..), explained.unwrap()), (1, 1), "others continue");
}

/// A set by selector: absent selects nobody, empty selects all.
#[test]
fn sets_have_their_members_by_label_or_selector() {
    let clusters = [
        member("a", json!({SET_LABEL: "s", "env": "prod"}), json!({})),
        member("b", json!({SET_LABEL: "t", "env": "dev"}), json!({})),
    ];
    let by = |selector: Value| json!({"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": selector}});
    let table: [(&str, Value, &[&str]); 6] = [
        ("exclusive", json!({}), &["a"]),
        ("old name", json!({"clusterSelector": {"selectorType": "LegacyClusterSetLabel"}}), &["a"]),
        ("empty type", json!({"clusterSelector": {"selectorType": ""}}), &["a"]),
        ("no selector", json!({"clusterSelector": {"selectorType": "LabelSelector"}}), &[]),
        ("empty selector", by(json!({})), &["a", "b"]),
        ("selector", by(json!({"matchLabels": {"env": "dev"}})), &["b"]),
    ];
    for (case, spec, wanted) in table {
        let mut hub = Hub::new(clusters.clone().into());
        set(&mut hub, "s", spec);
        assert_eq!(picked(&hub, &run(&hub, json!({}))), wanted, "{case}");
    }
}

/// Source: OCM, whose hub has the sets `default` and `global` and whose webhook puts a cluster without a set into `default`.
#[test]
fn every_hub_has_the_sets_default_and_global() {
    let clusters = [
        member("a", json!({SET_LABEL: "s"}), json!({})),
        member("b", json!({SET_LABEL: ""}), json!({})),
        member("c", json!({}), json!({})),
        member("d", json!({SET_LABEL: "default"}), json!({})),
    ];
    let bound_to = |set: &str| {
        let mut hub = Hub::new(clusters.clone().into());
        hub.set_binding("ns1", set, true);
        hub
    };
    let mut hub = bound_to("default");
    assert_eq!(picked(&hub, &run(&hub, json!({}))), ["b", "c", "d"]);
    let by_label = json!({"labelSelector": {"matchLabels": {SET_LABEL: "default"}}});
    let expression = format!("managedCluster.metadata.labels['{SET_LABEL}'] == 'default'");
    for selector in [by_label, json!({"celSelector": {"celExpressions": [expression]}})] {
        let spec = json!({"predicates": [{"requiredClusterSelector": selector}]});
        let global = bound_to("global");
        assert_eq!(picked(&global, &run(&global, spec)), ["b", "c", "d"], "the label is there for all who read labels");
    }
    let mut global = bound_to("global");
    assert_eq!(picked(&global, &run(&global, json!({}))), ["a", "b", "c", "d"]);
    set(&mut global, "global", json!({"clusterSelector": {"selectorType": "LabelSelector"}}));
    assert_eq!(run(&global, json!({})).satisfied.reason, Reason::AllManagedClusterSetsEmpty, "a written one counts");
    assert_eq!(global.set_set("global", None), Change::Set("global".to_owned()));
    assert_eq!(picked(&global, &run(&global, json!({}))), ["a", "b", "c", "d"], "back to what every hub has");
    assert_eq!(hub.set_set("default", None), Change::Nothing);
    let (name, moved) = member("c", json!({SET_LABEL: "s"}), json!({}));
    hub.set_cluster(&name, Some(moved));
    assert_eq!(picked(&hub, &run(&hub, json!({}))), ["b", "d"]);
}

#[test]
fn misconfigured_placements_withdraw_or_keep() {
    let selector = |selector: Value| json!({"predicates": [{"requiredClusterSelector": selector}]});
    let by_label = |requirement: Value| selector(json!({"labelSelector": {"matchExpressions": [requirement]}}));
    let prioritizer =
        |coordinate: Value| json!({"prioritizerPolicy": {"configurations": [{"scoreCoordinate": coordinate}]}});
    for (spec, message) in [
        (json!({"tolerations": [{"value": "v"}]}), "TaintToleration:If the key is empty, operator must be Exists."),
        (
            json!({"tolerations": [{"key": "k", "operator": "Exists", "value": "v"}]}),
            "TaintToleration:If the operator is Exists, the value should be empty.",
        ),
        (selector(json!({"celSelector": {"celExpressions": ["a."]}})), "Predicate:compilation failed: "),
        (
            by_label(json!({"key": "a", "operator": "Near"})),
            "Predicate:\"Near\" is not a valid label selector operator",
        ),
        (by_label(json!({"key": "a b", "operator": "Exists"})), "Predicate:key: Invalid value: \"a b\""),
        (by_label(json!({"key": "a", "operator": "Exists", "values": ["b"]})), "Predicate:values: Invalid value"),
        (selector(json!({"labelSelector": {"matchLabels": {"a": "b c"}}})), "Predicate:values[0][a]: Invalid value"),
        (json!({"prioritizerPolicy": {"mode": "Most"}}), ":incorrect prioritizer policy mode: Most"),
        (prioritizer(json!({"builtIn": "Spread"})), ":incorrect builtin prioritizer: Spread"),
        (prioritizer(json!({"type": "AddOn"})), ":addOn should not be empty"),
        (json!({"prioritizerPolicy": {"configurations": [{}]}}), ":scoreCoordinate field is required"),
    ] {
        let mut hub = plain(["c1", "c2"]);
        hub.set_decisions(&key(), ["c2"]);
        let (key, policy) = (key(), policy(spec.clone()));
        assert_eq!(policy.complaints().len(), 1, "{spec}");
        let request =
            |on_misconfigured| Request { key: &key, policy: &policy, hub: &hub, now: now(), on_misconfigured };
        let withdrawn = schedule(&request(OnMisconfigured::Withdraw)).unwrap();
        assert_eq!((withdrawn.selected.count_ones(..), withdrawn.pages(&key, &hub).unwrap().len()), (0, 1));
        let conditions = said(&withdrawn);
        assert_eq!((conditions[0].1, &*conditions[0].2), (ConditionStatus::True, "Misconfigured"), "{spec}");
        assert!(conditions[0].3.starts_with(message), "{}", conditions[0].3);
        assert_eq!((conditions[1].1, &*conditions[1].2), (ConditionStatus::False, "NoManagedClusterMatched"));
        let kept = schedule(&request(OnMisconfigured::Keep)).unwrap();
        assert!(kept.satisfied.message.starts_with("The last good decisions are kept: "), "{spec}");
        assert_eq!((kept.decisions, kept.selected.ones().collect::<Vec<_>>()), (Decisions::Kept, vec![1]), "{spec}");
    }
}

/// Source: the reference (2.3, 2.4): filters look at their configuration only where there is a cluster to filter.
#[test]
fn a_placement_without_clusters_is_not_found_out() {
    let nobody = json!({"requiredClusterSelector": {"labelSelector": {"matchLabels": {"a": "b"}}}});
    let bad = json!({"requiredClusterSelector": {"celSelector": {"celExpressions": ["a."]}}});
    for (spec, hub) in [
        (json!({"predicates": [bad]}), plain([])),
        (json!({"predicates": [nobody], "tolerations": [{"value": "v"}]}), plain(["c1"])),
    ] {
        assert_eq!(run(&hub, spec.clone()).misconfigured, None, "{spec}");
    }
}

#[test]
fn both_conditions_are_there_and_move_when_their_status_flips() {
    let outcome = run(&plain(["c1"]), json!({}));
    let row = |type_: &str, status, reason: &str, message: &str| {
        (type_.to_owned(), status, reason.to_owned(), message.to_owned())
    };
    let checked = "Placement configurations check pass";
    let good = [
        row("PlacementMisconfigured", ConditionStatus::False, "Succeedconfigured", checked),
        row("PlacementSatisfied", ConditionStatus::True, "AllDecisionsScheduled", "All cluster decisions scheduled"),
    ];
    assert_eq!(said(&outcome), good);
    let first = outcome.status(&key(), &[], now()).conditions;
    let later: Timestamp = "2026-03-01T13:00:00Z".parse().unwrap();
    let same = outcome.status(&key(), &first, later).conditions;
    assert_eq!(same, first, "nothing flips");
    let less = run(&plain(["c1"]), json!({"numberOfClusters": 2})).status(&key(), &first, later).conditions;
    let times: Vec<Timestamp> = less.iter().map(|condition| condition.last_transition_time).collect();
    assert_eq!(times, [now(), later]);
}

#[test]
fn the_annotation_keeps_a_placement_from_being_scheduled() {
    for (value, wanted) in [("true", true), ("True", false), ("false", false)] {
        let annotation = ("cluster.open-cluster-management.io/experimental-scheduling-disable", value);
        assert_eq!(is_disabled(&[(annotation.0.to_owned(), annotation.1.to_owned())].into()), wanted, "{value}");
    }
    assert!(!is_disabled(&BTreeMap::new()));
}
