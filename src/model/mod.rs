//! The values that pass between the other modules: names, manifests, the tree of a commit, records.

pub mod along;
pub mod chat;
pub mod cluster;
pub mod commands;
pub mod decisions;
pub mod diff;
pub mod explanation;
pub mod facts;
pub mod forge;
pub mod glob;
pub mod id;
pub mod kinds;
pub mod manifest;
pub mod ocm;
pub mod overrides;
pub mod plan;
pub mod policy;
pub mod progress;
pub mod records;
pub mod runs;
pub mod secrets;
pub mod tree;
pub mod warning;
pub mod work;
