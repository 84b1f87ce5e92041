//! Members' tasks, and their restart after an error in gitfleet.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::Instrument as _;

use super::decryption::Decryption;
use crate::commands::{CommandReceiver, CommandSender, channel};
use crate::{Common, Member, SharedLimits};
use cluster::Target;
use cluster::directory::Directory;
use cluster::live::{Inventory, Live};
use config::{HealthSettings, KindHealth, MemberAccess, OtherKinds};
use deliver::health::{HealthRules, KindRule};
use deliver::inventory::{ID_LABEL, NAMESPACE, PART_ANNOTATIONS, PART_OF_LABEL};
use deliver::live::KnownContents;
use engine::{MemberCommand, MemberEvent};
use model::encrypted::DigestKey;
use model::id::ClusterName;
use model::work::SourceName;
use system::fence::Fence;
use system::supervise::{Supervisor, Watcher};
use system::telemetry::metrics::Part;

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
    HealthRules {
        kinds: health.kinds.iter().cloned().map(rule).collect(),
        only_kubefleets: health.others == OtherKinds::NotTrackable,
        digest_key: DigestKey::default(),
    }
}

fn rule(KindHealth { group, kind, available, failed }: KindHealth) -> KindRule {
    KindRule { group, kind, available, failed }
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

/// The running task of one member; ends when dropped.
pub struct MemberTask {
    commands: CommandSender,
    task: JoinHandle<()>,
}

impl Drop for MemberTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl MemberTask {
    /// Starts the task of a member. It waits for `parted`, which ends when no other process delivers to the member, and writes while the fence is open.
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
        let (commands, inbox) = channel(supervisor.metrics());
        let cluster = name.clone();
        let access = access.clone();
        let file = match &access {
            MemberAccess::Live { kubeconfig, context, .. } => Some((kubeconfig.clone(), context.clone())),
            MemberAccess::Directory { .. } | MemberAccess::InCluster | MemberAccess::Agent { .. } => None,
        };
        // Shared with what tries a changed kubeconfig.
        let target = Arc::new(move || target(&cluster, &access));
        let span = tracing::error_span!("member", cluster = %name);
        let follow = |(path, context)| Replaced::follow(path, context, Arc::clone(&target), span.clone());
        let replaced = file.map(follow);
        let of = name.clone();
        let member_events = events.clone();
        let begin = move |orders| {
            // The target is recreated too: a panic may have left its connection in any state.
            let common = Arc::clone(&common);
            let events = member_events.clone();
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
    ///
    /// # Cancel safety
    /// The task ends all the same; it may still run when this is dropped.
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
    begin: impl Fn(CommandReceiver) -> Member,
    mut inbox: CommandReceiver,
    events: mpsc::UnboundedSender<MemberEvent>,
    mut watcher: Watcher,
    mut replaced: Option<Replaced>,
) {
    loop {
        let (commands, orders) = channel(watcher.metrics());
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
