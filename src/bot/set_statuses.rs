//! Decides which commit statuses a rollout has, and how soon they are written.

use jiff::{SignedDuration, Timestamp};

use super::asked::EDIT_PAUSE;
use super::commit_rollout::{CommitRollout, Trouble};
use super::outbox::{Outbox, Slot, SlotContent};
use super::settings::Settings;
use config::Statuses;
use model::forge::{CommitStatus, StatusState};
use model::progress::Progress;
use views::comments::statuses::{context, refused_status, rollout_status, statuses};
use views::comments::totals::urgency;

/// How long a placement or a stage must move before it gets a status of its own, unless it waits for a person. Meanwhile the
/// rollout's status and the comment show it.
const OWN_PAUSE: SignedDuration = SignedDuration::from_mins(1);
/// The least time between two texts of a status that differ in counts only.
const COUNTS_PAUSE: SignedDuration = SignedDuration::from_mins(2);
/// Placements of one commit that have a status of their own.
pub(super) const OWN_MAX: usize = 12;

/// The statuses of a rollout, to be put into the outbox.
pub(super) struct RolloutStatuses<'a> {
    pub rollout: &'a CommitRollout,
    pub settings: &'a Settings,
    /// Characters of a status's description.
    pub chars: usize,
    pub outbox: &'a mut Outbox,
    pub now: Timestamp,
}

impl RolloutStatuses<'_> {
    /// Puts every status into the outbox; unchanged ones are not written again.
    pub(super) fn set(mut self) {
        let rollout = self.rollout;
        let url = self.settings.links.rollout(rollout);
        if let Some(Trouble::Refused { errors, .. }) = &rollout.trouble {
            self.put(refused_status(errors, self.chars, Some(&url)), self.now);
        }
        let mut placements: Vec<&Progress> = rollout.placements.values().collect();
        if placements.is_empty() {
            return;
        }
        let status = rollout_status(&placements, self.chars, Some(&url));
        let pause = match rollout.is_moving() {
            false => SignedDuration::ZERO,
            true if rollout.has_unshown() => EDIT_PAUSE,
            true => COUNTS_PAUSE,
        };
        let due = self.written(&status).map_or(self.now, |at| (at + pause).max(self.now));
        self.put(status, due);
        placements.sort_by_key(|progress| urgency(&progress.state));
        let own = placements.iter().filter(|progress| self.has_own(progress)).count();
        let mut room = OWN_MAX.saturating_sub(own);
        for progress in placements {
            for (position, status) in statuses(progress, self.chars, Some(&url)).into_iter().enumerate() {
                let level = if position == 0 { Statuses::Placements } else { Statuses::Stages };
                self.set_own(progress, level, status, &mut room);
            }
        }
    }

    /// Puts the status of a placement or of one of its stages into the outbox: if it has one already, or as configured. A placement
    /// begins to have one only while it is not done.
    fn set_own(&mut self, progress: &Progress, level: Statuses, status: CommitStatus, room: &mut usize) {
        let is_stage = level == Statuses::Stages;
        let slot = self.slot(&status.context);
        let entry = self.outbox.entry(&slot);
        let is_there = entry.is_some_and(|entry| entry.written_at.is_some() || entry.unsure);
        let has_room = is_stage || entry.is_some() || *room > 0;
        let begins = level <= self.settings.statuses && has_room && (is_stage || status.state == StatusState::Pending);
        if !is_there && !begins {
            // It was never written: the rollout's status says enough.
            self.outbox.release(&slot);
            return;
        }
        // The first one links to the comment, so it waits for that.
        if !is_there && self.settings.links.page.is_none() && self.rollout.url.is_none() {
            return;
        }
        if !is_stage && entry.is_none() {
            *room -= 1;
        }
        let waits = if is_stage {
            let mut of_status =
                progress.stages.iter().filter(|stage| status.context.ends_with(&format!("/{}", stage.name)));
            of_status.any(|stage| stage.state.needs_person())
        } else {
            progress.state.needs_person()
        };
        let due = match self.written(&status) {
            _ if waits || status.state != StatusState::Pending => self.now,
            Some(at) => (at + COUNTS_PAUSE).max(self.now),
            None if is_stage => self.now + OWN_PAUSE,
            None => (self.rollout.began_at + OWN_PAUSE).max(self.now),
        };
        self.put(status, due);
    }

    /// Tells whether a placement has a status of its own.
    fn has_own(&self, progress: &Progress) -> bool {
        self.outbox.entry(&self.slot(&context(&progress.placement))).is_some()
    }

    fn put(&mut self, status: CommitStatus, due: Timestamp) {
        let slot = self.slot(&status.context);
        self.outbox.set(slot, SlotContent::Status(status), due);
    }

    /// Returns when a status was last written.
    fn written(&self, status: &CommitStatus) -> Option<Timestamp> {
        self.outbox.entry(&self.slot(&status.context)).and_then(|entry| entry.written_at)
    }

    fn slot(&self, context: &str) -> Slot {
        Slot::Status { commit: self.rollout.commit.clone(), context: context.to_owned() }
    }
}
