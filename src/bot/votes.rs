//! Approvals without a command: a reaction to a comment that asks for them, and an approving review. Nobody else can edit
//! them, and the host names their author. Both count for the digests that the comment showed before, and only while it has our
//! text.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::asked::Asked;
use super::bot::Bot;
use super::comment_policy::{Answer, COMMENT_AGE_MAX};
use super::comments::ANSWERS_MAX;
use super::commit_rollout::CommitRollout;
use super::messages::reply;
use super::origin::{is_as_written, is_unchanged, was_seen};
use super::outbox::{Slot, SlotContent};
use forge::Error;
use model::commands::{Command, Person, Verb};
use model::forge::{Approval, Comment, ForgeUser, History, Reacted, Reaction, ThreadNumber};
use model::id::CommitId;
use model::runs::DELETION_GATE;

/// The reaction that approves.
const APPROVING: Reaction = Reaction::Rocket;
/// People whose reactions or reviews are evaluated at a time; the others follow next time.
const VOTERS_MAX: usize = 20;

/// The result of reading the reactions to a comment.
enum VoteOutcome {
    /// The comment has our text.
    Stands,
    /// Its text changed, or it cannot be read now.
    Unknown,
    /// A reaction approved a gate.
    Approved,
}

/// The reactions to a comment that asks for gates.
struct Reactions {
    /// Those that may approve.
    given: Vec<Reacted>,
    comment: Comment,
    /// The comment has our text.
    stands: bool,
}

/// Reads reactions and reviews that approve waiting gates of a rollout.
pub(super) async fn count_votes(bot: &mut Bot, commit: &CommitId) {
    let Some(rollout) = bot.rollouts.all.get(commit).cloned() else { return };
    let comments: BTreeSet<u64> = rollout.asked.iter().map(|asked| asked.comment).collect();
    let mut standing = Vec::new();
    for comment in comments {
        let asked = rollout.asked_in(comment);
        if asked.is_empty() {
            continue;
        }
        match count_reactions(bot, commit, comment).await {
            VoteOutcome::Stands => standing.extend(asked),
            VoteOutcome::Unknown => {}
            // What waits next may be something else: the other comments are read next time.
            VoteOutcome::Approved => return,
        }
    }
    let run = standing.iter().find(|asked| asked.stage != DELETION_GATE);
    if let Some(thread) = rollout.thread
        && let Some(asked) = run
        && !thread.is_issue
    {
        count_reviews(bot, &rollout, thread.number, asked).await;
    }
}

/// Returns the waiting gates that a comment asks for, as of now.
fn asked_in(bot: &Bot, commit: &CommitId, comment: u64) -> Vec<Asked> {
    bot.rollouts.all.get(commit).map(|rollout| rollout.asked_in(comment)).unwrap_or_default()
}

/// Counts the reactions to a comment that asks for gates.
async fn count_reactions(bot: &mut Bot, commit: &CommitId, id: u64) -> VoteOutcome {
    let now = bot.now();
    let Some(Reactions { given, comment, stands }) = read_reactions(bot, commit, id, now).await else {
        return VoteOutcome::Unknown;
    };
    let Some(rollout) = bot.rollouts.all.get(commit).cloned() else { return VoteOutcome::Unknown };
    if !stands {
        if let Some(first) = given.first() {
            let why =
                "somebody changed the comment that asks for this approval, so reactions to it and reviews do not count";
            tracing::warn!(comment = id, "a comment of ours that asks for an approval was changed");
            answer_vote(bot, &rollout, &first.by, &Answer::of(why));
        }
        return VoteOutcome::Unknown;
    }
    for given in given {
        // Logged already; it may succeed next time.
        let Some(person) = voter(bot, &rollout, &given.by, &comment.url).await else { continue };
        if react_for(bot, commit, id, &given, &person, now).await {
            return VoteOutcome::Approved;
        }
    }
    VoteOutcome::Stands
}

/// Reads the reactions to a comment that asks for gates; `None` if they cannot be read, or their text is not known for certain.
async fn read_reactions(bot: &mut Bot, commit: &CommitId, id: u64, now: Timestamp) -> Option<Reactions> {
    let me = bot.polling.me.clone()?;
    let forge = bot.forge();
    let text = asked_in(bot, commit, id).first().map(|asked| asked.text.clone());
    // The comment is read after the reactions: its text then is the text they were given for.
    let given = match bot.ask(forge.reactions(id, APPROVING)).await {
        // The comment was deleted, so nobody can see its text: reviews do not count for it either.
        Err(Error::NotFound { .. }) => return None,
        answer => bot.take_answer(answer)?,
    };
    let comment = bot.ask_for(forge.comment(id)).await??;
    let asked = asked_in(bot, commit, id);
    let first = asked.first()?;
    // An edit of our own was under way meanwhile: the next look compares with the new text.
    if !bot.outbox.is_settled(id) || Some(&first.text) != text.as_ref() {
        return None;
    }
    let mut counting = Vec::new();
    for given in given {
        let is_person = given.by.id != me.id && !given.by.is_bot;
        if is_person && counting.len() < VOTERS_MAX && asked.iter().any(|asked| is_new(asked, &given, now)) {
            counting.push(given);
        }
    }
    let mut stands = is_as_written(first, &comment, &me);
    // Its timestamp moved: only a host that keeps every edit can prove that there was none.
    if stands && !is_unchanged(first, &comment) {
        stands = bot.ask_for(forge.history(&comment)).await == Some(History::Untouched);
    }
    Some(Reactions { given: counting, comment, stands })
}

/// Submits one person's reaction for every gate that the comment showed before it. Returns whether one took it.
async fn react_for(
    bot: &mut Bot,
    commit: &CommitId,
    id: u64,
    given: &Reacted,
    person: &Person,
    now: Timestamp,
) -> bool {
    let mut approved = false;
    if let Some(credentials) = &person.credentials {
        bot.comments.executed.drop_before(&credentials.comment, credentials.id, given.at);
    }
    for asked in asked_in(bot, commit, id) {
        if !is_new(&asked, given, now) {
            continue;
        }
        let Some(rollout) = bot.rollouts.all.get(commit).cloned() else { break };
        // An approval may have ended the wait of another gate.
        let Some(decision) = vote(bot, &rollout, &asked, person, "by reaction").await else { continue };
        if let Some(rollout) = bot.rollouts.all.get_mut(commit)
            && let Some(known) = rollout.asked.iter_mut().find(|known| known.is_same(&asked))
        {
            // Also after a refusal: the same reaction is not evaluated with each poll.
            known.heard.insert(given.by.id, given.at);
        }
        match decision {
            Ok(()) => approved = true,
            Err(answer) => answer_vote(bot, &rollout, &given.by, &answer),
        }
    }
    // Deleted in the batch that notes the reaction as handled.
    if let Some(credentials) = &person.credentials {
        bot.comments.executed.settle(&credentials.comment, credentials.id);
    }
    approved
}

/// Reads the reviews after the comment that asks for a run's gate. A review names no stage: it counts if one gate waits,
/// and never for deletions.
async fn count_reviews(bot: &mut Bot, rollout: &CommitRollout, thread: ThreadNumber, asked: &Asked) {
    let now = bot.now();
    let Some(me) = bot.polling.me.clone() else { return };
    let forge = bot.forge();
    let Some(mut given) = bot.ask_for(forge.approvals(thread)).await else { return };
    given.retain(|review| {
        let is_ours = review.by.id == me.id || review.by.is_bot;
        !is_ours && !rollout.reviewed.contains(&review.id) && is_timely(asked, review.at, now)
    });
    given.truncate(VOTERS_MAX);
    if given.is_empty() {
        return;
    }
    let Some(Some(pull)) = bot.ask_for(forge.pull(thread)).await else { return };
    let Some(commits) = bot.ask_for(forge.commits(&pull)).await else { return };
    for review in given {
        let decision = review_decision(bot, rollout, asked, &review, commits.head.as_ref()).await;
        // Deleted in the batch that notes the review as handled.
        bot.comments.executed.settle(&review.url, review.by.id);
        let Some(decision) = decision else { continue };
        if let Some(rollout) = bot.rollouts.all.get_mut(&rollout.commit) {
            rollout.reviewed.insert(review.id);
        }
        match decision {
            Ok(()) => return,
            Err(answer) => answer_vote(bot, rollout, &review.by, &answer),
        }
    }
}

/// Submits a review, unless it is not clear what it approves; `None` if it must be retried, or the gate no longer waits.
async fn review_decision(
    bot: &mut Bot,
    rollout: &CommitRollout,
    asked: &Asked,
    review: &Approval,
    head: Option<&CommitId>,
) -> Option<Result<(), Answer>> {
    if rollout.gates().filter(|(_, _, gate)| gate.stage != DELETION_GATE).count() != 1 {
        let why = "a review names no stage, and more than one gate waits; react with 🚀 to the comment that asks for those you mean";
        return Some(Err(Answer::of(why)));
    }
    if head != Some(&review.commit) {
        let why = "the review is of another commit than the pull request ends with; review that one";
        return Some(Err(Answer::of(why)));
    }
    let person = voter(bot, rollout, &review.by, &review.url).await?;
    vote(bot, rollout, asked, &person, "by review").await
}

/// Returns who approves, as the forge knows them now; `None` if it must be retried.
async fn voter(bot: &mut Bot, rollout: &CommitRollout, by: &ForgeUser, url: &str) -> Option<Person> {
    if let Some(answer) = bot.context(rollout).no_approval {
        // Its conversation gets the answer once.
        answer_vote(bot, rollout, by, &answer);
        return None;
    }
    let questions = bot.questions(rollout, by, true);
    let facts = bot.ask(questions.answers()).await;
    bot.context(rollout)
        .person(by, url, facts)
        .inspect_err(|answer| tracing::warn!(person = by.login, why = answer.why, "an approval does not count yet"))
        .ok()
}

/// Submits an approval; `None` if the gate no longer waits.
async fn vote(
    bot: &mut Bot,
    rollout: &CommitRollout,
    asked: &Asked,
    person: &Person,
    how: &'static str,
) -> Option<Result<(), Answer>> {
    let (key, _, gate) = rollout.gates().find(|(key, _, gate)| asked.is_of(key, gate))?;
    let command = Command {
        stage: Some(gate.stage.clone()),
        digest: Some(asked.digest.to_string()),
        message: Some(how.to_owned()),
        ..Command::new(Verb::Approve, key.qualified())
    };
    let outcome = bot.instruct(command, person.clone()).await;
    tracing::info!(person = person.name, how, opened = outcome.is_ok(), "approval handled");
    Some(outcome.map(drop).map_err(|refusal| Answer::of(refusal.message)))
}

/// Answers why an approval does not count: once per person, within the limits.
fn answer_vote(bot: &mut Bot, rollout: &CommitRollout, by: &ForgeUser, answer: &Answer) {
    let Some(thread) = rollout.thread else { return };
    let heard: BTreeSet<u64> = rollout.asked.iter().flat_map(|asked| asked.heard.keys().copied()).collect();
    if heard.len() + rollout.reviewed.len() > ANSWERS_MAX {
        return;
    }
    let id = bot.settings.mark(&["vote", rollout.commit.as_str(), &by.id.to_string(), &answer.why]);
    let slot = Slot::Comment { id };
    if bot.outbox.entry(&slot).is_none() {
        let now = bot.now();
        bot.outbox.set(slot, SlotContent::comment(thread.number, reply(&by.login, answer)), now);
    }
}

/// Tells whether a reaction counts for a gate: it came after the comment showed it, and was not handled yet.
fn is_new(asked: &Asked, given: &Reacted, now: Timestamp) -> bool {
    is_timely(asked, given.at, now) && asked.heard.get(&given.by.id).is_none_or(|heard| given.at > *heard)
}

/// Tells whether a reaction or review came after the comment was visible, and is not too old.
fn is_timely(asked: &Asked, at: Timestamp, now: Timestamp) -> bool {
    was_seen(asked, at) && now.duration_since(at) <= COMMENT_AGE_MAX
}
