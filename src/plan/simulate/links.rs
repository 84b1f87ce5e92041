//! The simulated adapters: members' tasks.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::deployment::Deployment;
use super::member::Sight;
use super::{Event, Fact, Fate, Happening, Simulation, later};
use deliver::inventory::Parent;
use deliver::live::LiveObject;
use deliver::step::Step;
use engine::member::result::StepResult;
use engine::member::{Reconciler, Task};
use engine::{MemberCommand, MemberEvent};
use model::facts::{Facts, NodeFacts, Totals};
use model::id::{ClusterName, ObjectKey, PlacementKey};
use model::kinds::WatchedKind;
use model::records::Availability;
use model::work::SourceName;

/// Pause before a report, as in members' tasks.
const REPORT_PAUSE: Duration = Duration::from_millis(50);
/// Pause between two reports of an active work.
const PROGRESS_PAUSE: Duration = Duration::from_secs(1);
/// First pause before a reconnection to a member.
const RECONNECT_FIRST: Duration = Duration::from_secs(1);
/// Longest such pause.
const RECONNECT_MAX: Duration = Duration::from_secs(30);
/// The sums over every member's nodes.
const NODES: usize = 3;

fn sums() -> Box<Facts> {
    let nodes = NodeFacts { count: NODES, ..NodeFacts::default() };
    Box::new(Facts::new(Ok(nodes), Ok(Totals::default())))
}

/// Tells whether an object is in the list of a kind: it carries the label of a placement.
pub fn is_listed(kind: &WatchedKind, key: &ObjectKey, live: &LiveObject) -> bool {
    key.group == kind.group && key.kind == kind.kind && !live.applyset.is_empty()
}

/// What a process has of a member: its task, and the task's connection.
#[derive(Debug, Default)]
pub struct Link {
    /// The task; `None` while the process has none for the member.
    pub reconciler: Option<Reconciler>,
    /// Grows with every connection: messages of an earlier one are dropped.
    pub connection: u64,
    /// The member answers over this connection.
    pub connected: bool,
    /// Failed connection attempts in a row.
    failures: u32,
    /// When the last message to the daemon arrives: later messages arrive later.
    heard_until: Timestamp,
    /// The same for watch events.
    seen_until: Timestamp,
    reporting: bool,
    waking: Option<Timestamp>,
}

impl Link {
    /// The task ends, with its connection.
    pub fn end(&mut self) {
        self.reconciler = None;
        self.connected = false;
        self.connection += 1;
    }
}

/// Tasks and their connections.
impl<D: Deployment> Simulation<D> {
    /// Starts the task of a member.
    pub fn start_task(&mut self, cluster: &ClusterName, source: SourceName, has_health: bool) {
        self.members.entry(cluster.clone()).or_default();
        let link = self.process.links.entry(cluster.clone()).or_default();
        link.reconciler = Some(Reconciler::new(cluster.clone(), source, has_health));
        link.connected = false;
        link.connection += 1;
        link.failures = 0;
        let connection = link.connection;
        self.push_in(self.latencies.connect, Happening::Connect(cluster.clone(), connection));
    }

    fn reconciler(&mut self, cluster: &ClusterName) -> Option<&mut Reconciler> {
        self.process.links.get_mut(cluster).and_then(|link| link.reconciler.as_mut())
    }

    /// Gives a member's task a command.
    pub fn command(&mut self, cluster: &ClusterName, command: MemberCommand) {
        if let Some(reconciler) = self.reconciler(cluster) {
            reconciler.command(command);
        }
        self.pump(cluster);
    }

    /// A member's task says again what it holds, as it does for a new session of an agent.
    pub fn announce(&mut self, cluster: &ClusterName) {
        let Some(link) = self.process.links.get_mut(cluster) else { return };
        let Some(reconciler) = &mut link.reconciler else { return };
        if link.connected {
            let namespaces = reconciler.take_namespaces();
            let online = reconciler.announce(Some("v1.36.0".to_owned()), None);
            let facts = MemberEvent::Facts { cluster: cluster.clone(), facts: sums() };
            for event in namespaces.into_iter().chain([online, facts]) {
                self.report_event(cluster, event);
            }
        } else if link.failures > 0 {
            let reason = "it is away".to_owned();
            self.report_event(cluster, MemberEvent::Offline { cluster: cluster.clone(), reason });
        }
        self.arrange(cluster);
    }

    /// Stops the task of a member.
    pub fn stop_task(&mut self, cluster: &ClusterName) {
        let links = &mut self.process.links;
        let Some(link) = links.get_mut(cluster).filter(|link| link.reconciler.is_some()) else { return };
        let connection = (self.process.life, link.connection);
        link.end();
        self.facts.push(Fact::Disconnected { cluster: cluster.clone(), connection });
    }

    /// Ends a connection; the task notices and reconnects.
    pub fn disconnect(&mut self, cluster: &ClusterName, reason: &str) {
        let links = &mut self.process.links;
        let Some(link) = links.get_mut(cluster).filter(|link| link.reconciler.is_some()) else { return };
        let ended = (self.process.life, link.connection);
        link.connected = false;
        link.connection += 1;
        link.failures += 1;
        link.reporting = false;
        link.waking = None;
        let pause = RECONNECT_FIRST.saturating_mul(1 << link.failures.min(6)).min(RECONNECT_MAX);
        let connection = link.connection;
        self.facts.push(Fact::Disconnected { cluster: cluster.clone(), connection: ended });
        self.push_at(later(self.now, pause), Happening::Connect(cluster.clone(), connection));
        self.report_event(cluster, MemberEvent::Offline { cluster: cluster.clone(), reason: reason.to_owned() });
    }

    pub(super) fn connect(&mut self, cluster: &ClusterName, connection: u64) {
        let namespaces = self.unmanaged_namespaces();
        let links = &mut self.process.links;
        let Some(link) = links.get_mut(cluster).filter(|link| link.connection == connection) else { return };
        let Some(member) = self.members.get(cluster).filter(|member| !member.away) else {
            return self.disconnect(cluster, "it is away");
        };
        let Some(reconciler) = &mut link.reconciler else { return };
        link.connected = true;
        link.failures = 0;
        link.reporting = false;
        link.waking = None;
        reconciler.connect();
        for (parent, version) in member.parents_seen() {
            reconciler.take_parent(parent.clone(), version);
        }
        self.list_expected(cluster);
        let Some(reconciler) = self.reconciler(cluster) else { return };
        reconciler.forget_unlisted();
        reconciler.see_namespaces(Ok(namespaces));
        let namespaces = reconciler.take_namespaces();
        let online = reconciler.announce(Some("v1.36.0".to_owned()), None);
        let facts = MemberEvent::Facts { cluster: cluster.clone(), facts: sums() };
        for event in namespaces.into_iter().chain([online, facts]) {
            self.report_event(cluster, event);
        }
        self.pump(cluster);
    }

    /// Lists the kinds that a member's task starts to watch.
    fn list_expected(&mut self, cluster: &ClusterName) {
        while let Some(kinds) = self.reconciler(cluster).map(Reconciler::take_unwatched) {
            if kinds.is_empty() {
                return;
            }
            for (kind, _) in kinds {
                D::list(self, cluster, &kind);
            }
        }
    }

    /// Lists the objects of a kind.
    pub fn list(&mut self, cluster: &ClusterName, kind: &WatchedKind) {
        // Where lists can fail, each draws a number for how. It is drawn here too, so that a seed gives the same with and without that.
        self.dice.throw();
        let Some(member) = self.members.get(cluster) else { return };
        let link = self.process.links.get_mut(cluster);
        let Some(reconciler) = link.and_then(|link| link.reconciler.as_mut()) else { return };
        reconciler.list_begun(kind);
        for (_, live) in member.objects.iter().filter(|(key, live)| is_listed(kind, key, live)) {
            reconciler.see(live.clone());
        }
        reconciler.list_done(kind);
    }

    /// Runs the plan of a member's task, and schedules its reports and checks.
    pub fn pump(&mut self, cluster: &ClusterName) {
        let clock = self.clock();
        if !self.process.links.get(cluster).is_some_and(|link| link.connected) {
            return;
        }
        self.list_expected(cluster);
        let Some(link) = self.process.links.get_mut(cluster) else { return };
        let Some(reconciler) = &mut link.reconciler else { return };
        let connection = link.connection;
        reconciler.mark_due(clock);
        for task in reconciler.tasks(clock) {
            D::send(self, cluster, connection, task);
        }
        self.arrange(cluster);
        if self.reconciler(cluster).is_some_and(Reconciler::take_announcement) {
            self.announce(cluster);
        }
    }

    /// Schedules a member's unreported reports, and its next wake-up.
    pub fn arrange(&mut self, cluster: &ClusterName) {
        let now = self.now;
        let ahead = self.process.ahead;
        let Some(link) = self.process.links.get_mut(cluster) else { return };
        let Some(reconciler) = &link.reconciler else { return };
        let connection = link.connection;
        let mut due = Vec::new();
        if !link.reporting
            && let Some(is_busy) = reconciler.unreported().map(|(_, is_busy)| is_busy).min()
        {
            link.reporting = true;
            let pause = if is_busy { PROGRESS_PAUSE } else { REPORT_PAUSE };
            due.push((later(now, pause), Happening::Report(cluster.clone(), connection)));
        }
        // A wake-up that is planned for an earlier moment finds this one too.
        if let Some(at) = reconciler.wake_at() {
            let at = at.checked_sub(ahead).unwrap_or(Timestamp::MAX).max(now);
            if link.waking.is_none_or(|known| at < known) {
                link.waking = Some(at);
                due.push((at, Happening::Look(cluster.clone(), connection)));
            }
        }
        for (at, happening) in due {
            self.push_at(at, happening);
        }
    }

    pub(super) fn look(&mut self, cluster: &ClusterName, connection: u64) {
        let links = &mut self.process.links;
        let Some(link) = links.get_mut(cluster).filter(|link| link.connection == connection) else { return };
        link.waking = None;
        self.pump(cluster);
    }
}

/// What tasks say.
impl<D: Deployment> Simulation<D> {
    /// Lets the daemon hear what a member's task says, in the order it is said.
    pub fn report_event(&mut self, cluster: &ClusterName, event: MemberEvent) {
        let arrives = later(self.now, self.dice.time(self.latencies.report));
        let Some(link) = self.process.links.get_mut(cluster) else { return };
        link.heard_until = link.heard_until.max(arrives);
        let at = link.heard_until;
        self.push_at(at, Happening::Hear(self.process.life, Box::new(Event::Member(event))));
    }

    /// Returns what a member's task has to report over a connection. [`Simulation::arrange`] is to follow.
    pub fn take_reports(&mut self, cluster: &ClusterName, connection: u64) -> Option<Vec<MemberEvent>> {
        let clock = self.clock();
        let link = self.process.links.get_mut(cluster).filter(|link| link.connection == connection)?;
        link.reporting = false;
        let reconciler = link.reconciler.as_mut()?;
        let namespaces = reconciler.take_namespaces();
        let due: Vec<PlacementKey> = reconciler.unreported().map(|(key, _)| key.clone()).collect();
        let works = due.iter().filter_map(|key| reconciler.report(key, clock));
        Some(namespaces.into_iter().chain(works).collect())
    }

    pub(super) fn report(&mut self, cluster: &ClusterName, connection: u64) {
        let Some(events) = self.take_reports(cluster, connection) else { return };
        for event in events {
            self.report_event(cluster, event);
        }
        self.arrange(cluster);
    }
}

/// Steps.
impl<D: Deployment> Simulation<D> {
    /// Sends a step to a member over a connection.
    pub fn send(&mut self, cluster: &ClusterName, connection: u64, task: Task) {
        self.facts.push(Fact::Sent { order: Arc::clone(&task.order), connection: (self.process.life, connection) });
        self.push_in(self.latencies.step, Happening::Land(cluster.clone(), connection, Box::new(task)));
    }

    /// A step reaches the member, unless it is away or the connection has ended.
    pub(super) fn land(&mut self, cluster: &ClusterName, connection: u64, task: &Task) {
        if self.process.connected(cluster, connection).is_some()
            && let Some(result) = self.perform(cluster, task, false)
        {
            self.facts
                .push(Fact::Answered { order: Arc::clone(&task.order), connection: (self.process.life, connection) });
            self.answer_later(cluster, connection, task, result);
        }
    }

    /// Lets a member execute a step. Returns the answer; `None` if it is away.
    pub fn perform(&mut self, cluster: &ClusterName, task: &Task, deletes_slowly: bool) -> Option<StepResult> {
        let clock = self.clock();
        let member = self.members.get_mut(cluster).filter(|member| !member.away)?;
        let (result, changed, facts) =
            member.perform(task, |desired| (self.fate)(cluster, desired), deletes_slowly, clock);
        self.facts.extend(facts);
        if let Some(key) = changed {
            self.show(cluster, &key, task);
        }
        if matches!(task.step, Step::WriteParent(_) | Step::DeleteParent) {
            self.show_parent(cluster, &task.order.placement);
        }
        Some(result)
    }

    /// Sends the answer of a step back.
    pub fn answer_later(&mut self, cluster: &ClusterName, connection: u64, task: &Task, result: StepResult) {
        let placement = task.order.placement.clone();
        let answer = Happening::Answer(cluster.clone(), connection, placement, Box::new(result));
        self.push_in(self.latencies.step, answer);
    }

    pub(super) fn answer(
        &mut self,
        cluster: &ClusterName,
        connection: u64,
        placement: &PlacementKey,
        result: StepResult,
    ) {
        let clock = self.clock();
        let Some(link) = self.process.connected(cluster, connection) else { return };
        let Some(reconciler) = &mut link.reconciler else { return };
        if let Some(reason) = reconciler.settle(placement, result, clock) {
            return self.disconnect(cluster, &reason);
        }
        self.pump(cluster);
    }
}

/// Watches.
impl<D: Deployment> Simulation<D> {
    /// Delivers a change to watches, and advances the time with it.
    fn show(&mut self, cluster: &ClusterName, key: &ObjectKey, task: &Task) {
        let Some(member) = self.members.get(cluster) else { return };
        let sight = member.sight(key);
        if let Sight::There(live) = &sight {
            let desired = task.order.manifests.iter().find(|desired| *desired.key == *key);
            let is_good = desired.is_none_or(|desired| (self.fate)(cluster, desired) == Fate::Good);
            let ripens = is_good && live.availability == Availability::ManifestNotAvailableYet;
            if ripens || live.terminating {
                let version = live.resource_version;
                self.push_in(self.latencies.available, Happening::Ripen(cluster.clone(), key.clone(), version));
            }
        }
        self.observe(cluster, &sight);
    }

    /// Lets watches see an inventory that was written or removed. They see it as late as any change: no chance is drawn for it, so that
    /// a seed plays the same up to the first inventory that was written late.
    fn show_parent(&mut self, cluster: &ClusterName, placement: &PlacementKey) {
        let Some(seen) = self.members.get(cluster).map(|member| member.parent_seen(placement)) else { return };
        let at = later(self.now, self.latencies.report.1);
        D::each_process(self, |this| {
            let Some(link) = this.process.links.get(cluster).filter(|link| link.connected) else { return };
            let connection = link.connection;
            let happening =
                Happening::SeeInventory(cluster.clone(), connection, placement.clone(), Box::new(seen.clone()));
            this.push_at(at, happening);
        });
    }

    /// Lets the watches of every process see what became of an object.
    pub fn observe(&mut self, cluster: &ClusterName, sight: &Sight) {
        D::each_process(self, |this| this.observe_here(cluster, sight.clone()));
    }

    /// Lets the watch of this process see what became of an object.
    pub fn observe_here(&mut self, cluster: &ClusterName, sight: Sight) {
        let arrives = later(self.now, self.dice.time(self.latencies.report));
        let link = self.process.links.entry(cluster.clone()).or_default();
        link.seen_until = link.seen_until.max(arrives);
        let at = link.seen_until;
        let connection = link.connection;
        self.push_at(at, Happening::See(cluster.clone(), connection, sight));
    }

    pub(super) fn ripen(&mut self, cluster: &ClusterName, key: &ObjectKey, version: u64) {
        let Some(member) = self.members.get_mut(cluster) else { return };
        let Some((sight, fact)) = member.ripen(cluster, key, version) else { return };
        self.facts.extend(fact);
        self.observe(cluster, &sight);
    }

    /// A watch says that an inventory was written (`None`: removed).
    pub(super) fn see_inventory(
        &mut self,
        cluster: &ClusterName,
        connection: u64,
        placement: &PlacementKey,
        (parent, version): (Option<Parent>, u64),
    ) {
        let clock = self.clock();
        let Some(link) = self.process.connected(cluster, connection) else { return };
        let Some(reconciler) = &mut link.reconciler else { return };
        let is_news = match parent {
            Some(parent) => reconciler.see_parent(parent, version, clock),
            None => reconciler.lose_parent(placement, version, clock),
        };
        if is_news {
            self.pump(cluster);
        }
    }

    pub(super) fn see(&mut self, cluster: &ClusterName, connection: u64, sight: Sight) {
        let Some(link) = self.process.connected(cluster, connection) else { return };
        let Some(reconciler) = &mut link.reconciler else { return };
        match sight {
            Sight::There(live) => {
                // A watch with a label selector reports an object that lost the label as deleted.
                if live.applyset.is_empty() {
                    reconciler.forget(&live.id.key(), live.resource_version);
                } else {
                    reconciler.see(*live);
                }
            }
            Sight::Gone(key, version) => reconciler.forget(&key, version),
        }
        self.pump(cluster);
    }
}
