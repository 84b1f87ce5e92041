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
        let mut manifests: Vec<ManifestStatus> =
            self.order.manifests.iter().map(|desired| manifest_status(self, desired, view, now)).collect();
        date_differences(&mut manifests, self.reported.as_ref().map_or(&[][..], |reported| &reported.manifests), now);
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
    let attempt = delivery.progress.attempt(desired);
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
        differs_since: None,
    }
}

/// Says since when objects differ: as was reported before, else from now on.
fn date_differences(manifests: &mut [ManifestStatus], reported: &[ManifestStatus], now: Timestamp) {
    for (position, manifest) in manifests.iter_mut().enumerate().filter(|(_, m)| !m.differences.is_empty()) {
        // Mostly they stand where they stood.
        let same = |known: &&ManifestStatus| known.id == manifest.id;
        let known = reported.get(position).filter(same).or_else(|| reported.iter().find(same));
        manifest.differs_since = known.and_then(|known| known.differs_since).or(Some(now));
    }
}

/// Returns what an object differs in: of drift that is left alone what was last looked at, else what its attempt found.
fn differences(delivery: &Delivery, desired: &Desired, applied: ApplyOutcome) -> Vec<Difference> {
    let progress = &delivery.progress;
    if applied == ApplyOutcome::FoundDrifts {
        return progress.drifts.get(&desired.key).map(|(_, found)| found.clone()).unwrap_or_default();
    }
    let attempt = progress.attempt(desired);
    attempt.map(|a| a.differences.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::diff::missing_object;
    use crate::model::id::ObjectId;

    #[test]
    fn a_difference_keeps_the_instant_it_was_first_seen_at() {
        let at = |second| Timestamp::from_second(second).expect("an instant");
        let manifest = |name: &str, differs: bool| ManifestStatus {
            id: ObjectId { name: name.into(), ..ObjectId::default() },
            applied: ApplyOutcome::FoundDrifts,
            message: String::new(),
            availability: None,
            owned: None,
            differences: if differs { vec![missing_object()] } else { vec![] },
            differs_since: None,
        };
        let dated = |manifests: &[(&str, bool)], reported: &[ManifestStatus], now| {
            let mut manifests: Vec<_> = manifests.iter().map(|(name, differs)| manifest(name, *differs)).collect();
            date_differences(&mut manifests, reported, at(now));
            manifests
        };
        let since = |manifests: &[ManifestStatus]| manifests.iter().map(|m| m.differs_since).collect::<Vec<_>>();
        let first = dated(&[("a", true), ("b", false)], &[], 1);
        assert_eq!(since(&first), [Some(at(1)), None]);
        let moved = dated(&[("new", false), ("a", true), ("b", true)], &first, 2);
        assert_eq!(since(&moved), [None, Some(at(1)), Some(at(2))]);
        let mended = dated(&[("a", false)], &moved, 3);
        assert_eq!(since(&dated(&[("a", true)], &mended, 4)), [Some(at(4))], "it was right in between");
    }
}
