//! The daemon's side of simulated agents: the real registry, and what the daemon's listener does with it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::super::time::later;
use super::super::{Event, Fact, Happening, Simulation};
use super::AgentHappening;
use super::network::{self, Message, read};
use engine::{MemberCommand, MemberEvent};
use model::agent::AgentChoice;
use model::id::ClusterName;
use wire::remote::credentials::Credential;
use wire::remote::registry::{AgentSettings, NextFrame, Registry, RegistryEffect};
use wire::{Acked, AgentHealth, AgentOrder, AgentReach, FetchObjects, FetchedObject, FromServer, Hello, Reports};

/// How long until the stream of a session sends what it has.
const DRAIN: (Duration, Duration) = (Duration::ZERO, Duration::from_millis(30));
/// An agent that counts its lease wrongly counts it so many times too long.
const WRONG_LEASE: u64 = 6;

/// The daemon's side.
pub(super) struct AgentServer {
    registry: Registry,
    /// Registrations of members, both ways.
    numbers: BTreeMap<ClusterName, u64>,
    sessions: BTreeMap<u64, String>,
    /// The members of the last list that was sent over a connection.
    listed: BTreeMap<u64, BTreeSet<ClusterName>>,
    wakes_at: Option<jiff::Timestamp>,
    /// Members that the daemon delivers to itself as soon as their agents do not any more, with what they are told until then.
    awaited: BTreeMap<ClusterName, Vec<MemberCommand>>,
}

/// Returns the name of a connection's session.
fn session_of(line: u64) -> String {
    format!("s{line}")
}

fn line_of(session: &str) -> u64 {
    session.trim_start_matches('s').parse().unwrap_or(0)
}

impl Simulation {
    /// Begins the daemon's side with a process that leads.
    pub(in super::super) fn begin_server(&mut self) {
        let (daemon, now, epoch) = (self.entered(), self.uptime(), self.lease_of_flights().0);
        let source = self.core.as_ref().map(|core| core.fleet().source.clone()).unwrap_or_default();
        let Some(agents) = &mut self.agents else { return };
        let settings =
            AgentSettings { epoch, lease: agents.lease, source, health: AgentHealth::default(), listens: true };
        let server = AgentServer {
            registry: Registry::new(settings, now),
            numbers: BTreeMap::new(),
            sessions: BTreeMap::new(),
            listed: BTreeMap::new(),
            wakes_at: None,
            awaited: BTreeMap::new(),
        };
        agents.servers.insert(daemon, server);
    }

    /// The acting daemon's process ends, with its connections.
    pub(in super::super) fn end_server(&mut self) {
        let daemon = self.entered();
        if self.agents.as_mut().is_some_and(|agents| agents.servers.remove(&daemon).is_some()) {
            self.cut_lines(|line| line.server == daemon);
        }
    }

    /// Begins to have a member delivered to by agents.
    pub(in super::super) fn add_remote(&mut self, cluster: &ClusterName, choice: &AgentChoice) {
        self.with_server(|server, now| {
            let number = server.registry.add(cluster, choice.clone(), AgentReach::InCluster, now);
            server.numbers.insert(cluster.clone(), number);
        });
    }

    /// Gives up a member that agents deliver to. Returns whether it is one.
    pub(in super::super) fn remove_remote(&mut self, cluster: &ClusterName) -> bool {
        let removed = self.with_server(|server, _| {
            server.awaited.remove(cluster)?;
            Some(())
        });
        if removed.flatten().is_some() {
            return true;
        }
        let removed = self.with_server(|server, now| {
            let number = server.numbers.remove(cluster)?;
            server.registry.remove(cluster, number, now);
            Some(())
        });
        removed.flatten().is_some()
    }

    /// Begins to deliver to a member from the acting daemon, once no agent writes to it.
    pub(in super::super) fn add_own(&mut self, cluster: &ClusterName) {
        let is_awaited = self.with_server(|server, _| {
            let is_awaited = server.registry.is_parting(cluster);
            if is_awaited {
                server.awaited.insert(cluster.clone(), Vec::new());
            }
            is_awaited
        });
        if is_awaited != Some(true) {
            self.start_own(cluster);
        }
    }

    fn start_own(&mut self, cluster: &ClusterName) {
        let source = self.core.as_ref().map(|core| core.fleet().source.clone()).unwrap_or_default();
        if self.agents.is_some() {
            self.facts.push(Fact::Given { agent: None, cluster: cluster.clone() });
        }
        self.start_task(cluster, source, true);
    }

    /// Passes a command on. Returns it where the member is not delivered to by agents.
    pub(in super::super) fn command_remote(
        &mut self,
        cluster: &ClusterName,
        command: MemberCommand,
    ) -> Option<MemberCommand> {
        let mut command = Some(command);
        self.with_server(|server, _| {
            if let Some(awaited) = server.awaited.get_mut(cluster) {
                awaited.extend(command.take());
            }
            if let Some(number) = server.numbers.get(cluster).copied()
                && let Some(command) = command.take()
            {
                server.registry.command(cluster, number, command);
            }
        });
        command
    }

    /// Does something with the acting daemon's side, and what follows from it.
    fn with_server<T>(&mut self, act: impl FnOnce(&mut AgentServer, model::uptime::Uptime) -> T) -> Option<T> {
        let (daemon, now) = (self.entered(), self.uptime());
        let server = self.agents.as_mut()?.servers.get_mut(&daemon)?;
        let done = act(server, now);
        let effects = server.registry.take_effects();
        for effect in effects {
            self.carry_out(effect);
        }
        self.arrange_tick();
        Some(done)
    }

    fn arrange_tick(&mut self) {
        let (daemon, now) = (self.entered(), self.uptime());
        let Some(server) = self.agents.as_mut().and_then(|agents| agents.servers.get_mut(&daemon)) else { return };
        let next = server.registry.tick(now);
        let effects = server.registry.take_effects();
        for effect in effects {
            self.carry_out(effect);
        }
        let Some(at) = next.map(|next| self.instant(next).max(self.now)) else { return };
        let life = self.life;
        let Some(server) = self.agents.as_mut().and_then(|agents| agents.servers.get_mut(&daemon)) else { return };
        if server.wakes_at.is_none_or(|known| at < known) {
            server.wakes_at = Some(at);
            self.push_agent(at, AgentHappening::Tick(life));
        }
    }

    pub(super) fn tick_registry(&mut self) {
        let daemon = self.entered();
        if let Some(server) = self.agents.as_mut().and_then(|agents| agents.servers.get_mut(&daemon)) {
            server.wakes_at = None;
        }
        self.arrange_tick();
    }

    fn carry_out(&mut self, effect: RegistryEffect) {
        let life = self.life;
        match effect {
            RegistryEffect::Event(number, event) => {
                let daemon = self.entered();
                let servers = self.agents.as_ref().map(|agents| &agents.servers);
                let server = servers.and_then(|servers| servers.get(&daemon));
                let is_current = server.is_some_and(|server| server.numbers.values().any(|known| *known == number));
                // A registration that is being made is not noted yet.
                let is_new = matches!(event, MemberEvent::Restarted { .. });
                if is_current || is_new {
                    self.push_at(self.now, Happening::Hear(life, Box::new(Event::Member(event))));
                }
            }
            RegistryEffect::Parted(cluster) => {
                let daemon = self.entered();
                let server = self.agents.as_mut().and_then(|agents| agents.servers.get_mut(&daemon));
                let Some(commands) = server.and_then(|server| server.awaited.remove(&cluster)) else { return };
                self.start_own(&cluster);
                for command in commands {
                    self.command_here(&cluster, command);
                }
            }
            RegistryEffect::Wake(session) | RegistryEffect::HangUp(session) => {
                let at = later(self.now, self.dice.time(DRAIN));
                self.push_agent(at, AgentHappening::Drain(line_of(&session), life));
            }
        }
    }

    /// A request arrives at the acting daemon.
    pub(super) fn serve(&mut self, line: u64, message: Message) {
        if !self.arrives(line, self.life, &message) {
            return;
        }
        let leads = self.core.is_some() && self.is_fence_open_of_daemon();
        let answer = if leads { self.answer_agent(line, message) } else { Some(Message::Refused) };
        if let Some(answer) = answer {
            self.send_to_agent(line, answer);
        }
    }

    fn answer_agent(&mut self, line: u64, message: Message) -> Option<Message> {
        let agents = self.agents.as_ref()?;
        let agent = match agents.lines.get(&line) {
            Some(known) => known.agent,
            // Its connection is gone, its session may be known.
            None => return self.take_late(line, message),
        };
        let name = agents.machines[agent].identity.name.clone();
        match message {
            Message::Hello(bytes) => {
                let hello: Hello = read(&bytes)?;
                let opened = self.with_server(|server, now| {
                    let credential = Credential { digest: [1; 32], pools: hello.pools.clone() };
                    let opened = server.registry.open(&name, session_of(line), &credential, &hello, now);
                    if opened.is_ok() {
                        server.sessions.insert(line, name.clone());
                    }
                    opened.is_ok()
                });
                if opened != Some(true) {
                    return Some(Message::Refused);
                }
                // Its stream begins by itself: an agent without members is welcomed, too.
                self.push_agent(self.now, AgentHappening::Drain(line, self.life));
                None
            }
            Message::Reports(bytes) => Some(self.take_reports(&name, &bytes)),
            Message::FetchOrders(digests) => self.with_server(|server, now| {
                server.registry.hear(&name, now);
                let order = |digest| {
                    let order = server.registry.order(&name, &digest);
                    let json = order.and_then(|order| AgentOrder::from(order.as_ref()).encode().ok());
                    (digest, json.map(|(_, json)| json))
                };
                Message::Orders(digests.into_iter().map(order).collect())
            }),
            Message::FetchObjects(bytes) => {
                let wanted: FetchObjects = read(&bytes)?;
                self.with_server(|server, now| {
                    server.registry.hear(&name, now);
                    let mut objects = Vec::new();
                    for digest in &wanted.digests {
                        if let Some(object) = server.registry.object(&name, digest) {
                            let object = FetchedObject { digest: digest.clone(), object };
                            objects.push(network::json(&object));
                        }
                    }
                    Message::Objects(wanted.digests, objects)
                })
            }
            _ => None,
        }
    }

    /// A report arrives whose connection is gone.
    fn take_late(&mut self, line: u64, message: Message) -> Option<Message> {
        let daemon = self.entered();
        let name = self.agents.as_ref()?.servers.get(&daemon)?.sessions.get(&line)?.clone();
        if let Message::Reports(bytes) = message {
            self.take_reports(&name, &bytes);
        }
        None
    }

    fn take_reports(&mut self, name: &str, bytes: &[u8]) -> Message {
        let Some(mut reports) = read::<Reports>(bytes) else { return Message::Refused };
        let guards = self.agents.as_ref().map(|agents| agents.guards).unwrap_or_default();
        let (session, number) = (reports.session.clone(), reports.seq);
        if !guards.once {
            // Wrong: no request counts as known.
            reports.seq = self.queued + 1;
        }
        let has_events = !reports.events.is_empty();
        let seq = reports.seq;
        let taken = self.with_server(|server, now| {
            server.registry.hear(name, now);
            let before = server.registry.seq(name, &reports.session);
            let taken = server.registry.report(name, reports, now);
            (taken, before)
        });
        match taken {
            Some((Ok(taken), before)) => {
                if has_events && before.is_some_and(|before| before < seq) {
                    self.facts.push(Fact::Heard { session, number });
                }
                Message::Acked(network::json(&Acked { acked: taken.acked }))
            }
            _ => Message::Refused,
        }
    }

    /// Sends the next frame of a session, if it has one.
    pub(super) fn drain(&mut self, line: u64) {
        let (daemon, now, life) = (self.entered(), self.now, self.life);
        if !self.is_fence_open_of_daemon() {
            self.server_notices(line);
            return self.send_to_agent(line, Message::Refused);
        }
        let Some(agents) = &mut self.agents else { return };
        let (guards, Some(server)) = (agents.guards, agents.servers.get_mut(&daemon)) else { return };
        let Some(name) = server.sessions.get(&line).cloned() else { return };
        let mut message = match server.registry.next(&name, &session_of(line)) {
            NextFrame::Frame(message) => *message,
            NextFrame::Wait => return,
            NextFrame::End => {
                server.sessions.remove(&line);
                server.listed.remove(&line);
                return self.send_to_agent(line, Message::Refused);
            }
        };
        if let FromServer::Welcome { lease_ms, .. } = &mut message
            && !guards.patience
        {
            *lease_ms *= WRONG_LEASE;
        }
        let agent = agents.lines.get(&line).map(|line| line.agent);
        let is_strange = agent.is_some_and(|agent| agents.machines[agent].identity.is_strange);
        if let (FromServer::Members { members, .. }, Some(agent)) = (&message, agent) {
            let listed: BTreeSet<ClusterName> = members.iter().map(|member| member.cluster.clone()).collect();
            let before = server.listed.insert(line, listed.clone()).unwrap_or_default();
            let given = listed.difference(&before);
            self.facts.extend(given.map(|cluster| Fact::Given { agent: Some(agent), cluster: cluster.clone() }));
        }
        if is_strange && !matches!(message, FromServer::Welcome { .. }) {
            let strange: Value = json!({"type": "fromTheFuture", "cluster": "c0", "number": line});
            self.send_to_agent(line, Message::Frame(network::json(&strange)));
        }
        self.send_to_agent(line, Message::Frame(network::json(&message)));
        self.push_agent(now, AgentHappening::Drain(line, life));
    }

    pub(super) fn server_notices(&mut self, line: u64) {
        self.with_server(|server, now| {
            if let Some(name) = server.sessions.remove(&line) {
                server.registry.cut(&name, &session_of(line), now);
            }
        });
    }
}
