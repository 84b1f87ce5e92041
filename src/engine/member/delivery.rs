//! One active order on a member, and its progress: pure.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::result::StepResult;
use deliver::progress::{Attempt, Baseline, Baselines, Progress, baselines_pool};
use deliver::step::DriftCheck;
use deliver::step::{Plan, RETRY_MAX, Step};
use model::api::placement::ApplyStrategyType;
use model::id::{Digest, ObjectId, ObjectKey};
use model::records::{ApplyOutcome, WorkStatus};
use model::work::WorkOrder;

/// Pause before a deletion that was refused is tried again.
const DELETE_RETRY: SignedDuration = SignedDuration::from_secs(30);

/// An active order.
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
    /// What the steps of the last plan do.
    pub(super) doing: Doing,
    /// Something happened since the last report.
    pub(super) unreported: bool,
    pub(super) reported: Option<Arc<WorkStatus>>,
    /// The last report before a restart or before the member stopped answering, until a new report replaces it.
    pub(super) inherited: Option<Arc<WorkStatus>>,
}

/// The kind of work that a plan does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// Only repeated checks of reported objects: the reported state of the work stays valid.
    Rechecks,
    /// First checks, which change nothing.
    Reads,
    /// Steps that change objects, or something else happened since.
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
    /// Records a change that the plan does not know.
    pub(super) fn touch(&mut self) {
        self.stale = true;
        self.doing = Doing::Writes;
    }

    /// Forgets refusals, so that these objects are tried with the next plan. Its result is reported, also if it is the same.
    pub(super) fn try_again(&mut self) {
        let order = Arc::clone(&self.order);
        self.progress.restart(&order);
        self.inherited = self.reported.take().or(self.inherited.take());
        self.touch();
    }

    /// Tells whether work that was reported complete, before a restart or an outage of the member, was not checked since.
    pub(super) fn is_unconfirmed(&self) -> bool {
        let stands = |work: &Arc<WorkStatus>| work.complete && work.generation == self.order.generation;
        let is_looking = self.stale || self.in_flight > 0 && self.doing == Doing::Reads;
        self.reported.is_none() && is_looking && self.inherited.as_ref().is_some_and(stands)
    }

    /// Tells whether the order brings objects into a Namespace or of a definition.
    pub(super) fn brings_into(&self, container: &ObjectKey) -> bool {
        let writes = self.order.strategy.type_ != ApplyStrategyType::ReportDiff;
        writes && self.order.manifests.iter().any(|desired| desired.key.is_inside(container))
    }

    /// Tells whether every step of the last plan is done, or the reported state is valid until then.
    pub(super) fn is_done(&self) -> bool {
        self.plan.complete && (self.doing == Doing::Rechecks || (self.in_flight == 0 && !self.stale))
    }

    pub(super) fn settle(&mut self, result: StepResult, now: Timestamp) -> Option<String> {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.stale = true;
        self.unreported = true;
        match result {
            StepResult::Offline(reason) => return Some(reason),
            // The reconciler keeps the inventories of all placements, and what is there.
            StepResult::Parent(..) | StepResult::Changed { .. } => {}
            StepResult::ParentFailed(message) => self.give_up_until(message, now + RETRY_MAX),
            StepResult::DeleteFailed { message } => self.give_up_until(message, now + DELETE_RETRY),
            StepResult::Applied { key, attempt, live } => {
                if attempt.outcome == ApplyOutcome::Applied {
                    self.note_baseline(&key, &attempt.manifest, live.map(|live| live.owned.clone()));
                    // An earlier check described the object before this apply.
                    self.progress.drift_checks.remove(&key);
                    // A repeated check has written, so the earlier report is no longer valid.
                    self.doing = Doing::Writes;
                }
                self.progress.attempts.insert(key, attempt);
            }
            StepResult::Deleted { key: _, uid, gone } => {
                // A deleted object may come back with the same uid: the uid of a file is its name.
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

    /// Records the applied state of an object as the baseline for drift. Without the object in the member's answer there is no
    /// baseline.
    pub(super) fn note_baseline(&mut self, key: &Arc<ObjectKey>, manifest: &Digest, owned: Option<Digest>) {
        match owned {
            Some(owned) => {
                let baseline = Baseline { manifest: manifest.clone(), owned };
                Arc::make_mut(&mut self.progress.baselines).insert(Arc::clone(key), baseline);
            }
            None => drop(Arc::make_mut(&mut self.progress.baselines).remove(key)),
        }
    }

    /// Records a baseline for objects that were found right but not written in this process: the store is new, or the answer to
    /// the write did not show the object.
    pub(super) fn note_baselines(&mut self, status: &WorkStatus) {
        let order = Arc::clone(&self.order);
        let reported = order.manifests.iter().zip(&status.manifests);
        for (desired, manifest) in reported.filter(|(_, manifest)| manifest.applied == ApplyOutcome::Applied) {
            if self.progress.baseline(desired).is_none() && manifest.owned.is_some() {
                self.note_baseline(&desired.key, &desired.digest, manifest.owned.clone());
            }
        }
    }

    pub(super) fn give_up_until(&mut self, message: String, at: Timestamp) {
        self.plan.failure = Some(message);
        self.plan.wake_at = Some(at);
        // A stale delivery would be planned again immediately, and retried without a pause.
        self.stale = false;
    }
}

/// Tells whether an outcome is that of an attempt, and valid until the next one.
fn is_lasting(outcome: ApplyOutcome) -> bool {
    !matches!(
        outcome,
        ApplyOutcome::Pending
            | ApplyOutcome::Applied
            | ApplyOutcome::FoundDrifts
            | ApplyOutcome::FailedToRunDriftDetection
    )
}

/// Returns the progress from a report before a restart: baselines of applied objects and, if the order is the same, its
/// refusals, which stay until the next attempt.
pub(super) fn progress_of(order: &WorkOrder, reported: &WorkStatus) -> Progress {
    // Mostly they have the same positions as in the order.
    let key = |position: usize, id: &ObjectId| match order.manifests.get(position) {
        Some(desired) if desired.id == *id => Arc::clone(&desired.key),
        _ => Arc::new(id.key()),
    };
    let is_same = reported.complete && reported.generation == order.generation;
    // A first report lists what the member holds before it gets orders; such a report says nothing about single objects. One about a
    // removal names none, and what is taken back then was known before.
    let mut progress = Progress { is_reported: reported.generation > 0, ..Progress::default() };
    let mut attempts = Vec::new();
    let mut baselines = Vec::new();
    for (position, status) in reported.manifests.iter().enumerate() {
        let Some(manifest) = &status.manifest else { continue };
        let key = key(position, &status.id);
        if is_same && is_lasting(status.applied) {
            attempts.push((Arc::clone(&key), Box::new(Attempt::before(manifest, status))));
        }
        if let Some(owned) = &status.owned {
            baselines.push((key, Baseline { manifest: manifest.clone(), owned: owned.clone() }));
        }
    }
    // At once, because inserting one by one compares every name with many.
    progress.attempts = attempts.into_iter().collect();
    progress.baselines = baselines_pool().share(baselines.into_iter().collect::<Baselines>());
    progress
}
