//! W1 to W19, W28, W38: prioritizers, totals and their order.

use super::*;

const MEMORY: &str = "ResourceAllocatableMemory";

#[test]
fn w1_to_w8_resources_scale_between_least_and_most() {
    let tens: Vec<String> = (0..=10).map(|n| n.to_string()).collect();
    let scale: Vec<&str> = tens.iter().map(String::as_str).collect();
    let table: Vec<(&str, &str, Vec<&str>, Vec<i64>)> = vec![
        ("w1", "memory", vec!["20", "60", "100"], vec![-100, 0, 100]),
        ("w2", "memory", vec!["50", "50", "50"], vec![100, 100, 100]),
        ("w2 zero", "memory", vec!["0", "0", "0"], vec![100, 100, 100]),
        ("w5", "cpu", vec!["10", "6", "2"], vec![100, 0, -100]),
        ("w5 in thousandths", "cpu", vec!["1", "600m", "200m"], vec![100, 0, -100]),
        ("w6", "memory", scale, vec![-100, -80, -60, -40, -19, 0, 19, 39, 60, 80, 100]),
        ("w7", "memory", vec!["8Gi", "16Gi", "64Gi"], vec![-100, -71, 100]),
        ("w8", "memory", vec!["0", "1", "3"], vec![-100, -33, 100]),
        ("w8 two", "memory", vec!["0", "2", "3"], vec![-100, 33, 100]),
    ];
    for (case, resource, amounts, wanted) in table {
        let clusters = amounts.iter().enumerate();
        let hub = hub(clusters.map(|(index, amount)| with_resource(&format!("c{index:02}"), resource, amount)));
        let prioritizer = if resource == "cpu" { "ResourceAllocatableCPU" } else { MEMORY };
        assert_eq!(values(&run(&hub, exact(prioritizer))), wanted, "{case}");
    }
}

#[test]
fn w3_w4_a_cluster_without_the_resource_is_in_the_middle() {
    let outcome = run(&plain(["c1", "c2", "c3"]), exact(MEMORY));
    assert_eq!((values(&outcome), outcome.misconfigured), (vec![0, 0, 0], None), "w3");
    let partial = member("c", json!({}), json!({"status": {"allocatable": {"memory": "20"}}}));
    let hub = hub([with_resource("a", "memory", "10"), with_resource("b", "memory", "30"), partial]);
    assert_eq!(values(&run(&hub, exact(MEMORY))), [-100, 100, 0], "w4");
    let mut order = explained(&hub, exact(MEMORY)).clusters;
    order.sort_by_key(|explained| explained.rank);
    assert_eq!(
        order.iter().map(|explained| explained.cluster_name.as_str()).collect::<Vec<_>>(),
        ["b", "c", "a"],
        "w4"
    );
}

#[test]
fn w9_a_negative_weight_prefers_the_smallest() {
    let mut spec = exact(MEMORY);
    spec["prioritizerPolicy"]["configurations"][0]["weight"] = json!(-2);
    spec["numberOfClusters"] = json!(1);
    let outcome = run(&with_memory(&[("c1", "60"), ("c2", "80"), ("c3", "100")]), spec);
    assert_eq!((values(&outcome), outcome.selected.ones().collect::<Vec<_>>()), (vec![200, 0, -200], vec![0]));
}

#[test]
fn w10_w11_balance_counts_decisions_of_others() {
    let mut hub = plain(["c1", "c2", "c3"]);
    others(&mut hub, &[&["c1", "c2"], &["c1", "c3"]]);
    hub.set_decisions(&key(), ["c1", "c1", "gone"]);
    assert_eq!(values(&run(&hub, exact("Balance"))), [-100, 0, 0], "w10");
    others(&mut hub, &[&["c1", "c2", "zz"], &["c2", "zz"], &["zz"]]);
    assert_eq!(values(&run(&hub, exact("Balance"))), [32, -32, 100], "w11");
    others(&mut hub, &[&[], &[], &[]]);
    hub.set_decisions(&Key::new("ns1", ""), ["c1"]);
    assert_eq!(values(&run(&hub, exact("Balance"))), [-100, 100, 100], "decisions of no placement count");
}

#[test]
fn w12_w13_balance_is_cut_before_it_is_doubled() {
    let tables: [(usize, usize, &[i64]); 2] =
        [(5, 0, &[100, 60, 18, -18, -60, -100]), (10, 1, &[80, 60, 40, 18, 0, -18, -38, -60, -80, -100])];
    for (largest, first, wanted) in tables {
        let names: Vec<String> = (0..=largest).map(|count| format!("c{count:02}")).collect();
        let mut hub = plain(names[first..].iter().map(String::as_str));
        let decisions: Vec<&str> = (first..=largest).flat_map(|n| vec![names[n].as_str(); n]).collect();
        others(&mut hub, &[&decisions]);
        assert_eq!(values(&run(&hub, exact("Balance"))), wanted, "largest {largest}");
    }
}

#[test]
fn w14_w15_steady_holds_what_balance_would_move() {
    let mut hub = plain(["c1", "c2", "c3"]);
    hub.set_decisions(&key(), ["c3"]);
    others(&mut hub, &[&["c2", "c3"], &["c1", "c2"]]);
    assert_eq!(cells(&hub, additive(1, &[])), [[0, 0], [-100, 0], [0, 100]], "w14");
    let outcome = run(&hub, additive(1, &[]));
    assert_eq!((values(&outcome), picked(&hub, &outcome)), (vec![0, -100, 100], vec!["c3".to_owned()]), "w14");
    let mut hub = plain(["c1", "c2", "c3"]);
    others(&mut hub, &[&["c1", "c2"]]);
    let outcome = run(&hub, additive(1, &[]));
    assert_eq!((values(&outcome), picked(&hub, &outcome)), (vec![-100, -100, 100], vec!["c3".to_owned()]), "w15");
}

fn add_on(weight: i32) -> Value {
    json!({"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "demo", "scoreName": "demo"}}, "weight": weight})
}

#[test]
fn w16_w17_additive_keeps_the_defaults_and_exact_does_not() {
    let mut hub = with_memory(&[("c1", "100"), ("c2", "50"), ("c3", "0")]);
    for (cluster, value) in [("c1", 30), ("c2", 40), ("c3", 50)] {
        score(&mut hub, cluster, value, None);
    }
    let mut spec = additive(2, &[("Balance", 3), (MEMORY, 1)]);
    spec["prioritizerPolicy"]["configurations"].as_array_mut().unwrap().push(add_on(1));
    let outcome = run(&hub, spec.clone());
    assert_eq!((values(&outcome), picked(&hub, &outcome)), (vec![430, 340, 250], vec!["c1".into(), "c2".into()]));
    assert_eq!(cells(&hub, spec), [[300, 0, 100, 30], [300, 0, 0, 40], [300, 0, -100, 50]], "w16");
    let mut spec = additive(2, &[("Balance", 3), (MEMORY, 1)]);
    spec["prioritizerPolicy"]["mode"] = json!("Exact");
    assert_eq!(cells(&hub, spec), [[300, 100], [300, 0], [300, -100]], "w17: 400, 300, 200");
}

#[test]
fn w18_an_expired_score_is_nothing_and_is_said() {
    let mut hub = plain(["c1", "c2"]);
    score(&mut hub, "c1", 80, Some("2026-03-01T11:59:59Z"));
    score(&mut hub, "c2", 10, Some("2026-03-01T12:00:00Z"));
    let spec = json!({"prioritizerPolicy": {"mode": "Exact", "configurations": [add_on(1)]}});
    let outcome = run(&hub, spec.clone());
    assert_eq!(values(&outcome), [0, 10]);
    let warning = outcome.warning.unwrap();
    assert_eq!((&*warning.plugin, &*warning.message), ("AddOn/demo/demo", "AddOnPlacementScores c1/demo expired"));
    assert_eq!(values(&run_at(&hub, spec, outcome.requeue_at.unwrap())), [0, 0], "asked again when it said so");
}

#[test]
fn w19_an_add_on_listed_twice_counts_twice_and_a_built_in_once() {
    let mut hub = with_memory(&[("c1", "1"), ("c2", "2")]);
    score(&mut hub, "c1", 10, None);
    let of = |configurations: Value| json!({"prioritizerPolicy": {"mode": "Exact", "configurations": configurations}});
    assert_eq!(values(&run(&hub, of(json!([add_on(2), add_on(3)])))), [50, 0]);
    let memory = |weight: i32| json!({"scoreCoordinate": {"builtIn": MEMORY}, "weight": weight});
    assert_eq!(values(&run(&hub, of(json!([memory(2), memory(3)])))), [-300, 300]);
}

/// Source: the reference's table of weights (2.5).
#[test]
fn weights_replace_add_and_disable() {
    let built_in = |name: &str, weight: Value| json!({"scoreCoordinate": {"builtIn": name}, "weight": weight});
    let with_add_on =
        json!({"scoreCoordinate": {"builtIn": "Balance", "addOn": {"resourceName": "r", "scoreName": "s"}}});
    let old_name = json!({"name": "Steady", "weight": 4});
    let table: [(&str, &str, Vec<Value>, Vec<i64>); 9] = [
        ("nothing", "", vec![], vec![100, 100]),
        ("nothing, exactly", "Exact", vec![], vec![]),
        ("replaced, not added", "Additive", vec![built_in("Balance", json!(3))], vec![300, 100]),
        ("disabled", "Additive", vec![built_in("Steady", json!(0))], vec![100]),
        ("the last of two", "Exact", vec![built_in("Steady", json!(2)), built_in("Steady", json!(3))], vec![300]),
        ("an add-on makes another of it", "Additive", vec![with_add_on], vec![100, 100, 100]),
        ("no weight is one", "Exact", vec![built_in("Steady", json!(null))], vec![100]),
        ("unknown and disabled", "Exact", vec![built_in("Spread", json!(0))], vec![]),
        ("the oldest spelling", "Exact", vec![old_name], vec![400]),
    ];
    let mut hub = plain(["c1"]);
    hub.set_decisions(&key(), ["c1"]);
    for (case, mode, configurations, wanted) in table {
        let configurations: Vec<Value> = configurations.iter().map(model::api::object::without_nulls).collect();
        let spec = json!({"prioritizerPolicy": {"mode": mode, "configurations": configurations}});
        assert_eq!(cells(&hub, spec), [wanted], "{case}");
    }
}

#[test]
fn w28_names_decide_between_equal_totals() {
    let hub = plain(["b", "a", "c"]);
    assert_eq!(picked(&hub, &run(&hub, additive(2, &[]))), ["a", "b"]);
}

#[test]
fn w38_the_note_of_scores_is_bounded() {
    let mut hub = plain(["c1", "c2"]);
    others(&mut hub, &[&["c1", "c2"], &["c2"]]);
    assert_eq!(run(&hub, exact("Balance")).score_note(&hub).unwrap(), "c1:0 c2:-100 ");
    assert_eq!(run(&plain([]), json!({})).score_note(&hub), None);
    // Items of ten characters: the hundredth fills the thousand, the one after it does not fit.
    let names: Vec<String> = (0..101).map(|n| format!("c{n:04}")).collect();
    let hundred = plain(names[..100].iter().map(String::as_str));
    let note = run(&hundred, json!({})).score_note(&hundred).unwrap();
    assert_eq!((note.len(), note.contains('.')), (1000, false));
    let more = plain(names.iter().map(String::as_str));
    assert_eq!(run(&more, json!({})).score_note(&more).unwrap(), format!("{note}......"));
}
