//! What is built into what: asks `cargo tree`. Cargo.lock is not asked: it also names libraries that no build uses.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use super::text::root;
use super::{PURE_CRATES, none};

/// Libraries that must not be built in: aws-lc-rs is the one TLS provider, and two of them make rustls panic at first use.
const OTHER_TLS: [&str; 5] = ["ring", "openssl", "openssl-sys", "native-tls", "boring"];

/// What a pure crate may not be built with, and what would come in with it.
const IMPURE_PACKAGES: &[(&str, &[&str])] = &[
    ("a runtime", &["tokio", "tokio-util", "mio", "async-std", "smol", "futures-executor", "polling"]),
    ("a network", &["hyper", "hyper-util", "reqwest", "axum", "tower", "h2", "socket2", "octocrab", "tokio-postgres"]),
    ("a cluster", &["kube", "kube-client", "kube-runtime"]),
    ("repositories", &["gix", "git2"]),
    ("databases and files", &["redb", "tempfile", "notify", "tar"]),
    ("encrypted connections", &["rustls", "tokio-rustls", "aws-lc-rs", "aws-lc-sys", "ring"]),
    ("the operating system", &["nix", "rustix", "signal-hook", "crossterm", "tikv-jemallocator"]),
    ("chance", &["rand", "fastrand", "getrandom"]),
];
/// What the tests of `decide` are not built with either, so that one who only decides compiles little.
const IMPURE_IN_TESTS: [&str; 5] = ["tokio", "kube", "gix", "axum", "redb"];

/// What clippy forbids pure crates, to which each has a link.
const PURE_CLIPPY: &str = ".cargo/pure.clippy.toml";

/// What the first look does without, because it takes minutes to build. Each is built into what is shipped.
const NOT_IN_DEMO: [&str; 7] = ["octocrab", "p256", "pgp", "rpgpie", "rsa", "tokio-postgres", "tikv-jemallocator"];

/// Returns the names of the packages that a package is built with.
fn tree(package: &str, edges: &str) -> BTreeSet<String> {
    tree_with(package, edges, &[])
}

/// Returns the same, where cargo is told more.
fn tree_with(package: &str, edges: &str, options: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--prefix", "none", "--package", package, "--edges", edges])
        .args(options)
        .current_dir(root())
        .output()
        .expect("cargo can be run");
    assert!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8_lossy(&output.stdout);
    let found: BTreeSet<String> = tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    assert!(found.contains(package), "{package} is not built: is `cargo tree` still read rightly?");
    found
}

#[test]
fn there_is_one_tls_provider() {
    let built = tree("gitfleet", "normal,build");
    assert!(built.contains("aws-lc-rs"), "aws-lc-rs is not built: is `cargo tree` still read rightly?");
    let others: Vec<String> = OTHER_TLS.iter().filter(|name| built.contains(**name)).map(ToString::to_string).collect();
    none(
        &others,
        "aws-lc-rs is the one TLS provider: find who brings the other with `cargo tree -i NAME`, turn it off.",
    );
}

#[test]
fn the_demo_is_built_without_what_needs_large_libraries() {
    let config = fs::read_to_string(root().join(".cargo/config.toml")).unwrap();
    let alias = config.lines().find(|line| line.starts_with("demo = ")).expect("`cargo demo` is an alias");
    assert!(alias.contains("--no-default-features") && alias.contains("--profile quick"), "{alias}");
    let (shipped, demo) =
        (tree("gitfleet", "normal"), tree_with("gitfleet", "normal,build", &["--no-default-features"]));
    let wrong = NOT_IN_DEMO.iter().filter(|package| !shipped.contains(**package) || demo.contains(**package));
    let complaints: Vec<String> = wrong.map(ToString::to_string).collect();
    none(
        &complaints,
        "They belong to a feature of the crate gitfleet, which is on by default and off in `cargo demo`.",
    );
}

#[test]
fn pure_crates_are_built_with_pure_ones() {
    let program = tree("gitfleet", "normal");
    assert!(program.contains("tokio") && program.contains("gix"), "is `cargo tree` still read rightly?");
    let mut complaints = Vec::new();
    for name in PURE_CRATES {
        let built = tree(&format!("gitfleet-{name}"), "normal");
        for (what, packages) in IMPURE_PACKAGES {
            let found = packages.iter().filter(|package| built.contains(**package));
            complaints.extend(found.map(|package| format!("{name} is built with {package}, and so with {what}")));
        }
    }
    let tests = tree("gitfleet-decide", "normal,build,dev");
    let found = IMPURE_IN_TESTS.iter().filter(|package| tests.contains(**package));
    complaints.extend(found.map(|package| format!("the tests of decide are built with {package}")));
    none(
        &complaints,
        "`cargo tree -p gitfleet-CRATE -i NAME` says who brings it (tests/tidy/trees.rs, IMPURE_PACKAGES).",
    );
}

#[test]
fn pure_crates_have_the_lints_of_pure_crates() {
    let expected = fs::canonicalize(root().join(PURE_CLIPPY)).unwrap();
    let mut complaints = Vec::new();
    for entry in fs::read_dir(root().join("src")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let own = root().join("src").join(&name).join(".clippy.toml");
        let has = fs::canonicalize(own).is_ok_and(|found| found == expected);
        match (has, PURE_CRATES.contains(&name.as_str())) {
            (true, false) => complaints.push(format!("src/{name} has the link and is not in PURE_CRATES")),
            (false, true) => complaints.push(format!("src/{name} has no link .clippy.toml to ../../{PURE_CLIPPY}")),
            _ => {}
        }
    }
    none(&complaints, "The lints forbid what tests cannot see: the clock, files and programs.");
}
