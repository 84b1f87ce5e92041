//! W1 to W19, W28, W38, and the guide's three examples.

use super::*;

const MEMORY: &str = "ResourceAllocatableMemory";

#[test]
fn w1_to_w8_resources_scale_between_least_and_most() {
    let tens: Vec<String> = (0..=10).map(|n| n.to_string()).collect();
    let scale: Vec<&str> = tens.iter().map(String::as_str).collect();
    let table: Vec<(&str, Vec<&str>, Vec<i64>)> = vec![
        ("w1", vec!["20", "60", "100"], vec![-100, 0, 100]),
        ("w2", vec!["50", "50", "50"], vec![100, 100, 100]),
        ("w2 zero", vec!["0", "0", "0"], vec![100, 100, 100]),
        ("w5", vec!["10", "6", "2"], vec![100, 0, -100]),
        ("w6", scale, vec![-100, -80, -60, -40, -19, 0, 19, 39, 60, 80, 100]),
        ("w7", vec!["8Gi", "16Gi", "64Gi"], vec![-100, -71, 100]),
        ("w8", vec!["0", "1", "3"], vec![-100, -33, 100]),
        ("w8 two", vec!["0", "2", "3"], vec![-100, 33, 100]),
    ];
    for (case, amounts, wanted) in table {
        let clusters = amounts.iter().enumerate();
        let hub = hub(clusters.map(|(index, amount)| with_resource(&format!("c{index:02}"), "memory", amount)));
        assert_eq!(values(&run(&hub, exact(MEMORY))), wanted, "{case}");
    }
    let outcome = run(&plain(["c1", "c2", "c3"]), exact(MEMORY));
    assert_eq!((values(&outcome), outcome.misconfigured), (vec![0, 0, 0], None), "w3");
    let partial = member("c", json!({}), json!({"status": {"allocatable": {"memory": "20"}}}));
    let hub = hub([with_resource("a", "memory", "10"), with_resource("b", "memory", "30"), partial]);
    assert_eq!(values(&run(&hub, exact(MEMORY))), [-100, 100, 0], "w4");
}

#[test]
fn w9_a_negative_weight_prefers_the_smallest() {
    let mut spec = exact(MEMORY);
    spec["prioritizerPolicy"]["configurations"][0]["weight"] = json!(-2);
    let hub = with_memory(&[("c1", "60"), ("c2", "80"), ("c3", "100")]);
    assert_eq!(values(&run(&hub, spec)), [200, 0, -200]);
}

#[test]
fn w10_w11_balance_counts_decisions_of_others() {
    let mut hub = plain(["c1", "c2", "c3"]);
    others(&mut hub, &[&["c1", "c2"], &["c1", "c3"]]);
    hub.set_decisions(&key(), ["c1", "c1", "gone"]);
    assert_eq!(values(&run(&hub, exact("Balance"))), [-100, 0, 0], "w10");
    others(&mut hub, &[&["c1", "c2", "zz"], &["c2", "zz"], &["zz"]]);
    assert_eq!(values(&run(&hub, exact("Balance"))), [32, -32, 100], "w11");
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
    let outcome = run(&hub, additive(1, &[]));
    assert_eq!((values(&outcome), picked(&hub, &outcome)), (vec![0, -100, 100], vec!["c3".to_owned()]), "w14");
    let mut hub = plain(["c1", "c2", "c3"]);
    others(&mut hub, &[&["c1", "c2"]]);
    assert_eq!(values(&run(&hub, additive(1, &[]))), [-100, -100, 100], "w15");
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
    let outcome = run(&hub, spec);
    assert_eq!((values(&outcome), picked(&hub, &outcome)), (vec![430, 340, 250], vec!["c1".into(), "c2".into()]));
    let mut spec = additive(2, &[("Balance", 3), (MEMORY, 1)]);
    spec["prioritizerPolicy"]["mode"] = json!("Exact");
    assert_eq!(values(&run(&hub, spec)), [400, 300, 200], "w17");
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

#[test]
fn w28_w38_names_decide_and_the_note_is_bounded() {
    let hub = plain(["b", "a", "c"]);
    assert_eq!(picked(&hub, &run(&hub, additive(2, &[]))), ["a", "b"], "w28");
    let hub = with_memory(&[("c1", "2"), ("c2", "1")]);
    assert_eq!(run(&hub, exact(MEMORY)).score_note(&hub).unwrap(), "c1:100 c2:-100 ", "w38");
    let many = named(500);
    let note = run(&many, json!({})).score_note(&many).unwrap();
    assert!(note.ends_with(" ......") && note.len() > 990 && note.len() <= 1006, "{note}");
}

type Run<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str], &'a [(&'a str, i32)], &'a [i64], [&'a str; 2]);

#[test]
fn the_guides_examples_in_full() {
    let three: &[(&str, &str)] = &[("cluster1", "60M"), ("cluster2", "80M"), ("cluster3", "100M")];
    let with = |memory: &'static str| [three, &[("cluster4", memory)]].concat();
    let (hundred, more, most) = (with("100M"), with("101M"), with("150M"));
    let held: &[&str] = &["cluster2", "cluster3"];
    let (stay, moved) = (["cluster2", "cluster3"], ["cluster3", "cluster4"]);
    let (one, thrice): (&[(&str, i32)], &[(&str, i32)]) = (&[(MEMORY, 1)], &[(MEMORY, 3)]);
    let sticky: &[(&str, i32)] = &[(MEMORY, 1), ("Steady", 3)];
    let table: [Run<'_>; 9] = [
        ("1 first", three, &[], one, &[0, 100, 200], stay),
        ("1 again", three, held, one, &[0, 200, 300], stay),
        ("1 with 100", &hundred, held, one, &[0, 200, 300, 200], stay),
        ("1 with 101", &more, held, one, &[0, 198, 295, 200], moved),
        ("1 with 150", &most, held, one, &[0, 145, 189, 200], moved),
        ("2 first", three, &[], thrice, &[-200, 100, 400], stay),
        ("2 with 100", &hundred, held, thrice, &[-200, 200, 500, 400], moved),
        ("3 first", three, &[], sticky, &[0, 100, 200], stay),
        ("3 with 150", &most, held, sticky, &[0, 345, 389, 200], stay),
    ];
    for (case, clusters, held, weights, wanted, picks) in table {
        let mut hub = with_memory(clusters);
        hub.set_decisions(&key(), held.iter().copied());
        let outcome = run(&hub, additive(2, weights));
        assert_eq!(
            (values(&outcome).as_slice(), picked(&hub, &outcome)),
            (wanted, picks.map(str::to_owned).to_vec()),
            "{case}"
        );
    }
}
