//! Which phase may follow which, and that the drawings say the same.

use std::fmt::Debug;

use crate::model::runs::{ClusterPhase, RunPhase, StagePhase};
use crate::rollout::staged::phases::{CLUSTER, RUN, RUN_GROUPS, STAGE, Transitions, may_follow};

const DRAWN: &str = include_str!("../../../../docs/rollouts.md");

/// Returns the diagram under a heading, as it is drawn.
fn drawn(heading: &str) -> &'static str {
    let section = DRAWN.split("\n## ").find(|section| section.starts_with(heading)).expect(heading);
    section.split("```mermaid\nstateDiagram-v2\n").nth(1).expect(heading).split("```").next().unwrap()
}

/// A group of phases is drawn as one; others each for itself.
fn check<P: Debug + PartialEq>(heading: &str, table: Transitions<P>, groups: &[(&str, &[P])]) {
    let mut expected = Vec::new();
    for (from, to, when) in table {
        let group = groups.iter().find(|(_, phases)| phases == from).map(|(name, _)| vec![(*name).to_owned()]);
        let from = group.unwrap_or_else(|| from.iter().map(|phase| format!("{phase:?}")).collect());
        expected.extend(from.iter().map(|from| format!("{from} --> {to:?}: {when}")));
    }
    let edges = drawn(heading).lines().map(str::trim).filter(|line| line.contains("-->") && !line.contains("[*]"));
    let edges: Vec<&str> = edges.collect();
    assert_eq!(edges, expected, "docs/rollouts.md, {heading}; it should say\n    {}\n", expected.join("\n    "));
}

#[test]
fn the_diagrams_are_the_tables() {
    check("States of a run", RUN, RUN_GROUPS);
    check("States of a stage", STAGE, &[]);
    check("States of a cluster", CLUSTER, &[]);
}

#[test]
fn the_groups_are_drawn_around_their_phases() {
    let mut open: Vec<&str> = Vec::new();
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in drawn("States of a run").lines().map(str::trim).take_while(|line| !line.contains("-->")) {
        match (line.strip_prefix("state ").and_then(|line| line.strip_suffix(" {")), line) {
            (Some(name), _) => {
                open.push(name);
                found.push((name, Vec::new()));
            }
            (None, "}") => drop(open.pop()),
            (None, phase) => {
                found.iter_mut().filter(|(name, _)| open.contains(name)).for_each(|(_, phases)| phases.push(phase));
            }
        }
    }
    let name = |phase: &RunPhase| format!("{phase:?}");
    let expected: Vec<_> =
        RUN_GROUPS.iter().map(|(group, phases)| (*group, phases.iter().map(name).collect::<Vec<_>>())).collect();
    let found: Vec<_> = found
        .into_iter()
        .map(|(group, phases)| (group, phases.into_iter().map(str::to_owned).collect::<Vec<_>>()))
        .collect();
    assert_eq!(found, expected);
}

/// Returns every transition of a table by itself.
fn each<P: Copy>(table: Transitions<P>) -> impl Iterator<Item = (P, P)> {
    table.iter().flat_map(|(from, to, _)| from.iter().map(|from| (*from, *to)))
}

#[test]
fn a_transition_is_listed_once_and_leads_elsewhere() {
    fn once<P: PartialEq + Copy + Debug>(table: Transitions<P>) {
        let all: Vec<(P, P)> = each(table).collect();
        for (index, (from, to)) in all.iter().enumerate() {
            assert!(from != to && !all[..index].contains(&(*from, *to)), "{from:?} {to:?}");
        }
    }
    once(RUN);
    once(STAGE);
    once(CLUSTER);
}

#[test]
fn forbidden_transitions() {
    for (from, to) in each(RUN) {
        assert!(!from.is_final(), "{from:?} is final, and goes to {to:?}");
        assert_ne!(to, RunPhase::Pending, "what was prepared stays so");
        assert!(to != RunPhase::Initialized || from == RunPhase::Pending, "a run that went cannot be only prepared");
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
    for (from, to) in each(STAGE) {
        assert!(!from.is_done() && from != StagePhase::Failed, "{from:?} is final, and goes to {to:?}");
        assert_ne!(to, StagePhase::Pending);
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
        assert!(each(CLUSTER).all(|(from, _)| from != done), "{done:?} is final");
    }
}
