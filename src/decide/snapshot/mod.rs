//! The snapshot step: freezes what a placement selects. Selection, sanitising, order, hashes, splitting and history.
//!
//! [`select`] returns the sanitised objects of a placement, in snapshot order. [`freeze`] hashes, digests and splits them.
//! [`next_snapshot`] decides whether that is a new snapshot, and which old ones are pruned. [`works_for_cluster`] applies the
//! overrides of one cluster.
//!
//! [`enveloped`] opens selected envelopes: the snapshot keeps the envelope, works hold its contents.
//!
//! Source: KubeFleet's placement controller; the functions restate its rules.

mod envelopes;
mod hash;
mod history;
mod missing;
mod overrides;
mod sanitise;
mod select;
#[cfg(test)]
mod tests;

pub use envelopes::{envelope_work_name, enveloped, is_envelope};
pub use hash::{
    go_json, is_of_digest, object_digest, override_hash, policy_hash, resource_hash, scheduled_policy, value_digest,
};
pub use history::{
    Frozen, Next, SNAPSHOT_BYTES_MAX, freeze, freeze_variants, is_encrypted_again, next_snapshot, part_names, split,
    with_variants, work_names,
};
pub use missing::not_selected;
pub use overrides::{Candidates, fits_rule, left_out, selectors_that_hit, works_for_cluster};
pub use sanitise::{sanitise, sanitised, snapshot_order, sort_for_snapshot};
pub use select::{SelectionError, select, select_for};
