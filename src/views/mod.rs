//! How people and scripts are shown what is known: tables, trees, objects, comments, timelines.
//!
//! [`objects`] and [`runs`] are the records as the Kubernetes API has them; [`table`], [`tree`] and [`describe`] show them on
//! a terminal, [`comments`] and [`pull_request`] on the git host, [`simulation`] shows what `simulate` found. Nothing here
//! decides anything.

pub mod comments;
pub mod describe;
pub mod explanation;
pub mod objects;
pub mod ocm;
pub mod pull_request;
pub mod redact;
pub mod runs;
pub mod scheduled;
pub mod simulation;
pub mod table;
pub mod tree;
