//! What the store has, and what is uncertain about it after a batch that it refused or may have kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::agent_tokens;
use super::agent_tokens::AgentTokens;
use super::batch::{Batch, BatchChange};
use super::persist;
use super::persist::SavedRecords;
use crate::store::records::STORE_KEY;
use crate::store::{self, Op};
use config::{Configuration, OnEmptyStore};
use decide::state::PlacementState;
use model::commands::{Command, Done, Person, Refusal, RefusalReason};
use model::id::{ClusterName, CommitId, PlacementKey};
use model::records::{ClusterRecord, SourceRecord, StoreRecord};

/// The actor that the journal names when the configuration adopts the store.
const BY_CONFIGURATION: &str = "store.onEmpty: Adopt";

/// The records as stored, beside placements and exports, and what is uncertain about all of them.
#[derive(Debug)]
pub(super) struct Persistence {
    /// The store's own record; `None` before the first decision.
    pub store: Option<StoreRecord>,
    pub stored_store: Option<StoreRecord>,
    pub stored_source: SourceRecord,
    pub stored_clusters: BTreeMap<ClusterName, ClusterRecord>,
    pub agent_tokens: Arc<AgentTokens>,
    /// The agents whose tokens are in files of the configuration.
    fixed_agents: BTreeSet<String>,
    on_empty: OnEmptyStore,
    /// The store is writing a batch.
    pub outstanding: bool,
    /// This process has decided something.
    pub has_decided: bool,
    /// Commits in batches that the store refused or may have kept: the next process may start with them.
    in_doubt: BTreeSet<CommitId>,
    /// Keys of records that a failed batch may have written: the store has them as before, or as that batch has them.
    doubted: BTreeMap<PlacementKey, BTreeSet<String>>,
}

impl Persistence {
    /// Begins with what an earlier process stored, and takes it except placements and exports.
    pub(super) fn begin(configuration: &Configuration, saved: &mut SavedRecords, now: Timestamp) -> Self {
        let stored_store = saved.store.take();
        // A store of an earlier version, which has no record of itself.
        let is_old = stored_store.is_none() && !saved.placements.is_empty();
        let tokens = configuration.agents.iter().flat_map(|agents| &agents.tokens);
        Self {
            store: stored_store.clone().or_else(|| is_old.then(|| StoreRecord::new(now))),
            stored_store,
            stored_source: saved.source.take().unwrap_or_default(),
            stored_clusters: std::mem::take(&mut saved.clusters),
            agent_tokens: Arc::new(std::mem::take(&mut saved.agent_tokens)),
            fixed_agents: tokens.map(|token| token.name.clone()).collect(),
            on_empty: configuration.store.on_empty,
            outstanding: false,
            has_decided: false,
            in_doubt: BTreeSet::new(),
            doubted: BTreeMap::new(),
        }
    }

    /// Returns why nothing starts before a person has adopted the store; `None` if no adoption is pending.
    pub(super) fn adoption_complaint(&self) -> Option<String> {
        self.store.as_ref().and_then(StoreRecord::complaint)
    }

    /// Tells whether nothing starts before a person has adopted the store.
    pub(super) fn waits_for_adoption(&self) -> bool {
        self.store.as_ref().is_some_and(StoreRecord::waits)
    }

    /// Tells whether the store's own record differs from the stored one.
    pub(super) fn is_store_unwritten(&self) -> bool {
        self.store != self.stored_store
    }

    /// Tells whether a member was not checked since the store was lost or restored.
    pub(super) fn is_unseen(&self, cluster: &ClusterName) -> bool {
        self.store.as_ref().is_some_and(|store| store.unseen.contains(cluster))
    }

    /// Tells whether decisions of people that a member keeps may be missing in the store. In every other process the store knows them, and
    /// an offline member may have missed the last one.
    pub(super) fn may_lack_decisions(&self, cluster: &ClusterName) -> bool {
        self.store.as_ref().is_none_or(|store| store.waits() || store.takes_over || store.unseen.contains(cluster))
    }

    /// Records how many inventories of this source a member holds. A new store, or one that has not seen the member since its
    /// restore, wrote none of them.
    pub(super) fn note_holder(&mut self, cluster: &ClusterName, inventories: usize, now: Timestamp) {
        let is_unknown = self
            .store
            .as_ref()
            .is_none_or(|store| store.adopted.is_none() && (store.waits() || store.unseen.contains(cluster)));
        // Before a first decision no record contains what a member holds beyond the backup.
        if let Some(store) = self.store.as_mut().filter(|store| store.adopted.is_none()) {
            store.unseen.remove(cluster);
        }
        if !is_unknown || inventories == 0 {
            return;
        }
        let store = self.store.get_or_insert_with(|| StoreRecord::new(now));
        let is_new = store.found.insert(cluster.clone(), inventories).is_none();
        if self.on_empty == OnEmptyStore::Adopt {
            store.adopt(BY_CONFIGURATION, now);
            tracing::warn!(
                cluster = %cluster,
                "the store is new, but members hold what this source delivered before; gitfleet continues from that, because \
                 store.onEmpty says Adopt"
            );
        } else if is_new && let Some(complaint) = store.complaint() {
            tracing::warn!(about = %complaint, "the store is new, and waits for a person");
        }
    }

    /// Writes the store's record into the batch if it changed.
    pub(super) fn write_store(&self, batch: &mut Batch) {
        if !self.is_store_unwritten() {
            return;
        }
        if let Some(store) = &self.store
            && batch.write(STORE_KEY.to_owned(), store)
        {
            batch.changes.push(BatchChange::Store(store.clone()));
        }
    }

    /// Tells whether a decision is the first that uses the store, or one while it takes over what members hold.
    pub(super) fn begins_store(&self) -> bool {
        self.store.as_ref().is_none_or(|store| store.takes_over)
    }

    /// Marks the store as used: something is decided, so it is no longer new. Members that have not answered are checked when they do: they
    /// may hold inventories of an earlier store.
    pub(super) fn begin_store(&mut self, batch: &mut Batch, unanswered: Vec<ClusterName>, now: Timestamp) {
        let store = self.store.get_or_insert_with(|| StoreRecord::new(now));
        store.unseen.extend(unanswered);
        let is_written = self.stored_store.as_ref().is_some_and(|stored| stored.adopted == store.adopted);
        if !is_written {
            batch.ops.extend(store.adoption_entry().map(Op::Journal));
        }
    }

    /// Ends the takeover, except for the members that `stays_unseen` names, and while the source is unread: a newer commit may have further
    /// members. Returns the record before, if that changes it.
    pub(super) fn end_taking_over(
        &mut self,
        is_unread: bool,
        stays_unseen: impl Fn(&ClusterName) -> bool,
    ) -> Option<StoreRecord> {
        let store = self.store.as_mut().filter(|store| store.adopted.is_some())?;
        let before = store.clone();
        store.takes_over &= is_unread;
        store.unseen.retain(stays_unseen);
        (*store != before).then_some(before)
    }

    /// Takes back that the takeover ended: the store refused the decisions that ended it.
    pub(super) fn take_over_again(&mut self, before: StoreRecord) {
        if let Some(store) = &mut self.store {
            store.takes_over |= before.takes_over;
            store.unseen.extend(before.unseen);
        }
    }

    /// Lets a person adopt the store.
    ///
    /// # Errors
    /// There is nothing to adopt.
    pub(super) fn adopt(&self, person: &Person, now: Timestamp) -> Result<(Batch, Done), Refusal> {
        let Some(mut store) = self.store.clone().filter(StoreRecord::waits) else {
            let message = "the store is not new: there is nothing to adopt".to_owned();
            return Err(Refusal { reason: RefusalReason::NotPossible, message });
        };
        store.adopt(&person.name, now);
        let mut batch = Batch::default();
        if !batch.write(STORE_KEY.to_owned(), &store) {
            let message = "could not save the command, so it was not executed; see the daemon's log".to_owned();
            return Err(Refusal { reason: RefusalReason::NotPossible, message });
        }
        batch.ops.extend(store.adoption_entry().map(Op::Journal));
        let message = format!("adopted: gitfleet continues from what {} members hold", store.found.len());
        batch.changes.push(BatchChange::Adopted(store));
        Ok((batch, Done { message, at: now, gate: None }))
    }

    /// Changes which agents may connect.
    ///
    /// # Errors
    /// Why it is not carried out.
    pub(super) fn change_agents(
        &self,
        command: &Command,
        person: &Person,
        now: Timestamp,
    ) -> Result<agent_tokens::ChangedTokens, Refusal> {
        let fixed = self.fixed_agents.iter().map(String::as_str).collect();
        agent_tokens::execute(&self.agent_tokens, &fixed, command, person, now)
    }

    /// Returns what to write so that the store has a placement as it is to be, `None` for one without records. What it is known to have is
    /// left out; what is in doubt is not.
    ///
    /// # Errors
    /// As [`persist::difference`].
    pub(super) fn difference(
        &self,
        key: &PlacementKey,
        known: Option<&PlacementState>,
        next: Option<&PlacementState>,
    ) -> store::Result<Vec<Op>> {
        let mut ops = persist::difference(known, next)?;
        if let Some(doubted) = self.doubted.get(key) {
            let written = persist::keys(&ops);
            ops.extend(persist::restated(next, &doubted.difference(&written).cloned().collect())?);
        }
        Ok(ops)
    }

    /// Notes that the store may have a placement as `known` or as `next`.
    pub(super) fn doubt(&mut self, key: &PlacementKey, known: Option<&PlacementState>, next: Option<&PlacementState>) {
        let written = self.difference(key, known, next).map(|ops| persist::keys(&ops)).unwrap_or_default();
        self.doubted.entry(key.clone()).or_default().extend(written);
    }

    /// Notes that the store has a placement as decided.
    pub(super) fn trust(&mut self, key: &PlacementKey) {
        self.doubted.remove(key);
    }

    /// Notes commits that records name which the store may have.
    pub(super) fn doubt_commits(&mut self, commits: impl IntoIterator<Item = CommitId>) {
        self.in_doubt.extend(commits);
    }

    /// Notes that everything in doubt was overwritten.
    pub(super) fn trust_commits(&mut self) {
        self.in_doubt.clear();
    }

    /// Returns the commits that the next process may begin with or decide about, beside the accepted one.
    pub(super) fn commits(&self) -> impl Iterator<Item = &CommitId> {
        self.stored_source.accepted.iter().chain(&self.in_doubt)
    }
}
