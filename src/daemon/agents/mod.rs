//! The daemon's side of agents: which agents are connected, which members each has, and what it may fetch.
//!
//! `registry` decides who writes to which member, `routes` answers requests, `listener` accepts connections. A
//! [`RemoteMember`] passes the commands of the core to the registry; what agents report comes back as the
//! events of a member's task. Why it is this way: docs/design/052-agents-server.md.

mod credentials;
mod listener;
mod registry;
mod routes;
mod session;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use secrecy::ExposeSecret as _;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::registry::{AgentSettings, Registry};
use super::secret_files::{SecretFile, reason};
use super::supervise::Supervisor;
use crate::config::{
    self, AGENT_LEASE_DEFAULT, Agents as AgentsSection, Configuration, HealthSettings, MemberAccess, OtherKinds,
};
use crate::core::agent_tokens::AgentTokens;
use crate::core::{MemberCommand, MemberEvent};
use crate::model::agent::AgentChoice;
use crate::model::id::ClusterName;
use crate::model::work::SourceName;
use crate::telemetry::metrics::{Metrics, Part};
use crate::wire::{AgentHealth, AgentKindHealth, AgentReach};

/// The epoch of a daemon whose store has no lease: it is the only one.
const EPOCH_ALONE: u64 = 1;

/// Why agents cannot connect.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the section cannot be used.
    #[error(transparent)]
    File(#[from] config::Error),
    /// The certificates cannot be used.
    #[error("agents.tls: {0}")]
    Tls(String),
    /// The address cannot be listened on.
    #[error("listening on {address} (agents.listen); is another daemon running there?")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// What the listener, the members and the event loop share.
#[derive(Debug)]
struct AgentHub {
    registry: Mutex<Registry>,
    /// Something changed that may end an earlier wait.
    changed: Notify,
    metrics: Arc<Metrics>,
}

impl AgentHub {
    /// Does something with the registry, and shows what it led to.
    fn with<T>(&self, act: impl FnOnce(&mut Registry, Instant) -> T) -> T {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = registry.opened;
        let done = act(&mut registry, Instant::now());
        self.metrics.agent_sessions.inc_by(registry.opened - opened);
        self.metrics.agents.set(i64::try_from(registry.connected()).unwrap_or(i64::MAX));
        self.changed.notify_one();
        done
    }

    /// Reads something of the registry.
    fn read(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acts on what time brings, for ever.
    async fn follow_time(&self) {
        loop {
            let next = self.read().tick(Instant::now());
            self.metrics.agents.set(i64::try_from(self.read().connected()).unwrap_or(i64::MAX));
            tokio::select! {
                () = self.changed.notified() => {}
                () = sleep_until(next) => {}
            }
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

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
    /// Listens where the configuration says; `tokens` are those of the store. `epoch` is the leader's; none without a lease.
    ///
    /// # Errors
    /// The address, the certificates or a token cannot be used.
    pub fn start(
        configuration: &Configuration,
        tokens: &AgentTokens,
        source: SourceName,
        epoch: Option<u64>,
        supervisor: &Supervisor,
    ) -> Result<Self, Error> {
        let section = configuration.agents.as_ref();
        let settings = AgentSettings {
            epoch: epoch.unwrap_or(EPOCH_ALONE),
            lease: section.map_or(AGENT_LEASE_DEFAULT, |section| section.lease),
            source,
            health: health(&configuration.health),
            listens: section.is_some(),
        };
        let registry = Mutex::new(Registry::new(settings, Instant::now()));
        let hub = Arc::new(AgentHub { registry, changed: Notify::new(), metrics: supervisor.metrics() });
        hub.with(|registry, now| registry.set_stored_tokens(tokens, now));
        let mut agents = Self { hub, tasks: Vec::new(), address: None };
        if let Some(section) = section {
            agents.read_tokens(section, supervisor)?;
            let (listener, address) = listener::bind(section, supervisor)?;
            tracing::info!(%address, tls = section.tls.is_some(), "agents connect here");
            agents.address = Some(address);
            let (hub, supervised) = (Arc::clone(&agents.hub), supervisor.clone());
            let life = move || listener::serve(Arc::clone(&listener), Arc::clone(&hub));
            agents.tasks.push(tokio::spawn(async move { supervised.repeat(Part::Agents, life).await }));
        }
        let (hub, supervised) = (Arc::clone(&agents.hub), supervisor.clone());
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

    /// Takes the tokens of the store in place of the earlier ones. A session whose token is invalid ends.
    pub fn set_tokens(&self, tokens: &AgentTokens) {
        self.hub.with(|registry, now| registry.set_stored_tokens(tokens, now));
    }

    /// Reads the tokens in files, and uses another whenever its file changes.
    fn read_tokens(&self, section: &AgentsSection, supervisor: &Supervisor) -> Result<(), Error> {
        for token in &section.tokens {
            let (hub, name, pools) = (Arc::clone(&self.hub), token.name.clone(), token.pools.clone());
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
        let id = hub.with(|registry, now| registry.add(cluster, agent.clone(), reach(access), events, now));
        Self { hub, cluster: cluster.clone(), id }
    }

    /// Passes a command on to the agent.
    pub fn send(&self, command: MemberCommand) {
        self.hub.with(|registry, _| registry.command(&self.cluster, self.id, command));
    }
}

impl Drop for RemoteMember {
    fn drop(&mut self) {
        self.hub.with(|registry, now| registry.remove(&self.cluster, self.id, now));
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
