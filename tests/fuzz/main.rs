//! All fuzz targets in one program, so that one is built and not one for each. `GITFLEET_FUZZ_TARGET` says which one runs; `tests/fuzz.sh`
//! sets it.

#![no_main]
#![allow(unreachable_pub, reason = "nothing is outside of the fuzz targets")]
#![allow(
    unsafe_code,
    missing_docs,
    clippy::panic,
    clippy::unwrap_used,
    reason = "the fuzzer calls the target by a C symbol, and looks for panics"
)]

mod commands;
mod comments;
mod commits;
mod identities;
mod lists;
mod manifests;
mod mirrors;
mod owners;
mod renderings;
mod signatures;
mod stores;
mod webhooks;

use std::env;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

const TARGET_VARIABLE: &str = "GITFLEET_FUZZ_TARGET";

/// Takes one input; a defect is a panic.
type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 12] = [
    ("commands", commands::run),
    ("comments", comments::run),
    ("commits", commits::run),
    ("identities", identities::run),
    ("lists", lists::run),
    ("manifests", manifests::run),
    ("mirrors", mirrors::run),
    ("owners", owners::run),
    ("renderings", renderings::run),
    ("signatures", signatures::run),
    ("stores", stores::run),
    ("webhooks", webhooks::run),
];

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let wanted = env::var(TARGET_VARIABLE).unwrap_or_default();
    let found = TARGETS.iter().find(|(name, _)| *name == wanted);
    let names = TARGETS.map(|(name, _)| name).join(", ");
    found.unwrap_or_else(|| panic!("{TARGET_VARIABLE} is `{wanted}`; it shall be one of {names}")).1
});

fuzz_target!(|input: &[u8]| TARGET(input));
