//! A simulated agent's process: it does what the real one does with the same state, session and messages.

use std::time::Duration;

use engine::{MemberCommand, MemberEvent};
use model::id::ClusterName;
use plan::simulate::later;
use wire::remote::agent::{AgentDisk as _, AgentState, ChangedMembers};
use wire::remote::agent_session::{AfterFrame, AgentSession, Fetch, Fetched};
use wire::{Acked, AgentMember, FetchObjects, FetchedObject, FromServer, ToServer};

use super::disk::{SimulatedDisk, SimulatedTasks, TaskAct};
use super::network::{Message, json, push_as, read, send_to_server};
use super::{AgentHappening, DIAL, LIVES, instant, own_agent, prolong_agent, push_agent, uptime};
use crate::Sim;
use crate::fact::{Fact, MachineFact};
use crate::replicas::daemons;

/// How long a session may take to begin.
const WELCOME: Duration = Duration::from_secs(10);
/// How long a connection may be silent after a request: pings find it.
const SILENT: Duration = Duration::from_secs(25);

/// A process.
pub(crate) struct AgentProcess {
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
    pub(crate) fn line(&self) -> Option<u64> {
        self.line.filter(|_| self.session.is_some())
    }

    /// Returns the disk as the next process finds it.
    pub(crate) fn into_disk(self) -> SimulatedDisk {
        self.state.disk.reopened()
    }

    pub(crate) fn is_leased(&self, cluster: &ClusterName) -> bool {
        self.state.tasks.running.get(cluster).is_none_or(|member| member.pool.is_some())
    }
}

/// Begins a process of the acting agent, with what its disk has.
pub(crate) fn start_agent(sim: &mut Sim) {
    let Some(agent) = own_agent(sim) else { return };
    let Some(agents) = &mut sim.deployment.agents else { return };
    let machine = &mut agents.machines[agent];
    if machine.process.is_some() {
        return;
    }
    machine.incarnation += 1;
    let state = AgentState::new(machine.disk.reopened(), SimulatedTasks::default());
    machine.process =
        Some(Box::new(AgentProcess { state, line: None, session: None, beat_at: None, tried: 0, heard: 0 }));
    sim.process.life = LIVES * (agent as u64 + 1) + machine.incarnation;
    let incarnation = machine.incarnation;
    let at = later(sim.now, sim.dice.time(DIAL));
    push_agent(sim, at, AgentHappening::Dial(incarnation));
}

/// As the real one: members get the orders of the disk after no server gave a session, or each has ended one.
fn note_tried(sim: &mut Sim) {
    let servers = daemons(sim).max(1);
    let is_alone = with_agent(sim, |process| {
        process.tried += 1;
        process.tried >= servers
    });
    if is_alone == Some(true) {
        let changed = set_members(sim, false);
        with_agent(sim, |process| {
            process.tried = 0;
            process.state.take_changed(changed);
            process.state.take_kept_orders();
        });
        proceed(sim);
    }
}

fn with_agent<T>(sim: &mut Sim, act: impl FnOnce(&mut AgentProcess) -> T) -> Option<T> {
    let agent = own_agent(sim)?;
    let machine = &mut sim.deployment.agents.as_mut()?.machines[agent];
    Some(act(machine.process.as_deref_mut()?))
}

pub(crate) fn dial(sim: &mut Sim, incarnation: u64) {
    let (daemons, now) = (daemons(sim), sim.now);
    let Some(agent) = own_agent(sim) else { return };
    let Some(agents) = &mut sim.deployment.agents else { return };
    let machine = &mut agents.machines[agent];
    let Some(process) = machine.process.as_ref().filter(|_| machine.incarnation == incarnation) else { return };
    if process.line.is_some() {
        return;
    }
    let server = machine.next_server % daemons.max(1);
    machine.next_server += 1;
    let is_cut = machine.cut_off_until.get(&server).is_some_and(|until| now < *until);
    let identity = machine.identity.clone();
    let life = sim.deployment.replicas.as_ref().map_or(0, |replicas| replicas.life_of(server));
    if is_cut || life == 0 {
        return dial_again(sim);
    }
    let Some(line) = sim.deployment.agents.as_mut().map(|agents| agents.connect(agent, server, life, now)) else {
        return;
    };
    let (instance, uptime) = (format!("{agent}-{incarnation}"), uptime(sim));
    let hello = with_agent(sim, |process| {
        process.line = Some(line);
        process.state.hello("simulated", &instance, &identity.pools, uptime)
    });
    let Some(mut hello) = hello else { return };
    if identity.is_strange {
        hello.protocol.newest += 1;
    }
    send_to_server(sim, line, Message::Hello(json(&hello)));
    await_answer(sim, line, WELCOME);
}

/// Leaves a connection over which nothing comes until then.
fn await_answer(sim: &mut Sim, line: u64, length: Duration) {
    let heard = with_agent(sim, |process| process.heard).unwrap_or(0);
    push_agent(sim, later(sim.now, length), AgentHappening::Impatient(line, heard));
}

pub(crate) fn lose_silent(sim: &mut Sim, line: u64, heard: u64) {
    if with_agent(sim, |process| process.heard == heard) == Some(true) {
        lose_line(sim, line);
    }
}

fn dial_again(sim: &mut Sim) {
    note_tried(sim);
    let Some(agent) = own_agent(sim) else { return };
    let incarnation = sim.deployment.agents.as_ref().map_or(0, |agents| agents.machines[agent].incarnation);
    let at = later(sim.now, sim.dice.time(DIAL));
    push_agent(sim, at, AgentHappening::Dial(incarnation));
}

/// The acting agent's connection is gone, or it leaves it.
pub(crate) fn lose_line(sim: &mut Sim, line: u64) {
    let lost = with_agent(sim, |process| {
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
        hang_up(sim, line);
        dial_again(sim);
    }
}

/// The daemon notices that an agent hung up, unless the connection is cut.
fn hang_up(sim: &mut Sim, line: u64) {
    let at = later(sim.now, sim.dice.time((Duration::from_millis(1), Duration::from_millis(50))));
    let gone = sim.deployment.agents.as_mut().and_then(|agents| agents.lines.remove(&line));
    if let Some(gone) = gone.filter(|gone| !gone.is_cut) {
        push_as(sim, gone.server, at, AgentHappening::ServerNotices(line, gone.life));
    }
}

/// Hangs up all connections of the acting agent, whose process has ended.
pub(crate) fn hang_up_own(sim: &mut Sim) {
    let Some(agent) = own_agent(sim) else { return };
    let lines = sim.deployment.agents.as_ref().map(|agents| agents.lines.iter());
    let own = lines.into_iter().flatten().filter(|(_, line)| line.agent == agent).map(|(number, _)| *number);
    for line in own.collect::<Vec<_>>() {
        hang_up(sim, line);
    }
}

pub(crate) fn beat(sim: &mut Sim, incarnation: u64) {
    let Some(agent) = own_agent(sim) else { return };
    if sim.deployment.agents.as_ref().is_none_or(|agents| agents.machines[agent].incarnation != incarnation) {
        return;
    }
    with_agent(sim, |process| process.beat_at = None);
    proceed(sim);
}

/// The acting agent takes an event of a member's task.
pub(crate) fn note_event(sim: &mut Sim, event: MemberEvent) {
    with_agent(sim, |process| process.state.note(event));
    proceed(sim);
}

/// A message arrives at the acting agent.
pub(crate) fn take_message(sim: &mut Sim, line: u64, message: Message) {
    let is_current = with_agent(sim, |process| process.line == Some(line)) == Some(true);
    let is_cut =
        sim.deployment.agents.as_ref().and_then(|agents| agents.lines.get(&line)).is_none_or(|line| line.is_cut);
    if !is_current || is_cut {
        return;
    }
    with_agent(sim, |process| process.heard += 1);
    let is_kept = match message {
        Message::Frame(bytes) => take_frame(sim, &bytes),
        Message::Acked(bytes) => {
            let acked = read::<Acked>(&bytes);
            with_agent(sim, |process| {
                if let (Some((session, _)), Some(Acked { acked })) = (&mut process.session, &acked) {
                    // The answer to a request that arrived twice comes twice.
                    session.take_ack(&mut process.state, *acked);
                }
            });
            acked.is_some()
        }
        Message::Orders(orders) => take_fetched(sim, Fetched::Orders(orders)),
        Message::Objects(asked, objects) => {
            let objects = objects.iter().map_while(|object| read::<FetchedObject>(object)).collect();
            take_fetched(sim, Fetched::Objects(asked, objects))
        }
        _ => false,
    };
    if is_kept { proceed(sim) } else { lose_line(sim, line) }
}

fn take_fetched(sim: &mut Sim, fetched: Fetched) -> bool {
    let taken = with_agent(sim, |process| {
        let (session, _) = process.session.as_mut()?;
        session.take_fetched(&mut process.state, fetched).ok()
    });
    taken.flatten().is_some()
}

/// Takes a frame. Returns whether the session continues.
fn take_frame(sim: &mut Sim, bytes: &[u8]) -> bool {
    let (now, agent) = (uptime(sim), own_agent(sim).unwrap_or(0));
    let Some(frame) = read::<FromServer>(bytes) else { return false };
    let next = with_agent(sim, |process| {
        let Some((session, epoch)) = &mut process.session else {
            let welcomed = AgentSession::welcome(&mut process.state, frame, now);
            return welcomed.map(|welcomed| process.session = Some(welcomed)).map(|()| (AfterFrame::Nothing, None));
        };
        Ok((session.take_frame(&mut process.state, frame), Some(*epoch)))
    });
    let Some(Ok((next, epoch))) = next else { return false };
    sim.facts.extend(epoch.map(|epoch| Fact::Own(MachineFact::Executed { agent, epoch })));
    match next {
        AfterFrame::Nothing => true,
        AfterFrame::Leave(_) => false,
        AfterFrame::SetMembers { restart_pools } => {
            let changed = set_members(sim, restart_pools);
            with_agent(sim, |process| {
                if let Some((session, _)) = &mut process.session {
                    session.take_list(&mut process.state, changed, now);
                }
            });
            let members = running_of_agent(sim);
            sim.facts.push(Fact::Own(MachineFact::Told { agent, members }));
            true
        }
    }
}

fn running_of_agent(sim: &mut Sim) -> std::collections::BTreeSet<ClusterName> {
    with_agent(sim, |process| process.state.tasks.running.keys().cloned().collect()).unwrap_or_default()
}

/// Runs exactly the members of the assignment, with new tasks for those of pools where `restart_pools` says so.
fn set_members(sim: &mut Sim, restart_pools: bool) -> ChangedMembers {
    let mut changed = ChangedMembers::default();
    let lists = with_agent(sim, |process| {
        let assignment = process.state.disk.assignment();
        let listed = assignment.members.iter().map(|member| (member.cluster.clone(), member.clone())).collect();
        let source = assignment.source.clone();
        (source, std::mem::replace(&mut process.state.tasks.running, listed))
    });
    let Some((source, before)) = lists else { return changed };
    let listed = with_agent(sim, |process| process.state.tasks.running.clone()).unwrap_or_default();
    let stays = |member: &AgentMember| {
        let is_replaced = restart_pools && member.pool.is_some();
        !is_replaced && before.get(&member.cluster) == Some(member) && listed.get(&member.cluster) == Some(member)
    };
    for (cluster, member) in &before {
        if !stays(member) {
            sim.stop_task(cluster);
            if !listed.contains_key(cluster) {
                changed.stopped.insert(cluster.clone());
            }
        }
    }
    for (cluster, member) in &listed {
        if !stays(member) {
            sim.start_task(cluster, source.clone(), true);
            changed.started.insert(cluster.clone());
        }
    }
    changed
}

/// Sends what is to be sent, and does what is to be done with members' tasks.
fn proceed(sim: &mut Sim) {
    let (now, agent) = (uptime(sim), own_agent(sim).unwrap_or(0));
    let sent = with_agent(sim, |process| {
        let (session, _) = process.session.as_mut()?;
        let reports = session.post(&mut process.state, now);
        let mut fetch = None;
        while fetch.is_none() && session.has_waiting() {
            fetch = session.fetch(&mut process.state);
        }
        Some((process.line?, reports, fetch, session.beat_at()))
    });
    let acts = with_agent(sim, |process| std::mem::take(&mut process.state.tasks.acts)).unwrap_or_default();
    if let Some((line, reports, fetch, beat_at)) = sent.flatten() {
        let is_strange =
            sim.deployment.agents.as_ref().is_some_and(|agents| agents.machines[agent].identity.is_strange);
        if reports.is_some() || fetch.is_some() {
            await_answer(sim, line, SILENT);
        }
        if let Some(mut reports) = reports {
            if is_strange {
                reports.events.insert(0, ToServer::Unknown);
            }
            send_to_server(sim, line, Message::Reports(json(&reports)));
        }
        match fetch {
            Some(Fetch::Orders(digests)) => send_to_server(sim, line, Message::FetchOrders(digests)),
            Some(Fetch::Objects(digests)) => {
                let body = json(&FetchObjects { digests });
                send_to_server(sim, line, Message::FetchObjects(body));
            }
            None => {}
        }
        arrange_beat(sim, beat_at.map(|at| instant(sim, at)));
    }
    for act in acts {
        do_with_tasks(sim, act);
    }
}

fn arrange_beat(sim: &mut Sim, at: Option<jiff::Timestamp>) {
    let Some(at) = at.map(|at| at.max(sim.now)) else { return };
    let incarnation =
        own_agent(sim).and_then(|agent| Some(sim.deployment.agents.as_ref()?.machines[agent].incarnation));
    let is_sooner = with_agent(sim, |process| {
        let is_sooner = process.beat_at.is_none_or(|known| at < known);
        if is_sooner {
            process.beat_at = Some(at);
        }
        is_sooner
    });
    if let Some(incarnation) = incarnation.filter(|_| is_sooner == Some(true)) {
        push_agent(sim, at, AgentHappening::Beat(incarnation));
    }
}

fn do_with_tasks(sim: &mut Sim, act: TaskAct) {
    match act {
        TaskAct::Command(cluster, command) => sim.command(&cluster, command),
        TaskAct::Announce => {
            for cluster in running_of_agent(sim) {
                sim.command(&cluster, MemberCommand::Announce);
                sim.announce(&cluster);
            }
        }
        TaskAct::Prolong(epoch, end) => prolong_agent(sim, epoch, end),
    }
}

/// Returns the epoch that the acting agent's writes carry.
pub(crate) fn epoch_of_agent(sim: &Sim) -> Option<u64> {
    let agent = own_agent(sim)?;
    Some(sim.deployment.agents.as_ref()?.machines[agent].process.as_ref()?.state.tasks.epoch)
}
