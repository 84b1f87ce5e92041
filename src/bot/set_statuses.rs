//! Decides which commit statuses a rollout has, how soon they are written, and where they link to.

use jiff::{SignedDuration, Timestamp};

use super::Console;
use super::commit_rollout::{CommitRollout, Trouble};
use super::messages::{EDIT_PAUSE, is_moving};
use super::outbox::{Slot, SlotContent};
use config::Statuses;
use model::forge::{CommitStatus, StatusState, ThreadNumber};
use model::id::CommitId;
use model::progress::{Progress, StageProgress};
use views::comments::statuses::{context, refused_status, rollout_status, statuses};
use views::comments::totals::urgency;

/// How long a placement or a stage must move before it gets a status of its own, unless it waits for a person. Meanwhile the
/// rollout's status and the comment show it.
const OWN_PAUSE: SignedDuration = SignedDuration::from_mins(1);
/// The least time between two texts of a status that differ in counts only.
const COUNTS_PAUSE: SignedDuration = SignedDuration::from_mins(2);
/// Placements of one commit that have a status of their own.
pub(super) const OWN_MAX: usize = 12;

/// Where statuses link to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// The address of the repository on the git host, as people open it; without a slash at its end.
    pub repository: String,
    /// The public address of the daemon's own page, without a slash at its end; absent without one.
    pub page: Option<String>,
}

impl Links {
    /// Returns the address of a conversation. Both hosts forward from an issue's address to that of a pull request.
    pub fn thread(&self, number: ThreadNumber) -> String {
        format!("{}/issues/{number}", self.repository)
    }

    /// Returns the best address there is about a rollout: the daemon's page, else its comment, its conversation, its commit.
    pub fn rollout(&self, rollout: &CommitRollout) -> String {
        if let Some(page) = &self.page {
            return format!("{page}/commits/{}", rollout.tree.as_ref().unwrap_or(&rollout.commit));
        }
        let thread = || rollout.thread.map(|thread| self.thread(thread.number));
        let commit = || format!("{}/commit/{}", self.repository, rollout.commit);
        rollout.url.clone().or_else(thread).unwrap_or_else(commit)
    }
}

impl Console {
    /// Puts every status of a rollout into the outbox; unchanged ones are not written again.
    pub(super) fn set_statuses(&mut self, rollout: &CommitRollout, now: Timestamp) {
        let chars = self.handles.forge.limits().description_chars;
        let url = self.settings.links.rollout(rollout);
        if let Some(Trouble::Refused { errors, .. }) = &rollout.trouble {
            self.set_status(&rollout.commit, refused_status(errors, chars, Some(&url)), now);
        }
        let mut placements: Vec<&Progress> = rollout.placements.values().collect();
        if placements.is_empty() {
            return;
        }
        let status = rollout_status(&placements, chars, Some(&url));
        let pause = match is_moving(rollout) {
            false => SignedDuration::ZERO,
            true if rollout.has_unshown() => EDIT_PAUSE,
            true => COUNTS_PAUSE,
        };
        let due = self.written(&rollout.commit, &status).map_or(now, |at| (at + pause).max(now));
        self.set_status(&rollout.commit, status, due);
        placements.sort_by_key(|progress| urgency(&progress.state));
        let has_own = |progress: &&&Progress| {
            let context = context(&progress.placement);
            self.outbox.entry(&Slot::Status { commit: rollout.commit.clone(), context }).is_some()
        };
        let mut room = OWN_MAX.saturating_sub(placements.iter().filter(has_own).count());
        for progress in placements {
            for (position, status) in statuses(progress, chars, Some(&url)).into_iter().enumerate() {
                let level = if position == 0 { Statuses::Placements } else { Statuses::Stages };
                self.set_own(rollout, progress, level, status, &mut room, now);
            }
        }
    }

    /// Puts the status of a placement or of one of its stages into the outbox: if it has one already, or as configured. A placement
    /// begins to have one only while it is not done.
    fn set_own(
        &mut self,
        rollout: &CommitRollout,
        progress: &Progress,
        level: Statuses,
        status: CommitStatus,
        room: &mut usize,
        now: Timestamp,
    ) {
        let is_stage = level == Statuses::Stages;
        let slot = Slot::Status { commit: rollout.commit.clone(), context: status.context.clone() };
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
        if !is_there && self.settings.links.page.is_none() && rollout.url.is_none() {
            return;
        }
        if !is_stage && entry.is_none() {
            *room -= 1;
        }
        let is_it = |stage: &&StageProgress| status.context.ends_with(&format!("/{}", stage.name));
        let waits = if is_stage {
            progress.stages.iter().filter(is_it).any(|stage| stage.state.needs_person())
        } else {
            progress.state.needs_person()
        };
        let due = match self.written(&rollout.commit, &status) {
            _ if waits || status.state != StatusState::Pending => now,
            Some(at) => (at + COUNTS_PAUSE).max(now),
            None if is_stage => now + OWN_PAUSE,
            None => (rollout.began_at + OWN_PAUSE).max(now),
        };
        self.set_status(&rollout.commit, status, due);
    }

    fn set_status(&mut self, commit: &CommitId, status: CommitStatus, due: Timestamp) {
        let slot = Slot::Status { commit: commit.clone(), context: status.context.clone() };
        self.outbox.set(slot, SlotContent::Status(status), due);
    }

    /// Returns when a status was last written.
    fn written(&self, commit: &CommitId, status: &CommitStatus) -> Option<Timestamp> {
        let slot = Slot::Status { commit: commit.clone(), context: status.context.clone() };
        self.outbox.entry(&slot).and_then(|entry| entry.written_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit_rollout::Thread;

    #[test]
    fn the_best_address_there_is() {
        let now = Timestamp::UNIX_EPOCH;
        let mut rollout = CommitRollout::begin("abc1234".into(), None, now);
        let mut links = Links { repository: "https://forge.example/o/r".to_owned(), page: None };
        assert_eq!(links.rollout(&rollout), "https://forge.example/o/r/commit/abc1234");
        rollout.thread = Some(Thread { number: 7, is_issue: false });
        assert_eq!(links.rollout(&rollout), "https://forge.example/o/r/issues/7");
        rollout.url = Some("https://forge.example/o/r/pulls/7#issuecomment-3".to_owned());
        assert_eq!(links.rollout(&rollout), "https://forge.example/o/r/pulls/7#issuecomment-3");
        links.page = Some("https://fleet.example".to_owned());
        assert_eq!(links.rollout(&rollout), "https://fleet.example/commits/abc1234");
        rollout.tree = Some("def5678".into());
        assert_eq!(
            links.rollout(&rollout),
            "https://fleet.example/commits/def5678",
            "the page knows the tree's commits"
        );
    }
}
