//! Which run answers for a cluster: the newest that has reached it, and no older one.

use super::*;

/// Everybody but `b` is at content 2; two runs found `b` offline.
fn deferred_twice() -> Story {
    let mut story = Story::of(&[("s.yaml", ONE_STAGE.to_owned())]);
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    story.goes("b", false);
    for (content, places) in [("1", "a1 b0 c1 d1"), ("2", "a2 b0 c2 d2")] {
        story.content(content);
        assert_eq!(story.settle(), places);
    }
    assert_eq!(story.clusters_of("p-1"), "a Succeeded, b Skipped, c Succeeded, d Succeeded", "it is p-2's");
    story
}

#[test]
fn an_older_deferral_hides_no_cluster_from_a_follow_up_run() {
    let mut story = deferred_twice();
    story.goes("b", true);
    assert_eq!(story.settle(), "a2 b2 c2 d2");
    story.commit(&[("p.yaml", forced())]);
    story.settle();
    assert_eq!(story.clusters_of("p-2-2"), "a Succeeded, b Succeeded, c Succeeded, d Succeeded");
}

#[test]
fn a_deferred_cluster_that_left_and_joins_again_gets_a_run() {
    let mut story = deferred_twice();
    story.commit(&[("b.yaml", String::new())]);
    assert_eq!(story.settle(), "a2 c2 d2");
    story.goes("b", true);
    story.commit(&[("b.yaml", member("b", "two"))]);
    assert_eq!(story.settle(), "a2 b2 c2 d2");
}

#[test]
fn an_older_removal_hides_none_either() {
    let mut story = Story::of(&[("p.yaml", placement(UNGUARDED)), ("s.yaml", ONE_STAGE.to_owned())]);
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    story.goes("d", false);
    story.commit(&[("p.yaml", fixed(UNGUARDED, "a, b, c"))]);
    assert_eq!(story.settle(), "a0 b0 c0 d0?");
    story.content("1");
    assert_eq!(story.settle(), "a1 b1 c1 d0?", "two runs were to remove it");
    story.commit(&[("d.yaml", String::new())]);
    assert_eq!(story.settle(), "a1 b1 c1");
    story.goes("d", true);
    story.commit(&[("d.yaml", member("d", "three")), ("p.yaml", fixed(UNGUARDED, "a, b, c, d"))]);
    assert_eq!(story.settle(), "a1 b1 c1 d1");
    story.commit(&[("p.yaml", fixed(UNGUARDED, "a, b, c"))]);
    assert_eq!(story.settle(), "a1 b1 c1");
}

#[test]
fn what_was_to_be_tried_again_is_not_taken_back_by_an_older_run() {
    let tolerant = "gitfleet.io/staged-update-strategy: s, gitfleet.io/max-failures: '1'";
    let mut story = Story::of(&[("p.yaml", placement(tolerant)), ("s.yaml", ONE_STAGE.to_owned())]);
    story.settle();
    story.manner("b", Manner::Refuses);
    story.goes("c", false);
    story.content("1");
    assert_eq!(story.settle(), "a1 b1 c0 d1");
    story.say(Verb::Pause, "p").expect("it goes");
    story.say(Verb::Retry, "p").expect("b failed");
    story.settle();
    story.manner("b", Manner::Well);
    story.content("2");
    story.say(Verb::Resume, "p").expect("it is paused");
    assert_eq!(story.settle(), "a2 b2 c0 d2");
    let starts = story.journal.iter().filter(|line| *line == "RolloutStarted b").count();
    assert_eq!(starts, 3, "once for each snapshot: {:?}", story.journal);
}
