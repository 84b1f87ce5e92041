//! Seeded simulation: random events drive `decide` over members in memory, and the invariants are checked after each.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use model::api::condition::{ConditionStatus, find_condition};
use model::id::{BlobId, CommitId, ObjectKey};
use model::records::{ApplyOutcome, Availability, ClusterRecord, ManifestStatus, MemberKind};
use model::tree::Tree;

const CLUSTERS: usize = 5;
const MAX_UNAVAILABLE: usize = 2;

/// Something that happens.
#[derive(Clone, Debug)]
enum Happens {
    Commit(u8),
    Offline(usize),
    Online(usize),
    /// A member applies what it was ordered.
    Applies(usize),
    /// What a member applied becomes available.
    Becomes(usize),
    Second,
}

fn happenings() -> impl Strategy<Value = Happens> {
    let cluster = 0..CLUSTERS;
    prop_oneof![
        2 => (0..4_u8).prop_map(Happens::Commit),
        1 => cluster.clone().prop_map(Happens::Offline),
        2 => cluster.clone().prop_map(Happens::Online),
        6 => cluster.clone().prop_map(Happens::Applies),
        6 => cluster.prop_map(Happens::Becomes),
        1 => Just(Happens::Second),
    ]
}

fn name(cluster: usize) -> ClusterName {
    ClusterName::new(format!("c{cluster}"))
}

fn tree(content: u8) -> Arc<Tree> {
    let cluster = |n| {
        format!(
            "---\napiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {{name: c{n}}}\nspec: {{}}\n"
        )
    };
    let clusters = (0..CLUSTERS).map(cluster).collect::<Vec<_>>().concat();
    let text = format!(
        "{clusters}---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {{name: p}}\n\
         spec:\n  resourceSelectors: [{{group: '', version: v1, kind: Namespace, name: a}}]\n  strategy:\n    \
         rollingUpdate: {{maxUnavailable: {MAX_UNAVAILABLE}, maxSurge: 100%}}\n---\napiVersion: v1\nkind: Namespace\n\
         metadata: {{name: a}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m, namespace: a}}\ndata: {{v: 'v{content}'}}\n"
    );
    let selection = source::select(["f.yaml"], None);
    let blob =
        (Arc::from("f.yaml"), BlobId::new(format!("blob-{content}")), Arc::new(source::parse_blob(text.as_bytes())));
    let commit = CommitId::new(format!("commit-{content}"));
    Arc::new(source::assemble(Some(commit), &selection, [blob]).expect("the tree is right"))
}

/// The daemon without its edges, and members that do what they are told when the simulation says so.
struct Simulation {
    fleet: FleetState,
    state: PlacementState,
    orders: BTreeMap<ClusterName, Arc<WorkOrder>>,
    /// Clusters that were available once: only those can become unavailable by our doing.
    was_available: BTreeSet<ClusterName>,
    now: Timestamp,
}

impl Simulation {
    fn begin() -> Self {
        let now = Timestamp::UNIX_EPOCH;
        let tree = tree(0);
        let record =
            |n: usize| ClusterRecord { kind: MemberKind::Live, online: true, ..ClusterRecord::new(name(n), now) };
        let placement = tree.placements.values().next().expect("the tree has a placement");
        let state = PlacementState::begin(placement, now);
        let records = (0..CLUSTERS).map(|n| (name(n), record(n))).collect();
        let fleet = FleetState { source: "s".into(), tree, records, ..FleetState::default() };
        let mut simulation = Self { fleet, state, orders: BTreeMap::new(), was_available: BTreeSet::new(), now };
        simulation.decide();
        simulation
    }

    fn decide(&mut self) -> usize {
        self.fleet.clusters = super::state::clusters(&self.fleet.tree, &self.fleet.records, self.now);
        let decision = decide(self.state.clone(), &self.fleet, self.now);
        let again = decide(self.state.clone(), &self.fleet, self.now);
        assert_eq!(decision.journal, again.journal, "same inputs, same decisions");
        assert_eq!(decision.state.bindings, again.state.bindings, "same inputs, same decisions");
        self.orders = decision.orders.iter().map(|order| (order.cluster.clone(), Arc::clone(order))).collect();
        self.state = decision.state;
        decision.journal.len()
    }

    fn report(&mut self, cluster: &ClusterName, availability: Availability) {
        let Some(order) = self.orders.get(cluster).filter(|_| self.fleet.is_online(cluster)) else { return };
        let manifest = |desired: &model::work::Desired| ManifestStatus {
            id: desired.id.clone(),
            applied: ApplyOutcome::Applied,
            message: String::new(),
            availability: Some(availability),
            generation: None,
            manifest: None,
            owned: None,
            differences: Vec::new(),
            differs_since: None,
            observed_at: None,
        };
        let status = WorkStatus {
            generation: order.generation,
            complete: true,
            manifests: order.manifests.iter().map(manifest).collect(),
            available_since: (availability == Availability::Available).then_some(self.now),
            inventory: order.manifests.iter().map(|desired| ObjectKey::clone(&desired.key)).collect(),
            ..WorkStatus::default()
        };
        self.state.works.insert(cluster.clone(), Arc::new(status));
    }

    fn happens(&mut self, event: &Happens) {
        match event {
            Happens::Commit(content) => self.fleet.tree = tree(*content),
            Happens::Offline(n) => self.stand(*n, false),
            Happens::Online(n) => self.stand(*n, true),
            Happens::Applies(n) => {
                // A member that holds an order does not apply it again: nothing becomes unavailable by itself here.
                if self.ordered(*n) != self.reported(*n) {
                    self.report(&name(*n), Availability::ManifestNotAvailableYet);
                }
            }
            Happens::Becomes(n) => {
                if self.ordered(*n).is_some() && self.ordered(*n) == self.reported(*n) {
                    self.report(&name(*n), Availability::Available);
                }
            }
            Happens::Second => self.now += jiff::SignedDuration::from_secs(1),
        }
        self.decide();
    }

    fn ordered(&self, cluster: usize) -> Option<i64> {
        self.orders.get(&name(cluster)).map(|order| order.generation)
    }

    fn reported(&self, cluster: usize) -> Option<i64> {
        self.state.works.get(&name(cluster)).map(|work| work.generation)
    }

    fn stand(&mut self, cluster: usize, online: bool) {
        let record = self.fleet.records.get_mut(&name(cluster)).expect("it is of the fleet");
        if record.online != online {
            record.online = online;
            record.since = self.now;
        }
    }

    fn is_available(binding: &Binding) -> bool {
        find_condition(&binding.conditions, &model::conditions::ConditionType::Available)
            .is_some_and(|c| c.is(ConditionStatus::True, binding.generation))
    }

    /// Invariant 1: never more clusters unavailable by our doing than maxUnavailable.
    fn check(&mut self) {
        let bindings = || self.state.bindings();
        self.was_available.extend(bindings().filter(|b| Self::is_available(b)).map(|b| b.cluster.clone()));
        let moved = bindings().filter(|b| self.was_available.contains(&b.cluster) && !Self::is_available(b));
        let moved: Vec<&str> = moved.map(|b| b.name.as_str()).collect();
        assert!(moved.len() <= MAX_UNAVAILABLE, "unavailable by our doing: {moved:?}");
    }

    /// Lets faults stop and members work until nothing happens any more; returns how many rounds that took.
    fn settle(&mut self) -> usize {
        for round in 0..4 * CLUSTERS {
            for n in 0..CLUSTERS {
                self.happens(&Happens::Online(n));
                self.happens(&Happens::Applies(n));
                self.happens(&Happens::Becomes(n));
                self.check();
            }
            if self.decide() == 0 && self.state.bindings().all(Self::is_available) {
                return round;
            }
        }
        panic!("it does not settle: {:#?}", self.state.bindings);
    }
}

proptest! {
    // Each case decides hundreds of times.
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever happens in whatever order: the limits hold, and when faults stop the newest commit is everywhere and all is quiet.
    #[test]
    fn limits_hold_and_all_arrive(events in proptest::collection::vec(happenings(), 0..120)) {
        let mut simulation = Simulation::begin();
        for event in &events {
            simulation.happens(event);
            simulation.check();
        }
        simulation.settle();
        let newest = simulation.state.newest().expect("there is a snapshot").index;
        prop_assert!(simulation.state.bindings().all(|b| b.snapshot == Some(newest)));
        prop_assert_eq!(simulation.state.bindings.len(), CLUSTERS);
        let before = simulation.state.bindings.clone();
        prop_assert_eq!(simulation.decide(), 0, "quiet");
        prop_assert_eq!(&simulation.state.bindings, &before);
    }
}

#[test]
fn a_change_moves_as_many_as_may_be_unavailable() {
    let mut simulation = Simulation::begin();
    simulation.settle();
    simulation.happens(&Happens::Commit(1));
    let moved = |s: &Simulation| s.state.bindings().filter(|b| !Simulation::is_available(b)).count();
    assert_eq!(moved(&simulation), MAX_UNAVAILABLE);
    simulation.happens(&Happens::Applies(0));
    simulation.happens(&Happens::Becomes(0));
    assert_eq!(moved(&simulation), MAX_UNAVAILABLE, "the next one follows");
}
