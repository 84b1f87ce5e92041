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
