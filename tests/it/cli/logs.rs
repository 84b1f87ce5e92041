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
        format!(" web  rolling out to 1 cluster (east): snapshot 1 ({commit})"),
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
    let decision = &found("rolling out to 1 cluster (east): snapshot 1")["spans"][0];
    assert_eq!((&decision["placement"], &decision["commit"]), (&"web".into(), &commit.as_str().into()));
    assert_eq!(found("commit accepted")["spans"][0]["commit"], commit);
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
    assert!(lines.any(|line| line.contains("\"rolled out: snapshot 0 ")), "web is there");
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
