//! What users write and read: the kinds of KubeFleet and OCM with their limits, defaults and cross-field rules.
//!
//! Types and validation only; nothing here decides.

pub mod cluster;
pub mod condition;
pub mod placement;

/// The field manager of every server-side apply.
pub const FIELD_MANAGER: &str = "gitfleet";
