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
    let in_phase = |phase: ClusterPhase| -> Vec<&str> {
        let all = run.stages.iter().chain(&run.deletion).flat_map(|stage| &stage.clusters);
        all.filter(|cluster| cluster.phase == phase).map(|cluster| cluster.name.as_str()).collect()
    };
    let kinds = [
        (ClusterPhase::Failed, "failed, within the allowed failures"),
        (ClusterPhase::Deferred, "offline or suspended, updated when it returns"),
        (ClusterPhase::Pending, "to be tried again"),
        (ClusterPhase::Updating, "on the way"),
    ];
    let said = kinds.iter().filter_map(|(phase, what)| {
        let these = in_phase(*phase);
        let named = first_of(these.iter().copied(), NAMED_CLUSTERS_MAX);
        (!these.is_empty()).then(|| format!("{} {what} ({named})", clusters(these.len())))
    });
    let said: Vec<String> = said.collect();
    if said.is_empty() { "all stages are done".to_owned() } else { format!("all stages are done; {}", said.join("; ")) }
}

/// Describes what a stage with moving clusters waits for; `None` when its clusters are done: each is available, skipped,
/// offline, or failed within the limit. If only offline clusters are left it waits, because no cluster has succeeded.
pub(super) fn unfinished(stage: &StageRecord, situation: &Situation<'_>) -> Option<String> {
    use ClusterPhase::{Deferred, Failed, Pending, Skipped, Succeeded, Updating};
    let count = |phase| stage.clusters.iter().filter(|cluster| cluster.phase == phase).count();
    let total = stage.clusters.len() - count(Skipped);
    let deferred = count(Deferred);
    let failed = count(Failed);
    let updating = count(Updating);
    // A deferred cluster that answers again moves before its stage is done.
    let waits = |cluster: &&RunCluster| {
        let is_back = || situation.clusters.get(&cluster.name).is_some_and(|seen| seen.online);
        cluster.phase == Pending || (cluster.phase == Deferred && is_back())
    };
    let named = |phase| names(stage, |cluster| cluster.phase == phase);
    let waiting = stage.clusters.iter().filter(waits).count();
    if total > 0 && deferred == total && waiting == 0 {
        return Some(format!(
            "stage {} waits: all its clusters are offline or suspended ({})",
            stage.name,
            named(Deferred)
        ));
    }
    if waiting == 0 && updating == 0 && failed <= situation.max_failures.of(stage.clusters.len()) {
        return None;
    }
    let mut said = format!("stage {}: {} of {} done", stage.name, count(Succeeded), clusters(total));
    for (phase, what) in [(Updating, "on the way"), (Failed, "failed"), (Deferred, "offline or suspended")] {
        if count(phase) > 0 {
            said = format!("{said}, {} {what} ({})", count(phase), named(phase));
        }
    }
    // Clusters have their turn and none moves: unavailable ones use up the concurrency.
    if updating == 0 && waiting > 0 {
        let is_unavailable =
            |cluster: &RunCluster| situation.clusters.get(&cluster.name).is_some_and(|s| s.unavailable);
        said = format!("{said}; waits for what an earlier run left unavailable ({})", names(stage, is_unavailable));
    }
    Some(said)
}

/// Describes what a closed gate waits for.
pub(super) fn gate(run: &str, stage: &StageRecord, gate: Gate, situation: &Situation<'_>, now: Timestamp) -> String {
    let (tasks, begin) = match gate {
        Gate::Before => (&stage.before, format!("stage {} has not begun", stage.name)),
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
    let is_deferred = |cluster: &RunCluster| cluster.phase == ClusterPhase::Deferred;
    match stage.clusters.iter().filter(|cluster| is_deferred(cluster)).count() {
        0 => format!("{begin}; waits for {waits_for}"),
        deferred => {
            let named = names(stage, is_deferred);
            format!("{begin}; waits for {waits_for}; {deferred} offline or suspended ({named})")
        }
    }
}

/// Describes the state of a run with unfinished removals; `None` when they are done.
pub(super) fn removals(stage: &StageRecord, situation: &Situation<'_>) -> Option<Place> {
    let is_held = |cluster: &RunCluster| {
        let held = || situation.clusters.get(&cluster.name).is_some_and(|seen| seen.held);
        cluster.phase == ClusterPhase::Pending && held()
    };
    let leaves = |cluster: &RunCluster| matches!(cluster.phase, ClusterPhase::Pending | ClusterPhase::Updating);
    if stage.clusters.iter().any(is_held) {
        return Some(Place::Gate(format!(
            "removal from {} waits for the deletion to be approved",
            names(stage, is_held)
        )));
    }
    stage.clusters.iter().any(leaves).then(|| Place::Moving(format!("removing from {}", names(stage, leaves))))
}

fn names(stage: &StageRecord, which: impl Fn(&RunCluster) -> bool) -> String {
    first_of(stage.clusters.iter().filter(|c| which(c)).map(|cluster| cluster.name.as_str()), NAMED_CLUSTERS_MAX)
}
