//! Runs by hand and by themselves, from their first decision to their last.

use super::*;
use crate::model::runs::RunPhase;

#[test]
fn a_snapshot_gets_a_run_that_waits_after_its_first_stage() {
    let mut story = Story::of(&[]);
    assert_eq!(story.settle(), "a0 b- c- d-");
    assert_eq!(story.phases(), "p-0 Waiting");
    assert_eq!(story.later(3600), "a0 b- c- d-", "time opens no gate for a person");
    story.say(Verb::Approve, "p-0 one").expect("the gate opens");
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    assert_eq!(story.phases(), "p-0 Succeeded");
    assert!(!story.decide(), "and then silence");
}

#[test]
fn one_cluster_at_a_time_unless_the_stage_says_otherwise() {
    let mut story = Story::rolled_out(&[]);
    story.content("1");
    story.manner("b", Manner::Slow);
    story.settle();
    story.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(story.settle(), "a1 b1 c0 d0");
    story.manner("b", Manner::Well);
    assert_eq!(story.settle(), "a1 b1 c1 d1");
}

/// A placement without the annotation, with these runs.
fn by_hand(runs: &[&str]) -> Story {
    Story::of(&[("p.yaml", placement("")), ("r.yaml", runs.concat())])
}

#[test]
fn an_external_placement_without_a_run_moves_nothing() {
    let mut story = by_hand(&[]);
    assert_eq!(story.settle(), "a- b- c- d-");
    assert_eq!((story.phases().as_str(), story.state.snapshots.len()), ("", 1), "it has a snapshot");
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
        let mut story = by_hand(&[&document]);
        assert_eq!((story.settle().as_str(), story.phases().as_str()), (places, phases), "{name}");
        let run = story.run("r");
        assert_eq!(Some(run.message.clone()).filter(|_| run.refused), refusal, "{name}");
    }
}

#[test]
fn a_missing_strategy_is_said_and_mended() {
    let mut story = Story::of(&[("s.yaml", String::new())]);
    assert_eq!(story.settle(), "a- b- c- d-");
    let run = story.run("p-0");
    assert!(
        run.refused && run.message.contains("names the ClusterStagedUpdateStrategy s, which the source does not have"),
        "{}",
        run.message
    );
    let mut otherwise = Story::of(&[("s.yaml", String::new())]);
    otherwise.settle();
    story.commit(&[("s.yaml", STRATEGY.to_owned())]);
    assert_eq!((story.settle().as_str(), story.phases().as_str()), ("a0 b- c- d-", "p-0 Waiting"));
    let another = STRATEGY.replace("metadata: {name: s}", "metadata: {name: t}");
    otherwise.commit(&[("s.yaml", another), ("p.yaml", placement("gitfleet.io/staged-update-strategy: t"))]);
    assert_eq!((otherwise.settle().as_str(), otherwise.phases().as_str()), ("a0 b- c- d-", "p-0 Waiting"));
}

#[test]
fn a_cluster_in_two_stages_or_none_moves_nobody() {
    let mut story = Story::of(&[("e.yaml", member("e", "four"))]);
    assert_eq!(story.settle(), "a- b- c- d- e-");
    let run = story.run("p-0");
    assert!(run.refused && run.message.contains(" e"), "{}", run.message);
    story.commit(&[("e.yaml", member("e", "three"))]);
    assert_eq!(story.settle(), "a0 b- c- d- e-", "mended");

    let everywhere = STRATEGY.replace("{matchLabels: {stage: two}}", "{}");
    let mut story = Story::of(&[("s.yaml", everywhere)]);
    assert_eq!(story.settle(), "a- b- c- d-");
    let run = story.run("p-0");
    assert!(run.refused && run.message.contains("stages one and two both select a;"), "{}", run.message);
}

#[test]
fn a_run_waits_until_the_policy_is_fulfilled() {
    let policy = |n: u32| {
        let more = format!(", policy: {{placementType: PickN, numberOfClusters: {n}}}, strategy: {{type: External}}");
        crate::decide::fixtures::placement("p", AUTOMATIC, &more)
    };
    let mut story = Story::of(&[("p.yaml", policy(5))]);
    story.settle();
    assert_eq!(story.phases(), "p-0 Pending");
    assert!(!story.run("p-0").refused, "it waits");
    story.commit(&[("e.yaml", member("e", "three"))]);
    assert_eq!(story.settle(), "a0 b- c- d- e-", "KubeFleet's run would have failed for good");
}

#[test]
fn a_second_run_waits_for_the_first() {
    let mut story = by_hand(&[&run("q", ""), &run("r", "")]);
    story.settle();
    assert_eq!(story.phases(), "q Waiting, r Pending");
    assert_eq!(story.run("r").message, "waits until the run q is finished");
    story.say(Verb::Approve, "q one").expect("the gate opens");
    story.settle();
    assert_eq!(
        story.phases(),
        "q Succeeded, r Waiting",
        "everybody is right already, and its gates are closed all the same"
    );
}

#[test]
fn a_run_that_is_removed_leaves_clusters_as_they_are() {
    let mut story = by_hand(&[&run("r", "")]);
    assert_eq!(story.settle(), "a0 b- c- d-");
    story.commit(&[("r.yaml", String::new())]);
    assert_eq!((story.settle().as_str(), story.phases().as_str()), ("a0 b- c- d-", ""));
    story.commit(&[("r.yaml", run("r", ""))]);
    story.settle();
    assert_eq!(story.phases(), "r Waiting", "the same document again is another run");
}

#[test]
fn stop_and_run_again() {
    let mut story = by_hand(&[&run("r", "")]);
    story.settle();
    story.commit(&[("r.yaml", run("r", ", state: Stop"))]);
    story.settle();
    assert_eq!(story.phases(), "r Stopped");
    story.commit(&[("r.yaml", run("r", ", state: Run"))]);
    story.settle();
    assert_eq!(story.phases(), "r Waiting");
    story.say(Verb::Approve, "r one").expect("the gate opens");
    assert_eq!(story.settle(), "a0 b0 c0 d0");
}

#[test]
fn a_placement_that_moves_by_itself_again_ends_its_runs() {
    let mut story = Story::of(&[]);
    story.settle();
    let rolling = crate::decide::fixtures::placement("p", "", "");
    story.commit(&[("p.yaml", rolling)]);
    assert_eq!(story.settle(), "a0 b- c- d-", "a person was to be asked");
    assert_eq!(story.run("p-0").phase, RunPhase::Failed);
    story.say(Verb::Resume, "p").expect("it was paused");
    assert_eq!(story.settle(), "a0 b0 c0 d0");
}

#[test]
fn a_run_for_a_placement_that_moves_by_itself_is_refused() {
    let rolling = crate::decide::fixtures::placement("p", "", "");
    let mut story = Story::of(&[("p.yaml", rolling), ("r.yaml", run("r", ""))]);
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    assert!(story.run("r").refused && story.run("r").message.contains("strategy.type External"));
    story.commit(&[("p.yaml", placement(""))]);
    story.settle();
    assert_eq!(story.phases(), "r Waiting", "mended");
}

#[test]
fn another_apply_strategy_rolls_out_like_content() {
    let mut story = Story::rolled_out(&[]);
    story.commit(&[("p.yaml", forced())]);
    story.settle();
    assert_eq!(story.phases(), "p-0 Succeeded, p-0-2 Waiting", "stage by stage, with approvals of its own");
    let digest = |run: &str| story.run(run).stages[0].digest.clone();
    assert_ne!(digest("p-0"), digest("p-0-2"), "who approved the one has not approved the other");
    story.say(Verb::Approve, "p-0-2 one").expect("the gate opens");
    story.settle();
    assert_eq!(story.phases(), "p-0 Succeeded, p-0-2 Succeeded");
    let is_forced = |b: &crate::model::records::Binding| b.apply_strategy.server_side_apply_config.is_some();
    assert!(story.state.bindings().all(is_forced));
}

#[test]
fn finished_runs_are_forgotten_after_a_while() {
    let mut story = Story::rolled_out(&[]);
    story.commit(&[("s.yaml", STRATEGY.replace(", afterStageTasks: [{type: Approval}]", ""))]);
    for content in 1..30 {
        story.content(&content.to_string());
        story.settle();
        if content == 1 {
            story.say(Verb::Approve, "p-1 two").expect("a person agrees that nobody is asked any more");
            story.settle();
        }
    }
    assert_eq!(story.state.runs.values().count(), 10);
    assert!(story.phases().ends_with("p-29 Succeeded"), "{}", story.phases());
}

#[test]
fn a_run_whose_payload_cannot_be_read_starts_nobody() {
    let queued = placement("gitfleet.io/staged-update-strategy: s, gitfleet.io/when-superseded: Queue");
    let mut story = Story::rolled_out(&[("p.yaml", queued)]);
    for (value, places) in [("1", "a1 b0 c0 d0"), ("2", "a1 b0 c0 d0")] {
        story.content(value);
        assert_eq!(story.settle(), places);
    }
    let payload = story.library.remove(&1).expect("it was there");
    story.state.payloads.remove(&1);
    story.state.unreadable.insert(1);
    story.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!((story.settle().as_str(), story.run("p-1").phase), ("a1 b0 c0 d0", RunPhase::Stopped));
    assert_eq!(story.state.record.unreadable, BTreeSet::from([1]));
    story.state.unreadable.remove(&1);
    story.library.insert(1, payload);
    assert_eq!(story.settle(), "a2 b1 c1 d1", "and the newest follows");
    assert!(story.state.record.unreadable.is_empty());
}

#[test]
fn a_placement_with_a_strategy_goes_on_by_itself_when_a_written_run_is_taken_back() {
    // It had taken the place of the snapshot's own run, and is removed before it moved anything.
    let mut story = Story::of(&[("s.yaml", ONE_STAGE.to_owned())]);
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    story.commit(&[("s.yaml", String::new()), ("x.yaml", payload("1"))]);
    story.settle();
    story.commit(&[("r.yaml", run("r", ", state: Initialize"))]);
    story.settle();
    story.commit(&[("s.yaml", ONE_STAGE.to_owned())]);
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    assert_eq!(story.phases(), "p-0 Succeeded, p-1 Superseded, r Initialized");
    story.commit(&[("r.yaml", String::new())]);
    assert_eq!(story.settle(), "a1 b1 c1 d1");

    // It is removed with the commit that changes how objects are applied.
    story.commit(&[("r.yaml", run("r", ""))]);
    story.settle();
    story.commit(&[("r.yaml", String::new()), ("p.yaml", forced())]);
    story.settle();
    let strategies = story.state.bindings().map(|binding| binding.apply_strategy.server_side_apply_config);
    assert!(strategies.into_iter().all(|config| config.is_some_and(|config| config.force)), "{}", story.phases());

    // What a person rejected is not asked for again because its document goes.
    let mut story = Story::rolled_out(&[]);
    story.commit(&[("p.yaml", forced()), ("r.yaml", run("r", ""))]);
    story.settle();
    story.say(Verb::Reject, "r one").expect("she may");
    story.settle();
    let before = story.phases();
    story.commit(&[("r.yaml", String::new())]);
    story.settle();
    assert!(!story.phases().contains("Waiting"), "{before}; then {}", story.phases());
}

#[test]
fn a_written_run_that_could_not_begin_before_is_the_newest_when_it_does() {
    let mut story = Story::of(&[("s.yaml", ONE_STAGE.to_owned())]);
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    let later = run("r", ", resourceSnapshotIndex: '0'")
        .replace("stagedRolloutStrategyName: s", "stagedRolloutStrategyName: t");
    story.commit(&[("r.yaml", later)]);
    story.settle();
    story.content("1");
    assert_eq!(story.settle(), "a1 b1 c1 d1");
    story.commit(&[("t.yaml", ONE_STAGE.replace("name: s", "name: t"))]);
    assert_eq!(story.settle(), "a0 b0 c0 d0", "{}", story.phases());
    assert_eq!(story.later(600), "a0 b0 c0 d0", "what a person wrote stands: {}", story.phases());
    story.content("2");
    assert_eq!(story.settle(), "a2 b2 c2 d2", "{}", story.phases());
}
