//! One order under way on a member, and what came of it so far: pure.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::result::StepResult;
use crate::deliver::progress::{Attempt, Baseline, Progress};
use crate::deliver::step::DriftCheck;
use crate::deliver::step::{Plan, RETRY_MAX, Step};
use crate::model::id::{Digest, ObjectId, ObjectKey};
use crate::model::records::{ApplyOutcome, WorkStatus};
use crate::model::work::WorkOrder;

/// Pause before a deletion that was refused is tried again.
const DELETE_RETRY: SignedDuration = SignedDuration::from_secs(30);

/// One order under way.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) order: Arc<WorkOrder>,
    /// The value of the ApplySet label on its objects.
    pub(super) applyset: String,
    pub(super) progress: Progress,
    pub(super) in_flight: usize,
    /// Something happened since the last plan.
    pub(super) stale: bool,
    pub(super) plan: Plan,
    /// What is being done since the last plan.
    pub(super) doing: Doing,
    /// Something happened since the last report.
    pub(super) unreported: bool,
    pub(super) reported: Option<Arc<WorkStatus>>,
    /// What was reported last before a restart or before the member ceased to answer; known until it is reported anew.
    pub(super) inherited: Option<Arc<WorkStatus>>,
}

/// What the steps of a plan do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// Nothing happened since the plan but its looks at what was told before: what it says of the work holds.
    Rechecks,
    /// They look for the first time, and change nothing.
    Reads,
    /// They change objects, or something else happened meanwhile.
    Writes,
}

impl Doing {
    pub(super) fn of(plan: &Plan) -> Self {
        if plan.rechecks {
            Self::Rechecks
        } else if plan.steps.iter().any(Step::writes) {
            Self::Writes
        } else {
            Self::Reads
        }
    }
}

impl Delivery {
    /// Something happened that the plan does not know of.
    pub(super) fn touch(&mut self) {
        self.stale = true;
        self.doing = Doing::Writes;
    }

    /// Tells whether what was reported complete, before a restart or before the member ceased to answer, was not looked at since.
    pub(super) fn is_unconfirmed(&self) -> bool {
        let stands = |work: &Arc<WorkStatus>| work.complete && work.generation == self.order.generation;
        let is_looking = self.stale || self.in_flight > 0 && self.doing == Doing::Reads;
        self.reported.is_none() && is_looking && self.inherited.as_ref().is_some_and(stands)
    }

    /// Tells whether everything was done that the last plan knows of, or what was told holds until it is.
    pub(super) fn is_done(&self) -> bool {
        self.plan.complete && (self.doing == Doing::Rechecks || (self.in_flight == 0 && !self.stale))
    }

    pub(super) fn settle(&mut self, result: StepResult, now: Timestamp) -> Option<String> {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.stale = true;
        self.unreported = true;
        match result {
            StepResult::Offline(reason) => return Some(reason),
            // The reconciler keeps the inventories of all placements.
            StepResult::Parent(_) => {}
            StepResult::ParentFailed(message) => self.give_up_until(message, now + RETRY_MAX),
            StepResult::DeleteFailed { message } => self.give_up_until(message, now + DELETE_RETRY),
            StepResult::Applied { key, attempt, live } => {
                if attempt.outcome == ApplyOutcome::Applied {
                    self.note_baseline(&key, &attempt.manifest, live.map(|live| live.owned));
                    // What an old look found was before this apply.
                    self.progress.drift_checks.remove(&key);
                    // What began as another look has written: what was reported before does not hold any more.
                    self.doing = Doing::Writes;
                }
                self.progress.attempts.insert(key, attempt);
            }
            StepResult::Deleted { key: _, uid, gone } => {
                // What is gone may come back under the same uid: a file is what its name says.
                if !gone {
                    self.progress.deleted.insert(uid);
                }
            }
            StepResult::Drift { key, manifest, seen, found } => {
                let known = self.progress.drift_checks.get(&key).filter(|_| found.is_err());
                let failures = known.map_or(0, |known| known.failures) + u32::from(found.is_err());
                self.progress.drift_checks.insert(key, DriftCheck { manifest, seen, found, at: now, failures });
            }
        }
        None
    }

    /// What was applied is what drift is told from. Of what the member's answer did not show nothing is known.
    pub(super) fn note_baseline(&mut self, key: &Arc<ObjectKey>, manifest: &Digest, owned: Option<Digest>) {
        match owned {
            Some(owned) => {
                let baseline = Baseline { manifest: manifest.clone(), owned };
                self.progress.baselines.insert(Arc::clone(key), baseline);
            }
            None => drop(self.progress.baselines.remove(key)),
        }
    }

    /// What was found right and not written in this life is what drift is told from: the store is new, or the answer to our write
    /// did not show the object.
    pub(super) fn note_baselines(&mut self, status: &WorkStatus) {
        let order = Arc::clone(&self.order);
        let told = order.manifests.iter().zip(&status.manifests);
        for (desired, manifest) in told.filter(|(_, manifest)| manifest.applied == ApplyOutcome::Applied) {
            if self.progress.baseline(desired).is_none() && manifest.owned.is_some() {
                self.note_baseline(&desired.key, &desired.digest, manifest.owned.clone());
            }
        }
    }

    pub(super) fn give_up_until(&mut self, message: String, at: Timestamp) {
        self.plan.failure = Some(message);
        self.plan.wake_at = Some(at);
        // Stale, it would be planned again at once, and tried without a pause.
        self.stale = false;
    }
}

/// Tells whether an outcome is that of a try, and holds until the next.
fn stands(outcome: ApplyOutcome) -> bool {
    !matches!(
        outcome,
        ApplyOutcome::Pending
            | ApplyOutcome::Applied
            | ApplyOutcome::FoundDrifts
            | ApplyOutcome::FailedToRunDriftDetection
    )
}

/// Goes on from what was reported before a restart: what objects were like when they were last applied, and of the very order
/// what was refused, which is refused until it is tried again.
pub(super) fn go_on(order: &WorkOrder, reported: &WorkStatus) -> Progress {
    // Mostly they stand where the order has them.
    let key = |position: usize, id: &ObjectId| match order.manifests.get(position) {
        Some(desired) if desired.id == *id => Arc::clone(&desired.key),
        _ => Arc::new(id.key()),
    };
    let is_same = reported.complete && reported.generation == order.generation;
    // What a member holds is reported before anything is told it: that says nothing of any object.
    let mut progress = Progress { is_reported: !reported.manifests.is_empty(), ..Progress::default() };
    for (position, status) in reported.manifests.iter().enumerate() {
        let Some(manifest) = &status.manifest else { continue };
        let key = key(position, &status.id);
        if is_same && stands(status.applied) {
            progress.attempts.insert(Arc::clone(&key), Box::new(Attempt::before(manifest, status)));
        }
        if let Some(owned) = &status.owned {
            progress.baselines.insert(key, Baseline { manifest: manifest.clone(), owned: owned.clone() });
        }
    }
    progress
}
