//! Decides what the forge shows of a rollout: which slots, which texts, how soon. The texts themselves are in
//! `views::comments`.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest as _, Sha256};

use super::Console;
use super::asked::NeedMark;
use super::comment_policy::Answer;
use super::commit_rollout::{CommitRollout, Trouble};
use super::outbox::{Slot, SlotContent};
use config::Notify;
use model::forge::ThreadNumber;
use model::id::{CommitId, PlacementKey};
use model::progress::{GateProgress, Progress, ProgressState};
use views::comments::escape::{code, prose};
use views::comments::notice::{Need, needs, notice, to_copy};
use views::comments::reply;
use views::comments::rollout::{RolloutReport, marker, rollout_comment};
use views::comments::style::CommandStyle;

/// How long a rollout has no comment unless somebody has to act or it ended: so the first request to act is in it, and sends no
/// second mail.
const BEGIN_PAUSE: SignedDuration = SignedDuration::from_mins(1);
/// The least time between two edits of a comment, unless somebody has to act or the rollout ended. Needs that arise within it
/// are asked for together.
pub(super) const EDIT_PAUSE: SignedDuration = SignedDuration::from_secs(10);
/// How long a written slot is remembered if nothing else needs it.
const SAID_KEPT: SignedDuration = SignedDuration::from_hours(24 * 30);
/// Characters of a marker's id: 64 bits, so that a million comments do not collide by accident.
const MARK_CHARS: usize = 16;

impl Console {
    /// Returns the id of a comment's marker. It depends only on the comment's purpose, so that a process without records finds
    /// its comments again.
    pub(super) fn mark(&self, parts: &[&str]) -> String {
        let hash = parts.iter().fold(Sha256::new().chain_update(&self.settings.source), |hash, part| {
            // With its length: otherwise different parts could join to the same id.
            hash.chain_update((part.len() as u64).to_be_bytes()).chain_update(part)
        });
        format!("{:x}", hash.finalize())[..MARK_CHARS].to_owned()
    }

    /// Returns the marker of the comment about a commit's rollout.
    pub(super) fn rollout_slot(&self, commit: &CommitId) -> String {
        self.mark(&["rollout", commit.as_str()])
    }

    /// Returns the marker of the comment with a pull request's plan.
    pub(super) fn plan_slot(&self, number: ThreadNumber) -> String {
        self.mark(&["plan", &number.to_string()])
    }

    /// Puts every status and comment of a rollout into the outbox; unchanged ones are not written again.
    pub(super) fn show_rollout(&mut self, rollout: &CommitRollout, now: Timestamp) {
        self.set_statuses(rollout, now);
        let Some(thread) = rollout.thread else { return self.seek_thread(rollout, now) };
        let slot = Slot::Comment { id: self.rollout_slot(&rollout.commit) };
        if rollout.has_unshown() {
            // Another gate may have the same text, and its approval counts from when it is shown.
            self.outbox.doubt(&slot);
        }
        let is_over = rollout.ended_at.is_some() || rollout.trouble.is_some();
        let is_needed = rollout.placements.values().any(|progress| progress.state.needs_person());
        let written = self.outbox.entry(&slot).and_then(|entry| entry.written_at);
        let due = match written {
            _ if is_over || (is_needed && !is_moving(rollout)) => now,
            Some(at) => at + EDIT_PAUSE,
            None if is_needed || rollout.help => now + EDIT_PAUSE,
            None => (rollout.began_at + BEGIN_PAUSE).max(now),
        };
        let (body, of) = (self.body(rollout), rollout.trouble.is_none().then_some(now));
        self.outbox.set(slot, SlotContent::Comment { thread: thread.number, body, of }, due);
        for number in &rollout.also {
            let slot = Slot::Comment { id: self.mark(&["pointer", rollout.commit.as_str(), &number.to_string()]) };
            let body = reply::pointer(thread.number);
            self.outbox.set(slot, SlotContent::comment(*number, body), now);
        }
    }

    fn body(&self, rollout: &CommitRollout) -> String {
        match &rollout.trouble {
            Some(Trouble::Refused { errors, .. }) => return reply::refused_commit(&rollout.commit, errors),
            Some(Trouble::Rewritten) if rollout.ended_at.is_none() => {
                let branch = self.branch.as_deref().unwrap_or("the branch");
                let accepted = self.accepted.as_ref().or(rollout.from.as_ref()).unwrap_or(&rollout.commit);
                return reply::held_rewrite(branch, accepted, &rollout.commit, &self.settings.voice);
            }
            _ => {}
        }
        rollout_comment(&RolloutReport {
            commit: Some(rollout.commit.clone()),
            subject: Some(rollout.subject.clone()).filter(|subject| !subject.is_empty()),
            placements: rollout.placements.values().cloned().collect(),
            asks: self.asked_by_rollout(rollout),
            help: rollout.help,
            voice: self.voice(rollout),
        })
    }

    /// Returns how commands about a rollout are written and counted.
    pub(super) fn voice(&self, rollout: &CommitRollout) -> CommandStyle {
        CommandStyle { made_elsewhere: self.made_elsewhere(rollout), ..self.settings.voice.clone() }
    }

    /// Returns how many needs the rollout's own comment was written for; none if it also shows gates that another comment asks for.
    fn asked_by_rollout(&self, rollout: &CommitRollout) -> usize {
        let id = self.rollout_slot(&rollout.commit);
        let Some(own) = rollout.notices.iter().find(|notice| notice.id == id) else { return 0 };
        let is_own = |(key, _, gate): (&PlacementKey, &Progress, &GateProgress)| {
            own.needs.contains(&self.gate_mark(&rollout.commit, key, gate))
        };
        if rollout.gates().all(is_own) { own.needs.len() } else { 0 }
    }

    /// Puts what people must do into comments that ask for it. Call it before the rollout is stored: it remembers what is asked
    /// where.
    pub(super) fn ask_people(&mut self, commit: &CommitId, now: Timestamp) {
        let Some(rollout) = self.rollouts.get(commit).filter(|rollout| rollout.thread.is_some()) else { return };
        let waiting: Vec<NeedMark> = self.needs(rollout).into_iter().map(|(mark, ..)| mark).collect();
        let is_asked = |need: &NeedMark| rollout.notices.iter().any(|notice| notice.needs.contains(&need.mark));
        if waiting.iter().all(is_asked) {
            return;
        }
        let own = self.rollout_slot(commit);
        let is_told = |entry: &super::outbox::Entry| entry.written_at.is_some() || entry.unsure;
        let is_told = self.outbox.entry(&Slot::Comment { id: own.clone() }).is_some_and(is_told);
        let Some(rollout) = self.rollouts.get_mut(commit) else { return };
        let changed = rollout.assign(&waiting, Some(own.as_str()).filter(|_| !is_told), now);
        let rollout = rollout.clone();
        for id in changed.into_iter().filter(|id| *id != own) {
            self.show_notice(&rollout, id, now);
        }
    }

    /// Returns what people must do for a rollout and are to be told, with its marks.
    fn needs<'a>(&self, rollout: &'a CommitRollout) -> Vec<(NeedMark, &'a Progress, Need<'a>)> {
        let mut all = Vec::new();
        for progress in rollout.placements.values() {
            let needs = needs(progress);
            let waits = needs.iter().any(|need| matches!(need, Need::Gate { .. }));
            for need in needs {
                let (mark, stage) = match need {
                    Need::Gate { gate, .. } if self.settings.notify.contains(&Notify::Approval) => {
                        (self.gate_mark(&rollout.commit, &progress.placement, gate), gate.stage.clone())
                    }
                    // A person who is asked for an approval sees the failure, too.
                    Need::Failure { .. } if self.settings.notify.contains(&Notify::Failure) && !waits => {
                        let what = format!("failed {}", progress.run.as_deref().unwrap_or_default());
                        let key = progress.placement.to_string();
                        (self.mark(&["notice", rollout.commit.as_str(), &key, &what]), String::new())
                    }
                    _ => continue,
                };
                all.push((NeedMark { mark, stage }, progress, need));
            }
        }
        all
    }

    /// Puts a comment that asks people to act into the outbox, with those of its needs that there are now.
    fn show_notice(&mut self, rollout: &CommitRollout, id: String, now: Timestamp) {
        let (Some(thread), Some(own)) = (rollout.thread, rollout.notices.iter().find(|notice| notice.id == id)) else {
            return;
        };
        let needs = self.needs(rollout).into_iter().filter(|(need, ..)| own.needs.contains(&need.mark));
        let needs: Vec<(&Progress, Need<'_>)> = needs.map(|(_, progress, need)| (progress, need)).collect();
        let many = rollout.placements.len() > 1;
        let body = notice(&rollout.commit, &needs, own.needs.len(), many, &self.voice(rollout));
        let slot = Slot::Comment { id };
        let due = match self.outbox.entry(&slot).and_then(|entry| entry.written_at) {
            Some(at) => at + EDIT_PAUSE,
            // Others may be about to wait as well.
            None if is_moving(rollout) => now + EDIT_PAUSE,
            None => now,
        };
        self.outbox.set(slot, SlotContent::comment(thread.number, body), due);
    }

    /// Returns the mark of a gate: a new one each time the gate waits again.
    pub(super) fn gate_mark(&self, commit: &CommitId, placement: &PlacementKey, gate: &GateProgress) -> String {
        let (key, since) = (placement.to_string(), gate.since.as_nanosecond().to_string());
        self.mark(&["gate", commit.as_str(), &key, &gate.stage, gate.digest.as_str(), &since])
    }

    /// Drops old slots that will not be written again: answers, reactions, notices. Slots of rollouts and plans stay as long as
    /// those do.
    pub(super) fn tidy(&mut self, now: Timestamp) {
        let rollouts = self.rollouts.iter().map(|rollout| self.rollout_slot(&rollout.commit));
        let plans = self.pulls.numbers().map(|number| self.plan_slot(number));
        let kept: BTreeSet<Slot> = rollouts.chain(plans).map(|id| Slot::Comment { id }).collect();
        let is_old = |slot: &Slot| {
            let entry = self.outbox.entry(slot).filter(|entry| entry.wanted.is_none());
            entry.and_then(|entry| entry.written_at).is_some_and(|at| now.duration_since(at) > SAID_KEPT)
        };
        // Statuses are dropped with their rollout (`forget_rollout`).
        let old =
            self.outbox.slots(|slot| !matches!(slot, Slot::Status { .. }) && !kept.contains(slot) && is_old(slot));
        for slot in &old {
            self.outbox.release(slot);
        }
    }

    /// Drops the slots of a rollout. Its texts stay on the forge.
    pub(super) fn forget_rollout(&mut self, commit: &CommitId) {
        let of_commit = |slot: &Slot| matches!(slot, Slot::Status { commit: of, .. } if of == commit);
        for slot in self.outbox.slots(of_commit) {
            self.outbox.release(&slot);
        }
        let slot = Slot::Comment { id: self.rollout_slot(commit) };
        self.outbox.release(&slot);
    }
}

/// Tells whether clusters of a rollout move, or are about to.
pub(super) fn is_moving(rollout: &CommitRollout) -> bool {
    let moves = |progress: &Progress| matches!(progress.state, ProgressState::Moving | ProgressState::Queued);
    rollout.placements.values().any(moves)
}

/// Returns title and text of the issue for a commit that no pull request brought.
pub(super) fn issue(
    commit: &CommitId,
    subject: &str,
    branch: &str,
    id: &str,
    voice: &CommandStyle,
) -> (String, String) {
    let subject = Some(subject).filter(|subject| !subject.is_empty());
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
