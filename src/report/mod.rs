//! Room 6: who is told what? Conditions, objects, tables and trees from records.
//!
//! Roll-up goes upwards: [`work`] (objects on a member to the Work), [`binding`] (a placement on one cluster),
//! [`placement`] (the placement), [`runs`] (its staged update runs), [`converge`] (whether anything is left to wait for).
//! [`decisions`] and [`pages`] say what other tools read of it. [`objects`], [`table`], [`describe`] and [`tree`] show the
//! same records to people and scripts. Nothing here decides what happens next in the fleet.

pub mod binding;
pub mod console;
pub mod converge;
pub mod decisions;
pub mod describe;
pub mod explanation;
#[cfg(test)]
mod fixtures;
pub mod fleet;
pub mod mask;
pub mod objects;
pub mod ocm;
pub mod pages;
pub mod placement;
pub mod pull;
pub mod rollup;
pub mod run_state;
pub mod runs;
pub mod scheduled;
pub mod simulation;
pub mod table;
pub mod tree;
pub mod work;
