//! The store in PostgreSQL, and the daemons on it, on a real server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue shall fail")]

#[path = "../fleet/mod.rs"]
mod fleet;
#[path = "../support/doubles/store.rs"]
mod promises;

/// As the tests of the command line call it.
mod git {
    pub use crate::fleet::commit_all;
}
#[path = "../cli/scratch.rs"]
#[allow(dead_code, reason = "the tests of the command line use more of it")]
mod scratch;

mod certificates;
mod commands;
mod failures;
mod faults;
mod leases;
mod outcomes;
mod remote;
mod replicas;
mod rewritten;
mod server;
mod store;
