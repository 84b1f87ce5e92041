//! The bot's task and its restarts.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::records::SavedRecords;
use super::{Connected, Console, FencedForge, Handles, Learned, Message, Settings};
use crate::source_request::SourceRequest;
use engine::ForgeUpdate;
use engine::store::Store;
use model::forge::ForgeEvent;
use plan::Baseline;
use system::clock;
use system::fence::Fence;
use system::instruction::Instruction;
use system::supervise::{Supervisor, Watcher};
use system::telemetry::metrics::Part;

/// Pause before unreadable records are read again.
const RECORDS_RETRY: Duration = Duration::from_secs(30);

/// What connects the bot of one repository to others: the events of its webhook, absent without one, and what it learns.
#[derive(Debug)]
pub struct RepositoryEnds {
    /// Events from webhooks.
    pub hints: Option<mpsc::Receiver<ForgeEvent>>,
    /// What the bot learns from the forge.
    pub learned: Learned,
}

/// The bots of all repositories on a git host, one each.
pub struct ConsoleTasks(Vec<ConsoleTask>);

impl ConsoleTasks {
    /// Starts a bot for each connected repository, with its ends in the same order.
    ///
    /// # Errors
    /// The records of one cannot be read.
    pub fn start(
        connected: Vec<Connected>,
        ends: Vec<RepositoryEnds>,
        fence: &Fence,
        store: &Arc<dyn Store>,
        requests: &Sender<SourceRequest>,
        instructions: &mpsc::UnboundedSender<Instruction>,
        supervisor: &Supervisor,
    ) -> engine::store::Result<(Self, mpsc::UnboundedReceiver<oneshot::Sender<Baseline>>)> {
        let (ask, baselines) = mpsc::unbounded_channel();
        let planning = Arc::new(Semaphore::new(1));
        let start = |((forge, settings), RepositoryEnds { hints, learned }): (Connected, RepositoryEnds)| {
            let handles = Handles {
                forge: Arc::new(FencedForge::new(forge, fence.clone())),
                store: Arc::clone(store),
                requests: requests.clone(),
                instructions: instructions.clone(),
                baselines: ask.clone(),
                planning: Arc::clone(&planning),
                hints,
                learned,
            };
            ConsoleTask::start(settings, handles, supervisor)
        };
        let tasks = connected.into_iter().zip(ends).map(start).collect::<Result<_, _>>()?;
        Ok((Self(tasks), baselines))
    }

    /// Sends each bot an update.
    pub fn send(&self, update: &ForgeUpdate) {
        self.0.iter().for_each(|task| task.send(update.clone()));
    }

    /// Waits until nothing is left to write, but not longer than `patience`.
    ///
    /// # Cancel safety
    /// Nothing is lost: the bots continue to write.
    pub async fn finish(&self, patience: Duration) {
        futures::future::join_all(self.0.iter().map(|task| task.finish(patience))).await;
    }
}

/// The running task; ends when dropped.
struct ConsoleTask {
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
    fn start(settings: Settings, handles: Handles, supervisor: &Supervisor) -> engine::store::Result<Self> {
        let saved = SavedRecords::read(handles.store.as_ref(), &settings.name)?;
        let (messages, inbox) = mpsc::unbounded_channel();
        let console = Console::begin(settings, handles, saved, inbox, clock::wall);
        let name = Some(console.settings.name.clone()).filter(|name| !name.is_empty());
        let watcher = supervisor.over(Part::Console, name.as_deref());
        let mut last = supervisor.over(Part::Console, name.as_deref());
        // If even its restart fails it stays reported as failed.
        let task = async move { drop(last.live(Box::pin(supervise(console, watcher))).await) };
        Ok(Self { messages, task: tokio::spawn(task) })
    }

    /// Sends the bot an update.
    fn send(&self, update: ForgeUpdate) {
        // The channel ends only with this process.
        drop(self.messages.send(Message::Update(update)));
    }

    async fn finish(&self, patience: Duration) {
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
            match SavedRecords::read(console.handles.store.as_ref(), &console.settings.name) {
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
