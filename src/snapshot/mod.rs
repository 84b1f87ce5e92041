//! Room 2: freeze it. Selection, sanitising, order, hashes, splitting and history.
//!
//! [`select`] turns a placement into the sanitised objects it places, in snapshot order. [`freeze`] hashes, digests and
//! splits them. [`next_snapshot`] says whether that is a new snapshot, and which old ones go. [`works_for_cluster`] is
//! where one cluster's objects will come to differ from another's.
//!
//! Envelopes are not unwrapped and overrides are not applied yet: a selection that meets one of either is an error of its
//! placement, so that nothing is left out silently.
//!
//! Source: KubeFleet's placement controller; its rules are restated where they are carried out.

mod hash;
mod history;
mod overrides;
mod sanitise;
mod select;
#[cfg(test)]
mod tests;

pub use hash::{go_json, object_digest, policy_hash, resource_hash, scheduled_policy};
pub use history::{Frozen, Next, SNAPSHOT_BYTES_MAX, freeze, next_snapshot, part_names, split, work_names};
pub use overrides::works_for_cluster;
pub use sanitise::{sanitise, sanitised, snapshot_order, sort_for_snapshot};
pub use select::{SelectionError, select};
