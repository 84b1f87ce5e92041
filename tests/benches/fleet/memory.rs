//! B9: what the core and the members' tasks hold after a rollout.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::allocator::held;
use super::driver::{Arrival, Driver, Nowhere};
use super::fleets::{Plan, Strategy};
use super::members::Members;
use super::status_kb;

const SIZES: [usize; 3] = [100, 1000, 10_000];
const OBJECTS: usize = 20;
/// What of the bytes is a member's and what an object's shows beside a rollout of fewer.
const FEWER: usize = 5;

pub fn measure() -> Value {
    let rows = SIZES.map(|clusters| {
        let (many, few) = (after_rollout(clusters, OBJECTS), after_rollout(clusters, FEWER));
        let objects = clusters * (OBJECTS - FEWER);
        let split = |many: usize, few: usize| {
            let per_object = many.saturating_sub(few) / objects;
            (per_object, (many / clusters).saturating_sub(per_object * OBJECTS))
        };
        let (core, tasks) = (split(many.core, few.core), split(many.tasks, few.tasks));
        json!({
            "members": clusters, "objects": OBJECTS, "residentKb": many.resident_kb,
            "bytesPerMemberInAll": (many.core + many.tasks) / clusters,
            "bytesPerMember": core.1 + tasks.1, "bytesPerObject": core.0 + tasks.0,
            "coreBytesPerMember": core.1, "coreBytesPerObject": core.0,
            "taskBytesPerMember": tasks.1, "taskBytesPerObject": tasks.0,
        })
    });
    json!({"goalBytesPerMember": 100_000, "goalBytesPerObject": 2000, "rows": rows})
}

struct Held {
    core: usize,
    tasks: usize,
    resident_kb: Option<u64>,
}

/// Rolls out twice, so that there is something to have forgotten.
fn after_rollout(clusters: usize, objects: usize) -> Held {
    let plan = Plan { clusters, placements: 1, objects, strategy: Strategy::Rolling(100) };
    let (first, second) = (plan.commit(0), plan.commit(1));
    let before = held();
    let mut driver = Driver::begin(Arc::new(Nowhere), Members::Planned(BTreeMap::new()), Arrival::Together);
    driver.accept(&first);
    driver.accept(&second);
    let all = held() - before;
    driver.members = Members::Instant(BTreeMap::new());
    let core = held() - before;
    Held { core, tasks: all - core, resident_kb: status_kb("VmRSS:") }
}
