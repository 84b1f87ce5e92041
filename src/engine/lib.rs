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
use config::Configuration;
use decide::ocm::Ocm;
use decide::state::{FleetState, PlacementState};
use model::id::{ClusterName, CommitId, PlacementKey};
use model::records::{ClusterRecord, SourceRecord, StoreRecord};

mod adoption;
pub mod agent_tokens;
mod batch;
mod changed;
mod checks;
mod commands;
mod commits;
mod configuration;
mod convergence;
mod decisions;
pub mod effect;
pub mod event;
pub mod execute;
mod exports;
mod forge_updates;
mod journal_log;
mod listeners;
pub mod measures;
pub mod member;
mod member_events;
mod members;
mod names;
mod orders;
mod payloads;
pub mod persist;
mod persistence;
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

pub use batch::Batch;
use batch::BatchChange;
pub use changed::Changed;
use checks::AskedQueries;
pub use effect::{Effect, ForgeUpdate, MemberCommand, PlacementUpdate};
pub use event::{ConfigurationEvent, Event, HubReport, MemberEvent, SourceEvent};
use exports::HubExports;
use listeners::Listeners;
use members::Members;
use persistence::Persistence;
use queue::Queue;
use source::{FIRST_LOOK_MAX, FollowedSource};
pub use source::{identity, source_name};

/// Pause before a store that refused a batch is tried again.
const STORE_RETRY: SignedDuration = SignedDuration::from_secs(2);

/// All data of decisions.
#[derive(Debug)]
pub struct Core {
    /// What decisions about all placements read.
    pub fleet: FleetState,
    /// Every placement as it stands.
    pub placements: BTreeMap<PlacementKey, PlacementState>,
    source: FollowedSource,
    persistence: Persistence,
    members: Members,
    checks: AskedQueries,
    queue: Queue,
    exports: HubExports,
    effects: Vec<Effect>,
    listeners: Listeners,
}

impl Core {
    /// Starts from the records of an earlier process. Nothing is decided before the source was read and every member has
    /// answered or failed.
    pub fn begin(configuration: Configuration, mut saved: SavedRecords, now: Timestamp) -> (Self, Vec<Effect>) {
        let persistence = Persistence::begin(&configuration, &mut saved, now);
        let mut records = persistence.stored_clusters.clone();
        members::await_answers(&mut records, now);
        let has_forge = configuration.approvals().is_some();
        let fleet = FleetState {
            source: source_name(&configuration, &persistence.stored_source),
            records,
            ocm: Ocm::restore(saved.ocm),
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
        let source = FollowedSource::begin(&configuration, &persistence.stored_source, now);
        let exports = HubExports::begin(&configuration, saved.exports, &saved.hubs);
        // The hub gets the exports immediately: somebody may have changed it meanwhile.
        let effects = if exports.decisions.is_empty() {
            Vec::new()
        } else {
            vec![Effect::Publish(Arc::clone(&exports.decisions))]
        };
        let core = Self {
            listeners: Listeners::begin(&saved.placements, &persistence.stored_clusters, &fleet, has_forge, now),
            fleet,
            queue: Queue::holding(&saved.placements),
            placements: saved.placements,
            source,
            members: Members::begin(configuration, &persistence.stored_clusters, now),
            checks: AskedQueries::default(),
            persistence,
            exports,
            effects: Vec::new(),
        };
        (core, effects)
    }

    /// Returns the accepted commit, if it is known without reading the source.
    pub fn accepted(&self) -> Option<&CommitId> {
        self.source.record.accepted.as_ref()
    }

    /// Returns the tip of a rewritten history that a person accepted.
    pub fn accepted_rewrite(&self) -> Option<&CommitId> {
        self.source.record.accepted_rewrite.as_ref()
    }

    /// Returns the data that decisions read.
    pub fn fleet(&self) -> &FleetState {
        &self.fleet
    }

    /// Returns the placements as stored.
    pub fn placements(&self) -> &BTreeMap<PlacementKey, PlacementState> {
        &self.placements
    }

    /// Returns why nothing starts before a person has adopted the store; `None` if no adoption is pending.
    pub fn adoption_complaint(&self) -> Option<String> {
        self.persistence.adoption_complaint()
    }

    /// Returns the record of the source.
    pub fn source(&self) -> &SourceRecord {
        &self.source.record
    }

    /// Returns the rollout metrics.
    pub fn measures(&self) -> &Measures {
        &self.listeners.measures
    }

    /// Returns what changed in the store since it was asked last; at first everything.
    pub fn take_changed(&mut self) -> Changed {
        std::mem::take(&mut self.listeners.changed)
    }

    /// Returns the clusters' records as stored.
    pub fn stored_clusters(&self) -> &BTreeMap<ClusterName, ClusterRecord> {
        &self.persistence.stored_clusters
    }

    /// Returns the source's record as stored.
    pub fn stored_source(&self) -> &SourceRecord {
        &self.persistence.stored_source
    }

    /// Returns the store's record of itself as stored.
    pub fn stored_store(&self) -> Option<&StoreRecord> {
        self.persistence.stored_store.as_ref()
    }

    /// Handles an event. Returns effects to execute immediately; they depend on nothing that is not stored yet.
    pub fn take_in(&mut self, event: Event, now: Timestamp) -> Vec<Effect> {
        match event {
            Event::Source(news) => {
                self.handle_source(news, now);
                // Before the first read of the source its record is from an earlier process.
                if self.source.is_seen()
                    && let Some(forge) = &mut self.listeners.forge
                {
                    self.effects.extend(forge.source(&self.source.record, self.placements.keys()));
                }
            }
            Event::Member(event) => self.handle_member(event, now),
            Event::Hub(report) => self.exports.handle(report, now),
            Event::Answered(query, value) => {
                self.checks.take_answer(query, value, &mut self.fleet, &mut self.queue, now);
            }
            Event::Configuration(event) => self.reconfigure(event, now),
        }
        std::mem::take(&mut self.effects)
    }

    /// Returns when to call [`Core::decide`] without an event; an instant in the past means now.
    pub fn next_wake(&self) -> Option<Timestamp> {
        if self.is_due() && !self.queue.waits() && self.can_decide() {
            return Some(self.source.awaited_since);
        }
        let source = self.source.is_awaited().then(|| self.source.awaited_since + FIRST_LOOK_MAX);
        let members = (!self.members.unseen.is_empty()).then(|| self.members.awaited_since + FIRST_LOOK_MAX);
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
        let knows_payloads = self.persistence.has_decided || self.source.payloads.is_empty();
        let may_begin =
            self.members.unseen.is_empty() && !self.source.is_awaited() && !self.persistence.waits_for_adoption();
        may_begin && knows_payloads && self.fleet.tree.commit.is_some() && !self.persistence.outstanding
    }

    /// Tells whether something in the queue can be decided.
    fn is_due(&self) -> bool {
        let is_due = |key: &PlacementKey| !self.awaits_payload(key);
        let is_ocm_due = !self.queue.ocm.is_empty() && !self.fleet.source_unread;
        !self.queue.clusters.is_empty() || is_ocm_due || self.queue.placements.iter().any(is_due)
    }

    /// Tells whether a placement waits for payloads.
    fn awaits_payload(&self, key: &PlacementKey) -> bool {
        self.source.payloads.are_awaited(key, &self.placements, &self.fleet.tree)
    }

    /// Decides what is due, on all cores. Returns the batch to store and to act on, if there is one; it must come back through
    /// [`Core::written`] or [`Core::refused`] before anything else is decided.
    pub fn decide(&mut self, now: Timestamp) -> Option<Batch> {
        // First, so that a cluster whose outage became too long is refreshed and decided in this round.
        self.queue.mark_due(now);
        // Also during the pause of the store: a wake-up instant in the past would make the loop spin.
        if now >= self.source.awaited_since + FIRST_LOOK_MAX {
            self.give_up_source();
        }
        if now >= self.members.awaited_since + FIRST_LOOK_MAX {
            self.members.unseen.clear();
        }
        self.read_again(now);
        if self.persistence.outstanding || self.queue.waits() {
            return None;
        }
        let mut batch = Batch::default();
        if self.can_decide() {
            // In the batch of the first decision: a store that holds placements never looks new.
            self.begin_store(&mut batch, now);
        }
        self.source.write(&self.persistence.stored_source, &mut batch, now);
        self.exports.write_hub(&mut batch);
        self.write_overrides(&mut batch);
        if self.can_decide() {
            self.keep_servers();
        }
        if !self.queue.clusters.is_empty() {
            self.refresh_clusters(&mut batch, now);
        }
        if self.can_decide() {
            let picked = if self.fleet.source_unread { BTreeSet::new() } else { self.decide_ocm(&mut batch, now) };
            self.decide_placements(&mut batch, &picked, now);
            self.persistence.has_decided = true;
            batch.changes.extend(self.end_taking_over().map(BatchChange::TookOver));
            let complete = self.members.take_complete(&self.queue, &self.placements);
            batch.changes.extend(complete.into_iter().map(BatchChange::Restarted));
        }
        self.persistence.write_store(&mut batch);
        // Immediate effects depend on no record, so they go out with an empty batch.
        let is_idle = batch.ops.is_empty() && !batch.refreshed && batch.changes.is_empty() && self.effects.is_empty();
        self.persistence.outstanding = !is_idle;
        (!is_idle).then_some(batch)
    }
}
