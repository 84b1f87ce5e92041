//! Output for users and scripts: tables, trees, objects, comments, timelines.
//!
//! [`objects`] and [`runs`] convert records to Kubernetes API objects; [`table`], [`tree`] and [`describe`] print them on a
//! terminal, [`comments`] and [`pull_request`] render texts for the git host, [`notification`] those for other services,
//! [`simulation`] prints the result of `simulate`.
//! Nothing here decides anything.

pub mod comments;
pub mod conventions;
pub mod describe;
pub mod description;
pub mod detail;
pub mod differences;
pub mod explanation;
#[cfg(test)]
mod fixtures;
pub mod fleet;
pub mod history;
pub mod layout;
pub mod lists;
pub mod notification;
pub mod objects;
pub mod ocm;
pub mod overview;
pub mod page;
pub mod plan_text;
pub mod pull_request;
pub mod redact;
pub mod rows;
pub mod runs;
pub mod scheduled;
pub mod sentences;
pub mod simulation;
pub mod status_document;
pub mod subjects;
pub mod summary;
pub mod table;
pub mod timed;
pub mod tree;
pub mod waiting;
