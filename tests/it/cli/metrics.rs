//! The metrics of a running daemon: what a rollout with a gate leaves in them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use system::telemetry::metrics::{METRICS, PROCESS_METRICS};

use crate::cli::daemon::Daemon;
use crate::cli::scratch::CONFIG;
use crate::cli::staged::{LIMIT, fleet};

/// What only webhooks, a git host, receivers, many callers, several daemons or an error of ours set: their own tests see them set.
const ELSEWHERE: [&str; 12] = [
    "gitfleet_leading_epoch",
    "gitfleet_agents",
    "gitfleet_agent_sessions",
    "gitfleet_agent_refused_events",
    "gitfleet_agent_received_bytes",
    "gitfleet_agent_sent_bytes",
    "gitfleet_notifications",
    "gitfleet_http_connections_closed",
    "gitfleet_http_webhooks",
    "gitfleet_http_webhook_last_verified_timestamp",
    "gitfleet_forge_calls",
    "gitfleet_task_restarts",
];

/// What is zero or absent where nothing waits and every member answers.
const ZERO: [&str; 6] = [
    "gitfleet_channel_depth",
    "gitfleet_cluster_oldest_offline_timestamp_seconds",
    "gitfleet_rollout_gates_waiting",
    "gitfleet_rollout_oldest_gate_timestamp_seconds",
    "gitfleet_store_waits_for_adoption",
    "gitfleet_engine_queue_depth",
];

fn scrape(daemon: &Daemon) -> String {
    let mut stream = TcpStream::connect(&daemon.address).expect("the daemon listens");
    write!(stream, "GET /metrics HTTP/1.0\r\n\r\n").expect("a question");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.split_once("\r\n\r\n").expect("a body").1.to_owned()
}

/// Scrapes until all of these lines are there.
fn wait_for(daemon: &Daemon, lines: &[&str]) -> String {
    let started = Instant::now();
    loop {
        let text = scrape(daemon);
        if lines.iter().all(|wanted| text.lines().any(|line| line == *wanted)) {
            return text;
        }
        assert!(started.elapsed() < LIMIT, "{lines:?} are not all in\n{text}");
    }
}

/// Returns the value of a series.
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} is not in\n{text}")).parse().expect("a number")
}

#[test]
fn a_rollout_with_a_gate_sets_every_metric_of_it() {
    let scratch = fleet();
    let daemon = Daemon::start(&scratch);
    let text = wait_for(
        &daemon,
        &[
            "gitfleet_rollout_placements{state=\"waiting_for_person\"} 1",
            "gitfleet_placement_info{placement=\"web\",state=\"waiting_for_person\"} 1",
            "gitfleet_rollout_gates_waiting{kind=\"after_stage\"} 1",
            "gitfleet_rollout_runs{phase=\"waiting\"} 1",
            "gitfleet_cluster_members{state=\"online\"} 4",
        ],
    );
    let oldest = "gitfleet_rollout_oldest_gate_timestamp_seconds{kind=\"after_stage\"}";
    let seen = value(&text, "gitfleet_source_commit_seen_timestamp_seconds");
    assert!(seen > 0.0 && value(&text, "gitfleet_source_commit_accepted_timestamp_seconds") >= seen, "{text}");
    assert!(value(&text, oldest) >= seen && seen + 1.0 >= value(&text, "process_start_time_seconds"), "{text}");

    scratch.run(&["approve", "web-0", "staging", "--server", &daemon.address, "-c", CONFIG]).text(0);
    let text = wait_for(
        &daemon,
        &[
            "gitfleet_rollout_placements{state=\"at_target\"} 1",
            "gitfleet_placement_info{placement=\"web\",state=\"at_target\"} 1",
            "gitfleet_rollout_placements{state=\"waiting_for_person\"} 0",
            "gitfleet_rollout_gates_waiting{kind=\"after_stage\"} 0",
            "gitfleet_rollout_runs{phase=\"succeeded\"} 1",
            "gitfleet_rollout_approval_seconds_count{kind=\"after_stage\"} 1",
            "gitfleet_rollout_commit_to_available_seconds_count 1",
        ],
    );
    assert!(!text.contains(oldest), "no gate waits: {text}");
    assert_eq!(text.matches("gitfleet_placement_info{").count(), 1, "one series for each placement: {text}");
    // Somebody changes an object by hand.
    let file = scratch.path("members/d/configmap..web.a.yaml");
    let changed = fs::read_to_string(&file).expect("it is delivered").replace("key: '1'", "key: '2'");
    fs::write(&file, changed.replace("key: \"1\"", "key: '2'")).expect("it can be written");
    let text = wait_for(&daemon, &["gitfleet_cluster_drift_total{result=\"put_back\"} 1"]);
    for metric in METRICS.iter().chain(PROCESS_METRICS) {
        if ELSEWHERE.contains(&metric.name) || ZERO.contains(&metric.name) {
            continue;
        }
        let samples = text.lines().filter(|line| line.starts_with(metric.name));
        let values = samples.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        assert!(values.into_iter().any(|value| value > 0.0), "{} is not set:\n{text}", metric.name);
    }
}

#[test]
fn names_that_tests_leave_out_exist() {
    let names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert!(ELSEWHERE.iter().chain(&ZERO).all(|name| names.contains(name)));
}
