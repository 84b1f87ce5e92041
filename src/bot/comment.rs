//! The way of a comment: it is read, its commands are resolved, their author is authorised, they are executed, and the comment is answered.
//!
//! Each step returns one value, made from the value of the step before. The commands are resolved first, because they determine what the bot
//! asks the git host about their author. An author without permission gets a refusal that does not name what waits.

use jiff::Timestamp;

use super::bot::Bot;
use super::comment_policy::{Answer, CommentVerdict, EDITED, Meaning, is_old, meaning, verdict, waiting_lines};
use super::comments::Comments;
use super::commit_rollout::CommitRollout;
use super::deliveries::Delivered;
use super::executed::{Executions, means_one};
use super::messages::reply;
use super::origin::{Origin, origin};
use super::outbox::{Slot, SlotContent};
use super::person::{PersonFacts, PersonQuestions};
use super::records::HandledComment;
use engine::execute::{NarrowedGate, may_some};
use forge::webhook::text_digest;
use model::chat::{ChatCommand, ChatVerb};
use model::commands::{Command, Person, RefusalReason, Verb};
use model::forge::{Comment, ForgeUser, History, Reaction, ThreadNumber};
use model::id::CommitId;
use views::comments::style::CommandStyle;

/// A comment on its way.
struct ReadComment<'a> {
    /// Its conversation.
    thread: ThreadNumber,
    comment: &'a Comment,
    /// When it was read.
    now: Timestamp,
}

/// What a comment says.
enum CommentContent {
    /// Nothing, and nothing is to be noted.
    Nothing,
    /// No command, for this reason.
    NoCommand(&'static str),
    /// No command, but a word that is nearly one.
    Misspelt,
    /// Commands that were executed before it was edited or became old.
    Executed,
    /// Something that cannot be executed.
    Mistake(Answer),
    /// These commands.
    Commands(Vec<ChatCommand>),
}

/// What commands mean.
enum ResolvedCommands {
    /// They were executed before.
    Executed,
    /// This, in the rollout as it was when they were read.
    Meanings { rollout: Box<CommitRollout>, all: Vec<Meaning> },
    /// Nothing: no rollout is told in their conversation.
    Elsewhere,
    /// Nothing: they do not fit the rollout.
    Mistake(Answer),
}

/// Who gives commands, and whether they may be executed.
enum AuthorisedCommands {
    /// They may. Those who only look need not be known.
    Granted { rollout: Box<CommitRollout>, all: Vec<Meaning>, person: Option<Person> },
    /// They were executed before.
    Executed,
    /// No rollout is told in their conversation.
    Elsewhere,
    /// They may not.
    Refused(Answer),
    /// The delivery of the comment's creation may still come.
    NotYet,
}

/// Whether the text of a comment with commands is its author's.
enum Authorship {
    Own,
    Refused(Answer),
    Unproven,
}

/// What became of a comment.
enum CommentOutcome {
    /// Nothing yet: it is read again.
    NotYet,
    /// It holds no command. A person who may approve gets a sign that a word was nearly one.
    NoCommand { why: &'static str, sign: bool },
    /// Its commands are for others.
    Elsewhere,
    /// Its commands were executed, with these answers.
    Executed(String),
    /// They were not.
    Refused(Answer),
}

/// The answer to a comment.
struct CommentAnswer {
    reaction: Option<Reaction>,
    /// A written answer.
    body: Option<String>,
    handled: HandledComment,
}

/// Handles a comment that the git host just named, once.
pub(super) async fn handle(bot: &mut Bot, thread: ThreadNumber, comment: &Comment) {
    let Some(me) = bot.polling.me.clone() else { return };
    let read = ReadComment { thread, comment, now: bot.now() };
    let rollout = bot.rollouts.all.rollout_in(thread);
    let outcome = match content(&read, &me, &bot.comments, rollout, &bot.settings.voice) {
        CommentContent::Nothing => return,
        CommentContent::NoCommand(why) => CommentOutcome::NoCommand { why, sign: false },
        CommentContent::Misspelt => misspelt(bot, &read).await,
        CommentContent::Executed => CommentOutcome::Executed(bot.comments.executed.answers(comment).join("; ")),
        CommentContent::Mistake(answer) => CommentOutcome::Refused(answer),
        CommentContent::Commands(chats) => {
            let resolved = resolve(&read, &chats, rollout, &bot.comments.executed, bot.settings.voice.prefix());
            let authorised = authorise(bot, &read, &chats, resolved).await;
            execute(bot, &read, &chats, authorised).await
        }
    };
    if let Some(answer) = answer(&read, outcome, &bot.comments) {
        record(bot, &read, answer).await;
    }
}

/// Says what a comment contains, given what became of it before.
fn content(
    read: &ReadComment<'_>,
    me: &ForgeUser,
    comments: &Comments,
    rollout: Option<&CommitRollout>,
    voice: &CommandStyle,
) -> CommentContent {
    let comment = read.comment;
    let ignored = comments.handled.get(&comment.id);
    let was_ignored = ignored.is_some();
    // Only a comment without a command arrives here again: with the same text it still has none.
    if ignored.is_some_and(|ignored| ignored.body == text_digest(&comment.body)) {
        return CommentContent::Nothing;
    }
    let is_begun = !comments.executed.of(comment).is_empty();
    match verdict(comment, me, voice.short, read.now) {
        // It was executed before it was edited or became old.
        verdict if is_begun && !matches!(verdict, CommentVerdict::Commands(_)) => CommentContent::Executed,
        // A comment that contained no command never becomes one, and need not be stored. The same holds for old comments
        // and our own.
        CommentVerdict::Ignore(_) if was_ignored || comment.author.id == me.id || is_old(comment, read.now) => {
            CommentContent::Nothing
        }
        CommentVerdict::Misspelt if was_ignored => CommentContent::Nothing,
        CommentVerdict::Ignore(why) => CommentContent::NoCommand(why),
        CommentVerdict::Misspelt => CommentContent::Misspelt,
        _ if was_ignored => CommentContent::Mistake(Answer::of(EDITED)),
        CommentVerdict::Answer(answer) => {
            let lines = rollout.map(|rollout| waiting_lines(rollout, &answer.why, voice.prefix()));
            CommentContent::Mistake(Answer { lines: lines.unwrap_or_default(), ..answer })
        }
        CommentVerdict::Commands(chats) => CommentContent::Commands(chats),
    }
}

/// Says what commands mean in the rollout of their conversation. What was executed of them before is left out.
fn resolve(
    read: &ReadComment<'_>,
    chats: &[ChatCommand],
    rollout: Option<&CommitRollout>,
    executed: &Executions,
    prefix: &str,
) -> ResolvedCommands {
    let Some(rollout) = rollout else { return ResolvedCommands::Elsewhere };
    let comment = read.comment;
    let mut all = Vec::new();
    for chat in chats {
        let is_begun = executed.has_of_line(comment, chat);
        if is_begun && means_one(chat) {
            continue;
        }
        match meaning(rollout, read.thread, chat, comment.created_at, prefix) {
            Ok(meant) => all.extend(meant.into_iter().filter(|meaning| {
                let is_executed = meaning.command().is_some_and(|command| executed.has(comment, command));
                !is_executed
            })),
            // What is left of it waits no more.
            Err(_) if is_begun => {}
            Err(answer) => return ResolvedCommands::Mistake(answer),
        }
    }
    if all.is_empty() && !executed.of(comment).is_empty() {
        return ResolvedCommands::Executed;
    }
    ResolvedCommands::Meanings { rollout: Box::new(rollout.clone()), all }
}

/// Finds out whether commands are their author's, and who that is.
async fn authorise(
    bot: &mut Bot,
    read: &ReadComment<'_>,
    chats: &[ChatCommand],
    resolved: ResolvedCommands,
) -> AuthorisedCommands {
    let author = &read.comment.author;
    let questions = match &resolved {
        ResolvedCommands::Executed => return AuthorisedCommands::Executed,
        ResolvedCommands::Meanings { rollout, all } if all.iter().any(|meaning| meaning.command().is_some()) => {
            // Contributors matter only for approvals: finding them takes several calls per pull request.
            let mut commands = all.iter().filter_map(Meaning::command);
            let approves = commands.any(|command| command.verb == Verb::Approve);
            Some(bot.questions(rollout, author, approves))
        }
        _ => None,
    };
    let (history, known) = look_up(bot, read, chats, questions.as_ref()).await;
    if let Some(history) = history {
        let delivered = bot.comments.deliveries.comment(read.comment.id);
        match authorship(read.comment, delivered, history) {
            Authorship::Own => {}
            Authorship::Refused(answer) => return AuthorisedCommands::Refused(answer),
            Authorship::Unproven => return unproven(bot, read, chats),
        }
    }
    match resolved {
        ResolvedCommands::Executed => AuthorisedCommands::Executed,
        ResolvedCommands::Elsewhere => AuthorisedCommands::Elsewhere,
        ResolvedCommands::Mistake(answer) => AuthorisedCommands::Refused(explain(bot, read, chats, answer).await),
        ResolvedCommands::Meanings { rollout, all } => {
            let facts = match (known, &questions) {
                (None, Some(questions)) => Some(bot.ask(questions.answers()).await),
                (known, _) => known,
            };
            let Some(facts) = facts else { return AuthorisedCommands::Granted { rollout, all, person: None } };
            match bot.context(&rollout).person(author, &read.comment.url, facts) {
                Ok(person) => AuthorisedCommands::Granted { rollout, all, person: Some(person) },
                Err(answer) => AuthorisedCommands::Refused(answer),
            }
        }
    }
}

/// Asks for the history of a comment whose text needs a proof. A command whose delivery came is hardly ever refused for its text: its
/// author is looked up meanwhile.
async fn look_up(
    bot: &mut Bot,
    read: &ReadComment<'_>,
    chats: &[ChatCommand],
    questions: Option<&PersonQuestions>,
) -> (Option<forge::Result<History>>, Option<PersonFacts>) {
    let forge = bot.forge();
    let is_delivered = bot.comments.deliveries.comment(read.comment.id).is_some();
    let history = async { if needs_proof(chats) { Some(forge.history(read.comment).await) } else { None } };
    let facts = async {
        match questions {
            Some(questions) if is_delivered => Some(questions.answers().await),
            _ => None,
        }
    };
    bot.ask(async { tokio::join!(history, facts) }).await
}

/// Tells whether commands need a proof that they are their author's. Those that show or stop something need none: somebody who
/// can forge them may run them in their own name.
fn needs_proof(chats: &[ChatCommand]) -> bool {
    !chats.iter().all(|chat| matches!(chat.verb, ChatVerb::Status | ChatVerb::Help | ChatVerb::Pause))
}

/// Checks whether the text of a comment with commands is its author's.
fn authorship(comment: &Comment, delivered: Option<&Delivered>, history: forge::Result<History>) -> Authorship {
    let history = match history {
        Ok(history) => history,
        Err(error) => {
            let person = &comment.author.login;
            tracing::warn!(person, reason = %error, "a command is refused: its author cannot be looked up");
            return Authorship::Refused(Answer::of(
                "whether somebody changed this comment could not be looked up, so nothing was done; write the command \
                 again in a moment",
            ));
        }
    };
    match origin(comment, delivered.map(|delivered| (delivered.thread, &delivered.said)), history) {
        Origin::Own => Authorship::Own,
        Origin::Changed => Authorship::Refused(Answer::of(EDITED)),
        Origin::Unknown => Authorship::Unproven,
    }
}

/// Waits for the delivery of a comment's creation; refuses it where none comes.
fn unproven(bot: &mut Bot, read: &ReadComment<'_>, chats: &[ChatCommand]) -> AuthorisedCommands {
    let is_hooked = bot.inbox.hints.is_some();
    let until = bot.comments.await_delivery(read.thread, read.comment.id, read.now);
    if is_hooked && read.now < until {
        return AuthorisedCommands::NotYet;
    }
    let asks = chats.iter().any(|chat| chat.verb == ChatVerb::Approve);
    let has_worked = is_hooked && bot.polling.hooked_at.is_some();
    AuthorisedCommands::Refused(Answer::of(unproven_message(has_worked, asks)))
}

/// Returns why commands do not fit the rollout; why their author may not give them, if that is so: what waits is no help to a person
/// who may not open it.
async fn explain(bot: &mut Bot, read: &ReadComment<'_>, chats: &[ChatCommand], answer: Answer) -> Answer {
    let done = bot.comments.executed.answers(read.comment);
    if !done.is_empty() {
        return Answer { why: format!("{}; done before that: {}", answer.why, done.join("; ")), ..answer };
    }
    may_not(bot, read, chats).await.unwrap_or(answer)
}

/// Returns why the author of commands may not give them, as far as the configuration and the strategies of what waits say.
/// Contributors to the change are told so too.
async fn may_not(bot: &mut Bot, read: &ReadComment<'_>, chats: &[ChatCommand]) -> Option<Answer> {
    let verbs: Vec<Verb> = chats.iter().filter_map(|chat| chat.verb.verb()).collect();
    if verbs.is_empty() {
        return None;
    }
    let rollout = bot.rollouts.all.rollout_in(read.thread)?.clone();
    let author = &read.comment.author;
    let questions = bot.questions(&rollout, author, verbs.contains(&Verb::Approve));
    let facts = bot.ask(questions.answers()).await;
    let person = match bot.context(&rollout).person(author, &read.comment.url, facts) {
        Ok(person) => person,
        Err(answer) => return Some(answer),
    };
    let gates: Vec<NarrowedGate<'_>> =
        rollout.gates().map(|(key, _, gate)| (key, gate.approvers.as_deref(), gate.owners.as_slice())).collect();
    let approvals = &bot.settings.approvals;
    // Which folder or tenant a gate is of is decided when the command is executed.
    let why = may_some(&person, &verbs, approvals.rules, &approvals.approvers, &gates).err()?;
    if !approvals.approvers_by_path.is_empty() {
        may_some(&person, &verbs, approvals.rules, &approvals.approvers_by_path, &gates).err()?;
    }
    Some(Answer::of(why))
}

/// Gives a person who may approve a sign that a word was nearly a command.
async fn misspelt(bot: &mut Bot, read: &ReadComment<'_>) -> CommentOutcome {
    let is_open = bot.rollouts.all.rollout_in(read.thread).is_some_and(|rollout| rollout.ended_at.is_none());
    // What every approver may, whoever made the change.
    let reject = ChatCommand::bare(ChatVerb::Reject);
    let sign = is_open && bot.comments.is_calm(read.thread, read.now) && may_not(bot, read, &[reject]).await.is_none();
    CommentOutcome::NoCommand { why: "it holds no command, but a word that is nearly one", sign }
}

/// Executes commands: all of them, or none.
async fn execute(
    bot: &mut Bot,
    read: &ReadComment<'_>,
    chats: &[ChatCommand],
    authorised: AuthorisedCommands,
) -> CommentOutcome {
    let mut done = bot.comments.executed.answers(read.comment);
    let (rollout, all, person) = match authorised {
        AuthorisedCommands::Granted { rollout, all, person } => (rollout, all, person),
        AuthorisedCommands::Executed => return CommentOutcome::Executed(done.join("; ")),
        AuthorisedCommands::Elsewhere => return elsewhere(bot, read, chats),
        AuthorisedCommands::Refused(answer) => return CommentOutcome::Refused(answer),
        AuthorisedCommands::NotYet => return CommentOutcome::NotYet,
    };
    if let Some(person) = person {
        let commands: Vec<&Command> = all.iter().filter_map(Meaning::command).collect();
        let mut left = commands.len();
        for command in commands {
            left -= 1;
            match bot.instruct(command.clone(), person.clone()).await {
                Ok(said) => done.push(said),
                // Of several gates somebody else opened this one meanwhile.
                Err(refusal) if refusal.reason == RefusalReason::NotWaiting && left + done.len() > 0 => {}
                Err(refusal) if done.is_empty() => return CommentOutcome::Refused(Answer::of(refusal.message)),
                Err(refusal) => {
                    let why = format!("{}; done before that: {}", refusal.message, done.join("; "));
                    return CommentOutcome::Refused(Answer::of(why));
                }
            }
        }
    }
    if all.iter().any(|meaning| meaning.command().is_none()) {
        refresh(bot, &rollout.commit, all.contains(&Meaning::Help), read.now);
        done.push("the comment is updated".to_owned());
    }
    CommentOutcome::Executed(done.join("; "))
}

/// Handles commands in a conversation without a rollout.
fn elsewhere(bot: &mut Bot, read: &ReadComment<'_>, chats: &[ChatCommand]) -> CommentOutcome {
    if !bot.pulls.is_open(read.thread) {
        // A conversation about something else: other bots may use the same words.
        return CommentOutcome::Elsewhere;
    }
    if chats.iter().all(|chat| chat.verb == ChatVerb::Status) {
        bot.pulls.again(read.thread, read.now);
        return CommentOutcome::Executed("plan asked for".to_owned());
    }
    CommentOutcome::Refused(Answer::of(
        "this pull request is not merged yet: nothing of it is rolled out, and nothing waits here",
    ))
}

/// Requests an update of a rollout's comment.
fn refresh(bot: &mut Bot, commit: &CommitId, help: bool, now: Timestamp) {
    bot.outbox.doubt(&Slot::Comment { id: bot.settings.rollout_slot(commit) });
    let Some(rollout) = bot.rollouts.all.get_mut(commit) else { return };
    rollout.help |= help;
    let rollout = rollout.clone();
    bot.show_rollout(&rollout, now);
}

/// Says how a comment is answered, within the limits: no answer replaces an earlier one. `None` if it is read again.
fn answer(read: &ReadComment<'_>, outcome: CommentOutcome, comments: &Comments) -> Option<CommentAnswer> {
    let comment = read.comment;
    let mut handled = HandledComment {
        id: comment.id,
        thread: read.thread,
        author: comment.author.id,
        at: read.now,
        body: text_digest(&comment.body),
        outcome: String::new(),
        ignored: false,
        answer: None,
    };
    let mut reaction = None;
    let mut body = None;
    match outcome {
        CommentOutcome::NotYet => return None,
        CommentOutcome::NoCommand { why, sign } => {
            handled.outcome = why.into();
            handled.ignored = true;
            if sign {
                reaction = Some(Reaction::Confused);
            }
        }
        CommentOutcome::Elsewhere => handled.outcome = "no rollout is followed here".into(),
        CommentOutcome::Executed(done) => {
            handled.outcome = done;
            reaction = Some(Reaction::Rocket);
        }
        CommentOutcome::Refused(answer) => {
            handled.outcome = format!("refused: {}", answer.why);
            if comments.is_calm(read.thread, read.now) {
                reaction = Some(Reaction::Confused);
            }
            // The same command again: its answer stands there. Another command gets one of its own.
            handled.answer = comments.same_answer(&handled);
            if handled.answer.is_none() && comments.may_answer(&handled) {
                handled.answer = Some(comment.id);
                body = Some(reply(&comment.author.login, &answer));
            }
        }
    }
    Some(CommentAnswer { reaction, body, handled })
}

/// Puts the answer to a comment into the outbox, and records that it was handled.
async fn record(bot: &mut Bot, read: &ReadComment<'_>, answer: CommentAnswer) {
    let CommentAnswer { reaction, body, handled } = answer;
    if let Some(reaction) = reaction {
        bot.outbox.set(Slot::Reaction { comment: handled.id, reaction }, SlotContent::Reaction, read.now);
    }
    if let Some(body) = body {
        let slot = Slot::Comment { id: bot.settings.mark(&["reply", &handled.id.to_string()]) };
        bot.outbox.set(slot, SlotContent::comment(read.thread, body), read.now);
    }
    let author = &read.comment.author;
    if !handled.ignored {
        tracing::info!(thread = read.thread, person = author.login, outcome = handled.outcome, "comment handled");
    }
    bot.comments.executed.settle(&read.comment.url, author.id);
    bot.store_handled(&handled).await;
    bot.comments.note_handled(handled);
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
