//! Inventories that somebody else writes while a member's task is connected.

use jiff::{SignedDuration, Timestamp};

use super::*;
use deliver::inventory::Held;
use engine::member::result::StepResult;

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

fn placement() -> PlacementKey {
    PlacementKey::cluster_scoped("p")
}

/// The inventory of an order that is delivered.
fn inventory(order: &WorkOrder) -> Parent {
    let held = Held { index: order.snapshot, commit: order.commit.clone(), digest: order.digest.clone() };
    let empty = Parent { source: "s".to_owned(), placement: Some(placement()), ..Parent::default() };
    Parent { holds: Some(held), ..empty.widened(order) }
}

/// A reconciler whose member holds an order completely, with the inventory in version 10.
fn delivered(order: &WorkOrder) -> Reconciler {
    let mut reconciler = Reconciler::new("m".into(), "s".into(), true);
    reconciler.command(MemberCommand::Placements(BTreeSet::new()));
    reconciler.connect();
    reconciler.take_parent(inventory(order), 10);
    reconciler.command(MemberCommand::Order { order: Arc::new(order.clone()), reported: None });
    list(&mut reconciler, &maps(), []);
    assert!(reconciler.tasks(at(0)).is_empty(), "nothing is left to do");
    reconciler
}

/// Lets the steps that are due write the inventory, in versions from this one on. Returns what was written.
fn put_right(reconciler: &mut Reconciler, now: Timestamp, mut version: u64) -> Vec<Parent> {
    let mut written = Vec::new();
    reconciler.mark_due(now);
    loop {
        let tasks = reconciler.tasks(now);
        let Some(task) = tasks.into_iter().next() else { return written };
        let Step::WriteParent(parent) = task.step else { panic!("only the inventory is written, not {:?}", task.step) };
        written.push(Parent::clone(&parent));
        reconciler.settle(&placement(), StepResult::Parent(Some(*parent), version), now);
        version += 1;
    }
}

/// What happens to an inventory; tells whether that is news.
type Happens = fn(&mut Reconciler, Parent) -> bool;

#[test]
fn an_inventory_that_somebody_else_wrote_is_put_right() {
    let now = order(2, &[]);
    let earlier = inventory(&order(1, &[]));
    let wanted = inventory(&now);
    let written: Happens = |reconciler, earlier| reconciler.see_parent(earlier, 11, at(0));
    let stale: Happens = |reconciler, earlier| reconciler.see_parent(earlier, 9, at(0));
    let listed: Happens = |reconciler, earlier| !reconciler.list_parents(vec![(earlier, 11)], 12, at(0)).is_empty();
    let listed_before: Happens =
        |reconciler, earlier| !reconciler.list_parents(vec![(earlier, 9)], 9, at(0)).is_empty();
    let removed: Happens = |reconciler, _| reconciler.lose_parent(&placement(), 11, at(0));
    let removed_before: Happens = |reconciler, _| reconciler.lose_parent(&placement(), 9, at(0));
    let not_listed: Happens = |reconciler, _| !reconciler.list_parents(Vec::new(), 12, at(0)).is_empty();
    let not_listed_yet: Happens = |reconciler, _| !reconciler.list_parents(Vec::new(), 9, at(0)).is_empty();
    // What happens, and whether it is put right: what a watch shows of a time before the own write is no news.
    let rows: [(&str, Happens, bool); 8] = [
        ("an earlier leader wrote late", written, true),
        ("a write from before is seen late", stale, false),
        ("a list shows what it wrote", listed, true),
        ("a list is from before the own write", listed_before, false),
        ("it was removed", removed, true),
        ("a removal from before is seen late", removed_before, false),
        ("a list does not name it", not_listed, true),
        ("a list from before the own write does not name it", not_listed_yet, false),
    ];
    for (name, happen, is_news) in rows {
        let mut reconciler = delivered(&now);
        assert_eq!(happen(&mut reconciler, earlier.clone()), is_news, "{name}");
        let written = put_right(&mut reconciler, at(0), 20);
        assert_eq!(written.last(), is_news.then_some(&wanted), "{name}");
        // The watch shows the own write, too.
        assert!(!reconciler.see_parent(wanted.clone(), 20, at(1)), "{name}");
        assert_eq!(put_right(&mut reconciler, at(1), 30), [], "{name}");
    }
}

#[test]
fn somebody_who_writes_an_inventory_without_end_does_not_make_us_write_without_end() {
    let now = order(2, &[]);
    let mut reconciler = delivered(&now);
    let mut writes = 0;
    for second in 0..60 {
        let version = 100 + 10 * u64::try_from(second).expect("seconds are not negative");
        let mut theirs = inventory(&order(1, &[]));
        theirs.namespaces.insert(format!("n{second}"));
        reconciler.see_parent(theirs, version, at(second));
        writes += put_right(&mut reconciler, at(second), version + 1).len();
    }
    assert!((6..=7).contains(&writes), "one each 10 s, not {writes}");
}

#[test]
fn an_inventory_without_an_order_is_announced_when_its_objects_are_listed() {
    let mut reconciler = Reconciler::new("m".into(), "s".into(), true);
    reconciler.command(MemberCommand::Placements(BTreeSet::new()));
    reconciler.connect();
    let theirs = Parent { source: "of somebody else".to_owned(), ..inventory(&order(1, &[])) };
    reconciler.see_parent(theirs, 5, at(0));
    assert!(!reconciler.take_announcement(), "it is another source's");
    reconciler.see_parent(inventory(&order(1, &[map("a", "1")])), 6, at(0));
    assert!(!reconciler.take_announcement(), "what belongs to it is not listed yet");
    list(&mut reconciler, &maps(), []);
    assert!(reconciler.take_announcement());
    assert!(!reconciler.take_announcement(), "once");
    let MemberEvent::Online { holds, .. } = reconciler.announce(None, None) else { panic!("it answers") };
    assert!(holds.contains_key(&placement()));
}

#[tokio::test]
async fn a_task_puts_right_what_an_earlier_leader_wrote_late() {
    let mut stage = Stage::new(Memory::default());
    stage.order(order(1, &[map("a", "1")]));
    stage.report(1, |work| work.complete).await;
    let key = ObjectKey {
        group: "".into(),
        kind: "ConfigMap".into(),
        namespace: "gitfleet-system".into(),
        name: "crp.p".into(),
    };
    let right = stage.member.objects.lock().unwrap()[&key].clone();
    let mut late = right.clone();
    late["metadata"]["annotations"]["gitfleet.io/digest"] = Value::from("h0");
    late["metadata"]["annotations"]["gitfleet.io/epoch"] = Value::from("1");
    late["metadata"]["resourceVersion"] = Value::from("1000");
    stage.member.insert(late.clone());
    stage.member.take_requests();
    let sink = stage.member.inventories.lock().unwrap().clone().expect("inventories are watched");
    sink.send(Observation::Inventory(Box::new(late))).await.expect("the member listens");
    // Any later order is planned on what is there, and so comes after.
    let is_right = || {
        let digest = |object: &Value| object["metadata"]["annotations"]["gitfleet.io/digest"].clone();
        digest(&stage.member.objects.lock().unwrap()[&key]) == digest(&right)
    };
    let deadline = Instant::now() + LIMIT;
    while !is_right() {
        assert!(Instant::now() < deadline, "it is not put right: {:?}", stage.member.take_requests());
        tokio::task::yield_now().await;
    }
    assert_eq!(stage.member.take_requests(), ["apply ConfigMap gitfleet-system/crp.p"]);
}

#[tokio::test]
async fn a_kind_that_an_inventory_brings_while_the_member_is_listed_is_listed_too() {
    let member = Memory::default();
    let of = |name: &str, kind: &str| {
        let key = PlacementKey::cluster_scoped(name);
        let parent = Parent { group_kinds: [kind.to_owned()].into(), ..inventory(&order(1, &[])) };
        Parent { placement: Some(key.clone()), ..parent }.object(&key)
    };
    member.insert(of("p", "ConfigMap"));
    *member.written_at_once.lock().unwrap() = Some(of("q", "Secret"));
    let mut stage = Stage::new(member);
    let answer = async {
        loop {
            if let MemberEvent::Online { .. } = stage.events.recv().await.expect("the member lives") {
                return;
            }
        }
    };
    tokio::time::timeout(LIMIT, answer).await.expect("it answers without waiting for a list that nobody began");
}
