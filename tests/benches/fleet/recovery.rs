//! B10: from a store of an earlier life to rest, and what is written to members on the way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use engine::store::{MemoryStore, Store};
use engine::{Core, Event, SourceEvent, identity};
use model::id::ClusterName;
use serde_json::{Value, json};
use store::EmbeddedStore;

use super::driver::{Arrival, Driver, End, Point};
use super::fleets::{Plan, Strategy, configuration};
use super::members::Members;
use super::rounded;

const PLACEMENTS: usize = 1000;
const CLUSTERS: usize = 100;
/// Points at which a life ends.
const ENDS: usize = 20;

pub fn measure() -> Value {
    let rows = [("rollingUpdate", Strategy::Rolling(100)), ("external", Strategy::Staged)];
    let rows = rows.map(|(name, strategy)| row(name, strategy));
    json!({
        "goalSeconds": 5, "placements": PLACEMENTS, "clusters": CLUSTERS, "rows": rows,
        "goalDuplicateWrites": 0, "ends": ends(),
    })
}

/// Lets a life end at many points of the second commit's rollout, and counts what the next life writes to members that they
/// hold already: both lives together write no more than one that does not end.
fn ends() -> Value {
    let plan = Plan { clusters: 10, placements: 10, objects: 5, strategy: Strategy::Staged };
    let (first, second) = (plan.commit(0), plan.commit(1));
    let source = identity(&configuration());
    let names: Vec<ClusterName> = second.clusters.keys().cloned().collect();
    let life = |end: Option<(u64, Point)>| {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let members = Members::lasting(names.iter().cloned(), &source);
        let mut driver = Driver::begin(Arc::clone(&store), members, Arrival::Scattered(7));
        driver.accept(&first);
        let before = (driver.spent.batches, driver.members.writes());
        driver.end = end.map(|(batches, at)| End { batches: before.0 + batches, at });
        driver.accept(&second);
        let batches = driver.spent.batches - before.0;
        let mut members = driver.members;
        if end.is_some() {
            members.survive(&source);
            let mut next = Driver::begin(store, members, Arrival::Scattered(7));
            let restored = if next.core.accepted() == second.commit.as_ref() { &second } else { &first };
            next.handle(Event::Source(SourceEvent::Restored(Ok(Arc::clone(restored)))));
            next.accept(&second);
            members = next.members;
        }
        (batches, members.writes() - before.1)
    };
    let (batches, writes) = life(None);
    let points = [Point::Written, Point::Told, Point::Done].into_iter().cycle().take(ENDS).zip(1..);
    let more = points.map(|(at, number)| life(Some((number * batches / ENDS as u64, at))).1.saturating_sub(writes));
    let more: Vec<u64> = more.collect();
    json!({"lives": more.len(), "batches": batches, "writes": writes, "duplicateWrites": more.iter().sum::<u64>()})
}

fn row(name: &str, strategy: Strategy) -> Value {
    let plan = Plan { clusters: CLUSTERS, placements: PLACEMENTS, objects: 2, strategy };
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let open = || -> Arc<dyn Store> { Arc::new(EmbeddedStore::open(folder.path()).expect("the store opens")) };
    let tree = plan.commit(0);
    let begun = Instant::now();
    let (orders, earlier) = {
        let mut first = Driver::begin(open(), Members::Instant(BTreeMap::new()), Arrival::Together);
        first.accept(&tree);
        let Members::Instant(orders) = std::mem::replace(&mut first.members, Members::Instant(BTreeMap::new())) else {
            unreachable!("these members answer at once")
        };
        (orders, first.spent)
    };
    eprintln!("{name}: the earlier life took {:?}: {earlier:?}", begun.elapsed());
    assert_eq!(orders.len(), PLACEMENTS * CLUSTERS, "everything was rolled out");
    let members = Members::holding(&orders, &identity(&configuration()));
    let started = Instant::now();
    let store = open();
    let opened = started.elapsed();
    let mut second = Driver::begin(store, members, Arrival::Together);
    second.handle(Event::Source(SourceEvent::Restored(Ok(Arc::clone(&tree)))));
    second.settle(|_: &Core| false);
    let all = started.elapsed();
    let spent = second.spent;
    eprintln!("{name}: {all:?} {spent:?}");
    json!({
        "strategy": name, "seconds": rounded(all.saturating_sub(spent.members).as_secs_f64()),
        "openSeconds": rounded(opened.as_secs_f64()), "storeSeconds": rounded(spent.store.as_secs_f64()),
        "coreSeconds": rounded(spent.core.as_secs_f64()), "membersSeconds": rounded(spent.members.as_secs_f64()),
        "decisions": spent.decisions, "batches": spent.batches, "memberWrites": second.members.writes(),
    })
}
