//! Reads comments, checks their authors, and hands their commands to the daemon.

use jiff::{SignedDuration, Timestamp};
use tokio::sync::oneshot;

use super::Console;
use super::comment_policy::{Answer, CommentVerdict, Meaning, is_old, meaning, verdict, waiting_lines};
use super::commit_rollout::CommitRollout;
use super::executed::means_one;
use super::origin::{Origin, origin};
use super::outbox::{Slot, SlotContent};
use super::person::PersonFacts;
use super::records::Heard;
use engine::execute::{NarrowedGate, may_some};
use forge::webhook::text_digest;
use model::chat::{ChatCommand, ChatVerb};
use model::commands::{Command, Person, Refusal, RefusalReason, Verb};
use model::forge::{Comment, History, Reaction, ThreadNumber};
use system::instruction::Instruction;

/// Written answers per hour in one conversation: two bots that answer each other must stop.
pub(super) const ANSWERS_MAX: usize = 10;
/// Written answers per hour to one person in one conversation. What was answered already is not answered again.
const ANSWERS_EACH_MAX: usize = 3;
/// The window for these limits.
const ANSWERS_WITHIN: SignedDuration = SignedDuration::from_hours(1);
/// The longest wait for the delivery of a comment's creation: hosts queue deliveries, so polling may be faster.
const DELIVERY_PATIENCE: SignedDuration = SignedDuration::from_secs(30);

/// Comments per window in one conversation that get reactions: each reaction is a call, and goes before everything else.
const SIGNS_MAX: usize = 100;

fn is_recent(heard: &Heard, thread: ThreadNumber, now: Timestamp) -> bool {
    !heard.ignored && heard.thread == thread && now.duration_since(heard.at) < ANSWERS_WITHIN
}

/// The result of handling a comment.
struct Dealt {
    outcome: String,
    answer: Option<u64>,
}

impl Meaning {
    fn command(&self) -> Option<&Command> {
        match self {
            Self::Do(command) => Some(command),
            Self::Status | Self::Help => None,
        }
    }
}

/// Why a changed comment is not executed.
const EDITED: &str = "a comment that was edited is not carried out; write the command in a new one";

/// Tells whether commands need a proof that they are their author's. Those that show or stop something need none: somebody who
/// can forge them may run them in their own name.
fn needs_proof(chats: &[ChatCommand]) -> bool {
    !chats.iter().all(|chat| matches!(chat.verb, ChatVerb::Status | ChatVerb::Help | ChatVerb::Pause))
}

/// What commands mean, in the rollout as it was when they were read.
struct Meant {
    rollout: CommitRollout,
    all: Vec<Meaning>,
}

/// Why commands mean nothing.
enum Unmeant {
    /// No rollout is told in their conversation.
    Elsewhere,
    /// They do not fit the rollout.
    Answer(Answer),
}

/// Whether a command is proven to be its author's.
enum Vouched {
    /// It is.
    Own,
    /// The delivery of its creation may still come.
    NotYet,
    /// It is not.
    Refused(Answer),
}

/// Returns what to do instead of an unproven command.
fn unproven_message(is_hooked: bool, asks_approval: bool) -> &'static str {
    match (is_hooked, asks_approval) {
        (true, _) => {
            "gitfleet cannot verify that its author wrote this text: the webhook did not report the comment when it was \
             written; write the command again, in a new comment"
        }
        (false, true) => {
            "gitfleet cannot verify that its author wrote this text: this host does not report whether a comment was \
             changed, and no webhook reported the comment; react with 🚀 to the comment that asks for the approval instead"
        }
        (false, false) => {
            "gitfleet cannot verify that its author wrote this text: this host does not report whether a comment was \
             changed, and no webhook reported the comment; use the command line, or have a webhook connected (gitfleet forge setup)"
        }
    }
}

impl Console {
    /// Reads one comment that a webhook named.
    pub(super) async fn read_comment(&mut self, thread: ThreadNumber, id: u64) {
        if self.heard.get(&id).is_some_and(|heard| !heard.ignored) {
            self.awaited.remove(&id);
            return;
        }
        let forge = self.forge();
        match self.ask(forge.comment(id)).await {
            Ok(comment) => {
                (self.read_failures, self.read_after) = (0, None);
                // A deleted comment does not count. The host says which conversation it belongs to, not the webhook: somebody
                // with the webhook's secret must not move a command from one conversation to another.
                match comment.filter(|comment| comment.thread == thread) {
                    Some(comment) => self.process_comment(thread, &comment).await,
                    None => drop(self.awaited.remove(&id)),
                }
            }
            Err(error) => {
                self.awaited.remove(&id);
                let _ = self.read::<()>(Err(error));
                // The others get their turn: one unreadable comment does not block them.
                self.to_list.insert(thread);
            }
        }
    }

    /// Reads the new comments of a conversation.
    pub(super) async fn list_comments(&mut self, thread: ThreadNumber) {
        let since = self.rollouts.rollout_in(thread).and_then(|rollout| rollout.read_until.get(&thread).copied());
        let forge = self.forge();
        let Some(mut comments) = self.ask_for(forge.comments(thread, since)).await else { return };
        // Before any is skipped: handled comments need not be listed again either.
        let newest = comments.iter().map(|comment| comment.updated_at).max();
        // Commands are executed in the order in which they were written, whatever order a host lists them in.
        comments.sort_by_key(|comment| comment.id);
        comments.retain(|comment| self.heard.get(&comment.id).is_none_or(|heard| heard.ignored));
        for comment in comments {
            self.process_comment(thread, &comment).await;
        }
        if self.awaited.values().any(|(of, _)| *of == thread) {
            // A process that starts now must find them again.
            return;
        }
        let commit = self.rollouts.rollout_in(thread).map(|rollout| rollout.commit.clone());
        if let (Some(newest), Some(commit)) = (newest.filter(|newest| since.is_none_or(|at| at < *newest)), commit)
            && let Some(rollout) = self.rollouts.get_mut(&commit)
        {
            rollout.read_until.insert(thread, newest);
        }
    }

    /// Handles a comment that was just read, once.
    async fn process_comment(&mut self, thread: ThreadNumber, comment: &Comment) {
        let Some(me) = self.me.clone() else { return };
        let now = self.now();
        let body = text_digest(&comment.body);
        let was_ignored = self.heard.get(&comment.id).map(|heard| heard.body == body);
        // Only a comment without a command arrives here again: with the same text it still has none.
        if was_ignored == Some(true) {
            return;
        }
        let mut ignored = false;
        let is_begun = !self.executed.of(comment).is_empty();
        let dealt = match verdict(comment, &me, self.settings.voice.short, now) {
            // It was executed before it was edited or became old.
            verdict if is_begun && !matches!(verdict, CommentVerdict::Commands(_)) => {
                self.executed_before(comment, now)
            }
            // A comment that contained no command never becomes one, and need not be stored. The same holds for old comments
            // and our own.
            CommentVerdict::Ignore(_)
                if was_ignored.is_some() || comment.author.id == me.id || is_old(comment, now) =>
            {
                return;
            }
            CommentVerdict::Misspelt if was_ignored.is_some() => return,
            CommentVerdict::Ignore(why) => {
                ignored = true;
                Dealt { outcome: why.to_owned(), answer: None }
            }
            CommentVerdict::Misspelt => {
                ignored = true;
                self.misspelt(thread, comment, now).await
            }
            _ if was_ignored.is_some() => self.answer(thread, comment, &Answer::of(EDITED), now),
            CommentVerdict::Answer(answer) => {
                let rollout = self.rollouts.rollout_in(thread);
                let lines = rollout.map(|of| waiting_lines(of, &answer.why, self.settings.voice.prefix()));
                let answer = Answer { lines: lines.unwrap_or_default(), ..answer };
                self.answer(thread, comment, &answer, now)
            }
            CommentVerdict::Commands(commands) => match self.commands(thread, comment, &commands, now).await {
                Some(dealt) => dealt,
                None => return,
            },
        };
        let (id, author) = (comment.id, comment.author.id);
        let (outcome, answer) = (dealt.outcome, dealt.answer);
        let heard = Heard { id, thread, author, at: now, body, outcome, ignored, answer };
        if !ignored {
            tracing::info!(thread, person = comment.author.login, outcome = heard.outcome, "comment handled");
        }
        self.executed.settle(&comment.url, author);
        let settled = self.executed.take_settled().into_iter().map(Ok);
        self.write([self.place().heard_op(&heard)].into_iter().chain(settled).collect()).await;
        self.heard.insert(heard.id, heard);
        self.awaited.remove(&id);
        self.deliveries.drop_comment(id);
    }

    /// Executes the commands of a comment: all of them, or none. `None` if the delivery of its creation may still come.
    async fn commands(
        &mut self,
        thread: ThreadNumber,
        comment: &Comment,
        chats: &[ChatCommand],
        now: Timestamp,
    ) -> Option<Dealt> {
        let meant = self.meant(thread, comment, chats);
        let is_begun = !self.executed.of(comment).is_empty();
        if is_begun && meant.as_ref().is_ok_and(|meant| meant.all.is_empty()) {
            return Some(self.executed_before(comment, now));
        }
        let asks = match &meant {
            Ok(Meant { rollout, all }) if all.iter().any(|meaning| meaning.command().is_some()) => {
                // Contributors matter only for approvals: finding them takes several calls per pull request.
                let approves = all.iter().filter_map(Meaning::command).any(|command| command.verb == Verb::Approve);
                Some(self.questions(rollout, &comment.author, approves))
            }
            _ => None,
        };
        let (forge, needs_proof) = (self.forge(), needs_proof(chats));
        let history = async { if needs_proof { Some(forge.history(comment).await) } else { None } };
        // A command whose delivery came is hardly ever refused for its text: its author is looked up meanwhile.
        let is_delivered = self.deliveries.comment(comment.id).is_some();
        let (history, known) = if is_delivered {
            let facts = async { if let Some(asks) = &asks { Some(asks.answers().await) } else { None } };
            self.ask(async { tokio::join!(history, facts) }).await
        } else {
            (self.ask(history).await, None)
        };
        if let Some(history) = history {
            match self.vouch(thread, comment, chats, history, now) {
                Vouched::Own => {}
                Vouched::Refused(answer) => return Some(self.answer(thread, comment, &answer, now)),
                Vouched::NotYet => return None,
            }
        }
        let meant = match meant {
            Ok(meant) => meant,
            Err(Unmeant::Answer(answer)) => {
                if is_begun {
                    let done = self.executed.answers(comment).join("; ");
                    let answer = Answer { why: format!("{}; done before that: {done}", answer.why), ..answer };
                    return Some(self.answer(thread, comment, &answer, now));
                }
                // What waits is no help to somebody who may not open it.
                let refused = self.refused(thread, comment, chats).await;
                return Some(self.answer(thread, comment, &refused.unwrap_or(answer), now));
            }
            Err(Unmeant::Elsewhere) => return Some(self.not_here(thread, comment, chats, now)),
        };
        let facts = match (known, &asks) {
            (None, Some(asks)) => Some(self.ask(asks.answers()).await),
            (known, _) => known,
        };
        Some(self.execute(thread, comment, meant, facts, now).await)
    }

    /// Returns why the author of commands may not give them, as far as the configuration and the strategies of what waits say.
    /// Contributors to the change are told so too.
    async fn refused(&mut self, thread: ThreadNumber, comment: &Comment, chats: &[ChatCommand]) -> Option<Answer> {
        let verbs: Vec<Verb> = chats.iter().filter_map(|chat| chat.verb.verb()).collect();
        let rollout = self.rollouts.rollout_in(thread).filter(|_| !verbs.is_empty()).cloned()?;
        let questions = self.questions(&rollout, &comment.author, verbs.contains(&Verb::Approve));
        let facts = self.ask(questions.answers()).await;
        let person = match self.person(&rollout, &comment.author, &comment.url, facts) {
            Ok(person) => person,
            Err(answer) => return Some(answer),
        };
        let gates: Vec<NarrowedGate<'_>> =
            rollout.gates().map(|(key, _, gate)| (key, gate.approvers.as_deref(), gate.owners.as_slice())).collect();
        let settings = &self.settings;
        // Which folder or tenant a gate is of is decided when the command is executed.
        let refusal = |approvers| may_some(&person, &verbs, settings.rules, approvers, &gates).err();
        let why = refusal(&settings.approvers)?;
        if !settings.approvers_by_path.is_empty() {
            refusal(&settings.approvers_by_path)?;
        }
        Some(Answer::of(why))
    }

    /// Gives whoever may approve a sign that a word was nearly a command.
    async fn misspelt(&mut self, thread: ThreadNumber, comment: &Comment, now: Timestamp) -> Dealt {
        let outcome = "it holds no command, but a word that is nearly one".to_owned();
        let is_open = self.rollouts.rollout_in(thread).is_some_and(|rollout| rollout.ended_at.is_none());
        // What every approver may, whoever made the change.
        let reject = ChatCommand::bare(ChatVerb::Reject);
        if is_open && self.is_calm(thread, now) && self.refused(thread, comment, &[reject]).await.is_none() {
            self.react(comment, Reaction::Confused, now);
        }
        Dealt { outcome, answer: None }
    }

    /// Returns what commands mean in their conversation.
    fn meant(&self, thread: ThreadNumber, comment: &Comment, chats: &[ChatCommand]) -> Result<Meant, Unmeant> {
        let rollout = self.rollouts.rollout_in(thread).cloned().ok_or(Unmeant::Elsewhere)?;
        let mut all = Vec::new();
        for chat in chats {
            let prefix = self.settings.voice.prefix();
            let is_begun = self.executed.has_of_line(comment, chat);
            match meaning(&rollout, thread, chat, comment.created_at, prefix) {
                _ if is_begun && means_one(chat) => {}
                Ok(meant) => {
                    all.extend(meant.into_iter().filter(|meaning| {
                        !meaning.command().is_some_and(|command| self.executed.has(comment, command))
                    }));
                }
                // What is left of it waits no more.
                Err(_) if is_begun => {}
                Err(answer) => return Err(Unmeant::Answer(answer)),
            }
        }
        Ok(Meant { rollout, all })
    }

    /// Checks whether the text of a comment with commands is its author's.
    fn vouch(
        &mut self,
        thread: ThreadNumber,
        comment: &Comment,
        chats: &[ChatCommand],
        history: forge::Result<History>,
        now: Timestamp,
    ) -> Vouched {
        let history = match history {
            Ok(history) => history,
            Err(error) => {
                let person = &comment.author.login;
                tracing::warn!(person, reason = %error, "a command is refused: its author cannot be looked up");
                return Vouched::Refused(Answer::of(
                    "whether somebody changed this comment could not be looked up, so nothing was done; write the command \
                     again in a moment",
                ));
            }
        };
        let delivered = self.deliveries.comment(comment.id).map(|delivered| (delivered.thread, &delivered.said));
        match origin(comment, delivered, history) {
            Origin::Own => Vouched::Own,
            Origin::Changed => Vouched::Refused(Answer::of(EDITED)),
            Origin::Unknown => {
                let hooked = self.handles.hints.is_some();
                let (_, until) = *self.awaited.entry(comment.id).or_insert((thread, now + DELIVERY_PATIENCE));
                if hooked && now < until {
                    return Vouched::NotYet;
                }
                let asks = chats.iter().any(|chat| chat.verb == ChatVerb::Approve);
                Vouched::Refused(Answer::of(unproven_message(hooked && self.hooked_at.is_some(), asks)))
            }
        }
    }

    /// Handles commands in a conversation without a rollout.
    fn not_here(&mut self, thread: ThreadNumber, comment: &Comment, chats: &[ChatCommand], now: Timestamp) -> Dealt {
        if !self.pulls.is_open(thread) {
            // A conversation about something else: other bots may use the same words.
            return Dealt { outcome: "no rollout is followed here".to_owned(), answer: None };
        }
        if chats.iter().all(|chat| chat.verb == ChatVerb::Status) {
            self.pulls.again(thread, now);
            self.react(comment, Reaction::Rocket, now);
            return Dealt { outcome: "plan asked for".to_owned(), answer: None };
        }
        let why = "this pull request is not merged yet: nothing of it is rolled out, and nothing waits here";
        self.answer(thread, comment, &Answer::of(why), now)
    }

    /// Executes what commands mean: all of it, or nothing.
    async fn execute(
        &mut self,
        thread: ThreadNumber,
        comment: &Comment,
        Meant { rollout, all }: Meant,
        facts: Option<PersonFacts>,
        now: Timestamp,
    ) -> Dealt {
        let mut done = self.executed.answers(comment);
        if let Some(facts) = facts {
            let person = match self.person(&rollout, &comment.author, &comment.url, facts) {
                Ok(person) => person,
                Err(answer) => return self.answer(thread, comment, &answer, now),
            };
            let commands: Vec<&Command> = all.iter().filter_map(Meaning::command).collect();
            let mut left = commands.len();
            for command in commands {
                left -= 1;
                match self.instruct(command.clone(), person.clone()).await {
                    Ok(said) => done.push(said),
                    // Of several gates somebody else opened this one meanwhile.
                    Err(refusal) if refusal.reason == RefusalReason::NotWaiting && left + done.len() > 0 => {}
                    Err(refusal) => {
                        let before = if done.is_empty() {
                            String::new()
                        } else {
                            format!("; done before that: {}", done.join("; "))
                        };
                        return self.answer(thread, comment, &Answer::of(refusal.message + &before), now);
                    }
                }
            }
        }
        if all.iter().any(|meaning| !matches!(meaning, Meaning::Do(_))) {
            let help = all.contains(&Meaning::Help);
            self.refresh(&rollout, help, now);
            done.push("the comment is updated".to_owned());
        }
        self.react(comment, Reaction::Rocket, now);
        Dealt { outcome: done.join("; "), answer: None }
    }

    /// Answers a comment whose commands were executed before it was recorded as handled, as it was to be answered then.
    fn executed_before(&mut self, comment: &Comment, now: Timestamp) -> Dealt {
        self.react(comment, Reaction::Rocket, now);
        Dealt { outcome: self.executed.answers(comment).join("; "), answer: None }
    }

    /// Requests an update of the rollout's comment.
    fn refresh(&mut self, rollout: &CommitRollout, help: bool, now: Timestamp) {
        let slot = Slot::Comment { id: self.rollout_slot(&rollout.commit) };
        self.outbox.doubt(&slot);
        if let Some(rollout) = self.rollouts.get_mut(&rollout.commit) {
            rollout.help |= help;
        }
        if let Some(rollout) = self.rollouts.get(&rollout.commit).cloned() {
            self.show_rollout(&rollout, now);
        }
    }

    /// Has the daemon execute a command, once for each comment: where an earlier process did it, its answer is returned.
    pub(super) async fn instruct(&mut self, command: Command, person: Person) -> Result<String, Refusal> {
        if let Some(answer) = self.executed.answer(&command, &person) {
            return Ok(answer.to_owned());
        }
        let (reply, answer) = oneshot::channel();
        let gone = || Refusal {
            reason: RefusalReason::NotPossible,
            message: "gitfleet is shutting down; please repeat the command in a minute".to_owned(),
        };
        let instruction = Instruction { command: command.clone(), person: person.clone(), reply };
        self.handles.instructions.send(instruction).map_err(|_| gone())?;
        let done = self.ask(answer).await.map_err(|_| gone())??;
        self.executed.add(&command, &person, &done);
        Ok(done.message)
    }

    fn react(&mut self, comment: &Comment, reaction: Reaction, now: Timestamp) {
        self.outbox.set(Slot::Reaction { comment: comment.id, reaction }, SlotContent::Reaction, now);
    }

    /// Tells whether few enough comments of a conversation were handled lately, so that each may get reactions.
    fn is_calm(&self, thread: ThreadNumber, now: Timestamp) -> bool {
        self.heard.values().filter(|heard| is_recent(heard, thread, now)).count() < SIGNS_MAX
    }

    /// Refuses a command with a reaction and an answer of its own, within the limits: no answer replaces an earlier one.
    fn answer(&mut self, thread: ThreadNumber, comment: &Comment, answer: &Answer, now: Timestamp) -> Dealt {
        if self.is_calm(thread, now) {
            self.react(comment, Reaction::Confused, now);
        }
        let outcome = format!("refused: {}", answer.why);
        let begun = |heard: &&Heard| heard.answer == Some(heard.id) && is_recent(heard, thread, now);
        let own: Vec<&Heard> =
            self.heard.values().filter(begun).filter(|heard| heard.author == comment.author.id).collect();
        // The same command again: its answer stands there. Another command gets one of its own.
        let body = text_digest(&comment.body);
        let same = own.iter().find(|heard| heard.outcome == outcome && heard.body == body).map(|heard| heard.id);
        let may = own.len() < ANSWERS_EACH_MAX && self.heard.values().filter(begun).count() < ANSWERS_MAX;
        if same.is_none() && may {
            let slot = Slot::Comment { id: self.mark(&["reply", &comment.id.to_string()]) };
            let body = super::messages::reply(&comment.author.login, answer);
            self.outbox.set(slot, SlotContent::comment(thread, body), now);
        }
        Dealt { outcome, answer: same.or(may.then_some(comment.id)) }
    }
}
