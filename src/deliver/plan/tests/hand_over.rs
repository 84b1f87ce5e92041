//! What another placement takes over.

use super::*;

#[test]
fn w16_the_inventory_stays_until_another_placement_has_taken_what_is_there() {
    let mut member = Member::default();
    member.settle(&order("p", web()));
    let (leaves, comes) = (WorkOrder { remove: true, ..order("p", vec![]) }, order("q", web()));
    let both = wanted(&[&leaves, &comes]);
    let waits = member.plan(&leaves, &both);
    assert_eq!((&waits.steps[..], waits.complete), (&[][..], true), "nothing is deleted, and what is there is named");
    for desired in &web() {
        let live = member.live.get(&desired.key).expect("it is there").clone();
        member.live.insert(
            Arc::clone(&desired.key),
            live.with(|content| content.applyset = applyset_id(&comes.placement).into()),
        );
    }
    assert_eq!(member.plan(&leaves, &both).steps, [Step::DeleteParent]);
}

/// A person may not have let the other one delete what it has there.
#[test]
fn m08_a_namespace_goes_after_what_other_placements_have_in_it() {
    let inside = || vec![desired("ConfigMap", "settings", "1")];
    let (leaves, other) = (WorkOrder { remove: true, ..order("p", vec![]) }, order("q", inside()));
    let removal = || (WorkOrder { remove: true, ..order("q", vec![]) }, Progress::default());
    let (orders, elsewhere) = (vec![removal()], vec![other.placement.clone()]);
    let rows = [
        ("it leaves, too", Others { orders, ..Others::default() }, false),
        ("it is another source's", Others { elsewhere, ..Others::default() }, false),
        ("its label is of no known placement", Others::default(), true),
    ];
    for (name, others, goes) in rows {
        let mut member = Member { others, ..Member::default() };
        member.settle(&order("q", inside()));
        member.settle(&order("p", vec![desired("Namespace", "n", "")]));
        let deletes = |member: &Member| {
            let steps = member.plan(&leaves, &wanted(&[&leaves])).steps;
            steps.iter().any(|step| matches!(step, Step::Delete { .. }))
        };
        assert_eq!(deletes(&member), goes, "{name}");
        for desired in inside() {
            member.live.remove(&desired.key);
        }
        assert!(deletes(&member), "{name}, and is gone");
    }
}

/// A list that failed does not show what is there.
#[test]
fn m08_a_namespace_stays_while_what_others_may_have_in_it_is_not_listed() {
    let leaves = WorkOrder { remove: true, ..order("p", vec![]) };
    for unseen in [true, false] {
        let mut member = Member { others: Others { unseen, ..Others::default() }, ..Member::default() };
        member.settle(&order("p", vec![desired("Namespace", "n", "")]));
        let plan = member.plan(&leaves, &wanted(&[&leaves]));
        assert_eq!(plan.steps.iter().any(|step| matches!(step, Step::Delete { .. })), !unseen);
        assert!(!plan.complete);
    }
}
