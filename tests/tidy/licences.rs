//! Under which licences, and from where, comes what is built in. Asks `cargo metadata`, so it needs no network and no other tool;
//! known holes are another matter: `cargo deny` looks them up in a workflow of its own.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

use super::none;
use super::text::root;

/// Licences that anybody may use in anything, with no more duty than to name the authors.
const ALLOWED: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "NCSA",
    "Unicode-3.0",
    "Zlib",
];
/// Packages under another licence: name, licence, why it may be.
const EXCEPTIONS: &[(&str, &str, &str)] =
    &[("uluru", "MPL-2.0", "a cache inside gix, taken as it is: the duty is to publish changes of its own files")];
/// The same lists, as `cargo deny` reads them.
const DENY: &str = ".cargo/deny.toml";
/// Where packages come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Tells whether a licence expression can be met by what is allowed. `/` is how old packages write OR.
///
/// Source: SPDX, licence expressions; `OR` binds weaker than `AND`.
fn is_met(expression: &str, allowed: &dyn Fn(&str) -> bool) -> bool {
    let expression = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ").replace(" WITH ", "~");
    let words: Vec<String> = expression.split_whitespace().map(|word| word.replace('~', " WITH ")).collect();
    let mut rest = words.iter().map(String::as_str).peekable();
    let met = any(&mut rest, allowed);
    met && rest.next().is_none()
}

fn any<'a>(rest: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>, allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut met = all(rest, allowed);
    while rest.next_if_eq(&"OR").is_some() {
        met |= all(rest, allowed);
    }
    met
}

fn all<'a>(rest: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>, allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut met = one(rest, allowed);
    while rest.next_if_eq(&"AND").is_some() {
        met &= one(rest, allowed);
    }
    met
}

fn one<'a>(rest: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>, allowed: &dyn Fn(&str) -> bool) -> bool {
    match rest.next() {
        Some("(") => {
            let mut inner: Vec<&str> = Vec::new();
            let mut depth = 1;
            for word in rest.by_ref() {
                depth += i32::from(word == "(") - i32::from(word == ")");
                if depth == 0 {
                    break;
                }
                inner.push(word);
            }
            depth == 0 && is_met(&inner.join(" "), allowed)
        }
        Some(word) => allowed(word),
        None => false,
    }
}

#[test]
fn cargo_deny_allows_the_same_licences() {
    let deny = fs::read_to_string(root().join(DENY)).unwrap();
    let listed = deny.split("allow = [").nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default();
    let listed: Vec<&str> =
        listed.split(',').map(|word| word.trim().trim_matches('"')).filter(|w| !w.is_empty()).collect();
    assert_eq!(listed, ALLOWED, "{DENY} and tests/tidy/licences.rs list different licences");
    for (name, licence, _) in EXCEPTIONS {
        let exception = format!("{{ allow = [\"{licence}\"], crate = \"{name}\" }}");
        assert!(deny.contains(&exception), "{DENY} lacks the exception {exception}");
    }
}

#[test]
fn expressions_are_understood() {
    let allowed = |word: &str| ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].contains(&word);
    for (expression, met) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("GPL-3.0 AND MIT OR ISC", true),
        ("ISC AND (GPL-3.0 OR MIT)", true),
        ("ISC AND (GPL-3.0 OR (MIT AND AGPL-3.0))", false),
        ("(MIT OR GPL-3.0) AND (ISC OR GPL-3.0)", true),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("Apache-2.0", false),
        ("MIT ISC", false),
        ("MIT AND", false),
        ("(MIT", false),
        ("", false),
    ] {
        assert_eq!(is_met(expression, &allowed), met, "{expression:?}");
    }
}

/// Returns what cargo knows of the packages that are built here. Those of other systems never are, and their files need not be here.
pub(super) fn metadata() -> Value {
    let host = Command::new("rustc").arg("-vV").output().expect("rustc can be run");
    let host = String::from_utf8_lossy(&host.stdout);
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc says what it builds for");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--locked", "--format-version", "1", "--filter-platform", host])
        .current_dir(root())
        .output()
        .expect("cargo can be run");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo writes JSON")
}

#[test]
fn what_is_built_in_is_free_and_comes_from_the_registry() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 100, "is `cargo metadata` still read rightly?");
    let mut complaints = Vec::new();
    let mut used = BTreeSet::new();
    for package in packages {
        let (name, licence) = (package["name"].as_str().unwrap(), package["license"].as_str().unwrap_or_default());
        let except = EXCEPTIONS.iter().position(|(known, of, _)| *known == name && *of == licence);
        used.extend(except);
        if except.is_none() && !is_met(licence, &|word| ALLOWED.contains(&word)) {
            complaints.push(format!("{name} {}: licence {licence:?}", package["version"]));
        }
    }
    let stale = EXCEPTIONS.iter().enumerate().filter(|(at, _)| !used.contains(at));
    complaints.extend(stale.map(|(_, (name, _, _))| format!("{name}: is not built in any more: remove its exception")));
    // The lock file names the packages of all systems.
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let elsewhere = lock
        .lines()
        .filter_map(|line| line.strip_prefix("source = "))
        .filter(|from| from.trim_matches('"') != REGISTRY);
    complaints.extend(elsewhere.map(|from| format!("Cargo.lock: a package comes from {from}")));
    none(&complaints, "Do without it, or add a row with a reason (tests/tidy/licences.rs, ALLOWED and EXCEPTIONS).");
}
