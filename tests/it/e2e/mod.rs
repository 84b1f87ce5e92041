//! End to end: real git, a real Gitea, real API servers, the real binary.
//!
//! One fleet serves all tests; each test has names of its own. Tests that stop or pause a server have a fleet of their own.

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

use testkit::argo;
use testservers::doubles::forge_contract;
use testservers::{apiserver, fleet, scratch};

use self::fleet::{Fleet, Options, git};

/// Returns the fleet that tests share: three members and a Gitea. Missing servers fail every test, they never skip one.
fn shared() -> &'static Fleet {
    static FLEET: OnceLock<Fleet> = OnceLock::new();
    FLEET.get_or_init(|| {
        Fleet::start(Options::members(3).with_gitea().with_controller_manager()).expect("the test fleet starts")
    })
}
