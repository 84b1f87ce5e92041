//! What gitfleet's comments ask people for, and since when: pure.
//!
//! Needs that arise together are asked for in one comment, because each new comment sends a mail. A reaction to it counts for the
//! gates that it showed before the reaction was given.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::commit_rollout::CommitRollout;
use super::messages::EDIT_PAUSE;
use model::forge::Comment;
use model::id::{Digest, PlacementKey};
use model::progress::GateProgress;
use model::runs::DELETION_GATE;

/// How long a comment takes in further gates of its stages while one of its own still waits. Later ones get a comment of their
/// own: an edit sends no mail.
const JOINED_FOR: SignedDuration = SignedDuration::from_hours(1);
/// Comments of one rollout that are remembered; the oldest are dropped first.
const NOTICES_MAX: usize = 50;

/// A gate, and a comment of gitfleet that asks for its approval: a reaction to it, or a review after it, counts for this gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    /// The placement.
    pub placement: PlacementKey,
    /// The stage, or `deletion`.
    pub stage: String,
    /// The digest that was approved.
    pub digest: Digest,
    /// Since when the gate waits, by our clock.
    pub since: Timestamp,
    /// The comment.
    pub comment: u64,
    /// SHA-256 of its text as we wrote it.
    pub text: Digest,
    /// Since when it shows this gate, by the forge's clock.
    pub at: Timestamp,
    /// When we last wrote it, by the forge's clock; absent if never since `at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_at: Option<Timestamp>,
    /// Accounts whose reaction was handled, with its time: a repeated reaction counts again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub heard: BTreeMap<u64, Timestamp>,
}

impl Asked {
    /// Tells whether a gate of a placement asks for this digest now.
    pub fn is_of(&self, placement: &PlacementKey, gate: &GateProgress) -> bool {
        (&self.placement, &self.stage, &self.digest, self.since) == (placement, &gate.stage, &gate.digest, gate.since)
    }

    /// Tells whether another names the same gate and the same comment.
    pub fn is_same(&self, other: &Self) -> bool {
        let key = |asked: &Self| {
            (asked.comment, asked.placement.clone(), asked.stage.clone(), asked.digest.clone(), asked.since)
        };
        key(self) == key(other)
    }

    /// Returns when we last wrote the comment, by the forge's clock.
    pub fn written_at(&self) -> Timestamp {
        self.edited_at.unwrap_or(self.at)
    }
}

/// A comment that asks people to act.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// The marker of the comment.
    pub id: String,
    /// When it first asked, by our clock.
    pub began_at: Timestamp,
    /// The marks of everything that it was ever to ask for.
    pub needs: BTreeSet<String>,
    /// The stages of these needs.
    pub stages: BTreeSet<String>,
}

impl Notice {
    /// Tells whether a reaction to the comment approves a gate that it asks for. Deletions must be asked for alone: nobody shall
    /// approve them together with something else.
    pub fn takes_reaction_for(&self, gate: &GateProgress) -> bool {
        gate.stage != DELETION_GATE || self.needs.len() == 1
    }

    fn takes_in(&self, need: &NeedMark, waiting: &[NeedMark], now: Timestamp) -> bool {
        let age = now.duration_since(self.began_at);
        let is_open = || waiting.iter().any(|waiting| self.needs.contains(&waiting.mark));
        age < EDIT_PAUSE || (age < JOINED_FOR && self.stages.contains(&need.stage) && is_open())
    }
}

/// A need, as notices remember it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeedMark {
    /// Its mark: the same as long as the same thing is needed.
    pub mark: String,
    /// The stage that it is about; empty without one.
    pub stage: String,
}

impl CommitRollout {
    /// Assigns each need that no comment asks for to a comment: the newest one if it takes the need in, else a new one. Returns the
    /// markers of the comments that have more to ask for. `first` is the marker of the rollout's own comment if that is not
    /// written yet: its creation sends a mail anyway.
    pub fn assign(&mut self, waiting: &[NeedMark], first: Option<&str>, now: Timestamp) -> BTreeSet<String> {
        let mut changed = BTreeSet::new();
        for need in waiting {
            if self.notices.iter().any(|notice| notice.needs.contains(&need.mark)) {
                continue;
            }
            let id = first.unwrap_or(&need.mark);
            let takes = |notice: &Notice| notice.id == id || notice.takes_in(need, waiting, now);
            if !self.notices.last().is_some_and(takes) {
                let (needs, stages) = (BTreeSet::new(), BTreeSet::new());
                self.notices.push(Notice { id: id.to_owned(), began_at: now, needs, stages });
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
    pub fn note_asked(&mut self, comment: &Comment, text: &Digest, gates: &[(PlacementKey, GateProgress)]) {
        let waiting = self.waiting_gates();
        let is_of = |asked: &Asked, gates: &[(PlacementKey, GateProgress)]| {
            gates.iter().any(|(key, gate)| asked.is_of(key, gate))
        };
        self.asked.retain(|asked| is_of(asked, &waiting) && (asked.comment != comment.id || is_of(asked, gates)));
        for asked in self.asked.iter_mut().filter(|asked| asked.comment == comment.id) {
            (asked.text, asked.edited_at) = (text.clone(), Some(comment.updated_at));
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
    pub fn asked_in(&self, comment: u64) -> Vec<Asked> {
        let waiting = self.waiting_gates();
        let is_waiting = |asked: &&Asked| waiting.iter().any(|(key, gate)| asked.is_of(key, gate));
        self.asked.iter().filter(|asked| asked.comment == comment).filter(is_waiting).cloned().collect()
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
            let first = Some("rollout").filter(|_| is_first);
            let changed = rollout.assign(&waiting, first, at(seconds));
            assert_eq!(changed, [comment.to_owned()].into(), "{name}");
            assert!(rollout.assign(&waiting, None, at(seconds)).is_empty(), "{name}: each once");
        }
        assert_eq!(rollout.notices.len(), 4);
    }
}
