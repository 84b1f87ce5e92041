//! Runs by hand and by themselves, from their first decision to their last.

use super::*;
use model::runs::RunPhase;

#[test]
fn a_snapshot_gets_a_run_that_waits_after_its_first_stage() {
    let mut case = Case::of(&[]);
    assert_eq!(case.settle(), "a0 b- c- d-");
    assert_eq!(case.phases(), "p-0 Waiting");
    assert_eq!(case.later(3600), "a0 b- c- d-", "time opens no gate for a person");
    case.say(Verb::Approve, "p-0 one").expect("the gate opens");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    assert_eq!(case.phases(), "p-0 Succeeded");
    assert!(!case.decide(), "and then silence");
}

#[test]
fn one_cluster_at_a_time_unless_the_stage_says_otherwise() {
    let mut case = Case::rolled_out(&[]);
    case.content("1");
    case.manner("b", Manner::Slow);
    case.settle();
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b1 c0 d0");
    case.manner("b", Manner::Well);
    assert_eq!(case.settle(), "a1 b1 c1 d1");
}

/// A placement without the annotation, with these runs.
fn by_hand(runs: &[&str]) -> Case {
    Case::of(&[("p.yaml", placement("")), ("r.yaml", runs.concat())])
}

#[test]
fn an_external_placement_without_a_run_moves_nothing() {
    let mut case = by_hand(&[]);
    assert_eq!(case.settle(), "a- b- c- d-");
    assert_eq!((case.phases().as_str(), case.state.snapshots.len()), ("", 1), "it has a snapshot");
}

#[test]
fn runs_by_hand() {
    let refused = |reason: &str| Some(reason.to_owned());
    let rows = [
        ("the newest snapshot", run("r", ""), "a0 b- c- d-", "r Waiting", None),
        ("a snapshot by its index", run("r", ", resourceSnapshotIndex: '0'"), "a0 b- c- d-", "r Waiting", None),
        ("an empty index is none", run("r", ", resourceSnapshotIndex: ''"), "a0 b- c- d-", "r Waiting", None),
        (
            "a snapshot that is not there",
            run("r", ", resourceSnapshotIndex: '7'"),
            "a- b- c- d-",
            "r Pending",
            refused("the run r wants snapshot 7, which the placement does not have; it has 0"),
        ),
        ("Initialize written out waits", run("r", ", state: Initialize"), "a- b- c- d-", "r Initialized", None),
        ("Run written out", run("r", ", state: Run"), "a0 b- c- d-", "r Waiting", None),
        ("stopped from the beginning", run("r", ", state: Stop"), "a- b- c- d-", "r Stopped", None),
    ];
    for (name, document, places, phases, refusal) in rows {
        let mut case = by_hand(&[&document]);
        assert_eq!((case.settle().as_str(), case.phases().as_str()), (places, phases), "{name}");
        let run = case.run("r");
        assert_eq!(Some(run.message.clone()).filter(|_| run.refused), refusal, "{name}");
    }
}

#[test]
fn a_missing_strategy_is_said_and_repaired() {
    let mut case = Case::of(&[("s.yaml", String::new())]);
    assert_eq!(case.settle(), "a- b- c- d-");
    let run = case.run("p-0");
    assert!(
        run.refused && run.message.contains("names the ClusterStagedUpdateStrategy s, which the source does not have"),
        "{}",
        run.message
    );
    let mut otherwise = Case::of(&[("s.yaml", String::new())]);
    otherwise.settle();
    case.commit(&[("s.yaml", STRATEGY.to_owned())]);
    assert_eq!((case.settle().as_str(), case.phases().as_str()), ("a0 b- c- d-", "p-0 Waiting"));
    let another = STRATEGY.replace("metadata: {name: s}", "metadata: {name: t}");
    otherwise.commit(&[("s.yaml", another), ("p.yaml", placement("gitfleet.io/staged-update-strategy: t"))]);
    assert_eq!((otherwise.settle().as_str(), otherwise.phases().as_str()), ("a0 b- c- d-", "p-0 Waiting"));
}

#[test]
fn a_cluster_in_two_stages_or_none_moves_nobody() {
    let mut case = Case::of(&[("e.yaml", member("e", "four"))]);
    assert_eq!(case.settle(), "a- b- c- d- e-");
    let run = case.run("p-0");
    assert!(run.refused && run.message.contains(" e"), "{}", run.message);
    case.commit(&[("e.yaml", member("e", "three"))]);
    assert_eq!(case.settle(), "a0 b- c- d- e-", "repaired");

    let everywhere = STRATEGY.replace("{matchLabels: {stage: two}}", "{}");
    let mut case = Case::of(&[("s.yaml", everywhere)]);
    assert_eq!(case.settle(), "a- b- c- d-");
    let run = case.run("p-0");
    assert!(run.refused && run.message.contains("stages one and two both select a;"), "{}", run.message);
}

#[test]
fn a_run_waits_until_the_policy_is_fulfilled() {
    let policy = |n: u32| {
        let more = format!(", policy: {{placementType: PickN, numberOfClusters: {n}}}, strategy: {{type: External}}");
        testkit::trees::placement("p", AUTOMATIC, &more)
    };
    let mut case = Case::of(&[("p.yaml", policy(5))]);
    case.settle();
    assert_eq!(case.phases(), "p-0 Pending");
    assert!(!case.run("p-0").refused, "it waits");
    case.commit(&[("e.yaml", member("e", "three"))]);
    assert_eq!(case.settle(), "a0 b- c- d- e-", "KubeFleet's run would have failed for good");
}

#[test]
fn a_second_run_waits_for_the_first() {
    let mut case = by_hand(&[&run("q", ""), &run("r", "")]);
    case.settle();
    assert_eq!(case.phases(), "q Waiting, r Pending");
    assert_eq!(case.run("r").message, "waits until the run q is finished");
    case.say(Verb::Approve, "q one").expect("the gate opens");
    case.settle();
    assert_eq!(
        case.phases(),
        "q Succeeded, r Waiting",
        "everybody is right already, and its gates are closed all the same"
    );
}

#[test]
fn a_run_that_is_removed_leaves_clusters_as_they_are() {
    let mut case = by_hand(&[&run("r", "")]);
    assert_eq!(case.settle(), "a0 b- c- d-");
    case.commit(&[("r.yaml", String::new())]);
    assert_eq!((case.settle().as_str(), case.phases().as_str()), ("a0 b- c- d-", ""));
    case.commit(&[("r.yaml", run("r", ""))]);
    case.settle();
    assert_eq!(case.phases(), "r Waiting", "the same document again is another run");
}

#[test]
fn stop_and_run_again() {
    let mut case = by_hand(&[&run("r", "")]);
    case.settle();
    case.commit(&[("r.yaml", run("r", ", state: Stop"))]);
    case.settle();
    assert_eq!(case.phases(), "r Stopped");
    case.commit(&[("r.yaml", run("r", ", state: Run"))]);
    case.settle();
    assert_eq!(case.phases(), "r Waiting");
    case.say(Verb::Approve, "r one").expect("the gate opens");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
}

#[test]
fn a_placement_that_moves_by_itself_again_ends_its_runs() {
    let mut case = Case::of(&[]);
    case.settle();
    let rolling = testkit::trees::placement("p", "", "");
    case.commit(&[("p.yaml", rolling)]);
    assert_eq!(case.settle(), "a0 b- c- d-", "a person was to be asked");
    assert_eq!(case.run("p-0").phase, RunPhase::Failed);
    case.say(Verb::Resume, "p").expect("it was paused");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
}

#[test]
fn a_run_for_a_placement_that_moves_by_itself_is_refused() {
    let rolling = testkit::trees::placement("p", "", "");
    let mut case = Case::of(&[("p.yaml", rolling), ("r.yaml", run("r", ""))]);
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    assert!(case.run("r").refused && case.run("r").message.contains("strategy.type External"));
    case.commit(&[("p.yaml", placement(""))]);
    case.settle();
    assert_eq!(case.phases(), "r Waiting", "repaired");
}

#[test]
fn another_apply_strategy_rolls_out_like_content() {
    let mut case = Case::rolled_out(&[]);
    case.commit(&[("p.yaml", forced())]);
    case.settle();
    assert_eq!(case.phases(), "p-0 Succeeded, p-0-2 Waiting", "stage by stage, with approvals of its own");
    let digest = |run: &str| case.run(run).stages[0].digest.clone();
    assert_ne!(digest("p-0"), digest("p-0-2"), "who approved the one has not approved the other");
    case.say(Verb::Approve, "p-0-2 one").expect("the gate opens");
    case.settle();
    assert_eq!(case.phases(), "p-0 Succeeded, p-0-2 Succeeded");
    let is_forced = |b: &model::records::Binding| b.apply_strategy.server_side_apply_config.is_some();
    assert!(case.state.bindings().all(is_forced));
}

#[test]
fn finished_runs_are_forgotten_after_a_while() {
    let mut case = Case::rolled_out(&[]);
    case.commit(&[("s.yaml", STRATEGY.replace(", afterStageTasks: [{type: Approval}]", ""))]);
    for content in 1..30 {
        case.content(&content.to_string());
        case.settle();
        if content == 1 {
            case.say(Verb::Approve, "p-1 two").expect("a person agrees that nobody is asked any more");
            case.settle();
        }
    }
    assert_eq!(case.state.runs.values().count(), 10);
    assert!(case.phases().ends_with("p-29 Succeeded"), "{}", case.phases());
}

#[test]
fn a_run_whose_payload_cannot_be_read_starts_nobody() {
    let queued = placement("gitfleet.io/staged-update-strategy: s, gitfleet.io/when-superseded: Queue");
    let mut case = Case::rolled_out(&[("p.yaml", queued)]);
    for (value, places) in [("1", "a1 b0 c0 d0"), ("2", "a1 b0 c0 d0")] {
        case.content(value);
        assert_eq!(case.settle(), places);
    }
    let payload = case.library.remove(&1).expect("it was there");
    case.state.payloads.remove(&1);
    case.state.unreadable.insert(1);
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!((case.settle().as_str(), case.run("p-1").phase), ("a1 b0 c0 d0", RunPhase::Stopped));
    assert_eq!(case.state.record.unreadable, BTreeSet::from([1]));
    case.state.unreadable.remove(&1);
    case.library.insert(1, payload);
    assert_eq!(case.settle(), "a2 b1 c1 d1", "and the newest follows");
    assert!(case.state.record.unreadable.is_empty());
}

#[test]
fn a_rollback_that_cannot_begin_takes_nothing_back_that_was_queued_before_it() {
    let queued = placement("gitfleet.io/staged-update-strategy: s, gitfleet.io/when-superseded: Queue");
    let mut case = Case::of(&[("p.yaml", queued), ("s.yaml", ONE_STAGE.to_owned())]);
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.manner("a", Manner::Slow);
    for value in ["1", "2"] {
        case.content(value);
        assert_eq!(case.settle(), "a1 b1 c1 d1");
    }
    case.now += SignedDuration::from_secs(1);
    case.say_as("ann", Verb::Rollback, "p", None, Some(0)).expect("it is kept");
    // Its payload turns out to be unreadable, for a while.
    let payload = case.library.remove(&0).expect("it was there");
    case.state.payloads.remove(&0);
    case.state.unreadable.insert(0);
    case.manner("a", Manner::Well);
    assert_eq!(case.settle(), "a2 b2 c2 d2", "a run that cannot begin stops nobody");
    case.state.unreadable.remove(&0);
    case.library.insert(0, payload);
    assert_eq!(case.later(600), "a2 b2 c2 d2", "{}", case.phases());
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 RolledBack, p-1-rollback Superseded, p-2 Succeeded");
}

#[test]
fn a_placement_with_a_strategy_continues_by_itself_when_a_written_run_is_taken_back() {
    // It had taken the place of the snapshot's own run, and is removed before it moved anything.
    let mut case = Case::of(&[("s.yaml", ONE_STAGE.to_owned())]);
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.commit(&[("s.yaml", String::new()), ("x.yaml", payload("1"))]);
    case.settle();
    case.commit(&[("r.yaml", run("r", ", state: Initialize"))]);
    case.settle();
    case.commit(&[("s.yaml", ONE_STAGE.to_owned())]);
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Superseded, r Initialized");
    case.commit(&[("r.yaml", String::new())]);
    assert_eq!(case.settle(), "a1 b1 c1 d1");

    // It is removed with the commit that changes how objects are applied.
    case.commit(&[("r.yaml", run("r", ""))]);
    case.settle();
    case.commit(&[("r.yaml", String::new()), ("p.yaml", forced())]);
    case.settle();
    let strategies = case.state.bindings().map(|binding| binding.apply_strategy.server_side_apply_config);
    assert!(strategies.into_iter().all(|config| config.is_some_and(|config| config.force)), "{}", case.phases());

    // What a person rejected is not asked for again because its document goes.
    let mut case = Case::rolled_out(&[]);
    case.commit(&[("p.yaml", forced()), ("r.yaml", run("r", ""))]);
    case.settle();
    case.say(Verb::Reject, "r one").expect("she may");
    case.settle();
    let before = case.phases();
    case.commit(&[("r.yaml", String::new())]);
    case.settle();
    assert_eq!(case.phases(), before.replace("r Rejected, ", ""), "the follow-up run alone asks");
}

#[test]
fn a_written_run_that_could_not_begin_before_is_the_newest_when_it_does() {
    let mut case = Case::of(&[("s.yaml", ONE_STAGE.to_owned())]);
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    let later = run("r", ", resourceSnapshotIndex: '0'")
        .replace("stagedRolloutStrategyName: s", "stagedRolloutStrategyName: t");
    case.commit(&[("r.yaml", later)]);
    case.settle();
    case.content("1");
    assert_eq!(case.settle(), "a1 b1 c1 d1");
    case.commit(&[("t.yaml", ONE_STAGE.replace("name: s", "name: t"))]);
    assert_eq!(case.settle(), "a0 b0 c0 d0", "{}", case.phases());
    assert_eq!(case.later(600), "a0 b0 c0 d0", "what a person wrote stands: {}", case.phases());
    case.content("2");
    assert_eq!(case.settle(), "a2 b2 c2 d2", "{}", case.phases());
}
