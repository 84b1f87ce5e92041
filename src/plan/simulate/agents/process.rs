//! A simulated agent's process: it does what the real one does with the same state, session and messages.

use std::time::Duration;

use super::super::time::later;
use super::super::{Fact, Simulation};
use super::disk::{SimulatedDisk, SimulatedTasks, TaskAct};
use super::network::{Message, json, read};
use super::{AgentHappening, DIAL, LIVES};
use engine::{MemberCommand, MemberEvent};
use model::id::ClusterName;
use wire::remote::agent::{AgentDisk as _, AgentState, ChangedMembers};
use wire::remote::agent_session::{AfterFrame, AgentSession, Fetch, Fetched};
use wire::{Acked, AgentMember, FetchObjects, FetchedObject, FromServer, ToServer};

/// How long a session may take to begin.
const WELCOME: Duration = Duration::from_secs(10);
/// How long a connection may be silent after a request: pings find it.
const SILENT: Duration = Duration::from_secs(25);

/// A process.
pub(super) struct AgentProcess {
    state: AgentState<SimulatedDisk, SimulatedTasks>,
    line: Option<u64>,
    session: Option<(AgentSession, u64)>,
    beat_at: Option<jiff::Timestamp>,
    /// Servers that were tried since it last took what its disk has.
    tried: usize,
    /// How many messages came.
    heard: u64,
}

impl AgentProcess {
    pub(super) fn line(&self) -> Option<u64> {
        self.line.filter(|_| self.session.is_some())
    }

    /// Returns the disk as the next process finds it.
    pub(super) fn into_disk(self) -> SimulatedDisk {
        self.state.disk.reopened()
    }

    pub(super) fn is_leased(&self, cluster: &ClusterName) -> bool {
        self.state.tasks.running.get(cluster).is_none_or(|member| member.pool.is_some())
    }
}

impl Simulation {
    /// Begins a process of the acting agent, with what its disk has.
    pub(super) fn start_agent(&mut self) {
        let Some(agent) = self.own_agent() else { return };
        let Some(agents) = &mut self.agents else { return };
        let machine = &mut agents.machines[agent];
        if machine.process.is_some() {
            return;
        }
        machine.incarnation += 1;
        let state = AgentState::new(machine.disk.reopened(), SimulatedTasks::default());
        machine.process =
            Some(Box::new(AgentProcess { state, line: None, session: None, beat_at: None, tried: 0, heard: 0 }));
        self.life = LIVES * (agent as u64 + 1) + machine.incarnation;
        let incarnation = machine.incarnation;
        let at = later(self.now, self.dice.time(DIAL));
        self.push_agent(at, AgentHappening::Dial(incarnation));
    }

    /// As the real one: members get the orders of the disk after no server gave a session, or each has ended one.
    fn note_tried(&mut self) {
        let servers = self.replicas().max(1);
        let is_alone = self.with_agent(|process| {
            process.tried += 1;
            process.tried >= servers
        });
        if is_alone == Some(true) {
            let changed = self.set_members(false);
            self.with_agent(|process| {
                process.tried = 0;
                process.state.take_changed(changed);
                process.state.take_kept_orders();
            });
            self.proceed();
        }
    }

    fn with_agent<T>(&mut self, act: impl FnOnce(&mut AgentProcess) -> T) -> Option<T> {
        let agent = self.own_agent()?;
        let machine = &mut self.agents.as_mut()?.machines[agent];
        Some(act(machine.process.as_deref_mut()?))
    }

    pub(super) fn dial(&mut self, incarnation: u64) {
        let (daemons, now) = (self.replicas(), self.now);
        let Some(agent) = self.own_agent() else { return };
        let Some(agents) = &mut self.agents else { return };
        let machine = &mut agents.machines[agent];
        let Some(process) = machine.process.as_ref().filter(|_| machine.incarnation == incarnation) else { return };
        if process.line.is_some() {
            return;
        }
        let server = machine.next_server % daemons.max(1);
        machine.next_server += 1;
        let is_cut = machine.cut_off_until.get(&server).is_some_and(|until| now < *until);
        let identity = machine.identity.clone();
        let life = self.replicas.as_ref().map_or(0, |replicas| replicas.life_of(server));
        if is_cut || life == 0 {
            return self.dial_again();
        }
        let Some(line) = self.agents.as_mut().map(|agents| agents.connect(agent, server, life, now)) else { return };
        let (instance, uptime) = (format!("{agent}-{incarnation}"), self.uptime());
        let hello = self.with_agent(|process| {
            process.line = Some(line);
            process.state.hello("simulated", &instance, &identity.pools, uptime)
        });
        let Some(mut hello) = hello else { return };
        if identity.is_strange {
            hello.protocol.newest += 1;
        }
        self.send_to_server(line, Message::Hello(json(&hello)));
        self.await_answer(line, WELCOME);
    }

    /// Leaves a connection over which nothing comes until then.
    fn await_answer(&mut self, line: u64, length: Duration) {
        let heard = self.with_agent(|process| process.heard).unwrap_or(0);
        self.push_agent(later(self.now, length), AgentHappening::Impatient(line, heard));
    }

    pub(super) fn lose_silent(&mut self, line: u64, heard: u64) {
        if self.with_agent(|process| process.heard == heard) == Some(true) {
            self.lose_line(line);
        }
    }

    fn dial_again(&mut self) {
        self.note_tried();
        let Some(agent) = self.own_agent() else { return };
        let incarnation = self.agents.as_ref().map_or(0, |agents| agents.machines[agent].incarnation);
        let at = later(self.now, self.dice.time(DIAL));
        self.push_agent(at, AgentHappening::Dial(incarnation));
    }

    /// The acting agent's connection is gone, or it leaves it.
    pub(super) fn lose_line(&mut self, line: u64) {
        let lost = self.with_agent(|process| {
            if process.line != Some(line) {
                return false;
            }
            process.line = None;
            process.beat_at = None;
            if let Some((session, _)) = process.session.take() {
                session.end(&mut process.state);
            }
            true
        });
        if lost == Some(true) {
            self.hang_up(line);
            self.dial_again();
        }
    }

    /// The daemon notices that an agent hung up, unless the connection is cut.
    fn hang_up(&mut self, line: u64) {
        let at = later(self.now, self.dice.time((Duration::from_millis(1), Duration::from_millis(50))));
        let gone = self.agents.as_mut().and_then(|agents| agents.lines.remove(&line));
        if let Some(gone) = gone.filter(|gone| !gone.is_cut) {
            self.push_as(gone.server, at, AgentHappening::ServerNotices(line, gone.life));
        }
    }

    /// Hangs up all connections of the acting agent, whose process has ended.
    pub(super) fn hang_up_own(&mut self) {
        let Some(agent) = self.own_agent() else { return };
        let lines = self.agents.as_ref().map(|agents| agents.lines.iter());
        let own = lines.into_iter().flatten().filter(|(_, line)| line.agent == agent).map(|(number, _)| *number);
        for line in own.collect::<Vec<_>>() {
            self.hang_up(line);
        }
    }

    pub(super) fn beat(&mut self, incarnation: u64) {
        let Some(agent) = self.own_agent() else { return };
        if self.agents.as_ref().is_none_or(|agents| agents.machines[agent].incarnation != incarnation) {
            return;
        }
        self.with_agent(|process| process.beat_at = None);
        self.proceed();
    }

    /// The acting agent takes an event of a member's task.
    pub(in super::super) fn note_event(&mut self, event: MemberEvent) {
        self.with_agent(|process| process.state.note(event));
        self.proceed();
    }

    /// A message arrives at the acting agent.
    pub(super) fn take_message(&mut self, line: u64, message: Message) {
        let is_current = self.with_agent(|process| process.line == Some(line)) == Some(true);
        let is_cut = self.agents.as_ref().and_then(|agents| agents.lines.get(&line)).is_none_or(|line| line.is_cut);
        if !is_current || is_cut {
            return;
        }
        self.with_agent(|process| process.heard += 1);
        let is_kept = match message {
            Message::Frame(bytes) => self.take_frame(&bytes),
            Message::Acked(bytes) => {
                let acked = read::<Acked>(&bytes);
                self.with_agent(|process| {
                    if let (Some((session, _)), Some(Acked { acked })) = (&mut process.session, &acked) {
                        // The answer to a request that arrived twice comes twice.
                        session.take_ack(&mut process.state, *acked);
                    }
                });
                acked.is_some()
            }
            Message::Orders(orders) => self.take_fetched(Fetched::Orders(orders)),
            Message::Objects(asked, objects) => {
                let objects = objects.iter().map_while(|object| read::<FetchedObject>(object)).collect();
                self.take_fetched(Fetched::Objects(asked, objects))
            }
            _ => false,
        };
        if is_kept { self.proceed() } else { self.lose_line(line) }
    }

    fn take_fetched(&mut self, fetched: Fetched) -> bool {
        let taken = self.with_agent(|process| {
            let (session, _) = process.session.as_mut()?;
            session.take_fetched(&mut process.state, fetched).ok()
        });
        taken.flatten().is_some()
    }

    /// Takes a frame. Returns whether the session continues.
    fn take_frame(&mut self, bytes: &[u8]) -> bool {
        let (now, agent) = (self.uptime(), self.own_agent().unwrap_or(0));
        let Some(frame) = read::<FromServer>(bytes) else { return false };
        let next = self.with_agent(|process| {
            let Some((session, epoch)) = &mut process.session else {
                let welcomed = AgentSession::welcome(&mut process.state, frame, now);
                return welcomed.map(|welcomed| process.session = Some(welcomed)).map(|()| (AfterFrame::Nothing, None));
            };
            Ok((session.take_frame(&mut process.state, frame), Some(*epoch)))
        });
        let Some(Ok((next, epoch))) = next else { return false };
        self.facts.extend(epoch.map(|epoch| Fact::Executed { agent, epoch }));
        match next {
            AfterFrame::Nothing => true,
            AfterFrame::Leave(_) => false,
            AfterFrame::SetMembers { restart_pools } => {
                let changed = self.set_members(restart_pools);
                self.with_agent(|process| {
                    if let Some((session, _)) = &mut process.session {
                        session.take_list(&mut process.state, changed, now);
                    }
                });
                let members = self.running_of_agent();
                self.facts.push(Fact::Told { agent, members });
                true
            }
        }
    }

    fn running_of_agent(&mut self) -> std::collections::BTreeSet<ClusterName> {
        self.with_agent(|process| process.state.tasks.running.keys().cloned().collect()).unwrap_or_default()
    }

    /// Runs exactly the members of the assignment, with new tasks for those of pools where `restart_pools` says so.
    fn set_members(&mut self, restart_pools: bool) -> ChangedMembers {
        let mut changed = ChangedMembers::default();
        let lists = self.with_agent(|process| {
            let assignment = process.state.disk.assignment();
            let listed = assignment.members.iter().map(|member| (member.cluster.clone(), member.clone())).collect();
            let source = assignment.source.clone();
            (source, std::mem::replace(&mut process.state.tasks.running, listed))
        });
        let Some((source, before)) = lists else { return changed };
        let listed = self.with_agent(|process| process.state.tasks.running.clone()).unwrap_or_default();
        let stays = |member: &AgentMember| {
            let is_replaced = restart_pools && member.pool.is_some();
            !is_replaced && before.get(&member.cluster) == Some(member) && listed.get(&member.cluster) == Some(member)
        };
        for (cluster, member) in &before {
            if !stays(member) {
                self.stop_member(cluster);
                if !listed.contains_key(cluster) {
                    changed.stopped.insert(cluster.clone());
                }
            }
        }
        for (cluster, member) in &listed {
            if !stays(member) {
                self.start_task(cluster, source.clone(), true);
                changed.started.insert(cluster.clone());
            }
        }
        changed
    }

    /// Sends what is to be sent, and does what is to be done with members' tasks.
    fn proceed(&mut self) {
        let (now, agent) = (self.uptime(), self.own_agent().unwrap_or(0));
        let sent = self.with_agent(|process| {
            let (session, _) = process.session.as_mut()?;
            let reports = session.post(&mut process.state, now);
            let mut fetch = None;
            while fetch.is_none() && session.has_waiting() {
                fetch = session.fetch(&mut process.state);
            }
            Some((process.line?, reports, fetch, session.beat_at()))
        });
        let acts = self.with_agent(|process| std::mem::take(&mut process.state.tasks.acts)).unwrap_or_default();
        if let Some((line, reports, fetch, beat_at)) = sent.flatten() {
            let is_strange = self.agents.as_ref().is_some_and(|agents| agents.machines[agent].identity.is_strange);
            if reports.is_some() || fetch.is_some() {
                self.await_answer(line, SILENT);
            }
            if let Some(mut reports) = reports {
                if is_strange {
                    reports.events.insert(0, ToServer::Unknown);
                }
                self.send_to_server(line, Message::Reports(json(&reports)));
            }
            match fetch {
                Some(Fetch::Orders(digests)) => self.send_to_server(line, Message::FetchOrders(digests)),
                Some(Fetch::Objects(digests)) => {
                    let body = json(&FetchObjects { digests });
                    self.send_to_server(line, Message::FetchObjects(body));
                }
                None => {}
            }
            self.arrange_beat(beat_at.map(|at| self.instant(at)));
        }
        for act in acts {
            self.do_with_tasks(act);
        }
    }

    fn arrange_beat(&mut self, at: Option<jiff::Timestamp>) {
        let Some(at) = at.map(|at| at.max(self.now)) else { return };
        let incarnation = self.own_agent().and_then(|agent| Some(self.agents.as_ref()?.machines[agent].incarnation));
        let is_sooner = self.with_agent(|process| {
            let is_sooner = process.beat_at.is_none_or(|known| at < known);
            if is_sooner {
                process.beat_at = Some(at);
            }
            is_sooner
        });
        if let Some(incarnation) = incarnation.filter(|_| is_sooner == Some(true)) {
            self.push_agent(at, AgentHappening::Beat(incarnation));
        }
    }

    fn do_with_tasks(&mut self, act: TaskAct) {
        match act {
            TaskAct::Command(cluster, command) => self.command_here(&cluster, command),
            TaskAct::Announce => {
                for cluster in self.running_of_agent() {
                    self.command_here(&cluster, MemberCommand::Announce);
                    self.announce(&cluster);
                }
            }
            TaskAct::Prolong(epoch, end) => self.prolong_agent(epoch, end),
        }
    }

    /// Returns the epoch that the acting agent's writes carry.
    pub(in super::super) fn epoch_of_agent(&self) -> Option<u64> {
        let agent = self.own_agent()?;
        Some(self.agents.as_ref()?.machines[agent].process.as_ref()?.state.tasks.epoch)
    }
}
