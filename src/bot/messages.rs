//! Decides what the forge shows of a rollout: which slots, which texts, how soon. The texts themselves are in
//! `views::comments`.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::asked::{EDIT_PAUSE, NeedMark};
use super::comment_policy::Answer;
use super::commit_rollout::{CommitRollout, Trouble};
use super::commit_rollouts::CommitRollouts;
use super::outbox::{Outbox, Slot, SlotContent};
use super::rollouts::Rollouts;
use super::set_statuses::RolloutStatuses;
use super::settings::Settings;
use config::Notify;
use model::id::CommitId;
use model::progress::Progress;
use views::comments::escape::{code, prose};
use views::comments::notice::{Need, needs, notice, to_copy};
use views::comments::reply;
use views::comments::rollout::{RolloutReport, marker, rollout_comment};
use views::comments::style::CommandStyle;

/// How long a rollout has no comment unless a person has to act or it ended: so the first request to act is in it, and sends no
/// second mail.
const BEGIN_PAUSE: SignedDuration = SignedDuration::from_mins(1);
/// How long a written slot is remembered if nothing else needs it.
const SAID_KEPT: SignedDuration = SignedDuration::from_hours(24 * 30);

/// Writes what the forge shows of rollouts into the outbox.
pub(super) struct RolloutMessages<'a> {
    pub settings: &'a Settings,
    pub rollouts: &'a Rollouts,
    pub outbox: &'a mut Outbox,
    /// The followed branch, once it is known.
    pub branch: Option<&'a str>,
    /// Characters of a status's description.
    pub description_chars: usize,
}

impl RolloutMessages<'_> {
    /// Puts every status and comment of a rollout into the outbox; unchanged ones are not written again.
    pub(super) fn show_rollout(&mut self, rollout: &CommitRollout, now: Timestamp) {
        let settings = self.settings;
        RolloutStatuses { rollout, settings, chars: self.description_chars, outbox: self.outbox, now }.set();
        let Some(thread) = rollout.thread else { return };
        let slot = Slot::Comment { id: settings.rollout_slot(&rollout.commit) };
        if rollout.has_unshown() {
            // Another gate may have the same text, and its approval counts from when it is shown.
            self.outbox.doubt(&slot);
        }
        let is_over = rollout.ended_at.is_some() || rollout.trouble.is_some();
        let is_needed = rollout.placements.values().any(|progress| progress.state.needs_person());
        let due = match self.written(&slot) {
            _ if is_over || (is_needed && !rollout.is_moving()) => now,
            Some(at) => at + EDIT_PAUSE,
            None if is_needed || rollout.help => now + EDIT_PAUSE,
            None => (rollout.began_at + BEGIN_PAUSE).max(now),
        };
        let of = rollout.trouble.is_none().then_some(now);
        let content = SlotContent::Comment { thread: thread.number, body: self.body(rollout), of };
        self.outbox.set(slot, content, due);
        for number in &rollout.also {
            let id = settings.mark(&["pointer", rollout.commit.as_str(), &number.to_string()]);
            let body = reply::pointer(thread.number);
            self.outbox.set(Slot::Comment { id }, SlotContent::comment(*number, body), now);
        }
    }

    fn body(&self, rollout: &CommitRollout) -> String {
        match &rollout.trouble {
            Some(Trouble::Refused { errors, .. }) => return reply::refused_commit(&rollout.commit, errors),
            Some(Trouble::Rewritten) if rollout.ended_at.is_none() => {
                let branch = self.branch.unwrap_or("the branch");
                let accepted = self.rollouts.accepted.as_ref().or(rollout.from.as_ref()).unwrap_or(&rollout.commit);
                return reply::held_rewrite(branch, accepted, &rollout.commit, &self.settings.voice);
            }
            _ => {}
        }
        let subject = if rollout.subject.is_empty() { None } else { Some(rollout.subject.clone()) };
        rollout_comment(&RolloutReport {
            commit: Some(rollout.commit.clone()),
            subject,
            placements: rollout.placements.values().cloned().collect(),
            asks: self.asked_by_rollout(rollout),
            help: rollout.help,
            voice: self.rollouts.voice(rollout, self.settings),
        })
    }

    /// Returns how many needs the rollout's own comment was written for; none if it also shows gates that another comment asks for.
    fn asked_by_rollout(&self, rollout: &CommitRollout) -> usize {
        let id = self.settings.rollout_slot(&rollout.commit);
        let Some(own) = rollout.notices.iter().find(|notice| notice.id == id) else { return 0 };
        let has_all = rollout
            .gates()
            .all(|(key, _, gate)| own.needs.contains(&self.settings.gate_mark(&rollout.commit, key, gate)));
        if has_all { own.needs.len() } else { 0 }
    }

    /// Puts a comment that asks people to act into the outbox, with those of its needs that there are now.
    pub(super) fn show_notice(&mut self, rollout: &CommitRollout, id: String, now: Timestamp) {
        let Some(thread) = rollout.thread else { return };
        let Some(own) = rollout.notices.iter().find(|notice| notice.id == id) else { return };
        let mut asked = Vec::new();
        for (need, progress, what) in needs_of(rollout, self.settings) {
            if own.needs.contains(&need.mark) {
                asked.push((progress, what));
            }
        }
        let many = rollout.placements.len() > 1;
        let voice = self.rollouts.voice(rollout, self.settings);
        let body = notice(&rollout.commit, &asked, own.needs.len(), many, &voice);
        let slot = Slot::Comment { id };
        let due = match self.written(&slot) {
            Some(at) => at + EDIT_PAUSE,
            // Others may be about to wait as well.
            None if rollout.is_moving() => now + EDIT_PAUSE,
            None => now,
        };
        self.outbox.set(slot, SlotContent::comment(thread.number, body), due);
    }

    /// Returns when a comment was last written.
    fn written(&self, slot: &Slot) -> Option<Timestamp> {
        self.outbox.entry(slot).and_then(|entry| entry.written_at)
    }
}

/// Puts what people must do into comments that ask for it. Call it before the rollout is stored: it remembers what is asked where. Returns
/// the rollout and the markers of the comments to write, beside its own.
pub(super) fn assign_needs(
    rollouts: &mut CommitRollouts,
    commit: &CommitId,
    settings: &Settings,
    outbox: &Outbox,
    now: Timestamp,
) -> Option<(CommitRollout, BTreeSet<String>)> {
    let rollout = rollouts.get(commit)?;
    rollout.thread?;
    let waiting: Vec<NeedMark> = needs_of(rollout, settings).into_iter().map(|(mark, ..)| mark).collect();
    if waiting.iter().all(|need| rollout.notices.iter().any(|notice| notice.needs.contains(&need.mark))) {
        return None;
    }
    let own = settings.rollout_slot(commit);
    let entry = outbox.entry(&Slot::Comment { id: own.clone() });
    let is_told = entry.is_some_and(|entry| entry.written_at.is_some() || entry.unsure);
    let first = if is_told { None } else { Some(own.as_str()) };
    let rollout = rollouts.get_mut(commit)?;
    let mut changed = rollout.assign(&waiting, first, now);
    changed.remove(&own);
    Some((rollout.clone(), changed))
}

/// Returns what people must do for a rollout and are to be told, with its marks.
fn needs_of<'a>(rollout: &'a CommitRollout, settings: &Settings) -> Vec<(NeedMark, &'a Progress, Need<'a>)> {
    let mut all = Vec::new();
    for progress in rollout.placements.values() {
        let needs = needs(progress);
        let waits = needs.iter().any(|need| matches!(need, Need::Gate { .. }));
        for need in needs {
            let (mark, stage) = match need {
                Need::Gate { gate, .. } if settings.notify.contains(&Notify::Approval) => {
                    (settings.gate_mark(&rollout.commit, &progress.placement, gate), gate.stage.clone())
                }
                // A person who is asked for an approval sees the failure, too.
                Need::Failure { .. } if settings.notify.contains(&Notify::Failure) && !waits => {
                    let what = format!("failed {}", progress.run.as_deref().unwrap_or_default());
                    let key = progress.placement.to_string();
                    (settings.mark(&["notice", rollout.commit.as_str(), &key, &what]), String::new())
                }
                _ => continue,
            };
            all.push((NeedMark { mark, stage }, progress, need));
        }
    }
    all
}

/// Returns old slots that will not be written again: answers, reactions, notices. Slots of rollouts and plans stay as long as
/// those do, and statuses as long as their rollout ([`slots_of_rollout`]).
pub(super) fn unused_slots(outbox: &Outbox, kept: &BTreeSet<Slot>, now: Timestamp) -> Vec<Slot> {
    outbox.slots(|slot| {
        let entry = outbox.entry(slot).filter(|entry| entry.wanted.is_none());
        let written = entry.and_then(|entry| entry.written_at);
        let is_old = written.is_some_and(|at| now.duration_since(at) > SAID_KEPT);
        is_old && !matches!(slot, Slot::Status { .. }) && !kept.contains(slot)
    })
}

/// Returns the slots that are of one rollout only.
pub(super) fn slots_of_rollout(outbox: &Outbox, commit: &CommitId, settings: &Settings) -> Vec<Slot> {
    let mut slots = outbox.slots(|slot| matches!(slot, Slot::Status { commit: of, .. } if of == commit));
    slots.push(Slot::Comment { id: settings.rollout_slot(commit) });
    slots
}

/// Returns title and text of the issue for a commit that no pull request brought.
pub(super) fn issue(
    commit: &CommitId,
    subject: &str,
    branch: &str,
    id: &str,
    voice: &CommandStyle,
) -> (String, String) {
    let subject = if subject.is_empty() { None } else { Some(subject) };
    let body = format!("{}{}", marker(id, 0), reply::issue_body(commit, branch, voice));
    (reply::issue_title(commit, subject), body)
}

/// Returns the answer to a command that is not executed.
pub(super) fn reply(login: &str, answer: &Answer) -> String {
    let lines: Vec<&str> = answer.lines.iter().map(String::as_str).collect();
    let lines = if lines.is_empty() { String::new() } else { format!("\n{}", to_copy(&lines)) };
    if answer.is_safe {
        return reply::mistaken(login, &answer.why) + &lines;
    }
    format!("❌ {}: not done: {}\n{lines}", code(login), prose(&answer.why))
}

/// Returns the text that replaces a plan when the pull request gets another base branch.
pub(super) fn not_planned(base: &str) -> String {
    format!("This pull request goes into {} now, which is not rolled out: there is no plan for it.\n", code(base))
}
