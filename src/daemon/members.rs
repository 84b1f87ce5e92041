//! Members' tasks, and what is done when one ends by an error of ours.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::Instrument as _;

use super::member::Member;
use super::supervise::{Supervisor, Watcher};
use crate::cluster::Target;
use crate::cluster::directory::Directory;
use crate::cluster::live::{Inventory, Live};
use crate::config::MemberAccess;
use crate::core::{MemberCommand, MemberEvent};
use crate::deliver::inventory::{ID_LABEL, NAMESPACE, PART_OF_LABEL, SPEC_HASH};
use crate::model::id::ClusterName;
use crate::model::work::SourceName;
use crate::telemetry::metrics::{Metrics, Part};

#[cfg(test)]
mod tests;

/// Label and namespace of the inventory, as the edges are told.
const INVENTORY: Inventory = Inventory {
    namespace: NAMESPACE,
    id_label: ID_LABEL,
    part_of_label: PART_OF_LABEL,
    manifest_annotation: SPEC_HASH,
};
/// The running task of one member; ends when dropped.
pub(super) struct MemberTask {
    commands: mpsc::UnboundedSender<MemberCommand>,
    task: JoinHandle<()>,
}

impl Drop for MemberTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl MemberTask {
    /// Starts the task of a member.
    pub(super) fn start(
        name: &ClusterName,
        access: &MemberAccess,
        source: SourceName,
        events: mpsc::UnboundedSender<MemberEvent>,
        supervisor: &Supervisor,
    ) -> Self {
        let (commands, inbox) = mpsc::unbounded_channel();
        let (cluster, access) = (name.clone(), access.clone());
        let target = move || -> Arc<dyn Target> {
            match &access {
                MemberAccess::Live { kubeconfig, context, allow_exec } => Arc::new(
                    Live::new(cluster.as_str(), kubeconfig.clone(), context.clone(), INVENTORY)
                        .allowing(allow_exec.clone()),
                ),
                MemberAccess::Directory { path } => Arc::new(Directory::new(cluster.as_str(), path.clone(), INVENTORY)),
            }
        };
        let watcher = supervisor.over(Part::Member, Some(name.as_str()));
        Self {
            commands,
            task: tokio::spawn(
                supervise(name.clone(), source, target, inbox, events, watcher, supervisor.metrics())
                    .instrument(tracing::error_span!("member", cluster = %name)),
            ),
        }
    }

    /// Tells the member.
    pub(super) fn tell(&self, command: MemberCommand) {
        // A task ends only when the daemon does.
        drop(self.commands.send(command));
    }
}

/// Lets a member's task live, and begins it anew after a pause where it ends by an error of ours: nobody else would, and the
/// cluster would stand still without a word. The daemon hears that the cluster does not answer and why, and after the pause that
/// the new task knows no orders.
async fn supervise(
    name: ClusterName,
    source: SourceName,
    target: impl Fn() -> Arc<dyn Target>,
    mut inbox: mpsc::UnboundedReceiver<MemberCommand>,
    events: mpsc::UnboundedSender<MemberEvent>,
    mut watcher: Watcher,
    metrics: Arc<Metrics>,
) {
    loop {
        let (commands, orders) = mpsc::unbounded_channel();
        // The target is made anew, too: nobody knows what the panic left of its connection.
        let member = Member::new(name.clone(), source.clone(), target(), orders, events.clone(), Arc::clone(&metrics));
        let mut life = Box::pin(watcher.live(member.run()));
        let end = loop {
            tokio::select! {
                biased;
                end = &mut life => match end {
                    // It ends by itself only where the daemon's side of its channels is gone.
                    None => return,
                    Some(end) => break end,
                },
                command = inbox.recv() => match command {
                    // What is not taken any more is ordered anew after the restart.
                    Some(command) => drop(commands.send(command)),
                    None => return,
                },
            }
        };
        drop(life);
        // The receiver goes only when the process ends.
        drop(events.send(MemberEvent::Offline { cluster: name.clone(), reason: end.reason }));
        tokio::time::sleep(end.pause).await;
        watcher.begin_again();
        // Everything is ordered anew, and then with what the fields were before.
        while inbox.try_recv().is_ok() {}
        drop(events.send(MemberEvent::Restarted { cluster: name.clone() }));
    }
}
