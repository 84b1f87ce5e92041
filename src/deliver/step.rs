//! What a delivery may do next, and what that is decided with: the types that planning shares.

use jiff::{SignedDuration, Timestamp};

use super::holdings::{Holdings, Wanted};
use super::inventory::Parent;
use super::lists::Unlisted;
use super::live::LiveObject;
use crate::model::id::Digest;
use crate::model::records::{ApplyOutcome, Difference};
use crate::model::work::{Desired, Release};

/// Delay before the first retry of a refused apply; doubles with each.
pub const RETRY_FIRST: SignedDuration = SignedDuration::from_secs(1);
/// Longest delay between retries of a refused apply.
pub const RETRY_MAX: SignedDuration = SignedDuration::from_mins(5);

/// One thing to do on a member. Steps of one answer are independent: they may run in any order and at once.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Write the inventory.
    WriteParent(Parent),
    /// Apply a manifest (by position in the order). `probe` asks first whether it is there and may be taken over.
    Apply {
        /// Position in `order.manifests`.
        position: usize,
        /// Why: a put-back is counted, a change is not.
        put_back: bool,
        /// Ask before writing, because it is not ours: the placement need not be allowed to take it over.
        probe: bool,
    },
    /// Compare a manifest (by position in the order) and write nothing.
    Compare {
        /// Position in `order.manifests`.
        position: usize,
    },
    /// Look in what an object of ours differs (by position in the order); it is left as it is.
    ShowDrift {
        /// Position in `order.manifests`.
        position: usize,
        /// How the object stands.
        seen: ObservedVersion,
    },
    /// Delete an object, if it still has this uid.
    Delete {
        /// The object as it was watched.
        object: LiveObject,
    },
    /// Give an object up that stays, if it still has this uid.
    Release {
        /// The object as it was watched.
        object: LiveObject,
        /// What stays of it.
        release: Release,
    },
    /// Remove the inventory: nothing of the placement is left.
    DeleteParent,
}

impl Step {
    /// Tells whether the step changes an object on the member, rather than look at one.
    pub fn writes(&self) -> bool {
        !matches!(self, Self::Compare { .. } | Self::ShowDrift { .. })
    }
}

/// What a member holds, as far as delivery must know.
pub struct MemberView<'a> {
    /// Objects with an ApplySet label.
    pub live: &'a Holdings,
    /// Which placements want an object on this member.
    pub wanted: &'a Wanted,
    /// The inventory of this placement, if there is one.
    pub parent: Option<&'a Parent>,
    /// Kinds of this placement that were not listed completely: nothing is concluded from what is not seen of them.
    pub unlisted: &'a Unlisted,
    /// The value of the ApplySet label on this placement's objects: [`applyset_id`](super::inventory::applyset_id) costs a hash, and is asked for every object.
    pub ours: &'a str,
}

/// What to do now, and when to look again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What to do now; the next plan follows from what came of it.
    pub steps: Vec<Step>,
    /// Nothing is left to do for this order: every manifest was tried, left-overs are gone, the inventory says so.
    pub complete: bool,
    /// The steps only look again at what was told before: until they say otherwise it is so.
    pub rechecks: bool,
    /// When time alone changes the answer: a retry is due, or something is to be looked at again.
    pub wake_at: Option<Timestamp>,
    /// Why the work as a whole cannot go on, for people.
    pub failure: Option<String>,
}

/// The state of one manifest, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What it is.
    pub state: State,
    /// Why, for people.
    pub message: String,
    /// When to look whether it is still so, where time alone leads there.
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
    /// As wished.
    Done,
    /// To be applied now.
    Apply {
        /// The content is as we applied it, but somebody changed it.
        put_back: bool,
    },
    /// Must wait for another object: its definition is not established, or its predecessor is terminating.
    Wait,
    /// Refused, to be tried again at this time. Until that says otherwise it is refused.
    Retry(Timestamp),
    /// Somebody changed it and it is left alone then, unless a look shows that nothing differs.
    CheckDrift,
    /// Will not be applied as things are.
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

/// What a live object was when it was looked at: digest of the fields we own, and resource version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedVersion {
    /// Digest of the fields we own.
    pub owned: Digest,
    /// Its resource version.
    pub resource_version: u64,
}

impl ObservedVersion {
    /// Returns how an object stands.
    pub fn of(live: &LiveObject) -> Self {
        Self { owned: live.owned.clone(), resource_version: live.resource_version }
    }
}

/// What a look found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// A field of the manifest has another value.
    pub drifted: bool,
    /// What differs, as the placement asks to compare.
    pub differences: Vec<Difference>,
}

/// The last look at an object that is ours.
#[derive(Clone, Debug, PartialEq)]
pub struct DriftCheck {
    /// The manifest it was compared with.
    pub manifest: Digest,
    /// What was looked at.
    pub seen: ObservedVersion,
    /// What was found, or why it could not be looked at, for people.
    pub found: Result<Found, String>,
    /// When.
    pub at: Timestamp,
    /// Failures in a row.
    pub failures: u32,
}
