//! The saved records, typed: the only place that maps keys to types.
//!
//! The daemon, commands that read the store and commands that ask a running daemon all use it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::records::{
    AGENT_PREFIX, BINDING_PREFIX, CLUSTER_PREFIX, DECISIONS_PREFIX, HUB_PREFIX, OCM_PREFIX, OVERRIDE_PREFIX,
    PLACEMENT_PREFIX, POLICY_PREFIX, RUN_PREFIX, SNAPSHOT_PREFIX, SOURCE_PREFIX, STORE_KEY, WORK_PREFIX, cluster_of,
    placement_of,
};
use super::{Error, Result, Store};
use model::agent::AgentToken;
use model::decisions::{DecisionsRecord, HubRecord};
use model::id::{ClusterName, PlacementKey};
use model::ocm::OcmPlacementRecord;
use model::overrides::OverrideSnapshot;
use model::records::{
    Binding, ClusterRecord, PlacementRecord, PolicySnapshot, ResourceSnapshot, SourceRecord, StoreRecord, WorkStatus,
};
use model::runs::{RunRecord, Runs};

/// Where the records of placements are.
const OF_PLACEMENTS: [&str; 6] =
    [PLACEMENT_PREFIX, SNAPSHOT_PREFIX, POLICY_PREFIX, BINDING_PREFIX, RUN_PREFIX, WORK_PREFIX];
/// Where the others are.
const OTHERS: [&str; 8] =
    [AGENT_PREFIX, STORE_KEY, SOURCE_PREFIX, CLUSTER_PREFIX, OCM_PREFIX, OVERRIDE_PREFIX, DECISIONS_PREFIX, HUB_PREFIX];

/// Records that all cores read together: enough to share out, few beside all of them in memory.
const TYPED_TOGETHER: usize = 4_096;

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
    /// The tokens of agents, by name.
    pub agent_tokens: BTreeMap<String, AgentToken>,
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
        let mut waiting = Vec::with_capacity(TYPED_TOGETHER);
        let mut read = Ok(());
        store.scan_each(prefixes, &mut |key, value, _| {
            waiting.push((key.to_owned(), value.to_vec()));
            if waiting.len() == TYPED_TOGETHER {
                read = records.take_all(&mut waiting);
            }
            read.is_ok()
        })?;
        read?;
        records.take_all(&mut waiting)?;
        Ok(records)
    }

    /// Adds records in their order, after all cores have read them.
    fn take_all(&mut self, waiting: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
        let typed = |(key, value): (String, Vec<u8>)| {
            TypedRecord::read(&key, value.as_slice()).map_err(|source| Error::Unreadable { key, source })
        };
        let typed: Vec<Result<TypedRecord>> = waiting.par_drain(..).map(typed).collect();
        for record in typed {
            self.add(record?);
        }
        Ok(())
    }

    /// Adds one record; one with a key of another kind is ignored.
    ///
    /// # Errors
    /// It is not what its key promises.
    pub fn take<E: Encoded + ?Sized>(&mut self, key: &str, record: &E) -> serde_json::Result<()> {
        self.add(TypedRecord::read(key, record)?);
        Ok(())
    }

    fn add(&mut self, record: TypedRecord) {
        match record {
            TypedRecord::Store(store) => self.store = Some(store),
            TypedRecord::Source(source) => self.source = Some(*source),
            TypedRecord::Placement(placement) => self.placements.push(*placement),
            TypedRecord::Snapshot(snapshot) => {
                self.snapshots.entry(snapshot.placement.clone()).or_default().insert(snapshot.index, snapshot);
            }
            TypedRecord::Policy(policy) => {
                self.policies.entry(policy.placement.clone()).or_default().insert(policy.index, policy);
            }
            TypedRecord::Binding(binding) => {
                self.bindings.entry(binding.placement.clone()).or_default().push(binding);
            }
            TypedRecord::Run(run) => self.runs.entry(run.placement.clone()).or_default().insert(*run),
            TypedRecord::Work(placement, cluster, work) => {
                self.works.entry(placement).or_default().insert(cluster, work);
            }
            TypedRecord::Cluster(cluster) => drop(self.clusters.insert(cluster.name.clone(), *cluster)),
            TypedRecord::Ocm(placement) => self.ocm.push(*placement),
            TypedRecord::Override(snapshot) => self.overrides.push(*snapshot),
            TypedRecord::Decisions(decisions) => self.decisions.push(decisions),
            TypedRecord::Hub(hub) => self.hubs.push(hub),
            TypedRecord::Agent(token) => drop(self.agent_tokens.insert(token.name.clone(), token)),
            TypedRecord::Other => {}
        }
    }
}

/// A record as the type that its key promises.
enum TypedRecord {
    Store(StoreRecord),
    Source(Box<SourceRecord>),
    Placement(Box<PlacementRecord>),
    Snapshot(Arc<ResourceSnapshot>),
    Policy(Arc<PolicySnapshot>),
    Binding(Arc<Binding>),
    Run(Box<RunRecord>),
    Work(PlacementKey, ClusterName, Arc<WorkStatus>),
    Cluster(Box<ClusterRecord>),
    Ocm(Box<OcmPlacementRecord>),
    Override(Box<OverrideSnapshot>),
    Decisions(DecisionsRecord),
    Hub(HubRecord),
    Agent(AgentToken),
    /// It has a key of another kind.
    Other,
}

impl TypedRecord {
    fn read<E: Encoded + ?Sized>(key: &str, record: &E) -> serde_json::Result<Self> {
        Ok(match key.split_inclusive('/').next().unwrap_or_default() {
            STORE_KEY => Self::Store(record.typed()?),
            SOURCE_PREFIX => Self::Source(record.typed()?),
            PLACEMENT_PREFIX => Self::Placement(record.typed()?),
            SNAPSHOT_PREFIX => Self::Snapshot(Arc::new(record.typed()?)),
            POLICY_PREFIX => Self::Policy(Arc::new(record.typed()?)),
            BINDING_PREFIX => Self::Binding(Arc::new(record.typed()?)),
            RUN_PREFIX => Self::Run(record.typed()?),
            WORK_PREFIX => {
                let work = Arc::new(record.typed()?);
                // Only its key names its placement.
                match placement_of(key, WORK_PREFIX).zip(cluster_of(key, WORK_PREFIX)) {
                    Some((placement, cluster)) => Self::Work(placement, cluster, work),
                    None => Self::Other,
                }
            }
            CLUSTER_PREFIX => Self::Cluster(record.typed()?),
            OCM_PREFIX => Self::Ocm(record.typed()?),
            OVERRIDE_PREFIX => Self::Override(record.typed()?),
            DECISIONS_PREFIX => Self::Decisions(record.typed()?),
            HUB_PREFIX => Self::Hub(record.typed()?),
            AGENT_PREFIX => Self::Agent(record.typed()?),
            _ => Self::Other,
        })
    }
}

#[cfg(test)]
mod tests;
