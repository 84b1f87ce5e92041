//! What is said of each cluster.

use super::*;
use model::explanation::Refusal;

fn refusal(filter: &str, subject: &str, observed: Option<&str>, wanted: &str) -> Refusal {
    Refusal {
        filter: filter.to_owned(),
        subject: subject.to_owned(),
        observed: observed.map(str::to_owned),
        wanted: wanted.to_owned(),
    }
}

/// One cluster for each filter, with the value that it compared.
#[test]
fn the_first_filter_that_says_no_is_named_with_its_values() {
    let prod = json!({"env": "prod", SET_LABEL: "s"});
    let claim = |value: &str| json!({"status": {"clusterClaims": [{"name": "platform", "value": value}]}});
    let taint = json!([{"key": "k", "value": "v", "effect": "NoSelect", "timeAdded": "2026-03-01T11:00:00Z"}]);
    let mut tainted = claim("AWS");
    tainted["spec"] = json!({"taints": taint});
    let mut hub = Hub::new(
        [
            member("good", prod.clone(), claim("AWS")),
            member("elsewhere", json!({"env": "prod", SET_LABEL: "t"}), claim("AWS")),
            member("setless", json!({"env": "prod"}), claim("AWS")),
            member("gone", prod.clone(), json!({"status": {}})),
            member("label", json!({"env": "dev", SET_LABEL: "s"}), claim("AWS")),
            member("claim", prod.clone(), claim("GCP")),
            member("expression", prod.clone(), claim("AWS")),
            member("taint", prod, tainted),
        ]
        .into(),
    );
    let (name, mut gone) = (ClusterName::from("gone"), hub.member(hub.slot("gone").unwrap()).clone());
    gone.deleting = true;
    hub.set_cluster(&name, Some(gone));
    for set in ["s", "t"] {
        hub.set_set(set, Some(serde_json::from_value(json!({})).unwrap()));
    }
    hub.set_binding("ns1", "s", true);
    let expression = "managedCluster.metadata.name != 'expression'";
    let spec = json!({"predicates": [{"requiredClusterSelector": {
        "labelSelector": {"matchExpressions": [{"key": "env", "operator": "In", "values": ["prod", "test"]}]},
        "claimSelector": {"matchExpressions": [{"key": "platform", "operator": "NotIn", "values": ["GCP"]}]},
        "celSelector": {"celExpressions": [expression]},
    }}]});
    let explanation = explained(&hub, spec.clone());
    let table = [
        ("elsewhere", refusal("ManagedClusterSet", "cluster set", Some("t"), "cluster set s")),
        ("setless", refusal("ManagedClusterSet", "cluster set", Some("default"), "cluster set s")),
        ("gone", refusal("ManagedClusterSet", "deletion", Some("in progress"), "none")),
        ("label", refusal("Predicate", "label env", Some("dev"), "In [prod, test]")),
        ("claim", refusal("Predicate", "claim platform", Some("GCP"), "NotIn [GCP]")),
        ("expression", refusal("Predicate", "expression", Some("false, or an error"), expression)),
        (
            "taint",
            refusal(
                "TaintToleration",
                "taint k",
                Some("k=v:NoSelect since 2026-03-01T11:00:00Z"),
                "a toleration that holds",
            ),
        ),
    ];
    for (cluster, wanted) in table {
        let explained = of(&explanation, cluster);
        assert_eq!((explained.rejected.as_ref(), explained.picked, explained.rank), (Some(&wanted), false, None));
    }
    assert_eq!(of(&explanation, "good").reason, "picked: rank 1 of 1");
    assert_eq!((explanation.clusters.len(), &*explanation.wanted), (8, "every cluster that passes"));
    let outcome = run(&hub, spec);
    assert_eq!(picked(&hub, &outcome), ["good"], "explained is what is decided");
}

#[test]
fn scores_come_with_what_was_checked_and_the_tie_break() {
    let mut hub = with_memory(&[("a", "60M"), ("b", "80M"), ("c", "80M"), ("d", "100M")]);
    hub.set_decisions(&key(), ["b"]);
    others(&mut hub, &[&["a", "b"], &["b"]]);
    score(&mut hub, "a", 5, Some("2026-03-01T11:59:59Z"));
    score(&mut hub, "b", -5, None);
    let mut spec = additive(2, &[("ResourceAllocatableMemory", 2), ("Balance", 0)]);
    let add_on = json!({"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "demo", "scoreName": "demo"}}});
    spec["prioritizerPolicy"]["configurations"].as_array_mut().unwrap().push(add_on);
    let explanation = explained(&hub, spec);
    let order: Vec<(&str, Option<usize>, bool, Option<&str>)> = explanation
        .clusters
        .iter()
        .map(|e| (e.cluster_name.as_str(), e.rank, e.picked, e.tie_break.as_deref()))
        .collect();
    assert_eq!(
        order,
        [
            ("d", Some(1), true, None),
            ("b", Some(2), true, None),
            ("c", Some(3), false, None),
            ("a", Some(4), false, None)
        ]
    );
    let terms = |cluster: &str| -> Vec<(String, Option<i64>, Option<String>, i64)> {
        let terms = of(&explanation, cluster).scores.iter();
        terms.map(|term| (term.name.clone(), term.weight, term.observed.clone(), term.score)).collect()
    };
    let term =
        |name: &str, weight, observed: &str, score| (name.to_owned(), Some(weight), Some(observed.to_owned()), score);
    assert_eq!(
        terms("a"),
        [
            term("Steady", 1, "not picked before", 0),
            term("ResourceAllocatableMemory", 2, "60M", -200),
            term("AddOn/demo/demo", 1, "5, expired 2026-03-01T11:59:59Z", 0),
        ]
    );
    assert_eq!(
        terms("b"),
        [
            term("Steady", 1, "picked before", 100),
            term("ResourceAllocatableMemory", 2, "80M", 0),
            term("AddOn/demo/demo", 1, "-5", -5),
        ]
    );
    assert_eq!(of(&explanation, "c").reason, "not picked: rank 3 of 4");
    let balanced = explained(&hub, additive(2, &[]));
    assert_eq!(of(&balanced, "b").scores[0].observed.as_deref(), Some("2 decisions of other placements"));
    let tie_break = "as good as d, and before it: the smaller name comes first";
    assert_eq!(of(&balanced, "c").tie_break.as_deref(), Some(tie_break));
}

#[test]
fn a_misconfigured_placement_evaluates_nobody() {
    let mut hub = plain(["a", "b"]);
    hub.set_decisions(&key(), ["b"]);
    let (key, policy) = (key(), policy(json!({"prioritizerPolicy": {"mode": "Most"}})));
    let on_misconfigured = OnMisconfigured::Keep;
    let explanation =
        explain(&Request { key: &key, policy: &policy, hub: &hub, now: now(), on_misconfigured }).unwrap();
    assert_eq!((explanation.fulfilled, &*explanation.message), (false, "incorrect prioritizer policy mode: Most"));
    assert_eq!(of(&explanation, "a").reason, "not judged: the placement is misconfigured");
    assert_eq!(of(&explanation, "b").reason, "kept: the placement is misconfigured, its last good decisions stay");
}
