//! Everything that is shown, at one moment: what `status`, `get` and the daemon's answers are made from.
//!
//! A [`FleetView`] never changes. The next one shares with it what did not change, so a change costs what it changed, and whoever reads
//! an older one holds nobody up. What is said of a placement is worked out when somebody asks for it first, and kept until its
//! records change.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jiff::Timestamp;
use serde_json::Value;

use super::lists::placement_line;
use super::tree::PlacementRow;
use super::waiting::{Waiting, waiting_of};
use decide::status::progress::progress;
use decide::status::records::PlacementRecords;
use decide::status::rollout::next_change;
use model::id::{ClusterName, PlacementKey};
use model::ocm::OcmPlacementRecord;
use model::progress::Progress;
use model::records::{ClusterRecord, SourceRecord, StoreRecord};
use model::runs::ApprovalRules;

/// Removals that are remembered, so that a reader who comes back learns of them.
pub const REMOVALS_MAX: usize = 1_000;

/// The listing lengths that an answer tries until it is short enough.
pub const LENGTHS: [usize; 5] = [super::tree::LISTED_MAX, 20, 5, 1, 0];

/// Everything that is shown, at one moment.
#[derive(Clone, Debug, Default)]
pub struct FleetView {
    /// Grows with every change.
    pub version: u64,
    /// The store's own record.
    pub store: Option<Arc<StoreRecord>>,
    /// The source.
    pub source: Arc<SourceRecord>,
    /// The placements.
    pub placements: BTreeMap<PlacementKey, Arc<Placed>>,
    /// The clusters.
    pub clusters: Arc<BTreeMap<ClusterName, ClusterRecord>>,
    /// In which version each cluster changed last.
    pub cluster_versions: Arc<BTreeMap<ClusterName, u64>>,
    /// OCM Placements, in the order of their names.
    pub ocm: Arc<[Arc<OcmPlacementRecord>]>,
    /// The version in which something else than placements and clusters changed last.
    pub source_version: u64,
    /// What was removed, and in which version; the oldest are forgotten.
    pub removals: Arc<VecDeque<(u64, PlacementKey)>>,
    /// The configured rules for approvals.
    pub rules: ApprovalRules,
}

/// What is new since a [`FleetView`].
#[derive(Debug, Default)]
pub struct Changes {
    /// The store's own record.
    pub store: Option<StoreRecord>,
    /// The source.
    pub source: Option<SourceRecord>,
    /// Placements; `None` is one that is gone.
    pub placements: BTreeMap<PlacementKey, Option<PlacementRecords>>,
    /// Clusters.
    pub clusters: Vec<ClusterRecord>,
    /// All OCM Placements.
    pub ocm: Option<Vec<Arc<OcmPlacementRecord>>>,
}

/// A placement at one moment.
#[derive(Debug)]
pub struct Placed {
    /// Its records.
    pub records: Arc<PlacementRecords>,
    /// The version of the fleet in which it changed last.
    pub version: u64,
    shown: Mutex<Option<Arc<Shown>>>,
    /// The picked clusters in the order of their names, and which are up to date; where somebody asked.
    picked: OnceLock<Box<[(ClusterName, bool)]>>,
}

/// What is said of a placement.
#[derive(Debug, PartialEq)]
pub struct Shown {
    /// What `status` shows.
    pub row: PlacementRow,
    /// What needs a person.
    pub waiting: Vec<Waiting>,
    /// What a table shows.
    pub line: Value,
    /// Bytes of the row as JSON with at most so many clusters, as in [`LENGTHS`].
    pub bytes: [usize; LENGTHS.len()],
    /// When time alone may change it.
    until: Option<Timestamp>,
    /// Its progress towards each recent commit, where somebody asked.
    progress: OnceLock<Arc<[Progress]>>,
}

impl Placed {
    fn new(records: Arc<PlacementRecords>, version: u64) -> Arc<Self> {
        Arc::new(Self { records, version, shown: Mutex::default(), picked: OnceLock::new() })
    }

    /// Returns what is said of it in a fleet, at a moment.
    pub fn shown(&self, fleet: &FleetView, now: Timestamp) -> Arc<Shown> {
        let mut known = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shown) = known.as_ref().filter(|shown| shown.until.is_none_or(|until| now < until)) {
            return Arc::clone(shown);
        }
        let shown = Arc::new(Shown::of(&self.records, fleet, now));
        *known = Some(Arc::clone(&shown));
        shown
    }

    /// Tells whether a cluster that was picked for it has it up to date; `None` of another cluster.
    pub fn is_up_to_date_on(&self, fleet: &FleetView, cluster: &ClusterName) -> Option<bool> {
        let picked = self.picked.get_or_init(|| {
            // No time is part of it: another fleet has another `Placed` where records differ.
            let view = self.records.view(&fleet.clusters, Timestamp::UNIX_EPOCH);
            let mut picked = Vec::new();
            for (decision, binding) in view.picked() {
                let is_up_to_date = binding.is_some_and(|binding| view.is_up_to_date(binding));
                picked.push((decision.cluster_name.clone(), is_up_to_date));
            }
            picked.sort();
            picked.into()
        });
        let found = picked.binary_search_by(|(name, _)| name.cmp(cluster)).ok()?;
        Some(picked[found].1)
    }

    /// Returns its progress towards each recent commit, newest first: what people are told on the git host.
    pub fn progress(&self, fleet: &FleetView, now: Timestamp) -> Arc<[Progress]> {
        let shown = self.shown(fleet, now);
        let told =
            shown.progress.get_or_init(|| progress(&self.records.view(&fleet.clusters, now), fleet.rules).into());
        Arc::clone(told)
    }
}

impl Shown {
    /// Works out what is said of a placement.
    pub fn of(records: &PlacementRecords, fleet: &FleetView, now: Timestamp) -> Self {
        let view = records.view(&fleet.clusters, now);
        let approvers = fleet.source.approvers.as_deref();
        let row = PlacementRow::of(&view, approvers);
        let waiting = waiting_of(&view, approvers, &row.state);
        let mut shorter = row.clone();
        let bytes = LENGTHS.map(|length| {
            shorter.below.limit(length);
            serde_json::to_vec(&shorter).map_or(0, |json| json.len())
        });
        let mut line = placement_line(&view);
        line["rollout"] = serde_json::json!({
            "state": row.state.kind(), "message": row.state.to_string(), "detail": row.state.detail(), "snapshot": row.snapshot, "commit": row.commit,
            "clusters": row.clusters, "upToDate": row.up_to_date,
        });
        Self { row, waiting, line, bytes, until: next_change(&view), progress: OnceLock::new() }
    }
}

impl Changes {
    /// Tells whether nothing is new.
    pub fn is_empty(&self) -> bool {
        let nothing = self.store.is_none() && self.source.is_none() && self.ocm.is_none();
        nothing && self.placements.is_empty() && self.clusters.is_empty()
    }
}

impl FleetView {
    /// Returns the fleet that records are of, all at once.
    pub fn whole(changes: Changes) -> Self {
        Self::default().with(changes)
    }

    /// Returns the fleet with what is new.
    #[must_use]
    pub fn with(&self, changes: Changes) -> Self {
        let mut next = self.clone();
        next.version += 1;
        let version = next.version;
        if changes.store.is_some() || changes.source.is_some() || changes.ocm.is_some() {
            next.source_version = version;
        }
        if let Some(store) = changes.store {
            next.store = Some(Arc::new(store));
        }
        if let Some(ocm) = changes.ocm {
            next.ocm = ocm.into();
        }
        let mut all = false;
        if let Some(source) = changes.source {
            // Every gate names who may open it.
            all = source.approvers != self.source.approvers;
            next.source = Arc::new(source);
        }
        let moved = next.take_clusters(changes.clusters);
        if all || !moved.is_empty() {
            for placed in next.placements.values_mut() {
                if all || placed.records.concerns(|cluster| moved.contains(cluster)) {
                    *placed = Placed::new(Arc::clone(&placed.records), version);
                }
            }
        }
        for (key, records) in changes.placements {
            if let Some(records) = records {
                next.placements.insert(key, Placed::new(Arc::new(records), version));
            } else if next.placements.remove(&key).is_some() {
                let removals = Arc::make_mut(&mut next.removals);
                removals.push_back((version, key));
                let more = removals.len().saturating_sub(REMOVALS_MAX);
                removals.drain(..more);
            }
        }
        next
    }

    /// Takes in clusters; returns those that placements say something else of now.
    fn take_clusters(&mut self, clusters: Vec<ClusterRecord>) -> BTreeSet<ClusterName> {
        let mut moved = BTreeSet::new();
        if clusters.is_empty() {
            return moved;
        }
        let known = Arc::make_mut(&mut self.clusters);
        let versions = Arc::make_mut(&mut self.cluster_versions);
        for cluster in clusters {
            let name = cluster.name.clone();
            versions.insert(name.clone(), self.version);
            let before = known.insert(name.clone(), cluster);
            if !before.is_some_and(|before| before.stands_as(&known[&name])) {
                moved.insert(name);
            }
        }
        moved
    }

    /// Returns what is said of every placement, in the order of their names.
    pub fn shown(&self, now: Timestamp) -> impl Iterator<Item = (&Arc<Placed>, Arc<Shown>)> {
        self.placements.values().map(move |placed| (placed, placed.shown(self, now)))
    }
}

#[cfg(test)]
mod tests;
