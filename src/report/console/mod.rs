//! What people read on a git host of a placement's way: statuses, comments, answers.
//!
//! Everything that comes from elsewhere — names, subjects of commits, what clusters say — goes through [`safe`] before it
//! stands in a text of ours. No comment of ours is a command to anybody who reads it as [`crate::model::chat`] says: lines to
//! copy stand in code blocks.

pub mod notice;
pub mod progress;
pub mod reply;
pub mod rollout;
pub mod safe;
pub mod statuses;
pub mod words;

#[cfg(test)]
mod fixtures;
