//! The simulated adapters: members' tasks.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::member::Sight;
use super::{Detail, Event, Fact, Fate, Happening, Simulation, later};
use config::MemberAccess;
use decide::deliver::inventory::Parent;
use decide::deliver::live::LiveObject;
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
/// Longest pause before a failed list is retried.
const LIST_RETRY_MAX: Duration = Duration::from_mins(1);
/// HTTP statuses of failed lists; 0 is an interrupted answer.
const LIST_FAILURES: [u16; 5] = [0, 403, 404, 410, 500];
/// A failing list names fewer objects than this.
const LIST_CUT_MAX: u64 = 4;
/// The sums over every member's nodes.
const NODES: usize = 3;

fn sums() -> Box<Facts> {
    let nodes = NodeFacts { count: NODES, ..NodeFacts::default() };
    Box::new(Facts::new(Ok(nodes), Ok(Totals::default())))
}

/// The members.
impl Simulation {
    pub(super) fn start_member(&mut self, cluster: &ClusterName, access: &MemberAccess) {
        if let MemberAccess::Agent { agent, .. } = access {
            self.members.entry(cluster.clone()).or_default();
            return self.add_remote(cluster, agent);
        }
        if self.agents() > 0 {
            return self.add_own(cluster);
        }
        let source = self.core.as_ref().map(|core| core.fleet().source.clone()).unwrap_or_default();
        self.start_task(cluster, source, !access.is_directory());
    }

    /// Starts the task of a member in the acting process.
    pub(super) fn start_task(&mut self, cluster: &ClusterName, source: SourceName, has_health: bool) {
        let member = self.members.entry(cluster.clone()).or_default();
        member.reconciler = Some(Reconciler::new(cluster.clone(), source, has_health));
        member.connected = false;
        member.epoch += 1;
        member.failures = 0;
        let epoch = member.epoch;
        self.push_in(self.latencies.connect, Happening::Connect(cluster.clone(), epoch));
    }

    /// Gives a member's task in the acting process a command.
    pub(super) fn command_here(&mut self, cluster: &ClusterName, command: MemberCommand) {
        if let Some(reconciler) = self.members.get_mut(cluster).and_then(|member| member.reconciler.as_mut()) {
            reconciler.command(command);
        }
        self.pump(cluster);
    }

    /// A member's task says again what it holds, as it does for a new session of an agent.
    pub(super) fn announce(&mut self, cluster: &ClusterName) {
        let Some(member) = self.members.get_mut(cluster) else { return };
        let Some(reconciler) = &mut member.reconciler else { return };
        if member.connected {
            let namespaces = reconciler.take_namespaces();
            let online = reconciler.announce(Some("v1.36.0".to_owned()));
            let facts = MemberEvent::Facts { cluster: cluster.clone(), facts: sums() };
            for event in namespaces.into_iter().chain([online, facts]) {
                self.report_event(cluster, event);
            }
        } else if member.failures > 0 {
            let reason = "it is away".to_owned();
            self.report_event(cluster, MemberEvent::Offline { cluster: cluster.clone(), reason });
        }
        self.arrange(cluster);
    }

    /// The daemon gives a member up.
    pub(super) fn give_up_member(&mut self, cluster: &ClusterName) {
        if !self.remove_remote(cluster) {
            self.stop_member(cluster);
        }
    }

    pub(super) fn stop_member(&mut self, cluster: &ClusterName) {
        let Some(member) = self.members.get_mut(cluster).filter(|member| member.reconciler.is_some()) else { return };
        let connection = (self.life, member.epoch);
        member.reconciler = None;
        member.connected = false;
        member.epoch += 1;
        self.facts.push(Fact::Disconnected { cluster: cluster.clone(), connection });
    }

    /// Ends a connection; the daemon notices and reconnects.
    pub(super) fn disconnect(&mut self, cluster: &ClusterName, reason: &str) {
        let Some(member) = self.members.get_mut(cluster).filter(|member| member.reconciler.is_some()) else { return };
        let connection = (self.life, member.epoch);
        member.connected = false;
        member.epoch += 1;
        member.failures += 1;
        member.reporting = false;
        member.waking = None;
        let pause = RECONNECT_FIRST.saturating_mul(1 << member.failures.min(6)).min(RECONNECT_MAX);
        let at = later(self.now, pause);
        let epoch = member.epoch;
        self.facts.push(Fact::Disconnected { cluster: cluster.clone(), connection });
        self.push_at(at, Happening::Connect(cluster.clone(), epoch));
        self.report_event(cluster, MemberEvent::Offline { cluster: cluster.clone(), reason: reason.to_owned() });
    }

    pub(super) fn connect(&mut self, cluster: &ClusterName, epoch: u64) {
        let (namespaces, is_cut) = (self.unmanaged_namespaces(), self.is_cut_from(cluster));
        let Some(member) = self.members.get_mut(cluster).filter(|member| member.epoch == epoch) else { return };
        if member.away || is_cut {
            return self.disconnect(cluster, "it is away");
        }
        let Some(reconciler) = &mut member.reconciler else { return };
        member.connected = true;
        member.failures = 0;
        (member.reporting, member.waking) = (false, None);
        reconciler.connect();
        for (placement, parent) in &member.parents {
            let version = member.parent_versions.get(placement).copied().unwrap_or_default();
            reconciler.take_parent(parent.clone(), version);
        }
        self.list_expected(cluster);
        let Some(reconciler) = self.members.get_mut(cluster).and_then(|member| member.reconciler.as_mut()) else {
            return;
        };
        reconciler.forget_unlisted();
        reconciler.see_namespaces(Ok(namespaces));
        let namespaces = reconciler.take_namespaces();
        let online = reconciler.announce(Some("v1.36.0".to_owned()));
        let facts = MemberEvent::Facts { cluster: cluster.clone(), facts: sums() };
        for event in namespaces.into_iter().chain([online, facts]) {
            self.report_event(cluster, event);
        }
        self.pump(cluster);
    }

    /// Lists the kinds that a member's task starts to watch.
    fn list_expected(&mut self, cluster: &ClusterName) {
        let reconciler = |this: &mut Self| {
            this.members.get_mut(cluster).and_then(|member| member.reconciler.as_mut().map(Reconciler::take_unwatched))
        };
        while let Some(kinds) = reconciler(self).filter(|kinds| !kinds.is_empty()) {
            for (kind, _) in kinds {
                self.list(cluster, &kind, 0);
            }
        }
    }

    /// Lists a kind, or fails: at the start, or after some objects. A list may show an earlier state; later changes arrive
    /// afterwards.
    fn list(&mut self, cluster: &ClusterName, kind: &WatchedKind, failures: u32) {
        let fails = self.dice.chance(self.faults.list_fails);
        let cut = if fails { self.dice.below(LIST_CUT_MAX) } else { u64::MAX };
        let code = *self.dice.pick(&LIST_FAILURES).expect("there are some");
        let is_stale = self.dice.chance(self.faults.stale_list);
        let Some(member) = self.members.get_mut(cluster) else { return };
        let (epoch, Some(reconciler)) = (member.epoch, &mut member.reconciler) else { return };
        let of_kind = |key: &ObjectKey| key.group == kind.group && key.kind == kind.kind;
        let listed = if is_stale { &member.earlier } else { &member.objects };
        let there = listed.iter().filter(|(key, live)| of_kind(key) && !live.applyset.is_empty());
        reconciler.list_begun(kind);
        for (_, live) in there.take(usize::try_from(cut).unwrap_or(usize::MAX)) {
            reconciler.see(live.clone());
        }
        if fails {
            reconciler.list_failed(kind, format!("the list of {}: the API server refused it ({code})", kind.kind));
            self.facts.push(Fact::ListFailed { cluster: cluster.clone(), kind: kind.kind.clone(), code });
            let at = later(self.now, RECONNECT_FIRST.saturating_mul(1 << failures.min(6)).min(LIST_RETRY_MAX));
            return self.push_at(at, Happening::List(cluster.clone(), epoch, kind.clone(), failures + 1));
        }
        reconciler.list_done(kind);
        let keys = member.earlier.keys().chain(member.objects.keys()).filter(|key| is_stale && of_kind(key));
        let unseen: BTreeSet<ObjectKey> =
            keys.filter(|key| member.earlier.get(*key) != member.objects.get(*key)).cloned().collect();
        for key in unseen {
            if let Some(sight) = self.members.get(cluster).map(|member| member.sight(&key)) {
                self.observe_here(cluster, sight);
            }
        }
    }

    /// Retries a failed list.
    pub(super) fn list_again(&mut self, cluster: &ClusterName, epoch: u64, kind: &WatchedKind, failures: u32) {
        if self.members.get(cluster).is_some_and(|member| member.epoch == epoch && member.connected) {
            self.list(cluster, kind, failures);
            self.pump(cluster);
        }
    }

    /// Lets the daemon hear what a member's task says, in the order it is said.
    pub(super) fn report_event(&mut self, cluster: &ClusterName, event: MemberEvent) {
        let arrives = later(self.now, self.dice.time(self.latencies.report));
        let Some(member) = self.members.get_mut(cluster) else { return };
        member.heard_until = member.heard_until.max(arrives);
        let at = member.heard_until;
        self.push_at(at, Happening::Hear(self.life, Box::new(Event::Member(event))));
    }

    /// Runs the plan of a member's task, and schedules its reports and checks.
    pub(super) fn pump(&mut self, cluster: &ClusterName) {
        let clock = self.clock();
        if !self.members.get(cluster).is_some_and(|member| member.connected) {
            return;
        }
        self.list_expected(cluster);
        let Some(member) = self.members.get_mut(cluster) else { return };
        let Some(reconciler) = &mut member.reconciler else { return };
        let epoch = member.epoch;
        reconciler.mark_due(clock);
        let tasks = reconciler.tasks(clock);
        let steps = if self.detail == Detail::Orders && tasks.len() > 1 {
            (Duration::ZERO, Duration::ZERO)
        } else {
            self.latencies.step
        };
        for task in tasks {
            self.send_task(cluster, (self.life, epoch), task, steps);
        }
        self.arrange(cluster);
        let reconciler = self.members.get_mut(cluster).and_then(|member| member.reconciler.as_mut());
        if reconciler.is_some_and(Reconciler::take_announcement) {
            self.announce(cluster);
        }
    }

    /// Schedules a member's unreported reports, and its next wake-up.
    fn arrange(&mut self, cluster: &ClusterName) {
        let (now, skew) = (self.now, self.begun_with);
        let Some(member) = self.members.get_mut(cluster) else { return };
        let Some(reconciler) = &member.reconciler else { return };
        let epoch = member.epoch;
        let mut due = Vec::new();
        if !member.reporting
            && let Some(is_busy) = reconciler.unreported().map(|(_, is_busy)| is_busy).min()
        {
            member.reporting = true;
            let pause = if is_busy { PROGRESS_PAUSE } else { REPORT_PAUSE };
            due.push((later(now, pause), Happening::Report(cluster.clone(), epoch)));
        }
        if let Some(at) = reconciler.wake_at() {
            let at = at.checked_sub(skew).unwrap_or(Timestamp::MAX).max(now);
            if member.waking.is_none_or(|known| at < known) {
                member.waking = Some(at);
                due.push((at, Happening::Look(cluster.clone(), epoch)));
            }
        }
        for (at, happening) in due {
            self.push_at(at, happening);
        }
    }

    pub(super) fn look(&mut self, cluster: &ClusterName, epoch: u64) {
        let Some(member) = self.members.get_mut(cluster).filter(|member| member.epoch == epoch) else { return };
        member.waking = None;
        self.pump(cluster);
    }

    pub(super) fn report(&mut self, cluster: &ClusterName, epoch: u64) {
        let clock = self.clock();
        let Some(member) = self.members.get_mut(cluster).filter(|member| member.epoch == epoch) else { return };
        member.reporting = false;
        let Some(reconciler) = &mut member.reconciler else { return };
        let namespaces = reconciler.take_namespaces();
        let due: Vec<PlacementKey> = reconciler.unreported().map(|(key, _)| key.clone()).collect();
        let works: Vec<MemberEvent> = due.iter().filter_map(|key| reconciler.report(key, clock)).collect();
        for event in namespaces.into_iter().chain(works) {
            if self.dice.chance(self.faults.report_twice)
                && let MemberEvent::Work { cluster, placement, status } = &event
            {
                let (cluster, placement, status) = (cluster.clone(), placement.clone(), status.clone());
                self.report_event(&cluster.clone(), MemberEvent::Work { cluster, placement, status });
            }
            self.report_event(cluster, event);
        }
        self.arrange(cluster);
    }

    /// Delivers a change to watches, and advances the time with it.
    pub(super) fn show(&mut self, cluster: &ClusterName, key: &ObjectKey, task: &Task) {
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
    pub(super) fn show_parent(&mut self, cluster: &ClusterName, placement: &PlacementKey) {
        let Some(seen) = self.members.get(cluster).map(|member| member.parent_seen(placement)) else { return };
        let at = later(self.now, self.latencies.report.1);
        self.each_replica(|this| {
            let Some(member) = this.members.get(cluster).filter(|member| member.connected) else { return };
            let epoch = member.epoch;
            let (cluster, placement) = (cluster.clone(), placement.clone());
            this.push_at(at, Happening::SeeInventory(cluster, epoch, placement, Box::new(seen.clone())));
        });
    }

    fn observe(&mut self, cluster: &ClusterName, sight: &Sight) {
        self.each_replica(|this| this.observe_here(cluster, sight.clone()));
    }

    fn observe_here(&mut self, cluster: &ClusterName, sight: Sight) {
        let arrives = later(self.now, self.dice.time(self.latencies.report));
        let Some(member) = self.members.get_mut(cluster) else { return };
        member.seen_until = member.seen_until.max(arrives);
        let (at, epoch) = (member.seen_until, member.epoch);
        self.push_at(at, Happening::See(cluster.clone(), epoch, sight));
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
        epoch: u64,
        placement: &PlacementKey,
        (parent, version): (Option<Parent>, u64),
    ) {
        let clock = self.clock();
        let Some(member) = self.members.get_mut(cluster).filter(|m| m.epoch == epoch && m.connected) else { return };
        let Some(reconciler) = &mut member.reconciler else { return };
        let is_news = match parent {
            Some(parent) => reconciler.see_parent(parent, version, clock),
            None => reconciler.lose_parent(placement, version, clock),
        };
        if is_news {
            self.pump(cluster);
        }
    }

    pub(super) fn see(&mut self, cluster: &ClusterName, epoch: u64, sight: Sight) {
        let Some(member) = self.members.get_mut(cluster).filter(|m| m.epoch == epoch && m.connected) else { return };
        if self.faults.watch_ends > 0 && self.dice.chance(self.faults.watch_ends) {
            let (group, kind) = match sight {
                Sight::There(live) => (live.id.group.clone(), live.id.kind.clone()),
                Sight::Gone(key, _) => (key.group.to_string(), key.kind.to_string()),
            };
            self.list(cluster, &WatchedKind { group, kind }, 0);
            return self.pump(cluster);
        }
        let Some(reconciler) = &mut member.reconciler else { return };
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

    pub(super) fn answer(&mut self, cluster: &ClusterName, epoch: u64, placement: &PlacementKey, result: StepResult) {
        let clock = self.clock();
        let Some(member) = self.members.get_mut(cluster).filter(|m| m.epoch == epoch && m.connected) else { return };
        let Some(reconciler) = &mut member.reconciler else { return };
        if let Some(reason) = reconciler.settle(placement, result, clock) {
            return self.disconnect(cluster, &reason);
        }
        self.pump(cluster);
    }

    /// Deletes an object on a member without the daemon; watches report it.
    pub fn steal(&mut self, cluster: &ClusterName, key: &ObjectKey) {
        let Some(member) = self.members.get_mut(cluster) else { return };
        member.steal(key);
        let sight = member.sight(key);
        self.observe(cluster, &sight);
    }

    /// Changes or creates an object on a member without the daemon; watches report it. The daemon need not know the member yet.
    pub fn meddle(&mut self, cluster: &ClusterName, object: LiveObject) {
        let member = self.members.entry(cluster.clone()).or_default();
        let before = member.objects.get(&object.id.key()).map(|live| live.resource_version);
        let key = member.meddle(object);
        let sight = member.sight(&key);
        // What becomes available does so whoever owns it.
        if let Sight::There(live) = &sight {
            for (_, happening) in self.queue.values_mut() {
                if let Happening::Ripen(of, named, version) = happening
                    && (&*of, &*named, Some(*version)) == (cluster, &key, before)
                {
                    *version = live.resource_version;
                }
            }
        }
        self.observe(cluster, &sight);
    }
}
