use jiff::Timestamp;
use serde_json::{Value, json};

use super::PlacementPhase::{Following, Halted, HeldBack, Invalid, Paused, RemovalPending, Removing};
use super::*;
use testkit::drawn::{check_groups, check_once, check_ways, each, section};

const HEADING: &str = "States of a placement";

/// Returns the record of a placement of which these fields say something.
fn record(fields: &[&str]) -> PlacementRecord {
    let mut record = json!({
        "key": "web", "spec": {"resourceSelectors": []}, "annotations": {}, "generation": 1, "origin": null,
        "createdAt": Timestamp::UNIX_EPOCH,
    });
    let (now, objects) = (Timestamp::UNIX_EPOCH, json!({}));
    let gate = json!({"digest": "d", "reason": "many", "deletions": objects, "since": now});
    let mut opened = gate.clone();
    opened["openedAt"] = json!(now);
    for field in fields {
        let (name, value): (&str, Value) = match *field {
            "paused" => ("paused", json!({"by": "ann", "at": now})),
            "held" => ("held", json!({"index": 3, "hash": "h", "why": "was rejected", "since": now})),
            "gate" => ("deletionGate", gate.clone()),
            "opened gate" => ("deletionGate", opened.clone()),
            "removed" => ("removed", true.into()),
            text => (text, "why".into()),
        };
        record[name] = value;
    }
    serde_json::from_value(record).expect("a record")
}

#[test]
fn the_first_phase_that_holds_is_shown() {
    let all = ["paused", "removed", "gate", "error", "halted", "held"];
    let shown = |fields: &[&str]| record(fields).phase();
    assert_eq!(shown(&all), Paused);
    assert_eq!(shown(&all[1..]), RemovalPending);
    assert_eq!(shown(&["removed", "opened gate", "error", "halted", "held"]), Removing);
    assert_eq!(shown(&["removed", "error", "halted", "held"]), Removing);
    assert_eq!(shown(&["gate", "error", "halted", "held"]), Invalid);
    assert_eq!(shown(&["gate", "halted", "held"]), Halted);
    assert_eq!(shown(&["gate", "held"]), HeldBack);
    assert_eq!(shown(&["gate"]), Following, "the gate of a placement that git has concerns single clusters");
    assert_eq!(shown(&[]), Following);
}

#[test]
fn every_phase_that_holds_takes_away_what_it_does_not_permit() {
    use PhaseAct::{BeginRuns, Remove, Start};
    let permits = |fields: &[&str]| {
        let record = record(fields);
        [Start, Remove, BeginRuns].map(|act| record.permits(act))
    };
    assert_eq!(permits(&[]), [true, true, true]);
    assert_eq!(permits(&["paused"]), [false, false, true]);
    assert_eq!(permits(&["error"]), [true, true, false]);
    assert_eq!(permits(&["paused", "error"]), [false, false, false]);
    assert_eq!(permits(&["removed"]), [false, true, false]);
    assert_eq!(permits(&["removed", "paused"]), [false, false, false]);
    assert_eq!(record(&["held", "halted"]).permit(Remove), Permit::Only("not by a halted run"));
}

#[test]
fn the_diagram_and_the_table_are_drawn() {
    check_ways(HEADING, &[DECIDED, COMMANDED], PHASE_GROUPS);
    check_groups(HEADING, PHASE_GROUPS);
    let words = |permit: Permit| match permit {
        Permit::No => "no",
        Permit::Only(what) => what,
        Permit::Yes => "yes",
    };
    let row = |rule: &PhaseRule| {
        let permits = [rule.start, rule.remove, rule.evict, rule.begin_runs].map(words).join(" | ");
        format!("| {:?} | {} | {permits} |", rule.phase, rule.when)
    };
    let expected: Vec<String> = PHASES.iter().map(row).collect();
    let rows: Vec<&str> = section(HEADING).lines().filter(|line| line.starts_with('|')).skip(2).collect();
    assert_eq!(rows, expected, "docs/rollouts.md, {HEADING}; it should say\n{}\n", expected.join("\n"));
}

#[test]
fn forbidden_transitions() {
    check_once(DECIDED);
    check_once(COMMANDED);
    assert!(each(DECIDED).all(|(from, _)| from != Paused), "only a person ends a pause");
    for (from, to) in each(COMMANDED) {
        let waits_for_a_person = from == Paused || (from, to) == (RemovalPending, Removing);
        assert!(!GONE.contains(&to) || waits_for_a_person, "git alone takes a placement away: {from:?} to {to:?}");
        assert!(
            ![Invalid, Halted].contains(&to) || from == Paused,
            "{to:?} is found by decisions, and not from {from:?}"
        );
    }
    let commanded = [
        (Removing, Following),
        (RemovalPending, Following),
        (Invalid, Following),
        (Halted, Following),
        (HeldBack, Invalid),
    ];
    for (from, to) in commanded {
        assert!(!may_follow(COMMANDED, from, to), "{from:?} to {to:?}");
    }
}

#[test]
fn violations_are_named() {
    let entry =
        |event| JournalEntry { at: Timestamp::UNIX_EPOCH, event, placement: None, cluster: None, facts: Value::Null };
    let start = [entry(JournalKind::Commanded), entry(JournalKind::RolloutStarted)];
    let of =
        |table, before, fields: &[&str], journal: &[JournalEntry]| violation(table, before, &record(fields), journal);
    assert_eq!(of(DECIDED, Following, &[], &start), None);
    assert_eq!(of(DECIDED, Paused, &["paused"], &[]), None, "it stays");
    assert_eq!(of(DECIDED, Paused, &[], &[]), Some("web went from Paused to Following".to_owned()));
    assert_eq!(of(COMMANDED, Paused, &[], &[]), None);
    let paused = Some("web is Paused, which does not permit Start".to_owned());
    assert_eq!(of(DECIDED, Following, &["paused", "held"], &start), paused);
    let removal = [entry(JournalKind::RemovalStarted)];
    assert_eq!(of(DECIDED, Removing, &["removed"], &removal), None);
    assert!(of(DECIDED, Paused, &["removed", "paused"], &removal).is_some());
    let eviction = |executed: bool| {
        let evaluated = JournalEntry { facts: json!({"executed": executed}), ..entry(JournalKind::EvictionJudged) };
        [entry(JournalKind::RemovalStarted), evaluated]
    };
    assert_eq!(of(DECIDED, Paused, &["paused"], &eviction(true)), None, "a pause holds up no eviction");
    assert_eq!(of(DECIDED, Removing, &["removed"], &eviction(false)), None, "it goes, but not because of that");
}
