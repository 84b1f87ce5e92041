//! The views of a running daemon, and that what the command line prints is the same with a daemon and without.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use crate::cli::edges::{Daemon, RUN, until};
use crate::cli::scratch::{CONFIG, Scratch, cluster, namespace, placement};

fn fleet() -> Scratch {
    let scratch = Scratch::new();
    scratch.configure();
    scratch.write("clusters.yaml", &["east", "north", "west"].map(|name| cluster(name, "e")).concat());
    scratch.write("web.yaml", &namespace("web", &[("a", "1")]));
    scratch.write("api.yaml", &namespace("api", &[("a", "1")]));
    scratch
        .write("placements.yaml", &[placement("web", "web", ""), "---\n".into(), placement("api", "api", "")].concat());
    scratch.commit("first");
    scratch
}

fn get(daemon: &Daemon, path: &str) -> (u16, Value) {
    let (status, body) = daemon.get(path, "Host: localhost\r\n").expect("an answer");
    (status, serde_json::from_str(&body).unwrap_or_else(|_| body.into()))
}

fn is_rolled_out(daemon: &Daemon) -> bool {
    let (status, summary) = get(daemon, "/api/v1/summary");
    status == 200 && summary["states"]["AtTarget"] == 2 && summary["standing"] == serde_json::json!(["AtTarget"])
}

#[test]
fn the_views_of_a_daemon() {
    let scratch = fleet();
    let daemon = Daemon::start(scratch.command(&RUN));
    until("everything is rolled out", || is_rolled_out(&daemon));
    let rows = [
        ("/api/v1/placements", 2),
        ("/api/v1/placements?state=AtTarget&sort=age&limit=1", 1),
        ("/api/v1/clusters", 3),
        ("/api/v1/clusters?online=false", 0),
        ("/api/v1/bindings?placement=web", 3),
        ("/api/v1/works", 6),
        ("/api/v1/works?placement=web&cluster=east", 1),
    ];
    for (path, expected) in rows {
        let (status, page) = get(&daemon, path);
        assert_eq!((status, page["items"].as_array().map(Vec::len)), (200, Some(expected)), "{path}: {page}");
    }
    let (_, detail) = get(&daemon, "/api/v1/placements/web");
    assert_eq!(detail["clusters"], serde_json::json!({"upToDate": 3}), "{detail}");
    assert_eq!(detail["unhealthy"], serde_json::json!([]));
    assert_eq!(detail["object"]["metadata"]["name"], "web");
    assert_eq!(get(&daemon, "/api/v1/placements/shop/web"), (404, "there is no placement shop/web".into()));
    let (_, all) = get(&daemon, "/api/v1/events");
    let all = all["items"].as_array().expect("items").clone();
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let (_, page) = get(&daemon, &format!("/api/v1/events?limit=1&after={after}"));
        found.extend(page["items"].as_array().expect("items").iter().cloned());
        match page["continue"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(found, all);
    let (_, of_web) = get(&daemon, "/api/v1/events?placement=web");
    let of_web = of_web["items"].as_array().expect("items");
    assert!(!of_web.is_empty() && of_web.iter().all(|event| event["placement"] == "web"), "{of_web:?}");
}

#[test]
fn a_stream_says_what_a_commit_changes() {
    let scratch = fleet();
    let daemon = Daemon::start(scratch.command(&RUN));
    until("everything is rolled out", || is_rolled_out(&daemon));
    let mut stream = TcpStream::connect(&daemon.address).expect("it listens");
    write!(stream, "GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("a question");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.by_ref().find(|line| line.starts_with("event: summary")).expect("everything comes first");
    scratch.write("web.yaml", &namespace("web", &[("a", "2")]));
    scratch.commit("second");
    let data = lines.filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    let mut of_web = data.filter(|data| data["metadata"]["name"] == "web");
    let is_there = |data: &Value| data["rollout"]["snapshot"] == 1 && data["rollout"]["state"] == "AtTarget";
    assert!(of_web.any(|data| is_there(&data)), "the stream ended");
}

#[test]
fn what_is_printed_is_the_same_with_a_daemon_and_without() {
    let scratch = fleet();
    let commands: [&[&str]; 20] = [
        &["status"],
        &["status", "--all"],
        &["status", "web", "--exit-code"],
        &["status", "-o", "json"],
        &["status", "wbe"],
        &["get", "placements"],
        &["get", "crp", "web", "-o", "wide"],
        &["get", "placements", "-o", "name"],
        &["get", "bindings", "-o", "name"],
        &["get", "works"],
        &["get", "works", "web-work"],
        &["get", "works", "fleet-member-east/web-work", "-o", "json"],
        &["get", "clusters", "-o", "name"],
        &["get", "snapshots", "--kubefleet"],
        &["get", "placements,clusters", "-o", "wide"],
        &["get", "bindings"],
        &["get", "approvals"],
        &["get", "evictions"],
        &["get", "unicorns"],
        &["get", "works", "nothing"],
    ];
    let daemon = Daemon::start(scratch.command(&RUN));
    until("everything is rolled out", || is_rolled_out(&daemon));
    let all = |more: &[&str]| -> Vec<(i32, String, String)> {
        let outcomes = commands.iter().map(|words| scratch.run(&[words, more].concat()));
        outcomes.map(|outcome| (outcome.code, without_ages(&outcome.out), outcome.err)).collect()
    };
    let with = all(&["--server", &daemon.address]);
    drop(daemon);
    let without = all(&["-c", CONFIG]);
    for ((words, with), without) in commands.iter().zip(with).zip(without) {
        assert_eq!(with, without, "{words:?}");
    }
}

/// Returns a text without the seconds in it: they pass between two commands.
fn without_ages(text: &str) -> String {
    let is_age = |word: &str| {
        let word = word.trim_end_matches(['s', 'm', 'h', ',', ')', '"']);
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
    };
    let line = |line: &str| {
        line.split_whitespace().map(|word| if is_age(word) { "N" } else { word }).collect::<Vec<_>>().join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}
