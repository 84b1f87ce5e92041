//! More than half of the fleet leaves in one commit: nothing follows from it before a person has agreed.

use super::*;

const THREE: [&str; 3] = ["a.yaml", "b.yaml", "c.yaml"];

/// Commits that these files are gone.
fn remove(story: &mut Story, paths: &[&'static str]) -> String {
    story.commit(&paths.iter().map(|path| (*path, String::new())).collect::<Vec<_>>());
    story.settle()
}

fn gate(story: &Story) -> Option<(String, Vec<String>)> {
    let gate = story.state.record.closed_gate()?;
    assert!(gate.deletions.is_empty(), "nothing is deleted: {gate:?}");
    Some((gate.reason.clone(), gate.leaving.iter().map(ToString::to_string).collect()))
}

const WORDS: &str = "3 of the 4 clusters of the fleet left it in one commit, 3 of this placement among them";

#[test]
fn half_of_the_fleet_may_leave_and_more_waits() {
    let mut half = Story::rolled_out(&[]);
    assert_eq!(remove(&mut half, &["a.yaml", "b.yaml"]), "c0 d0");
    assert_eq!(gate(&half), None);
    let mut more = Story::rolled_out(&[]);
    assert_eq!(remove(&mut more, &THREE), "a0 b0 c0 d0");
    assert_eq!(gate(&more), Some((WORDS.to_owned(), vec!["a".into(), "b".into(), "c".into()])));
    assert!(more.journal.iter().all(|line| !line.contains("ClusterLeft")), "{:?}", more.journal);
}

#[test]
fn clusters_under_other_names_do_not_hide_it() {
    let mut story = Story::rolled_out(&[]);
    let [e, f, g] = ["e", "f", "g"].map(|name| member(name, "one"));
    story.commit(&[("a.yaml", e), ("b.yaml", f), ("c.yaml", g)]);
    assert_eq!(story.settle(), "a0 b0 c0 d0", "what would take their place waits as well");
    assert_eq!(gate(&story).map(|(reason, _)| reason).as_deref(), Some(WORDS));
    story.say(Verb::Approve, "p deletion").expect("it waits");
    assert_eq!(story.settle(), "d0 e0 f0 g0");
}

#[test]
fn a_person_lets_them_go_and_they_keep_what_they_hold() {
    let mut story = Story::rolled_out(&[]);
    remove(&mut story, &THREE);
    let told: Vec<_> = story.orders.keys().cloned().collect();
    story.say(Verb::Approve, "p deletion").expect("it waits");
    assert_eq!(story.settle(), "d0");
    assert_eq!(story.state.record.deletion_gate, None);
    let removals = story.orders.values().filter(|order| order.remove || order.manifests.is_empty()).count();
    assert_eq!((removals, told.len()), (0, 4), "nobody was told to remove anything");
    story.content("1");
    story.settle();
    assert_eq!(story.places(), "d1");
}

#[test]
fn a_revert_takes_them_back_as_if_nothing_had_been() {
    let mut story = Story::rolled_out(&[]);
    remove(&mut story, &THREE);
    let bindings = story.state.bindings.keys().cloned().collect::<Vec<_>>();
    story.commit(&[("a.yaml", member("a", "one")), ("b.yaml", member("b", "two")), ("c.yaml", member("c", "two"))]);
    assert_eq!(story.settle(), "a0 b0 c0 d0");
    assert_eq!(gate(&story), None);
    assert_eq!(story.state.bindings.keys().cloned().collect::<Vec<_>>(), bindings, "the same bindings");
    assert_eq!(story.phases(), "p-0 Succeeded", "no run was needed");
}

#[test]
fn a_run_waits_for_those_it_has_not_reached() {
    let mut story = Story::rolled_out(&[]);
    story.content("1");
    assert_eq!(story.settle(), "a1 b0 c0 d0");
    remove(&mut story, &["b.yaml", "c.yaml", "d.yaml"]);
    story.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(story.settle(), "a1 b0 c0 d0");
    assert!(story.clusters_of("p-1").contains("b Deferred"), "{}", story.clusters_of("p-1"));
    story.content("2");
    assert_eq!(story.settle(), "a1 b0 c0 d0", "no run begins before a person has looked");
    story.say(Verb::Approve, "p deletion").expect("it waits");
    assert_eq!(story.settle(), "a2");
}

#[test]
fn a_placement_without_a_guard_does_not_ask() {
    let unguarded = placement(&format!("{AUTOMATIC}, gitfleet.io/deletion-guard: 'Off'"));
    let mut story = Story::rolled_out(&[("p.yaml", unguarded)]);
    assert_eq!(remove(&mut story, &THREE), "d0");
    assert_eq!(gate(&story), None);
}

#[test]
fn a_placement_that_is_removed_as_well_says_both() {
    let mut story = Story::rolled_out(&[]);
    remove(&mut story, &["a.yaml", "b.yaml", "c.yaml", "p.yaml"]);
    let closed = story.state.record.closed_gate().expect("it waits").clone();
    assert_eq!(
        closed.reason,
        format!("{WORDS}; the placement was removed: 2 objects on d would be deleted, with Namespace a")
    );
    assert_eq!(
        closed.deletions.keys().map(ToString::to_string).collect::<Vec<_>>(),
        ["d"],
        "nothing goes from those that left"
    );
    story.say(Verb::Approve, "p deletion").expect("it waits");
    story.settle();
    assert_eq!(story.places(), "");
}
