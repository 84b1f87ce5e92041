//! Looking again: what no watch tells of is compared anew after a while.
//!
//! Objects of a `ReportDiff` placement and objects that were not taken over do not carry our label, so no watch sees them. Of
//! drift that is left alone a watch sees that the object changed, and only a comparison shows whether it is still drift.

use jiff::{SignedDuration, Timestamp};

use super::live::LiveObject;
use super::progress::Progress;
use super::step::{MemberView, ObservedVersion, Plan, State, Step, Verdict, is_ours, retry_delay};
use crate::api::placement::ComparisonOption;
use crate::model::records::ApplyOutcome;
use crate::model::work::{Desired, WorkOrder};

/// How long what was compared is taken to be so still, where nothing tells of changes.
///
/// Source: KubeFleet, the longest pause between two looks at a Work.
pub const RECHECK_INTERVAL: SignedDuration = SignedDuration::from_mins(15);
/// Shortest pause between two looks at a drifted object that changes on and on.
pub const CHECK_PAUSE: SignedDuration = SignedDuration::from_secs(10);

/// Decides about an object that somebody changed and that is left alone then: what was found when it was last looked at.
///
/// Without a difference the change was taken back, and applying makes the fields ours again.
///
/// Source: KubeFleet, `whenToApply: IfNotDrifted`: compared first, and applied where nothing differs.
pub(super) fn drifted(desired: &Desired, live: &LiveObject, progress: &Progress, now: Timestamp) -> Verdict {
    let say = |state, message: &str, recheck_at| Verdict { state, message: message.to_owned(), recheck_at };
    let Some(look) = progress.drift_check(desired) else { return say(State::CheckDrift, "", None) };
    let changed_since = look.seen != ObservedVersion::of(live);
    // While it stands as it was seen nothing new can be found: a watch tells of the next change.
    let next = changed_since.then(|| look.at + CHECK_PAUSE);
    match &look.found {
        Ok(found) if found.drifted => {
            let message = "it was changed on the member; whenToApply IfNotDrifted leaves it";
            say(State::Refused(ApplyOutcome::FoundDrifts), message, next)
        }
        // What changed since then need not be one of our fields.
        Ok(_) if look.seen.owned == live.owned && look.at + CHECK_PAUSE > now => {
            say(State::Apply { put_back: false }, "", None)
        }
        // Changed since then, or looked at too long ago: an apply by that answer might undo a change of somebody else.
        Ok(_) => say(State::CheckDrift, "", None),
        Err(why) => {
            let message = format!("it was changed on the member; in what cannot be seen: {why}");
            let next = look.at + retry_delay(look.failures);
            say(State::Refused(ApplyOutcome::FailedToRunDriftDetection), &message, Some(next))
        }
    }
}

/// Returns when an object that is as wished is due to be looked at again, and whether it was looked at before: under
/// `FullComparison` what others add to it is reported, and no digest tells of that.
pub(super) fn full_check(order: &WorkOrder, desired: &Desired, progress: &Progress) -> Option<(Timestamp, bool)> {
    if order.strategy.comparison_option != ComparisonOption::FullComparison {
        return None;
    }
    let look = progress.drift_check(desired).map(|look| look.at);
    // The apply itself compared all fields, so the first look is due as long after it as any other.
    let known = look.or_else(|| progress.attempt(desired).map(|attempt| attempt.at));
    Some(known.map_or((Timestamp::MIN, false), |at| (at + RECHECK_INTERVAL, true)))
}

/// Returns the step that looks again at a refused object.
pub(super) fn step(position: usize, order: &WorkOrder, outcome: ApplyOutcome, view: &MemberView<'_>) -> Option<Step> {
    let desired = &order.manifests[position];
    match outcome {
        ApplyOutcome::NotTakenOver | ApplyOutcome::FailedToTakeOver => {
            Some(Step::Apply { position, put_back: false, probe: !is_ours(desired, view) })
        }
        _ => show_drift(position, desired, view),
    }
}

/// Returns the look at a live object.
pub(super) fn show_drift(position: usize, desired: &Desired, view: &MemberView<'_>) -> Option<Step> {
    view.live.get(&desired.key).map(|live| Step::ShowDrift { position, seen: ObservedVersion::of(live) })
}

/// Returns the comparisons of a `ReportDiff` order that are still to be made, or are due again: because they failed, or because
/// nothing tells whether what they found is still so. Nothing else is done at all.
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
            // A comparison that was made stands until the next one; one that failed, or was never made, tells nothing.
            plan.complete &= compared.is_some();
        }
    }
    if plan.steps.is_empty() {
        plan.wake_at = next;
    }
    plan.rechecks = plan.complete && !plan.steps.is_empty();
    plan
}
