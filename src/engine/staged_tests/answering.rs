//! Which run answers for a cluster: the newest that has reached it, and no older one.

use super::*;

/// Everybody but `b` is at content 2; two runs found `b` offline.
fn deferred_twice() -> Case {
    let mut case = Case::of(&[("s.yaml", ONE_STAGE.to_owned())]);
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.goes("b", false);
    for (content, places) in [("1", "a1 b0 c1 d1"), ("2", "a2 b0 c2 d2")] {
        case.content(content);
        assert_eq!(case.settle(), places);
    }
    assert_eq!(case.clusters_of("p-1"), "a Succeeded, b Skipped, c Succeeded, d Succeeded", "it is p-2's");
    case
}

#[test]
fn an_older_deferral_hides_no_cluster_from_a_follow_up_run() {
    let mut case = deferred_twice();
    case.goes("b", true);
    assert_eq!(case.settle(), "a2 b2 c2 d2");
    case.commit(&[("p.yaml", forced())]);
    case.settle();
    assert_eq!(case.clusters_of("p-2-2"), "a Succeeded, b Succeeded, c Succeeded, d Succeeded");
}

#[test]
fn a_deferred_cluster_that_left_and_joins_again_gets_a_run() {
    let mut case = deferred_twice();
    case.commit(&[("b.yaml", String::new())]);
    assert_eq!(case.settle(), "a2 c2 d2");
    case.goes("b", true);
    case.commit(&[("b.yaml", member("b", "two"))]);
    assert_eq!(case.settle(), "a2 b2 c2 d2");
}

#[test]
fn an_older_removal_hides_none_either() {
    let mut case = Case::of(&[("p.yaml", placement(UNGUARDED)), ("s.yaml", ONE_STAGE.to_owned())]);
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.goes("d", false);
    case.commit(&[("p.yaml", fixed(UNGUARDED, "a, b, c"))]);
    assert_eq!(case.settle(), "a0 b0 c0 d0?");
    case.content("1");
    assert_eq!(case.settle(), "a1 b1 c1 d0?", "two runs were to remove it");
    case.commit(&[("d.yaml", String::new())]);
    assert_eq!(case.settle(), "a1 b1 c1");
    case.goes("d", true);
    case.commit(&[("d.yaml", member("d", "three")), ("p.yaml", fixed(UNGUARDED, "a, b, c, d"))]);
    assert_eq!(case.settle(), "a1 b1 c1 d1");
    case.commit(&[("p.yaml", fixed(UNGUARDED, "a, b, c"))]);
    assert_eq!(case.settle(), "a1 b1 c1");
}

#[test]
fn what_was_to_be_tried_again_is_not_taken_back_by_an_older_run() {
    let tolerant = "gitfleet.io/staged-update-strategy: s, gitfleet.io/max-failures: '1'";
    let mut case = Case::of(&[("p.yaml", placement(tolerant)), ("s.yaml", ONE_STAGE.to_owned())]);
    case.settle();
    case.manner("b", Manner::Refuses);
    case.goes("c", false);
    case.content("1");
    assert_eq!(case.settle(), "a1 b1 c0 d1");
    case.say(Verb::Pause, "p").expect("it goes");
    case.say(Verb::Retry, "p").expect("b failed");
    case.settle();
    case.manner("b", Manner::Well);
    case.content("2");
    case.say(Verb::Resume, "p").expect("it is paused");
    assert_eq!(case.settle(), "a2 b2 c0 d2");
    let starts = case.journal.iter().filter(|line| *line == "RolloutStarted b").count();
    assert_eq!(starts, 3, "once for each snapshot: {:?}", case.journal);
}
