//! B6: many placements over many clusters. `cargo bench --bench schedule` prints one JSON object.
//!
//! Mixed policies, three of ten of them Open Cluster Management's, in full and for the placements that a change affects;
//! times are medians in milliseconds. The rows double clusters or placements, so a cost that grows faster than the input shows
//! as a ratio beyond two.

#![allow(unreachable_pub, reason = "nothing is outside of a benchmark")]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the numbers are small or scattered")]

mod ocm;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use model::api::cluster::{Taint, TaintEffect};
use model::api::placement::PlacementPolicy;
use model::cluster::Cluster;
use model::id::PlacementKey;
use model::records::Binding;
use rayon::prelude::*;
use schedule::reads::{Readers, Reads};
use schedule::{Action, BadValues, Fleet, FleetChange, Outcome, Request, schedule};
use serde_json::{Value, json};

const CLUSTERS: usize = 10_000;
const PLACEMENTS: usize = 1000;
/// Measurements of each kind; the median counts.
const ROUNDS: usize = 9;
const CPU: &str = "resources.kubernetes-fleet.io/available-cpu";
const NODES: &str = "kubernetes-fleet.io/node-count";

/// Scatters a number; the same every time.
fn scatter(number: usize, salt: usize) -> usize {
    let mixed = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(salt as u32 * 7 + 11);
    (mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 33) as usize
}

fn cluster(number: usize) -> Cluster {
    let labels = [
        ("kubernetes-fleet.io/member-name", format!("member-{number:05}")),
        ("env", ["dev", "staging", "prod"][scatter(number, 1) % 3].to_owned()),
        ("region", format!("region-{}", scatter(number, 2) % 20)),
        ("zone", format!("zone-{}", scatter(number, 3) % 60)),
        ("tier", format!("t{}", scatter(number, 4) % 4)),
    ];
    let properties = [
        (CPU, (scatter(number, 5) % 1000).to_string()),
        ("resources.kubernetes-fleet.io/total-cpu", "1000".to_owned()),
        ("resources.kubernetes-fleet.io/available-memory", format!("{}Gi", scatter(number, 6) % 4000)),
        (NODES, (scatter(number, 7) % 500).to_string()),
    ];
    let taint = || Taint { key: "maintenance".into(), value: String::new(), effect: TaintEffect::NoSchedule };
    Cluster {
        labels: labels.map(|(key, value)| (key.to_owned(), value)).into(),
        properties: properties.map(|(key, value)| (key.to_owned(), value)).into(),
        taints: scatter(number, 8).is_multiple_of(20).then(taint).into_iter().collect(),
        eligible: if scatter(number, 9).is_multiple_of(50) { Err("silent".to_owned()) } else { Ok(()) },
        namespaces: None,
    }
}

fn fleet(clusters: usize) -> Fleet {
    (0..clusters).map(|number| (format!("member-{number:05}").as_str().into(), cluster(number))).collect()
}

/// Ten kinds of policy in turn.
fn policy(number: usize, clusters: usize) -> PlacementPolicy {
    let env = ["dev", "staging", "prod"][scatter(number, 1) % 3];
    let region = format!("region-{}", scatter(number, 2) % 20);
    let labels = |labels: Value| json!([{"labelSelector": {"matchLabels": labels}}]);
    let at_least = |name: &str, value: usize| json!([{"propertySelector": {"matchExpressions": [{"name": name, "operator": "Ge", "values": [value.to_string()]}]}}]);
    let ranked = |name: &str, order: &str| json!({"weight": 50, "preference": {"propertySorter": {"name": name, "sortOrder": order}}});
    let tier = json!({"weight": 20, "preference": {"labelSelector": {"matchLabels": {"tier": "t1"}}}});
    let affinity = |required: Value, preferred: Value| {
        json!({"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": required},
            "preferredDuringSchedulingIgnoredDuringExecution": preferred}})
    };
    let n = |number: usize, affinity: Value, spreads: Value| {
        json!({"placementType": "PickN", "numberOfClusters": number,
        "affinity": affinity, "topologySpreadConstraints": spreads})
    };
    let spread = |key: &str, action: &str| json!({"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": action});
    let value = match number % 10 {
        0 => json!({"affinity": affinity(labels(json!({"env": env, "region": region, "tier": "t1"})), json!([]))}),
        1 => json!({"affinity": affinity(at_least(NODES, 495), json!([]))}),
        2 => {
            let names = (0..5).map(|salt| format!("member-{:05}", scatter(number, salt) % clusters));
            let names: std::collections::BTreeSet<String> = names.collect();
            json!({"placementType": "PickFixed", "clusterNames": names})
        }
        3..=5 => n(3, affinity(labels(json!({"env": env})), json!([ranked(CPU, "Descending")])), json!([])),
        6 => n(10, affinity(at_least(CPU, 200), json!([ranked(NODES, "Ascending"), tier])), json!([])),
        7 => n(5, affinity(labels(json!({"env": env})), json!([])), json!([spread("zone", "DoNotSchedule")])),
        8 => n(
            20,
            affinity(json!([]), json!([ranked(CPU, "Descending")])),
            json!([spread("zone", "ScheduleAnyway"), spread("region", "DoNotSchedule")]),
        ),
        _ => {
            let mut value = n(3, affinity(at_least(CPU, 500), json!([])), json!([]));
            value["tolerations"] = json!([{"key": "maintenance", "operator": "Exists"}]);
            value
        }
    };
    serde_json::from_value(value).expect("the policies are well-formed")
}

struct Placed {
    key: PlacementKey,
    policy: PlacementPolicy,
    bindings: Vec<Arc<Binding>>,
}

fn run(placed: &Placed, fleet: &Fleet) -> Outcome {
    let request = Request {
        placement: &placed.key,
        policy: Some(&placed.policy),
        policy_index: 0,
        clusters: fleet,
        bindings: &placed.bindings,
        keep_held: true,
        bad_values: BadValues::Mismatch,
        tenant: None,
    };
    schedule(&request).expect("the policies can be scheduled")
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2] * 1000.0).round() / 1000.0
}

fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed().as_secs_f64() * 1000.0, result)
}

/// Changes clusters and schedules who reads it: the time, how many placements were asked, and how many bindings changed.
fn change(
    fleet: &mut Fleet,
    placed: &BTreeMap<PlacementKey, Placed>,
    readers: &Readers,
    changed: Vec<(usize, Cluster)>,
) -> (f64, usize, usize) {
    let (time, (asked, moved)) = timed(|| {
        let mut all = FleetChange::default();
        for (number, cluster) in changed {
            all.merge(fleet.set(format!("member-{number:05}").as_str().into(), cluster));
        }
        let affected: Vec<_> = readers.affected(&all).into_iter().collect();
        let moved: usize = affected.par_iter().map(|key| run(&placed[key], fleet).bindings.len()).sum();
        (affected.len(), moved)
    });
    (time, asked, moved)
}

/// Measures so many placements on so many clusters: each sort, and both together.
fn row(clusters: usize, placements: usize) -> Value {
    let of_ocm = placements * 3 / 10;
    let (kube_fleet, ocm) = (kube_fleet(clusters, placements - of_ocm), ocm::row(clusters, of_ocm));
    let mut row = json!({"clusters": clusters, "placements": placements});
    for time in ["fullMs", "labelFlipMs", "onePercentMs"] {
        let both = [&kube_fleet, &ocm].map(|row| row[time].as_f64().expect("a time"));
        row[time] = json!(median(vec![both.iter().sum()]));
    }
    row["kubeFleet"] = kube_fleet;
    row["ocm"] = ocm;
    row
}

fn kube_fleet(clusters: usize, placements: usize) -> Value {
    let (build, mut fleet) = timed(|| fleet(clusters));
    let mut placed: Vec<Placed> = (0..placements)
        .map(|number| Placed {
            key: PlacementKey::cluster_scoped(format!("app-{number}")),
            policy: policy(number, clusters),
            bindings: Vec::new(),
        })
        .collect();
    let full = (0..ROUNDS)
        .map(|_| timed(|| placed.par_iter().map(|placed| run(placed, &fleet).bindings.len()).sum::<usize>()).0);
    let full = median(full.collect());
    let mut readers = Readers::default();
    for placed in &mut placed {
        let outcome = run(placed, &fleet);
        let created = outcome.bindings.into_iter().filter(|change| change.action == Action::Create);
        placed.bindings = created.map(|change| Arc::new(change.binding)).collect();
        readers.set(placed.key.clone(), Reads::of(&placed.key, Some(&placed.policy), outcome.fulfilled));
    }
    let bindings: usize = placed.iter().map(|placed| placed.bindings.len()).sum();
    let again = (0..ROUNDS)
        .map(|_| timed(|| placed.par_iter().map(|placed| run(placed, &fleet).bindings.len()).sum::<usize>()));
    let (times, moved): (Vec<f64>, Vec<usize>) = again.unzip();
    assert!(moved.iter().all(|moved| *moved == 0), "nothing changed, so nothing moves");
    let placed: BTreeMap<PlacementKey, Placed> =
        placed.into_iter().map(|placed| (placed.key.clone(), placed)).collect();

    let (mut flips, mut asked, mut moved) = (Vec::new(), 0, 0);
    for round in 0..ROUNDS {
        let number = scatter(round, 3) % clusters;
        let mut flipped = cluster(number);
        flipped.labels.insert("env".to_owned(), "flipped".to_owned());
        let found = change(&mut fleet, &placed, &readers, vec![(number, flipped)]);
        flips.push(found.0);
        (asked, moved) = (asked.max(found.1), moved + found.2);
        fleet.set(format!("member-{number:05}").as_str().into(), cluster(number));
    }
    let (mut percents, mut percent_asked, mut percent_moved) = (Vec::new(), 0, 0);
    for round in 0..ROUNDS {
        let changed = (0..clusters / 100).map(|place| {
            let number = scatter(place, round) % clusters;
            let mut changed = cluster(number);
            changed.properties.insert(CPU.to_owned(), (scatter(number, round) % 1000).to_string());
            changed.properties.insert(NODES.to_owned(), (scatter(number, round + 1) % 500).to_string());
            (number, changed)
        });
        let found = change(&mut fleet, &placed, &readers, changed.collect());
        percents.push(found.0);
        (percent_asked, percent_moved) = (percent_asked.max(found.1), percent_moved + found.2);
    }
    json!({
        "placements": placements, "bindings": bindings,
        "indexMs": median(vec![build]), "fullMs": full, "fullWithBindingsMs": median(times),
        "labelFlipMs": median(flips), "labelFlipAsked": asked, "labelFlipMoved": moved,
        "onePercentMs": median(percents), "onePercentAsked": percent_asked, "onePercentMoved": percent_moved,
    })
}

fn peak_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok())
}

fn main() {
    let sizes = [
        (CLUSTERS / 4, PLACEMENTS),
        (CLUSTERS / 2, PLACEMENTS),
        (CLUSTERS, PLACEMENTS / 4),
        (CLUSTERS, PLACEMENTS / 2),
        (CLUSTERS, PLACEMENTS),
    ];
    let rows: Vec<Value> = sizes.into_iter().map(|(clusters, placements)| row(clusters, placements)).collect();
    let threads = rayon::current_num_threads();
    println!("{:#}", json!({"id": "B6", "threads": threads, "peakKb": peak_kb(), "rows": rows}));
}
