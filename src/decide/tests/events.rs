//! What the journal says of a rollout, and how often.

use super::*;

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
    let rolling = crate::decide::fixtures::placement("p", "", "");
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
