//! Staged update runs as objects of KubeFleet's API: conditions from phases.
//!
//! The store keeps phases; this module derives conditions, reasons and approval requests from them at each call. Reasons are
//! KubeFleet's. gitfleet adds those for states that KubeFleet does not have: `UpdateRunHalted`, `ClusterUpdatingDeferred`,
//! `ClusterUpdatingSkipped`.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::objects::{PLACEMENT_API_VERSION, metadata, override_lists, scoped, value};
use decide::status::staged_run::{
    check_summaries, closed_gates, clusters_summary, current_stage, end_message, message_or, stuck_clusters,
};
use decide::status::work::{counted, listing};
use model::api::condition::{Condition, ConditionStatus};
use model::api::staged::{RunState, StageTaskType, StagedUpdateStrategySpec};
use model::conditions::{ConditionType, Reason};
use model::runs::{
    ClusterPhase, DELETION_STAGE, Gate, RunCluster, RunPhase, RunRecord, StagePhase, StageRecord, TaskRecord,
    request_name,
};

mod requests;

pub use requests::{approval_request_object, approval_request_objects, asked_approvals, deletion_gate_object};

/// Returns the side of a stage.
fn side(before: bool) -> Gate {
    if before { Gate::Before } else { Gate::After }
}

/// Returns the run as an object of KubeFleet's API, with conditions for every phase.
///
/// Only `UpdateRunStuck` depends on `now`.
///
/// Source: KubeFleet, update run status; the differences are in the module's documentation.
pub fn run_object(run: &RunRecord, now: Timestamp) -> Value {
    let key = &run.placement;
    let mut metadata = metadata(key.namespace.as_deref(), &run.name, Some(run.created_at));
    metadata.insert("generation".into(), run.generation.into());
    let mut spec = Map::new();
    spec.insert("placementName".into(), key.name.clone().into());
    if let Some(index) = run.wanted_snapshot {
        spec.insert("resourceSnapshotIndex".into(), index.to_string().into());
    }
    spec.insert("stagedRolloutStrategyName".into(), run.strategy.clone().into());
    spec.insert("state".into(), value(&run.state.unwrap_or(RunState::Run)));
    let mut status = Map::new();
    if let Some(frozen) = &run.frozen {
        status.insert("policySnapshotIndexUsed".into(), frozen.policy.to_string().into());
        status.insert("policyObservedClusterCount".into(), frozen.policy_clusters.into());
        status.insert("resourceSnapshotIndexUsed".into(), frozen.snapshot.to_string().into());
        status.insert("appliedStrategy".into(), value(&frozen.apply_strategy));
        status.insert("stagedUpdateStrategySnapshot".into(), strategy_copy(&frozen.strategy));
        let stages = run.stages.iter().map(|stage| stage_status(run, stage));
        status.insert("stagesStatus".into(), stages.collect());
        let deletion = run.deletion.as_ref().map(|stage| stage_status(run, stage));
        let deletion = deletion.unwrap_or_else(|| json!({"stageName": DELETION_STAGE, "clusters": []}));
        status.insert("deletionStageStatus".into(), deletion);
    }
    status.insert("conditions".into(), value(&run_conditions(run, now)));
    json!({
        "apiVersion": PLACEMENT_API_VERSION,
        "kind": scoped(key, "StagedUpdateRun"),
        "metadata": metadata,
        "spec": spec,
        "status": status,
    })
}

/// Returns the strategy with its durations as Go writes them.
fn strategy_copy(strategy: &StagedUpdateStrategySpec) -> Value {
    let mut copy = strategy.clone();
    for task in copy.stages.iter_mut().flat_map(|s| s.before_stage_tasks.iter_mut().chain(&mut s.after_stage_tasks)) {
        task.wait_time = task.wait().map(go_duration).or(task.wait_time.take());
    }
    value(&copy)
}

/// Returns a duration of at least a second, or none, as Go prints it: `1h0m0s`, `1m30s`, `1.5s`, `0s`.
///
/// Source: Go, `time.Duration.String`.
fn go_duration(duration: std::time::Duration) -> String {
    let seconds = duration.as_secs();
    let nanos = duration.subsec_nanos();
    let hours = seconds / 3600;
    let minutes = seconds / 60 % 60;
    let fraction = if nanos == 0 { String::new() } else { format!(".{nanos:09}").trim_end_matches('0').to_owned() };
    let rest = format!("{}{fraction}s", seconds % 60);
    match (hours, minutes) {
        (0, 0) => rest,
        (0, _) => format!("{minutes}m{rest}"),
        _ => format!("{hours}h{minutes}m{rest}"),
    }
}

/// Creates conditions with the run's generation as observed generation.
struct Says<'a>(&'a RunRecord);

impl Says<'_> {
    fn condition(
        &self,
        type_: ConditionType,
        status: ConditionStatus,
        reason: Reason,
        at: Timestamp,
        message: impl Into<String>,
    ) -> Condition {
        Condition::new(type_, status, reason, message, self.0.generation, at)
    }

    fn holds(&self, type_: ConditionType, reason: Reason, at: Timestamp, message: impl Into<String>) -> Condition {
        self.condition(type_, ConditionStatus::True, reason, at, message)
    }

    fn fails(&self, type_: ConditionType, reason: Reason, at: Timestamp, message: impl Into<String>) -> Condition {
        self.condition(type_, ConditionStatus::False, reason, at, message)
    }

    /// Returns the only condition of a stage that has not ended.
    fn progressing(&self, status: ConditionStatus, reason: Reason, at: Timestamp, message: String) -> Vec<Condition> {
        vec![self.condition(ConditionType::Progressing, status, reason, at, message)]
    }

    /// Returns the conditions of a stage that has ended.
    fn ended(&self, stage: &StageRecord, succeeded: ConditionStatus, reason: Reason, message: &str) -> Vec<Condition> {
        let at = stage.ended_at.unwrap_or(stage.since);
        vec![
            self.fails(ConditionType::Progressing, reason.clone(), at, message),
            self.condition(ConditionType::Succeeded, succeeded, reason, at, message),
        ]
    }

    fn started(&self, cluster: &RunCluster, message: impl Into<String>) -> Condition {
        let at = cluster.started_at.unwrap_or(cluster.since);
        self.holds(ConditionType::Started, Reason::ClusterUpdatingStarted, at, message)
    }
}

fn run_conditions(run: &RunRecord, now: Timestamp) -> Vec<Condition> {
    let says = Says(run);
    let mut conditions = vec![initialized(run)];
    conditions.extend(run_progressing(run));
    if matches!(run.phase, RunPhase::Updating | RunPhase::Stopping)
        && let Some((since, stuck)) = stuck_clusters(run, now)
    {
        let stage = current_stage(run).map(|stage| stage.name.as_str()).unwrap_or_default();
        let names = listing(stuck.iter().map(|cluster| cluster.name.to_string()));
        let message = format!("stage {stage}: on their way for more than 5 minutes: {names}");
        // It replaces the other one: a list has one condition of each type. `Initialized` is the first and stays.
        conditions.truncate(1);
        conditions.push(says.fails(ConditionType::Progressing, Reason::UpdateRunStuck, since, message));
    }
    match run.phase {
        RunPhase::Succeeded => {
            conditions.push(says.holds(
                ConditionType::Succeeded,
                Reason::UpdateRunSucceeded,
                run.since,
                message_or(run, "every stage is done"),
            ));
        }
        phase if phase.is_final() => {
            conditions.push(says.fails(ConditionType::Succeeded, Reason::UpdateRunFailed, run.since, end_message(run)));
        }
        _ => {}
    }
    conditions
}

/// Returns whether a run moves clusters, and why not; `None` before it begins.
fn run_progressing(run: &RunRecord) -> Option<Condition> {
    use ConditionStatus::{False, True, Unknown};
    let (status, reason, message) = match run.phase {
        RunPhase::Pending | RunPhase::Initialized => return None,
        RunPhase::Updating => (True, Reason::UpdateRunProgressing, message_or(run, "the run is under way")),
        RunPhase::Waiting => (False, Reason::UpdateRunWaiting, waiting_message(run)),
        RunPhase::Halted => (False, Reason::UpdateRunHalted, message_or(run, "too many clusters failed")),
        RunPhase::Stopping => (
            Unknown,
            Reason::UpdateRunStopping,
            message_or(run, "no further cluster is started; some are on their way"),
        ),
        RunPhase::Stopped => {
            (False, Reason::UpdateRunStopped, message_or(run, "stopped, and continues when its state says Run"))
        }
        RunPhase::Succeeded => (False, Reason::UpdateRunSucceeded, message_or(run, "every stage is done")),
        // KubeFleet has one reason for every end without success: the message says which one it was.
        RunPhase::Failed | RunPhase::Superseded | RunPhase::RolledBack | RunPhase::Rejected => {
            (False, Reason::UpdateRunFailed, end_message(run))
        }
    };
    Some(Says(run).condition(ConditionType::Progressing, status, reason, run.since, message))
}

fn initialized(run: &RunRecord) -> Condition {
    let says = Says(run);
    match &run.frozen {
        Some(frozen) => says.holds(
            ConditionType::Initialized,
            Reason::UpdateRunInitializedSuccessfully,
            frozen.at,
            format!("snapshot {} in {}", frozen.snapshot, counted(run.stages.len(), "stage")),
        ),
        None if run.refused => says.fails(
            ConditionType::Initialized,
            Reason::UpdateRunInitializedFailed,
            run.since,
            message_or(run, "the run cannot begin"),
        ),
        None => says.condition(
            ConditionType::Initialized,
            ConditionStatus::Unknown,
            Reason::UpdateRunNotInitializedYet,
            run.since,
            message_or(run, "the run has not begun"),
        ),
    }
}

fn waiting_message(run: &RunRecord) -> String {
    let mut waits = Vec::new();
    for gate in closed_gates(run) {
        let place = if gate.before { "before" } else { "after" };
        let stage = &gate.stage.name;
        waits.push(match gate.opens_at() {
            Some(at) => format!("{place} stage {stage}: waits until {at:.0}"),
            None => format!("{place} stage {stage}: waits for approval"),
        });
    }
    if let Some((stage, checks)) = run.waiting_checks() {
        for check in check_summaries(checks) {
            waits.push(format!("after stage {}: waits for {} ({})", stage.name, check.wanted, check.state));
        }
    }
    if waits.is_empty() { message_or(run, "a gate is closed") } else { listing(waits.into_iter()) }
}

fn stage_status(run: &RunRecord, stage: &StageRecord) -> Value {
    let mut status = Map::new();
    status.insert("stageName".into(), stage.name.clone().into());
    status.insert("clusters".into(), stage.clusters.iter().map(|cluster| cluster_status(run, cluster)).collect());
    for (field, before, tasks) in
        [("beforeStageTaskStatus", true, &stage.before), ("afterStageTaskStatus", false, &stage.after)]
    {
        if !tasks.is_empty() {
            status.insert(field.into(), tasks.iter().map(|task| task_status(run, stage, before, task)).collect());
        }
    }
    for (field, at) in [("startTime", stage.started_at), ("endTime", stage.ended_at)] {
        if let Some(at) = at {
            status.insert(field.into(), value(&at));
        }
    }
    let conditions = stage_conditions(run, stage);
    if !conditions.is_empty() {
        status.insert("conditions".into(), value(&conditions));
    }
    status.into()
}

fn stage_conditions(run: &RunRecord, stage: &StageRecord) -> Vec<Condition> {
    use ConditionStatus::{False, True, Unknown};
    let says = Says(run);
    let is_under_way =
        matches!(stage.phase, StagePhase::WaitingBefore | StagePhase::Updating | StagePhase::WaitingAfter);
    match (stage.phase, run.phase) {
        // The run goes first: its stage's own phase does not show that the run is stopping.
        (_, RunPhase::Stopping) if is_under_way => {
            says.progressing(Unknown, Reason::StageUpdatingStopping, run.since, clusters_summary(stage))
        }
        (_, RunPhase::Stopped) if is_under_way => {
            says.progressing(False, Reason::StageUpdatingStopped, run.since, clusters_summary(stage))
        }
        (_, RunPhase::Halted) if is_under_way => says.progressing(
            False,
            Reason::StageUpdatingWaiting,
            run.since,
            message_or(run, "too many clusters failed"),
        ),
        (StagePhase::Pending, _) => vec![],
        // The run ended at this gate, which nobody can open any more.
        (StagePhase::WaitingBefore, phase) if phase.is_final() => {
            says.ended(stage, False, Reason::StageUpdatingFailed, &end_message(run))
        }
        (StagePhase::WaitingBefore | StagePhase::WaitingAfter, _) => {
            says.progressing(False, Reason::StageUpdatingWaiting, stage.since, waiting_message(run))
        }
        (StagePhase::Updating, _) => {
            let at = stage.started_at.unwrap_or(stage.since);
            says.progressing(True, Reason::StageUpdatingStarted, at, clusters_summary(stage))
        }
        // Source: KubeFleet, whose deletion stage always runs, and succeeds without clusters too.
        (StagePhase::Skipped, _) if stage.name != DELETION_STAGE => {
            says.ended(stage, True, Reason::StageUpdatingSkippedNoClusters, "the stage has no clusters")
        }
        (StagePhase::Succeeded | StagePhase::Skipped, _) => {
            says.ended(stage, True, Reason::StageUpdatingSucceeded, &clusters_summary(stage))
        }
        (StagePhase::Failed, _) => says.ended(stage, False, Reason::StageUpdatingFailed, &end_message(run)),
    }
}

fn cluster_status(run: &RunRecord, cluster: &RunCluster) -> Value {
    let mut status = Map::new();
    status.insert("clusterName".into(), value(&cluster.name));
    let (namespaced, cluster_wide) = override_lists(&cluster.overrides);
    for (field, list) in [("resourceOverrideSnapshots", namespaced), ("clusterResourceOverrideSnapshots", cluster_wide)]
    {
        if !list.is_null() {
            status.insert(field.into(), list);
        }
    }
    let conditions = cluster_conditions(run, cluster);
    if !conditions.is_empty() {
        status.insert("conditions".into(), value(&conditions));
    }
    status.into()
}

fn cluster_conditions(run: &RunRecord, cluster: &RunCluster) -> Vec<Condition> {
    let says = Says(run);
    let began = "the update of the cluster began";
    match cluster.phase {
        ClusterPhase::Pending => vec![],
        ClusterPhase::Deferred => {
            let message = cluster_message_or(cluster, "the cluster does not answer; it is updated when it returns");
            vec![says.fails(ConditionType::Started, Reason::ClusterUpdatingDeferred, cluster.since, message)]
        }
        ClusterPhase::Skipped => {
            let message = cluster_message_or(cluster, "the cluster left; it is skipped");
            vec![says.fails(ConditionType::Started, Reason::ClusterUpdatingSkipped, cluster.since, message)]
        }
        ClusterPhase::Updating => vec![says.started(cluster, cluster_message_or(cluster, began))],
        ClusterPhase::Succeeded => {
            let done = cluster_message_or(cluster, "the cluster is done");
            vec![
                says.started(cluster, began),
                says.holds(ConditionType::Succeeded, Reason::ClusterUpdatingSucceeded, cluster.since, done),
            ]
        }
        ClusterPhase::Failed => {
            let failed = cluster_message_or(cluster, "the cluster failed");
            vec![
                says.started(cluster, began),
                says.fails(ConditionType::Succeeded, Reason::ClusterUpdatingFailed, cluster.since, failed),
            ]
        }
    }
}

/// Returns the message of a run's cluster; without one, `otherwise`.
pub(super) fn cluster_message_or(cluster: &RunCluster, otherwise: &str) -> String {
    if cluster.message.is_empty() { otherwise.to_owned() } else { cluster.message.clone() }
}

fn task_status(run: &RunRecord, stage: &StageRecord, before: bool, task: &TaskRecord) -> Value {
    let says = Says(run);
    let mut conditions = Vec::new();
    let mut status = Map::new();
    status.insert("type".into(), value(&task.type_));
    match task.type_ {
        StageTaskType::Approval => {
            status.insert("approvalRequestName".into(), request_name(&run.name, &stage.name, side(before)).into());
            if let Some(at) = task.asked_at.or(task.done_at) {
                let words = "a person is asked";
                conditions.push(says.holds(
                    ConditionType::ApprovalRequestCreated,
                    Reason::StageTaskApprovalRequestCreated,
                    at,
                    words,
                ));
            }
            if let Some(at) = task.done_at {
                let words = requests::approved_message(task);
                conditions.push(says.holds(
                    ConditionType::ApprovalRequestApproved,
                    Reason::StageTaskApprovalRequestApproved,
                    at,
                    words,
                ));
            }
        }
        StageTaskType::TimedWait => conditions.extend(task.done_at.map(|at| {
            says.holds(ConditionType::WaitTimeElapsed, Reason::AfterStageTaskWaitTimeElapsed, at, "the time has passed")
        })),
    }
    if !conditions.is_empty() {
        status.insert("conditions".into(), value(&conditions));
    }
    status.into()
}

#[cfg(test)]
mod tests;
