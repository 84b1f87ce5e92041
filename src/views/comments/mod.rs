//! Texts on a git host about a placement's progress: statuses, comments, answers.
//!
//! All foreign text (names, subjects of commits, messages of clusters) goes through [`escape`] before it enters a text of
//! gitfleet. No comment of gitfleet contains a command for a reader with [`model::chat`]: commands to copy are in code
//! blocks.

pub mod escape;
pub mod matrix;
pub mod notice;
pub mod reply;
pub mod rollout;
pub mod statuses;
pub mod style;
pub mod totals;

#[cfg(test)]
mod fixtures;
