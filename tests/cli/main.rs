//! The command line as scripts see it: the binary itself, its output and its exit codes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on shall fail")]

mod basics;
mod daemon;
mod examples;
mod explain;
mod export;
mod ocm;
mod plan;
mod run;
mod schedule;
mod schedule_ocm;
mod scratch;
mod validate;

#[path = "../support/fleet_tree.rs"]
mod fleet_tree;

#[path = "../fleet/git.rs"]
#[expect(dead_code, reason = "shared with the end-to-end tests, which push as well")]
mod git;
