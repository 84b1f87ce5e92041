//! What is deleted, and whom it waits for.

use super::*;

const QUEUE: &str = "gitfleet.io/staged-update-strategy: s, gitfleet.io/when-superseded: Queue";

/// Content, and volumes beside it, which nobody deletes unasked.
fn with_volumes(value: &str, volumes: &[&str]) -> String {
    let volume = |name: &&str| {
        format!(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}, namespace: a}}\nspec: {{}}\n---\n"
        )
    };
    payload(value) + &volumes.iter().map(volume).collect::<String>()
}

/// Returns the volumes that a cluster holds.
fn volumes(story: &Story, cluster: &str) -> String {
    let work = story.state.works.get(&ClusterName::from(cluster)).expect("it was told something");
    let volumes = work.inventory.seen().iter().filter(|key| key.kind == "PersistentVolumeClaim");
    volumes.map(|key| key.name.as_str()).collect::<Vec<_>>().join(" ")
}

fn commit(story: &mut Story, value: &str, volumes: &[&str]) -> String {
    story.commit(&[("x.yaml", with_volumes(value, volumes))]);
    story.settle()
}

#[test]
fn a_rollback_deletes_nothing_precious_unasked() {
    let by_hand = |story: &mut Story| {
        story.say(Verb::Approve, "p-1 one").expect("the gate opens");
        assert_eq!(story.settle(), "a1 b1 c1 d1");
        story.say_as("ann", Verb::Rollback, "p", None, Some(0)).expect("it is kept");
        assert_eq!(story.settle(), "a0 b0 c0 d0");
    };
    let by_itself = |story: &mut Story| {
        story.manner("b", Manner::Refuses);
        story.say(Verb::Approve, "p-1 one").expect("the gate opens");
        assert_eq!(story.settle(), "a0 b0 c0 d0");
        story.manner("b", Manner::Well);
        story.settle();
    };
    let back = "gitfleet.io/staged-update-strategy: s, gitfleet.io/on-failure: Rollback";
    for (annotations, is_automatic) in [(AUTOMATIC, false), (back, true)] {
        let mut story = Story::rolled_out(&[("p.yaml", placement(annotations))]);
        assert_eq!(commit(&mut story, "1", &["v"]), "a1 b0 c0 d0");
        assert_eq!(volumes(&story, "a"), "v");
        if is_automatic {
            by_itself(&mut story);
        } else {
            by_hand(&mut story);
        }
        assert_eq!(volumes(&story, "a"), "v", "{annotations}: a person must look first");
        story.say(Verb::Approve, "p deletion").expect("it waits");
        story.settle();
        assert_eq!(volumes(&story, "a"), "", "{annotations}");
        assert_eq!(story.state.record.deletion_gate, None, "{annotations}");
    }
}

#[test]
fn a_rolling_update_returns_as_carefully() {
    let rolling = crate::decide::fixtures::placement("p", "", "");
    let mut story = Story::of(&[("p.yaml", rolling)]);
    story.later(600);
    assert_eq!(story.later(600), "a0 b0 c0 d0");
    commit(&mut story, "1", &["v"]);
    story.later(600);
    assert_eq!(story.later(600), "a1 b1 c1 d1");
    story.say_as("ann", Verb::Rollback, "p", None, Some(0)).expect("it is kept");
    story.settle();
    story.later(600);
    assert_eq!((story.later(600).as_str(), volumes(&story, "a").as_str()), ("a0 b0 c0 d0", "v"));
    story.say(Verb::Approve, "p deletion").expect("it waits");
    story.settle();
    assert_eq!(volumes(&story, "a"), "");
}

#[test]
fn what_a_queued_snapshot_restores_is_not_deleted_before() {
    let mut story = Story::of(&[("p.yaml", placement(QUEUE)), ("x.yaml", with_volumes("0", &["v"]))]);
    story.settle();
    story.say(Verb::Approve, "p-0 one").expect("the gate opens");
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    assert_eq!(commit(&mut story, "1", &[]), "a1 b0 c0 d0");
    assert_eq!(volumes(&story, "a"), "v");
    assert_eq!(commit(&mut story, "2", &["v"]), "a1 b0 c0 d0");
    assert_eq!(volumes(&story, "a"), "v", "snapshot 1 is without it still, and nobody approved");
    story.say(Verb::Approve, "p-1 one").expect("the gate opens");
    story.settle();
    story.say(Verb::Approve, "p-2 one").expect("the gate opens");
    assert_eq!(story.settle(), "a2 b2 c2 d2");
    assert_eq!((volumes(&story, "a"), story.state.record.deletion_gate.clone()), ("v".to_owned(), None));
}

#[test]
fn a_deletion_that_was_withdrawn_is_asked_for_again() {
    let mut story = Story::of(&[("x.yaml", with_volumes("0", &["v", "w"]))]);
    story.settle();
    story.say(Verb::Approve, "p-0 one").expect("the gate opens");
    story.settle();
    commit(&mut story, "1", &[]);
    story.say(Verb::Approve, "p deletion").expect("it waits");
    story.settle();
    assert_eq!((volumes(&story, "a").as_str(), volumes(&story, "b").as_str()), ("", "v w"));
    commit(&mut story, "2", &["w"]);
    assert_eq!(story.state.record.closed_gate(), None, "v was approved");
    commit(&mut story, "3", &[]);
    let gate = story.state.record.closed_gate().expect("w was kept in between");
    assert!(gate.deletions.contains_key("b"), "{gate:?}");
}

#[test]
fn nothing_goes_from_a_cluster_before_what_it_holds_is_known() {
    let mut story = Story::rolled_out(&[]);
    // As after a lost store: the cluster holds what it held, and does not answer.
    let held = story.state.works.remove(&ClusterName::from("d")).expect("it holds something");
    story.goes("d", false);
    story.commit(&[("p.yaml", String::new())]);
    assert_eq!(story.settle(), "a0? b0? c0? d0?");
    let gate = story.state.record.closed_gate().expect("removing a placement waits");
    assert!(!gate.deletions.contains_key("d"), "{gate:?}");
    story.say(Verb::Approve, "p deletion").expect("it waits");
    assert_eq!(story.settle(), "d0?", "nobody has seen what would go from it");
    story.state.works.insert("d".into(), held);
    story.goes("d", true);
    assert_eq!(story.settle(), "d0?");
    let gate = story.state.record.closed_gate().expect("nobody approved this");
    assert_eq!(gate.deletions.keys().map(ClusterName::as_str).collect::<Vec<_>>(), ["d"]);
    story.say(Verb::Approve, "p deletion").expect("it waits");
    assert_eq!(story.settle(), "");
}

#[test]
fn what_is_applied_does_not_wait_for_deletions() {
    let mut story = Story::of(&[("s.yaml", ONE_STAGE.to_owned()), ("x.yaml", with_volumes("0", &["v"]))]);
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    assert_eq!(commit(&mut story, "1", &["w"]), "a1 b1 c1 d1");
    assert_eq!(volumes(&story, "a"), "v w", "the new one is there, the old one waits");
    story.say(Verb::Approve, "p deletion").expect("it waits");
    story.settle();
    assert_eq!(volumes(&story, "a"), "w");
}

#[test]
fn what_turns_up_while_the_source_cannot_be_read_waits_for_a_person_too() {
    let mut story = Story::rolled_out(&[]);
    let held = Arc::clone(&story.state.works[&ClusterName::from("d")]);
    // A list that was out of date: nothing seems to be there, so the removal waits for nobody.
    let empty = WorkStatus { inventory: BTreeSet::new().into_iter().collect(), ..WorkStatus::clone(&held) };
    story.state.works.insert("d".into(), Arc::new(empty));
    story.commit(&[("p.yaml", String::new())]);
    story.decide();
    assert_eq!(story.places(), "a0? b0? c0? d0x");
    story.state.works.insert("d".into(), held);
    let told = |story: &mut Story| {
        story.decide();
        story.orders[&ClusterName::from("d")].prune.len()
    };
    story.world.source_unread = true;
    assert_eq!(told(&mut story), 0, "the guard was not asked");
    story.world.source_unread = false;
    assert_eq!(told(&mut story), 0, "nobody approved");
    let gate = story.state.record.closed_gate().expect("it is guarded");
    assert!(gate.deletions.contains_key("d"), "{gate:?}");
    story.say(Verb::Approve, "p deletion").expect("it waits");
    assert_eq!(story.settle(), "");
}

#[test]
fn a_cluster_that_is_not_picked_any_more_loses_nothing_while_the_source_cannot_be_read() {
    let mut story = Story::of(&[("x.yaml", with_volumes("0", &["v"]))]);
    story.settle();
    story.say(Verb::Approve, "p-0 one").expect("the gate opens");
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    story.commit(&[("p.yaml", fixed(AUTOMATIC, "a, b, c"))]);
    story.decide();
    assert_eq!(story.places(), "a0 b0 c0 d0?");
    let told = |story: &mut Story| {
        story.decide();
        story.orders[&ClusterName::from("d")].prune.len()
    };
    let mut held = WorkStatus::clone(&story.state.works[&ClusterName::from("d")]);
    let seen = held.inventory.seen().iter().cloned();
    let volume = ObjectKey {
        kind: "PersistentVolumeClaim".into(),
        namespace: "a".into(),
        name: "w".into(),
        ..ObjectKey::default()
    };
    held.inventory = seen.chain([volume]).collect();
    story.state.works.insert("d".into(), Arc::new(held));
    story.world.source_unread = true;
    assert_eq!(told(&mut story), 0, "the guard was not asked about what turned up");
    story.world.source_unread = false;
    assert_eq!(told(&mut story), 0, "it is guarded");
    assert!(story.state.record.closed_gate().is_some());
}
