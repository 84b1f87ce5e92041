//! The report about a delivery: pure.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::delivery::Delivery;
use deliver::live::LiveObject;
use deliver::plan::verdict;
use deliver::step::{MemberView, State};
use model::id::ObjectId;
use model::records::{ApplyOutcome, Availability, Difference, Inventory, ManifestStatus, WorkStatus};
use model::work::Desired;

impl Delivery {
    /// Returns the result of the order so far; `inventory` holds the objects with its placement's label.
    ///
    /// While one of its kinds cannot be listed, work that was reported complete keeps that report: an object that cannot be
    /// seen is neither gone nor failed.
    pub(super) fn status(&self, view: &MemberView<'_>, inventory: Inventory, now: Timestamp) -> WorkStatus {
        let before = self.reported.as_ref().or(self.inherited.as_ref());
        let is_unseen = !view.unlisted.is_empty();
        if let Some(known) = before.filter(|b| is_unseen && b.complete && b.generation == self.order.generation) {
            return WorkStatus { inventory, ..known.as_ref().clone() };
        }
        let mut manifests: Vec<ManifestStatus> =
            self.order.manifests.iter().map(|desired| manifest_status(self, desired, view, now)).collect();
        let complete = self.is_done();
        date_differences(&mut manifests, before.map_or(&[], |before| &before.manifests), complete, now);
        let is_available = |m: &ManifestStatus| m.availability.is_some_and(Availability::counts_as_available);
        let available = complete && manifests.iter().all(is_available);
        let since = before.filter(|before| before.generation == self.order.generation);
        let held_deletions = self.order.held.intersection(inventory.seen()).cloned().collect();
        WorkStatus {
            generation: self.order.generation,
            complete,
            failure: self.plan.failure.clone(),
            available_since: available.then(|| since.and_then(|r| r.available_since).unwrap_or(now)),
            manifests: manifests.into(),
            inventory,
            held_deletions,
            kept: view.parent.map(|parent| parent.kept.clone()).unwrap_or_default(),
        }
    }
}

fn manifest_status(delivery: &Delivery, desired: &Desired, view: &MemberView<'_>, now: Timestamp) -> ManifestStatus {
    let attempt = delivery.progress.attempt(desired);
    let compared = attempt.filter(|a| {
        matches!(a.outcome, ApplyOutcome::NoDiffFound | ApplyOutcome::FoundDiff | ApplyOutcome::FailedToReportDiff)
    });
    let verdict = verdict(&delivery.order, desired, view, &delivery.progress, now);
    let applied = match (compared, verdict.state) {
        (Some(compared), _) => compared.outcome,
        // It was applied, and no drift was found yet.
        (None, State::Done | State::CheckDrift) => ApplyOutcome::Applied,
        (None, State::Refused(outcome)) => outcome,
        (None, State::Apply { .. } | State::Wait | State::Retry(_)) => attempt
            .map(|a| a.outcome)
            // It was applied once and must be applied again, so it is pending.
            .filter(|outcome| *outcome != ApplyOutcome::Applied)
            .unwrap_or(if matches!(verdict.state, State::Retry(_)) {
                ApplyOutcome::ManifestApplyFailed
            } else {
                ApplyOutcome::Pending
            }),
    };
    let on_member = view.live.get(&desired.key);
    let live = on_member.filter(|_| applied == ApplyOutcome::Applied);
    let owned = delivery.progress.baseline(desired).or_else(|| live.map(|live| &live.owned));
    let mut message = compared.map_or(verdict.message, |a| a.message.clone());
    if message.is_empty()
        && let Some(why) = live.and_then(|live| live.unavailable_because.as_deref())
    {
        why.clone_into(&mut message);
    }
    ManifestStatus {
        id: desired.id.clone(),
        applied,
        message,
        availability: live.map(|live| live.availability),
        generation: on_member.and_then(LiveObject::generation),
        manifest: (attempt.is_some() || owned.is_some()).then(|| desired.digest.clone()),
        owned: owned.cloned(),
        differences: differences(delivery, desired, applied),
        differs_since: None,
        observed_at: None,
    }
}

/// Dates the differences of objects, and of their present fields: as in the earlier report, else from now on. An object that is
/// not known to be right again keeps its dates.
fn date_differences(manifests: &mut [ManifestStatus], reported: &[ManifestStatus], complete: bool, now: Timestamp) {
    let dated = reported.iter().filter(|known| known.differs_since.is_some()).map(|known| (&known.id, known));
    let dated: BTreeMap<&ObjectId, &ManifestStatus> = dated.collect();
    for manifest in manifests {
        let known = dated.get(&manifest.id);
        let since = known.and_then(|known| known.differs_since);
        let observed = known.and_then(|known| known.observed_at);
        if manifest.differences.is_empty() {
            if !complete || is_unknown(manifest.applied) {
                (manifest.differs_since, manifest.observed_at) = (since, observed);
            }
            continue;
        }
        let same_fields = known.is_some_and(|known| known.differences == manifest.differences);
        manifest.differs_since = since.or(Some(now));
        manifest.observed_at = observed.filter(|_| same_fields).or(Some(now));
    }
}

/// Tells whether an outcome does not show how the object differs.
fn is_unknown(outcome: ApplyOutcome) -> bool {
    matches!(
        outcome,
        ApplyOutcome::Pending
            | ApplyOutcome::FailedToReportDiff
            | ApplyOutcome::FailedToRunDriftDetection
            | ApplyOutcome::FailedToFindObjInMemberCluster
    )
}

/// Returns the differences of an object: from its last check, else from its attempt.
fn differences(delivery: &Delivery, desired: &Desired, applied: ApplyOutcome) -> Vec<Difference> {
    let progress = &delivery.progress;
    let is_ours = matches!(applied, ApplyOutcome::Applied | ApplyOutcome::FoundDrifts);
    let found = progress.drift_check(desired).filter(|_| is_ours).and_then(|look| look.found.as_ref().ok());
    let attempt = || progress.attempt(desired).map(|attempt| &attempt.differences);
    found.map(|found| &found.differences).or_else(attempt).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests;
