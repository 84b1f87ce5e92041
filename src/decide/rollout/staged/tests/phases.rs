//! Which phase may follow which, and that the drawings say the same.

use crate::rollout::staged::phases::{CLUSTER, RUN, RUN_GROUPS, STAGE};
use model::runs::{ClusterPhase, RunPhase, StagePhase};
use model::transitions::may_follow;
use testkit::drawn::{check_groups, check_once, check_ways, each};

#[test]
fn the_diagrams_are_the_tables() {
    check_ways("States of a run", &[RUN], RUN_GROUPS);
    check_ways("States of a stage", &[STAGE], &[]);
    check_ways("States of a cluster", &[CLUSTER], &[]);
    check_groups("States of a run", RUN_GROUPS);
}

#[test]
fn a_transition_is_listed_once_and_leads_elsewhere() {
    check_once(RUN);
    check_once(STAGE);
    check_once(CLUSTER);
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
