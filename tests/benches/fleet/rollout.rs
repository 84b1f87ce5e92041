//! B7: waves of one run, and a thousand runs at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::store::{MemoryStore, Store};
use model::runs::RunPhase;
use serde_json::{Value, json};

use super::driver::{Arrival, Driver, Nowhere};
use super::fleets::{Plan, Strategy};
use super::members::Members;
use super::{processor_seconds, rounded};

const CLUSTERS: usize = 100;
/// Runs at once; how the time grows with them shows what is done for all of them each time.
const RUNS: [usize; 3] = [100, 300, 1000];
/// Reports that come between two decisions where they come from everywhere.
const SCATTERED: usize = 100;

/// One placement on 100 clusters in three stages: what a wave costs beside its payload.
pub fn waves() -> Value {
    let plan = Plan { clusters: CLUSTERS, placements: 1, objects: 20, strategy: Strategy::Staged };
    let rows = [("together", Arrival::Together), ("oneByOne", Arrival::Scattered(1))].map(|(name, arrival)| {
        let mut driver = Driver::begin(Arc::new(Nowhere), Members::Instant(BTreeMap::new()), arrival);
        driver.accept(&plan.commit(0));
        let before = driver.spent;
        driver.accept(&plan.commit(1));
        assert_eq!(succeeded(&driver), 2, "both runs have succeeded");
        // Halves of 10, 30 and 60 clusters.
        let waves = 6.0;
        let core = driver.spent.core.saturating_sub(before.core).as_secs_f64();
        json!({
            "reports": name, "waves": waves, "decisions": driver.spent.decisions - before.decisions,
            "coreSeconds": rounded(core), "secondsPerWave": rounded(core / waves),
        })
    });
    json!({"goalSecondsPerWave": 0.1, "rows": rows})
}

/// Placements, each with a run over 100 clusters, from the commit until all have succeeded.
pub fn runs() -> Value {
    let arrivals = [("together", Arrival::Together), ("scattered", Arrival::Scattered(SCATTERED))];
    let sizes = RUNS.iter().flat_map(|runs| arrivals.map(|(name, arrival)| (*runs, name, arrival)));
    let rows: Vec<Value> = sizes.map(|(runs, name, arrival)| row(runs, name, arrival)).collect();
    json!({"goalSeconds": 90, "rows": rows})
}

fn row(runs: usize, name: &str, arrival: Arrival) -> Value {
    let plan = Plan { clusters: CLUSTERS, placements: runs, objects: 2, strategy: Strategy::Staged };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let tree = plan.commit(0);
    let mut driver = Driver::begin(store, Members::Instant(BTreeMap::new()), arrival);
    let before = processor_seconds();
    driver.accept(&tree);
    let processor = processor_seconds() - before;
    assert_eq!(succeeded(&driver), runs, "every run has succeeded");
    let spent = driver.spent;
    let row = json!({
        "reports": name, "runs": runs, "clusters": CLUSTERS, "decisions": spent.decisions, "batches": spent.batches,
        "processorSeconds": rounded(processor), "coreSeconds": rounded(spent.core.as_secs_f64()),
        "storeSeconds": rounded(spent.store.as_secs_f64()), "membersSeconds": rounded(spent.members.as_secs_f64()),
    });
    // One that is stopped has shown the smaller ones.
    eprintln!("{row}");
    row
}

fn succeeded(driver: &Driver) -> usize {
    let runs = driver.core.placements().values().flat_map(|state| state.runs.values());
    runs.filter(|run| run.phase == RunPhase::Succeeded).count()
}
