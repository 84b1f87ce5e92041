//! A source that moves: what members hold is its own once a person says so.

use std::fs;

use crate::scratch::{CONFIG, Scratch, cluster, namespace, placement};

const ONCE: [&str; 4] = ["run", "-c", CONFIG, "--once"];

fn fleet() -> Scratch {
    let scratch = Scratch::new();
    scratch.configure();
    scratch.write("clusters.yaml", &[cluster("east", "e"), cluster("west", "w")].concat());
    scratch.write("web.yaml", &namespace("web", &[("a", "1")]));
    scratch.write("placement.yaml", &placement("web", "web", ""));
    scratch.commit("first");
    scratch.run(&ONCE).text(0);
    scratch
}

/// Changes the configuration.
fn configure(scratch: &Scratch, from: &str, to: &str) {
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    assert!(text.contains(from), "{text}");
    fs::write(scratch.path(CONFIG), text.replace(from, to)).expect("a file");
}

/// Calls the branch that is followed otherwise.
fn rename_branch(scratch: &Scratch) {
    let mut git = std::process::Command::new("git");
    let renamed = git.args(["branch", "-m", "main", "trunk"]).current_dir(scratch.path("fleet")).status();
    assert!(renamed.expect("git starts").success());
    configure(scratch, "branch: main", "branch: trunk");
}

/// Returns what a member's inventory is called by.
fn inventory(scratch: &Scratch, member: &str) -> String {
    let folder = scratch.path("members").join(member);
    let mut found = String::new();
    for entry in walk(&folder) {
        let text = fs::read_to_string(&entry).unwrap_or_default();
        found.extend(text.lines().filter(|line| line.contains("gitfleet.io/source:")).map(str::trim));
    }
    found
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder of a member").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn d16_a_source_that_moved_is_the_same_when_a_person_says_so() {
    let scratch = fleet();
    rename_branch(&scratch);
    scratch.write("web.yaml", &namespace("web", &[("a", "2")]));
    scratch.commit("second");
    let found = scratch.run(&ONCE);
    let status = scratch.run(&["status", "-c", CONFIG]).out;
    let said = found.err + &status;
    assert!(said.contains("belongs to another source") && said.contains("gitfleet source rename"), "{said}");
    let before = inventory(&scratch, "east");
    let old = format!("{}#main:.", scratch.path("fleet").display());
    assert!(before.contains(&old), "{before}");
    let wrong = scratch.run(&["source", "rename", &old, "third", "-c", CONFIG]);
    assert_eq!((wrong.code, wrong.err.contains("not third")), (2, true), "{}", wrong.err);
    assert!(scratch.run(&["source", "rename", &old, "-c", CONFIG]).text(0).contains("from the next start on"));
    let found = scratch.run(&ONCE);
    assert_eq!(found.code, 0, "{}", found.err);
    let after = inventory(&scratch, "east");
    assert!(after.contains("#trunk:.") && !after.contains(&old), "{after}");
    let status = scratch.run(&["status", "-c", CONFIG]);
    assert!(!status.out.contains("another source"), "{}", status.out);
}

#[test]
fn d16_a_source_with_a_name_moves_without_a_word() {
    let scratch = fleet();
    configure(&scratch, "branch: main", "branch: main, identity: our-fleet");
    scratch.write("web.yaml", &namespace("web", &[("a", "2")]));
    scratch.commit("second");
    scratch.run(&ONCE).text(0);
    assert!(inventory(&scratch, "west").contains("our-fleet"), "{}", inventory(&scratch, "west"));
    rename_branch(&scratch);
    scratch.write("web.yaml", &namespace("web", &[("a", "3")]));
    scratch.commit("third");
    let found = scratch.run(&ONCE);
    assert_eq!(found.code, 0, "{}", found.err);
}
