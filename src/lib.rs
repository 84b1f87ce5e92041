//! gitfleet makes a git repository the hub of a fleet of Kubernetes clusters.
//!
//! The way of a commit: `source -> snapshot -> schedule -> rollout -> deliver -> report`. These six rooms decide: plain
//! functions over plain values. `git`, `cluster`, `store`, `http` and `cli` do. `engine` is the hall between them.
//! `docs/ARCHITECTURE.md` has the picture.

pub mod api;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod deliver;
pub mod engine;
pub mod error;
pub mod forge;
pub mod git;
pub mod http;
pub mod model;
pub mod report;
pub mod rollout;
pub mod schedule;
pub mod snapshot;
pub mod source;
pub mod store;
pub mod telemetry;
pub mod text;
pub mod watch;
pub mod yaml;
