//! A member's task against a member that does as told: what a real API server does too rarely to wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::commands::CommandSender;
use cluster::{ApplyOptions, Deletion, Error};
use deliver::inventory::applyset_id;
use deliver::live::LiveObject;
use deliver::step::Step;
use deliver::waves::wave;
use model::api::placement::{ApplyStrategyType, WhenToTakeOver};
use model::encrypted::EncryptedWork;
use model::id::{Digest, ObjectId, ObjectKey};
use model::records::{ApplyOutcome, Availability, WorkStatus};
use model::watched::WatchedObject;
use model::work::{Desired, Release, WorkOrder};

mod inventories;
mod lists;
mod presence;
mod rechecks;
mod restarts;

/// Longest wait for anything; only a failure takes that long.
const LIMIT: Duration = Duration::from_secs(20);

/// A member in memory. Requests are recorded; watches are kept so that a test can play what they see.
#[derive(Default)]
struct Memory {
    objects: Mutex<BTreeMap<ObjectKey, Value>>,
    requests: Mutex<Vec<String>>,
    /// Reads of objects, and lists of names.
    reads: Mutex<Vec<String>>,
    watches: Mutex<BTreeMap<WatchedKind, mpsc::Sender<Observation>>>,
    /// Where changes of inventories are told.
    inventories: Mutex<Option<mpsc::Sender<Observation>>>,
    /// An inventory that somebody writes as soon as they are watched.
    written_at_once: Mutex<Option<Value>>,
    refuse_comparing: Mutex<usize>,
    /// Kinds whose lists fail, and with what.
    unlisted: Mutex<BTreeMap<String, u16>>,
    /// Kinds whose lists begin and bring nothing.
    silent: BTreeSet<String>,
}

impl Memory {
    fn note(&self, what: &str, key: &ObjectKey) {
        self.requests.lock().unwrap().push(format!("{what} {key}"));
    }

    fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }

    fn insert(&self, object: Value) {
        let key = ObjectId::of(&object).expect("an object").key();
        self.objects.lock().unwrap().insert(key, object);
    }

    fn labelled(&self, kind: &WatchedKind) -> Vec<Value> {
        let objects = self.objects.lock().unwrap();
        let wanted = objects.iter().filter(|(key, object)| {
            key.kind == kind.kind && key.group == kind.group && object["metadata"]["labels"].is_object()
        });
        wanted.map(|(_, object)| object.clone()).collect()
    }

    fn lists(&self, kind: &WatchedKind) -> Vec<Observation> {
        if let Some(code) = self.unlisted.lock().unwrap().get(&kind.kind).copied() {
            let (object, message) = (format!("the list of {}", kind.kind), "no".to_owned());
            let error = Error::Refused { object, code, reason: "No".to_owned(), message };
            return vec![Observation::ListStarted(kind.clone()), Observation::Failed(kind.clone(), error)];
        }
        if self.silent.contains(kind.kind.as_str()) {
            return vec![Observation::ListStarted(kind.clone())];
        }
        std::iter::once(Observation::ListStarted(kind.clone()))
            .chain(self.labelled(kind).into_iter().map(|object| Observation::Listed(WatchedObject::Whole(object))))
            .chain([Observation::ListDone(kind.clone())])
            .collect()
    }

    /// Sends what a watch sees when the server forgot where it was: everything again.
    async fn list_again(&self, kind: &WatchedKind) {
        let sink = self.watches.lock().unwrap()[kind].clone();
        for observation in self.lists(kind) {
            sink.send(observation).await.expect("the member listens");
        }
    }
}

#[async_trait]
impl Target for Memory {
    async fn connect(&self) -> Result<Option<String>, Error> {
        Ok(None)
    }

    fn has_health(&self) -> bool {
        true
    }

    async fn parents(&self) -> Result<Vec<Value>, Error> {
        let objects = self.objects.lock().unwrap();
        Ok(objects.iter().filter(|(key, _)| key.namespace == "gitfleet-system").map(|(_, o)| o.clone()).collect())
    }

    async fn apply(&self, object: &Value, options: ApplyOptions) -> Result<Value, Error> {
        let key = ObjectId::of(object).expect("an object").key();
        if options.dry_run {
            self.note("compare", &key);
            let mut left = self.refuse_comparing.lock().unwrap();
            if *left > 0 {
                *left -= 1;
                let object = key.to_string();
                return Err(Error::Refused { object, code: 422, reason: "Invalid".into(), message: "no".into() });
            }
            return Ok(object.clone());
        }
        self.note("apply", &key);
        let mut object = object.clone();
        object["metadata"]["uid"] = Value::from(key.to_string());
        let known =
            self.objects.lock().unwrap().get(&key).and_then(|known| {
                known.pointer("/metadata/resourceVersion").and_then(Value::as_str)?.parse::<u64>().ok()
            });
        if let Some(version) = known {
            object["metadata"]["resourceVersion"] = Value::from((version + 1).to_string());
        }
        self.insert(object.clone());
        Ok(object)
    }

    async fn names(&self, id: &ObjectId) -> Result<Option<BTreeSet<String>>, Error> {
        self.reads.lock().unwrap().push(format!("names of {} in {}", id.kind, id.namespace));
        let objects = self.objects.lock().unwrap();
        let there = objects.keys().filter(|key| key.kind == id.kind && key.namespace == id.namespace);
        Ok(Some(there.map(|key| key.name.to_string()).collect()))
    }

    async fn get(&self, id: &ObjectId) -> Result<Option<Value>, Error> {
        self.reads.lock().unwrap().push(format!("get {}", id.name));
        Ok(self.objects.lock().unwrap().get(&id.key()).cloned())
    }

    async fn delete(&self, id: &ObjectId, _uid: &str, _version: Option<u64>) -> Result<Deletion, Error> {
        self.note("delete", &id.key());
        self.objects.lock().unwrap().remove(&id.key());
        Ok(Deletion::Gone)
    }

    async fn release(&self, id: &ObjectId, _uid: &str, release: Release) -> Result<(), Error> {
        self.note(if release == Release::Whole { "release" } else { "release the fields of" }, &id.key());
        self.objects.lock().unwrap().remove(&id.key());
        Ok(())
    }

    fn watch_parents(&self, sink: mpsc::Sender<Observation>) -> WatchHandle {
        if let Some(written) = self.written_at_once.lock().unwrap().take() {
            sink.try_send(Observation::Inventory(Box::new(written))).expect("the member listens");
        }
        *self.inventories.lock().unwrap() = Some(sink);
        WatchHandle::start(mpsc::channel(1).0, Observation::panicked, std::future::pending())
    }

    fn watch(&self, kind: &WatchedKind, _version: Option<&str>, sink: mpsc::Sender<Observation>) -> WatchHandle {
        let lists = self.lists(kind);
        self.watches.lock().unwrap().insert(kind.clone(), sink.clone());
        WatchHandle::start(sink.clone(), Observation::panicked, async move {
            for observation in lists {
                drop(sink.send(observation).await);
            }
        })
    }
}

/// A member's task with the daemon's side of it.
struct Stage {
    member: Arc<Memory>,
    commands: CommandSender,
    events: mpsc::UnboundedReceiver<MemberEvent>,
}

impl Stage {
    fn new(member: Memory) -> Self {
        Self::with(member, Common::default())
    }

    fn with(member: Memory, common: Common) -> Self {
        let member = Arc::new(member);
        let (commands, inbox) = commands::channel(Arc::default());
        let (sender, events) = mpsc::unbounded_channel();
        // There are no others but those that a test orders.
        commands.send(MemberCommand::Placements(BTreeSet::new())).expect("the member listens");
        let target: Arc<dyn Target> = Arc::clone(&member) as Arc<dyn Target>;
        tokio::spawn(
            Member::new("m".into(), "s".into(), target, Arc::new(common), Fence::always_open(), inbox, sender).run(),
        );
        Self { member, commands, events }
    }

    /// Orders something; whatever it does not want may be pruned.
    fn order(&self, mut order: WorkOrder) {
        order.prune = (0..6).map(|n| map(&format!("c{n}"), "")).filter_map(|o| Some(ObjectId::of(&o)?.key())).collect();
        let command = MemberCommand::Order { order: Arc::new(order), reported: None };
        self.commands.send(command).expect("the member listens");
    }

    /// Waits for a report of a generation that fits.
    async fn report(&mut self, generation: i64, wished: impl Fn(&WorkStatus) -> bool) -> Arc<WorkStatus> {
        let found = async {
            loop {
                match self.events.recv().await.expect("the member lives") {
                    MemberEvent::Work { status, .. } if status.generation == generation && wished(&status) => {
                        return status;
                    }
                    _ => {}
                }
            }
        };
        tokio::time::timeout(LIMIT, found).await.expect("the report comes")
    }
}

/// Lets a kind be listed completely.
fn list(reconciler: &mut Reconciler, kind: &WatchedKind, objects: impl IntoIterator<Item = LiveObject>) {
    reconciler.take_unwatched();
    reconciler.list_begun(kind);
    for live in objects {
        reconciler.see(live);
    }
    reconciler.list_done(kind);
}

fn maps() -> WatchedKind {
    WatchedKind { group: String::new(), kind: "ConfigMap".into() }
}

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}, "data": {"v": value}})
}

fn order(generation: i64, objects: &[Value]) -> WorkOrder {
    let desired = |object: &Value| {
        let id = ObjectId::of(object).expect("an object");
        Desired {
            key: Arc::new(id.key()),
            wave: wave(&id.group, &id.kind),
            id,
            digest: Digest::new(object.to_string()),
            object: Arc::new(object.clone()),
            encrypted: None,
        }
    };
    WorkOrder {
        generation,
        digest: Digest::new(format!("h{generation}")),
        manifests: objects.iter().map(desired).collect(),
        ..testkit::records::work_order()
    }
}

#[tokio::test]
async fn a_second_list_forgets_nothing_that_is_there() {
    let mut stage = Stage::new(Memory::default());
    let objects: Vec<Value> = (0..5).map(|n| map(&format!("c{n}"), "1")).collect();
    stage.order(order(1, &objects));
    stage.report(1, |work| work.complete).await;
    stage.member.take_requests();
    stage.member.list_again(&maps()).await;
    stage.order(order(2, &[&objects[..], &[map("c5", "1")]].concat()));
    let work = stage.report(2, |work| work.complete).await;
    assert_eq!(work.inventory.known().map(BTreeSet::len), Some(6));
    let mut requests = stage.member.take_requests();
    requests.retain(|request| !request.contains("gitfleet-system"));
    assert_eq!(requests, ["apply ConfigMap n/c5"], "what was there is neither written nor lost");
}

#[tokio::test]
async fn a_second_list_shows_what_went_meanwhile() {
    let mut stage = Stage::new(Memory::default());
    stage.order(order(1, &[map("a", "1"), map("b", "1")]));
    stage.report(1, |work| work.complete).await;
    stage.member.take_requests();
    let gone = ObjectId::of(&map("b", "1")).expect("an object").key();
    stage.member.objects.lock().unwrap().remove(&gone);
    stage.member.list_again(&maps()).await;
    stage.order(order(2, &[map("a", "1"), map("b", "1")]));
    stage.report(2, |work| work.complete && work.inventory.seen().len() == 2).await;
    assert!(stage.member.take_requests().contains(&"apply ConfigMap n/b".to_owned()));
}

#[tokio::test]
async fn what_came_back_under_the_same_uid_is_pruned_again() {
    let mut stage = Stage::new(Memory::default());
    for (generation, objects) in [(1, 2), (2, 1), (3, 2), (4, 1)] {
        let objects: Vec<Value> = (0..objects).map(|n| map(&format!("c{n}"), "1")).collect();
        stage.order(order(generation, &objects));
        let work = stage.report(generation, |work| work.complete).await;
        assert_eq!(work.inventory.known().map(BTreeSet::len), Some(objects.len()), "generation {generation}");
    }
    let requests = stage.member.take_requests();
    assert_eq!(requests.iter().filter(|r| *r == "delete ConfigMap n/c1").count(), 2);
}

#[tokio::test]
async fn a_changed_strategy_tries_again_what_was_refused() {
    let member = Memory::default();
    member.insert(map("a", "theirs"));
    let mut stage = Stage::new(member);
    let mut never = order(1, &[map("a", "ours")]);
    never.strategy.when_to_take_over = WhenToTakeOver::Never;
    stage.order(never);
    let work = stage.report(1, |work| work.complete).await;
    assert_eq!(work.manifests[0].applied, ApplyOutcome::NotTakenOver);
    stage.order(order(2, &[map("a", "ours")]));
    let work = stage.report(2, |work| work.complete).await;
    assert_eq!(work.manifests[0].applied, ApplyOutcome::Applied);
}

#[tokio::test]
async fn report_diff_compares_what_was_applied_before_and_back() {
    let mut stage = Stage::new(Memory::default());
    stage.order(order(1, &[map("a", "1")]));
    stage.report(1, |work| work.complete).await;
    let mut report = order(2, &[map("a", "1")]);
    report.strategy.type_ = ApplyStrategyType::ReportDiff;
    stage.order(report);
    let work = stage.report(2, |work| work.complete).await;
    assert_eq!(work.manifests[0].applied, ApplyOutcome::NoDiffFound);
    stage.order(order(3, &[map("a", "1")]));
    let work = stage.report(3, |work| work.complete).await;
    assert_eq!(work.manifests[0].applied, ApplyOutcome::Applied);
}

#[tokio::test]
async fn a_comparison_that_failed_is_made_again() {
    let member = Memory { refuse_comparing: Mutex::new(1), ..Memory::default() };
    member.insert(map("a", "theirs"));
    let mut stage = Stage::new(member);
    let mut report = order(1, &[map("a", "ours")]);
    report.strategy.type_ = ApplyStrategyType::ReportDiff;
    stage.order(report);
    stage.report(1, |work| work.manifests[0].applied == ApplyOutcome::FailedToReportDiff).await;
    stage.report(1, |work| work.complete && work.manifests[0].applied == ApplyOutcome::FoundDiff).await;
}

#[test]
fn a_placement_that_has_begun_continues_before_others_begin() {
    let task = |placement: &str, position: usize| Task {
        order: Arc::new(WorkOrder { placement: PlacementKey::cluster_scoped(placement), ..order(1, &[]) }),
        step: Step::Compare { position },
        before: None,
    };
    let mut work = Work::default();
    for placement in ["a", "b", "c"] {
        work.add(task(placement, 0), Arc::default());
    }
    let next = |work: &mut Work| {
        let (task, _) = work.waiting.pop_front().expect("a step waits");
        work.begun.insert(task.order.placement.clone());
        format!("{}{:?}", task.order.placement.name, task.step)
    };
    let mut seen = vec![next(&mut work)];
    // The result of its first step brings two more.
    work.add(task("a", 1), Arc::default());
    work.add(task("a", 2), Arc::default());
    work.add(task("d", 0), Arc::default());
    seen.extend((0..5).map(|_| next(&mut work)));
    // A later commit: none of them has the first turn for ever.
    for placement in ["a", "b"] {
        work.rest(&PlacementKey::cluster_scoped(placement));
    }
    work.add(task("a", 3), Arc::default());
    work.add(task("b", 3), Arc::default());
    seen.push(next(&mut work));
    work.add(task("a", 4), Arc::default());
    seen.extend((0..2).map(|_| next(&mut work)));
    let order = ["a 0", "a 1", "a 2", "b 0", "c 0", "d 0", "a 3", "a 4", "b 3"];
    assert_eq!(seen, order.map(|name| name.replace(' ', "Compare { position: ") + " }"));
}

#[tokio::test]
async fn an_object_that_nobody_decrypts_is_refused_and_no_other_is() {
    let mut order = order(1, &[map("a", "ENC[AES256_GCM,data:x]"), map("b", "plain")]);
    let content = Digest::new("content");
    let encrypted = EncryptedWork { file: "sops: {}".into(), path: "secrets/a.yaml".into(), ordinal: 0, content };
    let mut manifests = order.manifests.to_vec();
    manifests[0].encrypted = Some(encrypted);
    order.manifests = manifests.into();
    let mut stage = Stage::new(Memory::default());
    stage.order(order);
    let tried = |work: &WorkStatus| work.manifests.iter().all(|one| one.applied != ApplyOutcome::Pending);
    let report = stage.report(1, tried).await;
    let outcomes: Vec<ApplyOutcome> = report.manifests.iter().map(|one| one.applied).collect();
    assert_eq!(outcomes, [ApplyOutcome::ManifestApplyFailed, ApplyOutcome::Applied]);
    let message = &report.manifests[0].message;
    assert!(message.contains("encrypted in secrets/a.yaml, cannot be decrypted: nothing is configured"), "{message}");
}
