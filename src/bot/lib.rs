//! The bot of a repository: all communication with the git host, in one task: one read at a time, and a few writes beside it.
//!
//! The core sends it the state of placements and the source. Webhooks send hints; without them the bot polls, with the same
//! result. Texts go through an outbox (`outbox.rs`). Comments go one way (`comment.rs`), and their commands go to the daemon
//! like all others. The daemon never waits for the bot: a forge that is down delays texts, but no rollout.

mod asked;
mod bot;
mod comment;
mod comment_policy;
mod comments;
mod commit_rollout;
mod commit_rollouts;
mod connect;
mod deliveries;
mod event_loop;
mod executed;
mod fenced;
mod handles;
mod inbox;
mod links;
mod make_plan;
mod messages;
pub mod origin;
mod outbox;
mod own_commits;
mod person;
mod polling;
mod pulls;
mod read_comments;
mod read_pulls;
mod record_place;
mod records;
mod rollouts;
mod send;
mod set_statuses;
mod settings;
pub mod source_request;
mod task;
mod threads;
mod votes;

#[cfg(test)]
mod tests;

pub use connect::{Connected, Error as ConnectError, command_style, connect, forge_settings, kind};
pub use handles::Learned;
pub use links::Links;
pub use settings::{Approvals, Settings};
pub use task::{ConsoleTasks, RepositoryEnds};
