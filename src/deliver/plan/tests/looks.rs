use super::*;
use crate::drift::CHECK_PAUSE;
use crate::step::RETRY_FIRST;
use model::api::placement::ComparisonOption;

#[test]
fn drift_that_was_taken_back_is_applied_again() {
    let mut member = Member::default();
    let mut order = order("p", web());
    order.strategy.when_to_apply = WhenToApply::IfNotDrifted;
    member.settle(&order);
    let key = order.manifests[1].key.clone();
    member.change(&key, true);
    member.settle(&order);
    member.log.clear();
    // The fields are not ours any more, so their digest stays what it is: the object is read because it changed.
    member.change(&key, false);
    let plan = member.settle(&order);
    assert_eq!((member.take_log(), plan.wake_at), (vec![], Some(now() + CHECK_PAUSE)), "not at once");
    member.later = CHECK_PAUSE;
    member.settle(&order);
    assert_eq!(member.take_log(), ["look at ConfigMap n/settings", "apply ConfigMap n/settings"]);
    assert_eq!(member.outcome(&order, 1), State::Done);
    member.change(&key, true);
    member.settle(&order);
    assert_eq!(member.take_log(), ["look at ConfigMap n/settings"], "an old look says nothing of a new change");
}

#[test]
fn drift_that_cannot_be_checked_is_checked_again() {
    let mut member = Member { blind: Some("the webhook is away".into()), ..Member::default() };
    let mut order = order("p", web());
    order.strategy.when_to_apply = WhenToApply::IfNotDrifted;
    member.settle(&order);
    member.log.clear();
    member.change(&order.manifests[1].key, true);
    let plan = member.settle(&order);
    assert_eq!(plan.wake_at, Some(now() + RETRY_FIRST));
    assert_eq!(member.outcome(&order, 1), State::Refused(ApplyOutcome::FailedToRunDriftDetection));
    (member.blind, member.later) = (None, RETRY_FIRST);
    member.settle(&order);
    assert_eq!(member.outcome(&order, 1), State::Refused(ApplyOutcome::FoundDrifts));
}

#[test]
fn nothing_is_pruned_while_an_object_is_not_taken_over_or_drifted() {
    let mut taken = order("p", web());
    taken.strategy.when_to_take_over = WhenToTakeOver::Never;
    let mut member = Member::default();
    member.settle(&taken);
    member.log.clear();
    let renamed = vec![desired("apps/v1/Deployment", "web-2", "1"), desired("Namespace", "n", "")];
    member.foreign.insert(ObjectKey::clone(&renamed[0].key));
    let mut next = WorkOrder { snapshot: 1, digest: Digest::from("h1"), ..order("p", renamed) };
    next.strategy = taken.strategy.clone();
    let plan = member.settle(&next);
    assert_eq!(member.take_log(), ["probe Deployment.apps n/web-2", "parent 1"]);
    assert!(plan.complete, "nothing is left to do as things are");
    let kinds = member.parent.clone().map(|parent| parent.group_kinds).unwrap_or_default();
    assert!(kinds.contains("ConfigMap"), "what stays stays covered: {kinds:?}");
    // It is taken away: what was to go goes.
    member.foreign.clear();
    member.later = RECHECK_INTERVAL;
    assert_eq!(plan.wake_at, Some(member.now()));
    member.settle(&next);
    let wanted =
        ["apply Deployment.apps n/web-2", "delete Deployment.apps n/web", "delete ConfigMap n/settings", "parent 1"];
    assert_eq!(member.take_log(), wanted);

    let mut member = Member::default();
    let mut first = order("p", web());
    first.strategy.when_to_apply = WhenToApply::IfNotDrifted;
    member.settle(&first);
    member.change(&first.manifests[0].key, true);
    let mut less = WorkOrder { snapshot: 1, digest: Digest::from("h1"), ..first };
    less.manifests = less.manifests.iter().filter(|desired| desired.id.kind != "ConfigMap").cloned().collect();
    member.log.clear();
    member.settle(&less);
    assert_eq!(member.take_log(), ["look at Deployment.apps n/web", "parent 1"]);
}

#[test]
fn what_was_not_taken_over_is_tried_again_without_a_word() {
    let mut order = order("p", web());
    order.strategy.when_to_take_over = WhenToTakeOver::Never;
    let mut member = Member::default();
    member.foreign.insert(ObjectKey::clone(&order.manifests[0].key));
    member.settle(&order);
    member.log.clear();
    member.later = RECHECK_INTERVAL - SignedDuration::from_secs(1);
    assert!(member.settle(&order).complete && member.log.is_empty(), "not yet");
    member.later = RECHECK_INTERVAL;
    let plan = member.plan(&order, &wanted(&[&order]));
    assert!(plan.rechecks && plan.complete, "what was reported holds meanwhile: {plan:?}");
    assert_eq!(plan.steps, [Step::Apply { position: 0, put_back: false, probe: true }]);
    let plan = member.settle(&order);
    assert_eq!((member.take_log().len(), plan.wake_at), (1, Some(member.now() + RECHECK_INTERVAL)));
}

#[test]
fn a_full_comparison_is_made_again() {
    let mut order = order("p", web());
    order.strategy.comparison_option = ComparisonOption::FullComparison;
    let mut member = Member::default();
    let plan = member.settle(&order);
    assert_eq!(plan.wake_at, Some(now() + RECHECK_INTERVAL));
    member.log.clear();
    member.later = RECHECK_INTERVAL;
    let plan = member.plan(&order, &wanted(&[&order]));
    assert!(plan.rechecks && plan.complete && plan.steps.len() == 3, "{plan:?}");
    member.settle(&order);
    assert!(member.log.iter().all(|line| line.starts_with("look at")) && member.log.len() == 3, "{:?}", member.log);
    assert_eq!(member.outcome(&order, 0), State::Done);
}

#[test]
fn what_is_tried_again_is_refused_until_an_answer_says_otherwise() {
    let mut member = Member::default();
    let order = order("p", web());
    member.refuse.insert(ObjectKey::clone(&order.manifests[1].key));
    let refused = member.settle(&order);
    assert!(refused.complete, "{refused:?}");
    member.later = refused.wake_at.expect("it is tried again").duration_since(now());
    let again = member.plan(&order, &wanted(&[&order]));
    assert!(matches!(again.steps[..], [Step::Apply { position: 1, put_back: false, .. }]), "{again:?}");
    assert!(again.complete && again.rechecks, "{again:?}");
}
