//! One member's delivery: a task that keeps what the member holds in step with what it shall hold.
//!
//! It remembers what it sees, asks `deliver::plan` what to do, does it, and reports. A member that does not answer holds
//! nobody else back: each has its own task, connection and limits.

pub mod apply;
mod counted;
mod observe;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::clock;
use crate::cluster::{self, OBSERVATIONS_MAX, Observation, Target, WatchHandle, WatchedKind};
use crate::core::member::result::StepResult;
use crate::core::member::{Reconciler, Task};
use crate::core::{MemberCommand, MemberEvent};
use crate::deliver::inventory::Parent;
use crate::deliver::step::Step;
use crate::model::id::{ClusterName, PlacementKey};
use crate::model::work::SourceName;
use crate::telemetry::metrics::{ByDrift, Drift, Metrics};

use counted::Counted;

/// Shortest pause between two reports of one member.
const REPORT_INTERVAL: Duration = Duration::from_millis(50);
/// Pause between two reports of a work that is being carried out: a report costs what the work holds, here, in the decision
/// and in the store, and nothing is decided by a part of it.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// How long nothing may be heard of the first lists of a member before the kinds without an answer count as unknown.
const LIST_TIMEOUT: Duration = Duration::from_mins(1);
/// First pause before a member that did not answer is tried again; doubles up to [`RECONNECT_MAX`].
const RECONNECT_FIRST: Duration = Duration::from_secs(1);
/// Longest such pause.
const RECONNECT_MAX: Duration = Duration::from_secs(30);
/// How long a member must have been served before the pauses begin with the first again: one that answers and fails at once
/// would be connected to and listed again and again.
const STEADY_AFTER: Duration = Duration::from_mins(1);

/// The task of one member.
pub struct Member {
    cluster: ClusterName,
    metrics: Arc<Metrics>,
    target: Arc<dyn Target>,
    commands: mpsc::UnboundedReceiver<MemberCommand>,
    events: mpsc::UnboundedSender<MemberEvent>,
    reconciler: Reconciler,
    /// Not before this instant, where the work is still being carried out.
    next_progress: BTreeMap<PlacementKey, Instant>,
    watches: BTreeMap<WatchedKind, WatchHandle>,
    facts: Option<WatchHandle>,
    namespaces: Option<WatchHandle>,
    sink: mpsc::Sender<Observation>,
    observations: mpsc::Receiver<Observation>,
    offline: Option<String>,
}

type Work = FuturesUnordered<BoxFuture<'static, (PlacementKey, StepResult)>>;

impl Member {
    /// Makes the task of a member; [`Member::run`] is its life.
    pub fn new(
        cluster: ClusterName,
        source: SourceName,
        target: Arc<dyn Target>,
        commands: mpsc::UnboundedReceiver<MemberCommand>,
        events: mpsc::UnboundedSender<MemberEvent>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let target: Arc<dyn Target> = Arc::new(Counted::new(target, Arc::clone(&metrics)));
        let (sink, observations) = mpsc::channel(OBSERVATIONS_MAX);
        let reconciler = Reconciler::new(cluster.clone(), source, target.has_health());
        Self {
            cluster,
            metrics,
            target,
            commands,
            events,
            reconciler,
            next_progress: BTreeMap::new(),
            watches: BTreeMap::new(),
            facts: None,
            namespaces: None,
            sink,
            observations,
            offline: None,
        }
    }

    /// Connects, delivers, and connects again when the member stops answering, until the daemon drops its side.
    ///
    /// # Cancel safety
    /// May be dropped at any point: every step is idempotent and the next life finds out what was done by looking.
    pub async fn run(mut self) {
        let delays = || clock::delays(RECONNECT_FIRST, RECONNECT_MAX);
        let mut delay = delays();
        loop {
            match self.connect().await {
                Ok(version) => {
                    // Before it counts as online: a ResourcePlacement is not to go where its namespace is not.
                    self.tell_namespaces();
                    // The receiver goes only when the process ends.
                    drop(self.events.send(self.reconciler.announce(version)));
                    self.facts = Some(self.target.watch_facts(self.sink.clone()));
                    let since = Instant::now();
                    if self.serve().await.is_none() {
                        return;
                    }
                    if since.elapsed() >= STEADY_AFTER {
                        delay = delays();
                    }
                }
                Err(error) => self.offline = Some(error.to_string()),
            }
            let reason = self.offline.take().unwrap_or_default();
            // They are of the connection that ended: the next one lists everything anew.
            self.watches.clear();
            self.facts = None;
            self.namespaces = None;
            if self.events.send(MemberEvent::Offline { cluster: self.cluster.clone(), reason }).is_err() {
                return;
            }
            let pause = tokio::time::sleep(delay.next().unwrap_or(RECONNECT_MAX));
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    command = self.commands.recv() => match command {
                        // The next connection begins with the newest orders, and lists their kinds.
                        Some(command) => self.reconciler.command(command),
                        None => return,
                    },
                }
            }
        }
    }

    /// Connects and looks: afterwards everything that carries a label of ours is known, or is known not to be.
    async fn connect(&mut self) -> Result<Option<String>, cluster::Error> {
        let version = self.target.connect().await?;
        // What watches of the connection before still had to say is older than the lists to come.
        while self.observations.try_recv().is_ok() {}
        self.reconciler.connect();
        // Before the watches begin: inventories name kinds to list that no order is about any more.
        for parent in self.target.parents().await?.iter().map(Parent::read) {
            self.reconciler.take_parent(parent);
        }
        self.namespaces = self.target.watch_namespaces(self.sink.clone());
        self.watch_expected();
        while self.reconciler.is_listing() || self.awaits_namespaces() {
            if let Ok(Some(observation)) = tokio::time::timeout(LIST_TIMEOUT, self.observations.recv()).await {
                self.observe(observation);
            } else {
                let why = format!("it was not listed within {} s", LIST_TIMEOUT.as_secs());
                self.reconciler.give_up_listing(&why);
                if self.awaits_namespaces() {
                    self.reconciler.see_namespaces(Err(why));
                }
            }
            if let Some(reason) = self.offline.take() {
                return Err(cluster::Error::Unreachable { cluster: self.cluster.to_string(), reason });
            }
        }
        // What only an earlier connection listed may be gone: no watch of this one would say so.
        self.reconciler.forget_unlisted();
        Ok(version)
    }

    fn awaits_namespaces(&self) -> bool {
        self.namespaces.is_some() && self.reconciler.awaits_namespaces()
    }

    fn tell_namespaces(&mut self) {
        if let Some(event) = self.reconciler.take_namespaces() {
            drop(self.events.send(event));
        }
    }

    /// Delivers until the member stops answering (`Some`) or the daemon is gone (`None`).
    async fn serve(&mut self) -> Option<()> {
        let mut work = Work::new();
        let mut next_report = Instant::now();
        loop {
            self.start_steps(&mut work);
            let wake = self.wake_at(next_report);
            tokio::select! {
                biased;
                command = self.commands.recv() => self.reconciler.command(command?),
                Some((placement, result)) = work.next() => self.settle(&placement, result),
                Some(observation) = self.observations.recv() => self.observe(observation),
                () = tokio::time::sleep_until(wake) => self.reconciler.mark_due(clock::now()),
            }
            // Whatever else is ready is taken before anything is planned: a plan costs what the order holds.
            while let Ok(command) = self.commands.try_recv() {
                self.reconciler.command(command);
            }
            while let Ok(observation) = self.observations.try_recv() {
                self.observe(observation);
            }
            // Steps under way are dropped with `work`: what they did is found by looking at the next connection.
            if self.offline.is_some() {
                return Some(());
            }
            if Instant::now() >= next_report {
                self.report();
                next_report = Instant::now() + REPORT_INTERVAL;
            }
        }
    }

    /// Returns when to wake up by itself: a report that waits, or the first retry that falls due.
    fn wake_at(&self, next_report: Instant) -> Instant {
        let far = Duration::from_hours(1);
        let retry = Instant::now() + self.reconciler.wake_at().map_or(far, clock::until);
        let reports = self.reconciler.unreported().map(|(key, is_busy)| self.report_at(key, is_busy, next_report));
        reports.fold(retry, Instant::min)
    }

    /// Returns when to report about a placement: soon where the work has come to rest.
    fn report_at(&self, placement: &PlacementKey, is_busy: bool, soonest: Instant) -> Instant {
        let next_progress = self.next_progress.get(placement).filter(|_| is_busy);
        next_progress.map_or(soonest, |at| soonest.max(*at))
    }

    /// Plans what is stale and starts the steps.
    fn start_steps(&mut self, work: &mut Work) {
        self.watch_expected();
        for Task { order, step, before } in self.reconciler.tasks(clock::now()) {
            if matches!(step, Step::Apply { put_back: true, .. }) {
                self.count(Drift::PutBack);
            }
            let (target, placement) = (Arc::clone(&self.target), order.placement.clone());
            let span = tracing::error_span!("step", %placement, commit = %order.commit.short());
            let step = async move { (placement, apply::perform(target.as_ref(), &order, step, before).await) };
            work.push(Box::pin(step.instrument(span)));
        }
    }

    /// Begins the watches that are missing, and begins anew those that have something to look for again.
    fn watch_expected(&mut self) {
        for (kind, version) in self.reconciler.take_unwatched() {
            let handle = self.target.watch(&kind, version.as_deref(), self.sink.clone());
            self.watches.insert(kind, handle);
        }
    }

    /// Takes in what came of a step.
    fn settle(&mut self, placement: &PlacementKey, result: StepResult) {
        if matches!(&result, StepResult::Drift { found: Ok(found), .. } if found.drifted) {
            self.count(Drift::Reported);
        }
        if let Some(reason) = self.reconciler.settle(placement, result, clock::now()) {
            self.offline = Some(reason);
        }
    }

    fn count(&self, result: Drift) {
        self.metrics.drift.get_or_create(&ByDrift { result }).inc();
    }

    /// Tells the daemon what changed since the last report.
    fn report(&mut self) {
        let now = clock::now();
        let instant = Instant::now();
        // Before the work that brought a namespace: whoever waits for both has seen both.
        self.tell_namespaces();
        let unreported = self.reconciler.unreported();
        let due = unreported.filter(|(key, is_busy)| self.report_at(key, *is_busy, instant) <= instant);
        for placement in due.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            if let Some(event) = self.reconciler.report(&placement, now) {
                drop(self.events.send(event));
            }
            self.next_progress.insert(placement, instant + PROGRESS_INTERVAL);
        }
    }
}
