//! `gitfleet export decisions` after a run, and what the plugin generator of Argo CD is answered.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::scratch::{CONFIG, Scratch, annotated_placement, cluster, namespace, placement};

const TOKEN: &str = "0123456789abcdef";

fn fleet() -> Scratch {
    let scratch = Scratch::new();
    scratch.configure();
    scratch.write("clusters.yaml", &[cluster("east", "e"), cluster("west", "w")].concat());
    scratch.write("web.yaml", &namespace("web", &[("a", "1")]));
    scratch.write("placement.yaml", &placement("web", "web", ""));
    scratch.commit("first");
    scratch
}

fn once(scratch: &Scratch) {
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
}

fn export(scratch: &Scratch, more: &[&str]) -> crate::scratch::Outcome {
    scratch.run(&[&["export", "decisions", "-c", CONFIG], more].concat())
}

#[test]
fn decisions_are_exported_in_every_form() {
    let scratch = fleet();
    once(&scratch);
    let found = export(&scratch, &["-o", "json"]).json(0);
    let placements = found["placements"].as_array().expect("a list");
    assert_eq!(placements.len(), 1, "{found}");
    assert_eq!(placements[0]["kind"], "ClusterResourcePlacement");
    assert_eq!(placements[0]["placementLabel"], "web");
    let clusters: Vec<&Value> =
        placements[0]["decisions"].as_array().expect("a list").iter().map(|d| &d["clusterName"]).collect();
    assert_eq!(clusters, ["east", "west"]);
    assert_eq!(placements[0]["decisions"][0]["decisionGroup"], json!({"index": 0, "name": ""}));
    assert_eq!(export(&scratch, &["-o", "name", "web"]).text(0), "east\nwest\n");
    assert!(export(&scratch, &["-o", "yaml"]).text(0).contains("clusterName: east"));
    let table = export(&scratch, &[]);
    assert!(table.text(0).starts_with("PLACEMENT   KIND "), "{}", table.out);
    assert!(!table.out.contains("REASON"));
    let missing = export(&scratch, &["wbe"]);
    assert_eq!(missing.code, 2);
    assert!(missing.err.contains("no placement wbe has been decided"), "{}", missing.err);
}

#[test]
fn rolled_out_lists_what_the_rollout_has_reached() {
    let scratch = fleet();
    let annotations = "{gitfleet.io/decisions: rolled-out}";
    scratch.write("placement.yaml", &annotated_placement("web", annotations, "web", ""));
    // Nobody writes there: it is picked and not reached.
    fs::create_dir_all(scratch.path("members")).expect("a folder");
    fs::write(scratch.path("members/west"), "a file where a folder should be").expect("a file");
    scratch.commit("second");
    let found = scratch.run(&["run", "-c", CONFIG, "--once", "--timeout", "5s"]);
    assert_eq!(found.code, 1, "{}", found.err);
    assert_eq!(export(&scratch, &["-o", "name"]).text(0), "east\n");
}

#[test]
fn a_placement_that_was_removed_is_known_to_have_no_cluster() {
    let scratch = fleet();
    scratch.write("placement.yaml", &annotated_placement("web", "{gitfleet.io/deletion-guard: 'Off'}", "web", ""));
    scratch.commit("without a guard");
    once(&scratch);
    scratch.remove("placement.yaml");
    scratch.commit("removed");
    once(&scratch);
    assert_eq!(export(&scratch, &["-o", "json"]).json(0), json!({"placements": []}));
    let daemon = Daemon::start(&scratch);
    let (status, answer) = daemon.ask(Some(TOKEN), &json!({"input": {"parameters": {"placement": "web"}}}));
    assert_eq!((status, answer), (200, json!({"output": {"parameters": []}})));
}

#[test]
fn the_plugin_generator_is_answered_by_token_only() {
    let scratch = fleet();
    once(&scratch);
    let daemon = Daemon::start(&scratch);
    let question = json!({"applicationSetName": "web", "input": {"parameters": {"placement": "web"}}});
    let (status, answer) = daemon.ask(Some(TOKEN), &question);
    assert_eq!(status, 200, "{answer}");
    let sets = answer["output"]["parameters"].as_array().expect("a list");
    let names: Vec<&Value> = sets.iter().map(|set| &set["clusterName"]).collect();
    assert_eq!(names, ["east", "west"]);
    assert!(sets.iter().all(|set| set.as_object().expect("an object").values().all(Value::is_string)), "{answer}");
    for (token, question, expected, words) in [
        (None, question.clone(), 401, "a bearer token is needed"),
        (Some("0123456789abcdeX"), question, 403, "not known"),
        (Some(TOKEN), json!({"input": {"parameters": {"placement": "wbe"}}}), 404, "no placement wbe"),
        (Some(TOKEN), json!({"input": {}}), 400, "placement is missing"),
        (Some(TOKEN), json!([]), 400, "not the generator's"),
    ] {
        let (status, answer) = daemon.ask(token, &question);
        assert_eq!(status, expected, "{answer}");
        assert!(answer["message"].as_str().expect("words").contains(words), "{answer}");
    }
}

/// A daemon with a token for the plugin generator, ended when dropped.
struct Daemon {
    child: Child,
    address: String,
}

impl Daemon {
    fn start(scratch: &Scratch) -> Self {
        fs::write(scratch.path("token"), format!("{TOKEN}\n")).expect("a file");
        let text = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
        fs::write(scratch.path(CONFIG), text + "decisions: {tokenFile: ./token}\n").expect("a file");
        let mut command = scratch.command(&["run", "-c", CONFIG, "--log-format", "json"]);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the daemon starts");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let line: Value = serde_json::from_str(&line).ok()?;
            (line["message"] == "listening").then(|| line["address"].as_str().map(str::to_owned))?
        });
        // What it logs later is read so that it is never kept waiting; the thread ends with the daemon.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address: address.expect("the daemon says where it listens") }
    }

    fn ask(&self, token: Option<&str>, question: &Value) -> (u16, Value) {
        let body = question.to_string();
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let mut stream = TcpStream::connect(&self.address).expect("the daemon listens");
        write!(
            stream,
            "POST /api/v1/getparams.execute HTTP/1.0\r\nContent-Type: application/json\r\n{token}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("a question");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        (status, serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}")))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
