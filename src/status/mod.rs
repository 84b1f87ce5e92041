//! How things stand: conditions and rollout states from records.
//!
//! It goes upwards: [`work`] (objects on a member), [`binding`] (a placement on one cluster), [`placement`] and [`rollup`] (the
//! placement), [`staged_run`] (its staged update runs), [`rollout`] (whether anything is left to wait for), [`fleet`] (clusters).
//! [`progress`] reduces a placement to what people on the git host are told, [`decisions`] and [`decision_pages`] to what other
//! tools read of it.

pub mod binding;
pub mod decision_pages;
pub mod decisions;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod fleet;
pub mod placement;
pub mod progress;
pub mod rollout;
pub mod rollup;
pub mod staged_run;
pub mod work;
