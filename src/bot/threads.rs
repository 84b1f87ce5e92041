//! Finds the conversation of a rollout: the pull request of its commit, else an issue of its own.

use jiff::SignedDuration;
use tokio::sync::oneshot;

use super::bot::Bot;
use super::commit_rollout::{CommitRollout, Thread};
use super::source_request::SourceRequest;
use model::commit::Commit;
use model::forge::ThreadNumber;
use model::id::CommitId;
use views::comments::rollout::marker_id;

/// Pauses before the next search for a commit's pull request: hosts know it only some time after the branch moved.
const LOOK_AGAIN: [SignedDuration; 3] =
    [SignedDuration::from_secs(2), SignedDuration::from_secs(8), SignedDuration::from_secs(20)];
/// Commits of one rollout whose pull requests are requested.
const COMMITS_ASKED_MAX: usize = 100;

/// Searches for the conversation of a rollout.
pub(super) async fn find_thread(bot: &mut Bot, commit: &CommitId) {
    let now = bot.now();
    let Some(rollout) = bot.rollouts.all.get(commit).filter(|rollout| rollout.thread.is_none()).cloned() else {
        bot.rollouts.to_find.remove(commit);
        return;
    };
    let landed = landed(bot, &rollout).await;
    let Some(pulls) = pulls_of(bot, &landed).await else { return };
    let subject = landed.first().map(|landed| landed.subject.clone()).unwrap_or_default();
    if let Some((newest, others)) = pulls.split_first() {
        let thread = Thread { number: *newest, is_issue: false };
        bot.rollouts.settle_thread(commit, thread, subject, others);
    } else if let Some(pause) = LOOK_AGAIN.get(rollout.lookups as usize) {
        bot.rollouts.to_find.insert(commit.clone(), now + *pause);
        if let Some(rollout) = bot.rollouts.all.get_mut(commit) {
            rollout.lookups += 1;
            rollout.subject = subject;
        }
    } else {
        open_issue(bot, commit, subject).await;
    }
}

/// Returns the pull requests that brought commits, each once; `None` if the host does not answer for one: a partial answer is not enough,
/// because an issue would be opened for a change with a known pull request.
async fn pulls_of(bot: &mut Bot, landed: &[Commit]) -> Option<Vec<ThreadNumber>> {
    let forge = bot.forge();
    let mut pulls = Vec::new();
    for landed in landed.iter().take(COMMITS_ASKED_MAX) {
        let found = match bot.pulls.merged_as(&landed.commit) {
            Some(number) => vec![number],
            None => bot.ask_for(forge.pulls_of_commit(&landed.commit)).await?,
        };
        for number in found {
            if !pulls.contains(&number) {
                pulls.push(number);
            }
        }
    }
    Some(pulls)
}

/// Returns the commits of a rollout, newest first; the commit alone if git cannot list them.
async fn landed(bot: &mut Bot, rollout: &CommitRollout) -> Vec<Commit> {
    let (reply, answer) = oneshot::channel();
    let source = bot.settings.name.clone();
    let request = SourceRequest::Landed { source, from: rollout.from.clone(), to: rollout.commit.clone(), reply };
    let mut landed = Vec::new();
    if bot.handles.requests.send(request).is_ok() {
        match bot.ask(answer).await {
            Ok(Ok(commits)) => landed = commits,
            Ok(Err(reason)) => {
                tracing::warn!(commit = rollout.commit.short(), reason, "what landed with the commit cannot be read");
            }
            // Without its thread the source is not followed any more, which is reported elsewhere.
            Err(_) => {}
        }
    }
    if landed.is_empty() {
        let commit = rollout.commit.clone();
        landed.push(Commit { commit, subject: String::new(), author_email: String::new() });
    }
    landed
}

/// Opens the issue for a commit that no pull request brought, unless an earlier process did.
async fn open_issue(bot: &mut Bot, commit: &CommitId, subject: String) {
    let id = bot.settings.rollout_slot(commit);
    let forge = bot.forge();
    let Some(issues) = bot.ask_for(forge.own_issues()).await else { return };
    let known = issues.iter().find(|(_, body)| marker_id(body) == Some(id.as_str()));
    let number = if let Some((number, _)) = known {
        *number
    } else {
        let branch = bot.polling.branch.as_deref().unwrap_or("the branch");
        let (title, body) = super::messages::issue(commit, &subject, branch, &id, &bot.settings.voice);
        let Some(number) = bot.ask_for(forge.open_issue(&title, &body)).await else { return };
        number
    };
    bot.rollouts.settle_thread(commit, Thread { number, is_issue: true }, subject, &[]);
}
