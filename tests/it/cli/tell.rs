//! Commands of people: usage, tokens, refusals, and what happened as the journal tells it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::cli::daemon::Daemon;
use crate::cli::scratch::{CONFIG, Scratch, cluster, namespace, placement};

#[test]
fn wrong_usage_is_64() {
    let scratch = Scratch::new();
    let rows: &[&[&str]] = &[
        &["approve"],
        &["approve", "web-3", "canary", "more"],
        &["approve", "web-3", "canary", "--digest", "not-hex"],
        &["approve", "web-3", "--digest", ""],
        &["reject"],
        &["pause"],
        &["resume", "web", "api"],
        &["rollback"],
        &["rollback", "web", "--to", "last"],
        &["rollback", "web", "--to", "-1"],
        &["retry"],
        &["retry", "web", "-o", "yaml"],
        &["describe", "placement"],
        &["describe", "unicorn", "web"],
        &["export", "journal", "web", "api"],
    ];
    for args in rows {
        let found = scratch.run(args);
        assert_eq!((found.code, found.out.as_str()), (64, ""), "{args:?}: {}", found.err);
    }
}

#[test]
fn every_command_says_how_it_ends() {
    let scratch = Scratch::new();
    for verb in ["approve", "reject", "pause", "resume", "rollback", "retry"] {
        let found = scratch.run(&[verb, "--help"]);
        assert!(found.text(0).contains("1 refused: nothing has changed"), "{verb}: {}", found.out);
    }
}

#[test]
fn a_store_that_is_not_there_is_not_made() {
    let scratch = Scratch::with_web_on(&["east"]);
    let found = scratch.run(&["pause", "web", "-c", CONFIG]);
    assert_eq!(found.code, 2, "{}", found.err);
    assert!(found.err.contains("there is no store"), "{}", found.err);
    assert!(!scratch.path("store").exists());
}

#[test]
fn a_refusal_is_1_and_changes_nothing() {
    let scratch = Scratch::with_web_on(&["east"]);
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
    let records =
        || scratch.run(&["get", "placements", "-c", CONFIG, "-o", "json"]).json(0)["items"][0]["spec"].clone();
    let before = records();
    let found = scratch.run(&["approve", "nobody", "canary", "-c", CONFIG, "-o", "json"]);
    assert_eq!((found.code, found.out.as_str()), (1, ""), "{}", found.err);
    assert!(found.err.starts_with("refused: "), "{}", found.err);
    assert_eq!(records(), before);
}

#[test]
fn the_daemon_knows_people_by_their_token() {
    let scratch = Scratch::with_web_on(&["east"]);
    let daemon = Daemon::start(&scratch);
    let left = scratch.path("store/token");
    assert_eq!(fs::metadata(&left).expect("the daemon left a token").permissions().mode() & 0o777, 0o600);
    let command = json!({"verb": "approve", "target": "nobody", "stage": "canary"});
    assert_eq!(post(&daemon.address, None, &command).0, 401);
    let (status, answer) = post(&daemon.address, Some(crate::cli::daemon::TOKEN), &command);
    assert_eq!((status, &answer["reason"]), (403, &json!("TokenUnknown")), "who reads decisions commands nothing");
    // Refused for what it asks, not for who asks.
    let tell =
        |more: &[&str]| scratch.run(&[&["approve", "nobody", "canary", "--server", &daemon.address], more].concat());
    let token = left.display().to_string();
    assert_eq!(tell(&["-c", CONFIG]).code, 1);
    assert_eq!(tell(&["--token-file", &token]).code, 1);
    for (more, words) in [(&[][..], "--token-file"), (&["--token-file", "token"], "token is not known")] {
        let found = tell(more);
        assert_eq!(found.code, 2, "{more:?}: {}", found.err);
        assert!(found.err.contains(words), "{more:?}: {}", found.err);
    }
}

#[test]
fn what_happened_is_told() {
    let scratch = Scratch::with_web_on(&["east"]);
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
    let journal = |more: &[&str]| -> Vec<Value> {
        let found = scratch.run(&[&["export", "journal", "-c", CONFIG], more].concat());
        found.text(0).lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
    };
    let all = journal(&[]);
    assert!(all.iter().any(|entry| entry["event"] == "SnapshotCreated" && entry["placement"] == "web"), "{all:?}");
    assert_eq!(journal(&["nobody"]), Vec::<Value>::new());
    let found = scratch.run(&["describe", "crp", "web", "-c", CONFIG]);
    for words in
        ["Kind:         ClusterResourcePlacement", "  Observed Resource Index:  0", "Events:", "SnapshotCreated"]
    {
        assert!(found.text(0).contains(words), "{words}: {}", found.out);
    }
    let missing = scratch.run(&["describe", "run", "web-3", "-c", CONFIG]);
    assert_eq!(missing.code, 2);
    assert!(missing.err.contains("there is no web-3 among the runs"), "{}", missing.err);
}

fn post(address: &str, token: Option<&str>, command: &Value) -> (u16, Value) {
    let body = command.to_string();
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let mut stream = TcpStream::connect(address).expect("the daemon listens");
    let length = body.len();
    write!(stream, "POST /api/v1/commands HTTP/1.0\r\n{token}Content-Length: {length}\r\n\r\n{body}")
        .expect("a question");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let body = answer.split_once("\r\n\r\n").expect("a body").1;
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

#[test]
fn ux1a_15_a_rollback_from_rest_goes_to_the_snapshot_before() {
    let scratch = Scratch::new();
    scratch.configure();
    scratch.write("clusters.yaml", &[cluster("east", "e"), cluster("west", "w")].concat());
    scratch.write("placement.yaml", &placement("web", "web", ""));
    let mut commits = Vec::new();
    for value in ["1", "2", "3"] {
        scratch.write("web.yaml", &namespace("web", &[("m", value)]));
        commits.push(scratch.commit(value));
        scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
    }
    let held = || {
        let files = scratch.member("east").into_iter().filter(|name| name.contains(".m."));
        let read = |name: String| std::fs::read_to_string(scratch.path("members/east").join(name)).expect("a file");
        files.map(read).collect::<String>()
    };
    assert!(held().contains("key: '3'") || held().contains("key: \"3\""), "{}", held());
    let to = format!("rolling back web to snapshot 1 ({})", &commits[1][..7]);
    let dry = scratch.run(&["rollback", "web", "--dry-run", "-c", CONFIG]);
    assert_eq!(dry.text(0), format!("{to}; 2 clusters (east, west)\n"));
    assert_eq!(scratch.run(&["run", "-c", CONFIG, "--once"]).code, 0, "nothing has changed");
    assert_eq!(scratch.run(&["rollback", "web", "-c", CONFIG]).text(0), format!("{to}\n"));
    scratch.run(&["run", "-c", CONFIG, "--once"]);
    assert!(held().contains("key: '2'") || held().contains("key: \"2\""), "{}", held());
    let named = scratch.run(&["rollback", "web", "--to", "0", "--dry-run", "-c", CONFIG]);
    assert!(named.text(0).starts_with("rolling back web to snapshot 0 "), "{}", named.out);
}
