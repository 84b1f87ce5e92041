//! What is deleted, and whom it waits for.

use super::*;

const QUEUE: &str = "gitfleet.io/staged-update-strategy: s, gitfleet.io/when-superseded: Queue";

/// Content, and volumes beside it, which nobody deletes unasked.
pub(super) fn with_volumes(value: &str, volumes: &[&str]) -> String {
    let volume = |name: &&str| {
        format!(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}, namespace: a}}\nspec: {{}}\n---\n"
        )
    };
    payload(value) + &volumes.iter().map(volume).collect::<String>()
}

/// Returns the volumes that a cluster holds.
pub(super) fn volumes(case: &Case, cluster: &str) -> String {
    let work = case.state.works.get(&ClusterName::from(cluster)).expect("it was told something");
    let volumes = work.inventory.seen().iter().filter(|key| key.kind == "PersistentVolumeClaim");
    volumes.map(|key| key.name.as_str()).collect::<Vec<_>>().join(" ")
}

fn commit(case: &mut Case, value: &str, volumes: &[&str]) -> String {
    case.commit(&[("x.yaml", with_volumes(value, volumes))]);
    case.settle()
}

#[test]
fn a_rollback_deletes_nothing_precious_unasked() {
    let by_hand = |case: &mut Case| {
        case.say(Verb::Approve, "p-1 one").expect("the gate opens");
        assert_eq!(case.settle(), "a1 b1 c1 d1");
        case.say_as("ann", Verb::Rollback, "p", None, Some(0)).expect("it is kept");
        assert_eq!(case.settle(), "a0 b0 c0 d0");
    };
    let by_itself = |case: &mut Case| {
        case.manner("b", Manner::Refuses);
        case.say(Verb::Approve, "p-1 one").expect("the gate opens");
        assert_eq!(case.settle(), "a0 b0 c0 d0");
        case.manner("b", Manner::Well);
        case.settle();
    };
    let back = "gitfleet.io/staged-update-strategy: s, gitfleet.io/on-failure: Rollback";
    for (annotations, is_automatic) in [(AUTOMATIC, false), (back, true)] {
        let mut case = Case::rolled_out(&[("p.yaml", placement(annotations))]);
        assert_eq!(commit(&mut case, "1", &["v"]), "a1 b0 c0 d0");
        assert_eq!(volumes(&case, "a"), "v");
        if is_automatic {
            by_itself(&mut case);
        } else {
            by_hand(&mut case);
        }
        assert_eq!(volumes(&case, "a"), "v", "{annotations}: a person must look first");
        case.say(Verb::Approve, "p deletion").expect("it waits");
        case.settle();
        assert_eq!(volumes(&case, "a"), "", "{annotations}");
        assert_eq!(case.state.record.deletion_gate, None, "{annotations}");
    }
}

#[test]
fn a_rolling_update_returns_as_carefully() {
    let rolling = testkit::trees::placement("p", "", "");
    let mut case = Case::of(&[("p.yaml", rolling)]);
    case.later(600);
    assert_eq!(case.later(600), "a0 b0 c0 d0");
    commit(&mut case, "1", &["v"]);
    case.later(600);
    assert_eq!(case.later(600), "a1 b1 c1 d1");
    case.say_as("ann", Verb::Rollback, "p", None, Some(0)).expect("it is kept");
    case.settle();
    case.later(600);
    assert_eq!((case.later(600).as_str(), volumes(&case, "a").as_str()), ("a0 b0 c0 d0", "v"));
    case.say(Verb::Approve, "p deletion").expect("it waits");
    case.settle();
    assert_eq!(volumes(&case, "a"), "");
}

#[test]
fn what_a_queued_snapshot_restores_is_not_deleted_before() {
    let mut case = Case::of(&[("p.yaml", placement(QUEUE)), ("x.yaml", with_volumes("0", &["v"]))]);
    case.settle();
    case.say(Verb::Approve, "p-0 one").expect("the gate opens");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    assert_eq!(commit(&mut case, "1", &[]), "a1 b0 c0 d0");
    assert_eq!(volumes(&case, "a"), "v");
    assert_eq!(commit(&mut case, "2", &["v"]), "a1 b0 c0 d0");
    assert_eq!(volumes(&case, "a"), "v", "snapshot 1 is without it still, and nobody approved");
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    case.settle();
    case.say(Verb::Approve, "p-2 one").expect("the gate opens");
    assert_eq!(case.settle(), "a2 b2 c2 d2");
    assert_eq!((volumes(&case, "a"), case.state.record.deletion_gate.clone()), ("v".to_owned(), None));
}

#[test]
fn a_deletion_that_was_withdrawn_is_asked_for_again() {
    let mut case = Case::of(&[("x.yaml", with_volumes("0", &["v", "w"]))]);
    case.settle();
    case.say(Verb::Approve, "p-0 one").expect("the gate opens");
    case.settle();
    commit(&mut case, "1", &[]);
    case.say(Verb::Approve, "p deletion").expect("it waits");
    case.settle();
    assert_eq!((volumes(&case, "a").as_str(), volumes(&case, "b").as_str()), ("", "v w"));
    commit(&mut case, "2", &["w"]);
    assert_eq!(case.state.record.closed_gate(), None, "v was approved");
    commit(&mut case, "3", &[]);
    let gate = case.state.record.closed_gate().expect("w was kept in between");
    assert!(gate.deletions.contains_key("b"), "{gate:?}");
}

#[test]
fn nothing_goes_from_a_cluster_before_what_it_holds_is_known() {
    let mut case = Case::rolled_out(&[]);
    // As after a lost store: the cluster holds what it held, and does not answer.
    let held = case.state.works.remove(&ClusterName::from("d")).expect("it holds something");
    case.goes("d", false);
    case.commit(&[("p.yaml", String::new())]);
    assert_eq!(case.settle(), "a0? b0? c0? d0?");
    let gate = case.state.record.closed_gate().expect("removing a placement waits");
    assert!(!gate.deletions.contains_key("d"), "{gate:?}");
    case.say(Verb::Approve, "p deletion").expect("it waits");
    assert_eq!(case.settle(), "d0?", "nobody has seen what would go from it");
    case.state.works.insert("d".into(), held);
    case.goes("d", true);
    assert_eq!(case.settle(), "d0?");
    let gate = case.state.record.closed_gate().expect("nobody approved this");
    assert_eq!(gate.deletions.keys().map(ClusterName::as_str).collect::<Vec<_>>(), ["d"]);
    case.say(Verb::Approve, "p deletion").expect("it waits");
    assert_eq!(case.settle(), "");
}

#[test]
fn what_is_applied_does_not_wait_for_deletions() {
    let mut case = Case::of(&[("s.yaml", ONE_STAGE.to_owned()), ("x.yaml", with_volumes("0", &["v"]))]);
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    assert_eq!(commit(&mut case, "1", &["w"]), "a1 b1 c1 d1");
    assert_eq!(volumes(&case, "a"), "v w", "the new one is there, the old one waits");
    case.say(Verb::Approve, "p deletion").expect("it waits");
    case.settle();
    assert_eq!(volumes(&case, "a"), "w");
}

#[test]
fn what_turns_up_while_the_source_cannot_be_read_waits_for_a_person_too() {
    let mut case = Case::rolled_out(&[]);
    let held = Arc::clone(&case.state.works[&ClusterName::from("d")]);
    // A list that was out of date: nothing seems to be there, so the removal waits for nobody.
    let empty = WorkStatus { inventory: BTreeSet::new().into_iter().collect(), ..WorkStatus::clone(&held) };
    case.state.works.insert("d".into(), Arc::new(empty));
    case.commit(&[("p.yaml", String::new())]);
    case.decide();
    assert_eq!(case.places(), "a0? b0? c0? d0x");
    case.state.works.insert("d".into(), held);
    let told = |case: &mut Case| {
        case.decide();
        case.orders[&ClusterName::from("d")].prune.len()
    };
    case.fleet.source_unread = true;
    assert_eq!(told(&mut case), 0, "the guard was not asked");
    case.fleet.source_unread = false;
    assert_eq!(told(&mut case), 0, "nobody approved");
    let gate = case.state.record.closed_gate().expect("it is guarded");
    assert!(gate.deletions.contains_key("d"), "{gate:?}");
    case.say(Verb::Approve, "p deletion").expect("it waits");
    assert_eq!(case.settle(), "");
}

#[test]
fn a_cluster_that_is_not_picked_any_more_loses_nothing_while_the_source_cannot_be_read() {
    let mut case = Case::of(&[("x.yaml", with_volumes("0", &["v"]))]);
    case.settle();
    case.say(Verb::Approve, "p-0 one").expect("the gate opens");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.commit(&[("p.yaml", fixed(AUTOMATIC, "a, b, c"))]);
    case.decide();
    assert_eq!(case.places(), "a0 b0 c0 d0?");
    let told = |case: &mut Case| {
        case.decide();
        case.orders[&ClusterName::from("d")].prune.len()
    };
    let mut held = WorkStatus::clone(&case.state.works[&ClusterName::from("d")]);
    let seen = held.inventory.seen().iter().cloned();
    let volume = ObjectKey {
        kind: "PersistentVolumeClaim".into(),
        namespace: "a".into(),
        name: "w".into(),
        ..ObjectKey::default()
    };
    held.inventory = seen.chain([volume]).collect();
    case.state.works.insert("d".into(), Arc::new(held));
    case.fleet.source_unread = true;
    assert_eq!(told(&mut case), 0, "the guard was not asked about what turned up");
    case.fleet.source_unread = false;
    assert_eq!(told(&mut case), 0, "it is guarded");
    assert!(case.state.record.closed_gate().is_some());
}
