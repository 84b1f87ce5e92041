//! What a delivery looks like to the hall: pure.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::mind::Delivery;
use crate::deliver::plan::{MemberView, State, verdict};
use crate::model::id::ObjectKey;
use crate::model::records::{ApplyOutcome, Availability, Difference, ManifestStatus, WorkStatus};
use crate::model::work::Desired;

impl Delivery {
    /// Returns what became of the order so far; `inventory` is what carries its placement's label.
    pub(super) fn status(&self, view: &MemberView<'_>, inventory: BTreeSet<ObjectKey>, now: Timestamp) -> WorkStatus {
        let manifests: Vec<ManifestStatus> =
            self.order.manifests.iter().map(|desired| manifest_status(self, desired, view, now)).collect();
        let complete = self.plan.complete && self.in_flight == 0 && !self.stale;
        let settled = |m: &ManifestStatus| m.availability.is_some_and(|a| a != Availability::ManifestNotAvailableYet);
        let available = complete && manifests.iter().all(settled);
        let since = self.reported.as_ref().filter(|r| r.generation == self.order.generation);
        let held_deletions = self.order.held.intersection(&inventory).cloned().collect();
        WorkStatus {
            generation: self.order.generation,
            complete,
            failure: self.plan.failure.clone(),
            available_since: available.then(|| since.and_then(|r| r.available_since).unwrap_or(now)),
            manifests,
            inventory,
            held_deletions,
        }
    }
}

fn manifest_status(delivery: &Delivery, desired: &Desired, view: &MemberView<'_>, now: Timestamp) -> ManifestStatus {
    let attempt = delivery.progress.attempts.get(&desired.key).filter(|a| a.manifest == desired.digest);
    let compared = attempt.filter(|a| {
        matches!(a.outcome, ApplyOutcome::NoDiffFound | ApplyOutcome::FoundDiff | ApplyOutcome::FailedToReportDiff)
    });
    let verdict = verdict(&delivery.order, desired, view, &delivery.progress, now);
    let applied = match (compared, verdict.state) {
        (Some(compared), _) => compared.outcome,
        (None, State::Done) => ApplyOutcome::Applied,
        (None, State::Refused(outcome)) => outcome,
        (None, State::Apply { .. } | State::Wait | State::Retry(_)) => attempt
            .map(|a| a.outcome)
            .filter(|outcome| *outcome != ApplyOutcome::Applied)
            .unwrap_or(if matches!(verdict.state, State::Retry(_)) {
                ApplyOutcome::ManifestApplyFailed
            } else {
                ApplyOutcome::Pending
            }),
    };
    let live = view.live.get(&desired.key).filter(|_| applied == ApplyOutcome::Applied);
    ManifestStatus {
        id: desired.id.clone(),
        applied,
        message: compared.map_or(verdict.message, |a| a.message.clone()),
        availability: live.map(|live| live.availability),
        owned: attempt
            .and_then(|a| a.owned.clone())
            .or_else(|| delivery.progress.baselines.get(&desired.key).cloned())
            .or_else(|| live.map(|live| live.owned.clone())),
        differences: differences(delivery, desired, applied),
    }
}

/// Returns what an object differs in: of drift that is left alone what was last looked at, else what its attempt found.
fn differences(delivery: &Delivery, desired: &Desired, applied: ApplyOutcome) -> Vec<Difference> {
    let progress = &delivery.progress;
    if applied == ApplyOutcome::FoundDrifts {
        return progress.drifts.get(&desired.key).map(|(_, found)| found.clone()).unwrap_or_default();
    }
    let attempt = progress.attempts.get(&desired.key).filter(|a| a.manifest == desired.digest);
    attempt.map(|a| a.differences.clone()).unwrap_or_default()
}
