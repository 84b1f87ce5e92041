//! Checks of stages: refused with the commit, shown by `plan`, assumed by `simulate`, asked by `run`.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;

use serde_json::json;

use crate::cli::scratch::{CONFIG, Scratch, cluster, namespace};
use crate::cli::staged::{AUTOMATIC, ONCE, placement, told, value};

const CHECKS: &str = "canary: {healthyFor: 10m, metrics: [{name: error-rate, query: 'sum(errors)', max: 0.01}]}";

fn strategy(checks: &str) -> String {
    format!(
        "---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\nmetadata:\n  name: steps\n  \
         annotations:\n    gitfleet.io/stage-checks: |\n      {checks}\nspec:\n  stages:\n    - {{name: canary, labelSelector: \
         {{matchLabels: {{region: canary}}}}}}\n    - {{name: rest, labelSelector: {{matchLabels: {{region: rest}}}}}}\n"
    )
}

fn fleet(checks: &str) -> Scratch {
    let scratch = Scratch::new();
    scratch.configure();
    scratch.write("clusters.yaml", &[cluster("c", "canary"), cluster("r", "rest")].concat());
    scratch.write("web.yaml", &namespace("web", &[("a", "1")]));
    scratch.write("placement.yaml", &placement(AUTOMATIC));
    scratch.write("strategy.yaml", &strategy(checks));
    scratch.commit("first");
    scratch
}

#[test]
fn what_is_wrong_refuses_the_commit_with_file_and_line() {
    let scratch = fleet("canery: {healthyFor: 10m}");
    let found = scratch.run(&["validate", "fleet"]);
    let said = format!("{}{}", found.out, found.err);
    assert_eq!(found.code, 1, "{said}");
    for wanted in
        ["strategy.yaml:7", "gitfleet.io/stage-checks", "canery: the strategy has no stage of this name", "canary"]
    {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
}

#[test]
fn a_plan_has_them() {
    let scratch = fleet(CHECKS);
    let plan = scratch.run(&["plan", "--repo", "fleet", "-o", "json"]).json(0);
    let stages = &plan["placements"][0]["rollout"]["stages"];
    let metric = json!({"name": "error-rate", "query": "sum(errors)", "max": 0.01});
    assert_eq!(stages[0]["checks"], json!({"healthyFor": "10m", "metrics": [metric]}));
    assert_eq!(stages[1].get("checks"), None);
}

#[test]
fn a_simulation_lets_time_pass_and_takes_answers_as_given() {
    let scratch = fleet(CHECKS);
    let text = scratch.run(&["simulate", "--repo", "fleet"]);
    for wanted in [
        "waits until its clusters are available for 10m and for error-rate to be at most 0.01 (taken as given) before the next stage",
        "canary  its checks hold",
        "canary checked for 10m",
    ] {
        assert!(text.text(0).contains(wanted), "{wanted}: {}", text.out);
    }
    let simulated = scratch.run(&["simulate", "--repo", "fleet", "-o", "json"]).json(0);
    let gate = &simulated["placements"][0]["runs"][0]["stages"][0]["gates"][0];
    assert_eq!(
        (&gate["type"], &gate["waited"], &gate["assumed"]),
        (&json!("Checks"), &json!(600), &json!(["error-rate"]))
    );
}

/// Answers every query with a number; returns the address.
fn server(number: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut length = 0;
            for line in reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()) {
                let line = line.to_lowercase();
                length = line.strip_prefix("content-length:").map_or(length, |length| length.trim().parse().unwrap());
            }
            reader.read_exact(&mut vec![0; length]).unwrap();
            let body = format!(r#"{{"status":"success","data":{{"resultType":"scalar","result":[1,"{number}"]}}}}"#);
            write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
                .unwrap();
        }
    });
    address
}

fn with_server(scratch: &Scratch, url: &str) {
    let text = fs::read_to_string(scratch.path(CONFIG)).unwrap();
    fs::write(scratch.path(CONFIG), format!("{text}prometheus: [{{name: main, url: '{url}'}}]\n")).unwrap();
}

#[test]
fn a_pass_waits_for_answers() {
    let checks = "canary: {metrics: [{name: error-rate, query: 'sum(errors)', max: 0.01}]}";
    let good = fleet(checks);
    with_server(&good, &server("0.001"));
    good.run(&ONCE).text(0);
    assert_eq!((value(&good, "c").as_str(), value(&good, "r").as_str()), ("1", "1"));

    let bad = fleet(checks);
    with_server(&bad, &server("0.5"));
    let found = bad.run(&ONCE);
    assert_eq!((found.code, value(&bad, "r").as_str()), (1, ""), "{}", found.err);
    assert!(found.err.contains("the check error-rate answers 0.5, allowed: at most 0.01"), "{}", found.err);
    let described = told(&bad, &["get", "runs", "web-0", "-o", "json"]).json(0);
    assert!(described["status"].to_string().contains("the check error-rate answers 0.5"), "{described}");
    told(&bad, &["retry", "web-0"]).text(0);

    let none = fleet(checks);
    let found = none.run(&[&ONCE[..], &["--timeout", "1s"]].concat());
    assert_eq!(found.code, 1, "{}", found.err);
    let status = told(&none, &["status", "web", "--exit-code"]);
    assert!(
        status.text(1).contains("check error-rate, at most 0.01: no answer: the configuration has no server"),
        "{}",
        status.out
    );
    let run = told(&none, &["get", "runs", "web-0", "-o", "json"]).json(0);
    assert_eq!(run["metadata"]["name"], "web-0");
}
