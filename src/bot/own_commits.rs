//! What rollouts of the whole tree mean for the commits of one of several sources: pure.
//!
//! A commit of the tree joins one commit of each source. Its rollouts are followed as those of any commit, and shown at the commits of
//! the sources that it brought. See docs/design/064-a-bot-for-each-source.md.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::commit_rollout::CommitRollout;
use super::commit_rollouts::{CommitRollouts, OwnProgress};
use super::record_place::RecordPlace;
use engine::PlacementUpdate;
use engine::store::records::{load, load_all};
use engine::store::{Op, Result, Store};
use model::id::{CommitId, PlacementKey};
use model::progress::{Progress, ProgressState};
use model::records::SourceRecord;

/// The records of rollouts, of commits of the tree, and of what is accepted, at the place of a source's records.
const ROLLOUTS: &str = "tree/rollout/";
const COMMITS: &str = "tree/commit/";
const ACCEPTED: &str = "tree/accepted";
/// Rollouts that are followed, each taken over by the next. Where a rewritten history restores a commit, two can have taken over each other.
const CHAIN_MAX: usize = 1_000;

/// A commit of the tree, as one source sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TreeCommit {
    /// The commit of the tree.
    pub commit: CommitId,
    /// The commit of the source in it.
    pub own: CommitId,
    /// The names of the sources whose commits are others than in the accepted commit before.
    pub changed: BTreeSet<String>,
}

/// The commits of the tree and their rollouts, for one source.
#[derive(Debug, Default)]
pub(crate) struct OwnCommits {
    /// The name of the source.
    name: String,
    /// Those of the tree's commits.
    rollouts: CommitRollouts,
    /// The commits that have rollouts, and the accepted one.
    known: BTreeMap<CommitId, TreeCommit>,
    /// The accepted commit, once this process was told.
    tree: Option<CommitId>,
    /// The commits of all sources in it.
    accepted: BTreeMap<String, CommitId>,
    changed: BTreeSet<CommitId>,
    accepted_changed: bool,
}

impl OwnCommits {
    /// Reads what an earlier process stored of a source's commits.
    ///
    /// # Errors
    /// A record that cannot be read is named.
    pub(crate) fn read(name: &str, store: &dyn Store, place: &RecordPlace) -> Result<Self> {
        let rollouts = load_all::<CommitRollout>(store, &place.key(ROLLOUTS))?;
        let known = load_all::<TreeCommit>(store, &place.key(COMMITS))?;
        let accepted = load::<BTreeMap<String, CommitId>>(store, &place.key(ACCEPTED))?;
        Ok(Self {
            name: name.to_owned(),
            rollouts: CommitRollouts::restore(rollouts.into_iter().map(|record| record.value)),
            known: known.into_iter().map(|record| (record.value.commit.clone(), record.value)).collect(),
            tree: None,
            accepted: accepted.map(|record| record.value).unwrap_or_default(),
            changed: BTreeSet::new(),
            accepted_changed: false,
        })
    }

    /// Takes in the state of all sources. Returns that of this one.
    pub(crate) fn take_source(&mut self, source: &SourceRecord, now: Timestamp) -> SourceRecord {
        let of_each = source.sources.iter();
        let accepted: BTreeMap<String, CommitId> =
            of_each.filter_map(|(name, record)| Some((name.clone(), record.accepted.clone()?))).collect();
        self.tree.clone_from(&source.accepted);
        if let Some(commit) = &source.accepted {
            let mut changed = BTreeSet::new();
            for (name, at) in &accepted {
                if self.accepted.get(name) != Some(at) {
                    changed.insert(name.clone());
                }
            }
            // A process that starts is told again what the last one knew.
            let is_news = !changed.is_empty() || !self.known.contains_key(commit);
            if let Some(own) = accepted.get(&self.name)
                && is_news
            {
                let known = TreeCommit { commit: commit.clone(), own: own.clone(), changed };
                self.known.insert(commit.clone(), known);
                self.changed.insert(commit.clone());
            }
            if self.accepted != accepted {
                self.accepted = accepted;
                self.accepted_changed = true;
            }
        }
        // What is refused or waits is a commit of one source: it is shown there, and is no rollout of the tree.
        self.rollouts.take_source(&SourceRecord { accepted: source.accepted.clone(), ..SourceRecord::default() }, now);
        source.sources.get(&self.name).cloned().unwrap_or_default()
    }

    /// Takes in the state of a placement. Returns what is to be shown of it, oldest commit first.
    pub(crate) fn take(&mut self, update: &PlacementUpdate, now: Timestamp) -> Vec<OwnProgress> {
        self.rollouts.take(update, now);
        self.shown(&update.placement)
    }

    /// Ends the progress of placements of which nothing is left. Returns what is to be shown of all placements.
    pub(crate) fn end_others(&mut self, known: &BTreeSet<PlacementKey>, now: Timestamp) -> Vec<OwnProgress> {
        self.rollouts.end_others(known, now);
        let all: BTreeSet<PlacementKey> =
            self.rollouts.iter().flat_map(|rollout| rollout.placements.keys().cloned()).collect();
        all.iter().flat_map(|placement| self.shown(placement)).collect()
    }

    /// Returns what is to be shown of a placement, oldest commit first. A commit of the tree is shown at the source's commit that it
    /// brought. A rollout that one of other sources took over continues there: what a commit changed is on its way until that ends.
    fn shown(&self, placement: &PlacementKey) -> Vec<OwnProgress> {
        let mut begun: Vec<&CommitRollout> =
            self.rollouts.iter().filter(|rollout| rollout.placements.contains_key(placement)).collect();
        begun.sort_by_key(|rollout| rollout.began_at);
        begun.iter().filter_map(|rollout| self.own_progress(rollout, placement)).collect()
    }

    /// Returns what is to be shown of a placement in one of the tree's rollouts; `None` if it is not shown in this source.
    fn own_progress(&self, rollout: &CommitRollout, placement: &PlacementKey) -> Option<OwnProgress> {
        let of = self.brought(&rollout.commit)?;
        let mut progress = rollout.placements.get(placement)?;
        for _ in 0..CHAIN_MAX {
            let ProgressState::Superseded { by } = &progress.state else { break };
            if self.brought(by).is_some() {
                break;
            }
            // One that was forgotten ended long ago: what is shown stays.
            progress = self.rollouts.get(by)?.placements.get(placement)?;
        }
        let state = self.own_state(&progress.state);
        let progress = Progress { commit: Some(of.own.clone()), state, ..progress.clone() };
        Some(OwnProgress { own: of.own.clone(), tree: of.commit.clone(), progress })
    }

    /// Returns a commit of the tree if it brought one of this source.
    fn brought(&self, commit: &CommitId) -> Option<&TreeCommit> {
        self.known.get(commit).filter(|known| known.changed.contains(&self.name))
    }

    /// Returns a state with commits of the source where they are known.
    fn own_state(&self, state: &ProgressState) -> ProgressState {
        match state {
            ProgressState::Superseded { by } => ProgressState::Superseded { by: self.own_commit(by) },
            ProgressState::RolledBack { to } => ProgressState::RolledBack { to: self.own_commit(to) },
            other => other.clone(),
        }
    }

    fn own_commit(&self, commit: &CommitId) -> CommitId {
        self.known.get(commit).map_or(commit, |known| &known.own).clone()
    }

    /// Returns the other sources whose commits are part of what waits in a rollout that is shown at a commit: whoever made those is not
    /// known in this source's repository.
    pub(crate) fn others(&self, own: &CommitRollout) -> BTreeSet<String> {
        let placements: BTreeSet<&PlacementKey> = own.gates().map(|(placement, ..)| placement).collect();
        let parts = placements.into_iter().flat_map(|placement| self.parts(placement, &own.commit));
        let changed = parts.filter_map(|part| self.known.get(part)).flat_map(|part| part.changed.iter());
        changed.filter(|name| **name != self.name).cloned().collect()
    }

    /// Returns the commits of the tree whose rollouts of a placement are one with those of a commit of the source: what took them over,
    /// and what that took over before.
    fn parts(&self, placement: &PlacementKey, own: &CommitId) -> BTreeSet<&CommitId> {
        let taken_over = self.rollouts.iter().filter_map(|rollout| match &rollout.placements.get(placement)?.state {
            ProgressState::Superseded { by } => Some((&rollout.commit, by)),
            _ => None,
        });
        let taken_over: Vec<(&CommitId, &CommitId)> = taken_over.collect();
        let begun = self.rollouts.iter().filter(|rollout| {
            let is_own = self.brought(&rollout.commit).is_some_and(|of| of.own == *own);
            is_own && rollout.placements.contains_key(placement)
        });
        let mut parts: BTreeSet<&CommitId> = begun.map(|rollout| &rollout.commit).collect();
        loop {
            let known = parts.len();
            for (former, later) in &taken_over {
                if parts.contains(former) || parts.contains(later) {
                    parts.extend([*former, *later]);
                }
            }
            if parts.len() == known {
                return parts;
            }
        }
    }

    /// Drops what is not needed any more, and returns the writes of what changed since the last call.
    pub(crate) fn take_changed(&mut self, place: &RecordPlace, now: Timestamp) -> Vec<Result<Op>> {
        // The rollouts say themselves which of them changed.
        drop(self.rollouts.forget(now));
        if let Some(tree) = &self.tree {
            let mut over: Vec<CommitId> = self.known.keys().cloned().collect();
            over.retain(|commit| commit != tree && self.rollouts.get(commit).is_none());
            for commit in over {
                self.known.remove(&commit);
                self.changed.insert(commit);
            }
        }
        let mut ops = Vec::new();
        for (commit, rollout) in self.rollouts.take_changed() {
            ops.push(place.op(&format!("{ROLLOUTS}{commit}"), rollout.as_ref()));
        }
        let changed = std::mem::take(&mut self.changed);
        ops.extend(changed.iter().map(|commit| place.op(&format!("{COMMITS}{commit}"), self.known.get(commit))));
        if std::mem::take(&mut self.accepted_changed) {
            ops.push(place.op(ACCEPTED, Some(&self.accepted)));
        }
        ops
    }
}

#[cfg(test)]
mod tests;
