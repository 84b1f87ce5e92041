//! Which phase may follow which, and that the drawings say the same.

use std::fmt::Debug;

use super::super::phases::{CLUSTER, RUN, STAGE, Transitions, may_follow};
use crate::model::runs::{ClusterPhase, RunPhase, StagePhase};

const DRAWN: &str = include_str!("../../../../docs/rollouts.md");

/// Returns the edges of the diagram under a heading, as they are drawn; without those from and to nowhere.
fn drawn(heading: &str) -> Vec<&'static str> {
    let section = DRAWN.split("\n## ").find(|section| section.starts_with(heading)).expect(heading);
    let diagram = section.split("```mermaid\nstateDiagram-v2\n").nth(1).expect(heading).split("```").next().unwrap();
    diagram.lines().map(str::trim).filter(|line| line.contains("-->") && !line.contains("[*]")).collect()
}

fn check<P: Debug>(heading: &str, table: Transitions<P>) {
    let expected: Vec<String> = table.iter().map(|(from, to, when)| format!("{from:?} --> {to:?}: {when}")).collect();
    let drawn = drawn(heading);
    assert_eq!(drawn, expected, "docs/rollouts.md, {heading}; it should say\n    {}\n", expected.join("\n    "));
}

#[test]
fn the_diagrams_are_the_tables() {
    check("States of a run", RUN);
    check("States of a stage", STAGE);
    check("States of a cluster", CLUSTER);
}

#[test]
fn a_transition_is_listed_once_and_leads_elsewhere() {
    fn once<P: PartialEq + Copy + Debug>(table: Transitions<P>) {
        for (index, (from, to, _)) in table.iter().enumerate() {
            assert!(from != to && !may_follow(&table[..index], *from, *to), "{from:?} {to:?}");
        }
    }
    once(RUN);
    once(STAGE);
    once(CLUSTER);
}

#[test]
fn forbidden_transitions() {
    for (from, to, _) in RUN {
        assert!(!from.is_final(), "{from:?} is final, and goes to {to:?}");
        assert_ne!(*to, RunPhase::Pending, "what was prepared stays so");
        assert!(*to != RunPhase::Initialized || *from == RunPhase::Pending, "a run that went cannot be only prepared");
    }
    let runs = [
        (RunPhase::Succeeded, RunPhase::Updating),
        (RunPhase::Succeeded, RunPhase::RolledBack),
        (RunPhase::Updating, RunPhase::Rejected),
        (RunPhase::Pending, RunPhase::Halted),
        (RunPhase::Pending, RunPhase::Rejected),
        (RunPhase::Pending, RunPhase::RolledBack),
        (RunPhase::Stopped, RunPhase::Stopping),
    ];
    for (from, to) in runs {
        assert!(!may_follow(RUN, from, to), "{from:?} to {to:?}");
    }
    for (from, to, _) in STAGE {
        assert!(!from.is_done() && *from != StagePhase::Failed, "{from:?} is final, and goes to {to:?}");
        assert_ne!(*to, StagePhase::Pending);
    }
    let stages = [
        (StagePhase::Pending, StagePhase::WaitingAfter),
        (StagePhase::Pending, StagePhase::Succeeded),
        (StagePhase::WaitingBefore, StagePhase::WaitingAfter),
        (StagePhase::WaitingBefore, StagePhase::Succeeded),
        (StagePhase::WaitingBefore, StagePhase::Failed),
        (StagePhase::Updating, StagePhase::WaitingBefore),
        (StagePhase::Updating, StagePhase::Skipped),
        (StagePhase::WaitingAfter, StagePhase::Updating),
    ];
    for (from, to) in stages {
        assert!(!may_follow(STAGE, from, to), "{from:?} to {to:?}");
    }
    let clusters = [
        (ClusterPhase::Pending, ClusterPhase::Failed),
        (ClusterPhase::Deferred, ClusterPhase::Failed),
        (ClusterPhase::Deferred, ClusterPhase::Pending),
        (ClusterPhase::Updating, ClusterPhase::Pending),
        (ClusterPhase::Failed, ClusterPhase::Updating),
    ];
    for (from, to) in clusters {
        assert!(!may_follow(CLUSTER, from, to), "{from:?} to {to:?}");
    }
    for done in [ClusterPhase::Succeeded, ClusterPhase::Skipped] {
        assert!(CLUSTER.iter().all(|(from, _, _)| *from != done), "{done:?} is final");
    }
}
