//! What the journal says of a rollout, and how often.

use super::*;

/// Returns the placement's events since this was asked last.
fn events(story: &mut Story) -> Vec<String> {
    let told = std::mem::take(&mut story.journal);
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
        let mut story = Story::of(&[("p.yaml", document.clone())]);
        for content in ["0", "1"] {
            story.content(content);
            story.settle();
            if document.contains("External") {
                story.say(Verb::Approve, "p one").expect("the gate opens");
                story.settle();
            }
            story.later(600);
            story.later(600);
            assert_eq!(events(&mut story), all(content), "{document}");
        }
        for manner in [Manner::Slow, Manner::Well, Manner::Slow, Manner::Well] {
            story.manner("a", manner);
            story.work();
            story.settle();
        }
        assert_eq!(events(&mut story), [""; 0], "{document}: a cluster that comes and goes is no rollout");
    }
}

#[test]
fn what_no_cluster_holds_is_not_announced() {
    let gated = STRATEGY.replace("afterStageTasks", "beforeStageTasks");
    let mut story = Story::of(&[("s.yaml", gated)]);
    for content in ["0", "1"] {
        story.content(content);
        story.settle();
        assert_eq!(events(&mut story), [""; 0], "{content}: it waits for a person");
        story.say(Verb::Approve, "p one").expect("the gate opens");
        story.settle();
        assert_eq!(events(&mut story), all(content));
    }
    story.say_as("ann", Verb::Rollback, "p", None, Some(0)).expect("it is kept");
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    assert_eq!(events(&mut story), all("0"), "where the clusters are, not what they left");
}
