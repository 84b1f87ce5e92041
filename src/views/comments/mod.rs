//! What people read on a git host of a placement's way: statuses, comments, answers.
//!
//! Everything that comes from elsewhere — names, subjects of commits, what clusters say — goes through [`escape`] before it
//! stands in a text of ours. No comment of ours is a command to anybody who reads it as [`crate::model::chat`] says: lines to
//! copy stand in code blocks.

pub mod escape;
pub mod notice;
pub mod reply;
pub mod rollout;
pub mod statuses;
pub mod style;

#[cfg(test)]
mod fixtures;
