//! What delivers to each member: a task of the daemon, or an agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent::server::{self, Agents, RemoteMember};
use config::{Configuration, MemberAccess};
use engine::agent_tokens::AgentTokens;
use engine::{MemberCommand, MemberEvent};
use member::Common;
use member::decryption::Decryption;
use member::task::{MemberTask, common, health_rules};
use model::id::ClusterName;
use model::work::SourceName;
use system::fence::Fence;
use system::supervise::Supervisor;
use tokio::sync::mpsc;

/// What delivers to a member; ends when dropped.
enum MemberDelivery {
    /// A task of this process.
    Task(MemberTask),
    /// An agent.
    Remote(RemoteMember),
}

/// What delivers to the members of a daemon.
pub(super) struct MemberDeliveries {
    /// Before the agents: each is given up through them.
    deliveries: BTreeMap<ClusterName, MemberDelivery>,
    agents: Agents,
    source: SourceName,
    common: Arc<Common>,
    fence: Fence,
    events: mpsc::UnboundedSender<MemberEvent>,
    supervisor: Supervisor,
}

impl Drop for MemberDeliveries {
    fn drop(&mut self) {
        // Else agents would hear of each member that it is theirs no more, and forget its orders.
        self.agents.close();
    }
}

impl MemberDeliveries {
    /// Delivers to nobody yet, and listens for agents. Returns what members report, too.
    ///
    /// # Errors
    /// Agents cannot connect.
    pub(super) fn start(
        configuration: &Configuration,
        tokens: &AgentTokens,
        source: SourceName,
        fence: Fence,
        decryption: Decryption,
        supervisor: &Supervisor,
    ) -> Result<(Self, mpsc::UnboundedReceiver<MemberEvent>), server::Error> {
        let (events, reported) = mpsc::unbounded_channel();
        let members = Self {
            deliveries: BTreeMap::new(),
            agents: Agents::start(configuration, tokens, source.clone(), &fence, supervisor)?,
            source,
            common: Arc::new(common(health_rules(&configuration.health), decryption, supervisor)),
            fence,
            events,
            supervisor: supervisor.clone(),
        };
        Ok((members, reported))
    }

    /// Delivers to a member from now on.
    pub(super) fn begin(&mut self, name: &ClusterName, access: &MemberAccess) {
        let events = self.events.clone();
        let delivery = if let MemberAccess::Agent { agent, access } = access {
            MemberDelivery::Remote(RemoteMember::start(&self.agents, name, agent, access, events))
        } else {
            let fence = self.fence.clone();
            let source = self.source.clone();
            let common = Arc::clone(&self.common);
            let parted = self.agents.parted(name);
            MemberDelivery::Task(MemberTask::start(
                name,
                access,
                fence,
                source,
                common,
                events,
                &self.supervisor,
                parted,
            ))
        };
        self.deliveries.insert(name.clone(), delivery);
    }

    /// Delivers to a member no more; what it holds stays.
    pub(super) fn end(&mut self, name: &ClusterName) {
        self.deliveries.remove(name);
    }

    /// Sends a member a command, if it is delivered to.
    pub(super) fn send(&self, name: &ClusterName, command: MemberCommand) {
        match self.deliveries.get(name) {
            Some(MemberDelivery::Task(task)) => task.send(command),
            Some(MemberDelivery::Remote(remote)) => remote.send(command),
            None => {}
        }
    }

    /// Takes other tokens of agents.
    pub(super) fn set_agent_tokens(&self, tokens: &AgentTokens) {
        self.agents.set_tokens(tokens);
    }
}
