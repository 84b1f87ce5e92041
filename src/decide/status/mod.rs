//! The status step: conditions and rollout states from records.
//!
//! From the bottom up: [`work`] (objects on a member), [`binding`] (a placement on one cluster), [`placement`] and [`rollup`]
//! (the placement), [`staged_run`] (its staged update runs), [`rollout`] (what it still waits for), [`fleet`] (clusters).
//! [`records`] are what they read of a placement; `links` are the conditions that a cluster reaches one after the other.
//! [`progress`] reduces a placement to what the forge shows, [`decisions`] and [`decision_pages`] to what other tools read.

pub mod binding;
pub mod decision_pages;
pub mod decisions;
#[cfg(test)]
mod fixtures {
    pub(crate) use testkit::records::*;

    testkit::case_status!(crate::status);
}
pub mod fleet;
mod links;
pub mod placement;
pub mod progress;
pub mod records;
pub mod rollout;
pub mod rollup;
pub mod staged_run;
pub mod work;
