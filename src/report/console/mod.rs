//! What people read on a git host of a placement's way: statuses, comments, answers.
//!
//! Everything that comes from elsewhere — names, subjects of commits, what clusters say — goes through [`safe`] before it
//! stands in a text of ours.

pub mod progress;
pub mod safe;
