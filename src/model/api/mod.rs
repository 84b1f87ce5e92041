//! The documents that users write and read: the kinds of KubeFleet and OCM with their limits, defaults and cross-field rules.
//!
//! Types and validation only; nothing here decides. `table` names every kind and reads it.

pub mod annotations;
pub mod check;
pub mod cluster;
pub mod condition;
mod crd;
pub mod envelope;
pub mod eviction;
pub mod groups;
pub mod identity;
pub mod object;
pub mod ocm;
mod ocm_results;
mod ocm_rules;
mod override_rules;
pub mod overrides;
pub mod placement;
mod placement_rules;
mod policy;
pub mod scheduling;
pub mod selector;
pub mod stage_checks;
pub mod staged;
mod strategy;
pub mod table;
mod taint;
pub mod unused;

pub use check::FieldError;
pub use crd::{crds, placement_decision_crd};

/// The field manager of every server-side apply.
pub const FIELD_MANAGER: &str = "gitfleet";

/// The namespace on members that holds the inventories: reserved, so nothing that is placed is it or lies in it.
pub const RESERVED_NAMESPACE: &str = "gitfleet-system";
