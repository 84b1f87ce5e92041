use super::*;

#[test]
fn d13_an_old_snapshot_writes_nothing_that_is_reserved() {
    let own = desired("Namespace", "gitfleet-system", "1");
    let order = order("web", vec![own, desired("ConfigMap", "a", "1")]);
    let mut member = Member::default();
    member.settle(&order);
    assert_eq!(member.outcome(&order, 0), State::Refused(ApplyOutcome::ManifestApplyFailed));
    assert_eq!(member.outcome(&order, 1), State::Done);
    assert!(!member.log.iter().any(|entry| entry.contains("gitfleet-system")), "{:?}", member.log);
}
