//! What a binding's conditions say of its cluster.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::condition::{Condition, ConditionStatus, find_condition};
use crate::model::conditions::{ConditionType, Reason};
use crate::model::records::Binding;

use super::Limits;

/// Reasons of a true Available condition that nobody saw come true: it counts after the unavailable period only.
const UNTRACKABLE_REASONS: [Reason; 2] = [Reason::NotAllWorkAreAvailabilityTrackable, Reason::WorkNotTrackable];

/// False conditions that are failures as soon as they are there. All others are progress until the deadline.
const FAILURES: [(ConditionType, Reason); 2] =
    [(ConditionType::Overridden, Reason::OverriddenFailed), (ConditionType::WorkSynchronized, Reason::SyncWorkFailed)];

/// Whether a cluster holds its snapshot and is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It is.
    Ready,
    /// It is not; with a duration, time alone makes it so.
    NotYet(Option<Duration>),
}

/// Whether a cluster has reported again, after the daemon was started or the cluster ceased to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Its last report is from before.
    NotYet,
    /// It has, the first time at this instant.
    Since(Timestamp),
}

/// A binding's conditions, evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// Whether it is ready.
    pub ready: Readiness,
    /// Whether it failed.
    pub failed: bool,
    /// Whether it reports differences instead of applying.
    pub diff_reported: bool,
    /// Whether it was seen to be unavailable with what it is to hold: applied or not, every object was tried.
    pub seen_unavailable: bool,
    /// After which time alone the answer changes.
    pub changes_in: Option<Duration>,
}

/// Returns a condition if it speaks of this generation, true or false.
fn current<'a>(conditions: &'a [Condition], type_: &ConditionType, generation: i64) -> Option<(&'a Condition, bool)> {
    let condition = find_condition(conditions, type_)?;
    if condition.is(ConditionStatus::True, generation) {
        return Some((condition, true));
    }
    condition.is(ConditionStatus::False, generation).then_some((condition, false))
}

/// Returns how long it is from `now` until `period` after `start`; `None` once that is over.
fn remaining(start: Timestamp, period: Duration, now: Timestamp) -> Option<Duration> {
    // A start that lies ahead, after a clock was set back, waits the whole period and not longer.
    let elapsed = Duration::try_from(now.duration_since(start)).unwrap_or(Duration::ZERO);
    period.checked_sub(elapsed).filter(|rest| !rest.is_zero())
}

/// Tells whether a binding is ready: its differences are reported, or its objects are available. Where availability could
/// not be tracked it is ready `unavailable_period` after it was reported, at that very instant.
///
/// Source: KubeFleet's rollout controller, the ready test of a binding.
pub fn readiness(conditions: &[Condition], generation: i64, unavailable_period: Duration, now: Timestamp) -> Readiness {
    // Where a placement only reports differences there is neither Applied nor Available.
    if let Some((_, true)) = current(conditions, &ConditionType::DiffReported, generation) {
        return Readiness::Ready;
    }
    let Some((available, true)) = current(conditions, &ConditionType::Available, generation) else {
        return Readiness::NotYet(None);
    };
    if !UNTRACKABLE_REASONS.contains(&available.reason) {
        return Readiness::Ready;
    }
    match remaining(available.last_transition_time, unavailable_period, now) {
        Some(rest) => Readiness::NotYet(Some(rest)),
        None => Readiness::Ready,
    }
}

/// Tells whether a binding failed, and if not, after which time it will have without progress.
///
/// It failed at once if overriding or delivering failed, or if every object was tried (`complete`) and some were refused.
/// Otherwise it fails when it is not available `deadline` after it was started. A cluster that lost its availability only
/// after that has as long again, because it did arrive in time.
///
/// This differs from KubeFleet on purpose: there whatever is not available counts as failed.
pub fn failed(
    conditions: &[Condition],
    generation: i64,
    complete: bool,
    deadline: Duration,
    started_at: Option<Timestamp>,
    now: Timestamp,
) -> (bool, Option<Duration>) {
    let state = |type_| current(conditions, type_, generation);
    let broken = FAILURES
        .iter()
        .any(|(type_, reason)| state(type_).is_some_and(|(condition, holds)| !holds && condition.reason == *reason));
    // Applied is false from the first object on: only once all were tried is that a refusal.
    let refused = complete
        && state(&ConditionType::Applied)
            .is_some_and(|(condition, holds)| !holds && condition.reason == Reason::NotAllWorkHaveBeenApplied);
    if broken || refused {
        return (true, None);
    }
    let available = state(&ConditionType::Available);
    if matches!(available, Some((_, true))) || matches!(state(&ConditionType::DiffReported), Some((_, true))) {
        return (false, None);
    }
    let Some(started_at) = started_at else { return (false, None) };
    let lost_at = available.map(|(condition, _)| condition.last_transition_time);
    let from = lost_at.filter(|lost_at| remaining(started_at, deadline, *lost_at).is_none()).unwrap_or(started_at);
    let rest = remaining(from, deadline, now);
    (rest.is_none(), rest)
}

/// Evaluates a binding: [`readiness`], [`failed`] and the earlier of their instants. `complete` is whether the work's status
/// speaks of the binding's generation and carried out every step.
///
/// What nobody could hear of the cluster is no failure: a life of the daemon that begins after the deadline counts from the
/// cluster's first report, and so does one that ceased to answer meanwhile.
pub fn health(binding: &Binding, complete: bool, heard: Option<Heard>, limits: &Limits, now: Timestamp) -> Health {
    let (conditions, generation) = (&binding.conditions, binding.generation);
    let ready = readiness(conditions, generation, limits.unavailable_period, now);
    let started_at = match heard {
        None => binding.started_at,
        Some(Heard::NotYet) => None,
        Some(Heard::Since(heard_at)) => binding.started_at.map(|at| at.max(heard_at)),
    };
    let (failed, fails_in) = failed(conditions, generation, complete, limits.progress_deadline, started_at, now);
    let ready_in = if let Readiness::NotYet(rest) = ready { rest } else { None };
    let diff_reported =
        find_condition(conditions, &ConditionType::DiffReported).is_some_and(|c| c.observed_generation == generation);
    let is_false = |type_| matches!(current(conditions, type_, generation), Some((_, false)));
    // Before every object was tried, unavailable only means that the work is being carried out.
    let seen_unavailable = complete && (is_false(&ConditionType::Available) || is_false(&ConditionType::Applied));
    Health { ready, failed, diff_reported, seen_unavailable, changes_in: ready_in.into_iter().chain(fails_in).min() }
}

#[cfg(test)]
mod tests;
