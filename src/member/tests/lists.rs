//! What is concluded from lists: from those that fail, from those of another history, and from none.

use super::*;
use deliver::health::HealthRules;
use deliver::inventory::Parent;
use deliver::live::LiveContent;
use engine::member::result::{Answer, tried};
use model::records::Inventory;

const NOW: &str = "2026-01-01T00:00:00Z";

fn now() -> jiff::Timestamp {
    NOW.parse().unwrap()
}

fn key(name: &str) -> ObjectKey {
    ObjectId::of(&map(name, "")).expect("an object").key()
}

/// An object of placement `p` as the member has it.
fn live(name: &str, value: &str, resource_version: u64) -> LiveObject {
    let object = map(name, value);
    LiveObject::new(
        LiveContent {
            id: ObjectId::of(&object).expect("an object"),
            applyset: applyset_id(&PlacementKey::cluster_scoped("p")).into(),
            manifest: Some(Digest::new(object.to_string())),
            owned: Digest::new(value),
            owner: None,
            terminating: false,
            availability: Availability::Available,
            unavailable_because: None,
        },
        format!("uid of {name}").as_str().into(),
        resource_version,
    )
}

/// The inventory of placement `p` as it says that the member holds an order completely.
fn parent(order: &WorkOrder) -> Parent {
    let holds =
        deliver::inventory::Held { index: order.snapshot, commit: order.commit.clone(), digest: order.digest.clone() };
    Parent { holds: Some(holds), ..Parent::default().widened(order) }
}

/// A reconciler that is connected to a member with an inventory.
fn connected(order: &WorkOrder) -> Reconciler {
    let mut reconciler = Reconciler::new("m".into(), "s".into(), true);
    reconciler.command(MemberCommand::Placements(BTreeSet::new()));
    reconciler.connect();
    reconciler.take_parent(parent(order), 0);
    reconciler
}

fn inventory(reconciler: &Reconciler) -> Inventory {
    match reconciler.announce(None, None) {
        MemberEvent::Online { mut inventory, .. } => {
            inventory.remove(&PlacementKey::cluster_scoped("p")).expect("it is ours")
        }
        event => unreachable!("{event:?}"),
    }
}

fn assign(reconciler: &mut Reconciler, order: &WorkOrder) {
    reconciler.command(MemberCommand::Order { order: Arc::new(order.clone()), reported: None });
}

fn steps(reconciler: &mut Reconciler) -> Vec<Step> {
    reconciler.tasks(now()).into_iter().map(|task| task.step).collect()
}

#[test]
fn d02_a_failed_list_is_not_an_empty_one() {
    let both = order(1, &[map("a", "1"), map("b", "1")]);
    let mut reconciler = connected(&both);
    reconciler.take_unwatched();
    reconciler.list_begun(&maps());
    reconciler.see(live("a", "1", 1));
    assert!(reconciler.list_failed(&maps(), "500".to_owned()));
    let unknown = inventory(&reconciler);
    assert_eq!((unknown.known(), unknown.seen().len()), (None, 1), "half a list is none");
    assert!(unknown.complaint().is_some_and(|why| why.contains("ConfigMap: 500")));
    let mut leave = order(2, &[]);
    (leave.remove, leave.prune) = (true, [key("a"), key("b")].into());
    assign(&mut reconciler, &leave);
    assert_eq!(steps(&mut reconciler), []);
    let Some(MemberEvent::Work { status, .. }) = reconciler.report(&leave.placement, now()) else {
        panic!("it is reported")
    };
    assert!(!status.complete && status.inventory.known().is_none() && status.failure.is_none());
    list(&mut reconciler, &maps(), [live("a", "1", 1), live("b", "1", 2)]);
    assert_eq!(inventory(&reconciler).known().map(BTreeSet::len), Some(2));
    assert_eq!(steps(&mut reconciler).len(), 2, "both are pruned");
}

#[test]
fn d02_what_turns_up_after_a_decision_is_reported_and_not_pruned() {
    let mut one = order(1, &[map("a", "1")]);
    let mut reconciler = connected(&one);
    assign(&mut reconciler, &one);
    list(&mut reconciler, &maps(), [live("a", "1", 1), live("stranger", "1", 2)]);
    assert_eq!(steps(&mut reconciler), []);
    let Some(MemberEvent::Work { status, .. }) = reconciler.report(&one.placement, now()) else {
        panic!("it is reported")
    };
    assert!(!status.complete && status.inventory.seen().contains(&key("stranger")));
    one.prune.insert(key("stranger"));
    assign(&mut reconciler, &one);
    assert!(matches!(&steps(&mut reconciler)[..], [Step::Delete { object }] if object.id.key() == key("stranger")));
}

#[test]
fn d02_one_kind_that_is_not_listed_stops_no_other_placement() {
    let mut reconciler = connected(&order(1, &[map("a", "1")]));
    reconciler.take_unwatched();
    reconciler.list_failed(&maps(), "403".to_owned());
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}});
    let other = WorkOrder { placement: PlacementKey::cluster_scoped("q"), ..order(1, &[secret]) };
    assign(&mut reconciler, &other);
    let secrets = WatchedKind { group: String::new(), kind: "Secret".into() };
    assert_eq!(reconciler.take_unwatched(), [(secrets.clone(), Some("v1".to_owned()))]);
    assert_eq!(steps(&mut reconciler), [], "its own kind is listed first");
    list(&mut reconciler, &secrets, []);
    assert!(matches!(steps(&mut reconciler)[..], [Step::WriteParent(_)]));
}

#[test]
fn d07_a_list_after_a_restored_backup_replaces_what_was_known() {
    let second = WorkOrder { snapshot: 1, ..order(2, &[map("a", "2")]) };
    let mut reconciler = connected(&second);
    assign(&mut reconciler, &second);
    list(&mut reconciler, &maps(), [live("a", "2", 90)]);
    assert_eq!(steps(&mut reconciler), [], "everything is as it is to be");
    // The member goes back to before the second snapshot: object, inventory and versions.
    let first = order(1, &[map("a", "1")]);
    reconciler.connect();
    reconciler.take_parent(parent(&first), 0);
    list(&mut reconciler, &maps(), [live("a", "1", 10)]);
    assert!(
        matches!(steps(&mut reconciler)[..], [Step::Apply { position: 0, put_back: false, .. }]),
        "and not an inventory that claims it"
    );
}

#[test]
fn d07_what_a_backup_brought_back_is_deleted_again() {
    let mut less = order(2, &[]);
    less.prune.insert(key("a"));
    let mut reconciler = connected(&order(1, &[map("a", "1")]));
    assign(&mut reconciler, &less);
    list(&mut reconciler, &maps(), [live("a", "1", 10)]);
    assert!(matches!(steps(&mut reconciler)[..], [Step::Delete { .. }]));
    let accepted = StepResult::Deleted { key: key("a"), uid: "uid of a".into(), gone: false };
    reconciler.settle(&less.placement, accepted, now());
    reconciler.forget(&key("a"), 11);
    reconciler.connect();
    reconciler.take_parent(parent(&order(1, &[map("a", "1")])), 0);
    list(&mut reconciler, &maps(), [live("a", "1", 10)]);
    assert!(matches!(steps(&mut reconciler)[..], [Step::Delete { .. }]), "though its uid is the same");
}

#[test]
fn within_one_history_an_older_sight_does_not_replace_a_newer_one() {
    let one = order(1, &[map("a", "2")]);
    let mut reconciler = connected(&one);
    assign(&mut reconciler, &one);
    reconciler.take_unwatched();
    reconciler.list_begun(&maps());
    // Written since the list began, which read the member before that.
    reconciler.see(live("a", "2", 20));
    reconciler.see(live("a", "1", 10));
    reconciler.list_done(&maps());
    reconciler.see(live("a", "1", 15));
    reconciler.forget(&key("a"), 16);
    assert_eq!(steps(&mut reconciler), [], "it stays the newest");
}

#[test]
fn a_kind_that_is_not_served_is_looked_for_again_when_it_is_there() {
    let widget = json!({"apiVersion": "x.org/v1", "kind": "Widget", "metadata": {"name": "w"}});
    let one = order(1, std::slice::from_ref(&widget));
    let widgets = WatchedKind { group: "x.org".into(), kind: "Widget".into() };
    let mut reconciler = connected(&order(1, &[]));
    assign(&mut reconciler, &one);
    assert_eq!(reconciler.take_unwatched(), [(widgets.clone(), Some("v1".to_owned()))]);
    reconciler.kind_absent(&widgets);
    assert_eq!(inventory(&reconciler).known(), Some(&BTreeSet::new()), "of what is not served nothing is there");
    assert!(reconciler.take_unwatched().is_empty());
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.x.org"}});
    let definition = LiveObject::read(&definition, &HealthRules::default()).expect("an object");
    reconciler.see(definition.clone().with(|content| content.availability = Availability::ManifestNotAvailableYet));
    assert!(reconciler.take_unwatched().is_empty(), "it is not established yet");
    let mut established = definition.with(|content| content.availability = Availability::Available);
    established.resource_version = 2;
    reconciler.see(established.clone());
    assert_eq!(reconciler.take_unwatched(), [(widgets.clone(), Some("v1".to_owned()))]);
    established.resource_version = 3;
    reconciler.see(established);
    assert!(reconciler.take_unwatched().is_empty(), "once");
    reconciler.note_served(&ObjectId::of(&widget).expect("an object"));
    assert_eq!(reconciler.take_unwatched().len(), 1, "or it was written");
}

/// Of a member whose first list fails the inventory is unknown, and known once a list is complete.
#[tokio::test]
async fn d02_the_member_says_that_a_kind_is_not_known_until_it_is() {
    let member = Memory::default();
    let before = order(1, &[map("c0", "1"), map("c1", "1")]);
    member.insert(parent(&before).object(&before.placement));
    for name in ["c0", "c1"] {
        let mut object = map(name, "1");
        object["metadata"]["labels"] = json!({"applyset.kubernetes.io/part-of": applyset_id(&before.placement)});
        object["metadata"]["uid"] = name.into();
        member.insert(object);
    }
    member.unlisted.lock().unwrap().insert("ConfigMap".into(), 500);
    let mut stage = Stage::new(member);
    let online = tokio::time::timeout(LIMIT, stage.events.recv()).await.expect("it answers").expect("it lives");
    let MemberEvent::Online { inventory, .. } = online else { panic!("{online:?}") };
    assert!(inventory[&before.placement].known().is_none());
    stage.order(order(2, &[map("c0", "1")]));
    stage.report(2, |work| !work.complete && work.inventory.known().is_none()).await;
    assert_eq!(stage.member.take_requests(), [""; 0]);
    stage.member.unlisted.lock().unwrap().clear();
    stage.member.list_again(&maps()).await;
    let work = stage.report(2, |work| work.complete).await;
    assert_eq!(work.inventory.known(), Some(&[key("c0")].into()));
}

/// A list that never ends does not hold the member up because other watches have news all the time.
#[tokio::test]
async fn a_silent_list_is_given_up_though_inventories_change_without_end() {
    let member = Memory { silent: ["ConfigMap".to_owned()].into(), ..Memory::default() };
    let before = order(1, &[map("c0", "1")]);
    let inventory = parent(&before).object(&before.placement);
    member.insert(inventory.clone());
    let mut common = Common::default();
    common.limits.list_silence = Duration::from_millis(50);
    let mut stage = Stage::with(member, common);
    let deadline = Instant::now() + LIMIT;
    let online = loop {
        assert!(Instant::now() < deadline, "it waits for a list that brings nothing");
        let sink = stage.member.inventories.lock().unwrap().clone();
        if let Some(sink) = sink {
            sink.send(Observation::Inventory(Box::new(inventory.clone()))).await.expect("the member listens");
        }
        tokio::task::yield_now().await;
        if let Ok(event) = stage.events.try_recv() {
            break event;
        }
    };
    let MemberEvent::Online { inventory, .. } = online else { panic!("{online:?}") };
    assert!(inventory[&before.placement].complaint().is_some_and(|why| why.contains("brought nothing")));
}

#[test]
fn d02_a_namespace_stays_while_a_kind_that_another_placement_has_in_it_is_not_listed() {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    let id = ObjectId::of(&namespace).expect("an object");
    let mut leave = order(2, &[]);
    (leave.remove, leave.prune) = (true, [id.key()].into());
    let other = PlacementKey::cluster_scoped("q");
    let mut reconciler = connected(&order(1, &[namespace]));
    let inside = Parent { placement: Some(other.clone()), ..parent(&order(1, &[map("a", "1")])) };
    reconciler.take_parent(inside, 0);
    reconciler.command(MemberCommand::Placements([other].into()));
    assign(&mut reconciler, &leave);
    let there = live("n", "", 1).with(|content| content.id = id);
    list(&mut reconciler, &WatchedKind { group: String::new(), kind: "Namespace".into() }, [there]);
    reconciler.list_failed(&maps(), "403".to_owned());
    assert_eq!(steps(&mut reconciler), [], "what is in it is unknown");
    let others =
        live("a", "1", 1).with(|content| content.applyset = applyset_id(&PlacementKey::cluster_scoped("q")).into());
    list(&mut reconciler, &maps(), [others]);
    assert_eq!(steps(&mut reconciler), [], "there is something in it");
    list(&mut reconciler, &maps(), []);
    assert!(matches!(&steps(&mut reconciler)[..], [Step::Delete { .. }]), "it is empty");
}

#[test]
fn d02_a_namespace_stays_while_the_order_of_another_placement_brings_something_into_it() {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    let id = ObjectId::of(&namespace).expect("an object");
    let mut leave = order(2, &[]);
    (leave.remove, leave.prune) = (true, [id.key()].into());
    let other = |order: WorkOrder| WorkOrder { placement: PlacementKey::cluster_scoped("q"), ..order };
    let brings = other(order(1, &[map("a", "1")]));
    let mut reconciler = Reconciler::new("m".into(), "s".into(), true);
    reconciler.connect();
    reconciler.take_parent(parent(&order(1, &[namespace])), 0);
    assign(&mut reconciler, &leave);
    let there = live("n", "", 1).with(|content| content.id = id);
    list(&mut reconciler, &WatchedKind { group: String::new(), kind: "Namespace".into() }, [there]);
    assert_eq!(steps(&mut reconciler), [], "which orders come is not known");
    assign(&mut reconciler, &brings);
    list(&mut reconciler, &maps(), []);
    reconciler.command(MemberCommand::Placements([leave.placement.clone(), brings.placement.clone()].into()));
    let Ok([Step::WriteParent(inventory)]) = <[Step; 1]>::try_from(steps(&mut reconciler)) else {
        panic!("the inventory is written first, and nothing is deleted")
    };
    reconciler.settle(&brings.placement, StepResult::Parent(Some(*inventory), 0), now());
    assert!(matches!(steps(&mut reconciler)[..], [Step::Apply { .. }]));
    assign(&mut reconciler, &other(WorkOrder { remove: true, ..order(2, &[]) }));
    assert_eq!(steps(&mut reconciler), [], "the object is on its way");
    let refused = Answer::refused(ApplyOutcome::ManifestApplyFailed, String::new());
    reconciler.settle(&brings.placement, tried(&brings.manifests[0], refused, false, None, now()), now());
    assert!(matches!(steps(&mut reconciler)[..], [Step::Delete { .. }, Step::DeleteParent]), "nothing comes any more");
}
