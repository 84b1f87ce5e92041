//! Keeps the rules of the code: which folder imports which, what a decision may not touch, how long things may be, which
//! libraries come in, and that the reference pages say what the code says. The rules are the tables at the top.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue shall fail")]

mod assets;
mod fields;
mod licences;
mod monitoring;
mod names;
mod pages;
mod reference;
mod text;
mod words;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use text::{File, files, root};

/// The steps of a decision, in order: each is plain functions over plain values and knows no other step.
const STEPS: [&str; 6] = ["source", "snapshot", "schedule", "rollout", "deliver", "status"];

/// Who decides, and hence does nothing, asks nothing and is the same every time. Whole folders, so that no file is missed.
const PURE: &[&str] = &[
    "src/api/",
    "src/model/",
    "src/cel/",
    "src/source/",
    "src/signature/",
    "src/snapshot/",
    "src/schedule/",
    "src/rollout/",
    "src/deliver/",
    "src/status/",
    "src/decide/",
    "src/core/",
    "src/wire/",
    "src/remote/",
    "src/plan/",
    "src/views/",
    "src/page/",
    "src/text.rs",
    "src/forge/grammar.rs",
    "src/forge/grammar/",
    "src/forge/webhook.rs",
    "src/forge/webhook/",
    "src/daemon/forge_bot/outbox.rs",
    "src/daemon/forge_bot/commit_rollout.rs",
    "src/daemon/forge_bot/comment_policy.rs",
];

/// What may not be named where decisions are made, and what is to be done instead.
const IMPURE: &[(&str, &str)] = &[
    ("tokio", "let `daemon` wait, and decide on values"),
    ("kube", "let `cluster` talk to members, and decide on what it found"),
    ("gix", "let `git` read, and decide on what it found"),
    ("redb", "let `store` keep records, and decide on what they say"),
    ("std::fs", "take the content as an argument"),
    ("std::net", "take what was answered as an argument"),
    ("std::process", "take what was answered as an argument"),
    ("std::env", "take the value as an argument"),
    ("SystemTime", "take `now` as an argument"),
    ("Instant", "take `now` as an argument"),
    ("Timestamp::now", "take `now` as an argument"),
    ("Zoned::now", "take `now` as an argument"),
    ("crate::clock", "take `now` as an argument"),
    ("rand", "derive it from the input: same inputs, same decisions"),
    ("fastrand", "derive it from the input: same inputs, same decisions"),
    ("getrandom", "derive it from the input: same inputs, same decisions"),
    ("RandomState", "use BTreeMap or BTreeSet"),
    ("HashMap", "use BTreeMap: its order does not change from run to run"),
    ("HashSet", "use BTreeSet: its order does not change from run to run"),
];

/// Where maps by hash are: their order, which changes from run to run, does not leave these files.
const HASHED: &[&str] = &["src/deliver/by_object.rs"];

/// Which modules of the crate a module may name, beside itself; `cli` and `main` know everybody and are not here. The rows go
/// from the bottom up, so that imports form no circle: a row names only rows above it, except that `api` and `model` share types.
/// Before widening a row, ask whether what is needed belongs to `model`.
const IMPORTS: &[(&str, &[&str])] = &[
    ("src/error.rs", &[]),
    ("src/text.rs", &[]),
    ("src/watch.rs", &[]),
    ("src/yaml.rs", &[]),
    ("src/yaml/", &[]),
    ("src/telemetry/", &["text"]),
    ("src/model/", &["api", "error", "text"]),
    ("src/clock.rs", &["model"]),
    ("src/api/", &["model", "error", "yaml"]),
    ("src/cel/", &["api"]),
    // Whose signature a commit has.
    ("src/signature/", &["model", "text"]),
    // The steps of a decision. What passes between two of them is in `model`.
    ("src/source/", &["api", "model", "error", "yaml"]),
    ("src/snapshot/", &["api", "model", "error"]),
    ("src/schedule/", &["api", "model", "error", "cel"]),
    ("src/rollout/", &["api", "model", "error"]),
    ("src/deliver/", &["api", "model", "error", "cel"]),
    ("src/status/", &["api", "model", "error", "text"]),
    // What is shown of it.
    ("src/views/", &["api", "model", "error", "status", "text"]),
    ("src/page/", &["api", "model", "error", "rollout", "status", "text", "views"]),
    // The adapters. They meet in the daemon.
    ("src/git/", &["api", "model", "error", "text", "watch"]),
    ("src/cluster/", &["api", "model", "error", "text", "watch", "yaml"]),
    ("src/store/", &["api", "model", "error"]),
    ("src/render/", &["error", "model", "text"]),
    ("src/http_client.rs", &[]),
    ("src/forge/", &["api", "model", "error", "http_client"]),
    ("src/prometheus.rs", &["error", "http_client"]),
    ("src/prometheus/", &["error", "http_client"]),
    ("src/receiver.rs", &["error", "http_client"]),
    ("src/receiver/", &["error", "http_client"]),
    // Serves what the store holds and what telemetry counts, and decides nothing. Pushed properties expire: it reads the time.
    (
        "src/http/",
        &["api", "model", "error", "status", "text", "views", "page", "store", "telemetry", "forge", "clock"],
    ),
    ("src/config/", &["api", "model", "error", "cel", "yaml"]),
    // One placement is decided with all steps.
    (
        "src/decide/",
        &["api", "model", "error", "source", "snapshot", "schedule", "rollout", "deliver", "status", "yaml"],
    ),
    // All placements: records and configuration are values here, and the store is what they are written to.
    (
        "src/core/",
        &["api", "model", "error", "snapshot", "schedule", "rollout", "deliver", "status", "config", "store", "decide"],
    ),
    // What passes between the daemon and its agents: events and orders of the core, as bytes.
    ("src/wire/", &["api", "model", "error", "deliver", "core"]),
    // What the daemon and its agents decide about each other.
    ("src/remote/", &["model", "snapshot", "core", "wire"]),
    // What would happen.
    (
        "src/plan/",
        &[
            "api", "model", "error", "source", "snapshot", "schedule", "rollout", "deliver", "status", "views",
            "config", "store", "decide", "core", "wire", "remote", "yaml",
        ],
    ),
    // What runs.
    (
        "src/daemon/",
        &[
            "api",
            "model",
            "error",
            "text",
            "clock",
            "watch",
            "telemetry",
            "signature",
            "source",
            "snapshot",
            "deliver",
            "status",
            "views",
            "config",
            "git",
            "cluster",
            "store",
            "forge",
            "prometheus",
            "receiver",
            "render",
            "http",
            "decide",
            "core",
            "wire",
            "remote",
            "plan",
            "yaml",
        ],
    ),
    // The same tasks of members as in the daemon, next to the clusters.
    (
        "src/agent/",
        &[
            "model",
            "error",
            "clock",
            "telemetry",
            "snapshot",
            "cel",
            "deliver",
            "config",
            "cluster",
            "core",
            "wire",
            "remote",
            "daemon",
        ],
    ),
];

/// Modules without a row in `IMPORTS`: they know everybody.
const KNOW_EVERYBODY: [&str; 3] = ["src/cli/", "src/main.rs", "src/lib.rs"];

/// How much of all lines of `src` a folder may hold, in percent.
const FOLDER_PERCENT_MAX: usize = 15;

/// Lines a file of `src` may have.
const FILE_LINES_MAX: usize = 500;
/// Files that are longer, and the reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// Lines a function may have, from its signature to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Functions that are longer: file, name, lines. Make them shorter; nothing is added here.
const LONG_FUNCTIONS: &[(&str, &str, usize)] = &[];

/// Where names of annotations are constants, and nowhere else.
const ANNOTATIONS: &str = "src/api/annotations.rs";
/// Names with our prefix that are no annotations.
const NO_ANNOTATIONS: [&str; 2] = ["gitfleet.io/", "gitfleet.io/v1alpha1"];

/// Packages that Cargo.lock may hold. Raised on purpose only, last for signatures by SSH and OpenPGP keys (95).
const PACKAGES_MAX: usize = 648;
/// Libraries that must not be built in: aws-lc-rs is the one TLS provider, and two of them make rustls panic at first use.
const OTHER_TLS: [&str; 5] = ["ring", "openssl", "openssl-sys", "native-tls", "boring"];

fn sources() -> Vec<File> {
    files("src")
}

/// Fails with every complaint, and with what to do.
fn none(complaints: &[String], advice: &str) {
    assert!(complaints.is_empty(), "\n{}\n\n{advice}\n", complaints.join("\n"));
}

/// Tells whether a path has all segments of another in a row; a name without `::` may stand anywhere.
fn has(segments: &[String], wanted: &str) -> bool {
    let wanted: Vec<&str> = wanted.split("::").collect();
    segments.windows(wanted.len()).any(|window| window.iter().zip(&wanted).all(|(a, b)| a == b))
}

fn is_below(path: &str, place: &str) -> bool {
    path == place || place.ends_with('/') && path.starts_with(place)
}

#[test]
fn decisions_are_pure() {
    let mut complaints = Vec::new();
    for file in sources().iter().filter(|file| PURE.iter().any(|place| is_below(&file.path, place))) {
        for named in file.named() {
            let found = IMPURE.iter().filter(|(what, _)| {
                if *what == "HashMap" && HASHED.contains(&file.path.as_str()) {
                    return false;
                }
                // A library is named by a path's first segment, and only in paths; types are named alone, too.
                let is_library = what.starts_with(char::is_lowercase) && !what.contains("::");
                if is_library {
                    named.segments.len() > 1 && named.segments[0] == *what
                } else {
                    has(&named.segments, what)
                }
            });
            complaints.extend(found.map(|(_, instead)| {
                format!(
                    "{}:{}: {} in a place that decides: {instead}",
                    file.path,
                    named.line,
                    named.segments.join("::")
                )
            }));
        }
    }
    none(
        &complaints,
        "Places that decide are plain functions over plain values (tests/tidy/main.rs, PURE and IMPURE).",
    );
}

#[test]
fn folders_import_only_what_they_may() {
    let modules: BTreeSet<String> = sources()
        .iter()
        .filter_map(|file| Some(file.path.strip_prefix("src/")?.split('/').next()?.trim_end_matches(".rs").to_owned()))
        .collect();
    let mut complaints = Vec::new();
    for file in sources() {
        let Some((place, may)) = IMPORTS.iter().find(|(place, _)| is_below(&file.path, place)) else {
            if !KNOW_EVERYBODY.iter().any(|place| is_below(&file.path, place)) {
                complaints.push(format!("{}: no row of IMPORTS says what it may name; add one", file.path));
            }
            continue;
        };
        let own = place["src/".len()..].split(['/', '.']).next().expect("a first part");
        for named in file.named().iter().filter(|named| named.segments.len() > 1 && named.segments[0] == "crate") {
            let target = &named.segments[1];
            if target != own && modules.contains(target) && !may.contains(&target.as_str()) {
                complaints.push(format!("{}:{}: {own} may not name {target}", file.path, named.line));
            }
        }
    }
    none(
        &complaints,
        "What two modules share belongs to `model`; who joins them is `decide`, `core` or `daemon` (tests/tidy/main.rs, IMPORTS).",
    );
}

#[test]
fn steps_know_no_other_step() {
    for step in STEPS {
        let place = format!("src/{step}/");
        assert!(PURE.contains(&place.as_str()), "{step} is not in PURE");
        let (_, may) =
            IMPORTS.iter().find(|(door, _)| *door == place).unwrap_or_else(|| panic!("{step} is not in IMPORTS"));
        assert!(!may.iter().any(|other| STEPS.contains(other)), "{step} may name another step");
        assert!(root().join(&place).is_dir(), "{place} is gone");
    }
}

/// A row of `IMPORTS` that names a row below it would let two folders import each other in a circle.
#[test]
fn modules_import_no_circle() {
    let name = |place: &str| place["src/".len()..].trim_end_matches('/').trim_end_matches(".rs").to_owned();
    let mut above = BTreeSet::from(["api".to_owned()]);
    for (place, may) in IMPORTS {
        let upwards: Vec<&&str> = may.iter().filter(|other| !above.contains(**other)).collect();
        assert!(upwards.is_empty(), "{place} names {upwards:?}, which no row above it has");
        above.insert(name(place));
    }
}

#[test]
fn no_folder_holds_too_much() {
    let sources = sources();
    let lines = |below: &str| -> usize {
        sources.iter().filter(|file| file.path.starts_with(below)).map(|file| file.text.lines().count()).sum()
    };
    let all = lines("src/");
    let folders: BTreeSet<&str> = sources
        .iter()
        .filter_map(|file| Some(&file.path[..="src/".len() + file.path["src/".len()..].find('/')?]))
        .collect();
    let complaints: Vec<String> = folders
        .into_iter()
        .filter(|folder| lines(folder) * 100 > all * FOLDER_PERCENT_MAX)
        .map(|folder| format!("{folder} has {} of {all} lines", lines(folder)))
        .collect();
    none(
        &complaints,
        &format!("A folder holds at most {FOLDER_PERCENT_MAX} % of src: split it by what its parts are for."),
    );
}

#[test]
fn files_are_short() {
    let mut complaints = Vec::new();
    for file in sources() {
        let lines = file.text.lines().count();
        let is_listed = LONG_FILES.iter().any(|(path, _)| *path == file.path);
        if lines > FILE_LINES_MAX && !is_listed {
            complaints.push(format!("{} has {lines} lines: split it by what its parts are about", file.path));
        } else if lines <= FILE_LINES_MAX && is_listed {
            complaints.push(format!("{} has {lines} lines: remove it from LONG_FILES", file.path));
        }
    }
    let gone = LONG_FILES.iter().filter(|(path, _)| !root().join(path).is_file());
    complaints.extend(gone.map(|(path, _)| format!("{path} is gone: remove it from LONG_FILES")));
    none(&complaints, &format!("A file has at most {FILE_LINES_MAX} lines."));
}

#[test]
fn functions_are_short() {
    let mut seen: BTreeSet<&(&str, &str, usize)> = BTreeSet::new();
    let mut complaints = Vec::new();
    for file in sources() {
        for function in file.functions().into_iter().filter(|function| function.lines > FUNCTION_LINES_MAX) {
            let row = LONG_FUNCTIONS.iter().find(|(path, name, _)| *path == file.path && *name == function.name);
            if row.is_none_or(|(_, _, max)| function.lines > *max) {
                complaints.push(format!("{}: {} has {} lines", file.path, function.name, function.lines));
            }
            seen.extend(row);
        }
    }
    let stale = LONG_FUNCTIONS.iter().filter(|row| !seen.contains(row));
    complaints.extend(stale.map(|(file, name, _)| format!("{file}: {name} is short: remove it from LONG_FUNCTIONS")));
    none(
        &complaints,
        &format!("A function has at most {FUNCTION_LINES_MAX} lines: take a step out of it, or make it a table."),
    );
}

#[test]
fn annotations_are_named_in_one_place() {
    let mut complaints = Vec::new();
    for file in sources().iter().filter(|file| file.path != ANNOTATIONS && !file.shipped.is_empty()) {
        for (at, _) in file.uncommented.match_indices("\"gitfleet.io/") {
            let name = file.uncommented[at + 1..].split('"').next().unwrap_or_default();
            // What tests write out is what people write.
            if file.shipped.as_bytes()[at] == b'"' && !NO_ANNOTATIONS.contains(&name) {
                complaints.push(format!("{}:{}: \"{name}\"", file.path, file.line(at)));
            }
        }
    }
    none(&complaints, &format!("Use the constant of {ANNOTATIONS}, or add one there."));
}

#[test]
fn no_test_is_forgotten() {
    let cargo = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (sources, tests) = (sources(), files("tests"));
    let mut complaints = Vec::new();
    for file in &tests {
        if file.path.ends_with("/main.rs") && !cargo.contains(&format!("path = \"{}\"", file.path)) {
            complaints.push(format!("{}: not declared in Cargo.toml, so it never runs; add a [[test]]", file.path));
        }
    }
    let declared: BTreeSet<String> = sources.iter().chain(&tests).flat_map(declared).collect();
    for file in sources.iter().chain(&tests) {
        for (at, _) in file.code.match_indices("#[ignore") {
            complaints.push(format!("{}:{}: an ignored test; fix it or remove it", file.path, file.line(at)));
        }
        let is_root = ["src/main.rs", "src/lib.rs"].contains(&file.path.as_str())
            || file.path.ends_with("/main.rs")
            || cargo.contains(&format!("path = \"{}\"", file.path));
        if !is_root && !declared.contains(&file.path) {
            complaints
                .push(format!("{}: no `mod` declares it, so it is not compiled; declare or remove it", file.path));
        }
    }
    none(&complaints, "Every test that is written runs.");
}

/// Returns the paths of the files that a file may mean with its `mod` lines.
fn declared(file: &File) -> Vec<String> {
    let names = file.code.split("mod ").skip(1).filter_map(|rest| rest.split_once(';').map(|(name, _)| name));
    let is_name = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let child = |name: &str| [format!("{}/{name}.rs", file.children()), format!("{}/{name}/mod.rs", file.children())];
    let elsewhere = file.uncommented.split("#[path = \"").skip(1).map(|rest| {
        let mut at: Vec<&str> = file.path.split('/').collect();
        at.pop();
        for part in rest.split('"').next().unwrap_or_default().split('/') {
            if part == ".." {
                at.pop();
            } else {
                at.push(part);
            }
        }
        at.join("/")
    });
    names.filter(is_name).flat_map(child).chain(elsewhere).collect()
}

#[test]
fn dependencies_stay_few() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let count = lock.matches("[[package]]").count();
    assert!(
        count <= PACKAGES_MAX,
        "Cargo.lock has {count} packages, the limit is {PACKAGES_MAX}: look for a feature to turn off or a library to do \
         without; else raise PACKAGES_MAX and say why in the commit"
    );
}

/// Cargo.lock is not asked: it also names libraries that no build uses.
#[test]
fn there_is_one_tls_provider() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--edges", "normal,build", "--prefix", "none", "--format", "{p}"])
        .current_dir(root())
        .output()
        .expect("cargo can be run");
    assert!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8_lossy(&output.stdout);
    let built: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(built.contains("aws-lc-rs"), "aws-lc-rs is not built: is `cargo tree` still read rightly?");
    let others: Vec<String> = OTHER_TLS.iter().filter(|name| built.contains(*name)).map(ToString::to_string).collect();
    none(
        &others,
        "aws-lc-rs is the one TLS provider: find who brings the other with `cargo tree -i NAME`, turn it off.",
    );
}
