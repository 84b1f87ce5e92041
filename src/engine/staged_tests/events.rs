//! What the journal says of a rollout, and how often.

use super::*;
use model::api::condition::find_condition;
use model::conditions::ConditionType;
use model::records::Binding;

/// Returns the placement's events since this was asked last.
fn events(case: &mut Case) -> Vec<String> {
    let told = std::mem::take(&mut case.journal);
    told.into_iter().filter(|event| event.starts_with("Placement")).collect()
}

const ALL: [&str; 5] = [
    "PlacementRolloutStarted",
    "PlacementOverriddenSucceeded",
    "PlacementWorkSynchronized",
    "PlacementApplied",
    "PlacementRolloutCompleted",
];

/// Returns the events of a whole rollout of a snapshot.
fn all(snapshot: &str) -> Vec<String> {
    ALL.map(|event| format!("{event} {snapshot}")).to_vec()
}

#[test]
fn each_rollout_says_once_how_far_it_is() {
    let rolling = testkit::trees::placement("p", "", "");
    for document in [rolling, placement(AUTOMATIC)] {
        let mut case = Case::of(&[("p.yaml", document.clone())]);
        for content in ["0", "1"] {
            case.content(content);
            case.settle();
            if document.contains("External") {
                case.say(Verb::Approve, "p one").expect("the gate opens");
                case.settle();
            }
            case.later(600);
            case.later(600);
            assert_eq!(events(&mut case), all(content), "{document}");
        }
        for manner in [Manner::Slow, Manner::Well, Manner::Slow, Manner::Well] {
            case.manner("a", manner);
            case.work();
            case.settle();
        }
        assert_eq!(events(&mut case), [""; 0], "{document}: a cluster that comes and goes is no rollout");
    }
}

#[test]
fn what_no_cluster_holds_is_not_announced() {
    let gated = STRATEGY.replace("afterStageTasks", "beforeStageTasks");
    let mut case = Case::of(&[("s.yaml", gated)]);
    for content in ["0", "1"] {
        case.content(content);
        case.settle();
        assert_eq!(events(&mut case), [""; 0], "{content}: it waits for a person");
        case.say(Verb::Approve, "p one").expect("the gate opens");
        case.settle();
        assert_eq!(events(&mut case), all(content));
    }
    case.say_as("ann", Verb::Rollback, "p", None, Some(0)).expect("it is kept");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    assert_eq!(events(&mut case), all("0"), "where the clusters are, not what they left");
}

/// Returns `RolloutStarted` of the placement, then of each cluster, with the time of its last change.
fn starts(case: &Case) -> String {
    let type_ = ConditionType::RolloutStarted;
    let of_placement = ConditionType::ClusterResourcePlacementRolloutStarted;
    let placement = find_condition(&case.state.record.conditions, &of_placement).expect("it is scheduled");
    let of_cluster = |binding: &Binding| {
        let condition = find_condition(&binding.conditions, &type_).expect("each binding has one");
        format!("{} {:?} {}", binding.cluster, condition.status, condition.last_transition_time.as_second())
    };
    let mut clusters: Vec<String> = case.state.bindings().map(of_cluster).collect();
    clusters.sort();
    format!("{:?} {}; {}", placement.status, placement.reason.as_str(), clusters.join(", "))
}

#[test]
fn w7_a_cluster_that_waits_for_its_turn_has_not_started() {
    let one = ", strategy: {rollingUpdate: {maxUnavailable: 1, unavailablePeriodSeconds: 1}}";
    let mut case = Case::of(&[("p.yaml", testkit::trees::placement("p", "", one))]);
    case.settle();
    case.later(600);
    assert_eq!(starts(&case), "True RolloutStarted; a True 0, b True 0, c True 0, d True 0");
    case.manner("a", Manner::Slow);
    case.content("1");
    case.settle();
    assert_eq!(case.places(), "a1 b0 c0 d0");
    assert_eq!(starts(&case), "False RolloutNotStartedYet; a True 0, b False 600, c False 600, d False 600");
    case.later(5);
    assert_eq!(starts(&case), "False RolloutNotStartedYet; a True 0, b False 600, c False 600, d False 600");
    case.manner("a", Manner::Well);
    case.settle();
    for _ in 0..8 {
        case.later(1);
    }
    assert_eq!(case.places(), "a1 b1 c1 d1");
    assert_eq!(starts(&case), "True RolloutStarted; a True 0, b True 605, c True 605, d True 605");
}

#[test]
fn w7_nobody_waits_for_a_turn_of_a_staged_strategy() {
    let one = ", strategy: {rollingUpdate: {maxUnavailable: 1, unavailablePeriodSeconds: 1}}";
    let mut case = Case::of(&[("p.yaml", testkit::trees::placement("p", "", one))]);
    case.settle();
    case.later(600);
    case.manner("a", Manner::Slow);
    case.content("1");
    case.settle();
    case.commit(&[("p.yaml", placement("")), ("x.yaml", payload("1"))]);
    case.settle();
    assert!(starts(&case).ends_with("b True 600, c True 600, d True 600"), "{}", starts(&case));
}
