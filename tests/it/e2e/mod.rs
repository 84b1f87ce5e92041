//! End to end: real git, a real Gitea, real API servers, the real binary.
//!
//! One fleet serves all tests; each test has names of its own. Tests that stop or pause a server have a fleet of their own.

mod admission;
mod agents;
mod approvals;
mod chart;
mod checks;
mod console;
mod crashes;
pub mod daemon;
mod decisions;
mod deploy;
mod encrypted;
mod facts;
mod faults;
mod forge;
mod health;
mod joined;
mod ocm;
mod people;
pub mod proxy;
mod refused;
mod rendering;
mod replicas;
mod requests;
mod restored;
mod rollout;
mod scheduling;
mod sources;
mod teams;
mod tenants;

use std::sync::OnceLock;

use testkit::argo;
use testservers::doubles::forge_contract;
use testservers::scratch;
pub use testservers::{apiserver, fleet};

use self::fleet::{Fleet, Options, Provider, git};

/// Returns the fleet that tests share: three members, and a Gitea where they are real. Missing servers fail every test, they never skip
/// one.
pub fn shared() -> &'static Fleet {
    static FLEET: OnceLock<Fleet> = OnceLock::new();
    FLEET.get_or_init(|| {
        let members = Options::members(3);
        let options = match Provider::from_environment().expect("a provider") {
            Provider::Doubles => members,
            Provider::Processes | Provider::Running(_) => members.with_gitea().with_controller_manager(),
        };
        Fleet::start(options).expect("the test fleet starts")
    })
}
