//! The rollout of a commit as its conversation on the forge shows it: pure.
//!
//! It collects the progress of each placement that the commit changed, knows its conversation, and remembers what was shown
//! there since when: an approval counts for what its author could see.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::asked::{Asked, Notice};
use super::own_commits::OwnProgress;
use engine::PlacementUpdate;
use model::forge::ThreadNumber;
use model::id::{CommitId, Digest, PlacementKey};
use model::manifest::InputError;
use model::progress::{GateProgress, Progress, ProgressState};
use model::records::SourceRecord;

/// Ended rollouts that are kept: the bot still answers commands in their conversations.
pub const ENDED_ROLLOUTS_MAX: usize = 50;
/// Errors of a refused commit that a rollout keeps.
const ERRORS_MAX: usize = 20;

/// The conversation of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Thread {
    /// The conversation.
    pub number: ThreadNumber,
    /// The bot opened it for this rollout: no pull request brought the commit.
    #[serde(default)]
    pub is_issue: bool,
}

/// A problem of the commit itself, beside its effects on placements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum Trouble {
    /// It has errors and is not accepted.
    Refused {
        /// The first errors.
        errors: Vec<InputError>,
        /// The number of all errors.
        count: usize,
    },
    /// It does not descend from the accepted commit and waits for a person.
    Rewritten,
}

/// A gate's digest that people could see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// The placement.
    pub placement: PlacementKey,
    /// The stage, or `deletion`.
    pub stage: String,
    /// The digest that was approved.
    pub digest: Digest,
    /// Since when the gate waits, by our clock: another run, and the other side of the stage, ask for the same digest again.
    #[serde(default)]
    pub since: Option<Timestamp>,
    /// Since when, by the forge's clock.
    pub from: Timestamp,
}

impl Shown {
    /// Tells whether a gate of the same placement asks for this digest now.
    pub fn is_of(&self, gate: &GateProgress) -> bool {
        (&self.stage, &self.digest, self.since) == (&gate.stage, &gate.digest, Some(gate.since))
    }
}

/// A commit and its rollout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitRollout {
    /// The commit.
    pub commit: CommitId,
    /// The accepted commit before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<CommitId>,
    /// The commit of the tree that brought it, where it is of one of several sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<CommitId>,
    /// The first line of its message, written by its author: escape it before printing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subject: String,
    /// The problem of the commit itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Trouble>,
    /// The progress of its placements.
    #[serde(default)]
    pub placements: BTreeMap<PlacementKey, Progress>,
    /// Its conversation, once known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<Thread>,
    /// Other pull requests in the same rollout: each gets one line that links to the thread.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub also: BTreeSet<ThreadNumber>,
    /// The number of failed searches for the thread.
    #[serde(default)]
    pub lookups: u32,
    /// When it began.
    pub began_at: Timestamp,
    /// The digests that were shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<Shown>,
    /// Waiting gates, with the comments that ask for their approval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<Asked>,
    /// Comments that ask people to act, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
    /// Reviews that were handled.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub reviewed: BTreeSet<u64>,
    /// The URL of its comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Somebody asked for the list of commands.
    #[serde(default)]
    pub help: bool,
    /// The time up to which the comments of each conversation were read, by the forge's clock.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub read_until: BTreeMap<ThreadNumber, Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

impl CommitRollout {
    pub(super) fn begin(commit: CommitId, from: Option<CommitId>, now: Timestamp) -> Self {
        Self {
            commit,
            from,
            tree: None,
            subject: String::new(),
            trouble: None,
            placements: BTreeMap::new(),
            thread: None,
            also: BTreeSet::new(),
            lookups: 0,
            began_at: now,
            shown: Vec::new(),
            asked: Vec::new(),
            notices: Vec::new(),
            reviewed: BTreeSet::new(),
            url: None,
            help: false,
            read_until: BTreeMap::new(),
            ended_at: None,
        }
    }

    /// Returns the pull requests that brought its commits, as far as they are known.
    pub fn pulls(&self) -> BTreeSet<ThreadNumber> {
        // The bot opened an issue itself: nobody in it contributed to the commit.
        let own = self.thread.filter(|thread| !thread.is_issue).map(|thread| thread.number);
        own.into_iter().chain(self.also.iter().copied()).collect()
    }

    /// Returns the gates that wait for a person, with their placements.
    pub fn gates(&self) -> impl Iterator<Item = (&PlacementKey, &Progress, &GateProgress)> {
        self.placements.iter().flat_map(|(key, progress)| {
            let stages = progress.stages.iter().filter_map(|stage| stage.gate.as_ref());
            stages.chain(&progress.deletions).map(move |gate| (key, progress, gate))
        })
    }

    /// Tells whether the rollout has ended.
    fn is_over(&self) -> bool {
        self.trouble.is_none() && self.placements.values().all(|progress| progress.state.is_final())
    }

    /// Tells whether a waiting gate was not shown yet.
    pub fn has_unshown(&self) -> bool {
        self.gates().any(|(placement, _, gate)| {
            let is_it = |known: &Shown| known.placement == *placement && known.is_of(gate);
            !self.shown.iter().any(is_it)
        })
    }

    /// Returns the gates that wait for a person, as they are now.
    pub fn waiting_gates(&self) -> Vec<(PlacementKey, GateProgress)> {
        self.gates().map(|(key, _, gate)| (key.clone(), gate.clone())).collect()
    }

    /// Records that the digests of these gates were visible from `from` on, by the forge's clock. They are those that waited when
    /// the text was made: others may wait by now.
    pub fn note_shown(&mut self, gates: &[(PlacementKey, GateProgress)], from: Timestamp) {
        let shown = gates.iter().map(|(placement, gate)| Shown {
            placement: placement.clone(),
            stage: gate.stage.clone(),
            digest: gate.digest.clone(),
            since: Some(gate.since),
            from,
        });
        for shown in shown {
            let is_it = |known: &&Shown| {
                (&known.placement, &known.stage, &known.digest, known.since)
                    == (&shown.placement, &shown.stage, &shown.digest, shown.since)
            };
            if !self.shown.iter().any(|known| is_it(&known)) {
                self.shown.push(shown);
            }
        }
    }
}

/// All rollouts.
#[derive(Clone, Debug, Default)]
pub struct CommitRollouts {
    by_commit: BTreeMap<CommitId, CommitRollout>,
    /// The accepted commit.
    accepted: Option<CommitId>,
    /// The accepted commit before that.
    before: Option<CommitId>,
    changed: BTreeSet<CommitId>,
}

impl CommitRollouts {
    /// Restores the rollouts that an earlier process stored.
    pub fn restore(rollouts: impl IntoIterator<Item = CommitRollout>) -> Self {
        let by_commit: BTreeMap<CommitId, CommitRollout> =
            rollouts.into_iter().map(|rollout| (rollout.commit.clone(), rollout)).collect();
        // Their texts are compared with what stands, which may be of another version, or of long ago.
        let open = by_commit.values().filter(|rollout| rollout.ended_at.is_none());
        let changed = open.map(|rollout| rollout.commit.clone()).collect();
        Self { by_commit, changed, ..Self::default() }
    }

    /// Returns a rollout.
    pub fn get(&self, commit: &CommitId) -> Option<&CommitRollout> {
        self.by_commit.get(commit)
    }

    /// Returns a rollout to change; it will be stored again.
    pub fn get_mut(&mut self, commit: &CommitId) -> Option<&mut CommitRollout> {
        self.changed.insert(commit.clone());
        self.by_commit.get_mut(commit)
    }

    /// Returns all of them.
    pub fn iter(&self) -> impl Iterator<Item = &CommitRollout> {
        self.by_commit.values()
    }

    /// Returns the newest rollout of a conversation, or of one that links to it.
    pub fn rollout_in(&self, thread: ThreadNumber) -> Option<&CommitRollout> {
        let is_here = |rollout: &&CommitRollout| {
            rollout.thread.is_some_and(|t| t.number == thread) || rollout.also.contains(&thread)
        };
        self.iter().filter(is_here).max_by_key(|rollout| (rollout.ended_at.is_none(), rollout.began_at))
    }

    /// Returns every conversation whose change a rollout contains: its own, and those of unfinished rollouts it superseded.
    pub fn carried(&self, rollout: &CommitRollout) -> BTreeSet<ThreadNumber> {
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
    pub fn take_source(&mut self, source: &SourceRecord, now: Timestamp) {
        if source.accepted != self.accepted {
            self.before = std::mem::replace(&mut self.accepted, source.accepted.clone());
        }
        let refused = source.seen.as_ref().filter(|_| !source.refused.is_empty()).map(|commit| {
            let errors = source.refused.iter().take(ERRORS_MAX).cloned().collect();
            (commit, Trouble::Refused { errors, count: source.refused.len() })
        });
        let rewritten = source.held_rewrite.as_ref().map(|commit| (commit, Trouble::Rewritten));
        let troubles: BTreeMap<&CommitId, Trouble> = refused.into_iter().chain(rewritten).collect();
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
    pub fn take(&mut self, update: &PlacementUpdate, now: Timestamp) {
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
    pub fn end_others(&mut self, known: &BTreeSet<PlacementKey>, now: Timestamp) {
        let is_gone = |(key, way): (&PlacementKey, &Progress)| !known.contains(key) && !way.state.is_final();
        let open = self.iter().filter(|rollout| rollout.placements.iter().any(is_gone));
        for commit in open.map(|rollout| rollout.commit.clone()).collect::<Vec<_>>() {
            let Some(rollout) = self.get_mut(&commit) else { continue };
            for (_, way) in rollout.placements.iter_mut().filter(|(key, way)| is_gone((*key, &**way))) {
                way.state = ProgressState::Done;
                close(way);
            }
            self.settle(&commit, now);
        }
    }

    /// Returns the commit that the progress belongs to: the one that created the snapshot. If that was rolled out and a later
    /// commit moved the placement without a new snapshot (other clusters, other deletions), it belongs to the later commit.
    fn commit_of(&self, update: &PlacementUpdate, way: &Progress) -> Option<CommitId> {
        let known_in =
            |commit: &CommitId| self.get(commit).and_then(|rollout| rollout.placements.get(&update.placement));
        let moved = update.concerned_by.as_ref().or(self.accepted.as_ref().filter(|_| way.commit.is_none()));
        let is_begun = |rollout: &&CommitRollout| {
            let known = rollout.placements.get(&update.placement);
            known.is_some_and(|known| known.snapshot == way.snapshot && !known.state.is_final())
        };
        let Some(own) = &way.commit else {
            // A rollout that has started continues with its commit.
            let open = self.iter().filter(is_begun);
            return open.map(|rollout| rollout.commit.clone()).last().or_else(|| moved.cloned());
        };
        // A process that did not see the later commit arrive finds its rollout started.
        let begun = || self.iter().filter(is_begun).map(|rollout| &rollout.commit).find(|commit| *commit != own);
        let moved = moved.or_else(begun);
        let is_done = known_in(own).is_none_or(|known| known.state == ProgressState::Done);
        match moved {
            Some(later) if later != own && is_done && (!way.state.is_final() || known_in(later).is_some()) => {
                Some(later.clone())
            }
            _ => Some(own.clone()),
        }
    }

    /// Takes the progress of a placement as that of a commit of one of several sources.
    pub fn show(&mut self, shown: &OwnProgress, now: Timestamp) {
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
        let last = || self.iter().filter(|rollout| rollout.commit != commit).max_by_key(|rollout| rollout.began_at);
        let from = from.or_else(|| last().map(|rollout| rollout.commit.clone()));
        let rollout = self.by_commit.entry(commit.clone());
        rollout.or_insert_with(|| {
            self.changed.insert(commit.clone());
            CommitRollout::begin(commit, from, now)
        })
    }

    /// Drops the oldest ended rollouts beyond the limit. Returns their commits.
    pub fn forget(&mut self, now: Timestamp) -> Vec<CommitId> {
        let mut ended: Vec<(Timestamp, CommitId)> =
            self.iter().filter_map(|rollout| Some((rollout.ended_at?, rollout.commit.clone()))).collect();
        ended.sort();
        let count = ended.len().saturating_sub(ENDED_ROLLOUTS_MAX);
        let is_old = |at: &Timestamp| now.duration_since(*at) > SignedDuration::from_hours(1);
        let gone: Vec<CommitId> =
            ended.into_iter().take(count).filter(|(at, _)| is_old(at)).map(|(_, commit)| commit).collect();
        for commit in &gone {
            self.by_commit.remove(commit);
            self.changed.insert(commit.clone());
        }
        gone
    }

    /// Returns the commits of rollouts that changed and were not taken yet.
    pub fn changed(&self) -> impl Iterator<Item = &CommitId> {
        self.changed.iter()
    }

    /// Returns the rollouts that changed since the last call; `None` for dropped ones.
    pub fn take_changed(&mut self) -> BTreeMap<CommitId, Option<CommitRollout>> {
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
