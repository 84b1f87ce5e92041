//! Keeps the rules of the code: what a decision may not touch, how long things may be, which files need each other, which libraries come
//! in, and that the reference pages say what the code says. The rules are the tables at the top, and the files beside this one. Which crate
//! uses which is in the Cargo.toml of each.

#![allow(unreachable_pub, reason = "nothing is outside of a test binary")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue shall fail")]

mod assets;
mod budgets;
mod cancel;
mod circles;
mod comments;
mod fields;
mod kinds;
mod licences;
mod listed;
mod monitoring;
mod names;
mod pages;
mod reference;
mod text;
mod trees;
mod types;
mod words;

use std::collections::BTreeSet;
use std::fs;
use std::sync::OnceLock;

use text::{File, files, root};

/// The steps of a decision that are folders of `decide`: each is plain functions over plain values and knows nothing else of it, so no
/// other step. Those that are crates of their own, `source`, `schedule` and `deliver`, are kept apart by Cargo.
const STEPS: [&str; 3] = ["snapshot", "rollout", "status"];

/// The crates that decide, and hence do nothing, ask nothing and are the same every time.
const PURE_CRATES: [&str; 9] = ["model", "source", "schedule", "deliver", "decide", "engine", "wire", "plan", "views"];
/// Who decides in the other crates. Whole folders, so that no file is missed.
const PURE_PLACES: &[&str] = &[
    "src/git/signature/",
    "src/forge/grammar.rs",
    "src/forge/grammar/",
    "src/forge/webhook.rs",
    "src/forge/webhook/",
    "src/bot/outbox.rs",
    "src/bot/commit_rollout.rs",
    "src/bot/commit_rollouts.rs",
    "src/bot/comment_policy.rs",
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
    ("system", "take what was read or measured as an argument"),
    ("rand", "derive it from the input: same inputs, same decisions"),
    ("fastrand", "derive it from the input: same inputs, same decisions"),
    ("getrandom", "derive it from the input: same inputs, same decisions"),
    ("RandomState", "use BTreeMap or BTreeSet"),
    ("HashMap", "use BTreeMap: its order does not change from run to run"),
    ("HashSet", "use BTreeSet: its order does not change from run to run"),
];

/// What is named in places that decide all the same: file, what, and why it may be.
const KEPT: &[(&str, &str, &str)] = &[
    ("src/deliver/by_object.rs", "HashMap", "its order, which changes from run to run, does not leave the file"),
    ("src/engine/store/lease.rs", "Instant", "leases in memory end by the clock that they are given"),
];

/// How much of all lines of `src` a folder may hold, in percent.
const FOLDER_PERCENT_MAX: usize = 15;

/// What a test may need that not every machine has: `tests/run.sh --full` has them, and runs the tests that are ignored for them.
const PROGRAMS: [&str; 4] = ["gpg", "openssl", "ssh-keygen", "sshd"];

/// Lines a file of `src` may have.
const FILE_LINES_MAX: usize = 600;
/// Files that are longer, and the reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// Lines a function may have, from its signature to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Functions that are longer: file, name, lines. Make them shorter; nothing is added here.
const LONG_FUNCTIONS: &[(&str, &str, usize)] = &[];

/// Where names of annotations are constants, and nowhere else.
const ANNOTATIONS: &str = "src/model/api/annotations.rs";
/// Names with our prefix that are no annotations.
const NO_ANNOTATIONS: [&str; 2] = ["gitfleet.io/", "gitfleet.io/v1alpha1"];

/// Returns the files of all crates, which are read once.
fn sources() -> &'static [File] {
    static SOURCES: OnceLock<Vec<File>> = OnceLock::new();
    SOURCES.get_or_init(|| files("src"))
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

fn decides(path: &str) -> bool {
    PURE_CRATES.iter().any(|name| is_below(path, &format!("src/{name}/")))
        || PURE_PLACES.iter().any(|place| is_below(path, place))
}

#[test]
fn decisions_are_pure() {
    let mut complaints = Vec::new();
    for file in sources().iter().filter(|file| decides(&file.path)) {
        for named in file.named() {
            let found = IMPURE.iter().filter(|(what, _)| {
                if KEPT.iter().any(|(path, kept, _)| *path == file.path && kept == what) {
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
    none(&complaints, "Places that decide are plain functions over plain values (tests/tidy/main.rs, IMPURE).");
}

#[test]
fn steps_know_no_other_step() {
    let sources = sources();
    let mut complaints = Vec::new();
    for step in STEPS {
        let place = format!("src/decide/{step}/");
        let files: Vec<&File> = sources.iter().filter(|file| file.path.starts_with(&place)).collect();
        assert!(!files.is_empty(), "{place} is gone");
        for file in files {
            let named =
                file.named().into_iter().filter(|named| named.segments.len() > 1 && named.segments[0] == "crate");
            let others = named.filter(|named| named.segments[1] != step);
            complaints.extend(others.map(|named| {
                format!("{}:{}: {step} may not name {}", file.path, named.line, named.segments[1..].join("::"))
            }));
        }
    }
    none(
        &complaints,
        "What two steps share belongs to `model`; who joins them is the rest of `decide` (tests/tidy/main.rs, STEPS).",
    );
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
    let manifests = manifests();
    let roots: BTreeSet<String> = manifests.iter().flat_map(|(folder, text)| roots(folder, text)).collect();
    let (sources, tests) = (sources(), files("tests"));
    let mut complaints = Vec::new();
    for file in &tests {
        if file.path.ends_with("/main.rs") && !roots.contains(&file.path) {
            complaints.push(format!("{}: not declared in a Cargo.toml, so it never runs; add a [[test]]", file.path));
        }
    }
    let declared: BTreeSet<String> = sources.iter().chain(&tests).flat_map(declared).collect();
    // A library that is said to have no tests.
    let untested: Vec<&String> = manifests
        .iter()
        .filter(|(_, text)| section(text, "[lib]").any(|line| line == "test = false"))
        .map(|(folder, _)| folder)
        .collect();
    for file in sources.iter().chain(&tests) {
        for (at, _) in file.code.match_indices("#[ignore") {
            let is_needed =
                |program: &str| file.uncommented[at..].starts_with(&format!("#[ignore = \"needs {program}\"]"));
            if !PROGRAMS.into_iter().any(is_needed) {
                complaints.push(format!("{}:{}: an ignored test; fix it or remove it", file.path, file.line(at)));
            }
        }
        if untested.iter().any(|folder| file.path.starts_with(&format!("{folder}/"))) && file.code.contains("#[test]") {
            complaints.push(format!("{}: its Cargo.toml says test = false, so it never runs", file.path));
        }
        if !roots.contains(&file.path) && !declared.contains(&file.path) {
            complaints
                .push(format!("{}: no `mod` declares it, so it is not compiled; declare or remove it", file.path));
        }
    }
    none(&complaints, "Every test that is written runs.");
}

#[test]
fn files_stand_where_their_modules_say() {
    let mut complaints = Vec::new();
    for file in sources().iter().chain(&files("tests")) {
        let found = file.code.match_indices("#[path");
        complaints.extend(found.map(|(at, _)| format!("{}:{}", file.path, file.line(at))));
    }
    none(&complaints, "A `#[path]` hides which module a file is: put the file where Rust looks for it.");
}

/// Returns the folders of the crates, with the texts of their Cargo.toml.
fn manifests() -> Vec<(String, String)> {
    let crates = fs::read_dir(root().join("src")).unwrap().map(|entry| entry.unwrap().file_name());
    let crates = crates.map(|name| format!("src/{}", name.to_string_lossy()));
    let folders = crates
        .chain(["tests", "tests/mutants", "tests/simulated", "tests/testkit", "tests/testservers"].map(str::to_owned));
    let read = |folder: String| {
        let text = fs::read_to_string(root().join(&folder).join("Cargo.toml"));
        let text = text.unwrap_or_else(|error| panic!("{folder} is no crate: {error}"));
        (folder, text)
    };
    folders.map(read).collect()
}

/// Returns the files that a manifest declares to be roots of crates.
fn roots(folder: &str, manifest: &str) -> Vec<String> {
    let paths = manifest.lines().filter_map(|line| line.strip_prefix("path = \"")?.strip_suffix('"'));
    paths.map(|path| format!("{folder}/{path}")).collect()
}

/// Returns the lines of a section of a manifest.
fn section<'a>(manifest: &'a str, title: &str) -> impl Iterator<Item = &'a str> {
    let lines = manifest.lines().skip_while(move |line| *line != title).skip(1);
    lines.take_while(|line| !line.starts_with('['))
}

/// Returns the paths of the files that a file may mean with its `mod` lines.
fn declared(file: &File) -> Vec<String> {
    let names = file.code.split("mod ").skip(1).filter_map(|rest| rest.split_once(';').map(|(name, _)| name));
    let is_name = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let child = |name: &str| [format!("{}/{name}.rs", file.children()), format!("{}/{name}/mod.rs", file.children())];
    names.filter(is_name).flat_map(child).collect()
}
