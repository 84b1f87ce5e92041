//! The agent's side: what follows from a frame, an event and an answer, when a heartbeat is due, and until when members may be written to.
//!
//! Whoever runs it brings requests to the server and frames from it, and has a disk and tasks of members: [`AgentDisk`], [`AgentTasks`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::outbox::Outbox;
use crate::core::{MemberCommand, MemberEvent};
use crate::model::id::{ClusterName, Digest, PlacementKey};
use crate::model::records::WorkStatus;
use crate::model::uptime::Uptime;
use crate::model::work::{SourceName, WorkOrder};
use crate::snapshot::go_json;
use crate::wire::{
    self, AgentHealth, AgentMember, AgentOrder, FetchedObject, FromServer, Hello, OBJECTS_MAX, Protocols, Reports,
    ToServer, WholeOrder,
};

/// Orders that are fetched together.
const ORDERS_MAX: usize = 64;
/// Heartbeats in a lease.
const BEATS: u32 = 3;
/// The part of a lease in which no write begins any more: one in so many.
const MARGIN_PART: u32 = 5;
/// Shortest lease that is taken at its word.
const LEASE_MIN: Duration = Duration::from_secs(1);

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
    given: OrderDigests,
}

impl<D: AgentDisk, T: AgentTasks> AgentState<D, T> {
    /// Begins without orders: see [`AgentState::take_changed`].
    pub fn new(disk: D, mut tasks: T) -> Self {
        tasks.set_epoch(disk.epoch());
        Self { disk, tasks, outbox: Outbox::default(), given: OrderDigests::new() }
    }

    /// Returns what it says to a server first.
    pub fn hello(&self, version: &str, instance: &str, pools: &BTreeSet<String>) -> Hello {
        Hello {
            protocol: Protocols::default(),
            version: version.to_owned(),
            instance: instance.to_owned(),
            pools: pools.clone(),
            epoch: self.disk.epoch(),
            running: self.given.clone(),
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
        for (cluster, orders) in self.disk.assignment().orders.clone() {
            for (placement, digest) in orders {
                let is_given = self.given.get(&cluster).is_some_and(|given| given.contains_key(&placement));
                if is_given || !self.tasks.has(&cluster) {
                    continue;
                }
                if let Some(order) = self.disk.whole(&digest) {
                    let reported = self.disk.report(&cluster, &placement);
                    self.tasks.send(&cluster, MemberCommand::Order { order, reported });
                    self.given.entry(cluster.clone()).or_default().insert(placement, digest);
                }
            }
        }
    }

    /// Takes an event of a member's task.
    pub fn note(&mut self, event: MemberEvent) {
        // Its orders are here; the server need not send them again.
        if let MemberEvent::Restarted { cluster } = &event {
            for (placement, digest) in self.given.get(cluster).into_iter().flatten() {
                if let Some(order) = self.disk.whole(digest) {
                    let reported = self.disk.report(cluster, placement);
                    self.tasks.send(cluster, MemberCommand::Order { order, reported });
                }
            }
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

/// An order to give to a member's task.
#[derive(Debug)]
struct WantedOrder {
    digest: Digest,
    reported: Option<Arc<WorkStatus>>,
}

/// Orders that are fetched together, as far as they are here.
#[derive(Debug, Default)]
struct OrderBatch {
    wanted: BTreeMap<(ClusterName, PlacementKey), WantedOrder>,
    orders: BTreeMap<Digest, AgentOrder>,
    objects: BTreeMap<Digest, Arc<Value>>,
    /// What the server has no more: something newer follows.
    gone: BTreeSet<Digest>,
}

/// What to fetch from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// These orders.
    Orders(Vec<Digest>),
    /// These objects.
    Objects(Vec<Digest>),
}

/// What a fetch brought.
#[derive(Debug)]
pub enum Fetched {
    /// Orders as JSON; `None` where the server has it no more.
    Orders(Vec<(Digest, Option<Vec<u8>>)>),
    /// The digests that were asked for, and what came.
    Objects(Vec<Digest>, Vec<FetchedObject>),
}

/// What is to be done with a frame beyond what is done already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing.
    Nothing,
    /// Run exactly the members of the assignment, then call [`AgentSession::take_list`].
    SetMembers,
    /// The server ends the session, and says why.
    Leave(String),
}

/// One session with a server, without the connection.
#[derive(Debug)]
pub struct AgentSession {
    id: String,
    lease: Duration,
    /// The server has sent the members: before that nothing is known about whose they are now.
    is_listed: bool,
    seq: u64,
    in_flight: Vec<ToServer>,
    /// When the request was sent that has no answer yet.
    posted: Option<Uptime>,
    beat_at: Uptime,
    wanted: BTreeMap<(ClusterName, PlacementKey), WantedOrder>,
    batch: Option<OrderBatch>,
    is_fetching: bool,
}

impl AgentSession {
    /// Begins with the first frame of a server. Returns the session and the server's epoch.
    ///
    /// # Errors
    /// Why the agent leaves the server, for people.
    pub fn welcome<D: AgentDisk, T: AgentTasks>(
        agent: &mut AgentState<D, T>,
        first: FromServer,
        now: Uptime,
    ) -> Result<(Self, u64), String> {
        let (id, protocol, epoch, lease_ms) = match first {
            FromServer::Welcome { session, protocol, epoch, lease_ms } => (session, protocol, epoch, lease_ms),
            FromServer::Bye { reason } => return Err(reason),
            _ => return Err("it did not begin with a welcome".to_owned()),
        };
        if Protocols::default().common(Protocols { oldest: protocol, newest: protocol }).is_none() {
            return Err(format!("it speaks version {protocol} of the protocol, which this agent does not"));
        }
        let seen = agent.disk.epoch();
        if epoch < seen {
            return Err(format!("it has epoch {epoch}, and a server with epoch {seen} has replaced it"));
        }
        agent.disk.note_epoch(epoch);
        agent.tasks.set_epoch(epoch);
        let session = Self {
            id,
            lease: Duration::from_millis(lease_ms).max(LEASE_MIN),
            is_listed: false,
            seq: 0,
            in_flight: Vec::new(),
            posted: None,
            beat_at: now,
            wanted: BTreeMap::new(),
            batch: None,
            is_fetching: false,
        };
        Ok((session, epoch))
    }

    /// Returns the name that the server gave it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns when a heartbeat is due; `None` while a request has no answer.
    pub fn beat_at(&self) -> Option<Uptime> {
        Some(self.beat_at).filter(|_| self.posted.is_none())
    }

    /// Returns the request that is to be sent now: waiting reports, or a heartbeat where one is due.
    pub fn post<D: AgentDisk, T: AgentTasks>(&mut self, agent: &mut AgentState<D, T>, now: Uptime) -> Option<Reports> {
        let has_news = self.is_listed && !agent.outbox.is_empty();
        if self.posted.is_some() || !has_news && now < self.beat_at {
            return None;
        }
        self.in_flight = if has_news { agent.outbox.take() } else { Vec::new() };
        self.beat_at = now.after(self.lease / BEATS);
        Some(self.request(now))
    }

    /// Returns the last request, after all members have been stopped: what is left to report, and that the agent ends.
    pub fn goodbye<D: AgentDisk, T: AgentTasks>(&mut self, agent: &mut AgentState<D, T>, now: Uptime) -> Reports {
        agent.outbox.push(ToServer::Bye);
        self.in_flight = agent.outbox.take();
        self.request(now)
    }

    fn request(&mut self, now: Uptime) -> Reports {
        self.seq += 1;
        self.posted = Some(now);
        Reports { session: self.id.clone(), seq: self.seq, events: self.in_flight.clone() }
    }

    /// The server has what was sent. The lease counts from before the request.
    pub fn take_ack<D: AgentDisk, T: AgentTasks>(&mut self, agent: &mut AgentState<D, T>) {
        self.in_flight.clear();
        let Some(began) = self.posted.take().filter(|_| self.is_listed) else { return };
        agent.tasks.prolong(agent.disk.epoch(), began.after(self.lease - self.lease / MARGIN_PART));
    }

    /// Ends the session: what no server has is reported in the next.
    pub fn end<D: AgentDisk, T: AgentTasks>(self, agent: &mut AgentState<D, T>) {
        agent.outbox.put_back(self.in_flight);
    }

    /// Takes a frame.
    pub fn take_frame<D: AgentDisk, T: AgentTasks>(&mut self, agent: &mut AgentState<D, T>, frame: FromServer) -> Next {
        match frame {
            FromServer::Members { source, health, members } => {
                let kept = agent.disk.assignment();
                let names: BTreeSet<&ClusterName> = members.iter().map(|member| &member.cluster).collect();
                kept.orders.retain(|cluster, _| names.contains(cluster));
                self.wanted.retain(|(cluster, _), _| names.contains(cluster));
                (kept.source, kept.health, kept.members) = (source, health, members);
                return Next::SetMembers;
            }
            FromServer::Order { cluster, placement, digest, reported } => {
                let given = agent.given.get(&cluster).and_then(|given| given.get(&placement));
                let key = (cluster, placement);
                if given == Some(&digest) {
                    // It overtakes one that is being fetched.
                    self.unwant(&key);
                } else if agent.tasks.has(&key.0) {
                    self.wanted.insert(key, WantedOrder { digest, reported });
                }
            }
            FromServer::Forget { cluster, placement } => {
                let key = (cluster, placement);
                self.unwant(&key);
                let (cluster, placement) = key;
                for orders in [&mut agent.given, &mut agent.disk.assignment().orders] {
                    orders.entry(cluster.clone()).or_default().remove(&placement);
                }
                agent.tasks.send(&cluster, MemberCommand::Forget(placement));
                agent.disk.save();
            }
            FromServer::Bye { reason } => return Next::Leave(reason),
            FromServer::Welcome { .. } | FromServer::Unknown => {}
        }
        Next::Nothing
    }

    fn unwant(&mut self, key: &(ClusterName, PlacementKey)) {
        self.wanted.remove(key);
        if let Some(batch) = &mut self.batch {
            batch.wanted.remove(key);
        }
    }

    /// The members of the assignment run.
    pub fn take_list<D: AgentDisk, T: AgentTasks>(
        &mut self,
        agent: &mut AgentState<D, T>,
        changed: ChangedMembers,
        now: Uptime,
    ) {
        agent.take_changed(changed);
        agent.disk.save();
        if self.is_listed {
            // One that is reached in another way now continues with the orders of this session.
            agent.take_kept_orders();
        } else {
            self.is_listed = true;
            agent.tasks.announce();
            // The lease of this session begins with the next answer.
            self.beat_at = now;
        }
    }

    /// Returns what to fetch next; gives orders to members where nothing lacks any more.
    pub fn fetch<D: AgentDisk, T: AgentTasks>(&mut self, agent: &mut AgentState<D, T>) -> Option<Fetch> {
        while !self.is_fetching {
            let Some(batch) = &mut self.batch else {
                if self.wanted.is_empty() {
                    return None;
                }
                let mut batch = OrderBatch::default();
                while batch.wanted.len() < ORDERS_MAX
                    && let Some((key, wanted)) = self.wanted.pop_first()
                {
                    if let Some(order) = agent.disk.order(&wanted.digest) {
                        batch.orders.insert(wanted.digest.clone(), order);
                    }
                    batch.wanted.insert(key, wanted);
                }
                self.batch = Some(batch);
                continue;
            };
            let fetch = batch.lacking(&mut agent.disk);
            if fetch.is_some() {
                self.is_fetching = true;
                return fetch;
            }
            let batch = self.batch.take().unwrap_or_default();
            self.give(agent, batch);
        }
        None
    }

    /// Takes what a fetch brought.
    ///
    /// # Errors
    /// An order's form is another than this version knows.
    pub fn take_fetched<D: AgentDisk, T: AgentTasks>(
        &mut self,
        agent: &mut AgentState<D, T>,
        fetched: Fetched,
    ) -> Result<(), wire::Error> {
        self.is_fetching = false;
        let Some(batch) = &mut self.batch else { return Ok(()) };
        match fetched {
            Fetched::Orders(orders) => {
                for (digest, json) in orders {
                    let kept = json.map(|json| agent.disk.keep_order(&digest, &json)).transpose()?.flatten();
                    match kept {
                        Some(order) => drop(batch.orders.insert(digest, order)),
                        None => drop(batch.gone.insert(digest)),
                    }
                }
            }
            Fetched::Objects(asked, objects) => {
                for FetchedObject { digest, object } in objects {
                    if Digest::new(format!("{:x}", Sha256::digest(go_json(&object)))) == digest
                        && asked.contains(&digest)
                    {
                        agent.disk.keep_object(&digest, &object);
                        batch.objects.insert(digest, object);
                    }
                }
                batch.gone.extend(asked.into_iter().filter(|digest| !batch.objects.contains_key(digest)));
            }
        }
        Ok(())
    }

    /// Gives members the orders of a batch that are whole.
    fn give<D: AgentDisk, T: AgentTasks>(&mut self, agent: &mut AgentState<D, T>, batch: OrderBatch) {
        let mut commands = Vec::new();
        for ((cluster, placement), wanted) in batch.wanted {
            // A newer one is already known.
            let is_newest = !self.wanted.contains_key(&(cluster.clone(), placement.clone()));
            let Some(order) = batch.orders.get(&wanted.digest).filter(|_| is_newest && agent.tasks.has(&cluster))
            else {
                continue;
            };
            match (WholeOrder { order: order.clone(), objects: batch.objects.clone() }).join() {
                Ok(order) => {
                    for orders in [&mut agent.given, &mut agent.disk.assignment().orders] {
                        orders.entry(cluster.clone()).or_default().insert(placement.clone(), wanted.digest.clone());
                    }
                    let command = MemberCommand::Order { order: Arc::new(order), reported: wanted.reported };
                    commands.push((cluster, command));
                }
                Err(digest) => {
                    tracing::warn!(%cluster, %placement, object = digest.short(), "an order lacks an object that the server does not have; waiting for a newer order");
                }
            }
        }
        // Before a write: an agent that is killed and starts without a server must not go back to what was before.
        agent.disk.save();
        for (cluster, command) in commands {
            agent.tasks.send(&cluster, command);
        }
    }
}

impl OrderBatch {
    /// Returns what it lacks; `None` where it is whole, or as whole as it gets.
    fn lacking(&mut self, disk: &mut impl AgentDisk) -> Option<Fetch> {
        let digests: BTreeSet<&Digest> = self.wanted.values().map(|wanted| &wanted.digest).collect();
        let lacks = |digest: &&&Digest| !self.orders.contains_key(**digest) && !self.gone.contains(**digest);
        let orders: Vec<Digest> = digests.iter().filter(lacks).map(|digest| (*digest).clone()).collect();
        if !orders.is_empty() {
            return Some(Fetch::Orders(orders));
        }
        let needed: BTreeSet<Digest> = self.orders.values().flat_map(AgentOrder::objects).cloned().collect();
        let mut objects = Vec::new();
        for digest in needed {
            if self.objects.contains_key(&digest) || self.gone.contains(&digest) {
                continue;
            }
            match disk.object(&digest) {
                Some(object) => drop(self.objects.insert(digest, object)),
                None => objects.push(digest),
            }
        }
        objects.truncate(OBJECTS_MAX);
        (!objects.is_empty()).then_some(Fetch::Objects(objects))
    }
}
