//! Clusters that leave, join, go offline or are relabelled before, during and after their turn.

use super::guard::with_volumes;
use super::*;

/// Waits after the first stage with content 1.
fn before_b() -> Case {
    let mut case = Case::rolled_out(&[]);
    case.content("1");
    assert_eq!(case.settle(), "a1 b0 c0 d0");
    case
}

#[test]
fn a_cluster_that_leaves_is_skipped() {
    let gone = || [("b.yaml", String::new())];
    let mut before = before_b();
    before.commit(&gone());
    before.settle();
    before.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(before.settle(), "a1 c1 d1");
    assert!(before.clusters_of("p-1").contains("b Skipped"));

    let mut during = before_b();
    during.manner("b", Manner::Slow);
    during.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(during.settle(), "a1 b1 c0 d0");
    during.commit(&gone());
    assert_eq!(during.settle(), "a1 c1 d1");
    assert!(during.clusters_of("p-1").contains("b Skipped"));

    let mut after = before_b();
    after.say(Verb::Approve, "p-1 one").expect("the gate opens");
    after.settle();
    after.commit(&gone());
    assert_eq!(after.settle(), "a1 c1 d1");
    assert_eq!(after.phases(), "p-0 Succeeded, p-1 Succeeded");
}

#[test]
fn leaving_the_fleet_is_no_way_round_an_approval() {
    let mut case = Case::of(&[("p.yaml", placement("")), ("r.yaml", run("r", ""))]);
    case.settle();
    case.say(Verb::Approve, "r one").expect("the gate opens");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.commit(&[("d.yaml", String::new()), ("r.yaml", String::new())]);
    assert_eq!(case.settle(), "a0 b0 c0");
    case.commit(&[("d.yaml", member("d", "one")), ("q.yaml", run("q", "")), ("x.yaml", payload("1"))]);
    assert_eq!(case.settle(), "a0 b0 c0 d-", "an approval stood before d");
    case.say(Verb::Approve, "q one").expect("it is asked once more");
    assert_eq!(case.settle(), "a1 b0 c0 d1");
}

/// `e` leaves stage one, where no approval stands before it, and comes back in the last one.
#[test]
fn a_stage_without_gates_is_no_way_round_those_of_a_later_one() {
    let rows = [("two", "Waiting", "a0 b0 c0 d0 e-"), ("three", "Succeeded", "a0 b0 c0 d0 e0")];
    for (stage_of_d, phase, places) in rows {
        let mut case = Case::of(&[("d.yaml", member("d", stage_of_d)), ("e.yaml", member("e", "one"))]);
        case.manner("a", Manner::Slow);
        assert_eq!(case.settle(), "a0 b- c- d- e-");
        case.commit(&[("e.yaml", String::new())]);
        case.manner("a", Manner::Well);
        case.settle();
        case.say(Verb::Approve, "p-0 one").expect("the gate opens");
        assert_eq!(case.settle(), "a0 b0 c0 d0");
        case.commit(&[("e.yaml", member("e", "three"))]);
        assert_eq!(case.settle(), places, "d is in stage {stage_of_d}");
        assert_eq!(case.phases(), format!("p-0 Succeeded, p-0-2 {phase}"));
        if phase == "Waiting" {
            case.say(Verb::Approve, "p-0-2 one").expect("an approval is required before stage three");
            assert_eq!(case.settle(), "a0 b0 c0 d0 e0");
        }
    }
}

#[test]
fn an_approval_does_not_cover_a_cluster_that_had_left() {
    for (stage, at_once, phase) in [("one", "a1 b- c1 d1", "Waiting"), ("two", "a1 b1 c1 d1", "Succeeded")] {
        let mut case = before_b();
        case.commit(&[("b.yaml", String::new())]);
        case.settle();
        case.say(Verb::Approve, "p-1 one").expect("the gate opens, for c and d");
        assert_eq!(case.settle(), "a1 c1 d1");
        case.commit(&[("b.yaml", member("b", stage))]);
        assert_eq!(case.settle(), at_once, "it comes back into stage {stage}");
        assert!(case.phases().ends_with(&format!("p-1-2 {phase}")), "{stage}: {}", case.phases());
        if phase == "Waiting" {
            case.say(Verb::Approve, "p-1-2 one").expect("it is asked once more");
            assert_eq!(case.settle(), "a1 b1 c1 d1");
        }
    }
}

#[test]
fn a_cluster_that_joins_is_taken_by_a_follow_up_run() {
    let joins = || [("e.yaml", member("e", "two"))];
    let mut case = before_b();
    case.commit(&joins());
    assert_eq!(case.settle(), "a1 b0 c0 d0 e-", "membership is frozen");
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    case.settle();
    assert_eq!(
        case.phases(),
        "p-0 Succeeded, p-1 Succeeded, p-1-2 Succeeded",
        "its first stage is empty, and asks nobody"
    );
    assert_eq!(case.places(), "a1 b1 c1 d1 e1");
    assert_eq!(case.clusters_of("p-1-2"), "e Succeeded", "only clusters that are not right");
    case.commit(&[("f.yaml", member("f", "one"))]);
    assert_eq!(case.settle(), "a1 b1 c1 d1 e1 f1");
    assert!(case.phases().ends_with("p-1-3 Waiting"), "an approval of its own: {}", case.phases());
}

#[test]
fn a_cluster_that_is_relabelled_stays_in_its_stage() {
    let mut case = before_b();
    case.commit(&[("d.yaml", member("d", "one"))]);
    assert_eq!(case.settle(), "a1 b0 c0 d0");
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b1 c1 d1");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Succeeded");
}

#[test]
fn a_cluster_that_is_dropped_is_cleaned_up_by_a_follow_up_run() {
    let mut case = Case::rolled_out(&[("p.yaml", placement(UNGUARDED))]);
    case.commit(&[("p.yaml", fixed(UNGUARDED, "a, b, c"))]);
    assert_eq!(case.settle(), "a0 b0 c0");
    assert_eq!(case.phases(), "p-0 Succeeded, p-0-2 Succeeded", "no cluster moves, so nobody is asked");
    assert_eq!(case.clusters_of("p-0-2"), "d Succeeded");
}

#[test]
fn a_guarded_clean_up_waits_for_a_person() {
    let mut case = Case::rolled_out(&[]);
    case.commit(&[("p.yaml", fixed(AUTOMATIC, "a"))]);
    assert_eq!(case.settle(), "a0 b0? c0? d0?");
    assert_eq!(case.phases(), "p-0 Succeeded, p-0-2 Waiting");
    case.say(Verb::Approve, "p deletion").expect("the gate opens");
    assert_eq!(case.settle(), "a0");
    assert_eq!(case.phases(), "p-0 Succeeded, p-0-2 Succeeded");
}

#[test]
fn an_offline_cluster_is_deferred_and_caught_up() {
    let mut case = before_b();
    case.goes("b", false);
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b0 c1 d1", "it holds nobody up");
    assert!(case.clusters_of("p-1").contains("b Deferred"));
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Succeeded");
    assert_eq!(case.state.record.last_succeeded, Some(0));
    case.goes("b", true);
    assert_eq!(case.settle(), "a1 b1 c1 d1");
    assert!(case.clusters_of("p-1").contains("b Succeeded"));
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Succeeded", "no run, and no gate, of its own");
}

#[test]
fn a_stage_of_which_nobody_answers_waits() {
    let mut case = Case::rolled_out(&[]);
    case.goes("a", false);
    case.content("1");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Updating");
    case.goes("a", true);
    assert_eq!(case.settle(), "a1 b0 c0 d0");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Waiting");
}

#[test]
fn a_cluster_lost_after_its_start_fails_by_its_deadline() {
    let mut case = before_b();
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    case.decide();
    case.goes("b", false);
    assert_eq!(case.settle(), "a1 b1 c0 d0");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Updating");
    assert_eq!(case.later(601), "a1 b1 c0 d0");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Halted");
    case.goes("b", true);
    assert_eq!(case.settle(), "a1 b1 c1 d1", "it did what it was told in the end");
}

#[test]
fn a_cluster_that_returns_during_a_newer_run_gets_what_its_stage_has_reached() {
    let mut case = before_b();
    case.goes("b", false);
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    case.settle();
    case.content("2");
    assert_eq!(case.settle(), "a2 b0 c1 d1");
    case.goes("b", true);
    assert_eq!(case.settle(), "a2 b1 c1 d1", "stage two has reached snapshot 1");
    case.say(Verb::Approve, "p-2 one").expect("the gate opens");
    assert_eq!(case.settle(), "a2 b2 c2 d2");
}

#[test]
fn a_cluster_offline_after_its_turn_is_as_it_was_seen() {
    let mut case = before_b();
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    case.settle();
    case.goes("b", false);
    assert_eq!(case.settle(), "a1 b1 c1 d1");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Succeeded");
}

/// A MemberCluster of a stage that is suspended.
fn suspended(name: &str, stage: &str) -> String {
    let more = format!("labels: {{stage: {stage}}}\n  annotations: {{gitfleet.io/suspended: 'true'}}");
    testkit::trees::member(name, &more)
}

#[test]
fn a_suspended_cluster_counts_as_offline() {
    let suspends = || [("b.yaml", suspended("b", "two"))];
    let resumes = || [("b.yaml", member("b", "two"))];
    let mut before = before_b();
    before.commit(&suspends());
    before.settle();
    before.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(before.settle(), "a1 b0 c1 d1", "it holds nobody up");
    assert!(before.clusters_of("p-1").contains("b Deferred"));
    before.commit(&resumes());
    assert_eq!(before.settle(), "a1 b1 c1 d1");

    let mut during = before_b();
    during.manner("b", Manner::Slow);
    during.say(Verb::Approve, "p-1 one").expect("the gate opens");
    during.settle();
    during.commit(&suspends());
    assert_eq!(during.settle(), "a1 b1 c0 d0", "it was told before");
    assert_eq!(during.later(601), "a1 b1 c0 d0");
    assert_eq!(during.phases(), "p-0 Succeeded, p-1 Halted", "by its deadline");
    during.manner("b", Manner::Well);
    during.commit(&resumes());
    assert_eq!(during.settle(), "a1 b1 c1 d1");

    let mut after = before_b();
    after.say(Verb::Approve, "p-1 one").expect("the gate opens");
    after.settle();
    after.commit(&suspends());
    assert_eq!((after.settle().as_str(), after.phases().as_str()), ("a1 b1 c1 d1", "p-0 Succeeded, p-1 Succeeded"));
}

#[test]
fn a_cluster_that_is_evicted_during_a_run_is_taken_again() {
    let evict = || ("v.yaml", testkit::trees::eviction("v", "p", "b"));
    let mut before = before_b();
    before.commit(&[evict()]);
    before.settle();
    before.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(before.settle(), "a1 b1 c1 d1");

    let mut during = before_b();
    during.manner("b", Manner::Slow);
    during.say(Verb::Approve, "p-1 one").expect("the gate opens");
    during.settle();
    during.commit(&[evict()]);
    during.manner("b", Manner::Well);
    assert_eq!(during.settle(), "a1 b1 c1 d1");

    let mut after = before_b();
    after.say(Verb::Approve, "p-1 one").expect("the gate opens");
    after.settle();
    after.commit(&[evict()]);
    assert_eq!(after.settle(), "a1 b1 c1 d1", "by a follow-up run");
}

#[test]
fn an_evicted_cluster_does_not_fail_while_its_removal_waits_for_a_person() {
    let mut case = Case::of(&[("x.yaml", with_volumes("0", &["v"]))]);
    case.settle();
    case.say(Verb::Approve, "p-0 one").expect("the gate opens");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.content("1");
    case.manner("b", Manner::Slow);
    case.settle();
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b1 c0 d0");
    case.commit(&[("v.yaml", testkit::trees::eviction("v", "p", "b"))]);
    assert_eq!(case.settle(), "a1 b- b1x c0 d0", "nobody approved that the volume goes");
    assert_eq!(case.later(601), "a1 b- b1x c0 d0");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Updating", "nothing was delivered, so nothing is late");
    case.say(Verb::Approve, "p deletion").expect("it waits");
    assert_eq!(case.settle(), "a1 b1 c0 d0");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Updating", "its time begins now");
    case.manner("b", Manner::Well);
    assert_eq!(case.settle(), "a1 b1 c1 d1");
}

#[test]
fn a_placement_that_comes_back_continues() {
    let mut case = before_b();
    case.commit(&[("p.yaml", String::new())]);
    assert_eq!(case.settle(), "a1? b0? c0? d0?", "a person must look first");
    case.commit(&[("p.yaml", placement(AUTOMATIC))]);
    assert_eq!((case.settle().as_str(), case.phases().as_str()), ("a1 b0 c0 d0", "p-0 Succeeded, p-1 Waiting"));
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b1 c1 d1");
}

#[test]
fn a_joiner_that_does_not_answer_holds_up_no_newer_snapshot() {
    for annotations in [AUTOMATIC, "gitfleet.io/staged-update-strategy: s, gitfleet.io/when-superseded: Queue"] {
        let mut case = Case::rolled_out(&[("p.yaml", placement(annotations))]);
        case.goes("e", false);
        case.commit(&[("e.yaml", member("e", "three"))]);
        case.settle();
        assert_eq!(case.phases(), "p-0 Succeeded, p-0-2 Updating", "it waits for e");
        case.content("1");
        assert_eq!(case.settle(), "a1 b0 c0 d0 e-", "{annotations}");
    }
}

#[test]
fn a_cluster_that_joins_during_its_stages_turn_waits_for_a_run_of_its_own() {
    let mut case = before_b();
    case.manner("b", Manner::Slow);
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b1 c0 d0");
    case.commit(&[("e.yaml", member("e", "two"))]);
    assert_eq!(case.settle(), "a1 b1 c0 d0 e-", "membership is frozen");
    case.manner("b", Manner::Well);
    assert_eq!(case.settle(), "a1 b1 c1 d1 e1");
    assert_eq!(case.clusters_of("p-1-2"), "e Succeeded");
}

#[test]
fn joiners_and_leavers_of_a_rolling_update_are_those_of_the_moment() {
    let document =
        testkit::trees::placement("p", "", ", strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1}}");
    let mut case = Case::of(&[("p.yaml", document)]);
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.manner("a", Manner::Slow);
    case.content("1");
    assert_eq!(case.settle(), "a1 b0 c0 d0", "one at a time");
    case.commit(&[("d.yaml", String::new()), ("e.yaml", member("e", "one"))]);
    assert_eq!(case.settle(), "a1 b0 c0 e1", "a new cluster takes nothing away");
    case.manner("a", Manner::Well);
    assert_eq!(case.settle(), "a1 b1 c1 e1");
}

#[test]
fn an_eviction_does_not_wait_for_the_end_of_a_pause() {
    let mut case = Case::of(&[("p.yaml", testkit::trees::placement("p", "", ""))]);
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.say(Verb::Pause, "p").expect("it goes");
    case.commit(&[("v.yaml", testkit::trees::eviction("v", "p", "b"))]);
    assert_eq!(case.settle(), "a0 b- c0 d0", "it is picked again, and comes back when the pause ends");
    case.say(Verb::Resume, "p").expect("it goes");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
}
