//! Records to placements and back: what the store keeps of a decision is the difference it made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use crate::store::records;
use crate::store::records::{PLACEMENT_PREFIX, STORE_KEY};
use crate::store::saved::Records;
use crate::store::{Expected, Op, Result, Store};
use decide::names::Names;
use decide::overrides::Overrides;
use decide::state::PlacementState;
use decide::status::decisions::Exports;
use model::agent::AgentToken;
use model::along::Along;
use model::commands::{Done, Person, Refusal, RefusalReason};
use model::decisions::HubRecord;
use model::id::{ClusterName, PlacementKey};
use model::ocm::OcmPlacementRecord;
use model::overrides::OverrideRef;
use model::records::{ClusterRecord, PlacementRecord, SourceRecord, StoreRecord};
use schedule::ocm::Key;

/// The name of the one source's record.
pub const SOURCE_NAME: &str = "source";

/// Everything that a process begins with: what an earlier one stored.
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
    /// The state of hubs, by the namespace that is written to.
    pub hubs: BTreeMap<String, HubRecord>,
    /// The tokens of agents, by name.
    pub agent_tokens: BTreeMap<String, AgentToken>,
}

impl SavedRecords {
    /// Reads them from a store.
    ///
    /// # Errors
    /// A record that cannot be read is named: nothing is dropped because of it.
    pub fn read(store: &dyn Store) -> Result<Self> {
        Records::read(store).map(Self::from)
    }
}

impl From<Records> for SavedRecords {
    fn from(mut saved: Records) -> Self {
        let exports = saved.decisions.drain(..).map(|record| (record.key.clone(), Arc::new(record))).collect();
        let hubs = saved.hubs.drain(..).map(|record| (record.namespace.clone(), record)).collect();
        Self {
            source: saved.source.take(),
            store: saved.store.take(),
            clusters: std::mem::take(&mut saved.clusters),
            agent_tokens: std::mem::take(&mut saved.agent_tokens),
            ocm: std::mem::take(&mut saved.ocm),
            overrides: Overrides::restore(saved.overrides.drain(..)),
            exports,
            hubs,
            placements: placements(saved),
        }
    }
}

/// Lets a store that no daemon holds continue with what members hold, also before any daemon has read them.
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
    let message = "adopted: the next `gitfleet run` continues from what members hold".to_owned();
    Ok(Ok(Done { message, at: now, gate: None }))
}

/// Reads every placement from the store; payloads are read from git afterwards.
///
/// # Errors
/// A record that cannot be read is named: nothing is dropped because of it.
pub fn load(store: &dyn Store) -> Result<BTreeMap<PlacementKey, PlacementState>> {
    Records::of_placements(store).map(placements)
}

/// Gives each placement what is its own. What is left belongs to none.
fn placements(mut saved: Records) -> BTreeMap<PlacementKey, PlacementState> {
    let state = |record: PlacementRecord| {
        let key = record.key.clone();
        let mut state = PlacementState::new(record);
        state.snapshots = saved.snapshots.remove(&key).unwrap_or_default();
        state.policies = saved.policies.remove(&key).unwrap_or_default();
        let bindings = saved.bindings.remove(&key).unwrap_or_default();
        state.bindings = bindings.into_iter().map(|binding| (binding.name.clone(), binding)).collect();
        state.runs = saved.runs.remove(&key).unwrap_or_default();
        state.works = saved.works.remove(&key).unwrap_or_default();
        (key, state)
    };
    let mut placements: BTreeMap<PlacementKey, PlacementState> =
        std::mem::take(&mut saved.placements).into_iter().map(state).collect();
    let names = names(&placements);
    for (key, state) in &mut placements {
        state.shared_name = names.is_shared(key, &state.runs);
    }
    placements
}

/// Returns the names of all placements and runs.
pub fn names(placements: &BTreeMap<PlacementKey, PlacementState>) -> Names {
    Names::of(placements.iter().map(|(key, state)| (key, &state.runs)))
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
        // One daemon writes: the embedded store is locked, and PostgreSQL refuses the batch of an earlier epoch.
        (_, Some(new)) => ops.push(records::put(records::placement_key(&key), new, Expected::Any)?),
        (_, None) => ops.push(Op::Delete { key: records::placement_key(&key), expected: Expected::Any }),
    }
    let empty = PlacementState::new(old.or(new).expect("one of them was found").record.clone());
    let old = old.unwrap_or(&empty);
    let new = new.unwrap_or(&empty);
    compare(&old.snapshots, &new.snapshots, |index| records::snapshot_key(&key, *index), same, &mut ops)?;
    compare(&old.policies, &new.policies, |index| records::policy_key(&key, *index), same, &mut ops)?;
    compare(&old.bindings, &new.bindings, |name| records::binding_key(&key, name), same, &mut ops)?;
    compare(old.runs.records(), new.runs.records(), |name| records::run_key(&key, name), same, &mut ops)?;
    compare(&old.works, &new.works, |cluster| records::work_key(&key, cluster), same, &mut ops)?;
    Ok(ops)
}

/// Returns the keys of the records that are written or removed.
pub fn keys(ops: &[Op]) -> BTreeSet<String> {
    let key = |op: &Op| match op {
        Op::Put { key, .. } | Op::Delete { key, .. } => Some(key.clone()),
        Op::Journal(_) => None,
    };
    ops.iter().filter_map(key).collect()
}

/// Returns what to write so that a placement's records with these keys are as in `new`, whatever the store has of them.
///
/// # Errors
/// As [`difference`].
pub fn restated(new: Option<&PlacementState>, doubted: &BTreeSet<String>) -> Result<Vec<Op>> {
    let mut ops = if doubted.is_empty() { Vec::new() } else { difference(None, new)? };
    ops.retain(|op| matches!(op, Op::Put { key, .. } if doubted.contains(key)));
    let kept = keys(&ops);
    let gone = doubted.difference(&kept).map(|key| Op::Delete { key: key.clone(), expected: Expected::Any });
    ops.extend(gone.collect::<Vec<_>>());
    Ok(ops)
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
