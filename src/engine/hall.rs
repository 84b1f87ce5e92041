//! The hall's loop: what happened is taken in, dirty placements are decided, the difference is written down, and only then
//! acted on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use jiff::Timestamp;
use rayon::prelude::*;
use tokio::sync::{mpsc, oneshot, watch};

use super::decide::{Decision, decide};
use super::follow::{News, Request, Settings, follow};
use super::hub::{HubReport, HubTask};
use super::member::{Command, Event};
use super::world::{PlacementState, World};
use super::{clock, persist};
use crate::config::{Configuration, read_secret};
use crate::git::SourceSpec;
use crate::model::id::{ClusterName, CommitId, PlacementKey};
use crate::model::records::{ClusterRecord, SourceRecord, WorkStatus};
use crate::model::tree::Tree;
use crate::model::work::WorkOrder;
use crate::report::converge::Converged;
use crate::store::records::{self, CLUSTER_PREFIX};
use crate::store::{Expected, Op, Store};
use crate::telemetry::metrics::{ByDecision, ByOutcome, ByPoll, Decision as Decided, Metrics, Outcome, Poll};

mod exports;
mod fleet;
mod standing;

use exports::Desk;
use fleet::MemberTask;
use standing::tell;

/// How long the first decision waits for members that have neither answered nor failed.
const FIRST_LOOK_MAX: Duration = Duration::from_secs(15);
/// Pause before a store that refused a batch is tried again.
const STORE_RETRY: Duration = Duration::from_secs(2);
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
    dirty: BTreeSet<PlacementKey>,
    /// What members said since the last decision: not in the placements yet, because it is not written down yet.
    reports: BTreeMap<PlacementKey, BTreeMap<ClusterName, Arc<WorkStatus>>>,
    wakes: BTreeMap<PlacementKey, Timestamp>,
    /// Facts about members came in that are neither written down nor seen by scheduling yet.
    facts_came: bool,
    /// The clusters' records as the store has them.
    written: BTreeMap<ClusterName, ClusterRecord>,
    settled: BTreeMap<PlacementKey, String>,
    desk: Desk,
    hub_reports: mpsc::UnboundedReceiver<HubReport>,
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
    ) -> Result<Self, Error> {
        let source = records::load::<SourceRecord>(store.as_ref(), &records::source_key(SOURCE_NAME))?;
        let mut source = source.map(|record| record.value).unwrap_or_default();
        if source.url != configuration.source.url {
            source = SourceRecord { url: configuration.source.url.clone(), ..SourceRecord::default() };
        }
        let placements = persist::load(store.as_ref())?;
        let clusters = records::load_all::<ClusterRecord>(store.as_ref(), CLUSTER_PREFIX)?;
        let now = clock::now();
        let records = clusters.into_iter().map(|record| {
            let record = ClusterRecord { online: false, ..record.value };
            (record.name.clone(), record)
        });
        let world = World { source: identity(&configuration), records: records.collect(), ..World::default() };
        let token = configuration.source.token_file.as_deref().map(read_secret).transpose()?;
        let spec = SourceSpec {
            location: configuration.source.url.clone(),
            branch: configuration.source.branch.clone(),
            path: configuration.source.path.clone(),
            token,
            allow_insecure_http: configuration.source.allow_insecure_http,
            excluded: configuration.excluded_paths(),
        };
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
            dirty: BTreeSet::new(),
            reports: BTreeMap::new(),
            written: BTreeMap::new(),
            wakes: BTreeMap::new(),
            facts_came: false,
            settled: BTreeMap::new(),
            desk,
            hub_reports,
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
                () = tokio::time::sleep(pause) => {}
                () = tokio::time::sleep_until(deadline.unwrap_or_else(|| tokio::time::Instant::now() + far)), if once.is_some() => {
                    return self.standing();
                }
            }
            while let Ok(event) = self.events.try_recv() {
                self.take_in(event);
            }
            if self.facts_came {
                self.refresh_clusters();
            }
            self.mark_due();
            if self.may_decide() {
                self.decide_dirty().await;
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
        self.wakes.values().copied().chain(first_look).min()
    }

    fn mark_due(&mut self) {
        let now = clock::now();
        let due: Vec<PlacementKey> =
            self.wakes.iter().filter(|(_, at)| **at <= now).map(|(key, _)| key.clone()).collect();
        for key in due {
            self.wakes.remove(&key);
            self.dirty.insert(key);
        }
    }

    /// Nothing is decided before the source was read and every member was looked at: what a member holds is the inventory
    /// that deletions are compared with, and the index that a lost store goes on from.
    fn may_decide(&mut self) -> bool {
        if !self.unseen.is_empty() && clock::now() > self.started_at + FIRST_LOOK_MAX {
            self.unseen.clear();
        }
        self.unseen.is_empty() && (self.world.tree.commit.is_some())
    }

    /// Takes in what the source's thread says.
    async fn hear(&mut self, news: News) {
        let news = match news {
            News::Restored(Ok(tree)) => return self.accept(tree).await,
            News::Restored(Err(reason)) => {
                tracing::error!(reason, "clusters keep what they have");
                return;
            }
            news => news,
        };
        self.source.failure = None;
        let poll = match news {
            News::Restored(_) => return,
            News::Accepted(tree) => {
                self.accept(tree).await;
                Poll::Accepted
            }
            News::Unchanged => {
                self.source.seen.clone_from(&self.source.accepted);
                self.source.refused.clear();
                self.source.held_rewrite = None;
                Poll::Unchanged
            }
            News::Readable => {
                tracing::info!("the source can be read again");
                Poll::Unchanged
            }
            News::Refused(commit, errors) => {
                tracing::error!(
                    commit = commit.short(),
                    errors = errors.len(),
                    "commit refused; the last good one stays in force"
                );
                for error in errors.iter().take(20) {
                    tracing::error!("  {error}");
                }
                self.source.seen = Some(commit);
                self.source.refused = errors;
                Poll::Refused
            }
            News::Rewritten(commit) => {
                tracing::warn!(
                    commit = commit.short(),
                    "history was rewritten; the last good commit stays in force until a person lets the new one in"
                );
                self.source.seen = Some(commit.clone());
                self.source.held_rewrite = Some(commit);
                Poll::Held
            }
            News::Failed(reason) => {
                tracing::error!(reason, "the source cannot be read; nothing changes");
                self.source.failure = Some(reason);
                Poll::Error
            }
        };
        self.metrics.source_polls.get_or_create(&ByPoll { result: poll }).inc();
        self.source_seen = true;
        self.write_source();
    }

    fn write_source(&mut self) {
        let written = records::put(records::source_key(SOURCE_NAME), &self.source, Expected::Any)
            .and_then(|op| self.store.batch(vec![op]));
        match written {
            Ok(_) => self.changes.send_modify(|version| *version += 1),
            Err(error) => tracing::error!(%error, "the source's record cannot be written"),
        }
    }

    /// Brings a commit into force.
    async fn accept(&mut self, tree: Arc<Tree>) {
        let commit = tree.commit.clone();
        let again = self.source.accepted == commit;
        let short = commit.as_ref().map(|c| c.short().to_owned()).unwrap_or_default();
        tracing::info!(
            commit = short,
            placements = tree.placements.len(),
            clusters = tree.clusters.len(),
            objects = tree.manifests.len(),
            "{}",
            if again { "commit in force" } else { "commit accepted" }
        );
        self.source.accepted.clone_from(&commit);
        self.source.seen = commit;
        self.source.refused.clear();
        self.source.held_rewrite = None;
        self.world.tree = tree;
        self.note_members();
        self.load_payloads().await;
        let now = clock::now();
        let tree = Arc::clone(&self.world.tree);
        for (key, placement) in &tree.placements {
            self.placements.entry(key.clone()).or_insert_with(|| PlacementState::begin(placement, now));
        }
        self.refresh_clusters();
        self.dirty.extend(self.placements.keys().cloned());
        self.retain_commits();
    }

    fn retain_commits(&self) {
        let named: BTreeSet<CommitId> =
            self.placements.values().flat_map(|p| p.snapshots.values().map(|s| s.commit.clone())).collect();
        // Without its thread the source is not followed any more, which is told elsewhere.
        drop(self.requests.send(Request::Retain(named)));
    }

    /// Reads the payload that clusters still hold and that no selection gives: after a restart, older snapshots.
    async fn load_payloads(&mut self) {
        let mut missing = Vec::new();
        for state in self.placements.values() {
            for snapshot in state.snapshots_in_use().filter(|s| !state.payloads.contains_key(&s.index)) {
                missing.push((state.record.key.clone(), Arc::clone(snapshot)));
            }
        }
        for (key, snapshot) in missing {
            let (reply, answer) = oneshot::channel();
            let index = snapshot.index;
            if self.requests.send(Request::Payload(snapshot, reply)).is_err() {
                return;
            }
            match answer.await {
                Ok(Ok(payload)) => {
                    if let Some(state) = self.placements.get_mut(&key) {
                        state.payloads.insert(index, Arc::new(payload));
                    }
                }
                Ok(Err(reason)) => {
                    tracing::error!(placement = %key, reason, "payload missing; clusters keep what they have");
                }
                Err(_) => return,
            }
        }
    }

    /// Decides what is dirty, writes the difference down, and acts.
    async fn decide_dirty(&mut self) {
        let now = clock::now();
        self.metrics.queue_depth.set(i64::try_from(self.dirty.len()).unwrap_or(i64::MAX));
        let dirty = std::mem::take(&mut self.dirty);
        let mut decided = Vec::new();
        let mut ops = Vec::new();
        for (key, decision, difference) in tokio::task::block_in_place(|| self.decisions(&dirty, now)) {
            match difference {
                Ok(more) => {
                    let result = if more.is_empty() { Decided::Unchanged } else { Decided::Changed };
                    self.metrics.decisions.get_or_create(&ByDecision { result }).inc();
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
        let exports = match self.exports_after(&decided) {
            Ok((exports, more)) => {
                ops.extend(more);
                exports
            }
            Err(error) => {
                tracing::error!(%error, "the exported decisions cannot be written down and stay as they are");
                Arc::clone(&self.desk.exports)
            }
        };
        if !ops.is_empty() {
            let store = Arc::clone(&self.store);
            let written = tokio::task::spawn_blocking(move || store.batch(ops)).await.expect("writing does not panic");
            let result = if written.is_ok() { Outcome::Ok } else { Outcome::Error };
            self.metrics.store_commits.get_or_create(&ByOutcome { result }).inc();
            if let Err(error) = written {
                tracing::error!(%error, "the decision cannot be written down and is not acted on; trying again");
                let again = clock::now() + jiff::SignedDuration::try_from(STORE_RETRY).expect("two seconds");
                self.wakes.extend(decided.into_iter().map(|(key, _)| (key, again)));
                return;
            }
        }
        self.desk.publish(exports);
        let any = !decided.is_empty();
        for (key, decision) in decided {
            self.reports.remove(&key);
            self.act(&key, decision);
        }
        if any {
            self.changes.send_modify(|version| *version += 1);
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
        match decision.wake_at {
            Some(at) => drop(self.wakes.insert(key.clone(), at)),
            None => drop(self.wakes.remove(key)),
        }
        if decision.finished {
            tracing::info!(placement = %key, "removed everywhere");
            self.placements.remove(key);
            self.settled.remove(key);
            return;
        }
        self.placements.insert(key.clone(), decision.state);
        self.announce(key);
    }
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
