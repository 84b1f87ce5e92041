//! Deliveries to members that doubles of API servers play as well as real ones: real git, the real binary.
//!
//! `tests/run.sh` runs them on doubles, `tests/run.sh --full` on real servers. A test belongs here where neither admission nor RBAC nor
//! controllers nor a git host matter to it.

mod contract;
mod delivery;
mod joints;
mod large;
mod leaving;
mod lists;
mod owners;
mod servers;
pub mod staged;
