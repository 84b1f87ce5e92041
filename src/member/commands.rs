//! The channel of commands to a member's task, with its depth as a metric.
//!
//! It is not bounded: the event loop sends while it carries out a decision, and would wait for a member that does not answer, and so for all
//! members. What is in it is at most what was decided since the task last looked: an order for each placement and decision.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::{SendError, TryRecvError};

use engine::MemberCommand;
use system::telemetry::metrics::{ByChannel, Channel, Metrics};

/// The labels of the channel.
const DEPTH: ByChannel = ByChannel { channel: Channel::MemberCommands };

/// Sends commands to a member's task.
#[derive(Debug)]
pub(crate) struct CommandSender {
    commands: mpsc::UnboundedSender<WaitingCommand>,
    metrics: Arc<Metrics>,
}

/// Receives the commands of a member's task.
#[derive(Debug)]
pub struct CommandReceiver(mpsc::UnboundedReceiver<WaitingCommand>);

/// A command in the channel.
#[derive(Debug)]
struct WaitingCommand {
    command: MemberCommand,
    _counted: CountedCommand,
}

/// Counts one command in the depth of the channel until it is received, or dropped with the channel.
#[derive(Debug)]
struct CountedCommand(Arc<Metrics>);

impl Drop for CountedCommand {
    fn drop(&mut self) {
        self.0.channel_depth.get_or_create(&DEPTH).dec();
    }
}

/// Makes a channel whose depth counts in these metrics.
pub(crate) fn channel(metrics: Arc<Metrics>) -> (CommandSender, CommandReceiver) {
    let (commands, receiver) = mpsc::unbounded_channel();
    (CommandSender { commands, metrics }, CommandReceiver(receiver))
}

impl CommandSender {
    /// Sends a command.
    ///
    /// # Errors
    /// The receiver is gone; the command comes back.
    pub(crate) fn send(&self, command: MemberCommand) -> Result<(), SendError<MemberCommand>> {
        self.metrics.channel_depth.get_or_create(&DEPTH).inc();
        let waiting = WaitingCommand { command, _counted: CountedCommand(Arc::clone(&self.metrics)) };
        self.commands.send(waiting).map_err(|SendError(unsent)| SendError(unsent.command))
    }
}

impl CommandReceiver {
    /// Returns the next command; `None` when the sender is gone.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn recv(&mut self) -> Option<MemberCommand> {
        Some(self.0.recv().await?.command)
    }

    /// Returns a command that is there.
    ///
    /// # Errors
    /// None is there, or the sender is gone.
    pub(crate) fn try_recv(&mut self) -> Result<MemberCommand, TryRecvError> {
        self.0.try_recv().map(|waiting| waiting.command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_depth_is_what_waits() {
        let metrics = Arc::new(Metrics::new());
        let depth = || metrics.channel_depth.get_or_create(&DEPTH).get();
        let (sender, mut receiver) = channel(Arc::clone(&metrics));
        for _ in 0..3 {
            sender.send(MemberCommand::Announce).expect("it is received");
        }
        assert_eq!(depth(), 3);
        assert!(receiver.recv().await.is_some() && receiver.try_recv().is_ok());
        assert_eq!(depth(), 1);
        drop(receiver);
        assert_eq!(depth(), 0, "what is not received waits no more");
        assert!(sender.send(MemberCommand::Announce).is_err());
        assert_eq!(depth(), 0);
    }
}
