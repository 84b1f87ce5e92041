//! Where a staged run stands: its stage, its gates and the clusters that are stuck; and in which words people are told.

use jiff::{SignedDuration, Timestamp};

use super::work::counted;
use crate::api::staged::StageTaskType;
use crate::model::id::PlacementKey;
use crate::model::runs::{
    ClusterPhase, RunCluster, RunPhase, RunRecord, Runs, STUCK_AFTER, StagePhase, StageRecord, TaskRecord,
};

/// A task that is not done, of the stage whose turn it is.
#[derive(Clone, Copy, Debug)]
pub struct ClosedGate<'a> {
    /// The stage.
    pub stage: &'a StageRecord,
    /// Whether it stands before the stage's first cluster, or after its last.
    pub before: bool,
    /// The task.
    pub task: &'a TaskRecord,
}

impl ClosedGate<'_> {
    /// Returns when time alone opens it; `None` for an approval.
    pub fn opens_at(&self) -> Option<Timestamp> {
        let wait = SignedDuration::try_from(self.task.wait?).unwrap_or(SignedDuration::MAX);
        Some(self.stage.since.checked_add(wait).unwrap_or(Timestamp::MAX))
    }

    /// Returns since when it is waited for.
    pub fn since(&self) -> Timestamp {
        self.task.asked_at.unwrap_or(self.stage.since)
    }

    /// Tells whether a person opens it.
    pub fn is_approval(&self) -> bool {
        self.task.type_ == StageTaskType::Approval
    }
}

/// Returns the stage whose turn it is: the first that is not done, the deletion stage last.
pub fn current_stage(run: &RunRecord) -> Option<&StageRecord> {
    run.stages.iter().chain(&run.deletion).find(|stage| !stage.phase.is_done())
}

/// Returns the tasks that the run waits for now.
pub fn closed_gates(run: &RunRecord) -> Vec<ClosedGate<'_>> {
    let Some(stage) = current_stage(run).filter(|_| !run.phase.is_final()) else { return Vec::new() };
    let (before, tasks) = match stage.phase {
        StagePhase::WaitingBefore => (true, &stage.before),
        StagePhase::WaitingAfter => (false, &stage.after),
        _ => return Vec::new(),
    };
    let closed = tasks.iter().filter(|task| task.done_at.is_none());
    closed.map(|task| ClosedGate { stage, before, task }).collect()
}

/// Returns the run that moves a placement's clusters now: the first that has begun, else the first that is to begin.
pub fn active_run(runs: &Runs) -> Option<&RunRecord> {
    runs.values().filter(|run| !run.phase.is_final()).min_by_key(|run| (run.phase == RunPhase::Pending, run.sequence))
}

/// Returns the clusters that have been on their way for longer than [`STUCK_AFTER`], and since when the first has.
pub fn stuck_clusters(run: &RunRecord, now: Timestamp) -> Option<(Timestamp, Vec<&RunCluster>)> {
    let stage = current_stage(run)?;
    let end = |cluster: &RunCluster| cluster.started_at.and_then(|at| at.checked_add(STUCK_AFTER).ok());
    let late =
        |cluster: &&RunCluster| cluster.phase == ClusterPhase::Updating && end(cluster).is_some_and(|end| end < now);
    let stuck: Vec<_> = stage.clusters.iter().filter(late).collect();
    let since = stuck.iter().filter_map(|cluster| end(cluster)).min()?;
    Some((since, stuck))
}

/// Returns the name by which commands know something in a placement's namespace.
pub fn command_name(placement: &PlacementKey, name: &str) -> String {
    placement.namespace.as_ref().map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

/// Says how a run that did not succeed ended.
pub fn end_words(run: &RunRecord) -> String {
    said(
        run,
        match run.phase {
            RunPhase::Superseded => "a newer snapshot has a run of its own",
            RunPhase::RolledBack => "rolled back",
            RunPhase::Rejected => "rejected",
            _ => "the run cannot go on",
        },
    )
}

/// Says how far the clusters of a stage are.
pub fn clusters_words(stage: &StageRecord) -> String {
    let count = |phase| stage.clusters.iter().filter(|cluster| cluster.phase == phase).count();
    let mut words = format!("{} of {} done", count(ClusterPhase::Succeeded), counted(stage.clusters.len(), "cluster"));
    for (phase, state) in [
        (ClusterPhase::Failed, "failed"),
        (ClusterPhase::Deferred, "deferred while offline"),
        (ClusterPhase::Skipped, "skipped"),
    ] {
        if count(phase) > 0 {
            words.extend([", ", &count(phase).to_string(), " ", state]);
        }
    }
    words
}

/// Returns the run's own words, or others where it has none.
pub fn said(run: &RunRecord, otherwise: &str) -> String {
    if run.message.is_empty() { otherwise.to_owned() } else { run.message.clone() }
}
