//! The command line.

pub mod exit;
pub mod output;
