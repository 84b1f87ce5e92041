//! All rollouts of commits, as the core tells of them: pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::commit_rollout::{CommitRollout, Trouble};
use engine::PlacementUpdate;
use model::forge::ThreadNumber;
use model::id::{CommitId, PlacementKey};
use model::progress::{Progress, ProgressState};
use model::records::SourceRecord;

/// Ended rollouts that are kept: the bot still answers commands in their conversations.
pub(crate) const ENDED_ROLLOUTS_MAX: usize = 50;
/// Errors of a refused commit that a rollout keeps.
const ERRORS_MAX: usize = 20;

/// A placement's progress that is shown at a commit of the source.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnProgress {
    /// The commit of the source.
    pub own: CommitId,
    /// The commit of the tree that brought it.
    pub tree: CommitId,
    /// The progress, with commits of the source in place of those of the tree.
    pub progress: Progress,
}

/// All rollouts.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommitRollouts {
    by_commit: BTreeMap<CommitId, CommitRollout>,
    /// The accepted commit.
    accepted: Option<CommitId>,
    /// The accepted commit before that.
    before: Option<CommitId>,
    changed: BTreeSet<CommitId>,
}

impl CommitRollouts {
    /// Restores the rollouts that an earlier process stored.
    pub(crate) fn restore(rollouts: impl IntoIterator<Item = CommitRollout>) -> Self {
        let by_commit: BTreeMap<CommitId, CommitRollout> =
            rollouts.into_iter().map(|rollout| (rollout.commit.clone(), rollout)).collect();
        // Their texts are compared with what stands, which may be of another version, or of long ago.
        let open = by_commit.values().filter(|rollout| rollout.ended_at.is_none());
        let changed = open.map(|rollout| rollout.commit.clone()).collect();
        Self { by_commit, changed, ..Self::default() }
    }

    /// Returns a rollout.
    pub(crate) fn get(&self, commit: &CommitId) -> Option<&CommitRollout> {
        self.by_commit.get(commit)
    }

    /// Returns a rollout to change; it will be stored again.
    pub(crate) fn get_mut(&mut self, commit: &CommitId) -> Option<&mut CommitRollout> {
        self.changed.insert(commit.clone());
        self.by_commit.get_mut(commit)
    }

    /// Returns all of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &CommitRollout> {
        self.by_commit.values()
    }

    /// Returns the newest rollout of a conversation, or of one that links to it.
    pub(crate) fn rollout_in(&self, thread: ThreadNumber) -> Option<&CommitRollout> {
        let here = self
            .iter()
            .filter(|rollout| rollout.thread.is_some_and(|own| own.number == thread) || rollout.also.contains(&thread));
        here.max_by_key(|rollout| (rollout.ended_at.is_none(), rollout.began_at))
    }

    /// Returns every conversation whose change a rollout contains: its own, and those of unfinished rollouts it superseded.
    pub(crate) fn carried(&self, rollout: &CommitRollout) -> BTreeSet<ThreadNumber> {
        let mut commits = vec![rollout.commit.clone()];
        let mut seen = BTreeSet::new();
        let mut threads = BTreeSet::new();
        while let Some(commit) = commits.pop() {
            // If a rewritten history restores a commit, two rollouts can have superseded each other.
            if !seen.insert(commit.clone()) {
                continue;
            }
            if let Some(rollout) = self.get(&commit) {
                threads.extend(rollout.pulls());
            }
            let by_it = ProgressState::Superseded { by: commit };
            let former = self.iter().filter(|rollout| rollout.placements.values().any(|way| way.state == by_it));
            commits.extend(former.map(|rollout| rollout.commit.clone()));
        }
        threads
    }

    /// Handles a new state of the source.
    pub(crate) fn take_source(&mut self, source: &SourceRecord, now: Timestamp) {
        if source.accepted != self.accepted {
            self.before = std::mem::replace(&mut self.accepted, source.accepted.clone());
        }
        let mut troubles = BTreeMap::new();
        if let Some(commit) = &source.seen
            && !source.refused.is_empty()
        {
            let errors = source.refused.iter().take(ERRORS_MAX).cloned().collect();
            troubles.insert(commit, Trouble::Refused { errors, count: source.refused.len() });
        }
        if let Some(commit) = &source.held_rewrite {
            troubles.insert(commit, Trouble::Rewritten);
        }
        for (commit, trouble) in &troubles {
            let rollout = self.begin((*commit).clone(), now);
            if rollout.trouble.as_ref() != Some(trouble) {
                rollout.trouble = Some(trouble.clone());
                rollout.ended_at = None;
                self.changed.insert((*commit).clone());
            }
        }
        let over: Vec<CommitId> = self
            .iter()
            .filter(|rollout| {
                rollout.trouble.is_some() && rollout.ended_at.is_none() && !troubles.contains_key(&rollout.commit)
            })
            .map(|rollout| rollout.commit.clone())
            .collect();
        for commit in over {
            if let Some(rollout) = self.get_mut(&commit) {
                // A refused commit keeps its errors in the record: it was never accepted.
                if source.accepted.as_ref() == Some(&commit) {
                    rollout.trouble = None;
                }
                rollout.ended_at = Some(now);
            }
        }
    }

    /// Handles a new state of a placement.
    pub(crate) fn take(&mut self, update: &PlacementUpdate, now: Timestamp) {
        let mut current = BTreeSet::new();
        for (position, way) in update.ways.iter().enumerate() {
            // Only the newest progress of the placement can come from another commit.
            let commit = if position == 0 { self.commit_of(update, way) } else { way.commit.clone() };
            let Some(commit) = commit else { continue };
            current.insert(commit.clone());
            self.put(&commit, &update.placement, way, now);
        }
        let newest = update.ways.first().and_then(|way| self.commit_of(update, way));
        let left_behind: Vec<CommitId> = self
            .iter()
            .filter(|rollout| !current.contains(&rollout.commit))
            .filter(|rollout| rollout.placements.get(&update.placement).is_some_and(|way| !way.state.is_final()))
            .map(|rollout| rollout.commit.clone())
            .collect();
        for commit in left_behind {
            let Some(way) = self.get_mut(&commit).and_then(|rollout| rollout.placements.get_mut(&update.placement))
            else {
                continue;
            };
            way.state = match &newest {
                Some(newest) => ProgressState::Superseded { by: newest.clone() },
                // Nothing is left of the placement: the removal is complete.
                None => ProgressState::Done,
            };
            // Nobody can open its gates any more: waiting gates are shown with the newer commit.
            close(way);
            self.settle(&commit, now);
        }
    }

    /// Ends the progress of placements of which nothing is left: a process that ended before it could say so left them open.
    pub(crate) fn end_others(&mut self, known: &BTreeSet<PlacementKey>, now: Timestamp) {
        let commits: Vec<CommitId> = self.by_commit.keys().cloned().collect();
        for commit in commits {
            let Some(rollout) = self.by_commit.get_mut(&commit) else { continue };
            let mut has_ended = false;
            for (key, way) in &mut rollout.placements {
                if !known.contains(key) && !way.state.is_final() {
                    way.state = ProgressState::Done;
                    close(way);
                    has_ended = true;
                }
            }
            if has_ended {
                self.settle(&commit, now);
            }
        }
    }

    /// Returns the commit that the progress belongs to: the one that created the snapshot. If that was rolled out and a later
    /// commit moved the placement without a new snapshot (other clusters, other deletions), it belongs to the later commit.
    fn commit_of(&self, update: &PlacementUpdate, way: &Progress) -> Option<CommitId> {
        let placement = &update.placement;
        let Some(own) = &way.commit else {
            // A rollout that has started continues with its commit.
            let begun = self.begun_with(placement, way).last();
            return begun.or(update.concerned_by.as_ref()).or(self.accepted.as_ref()).cloned();
        };
        let is_done = self.progress_in(own, placement).is_none_or(|known| known.state == ProgressState::Done);
        let moved = match &update.concerned_by {
            Some(commit) => Some(commit),
            // A process that did not see the later commit arrive finds its rollout started.
            None => self.begun_with(placement, way).find(|commit| *commit != own),
        };
        match moved {
            Some(later)
                if later != own
                    && is_done
                    && (!way.state.is_final() || self.progress_in(later, placement).is_some()) =>
            {
                Some(later.clone())
            }
            _ => Some(own.clone()),
        }
    }

    /// Returns the progress of a placement in the rollout of a commit.
    fn progress_in(&self, commit: &CommitId, placement: &PlacementKey) -> Option<&Progress> {
        self.get(commit)?.placements.get(placement)
    }

    /// Returns the commits whose rollouts of a placement have started with the snapshot of this progress.
    fn begun_with(&self, placement: &PlacementKey, way: &Progress) -> impl Iterator<Item = &CommitId> {
        let begun = self.iter().filter(move |rollout| {
            let known = rollout.placements.get(placement);
            known.is_some_and(|known| known.snapshot == way.snapshot && !known.state.is_final())
        });
        begun.map(|rollout| &rollout.commit)
    }

    /// Takes the progress of a placement as that of a commit of one of several sources.
    pub(crate) fn show(&mut self, shown: &OwnProgress, now: Timestamp) {
        self.put(&shown.own, &shown.progress.placement, &shown.progress, now);
        if self.get(&shown.own).is_some_and(|rollout| rollout.tree.as_ref() != Some(&shown.tree))
            && let Some(rollout) = self.get_mut(&shown.own)
        {
            rollout.tree = Some(shown.tree.clone());
        }
    }

    fn put(&mut self, commit: &CommitId, placement: &PlacementKey, way: &Progress, now: Timestamp) {
        let way = &Progress { commit: Some(commit.clone()), ..way.clone() };
        let known = self.get(commit).and_then(|rollout| rollout.placements.get(placement));
        match known {
            // A change that ended before anybody was notified is no rollout.
            None if way.state.is_final() => return,
            Some(known) if known == way => return,
            // The rollout succeeded: a cluster that leaves later is not part of it.
            Some(known) if known.state == ProgressState::Done => return,
            _ => {}
        }
        let rollout = self.begin(commit.clone(), now);
        rollout.placements.insert(placement.clone(), way.clone());
        self.settle(commit, now);
    }

    /// Records the end of a rollout, or that it continues.
    fn settle(&mut self, commit: &CommitId, now: Timestamp) {
        let Some(rollout) = self.get_mut(commit) else { return };
        match (rollout.is_over(), rollout.ended_at) {
            (true, None) => rollout.ended_at = Some(now),
            (false, Some(_)) => rollout.ended_at = None,
            _ => {}
        }
    }

    fn begin(&mut self, commit: CommitId, now: Timestamp) -> &mut CommitRollout {
        let from = if self.accepted.as_ref() == Some(&commit) { self.before.clone() } else { self.accepted.clone() };
        // A commit that arrived while no daemon ran starts where the last rollout ended.
        let from = from.or_else(|| {
            let others = self.iter().filter(|rollout| rollout.commit != commit);
            others.max_by_key(|rollout| rollout.began_at).map(|rollout| rollout.commit.clone())
        });
        let rollout = self.by_commit.entry(commit.clone());
        rollout.or_insert_with(|| {
            self.changed.insert(commit.clone());
            CommitRollout::begin(commit, from, now)
        })
    }

    /// Drops the oldest ended rollouts beyond the limit. Returns their commits.
    pub(crate) fn forget(&mut self, now: Timestamp) -> Vec<CommitId> {
        let mut ended: Vec<(Timestamp, CommitId)> =
            self.iter().filter_map(|rollout| Some((rollout.ended_at?, rollout.commit.clone()))).collect();
        ended.sort();
        let count = ended.len().saturating_sub(ENDED_ROLLOUTS_MAX);
        ended.truncate(count);
        ended.retain(|(at, _)| now.duration_since(*at) > SignedDuration::from_hours(1));
        for (_, commit) in &ended {
            self.by_commit.remove(commit);
            self.changed.insert(commit.clone());
        }
        ended.into_iter().map(|(_, commit)| commit).collect()
    }

    /// Returns the commits of rollouts that changed and were not taken yet.
    pub(crate) fn changed(&self) -> impl Iterator<Item = &CommitId> {
        self.changed.iter()
    }

    /// Returns the rollouts that changed since the last call; `None` for dropped ones.
    pub(crate) fn take_changed(&mut self) -> BTreeMap<CommitId, Option<CommitRollout>> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|commit| (commit.clone(), self.by_commit.get(&commit).cloned())).collect()
    }
}

/// Removes what a person could do for a progress that has ended.
fn close(way: &mut Progress) {
    way.message = String::new();
    way.deletions = None;
    way.stages.iter_mut().for_each(|stage| stage.gate = None);
}

#[cfg(test)]
mod tests;
