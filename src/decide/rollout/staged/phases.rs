//! The allowed transitions between phases: of a run, of a stage, of a cluster. Only this file sets phases.

use jiff::Timestamp;

use model::runs::{ClusterPhase, RunCluster, RunPhase, RunRecord, StagePhase, StageRecord};
use model::transitions::{Transitions, may_follow};

/// Groups of a run's phases, outer ones first: transitions of a whole group are listed, and drawn, once.
pub const RUN_GROUPS: &[(&str, &[RunPhase])] = &[
    ("Unfinished", UNFINISHED),
    ("NotBegun", NOT_BEGUN),
    ("UnderWay", UNDER_WAY),
    ("Running", RUNNING),
    ("Interrupted", INTERRUPTED),
];
const NOT_BEGUN: &[RunPhase] = &[RunPhase::Pending, RunPhase::Initialized];
const RUNNING: &[RunPhase] = &[RunPhase::Updating, RunPhase::Waiting, RunPhase::Halted];
const INTERRUPTED: &[RunPhase] = &[RunPhase::Stopping, RunPhase::Stopped];
const UNDER_WAY: &[RunPhase] =
    &[RunPhase::Updating, RunPhase::Waiting, RunPhase::Halted, RunPhase::Stopping, RunPhase::Stopped];
const UNFINISHED: &[RunPhase] = &[
    RunPhase::Pending,
    RunPhase::Initialized,
    RunPhase::Updating,
    RunPhase::Waiting,
    RunPhase::Halted,
    RunPhase::Stopping,
    RunPhase::Stopped,
];

/// Phases of a run. The diagram in docs/rollouts.md is this table.
pub const RUN: Transitions<RunPhase> = {
    use RunPhase::{
        Failed, Halted, Initialized, Pending, Rejected, RolledBack, Stopped, Stopping, Succeeded, Superseded, Updating,
        Waiting,
    };
    &[
        (&[Pending], Initialized, "prepared, and state: Initialize is written"),
        (NOT_BEGUN, Updating, "it begins"),
        (NOT_BEGUN, Waiting, "it begins, and the first stage has a closed gate"),
        (NOT_BEGUN, Halted, "more clusters failed before with the same content than may"),
        (NOT_BEGUN, Stopped, "stopped or paused"),
        (NOT_BEGUN, Succeeded, "nothing is to be done"),
        (&[Updating], Waiting, "a gate is closed"),
        (&[Waiting], Updating, "the gate is open"),
        (&[Updating, Waiting], Halted, "more clusters of a stage failed than may, or a check did"),
        (&[Halted], Updating, "what failed recovered or is tried again"),
        (&[Halted], Waiting, "what failed recovered or is tried again, and a gate is closed"),
        (RUNNING, Stopping, "stopped or paused, clusters on their way"),
        (RUNNING, Stopped, "stopped or paused, none on its way"),
        (&[Stopping], Stopped, "none is on its way any more"),
        (INTERRUPTED, Updating, "resumed"),
        (INTERRUPTED, Waiting, "resumed, and a gate is closed"),
        (INTERRUPTED, Halted, "resumed, and too many clusters failed, or a check did"),
        (UNDER_WAY, Succeeded, "all stages are done"),
        (UNDER_WAY, RolledBack, "a rollback takes its clusters over"),
        (&[Waiting, Halted, Stopping, Stopped], Rejected, "a person said no"),
        (UNFINISHED, Failed, "what it needs is gone"),
        (UNFINISHED, Superseded, "a newer run takes over"),
    ]
};

/// Phases of a stage. The diagram in docs/rollouts.md is this table.
///
/// A stage that waits for an approval before its start stays in that phase when its run ends: it was never reached.
pub const STAGE: Transitions<StagePhase> = {
    use StagePhase::{Failed, Pending, Skipped, Succeeded, Updating, WaitingAfter, WaitingBefore};
    &[
        (&[Pending], Skipped, "its turn, and it has no clusters"),
        (&[Pending], WaitingBefore, "its turn, and it needs an approval first"),
        (&[Pending], Updating, "its turn"),
        (&[WaitingBefore], Updating, "approved"),
        (&[WaitingBefore], Skipped, "all its clusters left"),
        (&[Updating], WaitingAfter, "its clusters are done, tasks or checks are left"),
        (&[Updating], Succeeded, "its clusters are done"),
        (&[WaitingAfter], Succeeded, "all tasks after it are done, and its checks hold"),
        (&[Updating, WaitingAfter], Failed, "the run ended"),
    ]
};

/// Phases of a cluster in a run. The diagram in docs/rollouts.md is this table. All transitions may also happen after the run
/// has ended: see [`catch_up`](super::catch_up).
pub const CLUSTER: Transitions<ClusterPhase> = {
    use ClusterPhase::{Deferred, Failed, Pending, Skipped, Succeeded, Updating};
    &[
        (&[Pending], Updating, "its turn"),
        (&[Pending], Deferred, "its turn, and it is offline or suspended"),
        (&[Pending, Deferred], Succeeded, "it is right already"),
        (&[Deferred], Updating, "it returned"),
        (&[Updating], Succeeded, "available, or removed"),
        (&[Updating], Failed, "it failed, or its deadline passed"),
        (&[Updating], Deferred, "it was lost while it was to remove everything"),
        (&[Failed], Succeeded, "it recovered"),
        (&[Failed], Pending, "it is tried again"),
        (&[Pending, Deferred, Updating, Failed], Skipped, "it left, or another run takes it"),
    ]
};

/// Brings a run into a phase; says whether it was in another before. In the same one only the message is new.
pub fn enter_run(run: &mut RunRecord, phase: RunPhase, message: impl Into<String>, now: Timestamp) -> bool {
    run.message = message.into();
    if run.phase == phase {
        return false;
    }
    debug_assert!(may_follow(RUN, run.phase, phase), "a run went from {:?} to {phase:?}", run.phase);
    run.phase = phase;
    run.since = now;
    run.refused = false;
    true
}

/// Ends a run from outside: it failed, was superseded, rolled back or rejected. Its current stage ends with it; moving clusters
/// stay as they are, and [`catch_up`](super::catch_up) completes them.
pub fn end_run(run: &mut RunRecord, phase: RunPhase, message: impl Into<String>, now: Timestamp) {
    enter_run(run, phase, message, now);
    for stage in run.stages.iter_mut().chain(&mut run.deletion) {
        match stage.phase {
            StagePhase::Updating | StagePhase::WaitingAfter => enter_stage(stage, StagePhase::Failed, now),
            // As Failed it would count as reached, and its clusters as updated by this run.
            StagePhase::WaitingBefore => stage.ended_at = Some(now),
            StagePhase::Pending | StagePhase::Succeeded | StagePhase::Skipped | StagePhase::Failed => {}
        }
    }
}

/// Sets a different phase of a stage, and keeps its times.
pub(super) fn enter_stage(stage: &mut StageRecord, phase: StagePhase, now: Timestamp) {
    debug_assert!(may_follow(STAGE, stage.phase, phase), "a stage went from {:?} to {phase:?}", stage.phase);
    stage.phase = phase;
    stage.since = now;
    if phase == StagePhase::Skipped {
        stage.started_at = Some(now);
    }
    if phase.is_done() || phase == StagePhase::Failed {
        stage.ended_at = Some(now);
    }
}

/// Sets a different phase of a cluster, and keeps its start.
pub(super) fn enter_cluster(cluster: &mut RunCluster, phase: ClusterPhase, message: impl Into<String>, now: Timestamp) {
    debug_assert!(may_follow(CLUSTER, cluster.phase, phase), "a cluster went from {:?} to {phase:?}", cluster.phase);
    cluster.phase = phase;
    cluster.since = now;
    cluster.message = message.into();
    match phase {
        ClusterPhase::Updating => cluster.started_at = Some(now),
        ClusterPhase::Pending => cluster.started_at = None,
        _ => {}
    }
}
