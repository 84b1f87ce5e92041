//! A history that was rewritten while daemons with mirrors of their own share a database.

use std::fs;
use std::process::Command;

use testservers::program;

use crate::postgres::failures::{approve_until_applied, lines, staged_fleet};
use crate::postgres::fleet::{free_port, http};
use crate::postgres::replicas::{Setup, TOKEN, World, files_with, git, wait};
use crate::postgres::server;

/// The record with the commits that only the first leader's mirror would have.
const DROPPED: &str = "commits/dropped";

/// Runs a command against a daemon.
fn tell(world: &World, port: u16, words: &[&str]) {
    let mut told = Command::new(program());
    told.args(words).args(["--server", &format!("127.0.0.1:{port}"), "--token-file", "token"]);
    let output = told.current_dir(&world.folder).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Returns a checksum of the record with dropped commits; `None` where a schema has none.
fn dropped(schema: &str) -> Option<String> {
    server::sql(&format!("SELECT md5(value) FROM {schema}.record WHERE key = '{DROPPED}'"))
}

/// Starts a daemon whose rollout of green waits at its gate while the history is rewritten: nobody but the daemon has green's commit.
fn rewritten_under_a_gate() -> World {
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
    world
}

/// Ends the first daemon and removes its folder, with the only mirror that has green's commit.
fn lose_the_mirror(world: &mut World) {
    drop(world.replicas.remove(0));
    fs::remove_dir_all(world.folder.join("store-a")).unwrap();
}

#[test]
fn another_leader_delivers_and_rolls_back_to_a_commit_that_the_branch_dropped() {
    let mut world = rewritten_under_a_gate();
    // It comes when the repository has the commit no more.
    let second = world.run_at("b", free_port().unwrap());
    let port = second.port;
    wait("the second to follow", || second.says("follows").then_some(()));
    world.replicas.push(second);
    lose_the_mirror(&mut world);
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

#[test]
fn dropped_commits_go_with_their_store_into_a_backup_and_to_other_stores() {
    let mut world = rewritten_under_a_gate();
    lose_the_mirror(&mut world);
    let folder = world.folder.clone();
    let told = |words: &[&str]| Command::new(program()).args(words).current_dir(&folder).output().unwrap();
    let offline = |words: &[&str]| {
        let output = told(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let record = dropped(&world.schema).expect("the first daemon stored it");
    // Until its lease is over the daemon that was killed counts as the one to ask.
    let backup = ["store", "backup", "saved", "-c", "a.yaml"];
    wait("the lease to end", || told(&backup).status.success().then_some(()));

    world.schema = server::schema();
    let (restored, restored_schema) = (world.configure("b", free_port().unwrap()), world.schema.clone());
    offline(&["store", "restore", "saved", "-c", "b.yaml"]);
    assert_eq!(dropped(&restored_schema).as_ref(), Some(&record), "a backup has it");

    // To a store of one daemon, and on to another database.
    let text = fs::read_to_string(restored).unwrap();
    let postgres = text.lines().find(|line| line.trim_start().starts_with("postgres:")).unwrap();
    let alone = text.replace(&format!("{postgres}\n"), "").replace("store-b", "store-alone");
    fs::write(world.folder.join("alone.yaml"), alone).unwrap();
    offline(&["store", "migrate", "--from", "b.yaml", "-c", "alone.yaml"]);
    assert_eq!(dropped(&restored_schema), None, "it has moved");
    world.schema = server::schema();
    let port = free_port().unwrap();
    world.configure("c", port);
    offline(&["store", "migrate", "--from", "alone.yaml", "-c", "c.yaml"]);
    assert_eq!(dropped(&world.schema), Some(record), "it came back as it was");

    let last = world.run_at("c", port);
    world.replicas.push(last);
    world.leader(0);
    approve_until_applied(&world.folder, &[port], 1, "green");
}
