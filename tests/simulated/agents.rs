//! Agents of the simulated daemons: the real registry, the real state of agents and the real messages, over a network that cuts, delays and
//! repeats. Each agent is a machine of its own, as a replica is: it has connections to members and may be stopped.

#![allow(clippy::similar_names, reason = "a line is a connection, and a life is a process of a daemon")]

mod disk;
mod network;
mod process;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use config::{Configuration, Member};
use engine::{ConfigurationEvent, Event};
use model::id::ClusterName;
use model::uptime::Uptime;
use plan::simulate::{Happening, later};

use super::fact::{Fact, MachineFact};
use super::lease::{end_incarnation, pass_fence};
use super::replicas::{HeldLease, Machine, daemons, enter, enter_leader, leader, own, own_mut};
use super::{Sim, SimulatedFleet, What, push_at, push_in};
use disk::SimulatedDisk;
use network::{Message, SimulatedLine, cut_lines};
use process::AgentProcess;
use server::AgentServer;

pub(crate) use process::epoch_of_agent;
pub(crate) use server::{add_own, add_remote, begin_server, command_remote, end_server, is_remote, remove_remote};

/// Pause before an agent dials again.
const DIAL: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

/// Tells lives of an agent's processes from those of other agents, and of daemons.
const LIVES: u64 = 1_000_000;

/// Returns the agent of a process, as [`Fact::Sent`] names it; `None` for a daemon's.
pub fn agent_of(life: u64) -> Option<usize> {
    usize::try_from(life / LIVES).ok()?.checked_sub(1)
}

/// Who an agent is.
#[derive(Clone, Debug)]
pub struct AgentIdentity {
    /// Its name.
    pub name: String,
    /// The pools that it joins.
    pub pools: BTreeSet<String>,
    /// The servers speak a newer version of the protocol, and send what it does not know; and it reports what they do not know.
    pub is_strange: bool,
}

/// What keeps agents from doing harm. Tests switch one off to see that its absence is noticed.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is switched off by itself")]
pub struct AgentGuards {
    /// An agent writes to members of pools only while its lease lasts.
    pub lease: bool,
    /// The daemon waits for as long as agents count their leases.
    pub patience: bool,
    /// An agent leaves a server whose epoch is older than one that it saw.
    pub epoch: bool,
    /// A report that arrives again is dropped.
    pub once: bool,
}

impl Default for AgentGuards {
    /// All of them.
    fn default() -> Self {
        Self { lease: true, patience: true, epoch: true, once: true }
    }
}

/// An agent's machine.
struct AgentMachine {
    identity: AgentIdentity,
    disk: SimulatedDisk,
    /// `None` while it is down.
    process: Option<Box<AgentProcess>>,
    /// Counts processes: what concerns an earlier one is dropped.
    incarnation: u64,
    /// The server that it dials next.
    next_server: usize,
    cut_off_until: BTreeMap<usize, Timestamp>,
}

/// The agents, their daemons' sides and the network between them.
pub(crate) struct SimulatedAgents {
    machines: Vec<AgentMachine>,
    servers: BTreeMap<usize, AgentServer>,
    lines: BTreeMap<u64, SimulatedLine>,
    dialed: u64,
    began: Timestamp,
    lease: Duration,
    guards: AgentGuards,
    /// Of a thousand reports so many arrive twice.
    twice: u64,
}

/// What happens between agents and daemons.
pub(crate) enum AgentHappening {
    /// An agent's process begins.
    Start,
    Dial(u64),
    /// A message arrives at the daemon, or at the agent, of this connection.
    AtServer(u64, u64, Box<Message>),
    AtAgent(u64, Box<Message>),
    /// A frame leaves the daemon, if it has one.
    Drain(u64, u64),
    /// Time may lead to something at the daemon of this life, or at the agent of this incarnation.
    Tick(u64),
    Beat(u64),
    ServerNotices(u64, u64),
    AgentNotices(u64),
    /// Nothing has come over this connection of an agent since it was heard so many times.
    Impatient(u64, u64),
}

/// The agents as tests use them.
impl SimulatedFleet {
    /// Adds agents before anything has happened, after [`SimulatedFleet::replicate`].
    pub fn add_agents(&mut self, agents: Vec<AgentIdentity>, lease: Duration, guards: AgentGuards, twice: u64) {
        let Some(replicas) = &mut self.deployment.replicas else { return };
        for _ in &agents {
            replicas.list.push(Machine::new(replicas.list.len()));
        }
        let machine = |identity| AgentMachine {
            identity,
            disk: SimulatedDisk::empty(!guards.epoch),
            process: None,
            incarnation: 0,
            next_server: 0,
            cut_off_until: BTreeMap::new(),
        };
        let machines: Vec<AgentMachine> = agents.into_iter().map(machine).collect();
        let count = machines.len();
        self.deployment.agents = Some(SimulatedAgents {
            machines,
            servers: BTreeMap::new(),
            lines: BTreeMap::new(),
            dialed: 0,
            began: self.now,
            lease,
            guards,
            twice,
        });
        for agent in 0..count {
            let machine = self.replicas() + agent;
            enter(self, machine);
            start_later(self);
        }
        enter_leader(self);
    }

    /// Sets the configuration before anything has happened.
    pub fn begin_with(&mut self, configuration: Configuration) {
        self.configuration = configuration;
    }

    /// Ends an agent's process; it begins again after a while, with its disk or with an empty one.
    pub fn kill_agent(&mut self, agent: usize, keeps_disk: bool) {
        let machine = self.replicas() + agent;
        enter(self, machine);
        if let Some(agents) = &mut self.deployment.agents {
            let machine = &mut agents.machines[agent];
            machine.incarnation += 1;
            if let Some(process) = machine.process.take() {
                machine.disk = process.into_disk();
            }
            let empty = SimulatedDisk::empty(machine.disk.forgets_epoch);
            if !keeps_disk {
                machine.disk = empty;
                self.facts.push(Fact::Own(MachineFact::DiskLost(agent)));
            }
        }
        process::hang_up_own(self);
        let clusters: Vec<ClusterName> = self.members.keys().cloned().collect();
        for cluster in &clusters {
            self.stop_task(cluster);
        }
        end_incarnation(self);
        start_later(self);
        enter_leader(self);
    }

    /// Stops an agent's process for a while, as SIGSTOP does.
    pub fn pause_agent(&mut self, agent: usize, length: Duration) {
        self.pause(self.replicas() + agent, length);
    }

    /// Cuts an agent off from a daemon.
    pub fn cut_agent(&mut self, agent: usize, server: usize, length: Duration) {
        let until = later(self.now, length);
        if let Some(agents) = &mut self.deployment.agents {
            agents.machines[agent].cut_off_until.insert(server, until);
        }
        cut_lines(self, |line| (line.agent, line.server) == (agent, server));
    }

    /// Cuts an agent off from a member.
    pub fn cut_agent_from_member(&mut self, agent: usize, cluster: &ClusterName, length: Duration) {
        self.cut_from_member(self.replicas() + agent, cluster, length);
    }

    /// Ends the connections of an agent; it may connect again at once.
    pub fn reset_agent(&mut self, agent: usize) {
        cut_lines(self, |line| line.agent == agent);
    }

    /// Reaches members as another list of the configuration says, in all daemons at once.
    pub fn reconfigure(&mut self, configuration: Configuration) {
        let members: Vec<Member> = configuration.members.clone();
        self.configuration = configuration;
        for daemon in 0..self.replicas() {
            enter(self, daemon);
            let read = ConfigurationEvent::Read { members: members.clone(), at_restart: Vec::new() };
            let (now, life) = (self.now, self.process.life);
            self.push_at(now, Happening::Hear(life, Box::new(Event::Configuration(read))));
        }
        enter_leader(self);
    }
}

/// Ends everything that goes wrong between agents and daemons.
pub(crate) fn heal_agents(sim: &mut Sim) {
    if let Some(agents) = &mut sim.deployment.agents {
        agents.machines.iter_mut().for_each(|machine| machine.cut_off_until.clear());
        agents.twice = 0;
    }
}

/// Tells whether an agent has no session with the leader.
pub(crate) fn is_agent_away(sim: &Sim) -> bool {
    let Some(agents) = &sim.deployment.agents else { return false };
    let leader = leader(sim);
    let is_here = |machine: &AgentMachine| {
        let line = machine.process.as_ref().and_then(|process| process.line());
        line.and_then(|line| agents.lines.get(&line)).is_some_and(|line| line.server == leader && !line.is_cut)
    };
    !agents.machines.iter().all(is_here)
}

/// Tells whether there are agents.
pub(crate) fn has_agents(sim: &Sim) -> bool {
    sim.deployment.agents.as_ref().is_some_and(|agents| !agents.machines.is_empty())
}

/// Returns the agent that acts; `None` while a daemon does.
pub(crate) fn own_agent(sim: &Sim) -> Option<usize> {
    sim.deployment.agents.as_ref()?;
    sim.process.machine.checked_sub(daemons(sim))
}

pub(crate) fn happen(sim: &mut Sim, happening: AgentHappening) {
    match happening {
        AgentHappening::Start => process::start_agent(sim),
        AgentHappening::Dial(incarnation) => process::dial(sim, incarnation),
        AgentHappening::AtServer(line, life, message) if life == sim.process.life => server::serve(sim, line, *message),
        AgentHappening::AtAgent(line, message) => process::take_message(sim, line, *message),
        AgentHappening::Drain(line, life) if life == sim.process.life => server::drain(sim, line),
        AgentHappening::Tick(life) if life == sim.process.life => server::tick_registry(sim),
        AgentHappening::Beat(incarnation) => process::beat(sim, incarnation),
        AgentHappening::ServerNotices(line, life) if life == sim.process.life => server::server_notices(sim, line),
        AgentHappening::AgentNotices(line) => process::lose_line(sim, line),
        AgentHappening::Impatient(line, heard) => process::lose_silent(sim, line, heard),
        AgentHappening::AtServer(..)
        | AgentHappening::Drain(..)
        | AgentHappening::Tick(_)
        | AgentHappening::ServerNotices(..) => {}
    }
}

/// The acting machine hears an event: a daemon of anything, an agent of its members.
pub(crate) fn hear(sim: &mut Sim, event: Event) {
    match event {
        Event::Member(event) if own_agent(sim).is_some() => process::note_event(sim, event),
        event => sim.handle(event),
    }
}

/// Returns the time by which leases of agents are measured.
fn uptime(sim: &Sim) -> Uptime {
    let began = sim.deployment.agents.as_ref().map_or(sim.now, |agents| agents.began);
    Uptime::new(Duration::try_from(sim.now.duration_since(began)).unwrap_or_default())
}

/// Returns the true time of an instant of that clock.
fn instant(sim: &Sim, at: Uptime) -> Timestamp {
    let began = sim.deployment.agents.as_ref().map_or(sim.now, |agents| agents.began);
    later(began, Uptime::default().until(at))
}

/// The acting agent's process begins after a while.
fn start_later(sim: &mut Sim) {
    push_in(sim, sim.latencies.restart, What::Agent(AgentHappening::Start));
}

fn push_agent(sim: &mut Sim, at: Timestamp, happening: AgentHappening) {
    push_at(sim, at, What::Agent(happening));
}

/// Tells whether the acting agent may begin to write to a member; `None` while a daemon acts.
pub(crate) fn is_agent_fence_open(sim: &Sim, cluster: &ClusterName) -> Option<bool> {
    own_agent(sim)?;
    let agents = sim.deployment.agents.as_ref()?;
    let lease = own(sim)?.lease;
    let is_leased = has_leased(sim, cluster);
    Some(!is_leased || !agents.guards.lease || lease.is_some_and(|lease| sim.now < lease.end))
}

/// Tells whether the acting agent has a member of a pool.
pub(crate) fn has_leased(sim: &Sim, cluster: &ClusterName) -> bool {
    let process = own_agent(sim).and_then(|agent| sim.deployment.agents.as_ref()?.machines[agent].process.as_ref());
    process.is_some_and(|process| process.is_leased(cluster))
}

/// Tells whether a write of the acting agent that began before so many ends of its lease was cut; `None` while a daemon acts.
pub(crate) fn is_agent_cut_since(sim: &Sim, cluster: &ClusterName, ends: u64) -> Option<bool> {
    own_agent(sim)?;
    let own = own(sim)?;
    let is_over = own.ends != ends || own.lease.is_none_or(|lease| lease.end <= sim.now);
    Some(has_leased(sim, cluster) && sim.deployment.agents.as_ref()?.guards.lease && is_over)
}

fn prolong_agent(sim: &mut Sim, epoch: u64, end: Uptime) {
    let (now, end) = (sim.now, instant(sim, end));
    let Some(own) = own_mut(sim) else { return };
    own.ends += u64::from(own.lease.is_some_and(|lease| lease.end <= now));
    own.lease = Some(HeldLease { epoch, end });
    pass_fence(sim);
}
