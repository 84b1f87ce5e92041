//! gitfleet makes a git repository the hub of a fleet of Kubernetes clusters.
//!
//! A commit passes through `source -> snapshot -> schedule -> rollout -> deliver -> status`. These modules decide with pure
//! functions. `decide` calls them for one placement, `core` holds the state of the whole fleet, `daemon` waits, communicates
//! and writes. `plan` predicts with the same functions, and `views` shows the results. `docs/ARCHITECTURE.md` has the picture.

// The doubles are shared with test binaries, which know the crate by its name.
#[cfg(test)]
extern crate self as gitfleet;

pub mod agent;
pub mod api;
pub mod cel;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod config;
pub mod core;
pub mod daemon;
pub mod decide;
pub mod deliver;
#[cfg(test)]
#[path = "../tests/support/doubles/mod.rs"]
pub mod doubles;
pub mod error;
pub mod forge;
pub mod git;
pub mod http;
pub mod http_client;
pub mod model;
pub mod page;
pub mod plan;
pub mod prometheus;
pub mod receiver;
pub mod remote;
pub mod render;
pub mod rollout;
pub mod schedule;
pub mod signature;
pub mod snapshot;
pub mod source;
pub mod status;
pub mod store;
pub mod telemetry;
pub mod text;
pub mod views;
pub mod watch;
pub mod wire;
pub mod yaml;
