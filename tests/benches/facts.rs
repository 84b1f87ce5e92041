//! What the facts about one large member cost in time and memory. `cargo bench --bench facts`.

use divan::{AllocProfiler, Bencher, black_box};
use model::facts::{NodeStatus, PodSpec, PodStatus, Tally};
use serde_json::json;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const NODES: usize = 5_000;
const PODS: usize = 100_000;

fn main() {
    divan::main();
}

/// The parts of a node and of a pod that are added up.
fn parts() -> (NodeStatus, PodSpec, PodStatus) {
    let amounts = json!({"cpu": "15890m", "memory": "61255492Ki"});
    let container = json!({"resources": {"requests": {"cpu": "250m", "memory": "128Mi"}}});
    let read = "these are a status and a spec";
    (
        serde_json::from_value(json!({"capacity": amounts, "allocatable": amounts})).expect(read),
        serde_json::from_value(json!({"nodeName": "node-1", "containers": [container]})).expect(read),
        serde_json::from_value(json!({"phase": "Running"})).expect(read),
    )
}

/// Uids as they look; what is counted does not depend on them.
fn uid(number: usize) -> String {
    format!("{number:08x}-0000-4000-8000-{number:012x}")
}

fn fill(tally: &mut Tally) {
    let (node, pod, status) = parts();
    tally.list_nodes();
    for number in 0..NODES {
        tally.set_node(&uid(number), Some("Standard_D16s_v5"), &node);
    }
    tally.nodes_listed();
    tally.list_pods();
    for number in 0..PODS {
        tally.set_pod(&uid(number), &pod, &status);
    }
    tally.pods_listed();
}

#[divan::bench(sample_count = 10)]
fn lists_of_5000_nodes_and_100000_pods(bencher: Bencher<'_, '_>) {
    bencher.bench(|| {
        let mut tally = Tally::default();
        fill(&mut tally);
        tally
    });
}

/// The lists come again: what was known stays until they are complete.
#[divan::bench(sample_count = 10)]
fn the_same_lists_again(bencher: Bencher<'_, '_>) {
    let mut tally = Tally::default();
    fill(&mut tally);
    bencher.bench_local(|| fill(&mut tally));
}

#[divan::bench]
fn one_pod_comes_and_goes(bencher: Bencher<'_, '_>) {
    let mut tally = Tally::default();
    fill(&mut tally);
    let (_, pod, status) = parts();
    let uid = uid(PODS);
    bencher.bench_local(|| {
        tally.set_pod(black_box(&uid), &pod, &status);
        tally.delete_pod(black_box(&uid));
        tally.requested()
    });
}
