//! Reads pull requests, and has their plans made.

use std::collections::BTreeSet;

use jiff::Timestamp;
use tokio::sync::oneshot;

use super::bot::Bot;
use super::messages::not_planned;
use super::outbox::{Slot, SlotContent};
use super::source_request::SourceRequest;
use model::forge::{PullRequest, ThreadNumber};

/// Requests the list of open pull requests.
pub(super) async fn list_pulls(bot: &mut Bot) {
    let now = bot.now();
    let forge = bot.forge();
    let Some(branch) = followed(bot).await else { return };
    let Some(mut open) = bot.ask_for(forge.open_pulls(&branch)).await else { return };
    open.sort_by_key(|pull| std::cmp::Reverse(pull.number));
    for pull in &open {
        if has_plan(bot, pull) {
            bot.pulls.see(pull, now);
        }
    }
    let listed: BTreeSet<ThreadNumber> = open.iter().map(|pull| pull.number).collect();
    bot.pulls.compare(&listed, bot.rollouts.tree.as_ref(), now);
}

/// Tells whether a pull request gets a plan.
fn has_plan(bot: &Bot, pull: &PullRequest) -> bool {
    pull.is_open && (bot.settings.plans.forks || !pull.is_fork) && bot.polling.branch.as_ref() == Some(&pull.base)
}

/// Returns the followed branch, if git knows it by now.
async fn followed(bot: &mut Bot) -> Option<String> {
    if bot.polling.branch.is_none() {
        let (reply, answer) = oneshot::channel();
        drop(bot.handles.requests.send(SourceRequest::Branch { source: bot.settings.name.clone(), reply }));
        bot.polling.branch = bot.ask(answer).await.ok().flatten();
    }
    bot.polling.branch.clone()
}

/// Starts a plan that is due. Returns whether there was one.
pub(super) async fn plan_next(bot: &mut Bot, now: Timestamp) -> bool {
    if bot.rollouts.tree.is_none() {
        return false;
    }
    let Some(number) = bot.pulls.next_due(now) else { return false };
    // The merge of this pull request may have moved the branch: its comment keeps the plan that was merged.
    if bot.pulls.is_of_earlier_base(number, bot.rollouts.tree.as_ref()) {
        read_pull(bot, number, now).await;
        if bot.pulls.put_off_unread(number, now) {
            return true;
        }
    }
    bot.pulls.make(number, &bot.settings, &bot.handles);
    true
}

/// Reads a pull request that moved, or is gone from the list.
pub(super) async fn read_pull(bot: &mut Bot, number: ThreadNumber, now: Timestamp) {
    // Its base is not known to be the followed branch yet; the next poll lists it again.
    if followed(bot).await.is_none() {
        return;
    }
    let forge = bot.forge();
    let answer = bot.ask(forge.pull(number)).await;
    if answer.is_err() {
        // A pause starts below, and after it this one is requested again.
        bot.pulls.look_at(number);
    }
    let Some(pull) = bot.take_answer(answer) else { return };
    if let Some(merge) = pull.as_ref().and_then(|pull| pull.merged.as_ref()) {
        bot.pulls.note_merge(&merge.commit, number);
        bot.publish_pulls();
        // Its rollout may search for this conversation already.
        if let Some(at) = bot.rollouts.to_find.get_mut(&merge.commit) {
            *at = now;
        }
    }
    match pull {
        Some(pull) if has_plan(bot, &pull) => bot.pulls.see(&pull, now),
        pull => drop_pull(bot, number, pull.as_ref(), now),
    }
}

/// Drops a pull request that gets no plan any more.
fn drop_pull(bot: &mut Bot, number: ThreadNumber, pull: Option<&PullRequest>, now: Timestamp) {
    if !bot.pulls.forget(number) {
        return;
    }
    drop(bot.handles.requests.send(SourceRequest::Forget { source: bot.settings.name.clone(), number }));
    let Some(pull) = pull.filter(|pull| pull.is_open) else { return };
    let slot = Slot::Comment { id: bot.settings.plan_slot(number) };
    if bot.outbox.entry(&slot).is_some() {
        bot.outbox.set(slot, SlotContent::comment(number, not_planned(&pull.base)), now);
    }
}
