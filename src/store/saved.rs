//! The saved records, typed: the only place that maps keys to types.
//!
//! The daemon, commands that read the store and commands that ask a running daemon all use it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::records::{
    BINDING_PREFIX, CLUSTER_PREFIX, DECISIONS_PREFIX, HUB_PREFIX, OCM_PREFIX, OVERRIDE_PREFIX, PLACEMENT_PREFIX,
    POLICY_PREFIX, RUN_PREFIX, SNAPSHOT_PREFIX, SOURCE_PREFIX, STORE_KEY, WORK_PREFIX, cluster_of, placement_of,
};
use super::{Error, Result, Store};
use crate::model::decisions::{DecisionsRecord, HubRecord};
use crate::model::id::{ClusterName, PlacementKey};
use crate::model::ocm::OcmPlacementRecord;
use crate::model::overrides::OverrideSnapshot;
use crate::model::records::{
    Binding, ClusterRecord, PlacementRecord, PolicySnapshot, ResourceSnapshot, SourceRecord, StoreRecord, WorkStatus,
};
use crate::model::runs::{RunRecord, Runs};

/// Where the records of placements are.
const OF_PLACEMENTS: [&str; 6] =
    [PLACEMENT_PREFIX, SNAPSHOT_PREFIX, POLICY_PREFIX, BINDING_PREFIX, RUN_PREFIX, WORK_PREFIX];
/// Where the others are.
const OTHERS: [&str; 7] =
    [STORE_KEY, SOURCE_PREFIX, CLUSTER_PREFIX, OCM_PREFIX, OVERRIDE_PREFIX, DECISIONS_PREFIX, HUB_PREFIX];

/// A record that is not typed yet.
pub trait Encoded {
    /// Reads it as a type.
    ///
    /// # Errors
    /// It is none.
    fn typed<T: DeserializeOwned>(&self) -> serde_json::Result<T>;
}

impl Encoded for [u8] {
    fn typed<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_slice(self)
    }
}

impl Encoded for RawValue {
    fn typed<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.get())
    }
}

/// All records at one moment, without the bot's. Includes parts of placements without a record of their own.
#[derive(Debug, Default)]
pub struct Records {
    /// The store's own record.
    pub store: Option<StoreRecord>,
    /// The source.
    pub source: Option<SourceRecord>,
    /// Placements, by key.
    pub placements: Vec<PlacementRecord>,
    /// Resource snapshots by placement and index.
    pub snapshots: BTreeMap<PlacementKey, BTreeMap<u64, Arc<ResourceSnapshot>>>,
    /// Policy snapshots by placement and index.
    pub policies: BTreeMap<PlacementKey, BTreeMap<u64, Arc<PolicySnapshot>>>,
    /// Bindings by placement, in the order of their names.
    pub bindings: BTreeMap<PlacementKey, Vec<Arc<Binding>>>,
    /// Staged update runs by placement and name.
    pub runs: BTreeMap<PlacementKey, Runs>,
    /// Works by placement and cluster.
    pub works: BTreeMap<PlacementKey, BTreeMap<ClusterName, Arc<WorkStatus>>>,
    /// Clusters.
    pub clusters: BTreeMap<ClusterName, ClusterRecord>,
    /// OCM Placements.
    pub ocm: Vec<OcmPlacementRecord>,
    /// Snapshots of overrides.
    pub overrides: Vec<OverrideSnapshot>,
    /// Exported decisions.
    pub decisions: Vec<DecisionsRecord>,
    /// The records of hubs.
    pub hubs: Vec<HubRecord>,
}

impl Records {
    /// Reads them all from a store.
    ///
    /// # Errors
    /// A record that cannot be read is named: nothing is dropped because of it.
    pub fn read(store: &dyn Store) -> Result<Self> {
        Self::under(store, &[&OF_PLACEMENTS[..], &OTHERS].concat())
    }

    /// Reads those of placements from a store.
    ///
    /// # Errors
    /// As [`Records::read`].
    pub fn of_placements(store: &dyn Store) -> Result<Self> {
        Self::under(store, &OF_PLACEMENTS)
    }

    /// Reads those under some prefixes from a store, all from one moment.
    ///
    /// # Errors
    /// As [`Records::read`].
    pub fn under(store: &dyn Store, prefixes: &[&str]) -> Result<Self> {
        let mut records = Self::default();
        let mut read = Ok(());
        store.scan_each(prefixes, &mut |key, value, _| {
            read = records.take(key, value).map_err(|source| Error::Unreadable { key: key.to_owned(), source });
            read.is_ok()
        })?;
        read.map(|()| records)
    }

    /// Adds one record; one with a key of another kind is ignored.
    ///
    /// # Errors
    /// It is not what its key promises.
    pub fn take<E: Encoded + ?Sized>(&mut self, key: &str, record: &E) -> serde_json::Result<()> {
        let kind = key.split_inclusive('/').next().unwrap_or_default();
        match kind {
            STORE_KEY => self.store = Some(record.typed()?),
            SOURCE_PREFIX => self.source = Some(record.typed()?),
            PLACEMENT_PREFIX => self.placements.push(record.typed()?),
            SNAPSHOT_PREFIX => {
                let snapshot: Arc<ResourceSnapshot> = Arc::new(record.typed()?);
                self.snapshots.entry(snapshot.placement.clone()).or_default().insert(snapshot.index, snapshot);
            }
            POLICY_PREFIX => {
                let policy: Arc<PolicySnapshot> = Arc::new(record.typed()?);
                self.policies.entry(policy.placement.clone()).or_default().insert(policy.index, policy);
            }
            BINDING_PREFIX => {
                let binding: Arc<Binding> = Arc::new(record.typed()?);
                self.bindings.entry(binding.placement.clone()).or_default().push(binding);
            }
            RUN_PREFIX => {
                let run: RunRecord = record.typed()?;
                self.runs.entry(run.placement.clone()).or_default().insert(run);
            }
            WORK_PREFIX => {
                let work: WorkStatus = record.typed()?;
                // Only its key names its placement.
                if let Some((placement, cluster)) = placement_of(key, WORK_PREFIX).zip(cluster_of(key, WORK_PREFIX)) {
                    self.works.entry(placement).or_default().insert(cluster, Arc::new(work));
                }
            }
            CLUSTER_PREFIX => {
                let cluster: ClusterRecord = record.typed()?;
                self.clusters.insert(cluster.name.clone(), cluster);
            }
            OCM_PREFIX => self.ocm.push(record.typed()?),
            OVERRIDE_PREFIX => self.overrides.push(record.typed()?),
            DECISIONS_PREFIX => self.decisions.push(record.typed()?),
            HUB_PREFIX => self.hubs.push(record.typed()?),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
