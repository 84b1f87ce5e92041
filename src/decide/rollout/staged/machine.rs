//! The state machine of a run: advances it as far as possible at one instant, and completes the remaining work of an ended run.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::rollout::{Health, MaxFailures, Readiness};
use model::api::staged::{RunState, StageTaskType};
use model::id::ClusterName;
use model::journal::JournalKind;
use model::names::first_of;
use model::runs::{
    ApprovalRules, ClusterPhase, Gate, MetricServers, RunPhase, RunRecord, StagePhase, StageRecord, request_name,
};

use super::checks;
use super::gates::ask_again;
use super::messages::{NAMED_CLUSTERS_MAX, clusters, succeeded};
use super::pass::{Pass, Place};
use super::phases::{enter_cluster, enter_run};

/// The observed state of a cluster, for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each true or false of any cluster")]
pub struct Seen {
    /// The source still names it.
    pub in_fleet: bool,
    /// It has a binding that is neither unscheduled nor being removed.
    pub picked: bool,
    /// Its binding is bound at exactly the run's snapshot, apply strategy and this cluster's overrides.
    pub bound_to: bool,
    /// The removal of an older binding goes first, as after an eviction: until then orders and reports concern only that binding.
    pub leaving: bool,
    /// It answers and is not suspended.
    pub online: bool,
    /// Its binding's health, with an unavailable period of zero: staged updates count untrackable objects as available
    /// immediately.
    ///
    /// Source: KubeFleet.
    pub health: Health,
    /// Why it failed, as text for users; read only if `health` says that it did.
    pub failure: String,
    /// Bound, with an assignment, and neither ready nor failed: unavailable because of a rollout.
    pub unavailable: bool,
    /// A newer run of the placement has reached its stage: [`catch_up`] of this one ignores it. See [`reached`].
    pub taken: bool,
    /// Deletion stage: no binding is left.
    pub removed: bool,
    /// Deletion stage: a closed deletion gate protects it.
    pub held: bool,
    /// Deletion stage: it is told to leave, and all that is left there stays for other placements.
    pub kept: bool,
}

impl Seen {
    pub(super) fn is_ready(&self) -> bool {
        self.bound_to && self.health.ready == Readiness::Ready
    }

    pub(super) fn has_failed(&self) -> bool {
        self.bound_to && self.health.failed && !self.is_ready()
    }

    /// Tells whether it must be told again what the run brings.
    pub(super) fn is_lost(&self) -> bool {
        !self.bound_to && !self.leaving
    }

    /// Tells whether it failed with whatever it is to have, and does not run. What was never handed over broke nothing.
    pub(super) fn is_broken(&self) -> bool {
        self.picked && self.health.failed && !self.health.undelivered && self.health.ready != Readiness::Ready
    }

    /// Tells whether a report or a passed deadline says that it is unavailable. Without either it may as well be available.
    pub(super) fn is_known_down(&self) -> bool {
        self.health.seen_unavailable || self.health.failed
    }
}

/// The inputs of a run, beside its record.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The clusters of the run. A missing one has left the fleet.
    pub clusters: &'a BTreeMap<ClusterName, Seen>,
    /// A person paused the placement, or stopped the run in another way; `state: Stop` is read from the record.
    pub stop: bool,
    /// Clusters of one stage that may fail before nothing new starts.
    pub max_failures: MaxFailures,
    /// The rules for approvals.
    pub rules: ApprovalRules,
    /// It returns to a snapshot that has passed its gates: tasks and checks are skipped.
    pub asks_no_gate: bool,
    /// The servers that answer the queries of checks.
    pub servers: &'a MetricServers,
    /// Clusters by stage that failed with the same content in other runs.
    pub failed_elsewhere: &'a BTreeMap<String, BTreeSet<ClusterName>>,
}

/// The actions and events of a run. The record already contains them: store both together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Clusters that must get the run's snapshot, apply strategy and overrides now, in order. Repeated until their binding has
    /// them: a lost binding is restarted once what it had is removed, and a retry needs a new generation and start.
    pub start: Vec<ClusterName>,
    /// Clusters to remove now; each is named once.
    pub remove: Vec<ClusterName>,
    /// When time alone may change the result.
    pub wake_at: Option<Timestamp>,
    /// The events, in order.
    pub notes: Vec<Note>,
}

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The event.
    pub event: JournalKind,
    /// Its stage.
    pub stage: Option<String>,
    /// Its cluster.
    pub cluster: Option<ClusterName>,
    /// Details, as text for users; may be empty.
    pub message: String,
}

/// Advances a run with frozen stages as far as possible: records the observed state of clusters, opens gates, and starts
/// clusters whose turn has come. A second call with the same inputs changes nothing.
///
/// Nothing new starts while it is stopped, while too many clusters of a stage failed, or while a check of a stage that waits is
/// outside its limits; moves in progress finish. An ended run
/// goes to [`catch_up`] instead.
pub fn advance(run: &mut RunRecord, situation: &Situation<'_>, now: Timestamp) -> Step {
    if run.phase.is_final() {
        return catch_up(run, situation, now);
    }
    let mut pass = Pass { situation, now, ended: None, step: Step::default() };
    let has_begun = !matches!(run.phase, RunPhase::Pending | RunPhase::Initialized);
    if run.state == Some(RunState::Initialize) && !has_begun {
        pass.enter(run, RunPhase::Initialized, "prepared; it begins with state: Run".to_owned());
        return pass.step;
    }
    // A started run cannot return to the prepared phase: it stops.
    let stops = situation.stop || matches!(run.state, Some(RunState::Stop | RunState::Initialize));
    for stage in &mut run.stages {
        pass.settle(stage);
    }
    if let Some(deletion) = &mut run.deletion {
        pass.settle_removals(deletion);
    }
    let halted = over_budget(run, situation).or_else(|| checks::failed_checks(run));
    let may_go = !stops && halted.is_none();
    // `settle` names clusters whose bindings were lost: they are not started either.
    if !may_go {
        pass.step.start.clear();
    }
    let place = pass.walk(run, may_go);
    let in_flight = stages_of(run).flat_map(|stage| &stage.clusters).filter(|c| c.phase == ClusterPhase::Updating);
    let in_flight: Vec<&str> = in_flight.map(|cluster| cluster.name.as_str()).collect();
    // Where several fit, a stop is shown before a halt, and a halt before a gate.
    let (phase, message) = match (place, halted) {
        (Place::Done, None) if in_flight.is_empty() => (RunPhase::Succeeded, succeeded(run)),
        _ if stops && in_flight.is_empty() => (RunPhase::Stopped, "stopped, nothing is on its way".to_owned()),
        _ if stops => (RunPhase::Stopping, format!("stopped, {}", waits_for(&in_flight))),
        (_, Some(why)) => (RunPhase::Halted, why),
        (Place::Gate(message), None) => (RunPhase::Waiting, message),
        (Place::Moving(message), None) => (RunPhase::Updating, message),
        // Clusters that were offline at their turn may still move when all stages are done.
        (Place::Done, None) => (RunPhase::Updating, format!("all stages are done; {}", waits_for(&in_flight))),
    };
    pass.enter(run, phase, message);
    pass.wake(run);
    pass.step
}

fn waits_for(clusters: &[&str]) -> String {
    format!("waits for {}", first_of(clusters.iter().copied(), NAMED_CLUSTERS_MAX))
}

/// Completes the remaining work of an ended run: moves in progress succeed or fail, failed clusters may recover, and if the run
/// succeeded or was superseded, clusters that were offline at their turn get its snapshot when they return, under the same
/// limits. A run that succeeded also retries failed clusters on request, and removes what it could not reach before.
pub fn catch_up(run: &mut RunRecord, situation: &Situation<'_>, now: Timestamp) -> Step {
    let mut pass = Pass { situation, now, ended: Some(run.phase), step: Step::default() };
    let has_succeeded = run.phase == RunPhase::Succeeded;
    for stage in &mut run.stages {
        pass.settle(stage);
    }
    let may_start = !situation.stop && over_budget(run, situation).is_none();
    if !may_start {
        pass.step.start.clear();
    }
    if may_start && (has_succeeded || run.phase == RunPhase::Superseded) {
        // The gates of these stages were opened for their deferred clusters too; later gates were not requested yet.
        for stage in run.stages.iter_mut().filter(|stage| stage.phase.is_reached()) {
            pass.start_clusters(stage, true);
        }
    }
    if let Some(deletion) = run.deletion.as_mut().filter(|stage| stage.phase.is_reached()) {
        pass.settle_removals(deletion);
        if may_start && has_succeeded {
            pass.start_removals(deletion);
        }
    }
    if has_succeeded {
        run.message = succeeded(run);
    }
    pass.wake(run);
    pass.step
}

/// Retries failed clusters, repeats expired requests for approvals, and asks the failed checks again. An ended run has nothing to retry, unless it succeeded
/// with failed clusters. [`advance`] starts them.
pub fn retry(run: &mut RunRecord, rules: ApprovalRules, now: Timestamp) -> Vec<Note> {
    let mut notes = Vec::new();
    if run.phase.is_final() && run.phase != RunPhase::Succeeded {
        return notes;
    }
    let name = run.name.clone();
    for stage in &mut run.stages {
        for cluster in stage.clusters.iter_mut().filter(|cluster| cluster.phase == ClusterPhase::Failed) {
            enter_cluster(cluster, ClusterPhase::Pending, "to be tried again", now);
            notes.push(note(JournalKind::ClusterRetried, &stage.name, Some(&cluster.name), ""));
        }
        let (gate, tasks) = match stage.phase {
            StagePhase::WaitingBefore => (Gate::Before, &mut stage.before),
            StagePhase::WaitingAfter => (Gate::After, &mut stage.after),
            _ => continue,
        };
        for task in tasks.iter_mut().filter(|task| task.type_ == StageTaskType::Approval) {
            if ask_again(task, rules, now) {
                notes.push(note(
                    JournalKind::ApprovalRequested,
                    &stage.name,
                    None,
                    &request_name(&name, &stage.name, gate),
                ));
            }
        }
        let again = checks::ask_again(stage, now);
        if !again.is_empty() {
            notes.push(note(JournalKind::ChecksRepeated, &stage.name, None, &again.join(", ")));
        }
    }
    // It is halted no more, though the next decision may come late.
    if run.phase == RunPhase::Halted && !notes.is_empty() {
        enter_run(run, RunPhase::Updating, "to be tried again", now);
    }
    notes
}

/// Retries clusters that failed `since` a pause started and that no longer count as failed: a deadline during the pause does
/// not count. [`advance`] starts them.
pub fn forgive(run: &mut RunRecord, since: Timestamp, is_failed: impl Fn(&ClusterName) -> bool, now: Timestamp) {
    for cluster in run.stages.iter_mut().flat_map(|stage| &mut stage.clusters) {
        if cluster.phase == ClusterPhase::Failed && cluster.since >= since && !is_failed(&cluster.name) {
            enter_cluster(cluster, ClusterPhase::Pending, "its deadline passed during a pause; to be tried again", now);
        }
    }
}

/// Returns the clusters in the stages that a run has reached: no older run updates them any more.
pub fn reached(run: &RunRecord) -> BTreeSet<&ClusterName> {
    let stages = stages_of(run).filter(|stage| stage.phase.is_reached());
    stages.flat_map(|stage| stage.clusters.iter().map(|cluster| &cluster.name)).collect()
}

/// Tells whether a run has ended and [`catch_up`] still has work: not every cluster has finished or was skipped. Clusters that
/// have not started stay so, unless the run succeeded.
pub fn owes(run: &RunRecord) -> bool {
    use ClusterPhase::{Pending, Skipped, Succeeded};
    if !run.phase.is_final() {
        return false;
    }
    let mut clusters = stages_of(run).flat_map(|stage| &stage.clusters);
    clusters.any(|cluster| match cluster.phase {
        Succeeded | Skipped => false,
        Pending => run.phase == RunPhase::Succeeded,
        _ => true,
    })
}

fn stages_of(run: &RunRecord) -> impl Iterator<Item = &StageRecord> {
    run.stages.iter().chain(&run.deletion)
}

/// Describes why nothing new starts, if too many clusters of a stage failed, in this run or in others with the same content.
fn over_budget(run: &RunRecord, situation: &Situation<'_>) -> Option<String> {
    let nothing = BTreeSet::new();
    for stage in &run.stages {
        let elsewhere = situation.failed_elsewhere.get(&stage.name).unwrap_or(&nothing);
        let failed = stage.clusters.iter().filter(|cluster| cluster.phase == ClusterPhase::Failed);
        let failed: BTreeSet<&ClusterName> = failed.map(|cluster| &cluster.name).chain(elsewhere).collect();
        let all: BTreeSet<&ClusterName> = stage.clusters.iter().map(|cluster| &cluster.name).chain(elsewhere).collect();
        let allowed = situation.max_failures.of(all.len());
        if failed.len() <= allowed {
            continue;
        }
        let mut said = Vec::with_capacity(failed.len());
        for name in &failed {
            let is_there = situation.clusters.get(*name).is_some_and(|seen| seen.in_fleet && seen.picked);
            let has_left = !is_there && !elsewhere.contains(*name);
            said.push(if has_left { format!("{name}, which left") } else { name.to_string() });
        }
        let named = first_of(said.iter().map(String::as_str), NAMED_CLUSTERS_MAX);
        return Some(format!("stage {}: {} failed ({named}), allowed: {allowed}", stage.name, clusters(failed.len())));
    }
    None
}

fn note(event: JournalKind, stage: &str, cluster: Option<&ClusterName>, message: &str) -> Note {
    Note { event, stage: Some(stage.to_owned()), cluster: cluster.cloned(), message: message.to_owned() }
}
