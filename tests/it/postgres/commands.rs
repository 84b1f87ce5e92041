//! Commands without a daemon, on a store in PostgreSQL.

use std::fs;

use crate::postgres::scratch::{CONFIG, Scratch};
use crate::postgres::server::{addresses, schema};

/// The same configuration with its store in PostgreSQL.
const SHARED: &str = "shared.yaml";

/// A fleet with everything rolled out, and a second configuration whose store is in PostgreSQL and empty.
fn fleet() -> Scratch {
    let scratch = Scratch::with_web();
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
    let text = fs::read_to_string(scratch.path(CONFIG)).unwrap();
    fs::write(scratch.path("address"), addresses().1).unwrap();
    let store = text.lines().find(|line| line.starts_with("store:")).expect("the store is one line");
    let path = store.trim_start_matches("store:").trim().trim_matches(['{', '}']);
    let postgres = format!("urlFile: ./address, schema: {}, sslMode: disable", schema());
    let shared = text.replace(store, &format!("store: {{{path}, postgres: {{{postgres}}}}}"));
    fs::write(scratch.path(SHARED), shared).unwrap();
    scratch
}

#[test]
fn a_store_moves_there_and_back() {
    let scratch = fleet();
    let get = |config: &str| scratch.run(&["get", "works", "-c", config, "-o", "json"]).json(0);
    let events = |config: &str| scratch.run(&["events", "-c", config, "-o", "json"]).text(0).to_owned();
    let (works, journal) = (get(CONFIG), events(CONFIG));
    let moved = scratch.run(&["store", "migrate", "--from", CONFIG, "-c", SHARED]);
    assert!(moved.text(0).contains("records and"), "{}", moved.out);
    assert_eq!((get(SHARED), events(SHARED)), (works.clone(), journal.clone()));
    // Nobody continues with the earlier one.
    assert_ne!(get(CONFIG), works);
    let again = scratch.run(&["store", "migrate", "--from", CONFIG, "-c", SHARED]);
    assert!(again.code == 2 && again.err.contains("is empty: there is nothing to move"), "{}", again.err);
    scratch.run(&["store", "migrate", "--from", SHARED, "-c", CONFIG]).text(0);
    assert_eq!((get(CONFIG), events(CONFIG)), (works, journal));
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
}

#[test]
fn commands_work_without_a_daemon() {
    let scratch = fleet();
    scratch.run(&["store", "migrate", "--from", CONFIG, "-c", SHARED]).text(0);
    assert!(scratch.run(&["status", "-c", SHARED]).text(0).contains("web"));
    assert!(scratch.run(&["explain", "web", "-c", SHARED]).text(0).contains("east"));
    scratch.run(&["pause", "web", "--reason", "incident", "-c", SHARED]).text(0);
    assert!(scratch.run(&["events", "-c", SHARED]).text(0).contains("incident"));
    assert!(scratch.run(&["check", "-c", SHARED]).out.contains("PostgreSQL, schema"));
}

#[test]
fn a_backup_is_restored() {
    let scratch = fleet();
    scratch.run(&["store", "migrate", "--from", CONFIG, "-c", SHARED]).text(0);
    let get = || scratch.run(&["get", "placements", "-c", SHARED, "-o", "json"]).json(0);
    let before = get();
    scratch.run(&["store", "backup", "saved", "-c", SHARED]).text(0);
    let refused = scratch.run(&["store", "restore", "saved", "-c", SHARED]);
    assert!(refused.code == 2 && refused.err.contains("is not empty"), "{}", refused.err);
    scratch.run(&["store", "restore", "saved", "--force", "-c", SHARED]).text(0);
    assert_eq!(get()["items"].as_array().map(Vec::len), before["items"].as_array().map(Vec::len));
}

#[test]
fn a_database_that_does_not_answer_is_said() {
    let scratch = fleet();
    fs::write(scratch.path("address"), "postgresql://gitfleet:hidden-word@127.0.0.1:1/gitfleet").unwrap();
    let failed = scratch.run(&["status", "-c", SHARED]);
    assert!(failed.code == 2 && failed.err.contains("127.0.0.1:1/gitfleet"), "{}: {}", failed.code, failed.err);
    assert!(!failed.err.contains("hidden-word"), "{}", failed.err);
}
