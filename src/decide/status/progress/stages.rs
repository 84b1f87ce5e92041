//! The stages of a run, as the forge shows them.

use super::{counts, worst};
use crate::status::binding::settled_work;
use crate::status::placement::{PlacementView, why};
use crate::status::staged_run::{ClosedGate, asks, check_summaries, closed_gates, clusters_summary};
use crate::status::work::{is_available, named};
use model::id::ClusterName;
use model::moment::moment;
use model::progress::{ClusterProgress, GateProgress, ProgressState, StageProgress};
use model::runs::{ApprovalRules, ClusterPhase, DELETION_GATE, RunPhase, RunRecord, StagePhase, StageRecord};

/// Returns how many clusters of a stage are done.
pub(super) fn done(stage: &StageRecord) -> usize {
    stage.clusters.iter().filter(|cluster| cluster.phase == ClusterPhase::Succeeded).count()
}

/// Returns the stages of a run, the removals last if there are any. `way` is the state of the progress that shows the run.
pub(super) fn stages(
    view: &PlacementView,
    rules: ApprovalRules,
    run: &RunRecord,
    way: &ProgressState,
) -> Vec<StageProgress> {
    let gates = closed_gates(run);
    let removals = run.deletion.as_ref().filter(|stage| !stage.clusters.is_empty());
    let mut shown: Vec<StageProgress> = Vec::with_capacity(run.stages.len() + 1);
    for stage in run.stages.iter().chain(removals) {
        let is_asked = asks(view.record, run);
        let gate = gates.iter().find(|gate| is_asked && gate.stage.name == stage.name && gate.is_approval());
        shown.push(StageProgress {
            name: stage.name.clone(),
            state: stage_state(run, stage, way, gate.is_some()),
            message: message(run, stage, &gates),
            done: done(stage),
            total: stage.clusters.len(),
            started_at: stage.started_at,
            ended_at: stage.ended_at,
            gate: gate.map(|gate| gate_progress(view, rules, run, gate)),
            approved_by: approvers(stage),
            clusters: clusters(view, stage),
        });
    }
    // Commands name the removals by their gate.
    if removals.is_some()
        && let Some(last) = shown.last_mut()
    {
        DELETION_GATE.clone_into(&mut last.name);
    }
    shown
}

/// Returns the names of those who approved the tasks of a stage, each once.
fn approvers(stage: &StageRecord) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let approvals = stage.before.iter().chain(&stage.after).flat_map(|task| &task.approvals);
    for person in approvals.map(|approval| &approval.by.name) {
        if !names.contains(person) {
            names.push(person.clone());
        }
    }
    names
}

fn stage_state(run: &RunRecord, stage: &StageRecord, way: &ProgressState, asks: bool) -> ProgressState {
    use ProgressState as S;
    let is_taken_back = matches!(way, S::RolledBack { .. });
    let is_over = run.phase.is_final();
    let is_stopped = matches!(run.phase, RunPhase::Stopping | RunPhase::Stopped);
    match stage.phase {
        // A rollback takes back what finished stages delivered.
        StagePhase::Succeeded if is_taken_back => way.clone(),
        StagePhase::Succeeded => S::Done,
        StagePhase::Skipped => S::Skipped,
        StagePhase::Pending if is_over || is_taken_back => S::Skipped,
        StagePhase::Pending => S::Queued,
        // A run that has ended leaves its last stage as it is: the run's reason is also the stage's.
        StagePhase::Failed | StagePhase::Updating | StagePhase::WaitingBefore | StagePhase::WaitingAfter if is_over => {
            way.clone()
        }
        StagePhase::Failed => S::Failed,
        StagePhase::Updating | StagePhase::WaitingAfter if run.phase == RunPhase::Halted => S::Failed,
        _ if is_stopped => S::Paused,
        // Only one stage moves at a time: what the run waits for, it waits for there.
        StagePhase::Updating => match way {
            S::Waiting | S::Paused | S::WaitingForPerson => way.clone(),
            _ => S::Moving,
        },
        StagePhase::WaitingBefore | StagePhase::WaitingAfter if asks => S::WaitingForPerson,
        StagePhase::WaitingBefore | StagePhase::WaitingAfter => S::Waiting,
    }
}

fn message(run: &RunRecord, stage: &StageRecord, gates: &[ClosedGate]) -> String {
    let gates = gates.iter().filter(|gate| gate.stage.name == stage.name).map(|gate| {
        let place = if gate.before { "before it begins" } else { "before the next stage" };
        match gate.opens_at() {
            Some(at) => format!("waits until {} {place}", moment(at)),
            None => format!("waits for approval {place}"),
        }
    });
    let checks = run.waiting_checks().filter(|(waiting, _)| waiting.name == stage.name);
    let checks = checks.into_iter().flat_map(|(_, checks)| check_summaries(checks));
    let checks = checks.map(|check| format!("waits for {} ({})", check.wanted, check.state));
    let gates: Vec<String> = gates.chain(checks).collect();
    match stage.phase {
        StagePhase::Pending | StagePhase::Skipped | StagePhase::Succeeded => String::new(),
        // Why it is halted explains more than how far it got.
        StagePhase::Updating | StagePhase::WaitingAfter if run.phase == RunPhase::Halted => run.message.clone(),
        StagePhase::Updating => clusters_summary(stage),
        StagePhase::Failed => run.message.clone(),
        StagePhase::WaitingBefore | StagePhase::WaitingAfter => gates.join(" and "),
    }
}

fn gate_progress(view: &PlacementView, rules: ApprovalRules, run: &RunRecord, gate: &ClosedGate) -> GateProgress {
    let counted = gate.task.approvals.iter().filter(|a| a.digest == gate.stage.digest && counts(a, rules, view));
    GateProgress {
        stage: gate.stage.name.clone(),
        digest: gate.stage.digest.clone(),
        since: gate.since(),
        given: u32::try_from(counted.count()).unwrap_or(u32::MAX),
        required: rules.required.max(1),
        approvers: run.approvers.clone().or_else(|| view.record.approvers.clone()),
        owners: view.record.all_owners(),
        what: vec![],
    }
}

/// Returns the cluster lines of a stage: failed clusters, then those that move, then unreachable ones.
fn clusters(view: &PlacementView, stage: &StageRecord) -> Vec<ClusterProgress> {
    let mut lines = Vec::new();
    for cluster in &stage.clusters {
        let (place, progress) = match cluster.phase {
            ClusterPhase::Failed => (0, ProgressState::Failed),
            ClusterPhase::Updating => (1, ProgressState::Moving),
            ClusterPhase::Deferred => (2, ProgressState::Waiting),
            ClusterPhase::Pending | ClusterPhase::Succeeded | ClusterPhase::Skipped => continue,
        };
        let message = cluster.message.clone();
        lines.push((place, ClusterProgress { name: cluster.name.clone(), state: progress, message }));
    }
    let mut lines = worst(lines);
    for line in &mut lines {
        let words = match (&line.state, view.offline(&line.name)) {
            (ProgressState::Waiting, offline) => {
                offline.map(|c| format!("does not answer{}", why(c))).unwrap_or_default()
            }
            _ => blocked(view, &line.name),
        };
        // The message of a failed cluster may name these objects already.
        if !words.is_empty() && !line.message.contains(&words) {
            let before = if line.message.is_empty() { String::new() } else { format!("{}: ", line.message) };
            line.message = format!("{before}{words}");
        }
    }
    lines
}

/// Names the objects on a cluster that are not available, with the messages of the cluster.
pub(super) fn blocked(view: &PlacementView, cluster: &ClusterName) -> String {
    let Some(binding) = view.bindings().find(|binding| binding.cluster == *cluster && !binding.deleting) else {
        return String::new();
    };
    let work = settled_work(binding, view.work(cluster));
    work.map(|work| named(work.manifests.iter().filter(|manifest| !is_available(manifest)))).unwrap_or_default()
}
