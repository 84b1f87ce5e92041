//! The guide's three examples with every cell of their tables, and the file that says the same.

use super::*;

const MEMORY: &str = "ResourceAllocatableMemory";
const THREE: [(&str, &str); 3] = [("cluster1", "60M"), ("cluster2", "80M"), ("cluster3", "100M")];
const HELD: &[&str] = &["cluster2", "cluster3"];
const STAY: [&str; 2] = ["cluster2", "cluster3"];
const MOVED: [&str; 2] = ["cluster3", "cluster4"];

/// A run: who has the workload, the memory of a fourth cluster, and by cluster what Balance, Steady and memory add.
struct Run {
    case: &'static str,
    held: &'static [&'static str],
    fourth: Option<&'static str>,
    cells: &'static [[i64; 3]],
    picks: [&'static str; 2],
}

fn check(weights: &[(&str, i32)], runs: &[Run]) {
    for Run { case, held, fourth, cells: wanted, picks } in runs {
        let mut clusters = THREE.to_vec();
        clusters.extend(fourth.map(|memory| ("cluster4", memory)));
        let mut hub = with_memory(&clusters);
        hub.set_decisions(&key(), held.iter().copied());
        assert_eq!(cells(&hub, additive(2, weights)), *wanted, "{case}");
        let outcome = run(&hub, additive(2, weights));
        let totals: Vec<i64> = wanted.iter().map(|row| row.iter().sum()).collect();
        assert_eq!((values(&outcome), picked(&hub, &outcome)), (totals, picks.map(str::to_owned).to_vec()), "{case}");
    }
}

/// With 150 MB cluster1 has 0, where copies of the guide print 200. With 101 MB the newcomer moves in, with 100 MB its name
/// comes too late.
#[test]
fn example_1_memory_of_weight_1() {
    let first = &[[100, 0, -100], [100, 0, 0], [100, 0, 100]];
    check(
        &[(MEMORY, 1)],
        &[
            Run { case: "first", held: &[], fourth: None, cells: first, picks: STAY },
            Run {
                case: "first, once more",
                held: HELD,
                fourth: None,
                cells: &[[100, 0, -100], [100, 100, 0], [100, 100, 100]],
                picks: STAY,
            },
            Run {
                case: "100",
                held: HELD,
                fourth: Some("100M"),
                cells: &[[100, 0, -100], [100, 100, 0], [100, 100, 100], [100, 0, 100]],
                picks: STAY,
            },
            Run {
                case: "101",
                held: HELD,
                fourth: Some("101M"),
                cells: &[[100, 0, -100], [100, 100, -2], [100, 100, 95], [100, 0, 100]],
                picks: MOVED,
            },
            Run {
                case: "150",
                held: HELD,
                fourth: Some("150M"),
                cells: &[[100, 0, -100], [100, 100, -55], [100, 100, -11], [100, 0, 100]],
                picks: MOVED,
            },
        ],
    );
    let hub = with_memory(&THREE);
    let note = run(&hub, additive(2, &[(MEMORY, 1)])).score_note(&hub).unwrap();
    assert_eq!(note, "cluster1:0 cluster2:100 cluster3:200 ");
}

#[test]
fn example_2_memory_of_weight_3() {
    check(
        &[(MEMORY, 3)],
        &[
            Run {
                case: "first",
                held: &[],
                fourth: None,
                cells: &[[100, 0, -300], [100, 0, 0], [100, 0, 300]],
                picks: STAY,
            },
            Run {
                case: "100",
                held: HELD,
                fourth: Some("100M"),
                cells: &[[100, 0, -300], [100, 100, 0], [100, 100, 300], [100, 0, 300]],
                picks: MOVED,
            },
        ],
    );
}

#[test]
fn example_3_steady_of_weight_3() {
    check(
        &[(MEMORY, 1), ("Steady", 3)],
        &[
            Run {
                case: "first",
                held: &[],
                fourth: None,
                cells: &[[100, 0, -100], [100, 0, 0], [100, 0, 100]],
                picks: STAY,
            },
            Run {
                case: "150",
                held: HELD,
                fourth: Some("150M"),
                cells: &[[100, 0, -100], [100, 300, -55], [100, 300, -11], [100, 0, 100]],
                picks: STAY,
            },
        ],
    );
}

/// The guide's file, in its v1alpha1 spelling: memory once, Steady three times, an add-on's score once, and no Balance.
#[test]
fn the_file_of_the_guide_is_read_as_it_stands() {
    let text = include_str!("../../../../tests/fixtures/examples/ocm-placement.yaml");
    let document: Value = serde_yaml::from_str(text).unwrap();
    let kind = model::api::table::lookup("cluster.open-cluster-management.io", "Placement").unwrap();
    assert!(kind.check(&document).is_ok());
    let spec = document["spec"].clone();
    let policy = policy(spec.clone());
    assert_eq!(policy.complaints(), []);
    let cluster = |name: &str, set: &str, vendor: &str, memory: &str| {
        let status = json!({"allocatable": {"memory": memory}, "capacity": {"memory": memory}});
        member(name, json!({SET_LABEL: set, "vendor": vendor}), json!({"status": status}))
    };
    let mut hub = Hub::new(
        [
            cluster("cluster1", "clusterset1", "OpenShift", "60M"),
            cluster("cluster2", "clusterset1", "OpenShift", "80M"),
            cluster("cluster3", "clusterset2", "OpenShift", "100M"),
            cluster("cluster4", "clusterset2", "Other", "1000M"),
            cluster("cluster5", "clusterset3", "OpenShift", "1000M"),
        ]
        .into(),
    );
    for set in ["clusterset1", "clusterset2", "clusterset3"] {
        hub.set_set(set, Some(serde_json::from_value(json!({})).unwrap()));
        hub.set_binding("ns1", set, true);
    }
    let ratio = json!({"scores": [{"name": "cpuratio", "value": 7}]});
    hub.set_score("default", &ClusterName::from("cluster1"), Some(serde_json::from_value(ratio).unwrap()));
    hub.set_decisions(&Key::new("ns1", "placement"), ["cluster2"]);
    let key = Key::new("ns1", "placement");
    let request =
        Request { key: &key, policy: &policy, hub: &hub, now: now(), on_misconfigured: OnMisconfigured::Withdraw };
    let outcome = schedule(&request).unwrap();
    assert_eq!(values(&outcome), [-100 + 7, 300, 100]);
    assert_eq!(picked(&hub, &outcome), ["cluster1", "cluster2", "cluster3"]);
    assert_eq!(outcome.satisfied.message, "1 cluster decisions unscheduled", "the file asks for four");
    let explanation = explain(&request).unwrap();
    let filters = ["cluster4", "cluster5"].map(|name| of(&explanation, name).rejected.as_ref().unwrap().filter.clone());
    assert_eq!(filters, ["Predicate", "ManagedClusterSet"]);
}
