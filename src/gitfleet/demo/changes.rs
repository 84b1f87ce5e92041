//! What the demo changes, and when the fleet has got as far as each change is to lead.

use std::time::Duration;

use super::example;
use decide::status::rollout::StateKind;
use model::id::CommitId;
use model::records::SourceRecord;
use views::tree::PlacementRow;

/// How many changes there are; the last one is made of two commits.
pub(super) const CHANGES: u8 = 3;
/// The change that waits at a gate in the end.
pub(super) const GATE: u8 = 2;
/// The run that waits there.
pub(super) const GATE_RUN: &str = "search-1";
/// The run that waits at the gate of the first commit.
pub(super) const FIRST_RUN: &str = "search-0";
/// The stage whose gate both wait at.
pub(super) const GATE_STAGE: &str = "staging";
/// The placement that goes in stages.
pub(super) const STAGED: &str = "search";

/// One commit of the demo.
#[derive(Debug)]
pub(super) struct DemoChange {
    /// Which of the changes it is part of, from 1.
    pub number: u8,
    /// Its message.
    pub message: &'static str,
    /// What is to be seen.
    pub says: &'static str,
    /// The file that changes.
    file: &'static str,
    /// The text of the file that changes, and what it becomes.
    edit: (&'static str, &'static str),
    /// How far it leads.
    pub goal: Goal,
    /// About how long that takes.
    pub lasts: Duration,
}

/// How far a commit leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// Every cluster of every placement holds what it is to hold.
    Everywhere,
    /// Every cluster of this placement holds the commit's content.
    Delivered(&'static str),
    /// This placement waits for a person, with the commit's content.
    Waits(&'static str),
    /// The commit is refused.
    Refused,
    /// The commit is accepted, and changes nothing.
    Accepted,
}

const TABLE: [DemoChange; 4] = [
    DemoChange {
        number: 1,
        message: "Shorten the offer",
        says: "A ConfigMap of `shop` changes: a rolling update, one cluster at a time.",
        file: "apps/shop.yaml",
        edit: ("Free delivery this week", "Free delivery today"),
        goal: Goal::Delivered("shop"),
        lasts: Duration::from_secs(1),
    },
    DemoChange {
        number: GATE,
        message: "Rank by recency",
        says: "A ConfigMap of `search` changes, which goes in stages: development, five seconds to watch\n   \
               it, staging. Production waits for a person. No other placement moves.",
        file: "apps/search.yaml",
        edit: ("newest first", "by recency"),
        goal: Goal::Waits(STAGED),
        lasts: Duration::from_secs(6),
    },
    DemoChange {
        number: CHANGES,
        message: "Tolerate one more taint",
        says: "A placement has a typing error: the commit is refused as a whole, and the last good one\n   stays.",
        file: "placements/payments.yaml",
        edit: ("placementType: PickAll", "placementTyp: PickAll"),
        goal: Goal::Refused,
        lasts: Duration::from_secs(1),
    },
    DemoChange {
        number: CHANGES,
        message: "Correct the placement of payments",
        says: "The error is corrected: the commit is accepted, and no cluster gets anything new.",
        file: "placements/payments.yaml",
        edit: ("", ""),
        goal: Goal::Accepted,
        lasts: Duration::from_secs(1),
    },
];

/// Returns the commits of the first changes.
pub(super) fn first(changes: u8) -> impl Iterator<Item = &'static DemoChange> {
    TABLE.iter().filter(move |change| change.number <= changes)
}

impl DemoChange {
    /// Returns the file that it changes, with its new text.
    pub(super) fn file(&self) -> Option<(String, String)> {
        let (from, to) = self.edit;
        let text = example::file(self.file)?;
        Some((self.file.to_owned(), if from.is_empty() { text.to_owned() } else { text.replace(from, to) }))
    }
}

impl Goal {
    /// Tells whether the fleet has got there with a commit.
    pub(super) fn is_reached(self, commit: &CommitId, source: &SourceRecord, rows: &[PlacementRow]) -> bool {
        let accepted = source.accepted.as_ref() == Some(commit);
        let stands = |name: &str, kind: StateKind| {
            let row = rows.iter().find(|row| row.placement.to_string() == name);
            row.is_some_and(|row| row.commit.as_ref() == Some(commit) && row.state.kind() == kind)
        };
        match self {
            Self::Everywhere => rows.iter().all(|row| row.state.kind() == StateKind::AtTarget),
            // A person may have committed something else meanwhile: the snapshot names the commit that it is of.
            Self::Delivered(name) => stands(name, StateKind::AtTarget),
            Self::Waits(name) => stands(name, StateKind::WaitingForPerson),
            Self::Refused => !source.refused.is_empty() && source.seen.as_ref() == Some(commit),
            Self::Accepted => accepted && source.refused.is_empty(),
        }
    }
}

/// Returns how a placement stands, as a line without its end.
pub(super) fn line(row: &PlacementRow) -> String {
    let done = row.up_to_date;
    let total = row.clusters;
    let state = row.state.kind();
    format!("   {:<10} {done} of {total} clusters  {state}", row.placement.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use decide::status::rollout::{PersonWait, RolloutState};
    use model::manifest::InputError;

    #[test]
    fn every_change_changes_its_file_and_the_last_one_takes_the_error_back() {
        for change in &TABLE {
            let (path, text) = change.file().expect("the example has it");
            let is_same = example::file(&path) == Some(text.as_str());
            assert_eq!(is_same, change.goal == Goal::Accepted, "{}", change.message);
        }
        let numbers: Vec<u8> = first(CHANGES).map(|change| change.number).collect();
        assert_eq!(numbers, [1, 2, 3, 3]);
        assert_eq!(first(0).count(), 0);
    }

    #[test]
    fn a_goal_is_reached_with_its_own_commit() {
        let old = CommitId::new("a".repeat(40));
        let new = CommitId::new("b".repeat(40));
        let row = |name: &str, commit: &CommitId, state| PlacementRow {
            placement: name.parse().expect("a name"),
            snapshot: Some(0),
            commit: Some(commit.clone()),
            since: None,
            removed: false,
            state,
            clusters: 3,
            up_to_date: 1,
            stages: Vec::new(),
            below: views::tree::Node::default(),
        };
        let waits = || RolloutState::WaitingForPerson(PersonWait::Approval("approve it".into()));
        let rows = [row("shop", &new, RolloutState::AllAtTarget), row("search", &old, waits())];
        let error = InputError {
            path: "a.yaml".into(),
            line: 1,
            object: None,
            field: None,
            message: "is unknown".into(),
            hint: None,
        };
        let source = |accepted: &CommitId, refused: &[InputError]| SourceRecord {
            accepted: Some(accepted.clone()),
            seen: Some(new.clone()),
            refused: refused.to_vec(),
            ..SourceRecord::default()
        };
        let errors = std::slice::from_ref(&error);
        for (goal, source, reached) in [
            (Goal::Delivered("shop"), source(&new, &[]), true),
            (Goal::Delivered("search"), source(&new, &[]), false),
            (Goal::Waits("search"), source(&new, &[]), false),
            (Goal::Waits("shop"), source(&new, &[]), false),
            (Goal::Everywhere, source(&new, &[]), false),
            (Goal::Refused, source(&old, errors), true),
            (Goal::Refused, source(&old, &[]), false),
            (Goal::Accepted, source(&new, &[]), true),
            (Goal::Accepted, source(&old, errors), false),
        ] {
            assert_eq!(goal.is_reached(&new, &source, &rows), reached, "{goal:?} {source:?}");
        }
        assert!(Goal::Waits("search").is_reached(&old, &source(&old, &[]), &rows));
        assert!(Goal::Everywhere.is_reached(&new, &source(&new, &[]), &rows[..1]));
        assert_eq!(line(&rows[1]), "   search     1 of 3 clusters  waiting for a person");
    }
}
