//! The core: events go in, batches for the store and effects come out. Pure.
//!
//! It owns all data of decisions and executes nothing: it has no channel, no store and no clock. The daemon drives it with real
//! members and a real store, the simulation with simulated ones, and both run the same functions.
//!
//! The order of calls makes a crash harmless: [`Core::take_in`] an event, [`Core::decide`] what is due, let the store keep the
//! batch, and only then execute the effects of [`Core::written`]. A process that ends between any two of these calls continues
//! from the store and from the reports of members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use self::measures::Measures;
use self::persist::SavedRecords;
use crate::store::Op;
use config::{Configuration, MemberAccess};
use decide::Decision;
use decide::ocm::Ocm;
use decide::servers::ReachedServers;
use decide::state::{FleetState, PlacementState};
use decide::status::decisions::Exports;
use model::decisions::HubRecord;
use model::id::{ClusterName, CommitId, ObjectId, PlacementKey};
use model::ocm::OcmPlacementRecord;
use model::overrides::OverrideRef;
use model::records::{ClusterRecord, Kept, SourceRecord, StoreRecord, WorkStatus};
use model::runs::MetricQuery;
use model::warning::Warning;
use model::work::WorkOrder;
use schedule::ocm::Key;

mod adoption;
pub mod agent_tokens;
mod changed;
mod checks;
mod commands;
mod configuration;
mod convergence;
mod decisions;
pub mod effect;
pub mod event;
pub mod execute;
mod exports;
mod forge_updates;
pub mod measures;
pub mod member;
mod members;
mod names;
mod orders;
pub mod persist;
mod pushes;
mod queue;
mod servers;
mod source;
mod sources;
#[cfg(test)]
mod staged_tests;
pub mod store;
#[cfg(test)]
mod tests;
pub mod waits;
mod written;

use agent_tokens::AgentTokens;
pub use changed::Changed;
use convergence::log_entries;
pub use effect::{Effect, ForgeUpdate, MemberCommand, PlacementUpdate};
pub use event::{ConfigurationEvent, Event, HubReport, MemberEvent, SourceEvent};
use names::GivenNames;
use queue::Queue;
use source::SourceLook;
pub use source::{identity, source_name};

/// Longest wait of the first decision for members that have neither answered nor failed.
const FIRST_LOOK_MAX: SignedDuration = SignedDuration::from_secs(15);
/// Pause before a store that refused a batch is tried again.
const STORE_RETRY: SignedDuration = SignedDuration::from_secs(2);
/// Pause before a payload that could not be read is read again.
const PAYLOAD_RETRY: SignedDuration = SignedDuration::from_secs(30);

/// Decisions to store; handed back as soon as the store has answered.
#[derive(Debug, Default)]
pub struct Batch {
    /// The operations, for one atomic batch of the store. Empty if nothing changes; then nothing needs to be written.
    pub ops: Vec<Op>,
    /// The number of decisions that change a record.
    pub changed: u64,
    /// The number of decisions that change nothing.
    pub unchanged: u64,
    /// The state of clusters was refreshed.
    pub refreshed: bool,
    source: Option<SourceRecord>,
    hub: Option<HubRecord>,
    clusters: Vec<ClusterRecord>,
    /// Clusters that something was pushed about.
    pushed: BTreeMap<ClusterName, ClusterRecord>,
    picked: Vec<Picked>,
    decided: Vec<(PlacementKey, Decision)>,
    reports: Reports,
    exports: Option<Arc<Exports>>,
    overrides: BTreeSet<OverrideRef>,
    executed: Option<Box<PlacementState>>,
    store: Option<StoreRecord>,
    adopts: bool,
    /// A person lets the accepted commit continue although the source was not read.
    continues: bool,
    /// Decisions of people that members keep, taken over by this batch.
    kept: BTreeMap<PlacementKey, Kept>,
    /// The store's record before this batch ended the takeover.
    took_over: Option<StoreRecord>,
    /// Clusters whose bindings the decisions of this batch undo, because they hold something newer.
    ahead: BTreeMap<PlacementKey, BTreeMap<ClusterName, u64>>,
    accepted_rewrite: Option<CommitId>,
    agent_tokens: Option<Arc<AgentTokens>>,
    /// Members whose tasks began and are told which placements they have.
    restarted: BTreeSet<ClusterName>,
}

/// A decided OCM Placement: its record before, and when time alone changes the decision.
#[derive(Debug)]
struct Picked {
    key: Key,
    known: Option<Arc<OcmPlacementRecord>>,
    journal: Vec<model::records::JournalEntry>,
    wake_at: Option<Timestamp>,
}

/// Reports of members.
type Reports = BTreeMap<PlacementKey, BTreeMap<ClusterName, Arc<WorkStatus>>>;

/// The last order to a member.
#[derive(Debug)]
struct Sent {
    order: Arc<WorkOrder>,
    /// The member has reported on all of it in this process: its report is not from an earlier process.
    is_tried: bool,
}

/// All data of decisions.
#[derive(Debug)]
pub struct Core {
    configuration: Configuration,
    /// What decisions about all placements read.
    pub fleet: FleetState,
    /// Every placement as it stands.
    pub placements: BTreeMap<PlacementKey, PlacementState>,
    source: SourceRecord,
    /// As stored.
    stored_source: SourceRecord,
    agent_tokens: Arc<AgentTokens>,
    members: BTreeMap<ClusterName, MemberAccess>,
    /// The store's own record; `None` before the first decision.
    store: Option<StoreRecord>,
    /// As stored.
    stored_store: Option<StoreRecord>,
    /// Members that have answered this process.
    answered: BTreeSet<ClusterName>,
    /// Members that have neither answered nor failed yet.
    unseen: BTreeSet<ClusterName>,
    /// Members whose tasks began and are not told yet which placements they have.
    restarted: BTreeSet<ClusterName>,
    /// The API servers that members lead to.
    servers: ReachedServers,
    /// The warning about clusters that no entry of `members:` reaches.
    unreached: Option<Warning>,
    /// What was refused when a single pass had it tried again last; empty before.
    tried_again: BTreeSet<(PlacementKey, ClusterName, ObjectId)>,
    /// The last orders to members, by placement.
    sent: BTreeMap<PlacementKey, BTreeMap<ClusterName, Sent>>,
    /// The queries that are asked, by placement.
    asked: BTreeMap<PlacementKey, BTreeSet<MetricQuery>>,
    queue: Queue,
    /// Reports that no stored decision includes yet: the placements do not have them.
    reports: Reports,
    /// What changed in the store since somebody asked.
    changed: Changed,
    /// The clusters' records as stored.
    stored_clusters: BTreeMap<ClusterName, ClusterRecord>,
    /// Numbers about rollouts.
    measures: Measures,
    /// When this process first saw the commits that snapshots name, and the newest commit.
    seen_at: BTreeMap<CommitId, Timestamp>,
    /// The last log message about each settled placement.
    settled: BTreeMap<PlacementKey, String>,
    /// The exported decisions, as stored.
    exports: Arc<Exports>,
    hub: Option<HubRecord>,
    /// As stored.
    stored_hub: Option<HubRecord>,
    /// The state of the hub; `None` before its first answer.
    hub_report: Option<HubReport>,
    /// Snapshots whose payload is being read.
    reading: BTreeSet<(PlacementKey, u64)>,
    /// This process has decided something.
    has_decided: bool,
    /// Commits in batches that the store refused or may have kept: the next process may start with them.
    in_doubt: BTreeSet<CommitId>,
    /// Keys of records that a failed batch may have written: the store has them as before, or as that batch has them.
    doubted: BTreeMap<PlacementKey, BTreeSet<String>>,
    /// The accepted commit when the source was last told which commits are to be kept.
    retained: Option<CommitId>,
    source_look: SourceLook,
    /// The store is writing a batch.
    outstanding: bool,
    effects: Vec<Effect>,
    /// Collects updates for the bot; absent without a forge.
    listener: Option<forge_updates::Listener>,
    started_at: Timestamp,
    /// When this process began to wait for its members: at its first commit.
    members_from: Timestamp,
}

impl Core {
    /// Starts from the records of an earlier process. Nothing is decided before the source was read and every member has
    /// answered or failed.
    pub fn begin(configuration: Configuration, saved: SavedRecords, now: Timestamp) -> (Self, Vec<Effect>) {
        let stored_source = saved.source.unwrap_or_default();
        let mut records = saved.clusters.clone();
        members::await_answers(&mut records, now);
        let (ocm, has_forge) = (Ocm::restore(saved.ocm), configuration.approvals().is_some());
        let fleet = FleetState {
            source: source_name(&configuration, &stored_source),
            records,
            ocm,
            approvals: configuration.approval_rules(),
            approvers: configuration.approvers(),
            by_path: Arc::new(configuration.approvers_by_path()),
            floor: configuration.floor(),
            tenants: Arc::new(configuration.tenants()),
            servers: configuration.metric_servers(),
            overrides: saved.overrides,
            names: persist::names(&saved.placements),
            heard: saved.placements.iter().map(|(key, state)| (key.clone(), members::unheard(state))).collect(),
            ..FleetState::default()
        };
        let (source, exports) = (source::begin(&configuration, &stored_source), Arc::new(saved.exports));
        // The hub gets the exports immediately: somebody may have changed it meanwhile.
        let effects = if exports.is_empty() { Vec::new() } else { vec![Effect::Publish(Arc::clone(&exports))] };
        let hub = exports::namespace(&configuration).and_then(|namespace| saved.hubs.get(namespace).cloned());
        // A store of an earlier version, which has no record of itself.
        let is_old = saved.store.is_none() && !saved.placements.is_empty();
        let mut core = Self {
            configuration,
            changed: Changed::everything(&saved.placements, &saved.clusters),
            fleet,
            store: saved.store.clone().or_else(|| is_old.then(|| StoreRecord::new(now))),
            stored_store: saved.store,
            answered: BTreeSet::new(),
            queue: Queue::holding(&saved.placements),
            placements: saved.placements,
            seen_at: source.seen.clone().zip(source.seen_at).into_iter().collect(),
            source,
            stored_source,
            agent_tokens: Arc::new(saved.agent_tokens),
            members: BTreeMap::new(),
            unseen: BTreeSet::new(),
            restarted: BTreeSet::new(),
            servers: servers::stored(&saved.clusters),
            unreached: None,
            tried_again: BTreeSet::new(),
            sent: BTreeMap::new(),
            asked: BTreeMap::new(),
            reports: BTreeMap::new(),
            stored_clusters: saved.clusters,
            measures: Measures::default(),
            settled: BTreeMap::new(),
            exports,
            stored_hub: hub.clone(),
            hub,
            hub_report: None,
            reading: BTreeSet::new(),
            has_decided: false,
            in_doubt: BTreeSet::new(),
            doubted: BTreeMap::new(),
            retained: None,
            source_look: SourceLook::Awaited,
            outstanding: false,
            effects: Vec::new(),
            listener: has_forge.then(forge_updates::Listener::default),
            started_at: now,
            members_from: now,
        };
        core.note_rolled_out(now);
        (core, effects)
    }

    /// Returns the accepted commit, if it is known without reading the source.
    pub fn accepted(&self) -> Option<&CommitId> {
        self.source.accepted.as_ref()
    }

    /// Returns the tip of a rewritten history that a person accepted.
    pub fn accepted_rewrite(&self) -> Option<&CommitId> {
        self.source.accepted_rewrite.as_ref()
    }

    /// Returns the data that decisions read.
    pub fn fleet(&self) -> &FleetState {
        &self.fleet
    }

    /// Returns the placements as stored.
    pub fn placements(&self) -> &BTreeMap<PlacementKey, PlacementState> {
        &self.placements
    }

    /// Handles an event. Returns effects to execute immediately; they depend on nothing that is not stored yet.
    pub fn take_in(&mut self, event: Event, now: Timestamp) -> Vec<Effect> {
        match event {
            Event::Source(news) => {
                self.handle_source(news, now);
                self.publish_source();
            }
            Event::Member(event) => self.handle_member(event, now),
            Event::Hub(report) => self.handle_hub(report, now),
            Event::Answered(query, value) => self.take_answer(query, value, now),
            Event::Configuration(event) => self.reconfigure(event, now),
        }
        std::mem::take(&mut self.effects)
    }

    /// Returns when to call [`Core::decide`] without an event; an instant in the past means now.
    pub fn next_wake(&self) -> Option<Timestamp> {
        if self.is_due() && !self.queue.waits() && self.can_decide() {
            return Some(self.started_at);
        }
        let source = (self.source_look == SourceLook::Awaited).then(|| self.started_at + FIRST_LOOK_MAX);
        let members = (!self.unseen.is_empty()).then(|| self.members_from + FIRST_LOOK_MAX);
        self.queue.next_wake().into_iter().chain(source).chain(members).min()
    }

    /// Returns how many placements wait for a decision.
    pub fn queue_depth(&self) -> usize {
        self.queue.placements.len()
    }

    /// Tells whether decisions may be made: after the source and every member have answered or failed. A newer commit may stop
    /// what the accepted one would start; members' inventories are the basis for deletions, and a lost store continues from
    /// their indexes. The first decisions also wait for all payloads: only then can an object pass from one placement to
    /// another without a deletion.
    fn can_decide(&self) -> bool {
        let knows_payloads = self.has_decided || self.reading.is_empty();
        let may_begin = self.unseen.is_empty() && self.source_look != SourceLook::Awaited && !self.waits_for_adoption();
        may_begin && knows_payloads && self.fleet.tree.commit.is_some() && !self.outstanding
    }

    /// Tells whether something in the queue can be decided.
    fn is_due(&self) -> bool {
        let is_due = |key: &PlacementKey| !self.awaits_payload(key);
        let is_ocm_due = !self.queue.ocm.is_empty() && !self.fleet.source_unread;
        !self.queue.clusters.is_empty() || is_ocm_due || self.queue.placements.iter().any(is_due)
    }

    /// Tells whether a placement waits for payloads: for its own, or, where git has just brought it, for those of a placement that git has no
    /// more. Both may be one that was renamed, and only a decision about both finds that out.
    fn awaits_payload(&self, key: &PlacementKey) -> bool {
        let is_in_git = |key: &PlacementKey| self.fleet.tree.placements.contains_key(key);
        let record = |key: &PlacementKey| self.placements.get(key).map(|state| &state.record);
        let is_coming = || is_in_git(key) && record(key).is_some_and(|record| record.generation == 0 || record.removed);
        let is_going = |key: &PlacementKey| !is_in_git(key) && record(key).is_some_and(|record| !record.removed);
        self.is_reading(key)
            || is_coming() && self.reading.iter().any(|(other, _)| is_going(other) && self.is_reading(other))
    }

    /// Tells whether a payload of the placement is being read for the first time. A payload that could not be read holds nothing up
    /// while it is read again: the placement was decided without it already.
    fn is_reading(&self, key: &PlacementKey) -> bool {
        if self.reading.is_empty() {
            return false;
        }
        let unreadable = self.placements.get(key).map(|state| &state.unreadable);
        let of_placement = self.reading.range((key.clone(), 0)..=(key.clone(), u64::MAX));
        of_placement.into_iter().any(|(_, index)| unreadable.is_none_or(|unreadable| !unreadable.contains(index)))
    }

    /// Decides what is due, on all cores. Returns the batch to store and to act on, if there is one; it must come back through
    /// [`Core::written`] or [`Core::refused`] before anything else is decided.
    pub fn decide(&mut self, now: Timestamp) -> Option<Batch> {
        // First, so that a cluster whose outage became too long is refreshed and decided in this round.
        self.queue.mark_due(now);
        // Also during the pause of the store: a wake-up instant in the past would make the loop spin.
        if now >= self.started_at + FIRST_LOOK_MAX {
            self.give_up_source();
        }
        if now >= self.members_from + FIRST_LOOK_MAX {
            self.unseen.clear();
        }
        self.read_again(now);
        if self.outstanding || self.queue.waits() {
            return None;
        }
        let mut batch = Batch::default();
        if self.can_decide() {
            // In the batch of the first decision: a store that holds placements never looks new.
            self.begin_store(&mut batch, now);
        }
        self.write_source(&mut batch, now);
        self.write_hub(&mut batch);
        self.write_overrides(&mut batch);
        if self.can_decide() {
            self.keep_servers();
        }
        if !self.queue.clusters.is_empty() {
            self.refresh_clusters(&mut batch, now);
        }
        if self.can_decide() {
            if !self.fleet.source_unread {
                self.decide_ocm(&mut batch, now);
            }
            self.decide_placements(&mut batch, now);
            self.has_decided = true;
            self.end_taking_over(&mut batch);
            batch.restarted = self.take_complete();
        }
        self.write_store(&mut batch);
        // Immediate effects depend on no record, so they go out with an empty batch.
        let is_idle = batch.ops.is_empty()
            && !batch.refreshed
            && batch.picked.is_empty()
            && batch.decided.is_empty()
            && batch.restarted.is_empty()
            && self.effects.is_empty();
        self.outstanding = !is_idle;
        (!is_idle).then_some(batch)
    }

    /// Decides OCM Placements one after the other, each with the picks of those before it; the placements that take clusters
    /// from them are decided in the same batch.
    fn decide_ocm(&mut self, batch: &mut Batch, now: Timestamp) {
        let tree = Arc::clone(&self.fleet.tree);
        for key in self.fleet.ocm.in_order(std::mem::take(&mut self.queue.ocm)) {
            let known = self.fleet.ocm.record(&key).cloned();
            let mut decision = self.fleet.ocm.decide(&key, now);
            match persist::ocm_difference(&key, known.as_deref(), decision.record.as_ref()) {
                Ok(more) => batch.take(more),
                Err(error) => {
                    tracing::error!(placement = %key, %error, "the decision could not be stored and has no effect");
                    continue;
                }
            }
            let journal = std::mem::take(&mut decision.journal);
            batch.ops.extend(journal.iter().cloned().map(Op::Journal));
            let wake_at = decision.wake_at;
            self.fleet.ocm.settle(decision);
            if known.as_ref() != self.fleet.ocm.record(&key) {
                self.queue.concerns_followers(&tree, &key);
            }
            batch.picked.push(Picked { key, known, journal, wake_at });
        }
    }

    fn decide_placements(&mut self, batch: &mut Batch, now: Timestamp) {
        self.find_what_is_held();
        let all = std::mem::take(&mut self.queue.placements);
        let (waiting, due) = all.into_iter().partition(|key| self.awaits_payload(key));
        // Each of them is queued when its payload arrives.
        self.queue.placements = waiting;
        let mut given = GivenNames::default();
        for (key, decision, difference) in self.decisions(&due, now) {
            let known = self.placements.get(&key).map(|state| &state.runs);
            if !given.add(&key, known, &decision.state.runs) {
                self.queue.placements.insert(key);
                continue;
            }
            match difference {
                Ok(more) => batch.take(more),
                Err(error) => {
                    tracing::error!(placement = %key, %error, "the decision could not be stored and has no effect");
                    continue;
                }
            }
            batch.ops.extend(decision.journal.iter().cloned().map(Op::Journal));
            // The batch keeps its inputs until the store has answered: a refusal gives them back.
            batch.ahead.extend(self.fleet.ahead.remove_entry(&key));
            batch.kept.extend(self.fleet.kept.remove_entry(&key));
            if let Some(reports) = self.reports.get(&key) {
                batch.reports.insert(key.clone(), reports.clone());
            }
            batch.decided.push((key, decision));
        }
        if batch.decided.is_empty() && batch.picked.is_empty() {
            return;
        }
        match self.exports_after(batch, now) {
            Ok((exports, more)) => {
                batch.ops.extend(more);
                batch.exports = Some(exports);
            }
            Err(error) => {
                tracing::error!(%error, "the exported decisions could not be stored and stay as they are");
            }
        }
    }
}
