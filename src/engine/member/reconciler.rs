//! The desired and the observed state of one member, and the steps between them: pure.
//!
//! The member's task drives it with an API server or a folder, the simulation with a simulated member.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::delivery::{Delivery, Doing, progress_of};
use super::namespaces::Namespaces;
use super::parents::Parents;
use super::result::StepResult;
use crate::{MemberCommand, MemberEvent};
use deliver::claim::{Holder, Peers};
use deliver::holdings::{Holdings, Wanted};
use deliver::inventory::{Parent, applyset_id};
use deliver::lists::{Lists, Unlisted, kind_of};
use deliver::live::LiveObject;
use deliver::plan::plan;
use deliver::progress::{Attempt, Progress};
use deliver::step::{MemberView, Plan, Step};
use model::id::{ClusterName, ObjectKey, PlacementKey};
use model::records::{ApplyOutcome, Availability, Glimpse, Inventory, WorkStatus};
use model::work::{SourceName, WorkOrder};

/// A step to execute on the member.
#[derive(Debug)]
pub struct Task {
    /// The order that it belongs to.
    pub order: Arc<WorkOrder>,
    /// The step.
    pub step: Step,
    /// The last attempt on the same object: it carries the counts of failures and put-backs.
    pub before: Option<Box<Attempt>>,
}

/// The orders of one member and its observed objects.
#[derive(Debug)]
pub struct Reconciler {
    pub(super) cluster: ClusterName,
    pub(super) source: SourceName,
    pub(super) has_health: bool,
    pub(super) deliveries: BTreeMap<PlacementKey, Delivery>,
    /// How many steps of forgotten orders are under way: a later order of the same placement waits for them.
    forgotten: BTreeMap<PlacementKey, usize>,
    pub(super) live: Holdings,
    /// The kinds that were listed completely.
    pub(super) lists: Lists,
    /// Kinds whose watches must be started or restarted, with the version to watch them in.
    pub(super) unwatched: BTreeMap<String, Option<String>>,
    pub(super) parents: Parents,
    wanted: Wanted,
    /// Placements by the labels of their objects.
    pub(super) placements: BTreeMap<String, PlacementKey>,
    /// All placements of the member, those without an order too; `None` before the daemon said it.
    told: Option<BTreeSet<PlacementKey>>,
    pub(super) namespaces: Namespaces,
}

impl Reconciler {
    /// Creates a reconciler without orders. `source` is the identity in gitfleet's inventories; without `has_health` written
    /// objects count as available immediately.
    pub fn new(cluster: ClusterName, source: SourceName, has_health: bool) -> Self {
        Self {
            cluster,
            source,
            has_health,
            deliveries: BTreeMap::new(),
            forgotten: BTreeMap::new(),
            live: Holdings::default(),
            lists: Lists::default(),
            unwatched: BTreeMap::new(),
            parents: Parents::default(),
            wanted: Wanted::default(),
            placements: BTreeMap::new(),
            told: None,
            namespaces: Namespaces::default(),
        }
    }

    /// Starts a new connection: inventories arrive again through [`Reconciler::take_parent`], steps under way are given up.
    pub fn connect(&mut self) {
        self.parents.clear();
        self.lists.clear();
        self.unwatched.clear();
        self.namespaces = Namespaces::default();
        self.forgotten.clear();
        let orders: Vec<Arc<WorkOrder>> = self.orders().cloned().collect();
        for order in &orders {
            self.expect(order);
        }
        for delivery in self.deliveries.values_mut() {
            delivery.touch();
            delivery.in_flight = 0;
            delivery.inherited = delivery.reported.take().or(delivery.inherited.take());
            // A restored backup brings deleted objects back with the same uids.
            delivery.progress.deleted.clear();
        }
    }

    /// Returns the active orders.
    pub fn orders(&self) -> impl Iterator<Item = &Arc<WorkOrder>> {
        self.deliveries.values().map(|delivery| &delivery.order)
    }

    /// Returns the event that says what the member holds.
    pub fn announce(&self, version: Option<String>, server: Option<String>) -> MemberEvent {
        let ours = || self.parents.iter().filter(|(_, parent)| self.source.is(&parent.source));
        let holds = ours().map(|(key, parent)| (key.clone(), parent.holds.clone())).collect();
        let inventory = ours().map(|(key, _)| (key.clone(), self.inventory(key))).collect();
        let kept = ours().map(|(key, parent)| (key.clone(), parent.kept.clone())).collect();
        MemberEvent::Online { cluster: self.cluster.clone(), version, server, holds, kept, inventory }
    }

    /// Returns the objects that carry a placement's label.
    fn inventory(&self, placement: &PlacementKey) -> Inventory {
        self.labelled(&applyset_id(placement), self.unlisted(placement))
    }

    fn labelled(&self, applyset: &str, unlisted: Unlisted) -> Inventory {
        let seen = self.live.labelled(applyset).map(|(key, _)| key.clone());
        if unlisted.is_empty() {
            seen.collect()
        } else {
            Inventory::Unknown(Glimpse { seen: seen.collect(), unlisted: unlisted.into_reasons() })
        }
    }

    /// Returns the kinds that may have objects of a placement and were not listed completely.
    fn unlisted(&self, placement: &PlacementKey) -> Unlisted {
        let parent = self.parents.get(placement).into_iter().flat_map(|parent| &parent.group_kinds);
        let order = self.deliveries.get(placement).into_iter().flat_map(|delivery| kinds_of(&delivery.order));
        self.lists.unlisted(parent.cloned().chain(order.map(|(kind, _)| kind)))
    }

    /// Requests lists of all kinds that an order concerns.
    fn expect(&mut self, order: &WorkOrder) {
        for (kind, version) in kinds_of(order) {
            if self.lists.expect(&kind) || version.is_some() && self.unwatched.contains_key(&kind) {
                self.unwatched.insert(kind, version.map(str::to_owned));
            }
        }
    }

    /// Handles a command of the daemon.
    pub fn command(&mut self, command: MemberCommand) {
        match command {
            MemberCommand::Forget(placement) => {
                if self.told.as_mut().is_some_and(|told| told.remove(&placement)) {
                    self.wake_waiting();
                }
                if let Some(delivery) = self.deliveries.remove(&placement) {
                    self.want(&delivery.order, false);
                    if delivery.in_flight > 0 {
                        self.forgotten.insert(placement, delivery.in_flight);
                    }
                }
                self.wake_awaiting();
            }
            MemberCommand::Order { order, reported } => self.take_order(order, reported),
            MemberCommand::Announce => self.namespaces.report_again(),
            MemberCommand::ReportAgain => self.report_again(),
            MemberCommand::TryAgain(placement) => {
                if let Some(delivery) = self.deliveries.get_mut(&placement) {
                    delivery.try_again();
                }
            }
            // A task has no orders but those that it was sent: of the others their objects' labels are known from now on.
            MemberCommand::Placements(placements) => {
                if self.told.as_ref() != Some(&placements) {
                    let labels = placements.iter().map(|placement| (applyset_id(placement), placement.clone()));
                    self.placements.extend(labels);
                    self.told = Some(placements);
                    self.wake_waiting();
                }
            }
        }
    }

    /// Marks every report as not sent. Work that was reported before a restart and not checked since has no
    /// report of this task.
    fn report_again(&mut self) {
        for delivery in self.deliveries.values_mut() {
            delivery.unreported |= delivery.reported.take().is_some();
        }
    }

    fn take_order(&mut self, order: Arc<WorkOrder>, reported: Option<Arc<WorkStatus>>) {
        self.expect(&order);
        let before = self.deliveries.get(&order.placement).map(|delivery| Arc::clone(&delivery.order));
        if before.is_none() {
            self.wake_waiting();
        }
        // Manifests are shared: identical ones claim the same objects, so no other placement is affected.
        if !before.as_ref().is_some_and(|before| Arc::ptr_eq(&before.manifests, &order.manifests)) {
            if let Some(before) = before {
                self.want(&before, false);
            }
            self.want(&order, true);
        }
        let applyset = applyset_id(&order.placement);
        self.placements.insert(applyset.clone(), order.placement.clone());
        let forgotten = &mut self.forgotten;
        let delivery = self.deliveries.entry(order.placement.clone()).or_insert_with(|| Delivery {
            order: Arc::clone(&order),
            applyset,
            progress: reported.as_deref().map(|work| progress_of(&order, work)).unwrap_or_default(),
            in_flight: forgotten.remove(&order.placement).unwrap_or(0),
            stale: true,
            plan: Plan::default(),
            doing: Doing::Writes,
            unreported: true,
            reported: None,
            inherited: reported,
        });
        if delivery.order.generation != order.generation {
            delivery.progress.restart(&order);
        }
        delivery.order = order;
        delivery.touch();
        self.wake_awaiting();
    }

    /// Records which objects an order claims or releases. Claims decide who may write an object, so another placement may be
    /// next.
    fn want(&mut self, order: &WorkOrder, is_wanted: bool) {
        let alone: Arc<[Arc<PlacementKey>]> = [Arc::new(order.placement.clone())].into();
        for desired in order.manifests.iter() {
            if is_wanted {
                self.wanted.insert(&desired.key, &alone);
            } else {
                self.wanted.remove(&desired.key, &order.placement);
            }
            let holder = self.live.get(&desired.key).map(|live| Arc::clone(&live.applyset));
            self.touch(None, holder.as_deref(), &desired.key);
        }
    }

    /// Plans the stale deliveries. Returns the steps to start now; report each result to [`Reconciler::settle`]. An order waits
    /// until all its kinds are listed or their lists have failed.
    pub fn tasks(&mut self, now: Timestamp) -> Vec<Task> {
        let mut tasks = Vec::new();
        let due: Vec<PlacementKey> =
            // One plan at a time: the next one depends on the results of all its steps.
            self.deliveries.iter().filter(|(_, d)| d.stale && d.in_flight == 0).map(|(key, _)| key.clone()).collect();
        for placement in due {
            let unlisted = self.unlisted(&placement);
            let Some(delivery) = self.deliveries.get(&placement) else { continue };
            let order = Arc::clone(&delivery.order);
            // Collecting all kinds of an order is expensive, and lists are rarely under way.
            if self.lists.any_pending() && kinds_of(&order).any(|(kind, _)| self.lists.is_pending(&kind)) {
                continue;
            }
            let planned = plan(&order, &self.view(delivery, &unlisted), &delivery.progress, now);
            let Some(delivery) = self.deliveries.get_mut(&placement) else { continue };
            delivery.plan = planned;
            delivery.stale = false;
            delivery.doing = Doing::of(&delivery.plan);
            delivery.unreported = true;
            for step in std::mem::take(&mut delivery.plan.steps) {
                delivery.in_flight += 1;
                let before = step_object(&order, &step).and_then(|key| delivery.progress.attempts.get(key)).cloned();
                tasks.push(Task { order: Arc::clone(&order), step, before });
            }
        }
        tasks
    }

    /// Handles the result of a step. Returns why the member does not answer, if the step failed for that reason.
    pub fn settle(&mut self, placement: &PlacementKey, result: StepResult, now: Timestamp) -> Option<String> {
        // A watch may report it late, and a plan made until then would apply it again.
        if let StepResult::Applied { live: Some(live), .. } | StepResult::Changed { live } = &result {
            self.note_served(&live.id);
            self.see(live.clone());
        }
        if let StepResult::Deleted { key, uid, gone: true } = &result
            // An object that was recreated under its name is another one.
            && self.live.get(key).is_some_and(|live| live.uid == *uid)
        {
            self.lose(key);
        }
        if let StepResult::Parent(parent, version) = &result {
            self.parents.wrote(placement, parent.clone(), *version);
        }
        if let Some(delivery) = self.deliveries.get_mut(placement) {
            let offline = delivery.settle(result, now);
            // What failed waits for its retry: woken at once, it would fail again and again.
            if delivery.in_flight == 0 && delivery.plan.failure.is_none() {
                self.wake_awaiting();
            }
            return offline;
        }
        if let Some(under_way) = self.forgotten.get_mut(placement) {
            *under_way -= 1;
            if *under_way == 0 {
                self.forgotten.remove(placement);
            }
        }
        if let StepResult::Offline(reason) = result {
            // The order was forgotten meanwhile; the outage still concerns the other orders.
            Some(reason)
        } else {
            None
        }
    }

    /// Returns when time alone changes the next steps.
    pub fn wake_at(&self) -> Option<Timestamp> {
        // A stale delivery is planned as soon as its steps and lists have ended, so an instant in the past must not wake the
        // task for it.
        self.deliveries.values().filter(|d| !d.stale).filter_map(|d| d.plan.wake_at).min()
    }

    /// Marks deliveries whose time has come.
    pub fn mark_due(&mut self, now: Timestamp) {
        for delivery in self.deliveries.values_mut() {
            delivery.stale |= delivery.plan.wake_at.is_some_and(|at| at <= now);
        }
    }

    /// Returns the placements with something to report, each with whether its work is still under way. Work that was reported
    /// complete before a restart keeps that report until it was checked again.
    pub fn unreported(&self) -> impl Iterator<Item = (&PlacementKey, bool)> {
        let unreported = self.deliveries.iter().filter(|(_, d)| d.unreported && !d.is_unconfirmed());
        unreported.map(|(key, d)| (key, d.in_flight > 0 || d.stale))
    }

    /// Returns the report about a placement; `None` if it has not changed.
    pub fn report(&mut self, placement: &PlacementKey, now: Timestamp) -> Option<MemberEvent> {
        let status = self.status(placement, now)?;
        let delivery = self.deliveries.get_mut(placement)?;
        delivery.note_baselines(&status);
        if status.complete {
            delivery.progress.condense(now);
        }
        delivery.unreported = false;
        if delivery.reported.as_deref() == Some(&status) {
            return None;
        }
        let status = Arc::new(status);
        delivery.reported = Some(Arc::clone(&status));
        delivery.inherited = None;
        Some(MemberEvent::Work { cluster: self.cluster.clone(), placement: placement.clone(), status })
    }

    /// Returns the result of an order so far.
    fn status(&self, placement: &PlacementKey, now: Timestamp) -> Option<WorkStatus> {
        let delivery = self.deliveries.get(placement)?;
        let unlisted = self.unlisted(placement);
        let view = self.view(delivery, &unlisted);
        // What another source's placement of the same name holds has the same label, and is not this one's.
        let is_ours = view.parent.is_none_or(|parent| self.is_of_source(parent));
        let inventory =
            if is_ours { self.labelled(view.ours, unlisted.clone()) } else { Inventory::Known(BTreeSet::new().into()) };
        Some(delivery.status(&view, inventory, now))
    }

    fn view<'a>(&'a self, delivery: &'a Delivery, unlisted: &'a Unlisted) -> MemberView<'a> {
        MemberView {
            live: &self.live,
            wanted: &self.wanted,
            parent: self.parents.get(&delivery.order.placement),
            unlisted,
            ours: &delivery.applyset,
            peers: self,
        }
    }

    /// Tells whether an inventory belongs to this source, or names none.
    fn is_of_source(&self, parent: &Parent) -> bool {
        parent.source.is_empty() || self.source.is(&parent.source)
    }

    /// Marks orders for a new plan that may have waited for another placement: what is known of the placements has changed.
    fn wake_waiting(&mut self) {
        let is_of_before =
            |attempt: &Attempt| attempt.is_of_before() && attempt.outcome == ApplyOutcome::FailedToTakeOver;
        for delivery in self.deliveries.values_mut() {
            let waits = delivery.plan.awaits_others || delivery.in_flight == 0 && !delivery.plan.complete;
            if waits || delivery.progress.attempts.values().any(|attempt| is_of_before(attempt)) {
                delivery.touch();
            }
        }
    }

    /// Marks every order for a new plan.
    pub(super) fn mark_stale(&mut self) {
        self.deliveries.values_mut().for_each(Delivery::touch);
    }

    /// Stores the observed state of an object: the newest version with `by_version`, else the latest observation.
    pub(super) fn remember(&mut self, key: Arc<ObjectKey>, mut live: LiveObject, by_version: bool) {
        if !self.has_health && (live.availability != Availability::Available || live.unavailable_because.is_some()) {
            live.change(|content| {
                (content.availability, content.unavailable_because) = (Availability::Available, None);
            });
        }
        let known = self.live.get(&key);
        let is_newer = |known: &LiveObject| by_version && known.resource_version > live.resource_version;
        if known.is_some_and(|known| is_newer(known) || *known == live) {
            return;
        }
        let before = known.map(|known| Arc::clone(&known.applyset));
        self.touch(before.as_deref(), Some(&live.applyset), &key);
        self.live.insert(key, live);
    }

    /// Forgets an object that was deleted at a resource version, unless a newer state of it is known.
    pub fn forget(&mut self, key: &ObjectKey, resource_version: u64) {
        // Files have no versions: the latest observation counts.
        let stale = |live: &LiveObject| live.resource_version > resource_version && resource_version > 0;
        if self.live.get(key).is_some_and(|live| !stale(live)) {
            self.lose(key);
        }
    }

    /// Marks orders for a new plan that keep a Namespace or a definition because of others.
    fn wake_awaiting(&mut self) {
        self.deliveries.values_mut().filter(|delivery| delivery.plan.awaits_others).for_each(Delivery::touch);
    }

    /// Drops an object. Who has its Namespace or definition may wait for its end.
    fn lose(&mut self, key: &ObjectKey) {
        let Some(live) = self.live.remove(key) else { return };
        self.wake_awaiting();
        self.touch(None, Some(&live.applyset), key);
    }

    /// Marks the deliveries that an object concerns: its present and former owners, and the placements that want it.
    fn touch(&mut self, before: Option<&str>, after: Option<&str>, key: &ObjectKey) {
        let holders = before.into_iter().chain(after).filter_map(|id| self.placements.get(id));
        let wanting = self.wanted.by(key).iter().map(AsRef::as_ref);
        for placement in holders.chain(wanting) {
            if let Some(delivery) = self.deliveries.get_mut(placement) {
                delivery.touch();
            }
        }
    }
}

impl Peers for Reconciler {
    fn holder(&self, label: &str) -> Holder<'_> {
        let Some(placement) = self.placements.get(label) else {
            return if self.told.is_none() { Holder::Awaited(None) } else { Holder::Nobody };
        };
        if let Some(parent) = self.parents.get(placement).filter(|parent| !self.is_of_source(parent)) {
            return Holder::OfSource(placement, &parent.source);
        }
        if let Some(delivery) = self.deliveries.get(placement) {
            return Holder::Ordered(&delivery.order);
        }
        let may_come = self.told.as_ref().is_none_or(|told| told.contains(placement));
        if may_come { Holder::Awaited(Some(placement)) } else { Holder::Nobody }
    }

    fn delivery(&self, placement: &PlacementKey) -> Option<(&WorkOrder, &Progress)> {
        let delivery = self.deliveries.get(placement)?;
        Some((&delivery.order, &delivery.progress))
    }

    fn are_known(&self) -> bool {
        self.told.is_some()
    }

    fn may_have_unseen(&self, container: &ObjectKey, ours: &str) -> bool {
        let own = self.placements.get(ours);
        let brings = |(placement, delivery): (&PlacementKey, &Delivery)| {
            // What is under way may be of an earlier order.
            let parent = self.parents.get(placement).filter(|_| delivery.in_flight > 0);
            let is_under_way = parent.is_some_and(|parent| parent.kinds_in(container).next().is_some());
            Some(placement) != own && (is_under_way || delivery.brings_into(container))
        };
        let is_unlisted = |(placement, parent): (&PlacementKey, &Parent)| {
            let is_unlisted = !self.lists.unlisted(parent.kinds_in(container).cloned()).is_empty();
            Some(placement) != own && is_unlisted && !matches!(self.holder(&applyset_id(placement)), Holder::Nobody)
        };
        // An order that has not come may bring some, too.
        self.told.is_none() || self.deliveries.iter().any(brings) || self.parents.iter().any(is_unlisted)
    }
}

/// Returns the kinds of an order, with the version of its manifests: of desired objects, of objects to prune, and of objects on
/// the member.
pub(super) fn kinds_of(order: &WorkOrder) -> impl Iterator<Item = (String, Option<&str>)> {
    let name = |key: &ObjectKey| kind_of(key);
    let wanted = order.manifests.iter().map(move |d| (name(&d.key), Some(d.id.version.as_str())));
    wanted.chain(order.prune.iter().chain(&order.held).map(move |key| (name(key), None)))
}

/// Returns the object of an apply or a comparison.
fn step_object<'a>(order: &'a WorkOrder, step: &Step) -> Option<&'a ObjectKey> {
    match step {
        Step::Apply { position, .. } | Step::Compare { position } | Step::ShowDrift { position, .. } => {
            Some(&order.manifests[*position].key)
        }
        Step::WriteParent(_) | Step::Delete { .. } | Step::Release { .. } | Step::DeleteParent => None,
    }
}
