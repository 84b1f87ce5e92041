//! One member's delivery: a task that keeps what the member holds in step with what it shall hold.
//!
//! It remembers what it sees, asks the deliver room what to do, does it, and reports. A member that does not answer holds
//! nobody else back: each has its own task, connection and limits.

mod observe;
mod status;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::clock;
use super::step::{self, StepResult};
use crate::cluster::{self, OBSERVATIONS_MAX, Observation, Target, WatchHandle, WatchedKind};
use crate::deliver::inventory::{Held, Parent, applyset_id};
use crate::deliver::live::LiveObject;
use crate::deliver::plan::{MemberView, Plan, Progress, Step, plan};
use crate::model::facts::Facts;
use crate::model::id::{ClusterName, Digest, ObjectId, ObjectKey, PlacementKey};
use crate::model::records::WorkStatus;
use crate::model::work::WorkOrder;

/// Shortest pause between two reports of one member.
const REPORT_INTERVAL: Duration = Duration::from_millis(50);
/// Pause between two reports of a work that is being carried out: a report costs what the work holds, here, in the decision
/// and in the store, and nothing is decided by a part of it.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// How long the first lists of a member may take before it counts as not answering.
const LIST_TIMEOUT: Duration = Duration::from_mins(1);
/// First pause before a member that did not answer is tried again; doubles up to [`RECONNECT_MAX`].
const RECONNECT_FIRST: Duration = Duration::from_secs(1);
/// Longest such pause.
const RECONNECT_MAX: Duration = Duration::from_secs(30);

/// What the hall tells a member's task.
#[derive(Debug)]
pub enum Command {
    /// Hold this, instead of what was ordered for the placement before.
    Order {
        /// What.
        order: Arc<WorkOrder>,
        /// Digests of owned fields from before a restart.
        baselines: BTreeMap<ObjectKey, Digest>,
    },
    /// Leave what is there alone: the cluster left the fleet, or the placement left it completely.
    Forget(PlacementKey),
}

/// What a member's task tells the hall.
#[derive(Debug)]
pub enum Event {
    /// The member answers, and this is what it holds.
    Online {
        /// The member.
        cluster: ClusterName,
        /// Kubernetes version, where it has one.
        version: Option<String>,
        /// Placements by what it holds of them completely.
        holds: BTreeMap<PlacementKey, Option<Held>>,
        /// Placements by what carries their label.
        inventory: BTreeMap<PlacementKey, BTreeSet<ObjectKey>>,
    },
    /// The member does not answer.
    Offline {
        /// The member.
        cluster: ClusterName,
        /// Why, for people.
        reason: String,
    },
    /// What became of an order.
    Work {
        /// The member.
        cluster: ClusterName,
        /// The placement.
        placement: PlacementKey,
        /// What became of it.
        status: WorkStatus,
    },
    /// What the member's nodes and pods add up to has changed.
    Facts {
        /// The member.
        cluster: ClusterName,
        /// What is known now.
        facts: Box<Facts>,
    },
}

/// One order under way.
struct Delivery {
    order: Arc<WorkOrder>,
    progress: Progress,
    in_flight: usize,
    /// Something happened since the last plan.
    stale: bool,
    plan: Plan,
    /// Something happened since the last report.
    unreported: bool,
    reported: Option<WorkStatus>,
    /// Not before this instant while steps are on their way.
    next_progress: Instant,
}

impl Delivery {
    /// Returns when there is something to report, if there is: soon where the work has come to rest.
    fn report_at(&self, soonest: Instant) -> Option<Instant> {
        let is_busy = self.in_flight > 0 || self.stale;
        self.unreported.then(|| if is_busy { soonest.max(self.next_progress) } else { soonest })
    }
}

/// The task of one member.
pub struct Member {
    cluster: ClusterName,
    source: String,
    target: Arc<dyn Target>,
    commands: mpsc::UnboundedReceiver<Command>,
    events: mpsc::UnboundedSender<Event>,
    deliveries: BTreeMap<PlacementKey, Delivery>,
    live: BTreeMap<ObjectKey, LiveObject>,
    parents: BTreeMap<PlacementKey, Parent>,
    wanted: BTreeMap<ObjectKey, BTreeSet<PlacementKey>>,
    placements: BTreeMap<String, PlacementKey>,
    watches: BTreeMap<WatchedKind, Watch>,
    facts: Option<WatchHandle>,
    sink: mpsc::Sender<Observation>,
    observations: mpsc::Receiver<Observation>,
    offline: Option<String>,
}

/// A watch and the list it is in.
struct Watch {
    _handle: WatchHandle,
    /// A first list is complete, or cannot be had.
    listed: bool,
    /// While a list is under way, the first or a later one: the objects it named, or that we wrote since it began.
    listing: Option<BTreeSet<ObjectKey>>,
}

type Work = FuturesUnordered<BoxFuture<'static, (PlacementKey, StepResult)>>;

impl Member {
    /// Makes the task of a member; [`Member::run`] is its life.
    pub fn new(
        cluster: ClusterName,
        source: String,
        target: Arc<dyn Target>,
        commands: mpsc::UnboundedReceiver<Command>,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        let (sink, observations) = mpsc::channel(OBSERVATIONS_MAX);
        Self {
            cluster,
            source,
            target,
            commands,
            events,
            deliveries: BTreeMap::new(),
            live: BTreeMap::new(),
            parents: BTreeMap::new(),
            wanted: BTreeMap::new(),
            placements: BTreeMap::new(),
            watches: BTreeMap::new(),
            facts: None,
            sink,
            observations,
            offline: None,
        }
    }

    /// Connects, delivers, and connects again when the member stops answering, until the hall drops its side.
    ///
    /// # Cancel safety
    /// May be dropped at any point: every step is idempotent and the next life finds out what was done by looking.
    pub async fn run(mut self) {
        let delays = || clock::delays(RECONNECT_FIRST, RECONNECT_MAX);
        let mut delay = delays();
        loop {
            match self.connect().await {
                Ok(version) => {
                    delay = delays();
                    self.announce(version);
                    self.facts = Some(self.target.watch_facts(self.sink.clone()));
                    if self.serve().await.is_none() {
                        return;
                    }
                }
                Err(error) => self.offline = Some(error.to_string()),
            }
            let reason = self.offline.take().unwrap_or_default();
            self.watches.clear();
            self.facts = None;
            if self.events.send(Event::Offline { cluster: self.cluster.clone(), reason }).is_err() {
                return;
            }
            let pause = tokio::time::sleep(delay.next().unwrap_or(RECONNECT_MAX));
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    command = self.commands.recv() => match command {
                        Some(command) => self.command(command),
                        None => return,
                    },
                }
            }
        }
    }

    /// Connects and looks: afterwards everything that carries a label of ours is known.
    async fn connect(&mut self) -> Result<Option<String>, cluster::Error> {
        let version = self.target.connect().await?;
        while self.observations.try_recv().is_ok() {}
        self.parents.clear();
        let mut kinds: BTreeMap<WatchedKind, Option<String>> = BTreeMap::new();
        for parent in self.target.parents().await?.iter().map(Parent::read) {
            let Some(placement) = parent.placement.clone() else { continue };
            for group_kind in &parent.group_kinds {
                let (kind, group) = group_kind.split_once('.').unwrap_or((group_kind, ""));
                kinds.entry(WatchedKind { group: group.to_owned(), kind: kind.to_owned() }).or_default();
            }
            self.placements.insert(applyset_id(&placement), placement.clone());
            self.parents.insert(placement, parent);
        }
        for delivery in self.deliveries.values_mut() {
            delivery.stale = true;
            delivery.in_flight = 0;
            kinds.extend(kinds_of(&delivery.order));
        }
        for (kind, version) in kinds {
            self.watch(kind, version.as_deref());
        }
        let deadline = Instant::now() + LIST_TIMEOUT;
        while self.watches.values().any(|watch| !watch.listed) {
            match tokio::time::timeout_at(deadline, self.observations.recv()).await {
                Ok(Some(observation)) => self.observe(observation),
                _ => {
                    return Err(cluster::Error::Unreachable {
                        cluster: self.cluster.to_string(),
                        reason: format!("its objects were not listed within {} s", LIST_TIMEOUT.as_secs()),
                    });
                }
            }
            if let Some(reason) = self.offline.take() {
                return Err(cluster::Error::Unreachable { cluster: self.cluster.to_string(), reason });
            }
        }
        let watches = &self.watches;
        self.live
            .retain(|key, _| watches.contains_key(&WatchedKind { group: key.group.clone(), kind: key.kind.clone() }));
        Ok(version)
    }

    fn announce(&self, version: Option<String>) {
        let ours = || self.parents.iter().filter(|(_, parent)| parent.source == self.source);
        let holds = ours().map(|(key, parent)| (key.clone(), parent.holds.clone())).collect();
        let inventory = ours().map(|(key, _)| (key.clone(), self.inventory(key))).collect();
        let event = Event::Online { cluster: self.cluster.clone(), version, holds, inventory };
        // The hall is gone only when everything ends.
        drop(self.events.send(event));
    }

    fn inventory(&self, placement: &PlacementKey) -> BTreeSet<ObjectKey> {
        let id = applyset_id(placement);
        self.live.iter().filter(|(_, live)| live.applyset == id).map(|(key, _)| key.clone()).collect()
    }

    /// Delivers until the member stops answering (`Some`) or the hall is gone (`None`).
    async fn serve(&mut self) -> Option<()> {
        let mut work = Work::new();
        let mut next_report = Instant::now();
        loop {
            self.start_steps(&mut work);
            let wake = self.wake_at(next_report);
            tokio::select! {
                biased;
                command = self.commands.recv() => self.command(command?),
                Some((placement, result)) = work.next() => self.settle(&placement, result),
                Some(observation) = self.observations.recv() => self.observe(observation),
                () = tokio::time::sleep_until(wake) => self.mark_due(),
            }
            // Whatever else is ready is taken before anything is planned: a plan costs what the order holds.
            while let Ok(command) = self.commands.try_recv() {
                self.command(command);
            }
            while let Ok(observation) = self.observations.try_recv() {
                self.observe(observation);
            }
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
        let due = self.deliveries.values().filter_map(|d| d.plan.wake_at).min();
        let far = Duration::from_hours(1);
        let retry = Instant::now() + due.map_or(far, clock::until);
        self.deliveries.values().filter_map(|d| d.report_at(next_report)).fold(retry, Instant::min)
    }

    fn mark_due(&mut self) {
        let now = clock::now();
        for delivery in self.deliveries.values_mut() {
            delivery.stale |= delivery.plan.wake_at.is_some_and(|at| at <= now);
        }
    }

    fn command(&mut self, command: Command) {
        let (placement, order) = match command {
            Command::Forget(placement) => (placement, None),
            Command::Order { order, baselines } => (order.placement.clone(), Some((order, baselines))),
        };
        let before = match &order {
            None => self.deliveries.remove(&placement).map(|d| d.order),
            Some(_) => self.deliveries.get(&placement).map(|d| Arc::clone(&d.order)),
        };
        for desired in before.iter().flat_map(|order| order.manifests.iter()) {
            if let Some(placements) = self.wanted.get_mut(&desired.key) {
                placements.remove(&placement);
                if placements.is_empty() {
                    self.wanted.remove(&desired.key);
                }
            }
        }
        if let Some((order, baselines)) = order {
            for desired in order.manifests.iter() {
                self.wanted.entry(desired.key.clone()).or_default().insert(placement.clone());
            }
            self.placements.insert(applyset_id(&placement), placement.clone());
            let delivery = self.deliveries.entry(placement.clone()).or_insert_with(|| Delivery {
                order: Arc::clone(&order),
                progress: Progress { baselines, ..Progress::default() },
                in_flight: 0,
                stale: true,
                plan: Plan::default(),
                unreported: true,
                reported: None,
                next_progress: Instant::now(),
            });
            if delivery.order.generation != order.generation {
                delivery.progress.begin_anew(&order);
            }
            delivery.order = order;
        }
        // Who wants an object decides who may write it: another placement's turn may have come.
        for delivery in self.deliveries.values_mut() {
            delivery.stale = true;
        }
    }

    /// Plans what is stale and starts the steps.
    fn start_steps(&mut self, work: &mut Work) {
        let now = clock::now();
        let due: Vec<PlacementKey> =
            self.deliveries.iter().filter(|(_, d)| d.stale && d.in_flight == 0).map(|(key, _)| key.clone()).collect();
        for placement in due {
            let order = Arc::clone(&self.deliveries[&placement].order);
            let mut listed = true;
            for (kind, version) in kinds_of(&order) {
                self.watch(kind.clone(), version.as_deref());
                listed &= self.watches.get(&kind).is_some_and(|watch| watch.listed);
            }
            if !listed {
                continue;
            }
            let Some(delivery) = self.deliveries.get_mut(&placement) else { continue };
            let view = MemberView { live: &self.live, wanted: &self.wanted, parent: self.parents.get(&placement) };
            delivery.plan = plan(&order, &view, &delivery.progress, now);
            delivery.stale = false;
            delivery.unreported = true;
            for step in std::mem::take(&mut delivery.plan.steps) {
                delivery.in_flight += 1;
                let before = step_object(&order, &step).and_then(|key| delivery.progress.attempts.get(key)).cloned();
                let (target, order, placement) = (Arc::clone(&self.target), Arc::clone(&order), placement.clone());
                work.push(Box::pin(
                    async move { (placement, step::perform(target.as_ref(), &order, step, before).await) },
                ));
            }
        }
    }

    fn watch(&mut self, kind: WatchedKind, version: Option<&str>) {
        if !self.watches.contains_key(&kind) {
            let handle = self.target.watch(&kind, version, self.sink.clone());
            self.watches.insert(kind, Watch { _handle: handle, listed: false, listing: Some(BTreeSet::new()) });
        }
    }

    /// Takes in what came of a step.
    fn settle(&mut self, placement: &PlacementKey, result: StepResult) {
        if let Some(delivery) = self.deliveries.get_mut(placement) {
            delivery.in_flight = delivery.in_flight.saturating_sub(1);
            delivery.stale = true;
            delivery.unreported = true;
        }
        match result {
            StepResult::Offline(reason) => self.offline = Some(reason),
            StepResult::Parent(parent) => {
                match parent {
                    Some(parent) => self.parents.insert(placement.clone(), parent),
                    None => self.parents.remove(placement),
                };
            }
            StepResult::ParentFailed(message) => {
                if let Some(delivery) = self.deliveries.get_mut(placement) {
                    delivery.plan.failure = Some(message);
                    delivery.plan.wake_at = Some(clock::now() + crate::deliver::plan::RETRY_MAX);
                    delivery.stale = false;
                }
            }
            StepResult::Applied { key, attempt, live } => {
                if let Some(live) = live {
                    self.remember(live);
                }
                if let Some(delivery) = self.deliveries.get_mut(placement) {
                    delivery.progress.baselines.remove(&key);
                    delivery.progress.attempts.insert(key, *attempt);
                }
            }
            StepResult::Deleted { key, uid, gone } => {
                if gone && self.live.get(&key).is_some_and(|live| live.uid == uid) {
                    self.live.remove(&key);
                }
                // What is gone may come back under the same uid: a file is what its name says.
                if !gone && let Some(delivery) = self.deliveries.get_mut(placement) {
                    delivery.progress.deleted.insert(uid);
                }
            }
            StepResult::Drift { key, seen, differences } => {
                if let Some(delivery) = self.deliveries.get_mut(placement) {
                    delivery.progress.drifts.insert(key, (seen, differences));
                }
            }
            StepResult::DeleteFailed { message } => {
                if let Some(delivery) = self.deliveries.get_mut(placement) {
                    delivery.plan.failure = Some(message);
                    delivery.plan.wake_at = Some(clock::now() + jiff::SignedDuration::from_secs(30));
                    delivery.stale = false;
                }
            }
        }
    }

    /// Tells the hall what changed since the last report.
    fn report(&mut self) {
        let now = clock::now();
        let instant = Instant::now();
        let is_due = |d: &Delivery| d.report_at(instant).is_some_and(|at| at <= instant);
        let due = self.deliveries.iter().filter(|(_, d)| is_due(d)).map(|(key, _)| key.clone());
        for placement in due.collect::<Vec<_>>() {
            let status = self.status(&placement, now);
            let Some(delivery) = self.deliveries.get_mut(&placement) else { continue };
            delivery.unreported = false;
            delivery.next_progress = instant + PROGRESS_INTERVAL;
            if delivery.reported.as_ref() != Some(&status) {
                delivery.reported = Some(status.clone());
                let event = Event::Work { cluster: self.cluster.clone(), placement, status };
                drop(self.events.send(event));
            }
        }
    }
}

/// Returns the kinds of an order, with the version its manifests are written in.
fn kinds_of(order: &WorkOrder) -> BTreeMap<WatchedKind, Option<String>> {
    let kind = |id: &ObjectId| WatchedKind { group: id.group.clone(), kind: id.kind.clone() };
    order.manifests.iter().map(|d| (kind(&d.id), Some(d.id.version.clone()))).collect()
}

/// Returns the object an apply or comparison is about.
fn step_object<'a>(order: &'a WorkOrder, step: &Step) -> Option<&'a ObjectKey> {
    match step {
        Step::Apply { position, .. } | Step::Compare { position } | Step::ShowDrift { position, .. } => {
            Some(&order.manifests[*position].key)
        }
        Step::WriteParent(_) | Step::Delete { .. } | Step::DeleteParent => None,
    }
}
