//! What one member shall hold and is seen to hold, and what is to be done about it: pure.
//!
//! The member's task drives it with an API server or a folder, the simulation with a made-up member.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::delivery::{Delivery, Doing, go_on};
use super::namespaces::Namespaces;
use super::result::StepResult;
use crate::core::{MemberCommand, MemberEvent};
use crate::deliver::holdings::{Holdings, Wanted};
use crate::deliver::inventory::{Parent, applyset_id};
use crate::deliver::lists::{Lists, Unlisted, kind_of};
use crate::deliver::live::LiveObject;
use crate::deliver::plan::plan;
use crate::deliver::progress::Attempt;
use crate::deliver::step::{MemberView, Plan, Step};
use crate::model::id::{ClusterName, ObjectKey, PlacementKey};
use crate::model::records::{Availability, Glimpse, Inventory, WorkStatus};
use crate::model::work::{SourceName, WorkOrder};

/// A step to carry out on the member.
#[derive(Debug)]
pub struct Task {
    /// The order it is of.
    pub order: Arc<WorkOrder>,
    /// What to do.
    pub step: Step,
    /// The last attempt on the same object: failures and put-backs are counted on.
    pub before: Option<Box<Attempt>>,
}

/// The orders of one member and what is known of its objects.
#[derive(Debug)]
pub struct Reconciler {
    pub(super) cluster: ClusterName,
    source: SourceName,
    pub(super) has_health: bool,
    deliveries: BTreeMap<PlacementKey, Delivery>,
    pub(super) live: Holdings,
    /// Which kinds were listed completely.
    pub(super) lists: Lists,
    /// Kinds whose watches are to be begun, or begun anew, with the version to watch them in.
    pub(super) unwatched: BTreeMap<String, Option<String>>,
    parents: BTreeMap<PlacementKey, Parent>,
    wanted: Wanted,
    placements: BTreeMap<String, PlacementKey>,
    pub(super) namespaces: Namespaces,
}

impl Reconciler {
    /// Begins without orders. `source` is the identity that inventories name ours by; without `has_health` what is written is
    /// available at once.
    pub fn new(cluster: ClusterName, source: SourceName, has_health: bool) -> Self {
        Self {
            cluster,
            source,
            has_health,
            deliveries: BTreeMap::new(),
            live: Holdings::default(),
            lists: Lists::default(),
            unwatched: BTreeMap::new(),
            parents: BTreeMap::new(),
            wanted: Wanted::default(),
            placements: BTreeMap::new(),
            namespaces: Namespaces::default(),
        }
    }

    /// Begins a new connection: inventories are told anew with [`Reconciler::take_parent`], steps on their way are given up.
    pub fn connect(&mut self) {
        self.parents.clear();
        self.lists.clear();
        self.unwatched.clear();
        self.namespaces = Namespaces::default();
        let orders: Vec<Arc<WorkOrder>> = self.orders().cloned().collect();
        for order in &orders {
            self.expect(order);
        }
        for delivery in self.deliveries.values_mut() {
            delivery.touch();
            delivery.in_flight = 0;
            delivery.inherited = delivery.reported.take().or(delivery.inherited.take());
            // A restored backup brings deleted objects back under the same uids.
            delivery.progress.deleted.clear();
        }
    }

    /// Takes an inventory that was found. One that names no placement is not ours.
    pub fn take_parent(&mut self, parent: Parent) {
        let Some(placement) = parent.placement.clone() else { return };
        for kind in &parent.group_kinds {
            if self.lists.expect(kind) {
                // Inventories name kinds without versions; an order may bring one.
                self.unwatched.insert(kind.clone(), None);
            }
        }
        self.placements.insert(applyset_id(&placement), placement.clone());
        self.parents.insert(placement, parent);
    }

    /// Returns the orders under way.
    pub fn orders(&self) -> impl Iterator<Item = &Arc<WorkOrder>> {
        self.deliveries.values().map(|delivery| &delivery.order)
    }

    /// Says what the member holds.
    pub fn announce(&self, version: Option<String>) -> MemberEvent {
        let ours = || self.parents.iter().filter(|(_, parent)| self.source.is(&parent.source));
        let holds = ours().map(|(key, parent)| (key.clone(), parent.holds.clone())).collect();
        let inventory = ours().map(|(key, _)| (key.clone(), self.inventory(key))).collect();
        let kept = ours().map(|(key, parent)| (key.clone(), parent.kept.clone())).collect();
        MemberEvent::Online { cluster: self.cluster.clone(), version, holds, kept, inventory }
    }

    /// Returns the objects that carry a placement's label.
    fn inventory(&self, placement: &PlacementKey) -> Inventory {
        self.labelled(&applyset_id(placement), self.unlisted(placement))
    }

    fn labelled(&self, applyset: &str, unlisted: Unlisted) -> Inventory {
        let seen = self.live.labelled(applyset).map(|(key, _)| key.clone()).collect();
        if unlisted.is_empty() {
            Inventory::Known(seen)
        } else {
            Inventory::Unknown(Glimpse { seen, unlisted: unlisted.into_reasons() })
        }
    }

    /// Returns the kinds that a placement may have objects of and that were not listed completely.
    fn unlisted(&self, placement: &PlacementKey) -> Unlisted {
        let parent = self.parents.get(placement).into_iter().flat_map(|parent| &parent.group_kinds);
        let order = self.deliveries.get(placement).into_iter().flat_map(|delivery| kinds_of(&delivery.order));
        self.lists.unlisted(parent.cloned().chain(order.map(|(kind, _)| kind)))
    }

    /// Sees to it that everything that an order is about is listed.
    fn expect(&mut self, order: &WorkOrder) {
        for (kind, version) in kinds_of(order) {
            if self.lists.expect(&kind) || version.is_some() && self.unwatched.contains_key(&kind) {
                self.unwatched.insert(kind, version.map(str::to_owned));
            }
        }
    }

    /// Takes a command of the daemon.
    pub fn command(&mut self, command: MemberCommand) {
        match command {
            MemberCommand::Forget(placement) => {
                if let Some(delivery) = self.deliveries.remove(&placement) {
                    self.want(&delivery.order, false);
                }
            }
            MemberCommand::Order { order, reported } => self.take_order(order, reported),
        }
    }

    fn take_order(&mut self, order: Arc<WorkOrder>, reported: Option<Arc<WorkStatus>>) {
        self.expect(&order);
        let before = self.deliveries.get(&order.placement).map(|delivery| Arc::clone(&delivery.order));
        // Manifests are shared: the same ones want the same objects, so nobody else's turn has come.
        if !before.as_ref().is_some_and(|before| Arc::ptr_eq(&before.manifests, &order.manifests)) {
            if let Some(before) = before {
                self.want(&before, false);
            }
            self.want(&order, true);
        }
        let applyset = applyset_id(&order.placement);
        self.placements.insert(applyset.clone(), order.placement.clone());
        let delivery = self.deliveries.entry(order.placement.clone()).or_insert_with(|| Delivery {
            order: Arc::clone(&order),
            applyset,
            progress: reported.as_deref().map(|work| go_on(&order, work)).unwrap_or_default(),
            in_flight: 0,
            stale: true,
            plan: Plan::default(),
            doing: Doing::Writes,
            unreported: true,
            reported: None,
            inherited: reported,
        });
        if delivery.order.generation != order.generation {
            delivery.progress.begin_anew(&order);
        }
        delivery.order = order;
        delivery.touch();
    }

    /// Notes what an order wants, or does not want any more. Who wants an object decides who may write it: another placement's
    /// turn may have come.
    fn want(&mut self, order: &WorkOrder, is_wanted: bool) {
        let placement = Arc::new(order.placement.clone());
        for desired in order.manifests.iter() {
            if is_wanted {
                self.wanted.insert(&desired.key, &placement);
            } else {
                self.wanted.remove(&desired.key, &placement);
            }
            let holder = self.live.get(&desired.key).map(|live| Arc::clone(&live.applyset));
            self.touch(None, holder.as_deref(), &desired.key);
        }
    }

    /// Plans what is stale. Returns the steps that begin now; what came of each is told with [`Reconciler::settle`]. An order waits
    /// until everything that it is about was looked at, or could not be.
    pub fn tasks(&mut self, now: Timestamp) -> Vec<Task> {
        let mut tasks = Vec::new();
        let due: Vec<PlacementKey> =
            // One plan at a time: the next follows from what came of all its steps.
            self.deliveries.iter().filter(|(_, d)| d.stale && d.in_flight == 0).map(|(key, _)| key.clone()).collect();
        for placement in due {
            let unlisted = self.unlisted(&placement);
            let Some(delivery) = self.deliveries.get_mut(&placement) else { continue };
            let order = Arc::clone(&delivery.order);
            // To name all kinds of an order costs; nearly always no list is under way.
            if self.lists.any_pending() && kinds_of(&order).any(|(kind, _)| self.lists.is_pending(&kind)) {
                continue;
            }
            let (parent, ours) = (self.parents.get(&placement), &delivery.applyset);
            let view = MemberView { live: &self.live, wanted: &self.wanted, parent, unlisted: &unlisted, ours };
            delivery.plan = plan(&order, &view, &delivery.progress, now);
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

    /// Takes in what came of a step. Returns why the member does not answer, where that came of it.
    pub fn settle(&mut self, placement: &PlacementKey, result: StepResult, now: Timestamp) -> Option<String> {
        // A watch may tell of it late, and a plan made until then would apply it again.
        if let StepResult::Applied { live: Some(live), .. } = &result {
            self.note_served(&live.id);
            self.see(live.clone());
        }
        if let StepResult::Deleted { key, uid, gone: true } = &result
            // An object that was made anew under its name is another one.
            && self.live.get(key).is_some_and(|live| live.uid == *uid)
        {
            self.live.remove(key);
        }
        match &result {
            StepResult::Parent(Some(parent)) => drop(self.parents.insert(placement.clone(), parent.clone())),
            StepResult::Parent(None) => drop(self.parents.remove(placement)),
            _ => {}
        }
        if let Some(delivery) = self.deliveries.get_mut(placement) {
            delivery.settle(result, now)
        } else if let StepResult::Offline(reason) = result {
            // The order was forgotten meanwhile; that the member does not answer concerns the others.
            Some(reason)
        } else {
            None
        }
    }

    /// Returns when time alone changes what is to be done.
    pub fn wake_at(&self) -> Option<Timestamp> {
        // What is stale is planned as soon as its steps and lists are answered: an instant that has passed wakes nobody for it.
        self.deliveries.values().filter(|d| !d.stale).filter_map(|d| d.plan.wake_at).min()
    }

    /// Takes up what has fallen due.
    pub fn mark_due(&mut self, now: Timestamp) {
        for delivery in self.deliveries.values_mut() {
            delivery.stale |= delivery.plan.wake_at.is_some_and(|at| at <= now);
        }
    }

    /// Returns the placements about which there is something to report, each with whether its work is still being carried out.
    /// What was reported complete before a restart stands until it was looked at again.
    pub fn unreported(&self) -> impl Iterator<Item = (&PlacementKey, bool)> {
        let unreported = self.deliveries.iter().filter(|(_, d)| d.unreported && !d.is_unconfirmed());
        unreported.map(|(key, d)| (key, d.in_flight > 0 || d.stale))
    }

    /// Returns the report about a placement; `None` where it is the one before.
    pub fn report(&mut self, placement: &PlacementKey, now: Timestamp) -> Option<MemberEvent> {
        let status = self.status(placement, now)?;
        let delivery = self.deliveries.get_mut(placement)?;
        delivery.note_baselines(&status);
        delivery.unreported = false;
        if delivery.reported.as_deref() == Some(&status) {
            return None;
        }
        let status = Arc::new(status);
        delivery.reported = Some(Arc::clone(&status));
        delivery.inherited = None;
        Some(MemberEvent::Work { cluster: self.cluster.clone(), placement: placement.clone(), status })
    }

    /// Returns what became of an order so far.
    fn status(&self, placement: &PlacementKey, now: Timestamp) -> Option<WorkStatus> {
        let delivery = self.deliveries.get(placement)?;
        let (parent, ours, unlisted) = (self.parents.get(placement), &delivery.applyset, self.unlisted(placement));
        let view = MemberView { live: &self.live, wanted: &self.wanted, parent, unlisted: &unlisted, ours };
        let inventory = self.labelled(ours, unlisted.clone());
        Some(delivery.status(&view, inventory, now))
    }

    /// Looks again at every order.
    pub(super) fn mark_stale(&mut self) {
        self.deliveries.values_mut().for_each(Delivery::touch);
    }

    /// Keeps what is known of an object: the newest where `by_version`, else what is told now.
    pub(super) fn remember(&mut self, mut live: LiveObject, by_version: bool) {
        if !self.has_health {
            live.availability = Availability::Available;
        }
        let key = live.id.key();
        let known = self.live.get(&key);
        let is_newer = |known: &LiveObject| by_version && known.resource_version > live.resource_version;
        if known.is_some_and(|known| is_newer(known) || *known == live) {
            return;
        }
        let before = known.map(|known| Arc::clone(&known.applyset));
        self.touch(before.as_deref(), Some(&live.applyset), &key);
        let key = self.wanted.key(&key).cloned().unwrap_or_else(|| Arc::new(key));
        self.live.insert(key, live);
    }

    /// Forgets an object that was deleted at a version of the member, unless something newer is known of it.
    pub fn forget(&mut self, key: &ObjectKey, resource_version: u64) {
        // Files have no versions: of them what is told last counts.
        let stale = |live: &LiveObject| live.resource_version > resource_version && resource_version > 0;
        if self.live.get(key).is_some_and(|live| !stale(live))
            && let Some(live) = self.live.remove(key)
        {
            self.touch(None, Some(&live.applyset), key);
        }
    }

    /// Marks the deliveries that an object concerns: those it belongs to, belonged to, or is wanted by.
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

/// Returns the kinds that an order is about, with the version its manifests are written in: what is to be there, what may be
/// pruned, and what is held.
pub(super) fn kinds_of(order: &WorkOrder) -> impl Iterator<Item = (String, Option<&str>)> {
    let name = |key: &ObjectKey| kind_of(key);
    let wanted = order.manifests.iter().map(move |d| (name(&d.key), Some(d.id.version.as_str())));
    wanted.chain(order.prune.iter().chain(&order.held).map(move |key| (name(key), None)))
}

/// Returns the object an apply or comparison is about.
fn step_object<'a>(order: &'a WorkOrder, step: &Step) -> Option<&'a ObjectKey> {
    match step {
        Step::Apply { position, .. } | Step::Compare { position } | Step::ShowDrift { position, .. } => {
            Some(&order.manifests[*position].key)
        }
        Step::WriteParent(_) | Step::Delete { .. } | Step::Release { .. } | Step::DeleteParent => None,
    }
}
