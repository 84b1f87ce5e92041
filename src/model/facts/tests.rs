use proptest::prelude::*;
use serde_json::json;

use super::*;

const MIB: u64 = 1 << 20;

fn node(cpu: &str, memory: &str) -> NodeStatus {
    let (capacity, allocatable) = (json!({"cpu": "8", "memory": "32Gi"}), json!({"cpu": cpu, "memory": memory}));
    serde_json::from_value(json!({"capacity": capacity, "allocatable": allocatable})).expect("a node's status")
}

fn pod(spec: Value) -> PodSpec {
    serde_json::from_value(spec).expect("a pod's spec")
}

fn status(phase: &str) -> PodStatus {
    serde_json::from_value(json!({"phase": phase})).expect("a pod's status")
}

/// A container that asks for thousandths of a core and MiB.
fn asks(cpu: u64, memory: u64) -> Value {
    json!({"name": "c", "resources": {"requests": {"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")}}})
}

fn sidecar(cpu: u64, memory: u64) -> Value {
    let mut container = asks(cpu, memory);
    container["restartPolicy"] = json!("Always");
    container
}

fn bound(cpu: u64, memory: u64) -> PodSpec {
    pod(json!({"nodeName": "n", "containers": [asks(cpu, memory)]}))
}

/// Something that happens to a tally.
type Step = fn(&mut Tally);

/// A tally whose first lists are complete and empty.
fn empty() -> Tally {
    let mut tally = Tally::default();
    tally.list_nodes();
    tally.nodes_listed();
    tally.list_pods();
    tally.pods_listed();
    tally
}

fn facts(tally: &Tally) -> Facts {
    let unknown = || "not listed".to_owned();
    Facts::new(tally.nodes().ok_or_else(unknown), tally.requested().ok_or_else(unknown))
}

#[test]
fn what_a_pod_asks_for() {
    let rows = [
        ("nothing", json!({}), (0, 0)),
        ("no resources", json!({"containers": [{"name": "c"}]}), (0, 0)),
        ("limits alone are no requests", json!({"containers": [{"resources": {"limits": {"cpu": "1"}}}]}), (0, 0)),
        ("all containers together", json!({"containers": [asks(100, 64), asks(250, 1)]}), (350, 65)),
        ("a small init container", json!({"containers": [asks(100, 64)], "initContainers": [asks(50, 8)]}), (100, 64)),
        (
            "the largest init container, by each resource",
            json!({"containers": [asks(100, 64)], "initContainers": [asks(400, 8), asks(200, 128)]}),
            (400, 128),
        ),
        (
            "a sidecar runs beside the containers",
            json!({"containers": [asks(100, 64)], "initContainers": [sidecar(50, 8)]}),
            (150, 72),
        ),
        (
            "a sidecar runs beside the init containers after it",
            json!({"containers": [asks(100, 64)], "initContainers": [sidecar(50, 8), asks(400, 8)]}),
            (450, 72),
        ),
        (
            "and not beside those before it",
            json!({"containers": [asks(100, 64)], "initContainers": [asks(400, 8), sidecar(50, 8)]}),
            (400, 72),
        ),
        (
            "sidecars add up",
            json!({"initContainers": [sidecar(50, 8), sidecar(30, 8), asks(10, 100), sidecar(5, 5)], "containers": [asks(1, 1)]}),
            (90, 116),
        ),
        (
            "overhead comes on top",
            json!({"containers": [asks(100, 64)], "initContainers": [asks(400, 8)], "overhead": {"cpu": "30m", "memory": "6Mi"}}),
            (430, 70),
        ),
        (
            "the pod's own requests stand for its containers', by each resource",
            json!({"containers": [asks(100, 64)], "resources": {"requests": {"cpu": "2"}}, "overhead": {"cpu": "1m"}}),
            (2001, 64),
        ),
        (
            "extended resources are counted apart",
            json!({"containers": [{"resources": {"requests": {"nvidia.com/gpu": "1", "cpu": "1"}}}]}),
            (1000, 0),
        ),
        (
            "what is no quantity counts as nothing",
            json!({"containers": [{"resources": {"requests": {"cpu": "much", "memory": "-1Mi"}}}]}),
            (0, 0),
        ),
    ];
    for (name, spec, (cpu_milli, mib)) in rows {
        assert_eq!(pod(spec).request().0, Amounts { cpu_milli, memory_bytes: mib * MIB }, "{name}");
    }
}

#[test]
fn fractions_are_added_before_they_are_rounded_up() {
    let quarter = json!({"resources": {"requests": {"cpu": "250u", "memory": "250m"}}});
    let spec = pod(json!({"containers": vec![quarter; 5]}));
    assert_eq!(spec.request().0, Amounts { cpu_milli: 2, memory_bytes: 2 });
    let huge = json!({"resources": {"requests": {"cpu": "1e28", "memory": "1e28"}}});
    let spec = pod(json!({"containers": [huge]}));
    assert_eq!(spec.request().0, Amounts { cpu_milli: u64::MAX, memory_bytes: u64::MAX }, "no overflow");
}

#[test]
fn quantities_are_written_as_kubernetes_writes_them() {
    let rows = [
        (0, "0", 0, "0"),
        (1, "1m", 1, "1"),
        (2500, "2500m", 1024, "1Ki"),
        (3000, "3", 1536, "1536"),
        (11_500, "11500m", 16_393_244 * 1024, "16393244Ki"),
        (2_000_000, "2k", 8 << 30, "8Gi"),
        (2_500_000, "2500", 1536 << 20, "1536Mi"),
    ];
    for (cpu_milli, cpu, memory_bytes, memory) in rows {
        let totals = Totals { cpu_milli, memory_bytes, ..Totals::default() };
        assert_eq!((totals.cpu().as_str(), totals.memory().as_str()), (cpu, memory));
        for (text, nanos) in [(cpu, cpu_milli * 1_000_000), (memory, memory_bytes * 1_000_000_000)] {
            let read = crate::api::check::quantity_nanos(text).expect("a quantity");
            assert_eq!(u128::try_from(read), Ok(nanos), "{text} is read back exactly");
        }
    }
}

#[test]
fn nodes_and_pods_come_change_and_go() {
    let mut tally = empty();
    let rows: [(&str, Step, [&str; 4]); 14] = [
        ("nothing", |_| {}, ["0", "0", "0", "0"]),
        ("a node", |t| t.set_node("n1", None, &node("4", "16Gi")), ["1", "8", "4", "16Gi"]),
        ("the same again", |t| t.set_node("n1", None, &node("4", "16Gi")), ["1", "8", "4", "16Gi"]),
        ("a second one", |t| t.set_node("n2", None, &node("2500m", "8Gi")), ["2", "16", "6500m", "24Gi"]),
        ("a change", |t| t.set_node("n2", None, &node("3", "8Gi")), ["2", "16", "7", "24Gi"]),
        ("a pod", |t| t.set_pod("p1", &bound(1500, 1024), &status("Running")), ["2", "16", "5500m", "23Gi"]),
        ("the same again", |t| t.set_pod("p1", &bound(1500, 1024), &status("Running")), ["2", "16", "5500m", "23Gi"]),
        (
            "one without a node",
            |t| t.set_pod("p2", &pod(json!({"containers": [asks(1, 1)]})), &status("Pending")),
            ["2", "16", "5500m", "23Gi"],
        ),
        ("it is bound", |t| t.set_pod("p2", &bound(500, 0), &status("Pending")), ["2", "16", "5", "23Gi"]),
        ("it is done", |t| t.set_pod("p2", &bound(500, 0), &status("Succeeded")), ["2", "16", "5500m", "23Gi"]),
        (
            "too much, of cpu only",
            |t| t.set_pod("p3", &bound(9000, 1024), &status("Running")),
            ["2", "16", "0", "22Gi"],
        ),
        ("its end", |t| t.delete_pod("p3"), ["2", "16", "5500m", "23Gi"]),
        ("the end of what is not there", |t| t.delete_pod("p3"), ["2", "16", "5500m", "23Gi"]),
        ("a node goes before its pods", |t| t.delete_node("n1"), ["1", "8", "1500m", "7Gi"]),
    ];
    for (name, step, [count, total_cpu, cpu, memory]) in rows {
        step(&mut tally);
        let properties = facts(&tally).properties();
        let of = |name: &str| properties.get(name).map(String::as_str);
        assert_eq!(of(NODE_COUNT), Some(count), "{name}");
        assert_eq!(of(NODE_COUNT_AZURE), Some(count), "{name}");
        assert_eq!(of("resources.kubernetes-fleet.io/total-cpu"), Some(total_cpu), "{name}");
        assert_eq!(of("resources.kubernetes-fleet.io/available-cpu"), Some(cpu), "{name}");
        assert_eq!(of("resources.kubernetes-fleet.io/available-memory"), Some(memory), "{name}");
        assert_eq!(properties.len(), 8, "{name}");
    }
}

#[test]
fn a_list_replaces_what_was_known_when_it_is_complete() {
    let mut tally = empty();
    tally.set_node("old", None, &node("4", "16Gi"));
    tally.set_pod("old", &bound(100, 0), &status("Running"));
    tally.list_nodes();
    tally.list_pods();
    tally.set_node("new", None, &node("2", "8Gi"));
    tally.set_pod("new", &bound(200, 0), &status("Running"));
    assert_eq!(tally.nodes().map(|n| n.count), Some(2), "until then nothing is gone");
    tally.list_nodes();
    tally.set_node("newest", None, &node("1", "4Gi"));
    tally.nodes_listed();
    tally.pods_listed();
    assert_eq!(tally.nodes().map(|n| (n.count, n.allocatable.cpu_milli)), Some((1, 1000)), "a list may begin twice");
    assert_eq!(tally.requested().map(|r| r.cpu_milli), Some(200));
}

#[test]
fn what_is_not_known_has_no_property_and_a_reason() {
    let (nodes, requested) = (NodeFacts { count: 3, ..NodeFacts::default() }, Totals::default());
    let no = |what: &str| format!("{what} may not be read");
    let rows = [
        ("both", Facts::new(Ok(nodes.clone()), Ok(requested.clone())), 8, None),
        ("nodes", Facts::new(Ok(nodes), Err(no("pods"))), 6, Some("pods may not be read")),
        ("pods", Facts::new(Err(no("nodes")), Ok(requested)), 0, Some("nodes may not be read")),
        ("none", Facts::new(Err(no("nodes")), Err(no("pods"))), 0, Some("nodes may not be read; pods may not be read")),
    ];
    for (name, facts, count, complaint) in rows {
        assert_eq!(facts.properties().len(), count, "{name}");
        assert_eq!(facts.complaint().as_deref(), complaint, "{name}");
    }
    assert_eq!(facts(&Tally::default()).properties().len(), 0, "before the first lists");
}

#[test]
fn extended_resources_and_machine_types_are_added_up() {
    let with = |gpus: &str| -> NodeStatus {
        let amounts =
            json!({"cpu": "4", "nvidia.com/gpu": gpus, "hugepages-2Mi": "1Gi", "attachable.kubernetes.io/x": "9"});
        serde_json::from_value(json!({"capacity": amounts, "allocatable": amounts})).expect("a node's status")
    };
    let asks = |gpus: u32| json!({"resources": {"requests": {"nvidia.com/gpu": gpus.to_string()}}});
    let mut tally = empty();
    let of = |tally: &Tally| -> Vec<String> {
        let properties = facts(tally).properties().into_iter();
        let named = properties.filter(|(name, _)| name.contains("gpu") || name.contains("vm-sizes"));
        named.map(|(name, value)| format!("{}={value}", name.split_once('/').expect("a prefix").1)).collect()
    };
    tally.set_node("a", Some("Standard_D4"), &with("8"));
    tally.set_node("b", Some("Standard_D4"), &with("0"));
    tally.set_node("c", Some("p4d.24xlarge"), &node("4", "1Gi"));
    tally.set_node("d", None, &with("1"));
    let several = json!({"nodeName": "a", "containers": [asks(1), asks(2)], "initContainers": [asks(5)]});
    tally.set_pod("p", &pod(several), &status("Running"));
    let gpus = ["allocatable-nvidia.com/gpu=9", "available-nvidia.com/gpu=4", "total-nvidia.com/gpu=9"];
    assert_eq!(of(&tally), [&["vm-sizes/Standard_D4/count=2", "vm-sizes/p4d.24xlarge/count=1"][..], &gpus].concat());
    tally.set_node("a", Some("Standard_D8"), &with("2"));
    tally.delete_node("c");
    let gpus = ["allocatable-nvidia.com/gpu=3", "available-nvidia.com/gpu=0", "total-nvidia.com/gpu=3"];
    assert_eq!(of(&tally), [&["vm-sizes/Standard_D4/count=1", "vm-sizes/Standard_D8/count=1"][..], &gpus].concat());
    for uid in ["a", "d"] {
        tally.delete_node(uid);
    }
    assert_eq!(of(&tally), ["vm-sizes/Standard_D4/count=1"], "what is zero is not there");
}

#[test]
fn git_states_properties_by_status_and_annotation() {
    let mut member = MemberCluster {
        status: Some(json!({
            "properties": {"a": {"value": "1"}, "b": {"value": 2}, "c": {"value": []}},
            "resourceUsage": {"capacity": {"cpu": "8"}, "available": {"memory": "1Gi", "x": null}},
        })),
        ..MemberCluster::default()
    };
    member.annotations.insert(annotations::PROPERTIES.into(), r#"{"a": "5", "cost": 0.25}"#.into());
    let found = stated(&member);
    let lines: Vec<String> = found.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        lines,
        [
            "a=5",
            "b=2",
            "cost=0.25",
            "resources.kubernetes-fleet.io/available-memory=1Gi",
            "resources.kubernetes-fleet.io/total-cpu=8",
        ]
    );
    assert_eq!(
        resource_usage(&found),
        BTreeMap::from([
            ("available", BTreeMap::from([("memory".to_owned(), "1Gi".to_owned())])),
            ("capacity", BTreeMap::from([("cpu".to_owned(), "8".to_owned())])),
        ])
    );
    let many: BTreeMap<String, u32> = (0..1000).map(|n| (format!("p{n:04}"), n)).collect();
    member.annotations.insert(annotations::PROPERTIES.into(), json!(many).to_string());
    assert_eq!(stated(&member).len(), STATED_MAX);
}

/// Something that happens to one of a few nodes and pods.
#[derive(Clone, Debug)]
enum Event {
    Node(u8, u32, u32),
    NodeGone(u8),
    Pod(u8, u32, u32, bool),
    PodGone(u8),
}

fn event() -> impl Strategy<Value = Event> {
    let (uid, amount) = (0..6u8, 0..5000u32);
    prop_oneof![
        (uid.clone(), amount.clone(), amount.clone()).prop_map(|(uid, cpu, mib)| Event::Node(uid, cpu, mib)),
        uid.clone().prop_map(Event::NodeGone),
        (uid.clone(), amount.clone(), amount, any::<bool>())
            .prop_map(|(uid, cpu, mib, on)| Event::Pod(uid, cpu, mib, on)),
        uid.prop_map(Event::PodGone),
    ]
}

fn count(tally: &mut Tally, event: &Event) {
    match event {
        Event::Node(uid, cpu, mib) => {
            tally.set_node(&uid.to_string(), None, &node(&format!("{cpu}m"), &format!("{mib}Mi")));
        }
        Event::NodeGone(uid) => tally.delete_node(&uid.to_string()),
        Event::Pod(uid, cpu, mib, on) => {
            let spec = if *on { bound((*cpu).into(), (*mib).into()) } else { PodSpec::default() };
            tally.set_pod(&uid.to_string(), &spec, &status("Running"));
        }
        Event::PodGone(uid) => tally.delete_pod(&uid.to_string()),
    }
}

fn count_all<'a>(tally: &mut Tally, events: impl Iterator<Item = &'a Event>) {
    for event in events {
        count(tally, event);
    }
}

proptest! {
    /// Whatever happened in whatever order, with lists in between: the sums are those of what is there in the end.
    #[test]
    fn sums_are_those_of_what_is_there(events in prop::collection::vec((event(), any::<bool>()), 0..60)) {
        let mut tally = empty();
        let mut last: BTreeMap<(bool, u8), Event> = BTreeMap::new();
        for (event, lists) in &events {
            if *lists {
                // A watch that fell behind lists what is there, and continues from that.
                tally.list_nodes();
                tally.list_pods();
                count_all(&mut tally, last.values());
                tally.pods_listed();
                tally.nodes_listed();
            }
            count(&mut tally, event);
            match event {
                Event::Node(uid, ..) => drop(last.insert((false, *uid), event.clone())),
                Event::NodeGone(uid) => drop(last.remove(&(false, *uid))),
                Event::Pod(uid, ..) => drop(last.insert((true, *uid), event.clone())),
                Event::PodGone(uid) => drop(last.remove(&(true, *uid))),
            }
        }
        let mut scratch = empty();
        count_all(&mut scratch, last.values());
        prop_assert_eq!(facts(&tally), facts(&scratch));
        let cpu: u64 = last.values().map(|e| if let Event::Node(_, cpu, _) = e { u64::from(*cpu) } else { 0 }).sum();
        prop_assert_eq!(facts(&tally).nodes.map(|n| n.allocatable.cpu_milli), Ok(cpu.into()));
    }
}
