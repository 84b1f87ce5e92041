//! Records to placements and back: what the store keeps of a decision is the difference it made.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use crate::decide::overrides::Overrides;
use crate::decide::state::PlacementState;
use crate::model::along::Along;
use crate::model::commands::{Done, Person, Refusal, RefusalReason};
use crate::model::decisions::{DecisionsRecord, HubRecord};
use crate::model::id::{ClusterName, PlacementKey};
use crate::model::ocm::OcmPlacementRecord;
use crate::model::overrides::{OverrideRef, OverrideSnapshot};
use crate::model::records::{
    Binding, ClusterRecord, PlacementRecord, PolicySnapshot, ResourceSnapshot, SourceRecord, StoreRecord, WorkStatus,
};
use crate::model::runs::RunRecord;
use crate::schedule::ocm::Key;
use crate::status::decisions::Exports;
use crate::store::records::{
    self, BINDING_PREFIX, CLUSTER_PREFIX, DECISIONS_PREFIX, HUB_PREFIX, OCM_PREFIX, OVERRIDE_PREFIX, PLACEMENT_PREFIX,
    POLICY_PREFIX, RUN_PREFIX, SNAPSHOT_PREFIX, STORE_KEY, WORK_PREFIX,
};
use crate::store::{Expected, Op, Result, Store};

/// The name of the one source's record.
pub const SOURCE_NAME: &str = "source";

/// Everything that a life begins with: what an earlier one wrote down.
#[derive(Debug, Default)]
pub struct SavedRecords {
    /// What was known of the source.
    pub source: Option<SourceRecord>,
    /// What the store says of itself; `None` where nothing was decided with it yet.
    pub store: Option<StoreRecord>,
    /// Placements with everything of theirs; payloads are read from git afterwards.
    pub placements: BTreeMap<PlacementKey, PlacementState>,
    /// Clusters as they stood.
    pub clusters: BTreeMap<ClusterName, ClusterRecord>,
    /// What OCM Placements decided.
    pub ocm: Vec<OcmPlacementRecord>,
    /// Snapshots of overrides.
    pub overrides: Overrides,
    /// What was exported.
    pub exports: Exports,
    /// How hubs stood, by the namespace that is written to.
    pub hubs: BTreeMap<String, HubRecord>,
}

impl SavedRecords {
    /// Reads them from a store.
    ///
    /// # Errors
    /// A record that cannot be read is named: nothing is dropped because of it.
    pub fn read(store: &dyn Store) -> Result<Self> {
        let source = records::load::<SourceRecord>(store, &records::source_key(SOURCE_NAME))?;
        let clusters = records::load_all::<ClusterRecord>(store, CLUSTER_PREFIX)?.into_iter();
        let ocm = records::load_all::<OcmPlacementRecord>(store, OCM_PREFIX)?.into_iter();
        let exports = records::load_all::<DecisionsRecord>(store, DECISIONS_PREFIX)?.into_iter();
        let hubs = records::load_all::<HubRecord>(store, HUB_PREFIX)?.into_iter();
        Ok(Self {
            source: source.map(|record| record.value),
            store: records::load::<StoreRecord>(store, STORE_KEY)?.map(|record| record.value),
            placements: load(store)?,
            clusters: clusters.map(|record| (record.value.name.clone(), record.value)).collect(),
            ocm: ocm.map(|record| record.value).collect(),
            overrides: load_overrides(store)?,
            exports: exports.map(|record| (record.value.key.clone(), Arc::new(record.value))).collect(),
            hubs: hubs.map(|record| (record.value.namespace.clone(), record.value)).collect(),
        })
    }
}

/// Lets a store that no daemon holds go on with what members hold, also before any daemon has looked at them.
///
/// # Errors
/// The store cannot be read or written. That there is nothing to adopt is no error: the answer says so.
pub fn adopt_store(store: &dyn Store, person: &Person, now: Timestamp) -> Result<std::result::Result<Done, Refusal>> {
    let known = records::load::<StoreRecord>(store, STORE_KEY)?.map(|record| record.value);
    // A store of an earlier version says nothing of itself; with placements in it, it is not new.
    let is_new = known.as_ref().map_or(store.list(PLACEMENT_PREFIX)?.is_empty(), StoreRecord::waits);
    if !is_new {
        let message = "the store is not new: there is nothing to adopt".to_owned();
        return Ok(Err(Refusal { reason: RefusalReason::NotPossible, message }));
    }
    let mut record = known.unwrap_or_else(|| StoreRecord::new(now));
    record.adopt(&person.name, now);
    let entry = record.adoption_entry().map(Op::Journal);
    store.batch([records::put(STORE_KEY.to_owned(), &record, Expected::Any)?].into_iter().chain(entry).collect())?;
    let message = "adopted: the next `gitfleet run` goes on from what members hold".to_owned();
    Ok(Ok(Done { message, at: now, gate: None }))
}

/// Reads every placement from the store; payloads are read from git afterwards.
///
/// # Errors
/// A record that cannot be read is named: nothing is dropped because of it.
pub fn load(store: &dyn Store) -> Result<BTreeMap<PlacementKey, PlacementState>> {
    let mut placements = BTreeMap::new();
    for record in records::load_all::<PlacementRecord>(store, PLACEMENT_PREFIX)? {
        placements.insert(record.value.key.clone(), PlacementState::new(record.value));
    }
    for snapshot in records::load_all::<ResourceSnapshot>(store, SNAPSHOT_PREFIX)? {
        if let Some(state) = placements.get_mut(&snapshot.value.placement) {
            state.snapshots.insert(snapshot.value.index, Arc::new(snapshot.value));
        }
    }
    for policy in records::load_all::<PolicySnapshot>(store, POLICY_PREFIX)? {
        if let Some(state) = placements.get_mut(&policy.value.placement) {
            state.policies.insert(policy.value.index, Arc::new(policy.value));
        }
    }
    for binding in records::load_all::<Binding>(store, BINDING_PREFIX)? {
        if let Some(state) = placements.get_mut(&binding.value.placement) {
            state.bindings.insert(binding.value.name.clone(), Arc::new(binding.value));
        }
    }
    for run in records::load_all::<RunRecord>(store, RUN_PREFIX)? {
        if let Some(state) = placements.get_mut(&run.value.placement) {
            state.runs.insert(run.value);
        }
    }
    for (key, versioned) in store.list(WORK_PREFIX)? {
        let owner = records::placement_of(&key, WORK_PREFIX).zip(records::cluster_of(&key, WORK_PREFIX));
        let Some((placement, cluster)) = owner else { continue };
        if let Some(state) = placements.get_mut(&placement) {
            state.works.insert(cluster, Arc::new(records::decode::<WorkStatus>(key, &versioned)?.value));
        }
    }
    Ok(placements)
}

/// Returns what to write so that the store goes from `old` to `new`; `None` is a placement without records.
///
/// # Errors
/// A record that cannot be written as JSON, or is too large.
pub fn difference(old: Option<&PlacementState>, new: Option<&PlacementState>) -> Result<Vec<Op>> {
    let mut ops = Vec::new();
    let Some(key) = old.or(new).map(|state| state.record.key.clone()) else { return Ok(ops) };
    match (old.map(|state| &state.record), new.map(|state| &state.record)) {
        (Some(old), Some(new)) if old == new => {}
        // The lock of the store lets one process write: nobody else can have changed a record.
        (_, Some(new)) => ops.push(records::put(records::placement_key(&key), new, Expected::Any)?),
        (_, None) => ops.push(Op::Delete { key: records::placement_key(&key), expected: Expected::Any }),
    }
    let empty = PlacementState::new(old.or(new).expect("one of them was found").record.clone());
    let (old, new) = (old.unwrap_or(&empty), new.unwrap_or(&empty));
    compare(&old.snapshots, &new.snapshots, |index| records::snapshot_key(&key, *index), same, &mut ops)?;
    compare(&old.policies, &new.policies, |index| records::policy_key(&key, *index), same, &mut ops)?;
    compare(&old.bindings, &new.bindings, |name| records::binding_key(&key, name), same, &mut ops)?;
    compare(old.runs.records(), new.runs.records(), |name| records::run_key(&key, name), same, &mut ops)?;
    compare(&old.works, &new.works, |cluster| records::work_key(&key, cluster), same, &mut ops)?;
    Ok(ops)
}

/// Reads the snapshots of overrides from the store.
///
/// # Errors
/// As [`load`].
fn load_overrides(store: &dyn Store) -> Result<Overrides> {
    let snapshots = records::load_all::<OverrideSnapshot>(store, OVERRIDE_PREFIX)?;
    Ok(Overrides::restore(snapshots.into_iter().map(|record| record.value)))
}

/// Returns what to write so that the store has a snapshot of an override as it stands, or has it no more.
///
/// # Errors
/// As [`difference`].
pub fn override_op(overrides: &Overrides, id: &OverrideRef) -> Result<Op> {
    match overrides.get(id) {
        Some(snapshot) => records::put(records::override_key(id), snapshot, Expected::Any),
        None => Ok(Op::Delete { key: records::override_key(id), expected: Expected::Any }),
    }
}

/// Returns what to write so that an OCM Placement goes from `old` to `new`; `None` is one without a record.
///
/// # Errors
/// As [`difference`].
pub fn ocm_difference(
    key: &Key,
    old: Option<&OcmPlacementRecord>,
    new: Option<&OcmPlacementRecord>,
) -> Result<Vec<Op>> {
    let mut ops = Vec::new();
    let of =
        |record: Option<&OcmPlacementRecord>| record.map(|r| BTreeMap::from([((), r.clone())])).unwrap_or_default();
    compare(&of(old), &of(new), |()| records::ocm_key(&key.namespace, &key.name), PartialEq::eq, &mut ops)?;
    Ok(ops)
}

/// Tells whether two shared records are the same; one that is shared still was not touched.
fn same<V: PartialEq>(a: &Arc<V>, b: &Arc<V>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

fn compare<K: Ord, V: Serialize>(
    old: &BTreeMap<K, V>,
    new: &BTreeMap<K, V>,
    key: impl Fn(&K) -> String,
    same: impl Fn(&V, &V) -> bool,
    ops: &mut Vec<Op>,
) -> Result<()> {
    let mut known = Along::new(old);
    for (name, value) in new {
        if !known.get(name).is_some_and(|known| same(known, value)) {
            ops.push(records::put(key(name), value, Expected::Any)?);
        }
    }
    let mut kept = Along::new(new);
    for name in old.keys().filter(|name| kept.get(name).is_none()) {
        ops.push(Op::Delete { key: key(name), expected: Expected::Any });
    }
    Ok(())
}
