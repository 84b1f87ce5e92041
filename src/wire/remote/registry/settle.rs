//! What time and changes of agents and members lead to: who writes to which member.

use std::collections::{BTreeMap, BTreeSet};

use super::{Registry, RegistryEffect, Writer};
use engine::MemberEvent;
use model::agent::{AgentChoice, assign};
use model::id::ClusterName;
use model::uptime::Uptime;

impl Registry {
    /// Acts on what time has brought. Returns when to call it again.
    pub fn tick(&mut self, now: Uptime) -> Option<Uptime> {
        if self.due.is_some_and(|due| due <= now) {
            self.settle(now);
        }
        self.due
    }

    /// Returns when time changes something next.
    fn next_due(&self) -> Option<Uptime> {
        let writers = self.members.values().map(|remote| &remote.writer).chain(self.parting.values());
        let of_writers = writers.filter_map(|writer| match writer {
            Writer::Nobody | Writer::Agent(_) => None,
            Writer::Leaving(_, at) | Writer::Gone(_, at) => Some(*at),
        });
        let of_members = of_writers.chain(self.members.values().filter_map(|remote| remote.silent_until));
        let of_sessions = self.sessions.values().map(|session| session.heard.after(self.settings.lease));
        of_members.chain(of_sessions).chain(self.pools_from).min()
    }

    /// Ends the sessions of agents that were not heard for the time of the lease.
    pub(super) fn expire(&mut self, now: Uptime) {
        let lease = self.settings.lease;
        let silent = self.sessions.iter().filter(|(_, session)| session.heard.after(lease) <= now);
        for agent in silent.map(|(agent, _)| agent.clone()).collect::<Vec<_>>() {
            self.end(&agent, &format!("it was not heard for {} s", lease.as_secs()), now);
        }
    }

    /// Gives members to agents and takes them away, as far as that is safe now.
    pub(super) fn settle(&mut self, now: Uptime) {
        self.expire(now);
        let lease = self.settings.lease;
        let mut late = BTreeSet::new();
        for (_, writer) in self.writers() {
            match writer {
                // Its lease has run out, so it writes no more.
                Writer::Gone(_, until) if *until <= now => *writer = Writer::Nobody,
                Writer::Leaving(agent, until) if *until <= now => drop(late.insert(agent.clone())),
                _ => {}
            }
        }
        self.parting.retain(|cluster, writer| match writer {
            Writer::Nobody => {
                self.effects.push(RegistryEffect::Parted(cluster.clone()));
                false
            }
            Writer::Agent(agent) => {
                *writer = Writer::Leaving(agent.clone(), now.after(lease));
                true
            }
            Writer::Leaving(..) | Writer::Gone(..) => true,
        });
        self.pools_from = self.pools_from.filter(|from| now < *from);
        for agent in late {
            // What it stopped is not known: its lease must run out.
            self.end(&agent, "it did not stop a member that it gave up", now);
        }
        let connected: BTreeMap<String, BTreeSet<String>> =
            self.sessions.iter().map(|(agent, session)| (agent.clone(), session.pools.clone())).collect();
        let wanted = assign(self.members.iter().map(|(cluster, remote)| (cluster, &remote.choice)), &connected);
        for (cluster, remote) in &mut self.members {
            let target = wanted.get(cluster);
            let is_pool = matches!(remote.choice, AgentChoice::Pool { .. });
            // The agent does not know the member, so it would never say that it stopped it.
            if let Writer::Agent(agent) = &remote.writer
                && target != Some(agent)
                && self.sessions.get(agent).is_some_and(|session| session.never_ran(cluster))
            {
                remote.writer = Writer::Nobody;
            }
            // Two agents must not write to one member: the next begins when the present one has stopped.
            match (&remote.writer, target) {
                (Writer::Nobody, Some(target)) if !is_pool || self.pools_from.is_none() => {
                    remote.writer = Writer::Agent(target.clone());
                }
                (Writer::Agent(agent), target) if target != Some(agent) => {
                    remote.writer = Writer::Leaving(agent.clone(), now.after(lease));
                }
                _ => {}
            }
        }
        self.list_members();
        self.send_first_lists(&wanted);
        self.name_absent(now);
        self.due = self.next_due();
    }

    /// Puts into each session the members that its agent writes to.
    fn list_members(&mut self) {
        for (cluster, remote) in &mut self.members {
            let writer = match &remote.writer {
                Writer::Agent(agent) => Some(agent),
                _ => None,
            };
            for (agent, session) in &mut self.sessions {
                let has = session.members.contains(cluster);
                if Some(agent) == writer && !has {
                    session.members.insert(cluster.clone());
                    remote.silent_until = None;
                    // The core sends all orders again, as to a task that was restarted.
                    remote.orders.clear();
                    let event = MemberEvent::Restarted { cluster: cluster.clone() };
                    self.effects.push(RegistryEffect::Event(remote.id, event));
                } else if Some(agent) != writer && has {
                    session.members.remove(cluster);
                    session.pending.retain(|(of, _), _| of != cluster);
                    session.placements.remove(cluster);
                    for order in remote.orders.values() {
                        session.content.remove(&order.digest);
                    }
                    let reason = format!("it moves from agent {agent} to another");
                    let event = MemberEvent::Offline { cluster: cluster.clone(), reason };
                    self.effects.push(RegistryEffect::Event(remote.id, event));
                } else {
                    continue;
                }
                session.lists = true;
                self.effects.push(RegistryEffect::Wake(session.id.clone()));
            }
        }
    }

    /// Lets the first list of each session go that has all members of its agent, or that has the agent stop some.
    fn send_first_lists(&mut self, wanted: &BTreeMap<ClusterName, String>) {
        let mut stopping: BTreeSet<String> = self.parting.values().filter_map(stopped_by).collect();
        let mut receiving = BTreeSet::new();
        for (cluster, remote) in &self.members {
            if let Some(agent) = stopped_by(&remote.writer) {
                stopping.insert(agent);
                receiving.extend(wanted.get(cluster));
            }
        }
        for (agent, session) in &mut self.sessions {
            // Members of its own name do not wait for the pools.
            let is_early = self.pools_from.is_some() && !session.pools.is_empty() && session.members.is_empty();
            let is_whole = !is_early && !receiving.contains(agent);
            // Two agents that wait for what the other one stops would both wait for nothing.
            if session.waits && (is_whole || stopping.contains(agent)) {
                session.waits = false;
                self.effects.push(RegistryEffect::Wake(session.id.clone()));
            }
        }
    }

    /// Says of members whose first agent did not come that they are offline.
    fn name_absent(&mut self, now: Uptime) {
        let listens = self.settings.listens;
        for (cluster, remote) in &mut self.members {
            if remote.silent_until.is_some_and(|until| until <= now || !listens) {
                remote.silent_until = None;
                let reason = match &remote.choice {
                    _ if !listens => {
                        "agents cannot connect: the section `agents` of the configuration counts from the next start"
                            .to_owned()
                    }
                    AgentChoice::Named(name) => format!("no agent named {name} is connected"),
                    AgentChoice::Pool { pool } if self.pools_from.is_some() => {
                        format!(
                            "a daemon that begins waits for one lease before it gives members to agents of pool {pool}"
                        )
                    }
                    AgentChoice::Pool { pool } => format!("no agent of pool {pool} is connected"),
                };
                let event = MemberEvent::Offline { cluster: cluster.clone(), reason };
                self.effects.push(RegistryEffect::Event(remote.id, event));
            }
        }
    }
}

/// Returns the agent that has to stop writing to a member.
fn stopped_by(writer: &Writer) -> Option<String> {
    match writer {
        Writer::Leaving(agent, _) => Some(agent.clone()),
        Writer::Nobody | Writer::Agent(_) | Writer::Gone(..) => None,
    }
}
