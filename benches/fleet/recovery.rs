//! B10: from a store of an earlier life to rest, and what is written to members on the way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use gitfleet::engine::core::{Core, Event, identity};
use gitfleet::engine::follow::News;
use gitfleet::store::{EmbeddedStore, Store};
use serde_json::{Value, json};

use super::driver::{Arrival, Driver};
use super::fleets::{Plan, Strategy, configuration};
use super::members::Members;
use super::rounded;

const PLACEMENTS: usize = 1000;
const CLUSTERS: usize = 100;

pub fn measure() -> Value {
    let rows = [("rollingUpdate", Strategy::Rolling(100)), ("external", Strategy::Staged)];
    let rows = rows.map(|(name, strategy)| row(name, strategy));
    json!({"goalSeconds": 5, "placements": PLACEMENTS, "clusters": CLUSTERS, "rows": rows})
}

fn row(name: &str, strategy: Strategy) -> Value {
    let plan = Plan { clusters: CLUSTERS, placements: PLACEMENTS, objects: 2, strategy };
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let open = || -> Arc<dyn Store> { Arc::new(EmbeddedStore::open(folder.path()).expect("the store opens")) };
    let tree = plan.commit(0);
    let orders = {
        let mut first = Driver::begin(open(), Members::Instant(BTreeMap::new()), Arrival::Together);
        first.accept(&tree);
        let Members::Instant(orders) = std::mem::replace(&mut first.members, Members::Instant(BTreeMap::new())) else {
            unreachable!("these members answer at once")
        };
        orders
    };
    assert_eq!(orders.len(), PLACEMENTS * CLUSTERS, "everything was rolled out");
    let members = Members::holding(&orders, &identity(&configuration()));
    let started = Instant::now();
    let store = open();
    let opened = started.elapsed();
    let mut second = Driver::begin(store, members, Arrival::Together);
    second.hear(Event::Source(News::Restored(Ok(Arc::clone(&tree)))));
    second.settle(|_: &Core| false);
    let all = started.elapsed();
    let spent = second.spent;
    json!({
        "strategy": name, "seconds": rounded(all.saturating_sub(spent.members).as_secs_f64()),
        "openSeconds": rounded(opened.as_secs_f64()), "storeSeconds": rounded(spent.store.as_secs_f64()),
        "coreSeconds": rounded(spent.core.as_secs_f64()), "membersSeconds": rounded(spent.members.as_secs_f64()),
        "decisions": spent.decisions, "batches": spent.batches, "memberWrites": second.members.writes(),
    })
}
