//! Reads comments from the git host, in the order in which they are handled.

use super::bot::Bot;
use super::comment::handle;
use model::forge::ThreadNumber;

/// Reads one comment that a webhook named.
pub(super) async fn read_comment(bot: &mut Bot, thread: ThreadNumber, id: u64) {
    if bot.comments.is_done(id) {
        bot.comments.drop_awaited(id);
        return;
    }
    let forge = bot.forge();
    match bot.ask(forge.comment(id)).await {
        Ok(comment) => {
            bot.polling.succeeded();
            // A deleted comment does not count. The host says which conversation it belongs to, not the webhook: somebody
            // with the webhook's secret must not move a command from one conversation to another.
            match comment.filter(|comment| comment.thread == thread) {
                Some(comment) => handle(bot, thread, &comment).await,
                None => bot.comments.drop_awaited(id),
            }
        }
        Err(error) => {
            bot.comments.drop_awaited(id);
            bot.note_failed_read(&error);
            // The others get their turn: one unreadable comment does not block them.
            bot.comments.to_list.insert(thread);
        }
    }
}

/// Reads the new comments of a conversation.
pub(super) async fn list_comments(bot: &mut Bot, thread: ThreadNumber) {
    let since = bot.rollouts.all.rollout_in(thread).and_then(|rollout| rollout.read_until.get(&thread).copied());
    let forge = bot.forge();
    let Some(mut comments) = bot.ask_for(forge.comments(thread, since)).await else { return };
    // Before any is skipped: handled comments need not be listed again either.
    let newest = comments.iter().map(|comment| comment.updated_at).max();
    // Commands are executed in the order in which they were written, whatever order a host lists them in.
    comments.sort_by_key(|comment| comment.id);
    comments.retain(|comment| !bot.comments.is_done(comment.id));
    for comment in comments {
        handle(bot, thread, &comment).await;
    }
    if bot.comments.awaits_in(thread) {
        // A process that starts now must find them again.
        return;
    }
    let commit = bot.rollouts.all.rollout_in(thread).map(|rollout| rollout.commit.clone());
    if let Some(newest) = newest
        && let Some(commit) = commit
        && since.is_none_or(|at| at < newest)
        && let Some(rollout) = bot.rollouts.all.get_mut(&commit)
    {
        rollout.read_until.insert(thread, newest);
    }
}
