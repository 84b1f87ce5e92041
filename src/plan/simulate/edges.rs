//! The simulated adapters: the source's thread and members' tasks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::member::Sight;
use super::{Detail, Event, Fact, Fate, Happening, SimulatedSource, Simulation, SourceEvent, later};
use crate::config::MemberAccess;
use crate::core::MemberEvent;
use crate::core::member::result::StepResult;
use crate::core::member::{Reconciler, Task};
use crate::decide::state::Payload;
use crate::deliver::live::LiveObject;
use crate::model::facts::{Facts, NodeFacts, Totals};
use crate::model::id::{ClusterName, CommitId, ObjectKey, PlacementKey};
use crate::model::kinds::WatchedKind;
use crate::model::manifest::Manifest;
use crate::model::records::{Availability, ResourceSnapshot};
use crate::model::tree::Tree;
use crate::snapshot;
use crate::store::MemoryStore;

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
/// Pause before a source that could not be read is polled again.
const POLL_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// The delay of a late payload.
const PAYLOAD_LATE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));
/// The probability in thousandths that a step is the last one that a stale list shows.
const STALE_UNTIL: u64 = 300;
/// The sums over every member's nodes.
const NODES: usize = 3;

/// The source.
impl Simulation {
    /// Reads the accepted commit again, at the start of a process.
    pub(super) fn restore(&mut self) {
        self.source.unread = false;
        let Some(commit) = self.source.accepted.clone() else { return };
        let fails = self.dice.chance(self.faults.restore_fails);
        let restored = match self.source.commits.get(&commit) {
            Some(Ok(tree)) if !fails => Ok(Arc::clone(tree)),
            _ => Err(format!("the accepted commit {commit} cannot be read")),
        };
        self.source.unread = restored.is_err();
        self.send(Event::Source(SourceEvent::Restored(restored)));
    }

    pub(super) fn poll(&mut self) {
        if self.core.is_none() {
            return;
        }
        if self.dice.chance(self.faults.source_fails) {
            self.source.failing = true;
            self.send(Event::Source(SourceEvent::Failed("it does not answer".to_owned())));
            return self.push_in(POLL_PAUSE, Happening::Poll(self.life));
        }
        if self.source.unread {
            self.restore();
            return self.push_in(POLL_PAUSE, Happening::Poll(self.life));
        }
        let recovered = std::mem::take(&mut self.source.failing);
        let Some(tip) = self.source.tip.clone() else { return };
        if self.source.reported.as_ref() == Some(&tip) {
            if recovered {
                self.send(Event::Source(SourceEvent::Readable));
            }
            return;
        }
        self.source.reported = Some(tip.clone());
        let news = match &self.source.commits[&tip] {
            Ok(_) if self.source.accepted.as_ref() == Some(&tip) => SourceEvent::Unchanged,
            _ if !self.source.descends(&tip) && self.source.accepted_rewrite.as_ref() != Some(&tip) => {
                self.source.held(tip)
            }
            Ok(tree) => {
                self.source.accepted = Some(tip.clone());
                self.source.fresh.push(tip.clone());
                self.source.pins.insert(tip);
                SourceEvent::Accepted(Arc::clone(tree))
            }
            Err(errors) => SourceEvent::Refused(tip, errors.clone()),
        };
        self.send(Event::Source(news));
    }

    /// A person accepted a rewritten history: its tip is considered again.
    pub(super) fn accept_rewrite(&mut self, commit: CommitId) {
        self.source.accepted_rewrite = Some(commit);
        self.source.reported = None;
        self.push_in(self.latencies.source, Happening::Poll(self.life));
    }

    pub(super) fn read_payload(&mut self, snapshot: Arc<ResourceSnapshot>) {
        let commit = &snapshot.commit;
        let is_kept = self.source.pins.contains(commit);
        let payload = match self.source.commits.get(commit) {
            _ if self.dice.chance(self.faults.source_fails) => Err("the source does not answer".to_owned()),
            Some(Ok(tree)) if is_kept => payload_of(tree, &snapshot),
            _ => {
                self.facts.push(Fact::PayloadGone(commit.clone()));
                Err("its commit is gone".to_owned())
            }
        };
        let event = Event::Source(SourceEvent::Payload(snapshot, payload));
        let range = if self.dice.chance(self.faults.payload_late) { PAYLOAD_LATE } else { self.latencies.report };
        self.push_in(range, Happening::Hear(self.life, Box::new(event)));
    }

    fn send(&mut self, event: Event) {
        self.push_in(self.latencies.report, Happening::Hear(self.life, Box::new(event)));
    }
}

/// The store.
impl Simulation {
    /// Ends the daemon process and loses its store: the next process starts with an empty one.
    pub fn lose_store(&mut self) {
        self.crash();
        self.store = MemoryStore::new();
        let held = self.members.iter().filter(|(_, member)| !member.parents.is_empty());
        let holders = held.map(|(name, member)| (name.clone(), member.parents.clone())).collect();
        self.facts.push(Fact::StoreLost(holders));
    }
}

impl SimulatedSource {
    /// Returns the event for a tip that waits for a person.
    fn held(&self, tip: CommitId) -> SourceEvent {
        if self.switched.contains(&tip) {
            return SourceEvent::Switched(tip, "another branch is checked out".to_owned());
        }
        SourceEvent::Rewritten(tip)
    }

    /// Tells whether a tip descends from the accepted commit: history was not rewritten since its push.
    fn descends(&self, tip: &CommitId) -> bool {
        let place = |commit: &CommitId| self.pushed.iter().position(|pushed| pushed == commit);
        let Some(accepted) = self.accepted.as_ref().and_then(place) else { return true };
        place(tip).is_none_or(|tip| !self.rewritten.values().any(|at| accepted < *at && *at <= tip))
    }
}

/// The members.
impl Simulation {
    pub(super) fn start_member(&mut self, cluster: &ClusterName, access: &MemberAccess) {
        let source = self.core.as_ref().map(|core| core.fleet().source.clone()).unwrap_or_default();
        let member = self.members.entry(cluster.clone()).or_default();
        let has_health = matches!(access, MemberAccess::Live { .. });
        member.reconciler = Some(Reconciler::new(cluster.clone(), source, has_health));
        member.connected = false;
        member.epoch += 1;
        member.failures = 0;
        let epoch = member.epoch;
        self.push_in(self.latencies.connect, Happening::Connect(cluster.clone(), epoch));
    }

    pub(super) fn stop_member(&mut self, cluster: &ClusterName) {
        let Some(member) = self.members.get_mut(cluster) else { return };
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
        let namespaces = self.unmanaged_namespaces();
        let Some(member) = self.members.get_mut(cluster).filter(|member| member.epoch == epoch) else { return };
        if member.away {
            return self.disconnect(cluster, "it is away");
        }
        let Some(reconciler) = &mut member.reconciler else { return };
        member.connected = true;
        member.failures = 0;
        (member.reporting, member.waking) = (false, None);
        reconciler.connect();
        for parent in member.parents.values() {
            reconciler.take_parent(parent.clone());
        }
        self.list_expected(cluster);
        let Some(reconciler) = self.members.get_mut(cluster).and_then(|member| member.reconciler.as_mut()) else {
            return;
        };
        reconciler.forget_unlisted();
        reconciler.see_namespaces(Ok(namespaces));
        let namespaces = reconciler.take_namespaces();
        let online = reconciler.announce(Some("v1.36.0".to_owned()));
        let nodes = NodeFacts { count: NODES, ..NodeFacts::default() };
        let facts = Box::new(Facts::new(Ok(nodes), Ok(Totals::default())));
        let facts = MemberEvent::Facts { cluster: cluster.clone(), facts };
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
                self.observe(cluster, sight);
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
        let connection = (self.life, epoch);
        let steps = if self.detail == Detail::Orders && tasks.len() > 1 {
            (Duration::ZERO, Duration::ZERO)
        } else {
            self.latencies.step
        };
        for task in tasks {
            self.facts.push(Fact::Sent { order: Arc::clone(&task.order), connection });
            self.push_in(steps, Happening::Land(cluster.clone(), epoch, Box::new(task)));
        }
        self.arrange(cluster);
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

    /// A step reaches the member, or fails to.
    pub(super) fn land(&mut self, cluster: &ClusterName, epoch: u64, task: &Task) {
        let clock = self.clock();
        let is_current = self.members.get(cluster).is_some_and(|m| m.epoch == epoch && m.connected);
        let Some(member) = self.members.get_mut(cluster).filter(|member| !member.away) else { return };
        if !is_current && !self.dice.chance(self.faults.late_write) {
            return;
        }
        if is_current && self.dice.chance(self.faults.step_lost) {
            return self.disconnect(cluster, "a request got no answer");
        }
        let fate = |desired: &_| (self.fate)(cluster, desired);
        let slowly = self.dice.chance(self.faults.slow_delete);
        if self.faults.stale_list > 0 && self.dice.chance(STALE_UNTIL) {
            member.earlier.clone_from(&member.objects);
        }
        let (result, changed, facts) = member.perform(task, fate, slowly, clock);
        self.facts.extend(facts);
        if let Some(key) = changed {
            self.show(cluster, &key, task);
        }
        if !is_current {
            return;
        }
        self.facts.push(Fact::Answered { order: Arc::clone(&task.order), connection: (self.life, epoch) });
        if self.dice.chance(self.faults.answer_lost) {
            return self.disconnect(cluster, "an answer was lost");
        }
        let placement = task.order.placement.clone();
        match self.detail {
            Detail::Steps => {
                let answer = Happening::Answer(cluster.clone(), epoch, placement, Box::new(result));
                self.push_in(self.latencies.step, answer);
            }
            Detail::Orders => self.answer(cluster, epoch, &placement, result),
        }
    }

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
        self.observe(cluster, sight);
    }

    fn observe(&mut self, cluster: &ClusterName, sight: Sight) {
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
        self.observe(cluster, sight);
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
        self.observe(cluster, sight);
    }

    /// Changes or creates an object on a member without the daemon; watches report it. The daemon need not know the member yet.
    pub fn meddle(&mut self, cluster: &ClusterName, object: LiveObject) {
        let member = self.members.entry(cluster.clone()).or_default();
        let key = member.meddle(object);
        let sight = member.sight(&key);
        self.observe(cluster, sight);
    }
}

/// Returns the payload of a snapshot from its commit.
pub(crate) fn payload_of(tree: &Tree, snapshot: &ResourceSnapshot) -> Result<Payload, String> {
    let find = |resource: &crate::model::records::SnapshotResource| -> Option<Manifest> {
        let plain = tree.manifests.binary_search_by(|manifest| manifest.id.cmp(&resource.id)).ok();
        let found = plain.map(|at| &tree.manifests[at]);
        let manifest = snapshot::sanitised(found.or_else(|| tree.inputs.iter().find(|m| m.id == resource.id))?);
        (snapshot::object_digest(&manifest) == resource.digest).then_some(manifest)
    };
    let found = |r| find(r).ok_or_else(|| format!("{} is not what it was", r.id));
    Payload::read_again(snapshot.resources.iter().map(found).collect::<Result<_, _>>()?, snapshot)
}
