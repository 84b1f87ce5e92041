//! End to end: real git, a real Gitea, real API servers, the real binary.
//!
//! One fleet serves all tests; each test has names of its own. Tests that stop or pause a server have a fleet of their own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue shall fail")]

#[path = "../fleet/mod.rs"]
mod fleet;

#[path = "../apiserver/mod.rs"]
mod apiserver;

#[path = "../support/argo.rs"]
#[expect(dead_code, reason = "shared with the tests of pages, which look at Applications as well")]
mod argo;

#[path = "../cli/scratch.rs"]
#[expect(dead_code, reason = "shared with the tests of the command line")]
mod scratch;

mod agents;
mod approvals;
mod chart;
mod checks;
mod console;
mod contract;
mod crashes;
mod daemon;
mod decisions;
mod delivery;
mod deploy;
mod encrypted;
mod facts;
mod faults;
mod forge;
#[path = "../support/forge_contract.rs"]
mod forge_contract;
mod health;
mod joined;
mod large;
mod leaving;
mod lists;
mod ocm;
mod owners;
mod people;
mod proxy;
mod refused;
mod rendering;
mod replicas;
mod requests;
mod restored;
mod rollout;
mod scheduling;
mod sources;
mod staged;
mod teams;
mod tenants;

use std::sync::OnceLock;

use fleet::{Fleet, Options, git};

/// Returns the fleet that tests share: three members and a Gitea. Missing servers fail every test, they never skip one.
fn shared() -> &'static Fleet {
    static FLEET: OnceLock<Fleet> = OnceLock::new();
    FLEET.get_or_init(|| {
        Fleet::start(Options::members(3).with_gitea().with_controller_manager()).expect("the test fleet starts")
    })
}
