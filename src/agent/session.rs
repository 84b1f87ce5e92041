//! One session with a server: frames in, orders and objects fetched by digest, reports out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, OptionFuture};
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::connect::{Connection, Endpoint, Error, Requests};
use super::fetch::{Fetched, fetch_objects, fetch_orders};
use super::run::{Agent, Standing};
use crate::clock::{self, Uptime};
use crate::core::MemberCommand;
use crate::model::id::{ClusterName, Digest, PlacementKey};
use crate::model::records::WorkStatus;
use crate::snapshot::go_json;
use crate::wire::{
    self, Acked, AgentOrder, FetchedObject, Frames, FromServer, Hello, OBJECTS_MAX, Protocols, REPORTS_PATH, Reports,
    SESSION_PATH, ToServer, WholeOrder,
};

/// Orders that are fetched together.
const ORDERS_MAX: usize = 64;
/// How long the first frame of a session may take.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(10);
/// How long saying goodbye may take.
const BYE_TIMEOUT: Duration = Duration::from_millis(500);
/// Heartbeats in a lease.
const BEATS: u32 = 3;
/// The part of a lease in which no write begins any more: one in so many.
const MARGIN_PART: u32 = 5;
/// Shortest lease that is taken at its word.
const LEASE_MIN: Duration = Duration::from_secs(1);

/// How a session ended.
pub(super) enum Ended {
    /// The agent is to end, and has said so.
    Stopped,
    /// The connection was cut, or none was made.
    Failed(Error),
    /// The server ended it, or the agent had to.
    Left(String),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// An order to give to a member's task.
struct Wanted {
    digest: Digest,
    reported: Option<Arc<WorkStatus>>,
}

/// Orders that are fetched together, as far as they are here.
#[derive(Default)]
struct Batch {
    wanted: BTreeMap<(ClusterName, PlacementKey), Wanted>,
    orders: BTreeMap<Digest, AgentOrder>,
    objects: BTreeMap<Digest, Arc<Value>>,
    /// What the server has no more: something newer follows.
    gone: BTreeSet<Digest>,
}

struct Session {
    requests: Requests,
    /// Cut with the session.
    _connection: Connection,
    id: String,
    lease: Duration,
    body: Incoming,
    frames: Frames,
    /// The server has sent the members: before that nothing is known about whose they are now.
    is_listed: bool,
    seq: u64,
    in_flight: Vec<ToServer>,
    posting: Option<BoxFuture<'static, (Uptime, Result<Acked, Error>)>>,
    beat_at: Instant,
    wanted: BTreeMap<(ClusterName, PlacementKey), Wanted>,
    batch: Option<Batch>,
    fetching: Option<BoxFuture<'static, Result<Fetched, Error>>>,
}

impl Agent {
    /// Opens a session with a server and keeps it.
    pub(super) async fn session(&mut self, endpoint: &Endpoint, stop: &mut watch::Receiver<bool>) -> Ended {
        let hello = Hello {
            protocol: Protocols::default(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instance: self.instance.clone(),
            pools: self.pools.clone(),
            epoch: self.disk.epoch,
            running: self.given.clone(),
        };
        let opened = {
            let mut opening = Box::pin(Session::open(&self.connector, endpoint, hello));
            loop {
                tokio::select! {
                    biased;
                    _ = stop.changed() => break None,
                    opened = &mut opening => break Some(opened),
                }
            }
        };
        let (mut session, epoch) = match opened {
            None => {
                self.members.stop().await;
                return Ended::Stopped;
            }
            Some(Err(ended)) => return ended,
            Some(Ok(opened)) => opened,
        };
        if epoch < self.disk.epoch {
            let seen = self.disk.epoch;
            return Ended::Left(format!("it has epoch {epoch}, and a server with epoch {seen} has replaced it"));
        }
        self.disk.note_epoch(epoch);
        self.members.set_epoch(epoch);
        tracing::info!(server = %endpoint, epoch, "connected");
        self.standing.send_replace(Standing::Connected(endpoint.to_string()));
        let ended = session.keep(self, stop).await;
        self.outbox.put_back(std::mem::take(&mut session.in_flight));
        ended
    }
}

impl Session {
    async fn open(
        connector: &super::connect::Connector,
        endpoint: &Endpoint,
        hello: Hello,
    ) -> Result<(Self, u64), Ended> {
        let connection = connector.connect(endpoint).await?;
        let mut requests = connection.requests();
        let body = wire::pack(&hello).map_err(|source| requests.unreadable(source))?;
        let answer = requests.send(Method::POST, SESSION_PATH, body).await?;
        let mut session = Self {
            requests,
            _connection: connection,
            id: String::new(),
            lease: LEASE_MIN,
            body: answer.into_body(),
            frames: Frames::default(),
            is_listed: false,
            seq: 0,
            in_flight: Vec::new(),
            posting: None,
            beat_at: Instant::now(),
            wanted: BTreeMap::new(),
            batch: None,
            fetching: None,
        };
        let first = timeout(WELCOME_TIMEOUT, session.next()).await;
        match first.map_err(|_| session.requests.unreachable("no welcome in time"))?? {
            FromServer::Welcome { session: id, protocol, epoch, lease_ms } => {
                if Protocols::default().common(Protocols { oldest: protocol, newest: protocol }).is_none() {
                    return Err(Ended::Left(format!(
                        "it speaks version {protocol} of the protocol, which this agent does not"
                    )));
                }
                session.id = id;
                session.lease = Duration::from_millis(lease_ms).max(LEASE_MIN);
                Ok((session, epoch))
            }
            FromServer::Bye { reason } => Err(Ended::Left(reason)),
            _ => Err(Ended::Left("it did not begin with a welcome".to_owned())),
        }
    }

    /// Returns the next frame.
    ///
    /// # Cancel safety
    /// Nothing is lost: bytes are kept until they are a frame.
    async fn next(&mut self) -> Result<FromServer, Error> {
        loop {
            let frame = self.frames.take().map_err(|source| self.requests.unreadable(source))?;
            if let Some(frame) = frame {
                return Ok(frame);
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Some(bytes) = frame.data_ref() {
                        self.frames.push(bytes);
                    }
                }
                Some(Err(error)) => return Err(self.requests.unreachable(error.to_string())),
                None => return Err(self.requests.unreachable("it closed the session")),
            }
        }
    }

    async fn keep(&mut self, agent: &mut Agent, stop: &mut watch::Receiver<bool>) -> Ended {
        loop {
            self.post(agent);
            if let Err(error) = self.fetch(agent) {
                return error.into();
            }
            let beat_at = self.beat_at;
            let (mut posting, mut fetching) = (self.posting.take(), self.fetching.take());
            let done = tokio::select! {
                biased;
                _ = stop.changed() => Done::Stop,
                Some((began, acked)) = OptionFuture::from(posting.as_mut()) => Done::Posted(began, acked),
                frame = self.next() => Done::Frame(frame),
                Some(fetched) = OptionFuture::from(fetching.as_mut()) => Done::Fetched(fetched),
                Some(event) = agent.inbox.recv() => Done::Event(event),
                () = tokio::time::sleep_until(beat_at), if posting.is_none() => Done::Nothing,
            };
            // What is still under way.
            (self.posting, self.fetching) = (posting, fetching);
            match done {
                Done::Stop => {
                    self.say_goodbye(agent).await;
                    return Ended::Stopped;
                }
                Done::Posted(began, acked) => {
                    self.posting = None;
                    if let Err(error) = acked {
                        return error.into();
                    }
                    self.in_flight.clear();
                    if self.is_listed {
                        let end = began.after(self.lease - self.lease / MARGIN_PART);
                        agent.members.prolong(agent.disk.epoch, end);
                    }
                }
                Done::Frame(Err(error)) => return error.into(),
                Done::Frame(Ok(FromServer::Bye { reason })) => return Ended::Left(reason),
                Done::Frame(Ok(frame)) => self.handle(agent, frame).await,
                Done::Fetched(fetched) => {
                    self.fetching = None;
                    let taken = fetched.and_then(|fetched| self.take_fetched(agent, fetched));
                    if let Err(error) = taken {
                        return error.into();
                    }
                }
                Done::Event(event) => {
                    agent.note(event);
                    while let Ok(event) = agent.inbox.try_recv() {
                        agent.note(event);
                    }
                }
                Done::Nothing => {}
            }
        }
    }

    /// Sends waiting reports, or a heartbeat where one is due.
    fn post(&mut self, agent: &mut Agent) {
        let has_news = self.is_listed && !agent.outbox.is_empty();
        if self.posting.is_some() || !has_news && Instant::now() < self.beat_at {
            return;
        }
        self.in_flight = if has_news { agent.outbox.take() } else { Vec::new() };
        self.posting = Some(self.request());
        self.beat_at = Instant::now() + self.lease / BEATS;
    }

    /// Returns the request that brings what is in flight.
    fn request(&mut self) -> BoxFuture<'static, (Uptime, Result<Acked, Error>)> {
        self.seq += 1;
        let reports = Reports { session: self.id.clone(), seq: self.seq, events: self.in_flight.clone() };
        let mut requests = self.requests.clone();
        async move {
            let began = clock::uptime();
            let answer = match wire::pack(&reports) {
                Ok(body) => requests.ask(Method::POST, REPORTS_PATH, body).await,
                Err(source) => Err(requests.unreadable(source)),
            };
            (began, answer)
        }
        .boxed()
    }

    /// Stops all members, reports what is left, and says that the agent ends.
    async fn say_goodbye(&mut self, agent: &mut Agent) {
        agent.members.stop().await;
        agent.outbox.push(ToServer::Bye);
        let goodbye = async {
            if let Some(posting) = self.posting.take() {
                drop(posting.await);
            }
            self.in_flight = agent.outbox.take();
            drop(self.request().await);
        };
        // The lease ends it otherwise.
        drop(timeout(BYE_TIMEOUT, goodbye).await);
    }

    async fn handle(&mut self, agent: &mut Agent, frame: FromServer) {
        match frame {
            FromServer::Members { source, health, members } => {
                let state = &mut agent.disk.state;
                let names: BTreeSet<&ClusterName> = members.iter().map(|member| &member.cluster).collect();
                state.orders.retain(|cluster, _| names.contains(cluster));
                self.wanted.retain(|(cluster, _), _| names.contains(cluster));
                (state.source, state.health, state.members) = (source, health, members);
                agent.take_members().await;
                agent.disk.save();
                if self.is_listed {
                    // One that is reached in another way now continues with the orders of this session.
                    agent.take_kept_orders();
                } else {
                    self.is_listed = true;
                    agent.members.announce();
                    // The lease of this session begins with the next answer.
                    self.beat_at = Instant::now();
                }
            }
            FromServer::Order { cluster, placement, digest, reported } => {
                let given = agent.given.get(&cluster).and_then(|given| given.get(&placement));
                let key = (cluster, placement);
                if given == Some(&digest) {
                    // It overtakes one that is being fetched.
                    self.wanted.remove(&key);
                    if let Some(batch) = &mut self.batch {
                        batch.wanted.remove(&key);
                    }
                } else if agent.members.has(&key.0) {
                    self.wanted.insert(key, Wanted { digest, reported });
                }
            }
            FromServer::Forget { cluster, placement } => {
                let key = (cluster, placement);
                self.wanted.remove(&key);
                if let Some(batch) = &mut self.batch {
                    batch.wanted.remove(&key);
                }
                let (cluster, placement) = key;
                for orders in [&mut agent.given, &mut agent.disk.state.orders] {
                    orders.entry(cluster.clone()).or_default().remove(&placement);
                }
                agent.members.send(&cluster, MemberCommand::Forget(placement));
                agent.disk.save();
            }
            FromServer::Welcome { .. } | FromServer::Bye { .. } | FromServer::Unknown => {}
        }
    }

    /// Begins the next fetch, or gives a batch to its members where nothing lacks any more.
    fn fetch(&mut self, agent: &mut Agent) -> Result<(), Error> {
        while self.fetching.is_none() {
            let Some(batch) = &mut self.batch else {
                if self.wanted.is_empty() {
                    return Ok(());
                }
                let mut batch = Batch::default();
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
            let digests: BTreeSet<&Digest> = batch.wanted.values().map(|wanted| &wanted.digest).collect();
            let lacks = |digest: &&&Digest| !batch.orders.contains_key(**digest) && !batch.gone.contains(**digest);
            let lacking: Vec<Digest> = digests.iter().filter(lacks).map(|digest| (*digest).clone()).collect();
            if !lacking.is_empty() {
                self.fetching = Some(fetch_orders(self.requests.clone(), lacking).boxed());
                return Ok(());
            }
            let needed: BTreeSet<Digest> = batch.orders.values().flat_map(AgentOrder::objects).cloned().collect();
            let mut lacking = Vec::new();
            for digest in needed {
                if batch.objects.contains_key(&digest) || batch.gone.contains(&digest) {
                    continue;
                }
                match agent.disk.object(&digest) {
                    Some(object) => drop(batch.objects.insert(digest, object)),
                    None => lacking.push(digest),
                }
            }
            if !lacking.is_empty() {
                lacking.truncate(OBJECTS_MAX);
                self.fetching = Some(fetch_objects(self.requests.clone(), lacking).boxed());
                return Ok(());
            }
            let batch = self.batch.take().unwrap_or_default();
            self.give(agent, batch);
        }
        Ok(())
    }

    fn take_fetched(&mut self, agent: &mut Agent, fetched: Fetched) -> Result<(), Error> {
        let Some(batch) = &mut self.batch else { return Ok(()) };
        match fetched {
            Fetched::Orders(orders) => {
                for (digest, json) in orders {
                    let kept = match json {
                        Ok(json) => {
                            agent.disk.keep_order(&digest, &json).map_err(|source| self.requests.unreadable(source))?
                        }
                        // Another order has replaced it meanwhile.
                        Err(Error::Refused { status, .. }) if status == http::StatusCode::NOT_FOUND => None,
                        Err(error) => return Err(error),
                    };
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
    fn give(&mut self, agent: &mut Agent, batch: Batch) {
        let mut commands = Vec::new();
        for ((cluster, placement), wanted) in batch.wanted {
            // A newer one is already known.
            let is_newest = !self.wanted.contains_key(&(cluster.clone(), placement.clone()));
            let Some(order) = batch.orders.get(&wanted.digest).filter(|_| is_newest && agent.members.has(&cluster))
            else {
                continue;
            };
            match (WholeOrder { order: order.clone(), objects: batch.objects.clone() }).join() {
                Ok(order) => {
                    for orders in [&mut agent.given, &mut agent.disk.state.orders] {
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
            agent.members.send(&cluster, command);
        }
    }
}

enum Done {
    Stop,
    Posted(Uptime, Result<Acked, Error>),
    Frame(Result<FromServer, Error>),
    Fetched(Result<Fetched, Error>),
    Event(crate::core::MemberEvent),
    Nothing,
}
