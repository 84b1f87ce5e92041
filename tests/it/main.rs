//! Tests of the program from outside, in one binary, because each test binary links all crates again.
//!
//! `cli` needs the program alone, `members` doubles of API servers or real ones, `e2e` real ones and a Gitea, `postgres` PostgreSQL,
//! `artifacts` an OCI registry; `scenarios` are files of commits, commands and what is right afterwards, and need the program alone.

#![allow(unreachable_pub, reason = "nothing is outside of a test binary")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue shall fail")]

mod artifacts;
mod cli;
mod e2e;
mod members;
mod postgres;
mod scenarios;
