//! Decides what the forge shows of a rollout: which slots, which texts, how soon. The texts themselves are in
//! `views::comments`.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest as _, Sha256};

use super::Console;
use super::comment_policy::Answer;
use super::commit_rollout::{CommitRollout, Trouble};
use super::outbox::{Slot, SlotContent};
use crate::config::Notify;
use crate::model::forge::{CommitStatus, StatusState, ThreadNumber};
use crate::model::id::{CommitId, PlacementKey};
use crate::model::progress::GateProgress;
use crate::views::comments::escape::{code, prose};
use crate::views::comments::notice::{Need, needs, notice, to_copy};
use crate::views::comments::reply;
use crate::views::comments::rollout::{RolloutReport, marker, rollout_comment};
use crate::views::comments::statuses::{refused_status, statuses};

/// How long a stage must move before it gets a status: a shorter move gets only its final status. Meanwhile the placement's own
/// status and the comment show it. A wait for a person is shown immediately.
const STAGE_PAUSE: SignedDuration = SignedDuration::from_mins(1);
/// The least time between two texts of a status that differ in counts only.
const COUNTS_PAUSE: SignedDuration = SignedDuration::from_mins(2);
/// The least time between two edits of a comment, unless somebody has to act or the rollout ended.
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
        let body = self.body(rollout);
        if rollout.has_unshown() {
            // Another gate may have the same text, and its approval counts from when it is shown.
            self.outbox.doubt(&slot);
        }
        let written = self.outbox.entry(&slot).and_then(|entry| entry.written_at);
        let is_urgent = rollout.ended_at.is_some()
            || rollout.trouble.is_some()
            || rollout.placements.values().any(|progress| progress.state.needs_person());
        let due = written.filter(|_| !is_urgent).map_or(now, |at| at + EDIT_PAUSE);
        self.outbox.set(slot, SlotContent::Comment { thread: thread.number, body }, due);
        for number in &rollout.also {
            let slot = Slot::Comment { id: self.mark(&["pointer", rollout.commit.as_str(), &number.to_string()]) };
            let body = reply::pointer(thread.number);
            self.outbox.set(slot, SlotContent::Comment { thread: *number, body }, now);
        }
        self.show_needs(rollout, thread.number, now);
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
            help: rollout.help,
            voice: self.settings.voice.clone(),
        })
    }

    fn set_statuses(&mut self, rollout: &CommitRollout, now: Timestamp) {
        let chars = self.handles.forge.limits().description_chars;
        let url = rollout.url.as_deref();
        if let Some(Trouble::Refused { errors, .. }) = &rollout.trouble {
            self.set_status(&rollout.commit, refused_status(errors, chars, url), now);
        }
        for progress in rollout.placements.values() {
            let mut all = statuses(progress, chars, url).into_iter();
            // The first is the placement's own: it covers a stage whose own status still waits.
            if let Some(status) = all.next() {
                let due = self.when(&rollout.commit, &status, SignedDuration::ZERO, now);
                self.set_status(&rollout.commit, status, due);
            }
            for status in all {
                let waits = progress
                    .stages
                    .iter()
                    .any(|stage| stage.state.needs_person() && status.context.ends_with(&format!("/{}", stage.name)));
                let pause = if waits { SignedDuration::ZERO } else { STAGE_PAUSE };
                let due = self.when(&rollout.commit, &status, pause, now);
                self.set_status(&rollout.commit, status, due);
            }
        }
    }

    fn set_status(&mut self, commit: &CommitId, status: CommitStatus, due: Timestamp) {
        let slot = Slot::Status { commit: commit.clone(), context: status.context.clone() };
        self.outbox.set(slot, SlotContent::Status(status), due);
    }

    /// Returns when a status is due: a final one immediately, a first one after a pause, counts now and then.
    fn when(&self, commit: &CommitId, status: &CommitStatus, pause: SignedDuration, now: Timestamp) -> Timestamp {
        if status.state != StatusState::Pending {
            return now;
        }
        let slot = Slot::Status { commit: commit.clone(), context: status.context.clone() };
        let entry = self.outbox.entry(&slot);
        match entry.and_then(|entry| entry.written_at) {
            None => now + pause,
            // Still pending, with another text.
            Some(_) if pause.is_zero() && status.description.contains("waiting") => now,
            Some(at) => (at + COUNTS_PAUSE).max(now),
        }
    }

    /// Notifies people that they have to act, in a separate comment for each need: an edit sends no mail.
    fn show_needs(&mut self, rollout: &CommitRollout, thread: ThreadNumber, now: Timestamp) {
        let many = rollout.placements.len() > 1;
        for progress in rollout.placements.values() {
            let waits = needs(progress).iter().any(|need| matches!(need, Need::Gate { .. }));
            for need in needs(progress) {
                let id = match need {
                    // A command to copy would be refused until the rollout's comment shows its digest.
                    Need::Gate { .. } if rollout.has_unshown() => continue,
                    Need::Gate { gate, .. } if self.settings.notify.contains(&Notify::Approval) => {
                        self.gate_slot(&rollout.commit, &progress.placement, gate)
                    }
                    // A person who is asked for an approval sees the failure, too.
                    Need::Failure { .. } if self.settings.notify.contains(&Notify::Failure) && !waits => {
                        let what = format!("failed {}", progress.run.as_deref().unwrap_or_default());
                        self.mark(&["notice", rollout.commit.as_str(), &progress.placement.to_string(), &what])
                    }
                    _ => continue,
                };
                // One comment per need: later changes appear in the rollout's comment.
                let slot = Slot::Comment { id };
                if self.outbox.entry(&slot).is_none() {
                    let body = notice(&rollout.commit, progress, need, many, &self.settings.voice);
                    self.outbox.set(slot, SlotContent::Comment { thread, body }, now);
                }
            }
        }
    }

    /// Returns the marker of the comment that asks for a gate's approval: a new one each time the gate waits again.
    pub(super) fn gate_slot(&self, commit: &CommitId, placement: &PlacementKey, gate: &GateProgress) -> String {
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

/// Returns title and text of the issue for a commit that no pull request brought.
pub(super) fn issue(
    commit: &CommitId,
    subject: &str,
    branch: &str,
    id: &str,
    voice: &crate::views::comments::style::CommandStyle,
) -> (String, String) {
    let subject = Some(subject).filter(|subject| !subject.is_empty());
    let body = format!("{}{}", marker(id, 0), reply::issue_body(commit, branch, voice));
    (reply::issue_title(commit, subject), body)
}

/// Returns the answer to a command that is not executed.
pub(super) fn reply(login: &str, answer: &Answer) -> String {
    if answer.is_safe {
        return reply::mistaken(login, &answer.why);
    }
    let lines: Vec<&str> = answer.lines.iter().map(String::as_str).collect();
    let lines = if lines.is_empty() { String::new() } else { format!("\n{}", to_copy(&lines)) };
    format!("❌ {}: not done: {}\n{lines}", code(login), prose(&answer.why))
}

/// Returns the text that replaces a plan when the pull request gets another base branch.
pub(super) fn not_planned(base: &str) -> String {
    format!("This pull request goes into {} now, which is not rolled out: there is no plan for it.\n", code(base))
}
