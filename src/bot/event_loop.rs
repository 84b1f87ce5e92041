//! What the bot does next: it takes in what happened, writes, and reads.

use jiff::{SignedDuration, Timestamp};

use super::bot::Bot;
use super::outbox::Next;
use super::polling::FAR;
use super::read_comments::{list_comments, read_comment};
use super::read_pulls::{list_pulls, plan_next, read_pull};
use super::threads::find_thread;
use super::votes::count_votes;

/// Pause before the search for a rollout's conversation is repeated after a failure.
const FIND_AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// Runs a bot until nothing can happen any more.
///
/// # Cancel safety
/// May be dropped at any point: a write is stored before it starts, and the next process asks for its result.
pub(super) async fn run(bot: &mut Bot) {
    loop {
        if turn(bot).await {
            continue;
        }
        let pause = bot.until(next_wake(bot));
        if !bot.happens(pause).await {
            return;
        }
    }
}

/// Takes in what happened, writes what is due, and does the first other thing that is due. Returns whether there was
/// anything.
pub(super) async fn turn(bot: &mut Bot) -> bool {
    bot.take_in();
    let has_begun = bot.keep().await;
    if act(bot).await || has_begun {
        return true;
    }
    if is_done(bot)
        && let Some(finished) = bot.inbox.finishing.take()
    {
        // The receiver may be gone.
        let _ = finished.send(());
    }
    false
}

/// Reads the first thing that is to be read, or starts a plan. Returns whether there was one.
async fn act(bot: &mut Bot) -> bool {
    let now = bot.now();
    // Only reads wait: writes have their own pauses, and a status may be written after a failed read.
    if !bot.polling.may_read(now) {
        return false;
    }
    // Before any comment is read: the account's name tells our comments from others.
    if bot.polling.me.is_none() {
        introduce(bot).await;
    } else if let Some((thread, id)) = bot.comments.next_to_read(now) {
        read_comment(bot, thread, id).await;
    } else if let Some(number) = bot.pulls.next_to_read() {
        // Before the search for conversations: the one of a merge is the pull request that was merged.
        read_pull(bot, number, now).await;
    } else if let Some((commit, at)) = bot.rollouts.to_find.iter_mut().find(|(_, at)| **at <= now) {
        // If the search fails, for example on a host without issues, the others get their turn first.
        *at = now + FIND_AGAIN;
        let commit = commit.clone();
        find_thread(bot, &commit).await;
    } else if bot.polling.look_at <= now {
        look(bot, now).await;
    } else if let Some(thread) = bot.comments.to_list.pop_first() {
        list_comments(bot, thread).await;
    } else if let Some(commit) = bot.rollouts.to_count.pop_first() {
        count_votes(bot, &commit).await;
    } else {
        return plan_next(bot, now).await;
    }
    true
}

/// Asks for our account and the repository's id.
async fn introduce(bot: &mut Bot) {
    let forge = bot.forge();
    let Some(id) = bot.ask_for(forge.repository_id()).await else { return };
    let Some(me) = bot.ask_for(forge.whoami()).await else { return };
    bot.handles.learned.repository.send_replace(Some(id));
    tracing::info!(account = me.login, "reaching the forge");
    bot.polling.me = Some(me);
}

/// Polls for what no webhook reported.
async fn look(bot: &mut Bot, now: Timestamp) {
    bot.polling.schedule(bot.settings.poll_interval, now);
    bot.comments.to_list.extend(bot.rollouts.spoken_in());
    bot.rollouts.count_all();
    list_pulls(bot).await;
}

/// Returns when something is due by itself.
pub(super) fn next_wake(bot: &Bot) -> Timestamp {
    let now = bot.now();
    let due = match bot.outbox.next(now) {
        Next::At(at) => Some(at),
        // A due comment waits until our account is known; the reads below wake up for that. Other writes wait for one that is
        // under way, whose end wakes up.
        Next::Write(_) | Next::Nothing => None,
    };
    // Failed reads are not repeated before their pause is over.
    let read = next_read(bot, now).max(bot.polling.read_after);
    due.into_iter().chain(read).min().unwrap_or(now + FAR)
}

fn next_read(bot: &Bot, now: Timestamp) -> Option<Timestamp> {
    if bot.polling.me.is_none() || bot.comments.has_reading() || !bot.rollouts.to_count.is_empty() {
        return Some(now);
    }
    // Nothing can be planned before the accepted commit is known.
    let pulls = if bot.rollouts.tree.is_some() { bot.pulls.next_wake() } else { None };
    let to_find = bot.rollouts.to_find.values().copied();
    to_find.chain([bot.polling.look_at]).chain(pulls).chain(bot.comments.wakes()).min()
}

/// Tells whether nothing is left to write that can be written now.
fn is_done(bot: &Bot) -> bool {
    bot.outbox.waiting() == 0 && bot.inbox.writes.is_empty() && bot.rollouts.to_find.is_empty() && !bot.pulls.is_busy()
}
