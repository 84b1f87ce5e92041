//! A history that was rewritten while daemons with mirrors of their own share a database.

use std::fs;
use std::process::Command;

use crate::failures::{approve_until_applied, lines, staged_fleet};
use crate::fleet::{free_port, http};
use crate::replicas::{Setup, TOKEN, World, files_with, git, wait};
use crate::server;

/// The record with the commits that only the first leader's mirror would have.
const DROPPED: &str = "commits/dropped";

/// Runs a command against a daemon.
fn tell(world: &World, port: u16, words: &[&str]) {
    let mut told = Command::new(env!("CARGO_BIN_EXE_gitfleet"));
    told.args(words).args(["--server", &format!("127.0.0.1:{port}"), "--token-file", "token"]);
    let output = told.current_dir(&world.folder).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn another_leader_delivers_and_rolls_back_to_a_commit_that_the_branch_dropped() {
    let mut world = World::prepare(Setup { fleet: staged_fleet(), is_mirrored: true, ..Setup::default() });
    let first = world.run_at("a", free_port().unwrap());
    let port = first.port;
    world.replicas.push(first);
    world.leader(0);
    approve_until_applied(&world.folder, &[port], 0, "blue");
    world.commit("green");
    let gate = "CASE event WHEN 'ApprovalRequested' THEN entry->'facts'->>'run' END";
    wait("the gate of green", || lines(&world.schema, gate).contains(&"web-1".to_owned()).then_some(()));
    assert_eq!(files_with(world.folder.join("members/c3"), "color: green"), 0);

    let repository = world.folder.join("fleet");
    git(&repository, &["reset", "-q", "--hard", "HEAD~1"]);
    world.commit("red");
    for words in [&["reflog", "expire", "--expire=now", "--all"][..], &["gc", "-q", "--prune=now"]] {
        git(&repository, words);
    }
    let held = "CASE event WHEN 'CommitHeld' THEN 'held' END";
    wait("the rewritten history to be held", || lines(&world.schema, held).pop());
    let size = format!("SELECT octet_length(value) FROM {}.record WHERE key = '{DROPPED}'", world.schema);
    let bytes: usize = server::sql(&size).expect("it is in the database").parse().unwrap();
    assert!(bytes < 2_000, "what the branch has is not repeated: {bytes}");

    // It comes when the repository has the commit no more.
    let second = world.run_at("b", free_port().unwrap());
    let port = second.port;
    wait("the second to follow", || second.says("follows").then_some(()));
    world.replicas.push(second);
    drop(world.replicas.remove(0));
    fs::remove_dir_all(world.folder.join("store-a")).unwrap();
    world.leader(1);
    approve_until_applied(&world.folder, &[port], 1, "green");
    let headers = [("authorization", &*format!("Bearer {TOKEN}"))];
    let (status, records) = http("GET", port, "/api/v1/records", &headers, "").unwrap();
    assert!(status == 200 && !records.contains(DROPPED), "files of the repository are not for readers of records");

    tell(&world, port, &["resume"]);
    let first_member = |color: &str| files_with(world.folder.join("members/c1"), &format!("color: {color}")) > 0;
    wait("red on the first cluster", || first_member("red").then_some(()));
    tell(&world, port, &["rollback", "web-2"]);
    wait("green again on the first cluster", || first_member("green").then_some(()));
}
