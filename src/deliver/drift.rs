//! Repeated checks: compares again after a while what no watch reports.
//!
//! Objects of a `ReportDiff` placement and refused objects do not carry our label, so no watch sees them. For drift that is
//! left alone a watch only reports that the object changed; only a comparison shows whether it still drifts.

use jiff::{SignedDuration, Timestamp};

use super::live::LiveObject;
use super::progress::Progress;
use super::step::{MemberView, ObservedVersion, Plan, State, Step, Verdict, is_ours, retry_delay};
use model::api::placement::ComparisonOption;
use model::records::ApplyOutcome;
use model::work::{Desired, WorkOrder};

/// How long a comparison is valid if no watch reports changes.
///
/// Source: KubeFleet, the longest pause between two checks of a Work.
pub const RECHECK_INTERVAL: SignedDuration = SignedDuration::from_mins(15);
/// Shortest pause between two checks of a drifted object that keeps changing.
pub const CHECK_PAUSE: SignedDuration = SignedDuration::from_secs(10);

/// Decides about an object that somebody changed and that is left alone in that case: by the result of its last check.
///
/// Without a difference the change was reverted, and an apply makes the fields ours again.
///
/// Source: KubeFleet, `whenToApply: IfNotDrifted`: compares first, and applies if nothing differs.
pub(super) fn drifted(desired: &Desired, live: &LiveObject, progress: &Progress, now: Timestamp) -> Verdict {
    let Some(look) = progress.drift_check(desired) else { return Verdict::new(State::CheckDrift, "") };
    let changed_since = look.seen != ObservedVersion::of(live);
    // While the object is unchanged a check finds nothing new: a watch reports the next change.
    let next = changed_since.then(|| look.at + CHECK_PAUSE);
    match &look.found {
        Ok(found) if found.drifted => {
            let message = "it was changed on the member; whenToApply IfNotDrifted leaves it";
            Verdict { recheck_at: next, ..Verdict::new(State::Refused(ApplyOutcome::FoundDrifts), message) }
        }
        // The later change may concern fields that are not ours.
        Ok(_) if look.seen.owned == live.owned && look.at + CHECK_PAUSE > now => {
            Verdict::new(State::Apply { put_back: false }, "")
        }
        // It changed since, or the check is too old: an apply might undo a change by somebody else.
        Ok(_) => Verdict::new(State::CheckDrift, ""),
        Err(why) => {
            let message = format!("it was changed on the member; the difference cannot be read: {why}");
            let recheck_at = Some(look.at + retry_delay(look.failures));
            Verdict { recheck_at, ..Verdict::new(State::Refused(ApplyOutcome::FailedToRunDriftDetection), message) }
        }
    }
}

/// Returns when an object in its desired state must be checked again, and whether it was checked before: `FullComparison`
/// reports fields that others add, and no digest shows those.
pub(super) fn full_check(order: &WorkOrder, desired: &Desired, progress: &Progress) -> Option<(Timestamp, bool)> {
    if order.strategy.comparison_option != ComparisonOption::FullComparison {
        return None;
    }
    let look = progress.drift_check(desired).map(|look| look.at);
    // The apply itself compared all fields, so the first check is due one interval after it.
    let known = look.or_else(|| progress.attempt(desired).map(|attempt| attempt.at));
    Some(known.map_or((Timestamp::MIN, false), |at| (at + RECHECK_INTERVAL, true)))
}

/// Returns the step that checks a refused object again.
pub(super) fn step(position: usize, order: &WorkOrder, outcome: ApplyOutcome, view: &MemberView<'_>) -> Option<Step> {
    let desired = &order.manifests[position];
    match outcome {
        ApplyOutcome::NotTakenOver | ApplyOutcome::FailedToTakeOver => {
            Some(Step::Apply { position, put_back: false, probe: !is_ours(desired, view) })
        }
        _ => show_drift(position, desired, view),
    }
}

/// Returns the step that compares a live object.
pub(super) fn show_drift(position: usize, desired: &Desired, view: &MemberView<'_>) -> Option<Step> {
    view.live.get(&desired.key).map(|live| Step::ShowDrift { position, seen: ObservedVersion::of(live) })
}

/// Returns the comparisons of a `ReportDiff` order that are missing or due again: because they failed, or because no watch
/// reports changes. Such an order has no other steps.
pub(super) fn compare(order: &WorkOrder, progress: &Progress, now: Timestamp) -> Plan {
    let mut plan = Plan { complete: true, ..Plan::default() };
    let mut next: Option<Timestamp> = None;
    for (position, desired) in order.manifests.iter().enumerate() {
        let attempt = progress.attempt(desired);
        let compared = attempt.filter(|a| matches!(a.outcome, ApplyOutcome::FoundDiff | ApplyOutcome::NoDiffFound));
        let due = match (compared, attempt) {
            (Some(compared), _) => compared.at + RECHECK_INTERVAL,
            (None, Some(failed)) => failed.at + retry_delay(failed.failures),
            (None, None) => now,
        };
        if due > now {
            next = Some(next.map_or(due, |next| next.min(due)));
        } else {
            plan.steps.push(Step::Compare { position });
            // A successful comparison is valid until the next one; a failed or missing one has no result.
            plan.complete &= compared.is_some();
        }
    }
    if plan.steps.is_empty() {
        plan.wake_at = next;
    }
    plan.rechecks = plan.complete && !plan.steps.is_empty();
    plan
}
