//! Fuzz target: whatever lists and watches of a member go through, nothing is pruned while a kind of the inventory is not listed, an
//! inventory is known only where every kind was listed completely, and what a known one says is what the member holds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use cluster::WatchedKind;
use deliver::inventory::{Parent, applyset_id};
use deliver::live::{LiveContent, LiveObject};
use deliver::progress::Attempt;
use deliver::step::Found;
use deliver::step::Step;
use deliver::waves::wave;
use engine::member::result::StepResult;
use engine::member::{Reconciler, Task};
use engine::{MemberCommand, MemberEvent};
use jiff::Timestamp;
use model::id::{Digest, ObjectId, ObjectKey, PlacementKey};
use model::records::{ApplyOutcome, Availability, Inventory, Kept};
use model::work::{Desired, WorkOrder};

/// Kinds with their groups.
const KINDS: [(&str, &str); 3] = [("", "ConfigMap"), ("", "Secret"), ("example.org", "Widget")];
const PLACEMENTS: [&str; 2] = ["p", "q"];
/// Names of objects of a kind; those of a placement are its own.
const NAMES: usize = 2;
const CONTENTS: [&str; 2] = ["one", "two"];
/// What a list fails with; 0 is an answer that breaks off.
const FAILURES: [u16; 5] = [0, 403, 404, 410, 500];
/// Steps of a case that are read.
const STEPS_MAX: usize = 400;
const SOURCE: &str = "s";

/// How far a kind is read on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Reading {
    /// Nobody asked for it.
    #[default]
    Not,
    /// It is to be listed.
    Asked,
    /// Pages of a list come.
    Listing,
    /// It was listed, and changes are told.
    Watching,
    /// The member serves no such kind, and said so.
    Absent,
}

/// One kind on the member and on the connection.
#[derive(Default)]
struct Kind {
    reading: Reading,
    /// A list was complete on this connection, and none failed since.
    complete: bool,
    /// Objects of the list under way that were not told yet.
    left: VecDeque<LiveObject>,
    /// Changes that the watch has not told yet: those since the list was read.
    changes: VecDeque<Change>,
    unserved: bool,
}

enum Change {
    There(LiveObject),
    Gone(ObjectKey, u64),
}

#[derive(Clone, Default)]
struct State {
    objects: BTreeMap<ObjectKey, LiveObject>,
    parents: BTreeMap<PlacementKey, Parent>,
    version: u64,
}

/// A made-up API server, the reconciler that reads it, and what lies between the two.
struct Case {
    reconciler: Reconciler,
    server: State,
    backup: State,
    kinds: [Kind; KINDS.len()],
    tasks: VecDeque<Task>,
    /// The inventories that the reconciler was given.
    told: BTreeMap<PlacementKey, Parent>,
    orders: BTreeMap<PlacementKey, Arc<WorkOrder>>,
    generation: i64,
    born: u64,
    now: Timestamp,
}

fn placement(number: u8) -> PlacementKey {
    PlacementKey::cluster_scoped(PLACEMENTS[usize::from(number) % PLACEMENTS.len()])
}

fn watched(kind: usize) -> WatchedKind {
    let (group, kind) = KINDS[kind];
    WatchedKind { group: group.to_owned(), kind: kind.to_owned() }
}

fn kind_of(key: &ObjectKey) -> usize {
    KINDS.iter().position(|(group, kind)| key.group == *group && key.kind == *kind).unwrap()
}

/// Reads a kind as inventories name it.
fn named(name: &str) -> usize {
    KINDS.iter().position(|(_, kind)| name.split('.').next() == Some(*kind)).unwrap()
}

fn id(of: u8, number: usize) -> ObjectId {
    let (group, kind) = KINDS[number % KINDS.len()];
    let name = format!("{}{}", placement(of).name, number / KINDS.len() % NAMES);
    ObjectId { group: group.into(), version: "v1".into(), kind: kind.into(), namespace: "n".into(), name }
}

fn desired(of: u8, number: usize, content: u8) -> Desired {
    let id = id(of, number);
    let digest = Digest::new(CONTENTS[usize::from(content) % CONTENTS.len()]);
    let key = Arc::new(id.key());
    Desired {
        key,
        wave: wave(&id.group, &id.kind),
        id,
        object: Arc::new(serde_json::Value::Null),
        digest,
        encrypted: None,
    }
}

impl Case {
    fn begin() -> Self {
        let mut reconciler = Reconciler::new("m".into(), SOURCE.into(), true);
        reconciler.command(MemberCommand::Placements(BTreeSet::new()));
        reconciler.connect();
        Self {
            reconciler,
            server: State::default(),
            backup: State::default(),
            kinds: Default::default(),
            tasks: VecDeque::new(),
            told: BTreeMap::new(),
            orders: BTreeMap::new(),
            generation: 0,
            born: 0,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    /// Lets one thing happen. What it is about is in the second byte.
    fn happen(&mut self, what: u8, about: u8) {
        let kind = usize::from(about) % KINDS.len();
        match what % 13 {
            0 => self.list(kind),
            1 => self.page(kind),
            2 => self.fail(kind, about),
            3 => self.change(kind),
            4 => self.order(about),
            5 => self.tasks(),
            6 => self.land(),
            7 => self.write(about),
            8 => self.take_away(about),
            9 => self.serve(kind),
            10 => self.connect(),
            11 if about.is_multiple_of(2) => self.backup = self.server.clone(),
            11 => {
                self.server = self.backup.clone();
                // What is served is no part of the backup here, and of a kind that is not nothing is there.
                let kinds = &self.kinds;
                self.server.objects.retain(|key, _| !kinds[kind_of(key)].unserved);
                self.connect();
            }
            _ => self.now += jiff::SignedDuration::from_secs(i64::from(about)),
        }
        self.ask();
        self.check();
    }

    /// The kinds that the reconciler wants to read are to be listed.
    fn ask(&mut self) {
        for (kind, _) in self.reconciler.take_unwatched() {
            let kind = KINDS.iter().position(|(group, name)| (*group, *name) == (&*kind.group, &*kind.kind)).unwrap();
            self.kinds[kind].reading = Reading::Asked;
        }
    }

    fn connect(&mut self) {
        for kind in &mut self.kinds {
            *kind = Kind { unserved: kind.unserved, ..Kind::default() };
        }
        self.tasks.clear();
        self.reconciler.connect();
        self.told = self.server.parents.clone();
        for parent in self.server.parents.values() {
            self.reconciler.take_parent(parent.clone(), 0);
        }
        self.ask();
        self.reconciler.forget_unlisted();
    }

    /// A list begins: the first, one that is tried again, or one that follows a watch that ended. The server reads it at once.
    fn list(&mut self, at: usize) {
        let kind = &mut self.kinds[at];
        if kind.reading == Reading::Not {
            return;
        }
        kind.changes.clear();
        if kind.unserved {
            (kind.reading, kind.complete) = (Reading::Absent, true);
            return self.reconciler.kind_absent(&watched(at));
        }
        kind.reading = Reading::Listing;
        kind.left = self.server.objects.values().filter(|live| kind_of(&live.id.key()) == at).cloned().collect();
        self.reconciler.list_begun(&watched(at));
    }

    /// The next page of a list comes, the last one with its end.
    fn page(&mut self, at: usize) {
        let kind = &mut self.kinds[at];
        if kind.reading != Reading::Listing {
            return;
        }
        if let Some(live) = kind.left.pop_front() {
            self.reconciler.see(live);
        } else {
            (kind.reading, kind.complete) = (Reading::Watching, true);
            self.reconciler.list_done(&watched(at));
        }
    }

    fn fail(&mut self, at: usize, about: u8) {
        let kind = &mut self.kinds[at];
        if kind.reading == Reading::Not {
            return;
        }
        (kind.reading, kind.complete) = (Reading::Asked, false);
        kind.changes.clear();
        let code = FAILURES[usize::from(about) % FAILURES.len()];
        self.reconciler.list_failed(&watched(at), format!("status {code}"));
    }

    /// The watch of a kind tells the next change.
    fn change(&mut self, at: usize) {
        let kind = &mut self.kinds[at];
        if kind.reading != Reading::Watching {
            return;
        }
        match kind.changes.pop_front() {
            Some(Change::There(live)) => self.reconciler.see(live),
            Some(Change::Gone(key, version)) => self.reconciler.forget(&key, version),
            None => {}
        }
    }

    fn note(&mut self, at: usize, change: Change) {
        let kind = &mut self.kinds[at];
        if matches!(kind.reading, Reading::Listing | Reading::Watching) {
            kind.changes.push_back(change);
        }
    }

    /// Decides again what a placement shall have here: what may be pruned is what its inventory shows, as far as it is known.
    fn order(&mut self, about: u8) {
        let placement = placement(about);
        self.generation += 1;
        let all = 0..KINDS.len() * NAMES;
        let wanted = all.filter(|number| (usize::from(about) * 37 + number * 11) % 5 > 1);
        let remove = about >= 0xc0;
        let manifests: Vec<Desired> =
            wanted.filter(|_| !remove).map(|number| desired(about, number, about >> 3)).collect();
        let seen = self.inventories().get(&placement).and_then(Inventory::known).cloned().unwrap_or_default();
        let is_wanted = |key: &ObjectKey| manifests.iter().any(|desired| *desired.key == *key);
        let (prune, held): (BTreeSet<ObjectKey>, BTreeSet<ObjectKey>) =
            seen.into_iter().filter(|key| !is_wanted(key)).partition(|_| about & 4 == 0);
        let order = Arc::new(WorkOrder {
            placement: placement.clone(),
            cluster: "m".into(),
            generation: self.generation,
            source: SOURCE.into(),
            snapshot: u64::from(about),
            commit: "c".into(),
            digest: "d".into(),
            strategy: model::api::placement::ApplyStrategy::default(),
            manifests: manifests.into(),
            held,
            prune,
            kept: Kept::default(),
            user: None,
            tenant: None,
            remove,
            abandon: remove && about & 8 == 0,
        });
        self.orders.insert(placement, Arc::clone(&order));
        self.reconciler.command(MemberCommand::Order { order, reported: None });
    }

    fn inventories(&self) -> BTreeMap<PlacementKey, Inventory> {
        match self.reconciler.announce(None, None) {
            MemberEvent::Online { inventory, .. } => inventory,
            event => unreachable!("{event:?}"),
        }
    }

    /// Returns the kinds of a placement's inventory and order that were not listed completely.
    fn unlisted(&self, placement: &PlacementKey) -> Vec<usize> {
        let parent =
            self.told.get(placement).into_iter().flat_map(|parent| &parent.group_kinds).map(|kind| named(kind));
        let order = self.orders.get(placement).into_iter();
        let order = order.flat_map(|order| {
            let wanted = order.manifests.iter().map(|desired| &*desired.key);
            wanted.chain(&order.prune).chain(&order.held).map(kind_of)
        });
        parent.chain(order).filter(|kind| !self.kinds[*kind].complete).collect()
    }

    /// The reconciler plans: what takes something away needs every kind listed.
    fn tasks(&mut self) {
        self.reconciler.mark_due(self.now);
        for task in self.reconciler.tasks(self.now) {
            let placement = &task.order.placement;
            let unlisted = self.unlisted(placement);
            let narrows = match &task.step {
                Step::Delete { object } | Step::Release { object, .. } => {
                    let key = object.id.key();
                    assert!(task.order.prune.contains(&key), "{key} of {placement} is pruned, and nobody decided so");
                    assert_eq!(*object.applyset, *applyset_id(placement), "{key} is pruned, and is not of {placement}");
                    true
                }
                Step::DeleteParent => true,
                Step::WriteParent(parent) => {
                    let told = self.told.get(placement);
                    parent.holds.as_ref().is_some_and(|holds| {
                        let known = told.and_then(|told| told.holds.as_ref());
                        known != Some(holds)
                    }) || told.is_some_and(|told| !told.group_kinds.is_subset(&parent.group_kinds))
                }
                _ => false,
            };
            assert!(!narrows || unlisted.is_empty(), "{:?} of {placement} while {unlisted:?} is not listed", task.step);
            self.tasks.push_back(task);
        }
    }

    /// The next step is carried out, and its answer is there.
    fn land(&mut self) {
        let Some(Task { order, step, before: _ }) = self.tasks.pop_front() else { return };
        let placement = order.placement.clone();
        let result = match step {
            Step::WriteParent(parent) => {
                self.server.parents.insert(placement.clone(), Parent::clone(&parent));
                self.told.insert(placement.clone(), Parent::clone(&parent));
                StepResult::Parent(Some(*parent), 0)
            }
            Step::DeleteParent => {
                self.server.parents.remove(&placement);
                self.told.remove(&placement);
                StepResult::Parent(None, 0)
            }
            Step::Delete { object } | Step::Release { object, .. } => {
                let key = object.id.key();
                if self.server.objects.get(&key).is_some_and(|live| live.uid == object.uid) {
                    self.remove(&key);
                }
                StepResult::Deleted { key, uid: object.uid, gone: true }
            }
            Step::Apply { position, .. } => self.apply(&order.manifests[position], &placement),
            Step::ShowDrift { position, seen } => StepResult::Drift {
                key: Arc::clone(&order.manifests[position].key),
                manifest: order.manifests[position].digest.clone(),
                seen,
                found: Ok(Found { drifted: false, differences: Vec::new() }),
            },
            Step::Compare { .. } => unreachable!("no order only compares"),
        };
        self.reconciler.settle(&placement, result, self.now);
    }

    fn apply(&mut self, desired: &Desired, placement: &PlacementKey) -> StepResult {
        let is_refused = self.kinds[kind_of(&desired.key)].unserved;
        let live = (!is_refused).then(|| self.put(desired, placement));
        let attempt = Attempt {
            manifest: desired.digest.clone(),
            outcome: if is_refused { ApplyOutcome::ManifestApplyFailed } else { ApplyOutcome::Applied },
            message: String::new(),
            at: self.now,
            failures: u32::from(is_refused),
            put_backs: Vec::new(),
            differences: Vec::new(),
        };
        StepResult::Applied { key: Arc::clone(&desired.key), attempt: Box::new(attempt), live }
    }

    fn put(&mut self, desired: &Desired, placement: &PlacementKey) -> LiveObject {
        self.server.version += 1;
        self.born += 1;
        let uid = self
            .server
            .objects
            .get(&*desired.key)
            .map_or_else(|| self.born.to_string().as_str().into(), |live| live.uid.clone());
        let live = LiveObject::new(
            LiveContent {
                id: desired.id.clone(),
                applyset: applyset_id(placement).into(),
                manifest: Some(desired.digest.clone()),
                owned: desired.digest.clone(),
                owner: None,
                terminating: false,
                availability: Availability::Available,
                unavailable_because: None,
            },
            uid,
            self.server.version,
        );
        self.server.objects.insert(ObjectKey::clone(&desired.key), live.clone());
        self.note(kind_of(&desired.key), Change::There(live.clone()));
        live
    }

    fn remove(&mut self, key: &ObjectKey) {
        self.server.version += 1;
        if self.server.objects.remove(key).is_some() {
            self.note(kind_of(key), Change::Gone(key.clone(), self.server.version));
        }
    }

    /// Somebody writes an object with our label.
    fn write(&mut self, about: u8) {
        let desired = desired(about, usize::from(about >> 2), about >> 6);
        if !self.kinds[kind_of(&desired.key)].unserved {
            self.put(&desired, &placement(about));
        }
    }

    fn take_away(&mut self, about: u8) {
        let keys: Vec<ObjectKey> = self.server.objects.keys().cloned().collect();
        if !keys.is_empty() {
            self.remove(&keys[usize::from(about) % keys.len()]);
        }
    }

    /// A definition comes or goes, and all objects of its kind with it. Who watches it is refused: the list fails.
    fn serve(&mut self, at: usize) {
        self.kinds[at].unserved ^= true;
        let gone: Vec<ObjectKey> = self.server.objects.keys().filter(|key| kind_of(key) == at).cloned().collect();
        for key in &gone {
            self.remove(key);
        }
    }

    /// What is called known was listed completely; where nothing is on its way it is what the server holds.
    fn check(&self) {
        for (placement, inventory) in self.inventories() {
            let Some(known) = inventory.known() else { continue };
            let unlisted = self.unlisted(&placement);
            assert!(
                unlisted.is_empty(),
                "the inventory of {placement} is called known, and {unlisted:?} is not listed"
            );
            let told = &self.told[&placement].group_kinds;
            let is_current = |kind: &Kind| match kind.reading {
                Reading::Watching => kind.changes.is_empty(),
                Reading::Absent => kind.unserved,
                _ => false,
            };
            if !told.iter().all(|kind| is_current(&self.kinds[named(kind)])) {
                continue;
            }
            let label = applyset_id(&placement);
            let of = |key: &ObjectKey| told.iter().any(|kind| named(kind) == kind_of(key));
            let held = self.server.objects.iter().filter(|(key, live)| *live.applyset == *label && of(key));
            let held: BTreeSet<&ObjectKey> = held.map(|(key, _)| key).collect();
            let known: BTreeSet<&ObjectKey> = known.iter().filter(|key| of(key)).collect();
            assert_eq!(
                known, held,
                "the inventory of {placement} is called known, and the member holds something else"
            );
        }
    }
}

pub(super) fn run(input: &[u8]) {
    let mut case = Case::begin();
    for step in input.chunks_exact(2).take(STEPS_MAX) {
        case.happen(step[0], step[1]);
    }
}
