//! One session of an agent with a server: what follows from a frame and an answer, when a heartbeat is due, and what is to be fetched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::agent::{AgentDisk, AgentState, AgentTasks, ChangedMembers, OrderDigests};
use crate as wire;
use crate::{AgentOrder, FetchedObject, FromServer, OBJECTS_MAX, Protocols, Reports, ToServer, WholeOrder};
use decide::snapshot::go_json;
use engine::MemberCommand;
use model::id::{ClusterName, Digest, PlacementKey};
use model::records::WorkStatus;
use model::uptime::Uptime;

/// Orders that are fetched together.
const ORDERS_MAX: usize = 64;
/// Heartbeats in a lease.
const BEATS: u32 = 3;
/// The part of a lease in which no write begins any more: one in so many.
const MARGIN_PART: u32 = 5;
/// Shortest lease that is taken at its word.
const LEASE_MIN: Duration = Duration::from_secs(1);

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
pub enum AfterFrame {
    /// Nothing.
    Nothing,
    /// Run exactly the members of the assignment, then call [`AgentSession::take_list`].
    SetMembers {
        /// Tasks of members of pools are replaced: while the agent had no lease somebody else may have delivered newer orders.
        restart_pools: bool,
    },
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
    /// The agent had no lease when the session began.
    restarts_pools: bool,
    seq: u64,
    in_flight: Vec<ToServer>,
    /// When the request was sent that has no answer yet.
    posted: Option<Uptime>,
    beat_at: Uptime,
    wanted: BTreeMap<(ClusterName, PlacementKey), WantedOrder>,
    batch: Option<OrderBatch>,
    is_fetching: bool,
    /// Members of which this session has told all placements.
    complete: BTreeSet<ClusterName>,
    /// Those placements, as long as the member's task lacks some of their orders.
    untold: BTreeMap<ClusterName, BTreeSet<PlacementKey>>,
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
            restarts_pools: agent.leased_until.is_none_or(|end| end <= now),
            seq: 0,
            in_flight: Vec::new(),
            posted: None,
            beat_at: now,
            wanted: BTreeMap::new(),
            batch: None,
            is_fetching: false,
            complete: BTreeSet::new(),
            untold: BTreeMap::new(),
        };
        Ok((session, epoch))
    }

    /// Returns when a heartbeat is due; `None` while a request has no answer.
    pub fn beat_at(&self) -> Option<Uptime> {
        self.posted.is_none().then_some(self.beat_at)
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

    /// The server has the request of this number. The lease counts from before that request.
    ///
    /// Returns whether it is the request that has no answer yet; nothing follows from the answer to an earlier one.
    pub fn take_ack<D: AgentDisk, T: AgentTasks>(&mut self, agent: &mut AgentState<D, T>, number: u64) -> bool {
        if number != self.seq {
            return false;
        }
        let Some(began) = self.posted else { return false };
        self.posted = None;
        self.in_flight.clear();
        if self.is_listed {
            let end = began.after(self.lease * (MARGIN_PART - 1) / MARGIN_PART);
            agent.leased_until = Some(end);
            agent.tasks.prolong(agent.disk.epoch(), end);
        }
        true
    }

    /// Ends the session: what no server has is reported in the next.
    pub fn end<D: AgentDisk, T: AgentTasks>(self, agent: &mut AgentState<D, T>) {
        agent.outbox.put_back(self.in_flight);
    }

    /// Takes a frame.
    pub fn take_frame<D: AgentDisk, T: AgentTasks>(
        &mut self,
        agent: &mut AgentState<D, T>,
        frame: FromServer,
    ) -> AfterFrame {
        match frame {
            FromServer::Members { source, health, members } => {
                let names: BTreeSet<&ClusterName> = members.iter().map(|member| &member.cluster).collect();
                self.wanted.retain(|(cluster, _), _| names.contains(cluster));
                self.complete.retain(|cluster| names.contains(cluster));
                self.untold.retain(|cluster, _| names.contains(cluster));
                let restart_pools = self.restarts_pools && !self.is_listed;
                let kept = agent.disk.assignment();
                kept.source = source;
                kept.health = health;
                kept.set_members(members, restart_pools);
                return AfterFrame::SetMembers { restart_pools };
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
                for orders in orders(agent) {
                    orders.entry(cluster.clone()).or_default().remove(&placement);
                }
                agent.tasks.send(&cluster, MemberCommand::Forget(placement.clone()));
                agent.disk.save_orders(&[(cluster, placement)]);
            }
            FromServer::Placements { cluster, placements } => {
                forget_others(agent, &cluster, &placements);
                // What was said about an order before the server sent it again counted for nothing there.
                agent.tasks.send(&cluster, MemberCommand::Announce);
                agent.tasks.send(&cluster, MemberCommand::ReportAgain);
                self.complete.insert(cluster.clone());
                self.untold.insert(cluster, placements);
                self.tell_placements(agent);
            }
            FromServer::Bye { reason } => return AfterFrame::Leave(reason),
            FromServer::Welcome { .. } | FromServer::Unknown => {}
        }
        AfterFrame::Nothing
    }

    /// Tells members' tasks which placements there are, as soon as they have the orders.
    fn tell_placements<D: AgentDisk, T: AgentTasks>(&mut self, agent: &mut AgentState<D, T>) {
        let of_batch = self.batch.iter().flat_map(|batch| batch.wanted.keys());
        let lacking: BTreeSet<&ClusterName> = self.wanted.keys().chain(of_batch).map(|(cluster, _)| cluster).collect();
        for (cluster, placements) in self.untold.extract_if(.., |cluster, _| !lacking.contains(cluster)) {
            agent.tasks.send(&cluster, MemberCommand::Placements(placements));
        }
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
            agent.take_kept_orders_of(|cluster| self.complete.contains(cluster));
        } else {
            self.is_listed = true;
            agent.tasks.announce();
            // The lease of this session begins with the next answer.
            self.beat_at = now;
        }
    }

    /// Tells whether orders wait for [`AgentSession::fetch`].
    pub fn has_waiting(&self) -> bool {
        !self.is_fetching && (self.batch.is_some() || !self.wanted.is_empty())
    }

    /// Takes one step with the orders that wait: returns what to fetch for some of them, or gives members those for which nothing lacks.
    ///
    /// One step, because thousands of orders may be on the disk, and a heartbeat is due meanwhile.
    pub fn fetch<D: AgentDisk, T: AgentTasks>(&mut self, agent: &mut AgentState<D, T>) -> Option<Fetch> {
        if !self.has_waiting() {
            return None;
        }
        let mut batch = self.batch.take().unwrap_or_else(|| self.next_batch(agent));
        let fetch = batch.lacking(&mut agent.disk);
        if fetch.is_some() {
            self.is_fetching = true;
            self.batch = Some(batch);
        } else {
            self.give(agent, batch);
        }
        fetch
    }

    fn next_batch<D: AgentDisk, T: AgentTasks>(&mut self, agent: &mut AgentState<D, T>) -> OrderBatch {
        let mut batch = OrderBatch::default();
        while batch.wanted.len() < ORDERS_MAX
            && let Some((key, wanted)) = self.wanted.pop_first()
        {
            if let Some(order) = agent.disk.order(&wanted.digest) {
                batch.orders.insert(wanted.digest.clone(), order);
            }
            batch.wanted.insert(key, wanted);
        }
        batch
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
        let mut changed = Vec::new();
        for ((cluster, placement), wanted) in batch.wanted {
            // A newer one is already known.
            let is_newest = !self.wanted.contains_key(&(cluster.clone(), placement.clone()));
            let Some(order) = batch.orders.get(&wanted.digest) else { continue };
            if !is_newest || !agent.tasks.has(&cluster) {
                continue;
            }
            let objects = order
                .objects()
                .into_iter()
                .filter_map(|digest| Some((digest.clone(), Arc::clone(batch.objects.get(digest)?))))
                .collect();
            match (WholeOrder { order: order.clone(), objects }).join() {
                Ok(order) => {
                    let reported =
                        wanted.reported.or_else(|| agent.disk.report_of(&cluster, &placement, &wanted.digest));
                    for orders in [&mut agent.given, &mut agent.disk.assignment().orders] {
                        orders.entry(cluster.clone()).or_default().insert(placement.clone(), wanted.digest.clone());
                    }
                    if let Some(outdated) = agent.disk.assignment().outdated.get_mut(&cluster) {
                        outdated.remove(&placement);
                    }
                    let commit = order.commit.short();
                    tracing::debug!(%cluster, %placement, commit, order = wanted.digest.short(), "order taken from the server");
                    let command = MemberCommand::Order { order: Arc::new(order), reported };
                    commands.push((cluster.clone(), command));
                    changed.push((cluster, placement));
                }
                Err(digest) => {
                    tracing::warn!(%cluster, %placement, object = digest.short(), "an order lacks an object that the server does not have; waiting for a newer order");
                }
            }
        }
        // Before a write: an agent that is killed and starts without a server must not go back to what was before.
        agent.disk.save_orders(&changed);
        for (cluster, command) in commands {
            agent.tasks.send(&cluster, command);
        }
        self.tell_placements(agent);
    }
}

/// Returns every list that names orders of an agent.
fn orders<D: AgentDisk, T: AgentTasks>(agent: &mut AgentState<D, T>) -> [&mut OrderDigests; 3] {
    let kept = agent.disk.assignment();
    [&mut agent.given, &mut kept.orders, &mut kept.outdated]
}

/// Forgets what the agent keeps of other placements of a member: it was away when they left.
fn forget_others<D: AgentDisk, T: AgentTasks>(
    agent: &mut AgentState<D, T>,
    cluster: &ClusterName,
    placements: &BTreeSet<PlacementKey>,
) {
    let mut others = BTreeSet::new();
    for orders in orders(agent) {
        let Some(orders) = orders.get_mut(cluster) else { continue };
        others.extend(orders.keys().filter(|placement| !placements.contains(placement)).cloned());
        orders.retain(|placement, _| placements.contains(placement));
    }
    if others.is_empty() {
        return;
    }
    let others: Vec<_> = others.into_iter().map(|placement| (cluster.clone(), placement)).collect();
    for (cluster, placement) in &others {
        agent.tasks.send(cluster, MemberCommand::Forget(placement.clone()));
    }
    agent.disk.save_orders(&others);
}

impl OrderBatch {
    /// Returns what it lacks; `None` where it is whole, or as whole as it gets.
    fn lacking(&mut self, disk: &mut impl AgentDisk) -> Option<Fetch> {
        let digests: BTreeSet<&Digest> = self.wanted.values().map(|wanted| &wanted.digest).collect();
        let missing =
            digests.into_iter().filter(|digest| !self.orders.contains_key(*digest) && !self.gone.contains(*digest));
        let orders: Vec<Digest> = missing.cloned().collect();
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

#[cfg(test)]
mod tests;
