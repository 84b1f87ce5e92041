//! The daemon's side of agents: which agents are connected, which members each has, and what it may fetch.
//!
//! `remote::registry` decides who writes to which member, `routes` answers requests, `listener` accepts connections. A
//! [`RemoteMember`] passes the commands of the core to the registry; what agents report comes back as the
//! events of a member's task. Why it is this way: docs/design/052-agents-server.md.

mod connection;
mod hub;
mod listener;
mod routes;
#[cfg(test)]
mod tests;

pub use hub::Error;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use secrecy::ExposeSecret as _;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use crate::server::hub::{AgentHub, SharedRegistry};
use config::{AGENT_LEASE_DEFAULT, Agents as AgentsSection, Configuration, HealthSettings, MemberAccess, OtherKinds};
use engine::agent_tokens::AgentTokens;
use engine::{MemberCommand, MemberEvent};
use model::agent::AgentChoice;
use model::id::ClusterName;
use model::work::SourceName;
use system::clock;
use system::fence::Fence;
use system::secret_files::{SecretFile, reason};
use system::supervise::Supervisor;
use system::telemetry::metrics::Part;
use wire::remote::registry::{AgentSettings, Registry};
use wire::{AgentHealth, AgentKindHealth, AgentReach};

/// The epoch of a daemon whose store has no lease: it is the only one.
const EPOCH_ALONE: u64 = 1;

/// The agents of a daemon; nobody is served any more when the last handle of a daemon is dropped.
#[derive(Debug)]
pub struct Agents {
    hub: Arc<AgentHub>,
    tasks: Vec<JoinHandle<()>>,
    address: Option<SocketAddr>,
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Agents {
    /// Listens where the configuration says; `tokens` are those of the store. Agents are answered while the fence is open.
    ///
    /// # Errors
    /// The address, the certificates or a token cannot be used.
    pub fn start(
        configuration: &Configuration,
        tokens: &AgentTokens,
        source: SourceName,
        fence: &Fence,
        supervisor: &Supervisor,
    ) -> Result<Self, Error> {
        let section = configuration.agents.as_ref();
        let settings = AgentSettings {
            epoch: fence.epoch().unwrap_or(EPOCH_ALONE),
            lease: section.map_or(AGENT_LEASE_DEFAULT, |section| section.lease),
            source,
            health: health(&configuration.health),
            listens: section.is_some(),
        };
        let registry = Registry::new(settings, clock::uptime());
        let shared = Mutex::new(SharedRegistry {
            registry,
            members: BTreeMap::new(),
            streams: BTreeMap::new(),
            parted: watch::Sender::default(),
        });
        let hub =
            Arc::new(AgentHub { shared, changed: Notify::new(), fence: fence.clone(), metrics: supervisor.metrics() });
        hub.with(|registry, now| registry.set_stored_tokens(tokens, now));
        let mut agents = Self { hub, tasks: Vec::new(), address: None };
        if let Some(section) = section {
            agents.read_tokens(section, supervisor)?;
            let (listener, address) = listener::bind(section, supervisor)?;
            tracing::info!(%address, tls = section.tls.is_some(), "agents connect here");
            agents.address = Some(address);
            let hub = Arc::clone(&agents.hub);
            let supervised = supervisor.clone();
            let life = move || listener::serve(Arc::clone(&listener), Arc::clone(&hub));
            agents.tasks.push(tokio::spawn(async move { supervised.repeat(Part::Agents, life).await }));
        }
        let hub = Arc::clone(&agents.hub);
        let supervised = supervisor.clone();
        let time = move || {
            let hub = Arc::clone(&hub);
            async move { hub.follow_time().await }
        };
        agents.tasks.push(tokio::spawn(async move { supervised.repeat(Part::Agents, time).await }));
        Ok(agents)
    }

    /// Returns where agents connect.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns when no agent writes any more to a member that has no agent in the configuration.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub fn parted(&self, cluster: &ClusterName) -> impl Future<Output = ()> + Send + use<> {
        let hub = Arc::clone(&self.hub);
        let cluster = cluster.clone();
        async move {
            let mut parted = hub.read().parted.subscribe();
            while hub.read().registry.is_parting(&cluster) {
                // The sender lives as long as the hub.
                if parted.changed().await.is_err() {
                    return;
                }
            }
        }
    }

    /// Ends all sessions for good. Members that are given up after this stay with their agents, for the next daemon.
    pub fn close(&self) {
        self.hub.with(Registry::close);
    }

    /// Takes the tokens of the store in place of the earlier ones. A session whose token is invalid ends.
    pub fn set_tokens(&self, tokens: &AgentTokens) {
        self.hub.with(|registry, now| registry.set_stored_tokens(tokens, now));
    }

    /// Reads the tokens in files, and uses another whenever its file changes.
    fn read_tokens(&self, section: &AgentsSection, supervisor: &Supervisor) -> Result<(), Error> {
        for token in &section.tokens {
            let hub = Arc::clone(&self.hub);
            let name = token.name.clone();
            let pools = token.pools.clone();
            let secret = config::read_secret(&token.token_file)?;
            self.hub.with(|registry, _| {
                registry.credentials.set_fixed(&name, secret.expose_secret(), pools.clone());
            });
            let what = format!("the token of agent {name}");
            let file = SecretFile { what, path: token.token_file.clone() };
            file.follow(supervisor, move |path| {
                let secret = config::read_secret(path).map_err(|error| reason(&error))?;
                hub.with(|registry, now| {
                    registry.credentials.set_fixed(&name, secret.expose_secret(), pools.clone());
                    registry.check_tokens(now);
                });
                Ok(())
            });
        }
        Ok(())
    }
}

/// A member that an agent delivers to; it is given up when dropped, and nothing of it is removed.
#[derive(Debug)]
pub struct RemoteMember {
    hub: Arc<AgentHub>,
    cluster: ClusterName,
    id: u64,
}

impl RemoteMember {
    /// Waits for the agent of a member; the core hears in `events` when it comes, and what it reports.
    pub fn start(
        agents: &Agents,
        cluster: &ClusterName,
        agent: &AgentChoice,
        access: &MemberAccess,
        events: mpsc::UnboundedSender<MemberEvent>,
    ) -> Self {
        let hub = Arc::clone(&agents.hub);
        let id = hub.change(|shared, now| {
            let id = shared.registry.add(cluster, agent.clone(), reach(access), now);
            shared.members.insert(id, events);
            id
        });
        Self { hub, cluster: cluster.clone(), id }
    }

    /// Passes a command on to the agent.
    pub fn send(&self, command: MemberCommand) {
        self.hub.with(|registry, _| registry.command(&self.cluster, self.id, command));
    }
}

impl Drop for RemoteMember {
    fn drop(&mut self) {
        self.hub.change(|shared, now| {
            shared.registry.remove(&self.cluster, self.id, now);
            shared.members.remove(&self.id);
        });
    }
}

/// Returns how an agent reaches a member, as it is told.
fn reach(access: &MemberAccess) -> AgentReach {
    match access {
        MemberAccess::Live { kubeconfig, context, allow_exec } => AgentReach::Kubeconfig {
            path: kubeconfig.clone(),
            context: context.clone(),
            allow_exec: allow_exec.clone(),
        },
        MemberAccess::Directory { path } => AgentReach::Directory { path: path.clone() },
        MemberAccess::InCluster => AgentReach::InCluster,
        MemberAccess::Agent { access, .. } => reach(access),
    }
}

/// Returns the rules for availability, as agents are told.
fn health(settings: &HealthSettings) -> AgentHealth {
    let kinds = settings.kinds.iter().map(|kind| AgentKindHealth {
        group: kind.group.clone(),
        kind: kind.kind.clone(),
        available: kind.available.as_ref().map(|expression| expression.text().to_owned()),
        failed: kind.failed.as_ref().map(|expression| expression.text().to_owned()),
    });
    AgentHealth { kinds: kinds.collect(), only_kubefleets: settings.others == OtherKinds::NotTrackable }
}
