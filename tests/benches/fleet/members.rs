//! Made-up members that do at once what they are told.

use std::collections::BTreeMap;
use std::sync::Arc;

use deliver::inventory::{Held, Parent, applyset_id};
use deliver::live::{LiveContent, LiveObject, Uid};
use deliver::step::Step;
use engine::member::result::{Answer, StepResult, tried};
use engine::member::{Reconciler, Task};
use engine::{MemberCommand, MemberEvent};
use jiff::Timestamp;
use model::facts::{Facts, NodeFacts, Totals};
use model::id::{ClusterName, Digest, ObjectKey, PlacementKey};
use model::records::{ApplyOutcome, Availability, ManifestStatus, WorkStatus};
use model::work::{Desired, WorkOrder};

/// The orders that members were given last.
pub type Orders = BTreeMap<(ClusterName, PlacementKey), Arc<WorkOrder>>;

/// What stands for the members.
pub enum Members {
    /// Every order is answered with the report that all of it is available; nothing is kept but the orders.
    Instant(Orders),
    /// The real planner of deliveries over an API server that takes everything.
    Planned(BTreeMap<ClusterName, Member>),
}

/// A member with the real planner of deliveries.
pub struct Member {
    reconciler: Reconciler,
    /// Writes, inventories included.
    pub writes: u64,
    version: u64,
    /// What it holds, where it is to outlive the daemon.
    there: Option<There>,
    /// It received something and has not read it.
    told: bool,
}

/// What a member holds.
#[derive(Clone, Default)]
struct There {
    objects: BTreeMap<ObjectKey, LiveObject>,
    parents: BTreeMap<PlacementKey, Parent>,
}

impl Members {
    /// Returns members that hold nothing and outlive the daemon: see [`Members::survive`].
    pub fn lasting(clusters: impl Iterator<Item = ClusterName>, source: &str) -> Self {
        let member = |name| {
            let there = Some(There::default());
            let member = Member { there, ..Member::new(&name, source) };
            (name, member)
        };
        Self::Planned(clusters.map(member).collect())
    }

    /// Lets the daemon's side of members end and start again.
    pub fn survive(&mut self, source: &str) {
        let Self::Planned(members) = self else { return };
        for (name, member) in members {
            let mut next = Member::new(name, source);
            (next.writes, next.version, next.there) = (member.writes, member.version, member.there.take());
            let there = next.there.iter();
            for parent in there.clone().flat_map(|there| there.parents.values()) {
                next.reconciler.take_parent(parent.clone(), 0);
            }
            for live in there.flat_map(|there| there.objects.values()) {
                next.reconciler.see(live.clone());
            }
            *member = next;
        }
    }

    /// Returns members that hold what orders said, as a new life of the daemon finds them.
    pub fn holding(orders: &Orders, source: &str) -> Self {
        let mut members: BTreeMap<ClusterName, Member> = BTreeMap::new();
        for ((cluster, placement), order) in orders {
            let member = members.entry(cluster.clone()).or_insert_with(|| Member::new(cluster, source));
            let mut parent =
                Parent { source: source.to_owned(), placement: Some(placement.clone()), ..Parent::default() };
            parent = parent.widened(order);
            let held = Held { index: order.snapshot, commit: order.commit.clone(), digest: order.digest.clone() };
            parent.holds = Some(held);
            member.reconciler.take_parent(parent, 0);
            for desired in order.manifests.iter() {
                member.version += 1;
                let live = live(desired, placement, member.version);
                member.reconciler.see(live);
            }
        }
        Self::Planned(members)
    }

    /// Answers a new connection.
    pub fn connect(&mut self, cluster: &ClusterName, source: &str) -> Vec<MemberEvent> {
        let online = match self {
            Self::Instant(_) => MemberEvent::Online {
                cluster: cluster.clone(),
                version: Some("v1.36.0".to_owned()),
                server: None,
                holds: BTreeMap::new(),
                inventory: BTreeMap::new(),
                kept: BTreeMap::new(),
            },
            Self::Planned(members) => {
                let member = members.entry(cluster.clone()).or_insert_with(|| Member::new(cluster, source));
                member.list();
                member.reconciler.announce(Some("v1.36.0".to_owned()), None)
            }
        };
        let nodes = NodeFacts { count: 3, ..NodeFacts::default() };
        let facts = Box::new(Facts::new(Ok(nodes), Ok(Totals::default())));
        vec![online, MemberEvent::Facts { cluster: cluster.clone(), facts }]
    }

    /// Tells a member.
    pub fn receive(&mut self, cluster: &ClusterName, command: MemberCommand, now: Timestamp) -> Option<MemberEvent> {
        match self {
            Self::Instant(orders) => {
                let MemberCommand::Order { order, .. } = command else { return None };
                let placement = order.placement.clone();
                let status = carried_out(&order, now);
                orders.insert((cluster.clone(), placement.clone()), order);
                Some(MemberEvent::Work { cluster: cluster.clone(), placement, status: Arc::new(status) })
            }
            Self::Planned(members) => {
                let member = members.get_mut(cluster).expect("a member that was connected to");
                member.told = true;
                member.reconciler.command(command);
                None
            }
        }
    }

    /// Lets members that were told something do it. Returns what they report.
    pub fn work(&mut self, now: Timestamp) -> Vec<MemberEvent> {
        let Self::Planned(members) = self else { return Vec::new() };
        members.values_mut().filter(|member| member.told).flat_map(|member| member.work(now)).collect()
    }

    /// Returns how often something was written.
    pub fn writes(&self) -> u64 {
        match self {
            Self::Instant(_) => 0,
            Self::Planned(members) => members.values().map(|member| member.writes).sum(),
        }
    }
}

impl Member {
    fn new(cluster: &ClusterName, source: &str) -> Self {
        Self {
            reconciler: Reconciler::new(cluster.clone(), source.into(), true),
            writes: 0,
            version: 0,
            there: None,
            told: false,
        }
    }

    /// Lists what the task begins to watch.
    fn list(&mut self) {
        for (kind, _) in self.reconciler.take_unwatched() {
            let objects = self.there.iter().flat_map(|there| there.objects.iter());
            let of_kind = objects.filter(|(key, _)| key.group == kind.group && key.kind == kind.kind);
            of_kind.for_each(|(_, live)| self.reconciler.see(live.clone()));
            self.reconciler.list_done(&kind);
        }
    }

    fn work(&mut self, now: Timestamp) -> Vec<MemberEvent> {
        self.told = false;
        loop {
            self.list();
            let tasks = self.reconciler.tasks(now);
            if tasks.is_empty() {
                break;
            }
            for task in tasks {
                let result = self.perform(&task, now);
                self.reconciler.settle(&task.order.placement, result, now);
            }
        }
        let due: Vec<PlacementKey> = self.reconciler.unreported().map(|(key, _)| key.clone()).collect();
        due.iter().filter_map(|key| self.reconciler.report(key, now)).collect()
    }

    fn perform(&mut self, task: &Task, now: Timestamp) -> StepResult {
        self.writes += 1;
        self.version += 1;
        let mut nowhere = There::default();
        let there = self.there.as_mut().unwrap_or(&mut nowhere);
        match &task.step {
            Step::WriteParent(parent) => {
                there.parents.insert(task.order.placement.clone(), Parent::clone(parent));
                StepResult::Parent(Some(Parent::clone(parent)), 0)
            }
            Step::DeleteParent => {
                there.parents.remove(&task.order.placement);
                StepResult::Parent(None, 0)
            }
            Step::Delete { object } | Step::Release { object, .. } => {
                there.objects.remove(&object.id.key());
                StepResult::Deleted { key: object.id.key(), uid: object.uid.clone(), gone: true }
            }
            Step::Apply { position, put_back, .. } => {
                let desired = &task.order.manifests[*position];
                let live = live(desired, &task.order.placement, self.version);
                there.objects.insert(ObjectKey::clone(&desired.key), live.clone());
                let (outcome, message, differences) = (ApplyOutcome::Applied, String::new(), Vec::new());
                let answer = Answer { outcome, message, live: Some(live), differences };
                tried(desired, answer, *put_back, task.before.as_deref(), now)
            }
            Step::Compare { .. } | Step::ShowDrift { .. } => unreachable!("nothing drifts and nothing is compared"),
        }
    }
}

fn owned(desired: &Desired) -> Digest {
    Digest::new(format!("{}", desired.digest))
}

fn live(desired: &Desired, placement: &PlacementKey, version: u64) -> LiveObject {
    let content = LiveContent {
        id: desired.id.clone(),
        applyset: applyset_id(placement).into(),
        manifest: Some(desired.digest.clone()),
        owned: owned(desired),
        owner: None,
        terminating: false,
        availability: Availability::Available,
        unavailable_because: None,
    };
    // As on an API server: a UUID of its own.
    LiveObject::new(content, Uid::Uuid(u128::from(version).to_be_bytes()), version)
}

fn carried_out(order: &WorkOrder, now: Timestamp) -> WorkStatus {
    let manifest = |desired: &Desired| ManifestStatus {
        id: desired.id.clone(),
        applied: ApplyOutcome::Applied,
        message: String::new(),
        generation: None,
        availability: Some(Availability::Available),
        manifest: None,
        owned: Some(owned(desired)),
        differs_since: None,
        observed_at: None,
        differences: Vec::new(),
    };
    let inventory = order.manifests.iter().map(|desired| ObjectKey::clone(&desired.key)).collect();
    WorkStatus {
        generation: order.generation,
        complete: true,
        manifests: order.manifests.iter().map(manifest).collect(),
        available_since: Some(now),
        inventory,
        ..WorkStatus::default()
    }
}
