//! The command line as scripts see it: the binary itself, its output and its exit codes.

mod basics;
mod plan;
mod run;
mod scratch;
mod validate;

#[path = "../support/fleet_tree.rs"]
mod fleet_tree;

#[path = "../fleet/git.rs"]
#[expect(dead_code, reason = "shared with the end-to-end tests, which push as well")]
mod git;
