//! The hall's loop: what happened is taken in, dirty placements are decided, the difference is written down, and only then
//! acted on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rayon::prelude::*;
use tokio::sync::{mpsc, watch};

use super::decide::{Decision, decide};
use super::explain::explain;
use super::follow::{News, Request, Settings, follow, source_spec};
use super::hub::{HubReport, HubTask};
use super::member::{Command, Event};
use super::ocm::Ocm;
use super::world::{PlacementState, World};
use super::{clock, persist};
use crate::config::Configuration;
use crate::http::Question;
use crate::model::id::{ClusterName, PlacementKey};
use crate::model::ocm::OcmPlacementRecord;
use crate::model::records::{ClusterRecord, SourceRecord, WorkStatus};
use crate::model::work::WorkOrder;
use crate::report::converge::Converged;
use crate::schedule::ocm::Key;
use crate::store::records::{self, CLUSTER_PREFIX, OCM_PREFIX};
use crate::store::{Op, Store};
use crate::telemetry::metrics::{ByDecision, ByOutcome, Decision as Decided, Metrics, Outcome};

mod agenda;
mod exports;
mod fleet;
mod source;
mod standing;

use agenda::Agenda;
use exports::Desk;
use fleet::MemberTask;
use standing::tell;

/// How long the first decision waits for members that have neither answered nor failed.
const FIRST_LOOK_MAX: Duration = Duration::from_secs(15);
/// Pause before a store that refused a batch is tried again.
const STORE_RETRY: SignedDuration = SignedDuration::from_secs(2);
/// The name of the one source's record.
pub const SOURCE_NAME: &str = "source";

/// Why the daemon cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] crate::store::Error),
    /// The source cannot be used.
    #[error(transparent)]
    Source(#[from] crate::git::Error),
    /// A file of the configuration cannot be read.
    #[error(transparent)]
    Configuration(#[from] crate::config::Error),
}

/// Everything the daemon knows and does.
pub struct Hall {
    configuration: Configuration,
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    world: World,
    source: SourceRecord,
    placements: BTreeMap<PlacementKey, PlacementState>,
    members: BTreeMap<ClusterName, MemberTask>,
    /// Members that have neither answered nor failed yet.
    unseen: BTreeSet<ClusterName>,
    sent: BTreeMap<(ClusterName, PlacementKey), Arc<WorkOrder>>,
    agenda: Agenda,
    /// What members said since the last decision: not in the placements yet, because it is not written down yet.
    reports: BTreeMap<PlacementKey, BTreeMap<ClusterName, Arc<WorkStatus>>>,
    /// The clusters' records as the store has them.
    written: BTreeMap<ClusterName, ClusterRecord>,
    settled: BTreeMap<PlacementKey, String>,
    desk: Desk,
    hub_reports: mpsc::UnboundedReceiver<HubReport>,
    questions: mpsc::UnboundedReceiver<Question>,
    /// The source was looked at: what the store says of it is not from a life before.
    source_seen: bool,
    requests: Sender<Request>,
    news: mpsc::UnboundedReceiver<News>,
    event_sender: mpsc::UnboundedSender<Event>,
    events: mpsc::UnboundedReceiver<Event>,
    changes: watch::Sender<u64>,
    started_at: Timestamp,
}

impl Hall {
    /// Opens the books: reads the store, starts following the source.
    ///
    /// # Errors
    /// The store, the source's configuration or a secret cannot be used.
    pub fn open(
        configuration: Configuration,
        store: Arc<dyn Store>,
        metrics: Arc<Metrics>,
        changes: watch::Sender<u64>,
        questions: mpsc::UnboundedReceiver<Question>,
    ) -> Result<Self, Error> {
        let source = records::load::<SourceRecord>(store.as_ref(), &records::source_key(SOURCE_NAME))?;
        let mut source = source.map(|record| record.value).unwrap_or_default();
        if source.url != configuration.source.url {
            source = SourceRecord { url: configuration.source.url.clone(), ..SourceRecord::default() };
        }
        let now = clock::now();
        let (mut world, placements) = remembered(store.as_ref(), &configuration)?;
        world.records.values_mut().for_each(|record| fleet::await_answer(record, now));
        let spec = source_spec(&configuration)?;
        let settings = Settings {
            spec,
            poll_interval: configuration.source.poll_interval,
            on_rewrite: configuration.source.on_history_rewrite,
            accepted: source.accepted.clone(),
        };
        let (news_sender, news) = mpsc::unbounded_channel();
        let requests = follow(settings, &state_dir(&configuration), news_sender)?;
        let (event_sender, events) = mpsc::unbounded_channel();
        let (hub_sender, hub_reports) = mpsc::unbounded_channel();
        let hub = exports::hub_settings(&configuration, &world.source).map(|hub| HubTask::start(hub, hub_sender));
        let desk = Desk::open(store.as_ref(), hub)?;
        Ok(Self {
            configuration,
            store,
            metrics,
            world,
            source,
            placements,
            members: BTreeMap::new(),
            unseen: BTreeSet::new(),
            sent: BTreeMap::new(),
            agenda: Agenda::default(),
            reports: BTreeMap::new(),
            written: BTreeMap::new(),
            settled: BTreeMap::new(),
            desk,
            hub_reports,
            questions,
            source_seen: false,
            requests,
            news,
            event_sender,
            events,
            changes,
            started_at: now,
        })
    }

    /// Runs until `stop` says so, or, with `once`, until nothing is left to happen or its deadline is over. Returns how things
    /// stand then.
    ///
    /// # Cancel safety
    /// May be dropped at any point: what was written down is acted on in the next life.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>, once: Option<Duration>) -> Converged {
        let deadline = once.map(|timeout| tokio::time::Instant::now() + timeout);
        let far = Duration::from_hours(1);
        loop {
            let pause = self.next_wake().map_or(far, clock::until);
            tokio::select! {
                biased;
                _ = stop.changed() => return self.standing(),
                Some(news) = self.news.recv() => self.hear(news).await,
                Some(event) = self.events.recv() => self.take_in(event),
                Some(report) = self.hub_reports.recv() => self.hear_hub(report),
                Some(question) = self.questions.recv() => self.answer(question),
                () = tokio::time::sleep(pause) => {}
                () = tokio::time::sleep_until(deadline.unwrap_or_else(|| tokio::time::Instant::now() + far)), if once.is_some() => {
                    return self.standing();
                }
            }
            while let Ok(event) = self.events.try_recv() {
                self.take_in(event);
            }
            // First what is due: a cluster that has been silent for too long is refreshed, and so decided about, in this round.
            self.agenda.mark_due(clock::now());
            if !self.agenda.clusters.is_empty() && !self.agenda.waits() {
                self.refresh_clusters();
            }
            if !self.agenda.waits() && self.may_decide() {
                self.decide_due().await;
            }
            if let Some(deadline) = deadline
                && let Some(standing) = self.finished(deadline)
            {
                return standing;
            }
        }
    }

    fn next_wake(&self) -> Option<Timestamp> {
        let first_look = (!self.unseen.is_empty()).then(|| self.started_at + FIRST_LOOK_MAX);
        self.agenda.next_wake().into_iter().chain(first_look).min()
    }

    /// Nothing is decided before the source was read and every member was looked at: what a member holds is the inventory
    /// that deletions are compared with, and the index that a lost store goes on from.
    fn may_decide(&mut self) -> bool {
        if !self.unseen.is_empty() && clock::now() > self.started_at + FIRST_LOOK_MAX {
            self.unseen.clear();
        }
        self.unseen.is_empty() && (self.world.tree.commit.is_some())
    }

    /// Decides what is due, writes the difference down, and acts.
    async fn decide_due(&mut self) {
        let now = clock::now();
        let Some(picked) = self.decide_ocm(now).await else { return };
        self.metrics.queue_depth.set(i64::try_from(self.agenda.placements.len()).unwrap_or(i64::MAX));
        let due = std::mem::take(&mut self.agenda.placements);
        let mut decided = Vec::new();
        let mut ops = Vec::new();
        for (key, decision, difference) in tokio::task::block_in_place(|| self.decisions(&due, now)) {
            match difference {
                Ok(more) => {
                    self.count_decision(&more);
                    ops.extend(more);
                }
                Err(error) => {
                    tracing::error!(placement = %key, %error, "the decision cannot be written down and is not acted on");
                    continue;
                }
            }
            ops.extend(decision.journal.iter().cloned().map(Op::Journal));
            decided.push((key, decision));
        }
        let exports = match self.exports_after(&decided, &picked) {
            Ok((exports, more)) => {
                ops.extend(more);
                exports
            }
            Err(error) => {
                tracing::error!(%error, "the exported decisions cannot be written down and stay as they are");
                Arc::clone(&self.desk.exports)
            }
        };
        match persist::override_difference(&self.world.overrides) {
            Ok(more) => ops.extend(more),
            Err(error) => {
                tracing::error!(%error, "an override's snapshot cannot be written down; a restart takes it again");
            }
        }
        if !self.write(ops).await {
            let placements = decided.into_iter().map(|(key, _)| key);
            self.agenda.put_back(placements, picked, clock::now() + STORE_RETRY);
            return;
        }
        self.world.overrides.written();
        self.desk.publish(exports);
        let any = !decided.is_empty() || !picked.is_empty();
        for (key, decision) in decided {
            self.reports.remove(&key);
            self.act(&key, decision);
        }
        if any {
            self.changes.send_modify(|version| *version += 1);
        }
    }

    /// Decides about OCM Placements one after the other, each with what those before it picked; the placements that follow
    /// them are decided next. Returns those that were decided; `None` where the store does not take them.
    async fn decide_ocm(&mut self, now: Timestamp) -> Option<BTreeSet<Key>> {
        let due = self.world.ocm.in_order(std::mem::take(&mut self.agenda.ocm));
        if due.is_empty() {
            return Some(BTreeSet::new());
        }
        let before: Vec<_> = due.iter().map(|key| self.world.ocm.record(key).cloned()).collect();
        let mut ops = Vec::new();
        let mut wakes = Vec::new();
        for (key, known) in due.iter().zip(&before) {
            let decision = self.world.ocm.decide(key, now);
            match persist::ocm_difference(key, known.as_deref(), decision.record.as_ref()) {
                Ok(more) => {
                    self.count_decision(&more);
                    ops.extend(more);
                }
                Err(error) => {
                    tracing::error!(placement = %key, %error, "the decision cannot be written down and is not acted on");
                    continue;
                }
            }
            for entry in &decision.journal {
                tell(entry);
            }
            ops.extend(decision.journal.iter().cloned().map(Op::Journal));
            wakes.push((key, decision.wake_at));
            self.world.ocm.settle(decision);
        }
        if !self.write(ops).await {
            for (key, known) in due.iter().zip(before) {
                self.world.ocm.hold_again(key, known);
            }
            self.agenda.put_back([], due, clock::now() + STORE_RETRY);
            return None;
        }
        let tree = Arc::clone(&self.world.tree);
        for (key, wake_at) in wakes {
            self.agenda.wake_ocm(key, wake_at);
        }
        for (key, known) in due.iter().zip(&before) {
            if known.as_ref() != self.world.ocm.record(key) {
                self.agenda.concerns_followers(&tree, key);
            }
        }
        Some(due.into_iter().collect())
    }

    fn count_decision(&self, difference: &[Op]) {
        let result = if difference.is_empty() { Decided::Unchanged } else { Decided::Changed };
        self.metrics.decisions.get_or_create(&ByDecision { result }).inc();
    }

    /// Writes records; says so where the store does not take them.
    async fn write(&self, ops: Vec<Op>) -> bool {
        if ops.is_empty() {
            return true;
        }
        let store = Arc::clone(&self.store);
        let written = tokio::task::spawn_blocking(move || store.batch(ops)).await.expect("writing does not panic");
        let result = if written.is_ok() { Outcome::Ok } else { Outcome::Error };
        self.metrics.store_commits.get_or_create(&ByOutcome { result }).inc();
        match written {
            Ok(_) => true,
            Err(error) => {
                tracing::error!(%error, "the decision cannot be written down and is not acted on; trying again");
                false
            }
        }
    }

    /// Decides on all cores, with what each decision changes in the store. The order is that of the keys: deciding is pure, so
    /// nothing depends on who is done first.
    fn decisions(
        &self,
        dirty: &BTreeSet<PlacementKey>,
        now: Timestamp,
    ) -> Vec<(PlacementKey, Decision, crate::store::Result<Vec<Op>>)> {
        let states: Vec<&PlacementState> = dirty.iter().filter_map(|key| self.placements.get(key)).collect();
        let one = |state: &PlacementState| {
            let started = std::time::Instant::now();
            let key = state.record.key.clone();
            let mut before = state.clone();
            before.works.extend(self.reports.get(&key).cloned().unwrap_or_default());
            let decision = decide(before, &self.world, now);
            let difference = persist::difference(Some(state), (!decision.finished).then_some(&decision.state));
            let seconds = self.metrics.pass_seconds.get_or_create(&ByOutcome { result: Outcome::Ok }).clone();
            seconds.observe(started.elapsed().as_secs_f64());
            (key, decision, difference)
        };
        states.into_par_iter().map(one).collect()
    }

    /// Explains a placement to whoever asks.
    fn answer(&self, question: Question) {
        let answer = explain(&self.world, &self.placements, &question.query, clock::now());
        // Whoever asked may have gone.
        drop(question.reply.send(answer.map_err(|error| error.to_string())));
    }

    /// Carries out what a decision says; its records are written.
    fn act(&mut self, key: &PlacementKey, decision: Decision) {
        for entry in &decision.journal {
            tell(entry);
        }
        for cluster in decision.forget {
            if self.sent.remove(&(cluster.clone(), key.clone())).is_some()
                && let Some(member) = self.members.get(&cluster)
            {
                drop(member.commands.send(Command::Forget(key.clone())));
            }
        }
        for order in decision.orders {
            self.send(order);
        }
        self.agenda.wake(key, decision.wake_at);
        if decision.finished {
            tracing::info!(placement = %key, "removed everywhere");
            self.agenda.forget(key);
            self.placements.remove(key);
            self.settled.remove(key);
            return;
        }
        self.agenda.note(&decision.state);
        self.placements.insert(key.clone(), decision.state);
        self.announce(key);
    }
}

/// Returns what the store remembers of an earlier life, clusters as they stood then; no commit was read.
///
/// # Errors
/// A record cannot be read.
pub fn remembered(
    store: &dyn Store,
    configuration: &Configuration,
) -> Result<(World, BTreeMap<PlacementKey, PlacementState>), Error> {
    let placements = persist::load(store)?;
    let clusters = records::load_all::<ClusterRecord>(store, CLUSTER_PREFIX)?;
    let clusters = clusters.into_iter().map(|record| (record.value.name.clone(), record.value));
    let decided = records::load_all::<OcmPlacementRecord>(store, OCM_PREFIX)?;
    let ocm = Ocm::restore(decided.into_iter().map(|record| record.value));
    let overrides = persist::load_overrides(store)?;
    let records = clusters.collect();
    let world = World { source: identity(configuration), records, ocm, overrides, ..World::default() };
    Ok((world, placements))
}

/// Returns what inventories name the source by: where it is and which part of it is read.
fn identity(configuration: &Configuration) -> String {
    let source = &configuration.source;
    let branch = source.branch.as_deref().unwrap_or("HEAD");
    format!("{}#{branch}:{}", source.url.trim_end_matches('/'), source.path)
}

/// Returns the folder for mirrors and our own repositories.
pub fn state_dir(configuration: &Configuration) -> PathBuf {
    configuration.store.path.join("git")
}
