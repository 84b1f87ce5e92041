//! The conversation of a rollout: the pull request of its commit, else an issue of its own.

use jiff::{SignedDuration, Timestamp};
use tokio::sync::oneshot;

use super::Console;
use super::commit_rollout::{CommitRollout, Thread};
use crate::source_request::SourceRequest;
use model::commit::Commit;
use model::forge::{CommitPulls, ThreadNumber};
use model::id::CommitId;
use views::comments::rollout::marker_id;

/// Pauses before the next search for a commit's pull request: hosts know it only some time after the branch moved.
const LOOK_AGAIN: [SignedDuration; 3] =
    [SignedDuration::from_secs(2), SignedDuration::from_secs(8), SignedDuration::from_secs(20)];
/// Commits of one rollout whose pull requests are requested.
const COMMITS_ASKED_MAX: usize = 100;

impl Console {
    /// Searches for the conversation of a rollout.
    pub(super) async fn find_thread(&mut self, commit: &CommitId) {
        let now = self.now();
        let Some(rollout) = self.rollouts.get(commit).filter(|rollout| rollout.thread.is_none()).cloned() else {
            self.to_find.remove(commit);
            return;
        };
        let forge = self.forge();
        let landed = self.landed(&rollout).await;
        let mut pulls = Vec::new();
        for landed in landed.iter().map(|landed| &landed.commit).take(COMMITS_ASKED_MAX) {
            let found = if let Some(number) = self.pulls.merged_as(landed) {
                vec![number]
            } else {
                // A partial answer is not enough: an issue would be opened for a change with a known pull request.
                let Some(found) = self.ask_for(forge.pulls_of_commit(landed)).await else { return };
                found
            };
            pulls.extend(found.into_iter().filter(|number| !pulls.contains(number)).collect::<Vec<_>>());
        }
        let subject = landed.first().map(|landed| landed.subject.clone()).unwrap_or_default();
        match pulls.split_first() {
            Some((newest, others)) => {
                let thread = Thread { number: *newest, is_issue: false };
                self.settle_thread(commit, thread, subject, others);
            }
            None => match LOOK_AGAIN.get(rollout.lookups as usize) {
                Some(pause) => {
                    self.to_find.insert(commit.clone(), now + *pause);
                    if let Some(rollout) = self.rollouts.get_mut(commit) {
                        rollout.lookups += 1;
                        rollout.subject = subject;
                    }
                }
                None => self.open_issue(commit, subject).await,
            },
        }
    }

    fn settle_thread(&mut self, commit: &CommitId, thread: Thread, subject: String, others: &[ThreadNumber]) {
        self.to_find.remove(commit);
        if let Some(rollout) = self.rollouts.get_mut(commit) {
            rollout.thread = Some(thread);
            rollout.also = others.iter().copied().collect();
            rollout.subject = subject;
        }
    }

    /// Returns the commits of a rollout, newest first; the commit alone if git cannot list them.
    async fn landed(&mut self, rollout: &CommitRollout) -> Vec<Commit> {
        let (reply, answer) = oneshot::channel();
        let (source, from) = (self.settings.name.clone(), rollout.from.clone());
        let request = SourceRequest::Landed { source, from, to: rollout.commit.clone(), reply };
        let alone =
            || vec![Commit { commit: rollout.commit.clone(), subject: String::new(), author_email: String::new() }];
        if self.handles.requests.send(request).is_err() {
            return alone();
        }
        let landed = self.ask(answer).await.unwrap_or_else(|_| Ok(Vec::new())).unwrap_or_else(|reason| {
            tracing::warn!(commit = rollout.commit.short(), reason, "what landed with the commit cannot be read");
            Vec::new()
        });
        if landed.is_empty() { alone() } else { landed }
    }

    /// Opens the issue for a commit that no pull request brought, unless an earlier process did.
    async fn open_issue(&mut self, commit: &CommitId, subject: String) {
        let (id, forge) = (self.rollout_slot(commit), self.forge());
        let Some(issues) = self.ask_for(forge.own_issues()).await else { return };
        let known = issues.iter().find(|(_, body)| marker_id(body) == Some(id.as_str()));
        let number = if let Some((number, _)) = known {
            *number
        } else {
            let branch = self.branch.as_deref().unwrap_or("the branch");
            let (title, body) = super::messages::issue(commit, &subject, branch, &id, &self.settings.voice);
            let Some(number) = self.ask_for(forge.open_issue(&title, &body)).await else { return };
            number
        };
        self.settle_thread(commit, Thread { number, is_issue: true }, subject, &[]);
    }

    /// Tells the page which pull requests brought commits: those of rollouts, and of merges that the host told. Nothing is asked
    /// for it.
    pub(super) fn publish_pulls(&self) {
        let of_rollouts = self.rollouts.iter().map(|rollout| (rollout.commit.clone(), rollout.pulls()));
        let mut known: CommitPulls = of_rollouts.filter(|(_, pulls)| !pulls.is_empty()).collect();
        for (commit, number) in self.pulls.merges() {
            known.entry(commit.clone()).or_default().insert(*number);
        }
        self.handles.learned.pulls.send_if_modified(|published| {
            let is_new = **published != known;
            if is_new {
                *published = known.into();
            }
            is_new
        });
    }

    /// Schedules the search for the threads of new rollouts.
    pub(super) fn seek_thread(&mut self, rollout: &CommitRollout, now: Timestamp) {
        if rollout.thread.is_none() && !self.to_find.contains_key(&rollout.commit) {
            self.to_find.insert(rollout.commit.clone(), now);
        }
    }

    /// Returns the conversations to read: of active rollouts, and of the newest ended ones.
    pub(super) fn spoken_in(&self) -> Vec<ThreadNumber> {
        const ENDED_MAX: usize = 5;
        let mut ended: Vec<&CommitRollout> =
            self.rollouts.iter().filter(|rollout| rollout.ended_at.is_some()).collect();
        ended.sort_by_key(|rollout| std::cmp::Reverse(rollout.ended_at));
        let open = self.rollouts.iter().filter(|rollout| rollout.ended_at.is_none());
        let shown = open.chain(ended.into_iter().take(ENDED_MAX));
        shown
            .flat_map(|rollout| rollout.thread.iter().map(|thread| thread.number).chain(rollout.also.iter().copied()))
            .collect()
    }
}
