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

/// A binding's conditions, judged.
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

/// Judges a binding: [`readiness`], [`failed`] and the earlier of their instants. `complete` is whether the work's status
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
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::rollout::BindingView;

    /// A condition that speaks of generation 1, changed this many seconds after the epoch.
    fn condition(type_: &str, status: ConditionStatus, reason: &str, at: i64) -> Condition {
        Condition {
            type_: type_.into(),
            status,
            reason: reason.into(),
            message: String::new(),
            observed_generation: 1,
            last_transition_time: second(at),
        }
    }

    fn second(at: i64) -> Timestamp {
        Timestamp::from_second(at).unwrap()
    }

    #[test]
    fn example_24_untrackable_objects_are_ready_after_the_period() {
        let conditions = [condition("Available", ConditionStatus::True, "NotAllWorkAreAvailabilityTrackable", 0)];
        let period = Duration::from_mins(1);
        let rows = [
            (20, Readiness::NotYet(Some(Duration::from_secs(40)))),
            (59, Readiness::NotYet(Some(Duration::from_secs(1)))),
            (60, Readiness::Ready),
            (61, Readiness::Ready),
        ];
        for (now, expected) in rows {
            assert_eq!(readiness(&conditions, 1, period, second(now)), expected, "{now}");
        }
        // A clock that went back waits the whole period, not longer.
        assert_eq!(readiness(&conditions, 1, period, second(-5)), Readiness::NotYet(Some(period)));
    }

    fn limits() -> Limits {
        Limits::resolve(None, &BTreeMap::new(), 1).unwrap()
    }

    /// A binding that was started at second 0.
    fn binding(conditions: Vec<Condition>) -> Binding {
        let mut binding: Binding = serde_json::from_value(json!({
            "name": "b", "placement": "p", "cluster": "c", "state": "Bound", "policyIndex": 0, "generation": 1,
            "decision": {"clusterName": "c", "selected": true, "reason": ""}, "startedAt": "1970-01-01T00:00:00Z",
        }))
        .unwrap();
        binding.conditions = conditions;
        binding
    }

    #[test]
    fn the_deadline_counts_from_the_first_report() {
        let limits = limits();
        let told = binding(vec![]);
        let rows = [
            ("it was heard all the time", None, 600, true),
            ("it was heard before it was told", Some(Heard::Since(second(-100))), 600, true),
            ("the daemon was down until after the deadline", Some(Heard::NotYet), 700, false),
            ("it has reported since", Some(Heard::Since(second(700))), 701, false),
            ("it had as long again", Some(Heard::Since(second(700))), 1300, true),
        ];
        for (name, heard, now, failed) in rows {
            let judged = health(&told, false, heard, &limits, second(now));
            assert_eq!(judged.failed, failed, "{name}");
        }
    }

    #[test]
    fn failures_are_real_or_late() {
        use ConditionStatus::{False, True, Unknown};
        let deadline = Duration::from_mins(10);
        let rest = |seconds| (false, Some(Duration::from_secs(seconds)));
        let one = |type_, status, reason| vec![condition(type_, status, reason, 0)];
        let rows = [
            ("nothing said yet", vec![], false, Some(0), 100, rest(500)),
            ("never started", vec![], false, None, 1000, (false, None)),
            ("the last second", vec![], false, Some(0), 599, rest(1)),
            ("the deadline", vec![], false, Some(0), 600, (true, None)),
            ("overriding failed", one("Overridden", False, "OverriddenFailed"), false, Some(0), 1, (true, None)),
            ("overriding pending", one("Overridden", False, "OverriddenPending"), false, Some(0), 1, rest(599)),
            ("delivering failed", one("WorkSynchronized", False, "SyncWorkFailed"), false, Some(0), 1, (true, None)),
            (
                "some objects refused",
                one("Applied", False, "NotAllWorkHaveBeenApplied"),
                true,
                Some(0),
                1,
                (true, None),
            ),
            (
                "some objects not tried",
                one("Applied", False, "NotAllWorkHaveBeenApplied"),
                false,
                Some(0),
                1,
                rest(599),
            ),
            ("applying", one("Applied", False, "ApplyInProgress"), true, Some(0), 1, rest(599)),
            ("not available yet", one("Available", False, "NotAllWorkAreAvailable"), true, Some(0), 1, rest(599)),
            (
                "not available in time",
                one("Available", False, "NotAllWorkAreAvailable"),
                true,
                Some(0),
                600,
                (true, None),
            ),
            ("unknown is not available", one("Available", Unknown, ""), true, Some(0), 600, (true, None)),
            ("available", one("Available", True, "AllWorkAreAvailable"), true, Some(0), 9000, (false, None)),
            (
                "differences reported",
                one("DiffReported", True, "AllWorkHaveDiffReported"),
                true,
                Some(0),
                9000,
                (false, None),
            ),
            (
                "lost long after",
                vec![condition("Available", False, "NotAllWorkAreAvailable", 5000)],
                true,
                Some(0),
                5100,
                rest(500),
            ),
            (
                "lost for good",
                vec![condition("Available", False, "NotAllWorkAreAvailable", 5000)],
                true,
                Some(0),
                5600,
                (true, None),
            ),
            (
                "lost before its deadline",
                vec![condition("Available", False, "NotAllWorkAreAvailable", 599)],
                true,
                Some(0),
                600,
                (true, None),
            ),
            (
                "of another generation",
                {
                    let mut old = one("Overridden", False, "OverriddenFailed");
                    old[0].observed_generation = 0;
                    old
                },
                false,
                Some(0),
                1,
                rest(599),
            ),
        ];
        for (name, conditions, complete, started, now, expected) in rows {
            let answer = failed(&conditions, 1, complete, deadline, started.map(second), second(now));
            assert_eq!(answer, expected, "{name}");
        }
    }

    #[test]
    fn readiness_needs_the_current_generation() {
        use ConditionStatus::{False, True};
        let rows = [
            ("nothing", vec![], Readiness::NotYet(None)),
            ("available", vec![condition("Available", True, "AllWorkAreAvailable", 0)], Readiness::Ready),
            (
                "not available",
                vec![condition("Available", False, "NotAllWorkAreAvailable", 0)],
                Readiness::NotYet(None),
            ),
            ("reported", vec![condition("DiffReported", True, "AllWorkHaveDiffReported", 0)], Readiness::Ready),
            (
                "not reported",
                vec![condition("DiffReported", False, "NotAllWorkHaveDiffReported", 0)],
                Readiness::NotYet(None),
            ),
        ];
        for (name, conditions, expected) in rows {
            assert_eq!(readiness(&conditions, 1, Duration::ZERO, second(1)), expected, "{name}");
            assert_eq!(readiness(&conditions, 2, Duration::ZERO, second(1)), Readiness::NotYet(None), "{name}, stale");
        }
    }

    #[test]
    fn health_is_readiness_and_failure_with_the_earlier_instant() {
        let limits = limits();
        let untracked =
            binding(vec![condition("Available", ConditionStatus::True, "NotAllWorkAreAvailabilityTrackable", 0)]);
        let seconds = |s| Some(Duration::from_secs(s));
        let expected = Health {
            ready: Readiness::NotYet(seconds(50)),
            failed: false,
            diff_reported: false,
            seen_unavailable: false,
            changes_in: seconds(50),
        };
        assert_eq!(health(&untracked, true, None, &limits, second(10)), expected);
        let reporting = binding(vec![condition("DiffReported", ConditionStatus::False, "DiffReportInProgress", 0)]);
        let expected = Health {
            ready: Readiness::NotYet(None),
            failed: false,
            diff_reported: true,
            seen_unavailable: false,
            changes_in: seconds(590),
        };
        assert_eq!(health(&reporting, true, None, &limits, second(10)), expected);
        let view = BindingView::new(&reporting, expected, true, false);
        assert_eq!(
            (view.name.as_str(), view.diff_reported, view.outdated, view.changes_in),
            ("b", true, true, seconds(590))
        );
    }
}
