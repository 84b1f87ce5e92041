//! `describe`, `history`, `events` and `diff` of a placement, as people read them.

use crate::cli::scratch::{CONFIG, Scratch, namespace};

/// `web` with two snapshots, rolled out.
fn fleet() -> Scratch {
    let scratch = Scratch::with_web();
    once(&scratch);
    scratch.write("web.yaml", &namespace("web", &[("a", "2")]));
    scratch.commit("Bump the value");
    once(&scratch);
    scratch
}

fn once(scratch: &Scratch) {
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
}

fn told(scratch: &Scratch, words: &[&str]) -> String {
    scratch.run(&[words, &["-c", CONFIG]].concat()).text(0).to_owned()
}

#[test]
fn a_placement_is_a_page() {
    let scratch = fleet();
    let page = told(&scratch, &["describe", "placement", "web"]);
    for wanted in [
        "✓ ClusterResourcePlacement web  snapshot 1",
        "\"Bump the value\"",
        "Picks:     all clusters that fit",
        "File:      placement.yaml:2",
        "CLUSTER   SNAPSHOT   STATE",
        "east      1          ✓ available",
        "east moves from snapshot 0 (",
        "every object of snapshot 1 (",
    ] {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
    assert!(page.lines().count() < 45, "{page}");
    assert!(told(&scratch, &["describe", "crp", "web"]).contains("Observed Resource Index:  1"));
    let unknown = scratch.run(&["describe", "placement", "webb", "-c", CONFIG]);
    assert_eq!((unknown.code, unknown.err.contains("did you mean web?")), (2, true), "{}", unknown.err);
}

#[test]
fn the_history_of_a_placement() {
    let scratch = fleet();
    let history = told(&scratch, &["history", "web"]);
    let lines: Vec<Vec<&str>> = history.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["SNAPSHOT", "COMMIT", "AGE", "CLUSTERS", "RESULT", "APPROVED-BY", "SUBJECT"]);
    assert_eq!((lines[1][0], lines[1][3], lines[1][4]), ("1", "2", "done"), "{history}");
    assert!(history.lines().nth(1).is_some_and(|line| line.ends_with("Bump the value")), "{history}");
    assert_eq!((lines[2][0], lines[2][3]), ("0", "0"), "{history}");
    let json = scratch.run(&["history", "web", "-o", "json", "-c", CONFIG]).json(0);
    assert_eq!((json[0]["index"].as_u64(), json[1]["subject"].as_str()), (Some(1), Some("first")), "{json}");
    assert_eq!(scratch.run(&["history", "nothing", "-c", CONFIG]).code, 2);
}

#[test]
fn events_are_sentences() {
    let scratch = fleet();
    let events = told(&scratch, &["events", "web"]);
    assert!(events.starts_with("TIME"), "{events}");
    for wanted in ["with 2 objects", "east was picked", "west moves from snapshot 0 ("] {
        assert!(events.contains(wanted), "{wanted}: {events}");
    }
    let of_east = told(&scratch, &["events", "--cluster", "east"]);
    assert!(of_east.lines().skip(1).all(|line| line.contains("east")), "{of_east}");
    assert_eq!(told(&scratch, &["events", "--limit", "2"]).lines().count(), 3);
    let json = told(&scratch, &["events", "web", "-o", "json"]);
    assert!(json.lines().all(|line| line.starts_with('{')) && json.contains("SnapshotCreated"), "{json}");
    assert_eq!(scratch.run(&["events", "nothing", "-c", CONFIG]).code, 2);
}

#[test]
fn differences_of_clusters() {
    let scratch = fleet();
    assert_eq!(told(&scratch, &["diff", "web"]), "no difference on 2 clusters\n");
    told(&scratch, &["pause", "web"]);
    scratch.write("web.yaml", &namespace("web", &[("a", "3")]));
    scratch.commit("third");
    scratch.run(&["run", "-c", CONFIG, "--once"]);
    let found = scratch.run(&["diff", "web", "-c", CONFIG]);
    assert_eq!(found.code, 1, "{}", found.err);
    for wanted in [
        "2 clusters (east, west): snapshot 1 (",
        "~ ConfigMap web/a (v1)",
        "-  key: <masked:",
        "+  key: <masked:",
        "differences on 2 of 2 clusters",
    ] {
        assert!(found.out.contains(wanted), "{wanted}: {}", found.out);
    }
    let one = scratch.run(&["diff", "web", "--cluster", "east", "-c", CONFIG]);
    assert!(one.text(1).contains("1 cluster (east)"), "{}", one.out);
    let wrong = scratch.run(&["diff", "web", "--cluster", "eastt", "-c", CONFIG]);
    assert_eq!((wrong.code, wrong.err.contains("did you mean east?")), (2, true), "{}", wrong.err);
}
