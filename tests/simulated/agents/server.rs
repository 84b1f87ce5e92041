//! The daemon's side of simulated agents: the real registry, and what the daemon's listener does with it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use engine::{Event, MemberCommand, MemberEvent};
use model::agent::AgentChoice;
use model::id::ClusterName;
use plan::simulate::{Happening, later};
use wire::remote::credentials::Credential;
use wire::remote::registry::{AgentSettings, NextFrame, Registry, RegistryEffect};
use wire::{Acked, AgentHealth, AgentOrder, AgentReach, FetchObjects, FetchedObject, FromServer, Hello, Reports};

use super::network::{self, Message, arrives, cut_lines, read, send_to_agent};
use super::{AgentHappening, instant, push_agent, uptime};
use crate::Sim;
use crate::fact::{Fact, MachineFact};
use crate::lease::{is_fence_open_of_daemon, lease_of_flights};

/// How long until the stream of a session sends what it has.
const DRAIN: (Duration, Duration) = (Duration::ZERO, Duration::from_millis(30));
/// An agent that counts its lease wrongly counts it so many times too long.
const WRONG_LEASE: u64 = 6;

/// The daemon's side.
pub(crate) struct AgentServer {
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

/// Begins the daemon's side with a process that leads.
pub(crate) fn begin_server(sim: &mut Sim) {
    let (daemon, now, epoch) = (sim.process.machine, uptime(sim), lease_of_flights(sim).0);
    let source = sim.process.source_name();
    let Some(agents) = &mut sim.deployment.agents else { return };
    let settings = AgentSettings { epoch, lease: agents.lease, source, health: AgentHealth::default(), listens: true };
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
pub(crate) fn end_server(sim: &mut Sim) {
    let daemon = sim.process.machine;
    if sim.deployment.agents.as_mut().is_some_and(|agents| agents.servers.remove(&daemon).is_some()) {
        cut_lines(sim, |line| line.server == daemon);
    }
}

/// Begins to have a member delivered to by agents.
pub(crate) fn add_remote(sim: &mut Sim, cluster: &ClusterName, choice: &AgentChoice) {
    with_server(sim, |server, now| {
        let number = server.registry.add(cluster, choice.clone(), AgentReach::InCluster, now);
        server.numbers.insert(cluster.clone(), number);
    });
}

/// Gives up a member that agents deliver to. Returns whether it is one.
pub(crate) fn remove_remote(sim: &mut Sim, cluster: &ClusterName) -> bool {
    let removed = with_server(sim, |server, _| {
        server.awaited.remove(cluster)?;
        Some(())
    });
    if removed.flatten().is_some() {
        return true;
    }
    let removed = with_server(sim, |server, now| {
        let number = server.numbers.remove(cluster)?;
        server.registry.remove(cluster, number, now);
        Some(())
    });
    removed.flatten().is_some()
}

/// Begins to deliver to a member from the acting daemon, once no agent writes to it.
pub(crate) fn add_own(sim: &mut Sim, cluster: &ClusterName) {
    let is_awaited = with_server(sim, |server, _| {
        let is_awaited = server.registry.is_parting(cluster);
        if is_awaited {
            server.awaited.insert(cluster.clone(), Vec::new());
        }
        is_awaited
    });
    if is_awaited != Some(true) {
        start_own(sim, cluster);
    }
}

fn start_own(sim: &mut Sim, cluster: &ClusterName) {
    let source = sim.process.source_name();
    if sim.deployment.agents.is_some() {
        sim.facts.push(Fact::Own(MachineFact::Given { agent: None, cluster: cluster.clone() }));
    }
    sim.start_task(cluster, source, true);
}

/// Tells whether an agent delivers to a member, or will.
pub(crate) fn is_remote(sim: &Sim, cluster: &ClusterName) -> bool {
    let daemon = sim.process.machine;
    let server = sim.deployment.agents.as_ref().and_then(|agents| agents.servers.get(&daemon));
    server.is_some_and(|server| server.awaited.contains_key(cluster) || server.numbers.contains_key(cluster))
}

/// Passes a command on. Returns it where the member is not delivered to by agents.
pub(crate) fn command_remote(sim: &mut Sim, cluster: &ClusterName, command: MemberCommand) -> Option<MemberCommand> {
    let mut command = Some(command);
    with_server(sim, |server, _| {
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
fn with_server<T>(sim: &mut Sim, act: impl FnOnce(&mut AgentServer, model::uptime::Uptime) -> T) -> Option<T> {
    let (daemon, now) = (sim.process.machine, uptime(sim));
    let server = sim.deployment.agents.as_mut()?.servers.get_mut(&daemon)?;
    let done = act(server, now);
    let effects = server.registry.take_effects();
    for effect in effects {
        carry_out(sim, effect);
    }
    arrange_tick(sim);
    Some(done)
}

fn arrange_tick(sim: &mut Sim) {
    let (daemon, now) = (sim.process.machine, uptime(sim));
    let Some(server) = sim.deployment.agents.as_mut().and_then(|agents| agents.servers.get_mut(&daemon)) else {
        return;
    };
    let next = server.registry.tick(now);
    let effects = server.registry.take_effects();
    for effect in effects {
        carry_out(sim, effect);
    }
    let Some(at) = next.map(|next| instant(sim, next).max(sim.now)) else { return };
    let life = sim.process.life;
    let Some(server) = sim.deployment.agents.as_mut().and_then(|agents| agents.servers.get_mut(&daemon)) else {
        return;
    };
    if server.wakes_at.is_none_or(|known| at < known) {
        server.wakes_at = Some(at);
        push_agent(sim, at, AgentHappening::Tick(life));
    }
}

pub(crate) fn tick_registry(sim: &mut Sim) {
    let daemon = sim.process.machine;
    if let Some(server) = sim.deployment.agents.as_mut().and_then(|agents| agents.servers.get_mut(&daemon)) {
        server.wakes_at = None;
    }
    arrange_tick(sim);
}

fn carry_out(sim: &mut Sim, effect: RegistryEffect) {
    let life = sim.process.life;
    match effect {
        RegistryEffect::Event(number, event) => {
            let daemon = sim.process.machine;
            let servers = sim.deployment.agents.as_ref().map(|agents| &agents.servers);
            let server = servers.and_then(|servers| servers.get(&daemon));
            let is_current = server.is_some_and(|server| server.numbers.values().any(|known| *known == number));
            // A registration that is being made is not noted yet.
            let is_new = matches!(event, MemberEvent::Restarted { .. });
            if is_current || is_new {
                sim.push_at(sim.now, Happening::Hear(life, Box::new(Event::Member(event))));
            }
        }
        RegistryEffect::Parted(cluster) => {
            let daemon = sim.process.machine;
            let server = sim.deployment.agents.as_mut().and_then(|agents| agents.servers.get_mut(&daemon));
            let Some(commands) = server.and_then(|server| server.awaited.remove(&cluster)) else { return };
            start_own(sim, &cluster);
            for command in commands {
                sim.command(&cluster, command);
            }
        }
        RegistryEffect::Wake(session) | RegistryEffect::HangUp(session) => {
            let at = later(sim.now, sim.dice.time(DRAIN));
            push_agent(sim, at, AgentHappening::Drain(line_of(&session), life));
        }
    }
}

/// A request arrives at the acting daemon.
pub(crate) fn serve(sim: &mut Sim, line: u64, message: Message) {
    if !arrives(sim, line, sim.process.life, &message) {
        return;
    }
    let leads = sim.core().is_some() && is_fence_open_of_daemon(sim);
    let answer = if leads { answer_agent(sim, line, message) } else { Some(Message::Refused) };
    if let Some(answer) = answer {
        send_to_agent(sim, line, answer);
    }
}

fn answer_agent(sim: &mut Sim, line: u64, message: Message) -> Option<Message> {
    let agents = sim.deployment.agents.as_ref()?;
    let agent = match agents.lines.get(&line) {
        Some(known) => known.agent,
        // Its connection is gone, its session may be known.
        None => return take_late(sim, line, message),
    };
    let name = agents.machines[agent].identity.name.clone();
    match message {
        Message::Hello(bytes) => {
            let hello: Hello = read(&bytes)?;
            let opened = with_server(sim, |server, now| {
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
            push_agent(sim, sim.now, AgentHappening::Drain(line, sim.process.life));
            None
        }
        Message::Reports(bytes) => Some(take_reports(sim, &name, &bytes)),
        Message::FetchOrders(digests) => with_server(sim, |server, now| {
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
            with_server(sim, |server, now| {
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
fn take_late(sim: &mut Sim, line: u64, message: Message) -> Option<Message> {
    let daemon = sim.process.machine;
    let name = sim.deployment.agents.as_ref()?.servers.get(&daemon)?.sessions.get(&line)?.clone();
    if let Message::Reports(bytes) = message {
        take_reports(sim, &name, &bytes);
    }
    None
}

fn take_reports(sim: &mut Sim, name: &str, bytes: &[u8]) -> Message {
    let Some(mut reports) = read::<Reports>(bytes) else { return Message::Refused };
    let guards = sim.deployment.agents.as_ref().map(|agents| agents.guards).unwrap_or_default();
    let (session, number) = (reports.session.clone(), reports.seq);
    if !guards.once {
        // Wrong: no request counts as known.
        reports.seq = sim.queue.queued() + 1;
    }
    let has_events = !reports.events.is_empty();
    let seq = reports.seq;
    let taken = with_server(sim, |server, now| {
        server.registry.hear(name, now);
        let before = server.registry.seq(name, &reports.session);
        let taken = server.registry.report(name, reports, now);
        (taken, before)
    });
    match taken {
        Some((Ok(taken), before)) => {
            if has_events && before.is_some_and(|before| before < seq) {
                sim.facts.push(Fact::Own(MachineFact::Heard { session, number }));
            }
            Message::Acked(network::json(&Acked { acked: taken.acked }))
        }
        _ => Message::Refused,
    }
}

/// Sends the next frame of a session, if it has one.
pub(crate) fn drain(sim: &mut Sim, line: u64) {
    let (daemon, now, life) = (sim.process.machine, sim.now, sim.process.life);
    if !is_fence_open_of_daemon(sim) {
        server_notices(sim, line);
        return send_to_agent(sim, line, Message::Refused);
    }
    let Some(agents) = &mut sim.deployment.agents else { return };
    let (guards, Some(server)) = (agents.guards, agents.servers.get_mut(&daemon)) else { return };
    let Some(name) = server.sessions.get(&line).cloned() else { return };
    let mut message = match server.registry.next(&name, &session_of(line)) {
        NextFrame::Frame(message) => *message,
        NextFrame::Wait => return,
        NextFrame::End => {
            server.sessions.remove(&line);
            server.listed.remove(&line);
            return send_to_agent(sim, line, Message::Refused);
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
        sim.facts.extend(
            given.map(|cluster| Fact::Own(MachineFact::Given { agent: Some(agent), cluster: cluster.clone() })),
        );
    }
    if is_strange && !matches!(message, FromServer::Welcome { .. }) {
        let strange: Value = json!({"type": "fromTheFuture", "cluster": "c0", "number": line});
        send_to_agent(sim, line, Message::Frame(network::json(&strange)));
    }
    send_to_agent(sim, line, Message::Frame(network::json(&message)));
    push_agent(sim, now, AgentHappening::Drain(line, life));
}

pub(crate) fn server_notices(sim: &mut Sim, line: u64) {
    with_server(sim, |server, now| {
        if let Some(name) = server.sessions.remove(&line) {
            server.registry.cut(&name, &session_of(line), now);
        }
    });
}
