//! What a daemon logs: sentences for people, and fields for machines.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::cli::scratch::{CONFIG, Scratch, cluster, namespace, placement};

/// Delivers four objects to one cluster, then takes one away. Returns what the second pass logs, and the commit.
fn pruned(format: &str) -> (String, String) {
    let scratch = Scratch::new();
    scratch.configure();
    let maps = [("a", "1"), ("b", "1"), ("c", "1"), ("d", "1")];
    scratch.write("clusters.yaml", &cluster("east", "eu")).write("p.yaml", &placement("web", "web", ""));
    scratch.write("web.yaml", &namespace("web", &maps)).commit("first");
    let pass = ["run", "-c", CONFIG, "--once", "--log-format", format];
    scratch.run(&pass).text(0);
    scratch.write("web.yaml", &namespace("web", &maps[..3]));
    let commit = scratch.commit("second");
    let found = scratch.run(&pass);
    found.text(0);
    (found.err, commit[..7].to_owned())
}

#[test]
fn text_names_placement_cluster_and_commit() {
    let (text, commit) = pruned("text");
    for ending in [
        format!(" web  east: pruned object=ConfigMap web/d ({commit})"),
        format!(" web  rolled out: snapshot 1 is available on its cluster ({commit})"),
        format!(" web  rolling out: snapshot 1 to 1 cluster (east) ({commit})"),
    ] {
        assert!(text.lines().any(|line| line.ends_with(&ending)), "{ending}: {text}");
    }
    assert!(
        !text.contains("rolling out to cluster"),
        "a line for each cluster is for those who look for errors: {text}"
    );
    let accepted = text.lines().find(|line| line.contains("commit accepted")).expect("it is said");
    assert!(accepted.ends_with(&format!("({commit})")), "{accepted}");
}

#[test]
fn json_lists_the_spans() {
    let (text, commit) = pruned("json");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let found = |message: &str| lines.iter().find(|line| line["message"] == message).expect("it is said");
    let (member, step) = (&found("pruned")["spans"][0], &found("pruned")["spans"][1]);
    assert_eq!((&member["name"], &member["cluster"]), (&"member".into(), &"east".into()));
    assert_eq!((&step["placement"], &step["commit"]), (&"web".into(), &commit.as_str().into()));
    let decision = &found("rolling out")["spans"][0];
    assert_eq!((&decision["placement"], &decision["commit"]), (&"web".into(), &commit.as_str().into()));
    assert_eq!(found("commit accepted")["spans"][0]["commit"], commit);
}

#[test]
fn json_names_each_object_that_is_written_at_debug() {
    let scratch = Scratch::with_web_on(&["east"]);
    let found = scratch.run(&["run", "-c", CONFIG, "--once", "--log-format", "json", "--log", "gitfleet=debug"]);
    found.text(0);
    let lines = found.err.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let written: Vec<Value> = lines.filter(|line| line["message"] == "object written").collect();
    let names = |line: &Value| {
        let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}/{}", text("action"), text("kind"), text("namespace"), text("name"))
    };
    for object in ["created Namespace /web", "created ConfigMap web/a"] {
        assert!(written.iter().any(|line| names(line) == object), "{object}: {}", found.err);
    }
    for line in &written {
        assert_eq!(line["spans"][0]["cluster"], "east", "{line}");
        assert_eq!((&line["spans"][1]["placement"], &line["snapshot"]), (&"web".into(), &0.into()), "{line}");
        assert_eq!(line["commit"].as_str().map(str::len), Some(40), "{line}");
    }
}

#[test]
fn a_line_has_each_key_once() {
    let scratch = Scratch::with_web();
    let mut command = scratch.command(&["run", "-c", CONFIG, "--log-format", "json"]);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("the daemon starts");
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines().map_while(Result::ok);
    let listening = lines.find(|line| line.contains("\"message\":\"listening\"")).expect("it listens");
    let listening: Value = serde_json::from_str(&listening).expect("JSON");
    let server = format!("http://{}", listening["address"].as_str().expect("an address"));
    assert!(lines.any(|line| line.contains("\"message\":\"rolled out\"")), "web is there");
    scratch.run(&["pause", "web", "-c", CONFIG, "--server", &server]).text(0);
    let line = lines.find(|line| line.contains("\"verb\":\"pause\"")).expect("it is logged");
    drop(child.kill());
    drop(child.wait());
    assert_eq!(line.matches("\"target\":").count(), 1, "{line}");
    assert!(line.contains("\"of\":\"web\""), "{line}");
}

#[test]
fn what_was_rolled_out_is_said_once() {
    let scratch = Scratch::with_web();
    let pass = ["run", "-c", CONFIG, "--once"];
    let first = scratch.run(&pass);
    first.text(0);
    assert_eq!(first.err.matches("rolled out: snapshot 0 is available").count(), 1, "{}", first.err);
    let again = scratch.run(&pass);
    again.text(0);
    assert_eq!(again.err.matches("rolled out").count(), 0, "{}", again.err);
}
