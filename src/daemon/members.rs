//! Members' tasks, and their restart after an error in gitfleet.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::Instrument as _;

use super::agents::{self, Agents, RemoteMember};
use super::decryption::Decryption;
use super::fence::Fence;
use super::member::{Common, Member, SharedLimits};
use super::supervise::{Supervisor, Watcher};
use crate::cluster::Target;
use crate::cluster::directory::Directory;
use crate::cluster::live::{Inventory, Live};
use crate::config::{Configuration, HealthSettings, KindHealth, MemberAccess, OtherKinds};
use crate::core::agent_tokens::AgentTokens;
use crate::core::{MemberCommand, MemberEvent};
use crate::deliver::health::{HealthRules, KindRule};
use crate::deliver::inventory::{ID_LABEL, NAMESPACE, PART_ANNOTATIONS, PART_OF_LABEL};
use crate::deliver::live::KnownContents;
use crate::model::encrypted::DigestKey;
use crate::model::id::ClusterName;
use crate::model::work::SourceName;
use crate::telemetry::metrics::Part;

mod kubeconfig;
#[cfg(test)]
mod tests;

use kubeconfig::Replaced;

/// Label and namespace of the inventory, for the adapters.
const INVENTORY: Inventory = Inventory {
    namespace: NAMESPACE,
    id_label: ID_LABEL,
    part_of_label: PART_OF_LABEL,
    part_annotations: PART_ANNOTATIONS,
};

/// Returns what all members have in common.
pub fn common(health: HealthRules, decryption: Decryption, supervisor: &Supervisor) -> Common {
    Common {
        health: HealthRules { digest_key: decryption.key().clone(), ..health },
        decryption,
        known: KnownContents::default(),
        metrics: supervisor.metrics(),
        limits: SharedLimits::default(),
    }
}

/// Returns the rules that tell whether objects are available.
pub fn health_rules(health: &HealthSettings) -> HealthRules {
    let rule = |KindHealth { group, kind, available, failed }| KindRule { group, kind, available, failed };
    HealthRules {
        kinds: health.kinds.iter().cloned().map(rule).collect(),
        only_kubefleets: health.others == OtherKinds::NotTrackable,
        digest_key: DigestKey::default(),
    }
}

/// Returns a member as it is reached; nothing is connected yet.
pub fn target(cluster: &ClusterName, access: &MemberAccess) -> Arc<dyn Target> {
    match access {
        MemberAccess::Live { kubeconfig, context, allow_exec } => Arc::new(
            Live::new(cluster.as_str(), kubeconfig.clone(), context.clone(), INVENTORY).allowing(allow_exec.clone()),
        ),
        MemberAccess::Directory { path } => Arc::new(Directory::new(cluster.as_str(), path.clone(), INVENTORY)),
        MemberAccess::InCluster => Arc::new(Live::in_cluster(cluster.as_str(), INVENTORY)),
        // The agent reaches it, in the same way.
        MemberAccess::Agent { access, .. } => target(cluster, access),
    }
}

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
    ) -> Result<(Self, mpsc::UnboundedReceiver<MemberEvent>), agents::Error> {
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
            let (fence, source, common) = (self.fence.clone(), self.source.clone(), Arc::clone(&self.common));
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

/// The running task of one member; ends when dropped.
pub struct MemberTask {
    commands: mpsc::UnboundedSender<MemberCommand>,
    task: JoinHandle<()>,
}

impl Drop for MemberTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl MemberTask {
    /// Starts the task of a member, once nobody else delivers to it: when `parted` ends. It writes while the fence is open.
    #[allow(clippy::too_many_arguments, reason = "each is something else that a task needs")]
    pub fn start(
        name: &ClusterName,
        access: &MemberAccess,
        fence: Fence,
        source: SourceName,
        common: Arc<Common>,
        events: mpsc::UnboundedSender<MemberEvent>,
        supervisor: &Supervisor,
        parted: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let (commands, inbox) = mpsc::unbounded_channel();
        let (cluster, access) = (name.clone(), access.clone());
        let file = match &access {
            MemberAccess::Live { kubeconfig, context, .. } => Some((kubeconfig.clone(), context.clone())),
            MemberAccess::Directory { .. } | MemberAccess::InCluster | MemberAccess::Agent { .. } => None,
        };
        // Shared with what tries a changed kubeconfig.
        let target = Arc::new(move || target(&cluster, &access));
        let span = tracing::error_span!("member", cluster = %name);
        let follow = |(path, context)| Replaced::follow(path, context, Arc::clone(&target), span.clone());
        let replaced = file.map(follow);
        let (of, member_events) = (name.clone(), events.clone());
        let begin = move |orders| {
            // The target is recreated too: a panic may have left its connection in any state.
            let (common, events) = (Arc::clone(&common), member_events.clone());
            Member::new(of.clone(), source.clone(), target(), common, fence.clone(), orders, events)
        };
        let watcher = supervisor.over(Part::Member, Some(name.as_str()));
        let life = supervise(name.clone(), begin, inbox, events, watcher, replaced);
        let task = async move {
            parted.await;
            life.await;
        };
        Self { commands, task: tokio::spawn(task.instrument(span)) }
    }

    /// Ends the task, and returns when it has ended: then it begins no request any more.
    pub async fn stop(mut self) {
        self.task.abort();
        // It was cancelled, which is no news.
        drop((&mut self.task).await);
    }

    /// Sends the member a command.
    pub fn send(&self, command: MemberCommand) {
        // A task ends only when the daemon does.
        drop(self.commands.send(command));
    }
}

/// Waits for another kubeconfig; for ever where the member has none.
async fn next(replaced: &mut Option<Replaced>) {
    match replaced {
        Some(replaced) => replaced.next().await,
        None => std::future::pending().await,
    }
}

/// Runs a member's task, and restarts it after a pause if it ends because of an error in gitfleet: otherwise the cluster would
/// stay as it is without any message. The daemon learns why the cluster does not answer, and after the pause that the new task
/// has no orders. Where another kubeconfig took the place of the one it began with, it is restarted at once.
async fn supervise(
    name: ClusterName,
    begin: impl Fn(mpsc::UnboundedReceiver<MemberCommand>) -> Member,
    mut inbox: mpsc::UnboundedReceiver<MemberCommand>,
    events: mpsc::UnboundedSender<MemberEvent>,
    mut watcher: Watcher,
    mut replaced: Option<Replaced>,
) {
    loop {
        let (commands, orders) = mpsc::unbounded_channel();
        let mut life = Box::pin(watcher.live(begin(orders).run()));
        let end = loop {
            tokio::select! {
                biased;
                end = &mut life => match end {
                    // It ends by itself only if the daemon closed its channels.
                    None => return,
                    Some(end) => break Some(end),
                },
                command = inbox.recv() => match command {
                    // Orders that the old task cannot take are sent again after the restart.
                    Some(command) => drop(commands.send(command)),
                    None => return,
                },
                () = next(&mut replaced) => break None,
            }
        };
        drop(life);
        if let Some(end) = end {
            // The receiver goes only when the process ends.
            drop(events.send(MemberEvent::Offline { cluster: name.clone(), reason: end.reason }));
            tokio::time::sleep(end.pause).await;
            watcher.begin_again();
        } else {
            tracing::info!("the kubeconfig changed; connecting with the new one");
        }
        // All orders are sent again, and then with their earlier reports.
        while inbox.try_recv().is_ok() {}
        drop(events.send(MemberEvent::Restarted { cluster: name.clone() }));
    }
}
