//! What an earlier life or connection reported, and what this one makes of it.

use jiff::Timestamp;

use super::*;
use deliver::live::{LiveContent, LiveObject};
use deliver::step::Step;
use engine::member::result::{Answer, tried};
use model::records::WorkStatus;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).expect("an instant")
}

/// The order's first object on the member, whose fields of ours are these.
fn live(order: &WorkOrder, owned: &str, resource_version: u64) -> LiveObject {
    LiveObject::new(
        LiveContent {
            id: order.manifests[0].id.clone(),
            applyset: applyset_id(&order.placement).into(),
            manifest: Some(order.manifests[0].digest.clone()),
            owned: Digest::new(owned),
            owner: None,
            terminating: false,
            availability: Availability::Available,
            unavailable_because: None,
        },
        "u".into(),
        resource_version,
    )
}

/// Begins a life with an order, what was reported before, and what is on the member.
fn begin(order: &WorkOrder, reported: Option<Arc<WorkStatus>>, there: Option<LiveObject>) -> Reconciler {
    let mut reconciler = Reconciler::new("m".into(), "s".into(), true);
    reconciler.command(MemberCommand::Placements(BTreeSet::new()));
    reconciler.connect();
    reconciler.command(MemberCommand::Order { order: Arc::new(order.clone()), reported });
    list(&mut reconciler, &maps(), there);
    reconciler
}

/// Lets the inventory be written until something else is to be done; returns what.
fn steps(reconciler: &mut Reconciler, order: &WorkOrder) -> Vec<Step> {
    loop {
        let tasks = reconciler.tasks(at(0));
        match tasks.first().map(|task| &task.step) {
            Some(Step::WriteParent(parent)) => {
                reconciler.settle(&order.placement, StepResult::Parent(Some(Parent::clone(parent)), 0), at(0));
            }
            _ => return tasks.into_iter().map(|task| task.step).collect(),
        }
    }
}

fn report(reconciler: &mut Reconciler, order: &WorkOrder, now: Timestamp) -> Option<Arc<WorkStatus>> {
    match reconciler.report(&order.placement, now)? {
        MemberEvent::Work { status, .. } => Some(status),
        event => unreachable!("{event:?}"),
    }
}

/// The member applied the order's first object, and answers with it.
fn applied(order: &WorkOrder, live: LiveObject) -> StepResult {
    let (message, differences) = (String::new(), Vec::new());
    let answer = Answer { outcome: ApplyOutcome::Applied, message, live: Some(live), differences };
    tried(&order.manifests[0], answer, false, None, at(0))
}

/// What is reported of an order whose only object is as `owned` says and available.
fn reported(order: &WorkOrder, owned: &str) -> Arc<WorkStatus> {
    let mut reconciler = begin(order, None, None);
    steps(&mut reconciler, order);
    reconciler.settle(&order.placement, applied(order, live(order, owned, 1)), at(0));
    steps(&mut reconciler, order);
    report(&mut reconciler, order, at(0)).filter(|work| work.complete).expect("a complete report")
}

#[test]
fn w03_a_put_back_that_failed_stays_failed_over_a_restart() {
    let order = order(1, &[map("a", "1")]);
    let mut before = begin(&order, Some(reported(&order, "ours")), Some(live(&order, "somebody's", 2)));
    assert!(matches!(steps(&mut before, &order)[..], [Step::Apply { put_back: true, .. }]));
    let refused = Answer::refused(ApplyOutcome::ManifestApplyFailed, "conflict".into());
    before.settle(&order.placement, tried(&order.manifests[0], refused, true, None, at(1)), at(1));
    steps(&mut before, &order);
    let failed = report(&mut before, &order, at(1)).expect("it failed");
    assert_eq!((failed.complete, failed.manifests[0].applied), (true, ApplyOutcome::ManifestApplyFailed));

    let mut after = begin(&order, Some(failed), Some(live(&order, "somebody's", 2)));
    assert!(matches!(steps(&mut after, &order)[..], [Step::Apply { .. }]), "it is tried again");
    let meanwhile = report(&mut after, &order, at(2)).expect("a first report");
    let manifest = &meanwhile.manifests[0];
    assert_eq!((meanwhile.complete, manifest.applied), (true, ApplyOutcome::ManifestApplyFailed));
    assert_eq!(manifest.message, "conflict");
    assert_eq!(manifest.owned.as_ref(), Some(&Digest::new("ours")), "drift is told from the last answer");
}

#[test]
fn w03_drift_while_nobody_looked_is_seen_whatever_the_order_is() {
    let old = order(1, &[map("a", "1")]);
    let next = WorkOrder { generation: 2, snapshot: 1, ..old.clone() };
    let mut reconciler = begin(&next, Some(reported(&old, "ours")), Some(live(&next, "somebody's", 2)));
    let found = steps(&mut reconciler, &next);
    assert!(matches!(found[..], [Step::Apply { put_back: true, .. }]), "{found:?}");

    let changed = order(2, &[map("a", "2")]);
    let mut reconciler = begin(&changed, Some(reported(&old, "ours")), Some(live(&changed, "another's", 2)));
    let found = steps(&mut reconciler, &changed);
    assert!(
        matches!(found[..], [Step::Apply { put_back: false, .. }]),
        "of another manifest nothing was known: {found:?}"
    );
}

/// A life that ended between writing an object and reporting it leaves nothing that drift could be told from: somebody may have
/// changed the object since.
#[test]
fn w03_what_no_report_names_is_applied_once_more_and_drift_is_told_from_that() {
    let order = order(1, &[map("a", "1")]);
    let mut reconciler = begin(&order, None, Some(live(&order, "somebody's", 2)));
    let found = steps(&mut reconciler, &order);
    assert!(matches!(found[..], [Step::Apply { put_back: false, .. }]), "{found:?}");
    reconciler.settle(&order.placement, applied(&order, live(&order, "ours", 3)), at(1));
    assert_eq!(steps(&mut reconciler, &order), []);
    reconciler.see(live(&order, "somebody's", 4));
    let found = steps(&mut reconciler, &order);
    assert!(matches!(found[..], [Step::Apply { put_back: true, .. }]), "{found:?}");
}

#[test]
fn steps_of_a_forgotten_order_end_before_those_of_the_next_begin() {
    let (old, new) = (order(1, &[map("a", "1")]), order(2, &[map("a", "2")]));
    let mut reconciler = begin(&old, None, None);
    assert_eq!(steps(&mut reconciler, &old).len(), 1);
    reconciler.command(MemberCommand::Forget(old.placement.clone()));
    reconciler.command(MemberCommand::Order { order: Arc::new(new.clone()), reported: None });
    assert_eq!(steps(&mut reconciler, &new), [], "a step of the forgotten order is under way");
    reconciler.settle(&old.placement, applied(&old, live(&old, "ours", 2)), at(1));
    assert!(matches!(steps(&mut reconciler, &new)[..], [Step::Apply { .. }]));

    let mut reconciler = begin(&old, None, None);
    assert_eq!(steps(&mut reconciler, &old).len(), 1);
    reconciler.command(MemberCommand::Forget(old.placement.clone()));
    reconciler.settle(&old.placement, applied(&old, live(&old, "ours", 2)), at(1));
    reconciler.command(MemberCommand::Order { order: Arc::new(new.clone()), reported: None });
    assert!(matches!(steps(&mut reconciler, &new)[..], [Step::Apply { .. }]), "it has ended meanwhile");
}

#[test]
fn w13_what_was_reported_stands_until_it_was_checked() {
    let order = order(1, &[map("a", "1")]);
    let before = reported(&order, "ours");
    let mut reconciler = Reconciler::new("m".into(), "s".into(), true);
    reconciler.command(MemberCommand::Placements(BTreeSet::new()));
    reconciler.connect();
    reconciler.command(MemberCommand::Order { order: Arc::new(order.clone()), reported: Some(Arc::clone(&before)) });
    assert_eq!(reconciler.unreported().count(), 0, "nothing was checked");
    list(&mut reconciler, &maps(), [live(&order, "ours", 1)]);
    assert_eq!(reconciler.unreported().count(), 0, "nothing was compared");
    steps(&mut reconciler, &order);
    let again = report(&mut reconciler, &order, at(100)).expect("every life reports once");
    assert_eq!((again.complete, again.available_since), (true, before.available_since));

    reconciler.connect();
    list(&mut reconciler, &maps(), [live(&order, "ours", 1)]);
    steps(&mut reconciler, &order);
    let again = report(&mut reconciler, &order, at(200)).expect("every connection reports once");
    assert_eq!((again.complete, again.available_since), (true, before.available_since));
}

#[test]
fn w13_what_is_missing_after_a_restart_is_reported_and_put_back() {
    let order = order(1, &[map("a", "1")]);
    let mut reconciler = begin(&order, Some(reported(&order, "ours")), None);
    let found = steps(&mut reconciler, &order);
    assert!(matches!(found[..], [Step::Apply { put_back: true, .. }]), "{found:?}");
    let status = report(&mut reconciler, &order, at(0)).expect("it is not there");
    assert_eq!((status.complete, status.manifests[0].applied), (false, ApplyOutcome::Pending));
}

#[test]
fn what_was_refused_is_tried_at_once_when_it_is_asked_for_and_its_result_is_told_again() {
    let order = order(1, &[map("a", "1")]);
    let mut reconciler = begin(&order, None, None);
    let refuse = |reconciler: &mut Reconciler| {
        assert!(matches!(steps(reconciler, &order)[..], [Step::Apply { put_back: false, .. }]));
        let refused = Answer::refused(ApplyOutcome::ManifestApplyFailed, "not yours".into());
        reconciler.settle(&order.placement, tried(&order.manifests[0], refused, false, None, at(0)), at(0));
        assert!(steps(reconciler, &order).is_empty(), "it has a pause");
    };
    refuse(&mut reconciler);
    let first = report(&mut reconciler, &order, at(0)).expect("it is told");
    assert_eq!((first.complete, first.manifests[0].applied), (true, ApplyOutcome::ManifestApplyFailed));
    reconciler.command(MemberCommand::TryAgain(order.placement.clone()));
    refuse(&mut reconciler);
    assert_eq!(report(&mut reconciler, &order, at(0)), Some(first));
}
