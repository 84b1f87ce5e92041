//! What came of one step of a delivery, and what an attempt counts on from it.

use std::sync::Arc;

use jiff::Timestamp;

use crate::deliver::inventory::Parent;
use crate::deliver::live::LiveObject;
use crate::deliver::progress::Attempt;
use crate::deliver::step::{Found, ObservedVersion};
use crate::model::id::{Digest, ObjectKey};
use crate::model::records::{ApplyOutcome, Difference};
use crate::model::work::Desired;

/// What came of a step.
#[derive(Debug)]
pub enum StepResult {
    /// The member does not answer; the step may or may not have been carried out.
    Offline(String),
    /// The inventory is as wished; `None` where it was removed.
    Parent(Option<Parent>),
    /// The inventory could not be written.
    ParentFailed(String),
    /// An object was tried.
    Applied {
        /// Which.
        key: Arc<ObjectKey>,
        /// What came of it.
        attempt: Box<Attempt>,
        /// The object as the member answered.
        live: Option<LiveObject>,
    },
    /// An object of ours was looked at.
    Drift {
        /// Which.
        key: Arc<ObjectKey>,
        /// The manifest it was compared with.
        manifest: Digest,
        /// How it stood.
        seen: ObservedVersion,
        /// What was found, or why it could not be looked at, for people.
        found: Result<Found, String>,
    },
    /// A deletion was accepted, or the object was given up.
    Deleted {
        /// Which.
        key: ObjectKey,
        /// The uid that was named.
        uid: String,
        /// It is gone already, or not ours any more.
        gone: bool,
    },
    /// A deletion was refused.
    DeleteFailed {
        /// Why, for people.
        message: String,
    },
}

/// What a member said about one object.
pub struct Answer {
    /// Whether it was applied.
    pub outcome: ApplyOutcome,
    /// Why not, for people.
    pub message: String,
    /// The object as it is now.
    pub live: Option<LiveObject>,
    /// What a comparison found.
    pub differences: Vec<Difference>,
}

impl Answer {
    /// Says that an object was not written, and why.
    pub fn refused(outcome: ApplyOutcome, message: String) -> Self {
        Self { outcome, message, live: None, differences: Vec::new() }
    }
}

/// Turns an answer into an attempt, counting failures and put-backs on: pure.
pub fn tried(
    desired: &Desired,
    answer: Answer,
    put_back: bool,
    before: Option<&Attempt>,
    now: Timestamp,
) -> StepResult {
    // Failures are those of one manifest; put-backs are those of the object, whatever it was to hold.
    let same = before.filter(|b| b.manifest == desired.digest);
    let failed = matches!(
        answer.outcome,
        ApplyOutcome::ManifestApplyFailed
            | ApplyOutcome::FailedToFindObjInMemberCluster
            | ApplyOutcome::FailedToReportDiff
    );
    let mut put_backs = before.map(|b| b.put_backs.clone()).unwrap_or_default();
    put_backs.retain(|at| *at + crate::deliver::plan::PUT_BACK_WINDOW > now);
    // A put-back that failed is no sign of somebody who changes the object again and again.
    if put_back && !failed {
        put_backs.push(now);
    }
    StepResult::Applied {
        key: Arc::clone(&desired.key),
        attempt: Box::new(Attempt {
            manifest: desired.digest.clone(),
            outcome: answer.outcome,
            message: answer.message,
            at: now,
            failures: if failed { same.map_or(0, |b| b.failures) + 1 } else { 0 },
            put_backs,
            differences: answer.differences,
        }),
        live: answer.live,
    }
}
