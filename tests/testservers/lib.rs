//! What tests and benchmarks start or put in the stead of something: real servers, doubles of servers, the program itself.
//!
//! `bot` and `store` hold their own to it in unit tests, so it depends neither on them nor on what is above them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue shall fail")]

pub mod apiserver;
pub mod doubles;
pub mod fleet;
pub mod fleet_tree;
pub mod generate;
mod program;
pub mod scratch;
pub mod sshd;

use std::path::Path;

pub use program::{PROGRAM_VARIABLE, program};

/// Returns the folder of the repository: where `examples-repo`, `deploy`, `docs` and `tests` are.
pub fn repository() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).expect("this crate is in tests/testservers of the repository")
}
