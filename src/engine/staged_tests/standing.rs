//! What the journal says when a rollout halts, holds deletions or is done: once each time.

use super::*;

const NOTED: [&str; 4] = ["RolloutHalted", "RolloutSucceeded", "DeletionsHeld", "RolledBack"];

/// Returns these entries since this was asked last.
fn noted(case: &mut Case) -> Vec<String> {
    let told = std::mem::take(&mut case.journal);
    told.into_iter().filter(|event| NOTED.contains(&event.as_str())).collect()
}

/// Lets the rollout get as far as it can: people approve, and time passes.
fn finish(case: &mut Case) {
    case.settle();
    // A rolling update has no gate, and a halted run waits at none.
    let _ = case.say(Verb::Approve, "p one");
    case.later(600);
    case.later(600);
}

#[test]
fn a_rollout_that_halts_or_is_done_says_so_once() {
    let rolling = testkit::trees::placement("p", "", "");
    for document in [rolling, placement(AUTOMATIC)] {
        let mut case = Case::of(&[("p.yaml", document.clone())]);
        finish(&mut case);
        assert_eq!(noted(&mut case), ["RolloutSucceeded"], "{document}");
        case.manner("a", Manner::Refuses);
        case.content("1");
        finish(&mut case);
        assert_eq!(noted(&mut case), ["RolloutHalted"], "{document}");
        case.manner("a", Manner::Well);
        case.work();
        finish(&mut case);
        finish(&mut case);
        assert_eq!(noted(&mut case), ["RolloutSucceeded"], "{document}");
    }
}

#[test]
fn a_rollback_says_so_whatever_moves_the_clusters() {
    let wish = "gitfleet.io/on-failure: Rollback";
    let rolling = testkit::trees::placement("p", wish, "");
    for document in [rolling, placement(&format!("{AUTOMATIC}, {wish}"))] {
        let mut case = Case::of(&[("p.yaml", document.clone())]);
        finish(&mut case);
        case.journal.clear();
        case.manner("a", Manner::Refuses);
        case.content("1");
        case.settle();
        assert!(noted(&mut case).contains(&"RolledBack".to_owned()), "{document}");
    }
}

#[test]
fn deletions_that_wait_say_so_once() {
    let mut case = Case::of(&[("p.yaml", testkit::trees::placement("p", "", ""))]);
    finish(&mut case);
    case.journal.clear();
    case.commit(&[("p.yaml", String::new())]);
    case.settle();
    case.later(600);
    assert_eq!(noted(&mut case), ["DeletionsHeld"]);
}
