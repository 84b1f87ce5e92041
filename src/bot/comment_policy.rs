//! Decides whether a comment counts, and which commands it contains. Pure.
//!
//! It checks in this order: is the comment its author's own, unedited and recent; does it contain commands; what do they refer
//! to, given what the author could see. Rights are checked later, for every channel alike.

use jiff::{SignedDuration, Timestamp};

use super::commit_rollout::{CommitRollout, Trouble};
use model::chat::grammar::parse;
use model::chat::{Chat, ChatCommand, ChatVerb};
use model::commands::{Command, Verb};
use model::forge::{Comment, ForgeUser, ThreadNumber};
use model::id::PlacementKey;
use model::progress::{GateProgress, Progress, ProgressState};
use model::runs::DELETION_GATE;
use model::target::TargetWord;

/// How long after its creation a comment may change and still count as unedited: hosts update new comments themselves.
const UNEDITED_MAX: SignedDuration = SignedDuration::from_secs(2);
/// The greatest age of a comment at its first reading.
pub(crate) const COMMENT_AGE_MAX: SignedDuration = SignedDuration::from_hours(24);
/// How long after a change of the shown text an approval without a commit may refer to the earlier text.
const SHOWN_CHANGE: SignedDuration = SignedDuration::from_secs(30);

/// Why a comment that was changed is not executed.
pub(crate) const EDITED: &str = "a comment that was edited is not carried out; write the command in a new one";

/// Commands that one answer offers to copy.
const LINES_MAX: usize = 10;

/// Why a command is not executed, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The reason, as text for users; may contain their text.
    pub why: String,
    /// Lines to copy.
    pub lines: Vec<String>,
    /// `why` is markdown already, and contains no foreign text.
    pub is_safe: bool,
}

impl Answer {
    /// Returns an answer without anything to copy.
    pub(crate) fn of(why: impl Into<String>) -> Self {
        Self { why: why.into(), lines: Vec::new(), is_safe: false }
    }
}

/// The decision about a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CommentVerdict {
    /// Ignore it, for this reason.
    Ignore(&'static str),
    /// It contains none, but a word that is nearly one: whoever may command is given a sign.
    Misspelt,
    /// Answer why it is not executed.
    Answer(Answer),
    /// It contains these commands.
    Commands(Vec<ChatCommand>),
}

/// Tells whether a comment is too old to command anything.
pub(crate) fn is_old(comment: &Comment, now: Timestamp) -> bool {
    now.duration_since(comment.created_at) > COMMENT_AGE_MAX
}

/// Evaluates a comment before its author's rights are requested.
pub(crate) fn verdict(comment: &Comment, me: &ForgeUser, short: bool, now: Timestamp) -> CommentVerdict {
    if comment.author.id == me.id {
        return CommentVerdict::Ignore("it is our own");
    }
    if comment.author.is_bot || comment.via_app {
        return CommentVerdict::Ignore("a machine wrote it");
    }
    if is_old(comment, now) {
        return CommentVerdict::Ignore("it is too old");
    }
    match parse(&comment.body, &me.login, short) {
        // Before the edit check: a comment without a command gets no answer, whoever edited it.
        Chat::Silence => CommentVerdict::Ignore("it holds no command"),
        Chat::Misspelt => CommentVerdict::Misspelt,
        // Somebody else than the author may have edited it.
        _ if comment.updated_at.duration_since(comment.created_at) > UNEDITED_MAX => {
            CommentVerdict::Answer(Answer::of(EDITED))
        }
        Chat::Mistake(why) => CommentVerdict::Answer(Answer { is_safe: true, ..Answer::of(why) }),
        Chat::Commands(commands) => CommentVerdict::Commands(commands),
    }
}

/// The meaning of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Execute this command.
    Do(Command),
    /// Update the comment.
    Status,
    /// Show the list of commands.
    Help,
}

impl Meaning {
    /// Returns the command to execute.
    pub(crate) fn command(&self) -> Option<&Command> {
        match self {
            Self::Do(command) => Some(command),
            Self::Status | Self::Help => None,
        }
    }
}

/// Returns the meaning of a command in a rollout's conversation. `prefix` begins the commands in answers.
///
/// # Errors
/// Why it has no meaning there, and what to write instead.
pub(crate) fn meaning(
    rollout: &CommitRollout,
    thread: ThreadNumber,
    chat: &ChatCommand,
    said_at: Timestamp,
    prefix: &str,
) -> Result<Vec<Meaning>, Answer> {
    match chat.verb {
        ChatVerb::Status => return Ok(vec![Meaning::Status]),
        ChatVerb::Help => return Ok(vec![Meaning::Help]),
        _ => {}
    }
    if let Some(own) = rollout.thread.filter(|own| own.number != thread) {
        let why = format!("this change is rolled out together with #{}; write the command there", own.number);
        return Err(Answer::of(why));
    }
    if let Some(sha) = chat.sha.as_ref().filter(|sha| !rollout.commit.as_str().starts_with(sha.as_str())) {
        let ours = rollout.commit.short();
        let why = format!(
            "this conversation is about commit {ours}, not {sha}; look again, and write sha={ours} if that is meant"
        );
        return Err(Answer::of(why));
    }
    // Before the search for placements: a pending commit has moved none. No target means the commit itself.
    if rollout.trouble == Some(Trouble::Rewritten) && chat.verb == ChatVerb::Resume {
        return Ok(vec![Meaning::Do(command(Verb::Resume, String::new(), chat))]);
    }
    let meant = placements(rollout, chat)?;
    let all: Vec<_> = match chat.verb {
        ChatVerb::Approve | ChatVerb::Reject => return gates(rollout, &meant, chat, said_at, prefix),
        ChatVerb::Pause | ChatVerb::Resume => meant.iter().filter(|(_, way)| !way.state.is_final()).collect(),
        ChatVerb::Retry => meant
            .iter()
            .filter(|(_, way)| !matches!(way.state, ProgressState::Done | ProgressState::Superseded { .. }))
            .collect(),
        ChatVerb::Rollback => meant.iter().filter(|(_, way)| superseded(way).is_none()).collect(),
        ChatVerb::Status | ChatVerb::Help => Vec::new(),
    };
    let Some(verb) = chat.verb.verb() else { return Ok(Vec::new()) };
    if let Some(cluster) = &chat.cluster
        && chat.verb == ChatVerb::Retry
    {
        let why =
            format!("one cluster alone cannot be tried again: leave cluster={cluster} out, and all that failed are");
        return Err(Answer::of(why));
    }
    if let Some(stage) = &chat.stage {
        let why = format!("{verb} is about a whole placement: leave {stage} out, or write placement={stage}");
        return Err(Answer::of(why));
    }
    if all.is_empty() {
        return Err(Answer::of(over(rollout).unwrap_or_else(|| format!("nothing here is left to {verb}"))));
    }
    if verb == Verb::Rollback && all.len() > 1 {
        let lines = all.iter().take(LINES_MAX).map(|(key, _)| format!("{prefix}rollback placement={key}")).collect();
        return Err(Answer { lines, ..Answer::of("more than one placement is rolled out here; name one") });
    }
    let mut meanings = Vec::new();
    for (key, _) in all {
        let command = command(verb, key.qualified(), chat);
        meanings.push(Meaning::Do(Command { to_commit: chat.to.clone(), ..command }));
    }
    Ok(meanings)
}

fn command(verb: Verb, target: String, chat: &ChatCommand) -> Command {
    Command { message: chat.reason.clone(), ..Command::new(verb, target) }
}

/// Returns the placements of a rollout that a command refers to.
fn placements<'a>(
    rollout: &'a CommitRollout,
    chat: &ChatCommand,
) -> Result<Vec<(&'a PlacementKey, &'a Progress)>, Answer> {
    let Some(wanted) = &chat.placement else { return Ok(rollout.placements.iter().collect()) };
    // As the comment shows it; else as people name one anywhere.
    let shown: Vec<_> = rollout.placements.iter().filter(|(key, _)| key.to_string() == *wanted).collect();
    if !shown.is_empty() {
        return Ok(shown);
    }
    let target = TargetWord::read(wanted);
    let found: Vec<_> = rollout.placements.iter().filter(|(key, _)| target.is_placement(key)).collect();
    if found.is_empty() {
        let names = listing(rollout.placements.keys().map(ToString::to_string));
        return Err(Answer::of(format!("no placement {wanted} is rolled out here; there is {names}")));
    }
    Ok(found)
}

/// Returns the commands that open or close gates. A command without a stage refers to no gate; a stage and the commit refer to
/// every placement of the commit that waits there.
fn gates(
    rollout: &CommitRollout,
    meant: &[(&PlacementKey, &Progress)],
    chat: &ChatCommand,
    said_at: Timestamp,
    prefix: &str,
) -> Result<Vec<Meaning>, Answer> {
    let verb = if chat.verb == ChatVerb::Approve { Verb::Approve } else { Verb::Reject };
    let waiting: Vec<WaitingAt<'_>> =
        rollout.gates().filter(|(key, ..)| meant.iter().any(|(known, _)| known == key)).collect();
    if waiting.is_empty() {
        return Err(Answer::of(over(rollout).unwrap_or_else(|| "nothing waits for an approval here".to_owned())));
    }
    let of_stage = gates_of_stage(rollout, &waiting, chat, verb, prefix)?;
    // Of all that wait at a stage the author means those that were there to be seen.
    let is_any_shown =
        names_all(chat) && of_stage.iter().any(|(key, _, gate)| was_shown(rollout, key, gate, chat, said_at).is_ok());
    let mut meanings = Vec::new();
    for (key, _, gate) in of_stage {
        match was_shown(rollout, key, gate, chat, said_at) {
            Ok(()) => meanings.push(Meaning::Do(Command {
                stage: Some(gate.stage.clone()),
                digest: Some(gate.digest.to_string()),
                // The digest says which run of the placement.
                ..command(verb, key.qualified(), chat)
            })),
            Err(_) if is_any_shown => {}
            Err(why) => return Err(Answer { lines: vec![line(rollout, key, gate, verb, prefix)], ..Answer::of(why) }),
        }
    }
    Ok(meanings)
}

/// Tells whether a command names a stage of the commit in every placement.
fn names_all(chat: &ChatCommand) -> bool {
    chat.sha.is_some() && chat.placement.is_none()
}

/// Returns those of the gates that wait that a command names.
fn gates_of_stage<'a>(
    rollout: &CommitRollout,
    waiting: &[WaitingAt<'a>],
    chat: &ChatCommand,
    verb: Verb,
    prefix: &str,
) -> Result<Vec<WaitingAt<'a>>, Answer> {
    let mut of_stage = waiting.to_vec();
    match &chat.stage {
        Some(stage) => of_stage.retain(|(_, _, gate)| gate.stage == *stage),
        // Deletions must be named.
        None if chat.all => of_stage.retain(|(_, _, gate)| gate.stage != DELETION_GATE),
        None => {
            let lines = lines(rollout, waiting, verb, prefix);
            return Err(Answer { lines, ..Answer::of(format!("{verb} needs a stage; what waits:")) });
        }
    }
    let (why, lines) = match (of_stage.len(), chat.stage.as_deref()) {
        (0, None) => (
            format!("only deletions wait, and they have to be named to {verb}; what waits:"),
            lines(rollout, waiting, verb, prefix),
        ),
        (0, Some(stage)) => {
            (format!("stage {stage} needs no approval; pending:"), lines(rollout, waiting, verb, prefix))
        }
        (2.., Some(DELETION_GATE)) => {
            let why = "deletions wait in more than one placement, and each is named by itself; write one of these:";
            (why.to_owned(), lines(rollout, &of_stage, verb, prefix))
        }
        (count @ 2.., Some(stage)) if !names_all(chat) => {
            let why = format!(
                "{count} placements wait at stage {stage}; write the first line to {verb} it for all of them, or one of the others:"
            );
            let mut all = vec![format!("{prefix}{verb} {stage} sha={}", rollout.commit.short())];
            all.extend(lines(rollout, &of_stage, verb, prefix));
            all.truncate(LINES_MAX);
            (why, all)
        }
        _ => return Ok(of_stage),
    };
    Err(Answer { lines, ..Answer::of(why) })
}

/// Returns the command lines that approve or reject each of these gates.
fn lines(rollout: &CommitRollout, gates: &[WaitingAt<'_>], verb: Verb, prefix: &str) -> Vec<String> {
    gates.iter().take(LINES_MAX).map(|(key, _, gate)| line(rollout, key, gate, verb, prefix)).collect()
}

/// Returns the lines that answer the gates of a rollout that wait, for a comment whose answer to one cannot be read.
pub(crate) fn waiting_lines(rollout: &CommitRollout, mistake: &str, prefix: &str) -> Vec<String> {
    // The grammar begins with the command's word.
    let verb = [Verb::Approve, Verb::Reject].into_iter().find(|verb| mistake.starts_with(&format!("`{verb}`")));
    let Some(verb) = verb else { return Vec::new() };
    lines(rollout, &rollout.gates().collect::<Vec<_>>(), verb, prefix)
}

/// A gate that waits, with its placement.
type WaitingAt<'a> = (&'a PlacementKey, &'a Progress, &'a GateProgress);

/// Tells whether a comment's author could see the gate's content at that time. An author who names the commit has seen it, even
/// right after a change.
fn was_shown(
    rollout: &CommitRollout,
    key: &PlacementKey,
    gate: &GateProgress,
    chat: &ChatCommand,
    said_at: Timestamp,
) -> Result<(), &'static str> {
    let mut from = None;
    let mut had_other = false;
    for shown in &rollout.shown {
        if shown.placement == *key && shown.stage == gate.stage {
            had_other |= shown.digest != gate.digest;
            if from.is_none() && shown.is_of(gate) {
                from = Some(shown.from);
            }
        }
    }
    let needs_no_pause = !had_other || chat.sha.is_some();
    match from {
        Some(from) if from <= said_at && (needs_no_pause || said_at.duration_since(from) > SHOWN_CHANGE) => Ok(()),
        Some(_) if had_other => Err("what waits changed while you wrote; look again, then write:"),
        _ => Err("what waits was not shown yet when you wrote; look again, then write:"),
    }
}

/// Returns the command line that approves or rejects exactly this gate.
fn line(rollout: &CommitRollout, key: &PlacementKey, gate: &GateProgress, verb: Verb, prefix: &str) -> String {
    format!("{prefix}{verb} {} placement={key} sha={}", gate.stage, rollout.commit.short())
}

/// Returns why a rollout is over, if it is.
fn over(rollout: &CommitRollout) -> Option<String> {
    let by = rollout.placements.values().find_map(superseded);
    if let Some(by) = by {
        return Some(format!("this rollout was superseded by commit {by}; its gates are listed there"));
    }
    rollout.ended_at.map(|_| "this rollout is over".to_owned())
}

fn superseded(way: &Progress) -> Option<&str> {
    match &way.state {
        ProgressState::Superseded { by } => Some(by.short()),
        _ => None,
    }
}

fn listing(text: impl Iterator<Item = String>) -> String {
    text.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
