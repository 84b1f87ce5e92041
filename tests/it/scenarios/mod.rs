//! Scenarios in time: commits, commands and what is right afterwards, in the files beside this one. Each sits where two features meet.
//!
//! A scenario starts with a line without indentation, its name and what happens in it. Its steps are indented, and what belongs to a step
//! is indented further:
//!
//! ```text
//! m1-override: an override for prod only
//!   given staged
//!   commit bad
//!     override app/ro on cm where env=prod: replace /data/v BAD
//!   once 3
//!     says gitfleet approve
//!   p1 p2: app/cm v=1
//! ```
//!
//! | step | does |
//! | --- | --- |
//! | `given tree` | writes the files of [`given`], uncommitted |
//! | `given staged`, `given rolling` | commits them as `v1` and rolls out; c1 is the canary, and its approval is given |
//! | `commit NAME [in REPOSITORY]` | changes files as [`documents`] says, and commits |
//! | `once CODES [within TIME]` | `gitfleet run --once`, exit code `3`, `0,3` or `any`; `says TEXT` and `never TEXT` are of both outputs |
//! | `gitfleet ARGUMENTS [=> CODES]` | any command, exit code 0 where none is given; `{NAME}` is the id of a commit |
//! | `printed BEGINNING [=> CODES]` | runs each line of `gitfleet status` that begins so; there must be one |
//! | `CLUSTERS: OBJECT [WHAT]` | OBJECT is `app/cm` for a ConfigMap, else `Kind NAME`; WHAT is `KEY=VALUE`, `gone`, `of Kind/PLACEMENT`, `untouched` since `remember`, or nothing |
//! | `daemon`, `end` | starts `gitfleet run`, and ends it; between them `await CLUSTERS: OBJECT [WHAT]` and `await gitfleet ARGUMENTS says TEXT` wait |
//! | `remember` | notes every file of every member |
//! | `delete CLUSTER OBJECT` | removes an object on the member, by hand |
//! | `foreign CLUSTER OBJECT` | writes a ConfigMap that is nobody's on the member, with `v=foreign` |
//! | `lose store` | removes the store, or another folder |
//! | `configuration [NAME]` | top-level keys of `gitfleet.yaml`, or of another file, which `use NAME` makes the one of later steps |
//! | `known FAULT` | one of the later steps fails today; when none does, the line is to be removed |
//! | `sometimes FAULT` | one of the later steps fails in some runs today; whoever ends the fault removes the line |
//!
//! `GITFLEET_SCENARIO=m1 cargo test --test it scenarios -- --nocapture` runs and prints the scenarios whose name begins so.
//! `GITFLEET_SCENARIO_FOLDER=FOLDER` reads the scenarios of another folder, and `GITFLEET_SCENARIO_CONFIGURATION=FILE` adds the lines of a file
//! to the configuration of all.

mod documents;
mod given;
mod play;
mod read;

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use play::{Played, Usual};
use read::Scenario;
use testservers::repository;

/// Environment variable with the beginning of the names of the scenarios to run, which are printed step by step.
const ONLY: &str = "GITFLEET_SCENARIO";
/// Environment variable with another folder of scenarios.
const FOLDER: &str = "GITFLEET_SCENARIO_FOLDER";
/// Scenarios that are played at once: they wait for the disk and for timers as much as for a processor.
const AT_ONCE: usize = 12;

/// How a scenario ended, beside the mark that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Right,
    Known,
    Wrong,
    MarkIsLeft,
}

fn verdict(scenario: &Scenario, played: &Played) -> Verdict {
    let mark = scenario.mark();
    match (mark, &played.failure) {
        (None | Some((_, _, false)), None) => Verdict::Right,
        (Some((_, _, true)), None) => Verdict::MarkIsLeft,
        (Some((line, ..)), Some(failure)) if failure.line > line => Verdict::Known,
        _ => Verdict::Wrong,
    }
}

/// Reads all files of scenarios, in order of their names.
fn all() -> Vec<Scenario> {
    let folder = env::var_os(FOLDER).map_or_else(|| repository().join("tests/it/scenarios"), PathBuf::from);
    let entries = fs::read_dir(&folder).expect("the folder of this file").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "txt")).collect();
    files.sort();
    let read = |path: &std::path::PathBuf| {
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        read::scenarios(&name, &fs::read_to_string(path).expect("text")).unwrap_or_else(|error| panic!("{error}"))
    };
    files.iter().flat_map(read).collect()
}

#[test]
fn each_scenario_ends_as_it_should() {
    let only = env::var(ONLY).ok();
    let mut scenarios = all();
    scenarios.retain(|it| only.as_ref().is_none_or(|only| it.name.starts_with(only)));
    assert!(!scenarios.is_empty(), "no scenario has such a name");
    let is_shown = only.is_some();
    let (next, usual) = (AtomicUsize::new(0), Usual::default());
    let ended: Mutex<Vec<(usize, Played)>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let begun = Instant::now();
                    let mut played = play::play(scenario, &usual, is_shown);
                    played.took = begun.elapsed();
                    let at = scenarios.iter().position(|it| it.name == scenario.name).expect("it is one of them");
                    ended.lock().expect("no thread failed").push((at, played));
                }
            });
        }
    });
    let mut ended = ended.into_inner().expect("no thread failed");
    ended.sort_by_key(|(at, _)| *at);
    let (mut table, mut complaints) = (String::new(), String::new());
    for (at, played) in &ended {
        let scenario = &scenarios[*at];
        let (verdict, place) = (verdict(scenario, played), format!("{}:{}", scenario.file, scenario.line));
        let fault = scenario.mark().map_or("", |(_, fault, _)| fault);
        let failed = played.failure.as_ref().map(|it| format!("line {}: {}", it.line, it.first_line()));
        let took = played.took.as_millis();
        let _ = writeln!(table, "{verdict:?}\t{}\t{fault}\t{took} ms\t{}", scenario.name, failed.unwrap_or_default());
        let _ = match (verdict, &played.failure) {
            (Verdict::MarkIsLeft, _) => {
                writeln!(complaints, "{place}: {} is right now: remove its line `known {fault}`\n", scenario.name)
            }
            (Verdict::Wrong, Some(failure)) => writeln!(
                complaints,
                "{}:{}: {}: {}\n{}\n",
                scenario.file, failure.line, scenario.name, scenario.title, failure.text
            ),
            _ => Ok(()),
        };
    }
    println!("{table}");
    assert!(complaints.is_empty(), "{complaints}");
}

#[test]
fn names_of_scenarios_are_unique() {
    let mut names: Vec<String> = all().into_iter().map(|it| it.name).collect();
    names.sort();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| &pair[0]).collect();
    assert!(twice.is_empty(), "{twice:?}");
}
