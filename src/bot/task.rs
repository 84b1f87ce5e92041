//! The bot's task and its restarts.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::bot::Bot;
use super::connect::Connected;
use super::event_loop::run;
use super::fenced::FencedForge;
use super::handles::{Handles, Learned};
use super::inbox::{Inbox, Message};
use super::records::SavedRecords;
use super::settings::Settings;
use super::source_request::SourceRequest;
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
        let mut tasks = Vec::new();
        for ((forge, settings), ends) in connected.into_iter().zip(ends) {
            let handles = Handles {
                clock: clock::wall,
                forge: Arc::new(FencedForge::new(forge, fence.clone())),
                store: Arc::clone(store),
                requests: requests.clone(),
                instructions: instructions.clone(),
                baselines: ask.clone(),
                planning: Arc::clone(&planning),
                learned: ends.learned,
            };
            tasks.push(ConsoleTask::start(settings, handles, ends.hints, supervisor)?);
        }
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
    fn start(
        settings: Settings,
        handles: Handles,
        hints: Option<mpsc::Receiver<ForgeEvent>>,
        supervisor: &Supervisor,
    ) -> engine::store::Result<Self> {
        let saved = SavedRecords::read(handles.store.as_ref(), &settings.name)?;
        let (messages, told) = mpsc::unbounded_channel();
        let bot = Bot::begin(settings, handles, saved, Inbox::new(told, hints, None));
        let name = if bot.settings.name.is_empty() { None } else { Some(bot.settings.name.clone()) };
        let watcher = supervisor.over(Part::Console, name.as_deref());
        let mut last = supervisor.over(Part::Console, name.as_deref());
        // If even its restart fails it stays reported as failed.
        let task = async move { drop(last.live(Box::pin(supervise(bot, watcher))).await) };
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
pub(super) async fn supervise(mut bot: Bot, mut watcher: Watcher) {
    while let Some(end) = watcher.live(run(&mut bot)).await {
        tokio::time::sleep(end.pause).await;
        bot = loop {
            match SavedRecords::read(bot.handles.store.as_ref(), &bot.settings.name) {
                Ok(saved) => break bot.begin_again(saved),
                Err(error) => {
                    tracing::error!(%error, "the console cannot read its records; trying again");
                    tokio::time::sleep(RECORDS_RETRY).await;
                }
            }
        };
        watcher.begin_again();
    }
}
