//! W20 to W25, W39, and what is wrong by configuration.

use super::*;

fn tainted(name: &str, taints: Value) -> (ClusterName, Member) {
    member(name, json!({}), json!({"spec": {"taints": taints}}))
}

#[test]
fn w20_w24_tolerations_match_key_operator_value_and_effect() {
    let one = json!([{"key": "k", "value": "v", "effect": "NoSelect"}]);
    let two = json!([{"key": "k1", "effect": "NoSelect"}, {"key": "k2", "effect": "NoSelect"}]);
    let table: Vec<(&Value, Value, Option<bool>)> = vec![
        (&one, json!([{"key": "k", "value": "v"}]), Some(true)),
        (&one, json!([{"key": "k", "operator": "Equal"}]), Some(false)),
        (&one, json!([{"key": "k", "operator": "Exists"}]), Some(true)),
        (&one, json!([{"operator": "Exists"}]), Some(true)),
        (&one, json!([{"operator": "Exists", "effect": "NoSelectIfNew"}]), Some(false)),
        (&one, json!([{"key": "k", "operator": "Near", "value": "v"}]), Some(false)),
        (&one, json!([{"operator": "Equal"}]), None),
        (&one, json!([{"key": "k", "operator": "Exists", "value": "v"}]), None),
        (&two, json!([{"key": "k1", "operator": "Exists"}]), Some(false)),
    ];
    for (taints, tolerations, wanted) in table {
        let outcome = run(&hub([tainted("c1", taints.clone())]), json!({"tolerations": tolerations}));
        let found = outcome.misconfigured.is_none().then(|| outcome.selected.contains(0));
        assert_eq!(found, wanted, "{tolerations}");
    }
}

#[test]
fn w21_w22_if_new_spares_holders_and_prefer_spares_all() {
    let taint = |name, effect: &str| tainted(name, json!([{"key": "k", "effect": effect}]));
    let mut hub = hub([taint("held", "NoSelectIfNew"), taint("new", "NoSelectIfNew"), taint("p", "PreferNoSelect")]);
    hub.set_decisions(&key(), ["held"]);
    assert_eq!(picked(&hub, &run(&hub, json!({}))), ["held", "p"]);
}

#[test]
fn w23_a_toleration_ends_at_the_second() {
    let ago = |name, at: &str| tainted(name, json!([{"key": "k", "effect": "NoSelect", "timeAdded": at}]));
    let mut hub =
        hub([ago("c1", "2026-03-01T11:59:52Z"), ago("c2", "2026-03-01T11:59:51Z"), ago("c3", "2026-03-01T11:59:50Z")]);
    let spec = json!({"tolerations": [{"operator": "Exists", "tolerationSeconds": 10}]});
    hub.set_decisions(&key(), ["c1", "c2"]);
    let outcome = run(&hub, spec.clone());
    assert_eq!(picked(&hub, &outcome), ["c1", "c2"]);
    assert_eq!(outcome.requeue_at, Some("2026-03-01T12:00:01Z".parse().unwrap()));
    assert_eq!(picked(&hub, &run_at(&hub, spec, outcome.requeue_at.unwrap())), ["c1"]);
}

#[test]
fn w25_predicates_are_alternatives() {
    let aws = json!({"status": {"clusterClaims": [{"name": "platform", "value": "AWS"}]}});
    let hub = hub([member("c1", json!({"env": "dev"}), aws), member("c2", json!({"env": "prod"}), json!({}))]);
    let label = json!({"requiredClusterSelector": {"labelSelector": {"matchLabels": {"env": "prod"}}}});
    let claim = json!({"requiredClusterSelector": {"claimSelector": {"matchExpressions": [{"key": "platform", "operator": "In", "values": ["AWS"]}]}}});
    assert_eq!(picked(&hub, &run(&hub, json!({"predicates": [label, claim]}))), ["c1", "c2"]);
    assert_eq!(picked(&hub, &run(&hub, json!({"predicates": [claim]}))), ["c1"]);
}

#[test]
fn w39_conditions_say_why_there_is_nobody() {
    let mut hub = Hub::new([member("c1", json!({SET_LABEL: "z"}), json!({}))].into());
    assert_eq!(run(&hub, json!({})).satisfied.reason, "NoManagedClusterSetBindings");
    hub.set_binding("ns1", "z", true);
    assert_eq!(run(&hub, json!({})).satisfied.reason, "NoManagedClusterSetBindings", "a binding without its set");
    hub.set_set("z", Some(serde_json::from_value(json!({})).unwrap()));
    let message = run(&hub, json!({"clusterSets": ["x", "y"]})).satisfied.message;
    assert_eq!(message, "None of ManagedClusterSets [x,y] is bound to placement namespace");
    assert_eq!(picked(&hub, &run(&hub, json!({"clusterSets": ["x", "z"]}))), ["c1"]);
}

#[test]
fn misconfigured_placements_withdraw_or_keep() {
    for (spec, message) in [
        (json!({"tolerations": [{"value": "v"}]}), "TaintToleration:If the key is empty"),
        (
            json!({"predicates": [{"requiredClusterSelector": {"celSelector": {"celExpressions": ["a."]}}}]}),
            "Predicate:compilation failed: ",
        ),
        (json!({"prioritizerPolicy": {"mode": "Most"}}), ":incorrect prioritizer policy mode: Most"),
    ] {
        let mut hub = plain(["c1", "c2"]);
        hub.set_decisions(&key(), ["c2"]);
        let (key, policy) = (key(), policy(spec.clone()));
        assert_eq!(policy.complaints().len(), 1, "{spec}");
        let request =
            |on_misconfigured| Request { key: &key, policy: &policy, hub: &hub, now: now(), on_misconfigured };
        let withdrawn = schedule(&request(OnMisconfigured::Withdraw)).unwrap();
        assert_eq!((withdrawn.selected.count_ones(..), withdrawn.pages(&key, &hub).unwrap().len()), (0, 1));
        let said = withdrawn.status(&key, &[], now()).conditions;
        assert!(said[0].message.starts_with(message), "{}", said[0].message);
        let kept = schedule(&request(OnMisconfigured::Keep)).unwrap();
        assert_eq!((kept.decisions, kept.selected.ones().collect::<Vec<_>>()), (Decisions::Kept, vec![1]), "{spec}");
    }
}
