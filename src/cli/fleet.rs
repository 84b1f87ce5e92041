//! What the command line shows of the fleet: as the daemon answers it, or made from the records of its store by the same functions.

use std::sync::Arc;

use crate::status::records::PlacementRecords;
use crate::store::saved::Records;
use crate::views::fleet::{Changes, FleetView};

/// Returns the fleet that records are of.
pub fn fleet_of(mut saved: Records) -> FleetView {
    let placements = saved.placements.into_iter().map(|record| {
        let key = record.key.clone();
        let records = PlacementRecords {
            record,
            policy: saved.policies.remove(&key).and_then(|of| of.into_values().next_back()),
            snapshots: saved.snapshots.remove(&key).unwrap_or_default(),
            bindings: saved.bindings.remove(&key).unwrap_or_default(),
            runs: saved.runs.remove(&key).unwrap_or_default(),
            works: saved.works.remove(&key).unwrap_or_default(),
        };
        (key, Some(records))
    });
    FleetView::whole(Changes {
        placements: placements.collect(),
        store: saved.store,
        source: saved.source,
        clusters: saved.clusters.into_values().collect(),
        ocm: Some(saved.ocm.into_iter().map(Arc::new).collect()),
    })
}
