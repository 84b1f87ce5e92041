//! Fleets for tests.

use decide::status::records::PlacementRecords;
use decide::status::rollup::placement_conditions;
use model::id::PlacementKey;
use std::sync::Arc;
pub(crate) use testkit::records::*;
use views::fleet::{Changes, FleetView};

testkit::case_status!(decide::status);

/// Returns the records of a case under a name.
pub(crate) fn records(case: &Case, name: &str) -> PlacementRecords {
    let mut record = case.record.clone();
    // As a decision leaves them.
    record.conditions = placement_conditions(&case.view());
    record.key = PlacementKey::cluster_scoped(name);
    let mut bindings = case.bindings.clone();
    for binding in &mut bindings {
        Arc::make_mut(binding).placement = record.key.clone();
    }
    let mut snapshots = case.history.clone();
    snapshots.extend(case.snapshot.iter().map(|snapshot| (snapshot.index, Arc::new(snapshot.clone()))));
    PlacementRecords {
        record,
        policy: case.policy.clone().map(Arc::new),
        snapshots,
        bindings,
        runs: case.runs.clone(),
        works: case.works.clone(),
    }
}

/// Returns a fleet of placements that are the same but for their names.
pub(crate) fn fleet(names: &[&str], case: &Case) -> FleetView {
    FleetView::whole(Changes {
        placements: names.iter().map(|name| (PlacementKey::cluster_scoped(*name), Some(records(case, name)))).collect(),
        clusters: case.clusters.values().cloned().collect(),
        ..Changes::default()
    })
}
