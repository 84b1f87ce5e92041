//! One decision for one placement, as its clusters grow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use decide::decide;
use engine::persist::difference;
use engine::{Event, MemberEvent, SourceEvent};
use model::records::WorkStatus;
use serde_json::{Value, json};

use super::driver::{Arrival, Driver, Nowhere};
use super::fleets::{Plan, Strategy, key};
use super::members::Members;
use super::rounded;

/// Measurements of each kind; the median counts, and the best is told.
const ROUNDS: usize = 41;
const SIZES: [usize; 3] = [100, 1000, 10_000];

/// Clusters of the whole rollout, and how many report between two decisions.
const WHOLE: usize = 10_000;
const TOGETHER: usize = 20;

pub fn measure() -> Value {
    let mut rows = Vec::new();
    for (name, strategy) in [("rollingUpdate", Strategy::Rolling(10)), ("external", Strategy::Staged)] {
        let mut before: Option<f64> = None;
        for clusters in SIZES {
            let row = row(clusters, strategy);
            let grows = before.map(|before| rounded(row.midway.0 / before));
            before = Some(row.midway.0);
            rows.push(json!({
                "strategy": name, "clusters": clusters,
                "midwayMs": rounded(row.midway.0), "midwayBestMs": rounded(row.midway.1), "grows": grows,
                "oneReportMs": rounded(row.one_report.0), "oneReportBestMs": rounded(row.one_report.1),
            }));
        }
    }
    json!({"goalMs": 0.1, "rows": rows, "whole": whole()})
}

/// A rollout over all clusters with reports from everywhere, from the commit until all is available.
fn whole() -> Value {
    let plan = Plan { clusters: WHOLE, placements: 1, objects: 5, strategy: Strategy::Rolling(10) };
    let mut driver = Driver::begin(Arc::new(Nowhere), Members::Instant(BTreeMap::new()), Arrival::Scattered(TOGETHER));
    driver.accept(&plan.commit(0));
    let before = driver.spent;
    driver.accept(&plan.commit(1));
    let core = driver.spent.core.saturating_sub(before.core).as_secs_f64();
    json!({
        "goalSeconds": 10, "clusters": WHOLE, "reportsTogether": TOGETHER,
        "decisions": driver.spent.decisions - before.decisions, "coreSeconds": rounded(core),
    })
}

struct Row {
    /// Half of the clusters are at the new snapshot; median and best.
    midway: (f64, f64),
    /// All is available, and one report changes.
    one_report: (f64, f64),
}

fn row(clusters: usize, strategy: Strategy) -> Row {
    let plan = Plan { clusters, placements: 1, objects: 5, strategy };
    let instant = Members::Instant(BTreeMap::new());
    let mut driver = Driver::begin(Arc::new(Nowhere), instant, Arrival::Scattered(10));
    driver.accept(&plan.commit(0));
    let one_report = (0..ROUNDS).map(|round| one_report(&mut driver, round)).collect();
    driver.handle(Event::Source(SourceEvent::Accepted(plan.commit(1))));
    let newest = |core: &engine::Core| {
        let state = &core.placements()[&key(0)];
        state.bindings.values().filter(|binding| binding.snapshot == Some(1)).count()
    };
    driver.settle(|core| newest(core) >= clusters / 2);
    assert!(newest(&driver.core) < clusters, "it is under way");
    let state = &driver.core.placements()[&key(0)];
    let now = "2026-01-01T01:00:00Z".parse().expect("an instant");
    let midway = (0..ROUNDS).map(|_| {
        let started = Instant::now();
        let decision = decide(state.clone(), driver.core.fleet(), now);
        let ops = difference(Some(state), Some(&decision.state)).expect("it can be written");
        let took = started.elapsed().as_secs_f64() * 1000.0;
        drop((decision, ops));
        took
    });
    Row { midway: middle(midway.collect()), one_report: middle(one_report) }
}

/// Takes in that one object of one cluster changed and changed back, and decides; in milliseconds.
fn one_report(driver: &mut Driver, round: usize) -> f64 {
    let Members::Instant(orders) = &driver.members else { unreachable!("these members answer at once") };
    let ((cluster, placement), _) = orders.iter().nth(round % orders.len()).expect("there are members");
    let known = &driver.core.placements()[placement].works[cluster];
    let mut status = WorkStatus::clone(known);
    status.manifests[0].message = format!("seen {round} times");
    let before = driver.spent.core;
    let (cluster, placement) = (cluster.clone(), placement.clone());
    driver.handle(Event::Member(MemberEvent::Work { cluster, placement, status: Arc::new(status) }));
    driver.settle(|_| false);
    driver.spent.core.saturating_sub(before).as_secs_f64() * 1000.0
}

fn middle(mut times: Vec<f64>) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[0])
}
