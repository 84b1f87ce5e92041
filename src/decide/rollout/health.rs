//! The health of a cluster, from its binding's conditions.

use std::time::Duration;

use jiff::Timestamp;

use model::api::condition::{Condition, ConditionStatus, find_condition};
use model::conditions::{ConditionType, Reason};
use model::records::{Availability, Binding, WorkStatus};

use super::Limits;

/// Reasons of a true Available condition without an observation: it counts only after the unavailable period.
const UNTRACKABLE_REASONS: [Reason; 2] = [Reason::NotAllWorkAreAvailabilityTrackable, Reason::WorkNotTrackable];

/// False conditions that are immediate failures. All others are progress until the deadline.
const FAILURES: [(ConditionType, Reason); 2] =
    [(ConditionType::Overridden, Reason::OverriddenFailed), (ConditionType::WorkSynchronized, Reason::SyncWorkFailed)];

/// Whether a cluster has its snapshot available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It is.
    Ready,
    /// It is not; with a duration, time alone makes it so.
    NotYet(Option<Duration>),
}

/// Whether a cluster has reported again, after a start of the daemon or an outage of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Its last report is older.
    NotYet,
    /// It has, first at this instant.
    Since(Timestamp),
}

/// The evaluation of a binding's conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each true or false of any binding")]
pub struct Health {
    /// Whether it is ready.
    pub ready: Readiness,
    /// Whether it failed.
    pub failed: bool,
    /// Whether it failed before anything was delivered: overriding or handing over failed.
    pub undelivered: bool,
    /// Whether it reports differences instead of applying.
    pub diff_reported: bool,
    /// Whether its assigned content was observed to be unavailable: applied or not, every object was tried.
    pub seen_unavailable: bool,
    /// After which time alone the evaluation changes.
    pub changes_in: Option<Duration>,
}

/// Returns a condition of this generation, if it is true or false.
fn current<'a>(conditions: &'a [Condition], type_: &ConditionType, generation: i64) -> Option<(&'a Condition, bool)> {
    let condition = find_condition(conditions, type_)?;
    if condition.is(ConditionStatus::True, generation) {
        return Some((condition, true));
    }
    condition.is(ConditionStatus::False, generation).then_some((condition, false))
}

fn is_false(conditions: &[Condition], type_: &ConditionType, generation: i64) -> bool {
    matches!(current(conditions, type_, generation), Some((_, false)))
}

/// Tells whether overriding or handing over failed.
fn is_undelivered(conditions: &[Condition], generation: i64) -> bool {
    FAILURES.iter().any(|(type_, reason)| {
        current(conditions, type_, generation).is_some_and(|(condition, holds)| !holds && condition.reason == *reason)
    })
}

/// Returns the time from `now` until `period` after `start`; `None` once that is over.
fn remaining(start: Timestamp, period: Duration, now: Timestamp) -> Option<Duration> {
    // A start in the future, after a clock was set back, waits the whole period and no longer.
    let elapsed = Duration::try_from(now.duration_since(start)).unwrap_or(Duration::ZERO);
    period.checked_sub(elapsed).filter(|rest| !rest.is_zero())
}

/// Tells whether a binding is ready: its differences are reported, or its objects are available. Untrackable objects count as
/// available `unavailable_period` after the report, at that very instant.
///
/// Source: KubeFleet's rollout controller, the ready test of a binding.
pub fn readiness(conditions: &[Condition], generation: i64, unavailable_period: Duration, now: Timestamp) -> Readiness {
    // A placement that only reports differences has neither Applied nor Available.
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

/// Tells whether a binding failed, and if not, when it will fail without progress.
///
/// It failed immediately if overriding or delivering failed, or if every object was tried and some were refused or failed.
/// `settled` is the work's status if it is of this generation and every object was tried.
/// Otherwise it fails if it is not available `deadline` after its start. A cluster that became unavailable only after the
/// deadline gets the same time again, because it was available in time.
///
/// This differs from KubeFleet on purpose: there every unavailable binding counts as failed.
pub fn failed(
    conditions: &[Condition],
    generation: i64,
    settled: Option<&WorkStatus>,
    deadline: Duration,
    started_at: Option<Timestamp>,
    now: Timestamp,
) -> (bool, Option<Duration>) {
    let applied = current(conditions, &ConditionType::Applied, generation);
    // Applied is false from the first object on: it is a refusal only once all were tried.
    let refused = settled.is_some()
        && applied.is_some_and(|(condition, holds)| !holds && condition.reason == Reason::NotAllWorkHaveBeenApplied);
    let has_failed = settled.is_some_and(|w| w.manifests.iter().any(|m| m.availability == Some(Availability::Failed)));
    if is_undelivered(conditions, generation) || refused || has_failed {
        return (true, None);
    }
    let available = current(conditions, &ConditionType::Available, generation);
    let diff_reported = current(conditions, &ConditionType::DiffReported, generation);
    if matches!(available, Some((_, true))) || matches!(diff_reported, Some((_, true))) {
        return (false, None);
    }
    let Some(started_at) = started_at else { return (false, None) };
    // Without Available, work that was complete is in progress again: an object is put back, or deletions were approved.
    let lost = available.or(applied.filter(|(_, holds)| !holds));
    let lost_at = lost.map(|(condition, _)| condition.last_transition_time);
    let from = lost_at.filter(|lost_at| remaining(started_at, deadline, *lost_at).is_none()).unwrap_or(started_at);
    let rest = remaining(from, deadline, now);
    (rest.is_none(), rest)
}

/// Evaluates a binding: [`readiness`], [`failed`] and the earlier of their instants. `settled` is the work's status if it is of the
/// binding's generation and every step was executed.
///
/// Time without reports does not count as failure: a process that starts after the deadline counts from the cluster's first
/// report, and so does a cluster that returns from an outage.
pub fn health(
    binding: &Binding,
    settled: Option<&WorkStatus>,
    heard: Option<Heard>,
    limits: &Limits,
    now: Timestamp,
) -> Health {
    let conditions = &binding.conditions;
    let generation = binding.generation;
    let ready = readiness(conditions, generation, limits.unavailable_period, now);
    let started_at = match heard {
        None => binding.started_at,
        Some(Heard::NotYet) => None,
        Some(Heard::Since(heard_at)) => binding.started_at.map(|at| at.max(heard_at)),
    };
    let (failed, fails_in) = failed(conditions, generation, settled, limits.progress_deadline, started_at, now);
    let ready_in = if let Readiness::NotYet(rest) = ready { rest } else { None };
    let diff_reported =
        find_condition(conditions, &ConditionType::DiffReported).is_some_and(|c| c.observed_generation == generation);
    // Before every object was tried, unavailable only means that the work is in progress.
    let seen_unavailable = settled.is_some()
        && (is_false(conditions, &ConditionType::Available, generation)
            || is_false(conditions, &ConditionType::Applied, generation));
    Health {
        ready,
        failed,
        undelivered: is_undelivered(conditions, generation),
        diff_reported,
        seen_unavailable,
        changes_in: ready_in.into_iter().chain(fails_in).min(),
    }
}

#[cfg(test)]
mod tests;
