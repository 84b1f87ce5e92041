//! The phase of a placement, what it permits, and which may follow which.
//!
//! A record keeps why a placement does not simply follow git, and several of these reasons may hold at once: a person may pause
//! what failures have halted. So each reason that holds is a phase that the placement is in, [the first of them](PHASES) is the one
//! that it is said to be in, and each takes away what it does not permit.

use super::journal::JournalKind;
use super::records::{JournalEntry, PlacementRecord};
use super::transitions::{Transitions, may_follow};

#[cfg(test)]
mod tests;

/// How a placement follows git.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementPhase {
    /// It was paused.
    Paused,
    /// Git has it no longer, and deletions wait for an approval.
    RemovalPending,
    /// Git has it no longer.
    Removing,
    /// It has an error of its own, and keeps its last good state.
    Invalid,
    /// It stopped by itself.
    Halted,
    /// The newest snapshot was rolled back or rejected.
    HeldBack,
    /// It goes to the newest snapshot, or is there.
    Following,
}

/// What a decision does by itself, and a phase may not permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseAct {
    /// Tell a cluster to hold another snapshot.
    Start,
    /// Take the placement off a cluster.
    Remove,
    /// Take it off a cluster that an eviction names.
    Evict,
    /// Begin a staged update run, or let one begin that a person wrote.
    BeginRuns,
}

/// Whether a phase permits something. Of several the least counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permit {
    /// Not at all.
    No,
    /// Only this, and who does it checks each cluster or run.
    Only(&'static str),
    /// As if nothing were the matter.
    Yes,
}

/// What a phase means.
#[derive(Debug)]
pub struct PhaseRule {
    /// The phase.
    pub phase: PlacementPhase,
    /// What holds in it, for people.
    pub when: &'static str,
    /// Whether it permits [`PhaseAct::Start`].
    pub start: Permit,
    /// Whether it permits [`PhaseAct::Remove`].
    pub remove: Permit,
    /// Whether it permits [`PhaseAct::Evict`].
    pub evict: Permit,
    /// Whether it permits [`PhaseAct::BeginRuns`].
    pub begin_runs: Permit,
}

/// The phases in order of precedence: of those that hold the first is shown. The table in docs/rollouts.md is this one.
///
/// A pause goes first, because no decision ends it. What the deletion gate holds of a placement that git has, and a payload that
/// cannot be read, concern single clusters and snapshots: neither is a phase.
pub const PHASES: [PhaseRule; 7] = {
    use Permit::{No, Only, Yes};
    use PlacementPhase::{Following, Halted, HeldBack, Invalid, Paused, RemovalPending, Removing};
    const fn rule(phase: PlacementPhase, when: &'static str, of: [Permit; 4]) -> PhaseRule {
        let [start, remove, evict, begin_runs] = of;
        PhaseRule { phase, when, start, remove, evict, begin_runs }
    }
    [
        rule(Paused, "it was paused", [No, No, Yes, Yes]),
        rule(
            RemovalPending,
            "git has it no longer, and its deletion gate is closed",
            [No, Only("what the gate does not hold"), No, No],
        ),
        rule(Removing, "git has it no longer", [No, Yes, No, No]),
        rule(Invalid, "it has an error, and keeps its last good state", [Yes, Yes, Yes, No]),
        rule(
            Halted,
            "too many clusters failed, a check did, or stages are missing that the configuration demands",
            [
                Only("clusters that failed before, or to which an earlier run still brings what has not failed"),
                Only("not by a halted run"),
                Yes,
                Yes,
            ],
        ),
        rule(HeldBack, "a snapshot was rolled back or rejected", [Yes, Yes, Yes, Only("not to what is held")]),
        rule(Following, "none of the above", [Yes, Yes, Yes, Yes]),
    ]
};

/// Phases that go together, outer ones first: what may happen in all of them is said, and drawn, once.
pub const PHASE_GROUPS: &[(&str, &[PlacementPhase])] = &[("Unpaused", UNPAUSED), ("Gone", GONE), ("InGit", IN_GIT)];
const GONE: &[PlacementPhase] = &[PlacementPhase::RemovalPending, PlacementPhase::Removing];
const IN_GIT: &[PlacementPhase] =
    &[PlacementPhase::Invalid, PlacementPhase::Halted, PlacementPhase::HeldBack, PlacementPhase::Following];
const UNPAUSED: &[PlacementPhase] = &[
    PlacementPhase::RemovalPending,
    PlacementPhase::Removing,
    PlacementPhase::Invalid,
    PlacementPhase::Halted,
    PlacementPhase::HeldBack,
    PlacementPhase::Following,
];

/// Where a decision may take a placement. The diagram in docs/rollouts.md is this table and [`COMMANDED`].
pub const DECIDED: Transitions<PlacementPhase> = {
    use PlacementPhase::{Following, Halted, HeldBack, Invalid, Paused, RemovalPending, Removing};
    &[
        (UNPAUSED, Paused, "its stages with approvals are gone, or members keep a pause that the store has lost"),
        (IN_GIT, RemovalPending, "git has it no longer, and deletions need approval"),
        (IN_GIT, Removing, "git has it no longer"),
        (&[Removing], RemovalPending, "more would be deleted than was approved"),
        (&[RemovalPending], Removing, "no deletion needs approval any more"),
        (GONE, Invalid, "git has it again, and it has an error"),
        (GONE, Halted, "git has it again, and too many clusters failed"),
        (GONE, HeldBack, "git has it again, and its snapshot is held"),
        (GONE, Following, "git has it again"),
        (&[Halted, HeldBack, Following], Invalid, "it has an error"),
        (&[Invalid], Halted, "the error is gone, and too many clusters failed"),
        (&[HeldBack, Following], Halted, "too many clusters failed"),
        (&[Invalid], HeldBack, "the error is gone, and its snapshot is held"),
        (&[Halted, Following], HeldBack, "it returned to an earlier snapshot"),
        (&[Invalid], Following, "the error is gone"),
        (&[Halted], Following, "failed clusters recovered, or something newer comes"),
        (&[HeldBack], Following, "other content comes"),
    ]
};

/// Where a command may take a placement.
pub const COMMANDED: Transitions<PlacementPhase> = {
    use PlacementPhase::{Following, Halted, HeldBack, Invalid, Paused, RemovalPending, Removing};
    &[
        (UNPAUSED, Paused, "a person pauses it"),
        (&[Paused], RemovalPending, "a person resumes it, git has it no longer, and deletions need approval"),
        (&[Paused], Removing, "a person resumes it, and git has it no longer"),
        (&[Paused], Invalid, "a person resumes it, and it has an error"),
        (&[Paused], Halted, "a person resumes it, and it was halted"),
        (&[Paused], HeldBack, "a person resumes it, and its snapshot is held"),
        (&[Paused], Following, "a person resumes it"),
        (&[RemovalPending], Removing, "a person approves the deletions"),
        (&[Following], HeldBack, "a person rolls it back, or rejects its snapshot"),
        (&[HeldBack], Following, "a person retries its snapshot"),
    ]
};

impl PhaseRule {
    /// Returns whether the phase permits something.
    pub fn permit(&self, act: PhaseAct) -> Permit {
        match act {
            PhaseAct::Start => self.start,
            PhaseAct::Remove => self.remove,
            PhaseAct::Evict => self.evict,
            PhaseAct::BeginRuns => self.begin_runs,
        }
    }
}

impl PlacementRecord {
    /// Returns the phases that the placement is in, in order of precedence; [`PlacementPhase::Following`] is always among them.
    fn phases(&self) -> impl Iterator<Item = &'static PhaseRule> {
        PHASES.iter().filter(|rule| match rule.phase {
            PlacementPhase::Paused => self.paused.is_some(),
            PlacementPhase::RemovalPending => self.removed && self.closed_gate().is_some(),
            PlacementPhase::Removing => self.removed,
            PlacementPhase::Invalid => self.error.is_some(),
            PlacementPhase::Halted => self.halted.is_some(),
            PlacementPhase::HeldBack => self.held.is_some(),
            PlacementPhase::Following => true,
        })
    }

    /// Returns the phase that the placement is said to be in.
    pub fn phase(&self) -> PlacementPhase {
        self.phases().next().map_or(PlacementPhase::Following, |rule| rule.phase)
    }

    /// Returns what all phases that the placement is in permit.
    pub fn permit(&self, act: PhaseAct) -> Permit {
        self.phases().map(|rule| rule.permit(act)).min().unwrap_or(Permit::Yes)
    }

    /// Tells whether the placement's phases permit something, be it of some clusters or runs alone.
    pub fn permits(&self, act: PhaseAct) -> bool {
        self.permit(act) != Permit::No
    }
}

/// Says what of the tables a decision or a command has broken, from the phase before, the placement after and what happened.
pub fn violation(
    table: Transitions<PlacementPhase>,
    before: PlacementPhase,
    after: &PlacementRecord,
    journal: &[JournalEntry],
) -> Option<String> {
    let key = &after.key;
    let phase = after.phase();
    if before != phase && !may_follow(table, before, phase) {
        return Some(format!("{key} went from {before:?} to {phase:?}"));
    }
    let mut acts = journal.iter().filter_map(|entry| act(entry, journal));
    let forbidden = acts.find(|act| !after.permits(*act))?;
    Some(format!("{key} is {phase:?}, which does not permit {forbidden:?}"))
}

/// Returns what an entry of the journal says was done. Runs are not among it: only one that has begun finds that its limits cannot be
/// read.
fn act(entry: &JournalEntry, journal: &[JournalEntry]) -> Option<PhaseAct> {
    match entry.event {
        JournalKind::RolloutStarted => Some(PhaseAct::Start),
        JournalKind::RemovalStarted if is_evicted(entry, journal) => Some(PhaseAct::Evict),
        JournalKind::RemovalStarted => Some(PhaseAct::Remove),
        _ => None,
    }
}

/// Tells whether an eviction was executed on the cluster of an entry.
fn is_evicted(entry: &JournalEntry, journal: &[JournalEntry]) -> bool {
    journal.iter().any(|other| {
        other.event == JournalKind::EvictionJudged && other.facts["executed"] == true && other.cluster == entry.cluster
    })
}
