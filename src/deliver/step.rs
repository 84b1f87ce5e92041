//! The steps of a delivery and the inputs of planning: types that the planning modules share.

use jiff::{SignedDuration, Timestamp};

use super::claim::Peers;
use super::holdings::{Holdings, Wanted};
use super::inventory::Parent;
use super::lists::Unlisted;
use super::live::LiveObject;
use model::id::Digest;
use model::records::{ApplyOutcome, Difference};
use model::work::{Desired, Release};

/// Delay before the first retry of a refused apply; doubles with each.
pub const RETRY_FIRST: SignedDuration = SignedDuration::from_secs(1);
/// Longest delay between retries of a refused apply.
pub const RETRY_MAX: SignedDuration = SignedDuration::from_mins(5);

/// One step on a member. The steps of one plan are independent: they may run in any order and in parallel.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Write the inventory.
    WriteParent(Box<Parent>),
    /// Apply a manifest (by position in the order). With `probe`, first check whether the object exists and may be taken over.
    Apply {
        /// Position in `order.manifests`.
        position: usize,
        /// The reason: a put-back is counted, a change is not.
        put_back: bool,
        /// Check the object before the write, because it may belong to somebody else.
        probe: bool,
    },
    /// Compare a manifest (by position in the order) and write nothing.
    Compare {
        /// Position in `order.manifests`.
        position: usize,
    },
    /// Compare an object of gitfleet with its manifest (by position in the order); it is left as it is.
    ShowDrift {
        /// Position in `order.manifests`.
        position: usize,
        /// The version of the object.
        seen: ObservedVersion,
    },
    /// Delete an object, if it still has this uid.
    Delete {
        /// The object as observed.
        object: LiveObject,
    },
    /// Give up an object, which stays, if it still has this uid.
    Release {
        /// The object as observed.
        object: LiveObject,
        /// What stays of it.
        release: Release,
    },
    /// Remove the inventory: nothing of the placement is left.
    DeleteParent,
}

impl Step {
    /// Tells whether the step changes an object on the member.
    pub fn writes(&self) -> bool {
        !matches!(self, Self::Compare { .. } | Self::ShowDrift { .. })
    }
}

/// The observed state of a member that planning needs.
pub struct MemberView<'a> {
    /// Objects with an ApplySet label.
    pub live: &'a Holdings,
    /// Which placements want an object on this member.
    pub wanted: &'a Wanted,
    /// The inventory of this placement, if there is one.
    pub parent: Option<&'a Parent>,
    /// Kinds of this placement that were not listed completely: a missing object of them means nothing.
    pub unlisted: &'a Unlisted,
    /// The value of the ApplySet label on this placement's objects: [`applyset_id`](super::inventory::applyset_id) costs a hash, and is asked for every object.
    pub ours: &'a str,
    /// The other placements of the member.
    pub peers: &'a dyn Peers,
}

/// The steps to start now, and when to plan again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The steps to start now; the next plan depends on their results.
    pub steps: Vec<Step>,
    /// Nothing is left to do for this order: every manifest was tried, left-overs are gone, and the inventory says so.
    pub complete: bool,
    /// The steps only repeat checks: the reported state is valid until their results arrive.
    pub rechecks: bool,
    /// A deletion waits until other placements have nothing left in a Namespace or of a definition.
    pub awaits_others: bool,
    /// When time alone changes the plan: a retry or a check becomes due.
    pub wake_at: Option<Timestamp>,
    /// Why the work as a whole cannot continue, as text for users.
    pub failure: Option<String>,
}

/// The state of one manifest, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The state.
    pub state: State,
    /// The reason, as text for users.
    pub message: String,
    /// When to check the state again, if no event reports a change.
    pub recheck_at: Option<Timestamp>,
}

impl Verdict {
    pub(super) fn new(state: State, message: impl Into<String>) -> Self {
        Self { state, message: message.into(), recheck_at: None }
    }
}

/// The state of one manifest on the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// In its desired state.
    Done,
    /// To be applied now.
    Apply {
        /// The content is as gitfleet applied it, but somebody changed it.
        put_back: bool,
    },
    /// Must wait for another object: its definition is not established, or its predecessor is terminating.
    Wait,
    /// Refused, with a retry at this time. Until then it counts as refused.
    Retry(Timestamp),
    /// Somebody changed it and it is left alone in that case, unless a check shows no difference.
    CheckDrift,
    /// Not applied under the present conditions.
    Refused(ApplyOutcome),
}

pub(super) fn is_ours(desired: &Desired, view: &MemberView<'_>) -> bool {
    view.live.get(&desired.key).is_some_and(|live| *live.applyset == *view.ours)
}

/// Returns the delay before a refused apply is tried again: doubling from [`RETRY_FIRST`] to [`RETRY_MAX`].
pub fn retry_delay(failures: u32) -> SignedDuration {
    // The shift must stay within 32 bits; RETRY_MAX is reached after nine doublings.
    RETRY_FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(RETRY_MAX)
}

/// The version of a live object at a check: digest of the fields gitfleet owns, and resource version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedVersion {
    /// Digest of the fields we own.
    pub owned: Digest,
    /// Its resource version.
    pub resource_version: u64,
}

impl ObservedVersion {
    /// Returns the version of an object.
    pub fn of(live: &LiveObject) -> Self {
        Self { owned: live.owned.clone(), resource_version: live.resource_version }
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// A field of the manifest has another value.
    pub drifted: bool,
    /// The differences, in the scope that the placement asks for.
    pub differences: Vec<Difference>,
}

/// The last check of an object that belongs to gitfleet.
#[derive(Clone, Debug, PartialEq)]
pub struct DriftCheck {
    /// The manifest it was compared with.
    pub manifest: Digest,
    /// The version that was checked.
    pub seen: ObservedVersion,
    /// The result, or why the check failed, as text for users.
    pub found: Result<Found, String>,
    /// When.
    pub at: Timestamp,
    /// Failures in a row.
    pub failures: u32,
}
