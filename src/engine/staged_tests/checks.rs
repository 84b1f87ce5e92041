//! Checks of stages: frozen with the run, part of what people approve, and a reason to roll back.

use super::*;
use decide::rollout::staged::queries;
use model::runs::{MetricReply, MetricServers};

/// The strategy with checks of its first stage.
fn checked(checks: &str) -> String {
    let annotation = format!("metadata: {{name: s, annotations: {{gitfleet.io/stage-checks: '{checks}'}}}}");
    STRATEGY.replace("metadata: {name: s}", &annotation)
}

const METRIC: &str = "one: {metrics: [{name: errors, query: up, max: 1}]}";

fn case(checks: &str, annotations: &str) -> Case {
    let mut case = Case::of(&[("s.yaml", checked(checks)), ("p.yaml", placement(annotations))]);
    case.fleet.servers = MetricServers::from([("main".to_owned(), std::time::Duration::from_secs(30))]);
    case
}

/// Answers what is asked, and settles.
fn answer(case: &mut Case, value: Result<f64, &str>) -> String {
    let asked: Vec<_> = case.state.runs.values().flat_map(|run| queries(run, &case.fleet.servers)).collect();
    assert!(!asked.is_empty(), "nothing is asked: {}", case.phases());
    for query in asked {
        let reply = MetricReply { at: case.now, value: value.map_err(str::to_owned) };
        case.fleet.replies.entry(query.placement.clone()).or_default().insert(query, reply);
    }
    case.settle()
}

#[test]
fn a_stage_waits_for_its_checks_beside_people() {
    let mut case = case("one: {healthyFor: 10m, metrics: [{name: errors, query: up, max: 1}]}", AUTOMATIC);
    assert_eq!(case.settle(), "a0 b- c- d-");
    case.say(Verb::Approve, "p-0 one").expect("the gate opens");
    assert_eq!(answer(&mut case, Ok(0.5)), "a0 b- c- d-", "its clusters were not available for long enough");
    assert_eq!(case.later(600), "a0 b- c- d-", "the answer is old");
    assert_eq!(answer(&mut case, Err("no data")), "a0 b- c- d-");
    assert_eq!(case.phases(), "p-0 Waiting");
    assert_eq!(answer(&mut case, Ok(1.0)), "a0 b0 c0 d0");
    assert_eq!(case.phases(), "p-0 Succeeded");
}

#[test]
fn an_answer_outside_the_limits_halts_until_one_is_within() {
    let mut case = case(METRIC, AUTOMATIC);
    case.settle();
    case.say(Verb::Approve, "p-0 one").expect("the gate opens");
    assert_eq!(answer(&mut case, Ok(7.0)), "a0 b- c- d-");
    assert_eq!(case.phases(), "p-0 Halted");
    let halted = case.state.record.halted.clone().unwrap_or_default();
    assert_eq!(halted, "stage one: the check errors answers 7, allowed: at most 1");
    case.later(1);
    assert_eq!(case.say(Verb::Retry, "p-0").expect("it asks again"), "checks of p-0 are asked again: errors (of main)");
    case.settle();
    assert_eq!(case.phases(), "p-0 Waiting", "what was said before does not count");
    answer(&mut case, Ok(2.0));
    assert_eq!(case.phases(), "p-0 Halted");
    assert_eq!(answer(&mut case, Ok(1.0)), "a0 b0 c0 d0");
}

#[test]
fn a_failed_check_rolls_back_where_failures_do() {
    let mut case = case(METRIC, &format!("{AUTOMATIC}, gitfleet.io/on-failure: Rollback"));
    case.settle();
    case.say(Verb::Approve, "p-0 one").expect("the gate opens");
    assert_eq!(answer(&mut case, Ok(0.0)), "a0 b0 c0 d0");
    case.content("1");
    assert_eq!(case.settle(), "a1 b0 c0 d0");
    assert_eq!(answer(&mut case, Ok(3.0)), "a0 b0 c0 d0", "no check is asked of a snapshot that passed it");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 RolledBack, p-1-rollback Succeeded");
    let why = &case.state.record.held.as_ref().expect("it is held").why;
    assert!(why.contains("the check errors answers 3"), "{why}");
}

#[test]
fn an_approval_is_for_the_checks_too() {
    let digest = |checks: &str| {
        let mut case = Case::of(&[("s.yaml", checked(checks))]);
        case.settle();
        case.run("p-0").stages[0].digest.clone()
    };
    let mut plain = Case::of(&[]);
    plain.settle();
    assert_eq!(digest(METRIC), digest(METRIC));
    assert_ne!(digest(METRIC), digest(&METRIC.replace("max: 1", "max: 2")));
    assert_ne!(digest(METRIC), plain.run("p-0").stages[0].digest);
}

#[test]
fn checks_are_frozen_with_their_run() {
    let mut case = case(METRIC, AUTOMATIC);
    case.settle();
    case.say(Verb::Approve, "p-0 one").expect("the gate opens");
    case.commit(&[("s.yaml", STRATEGY.to_owned())]);
    assert_eq!(case.settle(), "a0 b- c- d-", "the run began with a check");
    case.content("1");
    case.settle();
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b1 c1 d1", "the next one has none");
}

#[test]
fn a_server_that_the_configuration_does_not_have_is_said() {
    let mut case = case("one: {metrics: [{name: errors, server: other, query: up, max: 1}]}", AUTOMATIC);
    case.settle();
    case.say(Verb::Approve, "p-0 one").expect("the gate opens");
    assert_eq!(case.settle(), "a0 b- c- d-");
    let message = &case.run("p-0").message;
    assert!(message.contains("the check errors (the configuration has no server other)"), "{message}");
    let refused = case.say(Verb::Retry, "p-0").expect_err("nobody can be asked").message;
    assert_eq!(refused, "the check errors of p-0 still cannot be asked: the configuration has no server other");
}
