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

use super::replicas::{HeldLease, Replica};
use super::time::later;
use super::{Fact, Happening, Simulation};
use config::{Configuration, Member};
use disk::SimulatedDisk;
use engine::{ConfigurationEvent, Event};
use model::id::ClusterName;
use model::uptime::Uptime;
use network::{Message, SimulatedLine};
use process::AgentProcess;
use server::AgentServer;

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
pub(super) struct SimulatedAgents {
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
pub(super) enum AgentHappening {
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
impl Simulation {
    /// Adds agents before anything has happened, after [`Simulation::replicate`].
    pub fn add_agents(&mut self, agents: Vec<AgentIdentity>, lease: Duration, guards: AgentGuards, twice: u64) {
        let Some(replicas) = &mut self.replicas else { return };
        for _ in &agents {
            replicas.list.push(Replica::default());
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
        self.agents = Some(SimulatedAgents {
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
            self.enter(self.replicas() + agent);
            self.push_in(self.latencies.restart, Happening::Agent(AgentHappening::Start));
        }
        self.enter_leader();
    }

    /// Sets the configuration before anything has happened.
    pub fn begin_with(&mut self, configuration: Configuration) {
        self.configuration = configuration;
    }

    /// Returns how many agents there are.
    pub fn agents(&self) -> usize {
        self.agents.as_ref().map_or(0, |agents| agents.machines.len())
    }

    /// Ends an agent's process; it begins again after a while, with its disk or with an empty one.
    pub fn kill_agent(&mut self, agent: usize, keeps_disk: bool) {
        self.enter(self.replicas() + agent);
        if let Some(agents) = &mut self.agents {
            let machine = &mut agents.machines[agent];
            machine.incarnation += 1;
            if let Some(process) = machine.process.take() {
                machine.disk = process.into_disk();
            }
            let empty = SimulatedDisk::empty(machine.disk.forgets_epoch);
            if !keeps_disk {
                machine.disk = empty;
                self.facts.push(Fact::DiskLost(agent));
            }
        }
        self.hang_up_own();
        let clusters: Vec<ClusterName> = self.members.keys().cloned().collect();
        for cluster in &clusters {
            self.stop_member(cluster);
        }
        self.end_incarnation();
        self.push_in(self.latencies.restart, Happening::Agent(AgentHappening::Start));
        self.enter_leader();
    }

    /// Stops an agent's process for a while, as SIGSTOP does.
    pub fn pause_agent(&mut self, agent: usize, length: Duration) {
        self.pause(self.replicas() + agent, length);
    }

    /// Cuts an agent off from a daemon.
    pub fn cut_agent(&mut self, agent: usize, server: usize, length: Duration) {
        let until = later(self.now, length);
        if let Some(agents) = &mut self.agents {
            agents.machines[agent].cut_off_until.insert(server, until);
        }
        self.cut_lines(|line| (line.agent, line.server) == (agent, server));
    }

    /// Cuts an agent off from a member.
    pub fn cut_agent_from_member(&mut self, agent: usize, cluster: &ClusterName, length: Duration) {
        self.cut_from_member(self.replicas() + agent, cluster, length);
    }

    /// Ends the connections of an agent; it may connect again at once.
    pub fn reset_agent(&mut self, agent: usize) {
        self.cut_lines(|line| line.agent == agent);
    }

    /// Reaches members as another list of the configuration says, in all daemons at once.
    pub fn reconfigure(&mut self, configuration: Configuration) {
        let members: Vec<Member> = configuration.members.clone();
        self.configuration = configuration;
        for daemon in 0..self.replicas() {
            self.enter(daemon);
            let read = ConfigurationEvent::Read { members: members.clone(), at_restart: Vec::new() };
            let life = self.life;
            self.push_at(self.now, Happening::Hear(life, Box::new(Event::Configuration(read))));
        }
        self.enter_leader();
    }

    /// Ends everything that goes wrong between agents and daemons.
    pub(super) fn heal_agents(&mut self) {
        if let Some(agents) = &mut self.agents {
            agents.machines.iter_mut().for_each(|machine| machine.cut_off_until.clear());
            agents.twice = 0;
        }
    }

    /// Tells whether an agent has no session with the leader.
    pub(super) fn is_agent_away(&self) -> bool {
        let Some(agents) = &self.agents else { return false };
        let leader = self.leader();
        let is_here = |machine: &AgentMachine| {
            let line = machine.process.as_ref().and_then(|process| process.line());
            line.and_then(|line| agents.lines.get(&line)).is_some_and(|line| line.server == leader && !line.is_cut)
        };
        !agents.machines.iter().all(is_here)
    }

    /// Returns the agent that acts; `None` while a daemon does.
    pub(super) fn own_agent(&self) -> Option<usize> {
        self.agents.as_ref()?;
        self.entered().checked_sub(self.replicas())
    }

    pub(super) fn happen_to_agents(&mut self, happening: AgentHappening) {
        match happening {
            AgentHappening::Start => self.start_agent(),
            AgentHappening::Dial(incarnation) => self.dial(incarnation),
            AgentHappening::AtServer(line, life, message) if life == self.life => self.serve(line, *message),
            AgentHappening::AtAgent(line, message) => self.take_message(line, *message),
            AgentHappening::Drain(line, life) if life == self.life => self.drain(line),
            AgentHappening::Tick(life) if life == self.life => self.tick_registry(),
            AgentHappening::Beat(incarnation) => self.beat(incarnation),
            AgentHappening::ServerNotices(line, life) if life == self.life => self.server_notices(line),
            AgentHappening::AgentNotices(line) => self.lose_line(line),
            AgentHappening::Impatient(line, heard) => self.lose_silent(line, heard),
            AgentHappening::AtServer(..)
            | AgentHappening::Drain(..)
            | AgentHappening::Tick(_)
            | AgentHappening::ServerNotices(..) => {}
        }
    }

    /// The acting machine hears an event: a daemon of anything, an agent of its members.
    pub(super) fn hear(&mut self, event: Event) {
        match event {
            Event::Member(event) if self.own_agent().is_some() => self.note_event(event),
            event => self.handle(event),
        }
    }

    /// Returns the time by which leases of agents are measured.
    fn uptime(&self) -> Uptime {
        let began = self.agents.as_ref().map_or(self.now, |agents| agents.began);
        Uptime::new(Duration::try_from(self.now.duration_since(began)).unwrap_or_default())
    }

    /// Returns the true time of an instant of that clock.
    fn instant(&self, at: Uptime) -> Timestamp {
        let began = self.agents.as_ref().map_or(self.now, |agents| agents.began);
        later(began, Uptime::default().until(at))
    }

    fn push_agent(&mut self, at: Timestamp, happening: AgentHappening) {
        self.push_at(at, Happening::Agent(happening));
    }
}

/// The fences of agents.
impl Simulation {
    /// Tells whether the acting agent may begin to write to a member; `None` while a daemon acts.
    pub(super) fn is_agent_fence_open(&self, cluster: &ClusterName) -> Option<bool> {
        self.own_agent()?;
        let agents = self.agents.as_ref()?;
        let lease = self.replicas.as_ref()?.own().lease;
        let is_leased = self.has_leased(cluster);
        Some(!is_leased || !agents.guards.lease || lease.is_some_and(|lease| self.now < lease.end))
    }

    /// Tells whether the acting agent has a member of a pool.
    pub(super) fn has_leased(&self, cluster: &ClusterName) -> bool {
        let process = self.own_agent().and_then(|agent| self.agents.as_ref()?.machines[agent].process.as_ref());
        process.is_some_and(|process| process.is_leased(cluster))
    }

    /// Tells whether a write of the acting agent that began before so many ends of its lease was cut; `None` while a daemon acts.
    pub(super) fn is_agent_cut_since(&self, cluster: &ClusterName, ends: u64) -> Option<bool> {
        self.own_agent()?;
        let own = self.replicas.as_ref()?.own();
        let is_over = own.ends != ends || own.lease.is_none_or(|lease| lease.end <= self.now);
        Some(self.has_leased(cluster) && self.agents.as_ref()?.guards.lease && is_over)
    }

    fn prolong_agent(&mut self, epoch: u64, end: Uptime) {
        let (now, end) = (self.now, self.instant(end));
        let Some(replicas) = &mut self.replicas else { return };
        let own = replicas.own_mut();
        own.ends += u64::from(own.lease.is_some_and(|lease| lease.end <= now));
        own.lease = Some(HeldLease { epoch, end });
        self.pass_fence();
    }
}
