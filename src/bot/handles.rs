//! The bot's handles to other parts.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use jiff::Timestamp;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::source_request::SourceRequest;
use engine::store::Store;
use forge::Forge;
use model::forge::CommitPulls;
use plan::Baseline;
use system::instruction::Instruction;

/// The bot's handles to other parts.
pub(crate) struct Handles {
    /// Returns the current time.
    pub clock: fn() -> Timestamp,
    /// The forge.
    pub forge: Arc<dyn Forge>,
    /// The store of its records. Below [`FORGE_PREFIX`](engine::store::records::FORGE_PREFIX) the core writes executed
    /// commands, and all else there is the bot's.
    pub store: Arc<dyn Store>,
    /// The source's thread.
    pub requests: Sender<SourceRequest>,
    /// Executes commands.
    pub instructions: mpsc::UnboundedSender<Instruction>,
    /// Who hands out what plans start from.
    pub baselines: mpsc::UnboundedSender<oneshot::Sender<Baseline>>,
    /// Lets one plan be made at a time, of the bots of all sources.
    pub planning: Arc<Semaphore>,
    /// What the bot learns from the forge, for others.
    pub learned: Learned,
}

/// What the bot learns from the forge, for others.
#[derive(Debug)]
pub struct Learned {
    /// The repository's id, once it is known: deliveries for another are refused.
    pub repository: watch::Sender<Option<u64>>,
    /// The pull requests that brought commits, for the page.
    pub pulls: watch::Sender<Arc<CommitPulls>>,
}

impl Learned {
    /// Returns both ends: those of the bot, and where the repository's id and the pull requests are read.
    pub fn channel() -> (Self, watch::Receiver<Option<u64>>, watch::Receiver<Arc<CommitPulls>>) {
        let (repository, known) = watch::channel(None);
        let (pulls, brought) = watch::channel(Arc::default());
        (Self { repository, pulls }, known, brought)
    }
}
