//! What a person's no ends, and what continues.

use super::*;
use model::commands::RefusalReason;

#[test]
fn a_rejected_snapshot_holds_up_nothing_else() {
    let mut case = Case::rolled_out(&[("p.yaml", placement(UNGUARDED))]);
    case.content("1");
    case.settle();
    case.say(Verb::Reject, "p-1 one").expect("she may");
    assert_eq!(case.settle(), "a1 b0 c0 d0");
    case.commit(&[("e.yaml", member("e", "three"))]);
    assert_eq!(case.settle(), "a1 b0 c0 d0 e0", "it gets what succeeded last");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Rejected, p-0-2 Succeeded");
    assert_eq!(case.clusters_of("p-0-2"), "e Succeeded", "a stays where the rejected run brought it");
    case.commit(&[("p.yaml", fixed(UNGUARDED, "a, b, c, e"))]);
    assert_eq!(case.settle(), "a1 b0 c0 e0", "what is not picked any more is cleaned up");
    case.commit(&[("p.yaml", fixed(UNGUARDED, "b, c, e"))]);
    assert_eq!(case.settle(), "b0 c0 e0", "wherever it is");
    assert_eq!(case.later(3600), "b0 c0 e0");
    case.say(Verb::Retry, "p").expect("it is held");
    assert_eq!(case.settle(), "b0 c0 e0", "the gate that protected them");
    case.say(Verb::Approve, "p one").expect("it waits");
    assert_eq!(case.settle(), "b1 c1 e1");
}

#[test]
fn a_rejected_follow_up_run_holds_no_snapshot_and_its_clusters() {
    let mut case = Case::rolled_out(&[]);
    case.commit(&[("e.yaml", member("e", "one")), ("f.yaml", member("f", "two"))]);
    assert_eq!(case.settle(), "a0 b0 c0 d0 e0 f-");
    let said = case.say(Verb::Reject, "p-0-2 one").expect("she may");
    assert_eq!(said, "rejected: p-0-2 ends, and its clusters stay as they are until `gitfleet retry p`");
    assert_eq!(case.settle(), "a0 b0 c0 d0 e0 f-");
    assert_eq!((case.phases().as_str(), &case.state.record.held), ("p-0 Succeeded, p-0-2 Rejected", &None));
    case.commit(&[("g.yaml", member("g", "three"))]);
    assert_eq!(case.settle(), "a0 b0 c0 d0 e0 f- g0", "nobody said no to it");
    assert_eq!(case.clusters_of("p-0-3"), "g Succeeded");
    assert_eq!(case.say(Verb::Retry, "p").expect("it was rejected"), "p-0-4 asks again for what p-0-2 was to do");
    assert_eq!(case.settle(), "a0 b0 c0 d0 e0 f- g0");
    assert_eq!(case.clusters_of("p-0-4"), "e Succeeded, f Pending", "its gate is the same, and closed");
    assert_eq!(case.say(Verb::Retry, "p").expect_err("once").reason, RefusalReason::NotPossible);
    case.say(Verb::Approve, "p-0-4 one").expect("the gate opens");
    assert_eq!(case.settle(), "a0 b0 c0 d0 e0 f0 g0");
    case.commit(&[("h.yaml", member("h", "three"))]);
    case.settle();
    assert_eq!(case.clusters_of("p-0-5"), "h Succeeded");
}

/// A placement without the annotation, whose written run `q` of content 1 was rejected.
fn rejected_by_hand() -> Case {
    let mut case = Case::of(&[("p.yaml", placement("")), ("r.yaml", run("r", ""))]);
    case.settle();
    case.say(Verb::Approve, "r one").expect("the gate opens");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.commit(&[("q.yaml", run("q", "")), ("x.yaml", payload("1"))]);
    assert_eq!(case.settle(), "a1 b0 c0 d0");
    case.say(Verb::Reject, "q one").expect("she may");
    assert_eq!(case.later(3600), "a1 b0 c0 d0");
    assert_eq!(case.phases(), "r Succeeded, q Rejected");
    case
}

#[test]
fn retry_begins_a_rejected_written_run_again() {
    let mut case = rejected_by_hand();
    assert_eq!(case.say(Verb::Retry, "q").expect("it is held"), "snapshot 1 is rolled out again by the run q");
    case.settle();
    assert_eq!(case.phases(), "r Succeeded, q Waiting", "with its gates closed");
    case.say(Verb::Approve, "q one").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b1 c1 d1");
}

#[test]
fn a_written_run_that_names_no_snapshot_waits_while_the_newest_is_held() {
    let mut case = rejected_by_hand();
    case.commit(&[("z.yaml", run("z", ""))]);
    assert_eq!(case.settle(), "a1 b0 c0 d0");
    let message = case.state.runs.get("z").expect("it is written").message.clone();
    assert!(message.contains("gitfleet retry p"), "{message}");
    case.commit(&[("z.yaml", String::new()), ("w.yaml", run("w", ", resourceSnapshotIndex: '1'"))]);
    case.settle();
    case.say(Verb::Approve, "w one").expect("the run that names it begins");
}

#[test]
fn retry_without_a_run_says_what_to_do() {
    let mut case = rejected_by_hand();
    case.commit(&[("q.yaml", String::new())]);
    case.settle();
    let refused = case.say(Verb::Retry, "p").expect_err("nothing would follow");
    assert_eq!(refused.reason, RefusalReason::NotPossible);
    assert!(refused.message.contains("write a run with resourceSnapshotIndex 1"), "{refused}");
    assert!(case.state.record.held.is_some(), "nothing has changed");
}

#[test]
fn retry_begins_a_written_run_again_that_was_rolled_back() {
    let mut case = Case::of(&[("p.yaml", placement("")), ("s.yaml", ONE_STAGE.to_owned()), ("r.yaml", run("r", ""))]);
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.manner("a", Manner::Refuses);
    case.commit(&[("q.yaml", run("q", "")), ("x.yaml", payload("1"))]);
    case.settle();
    assert_eq!(case.phases(), "r Succeeded, q Halted");
    case.manner("a", Manner::Well);
    case.say(Verb::Rollback, "q").expect("0 succeeded");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.say(Verb::Retry, "p").expect("it is held");
    assert_eq!(case.settle(), "a1 b1 c1 d1");
    assert_eq!(case.phases(), "r Succeeded, q-rollback Succeeded, q Succeeded");
}

#[test]
fn the_strategy_narrows_who_may_judge_deletions() {
    let narrowed = STRATEGY
        .replace("metadata: {name: s}", "metadata: {name: s, annotations: {gitfleet.io/approvers: 'user:bob'}}");
    for (document, more) in [(AUTOMATIC, String::new()), ("", run("p-0", ""))] {
        let files = [("p.yaml", placement(document)), ("s.yaml", narrowed.clone()), ("r.yaml", more)];
        let files: Vec<_> = files.into_iter().filter(|(_, text)| !text.is_empty()).collect();
        let mut case = Case::of(&files);
        case.settle();
        case.say_as("bob", Verb::Approve, "p-0 one", None, None).expect("he may");
        assert_eq!(case.settle(), "a0 b0 c0 d0");
        // What git does not have any more was said at the last commit that had it.
        for gone in [&["p.yaml"] as &[&str], &["p.yaml", "s.yaml"]] {
            let removals: Vec<_> = ["p.yaml", "s.yaml"].into_iter().filter(|path| gone.contains(path)).collect();
            case.commit(&removals.into_iter().map(|path| (path, String::new())).collect::<Vec<_>>());
            case.settle();
            let refused = case.say(Verb::Approve, "p deletion").expect_err("she may not");
            assert_eq!(refused.reason, RefusalReason::NotAllowed, "{document}");
        }
        case.say_as("bob", Verb::Approve, "p deletion", None, None).expect("he may");
        assert_eq!(case.settle(), "");
    }
}

#[test]
fn a_rejected_follow_up_is_not_asked_for_again_while_something_newer_is_under_way() {
    let mut case = Case::rolled_out(&[]);
    case.commit(&[("p.yaml", forced())]);
    case.settle();
    case.say(Verb::Reject, "p-0-2 one").expect("she may");
    case.content("1");
    assert_eq!(case.settle(), "a1 b0 c0 d0");
    drop(case.say(Verb::Retry, "p"));
    case.settle();
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b1 c1 d1");
    assert_eq!(case.phases(), "p-0 Succeeded, p-0-2 Rejected, p-1 Succeeded");
}
