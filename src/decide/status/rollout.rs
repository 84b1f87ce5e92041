//! Whether a placement has reached its goal, and if not, what it waits for.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::binding::settled_work;
use super::placement::{PlacementView, is_right, why};
use super::staged_run::{active_run, closed_gates, current_stage};
use super::work::{self, Mode, listing};
use model::api::annotations;
use model::api::annotations::PROGRESS_DEADLINE_DEFAULT;
use model::api::condition::{ConditionStatus, find_condition};
use model::conditions::{ConditionType, Reason};
use model::placement_phase::{Permit, PhaseAct};
use model::records::{ApplyOutcome, Availability, Binding, ClusterRecord, DeletionGate, ManifestStatus};
use model::runs::{ClusterPhase, DELETION_GATE, STUCK_AFTER};

mod staged;
mod state;

pub use staged::way_out;
pub use state::{Failure, PersonWait, RolloutState, StateKind};

/// Seconds after which untrackable objects count as available; KubeFleet's default.
const UNAVAILABLE_PERIOD_DEFAULT_SECONDS: i32 = 60;

/// The state of one cluster. The texts name the cluster and the reason.
pub(super) enum ClusterState {
    /// At its goal.
    Right,
    /// It moves, or is about to.
    Moving,
    /// It waits for its turn.
    Queued,
    /// It will not reach its goal by itself.
    Failed(String),
    /// It does not answer.
    Offline(String),
    /// Only a staged update run moves it, and there is none.
    AwaitsRun,
    /// Its strategy leaves it as it is.
    Ignored,
}

/// The inputs of the evaluation when no run covers all clusters.
struct Situation<'a> {
    view: &'a PlacementView<'a>,
    clusters: Vec<ClusterState>,
    /// The end of the wait, if the next cluster waits only for time.
    until: Option<Timestamp>,
}

/// Returns the rollout state of a placement: the only evaluation, on which every view is based.
pub fn rollout_state(view: &PlacementView) -> RolloutState {
    let record = view.record;
    let is_wanted = !record.removed && record.error.is_none();
    // The picked clusters are about to change.
    if is_wanted && !view.is_scheduled() {
        return RolloutState::Progressing;
    }
    // No cluster moves to an unreadable payload, and no cluster is the cause.
    if let Some(first) = record.unreadable.first()
        && !record.removed
    {
        return RolloutState::Failed(Failure::Payload(*first));
    }
    if is_wanted
        && view.is_external()
        && let Some(by_run) = staged::by_run(view)
    {
        // A run covers all its clusters, but not deletions: a person can approve those while it waits.
        return match deletions_wait(view) {
            Some(deletions) => by_run.or_worse(RolloutState::WaitingForPerson(deletions)),
            None => by_run,
        };
    }
    let situation = Situation { view, clusters: cluster_states(view), until: time_gate(view) };
    // A moving cluster may still change everything else.
    let answer = situation.moving();
    // A failure goes before a wait: nobody would look for it otherwise.
    let answer = answer.or_else(|| situation.failed());
    // Clusters at the snapshot before the held one are no success.
    let answer = answer.or_else(|| situation.held());
    // What a person can do now goes before what nobody can speed up.
    let answer = answer.or_else(|| situation.waiting_for_person());
    let answer = answer.or_else(|| situation.unreachable());
    let answer = answer.or_else(|| situation.waiting_for_time());
    // All clusters that fit are reached: only now it matters that they are too few.
    let answer = answer.or_else(|| situation.unfulfilled());
    answer.unwrap_or(RolloutState::AllAtTarget)
}

impl Situation<'_> {
    fn any(&self, wanted: fn(&ClusterState) -> bool) -> bool {
        self.clusters.iter().any(wanted)
    }

    fn is_queued(&self) -> bool {
        self.any(|cluster| matches!(cluster, ClusterState::Queued))
    }

    /// Names the clusters in a state with their texts; `None` if there are none.
    fn named(&self, pick: fn(&ClusterState) -> Option<&String>) -> Option<String> {
        let mut texts = self.clusters.iter().filter_map(pick).cloned().peekable();
        texts.peek()?;
        Some(listing(texts))
    }

    fn moving(&self) -> Option<RolloutState> {
        let record = self.view.record;
        // After a lost store there may be no known rollback target.
        let has_goal = record.goal.is_some() || staged::held(self.view).is_none();
        let takes_turns = self.until.is_none() && record.permit(PhaseAct::Start) == Permit::Yes && has_goal;
        let moves = self.any(|cluster| matches!(cluster, ClusterState::Moving)) || (takes_turns && self.is_queued());
        moves.then_some(RolloutState::Progressing)
    }

    fn failed(&self) -> Option<RolloutState> {
        let record = self.view.record;
        // A halt names the clusters that failed.
        let failure = if let Some(error) = &record.error {
            Failure::Invalid(error.clone())
        } else if let Some(halted) = &record.halted {
            Failure::Halted(halted.clone())
        } else {
            Failure::Clusters(self.named(|c| if let ClusterState::Failed(text) = c { Some(text) } else { None })?)
        };
        Some(RolloutState::Failed(failure))
    }

    fn held(&self) -> Option<RolloutState> {
        if self.view.record.removed {
            return None;
        }
        staged::held(self.view).map(RolloutState::Failed)
    }

    fn waiting_for_person(&self) -> Option<RolloutState> {
        let needs_run = self.any(|cluster| matches!(cluster, ClusterState::AwaitsRun));
        let mut wait = deletions_wait(self.view);
        // A run that a person starts while the placement is paused does not move either.
        if wait.is_none() && (self.is_queued() || needs_run) {
            wait = staged::paused(self.view);
        }
        if wait.is_none() && needs_run {
            wait = Some(PersonWait::NoRun);
        }
        wait.map(RolloutState::WaitingForPerson)
    }

    fn unreachable(&self) -> Option<RolloutState> {
        let offline = self.named(|c| if let ClusterState::Offline(text) = c { Some(text) } else { None });
        offline.map(RolloutState::Unreachable)
    }

    fn waiting_for_time(&self) -> Option<RolloutState> {
        self.is_queued().then_some(RolloutState::WaitingForTime(self.until))
    }

    fn unfulfilled(&self) -> Option<RolloutState> {
        let is_less = !self.view.record.removed && !self.view.policy.is_some_and(|policy| policy.fulfilled);
        is_less.then_some(RolloutState::Failed(Failure::Unfulfilled))
    }
}

/// Returns the wait at a closed deletion gate.
fn deletions_wait(view: &PlacementView) -> Option<PersonWait> {
    let gate = view.record.closed_gate()?;
    let line = deletion_line(view, gate);
    Some(PersonWait::Deletions(format!("{} need approval: {}; {line}", gate.what(), gate.reason)))
}

/// Returns the command that lets a placement's deletions happen. It names the digest where the configuration wants that.
pub fn deletion_line(view: &PlacementView, gate: &DeletionGate) -> String {
    let digest = view.record.digest_required.then(|| format!(" --digest {}", gate.digest.short()));
    format!("gitfleet approve {} {DELETION_GATE}{}", view.word(), digest.unwrap_or_default())
}

fn cluster_states(view: &PlacementView) -> Vec<ClusterState> {
    let picked = if view.record.removed { Vec::new() } else { view.picked() };
    let mut states = Vec::with_capacity(picked.len());
    for (decision, binding) in &picked {
        let cluster = &decision.cluster_name;
        states.push(match binding {
            Some(binding) => bound_state(view, binding),
            None => view.offline(cluster).map_or(ClusterState::Moving, offline),
        });
    }
    let leaving = if view.record.removed { view.bindings().collect() } else { view.leftovers_of(&picked) };
    // A cluster that left is out of reach, and `deletions_wait` tells what the gate holds.
    for binding in leaving {
        let left = view.clusters.get(&binding.cluster).is_none_or(|c| c.left);
        let held = view.record.closed_gate().is_some_and(|g| g.holds(&binding.cluster));
        // The placement that takes its objects over says what it waits for.
        let changes_hands = binding.deleting && view.record.handing_over.contains(&binding.cluster);
        if left || held || changes_hands {
            continue;
        }
        states.push(match view.offline(&binding.cluster) {
            Some(silent) => offline(silent),
            None if !view.record.permits(PhaseAct::Remove) && !binding.deleting => ClusterState::Queued,
            None if view.is_external() && !binding.deleting => ClusterState::AwaitsRun,
            None => ClusterState::Moving,
        });
    }
    states
}

/// Returns how many clusters of a placement are in each state.
pub fn cluster_tally(view: &PlacementView) -> BTreeMap<&'static str, usize> {
    let mut tally = BTreeMap::new();
    for state in cluster_states(view) {
        let name = match state {
            ClusterState::Right => "upToDate",
            ClusterState::Moving => "moving",
            ClusterState::Queued => "queued",
            ClusterState::Failed(_) => "failed",
            ClusterState::Offline(_) => "offline",
            ClusterState::AwaitsRun => "awaitsRun",
            ClusterState::Ignored => "ignored",
        };
        *tally.entry(name).or_default() += 1;
    }
    tally
}

fn offline(cluster: &ClusterRecord) -> ClusterState {
    ClusterState::Offline(format!("{}{}", cluster.name, why(cluster)))
}

/// Returns the state of a cluster with a binding.
pub(super) fn bound_state(view: &PlacementView, binding: &Binding) -> ClusterState {
    let mode = view.mode();
    let at_target = binding.snapshot.is_some()
        && binding.snapshot == view.goal()
        && Mode::of(&binding.apply_strategy) == mode
        && !view.record.behind.contains(&binding.cluster);
    if at_target && is_right(binding, mode) {
        return ClusterState::Right;
    }
    // No run ever moves it, so it must not count as waiting.
    if !at_target && view.record.ignores(binding) {
        return ClusterState::Ignored;
    }
    // A failure in its last report may be over.
    if let Some(silent) = view.offline(&binding.cluster) {
        return offline(silent);
    }
    let started = binding.snapshot.is_some() && !is_right(binding, Mode::of(&binding.apply_strategy));
    let failure = if started { failure(view, binding) } else { None };
    match (at_target, failure) {
        (true, Some(failure)) => ClusterState::Failed(failure),
        (true, None) => ClusterState::Moving,
        // An older snapshot that is still moving may finish and free its share of the budget.
        (false, None) if started => ClusterState::Moving,
        (false, _) if view.is_external() => ClusterState::AwaitsRun,
        (false, _) => ClusterState::Queued,
    }
}

/// Tells whether what a cluster is assigned has failed there, or is late.
pub fn has_failed(view: &PlacementView, binding: &Binding) -> bool {
    let started = binding.snapshot.is_some() && !is_right(binding, Mode::of(&binding.apply_strategy));
    started && failure(view, binding).is_some()
}

/// Describes why a started cluster will not reach its goal by itself.
fn failure(view: &PlacementView, binding: &Binding) -> Option<String> {
    let cluster = &binding.cluster;
    let undelivered = binding.conditions.iter().find(|condition| {
        condition.is(ConditionStatus::False, binding.generation)
            && matches!(condition.reason, Reason::OverriddenFailed | Reason::SyncWorkFailed)
    });
    if let Some(condition) = undelivered {
        return Some(format!("{cluster}: {}", condition.message));
    }
    if let Some(work) = settled_work(binding, view.work(cluster))
        && work.manifests.iter().any(is_refused_or_failed)
    {
        let failed = work.manifests.iter().filter(|manifest| is_refused_or_failed(manifest));
        return Some(format!("{cluster}: {}", work::named(failed)));
    }
    // What its run knows beside: that nothing is delivered there.
    let run = active_run(view.runs).filter(|run| view.is_external() && run.snapshot() == binding.snapshot);
    let of_run = run.into_iter().flat_map(|run| &run.stages).flat_map(|stage| &stage.clusters);
    let mut failed = of_run.filter(|of_run| of_run.phase == ClusterPhase::Failed && !of_run.message.is_empty());
    if let Some(failed) = failed.find(|of_run| of_run.name == *cluster) {
        return Some(format!("{cluster}: {}", failed.message));
    }
    let deadline = progress_deadline(view);
    let late = binding.started_at.is_some_and(|at| view.now.duration_since(at) >= deadline);
    late.then(|| format!("{cluster}: not done within {deadline:#}"))
}

/// Tells whether a cluster did not take an object, or the object failed there.
fn is_refused_or_failed(manifest: &ManifestStatus) -> bool {
    use ApplyOutcome::{Applied, FoundDiff, NoDiffFound, Pending};
    let is_refused = !matches!(manifest.applied, Pending | Applied | NoDiffFound | FoundDiff);
    is_refused || manifest.availability == Some(Availability::Failed)
}

/// An unreadable deadline is an error of the rollout; here it counts as absent.
fn progress_deadline(view: &PlacementView) -> SignedDuration {
    let deadline = annotations::progress_deadline(&view.record.annotations).unwrap_or(PROGRESS_DEADLINE_DEFAULT);
    SignedDuration::try_from(deadline).unwrap_or(SignedDuration::MAX)
}

/// Returns the next moment at which time alone may change what is said of a placement.
pub fn next_change(view: &PlacementView) -> Option<Timestamp> {
    let deadline = progress_deadline(view);
    let mode = view.mode();
    let moving = view.bindings().filter(|binding| !is_right(binding, mode));
    let late = moving.filter_map(|binding| binding.started_at?.checked_add(deadline).ok());
    let run = active_run(view.runs);
    let gates = run.into_iter().flat_map(closed_gates).filter_map(|gate| gate.opens_at());
    let checks = run.and_then(|run| run.waiting_checks()?.1.healthy_at());
    let stage = run.and_then(current_stage).into_iter().flat_map(|stage| &stage.clusters);
    let stuck = stage.filter_map(|cluster| cluster.started_at?.checked_add(STUCK_AFTER).ok());
    let all = late.chain(time_gate(view)).chain(gates).chain(checks).chain(stuck);
    all.filter(|at| *at >= view.now).min()
}

/// Returns when the first cluster with untrackable objects counts as available.
fn time_gate(view: &PlacementView) -> Option<Timestamp> {
    let limits = view.record.spec.strategy.rolling_update.as_ref();
    let seconds = limits.and_then(|l| l.unavailable_period_seconds).unwrap_or(UNAVAILABLE_PERIOD_DEFAULT_SECONDS);
    let waits = view.bindings().filter_map(|binding| {
        let condition = find_condition(&binding.conditions, &ConditionType::Available)?;
        let untrackable = condition.is(ConditionStatus::True, binding.generation)
            && condition.reason == Reason::NotAllWorkAreAvailabilityTrackable;
        let end = condition.last_transition_time.checked_add(SignedDuration::from_secs(seconds.into())).ok()?;
        (untrackable && end >= view.now).then_some(end)
    });
    waits.min()
}

#[cfg(test)]
mod tests;
