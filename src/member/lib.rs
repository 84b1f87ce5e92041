//! One member's task: brings the member's objects to their desired state.
//!
//! It records what it observes, asks `deliver::plan` for steps, executes them, and reports. A member that does not answer
//! blocks no other: each has its own task, connection and limits.

pub mod apply;
mod commands;
mod common;
mod counted;
pub mod decryption;
mod fenced;
mod limits;
mod observe;
mod presence;
pub mod task;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::Instrument as _;

use cluster::{IN_FLIGHT_MAX, OBSERVATIONS_MAX, Observation, Target, WatchHandle, WatchedKind};
use deliver::inventory::Parent;
use deliver::step::Step;
use engine::member::result::StepResult;
use engine::member::{Reconciler, Task};
use engine::{MemberCommand, MemberEvent};
use model::facts::Facts;
use model::id::{ClusterName, PlacementKey};
use model::work::SourceName;
use system::clock;
use system::fence::Fence;
use system::telemetry::metrics::{ByDrift, Drift};

use commands::CommandReceiver;
pub use common::Common;
use counted::Counted;
use fenced::Fenced;
pub use limits::SharedLimits;
use presence::Presence;

/// Shortest pause between two reports of one member.
const REPORT_INTERVAL: Duration = Duration::from_millis(50);
/// Pause between two reports of an active work: the cost of a report grows with the work, in the task, the decision and the
/// store, and a partial report changes no decision.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// First pause before an unreachable member is retried; doubles up to [`RECONNECT_MAX`].
const RECONNECT_FIRST: Duration = Duration::from_secs(1);
/// Longest such pause.
const RECONNECT_MAX: Duration = Duration::from_secs(30);
/// How long a connection must last before the pauses start again with the first: a member that answers and fails immediately
/// would be listed again and again.
const STEADY_AFTER: Duration = Duration::from_mins(1);

/// The task of one member.
pub struct Member {
    cluster: ClusterName,
    common: Arc<Common>,
    target: Arc<dyn Target>,
    commands: CommandReceiver,
    events: mpsc::UnboundedSender<MemberEvent>,
    reconciler: Reconciler,
    /// No report of an active work before this instant.
    next_progress: BTreeMap<PlacementKey, Instant>,
    watches: BTreeMap<WatchedKind, WatchHandle>,
    parents: Option<WatchHandle>,
    facts: Option<WatchHandle>,
    namespaces: Option<WatchHandle>,
    sink: mpsc::Sender<Observation>,
    observations: mpsc::Receiver<Observation>,
    offline: Option<String>,
    presence: SaidPresence,
    last_facts: Option<Box<Facts>>,
}

/// What was said of the member last.
#[derive(Debug)]
enum SaidPresence {
    /// Nothing yet.
    Unknown,
    /// It answers, and is this.
    Online(ReachedServer),
    /// It does not answer, for this reason.
    Offline(String),
}

/// What a connection says of a member.
#[derive(Clone, Debug)]
struct ReachedServer {
    /// Its Kubernetes version.
    version: Option<String>,
    /// What names its API server.
    server: Option<String>,
}

/// The steps of a connection.
#[derive(Default)]
struct Work {
    /// Steps to start, in order: a step under way holds its object in memory, a waiting one only names it.
    waiting: VecDeque<(Task, Arc<Presence>)>,
    /// Placements of which a step has begun, and that have more to do. Their next steps go first: a member delivers one placement after
    /// the other, and reports each once, instead of all of them bit by bit.
    begun: BTreeSet<PlacementKey>,
    under_way: FuturesUnordered<BoxFuture<'static, (PlacementKey, StepResult)>>,
}

impl Work {
    /// Adds a step, before those of placements that have not begun.
    fn add(&mut self, task: Task, presence: Arc<Presence>) {
        let first_fresh = self.waiting.partition_point(|(waiting, _)| self.has_begun(waiting));
        let position = if self.has_begun(&task) { first_fresh } else { self.waiting.len() };
        self.waiting.insert(position, (task, presence));
    }

    fn has_begun(&self, task: &Task) -> bool {
        self.begun.contains(&task.order.placement)
    }

    /// Notes that a placement has nothing to do: its next steps take their turn.
    fn rest(&mut self, placement: &PlacementKey) {
        self.begun.remove(placement);
    }
}

impl Member {
    /// Creates the task of a member; [`Member::run`] runs it. It writes while the fence is open.
    pub fn new(
        cluster: ClusterName,
        source: SourceName,
        target: Arc<dyn Target>,
        common: Arc<Common>,
        fence: Fence,
        commands: CommandReceiver,
        events: mpsc::UnboundedSender<MemberEvent>,
    ) -> Self {
        let counted = Counted::new(target, Arc::clone(&common.metrics));
        let target: Arc<dyn Target> = Arc::new(Fenced::new(Arc::new(counted), fence));
        let (sink, observations) = mpsc::channel(OBSERVATIONS_MAX);
        let reconciler = Reconciler::new(cluster.clone(), source, target.has_health());
        Self {
            cluster,
            common,
            target,
            commands,
            events,
            reconciler,
            next_progress: BTreeMap::new(),
            watches: BTreeMap::new(),
            parents: None,
            facts: None,
            namespaces: None,
            sink,
            observations,
            offline: None,
            presence: SaidPresence::Unknown,
            last_facts: None,
        }
    }

    /// Connects, delivers, and connects again when the member stops answering, until the daemon drops its side.
    ///
    /// # Cancel safety
    /// May be dropped at any point: every step is idempotent, and the next process reads the result from the member.
    pub async fn run(mut self) {
        let mut delay = clock::delays(RECONNECT_FIRST, RECONNECT_MAX);
        loop {
            match self.connect().await {
                Ok(connected) => {
                    // Before it counts as online: a ResourcePlacement is not to go where its namespace is not.
                    self.report_namespaces();
                    // The receiver goes only when the process ends.
                    let ReachedServer { version, server } = connected.clone();
                    drop(self.events.send(self.reconciler.announce(version, server)));
                    self.presence = SaidPresence::Online(connected);
                    self.facts = Some(self.target.watch_facts(self.sink.clone()));
                    let since = Instant::now();
                    if self.serve().await.is_none() {
                        return;
                    }
                    if since.elapsed() >= STEADY_AFTER {
                        delay = clock::delays(RECONNECT_FIRST, RECONNECT_MAX);
                    }
                }
                Err(error) => self.offline = Some(error.to_string()),
            }
            let reason = self.offline.take().unwrap_or_default();
            // They belong to the ended connection: the next one lists everything again.
            self.watches.clear();
            self.parents = None;
            self.facts = None;
            self.namespaces = None;
            self.presence = SaidPresence::Offline(reason.clone());
            if self.events.send(MemberEvent::Offline { cluster: self.cluster.clone(), reason }).is_err() {
                return;
            }
            let pause = tokio::time::sleep(delay.next().unwrap_or(RECONNECT_MAX));
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    command = self.commands.recv() => match command {
                        // The next connection starts with the newest orders, and lists their kinds.
                        Some(command) => self.command(command),
                        None => return,
                    },
                }
            }
        }
    }

    /// Connects and lists: afterwards all objects with a label of gitfleet are known, or their kinds are known to be unlisted.
    async fn connect(&mut self) -> Result<ReachedServer, cluster::Error> {
        let version = self.target.connect().await?;
        let server = self.target.server().await?;
        // Remaining events of the earlier connection are older than the next lists.
        while self.observations.try_recv().is_ok() {}
        self.reconciler.connect();
        let common = Arc::clone(&self.common);
        let mut turn = common.limits.listing_turn().await;
        // Before the watches start: inventories name kinds to list that no order contains any more.
        for parent in &self.target.parents().await? {
            self.reconciler.take_parent(Parent::read(parent), apply::version_of(parent));
        }
        self.parents = Some(self.target.watch_parents(self.sink.clone()));
        self.namespaces = self.target.watch_namespaces(self.sink.clone());
        self.watch_expected();
        let silence = common.limits.list_silence;
        let mut end = Instant::now() + silence;
        while self.reconciler.is_listing() || self.awaits_namespaces() {
            if let Some(observation) = turn.wait(end, self.observations.recv()).await {
                // Changes of what is listed already may come without end.
                if observation.is_of_list() {
                    end = Instant::now() + silence;
                }
                self.observe(observation);
                // An inventory may name kinds that nobody listed so far.
                self.watch_expected();
            } else {
                let why = format!("its list brought nothing for {silence:?}");
                self.reconciler.give_up_listing(&why);
                if self.awaits_namespaces() {
                    self.reconciler.see_namespaces(Err(why));
                }
            }
            if let Some(reason) = self.offline.take() {
                return Err(cluster::Error::Unreachable { cluster: self.cluster.to_string(), reason });
            }
        }
        // Objects that only an earlier connection listed may be gone: no watch of this one would report that.
        self.reconciler.forget_unlisted();
        Ok(ReachedServer { version, server })
    }

    /// Handles a command.
    fn command(&mut self, command: MemberCommand) {
        let announces = matches!(command, MemberCommand::Announce);
        self.reconciler.command(command);
        if announces {
            self.announce();
        }
    }

    /// Says again what is known of the member. The reports about its orders follow.
    fn announce(&mut self) {
        let cluster = self.cluster.clone();
        let event = match &self.presence {
            // The first connection will say it.
            SaidPresence::Unknown => return,
            SaidPresence::Offline(reason) => MemberEvent::Offline { cluster, reason: reason.clone() },
            SaidPresence::Online(connected) => {
                let ReachedServer { version, server } = connected.clone();
                self.report_namespaces();
                self.reconciler.announce(version, server)
            }
        };
        // The receiver goes only when the process ends.
        drop(self.events.send(event));
        if let Some(facts) = self.last_facts.clone() {
            drop(self.events.send(MemberEvent::Facts { cluster: self.cluster.clone(), facts }));
        }
    }

    fn awaits_namespaces(&self) -> bool {
        self.namespaces.is_some() && self.reconciler.awaits_namespaces()
    }

    fn report_namespaces(&mut self) {
        if let Some(event) = self.reconciler.take_namespaces() {
            drop(self.events.send(event));
        }
    }

    /// Delivers until the member stops answering (`Some`) or the daemon is gone (`None`).
    async fn serve(&mut self) -> Option<()> {
        let mut work = Work::default();
        let mut next_report = Instant::now();
        loop {
            self.start_steps(&mut work);
            let wake = self.wake_at(next_report);
            tokio::select! {
                biased;
                command = self.commands.recv() => self.command(command?),
                Some((placement, result)) = work.under_way.next() => self.settle(&placement, result),
                Some(observation) = self.observations.recv() => self.observe(observation),
                () = tokio::time::sleep_until(wake) => self.reconciler.mark_due(clock::now()),
            }
            // Everything that is ready is handled before planning: the cost of a plan grows with its order.
            while let Ok(command) = self.commands.try_recv() {
                self.command(command);
            }
            while let Ok(observation) = self.observations.try_recv() {
                self.observe(observation);
            }
            // Dropping `work` drops the steps under way: the next connection reads their results from the member.
            if self.offline.is_some() {
                return Some(());
            }
            if self.reconciler.take_announcement() {
                self.announce();
            }
            if Instant::now() >= next_report {
                self.report(&mut work);
                next_report = Instant::now() + REPORT_INTERVAL;
            }
        }
    }

    /// Returns the next wake-up time: for a waiting report, or for the first retry.
    fn wake_at(&self, next_report: Instant) -> Instant {
        let far = Duration::from_hours(1);
        let retry = Instant::now() + self.reconciler.wake_at().map_or(far, clock::until);
        let reports = self.reconciler.unreported().map(|(key, is_busy)| self.report_at(key, is_busy, next_report));
        reports.fold(retry, Instant::min)
    }

    /// Returns when to report about a placement: soon if the work has settled.
    fn report_at(&self, placement: &PlacementKey, is_busy: bool, soonest: Instant) -> Instant {
        match self.next_progress.get(placement) {
            Some(at) if is_busy => soonest.max(*at),
            _ => soonest,
        }
    }

    /// Plans stale deliveries and starts the steps, as many at a time as a member takes.
    fn start_steps(&mut self, work: &mut Work) {
        self.watch_expected();
        let tasks = self.reconciler.tasks(clock::now());
        let presence = Presence::of(&tasks);
        // Nothing waits, so no placement that was forgotten keeps its turn.
        if work.waiting.is_empty() && work.under_way.is_empty() {
            work.begun.clear();
        }
        for task in tasks {
            work.add(task, Arc::clone(&presence));
        }
        while work.under_way.len() < IN_FLIGHT_MAX
            && !work.waiting.is_empty()
            && let Some(permit) = self.common.limits.step(work.under_way.len())
            && let Some((task, presence)) = work.waiting.pop_front()
        {
            if matches!(task.step, Step::Apply { put_back: true, .. }) {
                self.count(Drift::PutBack);
            }
            let target = Arc::clone(&self.target);
            let placement = task.order.placement.clone();
            work.begun.insert(placement.clone());
            let span = tracing::error_span!("step", %placement, commit = %task.order.commit.short());
            let common = Arc::clone(&self.common);
            let step = async move {
                let _permit = permit;
                (placement, apply::perform(target.as_ref(), &common, &presence, task).await)
            };
            work.under_way.push(Box::pin(step.instrument(span)));
        }
    }

    /// Starts missing watches, and restarts those with something to look for again.
    fn watch_expected(&mut self) {
        for (kind, version) in self.reconciler.take_unwatched() {
            let handle = self.target.watch(&kind, version.as_deref(), self.sink.clone());
            self.watches.insert(kind, handle);
        }
    }

    /// Handles the result of a step.
    fn settle(&mut self, placement: &PlacementKey, result: StepResult) {
        if matches!(&result, StepResult::Drift { found: Ok(found), .. } if found.drifted) {
            self.count(Drift::Reported);
        }
        if let Some(reason) = self.reconciler.settle(placement, result, clock::now()) {
            self.offline = Some(reason);
        }
    }

    fn count(&self, result: Drift) {
        self.common.metrics.drift.get_or_create(&ByDrift { result }).inc();
    }

    /// Sends the daemon what changed since the last report.
    fn report(&mut self, work: &mut Work) {
        let now = clock::now();
        let instant = Instant::now();
        // Before the work that brought a namespace: whoever waits for both has seen both.
        self.report_namespaces();
        self.next_progress.retain(|_, at| *at > instant);
        let unreported = self.reconciler.unreported();
        let due = unreported.filter(|(key, is_busy)| self.report_at(key, *is_busy, instant) <= instant);
        for (placement, is_busy) in due.map(|(key, is_busy)| (key.clone(), is_busy)).collect::<Vec<_>>() {
            if let Some(event) = self.reconciler.report(&placement, now) {
                drop(self.events.send(event));
            }
            if !is_busy {
                work.rest(&placement);
            }
            self.next_progress.insert(placement, instant + PROGRESS_INTERVAL);
        }
    }
}
