//! Publishes what people see: the records that changed, shared with the core, some times a second at most.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use decide::names::Names;
use decide::state::PlacementState;
use decide::status::records::PlacementRecords;
use engine::store::saved::Records;
use engine::{Changed, Core};
use model::id::PlacementKey;
use model::runs::Runs;
use server::Publisher;
use views::fleet::{Changes, FleetView};

/// Shortest pause between two publications: a busy fleet changes far more often than anybody looks.
pub const PUBLISH_PAUSE: Duration = Duration::from_millis(50);
/// The pause as a multiple of the time that a publication took: those of a large fleet take a tenth of one core at most.
const PAUSE_FACTOR: u32 = 10;
/// Longest pause; answers wait longer for a publication.
const PAUSE_MAX: Duration = Duration::from_millis(400);

/// Publishes the fleet.
pub struct FleetPublisher {
    publisher: Publisher,
    /// Counts the batches that are shown.
    changes: watch::Sender<u64>,
    /// The end of the pause after the last one.
    pause_end: Option<Instant>,
}

impl FleetPublisher {
    /// Publishes what the process begins with.
    pub fn start(publisher: Publisher, changes: watch::Sender<u64>, core: &mut Core) -> Self {
        let mut started = Self { publisher, changes, pause_end: None };
        started.publish_if_due(core);
        started
    }

    /// Notes that the store holds one batch more.
    pub fn note_written(&self) {
        self.publisher.note_written();
    }

    /// Returns when the next publication is due; `None` if nothing is new.
    fn due(&self) -> Option<Instant> {
        if self.publisher.is_behind() { Some(self.pause_end.unwrap_or_else(Instant::now)) } else { None }
    }

    /// Waits until a publication is due; for ever if nothing is new.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn until_due(&self) {
        match self.due() {
            Some(due) => tokio::time::sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    /// Publishes what is new, if that is due.
    pub fn publish_if_due(&mut self, core: &mut Core) {
        if self.due().is_none_or(|due| due > Instant::now()) {
            return;
        }
        let began = Instant::now();
        let last = self.publisher.last();
        let changed = core.take_changed();
        let new = changes(core, changed);
        let mut fleet = if new.is_empty() { last.fleet.clone() } else { last.fleet.with(new) };
        fleet.rules = core.fleet().approvals;
        // What the process began with is the first batch that is shown, and no change.
        self.changes.send_replace(self.publisher.publish(fleet).saturating_sub(1));
        let pause = began.elapsed().saturating_mul(PAUSE_FACTOR).clamp(PUBLISH_PAUSE, PAUSE_MAX);
        self.pause_end = Some(Instant::now() + pause);
    }
}

/// Returns the records that changed.
pub fn changes(core: &Core, changed: Changed) -> Changes {
    let placements = changed.placements.into_iter().map(|(key, is_there)| {
        let state = if is_there { core.placements().get(&key) } else { None };
        let records = state.map(PlacementState::records);
        (key, records)
    });
    let clusters = changed.clusters.iter().filter_map(|name| core.stored_clusters().get(name).cloned());
    Changes {
        placements: placements.collect(),
        clusters: clusters.collect(),
        source: changed.source.then(|| core.stored_source().clone()),
        store: if changed.store { core.stored_store().cloned() } else { None },
        ocm: changed.ocm.then(|| core.fleet().ocm.records().map(|(_, record)| Arc::clone(record)).collect()),
    }
}

/// Returns the fleet that stored records are of.
pub fn fleet_of(mut saved: Records) -> FleetView {
    let runs = |key: &PlacementKey| saved.runs.get(key).cloned().unwrap_or_default();
    let all: BTreeMap<PlacementKey, Runs> =
        saved.placements.iter().map(|record| (record.key.clone(), runs(&record.key))).collect();
    let names = Names::of(&all);
    let placements = saved.placements.into_iter().map(|record| {
        let key = record.key.clone();
        let shared_name = all.get(&key).is_some_and(|runs| names.is_shared(&key, runs));
        let records = PlacementRecords {
            record,
            policy: saved.policies.remove(&key).and_then(|of| of.into_values().next_back()),
            snapshots: saved.snapshots.remove(&key).unwrap_or_default(),
            bindings: saved.bindings.remove(&key).unwrap_or_default(),
            runs: saved.runs.remove(&key).unwrap_or_default(),
            works: saved.works.remove(&key).unwrap_or_default(),
            shared_name,
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
