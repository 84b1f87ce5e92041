//! Members' tasks, and what is done when one ends by an error of ours.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::super::clock;
use super::super::member::{Command, Event, Member};
use crate::cluster::Target;
use crate::cluster::directory::Directory;
use crate::cluster::live::{Inventory, Live};
use crate::config::MemberAccess;
use crate::deliver::inventory::{ID_LABEL, NAMESPACE, PART_OF_LABEL};
use crate::model::id::ClusterName;

#[cfg(test)]
mod tests;

/// Label and namespace of the inventory, as the edges are told.
const INVENTORY: Inventory = Inventory { namespace: NAMESPACE, id_label: ID_LABEL, part_of_label: PART_OF_LABEL };
/// First pause before a task that ended by an error of ours is begun anew; doubles up to [`RESTART_MAX`].
const RESTART_FIRST: Duration = Duration::from_secs(1);
/// Longest such pause. A task that lived longer begins with the first again.
const RESTART_MAX: Duration = Duration::from_mins(5);

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
        let (commands, inbox) = mpsc::unbounded_channel();
        let (cluster, access) = (name.clone(), access.clone());
        let target = move || -> Arc<dyn Target> {
            match &access {
                MemberAccess::Live { kubeconfig, context } => {
                    Arc::new(Live::new(cluster.as_str(), kubeconfig.clone(), context.clone(), INVENTORY))
                }
                MemberAccess::Directory { path } => Arc::new(Directory::new(cluster.as_str(), path.clone(), INVENTORY)),
            }
        };
        let delays = || clock::delays(RESTART_FIRST, RESTART_MAX);
        Self { commands, task: tokio::spawn(supervise(name.clone(), source, target, inbox, events, delays)) }
    }

    /// Tells the member.
    pub(super) fn tell(&self, command: Command) {
        // A task ends only when the daemon does.
        drop(self.commands.send(command));
    }
}

/// Lets a member's task live, and begins it anew after a pause where it ends by an error of ours: nobody else would, and the
/// cluster would stand still without a word. The hall hears that the cluster does not answer and why, and after the pause that
/// the new task knows no orders.
async fn supervise<Delays: Iterator<Item = Duration>>(
    name: ClusterName,
    source: String,
    target: impl Fn() -> Arc<dyn Target>,
    mut inbox: mpsc::UnboundedReceiver<Command>,
    events: mpsc::UnboundedSender<Event>,
    delays: impl Fn() -> Delays,
) {
    let mut pauses = delays();
    loop {
        let (commands, orders) = mpsc::unbounded_channel();
        let member = Member::new(name.clone(), source.clone(), target(), orders, events.clone());
        let born = Instant::now();
        let life = AssertUnwindSafe(member.run()).catch_unwind();
        tokio::pin!(life);
        let panic = loop {
            tokio::select! {
                biased;
                ended = &mut life => match ended {
                    Ok(()) => return,
                    Err(panic) => break panic,
                },
                command = inbox.recv() => match command {
                    // What is not taken any more is ordered anew after the restart.
                    Some(command) => drop(commands.send(command)),
                    None => return,
                },
            }
        };
        if born.elapsed() > RESTART_MAX {
            pauses = delays();
        }
        let pause = pauses.next().unwrap_or(RESTART_MAX);
        let reason = format!(
            "its task ended by an error of gitfleet's own ({}) and is begun anew after {:.0} s; please report it",
            words_of(panic.as_ref()),
            pause.as_secs_f64()
        );
        tracing::error!(cluster = %name, reason, "a member's task ended");
        // The hall is gone only when everything ends.
        drop(events.send(Event::Offline { cluster: name.clone(), reason }));
        tokio::time::sleep(pause).await;
        // Everything is ordered anew, and then with what the fields were before.
        while inbox.try_recv().is_ok() {}
        drop(events.send(Event::Restarted { cluster: name.clone() }));
    }
}

/// Returns what a panic says.
fn words_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it says no more")
}
