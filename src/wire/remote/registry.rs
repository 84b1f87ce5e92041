//! Which agents are connected and which of them has which member: the state behind the daemon's listener.
//!
//! A member of a pool has one writer at most. It moves to another agent when its agent has said that it stopped it, or when the lease of
//! its agent has run out; the lease counts from the last request that came from the agent. Agents count it from before that request.

mod orders;
mod settle;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::credentials::{Credential, Credentials};
use super::session::{AgentContent, Pending, RemoteSession};
use crate::{AgentHealth, AgentMember, AgentReach, FromServer, Hello, Protocols, Reports, ToServer};
use engine::MemberEvent;
use engine::agent_tokens::AgentTokens;
use model::agent::AgentChoice;
use model::id::{ClusterName, Digest, PlacementKey};
use model::uptime::Uptime;
use model::work::{SourceName, WorkOrder};

/// How long a member waits for its agent before it counts as offline: after a restart of the daemon agents need a moment to connect.
const FIRST_WAIT: Duration = Duration::from_secs(5);

/// Who writes to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Writer {
    /// Nobody.
    Nobody,
    /// A connected agent.
    Agent(String),
    /// A connected agent that is to stop, until when it has to say that it did.
    Leaving(String, Uptime),
    /// An agent that is gone may write until then.
    Gone(String, Uptime),
}

/// A member that an agent delivers to.
#[derive(Debug)]
struct Remote {
    /// Tells this registration from an earlier one of the same name.
    id: u64,
    choice: AgentChoice,
    reach: AgentReach,
    orders: BTreeMap<PlacementKey, CurrentOrder>,
    writer: Writer,
    /// Until when it waits for its first agent without a word.
    silent_until: Option<Uptime>,
}

#[derive(Debug)]
struct CurrentOrder {
    digest: Digest,
    order: Arc<WorkOrder>,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionRefusal {
    /// The agent may not join a pool.
    Pool(String),
    /// Another session of this name is alive.
    Alive,
    /// There is no common version of the protocol.
    Protocol,
    /// The session is over.
    Over,
    /// The daemon ends.
    Ending,
}

/// What the stream of a session does next.
#[derive(Debug)]
pub enum NextFrame {
    /// Send this.
    Frame(Box<FromServer>),
    /// Wait until it is woken.
    Wait,
    /// End after this.
    End,
}

/// What was done with reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The highest number that is known.
    pub acked: u64,
    /// Events about members of others.
    pub refused: usize,
}

/// What follows from what a registry was told.
#[derive(Debug)]
pub enum RegistryEffect {
    /// The core hears this, by the registration of this number.
    Event(u64, MemberEvent),
    /// No agent writes any more to this member, which has no registration.
    Parted(ClusterName),
    /// The stream of this session has something to send.
    Wake(String),
    /// This session has ended: its connection ends after its last words.
    HangUp(String),
}

/// The settings of a registry.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// The epoch of the leader.
    pub epoch: u64,
    /// How long a silent agent keeps its members.
    pub lease: Duration,
    /// The name of the source in inventories.
    pub source: SourceName,
    /// When objects are available.
    pub health: AgentHealth,
    /// Agents can connect.
    pub listens: bool,
}

/// Everything about agents.
#[derive(Debug)]
pub struct Registry {
    settings: AgentSettings,
    /// Agents of an earlier leader may write to members of pools until then; `None` afterwards.
    pools_from: Option<Uptime>,
    /// Who may connect.
    pub credentials: Credentials,
    members: BTreeMap<ClusterName, Remote>,
    /// Who still writes to members whose entry is gone: another entry may bring them back for another agent.
    parting: BTreeMap<ClusterName, Writer>,
    sessions: BTreeMap<String, RemoteSession>,
    /// Ended sessions whose last word is still to be sent, by id.
    farewells: BTreeMap<String, String>,
    /// When time changes something next, at the earliest. Until then requests that change nothing cost nothing for each member.
    due: Option<Uptime>,
    next_id: u64,
    is_closed: bool,
    effects: Vec<RegistryEffect>,
    /// Sessions that were opened.
    pub opened: u64,
}

impl Registry {
    /// Creates the registry of a daemon that begins now, without members and agents.
    pub fn new(settings: AgentSettings, now: Uptime) -> Self {
        let pools_from = Some(now.after(settings.lease));
        Self {
            settings,
            pools_from,
            credentials: Credentials::default(),
            members: BTreeMap::new(),
            parting: BTreeMap::new(),
            sessions: BTreeMap::new(),
            farewells: BTreeMap::new(),
            due: pools_from,
            next_id: 0,
            is_closed: false,
            effects: Vec::new(),
            opened: 0,
        }
    }

    /// Returns what is to be done, in order; the caller does it before it tells more.
    pub fn take_effects(&mut self) -> Vec<RegistryEffect> {
        std::mem::take(&mut self.effects)
    }

    /// Returns how many agents are connected.
    pub fn connected(&self) -> usize {
        self.sessions.len()
    }

    /// Adds a member; returns what to remove or command it by.
    pub fn add(&mut self, cluster: &ClusterName, choice: AgentChoice, reach: AgentReach, now: Uptime) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        let earlier =
            self.members.remove(cluster).map(|earlier| earlier.writer).or_else(|| self.parting.remove(cluster));
        // Who wrote to it under an earlier entry may still do so. An agent that was not told to stop it yet only changes how.
        let writer = match earlier {
            Some(Writer::Leaving(agent, _)) if self.sessions.get(&agent).is_some_and(|session| session.lists) => {
                Writer::Agent(agent)
            }
            earlier => earlier.unwrap_or(Writer::Nobody),
        };
        let silent_until = Some(now.after(FIRST_WAIT));
        let remote = Remote { id, choice, reach, orders: BTreeMap::new(), writer, silent_until };
        self.members.insert(cluster.clone(), remote);
        self.settle(now);
        id
    }

    /// Tells whether an agent may still write to a member that has no registration: see [`RegistryEffect::Parted`].
    pub fn is_parting(&self, cluster: &ClusterName) -> bool {
        self.parting.contains_key(cluster)
    }

    /// Removes a member: its agent stops its task, and nothing of it is removed.
    pub fn remove(&mut self, cluster: &ClusterName, id: u64, now: Uptime) {
        if self.members.get(cluster).is_none_or(|remote| remote.id != id) {
            return;
        }
        let removed = self.members.remove(cluster);
        let parting = removed.as_ref().and_then(|remote| match &remote.writer {
            Writer::Nobody => None,
            Writer::Agent(agent) if self.sessions.get(agent).is_some_and(|session| session.never_ran(cluster)) => None,
            Writer::Agent(agent) => Some(Writer::Leaving(agent.clone(), now.after(self.settings.lease))),
            leaving => Some(leaving.clone()),
        });
        self.parting.extend(parting.map(|writer| (cluster.clone(), writer)));
        for session in self.sessions.values_mut() {
            if session.members.remove(cluster) {
                session.pending.retain(|(of, _), _| of != cluster);
                session.placements.remove(cluster);
                for order in removed.iter().flat_map(|remote| remote.orders.values()) {
                    session.content.remove(&order.digest);
                }
                session.lists = true;
                self.effects.push(RegistryEffect::Wake(session.id.clone()));
            }
        }
        self.settle(now);
    }

    /// Opens a session.
    ///
    /// # Errors
    /// Why not.
    pub fn open(
        &mut self,
        agent: &str,
        id: String,
        credential: &Credential,
        hello: &Hello,
        now: Uptime,
    ) -> Result<(), SessionRefusal> {
        if self.is_closed {
            return Err(SessionRefusal::Ending);
        }
        let protocol = Protocols::default().common(hello.protocol).ok_or(SessionRefusal::Protocol)?;
        if let Some(pool) = hello.pools.difference(&credential.pools).next() {
            return Err(SessionRefusal::Pool(pool.clone()));
        }
        self.expire(now);
        if let Some(earlier) = self.sessions.get(agent) {
            if earlier.instance != hello.instance {
                return Err(SessionRefusal::Alive);
            }
            // The same process: its earlier connection was cut, which this side has not noticed yet.
            self.end(agent, "the agent connected again", now);
        }
        let session = RemoteSession {
            id,
            instance: hello.instance.clone(),
            token: credential.digest,
            pools: hello.pools.clone(),
            protocol,
            heard: now,
            seq: 0,
            is_new: true,
            lists: true,
            waits: true,
            running: hello.running.clone(),
            members: BTreeSet::new(),
            pending: BTreeMap::new(),
            placements: BTreeMap::new(),
            content: AgentContent::default(),
        };
        self.sessions.insert(agent.to_owned(), session);
        self.opened += 1;
        for (cluster, writer) in self.writers() {
            if matches!(writer, Writer::Gone(of, _) if of == agent) {
                // What the agent does not name it does not run.
                let runs = hello.running.contains_key(cluster);
                *writer = if runs { Writer::Agent(agent.to_owned()) } else { Writer::Nobody };
            }
        }
        self.settle(now);
        Ok(())
    }

    /// Notes that an agent was heard.
    pub fn hear(&mut self, agent: &str, now: Uptime) {
        if let Some(session) = self.sessions.get_mut(agent) {
            session.heard = now;
        }
    }

    /// Returns the highest number of a request that was taken in a session; `None` where the agent has another.
    pub fn seq(&self, agent: &str, session: &str) -> Option<u64> {
        self.sessions.get(agent).filter(|known| known.id == session).map(|known| known.seq)
    }

    /// Takes reports of a session.
    ///
    /// # Errors
    /// The session is over.
    pub fn report(&mut self, agent: &str, reports: Reports, now: Uptime) -> Result<Taken, SessionRefusal> {
        let session = self.sessions.get_mut(agent).filter(|session| session.id == reports.session);
        let session = session.ok_or(SessionRefusal::Over)?;
        session.heard = now;
        let mut refused = 0;
        // It was taken before, and the answer got lost.
        if reports.seq <= session.seq {
            return Ok(Taken { acked: session.seq, refused });
        }
        session.seq = reports.seq;
        let acked = session.seq;
        let mut is_due = self.due.is_some_and(|due| due <= now);
        for event in reports.events {
            match event {
                ToServer::Bye => {
                    self.leave(agent, now);
                    return Ok(Taken { acked, refused });
                }
                ToServer::Stopped { cluster } => {
                    let of_cluster = self.writers().filter(|(of, _)| **of == cluster);
                    for (_, writer) in of_cluster {
                        if matches!(writer, Writer::Leaving(of, _) if of == agent) {
                            *writer = Writer::Nobody;
                            is_due = true;
                        }
                    }
                }
                event => {
                    let Some(cluster) = event.cluster() else { continue };
                    let is_own = self.sessions.get(agent).is_some_and(|session| session.members.contains(cluster));
                    match self.members.get(cluster) {
                        Some(remote) if is_own => {
                            let id = remote.id;
                            self.effects.extend(event.into_event().map(|event| RegistryEffect::Event(id, event)));
                        }
                        // By now the member is another agent's, or gone.
                        _ => refused += 1,
                    }
                }
            }
        }
        if is_due {
            self.settle(now);
        }
        Ok(Taken { acked, refused })
    }

    /// Returns what the stream of a session sends next.
    pub fn next(&mut self, agent: &str, id: &str) -> NextFrame {
        let Some(session) = self.sessions.get_mut(agent).filter(|session| session.id == id) else {
            let farewell = self.farewells.remove(id);
            return farewell.map_or(NextFrame::End, |reason| NextFrame::Frame(Box::new(FromServer::Bye { reason })));
        };
        if std::mem::take(&mut session.is_new) {
            return NextFrame::Frame(Box::new(FromServer::Welcome {
                session: session.id.clone(),
                protocol: session.protocol,
                epoch: self.settings.epoch,
                lease_ms: u64::try_from(self.settings.lease.as_millis()).unwrap_or(u64::MAX),
            }));
        }
        // The first list waits until other agents have stopped writing to its members.
        if session.waits {
            return NextFrame::Wait;
        }
        if std::mem::take(&mut session.lists) {
            session.running.retain(|cluster, _| session.members.contains(cluster));
            let members = session.members.iter().filter_map(|cluster| {
                let remote = self.members.get(cluster)?;
                let pool = match &remote.choice {
                    AgentChoice::Named(_) => None,
                    AgentChoice::Pool { pool } => Some(pool.clone()),
                };
                Some(AgentMember { cluster: cluster.clone(), reach: remote.reach.clone(), pool })
            });
            return NextFrame::Frame(Box::new(FromServer::Members {
                source: self.settings.source.clone(),
                health: self.settings.health.clone(),
                members: members.collect(),
            }));
        }
        match session.pending.pop_first() {
            Some(((cluster, placement), Pending::Order { digest, reported })) => {
                NextFrame::Frame(Box::new(FromServer::Order { cluster, placement, digest, reported }))
            }
            Some(((cluster, placement), Pending::Forget)) => {
                NextFrame::Frame(Box::new(FromServer::Forget { cluster, placement }))
            }
            // After the orders: the agent forgets what it has of placements that this list lacks.
            None => match session.placements.pop_first() {
                Some((cluster, placements)) => {
                    NextFrame::Frame(Box::new(FromServer::Placements { cluster, placements }))
                }
                None => NextFrame::Wait,
            },
        }
    }

    /// Returns a current order of a member of an agent.
    pub fn order(&self, agent: &str, digest: &Digest) -> Option<Arc<WorkOrder>> {
        self.sessions.get(agent)?.content.order(digest)
    }

    /// Returns an object that a current order of a member of an agent names.
    pub fn object(&self, agent: &str, digest: &Digest) -> Option<Arc<serde_json::Value>> {
        self.sessions.get(agent)?.content.object(digest)
    }

    /// Ends a session whose connection is gone.
    pub fn cut(&mut self, agent: &str, id: &str, now: Uptime) {
        if self.sessions.get(agent).is_some_and(|session| session.id == id) {
            self.end(agent, "its connection ended", now);
            self.settle(now);
        }
        // Nobody reads the stream any more.
        self.farewells.remove(id);
    }

    /// Ends all sessions for good: the daemon ends, and agents keep its members for the next one. Members that are removed after this are no
    /// news for them.
    pub fn close(&mut self, now: Uptime) {
        self.is_closed = true;
        for agent in self.sessions.keys().cloned().collect::<Vec<_>>() {
            self.end(&agent, "the daemon ends", now);
        }
    }

    /// Takes the tokens of the store, and ends sessions whose token is invalid now.
    pub fn set_stored_tokens(&mut self, tokens: &AgentTokens, now: Uptime) {
        self.credentials.set_stored(tokens);
        self.check_tokens(now);
    }

    /// Ends sessions whose token is invalid.
    pub fn check_tokens(&mut self, now: Uptime) {
        let invalid = self
            .sessions
            .iter()
            .filter(|(agent, session)| !self.credentials.is_valid(agent, &session.token, &session.pools));
        for agent in invalid.map(|(agent, _)| agent.clone()).collect::<Vec<_>>() {
            self.end(&agent, "its token is invalid", now);
        }
        self.settle(now);
    }

    /// Returns who writes to each member, those without an entry included.
    fn writers(&mut self) -> impl Iterator<Item = (&ClusterName, &mut Writer)> {
        let of_members = self.members.iter_mut().map(|(cluster, remote)| (cluster, &mut remote.writer));
        of_members.chain(&mut self.parting)
    }

    /// Ends a session in which the agent has stopped all members.
    fn leave(&mut self, agent: &str, now: Uptime) {
        self.end(agent, "it said goodbye", now);
        for (_, writer) in self.writers() {
            if matches!(writer, Writer::Gone(of, _) if of == agent) {
                *writer = Writer::Nobody;
            }
        }
        self.settle(now);
    }

    fn end(&mut self, agent: &str, why: &str, now: Uptime) {
        let Some(session) = self.sessions.remove(agent) else { return };
        tracing::info!(agent, why, members = session.members.len(), "the session of an agent ended");
        let until = session.heard.after(self.settings.lease);
        for (_, writer) in self.writers() {
            if matches!(writer, Writer::Agent(of) | Writer::Leaving(of, _) if of == agent) {
                *writer = if until <= now { Writer::Nobody } else { Writer::Gone(agent.to_owned(), until) };
            }
        }
        for (cluster, remote) in &self.members {
            if session.members.contains(cluster) {
                let reason = format!("agent {agent} is not connected any more: {why}");
                let event = MemberEvent::Offline { cluster: cluster.clone(), reason };
                self.effects.push(RegistryEffect::Event(remote.id, event));
            }
        }
        self.farewells.insert(session.id.clone(), why.to_owned());
        self.effects.push(RegistryEffect::HangUp(session.id));
    }
}

#[cfg(test)]
mod tests;
