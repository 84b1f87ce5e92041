//! The reference's worked examples of scores and of topology spread.

use super::*;
use model::api::placement::PlacementPolicy;
use model::id::PlacementKey;
use model::records::ClusterDecision;

#[allow(clippy::needless_pass_by_value, reason = "tables read better so")]
fn preferred(terms: Value, number: i32) -> Value {
    json!({"placementType": "PickN", "numberOfClusters": number, "affinity": {"clusterAffinity":
        {"preferredDuringSchedulingIgnoredDuringExecution": terms}}})
}

fn sorted_by(name: &str, order: &str, weight: i32) -> Value {
    json!({"weight": weight, "preference": {"propertySorter": {"name": name, "sortOrder": order}}})
}

fn property(operator: &str, value: &str) -> Value {
    json!({"affinity": {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [
        {"propertySelector": {"matchExpressions": [{"name": "nodes", "operator": operator, "values": [value]}]}}]}}}})
}

/// Affinity scores by cluster: `a 0, b 11`.
fn affinities(policy: Value, clusters: &[&str]) -> String {
    let outcome = run(Some(&super::policy(policy)), clusters, &[]).unwrap();
    let mut found: Vec<String> = outcome
        .decisions
        .iter()
        .filter_map(|d| Some(format!("{} {}", d.cluster_name, d.cluster_score?.affinity_score)))
        .collect();
    found.sort();
    found.join(", ")
}

#[test]
fn example_01_values_between_smallest_and_largest() {
    let clusters = ["a @cpu=10", "b @cpu=20", "c @cpu=100"];
    let by = |order: &str| affinities(preferred(json!([sorted_by("cpu", order, 100)]), 3), &clusters);
    assert_eq!(by("Descending"), "a 0, b 11, c 100");
    assert_eq!(by("Ascending"), "a 100, b 89, c 0");
}

#[test]
fn example_02_halves_round_away_from_zero() {
    let clusters = ["a @cpu=2", "b @cpu=4", "c @cpu=6"];
    for order in ["Descending", "Ascending"] {
        for (weight, middle) in [(7, "b 4"), (-7, "b -4")] {
            let found = affinities(preferred(json!([sorted_by("cpu", order, weight)]), 3), &clusters);
            assert!(found.contains(middle), "{order} {weight}: {found}");
        }
    }
}

#[test]
fn example_03_equal_values_say_nothing() {
    let found = affinities(preferred(json!([sorted_by("cpu", "Ascending", 50)]), 3), &["a @cpu=5", "b @cpu=5", "c"]);
    assert_eq!(found, "a 0, b 0, c 0");
}

#[test]
fn example_04_terms_add_up() {
    let prod = json!({"weight": 20, "preference": {"labelSelector": {"matchLabels": {"env": "prod"}}}});
    let policy = preferred(json!([prod, sorted_by("nodes", "Descending", 50)]), 2);
    let clusters = ["a env=prod @nodes=3", "b env=dev @nodes=5", "c env=prod"];
    assert_eq!(affinities(policy.clone(), &clusters), "a 20, b 50, c 20");
    assert_eq!(decisions(&run(Some(&super::policy(policy)), &clusters, &[]).unwrap()), "+b +c -a");
}

#[test]
fn example_08_quantities_compare_exactly() {
    for (operator, value, line, fits) in [
        ("Gt", "4", "a @nodes=4", false),
        ("Ge", "4", "a @nodes=4", true),
        ("Eq", "4000m", "a @nodes=4", true),
        ("Ne", "1", "a", false),
        ("Ne", "1", "a @nodes=4", true),
        ("Lt", "4.000000001", "a @nodes=4", true),
        ("Le", "3999999999n", "a @nodes=4", false),
        ("Eq", "1Gi", "a @nodes=1073741824", true),
    ] {
        let outcome = run(Some(&policy(property(operator, value))), &[line], &[]).unwrap();
        assert_eq!(decisions(&outcome) == "+a", fits, "{line} {operator} {value}");
    }
}

#[test]
fn example_09_a_dead_cluster_widens_the_range() {
    let clusters = ["a @cpu=10", "b @cpu=20", "x !dead @cpu=1000"];
    assert_eq!(affinities(preferred(json!([sorted_by("cpu", "Descending", 100)]), 2), &clusters), "a 0, b 1");
}

fn spread(number: i32, max_skew: i32, action: &str) -> PlacementPolicy {
    policy(json!({"placementType": "PickN", "numberOfClusters": number, "topologySpreadConstraints": [
        {"topologyKey": "zone", "maxSkew": max_skew, "whenUnsatisfiable": action}]}))
}

/// Picked clusters with their topology scores, in the order of the changes.
fn picks(outcome: &Outcome) -> String {
    let text = |c: &BindingChange| {
        format!("{} {}", c.binding.cluster, c.binding.decision.cluster_score.unwrap().priority_score)
    };
    outcome.bindings.iter().map(text).collect::<Vec<_>>().join(", ")
}

const ZONES: [&str; 4] = ["a1 zone=z1", "a2 zone=z1", "a3 zone=z1", "b1 zone=z2"];

#[test]
fn example_10_do_not_schedule_stops_at_the_skew() {
    let outcome = run(Some(&spread(4, 1, "DoNotSchedule")), &ZONES, &[]).unwrap();
    assert_eq!(picks(&outcome), "b1 -1, a3 1, a2 -1");
    assert_eq!((decisions(&outcome).as_str(), outcome.fulfilled), ("+a2 +a3 +b1 -a1", false));
    assert_eq!(outcome.decisions[3].reason.to_string(), "ClusterUnschedulable, skew over zone is 2, wanted <= 1");
    assert_eq!(outcome.message, "3 of 4 clusters found");
}

#[test]
fn example_11_schedule_anyway_ranks_last() {
    let outcome = run(Some(&spread(4, 1, "ScheduleAnyway")), &ZONES, &[]).unwrap();
    assert_eq!(picks(&outcome), "b1 -1, a3 1, a2 -1, a1 -1000");
    assert_eq!((decisions(&outcome).as_str(), outcome.fulfilled), ("+a1 +a2 +a3 +b1", true));
}

/// Schedules one more cluster than the counts of zones say are there. Candidates are `name` or `name zone=z1`.
fn one_more(counts: &[usize], max_skew: i32, candidates: &[&str]) -> Outcome {
    let mut clusters: Vec<String> = candidates.iter().map(|line| (*line).to_owned()).collect();
    let mut bindings = Vec::new();
    for (zone, count) in counts.iter().enumerate() {
        clusters.push(format!("idle{zone} !dead zone=z{zone}"));
        for number in 0..*count {
            clusters.push(format!("m{zone}{number} zone=z{zone}"));
            bindings.push(format!("m{zone}{number} Bound 1"));
        }
    }
    let clusters: Vec<&str> = clusters.iter().map(String::as_str).collect();
    let lines: Vec<&str> = bindings.iter().map(String::as_str).collect();
    let number = i32::try_from(bindings.len() + 1).unwrap();
    run(Some(&spread(number, max_skew, "DoNotSchedule")), &clusters, &lines).unwrap()
}

fn rejects(outcome: &Outcome, cluster: &str, reason: &str) -> bool {
    let rejected = |d: &ClusterDecision| {
        !d.selected && d.cluster_name.as_str() == cluster && d.reason.to_string().contains(reason)
    };
    outcome.decisions.iter().any(rejected)
}

#[test]
fn example_12_a_unique_minimum_improves() {
    assert_eq!(picks(&one_more(&[1, 2, 2], 1, &["x zone=z0"])), "x 1");
}

#[test]
fn example_13_one_of_two_minima_changes_nothing() {
    assert_eq!(picks(&one_more(&[1, 1, 2], 1, &["x zone=z0"])), "x 0");
}

#[test]
fn example_14_an_improvement_may_still_violate() {
    for (counts, skew) in [([1, 1, 3], "is 2, wanted <= 1"), ([1, 4, 4], "is 2, wanted <= 1")] {
        let outcome = one_more(&counts, 1, &["x zone=z0"]);
        assert_eq!(picks(&outcome), "", "{counts:?}");
        assert!(rejects(&outcome, "x", skew), "{counts:?}: {:?}", outcome.decisions.last());
    }
}

#[test]
fn example_15_between_the_extremes() {
    let outcome = one_more(&[1, 2, 3], 2, &["x zone=z1", "y zone=z2"]);
    assert_eq!(picks(&outcome), "x 0");
    assert!(rejects(&outcome, "y", "is 3, wanted <= 2"));
}

#[test]
fn example_16_a_cluster_without_the_label_scores_nothing() {
    assert_eq!(picks(&one_more(&[0, 1], 1, &["x zone=z0", "u"])), "x 1");
    assert_eq!(picks(&one_more(&[1, 1], 1, &["x zone=z0", "u"])), "u 0");
}

#[test]
fn every_cycle_but_the_first_has_lost_the_obsolete_bonus() {
    // The first cycle prefers an obsolete binding, and takes the other one back before the second looks.
    let outcome = run(Some(&spread(2, 5, "ScheduleAnyway")), &["a", "b", "c"], &["a Bound 0", "b Bound 0"]).unwrap();
    assert_eq!(changes(&outcome), ["Create c Scheduled", "Patch b Bound", "Unschedule a Unscheduled"]);
    assert_eq!(decisions(&outcome), "+c +b -a");
}

#[test]
fn the_documents_spread_over_environments() {
    let text = json!({"placementType": "PickN", "numberOfClusters": 2, "topologySpreadConstraints":
        [{"maxSkew": 1, "topologyKey": "env", "whenUnsatisfiable": "DoNotSchedule"}]});
    let clusters = ["a env=prod", "b env=prod", "c env=canary", "d env=prod"];
    assert_eq!(picks(&run(Some(&policy(text)), &clusters, &[]).unwrap()), "d -1, c 1");
}

#[test]
fn the_documents_filter_and_rank_by_property() {
    let filter = policy(json!({"placementType": "PickAll", "affinity": {"clusterAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [{
            "labelSelector": {"matchLabels": {"region": "east"}},
            "propertySelector": {"matchExpressions": [{"name": "kubernetes.azure.com/node-count", "operator": "Ge", "values": ["5"]}]}}]}}}}));
    let clusters = [
        "a region=east @kubernetes.azure.com/node-count=5",
        "b region=east @kubernetes.azure.com/node-count=4",
        "c region=west @kubernetes.azure.com/node-count=9",
        "d region=east",
    ];
    let outcome = run(Some(&filter), &clusters, &[]).unwrap();
    let reasons: Vec<String> = outcome.decisions.iter().map(|d| d.reason.to_string()).collect();
    insta::assert_snapshot!(reasons.join("\n"), @r#"
    picked: a passed every filter (affinity score 0, topology spread score 0)
    ClusterUnschedulable, property kubernetes.azure.com/node-count is 4, wanted >= 5
    ClusterUnschedulable, label region is "west", wanted "east"
    ClusterUnschedulable, property kubernetes.azure.com/node-count is missing, wanted >= 5
    "#);
    let clusters = [
        "bravelion @resources.kubernetes-fleet.io/available-cpu=100 @cost=1",
        "smartfish @resources.kubernetes-fleet.io/available-cpu=20 @cost=0.2",
        "jumpingcat @resources.kubernetes-fleet.io/available-cpu=10 @cost=0.1",
    ];
    let ranked = |name: &str, order: &str| {
        let term = json!({"weight": 100, "preference": {"metricSorter": {"name": name, "sortOrder": order}}});
        affinities(preferred(json!([term]), 10), &clusters)
    };
    let cpu = "resources.kubernetes-fleet.io/available-cpu";
    assert_eq!(ranked(cpu, "Descending"), "bravelion 100, jumpingcat 0, smartfish 11");
    assert_eq!(ranked("cost", "Ascending"), "bravelion 0, jumpingcat 100, smartfish 89");
}

#[test]
fn a_namespaced_placement_goes_where_its_namespace_is() {
    let with = |names: Option<&[&str]>| {
        let namespaces = names.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        Cluster { namespaces, ..Cluster::default() }
    };
    let clusters = [("a", with(None)), ("b", with(Some(&[]))), ("c", with(Some(&["app"]))), ("d", with(Some(&["x"])))];
    let clusters: Fleet = clusters.into_iter().map(|(name, cluster)| (name.into(), cluster)).collect();
    let evaluate = |placement: &PlacementKey| {
        let (bad_values, bindings) = (BadValues::Error, &[]);
        schedule(&Request {
            placement,
            policy: None,
            policy_index: 0,
            clusters: &clusters,
            bindings,
            keep_held: false,
            bad_values,
            tenant: None,
        })
    };
    let outcome = evaluate(&PlacementKey::namespaced("app", "p")).unwrap();
    assert_eq!(decisions(&outcome), "+a +c -b -d");
    assert_eq!(
        outcome.decisions[2].reason.to_string(),
        "ClusterUnschedulable, namespace app is missing, wanted to exist"
    );
    assert_eq!(decisions(&evaluate(&key()).unwrap()), "+a +b +c +d");
}

#[test]
fn what_is_held_stays_eligible_where_asked() {
    let fixed = policy(json!({"placementType": "PickFixed", "clusterNames": ["a"]}));
    let all = policy(json!({}));
    let clusters = fleet(&["a !silent"]);
    let rows = [
        ("a Bound 0", true),
        ("a Scheduled 0", true),
        ("a Unscheduled 0 was=Bound", false),
        ("a Bound 0 deleting", false),
    ];
    for (line, kept) in rows {
        for (policy, keep_held) in [(&fixed, true), (&all, true), (&all, false)] {
            let bindings = [binding(line).into()];
            let (placement, bad_values) = (&key(), BadValues::Mismatch);
            let request = Request {
                placement,
                policy: Some(policy),
                policy_index: 1,
                clusters: &clusters,
                bindings: &bindings,
                keep_held,
                bad_values,
                tenant: None,
            };
            let is_picked = schedule(&request).unwrap().decisions[0].selected;
            assert_eq!(is_picked, kept && keep_held, "{line} {keep_held}");
        }
    }
}

#[test]
fn a_value_that_is_no_quantity() {
    let clusters = ["a @nodes=v1.30", "b @nodes=4"];
    let of = |policy: &PlacementPolicy, bad_values| {
        let (placement, clusters) = (&key(), &fleet(&clusters));
        schedule(&Request {
            placement,
            policy: Some(policy),
            policy_index: 1,
            clusters,
            bindings: &[],
            keep_held: false,
            bad_values,
            tenant: None,
        })
    };
    let required = policy(property("Ge", "1"));
    let outcome = of(&required, BadValues::Mismatch).unwrap();
    assert_eq!(decisions(&outcome), "+b -a");
    let reason = "ClusterUnschedulable, property nodes is v1.30, wanted >= 1, and it is no quantity";
    assert_eq!(outcome.decisions[1].reason.to_string(), reason);
    let ranked = policy(preferred(json!([sorted_by("nodes", "Descending", 5)]), 1));
    assert!(of(&ranked, BadValues::Mismatch).is_ok());
    for (policy, field) in [
        (&required, "clusterSelectorTerms[0].propertySelector.matchExpressions[0]"),
        (&ranked, "[0].preference.propertySorter"),
    ] {
        let error = of(policy, BadValues::Error).unwrap_err();
        assert!(matches!(&error, Error::BadValue { cluster, .. } if cluster.as_str() == "a"), "{error}");
        assert!(error.to_string().contains(field), "{error}");
    }
    // Nobody asks a cluster that another requirement stops first.
    let mut guarded = property("Ge", "1");
    guarded["affinity"]["clusterAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["clusterSelectorTerms"]
        [0]["labelSelector"] = json!({"matchLabels": {"env": "prod"}});
    assert!(of(&policy(guarded), BadValues::Error).is_ok());
}

#[test]
fn names_that_the_scheduler_cannot_read() {
    let named = |name: &str| {
        let mut value = property("Ge", "1");
        value["affinity"]["clusterAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["clusterSelectorTerms"]
            [0]["propertySelector"]["matchExpressions"][0]["name"] =
            json!(format!("resources.kubernetes-fleet.io/{name}"));
        run(Some(&policy(value)), &["a"], &[])
    };
    assert!(named("available-cpu").is_ok());
    for name in ["available-ephemeral-storage", "free-cpu", "available-", "cpu"] {
        assert!(matches!(named(name), Err(Error::BadRequirement { .. })), "{name}");
    }
}
