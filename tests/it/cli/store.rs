//! A store that is lost, empty or restored: nothing that people decided is undone by it.

use std::fs;

use crate::cli::daemon::Daemon;
use crate::cli::scratch::{CONFIG, Outcome, Scratch, namespace};

const ONCE: [&str; 4] = ["run", "-c", CONFIG, "--once"];

/// A fleet whose members hold the first of two commits.
fn fleet() -> Scratch {
    let scratch = Scratch::with_web();
    once(&scratch).text(0);
    scratch
}

fn change(scratch: &Scratch, value: &str) {
    scratch.write("web.yaml", &namespace("web", &[("a", value)]));
    scratch.commit("a change");
}

fn once(scratch: &Scratch) -> Outcome {
    scratch.run(&ONCE)
}

fn lose(scratch: &Scratch) {
    fs::remove_dir_all(scratch.path("store")).expect("the store is lost");
}

/// Returns what a member holds of the changing object.
fn held(scratch: &Scratch, member: &str) -> String {
    fs::read_to_string(scratch.path("members").join(member).join("configmap..web.a.yaml")).expect("the file")
}

fn waits(scratch: &Scratch) {
    let found = once(scratch);
    assert_eq!(found.code, 3, "{}", found.err);
    assert!(found.err.contains("gitfleet store adopt") && found.err.contains("east, west"), "{}", found.err);
    let status = scratch.run(&["status", "--exit-code", "-c", CONFIG]);
    assert!(status.text(3).contains("gitfleet store adopt"), "{}", status.out);
}

#[test]
fn d11_a_rollback_survives_a_lost_store() {
    let scratch = fleet();
    change(&scratch, "2");
    once(&scratch).text(0);
    scratch.run(&["rollback", "web", "--to", "0", "-c", CONFIG]).text(0);
    once(&scratch);
    let good = held(&scratch, "east");
    assert!(good.contains('1') && !good.contains("'2'") && !good.contains("\"2\""), "{good}");
    lose(&scratch);
    for _ in 0..2 {
        waits(&scratch);
        assert_eq!(held(&scratch, "east"), good, "nothing begins");
    }
    scratch.run(&["store", "adopt", "-c", CONFIG]).text(0);
    let held_back = once(&scratch);
    assert!(held_back.code == 1 && held_back.err.contains("is held until"), "{}: {}", held_back.code, held_back.err);
    assert_eq!((held(&scratch, "east"), held(&scratch, "west")), (good.clone(), good.clone()), "the bad one is held");
    change(&scratch, "3");
    once(&scratch).text(0);
    assert_ne!(held(&scratch, "east"), good, "another is not");
}

#[test]
fn d11_a_pause_survives_a_lost_and_an_empty_store() {
    for empties in [false, true] {
        let scratch = fleet();
        scratch.run(&["pause", "web", "--reason", "incident", "-c", CONFIG]).text(0);
        once(&scratch);
        let before = held(&scratch, "east");
        if empties {
            // Row 68 of the review: the file is there, and nothing is in it.
            fs::write(scratch.path("store/records.redb"), "").expect("it is emptied");
        } else {
            lose(&scratch);
        }
        change(&scratch, "2");
        waits(&scratch);
        scratch.run(&["store", "adopt", "-c", CONFIG]).text(0);
        once(&scratch);
        assert_eq!(held(&scratch, "east"), before, "it is paused still");
        scratch.run(&["resume", "web", "-c", CONFIG]).text(0);
        once(&scratch).text(0);
        assert_ne!(held(&scratch, "east"), before);
        let refused = scratch.run(&["store", "adopt", "-c", CONFIG]);
        assert_eq!(refused.code, 1, "it is not new: {}", refused.err);
    }
}

#[test]
fn d11_a_pipeline_without_a_store_says_so_once() {
    let scratch = fleet();
    scratch.run(&["pause", "web", "-c", CONFIG]).text(0);
    once(&scratch);
    let before = held(&scratch, "east");
    let configuration = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    let adopting = configuration.replace("path: ./store", "path: ./store, onEmpty: Adopt");
    assert_ne!(adopting, configuration, "{configuration}");
    fs::write(scratch.path(CONFIG), adopting).expect("it is written");
    change(&scratch, "2");
    for _ in 0..2 {
        lose(&scratch);
        let found = once(&scratch);
        assert!(found.err.contains("store.onEmpty"), "{}", found.err);
        assert_eq!(held(&scratch, "east"), before, "it is paused still");
    }
}

#[test]
fn d11_a_backup_brings_everything_back() {
    let scratch = fleet();
    let backup = scratch.path("backup");
    let backup = backup.to_str().expect("a path");
    scratch.run(&["store", "backup", backup, "-c", CONFIG]).text(0);
    let again = scratch.run(&["store", "backup", backup, "-c", CONFIG]);
    assert_eq!(again.code, 2, "no backup is written over another: {}", again.err);
    let refused = scratch.run(&["store", "restore", backup, "-c", CONFIG]);
    assert!(refused.code == 2 && refused.err.contains("not empty"), "{}", refused.err);
    lose(&scratch);
    scratch.run(&["store", "restore", backup, "-c", CONFIG]).text(0);
    let before = held(&scratch, "east");
    once(&scratch).text(0);
    assert_eq!(held(&scratch, "east"), before);
    change(&scratch, "2");
    once(&scratch).text(0);
    assert_ne!(held(&scratch, "east"), before, "the change is delivered");
}

#[test]
fn d11_a_backup_is_made_beside_a_running_daemon() {
    let scratch = fleet();
    let backup = scratch.path("backup");
    let backup = backup.to_str().expect("a path");
    let daemon = Daemon::start(&scratch);
    scratch.run(&["store", "backup", backup, "--server", &daemon.address, "-c", CONFIG]).text(0);
    let refused = scratch.run(&["store", "restore", backup, "--force", "-c", CONFIG]);
    assert_eq!(refused.code, 2, "a daemon holds the store: {}", refused.err);
    drop(daemon);
    lose(&scratch);
    scratch.run(&["store", "restore", backup, "-c", CONFIG]).text(0);
    once(&scratch).text(0);
}

#[test]
fn d11_an_older_backup_sends_nobody_back() {
    let scratch = fleet();
    let backup = scratch.path("backup");
    let backup = backup.to_str().expect("a path");
    scratch.run(&["store", "backup", backup, "-c", CONFIG]).text(0);
    // Snapshot 1 and the pause come after the backup: only members know of them.
    change(&scratch, "2");
    once(&scratch).text(0);
    scratch.run(&["pause", "web", "--reason", "incident", "-c", CONFIG]).text(0);
    once(&scratch);
    let newer = held(&scratch, "east");
    assert!(index(&scratch).contains("\"1\""), "{}", index(&scratch));
    lose(&scratch);
    scratch.run(&["store", "restore", backup, "-c", CONFIG]).text(0);
    let paused = once(&scratch);
    assert_eq!(paused.code, 3, "the pause stands: {}", paused.err);
    assert!(paused.err.contains("holds a newer snapshot than the store says"), "{}", paused.err);
    assert_eq!((held(&scratch, "east"), held(&scratch, "west")), (newer.clone(), newer.clone()));
    change(&scratch, "3");
    assert_eq!(once(&scratch).code, 3);
    assert_eq!(held(&scratch, "east"), newer, "it is paused still");
    scratch.run(&["resume", "web", "-c", CONFIG]).text(0);
    once(&scratch).text(0);
    assert_ne!(held(&scratch, "east"), newer, "the change is delivered");
    assert!(index(&scratch).contains("\"2\""), "the index of snapshot 1 is used: {}", index(&scratch));
}

/// Returns the line of a member's inventory that names its snapshot.
fn index(scratch: &Scratch) -> String {
    let files = fs::read_dir(scratch.path("members/east")).expect("the member's folder");
    let texts = files.filter_map(|file| fs::read_to_string(file.expect("a file").path()).ok());
    let mut inventories = texts.filter(|text| text.contains("gitfleet.io/snapshot-index"));
    let inventory = inventories.next().expect("an inventory").replace('\'', "\"");
    inventory.lines().find(|line| line.contains("snapshot-index")).expect("an index").to_owned()
}
