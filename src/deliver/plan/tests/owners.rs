//! Objects that somebody else owns, and those that a placement leaves behind.

use super::*;

/// Lets an owner reference give an object to somebody else.
fn own(member: &mut Member, key: &ObjectKey) {
    let live = member.live.get(key).expect("it is there").clone();
    member.live.insert(Arc::new(key.clone()), live.with(|content| content.owner = Some("Deployment other".into())));
}

/// An order by which the placement leaves, with everything it holds let go.
fn leave(abandon: bool) -> WorkOrder {
    let prune = web().iter().map(|desired| ObjectKey::clone(&desired.key)).collect();
    WorkOrder { remove: true, abandon, prune, ..order("p", vec![]) }
}

#[test]
fn w04_what_somebody_else_owns_is_neither_applied_nor_deleted() {
    let mut member = Member::default();
    let mut mine = order("p", web());
    member.settle(&mine);
    own(&mut member, &mine.manifests[1].key);
    member.drift(&mine.manifests[1].key);
    member.log.clear();
    assert_eq!(member.outcome(&mine, 1), State::Refused(ApplyOutcome::FailedToTakeOver));
    member.settle(&mine);
    assert_eq!(member.log, [""; 0]);
    mine.strategy.allow_co_ownership = true;
    assert_eq!(member.outcome(&mine, 1), State::Apply { put_back: true }, "the placement allows it");
    member.settle(&leave(false));
    let wanted = ["delete Deployment.apps n/web", "release ConfigMap n/settings Fields", "delete Namespace n"];
    let done: Vec<&String> = member.log.iter().filter(|line| !line.contains("parent")).collect();
    assert_eq!(done, wanted);
}

#[test]
fn w04_what_is_not_ours_is_checked_before_it_is_applied() {
    let mut member = Member::default();
    let order = order("p", web());
    let wanted = wanted(&[&order]);
    member.perform(&order, member.plan(&order, &wanted).steps.remove(0));
    let plan = member.plan(&order, &wanted);
    assert!(matches!(plan.steps[..], [Step::Apply { probe: true, .. }]), "{plan:?}");
    member.settle(&order);
    member.drift(&order.manifests[1].key);
    let plan = member.plan(&order, &wanted);
    assert!(matches!(plan.steps[..], [Step::Apply { probe: false, .. }]), "it is ours: {plan:?}");
}

#[test]
fn w09_what_a_placement_abandons_stays() {
    let mut member = Member::default();
    member.settle(&order("p", web()));
    member.log.clear();
    member.settle(&leave(true));
    let wanted = [
        "release Deployment.apps n/web Whole",
        "release ConfigMap n/settings Whole",
        "release Namespace n Whole",
        "delete parent",
    ];
    assert_eq!(member.log, wanted);
}
