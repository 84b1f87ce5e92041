//! The times of a run over what the simulation predicts of it.

use super::*;
use crate::page::pictures::times;
use crate::page::timeline::TimelineSpan;
use crate::simulation::{GateSide, GateType, Offset, SimulatedGate, SimulatedRun, SimulatedStage};
use model::runs::RunPhase;

/// What is predicted of the run of the fixtures: it begins 5 s after the push, waits 10 s after its first stage, and 5 minutes for an
/// approval after the second.
fn predicted() -> SimulatedRun {
    let at = |seconds: i64| Some(Offset(seconds * 1000));
    let gate = |type_, from, until| SimulatedGate {
        type_,
        when: Some(GateSide::After),
        approvers: None,
        asked_at: at(from),
        opened_at: at(until),
        waited: at(until - from),
        assumed: Vec::new(),
    };
    let stage = |name: &str, from, until, gates| SimulatedStage {
        name: name.into(),
        phase: "Succeeded".into(),
        max_concurrency: 1,
        started_at: at(from),
        ended_at: at(until),
        clusters: Vec::new(),
        gates,
    };
    SimulatedRun {
        name: "web-0".into(),
        strategy: "three-stages".into(),
        snapshot: Some(0),
        phase: "Succeeded".into(),
        message: String::new(),
        rollback_of: None,
        started_at: at(5),
        ended_at: at(400),
        stages: vec![
            stage("staging", 5, 16, vec![gate(GateType::TimedWait, 6, 16)]),
            stage("canary", 16, 318, vec![gate(GateType::Approval, 18, 318)]),
            stage("production", 318, 319, Vec::new()),
        ],
    }
}

#[test]
fn a_run_is_drawn_over_what_is_predicted_of_it() {
    let (site, fleet) = (site(), fleet());
    let visit = visit(&site, &fleet, false);
    let predicted = predicted();
    let drawn = times(&visit, placed(&fleet, "shop"), Some(&predicted)).expect("it began");
    let span = |waits, from: i64, until: i64| TimelineSpan {
        waits,
        from: Offset(from * 1000),
        until: Some(Offset(until * 1000)),
    };
    let usual: Vec<_> = drawn.rows.iter().map(|row| row.usual.clone()).collect();
    assert_eq!(
        usual,
        [
            vec![span(false, 0, 1), span(true, 1, 11)],
            vec![span(false, 11, 13), span(true, 13, 313)],
            vec![span(false, 313, 314)],
        ],
        "both count from where the run begins"
    );
    let page = placement::page(
        &visit,
        placed(&fleet, "shop"),
        &TabContent::Overview { group: "", predicted: Some(&predicted) },
    );
    let text = &page.main.0;
    assert!(text.contains("staging: done, 17s from 0s, simulated 11s from 0s."), "{text}");
    assert!(text.contains("with each approval 5 minutes after it is asked for"), "{text}");
    let none = placement::page(&visit, placed(&fleet, "shop"), &OVERVIEW).main.0;
    assert!(!none.contains("simulate"), "{none}");
}

#[test]
fn the_last_run_is_named_beside_what_is_predicted() {
    let clusters = ["east", "north", "south", "west"];
    let mut before = run_in_production();
    (before.phase, before.name, before.sequence) = (RunPhase::Succeeded, "web-2".into(), 0);
    before.stages[2].ended_at = Some(at(60));
    let case = Case::healthy(&clusters).with_run(before).with_run(run_in_production());
    let key = PlacementKey::cluster_scoped("shop");
    let fleet =
        fleet().with(Changes { placements: [(key, Some(records(&case, "shop")))].into(), ..Changes::default() });
    let site = site();
    let visit = visit(&site, &fleet, false);
    let words = |predicted: Option<&SimulatedRun>| {
        let drawn = times(&visit, placed(&fleet, "shop"), predicted).expect("it began");
        (drawn.usual_words, drawn.rows[2].last, drawn.rows[2].usual.clone())
    };
    let predicted = predicted();
    let (usual, last, _) = words(Some(&predicted));
    assert_eq!((usual.as_str(), last), ("simulated", Some(Offset(19_000))));
    let (usual, last, spans) = words(None);
    assert_eq!((usual.as_str(), last, spans.len()), ("last time", None, 1));
}

#[test]
fn the_page_asks_for_the_run_that_it_shows() {
    let (site, fleet) = (site(), fleet());
    let visit = visit(&site, &fleet, false);
    let run = |name: &str| placement::shown_run(&visit, placed(&fleet, name));
    assert_eq!((run("web").as_deref(), run("api")), (Some("web-3"), None));
}
