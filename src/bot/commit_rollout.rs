//! The rollout of a commit as its conversation on the forge shows it: pure.
//!
//! It collects the progress of each placement that the commit changed, knows its conversation, and remembers what was shown
//! there since when: an approval counts for what its author could see.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::asked::{Asked, NeedMark, Notice};
use model::forge::{Comment, ThreadNumber};
use model::id::{CommitId, Digest, PlacementKey};
use model::manifest::InputError;
use model::progress::{GateProgress, Progress, ProgressState};

/// Comments of one rollout that are remembered; the oldest are dropped first.
const NOTICES_MAX: usize = 50;

/// The conversation of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Thread {
    /// The conversation.
    pub number: ThreadNumber,
    /// The bot opened it for this rollout: no pull request brought the commit.
    #[serde(default)]
    pub is_issue: bool,
}

/// A problem of the commit itself, beside its effects on placements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub(crate) enum Trouble {
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
pub(crate) struct Shown {
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
    pub(crate) fn is_of(&self, gate: &GateProgress) -> bool {
        (&self.stage, &self.digest, self.since) == (&gate.stage, &gate.digest, Some(gate.since))
    }
}

/// A commit and its rollout. It has as many fields as its record, which is flat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommitRollout {
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
    pub(crate) fn pulls(&self) -> BTreeSet<ThreadNumber> {
        // The bot opened an issue itself: nobody in it contributed to the commit.
        let own = self.thread.filter(|thread| !thread.is_issue).map(|thread| thread.number);
        own.into_iter().chain(self.also.iter().copied()).collect()
    }

    /// Returns the gates that wait for a person, with their placements.
    pub(crate) fn gates(&self) -> impl Iterator<Item = (&PlacementKey, &Progress, &GateProgress)> {
        self.placements.iter().flat_map(|(key, progress)| {
            let stages = progress.stages.iter().filter_map(|stage| stage.gate.as_ref());
            stages.chain(&progress.deletions).map(move |gate| (key, progress, gate))
        })
    }

    /// Tells whether the rollout has ended.
    pub(super) fn is_over(&self) -> bool {
        self.trouble.is_none() && self.placements.values().all(|progress| progress.state.is_final())
    }

    /// Tells whether clusters of it move, or are about to.
    pub(super) fn is_moving(&self) -> bool {
        let mut states = self.placements.values().map(|progress| &progress.state);
        states.any(|state| matches!(state, ProgressState::Moving | ProgressState::Queued))
    }

    /// Tells whether a waiting gate was not shown yet.
    pub(crate) fn has_unshown(&self) -> bool {
        self.gates().any(|(placement, _, gate)| {
            !self.shown.iter().any(|known| known.placement == *placement && known.is_of(gate))
        })
    }

    /// Returns the gates that wait for a person, as they are now.
    pub(crate) fn waiting_gates(&self) -> Vec<(PlacementKey, GateProgress)> {
        self.gates().map(|(key, _, gate)| (key.clone(), gate.clone())).collect()
    }

    /// Records that the digests of these gates were visible from `from` on, by the forge's clock. They are those that waited when
    /// the text was made: others may wait by now.
    pub(crate) fn note_shown(&mut self, gates: &[(PlacementKey, GateProgress)], from: Timestamp) {
        for (placement, gate) in gates {
            if self.shown.iter().any(|known| known.placement == *placement && known.is_of(gate)) {
                continue;
            }
            self.shown.push(Shown {
                placement: placement.clone(),
                stage: gate.stage.clone(),
                digest: gate.digest.clone(),
                since: Some(gate.since),
                from,
            });
        }
    }

    /// Assigns each need that no comment asks for to a comment: the newest one if it takes the need in, else a new one. Returns the
    /// markers of the comments that have more to ask for. `first` is the marker of the rollout's own comment if that is not
    /// written yet: its creation sends a mail anyway.
    pub(crate) fn assign(&mut self, waiting: &[NeedMark], first: Option<&str>, now: Timestamp) -> BTreeSet<String> {
        let mut changed = BTreeSet::new();
        for need in waiting {
            if self.notices.iter().any(|notice| notice.needs.contains(&need.mark)) {
                continue;
            }
            let id = first.unwrap_or(&need.mark);
            let last = self.notices.last();
            if !last.is_some_and(|notice| notice.id == id || notice.takes_in(need, waiting, now)) {
                self.notices.push(Notice {
                    id: id.to_owned(),
                    began_at: now,
                    needs: BTreeSet::new(),
                    stages: BTreeSet::new(),
                });
            }
            if let Some(notice) = self.notices.last_mut() {
                notice.needs.insert(need.mark.clone());
                notice.stages.insert(need.stage.clone());
                changed.insert(notice.id.clone());
            }
        }
        let old = self.notices.len().saturating_sub(NOTICES_MAX);
        self.notices.drain(..old);
        changed
    }

    /// Records that a comment, with this text, asks for the approval of these gates; drops those of gates that no longer wait.
    pub(crate) fn note_asked(&mut self, comment: &Comment, text: &Digest, gates: &[(PlacementKey, GateProgress)]) {
        let waiting = self.waiting_gates();
        self.asked.retain(|asked| asked.is_of_one(&waiting) && (asked.comment != comment.id || asked.is_of_one(gates)));
        for asked in self.asked.iter_mut().filter(|asked| asked.comment == comment.id) {
            asked.text.clone_from(text);
            asked.edited_at = Some(comment.updated_at);
        }
        for (placement, gate) in gates {
            if self.asked.iter().any(|asked| asked.comment == comment.id && asked.is_of(placement, gate)) {
                continue;
            }
            self.asked.push(Asked {
                placement: placement.clone(),
                stage: gate.stage.clone(),
                digest: gate.digest.clone(),
                since: gate.since,
                comment: comment.id,
                text: text.clone(),
                at: comment.updated_at,
                edited_at: None,
                heard: BTreeMap::new(),
            });
        }
    }

    /// Returns the waiting gates that a comment asks for, oldest first.
    pub(crate) fn asked_in(&self, comment: u64) -> Vec<Asked> {
        let waiting = self.waiting_gates();
        let asked = self.asked.iter().filter(|asked| asked.comment == comment && asked.is_of_one(&waiting));
        asked.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(100_000 + seconds).expect("a test's instant is one")
    }

    fn need(mark: &str, stage: &str) -> NeedMark {
        NeedMark { mark: mark.to_owned(), stage: stage.to_owned() }
    }

    #[test]
    fn needs_that_arise_together_are_asked_for_in_one_comment() {
        // when, what waits then, whether the rollout's comment is still to be written, which comment asks for the last of it
        type Row = (&'static str, i64, &'static [(&'static str, &'static str)], bool, &'static str);
        let rows: [Row; 7] = [
            ("the first", 0, &[("a1", "one"), ("b1", "one")], true, "rollout"),
            ("another of that stage", 5, &[("a1", "one"), ("c1", "one")], false, "rollout"),
            ("later, while one waits", 600, &[("c1", "one"), ("d1", "one")], false, "rollout"),
            ("another stage", 700, &[("c1", "one"), ("a2", "two")], false, "a2"),
            ("together with it", 705, &[("a2", "two"), ("gone", "deletion")], false, "a2"),
            ("of a stage of which none waits", 900, &[("b2", "one")], false, "b2"),
            ("long after", 900 + 3600, &[("b2", "one"), ("c2", "one")], false, "c2"),
        ];
        let mut rollout = CommitRollout::begin("abc1234".into(), None, at(0));
        for (name, seconds, waiting, is_first, comment) in rows {
            let waiting: Vec<NeedMark> = waiting.iter().map(|(mark, stage)| need(mark, stage)).collect();
            let first = if is_first { Some("rollout") } else { None };
            let changed = rollout.assign(&waiting, first, at(seconds));
            assert_eq!(changed, [comment.to_owned()].into(), "{name}");
            assert!(rollout.assign(&waiting, None, at(seconds)).is_empty(), "{name}: each once");
        }
        assert_eq!(rollout.notices.len(), 4);
    }
}
