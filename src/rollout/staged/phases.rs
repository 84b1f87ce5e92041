//! Which phase may follow which: of a run, of a stage, of a cluster. Nobody sets a phase but through this file.

use jiff::Timestamp;

use crate::model::runs::{ClusterPhase, RunCluster, RunPhase, RunRecord, StagePhase, StageRecord};

/// What may follow what, and when.
pub type Transitions<P> = &'static [(P, P, &'static str)];

/// Phases of a run. The diagram in docs/rollouts.md is this table.
pub const RUN: Transitions<RunPhase> = {
    use RunPhase::{
        Failed, Halted, Initialized, Pending, Rejected, RolledBack, Stopped, Stopping, Succeeded, Superseded, Updating,
        Waiting,
    };
    &[
        (Pending, Initialized, "prepared, and state: Initialize is written"),
        (Pending, Updating, "prepared"),
        (Pending, Waiting, "prepared, and the first stage has a closed gate"),
        (Pending, Stopped, "prepared while stopped or paused"),
        (Pending, Succeeded, "prepared, and nothing is to be done"),
        (Pending, Failed, "what it needs is gone"),
        (Pending, Superseded, "a newer run takes over"),
        (Initialized, Updating, "state: Run"),
        (Initialized, Waiting, "state: Run, and the first stage has a closed gate"),
        (Initialized, Stopped, "stopped or paused"),
        (Initialized, Succeeded, "state: Run, and nothing is to be done"),
        (Initialized, Failed, "what it needs is gone"),
        (Initialized, Superseded, "a newer run takes over"),
        (Updating, Waiting, "a gate is closed"),
        (Updating, Halted, "more clusters of a stage failed than may"),
        (Updating, Stopping, "stopped or paused, clusters on their way"),
        (Updating, Stopped, "stopped or paused, none on its way"),
        (Updating, Succeeded, "all stages are done"),
        (Updating, Failed, "what it needs is gone"),
        (Updating, Superseded, "a newer run takes over"),
        (Updating, RolledBack, "a rollback takes its clusters over"),
        (Waiting, Updating, "the gate is open"),
        (Waiting, Halted, "more clusters of a stage failed than may"),
        (Waiting, Stopping, "stopped or paused, clusters on their way"),
        (Waiting, Stopped, "stopped or paused, none on its way"),
        (Waiting, Succeeded, "the last gate is open"),
        (Waiting, Failed, "what it needs is gone"),
        (Waiting, Superseded, "a newer run takes over"),
        (Waiting, RolledBack, "a rollback takes its clusters over"),
        (Waiting, Rejected, "a person said no"),
        (Halted, Updating, "failed clusters recovered or are tried again"),
        (Halted, Waiting, "failed clusters recovered, and a gate is closed"),
        (Halted, Stopping, "stopped or paused, clusters on their way"),
        (Halted, Stopped, "stopped or paused, none on its way"),
        (Halted, Succeeded, "failed clusters recovered, and nothing is left"),
        (Halted, Failed, "what it needs is gone"),
        (Halted, Superseded, "a newer run takes over"),
        (Halted, RolledBack, "a rollback takes its clusters over"),
        (Halted, Rejected, "a person said no"),
        (Stopping, Updating, "resumed"),
        (Stopping, Waiting, "resumed, and a gate is closed"),
        (Stopping, Halted, "resumed, and too many clusters failed"),
        (Stopping, Stopped, "none is on its way any more"),
        (Stopping, Succeeded, "the last cluster arrived"),
        (Stopping, Failed, "what it needs is gone"),
        (Stopping, Superseded, "a newer run takes over"),
        (Stopping, RolledBack, "a rollback takes its clusters over"),
        (Stopping, Rejected, "a person said no"),
        (Stopped, Updating, "resumed"),
        (Stopped, Waiting, "resumed, and a gate is closed"),
        (Stopped, Halted, "resumed, and too many clusters failed"),
        (Stopped, Succeeded, "resumed, and nothing is left"),
        (Stopped, Failed, "what it needs is gone"),
        (Stopped, Superseded, "a newer run takes over"),
        (Stopped, RolledBack, "a rollback takes its clusters over"),
        (Stopped, Rejected, "a person said no"),
    ]
};

/// Phases of a stage. The diagram in docs/rollouts.md is this table.
///
/// A stage that waits for an approval before it begins stays in that phase when its run ends: it was never reached.
pub const STAGE: Transitions<StagePhase> = {
    use StagePhase::{Failed, Pending, Skipped, Succeeded, Updating, WaitingAfter, WaitingBefore};
    &[
        (Pending, Skipped, "its turn, and it has no clusters"),
        (Pending, WaitingBefore, "its turn, and it needs an approval first"),
        (Pending, Updating, "its turn"),
        (WaitingBefore, Updating, "approved"),
        (WaitingBefore, Skipped, "all its clusters left"),
        (Updating, WaitingAfter, "its clusters are done, tasks are left"),
        (Updating, Succeeded, "its clusters are done"),
        (Updating, Failed, "the run ended"),
        (WaitingAfter, Succeeded, "all tasks after it are done"),
        (WaitingAfter, Failed, "the run ended"),
    ]
};

/// Phases of a cluster in a run. The diagram in docs/rollouts.md is this table. All of it may happen after the run has ended,
/// too: see [`catch_up`](super::catch_up).
pub const CLUSTER: Transitions<ClusterPhase> = {
    use ClusterPhase::{Deferred, Failed, Pending, Skipped, Succeeded, Updating};
    &[
        (Pending, Updating, "its turn"),
        (Pending, Deferred, "its turn, and it is offline or suspended"),
        (Pending, Succeeded, "its turn, and it is right already"),
        (Pending, Skipped, "it left, or a newer run takes it"),
        (Deferred, Updating, "it returned"),
        (Deferred, Succeeded, "it is right already"),
        (Deferred, Skipped, "it left, or a newer run takes it"),
        (Updating, Succeeded, "available, or removed"),
        (Updating, Failed, "it failed, or its deadline passed"),
        (Updating, Deferred, "it was lost while it was to remove everything"),
        (Updating, Skipped, "it left, or another run took it over"),
        (Failed, Succeeded, "it recovered"),
        (Failed, Pending, "it is tried again"),
        (Failed, Skipped, "it left the fleet or the placement"),
    ]
};

/// Tells whether a phase may follow another.
pub fn may_follow<P: PartialEq + Copy>(table: Transitions<P>, from: P, to: P) -> bool {
    table.iter().any(|(before, after, _)| (*before, *after) == (from, to))
}

/// Brings a run into a phase; says whether it was in another before. In the same one only the message is new.
pub fn enter_run(run: &mut RunRecord, phase: RunPhase, message: impl Into<String>, now: Timestamp) -> bool {
    run.message = message.into();
    if run.phase == phase {
        return false;
    }
    debug_assert!(may_follow(RUN, run.phase, phase), "a run went from {:?} to {phase:?}", run.phase);
    (run.phase, run.since, run.refused) = (phase, now, false);
    true
}

/// Ends a run that does not end by itself: it failed, was superseded, rolled back or rejected. The stage it is in ends with
/// it; clusters on their way stay as they are, and [`catch_up`](super::catch_up) says what becomes of them.
pub fn end_run(run: &mut RunRecord, phase: RunPhase, message: impl Into<String>, now: Timestamp) {
    enter_run(run, phase, message, now);
    for stage in run.stages.iter_mut().chain(&mut run.deletion) {
        match stage.phase {
            StagePhase::Updating | StagePhase::WaitingAfter => enter_stage(stage, StagePhase::Failed, now),
            StagePhase::WaitingBefore => stage.ended_at = Some(now),
            StagePhase::Pending | StagePhase::Succeeded | StagePhase::Skipped | StagePhase::Failed => {}
        }
    }
}

/// Brings a stage into a phase it is not in, and keeps its times.
pub(super) fn enter_stage(stage: &mut StageRecord, phase: StagePhase, now: Timestamp) {
    debug_assert!(may_follow(STAGE, stage.phase, phase), "a stage went from {:?} to {phase:?}", stage.phase);
    (stage.phase, stage.since) = (phase, now);
    if phase == StagePhase::Skipped {
        stage.started_at = Some(now);
    }
    if phase.is_done() || phase == StagePhase::Failed {
        stage.ended_at = Some(now);
    }
}

/// Brings a cluster into a phase it is not in, and keeps when it was told to move.
pub(super) fn enter_cluster(cluster: &mut RunCluster, phase: ClusterPhase, message: impl Into<String>, now: Timestamp) {
    debug_assert!(may_follow(CLUSTER, cluster.phase, phase), "a cluster went from {:?} to {phase:?}", cluster.phase);
    (cluster.phase, cluster.since, cluster.message) = (phase, now, message.into());
    match phase {
        ClusterPhase::Updating => cluster.started_at = Some(now),
        ClusterPhase::Pending => cluster.started_at = None,
        _ => {}
    }
}
