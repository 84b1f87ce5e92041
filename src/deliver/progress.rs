//! What was tried so far on one member for one work.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::step::DriftCheck;
use crate::api::placement::ApplyStrategyType;
use crate::model::id::{Digest, ObjectKey};
use crate::model::records::{ApplyOutcome, Difference, ManifestStatus};
use crate::model::work::{Desired, WorkOrder};

/// What became of the last try to apply an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// The manifest that was tried.
    pub manifest: Digest,
    /// What came of it.
    pub outcome: ApplyOutcome,
    /// Why, for people.
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
    /// Returns the try that was reported before a restart, due to be made again.
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
}

/// What an object was like after a manifest was applied: drift is told from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    /// The manifest that was applied last.
    pub manifest: Digest,
    /// Digest of the fields we own in the API server's answer.
    pub owned: Digest,
}

/// What was tried so far for one work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Tries by object.
    pub attempts: BTreeMap<Arc<ObjectKey>, Box<Attempt>>,
    /// Objects whose deletion was accepted, by uid.
    pub deleted: BTreeSet<String>,
    /// What objects were like when they were last applied, from before a restart as well.
    pub baselines: BTreeMap<Arc<ObjectKey>, Baseline>,
    /// The last looks at objects of ours that are left as they are.
    pub drift_checks: BTreeMap<Arc<ObjectKey>, DriftCheck>,
    /// An earlier life reported the work: an object that its report does not name was applied, if at all, with no report of it.
    pub is_reported: bool,
}

impl Progress {
    /// Returns the last try of a manifest; one of another content of the object is none.
    pub fn attempt(&self, desired: &Desired) -> Option<&Attempt> {
        self.attempts.get(&desired.key).map(AsRef::as_ref).filter(|attempt| attempt.manifest == desired.digest)
    }

    /// Returns the fields we owned when a manifest was applied last; of another content of the object nothing is known.
    pub fn baseline(&self, desired: &Desired) -> Option<&Digest> {
        self.baselines.get(&desired.key).filter(|known| known.manifest == desired.digest).map(|known| &known.owned)
    }

    /// Returns the last look at an object since it was last applied; one that compared with another manifest is none.
    pub fn drift_check(&self, desired: &Desired) -> Option<&DriftCheck> {
        self.drift_checks.get(&desired.key).filter(|look| look.manifest == desired.digest)
    }

    /// Forgets what a new generation of the order must try again: refusals, every comparison where it only compares, and
    /// what it does not hold (brought back later, it is applied and not put back). What was applied stays known, or drift
    /// could not be told from a change.
    pub fn begin_anew(&mut self, order: &WorkOrder) {
        let compares = order.strategy.type_ == ApplyStrategyType::ReportDiff;
        let held: BTreeSet<&ObjectKey> = order.manifests.iter().map(|desired| desired.key.as_ref()).collect();
        self.attempts.retain(|key, attempt| {
            !compares && attempt.outcome == ApplyOutcome::Applied && held.contains(key.as_ref())
        });
        self.baselines.retain(|key, _| held.contains(key.as_ref()));
        self.drift_checks.clear();
    }
}
