//! The core: what happened goes in, what is to be written down and what is to be done come out. Pure.
//!
//! It owns everything that decisions are made with, and nothing that does: no channel, no store, no clock. The daemon drives
//! it with real members and a real store, the simulation with made ones, and both run these very functions.
//!
//! The order of things is what keeps a crash harmless: [`Core::take_in`] what happened, [`Core::decide`] what is due, let the
//! store keep the batch, and only then act on what [`Core::written`] answers. A life that ends between any two of these goes
//! on from the store and from what members say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rayon::prelude::*;

use self::measures::Measures;
use self::persist::SavedRecords;
use crate::config::{Configuration, MemberAccess};
use crate::decide::Decision;
use crate::decide::hand_over::decide_each;
use crate::decide::ocm::Ocm;
use crate::decide::state::{PlacementState, World};
use crate::model::decisions::HubRecord;
use crate::model::id::{ClusterName, CommitId, PlacementKey};
use crate::model::ocm::OcmPlacementRecord;
use crate::model::overrides::OverrideRef;
use crate::model::records::{ClusterRecord, Kept, SourceRecord, StoreRecord, WorkStatus};
use crate::model::warning::Warning;
use crate::model::work::WorkOrder;
use crate::schedule::ocm::Key;
use crate::status::decisions::Exports;
use crate::store::{Expected, Op, Result, records};

mod adoption;
mod commands;
mod convergence;
pub mod effect;
pub mod event;
pub mod execute;
mod exports;
mod forge_updates;
pub mod measures;
pub mod member;
mod members;
pub mod persist;
mod queue;
mod source;
#[cfg(test)]
mod tests;
pub mod waits;
mod written;

use convergence::tell;
pub use effect::{Effect, ForgeUpdate, MemberCommand, PlacementUpdate};
pub use event::{Event, HubReport, MemberEvent, SourceEvent};
use queue::Queue;
pub use source::{identity, source_name};

/// How long the first decision waits for members that have neither answered nor failed.
const FIRST_LOOK_MAX: SignedDuration = SignedDuration::from_secs(15);
/// Pause before a store that refused a batch is tried again.
const STORE_RETRY: SignedDuration = SignedDuration::from_secs(2);
/// Pause before a payload that could not be read is read again.
const PAYLOAD_RETRY: SignedDuration = SignedDuration::from_secs(30);

/// What was decided and is to be written down; handed back as soon as the store has answered.
#[derive(Debug, Default)]
pub struct Batch {
    /// The steps, for one atomic batch of the store. None where nothing changes; then nothing needs to be written.
    pub ops: Vec<Op>,
    /// How many decisions change a record.
    pub changed: u64,
    /// How many decisions change nothing.
    pub unchanged: u64,
    /// How clusters stand was looked at.
    pub refreshed: bool,
    source: Option<SourceRecord>,
    hub: Option<HubRecord>,
    clusters: Vec<ClusterRecord>,
    picked: Vec<Picked>,
    decided: Vec<(PlacementKey, Decision)>,
    reports: Reports,
    exports: Option<Arc<Exports>>,
    overrides: BTreeSet<OverrideRef>,
    executed: Option<Box<PlacementState>>,
    store: Option<StoreRecord>,
    adopts: bool,
    /// A person lets the accepted commit go on, though the source was not read.
    goes_on: bool,
    /// What members keep, taken over by the decisions of this batch.
    kept: BTreeMap<PlacementKey, Kept>,
    /// What the store said before this batch ended the taking over.
    took_over: Option<StoreRecord>,
    /// Clusters whose bindings the decisions of this batch undo, because they hold something newer.
    ahead: BTreeMap<PlacementKey, BTreeMap<ClusterName, u64>>,
    accepted_rewrite: Option<CommitId>,
}

/// An OCM Placement that was decided: how it stood before, and when time alone changes the answer.
#[derive(Debug)]
struct Picked {
    key: Key,
    known: Option<Arc<OcmPlacementRecord>>,
    journal: Vec<crate::model::records::JournalEntry>,
    wake_at: Option<Timestamp>,
}

/// What members said of placements.
type Reports = BTreeMap<PlacementKey, BTreeMap<ClusterName, Arc<WorkStatus>>>;

/// What a member was told.
#[derive(Debug)]
struct Sent {
    order: Arc<WorkOrder>,
    /// In this life it said that it has tried all of it: what is known of it is not from a life before.
    is_tried: bool,
}

/// Whether the source was looked at in this life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SourceLook {
    /// It has neither answered nor failed yet.
    Awaited,
    /// It was silent for as long as is waited for.
    Silent,
    /// It answered or failed: what is known of it is not from a life before.
    Seen,
}

/// Everything that is decided with.
#[derive(Debug)]
pub struct Core {
    configuration: Configuration,
    pub(super) world: World,
    pub(super) placements: BTreeMap<PlacementKey, PlacementState>,
    source: SourceRecord,
    /// As the store has it.
    stored_source: SourceRecord,
    members: BTreeMap<ClusterName, MemberAccess>,
    /// What the store says of itself; `None` where nothing was decided with it yet.
    store: Option<StoreRecord>,
    /// As the store has it.
    stored_store: Option<StoreRecord>,
    /// Members that have answered in this life.
    answered: BTreeSet<ClusterName>,
    /// Members that have neither answered nor failed yet.
    unseen: BTreeSet<ClusterName>,
    /// What was said of clusters that no entry of `members:` reaches.
    unreached: Option<Warning>,
    /// What members were told last, by placement.
    sent: BTreeMap<PlacementKey, BTreeMap<ClusterName, Sent>>,
    queue: Queue,
    /// What members said and no decision that is written down has taken in: it is not in the placements yet.
    reports: Reports,
    /// The clusters' records as the store has them.
    stored_clusters: BTreeMap<ClusterName, ClusterRecord>,
    /// Numbers about rollouts.
    measures: Measures,
    /// When commits were seen first that snapshots name, and the newest: as far as this life knows.
    seen_at: BTreeMap<CommitId, Timestamp>,
    /// What was last said about where placements have come to rest.
    settled: BTreeMap<PlacementKey, String>,
    /// Decisions as they are exported, as the store has them.
    exports: Arc<Exports>,
    hub: Option<HubRecord>,
    /// As the store has it.
    stored_hub: Option<HubRecord>,
    /// How the hub stands; `None` where it has not answered yet.
    hub_report: Option<HubReport>,
    /// Snapshots whose payload is being read.
    reading: BTreeSet<(PlacementKey, u64)>,
    /// Something was decided in this life.
    has_decided: bool,
    /// Commits that batches name which the store refused, or kept without saying so: the next life may begin with them.
    in_doubt: BTreeSet<CommitId>,
    /// The accepted commit when the source was last told which commits are to be kept.
    retained: Option<CommitId>,
    source_look: SourceLook,
    /// A batch is with the store.
    outstanding: bool,
    effects: Vec<Effect>,
    /// Who is told for the forge; absent without one.
    listener: Option<forge_updates::Listener>,
    started_at: Timestamp,
    /// When this life began to look at its members: with its first commit.
    members_from: Timestamp,
}

impl Core {
    /// Begins a life with what an earlier one wrote down. Nothing is decided before the source was read and every member was
    /// looked at.
    pub fn begin(configuration: Configuration, saved: SavedRecords, now: Timestamp) -> (Self, Vec<Effect>) {
        let stored_source = saved.source.unwrap_or_default();
        let source = source::begin(&configuration, &stored_source);
        let mut records = saved.clusters.clone();
        for record in records.values_mut() {
            members::await_answer(record, now);
        }
        let ocm = Ocm::restore(saved.ocm);
        let listener = configuration.forge.is_some().then(forge_updates::Listener::default);
        let approvals = configuration.approval_rules();
        let approvers = configuration.forge.iter().flat_map(|forge| forge.approvals.approvers.clone()).collect();
        let overrides = saved.overrides;
        let world = World {
            source: source_name(&configuration, &stored_source),
            records,
            ocm,
            approvals,
            approvers,
            floor: configuration.floor(),
            overrides,
            heard: saved.placements.iter().map(|(key, state)| (key.clone(), members::unheard(state))).collect(),
            ..World::default()
        };
        let exports = Arc::new(saved.exports);
        // The hub is told at once: it may have been changed meanwhile.
        let effects = if exports.is_empty() { Vec::new() } else { vec![Effect::Publish(Arc::clone(&exports))] };
        let hub = exports::namespace(&configuration).and_then(|namespace| saved.hubs.get(namespace).cloned());
        // One that was written before stores said anything of themselves.
        let is_old = saved.store.is_none() && !saved.placements.is_empty();
        let stored_seen = source.seen.clone().zip(source.seen_at).into_iter().collect();
        let mut core = Self {
            configuration,
            world,
            store: saved.store.clone().or_else(|| is_old.then(|| StoreRecord::new(now))),
            stored_store: saved.store,
            answered: BTreeSet::new(),
            placements: saved.placements,
            source,
            stored_source,
            members: BTreeMap::new(),
            unseen: BTreeSet::new(),
            unreached: None,
            sent: BTreeMap::new(),
            queue: Queue::default(),
            reports: BTreeMap::new(),
            stored_clusters: saved.clusters,
            measures: Measures::default(),
            seen_at: stored_seen,
            settled: BTreeMap::new(),
            exports,
            stored_hub: hub.clone(),
            hub,
            hub_report: None,
            reading: BTreeSet::new(),
            has_decided: false,
            in_doubt: BTreeSet::new(),
            retained: None,
            source_look: SourceLook::Awaited,
            outstanding: false,
            effects: Vec::new(),
            listener,
            started_at: now,
            members_from: now,
        };
        core.count_all(now);
        (core, effects)
    }

    /// Returns the accepted commit, as far as it is known without reading the source.
    pub fn accepted(&self) -> Option<&CommitId> {
        self.source.accepted.as_ref()
    }

    /// Returns the branch that is followed because it was checked out.
    pub fn followed_branch(&self) -> Option<&str> {
        self.source.branch.as_deref()
    }

    /// Returns the tip of a rewritten history that a person accepted.
    pub fn accepted_rewrite(&self) -> Option<&CommitId> {
        self.source.accepted_rewrite.as_ref()
    }

    /// Returns what decisions look at.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Returns the placements as they are written down.
    pub fn placements(&self) -> &BTreeMap<PlacementKey, PlacementState> {
        &self.placements
    }

    /// Takes in what happened. Returns what is to be done at once; nothing of it depends on what is not written down yet.
    pub fn take_in(&mut self, event: Event, now: Timestamp) -> Vec<Effect> {
        match event {
            Event::Source(news) => {
                self.hear(news, now);
                self.tell_source();
            }
            Event::Member(event) => self.hear_member(event, now),
            Event::Hub(report) => self.hear_hub(report, now),
        }
        std::mem::take(&mut self.effects)
    }

    /// Returns when [`Core::decide`] is to be called though nothing happens; an instant that has passed is now.
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

    /// Nothing is decided before the source and every member were looked at: a newer commit may stop what the accepted one
    /// would begin, and what a member holds is the inventory
    /// that deletions are compared with, and the index that a lost store goes on from. The first decisions of a life wait for all
    /// payloads as well: what one placement gives up may be what another is to take over, and orders alone say so to a member.
    fn can_decide(&self) -> bool {
        let knows_payloads = self.has_decided || self.reading.is_empty();
        let may_begin = self.unseen.is_empty() && self.source_look != SourceLook::Awaited && !self.waits_for_adoption();
        may_begin && knows_payloads && self.world.tree.commit.is_some() && !self.outstanding
    }

    /// Tells whether something on the queue can be decided: a placement waits for its own payloads.
    fn is_due(&self) -> bool {
        let is_due = |key: &PlacementKey| !self.is_reading(key);
        let is_ocm_due = !self.queue.ocm.is_empty() && !self.world.source_unread;
        !self.queue.clusters.is_empty() || is_ocm_due || self.queue.placements.iter().any(is_due)
    }

    fn is_reading(&self, key: &PlacementKey) -> bool {
        !self.reading.is_empty() && self.reading.range((key.clone(), 0)..=(key.clone(), u64::MAX)).next().is_some()
    }

    /// Decides what is due, on all cores. Returns what is to be written down, if there is anything to write or to act on; it
    /// must come back through [`Core::written`] or [`Core::refused`] before anything else is decided.
    pub fn decide(&mut self, now: Timestamp) -> Option<Batch> {
        // First what is due: a cluster that has been silent for too long is refreshed, and so decided about, in this round.
        self.queue.mark_due(now);
        // While the store is left alone too: an instant that has passed would be waited for without end, and without a pause.
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
        self.write_source(&mut batch);
        self.write_hub(&mut batch);
        self.write_overrides(&mut batch);
        if !self.queue.clusters.is_empty() {
            self.refresh_clusters(&mut batch, now);
        }
        if self.can_decide() {
            if !self.world.source_unread {
                self.decide_ocm(&mut batch, now);
            }
            self.decide_placements(&mut batch, now);
            self.has_decided = true;
            self.end_taking_over(&mut batch);
        }
        self.write_store(&mut batch);
        // What is to be done at once may depend on no record, and goes out with an empty batch.
        let is_idle = batch.ops.is_empty()
            && !batch.refreshed
            && batch.picked.is_empty()
            && batch.decided.is_empty()
            && self.effects.is_empty();
        self.outstanding = !is_idle;
        (!is_idle).then_some(batch)
    }

    /// Decides about OCM Placements one after the other, each with what those before it picked; the placements that follow
    /// them are decided in the same batch.
    fn decide_ocm(&mut self, batch: &mut Batch, now: Timestamp) {
        let tree = Arc::clone(&self.world.tree);
        for key in self.world.ocm.in_order(std::mem::take(&mut self.queue.ocm)) {
            let known = self.world.ocm.record(&key).cloned();
            let mut decision = self.world.ocm.decide(&key, now);
            match persist::ocm_difference(&key, known.as_deref(), decision.record.as_ref()) {
                Ok(more) => batch.take(more),
                Err(error) => {
                    tracing::error!(placement = %key, %error, "the decision cannot be written down and is not acted on");
                    continue;
                }
            }
            let journal = std::mem::take(&mut decision.journal);
            batch.ops.extend(journal.iter().cloned().map(Op::Journal));
            let wake_at = decision.wake_at;
            self.world.ocm.settle(decision);
            if known.as_ref() != self.world.ocm.record(&key) {
                self.queue.concerns_followers(&tree, &key);
            }
            batch.picked.push(Picked { key, known, journal, wake_at });
        }
    }

    fn decide_placements(&mut self, batch: &mut Batch, now: Timestamp) {
        let all = std::mem::take(&mut self.queue.placements);
        let (waiting, due) = all.into_iter().partition(|key| self.is_reading(key));
        // Each of them is due when the answer about its payload comes.
        self.queue.placements = waiting;
        for (key, decision, difference) in self.decisions(&due, now) {
            match difference {
                Ok(more) => batch.take(more),
                Err(error) => {
                    tracing::error!(placement = %key, %error, "the decision cannot be written down and is not acted on");
                    continue;
                }
            }
            batch.ops.extend(decision.journal.iter().cloned().map(Op::Journal));
            // The batch holds what it took in until the store has answered: refused, it gives that back.
            batch.ahead.extend(self.world.ahead.remove_entry(&key));
            batch.kept.extend(self.world.kept.remove_entry(&key));
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
                tracing::error!(%error, "the exported decisions cannot be written down and stay as they are");
            }
        }
    }

    /// Decides on all cores, with what each decision changes in the store. The order is that of the keys: deciding is pure, so
    /// nothing depends on who is done first.
    fn decisions(
        &self,
        due: &BTreeSet<PlacementKey>,
        now: Timestamp,
    ) -> Vec<(PlacementKey, Decision, Result<Vec<Op>>)> {
        let before = |key: &PlacementKey| {
            let mut before = self.placements.get(key).filter(|_| !self.is_reading(key))?.clone();
            before.works.extend(self.reports.get(key).cloned().unwrap_or_default());
            Some(before)
        };
        let decided = decide_each(due, &self.placements, before, &self.world, now);
        let with_difference = |(key, decision): (PlacementKey, Decision)| {
            let next = (!decision.finished).then_some(&decision.state);
            let difference = persist::difference(self.placements.get(&key), next);
            (key, decision, difference)
        };
        decided.into_par_iter().map(with_difference).collect()
    }
}

/// Adds the write of a record that differs from what the store has of it.
fn write_down<T: serde::Serialize>(batch: &mut Batch, key: String, record: &T) -> bool {
    match records::put(key, record, Expected::Any) {
        Ok(op) => {
            batch.ops.push(op);
            true
        }
        Err(error) => {
            tracing::error!(%error, "a record cannot be written down and stays as it is");
            false
        }
    }
}
