//! What somebody changed on a member, and what becomes of it.

use super::*;

#[test]
fn drift_is_put_back_three_times_then_contested() {
    let mut member = Member::default();
    let order = order("p", web());
    member.settle(&order);
    member.log.clear();
    let key = order.manifests[1].key.clone();
    for _ in 0..PUT_BACKS_MAX {
        member.drift(&key);
        member.settle(&order);
    }
    assert_eq!(member.log, ["put back ConfigMap n/settings"; PUT_BACKS_MAX]);
    member.drift(&key);
    let plan = member.settle(&order);
    assert_eq!(plan.wake_at, Some(now() + PUT_BACK_WINDOW));
    assert_eq!(member.log.len(), PUT_BACKS_MAX);
}

#[test]
fn drift_from_before_a_restart_is_seen_by_its_baseline() {
    let mut member = Member::default();
    let order = order("p", web());
    member.settle(&order);
    member.log.clear();
    member.progress.attempts.clear();
    member.settle(&order);
    assert_eq!(member.log, [""; 0], "a restart alone writes nothing");
    member.drift(&order.manifests[1].key);
    member.settle(&order);
    assert_eq!(member.log, ["put back ConfigMap n/settings"]);
    member.log.clear();
    member.progress.attempts.clear();
    member.live.remove(&order.manifests[1].key);
    member.settle(&order);
    assert_eq!(member.log, ["put back ConfigMap n/settings"], "it is gone");
}

#[test]
fn w3_what_no_report_names_is_applied_once_more() {
    let applied = ["apply ConfigMap n/settings"];
    let rows: [(&str, bool, bool, WhenToApply, &[&str]); 5] = [
        ("a report without the object", true, true, WhenToApply::Always, &applied),
        ("no report, and the inventory does not name the snapshot", false, false, WhenToApply::Always, &applied),
        ("a new store: the inventory names the snapshot", false, true, WhenToApply::Always, &[]),
        ("what may drift is read first", true, true, WhenToApply::IfNotDrifted, &["look at ConfigMap n/settings"]),
        ("a new store, and what may drift", false, true, WhenToApply::IfNotDrifted, &[]),
    ];
    for (name, is_reported, is_held, when_to_apply, expected) in rows {
        let mut member = Member::default();
        let mut order = order("p", web());
        order.strategy.when_to_apply = when_to_apply;
        member.settle(&order);
        member.log.clear();
        let key = &order.manifests[1].key;
        member.change(key, true);
        member.progress.attempts.clear();
        Arc::make_mut(&mut member.progress.baselines).remove(key);
        if !is_reported {
            member.progress.baselines = Arc::default();
        }
        member.progress.is_reported = is_reported;
        if let Some(parent) = member.parent.as_mut().filter(|_| !is_held) {
            parent.holds = None;
        }
        member.settle(&order);
        let log: Vec<&str> = member.log.iter().map(String::as_str).filter(|line| line.contains("settings")).collect();
        assert_eq!(log, expected, "{name}");
    }
}

#[test]
fn w3_what_was_changed_before_a_removal_is_taken_back_is_applied_once_more() {
    let mut member = Member::default();
    let kept = order("p", web());
    let leaving = WorkOrder { remove: true, ..order("p", vec![]) };
    member.settle(&kept);
    member.log.clear();
    member.change(&kept.manifests[1].key, true);
    member.progress.restart(&leaving);
    member.progress.restart(&kept);
    member.settle(&kept);
    assert!(member.log.contains(&"apply ConfigMap n/settings".to_owned()), "{:?}", member.log);
    assert_eq!(member.outcome(&kept, 1), State::Done);
}

#[test]
fn if_not_drifted_leaves_drift_and_reports_it() {
    let mut member = Member::default();
    let mut order = order("p", web());
    order.strategy.when_to_apply = WhenToApply::IfNotDrifted;
    member.settle(&order);
    member.log.clear();
    member.change(&order.manifests[1].key, true);
    let plan = member.settle(&order);
    assert_eq!(member.log, ["look at ConfigMap n/settings"], "one look, and nothing is written");
    assert_eq!(member.outcome(&order, 1), State::Refused(ApplyOutcome::FoundDrifts));
    assert!(plan.complete && plan.wake_at.is_none(), "a watch tells when it changes again");
}

#[test]
fn what_was_digested_by_another_key_is_applied_once_more_and_is_no_drift() {
    let mut member = Member::default();
    let order = order("p", web());
    member.settle(&order);
    member.log.clear();
    let key = Arc::clone(&order.manifests[1].key);
    let manifest = order.manifests[1].digest.clone();
    for (live, expected) in [("two:1", "apply ConfigMap n/settings"), ("one:2", "put back ConfigMap n/settings")] {
        let object = member.live.get(&key).expect("it is there").clone();
        member.live.insert(Arc::clone(&key), object.with(|content| content.owned = Digest::from(live)));
        member.progress.attempts.clear();
        member.progress.is_reported = true;
        let baseline = Baseline { manifest: manifest.clone(), owned: "one:1".into() };
        Arc::make_mut(&mut member.progress.baselines).insert(Arc::clone(&key), baseline);
        member.settle(&order);
        assert_eq!(std::mem::take(&mut member.log), [expected], "{live}");
    }
}
