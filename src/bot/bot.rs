//! The bot of one repository: its parts, what reaches them, and what is written because of that.
//!
//! What it reads from the git host, and does next, is decided in other files: each takes the bot, and asks through [`Bot::ask`].

use std::collections::BTreeSet;
use std::future::Future;
use std::result;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::oneshot;
use tokio::task::{JoinError, spawn_blocking};
use tracing::Instrument as _;

use super::comment_policy::Answer;
use super::comments::Comments;
use super::commit_rollout::CommitRollout;
use super::handles::Handles;
use super::inbox::{Inbox, Message, next_hint};
use super::make_plan::FinishedPlan;
use super::messages::{RolloutMessages, assign_needs, slots_of_rollout, unused_slots};
use super::origin::shown_digest;
use super::outbox::{Next, Outbox, SendOutcome, Slot, SlotContent, Write};
use super::person::{CommandContext, PersonQuestions};
use super::polling::{FAR, Polling};
use super::pulls::Pulls;
use super::record_place::RecordPlace;
use super::records::{HandledComment, SavedRecords, handled_op, outbox_op, pull_op, rollout_op};
use super::rollouts::Rollouts;
use super::send::{Sending, Sent};
use super::settings::Settings;
use super::source_request::SourceRequest;
use engine::store::{Op, Result, batch_result};
use forge::{Error, Forge};
use model::commands::{Command, Person, Refusal, RefusalReason};
use model::forge::{CommitStatus, ForgeEvent, ForgeUser, Pushed};
use model::id::CommitId;
use system::clock;
use system::instruction::Instruction;
use views::comments::escape::shorten;
use views::comments::statuses::{PLAN_CONTEXT, ROLLOUT_CONTEXT};

/// The bot of one repository.
pub(crate) struct Bot {
    pub settings: Settings,
    pub handles: Handles,
    /// What reaches it.
    pub inbox: Inbox,
    /// What it writes.
    pub outbox: Outbox,
    /// What it shows.
    pub rollouts: Rollouts,
    /// What people write.
    pub comments: Comments,
    /// What it plans.
    pub pulls: Pulls,
    /// When it reads.
    pub polling: Polling,
}

impl Bot {
    /// Begins with the records of an earlier process.
    pub(crate) fn begin(settings: Settings, handles: Handles, saved: SavedRecords, inbox: Inbox) -> Self {
        let now = (handles.clock)();
        let bot = Self {
            outbox: Outbox::restore(saved.outbox, handles.forge.limits()),
            rollouts: Rollouts::restore(saved.rollouts, saved.own, now),
            comments: Comments::restore(saved.handled, saved.executed, saved.deliveries),
            pulls: Pulls::restore(saved.pulls),
            polling: Polling::begin(now),
            settings,
            handles,
            inbox,
        };
        bot.publish_pulls();
        bot
    }

    /// Restarts from the stored records; of the earlier run it keeps only the state that is not sent a second time.
    pub(crate) fn begin_again(self, saved: SavedRecords) -> Self {
        let Inbox { messages, hints, finishing, .. } = self.inbox;
        let mut bot = Self::begin(self.settings, self.handles, saved, Inbox::new(messages, hints, finishing));
        bot.rollouts.accepted = self.rollouts.accepted;
        bot.rollouts.tree = self.rollouts.tree;
        bot
    }

    pub(crate) fn forge(&self) -> Arc<dyn Forge> {
        Arc::clone(&self.handles.forge)
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.handles.clock)()
    }

    /// Returns how long it is until an instant.
    pub(crate) fn until(&self, at: Timestamp) -> Duration {
        at.duration_since(self.now()).try_into().unwrap_or_default()
    }

    /// Returns where the records of this bot are.
    fn place(&self) -> RecordPlace {
        RecordPlace::of(&self.settings.name)
    }

    /// Returns the facts that decide whether a person may give commands to a rollout.
    pub(crate) fn context<'a>(&'a self, rollout: &'a CommitRollout) -> CommandContext<'a> {
        CommandContext {
            rollout,
            approvals: &self.settings.approvals,
            deliveries: &self.comments.deliveries,
            branch: self.polling.branch.as_deref(),
            no_approval: self.rollouts.voice(rollout, &self.settings).no_approval().map(Answer::of),
        }
    }

    /// Returns the questions to the git host about the author of commands.
    pub(crate) fn questions(&self, rollout: &CommitRollout, author: &ForgeUser, approves: bool) -> PersonQuestions {
        let carried = if approves { self.rollouts.all.carried(rollout) } else { BTreeSet::new() };
        self.context(rollout).questions(self.forge(), author, approves, carried)
    }

    /// Waits until something happens, and takes it in. Returns whether anything can still happen.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn happens(&mut self, pause: Duration) -> bool {
        tokio::select! {
            message = self.inbox.messages.recv() => match message {
                Some(message) => self.take(message),
                None => return false,
            },
            Some(hint) = next_hint(&mut self.inbox.hints) => self.hint(hint),
            Some(sent) = self.inbox.writes.join_next() => self.sent(sent),
            () = self.pulls.wait() => {}
            () = tokio::time::sleep(pause) => {}
        }
        true
    }

    /// Takes in what happened so far.
    pub(crate) fn take_in(&mut self) {
        while let Ok(message) = self.inbox.messages.try_recv() {
            self.take(message);
        }
        while let Some(hint) = self.inbox.arrived_hint() {
            self.hint(hint);
        }
        while let Some(plan) = self.pulls.finished() {
            self.planned(plan);
        }
        while let Some(sent) = self.inbox.writes.try_join_next() {
            self.sent(sent);
        }
    }

    /// Takes in what the daemon says.
    fn take(&mut self, message: Message) {
        let now = self.now();
        match message {
            Message::Finish(done) => self.inbox.finishing = Some(done),
            Message::Update(update) => {
                if self.rollouts.take(update, now) {
                    self.pulls.base_moved(now);
                }
            }
        }
    }

    /// Handles a hint: the event itself is read later. What cannot be read later is recorded.
    fn hint(&mut self, event: ForgeEvent) {
        let now = self.now();
        self.polling.hooked_at = Some(now);
        match event {
            ForgeEvent::Push { branch, pushed } => {
                tracing::debug!(branch, "the git host reports a push");
                self.note_push(pushed, now);
                // Until git has named the followed branch, a push to any branch may concern it.
                if self.polling.branch.as_ref().is_none_or(|followed| *followed == branch) {
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
            ForgeEvent::Comment { said: Some(said), .. }
                if self.polling.me.as_ref().is_some_and(|me| me.id == said.author) => {}
            ForgeEvent::Comment { thread, id, said } => self.comments.hint(thread, id, said, now),
        }
    }

    fn note_push(&mut self, pushed: Option<Pushed>, now: Timestamp) {
        if let Some(pushed) = pushed {
            self.comments.deliveries.take_push(pushed, now);
        }
    }

    /// Puts a finished plan into the outbox.
    fn planned(&mut self, plan: FinishedPlan) {
        let now = self.now();
        let number = plan.number;
        let commit = plan.head.clone();
        let Some(texts) = self.pulls.planned(plan, now) else { return };
        let status = CommitStatus {
            context: PLAN_CONTEXT.to_owned(),
            state: texts.state,
            description: shorten(&texts.line, self.handles.forge.limits().description_chars),
            target_url: Some(self.settings.links.thread(number)),
        };
        let slot = Slot::Status { commit, context: PLAN_CONTEXT.to_owned() };
        self.outbox.set(slot, SlotContent::Status(status), now);
        let slot = Slot::Comment { id: self.settings.plan_slot(number) };
        self.outbox.set(slot, SlotContent::comment(number, texts.body), now);
    }

    /// Waits for an answer. Meanwhile takes in what happens and writes what is due: no status waits for a read, and no push for
    /// being polled.
    pub(crate) async fn ask<T>(&mut self, answer: impl Future<Output = T>) -> T {
        let mut answer = std::pin::pin!(answer);
        loop {
            let due = match self.outbox.next(self.now()) {
                Next::At(at) => at,
                Next::Write(_) | Next::Nothing => self.now() + FAR,
            };
            let pause = self.until(due);
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                is_open = self.happens(pause) => if !is_open {
                    return answer.await;
                },
            }
            self.take_in();
            self.keep().await;
        }
    }

    /// Reads something from the forge. A failure is logged and pauses all reads.
    pub(crate) async fn ask_for<T>(&mut self, call: impl Future<Output = forge::Result<T>>) -> Option<T> {
        let answer = self.ask(call).await;
        self.take_answer(answer)
    }

    /// Handles the result of a read. A failure is logged and pauses all reads.
    pub(crate) fn take_answer<T>(&mut self, answer: forge::Result<T>) -> Option<T> {
        match &answer {
            Ok(_) => self.polling.succeeded(),
            Err(error) => self.note_failed_read(error),
        }
        answer.ok()
    }

    /// Handles the failure of a read: it is logged and pauses all reads.
    pub(crate) fn note_failed_read(&mut self, error: &Error) {
        let now = self.now();
        self.polling.failed(error, now);
        // The pause that a host asks for applies to all calls.
        if matches!(error, Error::RateLimited { .. })
            && let Some(at) = self.polling.read_after
        {
            self.outbox.pause_until(at);
        }
        self.polling.warn(error, now);
    }

    /// Has the daemon execute a command, once for each comment: where an earlier process did it, its answer is returned.
    ///
    /// # Errors
    /// It is refused, or the daemon is ending.
    pub(crate) async fn instruct(&mut self, command: Command, person: Person) -> result::Result<String, Refusal> {
        if let Some(answer) = self.comments.executed.answer(&command, &person) {
            return Ok(answer.to_owned());
        }
        let (reply, answer) = oneshot::channel();
        let instruction = Instruction { command: command.clone(), person: person.clone(), reply };
        if self.handles.instructions.send(instruction).is_err() {
            return Err(shutting_down());
        }
        let done = self.ask(answer).await.map_err(|_| shutting_down())??;
        self.comments.executed.add(&command, &person, &done);
        Ok(done.message)
    }

    /// Puts every status and comment of a rollout into the outbox, and has its conversation be searched for if it has none.
    pub(crate) fn show_rollout(&mut self, rollout: &CommitRollout, now: Timestamp) {
        self.messages().show_rollout(rollout, now);
        self.rollouts.seek_thread(rollout, now);
    }

    fn messages(&mut self) -> RolloutMessages<'_> {
        RolloutMessages {
            settings: &self.settings,
            rollouts: &self.rollouts,
            outbox: &mut self.outbox,
            branch: self.polling.branch.as_deref(),
            description_chars: self.handles.forge.limits().description_chars,
        }
    }

    /// Tells the page which pull requests brought commits: those of rollouts, and of merges that the host told. Nothing is asked
    /// for it.
    pub(crate) fn publish_pulls(&self) {
        let known = self.rollouts.pulls(self.pulls.merges());
        self.handles.learned.pulls.send_if_modified(|published| {
            let is_new = **published != known;
            if is_new {
                *published = known.into();
            }
            is_new
        });
    }

    /// Puts the texts of changed rollouts into the outbox, stores what changed together with the start of each write that is due,
    /// and starts those. Returns whether there were any.
    pub(crate) async fn keep(&mut self) -> bool {
        let now = self.now();
        let place = self.place();
        self.forget(now);
        self.ask_people(now);
        let mut ops = Vec::new();
        if let Some(own) = &mut self.rollouts.own {
            ops.extend(own.take_changed(&place, now));
        }
        // First: a rollout's texts go to the outbox, whose records are stored in the same batch.
        let changed = self.rollouts.all.take_changed();
        if !changed.is_empty() {
            self.publish_pulls();
        }
        for (commit, rollout) in changed {
            ops.push(rollout_op(&place, &commit, rollout.as_ref()));
            if let Some(rollout) = rollout {
                self.show_rollout(&rollout, now);
            }
        }
        let begun = self.begin_writes(now);
        ops.extend(self.outbox.take_changed().iter().map(|(slot, entry)| outbox_op(&place, slot, entry.as_ref())));
        ops.extend(self.pulls.take_changed().iter().map(|(number, pull)| pull_op(&place, *number, pull.as_ref())));
        ops.extend(self.comments.deliveries.take_changed());
        ops.extend(self.comments.forget(&place, now));
        ops.extend(self.comments.executed.take_settled().into_iter().map(Ok));
        self.store(ops).await;
        let has_begun = !begun.is_empty();
        for sending in begun {
            self.start(sending);
        }
        has_begun
    }

    /// Drops what is not needed any more.
    fn forget(&mut self, now: Timestamp) {
        let mut unused = Vec::new();
        for commit in self.rollouts.all.forget(now) {
            unused.extend(slots_of_rollout(&self.outbox, &commit, &self.settings));
        }
        for slot in unused {
            self.outbox.release(&slot);
        }
        if !self.polling.is_tidy_due(now) {
            return;
        }
        let rollouts = self.rollouts.all.iter().map(|rollout| self.settings.rollout_slot(&rollout.commit));
        let plans = self.pulls.numbers().map(|number| self.settings.plan_slot(number));
        let kept: BTreeSet<Slot> = rollouts.chain(plans).map(|id| Slot::Comment { id }).collect();
        for slot in unused_slots(&self.outbox, &kept, now) {
            self.outbox.release(&slot);
        }
        self.comments.deliveries.forget(now);
        self.comments.executed.forget(now);
    }

    /// Puts what people must do into comments that ask for it.
    fn ask_people(&mut self, now: Timestamp) {
        let changed: Vec<CommitId> = self.rollouts.all.changed().cloned().collect();
        for commit in changed {
            let assigned = assign_needs(&mut self.rollouts.all, &commit, &self.settings, &self.outbox, now);
            let Some((rollout, notices)) = assigned else { continue };
            for id in notices {
                self.messages().show_notice(&rollout, id, now);
            }
        }
    }

    /// Stores records, and retries until the store accepts them: nothing may be sent that the store does not know.
    pub(crate) async fn store(&mut self, ops: Vec<Result<Op>>) {
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
            let store = Arc::clone(&self.handles.store);
            let ops = known.clone();
            match batch_result(spawn_blocking(move || store.batch(ops)).await) {
                Ok(_) => return,
                Err(error) => {
                    tracing::error!(%error, "the messages to the forge could not be stored; trying again");
                    tokio::time::sleep(delays.next().unwrap_or(Duration::from_secs(30))).await;
                }
            }
        }
    }

    /// Stores that a comment was handled, and deletes the records of what was executed of it.
    pub(crate) async fn store_handled(&mut self, handled: &HandledComment) {
        let mut ops = vec![handled_op(&self.place(), handled.id, Some(handled))];
        ops.extend(self.comments.executed.take_settled().into_iter().map(Ok));
        self.store(ops).await;
    }

    /// Begins the writes that are due, as many as may be under way. Their start must be stored before they are started.
    fn begin_writes(&mut self, now: Timestamp) -> Vec<Sending> {
        let mut begun = Vec::new();
        while let Next::Write(write) = self.outbox.next(now)
            && self.is_known(&write)
        {
            self.outbox.begins(&write, now);
            let me = self.polling.me.as_ref().map(|me| me.id);
            let rollout = self.rollouts.of_slot(&write.slot, &self.settings);
            begun.push(Sending::new(self.forge(), me, *write, rollout, &self.settings));
        }
        begun
    }

    /// Tells whether a write is possible: statuses always, comments only once our account is known, because we could not find
    /// them again otherwise.
    fn is_known(&self, write: &Write) -> bool {
        self.polling.me.is_some() || !matches!(write.slot, Slot::Comment { .. })
    }

    fn start(&mut self, sending: Sending) {
        let slot = &sending.write.slot;
        let commit = match slot {
            Slot::Status { commit, .. } => Some(commit),
            _ => self.rollouts.of_slot(slot, &self.settings).map(|rollout| &rollout.commit),
        };
        let commit = commit.map(|commit| tracing::field::display(commit.short().to_owned()));
        let span = tracing::error_span!("message", commit);
        self.inbox.writes.spawn(sending.carry_out().instrument(span));
    }

    /// Takes in the result of a write.
    pub(crate) fn sent(&mut self, ended: result::Result<Sent, JoinError>) {
        let Sent { sending, outcome, comment } = match ended {
            Ok(sent) => sent,
            // A write is never cancelled, so it panicked: the bot restarts.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let write = sending.write;
        let now = self.now();
        // The pause that a host asks for applies to all calls, so reads wait too.
        if let SendOutcome::Failed(Error::RateLimited { wait, .. }) = &outcome {
            self.polling.pause(*wait, now);
        }
        match &outcome {
            SendOutcome::Failed(error) => self.polling.warn(error, now),
            SendOutcome::Stands { .. } => tracing::debug!(slot = write.slot.key(), "sent to the forge"),
            SendOutcome::Gone => {
                tracing::warn!(slot = write.slot.key(), "a comment of ours was deleted; it is written again");
            }
        }
        if let Some((comment, text)) = &comment
            && let Some(shows) = &sending.shows
            && let Some(rollout) = self.rollouts.all.get_mut(&shows.commit)
        {
            // Since when it is visible, by the forge's clock.
            rollout.note_shown(&shows.gates, comment.updated_at);
            rollout.note_asked(comment, &shown_digest(text), &shows.asks);
            if shows.is_main && rollout.url.replace(comment.url.clone()).is_none() {
                // A status that was written before links to less.
                let context = ROLLOUT_CONTEXT.to_owned();
                self.outbox.doubt(&Slot::Status { commit: shows.commit.clone(), context });
            }
        }
        self.outbox.ended(&write, outcome, now);
    }
}

/// Returns the refusal of a command that came too late.
fn shutting_down() -> Refusal {
    Refusal {
        reason: RefusalReason::NotPossible,
        message: "gitfleet is shutting down; please repeat the command in a minute".to_owned(),
    }
}
