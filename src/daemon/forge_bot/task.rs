//! The bot's task and its restarts.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::records::SavedRecords;
use super::{Console, Handles, Message, Settings};
use crate::clock;
use crate::core::ForgeUpdate;
use crate::daemon::supervise::{Supervisor, Watcher};
use crate::telemetry::metrics::Part;

/// Pause before unreadable records are read again.
const RECORDS_RETRY: Duration = Duration::from_secs(30);

/// The running task; ends when dropped.
pub struct ConsoleTask {
    messages: mpsc::UnboundedSender<Message>,
    task: JoinHandle<()>,
}

impl Drop for ConsoleTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ConsoleTask {
    /// Starts the task.
    ///
    /// # Errors
    /// Its records cannot be read.
    pub fn start(settings: Settings, handles: Handles, supervisor: &Supervisor) -> crate::store::Result<Self> {
        let saved = SavedRecords::read(handles.store.as_ref())?;
        let (messages, inbox) = mpsc::unbounded_channel();
        let console = Console::begin(settings, handles, saved, inbox, clock::wall);
        let watcher = supervisor.over(Part::Console, None);
        let mut last = supervisor.over(Part::Console, None);
        // If even its restart fails it stays reported as failed.
        let task = async move { drop(last.live(Box::pin(supervise(console, watcher))).await) };
        Ok(Self { messages, task: tokio::spawn(task) })
    }

    /// Sends the bot an update.
    pub fn send(&self, update: ForgeUpdate) {
        // The channel ends only with this process.
        drop(self.messages.send(Message::Update(update)));
    }

    /// Waits until nothing is left to write, but not longer than `patience`.
    pub async fn finish(&self, patience: Duration) {
        let (done, finished) = oneshot::channel();
        drop(self.messages.send(Message::Finish(done)));
        if tokio::time::timeout(patience, finished).await.is_err() {
            tracing::warn!("not everything was sent to the forge; the next start continues");
        }
    }
}

/// Runs the bot, and restarts it from its records if it ends because of an error in gitfleet.
pub(super) async fn supervise(mut console: Console, mut watcher: Watcher) {
    while let Some(end) = watcher.live(console.run()).await {
        tokio::time::sleep(end.pause).await;
        console = loop {
            match SavedRecords::read(console.handles.store.as_ref()) {
                Ok(saved) => break console.begin_again(saved),
                Err(error) => {
                    tracing::error!(%error, "the console cannot read its records; trying again");
                    tokio::time::sleep(RECORDS_RETRY).await;
                }
            }
        };
        watcher.begin_again();
    }
}
