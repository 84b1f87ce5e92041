//! Messages of a run, as text for users.

use jiff::Timestamp;

use model::api::staged::StageTaskType;
use model::moment::moment;
use model::names::first_of;
use model::runs::{ClusterPhase, Gate, RunCluster, RunRecord, StageRecord, request_name};

use super::checks;
use super::gates::tally;
use super::machine::Situation;
use super::pass::{Place, after};

/// Clusters in a message; the others are counted.
pub(super) const NAMED_CLUSTERS_MAX: usize = 5;
/// Why a cluster was not started.
pub(super) const DEFERRED: &str = "offline or suspended at its turn; it moves when it returns";
/// Why an ended run leaves a cluster alone.
pub(super) const TAKEN: &str = "a newer run takes it";
/// Why a cluster was not removed.
pub(super) const HELD: &str = "the deletion gate is closed";
/// Why a run waits no longer for a removal.
pub(super) const KEPT: &str = "what is left there stays for other placements";

/// Returns `1 cluster`, `2 clusters`.
pub(super) fn clusters(count: usize) -> String {
    format!("{count} cluster{}", if count == 1 { "" } else { "s" })
}

/// Describes what a successful run left unfinished.
pub(super) fn succeeded(run: &RunRecord) -> String {
    let kinds = [
        (ClusterPhase::Failed, "failed, within the allowed failures"),
        (ClusterPhase::Deferred, "offline or suspended, updated when it returns"),
        (ClusterPhase::Pending, "to be tried again"),
        (ClusterPhase::Updating, "on the way"),
    ];
    let mut said = Vec::new();
    for (phase, what) in kinds {
        let all = run.stages.iter().chain(&run.deletion).flat_map(|stage| &stage.clusters);
        let names: Vec<&str> = all.filter(|cluster| cluster.phase == phase).map(|c| c.name.as_str()).collect();
        if !names.is_empty() {
            let count = clusters(names.len());
            said.push(format!("{count} {what} ({})", first_of(names.into_iter(), NAMED_CLUSTERS_MAX)));
        }
    }
    if said.is_empty() { "all stages are done".to_owned() } else { format!("all stages are done; {}", said.join("; ")) }
}

/// Describes what a stage with moving clusters waits for; `None` when its clusters are done: each is available, skipped,
/// offline, or failed within the limit. If only offline clusters are left it waits, because no cluster has succeeded.
pub(super) fn unfinished(stage: &StageRecord, situation: &Situation<'_>) -> Option<String> {
    use ClusterPhase::{Deferred, Failed, Skipped, Succeeded, Updating};
    let total = stage.clusters.len() - count_in(stage, Skipped);
    let deferred = count_in(stage, Deferred);
    let failed = count_in(stage, Failed);
    let updating = count_in(stage, Updating);
    let waiting = stage.clusters.iter().filter(|cluster| waits_for_its_turn(cluster, situation)).count();
    if total > 0 && deferred == total && waiting == 0 {
        let named = names_in(stage, Deferred);
        return Some(format!("stage {} waits: all its clusters are offline or suspended ({named})", stage.name));
    }
    if waiting == 0 && updating == 0 && failed <= situation.max_failures.of(stage.clusters.len()) {
        return None;
    }
    let mut said = format!("stage {}: {} of {} done", stage.name, count_in(stage, Succeeded), clusters(total));
    let others =
        [(Updating, updating, "on the way"), (Failed, failed, "failed"), (Deferred, deferred, "offline or suspended")];
    for (phase, count, what) in others {
        if count > 0 {
            said = format!("{said}, {count} {what} ({})", names_in(stage, phase));
        }
    }
    // Clusters have their turn and none moves: unavailable ones use up the concurrency.
    if updating == 0 && waiting > 0 {
        let unavailable =
            names(stage, |cluster| situation.clusters.get(&cluster.name).is_some_and(|seen| seen.unavailable));
        said = format!("{said}; waits for what an earlier run left unavailable ({unavailable})");
    }
    Some(said)
}

/// Describes what a closed gate waits for.
pub(super) fn gate(run: &str, stage: &StageRecord, gate: Gate, situation: &Situation<'_>, now: Timestamp) -> String {
    let (tasks, begin) = match gate {
        Gate::Before => (&stage.before, format!("stage {} has not begun", stage.name)),
        // Nothing moved here, but its tasks are asked all the same.
        Gate::After if stage.clusters.is_empty() => {
            (&stage.after, format!("stage {} has no cluster to update, and protects later ones", stage.name))
        }
        Gate::After => (&stage.after, format!("the clusters of stage {} are done", stage.name)),
    };
    let open = tasks.iter().filter(|task| task.done_at.is_none()).map(|task| match task.type_ {
        StageTaskType::Approval => format!(
            "approval {} ({} given)",
            request_name(run, &stage.name, gate),
            tally(task, &stage.digest, situation.rules, now)
        ),
        StageTaskType::TimedWait => match after(stage.since, task.wait.unwrap_or_default()) {
            Some(end) => moment(end),
            None => "a time that never comes".to_owned(),
        },
    });
    let checks = if gate == Gate::After { checks::awaited(stage, situation, now) } else { Vec::new() };
    let waits_for = open.chain(checks).collect::<Vec<_>>().join(" and ");
    match count_in(stage, ClusterPhase::Deferred) {
        0 => format!("{begin}; waits for {waits_for}"),
        deferred => {
            let named = names_in(stage, ClusterPhase::Deferred);
            format!("{begin}; waits for {waits_for}; {deferred} offline or suspended ({named})")
        }
    }
}

/// Describes the state of a run with unfinished removals; `None` when they are done.
pub(super) fn removals(stage: &StageRecord, situation: &Situation<'_>) -> Option<Place> {
    if stage.clusters.iter().any(|cluster| is_held(cluster, situation)) {
        let held = names(stage, |cluster| is_held(cluster, situation));
        return Some(Place::Gate(format!("removal from {held} waits for the deletion to be approved")));
    }
    if stage.clusters.iter().any(leaves) {
        return Some(Place::Moving(format!("removing from {}", names(stage, leaves))));
    }
    None
}

/// Tells whether the deletion gate protects a cluster to remove.
fn is_held(cluster: &RunCluster, situation: &Situation<'_>) -> bool {
    cluster.phase == ClusterPhase::Pending && situation.clusters.get(&cluster.name).is_some_and(|seen| seen.held)
}

/// Tells whether a cluster to remove has objects yet, and answers.
fn leaves(cluster: &RunCluster) -> bool {
    matches!(cluster.phase, ClusterPhase::Pending | ClusterPhase::Updating)
}

/// A deferred cluster that answers again moves before its stage is done.
fn waits_for_its_turn(cluster: &RunCluster, situation: &Situation<'_>) -> bool {
    match cluster.phase {
        ClusterPhase::Pending => true,
        ClusterPhase::Deferred => situation.clusters.get(&cluster.name).is_some_and(|seen| seen.online),
        _ => false,
    }
}

fn count_in(stage: &StageRecord, phase: ClusterPhase) -> usize {
    stage.clusters.iter().filter(|cluster| cluster.phase == phase).count()
}

fn names_in(stage: &StageRecord, phase: ClusterPhase) -> String {
    names(stage, |cluster| cluster.phase == phase)
}

fn names(stage: &StageRecord, which: impl Fn(&RunCluster) -> bool) -> String {
    first_of(stage.clusters.iter().filter(|c| which(c)).map(|cluster| cluster.name.as_str()), NAMED_CLUSTERS_MAX)
}
