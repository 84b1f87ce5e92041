//! A source that moves: what members hold is its own once a person says so.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::cli::edges::{Daemon, RUN, until};
use crate::cli::scratch::{CONFIG, FLEET, Scratch, cluster, namespace, placement};

const ONCE: [&str; 4] = ["run", "-c", CONFIG, "--once"];

fn fleet() -> Scratch {
    let scratch = Scratch::with_web();
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
        // Delivered objects name the source that they were last applied from.
        if !text.contains("applyset.kubernetes.io/id:") {
            continue;
        }
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

#[test]
fn ux1a_10_a_switch_of_the_checked_out_branch_begins_nothing_until_a_person_says_so() {
    let scratch = Scratch::new();
    scratch.configure();
    let text = std::fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    std::fs::write(scratch.path(CONFIG), text.replace(", branch: main", "")).expect("a file");
    scratch.write("clusters.yaml", &cluster("east", "e"));
    scratch.write("placement.yaml", &placement("web", "web", ""));
    scratch.write("web.yaml", &namespace("web", &[("a", "1")]));
    scratch.commit("first");
    let git = |args: &[&str]| {
        let mut git = std::process::Command::new("git");
        assert!(git.arg("-C").arg(scratch.path(FLEET)).args(args).status().expect("git runs").success());
    };
    let once = || scratch.run(&["run", "-c", CONFIG, "--once"]);
    let has_b = || scratch.member("east").iter().any(|name| name.contains(".b."));
    let first = once();
    assert_eq!(first.code, 0, "{}", first.err);
    let line = first.err.lines().find(|line| line.contains("following the branch that is checked out"));
    assert!(line.is_some_and(|line| line.contains("branch=\"main\"")), "{}", first.err);
    git(&["checkout", "-q", "-b", "other"]);
    scratch.write("web.yaml", &namespace("web", &[("b", "1")]));
    scratch.commit("on another branch");
    let held = once();
    assert_eq!((held.code, has_b()), (1, false), "{}", held.err);
    let said = "the branch other is checked out, and main was followed";
    assert!(held.err.lines().any(|line| line.contains("WARN") && line.contains(said)), "{}", held.err);
    let status = scratch.run(&["status", "--exit-code", "-c", CONFIG]);
    assert!(status.text(1).contains(&format!("! {said}; ")), "{}", status.out);
    git(&["checkout", "-q", "main"]);
    assert_eq!(once().code, 0, "it is as it was");
    git(&["checkout", "-q", "other"]);
    assert_eq!(once().code, 1);
    let resumed = scratch.run(&["resume", "-c", CONFIG]);
    assert!(resumed.text(0).starts_with("the branch that is checked out is accepted at "), "{}", resumed.out);
    let last = once();
    assert_eq!((last.code, has_b()), (0, true), "{}", last.err);
    assert!(last.err.contains("branch=\"other\""), "{}", last.err);
    assert_eq!(once().code, 0, "it is the one that is followed now");
}

/// A git host that answers every request with 503; returns where it listens.
fn overloaded() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    // It ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            // Whoever asks may go at any time.
            let _ = stream.read(&mut [0; 4096]);
            let _ =
                stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    address
}

/// Runs the daemon on a configuration and returns what `status` says of it once it says some words.
fn status_with(scratch: &Scratch, daemon: &Daemon, words: &str) -> String {
    let mut found = String::new();
    until(words, || {
        found = scratch.run(&["status", "--server", &daemon.address]).out;
        found.contains(words)
    });
    found
}

#[test]
fn w01_a_host_that_is_overloaded_is_said_and_begins_nothing() {
    let scratch = Scratch::new();
    scratch.configure();
    configure(&scratch, "url: ./fleet", &format!("url: 'http://{}/fleet.git'", overloaded()));
    let daemon = Daemon::start(scratch.command(&RUN));
    let status = status_with(&scratch, &daemon, "✗ the source cannot be read: ");
    assert!(status.contains("503") && status.contains("no commit is accepted yet"), "{status}");
}

#[test]
fn w01_a_local_repository_that_is_missing_is_waited_for_where_a_commit_is_accepted() {
    let scratch = fleet();
    let away = scratch.path("moved-away");
    fs::rename(scratch.path(FLEET), &away).expect("it is moved");
    let daemon = Daemon::start(scratch.command(&RUN));
    let status = status_with(&scratch, &daemon, "✗ the source cannot be read: ");
    assert!(status.contains(&scratch.path(FLEET).display().to_string()), "{status}");
    assert!(status.contains("✗ the accepted commit cannot be read: "), "{status}");
    fs::rename(&away, scratch.path(FLEET)).expect("it is moved back");
    scratch.write("web.yaml", &namespace("web", &[("b", "1")]));
    scratch.commit("second");
    until("the second commit arrives", || scratch.member("east").iter().any(|name| name.contains(".b.")));
}

#[test]
fn w01_a_first_start_with_a_wrong_path_says_so_and_ends() {
    let scratch = Scratch::new();
    scratch.configure();
    configure(&scratch, "url: ./fleet", "url: ./flet");
    let found = scratch.run(&ONCE);
    assert_eq!(found.code, 2, "{}", found.err);
    assert!(found.err.contains(&scratch.path("flet").display().to_string()), "{}", found.err);
}

/// Another daemon with another source has a placement of the same name on the same clusters.
#[test]
fn m13_the_guard_of_one_source_counts_nothing_of_another() {
    let scratch = fleet();
    let other = scratch.path("other");
    fs::create_dir_all(&other).expect("a folder");
    let write = |file: &str, text: &str| fs::write(other.join(file), text).expect("a file");
    write("clusters.yaml", &[cluster("east", "e"), cluster("west", "w")].concat());
    write("placement.yaml", &placement("web", "web", ""));
    write("web.yaml", &namespace("web", &[("z", "1")]));
    crate::cli::git::commit_all(&other, "first").expect("git commits");
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    let text = text.replace("./fleet", "./other").replace("./store", "./other-store");
    fs::write(scratch.path("other.yaml"), text).expect("a file");
    let once = ["run", "-c", "other.yaml", "--once"];
    let before = scratch.member("east");
    let refused = scratch.run(&once);
    assert_eq!(refused.code, 1, "no person is asked: {}{}", refused.out, refused.err);
    let status = scratch.run(&["status", "-c", "other.yaml", "--all"]).out;
    assert!(status.contains("belongs to another source") && !status.contains("would be deleted"), "{status}");
    // It goes without a word, and nothing of the first goes with it.
    fs::remove_file(other.join("placement.yaml")).expect("it is there");
    crate::cli::git::commit_all(&other, "second").expect("git commits");
    scratch.run(&once).text(0);
    let left = scratch.run(&["get", "placements", "-c", "other.yaml", "-o", "json"]).json(0);
    assert_eq!(left["items"].as_array().map(Vec::len), Some(0), "{left}");
    assert_eq!(scratch.member("east"), before);
    // Neither does a placement of another name take what the first source's holds.
    write("placement.yaml", &placement("a-web", "web", ""));
    write("web.yaml", &namespace("web", &[("a", "2")]));
    crate::cli::git::commit_all(&other, "third").expect("git commits");
    scratch.run(&once);
    let status = scratch.run(&["status", "-c", "other.yaml", "--all"]).out;
    assert!(status.contains("belongs to placement web of another source"), "{status}");
    scratch.run(&ONCE).text(0);
}
