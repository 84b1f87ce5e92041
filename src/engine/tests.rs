use std::path::Path;

use super::*;
use crate::commits::PAYLOAD_RETRY;
use crate::store::{MemoryStore, Store as _};
use decide::payload::{Payload, payload_among};
use decide::status::rollout::{Failure, RolloutState};
use model::commands::{Command, Person, Verb};
use model::id::ObjectKey;
use model::records::{ResourceSnapshot, WorkStatus};
use model::runs::Channel;
use model::tree::Tree;
use model::work::WorkOrder;
use testkit::trees::{member as cluster, payload, placement, tree};

/// Returns the payload of a snapshot of one commit.
fn payload_of(tree: &Tree, snapshot: &ResourceSnapshot) -> Result<Payload, String> {
    payload_among(&[tree], snapshot)
}

#[test]
fn a_first_look_that_is_over_is_not_waited_for_while_the_store_is_left_alone() {
    let text = "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {url: /fleet, branch: main}\n\
        members: [{name: '*', kubeconfig: {path: /kubeconfig, context: '{name}'}}]\nstore: {path: /state}\n";
    let configuration = Configuration::parse(text, Path::new("/"), &BTreeMap::new()).expect("it has no errors");
    let start = Timestamp::UNIX_EPOCH;
    for late in [FIRST_LOOK_MAX, FIRST_LOOK_MAX + SignedDuration::from_secs(5)] {
        let (mut core, _) = Core::begin(configuration.clone(), SavedRecords::default(), start);
        core.members.unseen.insert("a".into());
        let now = start + late;
        let retry_at = now + STORE_RETRY;
        core.queue.retry_at(retry_at);
        assert!(core.decide(now).is_none(), "the store is left alone");
        assert_eq!(core.next_wake(), Some(retry_at), "after {late}");
    }
}

mod again;
mod checks;
mod doubt;
mod hub;
mod measures;
mod pushes;
mod renamed;
mod servers;
mod source;
mod sources;
mod start;
mod variants;

const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// A core with a store that takes everything, unless a test keeps a batch for itself.
struct Life {
    core: Core,
    store: MemoryStore,
    now: Timestamp,
    /// What was to be done since it was last asked for.
    effects: Vec<Effect>,
}

impl Life {
    fn begin(store: MemoryStore, now: Timestamp) -> Self {
        Self::reaching("*", store, now)
    }

    /// Begins with a configuration that says how to reach some members.
    fn reaching(members: &str, store: MemoryStore, now: Timestamp) -> Self {
        let text = format!(
            "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {{url: /fleet, branch: main}}\n\
             members: [{{name: '{members}', directory: '/out/{{name}}'}}]\nstore: {{path: /state}}\n\
             prometheus: [{{name: main, url: 'http://prometheus'}}]\n"
        );
        let configuration = Configuration::parse(&text, Path::new("/"), &BTreeMap::new()).expect("it has no errors");
        let (core, effects) = Core::begin(configuration, SavedRecords::read(&store).expect("it can be read"), now);
        Self { core, store, now, effects }
    }

    /// Begins with an accepted commit and a cluster that answers.
    fn with(files: &[(&str, &str)]) -> Self {
        let mut life = Self::begin(MemoryStore::new(), Timestamp::UNIX_EPOCH);
        life.handle(SourceEvent::Accepted(tree(files)));
        life.online(BTreeSet::new());
        life.settle();
        life
    }

    fn take_in(&mut self, event: Event) {
        self.effects.extend(self.core.take_in(event, self.now));
    }

    fn handle(&mut self, news: SourceEvent) {
        self.take_in(Event::Source(news));
    }

    /// Cluster `a` answers, and says what it holds of placement `p`.
    fn online(&mut self, inventory: BTreeSet<ObjectKey>) {
        self.answers("a", inventory);
    }

    fn answers(&mut self, cluster: &str, inventory: BTreeSet<ObjectKey>) {
        let kept = BTreeMap::new();
        let (inventory, holds) =
            (BTreeMap::from([(p(), model::records::Inventory::Known(inventory.into()))]), BTreeMap::new());
        self.take_in(Event::Member(MemberEvent::Online {
            cluster: cluster.into(),
            version: None,
            server: None,
            holds,
            kept,
            inventory,
        }));
    }

    fn offline(&mut self) {
        self.take_in(Event::Member(MemberEvent::Offline { cluster: "a".into(), reason: "gone".into() }));
    }

    /// Cluster `a` has carried out an order.
    fn done(&mut self, order: &WorkOrder) {
        let inventory = order.manifests.iter().map(|desired| ObjectKey::clone(&desired.key)).collect();
        let status = WorkStatus { generation: order.generation, complete: true, inventory, ..WorkStatus::default() };
        let placement = order.placement.clone();
        self.take_in(Event::Member(MemberEvent::Work { cluster: "a".into(), placement, status: Arc::new(status) }));
    }

    fn keep(&mut self, mut batch: Batch) {
        self.store.batch(std::mem::take(&mut batch.ops)).expect("it takes everything");
        self.effects.extend(self.core.written(batch, self.now));
    }

    fn settle(&mut self) {
        while let Some(batch) = self.core.decide(self.now) {
            self.keep(batch);
        }
    }

    /// A commit of this content reaches cluster `a`. Returns the order for `p`.
    fn roll_out(&mut self, value: &str) -> Arc<WorkOrder> {
        self.handle(SourceEvent::Accepted(commit(value, "")));
        self.online(BTreeSet::new());
        self.settle();
        let order = self.order(&p()).expect("it is told what to hold");
        self.done(&order);
        self.settle();
        order
    }

    fn wait(&mut self, time: SignedDuration) {
        self.now += time;
        self.settle();
    }

    /// Returns the newest order of a placement since it was last asked for.
    fn order(&mut self, of: &PlacementKey) -> Option<Arc<WorkOrder>> {
        let orders = self.effects.iter().rev().filter_map(|effect| match effect {
            Effect::Command(_, MemberCommand::Order { order, .. }) if order.placement == *of => Some(Arc::clone(order)),
            _ => None,
        });
        let order = orders.into_iter().next();
        self.effects.clear();
        order
    }

    /// Returns the snapshots that are to be read, by placement and index.
    fn reads(&mut self) -> Vec<Arc<ResourceSnapshot>> {
        let reads = std::mem::take(&mut self.effects).into_iter();
        reads
            .filter_map(|effect| if let Effect::ReadPayload(snapshot) = effect { Some(snapshot) } else { None })
            .collect()
    }

    fn roll_back(&mut self, target: &str, to: u64) {
        let command = Command { to: Some(to), ..Command::new(Verb::Rollback, target) };
        let (batch, _) = self.core.execute(&command, &somebody(), self.now).expect("it is carried out");
        self.keep(batch);
    }
}

fn p() -> PlacementKey {
    PlacementKey::cluster_scoped("p")
}

fn somebody() -> Person {
    Person::of("ann", Channel::Api)
}

/// A commit with cluster `a`, placements `p` and `q`, and content.
fn commit(value: &str, annotations: &str) -> Arc<Tree> {
    let files = [
        ("c.yaml", cluster("a", "")),
        ("d.yaml", payload(value)),
        ("p.yaml", placement("p", "", "")),
        ("q.yaml", placement("q", annotations, "")),
    ];
    tree(&files.each_ref().map(|(path, text)| (*path, text.as_str())))
}

#[test]
fn a_report_that_is_not_decided_yet_survives_a_new_connection() {
    for is_outstanding in [false, true] {
        let mut life = Life::with(&[]);
        life.handle(SourceEvent::Accepted(commit("1", "")));
        life.online(BTreeSet::new());
        life.settle();
        let order = life.order(&p()).expect("it is told what to hold");
        life.done(&order);
        let batch = life.core.decide(life.now).expect("it is decided");
        let mut batch = Some(batch);
        if !is_outstanding {
            life.core.refused(batch.take().expect("it is there"), life.now);
        }
        life.offline();
        life.online(order.manifests.iter().map(|desired| ObjectKey::clone(&desired.key)).collect());
        if let Some(batch) = batch {
            life.keep(batch);
        }
        life.wait(STORE_RETRY);
        let work = &life.core.placements()[&p()].works[&ClusterName::from("a")];
        assert_eq!((work.generation, work.complete), (order.generation, true), "outstanding: {is_outstanding}");
    }
}

/// A life that ends before it wrote down what was accepted leaves the next one with what was accepted before; one whose store
/// kept a batch without saying so leaves it with that.
#[test]
fn what_the_store_has_or_may_have_accepted_is_kept_until_it_has_another() {
    let mut life = Life::with(&[]);
    let accept = |life: &mut Life, name: &str| {
        life.effects.clear();
        let mut next = Tree::clone(&commit(name, ""));
        next.commit = Some(name.into());
        life.handle(SourceEvent::Accepted(Arc::new(next)));
    };
    let before = life.core.accepted().cloned().expect("a commit is accepted");
    accept(&mut life, "next");
    assert_kept(&life, &before);
    let batch = life.core.decide(life.now).expect("it is decided");
    life.core.refused(batch, life.now);
    accept(&mut life, "third");
    assert_kept(&life, &CommitId::new("next"));
}

fn assert_kept(life: &Life, commit: &CommitId) {
    let named: Vec<&BTreeSet<CommitId>> = life
        .effects
        .iter()
        .filter_map(|effect| if let Effect::Retain { named, .. } = effect { Some(named) } else { None })
        .collect();
    assert!(!named.is_empty() && named.iter().all(|named| named.contains(commit)), "{named:?}");
}

#[test]
fn a_rewrite_that_a_person_accepts_and_the_store_refuses_is_not_accepted() {
    let mut life = Life::with(&[]);
    life.handle(SourceEvent::Rewritten(CommitId::new("b")));
    life.settle();
    let (batch, _) = life.core.execute(&Command::new(Verb::Resume, ""), &somebody(), life.now).expect("it may");
    assert!(!batch.ops.is_empty());
    life.core.refused(batch, life.now);
    life.wait(STORE_RETRY);
    assert_eq!(life.core.accepted_rewrite(), None);
    let stored = SavedRecords::read(&life.store).expect("it can be read").source.expect("it is written");
    assert_eq!((stored.accepted_rewrite, stored.held_rewrite), (None, Some(CommitId::new("b"))));
}

/// Makes what the source says.
type Said = fn() -> SourceEvent;

#[test]
fn a_rewrite_that_a_person_accepted_ends_with_the_next_news_of_the_source() {
    let b = CommitId::new("b");
    let rows: [(&str, Said, bool); 6] = [
        ("it is accepted", || SourceEvent::Accepted(commit("1", "")), false),
        ("the branch went back", || SourceEvent::Unchanged, false),
        ("it has errors", || SourceEvent::Refused(CommitId::new("b"), Vec::new()), false),
        ("another rewrite", || SourceEvent::Rewritten(CommitId::new("c")), false),
        ("nobody looked", || SourceEvent::Failed("no route".to_owned()), true),
        ("nothing moved", || SourceEvent::Readable, true),
    ];
    for (name, news, stays) in rows {
        let mut life = Life::with(&[]);
        life.handle(SourceEvent::Rewritten(b.clone()));
        life.settle();
        let (batch, _) = life.core.execute(&Command::new(Verb::Resume, ""), &somebody(), life.now).expect("it may");
        life.keep(batch);
        assert!(
            life.effects.iter().any(|effect| matches!(effect, Effect::AcceptRewrite(commit) if *commit == b)),
            "{name}"
        );
        assert_eq!(life.core.accepted_rewrite(), Some(&b), "{name}");
        life.handle(news());
        life.settle();
        let stored = SavedRecords::read(&life.store).expect("it can be read").source.expect("it is written");
        assert_eq!(
            (life.core.accepted_rewrite().is_some(), stored.accepted_rewrite.is_some()),
            (stays, stays),
            "{name}"
        );
    }
}

#[test]
fn a_commit_that_cannot_be_restored_is_said_until_one_is_accepted() {
    let mut life = Life::with(&[]);
    life.handle(SourceEvent::Accepted(commit("1", "")));
    life.settle();
    let mut life = Life::begin(life.store, life.now);
    life.handle(SourceEvent::Restored(Err("it has errors".to_owned())));
    life.handle(SourceEvent::Refused(CommitId::new("other"), Vec::new()));
    life.online(BTreeSet::new());
    life.settle();
    let failed = RolloutState::Failed(Failure::Source("the accepted commit cannot be read: it has errors".to_owned()));
    assert_eq!(life.core.standing(life.now), failed);
    life.handle(SourceEvent::Accepted(commit("1", "")));
    life.settle();
    assert_ne!(life.core.standing(life.now), failed);
}

/// Begins with two snapshots of `p` and `q`, and `p` on its way back to the first.
fn rolled_back() -> (Life, Arc<ResourceSnapshot>) {
    let mut life = Life::with(&[]);
    life.roll_out("1");
    life.roll_out("2");
    life.roll_back("p", 0);
    life.settle();
    let reads = life.reads();
    assert_eq!(reads.iter().map(|read| (&read.placement, read.index)).collect::<Vec<_>>(), [(&p(), 0)]);
    (life, Arc::clone(&reads[0]))
}

#[test]
fn a_payload_that_could_not_be_read_is_read_again() {
    let (mut life, snapshot) = rolled_back();
    life.handle(SourceEvent::Payload(Arc::clone(&snapshot), Err("the disk is away".to_owned())));
    life.settle();
    assert!(life.reads().is_empty(), "not at once");
    let stored = &SavedRecords::read(&life.store).expect("it can be read").placements[&p()];
    assert_eq!(stored.record.unreadable, BTreeSet::from([0]));
    assert!(
        life.core.listeners.settled[&p()].starts_with("cannot continue: the payload of snapshot 0"),
        "{:?}",
        life.core.listeners.settled
    );
    assert_eq!(life.core.next_wake(), Some(life.now + PAYLOAD_RETRY));
    life.wait(PAYLOAD_RETRY);
    assert_eq!(life.reads().len(), 1);
    // Nothing waits for it meanwhile: the placement was decided without it already.
    life.core.queue.placements.insert(p());
    life.settle();
    assert!(!life.core.queue.placements.contains(&p()), "it is decided");
    let commit = commit("1", "");
    let payload = payload_of(&commit, &snapshot).expect("it is there");
    life.handle(SourceEvent::Payload(snapshot, Ok(payload)));
    life.settle();
    assert_eq!(life.order(&p()).expect("it goes back").snapshot, 0);
    let stored = &SavedRecords::read(&life.store).expect("it can be read").placements[&p()];
    assert!(stored.record.unreadable.is_empty());
}

#[test]
fn a_payload_that_a_selection_provides_is_not_unreadable_after_the_next_commit() {
    let mut life = Life::with(&[]);
    life.roll_out("1");
    let snapshot = Arc::clone(&life.core.placements()[&p()].snapshots[&0]);
    let unreadable = |life: &Life| {
        SavedRecords::read(&life.store).expect("it can be read").placements[&p()].record.unreadable.clone()
    };
    life.handle(SourceEvent::Payload(snapshot, Err("the source does not answer".to_owned())));
    life.settle();
    assert_eq!(unreadable(&life), BTreeSet::from([0]));
    // This commit concerns the other placement.
    life.handle(SourceEvent::Accepted(commit("1", "a: b")));
    life.settle();
    assert_eq!(unreadable(&life), BTreeSet::new());
}

#[test]
fn a_payload_that_is_being_read_holds_up_its_own_placement_alone() {
    let (mut life, _) = rolled_back();
    life.wait(SECOND);
    life.handle(SourceEvent::Accepted(commit("2", "a: b")));
    life.settle();
    let annotations = |name: &str| life.core.placements()[&PlacementKey::cluster_scoped(name)].record.annotations.len();
    assert_eq!(annotations("q"), 1, "the other is decided");
    assert!(life.core.next_wake().is_none_or(|at| at > life.now), "it waits for nothing without a pause");
    let files = [("c.yaml", cluster("a", "")), ("d.yaml", payload("2")), ("p.yaml", placement("p", "a: b", ""))];
    life.handle(SourceEvent::Accepted(tree(&files.each_ref().map(|(path, text)| (*path, text.as_str())))));
    life.settle();
    let annotations = life.core.placements()[&p()].record.annotations.len();
    assert_eq!(annotations, 0, "what it is to hold is not known yet");
}

#[test]
fn a_member_whose_entry_vanished_has_left() {
    let files = [
        ("c.yaml", format!("{}{}", cluster("a", ""), cluster("b", ""))),
        ("d.yaml", payload("1")),
        ("p.yaml", placement("p", "", "")),
    ];
    let commit = tree(&files.each_ref().map(|(path, text)| (*path, text.as_str())));
    let lives: [(&str, &str, &[&str], &[&str]); 6] = [
        ("b never had an entry: it has not left", "a", &["a"], &[]),
        ("both are reached", "*", &["a", "b"], &[]),
        ("the entry of a vanished", "b", &["b"], &["a"]),
        ("and a restart", "b", &["b"], &["a"]),
        ("it is back", "*", &["a", "b"], &[]),
        ("nobody is reached: that waits for a person", "c", &["a", "b"], &["a", "b"]),
    ];
    let (mut store, now) = (MemoryStore::new(), Timestamp::UNIX_EPOCH);
    for (name, members, bound, left) in lives {
        let mut life = Life::reaching(members, store, now);
        let is_first = life.core.accepted().is_none();
        life.handle(if is_first {
            SourceEvent::Accepted(Arc::clone(&commit))
        } else {
            SourceEvent::Restored(Ok(Arc::clone(&commit)))
        });
        if !is_first {
            life.handle(SourceEvent::Unchanged);
        }
        for cluster in ["a", "b"] {
            life.answers(cluster, BTreeSet::new());
        }
        for snapshot in life.reads() {
            let payload = payload_of(&commit, &snapshot).expect("it is there");
            life.handle(SourceEvent::Payload(snapshot, Ok(payload)));
        }
        life.settle();
        let state = &life.core.placements()[&p()];
        assert_eq!(state.bindings().map(|b| b.cluster.as_str()).collect::<Vec<_>>(), bound, "{name}");
        assert!(state.bindings().all(|b| !b.deleting), "{name}: nothing is removed");
        let gone = life.core.fleet().records.values().filter(|record| record.left);
        assert_eq!(gone.map(|record| record.name.as_str()).collect::<Vec<_>>(), left, "{name}");
        assert_eq!(state.record.closed_gate().is_some(), left.len() == 2, "{name}");
        store = life.store;
    }
}

#[test]
fn a_members_task_that_was_restarted_gets_its_orders_again() {
    let mut life = Life::with(&[]);
    let order = life.roll_out("1");
    assert!(life.order(&p()).is_none(), "it knows its order");
    life.take_in(Event::Member(MemberEvent::Restarted { cluster: "a".into() }));
    life.settle();
    let told = life.effects.iter().find_map(|effect| match effect {
        Effect::Command(_, MemberCommand::Order { order, reported, .. }) if order.placement == p() => {
            Some(reported.clone())
        }
        _ => None,
    });
    let reported = told.expect("it is told again").expect("with what was reported before");
    assert_eq!((reported.generation, reported.complete), (order.generation, true));
}

#[test]
fn d11_what_members_of_a_newer_commit_keep_is_taken_over_when_it_can_be_read() {
    let mut life = Life::with(&[]);
    life.handle(SourceEvent::Accepted(commit("1", "")));
    life.online(BTreeSet::new());
    life.settle();
    let backup = crate::store::backup::write(&life.store).expect("it can be read");
    let store = MemoryStore::new();
    store
        .batch(crate::store::backup::restore(&backup, "ann", life.now).expect("it is whole"))
        .expect("it takes everything");
    let mut life = Life::begin(store, life.now);
    life.handle(SourceEvent::Restored(Ok(commit("1", ""))));
    life.online(BTreeSet::new());
    for snapshot in life.reads() {
        let payload = payload_of(&commit("1", ""), &snapshot).expect("it is there");
        life.handle(SourceEvent::Payload(snapshot, Ok(payload)));
    }
    life.handle(SourceEvent::Failed("no route".to_owned()));
    life.settle();
    // A commit after the backup brought a cluster, and `p` was paused then.
    let joined = cluster("b", "");
    let files = [("b.yaml", joined.as_str()), ("d.yaml", &payload("1")), ("p.yaml", &placement("p", "", ""))];
    life.handle(SourceEvent::Accepted(tree(&files)));
    let paused = Some(model::records::Pause { by: "ann".to_owned(), at: life.now, reason: None });
    let kept =
        BTreeMap::from([(p(), model::records::Kept { paused: paused.clone(), ..model::records::Kept::default() })]);
    life.take_in(Event::Member(MemberEvent::Online {
        cluster: "b".into(),
        version: None,
        server: None,
        holds: BTreeMap::from([(p(), None)]),
        kept,
        inventory: BTreeMap::new(),
    }));
    life.settle();
    assert_eq!(life.core.placements()[&p()].record.paused, paused);
    assert!(life.core.persistence.store.as_ref().is_some_and(|store| !store.takes_over), "and that is the end of it");
}
