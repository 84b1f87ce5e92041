//! The program under test.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::repository;

/// Environment variable with the path of a gitfleet to test, instead of one that is built.
pub const PROGRAM_VARIABLE: &str = "GITFLEET_PROGRAM";

/// Returns the path of the gitfleet under test: the one that [`PROGRAM_VARIABLE`] names, else one that is built now, once for each process.
///
/// Cargo tells where a program is (`CARGO_BIN_EXE_gitfleet`) only to the tests of its own package, which tests of several crates are not,
/// and builds it for nobody else; so this asks cargo for it, for the target folder and the profile of the running test.
///
/// # Panics
/// When it cannot be built, with what cargo said: the test fails.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| env::var_os(PROGRAM_VARIABLE).map_or_else(built, PathBuf::from))
}

fn built() -> PathBuf {
    let own = env::current_exe().expect("a process knows its program");
    // TARGET/PROFILE/deps/x, or examples in the place of deps.
    let place =
        |levels: usize| own.ancestors().nth(levels).expect("cargo built this test two folders below its target folder");
    let (folder, target) = (place(2), place(3));
    let profile = match folder.file_name().and_then(|name| name.to_str()).expect("a profile's name is text") {
        "debug" => "dev",
        other => other,
    };
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut build = Command::new(cargo);
    build.args(["build", "-q", "--package", "gitfleet", "--bin", "gitfleet", "--profile", profile]);
    build.arg("--target-dir").arg(target).current_dir(repository());
    let output = build.output().expect("cargo can be run");
    assert!(
        output.status.success(),
        "cargo cannot build gitfleet:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    folder.join("gitfleet")
}
