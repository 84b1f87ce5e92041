//! What is checked again, on a clock of the test's own.

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::Common;
use crate::apply::perform;
use deliver::drift::{CHECK_PAUSE, RECHECK_INTERVAL};
use deliver::health::HealthRules;
use deliver::live::LiveObject;
use engine::member::result::{Answer, tried};
use model::api::placement::{ComparisonOption, WhenToApply};
use model::diff::missing_object;
use model::records::Difference;
use model::records::WorkStatus;

fn start() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

/// A reconciler with an order.
fn reconciler(order: &WorkOrder, reported: Option<Arc<WorkStatus>>) -> Reconciler {
    let mut reconciler = Reconciler::new("m".into(), "s".into(), true);
    reconciler.command(MemberCommand::Placements(BTreeSet::new()));
    reconciler.command(MemberCommand::Order { order: Arc::new(order.clone()), reported });
    list(&mut reconciler, &maps(), []);
    reconciler
}

fn report(reconciler: &mut Reconciler, order: &WorkOrder, now: Timestamp) -> Option<Arc<WorkStatus>> {
    match reconciler.report(&order.placement, now)? {
        MemberEvent::Work { status, .. } => Some(status),
        event => unreachable!("{event:?}"),
    }
}

/// Lets every comparison that is due find this.
fn compare(reconciler: &mut Reconciler, differences: &[Difference], now: Timestamp) -> usize {
    reconciler.mark_due(now);
    let tasks = reconciler.tasks(now);
    for task in &tasks {
        let outcome = if differences.is_empty() { ApplyOutcome::NoDiffFound } else { ApplyOutcome::FoundDiff };
        let answer = Answer { differences: differences.to_vec(), ..Answer::refused(outcome, String::new()) };
        let result = tried(&task.order.manifests[0], answer, false, task.before.as_deref(), now);
        reconciler.settle(&task.order.placement, result, now);
    }
    reconciler.tasks(now);
    tasks.len()
}

#[test]
fn a_report_of_differences_is_made_again_and_told_where_it_changed() {
    let mut order = order(1, &[map("a", "1")]);
    order.strategy.type_ = ApplyStrategyType::ReportDiff;
    let mut reconciler = reconciler(&order, None);
    let differs = [missing_object()];
    assert_eq!(compare(&mut reconciler, &differs, start()), 1);
    let first = report(&mut reconciler, &order, start()).expect("a first report");
    assert_eq!((first.complete, first.manifests[0].applied), (true, ApplyOutcome::FoundDiff));
    assert_eq!(first.manifests[0].differs_since, Some(start()));
    let soon = start() + RECHECK_INTERVAL - SignedDuration::from_secs(1);
    assert_eq!((compare(&mut reconciler, &differs, soon), reconciler.wake_at()), (0, Some(start() + RECHECK_INTERVAL)));

    let second = start() + RECHECK_INTERVAL;
    reconciler.mark_due(second);
    let tasks = reconciler.tasks(second);
    assert_eq!(tasks.len(), 1);
    assert_eq!(report(&mut reconciler, &order, second), None, "what was reported holds while it is checked again");
    let answer = Answer { differences: differs.to_vec(), ..Answer::refused(ApplyOutcome::FoundDiff, String::new()) };
    let same = tried(&order.manifests[0], answer, false, None, second);
    reconciler.settle(&order.placement, same, second);
    reconciler.tasks(second);
    assert_eq!(report(&mut reconciler, &order, second), None, "and afterwards, where it is the same");

    let third = second + RECHECK_INTERVAL;
    assert_eq!(compare(&mut reconciler, &[], third), 1);
    let repaired = report(&mut reconciler, &order, third).expect("somebody repaired it");
    assert_eq!((repaired.complete, repaired.manifests[0].applied), (true, ApplyOutcome::NoDiffFound));
    assert_eq!(repaired.manifests[0].differs_since, None);
}

/// A session of an agent begins with what its members hold; a report counts once the server has sent the order again.
#[test]
fn what_a_member_holds_is_said_again_without_its_reports() {
    let mut order = order(1, &[map("a", "1")]);
    order.strategy.type_ = ApplyStrategyType::ReportDiff;
    let mut reconciler = reconciler(&order, None);
    compare(&mut reconciler, &[], start());
    let first = report(&mut reconciler, &order, start()).expect("a first report");
    reconciler.command(MemberCommand::Announce);
    assert_eq!(reconciler.unreported().count(), 0, "nothing waits to be sent");
    assert_eq!(report(&mut reconciler, &order, start()), None, "before the order was sent it counts for nothing");
    for _ in 0..2 {
        reconciler.command(MemberCommand::ReportAgain);
        assert_eq!(report(&mut reconciler, &order, start()).as_ref(), Some(&first));
        assert_eq!(report(&mut reconciler, &order, start()), None, "once");
    }
}

#[test]
fn a_new_order_is_not_complete_by_looks_at_the_old_one() {
    let mut report_diff = order(1, &[map("a", "1")]);
    report_diff.strategy.type_ = ApplyStrategyType::ReportDiff;
    let mut reconciler = reconciler(&report_diff, None);
    compare(&mut reconciler, &[], start());
    let later = start() + RECHECK_INTERVAL;
    reconciler.mark_due(later);
    assert_eq!(reconciler.tasks(later).len(), 1);
    let next = WorkOrder { generation: 2, ..report_diff };
    reconciler.command(MemberCommand::Order { order: Arc::new(next.clone()), reported: None });
    let status = report(&mut reconciler, &next, later).expect("it is another generation");
    assert_eq!((status.generation, status.complete), (2, false));
}

#[test]
fn dates_survive_a_restart_and_a_new_generation() {
    let mut order = order(1, &[map("a", "1")]);
    order.strategy.type_ = ApplyStrategyType::ReportDiff;
    let differs = [missing_object()];
    let mut before = reconciler(&order, None);
    compare(&mut before, &differs, start());
    let reported = report(&mut before, &order, start()).expect("a report");

    let hour = start() + SignedDuration::from_hours(1);
    let mut after = reconciler(&order, Some(reported));
    assert_eq!(after.tasks(hour).len(), 1);
    let interim = report(&mut after, &order, hour).expect("it is being compared");
    assert_eq!((interim.complete, interim.manifests[0].differs_since), (true, Some(start())), "it stands till then");
    after.connect();
    list(&mut after, &maps(), []);
    compare(&mut after, &differs, hour);
    let again = report(&mut after, &order, hour).expect("it was compared");
    assert_eq!((again.manifests[0].differs_since, again.manifests[0].observed_at), (Some(start()), Some(start())));

    let next = WorkOrder { generation: 2, ..order };
    after.command(MemberCommand::Order { order: Arc::new(next.clone()), reported: None });
    let interim = report(&mut after, &next, hour).expect("another generation");
    assert!(!interim.complete && interim.manifests[0].differences.is_empty());
    let other = [Difference { path: "/data/v".into(), value_in_member: None, value_in_hub: None }];
    compare(&mut after, &other, hour);
    let last = report(&mut after, &next, hour).expect("it was compared");
    assert_eq!((last.manifests[0].differs_since, last.manifests[0].observed_at), (Some(start()), Some(hour)));
}

/// Carries out what is due until nothing is; returns the requests.
async fn settle(reconciler: &mut Reconciler, member: &Memory, now: Timestamp) -> Vec<String> {
    reconciler.mark_due(now);
    loop {
        let tasks = reconciler.tasks(now);
        if tasks.is_empty() {
            let mut requests = member.take_requests();
            requests.retain(|request| !request.contains("gitfleet-system"));
            return requests;
        }
        for task in tasks {
            let placement = task.order.placement.clone();
            let result = perform(member, &Common::default(), &Presence::default(), task).await;
            reconciler.settle(&placement, result, now);
        }
    }
}

/// Lets somebody change an object on the member, and the watch tell of it. The daemon's fields are what the test says they are.
fn change(reconciler: &mut Reconciler, member: &Memory, version: u64, owned: &str, change: impl FnOnce(&mut Value)) {
    let key = ObjectId::of(&map("a", "")).expect("an object").key();
    let mut object = member.objects.lock().unwrap()[&key].clone();
    change(&mut object);
    object["metadata"]["resourceVersion"] = Value::from(version.to_string());
    member.insert(object.clone());
    let live = LiveObject::read(&object, &HealthRules::default()).expect("an object");
    reconciler.see(live.with(|content| content.owned = Digest::from(owned)));
}

#[tokio::test]
async fn drift_that_was_taken_back_by_hand_is_no_drift_any_more() {
    let member = Memory::default();
    let mut order = order(1, &[map("a", "1")]);
    order.strategy.when_to_apply = WhenToApply::IfNotDrifted;
    let mut reconciler = reconciler(&order, None);
    assert_eq!(settle(&mut reconciler, &member, start()).await, ["apply ConfigMap n/a"]);
    change(&mut reconciler, &member, 1, "without v", |object| object["data"]["v"] = "5".into());
    let now = clock::now();
    assert_eq!(settle(&mut reconciler, &member, now).await, ["compare ConfigMap n/a"]);
    let drifted = report(&mut reconciler, &order, now).expect("a report");
    assert_eq!(drifted.manifests[0].applied, ApplyOutcome::FoundDrifts);
    assert_eq!(drifted.manifests[0].differences[0].path, "/data/v");
    change(&mut reconciler, &member, 2, "without v", |object| object["data"]["v"] = "1".into());
    assert_eq!(reconciler.tasks(now).len(), 0, "not at once");
    assert_eq!(reconciler.wake_at(), Some(now + CHECK_PAUSE));
    let later = now + CHECK_PAUSE;
    assert_eq!(settle(&mut reconciler, &member, later).await, ["compare ConfigMap n/a", "apply ConfigMap n/a"]);
    let repaired = report(&mut reconciler, &order, later).expect("a report");
    assert_eq!((repaired.manifests[0].applied, repaired.manifests[0].differences.len()), (ApplyOutcome::Applied, 0));
}

#[tokio::test]
async fn a_full_comparison_tells_what_others_added_to_an_applied_object() {
    let member = Memory::default();
    let mut order = order(1, &[map("a", "1")]);
    order.strategy.comparison_option = ComparisonOption::FullComparison;
    let mut reconciler = reconciler(&order, None);
    let now = clock::now();
    assert_eq!(settle(&mut reconciler, &member, now).await, ["apply ConfigMap n/a"]);
    let first = report(&mut reconciler, &order, now).expect("a report");
    assert_eq!((first.complete, first.manifests[0].differences.len()), (true, 0), "the answer is as the manifest says");
    let key = ObjectId::of(&map("a", "")).expect("an object").key();
    member.objects.lock().unwrap().get_mut(&key).expect("it is there")["data"]["more"] = "x".into();
    let later = reconciler.wake_at().expect("it is checked again");
    assert!(later >= now + RECHECK_INTERVAL);
    assert_eq!(settle(&mut reconciler, &member, later).await, [""; 0], "it is only read");
    let second = report(&mut reconciler, &order, later).expect("it differs now");
    assert_eq!((second.complete, second.manifests[0].applied), (true, ApplyOutcome::Applied));
    let paths: Vec<&str> = second.manifests[0].differences.iter().map(|d| d.path.as_str()).collect();
    assert_eq!((paths, second.manifests[0].differs_since), (vec!["/data/more"], Some(later)));
}
