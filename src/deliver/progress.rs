//! The progress of one work on one member: earlier attempts and their results.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::live::Uid;
use super::step::DriftCheck;
use model::api::placement::ApplyStrategyType;
use model::id::{Digest, ObjectKey};
use model::records::{ApplyOutcome, Difference, ManifestStatus};
use model::shared::Pool;
use model::work::{Desired, WorkOrder};

/// The window in which put-backs are counted.
pub const PUT_BACK_WINDOW: SignedDuration = SignedDuration::from_mins(10);

/// The last attempt to apply an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// The manifest of the attempt.
    pub manifest: Digest,
    /// The result.
    pub outcome: ApplyOutcome,
    /// The reason, as text for users.
    pub message: String,
    /// When.
    pub at: Timestamp,
    /// Failures in a row.
    pub failures: u32,
    /// Put-backs within the window.
    pub put_backs: Vec<Timestamp>,
    /// What a comparison found.
    pub differences: Vec<Difference>,
}

impl Attempt {
    /// Returns the attempt that was reported before a restart, due for a retry.
    pub fn before(manifest: &Digest, reported: &ManifestStatus) -> Self {
        Self {
            manifest: manifest.clone(),
            outcome: reported.applied,
            message: reported.message.clone(),
            at: Timestamp::UNIX_EPOCH,
            failures: 1,
            put_backs: Vec::new(),
            differences: reported.differences.clone(),
        }
    }

    /// Tells whether it was reported before a restart.
    pub fn is_of_before(&self) -> bool {
        self.at == Timestamp::UNIX_EPOCH
    }
}

/// The state of an object after an apply: the reference for drift.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Baseline {
    /// The manifest of the last apply.
    pub manifest: Digest,
    /// Digest of the fields we own in the API server's answer.
    pub owned: Digest,
}

/// Baselines by object.
pub type Baselines = BTreeMap<Arc<ObjectKey>, Baseline>;

/// Returns the pool of baselines of the whole process.
pub fn baselines_pool() -> &'static Pool<Baselines> {
    static POOL: Pool<Baselines> = Pool::new();
    &POOL
}

/// The progress of one work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Attempts by object.
    pub attempts: BTreeMap<Arc<ObjectKey>, Box<Attempt>>,
    /// Objects whose deletion was accepted, by uid.
    pub deleted: BTreeSet<Uid>,
    /// Baselines by object, including those from before a restart. Members with the same content share them once it is delivered.
    pub baselines: Arc<Baselines>,
    /// The last checks of gitfleet's objects that are left as they are.
    pub drift_checks: BTreeMap<Arc<ObjectKey>, DriftCheck>,
    /// An earlier process reported the work, or this one has dropped baselines: what has none was applied, if at all, without a report, or may
    /// have changed since.
    pub is_reported: bool,
}

impl Progress {
    /// Returns the last attempt with this manifest; `None` for another content of the object.
    pub fn attempt(&self, desired: &Desired) -> Option<&Attempt> {
        self.attempts.get(&desired.key).map(AsRef::as_ref).filter(|attempt| attempt.manifest == desired.digest)
    }

    /// Returns the fields that gitfleet owned after the last apply of this manifest; `None` for another content of the object.
    pub fn baseline(&self, desired: &Desired) -> Option<&Digest> {
        self.baselines.get(&desired.key).filter(|known| known.manifest == desired.digest).map(|known| &known.owned)
    }

    /// Returns the last check of an object since its last apply; `None` if it compared another manifest.
    pub fn drift_check(&self, desired: &Desired) -> Option<&DriftCheck> {
        self.drift_checks.get(&desired.key).filter(|look| look.manifest == desired.digest)
    }

    /// Drops what a new generation of the order must try again: refusals, every comparison if the order only compares, and
    /// objects that it does not contain (if they return, they are applied and not put back). Other baselines stay, or drift could not
    /// be told from a change.
    pub fn restart(&mut self, order: &WorkOrder) {
        let compares = order.strategy.type_ == ApplyStrategyType::ReportDiff;
        let held: BTreeSet<&ObjectKey> = order.manifests.iter().map(|desired| desired.key.as_ref()).collect();
        self.attempts.retain(|key, attempt| {
            !compares && attempt.outcome == ApplyOutcome::Applied && held.contains(key.as_ref())
        });
        if self.baselines.keys().any(|key| !held.contains(key.as_ref())) {
            Arc::make_mut(&mut self.baselines).retain(|key, _| held.contains(key.as_ref()));
            // If the removal is taken back, somebody may have changed these objects meanwhile: what is found then is no baseline.
            self.is_reported = true;
        }
        self.drift_checks.clear();
    }

    /// Gives up the memory that a delivered work does not need: attempts whose success the baseline shows already, and baselines
    /// that another member has, too.
    pub fn condense(&mut self, now: Timestamp) {
        let baselines = &self.baselines;
        self.attempts.retain(|key, attempt| {
            let is_shown = baselines.get(key).is_some_and(|baseline| baseline.manifest == attempt.manifest);
            let was_put_back = attempt.put_backs.iter().any(|at| *at + PUT_BACK_WINDOW > now);
            attempt.outcome != ApplyOutcome::Applied || !is_shown || was_put_back
        });
        self.baselines = baselines_pool().share(Arc::clone(&self.baselines));
    }
}
