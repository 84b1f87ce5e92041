//! The running rollouts that a merge stops.

use decide::state::PlacementState;
use decide::status::staged_run::{active_run, current_stage};
use decide::status::work::counted;
use model::api::annotations::WHEN_SUPERSEDED;
use model::encrypted::is_of_encrypted;
use model::records::{Binding, ResourceSnapshot, SnapshotResource};
use model::runs::{RunCause, RunRecord};

/// Describes that an active rollout of a placement gets another target; `None` if none is stopped.
pub(super) fn stops(before: &PlacementState, after: &PlacementState) -> Option<String> {
    let on_its_way = before.newest()?;
    // By content: a merge that changes none of its objects makes no new snapshot, and stops nothing.
    let is_new = after.record.removed || after.newest().map(|newest| &newest.hash) != Some(&on_its_way.hash);
    let run = active_run(&before.runs);
    let waits = after.record.annotations.get(WHEN_SUPERSEDED).is_some_and(|value| value == "Queue");
    // Only its author stops a written run.
    let continues = run.is_some_and(|run| waits || matches!(run.cause, RunCause::Written { .. }));
    if !is_new || before.record.removed || (continues && !after.record.removed) {
        return None;
    }
    let bindings: Vec<&Binding> = before.bindings().filter(|binding| !binding.deleting).collect();
    let there = bindings.iter().filter(|binding| binding.snapshot == Some(on_its_way.index)).count();
    let left = bindings.len() - there;
    // Every cluster has the snapshot and no run is open: there is nothing to stop.
    if left == 0 && run.is_none() {
        return None;
    }
    let standing: Vec<String> = [format!("{there} of {} have it", counted(bindings.len(), "cluster"))]
        .into_iter()
        .chain(run.and_then(current_stage).map(|stage| format!("at stage {}", stage.name)))
        .chain(
            run.map(approved).filter(|tasks| *tasks > 0).map(|tasks| format!("{} given", counted(tasks, "approval"))),
        )
        .collect();
    let stage = run.and_then(|run| run.stages.first()).map(|stage| format!(" at stage {}", stage.name));
    let then = if after.record.removed {
        " and removes it".to_owned()
    } else {
        format!(" and begins again{}", stage.unwrap_or_default())
    };
    let commit = on_its_way.commit.short();
    let never = match left {
        0 => String::new(),
        1 => format!("; 1 cluster never gets {commit}"),
        left => format!("; {left} clusters never get {commit}"),
    };
    let key = &before.record.key;
    let unless = match after.newest() {
        Some(newest) if !after.record.removed && is_only_encrypted_otherwise(on_its_way, newest) => {
            ", unless only keys of encrypted objects changed"
        }
        _ => "",
    };
    Some(format!("Merging stops the running rollout of {key} ({}){then}{never}{unless}", standing.join(", ")))
}

/// Tells whether two snapshots differ in encrypted objects alone. A plan decrypts nothing, so it cannot say whether their values differ.
fn is_only_encrypted_otherwise(one: &ResourceSnapshot, other: &ResourceSnapshot) -> bool {
    let mut pairs = one.resources.iter().zip(&other.resources);
    one.resources.len() == other.resources.len() && pairs.all(|(one, other)| is_like(one, other))
}

fn is_like(one: &SnapshotResource, other: &SnapshotResource) -> bool {
    let is_encrypted = is_of_encrypted(one.digest.as_str()) && is_of_encrypted(other.digest.as_str());
    one.id == other.id && (one.digest == other.digest || is_encrypted)
}

/// Counts the approvals in a run.
fn approved(run: &RunRecord) -> usize {
    let tasks = run.stages.iter().flat_map(|stage| stage.before.iter().chain(&stage.after));
    tasks.filter(|task| task.done_at.is_some() && !task.approvals.is_empty()).count()
}
