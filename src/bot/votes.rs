//! Approvals without a command: a reaction to a comment that asks for them, and an approving review. Nobody else can edit
//! them, and the host names their author. Both count for the digests that the comment showed before, and only while it has our
//! text.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::Console;
use super::asked::Asked;
use super::comment_policy::{Answer, COMMENT_AGE_MAX};
use super::commit_rollout::CommitRollout;
use super::listen::ANSWERS_MAX;
use super::origin::{is_as_written, is_unchanged, was_seen};
use super::outbox::{Slot, SlotContent};
use forge::Error;
use model::commands::{Command, Person, Verb};
use model::forge::{Approval, ForgeUser, History, Reacted, Reaction, ThreadNumber};
use model::id::CommitId;
use model::runs::DELETION_GATE;

/// The reaction that approves.
pub(super) const APPROVING: Reaction = Reaction::Rocket;
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

impl Console {
    /// Reads reactions and reviews that approve waiting gates of a rollout.
    pub(super) async fn count_votes(&mut self, commit: &CommitId) {
        let Some(rollout) = self.rollouts.get(commit).cloned() else { return };
        let comments: BTreeSet<u64> = rollout.asked.iter().map(|asked| asked.comment).collect();
        let mut standing = Vec::new();
        for comment in comments.into_iter().filter(|comment| !rollout.asked_in(*comment).is_empty()) {
            match self.count_reactions(commit, comment).await {
                VoteOutcome::Stands => standing.extend(rollout.asked_in(comment)),
                VoteOutcome::Unknown => {}
                // What waits next may be something else: the other comments are read next time.
                VoteOutcome::Approved => return,
            }
        }
        let mut runs = standing.iter().filter(|asked| asked.stage != DELETION_GATE);
        if let (Some(thread), Some(asked)) = (rollout.thread.filter(|thread| !thread.is_issue), runs.next()) {
            self.count_reviews(&rollout, thread.number, asked).await;
        }
    }

    /// Returns the waiting gates that a comment asks for, as of now.
    fn asked_in(&self, commit: &CommitId, comment: u64) -> Vec<Asked> {
        self.rollouts.get(commit).map(|rollout| rollout.asked_in(comment)).unwrap_or_default()
    }

    /// Reads the reactions to a comment that asks for gates.
    async fn count_reactions(&mut self, commit: &CommitId, id: u64) -> VoteOutcome {
        let (now, Some(me), forge) = (self.now(), self.me.clone(), self.forge()) else { return VoteOutcome::Unknown };
        let text = self.asked_in(commit, id).first().map(|asked| asked.text.clone());
        // The comment is read after the reactions: its text then is the text they were given for.
        let given = match self.ask(forge.reactions(id, APPROVING)).await {
            // The comment was deleted, so nobody can see its text: reviews do not count for it either.
            Err(Error::NotFound { .. }) => return VoteOutcome::Unknown,
            answer => answer,
        };
        let Some(given) = self.read(given) else { return VoteOutcome::Unknown };
        let Some(Some(comment)) = self.ask_for(forge.comment(id)).await else { return VoteOutcome::Unknown };
        let asked = self.asked_in(commit, id);
        // An edit of our own was under way meanwhile: the next look compares with the new text.
        let (true, Some(first)) =
            (self.outbox.is_settled(id), asked.first().filter(|asked| Some(&asked.text) == text.as_ref()))
        else {
            return VoteOutcome::Unknown;
        };
        let counts = |given: &Reacted| asked.iter().any(|asked| is_new(asked, given, now));
        let mut given: Vec<_> =
            given.into_iter().filter(|given| given.by.id != me.id && !given.by.is_bot && counts(given)).collect();
        given.truncate(VOTERS_MAX);
        let mut stands = is_as_written(first, &comment, &me);
        // Its timestamp moved: only a host that keeps every edit can prove that there was none.
        if stands && !is_unchanged(first, &comment) {
            stands = self.ask_for(forge.history(&comment)).await == Some(History::Untouched);
        }
        let Some(rollout) = self.rollouts.get(commit).cloned() else { return VoteOutcome::Unknown };
        if !stands {
            if let Some(first) = given.first() {
                let why = "somebody changed the comment that asks for this approval, so reactions to it and reviews do not count";
                tracing::warn!(comment = id, "a comment of ours that asks for an approval was changed");
                self.answer_vote(&rollout, &first.by, &Answer::of(why));
            }
            return VoteOutcome::Unknown;
        }
        for given in given {
            // Logged already; it may succeed next time.
            let Some(person) = self.voter(&rollout, &given.by, &comment.url).await else { continue };
            if self.react_for(commit, id, &given, &person, now).await {
                return VoteOutcome::Approved;
            }
        }
        VoteOutcome::Stands
    }

    /// Submits one person's reaction for every gate that the comment showed before it. Returns whether one took it.
    async fn react_for(
        &mut self,
        commit: &CommitId,
        id: u64,
        given: &Reacted,
        person: &Person,
        now: Timestamp,
    ) -> bool {
        let mut approved = false;
        if let Some(credentials) = &person.credentials {
            self.executed.drop_before(&credentials.comment, credentials.id, given.at);
        }
        for asked in self.asked_in(commit, id).iter().filter(|asked| is_new(asked, given, now)) {
            let Some(rollout) = self.rollouts.get(commit).cloned() else { break };
            // An approval may have ended the wait of another gate.
            let Some(decision) = self.vote(&rollout, asked, person, "by reaction").await else { continue };
            if let Some(rollout) = self.rollouts.get_mut(commit)
                && let Some(known) = rollout.asked.iter_mut().find(|known| known.is_same(asked))
            {
                // Also after a refusal: the same reaction is not evaluated with each poll.
                known.heard.insert(given.by.id, given.at);
            }
            match decision {
                Ok(()) => approved = true,
                Err(answer) => self.answer_vote(&rollout, &given.by, &answer),
            }
        }
        // Deleted in the batch that notes the reaction as handled.
        if let Some(credentials) = &person.credentials {
            self.executed.settle(&credentials.comment, credentials.id);
        }
        approved
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
            let decision = if !is_one {
                let why = "a review names no stage, and more than one gate waits; react with 🚀 to the comment that asks for those \
                           you mean";
                Some(Err(Answer::of(why)))
            } else if commits.head.as_ref() == Some(&review.commit) {
                match self.voter(rollout, &review.by, &review.url).await {
                    Some(person) => self.vote(rollout, asked, &person, "by review").await,
                    None => None,
                }
            } else {
                Some(Err(Answer::of(
                    "the review is of another commit than the pull request ends with; review that one",
                )))
            };
            // Deleted in the batch that notes the review as handled.
            self.executed.settle(&review.url, review.by.id);
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

    /// Returns who approves, as the forge knows them now; `None` if it must be retried.
    async fn voter(&mut self, rollout: &CommitRollout, by: &ForgeUser, url: &str) -> Option<Person> {
        if let Some(answer) = self.no_approval(rollout) {
            // Its conversation gets the answer once.
            self.answer_vote(rollout, by, &answer);
            return None;
        }
        let questions = self.questions(rollout, by, true);
        let facts = self.ask(questions.answers()).await;
        let person = self.person(rollout, by, url, facts);
        person
            .inspect_err(|answer| tracing::warn!(person = by.login, why = answer.why, "an approval does not count yet"))
            .ok()
    }

    /// Submits an approval; `None` if the gate no longer waits.
    async fn vote(
        &mut self,
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
        let outcome = self.instruct(command, person.clone()).await;
        tracing::info!(person = person.name, how, opened = outcome.is_ok(), "approval handled");
        Some(outcome.map(drop).map_err(|refusal| Answer::of(refusal.message)))
    }

    /// Answers why an approval does not count: once per person, within the limits.
    fn answer_vote(&mut self, rollout: &CommitRollout, by: &ForgeUser, answer: &Answer) {
        let Some(thread) = rollout.thread else { return };
        let heard: BTreeSet<u64> = rollout.asked.iter().flat_map(|asked| asked.heard.keys().copied()).collect();
        if heard.len() + rollout.reviewed.len() > ANSWERS_MAX {
            return;
        }
        let slot = Slot::Comment { id: self.mark(&["vote", rollout.commit.as_str(), &by.id.to_string(), &answer.why]) };
        if self.outbox.entry(&slot).is_none() {
            let body = super::messages::reply(&by.login, answer);
            self.outbox.set(slot, SlotContent::comment(thread.number, body), self.now());
        }
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
