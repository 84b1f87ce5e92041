//! Values for the tests of all crates: trees of commits, records of a placement, and the diagrams of the documentation.
//!
//! It needs the model and the reader of sources alone, so that the crates which decide use it without a runtime or a client.

#![allow(missing_docs, reason = "names say what the values are")]

pub mod argo;
pub mod drawn;
mod macros;
pub mod records;
pub mod trees;
