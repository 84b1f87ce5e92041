//! Clusters in no stage, where the strategy says what becomes of them.

use super::guard::{volumes, with_volumes};
use super::*;
use model::policy::Floor;
use model::runs::{RunPhase, WantedBy};

/// The usual strategy, with what it does with clusters in no stage.
fn strategy(in_no_stage: &str) -> String {
    let annotations =
        format!("metadata: {{name: s, annotations: {{gitfleet.io/clusters-in-no-stage: {in_no_stage}}}}}");
    STRATEGY.replace("metadata: {name: s}", &annotations)
}

/// The usual clusters, and `e` in no stage.
fn with_e(in_no_stage: &str) -> Case {
    Case::of(&[("e.yaml", member("e", "four")), ("s.yaml", strategy(in_no_stage))])
}

#[test]
fn each_value_says_when_they_are_updated() {
    let rows = [
        ("Refuse", "a- b- c- d- e-", "p-0 Pending", "a- b- c- d- e-"),
        ("Ignore", "a0 b- c- d- e-", "p-0 Waiting", "a0 b0 c0 d0 e-"),
        ("First", "a0 b- c- d- e0", "p-0 Waiting", "a0 b0 c0 d0 e0"),
        ("Last", "a0 b- c- d- e-", "p-0 Waiting", "a0 b0 c0 d0 e0"),
    ];
    for (value, at_gate, phases, at_end) in rows {
        let mut case = with_e(value);
        assert_eq!((case.settle().as_str(), case.phases().as_str()), (at_gate, phases), "{value}");
        assert_eq!(case.say(Verb::Approve, "p-0 one").is_ok(), value != "Refuse", "{value}");
        assert_eq!(case.settle(), at_end, "{value}");
        assert_eq!(case.run("p-0").phase == RunPhase::Succeeded, value != "Refuse", "{value}");
        assert_eq!(case.state.record.last_succeeded, Some(0).filter(|_| value != "Refuse"), "{value}");
        assert!(!case.decide(), "{value}: and then silence");
    }
}

#[test]
fn all_stages_wait_for_those_that_are_first() {
    let mut case = with_e("First");
    case.manner("e", Manner::Slow);
    assert_eq!(case.settle(), "a- b- c- d- e0");
    case.manner("e", Manner::Well);
    assert_eq!(case.settle(), "a0 b- c- d- e0");
}

/// Everybody but `e` has content 0.
fn ignoring() -> Case {
    let mut case = with_e("Ignore");
    case.settle();
    case.say(Verb::Approve, "p-0 one").expect("the gate opens");
    assert_eq!(case.settle(), "a0 b0 c0 d0 e-");
    case
}

#[test]
fn an_ignored_cluster_that_gets_into_a_stage_gets_a_follow_up_run() {
    let mut case = ignoring();
    assert_eq!(case.state.record.ignored, BTreeSet::from(["e".into()]));
    case.commit(&[("e.yaml", member("e", "three"))]);
    assert_eq!(case.settle(), "a0 b0 c0 d0 e0");
    assert_eq!(case.phases(), "p-0 Succeeded, p-0-2 Succeeded");
    assert!(case.state.record.ignored.is_empty());
    // It keeps what it has when it gets out of it, and the others continue.
    case.commit(&[("e.yaml", member("e", "four")), ("x.yaml", payload("1"))]);
    case.settle();
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b1 c1 d1 e0");
    assert_eq!((case.run("p-1").phase, case.state.record.last_succeeded), (RunPhase::Succeeded, Some(1)));
    assert!(!case.decide(), "no run follows run for it");
    // The strategy decides at every commit.
    case.commit(&[("s.yaml", strategy("Last"))]);
    case.settle();
    case.say(Verb::Approve, "p-1-2 one").expect("nobody of its stage has it yet");
    assert_eq!(case.settle(), "a1 b1 c1 d1 e1");
}

#[test]
fn without_a_cluster_in_a_stage_there_is_nothing_to_do() {
    let everywhere = |stage: &str| ["a", "b", "c", "d"].map(|name| member(name, stage));
    let [a, b, c, d] = everywhere("four");
    let none = [("a.yaml", a), ("b.yaml", b), ("c.yaml", c), ("d.yaml", d), ("s.yaml", strategy("Ignore"))];
    let mut case = Case::of(&none);
    assert_eq!((case.settle().as_str(), case.phases().as_str()), ("a- b- c- d-", ""));
    case.commit(&[("d.yaml", member("d", "three"))]);
    assert_eq!((case.settle().as_str(), case.phases().as_str()), ("a- b- c- d0", "p-0 Succeeded"));
}

#[test]
fn a_cluster_that_a_run_owes_its_snapshot_is_not_ignored() {
    let mut case = Case::of(&[("s.yaml", strategy("Ignore"))]);
    case.goes("d", false);
    case.settle();
    case.say(Verb::Approve, "p-0 one").expect("the gate opens");
    assert_eq!(case.settle(), "a0 b0 c0 d-");
    case.goes("c", false);
    case.commit(&[("d.yaml", member("d", "four"))]);
    assert_eq!(case.settle(), "a0 b0 c0 d-");
    assert!(case.state.record.ignored.is_empty(), "its run was frozen with it");
    case.goes("d", true);
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    assert_eq!(case.state.record.ignored, BTreeSet::from(["d".into()]));
}

#[test]
fn nobody_is_asked_about_deletions_that_do_not_come() {
    let mut case = Case::rolled_out(&[("x.yaml", with_volumes("0", &["v"]))]);
    let fleet = [("d.yaml", member("d", "four")), ("s.yaml", strategy("Ignore"))];
    case.commit(&[&fleet[..], &[("x.yaml", payload("1"))]].concat());
    case.settle();
    let gate = case.state.record.closed_gate().expect("a volume goes");
    assert_eq!(gate.deletions.keys().map(ClusterName::as_str).collect::<Vec<_>>(), ["a", "b", "c"]);
    case.say(Verb::Approve, "p deletion").expect("the gate opens");
    case.settle();
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b1 c1 d0");
    assert_eq!(["c", "d"].map(|cluster| volumes(&case, cluster)), ["", "v"]);
    case.commit(&[("d.yaml", member("d", "three"))]);
    case.settle();
    case.say(Verb::Approve, "p-1-2 one").expect("nobody of its stage has it yet");
    assert_eq!(case.settle(), "a1 b1 c1 d1");
    assert_eq!(volumes(&case, "d"), "v", "now it goes, and somebody is asked");
    case.say(Verb::Approve, "p deletion").expect("it waits");
}

#[test]
fn a_rollback_goes_by_the_stages_that_were() {
    let mut case = Case::rolled_out(&[("e.yaml", String::new()), ("s.yaml", strategy("First"))]);
    case.commit(&[("b.yaml", member("b", "four")), ("x.yaml", payload("1"))]);
    case.settle();
    case.say(Verb::Approve, "p-1 unassigned").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b1 c0 d0");
    case.commit(&[("s.yaml", strategy("Ignore"))]);
    case.say(Verb::Rollback, "p-1").expect("it returns");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
}

/// An approval protected `d`. A commit that takes it out of its stage does not update it without another.
#[test]
fn being_first_is_no_way_round_an_approval() {
    let mut case = Case::rolled_out(&[]);
    case.commit(&[("d.yaml", member("d", "four")), ("s.yaml", strategy("First")), ("x.yaml", payload("1"))]);
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    assert_eq!(case.run("p-1").stages[0].before[0].wanted_by, WantedBy::RunBefore);
    case.say(Verb::Approve, "p-1 unassigned").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b0 c0 d1");
}

#[test]
fn what_the_configuration_demands_is_asked_before_any_stage() {
    for (value, before, after) in
        [("First", "a- b- c- d- e-", "a0 b- c- d- e0"), ("Last", "a0 b- c- d- e-", "a0 b0 c0 d0 e0")]
    {
        let mut case = with_e(value);
        case.fleet.floor = Floor { clusters: vec!["e".into()], ..Floor::default() };
        assert_eq!(case.settle(), before, "{value}");
        if value == "Last" {
            case.say(Verb::Approve, "p-0 one").expect("the gate opens");
            assert_eq!(case.settle(), "a0 b0 c0 d0 e-");
        }
        let stage = case.run("p-0").stages.iter().find(|stage| stage.name == "unassigned").expect("their stage");
        assert_eq!(stage.before[0].wanted_by, WantedBy::Configuration, "{value}");
        case.say(Verb::Approve, "p-0 unassigned").expect("the gate opens");
        assert_eq!(case.settle(), after, "{value}");
    }
}

/// Runs are forgotten after a while, and what protected a cluster that no later run has is not.
#[test]
fn an_approval_of_long_ago_still_protects_an_ignored_cluster() {
    let mut case = Case::rolled_out(&[]);
    case.commit(&[("d.yaml", member("d", "four")), ("s.yaml", strategy("Ignore"))]);
    for index in 1..15 {
        case.content(&index.to_string());
        case.settle();
        case.say(Verb::Approve, &format!("p-{index} one")).expect("the gate opens");
        assert_eq!(case.settle(), format!("a{index} b{index} c{index} d0"));
    }
    assert!(case.state.runs.get("p-0").is_none(), "the run that had it is forgotten");
    case.commit(&[("d.yaml", member("d", "one"))]);
    assert_eq!(case.settle(), "a14 b14 c14 d0");
    case.say(Verb::Approve, "p-14-2 one").expect("somebody is asked");
    case.settle();
    assert_eq!(case.places(), "a14 b14 c14 d14");
}
