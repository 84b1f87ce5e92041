use std::collections::BTreeSet;

use super::*;

fn touched() -> Metrics {
    let metrics = Metrics::new();
    metrics.pass_seconds.get_or_create(&ByOutcome { result: Outcome::Ok }).observe(0.25);
    metrics.decisions.get_or_create(&ByDecision { result: Decision::Changed }).inc();
    metrics.queue_depth.set(3);
    for &verb in Verb::ALL {
        let write = ByWrite { verb, result: WriteOutcome::Ok };
        metrics.member_writes.get_or_create(&write).inc();
        metrics.member_write_seconds.get_or_create(&write).observe(0.02);
    }
    metrics.placements.get_or_create(&ByPlacementState { state: PlacementState::AtTarget }).set(1);
    metrics
        .placement_info
        .get_or_create(&OfPlacement { placement: "web".to_owned(), state: PlacementState::AtTarget })
        .set(1);
    let gate = ByGate { kind: GateKind::Deletion };
    metrics.gates.get_or_create(&gate).set(1);
    metrics.oldest_gate.get_or_create(&gate).set(1);
    metrics.approval_seconds.get_or_create(&gate).observe(60.0);
    metrics.runs.get_or_create(&ByPhase { phase: Phase::Waiting }).set(1);
    metrics.members.get_or_create(&ByMemberState { state: MemberState::Online }).set(2);
    metrics.drift.get_or_create(&ByDrift { result: Drift::PutBack }).inc();
    metrics.source_polls.get_or_create(&ByPoll { result: Poll::Accepted }).inc();
    metrics.webhooks.get_or_create(&ByDelivery { result: Delivered::Queued }).inc();
    let call = ByForgeCall { method: ForgeMethod::Get, result: ForgeAnswer::Ok };
    metrics.forge_calls.get_or_create(&call).inc();
    metrics.notifications.get_or_create(&ByNotification { result: Notified::Ok }).inc();
    metrics.task_restarts.get_or_create(&ByPart { part: Part::Source }).inc();
    metrics.channel_depth.get_or_create(&ByChannel { channel: Channel::Source }).set(1);
    metrics.store_commits.get_or_create(&ByOutcome { result: Outcome::Ok }).inc();
    metrics.store_commit_seconds.observe(0.001);
    metrics
}

#[test]
fn the_list_is_what_is_served() {
    let text = touched().encode();
    let served: BTreeSet<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let listed: Vec<String> =
        METRICS.iter().chain(PROCESS_METRICS).map(|m| format!("{} {}", m.name, m.kind.as_str())).collect();
    assert_eq!(served, listed.iter().map(String::as_str).collect());
    for metric in METRICS.iter().chain(PROCESS_METRICS) {
        assert!(text.contains(&format!("# HELP {} {}.", metric.name, metric.help)), "{}", metric.name);
        let sample = text.lines().find(|line| line.starts_with(metric.name)).unwrap();
        for label in metric.labels {
            assert!(sample.contains(&format!("{label}=\"")), "{sample}");
        }
        assert_eq!(sample.contains("result=\""), metric.labels.contains(&"result"), "{sample}");
    }
}

#[test]
fn names_follow_the_rules() {
    for metric in METRICS.iter().chain(PROCESS_METRICS) {
        let is_process = metric.name.starts_with("process_");
        assert!(
            (metric.name.starts_with("gitfleet_") || is_process) && !metric.name.ends_with("_total"),
            "{}",
            metric.name
        );
        assert!(metric.kind != MetricKind::Histogram || metric.name.ends_with("_seconds"), "{}", metric.name);
        assert!(!metric.help.ends_with('.'), "{}", metric.help);
    }
}

#[test]
fn the_process_is_measured() {
    let text = Metrics::new().encode();
    for metric in PROCESS_METRICS {
        let sample = text.lines().find(|line| line.starts_with(metric.name)).unwrap();
        let value: f64 = sample.rsplit_once(' ').unwrap().1.parse().unwrap();
        assert!(value > 0.0 || metric.kind == MetricKind::Counter, "{sample}");
    }
    assert!(text.contains(concat!("gitfleet_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"")), "{text}");
}

#[test]
fn values_are_counted() {
    let text = touched().encode();
    for line in [
        "gitfleet_engine_queue_depth 3",
        "gitfleet_cluster_writes_total{verb=\"delete\",result=\"ok\"} 1",
        "gitfleet_cluster_members{state=\"online\"} 2",
        "gitfleet_cluster_drift_total{result=\"put_back\"} 1",
        "gitfleet_engine_pass_seconds_count{result=\"ok\"} 1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
}
