//! The network between agents and daemons: what is sent is what real ones send, and may be lost, late or there twice.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use model::id::Digest;
use plan::simulate::later;

use super::{AgentHappening, SimulatedAgents};
use crate::replicas::{LATE_MAX, daemons};
use crate::{Sim, What};

/// How long a message takes.
const LATENCY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// How long until a side notices that a connection is cut: pings find it.
const NOTICED: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(25));
/// Of a thousand requests that a cut hits so many arrive all the same.
const ARRIVES: u64 = 500;

/// A connection.
pub(crate) struct SimulatedLine {
    pub(crate) agent: usize,
    pub(crate) server: usize,
    /// The process of the daemon.
    pub(crate) life: u64,
    pub(crate) is_cut: bool,
    /// When the last frame arrives: later ones arrive later.
    frames_until: jiff::Timestamp,
}

/// What goes over a connection, as JSON where real ones send JSON: real ones frame and compress it too, which tests of its own check and
/// which would take most of the time of a seed.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Hello(Vec<u8>),
    Reports(Vec<u8>),
    FetchOrders(Vec<Digest>),
    FetchObjects(Vec<u8>),
    Frame(Vec<u8>),
    Acked(Vec<u8>),
    Orders(Vec<(Digest, Option<Vec<u8>>)>),
    Objects(Vec<Digest>, Vec<Vec<u8>>),
    /// The request is refused, or the session is over.
    Refused,
}

/// Returns what is sent as JSON.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("messages are JSON")
}

/// Reads what came.
pub(crate) fn read<T: DeserializeOwned>(json: &[u8]) -> Option<T> {
    serde_json::from_slice(json).ok()
}

impl SimulatedAgents {
    /// Makes a connection of an agent to a daemon's process. Returns its number.
    pub(crate) fn connect(&mut self, agent: usize, server: usize, life: u64, now: jiff::Timestamp) -> u64 {
        self.dialed += 1;
        self.lines.insert(self.dialed, SimulatedLine { agent, server, life, is_cut: false, frames_until: now });
        self.dialed
    }
}

/// Sends a request of the acting agent.
pub(crate) fn send_to_server(sim: &mut Sim, number: u64, message: Message) {
    let Some(line) = sim.deployment.agents.as_ref().and_then(|agents| agents.lines.get(&number)) else { return };
    if line.is_cut {
        return;
    }
    let (server, life) = (line.server, line.life);
    let twice = sim.deployment.agents.as_ref().map_or(0, |agents| agents.twice);
    if matches!(message, Message::Reports(_)) && sim.dice.chance(twice) {
        let at = later(sim.now, sim.dice.time((LATENCY.0, LATE_MAX)));
        push_as(sim, server, at, AgentHappening::AtServer(number, life, Box::new(message.clone())));
    }
    let at = later(sim.now, sim.dice.time(LATENCY));
    push_as(sim, server, at, AgentHappening::AtServer(number, life, Box::new(message)));
}

/// Sends an answer, or a frame, of the acting daemon.
pub(crate) fn send_to_agent(sim: &mut Sim, number: u64, message: Message) {
    let mut at = later(sim.now, sim.dice.time(LATENCY));
    let daemons = daemons(sim);
    let Some(line) = sim.deployment.agents.as_mut().and_then(|agents| agents.lines.get_mut(&number)) else { return };
    if line.is_cut {
        return;
    }
    if matches!(message, Message::Frame(_) | Message::Refused) {
        at = at.max(line.frames_until);
        line.frames_until = at;
    }
    let machine = daemons + line.agent;
    push_as(sim, machine, at, AgentHappening::AtAgent(number, Box::new(message)));
}

/// Schedules what happens to a machine that does not act now.
pub(crate) fn push_as(sim: &mut Sim, machine: usize, at: jiff::Timestamp, happening: AgentHappening) {
    sim.queue.push(at, machine, What::Agent(happening).into());
}

/// Tells whether a request arrives that was sent before its connection was cut. It may arrive late.
pub(crate) fn arrives(sim: &mut Sim, number: u64, life: u64, message: &Message) -> bool {
    let Some(line) = sim.deployment.agents.as_mut().and_then(|agents| agents.lines.get_mut(&number)) else {
        // The agent hung up; what it sent may still come.
        return sim.dice.chance(ARRIVES);
    };
    if !line.is_cut {
        return true;
    }
    let server = line.server;
    if matches!(message, Message::Reports(_)) && sim.dice.chance(ARRIVES) {
        sim.deployment.agents.as_mut().and_then(|agents| agents.lines.remove(&number));
        let at = later(sim.now, sim.dice.time((LATENCY.0, LATE_MAX)));
        push_as(sim, server, at, AgentHappening::AtServer(number, life, Box::new(message.clone())));
    }
    false
}

/// Cuts connections: each side notices later, or the lease ends first.
pub(crate) fn cut_lines(sim: &mut Sim, which: impl Fn(&SimulatedLine) -> bool) {
    let (now, daemons) = (sim.now, daemons(sim));
    let Some(agents) = &mut sim.deployment.agents else { return };
    let cut = agents.lines.iter_mut().filter(|(_, line)| !line.is_cut && which(line));
    let cut: Vec<(u64, usize, usize, u64)> = cut
        .map(|(number, line)| {
            line.is_cut = true;
            (*number, line.agent, line.server, line.life)
        })
        .collect();
    for (number, agent, server, life) in cut {
        let at = later(now, sim.dice.time(NOTICED));
        push_as(sim, daemons + agent, at, AgentHappening::AgentNotices(number));
        if sim.dice.chance(500) {
            let at = later(now, sim.dice.time(NOTICED));
            push_as(sim, server, at, AgentHappening::ServerNotices(number, life));
        }
    }
}
