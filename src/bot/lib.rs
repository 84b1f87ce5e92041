//! The forge bot: all communication with the forge, in one task: one read at a time, and a few writes beside it.
//!
//! The core sends it the state of placements and the source. Webhooks send hints; without them the bot polls, with the same
//! result. Texts go through an [`outbox`]. Comments are evaluated (`comment_policy.rs`), and their commands go to the daemon
//! like all others. The daemon never waits for the bot: a forge that is down delays texts, but no rollout.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::task::spawn_blocking;

use crate::source_request::SourceRequest;
use config::{Notify, Plans, Statuses};
use engine::ForgeUpdate;
use engine::store::{Store, batch_result};
use forge::Forge;
use model::forge::{CommitPulls, ForgeEvent, ForgeUser, Part, Pushed, ThreadNumber};
use model::id::CommitId;
use model::runs::ApprovalRules;
use plan::Baseline;
use system::clock;
use system::instruction::Instruction;
use views::comments::style::CommandStyle;
use views::redact::MaskKey;

mod asked;
mod comment_policy;
pub mod commit_rollout;
mod connect;
mod deliveries;
mod event_loop;
mod executed;
mod fenced;
mod listen;
mod messages;
pub mod origin;
pub mod outbox;
pub mod own_commits;
mod person;
mod polling;
mod pulls;
mod records;
mod send;
mod set_statuses;
pub mod source_request;
mod task;
mod threads;
mod votes;

#[cfg(test)]
mod tests;

use commit_rollout::CommitRollouts;
pub use connect::{Connected, Error as ConnectError, command_style, connect, forge_settings, kind};
use deliveries::Deliveries;
use executed::Executions;
pub use fenced::FencedForge;
use outbox::Outbox;
use own_commits::OwnCommits;
use pulls::Pulls;
use records::{Heard, RecordPlace, SavedRecords};
use send::Sent;
pub use set_statuses::Links;
pub use task::{ConsoleTasks, RepositoryEnds};

/// The longest sleep of the task if nothing is due.
const FAR: SignedDuration = SignedDuration::from_hours(1);
/// Pause after a read that failed; it doubles with each that follows.
const READ_RETRY_FIRST: SignedDuration = SignedDuration::from_secs(2);
/// The longest pause after reads that failed.
const READ_RETRY_MAX: SignedDuration = SignedDuration::from_mins(2);
/// How much more rarely the bot polls while webhooks arrive.
const HOOKED_POLL_FACTOR: u32 = 10;
/// The longest poll interval while webhooks arrive.
const HOOKED_POLL_MAX: Duration = Duration::from_mins(5);
/// How long webhooks count as working after the last one.
const HOOKED_FOR: SignedDuration = SignedDuration::from_hours(1);
/// Pause before the search for a rollout's conversation is repeated after a failure.
const FIND_AGAIN: SignedDuration = SignedDuration::from_secs(30);
/// How often unused slots are dropped.
const TIDY_EVERY: SignedDuration = SignedDuration::from_hours(1);
/// Comments that wait to be read; further hints are dropped, and polling finds those comments.
const HINTS_MAX: usize = 1000;

/// The settings of the bot.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Identity of our source, which marks our comments.
    pub source: String,
    /// The name of the source whose repository this is; empty where there is one source.
    pub name: String,
    /// How often the forge is polled without webhooks.
    pub poll_interval: Duration,
    /// When a new comment is written.
    pub notify: BTreeSet<Notify>,
    /// Which pull requests get plans.
    pub plans: Plans,
    /// Which commit statuses a rollout has.
    pub statuses: Statuses,
    /// Where they link to.
    pub links: Links,
    /// How commands are written.
    pub voice: CommandStyle,
    /// The configured rules for approvals.
    pub rules: ApprovalRules,
    /// Configured approvers: the bot asks for the members of their teams.
    pub approvers: Vec<String>,
    /// Those of folders and tenants, who may approve only rollouts of placements there.
    pub approvers_by_path: Vec<String>,
    /// What counts as contributing to a change: contributors do not approve it.
    pub parts: BTreeSet<Part>,
    /// The key for marks of hidden values in plans.
    pub mask: MaskKey,
    /// Pull requests can be fetched from the source.
    pub fetches: bool,
}

/// The bot's handles to other parts.
pub struct Handles {
    /// The forge.
    pub forge: Arc<dyn Forge>,
    /// The store of its records. Below [`FORGE_PREFIX`](engine::store::records::FORGE_PREFIX) the core writes executed
    /// commands, and nobody else writes anything.
    pub store: Arc<dyn Store>,
    /// The source's thread.
    pub requests: Sender<SourceRequest>,
    /// Executes commands.
    pub instructions: mpsc::UnboundedSender<Instruction>,
    /// Who hands out what plans start from.
    pub baselines: mpsc::UnboundedSender<oneshot::Sender<Baseline>>,
    /// Lets one plan be made at a time, of the bots of all sources.
    pub planning: Arc<Semaphore>,
    /// What webhooks say; absent where there are none.
    pub hints: Option<mpsc::Receiver<ForgeEvent>>,
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
        let ((repository, known), (pulls, brought)) = (watch::channel(None), watch::channel(Arc::default()));
        (Self { repository, pulls }, known, brought)
    }
}

enum Message {
    Update(ForgeUpdate),
    Finish(oneshot::Sender<()>),
}

struct Console {
    /// Returns the current time.
    clock: fn() -> Timestamp,
    settings: Settings,
    handles: Handles,
    inbox: mpsc::UnboundedReceiver<Message>,
    outbox: Outbox,
    /// Writes under way; their start is stored.
    sends: JoinSet<Sent>,
    rollouts: CommitRollouts,
    pulls: Pulls,
    heard: BTreeMap<u64, Heard>,
    executed: Executions,
    deliveries: Deliveries,
    /// Unproven commands with their conversations, and until when the delivery of their creation may arrive.
    awaited: BTreeMap<u64, (ThreadNumber, Timestamp)>,
    /// Comments to be read, with their conversations.
    to_read: VecDeque<(ThreadNumber, u64)>,
    /// Our own account, once the forge answered.
    me: Option<ForgeUser>,
    /// The followed branch, once git answered.
    branch: Option<String>,
    /// The accepted commit of the source.
    accepted: Option<CommitId>,
    /// The accepted commit of the tree, which is that of the source where there is one.
    tree: Option<CommitId>,
    /// What the tree's commits mean for the source, where it is one of several.
    own: Option<OwnCommits>,
    /// No read before this instant.
    read_after: Option<Timestamp>,
    read_failures: u32,
    /// When to poll the forge next.
    look_at: Timestamp,
    /// When a webhook last arrived.
    hooked_at: Option<Timestamp>,
    /// Conversations whose comments must be listed.
    to_list: BTreeSet<ThreadNumber>,
    /// Rollouts whose reactions and reviews must be read.
    to_count: BTreeSet<CommitId>,
    /// When unused slots are dropped next.
    tidy_at: Timestamp,
    /// Rollouts whose thread must be found, and when.
    to_find: BTreeMap<CommitId, Timestamp>,
    finishing: Option<oneshot::Sender<()>>,
    /// Logged failures, and when: a lasting failure is logged once an hour.
    warned: BTreeMap<String, Timestamp>,
}

impl Console {
    fn begin(
        settings: Settings,
        handles: Handles,
        saved: SavedRecords,
        inbox: mpsc::UnboundedReceiver<Message>,
        clock: fn() -> Timestamp,
    ) -> Self {
        let now = clock();
        let outbox = Outbox::restore(saved.outbox, handles.forge.limits());
        let rollouts = CommitRollouts::restore(saved.rollouts);
        let open = rollouts.iter().filter(|rollout| rollout.thread.is_none() && rollout.ended_at.is_none());
        let to_find = open.map(|rollout| (rollout.commit.clone(), now)).collect();
        let console = Self {
            clock,
            pulls: Pulls::restore(saved.pulls),
            settings,
            handles,
            inbox,
            outbox,
            sends: JoinSet::new(),
            rollouts,
            heard: saved.heard,
            executed: saved.executed,
            deliveries: saved.deliveries,
            awaited: BTreeMap::new(),
            to_read: VecDeque::new(),
            me: None,
            branch: None,
            accepted: None,
            tree: None,
            own: saved.own,
            read_after: None,
            read_failures: 0,
            look_at: now,
            hooked_at: None,
            to_list: BTreeSet::new(),
            to_count: BTreeSet::new(),
            tidy_at: now,
            to_find,
            finishing: None,
            warned: BTreeMap::new(),
        };
        console.publish_pulls();
        console
    }

    /// Restarts from the stored records; it keeps only the state of the earlier run that nobody sends again.
    fn begin_again(self, saved: SavedRecords) -> Self {
        let Self { settings, handles, inbox, clock, accepted, tree, finishing, .. } = self;
        Self { accepted, tree, finishing, ..Self::begin(settings, handles, saved, inbox, clock) }
    }

    fn forge(&self) -> Arc<dyn Forge> {
        Arc::clone(&self.handles.forge)
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    fn take(&mut self, message: Message) {
        let now = self.now();
        match message {
            Message::Finish(done) => self.finishing = Some(done),
            Message::Update(ForgeUpdate::Known(placements)) => match &mut self.own {
                None => self.rollouts.end_others(&placements, now),
                Some(own) => {
                    own.end_others(&placements, now).iter().for_each(|shown| self.rollouts.show(shown, now));
                    self.rollouts.end_others(&placements, now);
                }
            },
            Message::Update(ForgeUpdate::Placement(update)) => match &mut self.own {
                None => self.rollouts.take(&update, now),
                Some(own) => own.take(&update, now).iter().for_each(|shown| self.rollouts.show(shown, now)),
            },
            Message::Update(ForgeUpdate::Source(source)) => {
                if source.accepted != self.tree {
                    self.tree.clone_from(&source.accepted);
                    self.pulls.base_moved(now);
                }
                let source = match &mut self.own {
                    None => *source,
                    Some(own) => own.take_source(&source, now),
                };
                self.accepted.clone_from(&source.accepted);
                self.rollouts.take_source(&source, now);
            }
        }
    }

    /// Returns where the records of this bot are.
    fn place(&self) -> RecordPlace {
        RecordPlace::of(&self.settings.name)
    }

    /// Handles a hint: the event itself is read later. What cannot be read later is recorded.
    fn hint(&mut self, event: ForgeEvent) {
        let now = self.now();
        self.hooked_at = Some(now);
        match event {
            ForgeEvent::Push { branch, pushed } => {
                tracing::debug!(branch, "the git host reports a push");
                self.note_push(pushed, now);
                // Until git has named the followed branch, a push to any branch may concern it.
                if self.branch.as_ref().is_none_or(|followed| *followed == branch) {
                    // Without its thread the source is not followed any more, which is reported elsewhere.
                    drop(self.handles.requests.send(SourceRequest::Poll));
                }
            }
            ForgeEvent::PullRequest { number, pushed } => {
                self.note_push(pushed, now);
                self.pulls.look_at(number);
            }
            // Each comment of our own, and each edit of one, arrives as an event: they hold no commands.
            ForgeEvent::Comment { id, said: None, .. } if self.outbox.is_own(id) => {}
            ForgeEvent::Comment { said: Some(said), .. } if self.me.as_ref().is_some_and(|me| me.id == said.author) => {
            }
            ForgeEvent::Comment { thread, id, said } => {
                if let Some(said) = said.filter(|_| !self.heard.contains_key(&id)) {
                    self.deliveries.take_comment(thread, id, said, now);
                }
                if self.to_read.len() < HINTS_MAX && !self.to_read.contains(&(thread, id)) {
                    self.to_read.push_back((thread, id));
                }
            }
        }
    }

    fn note_push(&mut self, pushed: Option<Pushed>, now: Timestamp) {
        if let Some(pushed) = pushed {
            self.deliveries.take_push(pushed, now);
        }
    }

    /// Puts the texts of changed rollouts into the outbox, stores what changed together with the start of each write that is due,
    /// and starts those. Returns whether there were any.
    async fn keep(&mut self) -> bool {
        let now = self.now();
        for commit in self.rollouts.forget(now) {
            self.forget_rollout(&commit);
        }
        if self.tidy_at <= now {
            self.tidy_at = now + TIDY_EVERY;
            self.tidy(now);
            self.deliveries.forget(now);
            self.executed.forget(now);
        }
        for commit in self.rollouts.changed().cloned().collect::<Vec<_>>() {
            self.ask_people(&commit, now);
        }
        let (mut ops, place) = (Vec::new(), self.place());
        ops.extend(self.own.iter_mut().flat_map(|own| own.take_changed(&place, now)));
        // First: a rollout's texts go to the outbox, whose records are stored in the same batch.
        let changed = self.rollouts.take_changed();
        if !changed.is_empty() {
            self.publish_pulls();
        }
        for (commit, rollout) in changed {
            ops.push(place.rollout_op(&commit, rollout.as_ref()));
            if let Some(rollout) = rollout {
                self.show_rollout(&rollout, now);
            }
        }
        let begun = self.begin_writes(now);
        ops.extend(self.outbox.take_changed().iter().map(|(slot, entry)| place.outbox_op(slot, entry.as_ref())));
        ops.extend(self.pulls.take_changed().iter().map(|(number, pull)| place.pull_op(*number, pull.as_ref())));
        ops.extend(self.deliveries.take_changed());
        ops.extend(records::forget_heard(&mut self.heard, &place, now).into_iter().map(Ok));
        ops.extend(self.executed.take_settled().into_iter().map(Ok));
        self.write(ops).await;
        let has_begun = !begun.is_empty();
        for sending in begun {
            self.start(sending);
        }
        has_begun
    }

    /// Stores records, and retries until the store accepts them: nothing may be sent that the store does not know.
    async fn write(&mut self, ops: Vec<engine::store::Result<engine::store::Op>>) {
        let mut known = Vec::new();
        for op in ops {
            match op {
                Ok(op) => known.push(op),
                // It never will be stored: waiting for it would block everything else.
                Err(error) => tracing::error!(%error, "a record of the forge could not be stored"),
            }
        }
        if known.is_empty() {
            return;
        }
        let mut delays = clock::delays(Duration::from_secs(1), Duration::from_secs(30));
        loop {
            let (store, ops) = (Arc::clone(&self.handles.store), known.clone());
            match batch_result(spawn_blocking(move || store.batch(ops)).await) {
                Ok(_) => return,
                Err(error) => {
                    tracing::error!(%error, "the messages to the forge could not be stored; trying again");
                    tokio::time::sleep(delays.next().unwrap_or(Duration::from_secs(30))).await;
                }
            }
        }
    }
}
