//! Members' tasks.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::super::member::{Command, Event, Member};
use crate::cluster::Target;
use crate::cluster::directory::Directory;
use crate::cluster::live::{Inventory, Live};
use crate::config::MemberAccess;
use crate::deliver::inventory::{ID_LABEL, NAMESPACE, PART_OF_LABEL};
use crate::model::id::ClusterName;

/// Label and namespace of the inventory, as the edges are told.
const INVENTORY: Inventory = Inventory { namespace: NAMESPACE, id_label: ID_LABEL, part_of_label: PART_OF_LABEL };

/// The running task of one member; ends when dropped.
pub(super) struct MemberTask {
    commands: mpsc::UnboundedSender<Command>,
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
        source: String,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        let target: Arc<dyn Target> = match access {
            MemberAccess::Live { kubeconfig, context } => {
                Arc::new(Live::new(name.as_str(), kubeconfig.clone(), context.clone(), INVENTORY))
            }
            MemberAccess::Directory { path } => Arc::new(Directory::new(name.as_str(), path.clone(), INVENTORY)),
        };
        let (commands, inbox) = mpsc::unbounded_channel();
        let member = Member::new(name.clone(), source, target, inbox, events);
        Self { commands, task: tokio::spawn(member.run()) }
    }

    /// Tells the member.
    pub(super) fn tell(&self, command: Command) {
        // A task ends only when the daemon does.
        drop(self.commands.send(command));
    }
}
