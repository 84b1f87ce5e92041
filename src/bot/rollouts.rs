//! The rollouts of commits, their conversations, and what is to be read about them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::commit_rollout::{CommitRollout, Thread};
use super::commit_rollouts::CommitRollouts;
use super::outbox::Slot;
use super::own_commits::OwnCommits;
use super::settings::Settings;
use engine::ForgeUpdate;
use model::forge::{CommitPulls, ThreadNumber};
use model::id::CommitId;
use model::records::SourceRecord;
use views::comments::style::CommandStyle;

/// Ended rollouts in whose conversations comments are read.
const ENDED_READ_MAX: usize = 5;

/// The rollouts that the bot shows.
#[derive(Debug)]
pub(crate) struct Rollouts {
    /// All of them.
    pub all: CommitRollouts,
    /// What the tree's commits mean for the source, where it is one of several.
    pub own: Option<OwnCommits>,
    /// The accepted commit of the source.
    pub accepted: Option<CommitId>,
    /// The accepted commit of the tree, which is that of the source where there is one.
    pub tree: Option<CommitId>,
    /// Rollouts whose thread must be found, and when.
    pub to_find: BTreeMap<CommitId, Timestamp>,
    /// Rollouts whose reactions and reviews must be read.
    pub to_count: BTreeSet<CommitId>,
}

impl Rollouts {
    /// Continues with the rollouts that an earlier process stored.
    pub(crate) fn restore(rollouts: Vec<CommitRollout>, own: Option<OwnCommits>, now: Timestamp) -> Self {
        let all = CommitRollouts::restore(rollouts);
        let open = all.iter().filter(|rollout| rollout.thread.is_none() && rollout.ended_at.is_none());
        let to_find = open.map(|rollout| (rollout.commit.clone(), now)).collect();
        Self { all, own, accepted: None, tree: None, to_find, to_count: BTreeSet::new() }
    }

    /// Takes in what the core says. Returns whether it accepted another commit.
    pub(crate) fn take(&mut self, update: ForgeUpdate, now: Timestamp) -> bool {
        match (update, &mut self.own) {
            (ForgeUpdate::Known(placements), None) => self.all.end_others(&placements, now),
            (ForgeUpdate::Known(placements), Some(own)) => {
                for shown in own.end_others(&placements, now) {
                    self.all.show(&shown, now);
                }
                self.all.end_others(&placements, now);
            }
            (ForgeUpdate::Placement(update), None) => self.all.take(&update, now),
            (ForgeUpdate::Placement(update), Some(own)) => {
                for shown in own.take(&update, now) {
                    self.all.show(&shown, now);
                }
            }
            (ForgeUpdate::Source(source), _) => return self.take_source(*source, now),
        }
        false
    }

    fn take_source(&mut self, source: SourceRecord, now: Timestamp) -> bool {
        let has_moved = source.accepted != self.tree;
        if has_moved {
            self.tree.clone_from(&source.accepted);
        }
        let source = match &mut self.own {
            None => source,
            Some(own) => own.take_source(&source, now),
        };
        self.accepted.clone_from(&source.accepted);
        self.all.take_source(&source, now);
        has_moved
    }

    /// Returns the other sources whose changes are part of what waits, where people may not approve their own change: those who made them could
    /// do so in this repository.
    fn made_elsewhere(&self, rollout: &CommitRollout, settings: &Settings) -> BTreeSet<String> {
        match &self.own {
            Some(own) if !settings.approvals.rules.self_approval => own.others(rollout),
            _ => BTreeSet::new(),
        }
    }

    /// Returns how commands about a rollout are written and counted.
    pub(crate) fn voice(&self, rollout: &CommitRollout, settings: &Settings) -> CommandStyle {
        CommandStyle { made_elsewhere: self.made_elsewhere(rollout, settings), ..settings.voice.clone() }
    }

    /// Returns the rollout that a comment of ours belongs to.
    pub(crate) fn of_slot(&self, slot: &Slot, settings: &Settings) -> Option<&CommitRollout> {
        let Slot::Comment { id } = slot else { return None };
        self.all.iter().find(|rollout| {
            rollout.notices.iter().any(|notice| notice.id == *id) || settings.rollout_slot(&rollout.commit) == *id
        })
    }

    /// Schedules the search for the threads of new rollouts.
    pub(crate) fn seek_thread(&mut self, rollout: &CommitRollout, now: Timestamp) {
        if rollout.thread.is_none() {
            self.to_find.entry(rollout.commit.clone()).or_insert(now);
        }
    }

    /// Records the conversation of a rollout, and the other pull requests in it.
    pub(crate) fn settle_thread(
        &mut self,
        commit: &CommitId,
        thread: Thread,
        subject: String,
        others: &[ThreadNumber],
    ) {
        self.to_find.remove(commit);
        if let Some(rollout) = self.all.get_mut(commit) {
            rollout.thread = Some(thread);
            rollout.also = others.iter().copied().collect();
            rollout.subject = subject;
        }
    }

    /// Returns the conversations to read: of active rollouts, and of the newest ended ones.
    pub(crate) fn spoken_in(&self) -> Vec<ThreadNumber> {
        let (mut ended, open): (Vec<&CommitRollout>, Vec<&CommitRollout>) =
            self.all.iter().partition(|rollout| rollout.ended_at.is_some());
        ended.sort_by_key(|rollout| std::cmp::Reverse(rollout.ended_at));
        ended.truncate(ENDED_READ_MAX);
        open.into_iter()
            .chain(ended)
            .flat_map(|rollout| rollout.thread.iter().map(|thread| thread.number).chain(rollout.also.iter().copied()))
            .collect()
    }

    /// Returns the pull requests that brought commits: those of rollouts, and of merges that the host told.
    pub(crate) fn pulls<'a>(&self, merges: impl Iterator<Item = &'a (CommitId, ThreadNumber)>) -> CommitPulls {
        let mut known = CommitPulls::new();
        for rollout in self.all.iter() {
            let pulls = rollout.pulls();
            if !pulls.is_empty() {
                known.insert(rollout.commit.clone(), pulls);
            }
        }
        for (commit, number) in merges {
            known.entry(commit.clone()).or_default().insert(*number);
        }
        known
    }

    /// Has the reactions and reviews be read that may approve what waits.
    pub(crate) fn count_all(&mut self) {
        let asking = self.all.iter().filter(|rollout| !rollout.asked.is_empty());
        self.to_count.extend(asking.map(|rollout| rollout.commit.clone()));
    }
}
