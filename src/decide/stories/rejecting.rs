//! What a person's no ends, and what goes on.

use super::*;
use crate::model::commands::RefusalReason;

#[test]
fn a_rejected_snapshot_holds_up_nothing_else() {
    let mut story = Story::rolled_out(&[("p.yaml", placement(UNGUARDED))]);
    story.content("1");
    story.settle();
    story.say(Verb::Reject, "p-1 one").expect("she may");
    assert_eq!(story.settle(), "a1 b0 c0 d0");
    story.commit(&[("e.yaml", member("e", "three"))]);
    assert_eq!(story.settle(), "a1 b0 c0 d0 e0", "it gets what succeeded last");
    assert_eq!(story.phases(), "p-0 Succeeded, p-1 Rejected, p-0-2 Succeeded");
    assert_eq!(story.clusters_of("p-0-2"), "e Succeeded", "a stays where the rejected run brought it");
    story.commit(&[("p.yaml", fixed(UNGUARDED, "a, b, c, e"))]);
    assert_eq!(story.settle(), "a1 b0 c0 e0", "what is not picked any more is cleaned up");
    story.commit(&[("p.yaml", fixed(UNGUARDED, "b, c, e"))]);
    assert_eq!(story.settle(), "b0 c0 e0", "wherever it is");
    assert_eq!(story.later(3600), "b0 c0 e0");
    story.say(Verb::Retry, "p").expect("it is held");
    assert_eq!(story.settle(), "b1 c1 e1");
}

#[test]
fn a_rejected_follow_up_run_holds_no_snapshot_and_its_clusters() {
    let mut story = Story::rolled_out(&[]);
    story.commit(&[("e.yaml", member("e", "one")), ("f.yaml", member("f", "two"))]);
    assert_eq!(story.settle(), "a0 b0 c0 d0 e0 f-");
    let said = story.say(Verb::Reject, "p-0-2 one").expect("she may");
    assert_eq!(said, "rejected: p-0-2 ends, and its clusters stay as they are until `gitfleet retry p`");
    assert_eq!(story.settle(), "a0 b0 c0 d0 e0 f-");
    assert_eq!((story.phases().as_str(), &story.state.record.held), ("p-0 Succeeded, p-0-2 Rejected", &None));
    story.commit(&[("g.yaml", member("g", "three"))]);
    assert_eq!(story.settle(), "a0 b0 c0 d0 e0 f- g0", "nobody said no to it");
    assert_eq!(story.clusters_of("p-0-3"), "g Succeeded");
    assert_eq!(
        story.say(Verb::Retry, "p").expect("it was rejected"),
        "what p-0-2 was to do is asked for again by p-0-4"
    );
    assert_eq!(story.settle(), "a0 b0 c0 d0 e0 f- g0");
    assert_eq!(story.clusters_of("p-0-4"), "e Succeeded, f Pending", "its gate is the same, and closed");
    assert_eq!(story.say(Verb::Retry, "p").expect_err("once").reason, RefusalReason::NotPossible);
    story.say(Verb::Approve, "p-0-4 one").expect("the gate opens");
    assert_eq!(story.settle(), "a0 b0 c0 d0 e0 f0 g0");
    story.commit(&[("h.yaml", member("h", "three"))]);
    story.settle();
    assert_eq!(story.clusters_of("p-0-5"), "h Succeeded");
}

/// A placement without the annotation, whose written run `q` of content 1 was rejected.
fn rejected_by_hand() -> Story {
    let mut story = Story::of(&[("p.yaml", placement("")), ("r.yaml", run("r", ""))]);
    story.settle();
    story.say(Verb::Approve, "r one").expect("the gate opens");
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    story.commit(&[("q.yaml", run("q", "")), ("x.yaml", payload("1"))]);
    assert_eq!(story.settle(), "a1 b0 c0 d0");
    story.say(Verb::Reject, "q one").expect("she may");
    assert_eq!(story.later(3600), "a1 b0 c0 d0");
    assert_eq!(story.phases(), "r Succeeded, q Rejected");
    story
}

#[test]
fn retry_begins_a_rejected_written_run_anew() {
    let mut story = rejected_by_hand();
    assert_eq!(story.say(Verb::Retry, "q").expect("it is held"), "snapshot 1 is rolled out again by the run q");
    story.settle();
    assert_eq!(story.phases(), "r Succeeded, q Waiting", "with its gates closed");
    story.say(Verb::Approve, "q one").expect("the gate opens");
    assert_eq!(story.settle(), "a1 b1 c1 d1");
}

#[test]
fn a_written_run_that_names_no_snapshot_waits_while_the_newest_is_held() {
    let mut story = rejected_by_hand();
    story.commit(&[("z.yaml", run("z", ""))]);
    assert_eq!(story.settle(), "a1 b0 c0 d0");
    let message = story.state.runs.get("z").expect("it is written").message.clone();
    assert!(message.contains("gitfleet retry p"), "{message}");
    story.commit(&[("z.yaml", String::new()), ("w.yaml", run("w", ", resourceSnapshotIndex: '1'"))]);
    story.settle();
    story.say(Verb::Approve, "w one").expect("the run that names it begins");
}

#[test]
fn retry_without_a_run_says_what_to_do() {
    let mut story = rejected_by_hand();
    story.commit(&[("q.yaml", String::new())]);
    story.settle();
    let refused = story.say(Verb::Retry, "p").expect_err("nothing would follow");
    assert_eq!(refused.reason, RefusalReason::NotPossible);
    assert!(refused.message.contains("write a run with resourceSnapshotIndex 1"), "{refused}");
    assert!(story.state.record.held.is_some(), "nothing has changed");
}

#[test]
fn retry_begins_a_written_run_anew_that_was_rolled_back() {
    let mut story = Story::of(&[("p.yaml", placement("")), ("s.yaml", ONE_STAGE.to_owned()), ("r.yaml", run("r", ""))]);
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    story.manner("a", Manner::Refuses);
    story.commit(&[("q.yaml", run("q", "")), ("x.yaml", payload("1"))]);
    story.settle();
    assert_eq!(story.phases(), "r Succeeded, q Halted");
    story.manner("a", Manner::Well);
    story.say(Verb::Rollback, "q").expect("0 succeeded");
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    story.say(Verb::Retry, "p").expect("it is held");
    assert_eq!(story.settle(), "a1 b1 c1 d1");
    assert_eq!(story.phases(), "r Succeeded, q-rollback Succeeded, q Succeeded");
}

#[test]
fn the_strategy_narrows_who_may_judge_deletions() {
    let narrowed = STRATEGY
        .replace("metadata: {name: s}", "metadata: {name: s, annotations: {gitfleet.io/approvers: 'user:bob'}}");
    for (document, more) in [(AUTOMATIC, String::new()), ("", run("p-0", ""))] {
        let files = [("p.yaml", placement(document)), ("s.yaml", narrowed.clone()), ("r.yaml", more)];
        let files: Vec<_> = files.into_iter().filter(|(_, text)| !text.is_empty()).collect();
        let mut story = Story::of(&files);
        story.settle();
        story.say_as("bob", Verb::Approve, "p-0 one", None, None).expect("he may");
        assert_eq!(story.settle(), "a0 b0 c0 d0");
        // What git does not have any more was said at the last commit that had it.
        for gone in [&["p.yaml"] as &[&str], &["p.yaml", "s.yaml"]] {
            let removals: Vec<_> = ["p.yaml", "s.yaml"].into_iter().filter(|path| gone.contains(path)).collect();
            story.commit(&removals.into_iter().map(|path| (path, String::new())).collect::<Vec<_>>());
            story.settle();
            let refused = story.say(Verb::Approve, "p deletion").expect_err("she may not");
            assert_eq!(refused.reason, RefusalReason::NotAllowed, "{document}");
        }
        story.say_as("bob", Verb::Approve, "p deletion", None, None).expect("he may");
        assert_eq!(story.settle(), "");
    }
}

#[test]
fn a_rejected_follow_up_is_not_asked_for_again_while_something_newer_is_under_way() {
    let mut story = Story::rolled_out(&[]);
    story.commit(&[("p.yaml", forced())]);
    story.settle();
    story.say(Verb::Reject, "p-0-2 one").expect("she may");
    story.content("1");
    assert_eq!(story.settle(), "a1 b0 c0 d0");
    drop(story.say(Verb::Retry, "p"));
    story.settle();
    story.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(story.settle(), "a1 b1 c1 d1");
    assert_eq!(story.phases(), "p-0 Succeeded, p-0-2 Rejected, p-1 Succeeded");
}
