//! Approvals without a command: a reaction to the comment that asks for one, and an approving review. Nobody else can edit
//! them, and the host names their author. Both count for the digest of that comment, and only while it has our text.

use jiff::Timestamp;

use super::Console;
use super::comment_policy::{Answer, COMMENT_AGE_MAX, gate_target};
use super::commit_rollout::{Asked, CommitRollout};
use super::listen::ANSWERS_MAX;
use super::origin::{is_as_written, is_unchanged, was_seen};
use super::outbox::{Slot, SlotContent};
use crate::forge::Error;
use crate::model::commands::{Command, Verb};
use crate::model::forge::{Approval, ForgeUser, History, Reaction, ThreadNumber};
use crate::model::id::CommitId;
use crate::model::runs::DELETION_GATE;

/// The reaction that approves.
pub(super) const APPROVING: Reaction = Reaction::Rocket;
/// People whose reactions or reviews are evaluated at a time; the others follow next time.
const VOTERS_MAX: usize = 20;

/// The result of reading the reactions to a comment.
enum VoteOutcome {
    /// The comment has our text.
    Stands,
    /// Its text changed, or it cannot be read.
    Changed,
    /// A reaction approved the gate.
    Approved,
}

/// An approval.
struct Vote<'a> {
    by: &'a ForgeUser,
    /// Its URL.
    url: &'a str,
    how: &'static str,
}

impl Console {
    /// Reads reactions and reviews that approve waiting gates of a rollout.
    pub(super) async fn count_votes(&mut self, commit: &CommitId) {
        let Some(rollout) = self.rollouts.get(commit).cloned() else { return };
        let is_waiting = |asked: &&Asked| rollout.gates().any(|(key, _, gate)| asked.is_of(key, gate));
        let waiting: Vec<Asked> = rollout.asked.iter().filter(is_waiting).cloned().collect();
        let mut standing = Vec::new();
        for asked in waiting {
            match self.count_reactions(&rollout, &asked).await {
                VoteOutcome::Stands => standing.push(asked),
                VoteOutcome::Changed => {}
                // The next waiting gate may be another: the others are read next time.
                VoteOutcome::Approved => return,
            }
        }
        let mut runs = standing.iter().filter(|asked| asked.stage != DELETION_GATE);
        if let (Some(thread), Some(asked)) = (rollout.thread.filter(|thread| !thread.is_issue), runs.next()) {
            self.count_reviews(&rollout, thread.number, asked).await;
        }
    }

    /// Reads the reactions to the comment that asks for one gate.
    async fn count_reactions(&mut self, rollout: &CommitRollout, asked: &Asked) -> VoteOutcome {
        let (now, Some(me), forge) = (self.now(), self.me.clone(), self.forge()) else { return VoteOutcome::Changed };
        // The comment is read after the reactions: its text then is the text they were given for.
        let given = match self.ask(forge.reactions(asked.comment, APPROVING)).await {
            // The comment was deleted, so nobody can see its text: reviews do not count for it either.
            Err(Error::NotFound { .. }) => return VoteOutcome::Changed,
            answer => answer,
        };
        let Some(given) = self.read(given) else { return VoteOutcome::Changed };
        let Some(Some(comment)) = self.ask_for(forge.comment(asked.comment)).await else {
            return VoteOutcome::Changed;
        };
        let counts = |by: &ForgeUser, at: Timestamp| {
            let is_new = asked.heard.get(&by.id).is_none_or(|heard| at > *heard);
            by.id != me.id && !by.is_bot && is_new && is_timely(asked, at, now)
        };
        let mut given: Vec<_> = given.into_iter().filter(|given| counts(&given.by, given.at)).collect();
        given.truncate(VOTERS_MAX);
        let mut stands = is_as_written(asked, &comment, &me);
        // Its timestamp moved: only a host that keeps every edit can prove that there was none.
        if stands && !is_unchanged(asked, &comment) {
            stands = self.ask_for(forge.history(&comment)).await == Some(History::Untouched);
        }
        if !stands {
            if let Some(first) = given.first() {
                let why = "somebody changed the comment that asks for this approval, so reactions to it and reviews do not count";
                tracing::warn!(comment = asked.comment, "a comment of ours that asks for an approval was changed");
                self.answer_vote(rollout, &first.by, &Answer::of(why));
            }
            return VoteOutcome::Changed;
        }
        for given in given {
            let how = "by reaction";
            if let Some(decision) = self.vote(rollout, asked, Vote { by: &given.by, url: &comment.url, how }).await {
                if let Some(rollout) = self.rollouts.get_mut(&rollout.commit)
                    && let Some(known) = rollout.asked.iter_mut().find(|known| known.comment == asked.comment)
                {
                    // Also after a refusal: the same reaction is not evaluated with each poll.
                    known.heard.insert(given.by.id, given.at);
                }
                match decision {
                    Ok(()) => return VoteOutcome::Approved,
                    Err(answer) => self.answer_vote(rollout, &given.by, &answer),
                }
            }
        }
        VoteOutcome::Stands
    }

    /// Reads the reviews after the comment that asks for a run's gate. A review names no stage: it counts if one gate waits,
    /// and never for deletions.
    async fn count_reviews(&mut self, rollout: &CommitRollout, thread: ThreadNumber, asked: &Asked) {
        let (now, Some(me), forge) = (self.now(), self.me.clone(), self.forge()) else { return };
        let Some(given) = self.ask_for(forge.approvals(thread)).await else { return };
        let counts = |review: &Approval| {
            let is_ours = review.by.id == me.id || review.by.is_bot;
            !is_ours && !rollout.reviewed.contains(&review.id) && is_timely(asked, review.at, now)
        };
        let given: Vec<Approval> = given.into_iter().filter(counts).take(VOTERS_MAX).collect();
        if given.is_empty() {
            return;
        }
        let Some(Some(pull)) = self.ask_for(forge.pull(thread)).await else { return };
        let Some(commits) = self.ask_for(forge.commits(&pull)).await else { return };
        let is_one = rollout.gates().filter(|(_, _, gate)| gate.stage != DELETION_GATE).count() == 1;
        for review in given {
            let vote = Vote { by: &review.by, url: &review.url, how: "by review" };
            let decision = if !is_one {
                let why = "a review names no stage, and more than one waits; react with 🚀 to the comment that asks for the one \
                           you mean";
                Some(Err(Answer::of(why)))
            } else if commits.head.as_ref() == Some(&review.commit) {
                self.vote(rollout, asked, vote).await
            } else {
                Some(Err(Answer::of(
                    "the review is of another commit than the pull request ends with; review that one",
                )))
            };
            if let Some(decision) = decision {
                if let Some(rollout) = self.rollouts.get_mut(&rollout.commit) {
                    rollout.reviewed.insert(review.id);
                }
                match decision {
                    Ok(()) => return,
                    Err(answer) => self.answer_vote(rollout, &review.by, &answer),
                }
            }
        }
    }

    /// Submits an approval; `None` if it must be retried.
    async fn vote(&mut self, rollout: &CommitRollout, asked: &Asked, vote: Vote<'_>) -> Option<Result<(), Answer>> {
        let gates: Vec<_> = rollout.gates().collect();
        let (key, progress, gate) = gates.into_iter().find(|(key, _, gate)| asked.is_of(key, gate))?;
        let command = Command {
            stage: Some(gate.stage.clone()),
            digest: Some(asked.digest.to_string()),
            message: Some(vote.how.to_owned()),
            ..Command::new(Verb::Approve, gate_target(key, progress, gate))
        };
        let questions = self.questions(rollout, vote.by, true);
        let facts = self.ask(questions.answers()).await;
        let person = match self.person(rollout, vote.by, vote.url, facts) {
            Ok(person) => person,
            // Logged already; it may succeed next time.
            Err(answer) => {
                tracing::warn!(person = vote.by.login, why = answer.why, "an approval does not count yet");
                return None;
            }
        };
        let outcome = self.instruct(command, person).await;
        tracing::info!(person = vote.by.login, how = vote.how, opened = outcome.is_ok(), "approval handled");
        Some(outcome.map(drop).map_err(|refusal| Answer::of(refusal.message)))
    }

    /// Answers why an approval does not count: once per person, within the limits.
    fn answer_vote(&mut self, rollout: &CommitRollout, by: &ForgeUser, answer: &Answer) {
        let Some(thread) = rollout.thread else { return };
        let answered = rollout.asked.iter().map(|asked| asked.heard.len()).sum::<usize>() + rollout.reviewed.len();
        if answered > ANSWERS_MAX {
            return;
        }
        let slot = Slot::Comment { id: self.mark(&["vote", rollout.commit.as_str(), &by.id.to_string(), &answer.why]) };
        if self.outbox.entry(&slot).is_none() {
            let body = super::messages::reply(&by.login, answer);
            self.outbox.set(slot, SlotContent::Comment { thread: thread.number, body }, self.now());
        }
    }
}

/// Tells whether a reaction or review came after the comment was visible, and is not too old.
fn is_timely(asked: &Asked, at: Timestamp, now: Timestamp) -> bool {
    was_seen(asked, at) && now.duration_since(at) <= COMMENT_AGE_MAX
}
