//! W20 to W25: predicates, taints and tolerations.

use super::*;

fn tainted(name: &str, taints: Value) -> (ClusterName, OcmMember) {
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

/// The end is exclusive, seconds may be none at all, and a time that was never written is long ago.
#[test]
fn tolerations_with_seconds_hold_before_their_end() {
    let taint = |at: Value| json!({"key": "k", "effect": "NoSelect", "timeAdded": at});
    let (at, never) = (json!("2026-03-01T11:59:50Z"), json!(null));
    let table: [(&str, &Value, i64, Option<bool>); 7] = [
        ("before", &at, 11, Some(true)),
        ("at the end", &at, 10, Some(false)),
        ("none", &at, 0, Some(false)),
        ("negative", &at, -1, Some(false)),
        ("without end", &at, i64::MAX, Some(true)),
        ("no time added", &never, 1_000_000_000, Some(false)),
        ("no time added, without end", &never, i64::MAX, Some(false)),
    ];
    for (case, at, seconds, wanted) in table {
        let hub = hub([tainted("c1", json!([model::api::object::without_nulls(&taint(at.clone()))]))]);
        let outcome = run(&hub, json!({"tolerations": [{"operator": "Exists", "tolerationSeconds": seconds}]}));
        assert_eq!(outcome.misconfigured.is_none().then(|| outcome.selected.contains(0)), wanted, "{case}");
        let forever = run(&hub, json!({"tolerations": [{"operator": "Exists"}]}));
        assert!(forever.selected.contains(0), "{case}: for ever");
    }
}

/// Source: the reference (2.4): the first that tolerates says when to look again, though a later one holds for ever.
#[test]
fn the_first_toleration_that_holds_says_when_to_look_again() {
    let taint = json!([{"key": "k", "effect": "NoSelect", "timeAdded": "2026-03-01T11:59:50Z"}]);
    let mut hub = hub([tainted("c1", taint)]);
    hub.set_decisions(&key(), ["c1"]);
    let timed = |seconds: i64| json!({"operator": "Exists", "tolerationSeconds": seconds});
    let end = |tolerations: Value| run(&hub, json!({"tolerations": tolerations})).requeue_at;
    let soon: Timestamp = "2026-03-01T12:00:05Z".parse().unwrap();
    assert_eq!(end(json!([timed(5), timed(15), {"operator": "Exists"}])), Some(soon));
    assert_eq!(end(json!([{"operator": "Exists"}, timed(15)])), None);
    assert_eq!(end(json!([timed(5), {"operator": "Exists"}])), None);
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

/// Claims are evaluated as labels are: their values, however long a claim's may be, are held to the rules of labels.
#[test]
fn claims_are_evaluated_as_labels_are() {
    let claims = json!([{"name": "a", "value": "first"}, {"name": "a", "value": "last"}]);
    let hub = hub([member("c1", json!({}), json!({"status": {"clusterClaims": claims}}))]);
    let long = "v".repeat(64);
    let table: [(&str, Value, Result<bool, &str>); 7] = [
        ("the last of a name", json!({"key": "a", "operator": "In", "values": ["last"]}), Ok(true)),
        ("not the first", json!({"key": "a", "operator": "In", "values": ["first"]}), Ok(false)),
        ("absent is not in", json!({"key": "b", "operator": "NotIn", "values": ["x"]}), Ok(true)),
        ("absent does not exist", json!({"key": "b", "operator": "DoesNotExist"}), Ok(true)),
        ("too long", json!({"key": "a", "operator": "NotIn", "values": [long]}), Err("values[0][a]: Invalid value")),
        ("a space", json!({"key": "a", "operator": "In", "values": ["x y"]}), Err("values[0][a]: Invalid value")),
        ("no value", json!({"key": "a", "operator": "In"}), Err("values: Invalid value: []")),
    ];
    for (case, requirement, wanted) in table {
        let selector = json!({"claimSelector": {"matchExpressions": [requirement]}});
        let outcome = run(&hub, json!({"predicates": [{"requiredClusterSelector": selector}]}));
        match (wanted, outcome.misconfigured) {
            (Ok(wanted), found) => assert_eq!((found, outcome.selected.contains(0)), (None, wanted), "{case}"),
            (Err(message), found) => {
                let found = found.unwrap_or_default();
                assert!(found.plugin == "Predicate" && found.message.starts_with(message), "{case}: {found:?}");
            }
        }
    }
}

/// Source: the reference (2.3): a cluster passes if any predicate fits, and one predicate fits if all its parts do.
#[test]
fn parts_of_a_predicate_all_have_to_fit() {
    let aws = json!({"status": {"clusterClaims": [{"name": "platform", "value": "AWS"}]}});
    let prod = json!({"env": "prod"});
    let hub = hub([
        member("all", prod.clone(), aws.clone()),
        member("no-claim", prod, json!({})),
        member("no-label", json!({}), aws),
    ]);
    let selector = |expression: &str| {
        json!({"labelSelector": {"matchLabels": {"env": "prod"}},
        "claimSelector": {"matchExpressions": [{"key": "platform", "operator": "Exists"}]},
        "celSelector": {"celExpressions": ["true", expression]}})
    };
    for (expression, wanted) in [("true", vec!["all"]), ("false", vec![])] {
        let spec = json!({"predicates": [{"requiredClusterSelector": selector(expression)}]});
        assert_eq!(picked(&hub, &run(&hub, spec)), wanted, "{expression}");
    }
    let all = run(&hub, json!({"predicates": [{}]}));
    assert_eq!(all.selected.count_ones(..), 3, "an empty predicate fits every cluster");
}

/// What a cluster claims of itself counts where git says nothing, for selectors and for expressions.
#[test]
fn claims_that_were_seen_fill_those_of_git() {
    let status = json!({"status": {"clusterClaims": [{"name": "platform", "value": "AWS"}]}});
    let (name, mut seen) = member("seen", json!({}), status);
    seen.fill_claims(
        &[("platform", "GCP"), ("site", "a")].map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
    );
    let hub = hub([(name, seen), member("other", json!({}), json!({}))]);
    let by_claim = |key: &str, value: &str| json!({"claimSelector": {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}});
    let expression = "managedCluster.status.clusterClaims.exists(c, c.name == 'site' && c.value == 'a')";
    for (selector, wanted) in [
        (by_claim("site", "a"), &["seen"][..]),
        (by_claim("platform", "AWS"), &["seen"]),
        (by_claim("platform", "GCP"), &[]),
        (json!({"celSelector": {"celExpressions": [expression]}}), &["seen"]),
    ] {
        let outcome = run(&hub, json!({"predicates": [{"requiredClusterSelector": selector}]}));
        assert_eq!(picked(&hub, &outcome), wanted, "{selector}");
    }
}
