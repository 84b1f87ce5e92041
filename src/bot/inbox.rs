//! What reaches the bot from others, and the ends of its own writes.

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::send::Sent;
use engine::ForgeUpdate;
use model::forge::ForgeEvent;

/// What the daemon says to the bot.
pub(crate) enum Message {
    /// A new state.
    Update(ForgeUpdate),
    /// Nothing follows: say when all is written.
    Finish(oneshot::Sender<()>),
}

/// What reaches the bot.
pub(crate) struct Inbox {
    /// What the daemon says.
    pub messages: mpsc::UnboundedReceiver<Message>,
    /// What webhooks say; absent where there are none.
    pub hints: Option<mpsc::Receiver<ForgeEvent>>,
    /// Writes under way; their start is stored.
    pub writes: JoinSet<Sent>,
    /// Who waits for all to be written.
    pub finishing: Option<oneshot::Sender<()>>,
}

impl Inbox {
    /// Returns an inbox without writes under way.
    pub(crate) fn new(
        messages: mpsc::UnboundedReceiver<Message>,
        hints: Option<mpsc::Receiver<ForgeEvent>>,
        finishing: Option<oneshot::Sender<()>>,
    ) -> Self {
        Self { messages, hints, writes: JoinSet::new(), finishing }
    }

    /// Returns the next hint, if one has arrived.
    pub(crate) fn arrived_hint(&mut self) -> Option<ForgeEvent> {
        self.hints.as_mut()?.try_recv().ok()
    }
}

/// Waits for a webhook; forever without them.
pub(crate) async fn next_hint(hints: &mut Option<mpsc::Receiver<ForgeEvent>>) -> Option<ForgeEvent> {
    match hints {
        Some(hints) => hints.recv().await,
        None => std::future::pending().await,
    }
}
