//! The chain of conditions that lead a placement on a cluster from its rollout to availability.

use super::work::Mode;
use model::conditions::{ConditionType, Reason};

/// One link of the chain: its type and the reasons of its states.
#[derive(Clone, Debug)]
pub struct Link {
    /// The type, without prefix.
    pub type_: ConditionType,
    /// The reason while it is unknown.
    pub unknown: Reason,
    /// The placement's reason if it is false on some cluster.
    pub failed: Reason,
    /// The placement's reason if it is true on every cluster.
    pub holds: Reason,
    /// The state of clusters, as text for users: unknown, false, true.
    pub phrases: [&'static str; 3],
}

/// The first link of every chain.
pub(super) const ROLLOUT_STARTED: Link = Link {
    type_: ConditionType::RolloutStarted,
    unknown: Reason::RolloutStartedUnknown,
    failed: Reason::RolloutNotStartedYet,
    holds: Reason::RolloutStarted,
    phrases: ["not known to have started", "waiting for their turn", "started"],
};
const OVERRIDDEN: Link = Link {
    type_: ConditionType::Overridden,
    unknown: Reason::OverriddenPending,
    failed: Reason::OverriddenFailed,
    holds: Reason::OverriddenSucceeded,
    phrases: ["waiting for their overrides", "with overrides that failed", "with their overrides in place"],
};
const WORK_SYNCHRONIZED: Link = Link {
    type_: ConditionType::WorkSynchronized,
    unknown: Reason::WorkSynchronizedUnknown,
    failed: Reason::WorkNotSynchronizedYet,
    holds: Reason::WorkSynchronized,
    phrases: ["waiting for their work", "whose work could not be handed over", "with their work handed over"],
};
const APPLIED: Link = Link {
    type_: ConditionType::Applied,
    unknown: Reason::ApplyPending,
    failed: Reason::ApplyFailed,
    holds: Reason::ApplySucceeded,
    phrases: ["yet to apply", "where not every object is applied", "with every object applied"],
};
const AVAILABLE: Link = Link {
    type_: ConditionType::Available,
    unknown: Reason::ResourceAvailableUnknown,
    failed: Reason::ResourceNotAvailableYet,
    holds: Reason::ResourceAvailable,
    phrases: ["yet to report availability", "where not every object is available", "with every object available"],
};
const DIFF_REPORTED: Link = Link {
    type_: ConditionType::DiffReported,
    unknown: Reason::DiffReportingPending,
    failed: Reason::DiffReportingIncompleteOrFailed,
    holds: Reason::DiffReportingCompleted,
    phrases: ["yet to compare", "where not every object is compared", "with every object compared"],
};

/// Links of the longest chain.
pub(super) const LINKS_MAX: usize = 5;

/// Returns the chain of a mode, in its fixed order.
pub fn chain(mode: Mode) -> &'static [Link] {
    static APPLY: [Link; LINKS_MAX] = [ROLLOUT_STARTED, OVERRIDDEN, WORK_SYNCHRONIZED, APPLIED, AVAILABLE];
    static REPORT: [Link; 4] = [ROLLOUT_STARTED, OVERRIDDEN, WORK_SYNCHRONIZED, DIFF_REPORTED];
    match mode {
        Mode::Apply => &APPLY,
        Mode::ReportDiff => &REPORT,
    }
}
