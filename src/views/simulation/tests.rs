//! Times as people and scripts read them, names in charts, and what counts as the longest wait.

use super::gantt::{gantt, shows_work};
use super::timeline::clock;
use super::*;
use model::runs::ClusterPhase;

fn cluster(name: &str, started_at: i64, ended_at: Option<i64>) -> SimulatedCluster {
    SimulatedCluster {
        name: name.into(),
        deferred_at: None,
        started_at: Some(Offset(started_at)),
        ended_at: ended_at.map(Offset),
        outcome: if ended_at.is_some() { ClusterPhase::Succeeded } else { ClusterPhase::Updating },
        message: String::new(),
    }
}

fn gate(type_: GateType, asked_at: i64, opened_at: Option<i64>) -> SimulatedGate {
    SimulatedGate {
        type_,
        when: Some(GateSide::After),
        approvers: None,
        asked_at: Some(Offset(asked_at)),
        opened_at: opened_at.map(Offset),
        waited: opened_at.map(|at| Offset(at - asked_at)),
        assumed: vec![],
    }
}

fn placement(clusters: Vec<SimulatedCluster>, gates: Vec<SimulatedGate>) -> SimulatedPlacement {
    SimulatedPlacement {
        kind: "ClusterResourcePlacement",
        namespace: None,
        name: "web".to_owned(),
        snapshot: Some(0),
        outcome: Outcome::Done,
        message: String::new(),
        started_at: Some(Offset(0)),
        ended_at: Some(Offset(5000)),
        clusters_picked: 1,
        runs: Vec::new(),
        clusters,
        gates,
        longest_wait: None,
        failed_at: None,
        touched_at_failure: Vec::new(),
        max_unavailable: 1,
    }
}

#[test]
fn times_as_people_and_scripts_read_them() {
    let rows = [
        (0, "0s", "T+00:00:00", "0"),
        (40, "0s", "T+00:00:00", "0.04"),
        (1_250, "1.3s", "T+00:00:01", "1.25"),
        (5_000, "5s", "T+00:00:05", "5"),
        (59_990, "1m", "T+00:00:59", "59.99"),
        (65_000, "1m5s", "T+00:01:05", "65"),
        (3_600_000, "1h", "T+01:00:00", "3600"),
        (5_430_000, "1h30m", "T+01:30:30", "5430"),
        (90_000_000, "1d1h", "T+25:00:00", "90000"),
    ];
    for (millis, words, shown, json) in rows {
        let at = Offset(millis);
        let found = (at.text(), clock(at), serde_json::to_string(&at).expect("a number"));
        assert_eq!(found, (words.to_owned(), shown.to_owned(), json.to_owned()), "{millis}");
    }
}

#[test]
fn the_longest_wait() {
    use GateType::{Approval, TimedWait};
    type Row = (&'static str, SimulatedPlacement, Option<(WaitFor, Option<i64>)>);
    let east = || vec![cluster("east", 0, Some(4000))];
    let rows: Vec<Row> = vec![
        ("nothing", placement(vec![], vec![]), None),
        ("a cluster", placement(east(), vec![]), Some((WaitFor::Cluster, Some(4000)))),
        ("time", placement(east(), vec![gate(TimedWait, 4000, Some(9000))]), Some((WaitFor::Time, Some(5000)))),
        (
            "a quick person",
            placement(east(), vec![gate(Approval, 4000, Some(4000))]),
            Some((WaitFor::Cluster, Some(4000))),
        ),
        ("nobody", placement(east(), vec![gate(Approval, 4000, None)]), Some((WaitFor::Person, None))),
        ("no end", placement(vec![cluster("east", 0, None)], vec![]), Some((WaitFor::Cluster, None))),
    ];
    for (name, placement, expected) in rows {
        let found = longest_wait(&placement).map(|wait| (wait.for_, wait.seconds.map(|seconds| seconds.0)));
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn names_in_charts() {
    let rows = [
        ("east", "    east :2000-01-01 00:00:00.000,"),
        ("title", "    cluster title :2000-01-01 00:00:00.000,"),
        ("section", "    cluster section :2000-01-01 00:00:00.000,"),
        ("2000-01-01", "    cluster 2000-01-01 :2000-01-01 00:00:00.000,"),
        ("a:b;c#d", "    a_b_c_d :2000-01-01 00:00:00.000,"),
    ];
    for (name, expected) in rows {
        let simulated = Simulated {
            placements: vec![placement(vec![cluster(name, 0, Some(1000))], vec![])],
            ..Simulated::default()
        };
        let chart = gantt(&simulated);
        assert!(chart.lines().any(|line| line.starts_with(expected)), "{name}: {chart}");
    }
}

#[test]
fn stages_are_bars_waits_are_grey_and_equal_times_are_drawn_once() {
    let mut first = SimulatedPlacement { ended_at: Some(Offset(9000)), ..placement(vec![], vec![]) };
    let failed = SimulatedCluster { outcome: ClusterPhase::Failed, ..cluster("west", 6000, Some(9000)) };
    let stage = |name: &str, clusters: Vec<SimulatedCluster>, gates: Vec<SimulatedGate>| SimulatedStage {
        name: name.to_owned(),
        phase: "Succeeded".to_owned(),
        max_concurrency: 1,
        started_at: None,
        ended_at: None,
        clusters,
        gates,
    };
    let waits = vec![gate(GateType::Approval, 4000, Some(5000)), gate(GateType::Checks, 5000, Some(5000))];
    let east = vec![cluster("east", 0, Some(2000)), cluster("north", 2000, Some(4000))];
    first.runs = vec![SimulatedRun {
        name: "web-0".to_owned(),
        strategy: "s".to_owned(),
        snapshot: Some(0),
        phase: "Succeeded".to_owned(),
        message: String::new(),
        rollback_of: None,
        started_at: None,
        ended_at: None,
        stages: vec![
            stage("dev", east, waits),
            stage("prod", vec![failed], vec![gate(GateType::Approval, 9000, None)]),
        ],
    }];
    let second = SimulatedPlacement { name: "api".to_owned(), ..first.clone() };
    let many = (0..40).map(|number| cluster(&format!("c{number:02}"), 1000 * number, Some(1000 * number + 500)));
    let rolling = SimulatedPlacement { name: "log".to_owned(), ..placement(many.collect(), vec![]) };
    let simulated = Simulated { placements: vec![first, second, rolling], ..Simulated::default() };
    let chart = gantt(&simulated);
    insta::assert_snapshot!(chart.split_once("todayMarker off\n").map(|(_, rest)| rest).unwrap_or_default(), @r"
    section web and 1 more
    dev - 2 clusters :2000-01-01 00:00:00.000, 2000-01-01 00:00:04.000
    approval after dev :done, 2000-01-01 00:00:04.000, 2000-01-01 00:00:05.000
    checks after dev :milestone, 2000-01-01 00:00:05.000, 0ms
    prod - 1 cluster :2000-01-01 00:00:06.000, 2000-01-01 00:00:09.000
    west :crit, 2000-01-01 00:00:06.000, 2000-01-01 00:00:09.000
    approval after prod does not come :done, 2000-01-01 00:00:09.000, 2000-01-01 00:00:10.000
    section log
    all 40 clusters :2000-01-01 00:00:00.000, 2000-01-01 00:00:39.500
    ");
}

#[test]
fn a_chart_of_waits_shows_nothing() {
    let simulated = |clusters, ended_at| {
        let placement = SimulatedPlacement { ended_at: Some(Offset(ended_at)), ..placement(clusters, vec![]) };
        Simulated { placements: vec![placement], ..Simulated::default() }
    };
    assert!(shows_work(&simulated(vec![cluster("east", 0, Some(10_000))], 100_000)));
    assert!(!shows_work(&simulated(vec![cluster("east", 0, Some(9_000))], 100_000)));
    assert!(shows_work(&simulated(vec![cluster("east", 0, None)], 100_000)), "it does not end");
}
