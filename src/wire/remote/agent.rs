//! The agent's side: what it keeps, which orders its members have, and what it has to report. [`super::agent_session`] is one session of it.
//!
//! Whoever runs it brings requests to the server and frames from it, and has a disk and tasks of members: [`AgentDisk`], [`AgentTasks`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::outbox::Outbox;
use crate as wire;
use crate::{AgentHealth, AgentMember, AgentOrder, Hello, Protocols, ToServer, WholeOrder};
use engine::{MemberCommand, MemberEvent};
use model::id::{ClusterName, Digest, PlacementKey};
use model::records::WorkStatus;
use model::uptime::Uptime;
use model::work::{SourceName, WorkOrder};

/// The orders of an agent, by member and placement.
pub type OrderDigests = BTreeMap<ClusterName, BTreeMap<PlacementKey, Digest>>;

/// What one agent is to deliver, as the server said last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    /// The name of the source in inventories.
    pub source: SourceName,
    /// The rules that tell whether objects are available.
    pub health: AgentHealth,
    /// The members.
    pub members: Vec<AgentMember>,
    /// The digests of their orders.
    pub orders: OrderDigests,
    /// Orders from before the agent last lost its lease, of members of pools: somebody else may have delivered newer ones meanwhile. None is
    /// given to a member; their contents stay on the disk until the server has said what there is now.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outdated: OrderDigests,
}

impl Assignment {
    /// Returns all orders whose contents stay on the disk.
    pub fn kept(&self) -> impl Iterator<Item = (&ClusterName, &PlacementKey, &Digest)> {
        let all = self.orders.iter().chain(&self.outdated);
        all.flat_map(|(cluster, orders)| orders.iter().map(move |(placement, digest)| (cluster, placement, digest)))
    }

    /// Returns how many orders [`Assignment::kept`] has.
    pub fn count(&self) -> usize {
        self.orders.values().chain(self.outdated.values()).map(BTreeMap::len).sum()
    }

    /// Takes what a server says of the members. With `is_late` the agent had no lease before.
    pub(super) fn set_members(&mut self, members: Vec<AgentMember>, is_late: bool) {
        let names: BTreeSet<&ClusterName> = members.iter().map(|member| &member.cluster).collect();
        self.orders.retain(|cluster, _| names.contains(cluster));
        self.outdated.retain(|cluster, _| names.contains(cluster));
        for member in members.iter().filter(|member| is_late && member.pool.is_some()) {
            let orders = self.orders.remove(&member.cluster).unwrap_or_default();
            self.outdated.entry(member.cluster.clone()).or_default().extend(orders);
        }
        self.members = members;
    }
}

/// What an agent keeps from one start to the next.
pub trait AgentDisk {
    /// Returns the highest epoch of a server that the agent saw.
    fn epoch(&self) -> u64;
    /// Keeps an epoch, if it is higher than the kept one.
    fn note_epoch(&mut self, epoch: u64);
    /// Returns what is to be delivered.
    fn assignment(&mut self) -> &mut Assignment;
    /// Writes the assignment, and removes orders and objects that it does not name.
    fn save(&mut self);
    /// Writes what the assignment says of some orders. What it does not name any more is removed now, or with a later change.
    fn save_orders(&mut self, changed: &[(ClusterName, PlacementKey)]);
    /// Returns an order without its objects; `None` where it has to be fetched.
    fn order(&mut self, digest: &Digest) -> Option<AgentOrder>;
    /// Keeps an order as it was fetched. Returns it; `None` where it is not what the digest names.
    ///
    /// # Errors
    /// Its form is another than this version knows.
    fn keep_order(&mut self, digest: &Digest, json: &[u8]) -> Result<Option<AgentOrder>, wire::Error>;
    /// Returns an object; `None` where it has to be fetched.
    fn object(&mut self, digest: &Digest) -> Option<Arc<Value>>;
    /// Keeps an object as it was fetched.
    fn keep_object(&mut self, digest: &Digest, object: &Arc<Value>);
    /// Returns the last report about a placement on a member: it says what the objects were when they were applied, so that what was
    /// changed while no agent ran is noticed.
    fn report(&self, cluster: &ClusterName, placement: &PlacementKey) -> Option<Arc<WorkStatus>>;
    /// Keeps a report. One that is lost costs no more than an earlier one in its place.
    fn keep_report(&mut self, cluster: &ClusterName, placement: &PlacementKey, status: &Arc<WorkStatus>);

    /// Returns the last report about an order, if the agent had this very order: the server leaves the report out then.
    fn report_of(
        &mut self,
        cluster: &ClusterName,
        placement: &PlacementKey,
        order: &Digest,
    ) -> Option<Arc<WorkStatus>> {
        let Assignment { orders, outdated, .. } = self.assignment();
        let has_order = [&*orders, &*outdated]
            .into_iter()
            .any(|all| all.get(cluster).and_then(|orders| orders.get(placement)) == Some(order));
        if has_order { self.report(cluster, placement) } else { None }
    }

    /// Returns an order with its objects; `None` where something of it has to be fetched.
    fn whole(&mut self, digest: &Digest) -> Option<Arc<WorkOrder>> {
        let order = self.order(digest)?;
        let digests: Vec<Digest> = order.objects().into_iter().cloned().collect();
        let objects = digests.into_iter().map(|digest| self.object(&digest).map(|object| (digest, object)));
        let objects = objects.collect::<Option<BTreeMap<_, _>>>()?;
        WholeOrder { order, objects }.join().ok().map(Arc::new)
    }
}

/// The tasks of an agent's members.
pub trait AgentTasks {
    /// Tells whether a member has a task.
    fn has(&self, cluster: &ClusterName) -> bool;
    /// Sends a command to a member's task.
    fn send(&mut self, cluster: &ClusterName, command: MemberCommand);
    /// Has every member say again what it holds.
    fn announce(&mut self);
    /// Notes the epoch of the server whose orders the members have; inventories carry it.
    fn set_epoch(&mut self, epoch: u64);
    /// Lets members of pools be written to until then.
    fn prolong(&mut self, epoch: u64, end: Uptime);
}

/// What a new list of members changed.
#[derive(Debug, Default)]
pub struct ChangedMembers {
    /// Members whose tasks began: they have no orders.
    pub started: BTreeSet<ClusterName>,
    /// Members that are gone; their tasks have ended.
    pub stopped: BTreeSet<ClusterName>,
}

/// One start of an agent.
#[derive(Debug)]
pub struct AgentState<D, T> {
    /// What it keeps.
    pub disk: D,
    /// The tasks of its members.
    pub tasks: T,
    /// What it has to report.
    pub outbox: Outbox,
    /// The orders that the tasks have.
    pub(super) given: OrderDigests,
    /// When its lease ends, or ended; `None` before the first.
    pub(super) leased_until: Option<Uptime>,
}

impl<D: AgentDisk, T: AgentTasks> AgentState<D, T> {
    /// Begins without orders: see [`AgentState::take_changed`].
    pub fn new(disk: D, mut tasks: T) -> Self {
        tasks.set_epoch(disk.epoch());
        Self { disk, tasks, outbox: Outbox::default(), given: OrderDigests::new(), leased_until: None }
    }

    /// Returns what it says to a server first.
    ///
    /// Without a lease it names no orders of members of pools: another agent may have delivered them since, and have the newer report.
    pub fn hello(&mut self, version: &str, instance: &str, pools: &BTreeSet<String>, now: Uptime) -> Hello {
        let mut running = self.given.clone();
        if self.leased_until.is_none_or(|end| end <= now) {
            let members = self.disk.assignment().members.iter();
            for member in members.filter(|member| member.pool.is_some()) {
                if let Some(orders) = running.get_mut(&member.cluster) {
                    orders.clear();
                }
            }
        }
        Hello {
            protocol: Protocols::default(),
            version: version.to_owned(),
            instance: instance.to_owned(),
            pools: pools.clone(),
            epoch: self.disk.epoch(),
            running,
        }
    }

    /// Notes whose tasks began, which have no orders, and has those reported whose tasks have ended.
    pub fn take_changed(&mut self, changed: ChangedMembers) {
        for cluster in changed.started.iter().chain(&changed.stopped) {
            self.given.remove(cluster);
            self.outbox.forget(cluster);
        }
        for cluster in changed.stopped {
            self.outbox.push(ToServer::Stopped { cluster });
        }
    }

    /// Gives members the orders of the assignment that they lack, as far as the disk has them.
    ///
    /// Only after no server gave a session: while one answers, it may have given members to somebody else.
    pub fn take_kept_orders(&mut self) {
        self.take_kept_orders_of(|_| true);
    }

    pub(super) fn take_kept_orders_of(&mut self, is_meant: impl Fn(&ClusterName) -> bool) {
        let Assignment { orders: kept, outdated, .. } = self.disk.assignment().clone();
        for (cluster, orders) in kept.into_iter().filter(|(cluster, _)| is_meant(cluster)) {
            if !self.tasks.has(&cluster) {
                continue;
            }
            let mut placements: BTreeSet<PlacementKey> = orders.keys().cloned().collect();
            placements.extend(outdated.get(&cluster).into_iter().flat_map(BTreeMap::keys).cloned());
            for (placement, digest) in orders {
                let is_given = self.given.get(&cluster).is_some_and(|given| given.contains_key(&placement));
                if is_given {
                    continue;
                }
                if let Some(order) = self.disk.whole(&digest) {
                    let reported = self.disk.report(&cluster, &placement);
                    self.tasks.send(&cluster, MemberCommand::Order { order, reported });
                    self.given.entry(cluster.clone()).or_default().insert(placement, digest);
                }
            }
            self.tasks.send(&cluster, MemberCommand::Placements(placements));
        }
    }

    /// Takes an event of a member's task.
    pub fn note(&mut self, event: MemberEvent) {
        // Its orders are here; the server need not send them again.
        if let MemberEvent::Restarted { cluster } = &event {
            let given = self.given.get(cluster).into_iter().flatten();
            for (placement, digest) in given.clone() {
                if let Some(order) = self.disk.whole(digest) {
                    let reported = self.disk.report(cluster, placement);
                    self.tasks.send(cluster, MemberCommand::Order { order, reported });
                }
            }
            let placements = given.map(|(placement, _)| placement.clone()).collect();
            self.tasks.send(cluster, MemberCommand::Placements(placements));
            return;
        }
        if let MemberEvent::Work { cluster, placement, status } = &event {
            self.disk.keep_report(cluster, placement, status);
        }
        let event = ToServer::from(event);
        if event.cluster().is_some_and(|cluster| self.tasks.has(cluster)) {
            self.outbox.push(event);
        }
    }
}
