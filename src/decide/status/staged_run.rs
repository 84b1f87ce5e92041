//! The state of a staged run: its stage, its gates and its stuck clusters; and the texts about them.

use jiff::{SignedDuration, Timestamp};

use super::work::counted;
use model::api::staged::StageTaskType;
use model::id::PlacementKey;
use model::moment::moment;
use model::records::PlacementRecord;
use model::runs::{
    ChecksRecord, ClusterPhase, MetricState, RunCluster, RunPhase, RunRecord, Runs, STUCK_AFTER, StagePhase,
    StageRecord, TaskRecord, number_text,
};

/// An unfinished task of the current stage.
#[derive(Clone, Copy, Debug)]
pub struct ClosedGate<'a> {
    /// The stage.
    pub stage: &'a StageRecord,
    /// Whether it protects the stage's first cluster, or follows its last.
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

    /// Returns since when the run waits for it.
    pub fn since(&self) -> Timestamp {
        self.task.asked_at.unwrap_or(self.stage.since)
    }

    /// Tells whether a person opens it.
    pub fn is_approval(&self) -> bool {
        self.task.type_ == StageTaskType::Approval
    }
}

/// Returns the current stage: the first unfinished one, the deletion stage last.
pub fn current_stage(run: &RunRecord) -> Option<&StageRecord> {
    run.stages.iter().chain(&run.deletion).find(|stage| !stage.phase.is_done())
}

/// Returns the tasks that the run waits for now.
pub fn closed_gates(run: &RunRecord) -> Vec<ClosedGate<'_>> {
    if run.phase.is_final() {
        return Vec::new();
    }
    let Some(stage) = current_stage(run) else { return Vec::new() };
    let (before, tasks) = match stage.phase {
        StagePhase::WaitingBefore => (true, &stage.before),
        StagePhase::WaitingAfter => (false, &stage.after),
        _ => return Vec::new(),
    };
    let closed = tasks.iter().filter(|task| task.done_at.is_none());
    closed.map(|task| ClosedGate { stage, before, task }).collect()
}

/// One check of a stage, as text for users. Neither text changes with each answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckSummary {
    /// What the stage waits for.
    pub wanted: String,
    /// Its state.
    pub state: String,
}

/// Describes the checks that a stage waits for.
pub fn check_summaries(checks: &ChecksRecord) -> Vec<CheckSummary> {
    let health = checks.given.healthy_for.iter().map(|time| CheckSummary {
        wanted: format!("its clusters to be available for {time}"),
        state: match checks.healthy_at() {
            Some(at) => format!("until {}", moment(at)),
            None => "a cluster is not available".to_owned(),
        },
    });
    let metrics = checks.metrics().map(|(check, state)| CheckSummary {
        wanted: format!("{} to be {}", check.name, check.limits()),
        state: match state {
            Some(MetricState { failed: Some(failed), .. }) => format!("it answers {}", number_text(failed.value)),
            Some(MetricState { problem: Some(why), .. }) => format!("no answer: {why}"),
            Some(MetricState { answer: Some(_), .. }) => "within its limits".to_owned(),
            _ => "not answered yet".to_owned(),
        },
    });
    health.chain(metrics).collect()
}

/// Tells whether the gates of a run ask somebody: what git removed continues when it comes back, and what a `state` stops when that says
/// Run. A pause ends by a command, so its gates can be opened meanwhile.
pub fn asks(record: &PlacementRecord, run: &RunRecord) -> bool {
    let is_stopped = matches!(run.phase, RunPhase::Initialized | RunPhase::Stopping | RunPhase::Stopped);
    !record.removed && (!is_stopped || record.paused.is_some())
}

/// Returns the run that moves a placement's clusters now: the first that has started, else the first that will.
pub fn active_run(runs: &Runs) -> Option<&RunRecord> {
    runs.values().filter(|run| !run.phase.is_final()).min_by_key(|run| (run.phase == RunPhase::Pending, run.sequence))
}

/// Returns the clusters that have been moving for longer than [`STUCK_AFTER`], and since when the first has.
pub fn stuck_clusters(run: &RunRecord, now: Timestamp) -> Option<(Timestamp, Vec<&RunCluster>)> {
    let stage = current_stage(run)?;
    let moving = stage.clusters.iter().filter(|cluster| cluster.phase == ClusterPhase::Updating);
    let stuck: Vec<_> = moving.filter(|cluster| stuck_since(cluster).is_some_and(|since| since < now)).collect();
    let first = stuck.iter().filter_map(|cluster| stuck_since(cluster)).min()?;
    Some((first, stuck))
}

/// Returns from when on a cluster that still moves counts as stuck.
fn stuck_since(cluster: &RunCluster) -> Option<Timestamp> {
    cluster.started_at?.checked_add(STUCK_AFTER).ok()
}

/// Returns the name that commands use for something in a placement's namespace.
pub fn command_name(placement: &PlacementKey, name: &str) -> String {
    placement.namespace.as_ref().map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

/// Returns the word that commands name a placement by: in full where a name `is_shared`.
pub fn placement_word(key: &PlacementKey, is_shared: bool) -> String {
    if is_shared { key.qualified() } else { key.to_string() }
}

/// Returns the word that commands name an unfinished run by: where a name `is_shared` that of its placement, which has only this one.
pub fn run_word(run: &RunRecord, is_shared: bool) -> String {
    if is_shared { run.placement.qualified() } else { command_name(&run.placement, &run.name) }
}

/// Returns the command that opens a gate, or asks again where the request has expired. It names the digest where the configuration
/// wants that, which the `record` says, and where a name `is_shared`, because the placement may have another run when it is copied.
pub fn approve_line(run: &RunRecord, gate: &ClosedGate, record: Option<&PlacementRecord>, is_shared: bool) -> String {
    if gate.task.expired {
        return format!("gitfleet retry {}", run_word(run, is_shared));
    }
    let has_digest = is_shared || record.is_some_and(|record| record.digest_required);
    let digest = if has_digest { format!(" --digest {}", gate.stage.digest.short()) } else { String::new() };
    format!("gitfleet approve {} {}{digest}", run_word(run, is_shared), gate.stage.name)
}

/// Describes how an unsuccessful run ended.
pub fn end_message(run: &RunRecord) -> String {
    message_or(
        run,
        match run.phase {
            RunPhase::Superseded => "a newer snapshot has a run of its own",
            RunPhase::RolledBack => "rolled back",
            RunPhase::Rejected => "rejected",
            _ => "the run cannot continue",
        },
    )
}

/// Describes the progress of a stage's clusters.
pub fn clusters_summary(stage: &StageRecord) -> String {
    let total = counted(stage.clusters.len(), "cluster");
    let mut text = format!("{} of {total} done", count_in(stage, ClusterPhase::Succeeded));
    for (phase, state) in [
        (ClusterPhase::Failed, "failed"),
        (ClusterPhase::Deferred, "deferred while offline"),
        (ClusterPhase::Skipped, "skipped"),
    ] {
        let count = count_in(stage, phase);
        if count > 0 {
            text = format!("{text}, {count} {state}");
        }
    }
    text
}

/// Returns how many clusters of a stage are in a phase.
fn count_in(stage: &StageRecord, phase: ClusterPhase) -> usize {
    stage.clusters.iter().filter(|cluster| cluster.phase == phase).count()
}

/// Returns the run's message, or `otherwise` if it has none.
pub fn message_or(run: &RunRecord, otherwise: &str) -> String {
    if run.message.is_empty() { otherwise.to_owned() } else { run.message.clone() }
}
