//! More than half of the fleet leaves in one commit: nothing follows from it before a person has agreed.

use super::*;

const THREE: [&str; 3] = ["a.yaml", "b.yaml", "c.yaml"];

/// Commits that these files are gone.
fn remove(case: &mut Case, paths: &[&'static str]) -> String {
    case.commit(&paths.iter().map(|path| (*path, String::new())).collect::<Vec<_>>());
    case.settle()
}

fn gate(case: &Case) -> Option<(String, Vec<String>)> {
    let gate = case.state.record.closed_gate()?;
    assert!(gate.deletions.is_empty(), "nothing is deleted: {gate:?}");
    Some((gate.reason.clone(), gate.leaving.iter().map(ToString::to_string).collect()))
}

const WORDS: &str = "3 of the 4 clusters of the fleet left it in one commit, 3 of this placement among them";

#[test]
fn half_of_the_fleet_may_leave_and_more_waits() {
    let mut half = Case::rolled_out(&[]);
    assert_eq!(remove(&mut half, &["a.yaml", "b.yaml"]), "c0 d0");
    assert_eq!(gate(&half), None);
    let mut more = Case::rolled_out(&[]);
    assert_eq!(remove(&mut more, &THREE), "a0 b0 c0 d0");
    assert_eq!(gate(&more), Some((WORDS.to_owned(), vec!["a".into(), "b".into(), "c".into()])));
    assert!(more.journal.iter().all(|line| !line.contains("ClusterLeft")), "{:?}", more.journal);
}

#[test]
fn clusters_under_other_names_do_not_hide_it() {
    let mut case = Case::rolled_out(&[]);
    let [e, f, g] = ["e", "f", "g"].map(|name| member(name, "one"));
    case.commit(&[("a.yaml", e), ("b.yaml", f), ("c.yaml", g)]);
    assert_eq!(case.settle(), "a0 b0 c0 d0", "what would take their place waits as well");
    assert_eq!(gate(&case).map(|(reason, _)| reason).as_deref(), Some(WORDS));
    case.say(Verb::Approve, "p deletion").expect("it waits");
    assert_eq!(case.settle(), "d0 e0 f0 g0");
}

#[test]
fn a_person_lets_them_go_and_they_keep_what_they_hold() {
    let mut case = Case::rolled_out(&[]);
    remove(&mut case, &THREE);
    let told: Vec<_> = case.orders.keys().cloned().collect();
    case.say(Verb::Approve, "p deletion").expect("it waits");
    assert_eq!(case.settle(), "d0");
    assert_eq!(case.state.record.deletion_gate, None);
    let removals = case.orders.values().filter(|order| order.remove || order.manifests.is_empty()).count();
    assert_eq!((removals, told.len()), (0, 4), "no cluster got an order to remove anything");
    case.content("1");
    assert_eq!(case.settle(), "d0", "the stage before it is empty, and its gate protected it");
    case.say(Verb::Approve, "p-1 one").expect("it waits");
    assert_eq!(case.settle(), "d1");
}

#[test]
fn a_revert_takes_them_back_as_if_nothing_had_been() {
    let mut case = Case::rolled_out(&[]);
    remove(&mut case, &THREE);
    let bindings = case.state.bindings.keys().cloned().collect::<Vec<_>>();
    case.commit(&[("a.yaml", member("a", "one")), ("b.yaml", member("b", "two")), ("c.yaml", member("c", "two"))]);
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    assert_eq!(gate(&case), None);
    assert_eq!(case.state.bindings.keys().cloned().collect::<Vec<_>>(), bindings, "the same bindings");
    assert_eq!(case.phases(), "p-0 Succeeded", "no run was needed");
}

#[test]
fn a_run_waits_for_those_it_has_not_reached() {
    let mut case = Case::rolled_out(&[]);
    case.content("1");
    assert_eq!(case.settle(), "a1 b0 c0 d0");
    remove(&mut case, &["b.yaml", "c.yaml", "d.yaml"]);
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b0 c0 d0");
    assert!(case.clusters_of("p-1").contains("b Deferred"), "{}", case.clusters_of("p-1"));
    case.content("2");
    assert_eq!(case.settle(), "a1 b0 c0 d0", "no run begins before a person has looked");
    case.say(Verb::Approve, "p deletion").expect("it waits");
    assert_eq!(case.settle(), "a2");
}

#[test]
fn a_placement_without_a_guard_does_not_ask() {
    let unguarded = placement(&format!("{AUTOMATIC}, gitfleet.io/deletion-guard: 'Off'"));
    let mut case = Case::rolled_out(&[("p.yaml", unguarded)]);
    assert_eq!(remove(&mut case, &THREE), "d0");
    assert_eq!(gate(&case), None);
}

#[test]
fn a_placement_that_is_removed_as_well_says_both() {
    let mut case = Case::rolled_out(&[]);
    remove(&mut case, &["a.yaml", "b.yaml", "c.yaml", "p.yaml"]);
    let closed = case.state.record.closed_gate().expect("it waits").clone();
    assert_eq!(
        closed.reason,
        format!("{WORDS}; the placement was removed: 2 objects on d would be deleted, with Namespace a")
    );
    assert_eq!(
        closed.deletions.keys().map(ToString::to_string).collect::<Vec<_>>(),
        ["d"],
        "nothing goes from those that left"
    );
    case.say(Verb::Approve, "p deletion").expect("it waits");
    case.settle();
    assert_eq!(case.places(), "");
}
