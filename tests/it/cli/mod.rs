//! The command line as scripts see it: the binary itself, its output and its exit codes.

#![allow(
    clippy::needless_pass_by_value,
    clippy::type_complexity,
    clippy::format_collect,
    reason = "tables of literals are read by place, and their values are used once"
)]

mod agents;
mod approve;
mod basics;
mod begin;
mod checks;
mod cordon;
mod daemon;
mod demo;
pub mod edges;
mod environments;
mod examples;
mod explain;
mod export;
mod get;
mod golden;
mod identities;
#[cfg(target_os = "linux")]
mod kept_store;
mod leaving;
mod logs;
mod memory;
mod metrics;
mod names;
mod namespaces;
mod no_stage;
mod notify;
mod ocm;
mod overrides;
mod page;
mod pages;
mod plan;
mod pushes;
mod reconfigured;
mod rotation;
mod run;
mod schedule;
mod schedule_ocm;
mod several;
mod signed;
mod simulate;
mod sources;
mod ssh;
mod staged;
mod status;
mod store;
mod tell;
mod tenants;
mod validate;
mod views;
mod warnings;
#[cfg(target_os = "linux")]
mod watching;

use testservers::fleet::git;
use testservers::{fleet_tree, scratch};
