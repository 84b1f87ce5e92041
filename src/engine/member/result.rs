//! The result of one delivery step, and the counts that an attempt carries over.

use std::sync::Arc;

use jiff::Timestamp;

use deliver::inventory::Parent;
use deliver::live::{LiveObject, Uid};
use deliver::progress::Attempt;
use deliver::step::{Found, ObservedVersion};
use model::id::{Digest, ObjectKey};
use model::records::{ApplyOutcome, Difference};
use model::work::Desired;

/// The result of a step.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one lives at a time")]
pub enum StepResult {
    /// The member does not answer; the step may or may not have been executed.
    Offline(String),
    /// The inventory was written, with its new resource version; `None` if it was removed. Version 0: none is known.
    Parent(Option<Parent>, u64),
    /// The inventory could not be written.
    ParentFailed(String),
    /// An apply was tried.
    Applied {
        /// The object.
        key: Arc<ObjectKey>,
        /// The attempt.
        attempt: Box<Attempt>,
        /// The object in the member's answer.
        live: Option<LiveObject>,
    },
    /// An object of gitfleet was checked for drift.
    Drift {
        /// The object.
        key: Arc<ObjectKey>,
        /// The manifest it was compared with.
        manifest: Digest,
        /// Its version at the check.
        seen: ObservedVersion,
        /// The result, or why the check failed, as text for users.
        found: Result<Found, String>,
    },
    /// A deletion was accepted, or the object was given up.
    Deleted {
        /// The object.
        key: ObjectKey,
        /// The uid in the request.
        uid: Uid,
        /// It is already gone, or no longer belongs to gitfleet.
        gone: bool,
    },
    /// An object was not deleted, because it changed since it was listed. What it is now decides whether it goes.
    Changed {
        /// The object as it is now.
        live: LiveObject,
    },
    /// A deletion was refused.
    DeleteFailed {
        /// The reason, as text for users.
        message: String,
    },
}

/// A member's answer about one object.
pub struct Answer {
    /// Whether it was applied.
    pub outcome: ApplyOutcome,
    /// The reason if not, as text for users.
    pub message: String,
    /// The object after the request.
    pub live: Option<LiveObject>,
    /// The differences that a comparison found.
    pub differences: Vec<Difference>,
}

impl Answer {
    /// Creates the answer for an object that was not written.
    pub fn refused(outcome: ApplyOutcome, message: String) -> Self {
        Self { outcome, message, live: None, differences: Vec::new() }
    }
}

/// Turns an answer into an attempt and continues the counts of failures and put-backs: pure.
pub fn tried(
    desired: &Desired,
    answer: Answer,
    put_back: bool,
    before: Option<&Attempt>,
    now: Timestamp,
) -> StepResult {
    // Failures count per manifest; put-backs count per object, whatever its manifest.
    let same = before.filter(|b| b.manifest == desired.digest);
    let failed = answer.outcome.is_tried_again();
    let mut put_backs = before.map(|b| b.put_backs.clone()).unwrap_or_default();
    put_backs.retain(|at| *at + deliver::plan::PUT_BACK_WINDOW > now);
    // A failed put-back is no sign that somebody changes the object again and again.
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
