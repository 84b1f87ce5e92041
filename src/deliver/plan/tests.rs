use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::json;

use super::super::claim::{Holder, Peers};
use super::super::waves::wave;
use super::*;
use crate::health::HealthRules;
use crate::holdings::{Holdings, Wanted};
use crate::inventory::{applyset_id, labelled};
use crate::lists::Unlisted;
use crate::live::LiveObject;
use crate::progress::Baseline;
use crate::step::{DriftCheck, Found};
use model::api::placement::WhenToTakeOver;
use model::id::{ObjectId, ObjectKey, PlacementKey};
use model::records::Availability;

/// What several placements want.
mod claims;
/// What somebody changed.
mod drift;
/// What another placement takes over.
mod hand_over;
/// What is checked again.
mod looks;
/// What somebody else owns, and what stays behind.
mod owners;
/// What is never written.
mod reserved;

/// What is not known to be all.
mod unlisted;

const NOW: &str = "2026-01-01T00:00:00Z";

fn now() -> Timestamp {
    NOW.parse().expect("a timestamp")
}

fn desired(kind: &str, name: &str, content: &str) -> Desired {
    let (api_version, kind) = kind.rsplit_once('/').unwrap_or(("v1", kind));
    let namespace = if kind == "Namespace" { None } else { Some("n") };
    let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace},
        "data": {"content": content}});
    let id = ObjectId::of(&object).expect("an object");
    let digest = Digest::new(format!("{kind}/{name}={content}"));
    let wave = wave(&id.group, &id.kind);
    Desired { key: Arc::new(id.key()), wave, id, object: Arc::new(object), digest, encrypted: None }
}

fn order(placement: &str, manifests: Vec<Desired>) -> WorkOrder {
    WorkOrder {
        placement: PlacementKey::cluster_scoped(placement),
        manifests: manifests.into(),
        ..testkit::records::work_order()
    }
}

/// A member in memory that carries steps out as an API server would.
#[derive(Default)]
struct Member {
    live: Holdings,
    parent: Option<Parent>,
    unlisted: Unlisted,
    /// Objects that whoever decides does not know of.
    undecided: BTreeSet<ObjectKey>,
    progress: Progress,
    log: Vec<String>,
    refuse: BTreeSet<ObjectKey>,
    /// Objects that somebody else made.
    foreign: BTreeSet<ObjectKey>,
    /// Objects that a look finds to differ.
    differs: BTreeSet<ObjectKey>,
    /// Why nothing can be read.
    blind: Option<String>,
    others: Others,
    /// How long after [`now`] it is.
    later: SignedDuration,
    uid: u64,
}

/// The other placements of a member; all others are gone.
#[derive(Clone, Default)]
struct Others {
    orders: Vec<(WorkOrder, Progress)>,
    /// Placements whose orders have not come.
    awaited: Vec<PlacementKey>,
    /// Placements of another source.
    elsewhere: Vec<PlacementKey>,
    /// Not all kinds of them are listed.
    unseen: bool,
}

impl Peers for Others {
    fn holder(&self, label: &str) -> Holder<'_> {
        let is_named = |placement: &&PlacementKey| applyset_id(placement) == label;
        if let Some(placement) = self.elsewhere.iter().find(is_named) {
            return Holder::OfSource(placement, "another");
        }
        if let Some((order, _)) = self.orders.iter().find(|(order, _)| applyset_id(&order.placement) == label) {
            return Holder::Ordered(order);
        }
        self.awaited.iter().find(is_named).map_or(Holder::Nobody, |placement| Holder::Awaited(Some(placement)))
    }

    fn delivery(&self, placement: &PlacementKey) -> Option<(&WorkOrder, &Progress)> {
        self.orders.iter().find(|(order, _)| order.placement == *placement).map(|(order, progress)| (order, progress))
    }

    fn are_known(&self) -> bool {
        self.awaited.is_empty()
    }

    fn may_have_unseen(&self, _container: &ObjectKey, _ours: &str) -> bool {
        self.unseen
    }
}

impl Member {
    fn plan(&self, order: &WorkOrder, wanted: &Wanted) -> Plan {
        let ours = &applyset_id(&order.placement);
        let (live, parent, unlisted) = (&self.live, self.parent.as_ref(), &self.unlisted);
        let view = MemberView { live, wanted, parent, unlisted, ours, peers: &self.others };
        plan(&self.decided(order), &view, &self.progress, self.now())
    }

    /// Returns an order as it is decided with what the member reports: everything that it does not want may be pruned.
    fn decided(&self, order: &WorkOrder) -> WorkOrder {
        let ours = applyset_id(&order.placement);
        let labelled = self.live.labelled(&ours).map(|(key, _)| key);
        let prune = labelled.filter(|key| !self.undecided.contains(key)).cloned().collect();
        WorkOrder { prune, ..order.clone() }
    }

    fn now(&self) -> Timestamp {
        now() + self.later
    }

    fn outcome(&self, order: &WorkOrder, position: usize) -> State {
        let (wanted, ours) = (wanted(&[order]), &applyset_id(&order.placement));
        let (live, parent, unlisted) = (&self.live, self.parent.as_ref(), &self.unlisted);
        let view = MemberView { live, wanted: &wanted, parent, unlisted, ours, peers: &self.others };
        verdict(order, &order.manifests[position], &view, &self.progress, self.now()).state
    }

    /// Somebody changes a field of ours; whether that makes it differ is another thing.
    fn change(&mut self, key: &ObjectKey, differs: bool) {
        let mut live = self.live.get(key).expect("it is there").clone();
        live.change(|content| content.owned = Digest::from("theirs now"));
        live.resource_version += 1;
        self.live.insert(Arc::new(key.clone()), live);
        if differs {
            self.differs.insert(key.clone());
        } else {
            self.differs.remove(key);
        }
    }

    fn take_log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    fn perform(&mut self, order: &WorkOrder, step: Step) {
        match step {
            Step::WriteParent(parent) => {
                self.log
                    .push(format!("parent {}", parent.holds.as_ref().map_or(-1, |h| i64::try_from(h.index).unwrap())));
                self.parent = Some(*parent);
            }
            Step::Apply { position, put_back, probe } => self.apply(order, &order.manifests[position], put_back, probe),
            Step::Delete { object } => {
                self.log.push(format!("delete {}", object.id));
                self.live.remove(&object.id.key());
            }
            Step::Release { object, release } => {
                self.log.push(format!("release {} {release:?}", object.id));
                self.live.remove(&object.id.key());
            }
            Step::DeleteParent => {
                self.log.push("delete parent".into());
                self.parent = None;
            }
            Step::ShowDrift { position, seen } => {
                let desired = &order.manifests[position];
                let drifted = self.differs.contains(&desired.key);
                let found = self.blind.clone().map_or(Ok(Found { drifted, differences: Vec::new() }), Err);
                let failures = u32::from(found.is_err());
                let look = DriftCheck { manifest: desired.digest.clone(), seen, found, at: self.now(), failures };
                self.progress.drift_checks.insert(desired.key.clone(), look);
                self.log.push(format!("look at {}", order.manifests[position].id));
            }
            Step::Compare { position } => {
                let desired = &order.manifests[position];
                self.log.push(format!("compare {}", desired.id));
                self.attempted(desired, ApplyOutcome::NoDiffFound, Vec::new());
            }
        }
    }

    fn apply(&mut self, order: &WorkOrder, desired: &Desired, put_back: bool, probe: bool) {
        let covered = self
            .parent
            .as_ref()
            .is_some_and(|p| p.group_kinds.contains(&group_kind(&desired.id.group, &desired.id.kind)));
        assert!(covered, "the inventory covers {} before it is applied", desired.id);
        if probe && self.foreign.contains(&desired.key) {
            self.log.push(format!("probe {}", desired.id));
            return self.attempted(desired, ApplyOutcome::NotTakenOver, Vec::new());
        }
        let refused = self.refuse.contains(&desired.key);
        self.log.push(format!("{} {}", if put_back { "put back" } else { "apply" }, desired.id));
        if !refused {
            self.uid += 1;
            let mut object = labelled(&desired.object, &order.placement, &order.source.name, &desired.digest)
                .expect("it can be labelled");
            object["metadata"]["uid"] = json!(format!("u{}", self.uid));
            object["status"] = json!({"conditions": [{"type": "Established", "status": "True"}, {"type": "NamesAccepted", "status": "True"}]});
            let live = LiveObject::read(&object, &HealthRules::default()).expect("an object");
            let baseline = Baseline { manifest: desired.digest.clone(), owned: live.owned.clone() };
            Arc::make_mut(&mut self.progress.baselines).insert(desired.key.clone(), baseline);
            self.live.insert(desired.key.clone(), live);
        }
        let before = self.progress.attempts.get(&desired.key).cloned();
        let mut put_backs = before.map(|b| b.put_backs).unwrap_or_default();
        if put_back {
            put_backs.push(self.now());
        }
        self.progress.drift_checks.remove(&desired.key);
        let outcome = if refused { ApplyOutcome::ManifestApplyFailed } else { ApplyOutcome::Applied };
        self.attempted(desired, outcome, put_backs);
    }

    fn attempted(&mut self, desired: &Desired, outcome: ApplyOutcome, put_backs: Vec<Timestamp>) {
        let attempt = Attempt {
            manifest: desired.digest.clone(),
            outcome,
            message: String::new(),
            at: self.now(),
            failures: u32::from(outcome == ApplyOutcome::ManifestApplyFailed),
            put_backs,
            differences: Vec::new(),
        };
        self.progress.attempts.insert(desired.key.clone(), Box::new(attempt));
    }

    /// Carries plans out until one has no steps; returns it.
    fn settle(&mut self, order: &WorkOrder) -> Plan {
        let wanted = wanted(&[order]);
        self.settle_among(order, &wanted)
    }

    fn settle_among(&mut self, order: &WorkOrder, wanted: &Wanted) -> Plan {
        for _ in 0..100 {
            let plan = self.plan(order, wanted);
            if plan.steps.is_empty() {
                return plan;
            }
            for step in plan.steps {
                self.perform(order, step);
            }
        }
        panic!("no end: {:?}", self.log);
    }

    fn drift(&mut self, key: &ObjectKey) {
        let live = self.live.get(key).expect("it is there").clone();
        self.live.insert(Arc::new(key.clone()), live.with(|content| content.owned = Digest::from("changed")));
    }
}

fn wanted(orders: &[&WorkOrder]) -> Wanted {
    let mut wanted = Wanted::default();
    for order in orders {
        for desired in order.manifests.iter() {
            wanted.insert(&desired.key, &[Arc::new(order.placement.clone())].into());
        }
    }
    wanted
}

fn web() -> Vec<Desired> {
    vec![
        desired("apps/v1/Deployment", "web", "1"),
        desired("ConfigMap", "settings", "1"),
        desired("Namespace", "n", ""),
    ]
}

#[test]
fn waves_then_the_snapshot_and_then_silence() {
    let mut member = Member::default();
    let order = order("p", web());
    assert!(member.settle(&order).complete);
    assert_eq!(
        member.log,
        ["parent -1", "apply Namespace n", "apply ConfigMap n/settings", "apply Deployment.apps n/web", "parent 0"]
    );
    member.log.clear();
    assert!(member.settle(&order).complete);
    assert_eq!(member.log, [""; 0]);
}

#[test]
fn a_change_writes_only_what_changed() {
    let mut member = Member::default();
    member.settle(&order("p", web()));
    member.log.clear();
    let mut changed = web();
    changed[1] = desired("ConfigMap", "settings", "2");
    let next = WorkOrder { snapshot: 1, digest: Digest::from("h1"), ..order("p", changed) };
    member.settle(&next);
    assert_eq!(member.log, ["apply ConfigMap n/settings", "parent 1"]);
}

#[test]
fn what_was_removed_is_pruned_in_reverse_after_the_applies() {
    let mut member = Member::default();
    member.settle(&order("p", web()));
    member.log.clear();
    let next =
        WorkOrder { snapshot: 1, digest: Digest::from("h1"), ..order("p", vec![desired("Namespace", "n", "x")]) };
    member.settle(&next);
    assert_eq!(
        member.log,
        ["apply Namespace n", "delete Deployment.apps n/web", "delete ConfigMap n/settings", "parent 1"]
    );
    assert_eq!(member.parent.map(|p| p.group_kinds), Some(["Namespace".to_owned()].into()));
}

#[test]
fn nothing_is_pruned_while_an_apply_is_refused() {
    let mut member = Member::default();
    member.settle(&order("p", web()));
    member.log.clear();
    let renamed = vec![desired("apps/v1/Deployment", "web-2", "1"), desired("Namespace", "n", "")];
    member.refuse.insert(renamed[0].id.key());
    let next = WorkOrder { snapshot: 1, digest: Digest::from("h1"), ..order("p", renamed) };
    let plan = member.settle(&next);
    assert!(plan.complete && plan.wake_at.is_some());
    assert_eq!(member.log, ["apply Deployment.apps n/web-2"]);
}

#[test]
fn held_deletions_stay_and_the_rest_goes() {
    let mut member = Member::default();
    member.settle(&order("p", web()));
    member.log.clear();
    let mut next =
        WorkOrder { snapshot: 1, digest: Digest::from("h1"), ..order("p", vec![desired("Namespace", "n", "")]) };
    next.held.insert(desired("ConfigMap", "settings", "").id.key());
    assert!(member.settle(&next).complete);
    assert_eq!(member.log, ["delete Deployment.apps n/web", "parent 1"]);
    let kinds = member.parent.map(|p| p.group_kinds);
    assert_eq!(kinds, Some(["ConfigMap".to_owned(), "Namespace".to_owned()].into()), "what stays stays covered");
}

#[test]
fn leaving_removes_everything_and_the_inventory_last() {
    let mut member = Member::default();
    member.settle(&order("p", web()));
    member.log.clear();
    let leave = WorkOrder { remove: true, ..order("p", vec![]) };
    assert!(member.settle(&leave).complete);
    assert_eq!(
        member.log,
        ["delete Deployment.apps n/web", "delete ConfigMap n/settings", "delete Namespace n", "delete parent"]
    );
}

#[test]
fn what_was_removed_and_brought_back_is_applied_and_not_put_back() {
    let mut member = Member::default();
    let full = order("p", web());
    member.settle(&full);
    let less = WorkOrder { snapshot: 1, digest: Digest::from("h1"), ..order("p", vec![web().remove(2)]) };
    member.progress.restart(&less);
    member.settle(&less);
    member.log.clear();
    let again = WorkOrder { snapshot: 2, digest: Digest::from("h2"), ..full };
    member.progress.restart(&again);
    member.settle(&again);
    assert_eq!(member.log[1..3], ["apply ConfigMap n/settings", "apply Deployment.apps n/web"]);
}

#[test]
fn an_object_belongs_to_one_placement() {
    let mut member = Member::default();
    let a = order("a", vec![desired("Namespace", "n", ""), desired("ConfigMap", "x", "a")]);
    let b = order("b", vec![desired("ConfigMap", "x", "b")]);
    let both = wanted(&[&a, &b]);
    let orders = |orders: [&WorkOrder; 2]| orders.map(|order| (order.clone(), Progress::default())).into();
    member.others.orders = orders([&a, &b]);
    member.settle_among(&b, &both);
    assert_eq!(member.log.last().map(String::as_str), Some("parent 0"), "the first by name has it: b applies nothing");
    member.settle_among(&a, &both);
    let holder = |member: &Member| member.live.get(&b.manifests[0].key).map(|live| live.applyset.to_string());
    assert_eq!(holder(&member), Some(applyset_id(&a.placement)));
    // a gives it up: b takes the label over, and a's prune leaves the object alone.
    let less = WorkOrder { snapshot: 1, digest: Digest::from("h1"), ..order("a", vec![desired("Namespace", "n", "")]) };
    let now_b = wanted(&[&less, &b]);
    member.others.orders = orders([&less, &b]);
    member.log.clear();
    member.parent = None;
    member.progress = Progress::default();
    member.settle_among(&less, &now_b);
    assert!(!member.log.iter().any(|l| l.starts_with("delete")), "{:?}", member.log);
    member.settle_among(&b, &now_b);
    assert_eq!(holder(&member), Some(applyset_id(&b.placement)));
}

#[test]
fn another_sources_inventory_is_never_touched() {
    let mut member = Member::default();
    member.settle(&order("p", web()));
    let other = WorkOrder { source: "other".into(), ..order("p", vec![]) };
    let plan = member.plan(&other, &Wanted::default());
    assert!(plan.steps.is_empty() && !plan.complete);
    let failure = plan.failure.expect("a failure");
    assert!(failure.contains("another source (s)") && failure.contains("this one is other"), "{failure}");
}

#[test]
fn report_diff_only_compares() {
    let mut order = order("p", web());
    order.strategy.type_ = ApplyStrategyType::ReportDiff;
    let mut member = Member::default();
    let plan = member.plan(&order, &Wanted::default());
    assert_eq!(plan.steps.len(), 3);
    assert!(plan.steps.iter().all(|s| matches!(s, Step::Compare { .. })) && !plan.complete && !plan.rechecks);
    let plan = member.settle(&order);
    assert_eq!((plan.complete, plan.wake_at), (true, Some(now() + RECHECK_INTERVAL)));
    member.later = RECHECK_INTERVAL;
    let plan = member.plan(&order, &Wanted::default());
    assert!(plan.steps.len() == 3 && plan.complete && plan.rechecks, "compared again, and reported only if it changed");
}

#[test]
fn retries_back_off_to_a_limit() {
    let seconds: Vec<i64> = [1, 2, 3, 4, 20].map(|n| retry_delay(n).as_secs()).into();
    assert_eq!(seconds, [1, 2, 4, 8, 300]);
}

proptest! {
    /// Whatever is placed, in whatever order and with whatever refused: what is deleted carried our label and is not
    /// desired, and a second look is silent.
    #[test]
    fn prune_stays_inside_the_inventory(
        first in proptest::collection::btree_set(0..8_u8, 0..8),
        second in proptest::collection::btree_set(0..8_u8, 0..8),
        strangers in proptest::collection::btree_set(0..8_u8, 0..4),
        refused in proptest::collection::btree_set(0..8_u8, 0..2),
    ) {
        let make = |set: &BTreeSet<u8>| set.iter().map(|n| desired("ConfigMap", &format!("c{n}"), "")).collect::<Vec<_>>();
        let mut member = Member::default();
        for stranger in make(&strangers) {
            let mut live = LiveObject::read(&stranger.object, &HealthRules::default()).expect("an object");
            live.change(|content| {
                content.applyset = "applyset-of-somebody-else-v1".into();
                content.id.name.insert_str(0, "stranger-");
            });
            member.live.insert(Arc::new(live.id.key()), live);
        }
        member.settle(&order("p", make(&first)));
        member.log.clear();
        member.refuse = make(&refused).into_iter().map(|d| ObjectKey::clone(&d.key)).collect();
        let next = WorkOrder { snapshot: 1, digest: Digest::from("h1"), ..order("p", make(&second)) };
        member.settle(&next);
        for line in member.log.iter().filter_map(|l| l.strip_prefix("delete ConfigMap n/c")) {
            let n: u8 = line.parse().expect("a number");
            prop_assert!(first.contains(&n) && !second.contains(&n));
        }
        prop_assert_eq!(member.live.labelled("applyset-of-somebody-else-v1").count(), strangers.len());
        member.log.clear();
        member.settle(&next);
        prop_assert!(member.log.is_empty());
    }
}
