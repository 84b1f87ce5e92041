//! Cases of staged rollouts: commits, members, people and time, told to `decide` one after the other.

mod answering;
mod approving;
mod checks;
mod events;
mod folders;
mod gates;
mod guard;
mod history;
mod joints;
mod leaving;
mod leaving_at_once;
mod no_stage;
mod rejecting;
mod runs;
mod sample;
mod standing;
mod superseding;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::execute::{execute, resolve};
use decide::decide;
use decide::evictions::Disruptions;
use decide::state::{FleetState, Payload, PlacementState, clusters, mark_leavers};
use decide::strategies::Staged;
use model::api::annotations::SUSPENDED;
use model::commands::{Command, Person, Refusal, Verb};
use model::id::{ClusterName, ObjectKey, PlacementKey};
use model::records::{ApplyOutcome, Availability, BindingState, ClusterRecord, ManifestStatus, MemberKind, WorkStatus};
use model::runs::{ApprovalRules, Channel, RunRecord};
use model::work::{Desired, WorkOrder};
use testkit::trees::{payload, tree};

/// Decisions until a case must have come to rest.
const ROUNDS_MAX: usize = 200;

/// The strategy of most cases: `one`, then `two` after an approval, then `three`.
const STRATEGY: &str = "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\n\
    metadata: {name: s}\nspec:\n  stages:\n    - {name: one, labelSelector: {matchLabels: {stage: one}}, afterStageTasks: [{type: Approval}]}\n    \
    - {name: two, labelSelector: {matchLabels: {stage: two}}}\n    - {name: three, labelSelector: {matchLabels: {stage: three}}}\n---\n";

/// All clusters at once, without gates.
const ONE_STAGE: &str = "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\n\
    metadata: {name: s}\nspec: {stages: [{name: all, labelSelector: {}, maxConcurrency: 100%}]}\n---\n";

/// A MemberCluster of a stage.
fn member(name: &str, stage: &str) -> String {
    testkit::trees::member(name, &format!("labels: {{stage: {stage}}}"))
}

/// An External placement `p` with annotations in flow style without braces.
fn placement(annotations: &str) -> String {
    testkit::trees::placement("p", annotations, ", strategy: {type: External}")
}

const AUTOMATIC: &str = "gitfleet.io/staged-update-strategy: s";
/// The same, and nobody is asked about deletions.
const UNGUARDED: &str = "gitfleet.io/staged-update-strategy: s, gitfleet.io/deletion-guard: 'Off'";

/// The placement `p` on clusters by name.
fn fixed(annotations: &str, clusters: &str) -> String {
    let more =
        format!(", policy: {{placementType: PickFixed, clusterNames: [{clusters}]}}, strategy: {{type: External}}");
    testkit::trees::placement("p", annotations, &more)
}

/// The placement `p` that takes objects over by force.
fn forced() -> String {
    let more =
        ", strategy: {type: External, applyStrategy: {type: ServerSideApply, serverSideApplyConfig: {force: true}}}";
    testkit::trees::placement("p", AUTOMATIC, more)
}

/// A run of placement `p` by strategy `s`, with more of its spec in flow style.
fn run(name: &str, more: &str) -> String {
    format!(
        "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateRun\nmetadata: {{name: {name}}}\n\
         spec: {{placementName: p, stagedRolloutStrategyName: s{more}}}\n---\n"
    )
}

/// How a member does what it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// At once, and what it holds is available.
    Well,
    /// It applies, and nothing becomes available.
    Slow,
    /// Its API server refuses the objects.
    Refuses,
}

/// One placement `p`, its fleet and the people.
struct Case {
    files: BTreeMap<&'static str, String>,
    fleet: FleetState,
    state: PlacementState,
    orders: BTreeMap<ClusterName, Arc<WorkOrder>>,
    manners: BTreeMap<ClusterName, Manner>,
    offline: BTreeSet<ClusterName>,
    journal: Vec<String>,
    /// What git has: payload of every snapshot.
    library: BTreeMap<u64, Arc<Payload>>,
    wake_at: Option<Timestamp>,
    now: Timestamp,
}

impl Case {
    /// Clusters `a` in stage one, `b` and `c` in two, `d` in three; an automatic placement; content 0. Nothing was decided.
    fn of(files: &[(&'static str, String)]) -> Self {
        let mut all = BTreeMap::from([
            ("a.yaml", member("a", "one")),
            ("b.yaml", member("b", "two")),
            ("c.yaml", member("c", "two")),
            ("d.yaml", member("d", "three")),
            ("p.yaml", placement(AUTOMATIC)),
            ("s.yaml", STRATEGY.to_owned()),
            ("x.yaml", payload("0")),
        ]);
        all.extend(files.iter().cloned());
        Self::on_files("p", all)
    }

    /// A case of these files about one of their placements. Nothing was decided.
    fn on_files(placement: &str, all: BTreeMap<&'static str, String>) -> Self {
        let now = Timestamp::UNIX_EPOCH;
        let texts: Vec<(&str, &str)> = all.iter().map(|(path, text)| (*path, text.as_str())).collect();
        let first = tree(&texts);
        let state = PlacementState::begin(&first.placements[&PlacementKey::cluster_scoped(placement)], now);
        let fleet = FleetState { source: "s".into(), approvals: ApprovalRules::default(), ..FleetState::default() };
        let mut case = Self {
            files: all,
            fleet,
            state,
            orders: BTreeMap::new(),
            manners: BTreeMap::new(),
            offline: BTreeSet::new(),
            journal: Vec::new(),
            library: BTreeMap::new(),
            wake_at: None,
            now,
        };
        case.accept();
        case
    }

    /// The usual case, rolled out: everybody has content 0.
    fn rolled_out(files: &[(&'static str, String)]) -> Self {
        let mut case = Self::of(files);
        case.settle();
        case.say(Verb::Approve, "p-0 one").expect("the gate opens");
        assert_eq!(case.settle(), "a0 b0 c0 d0");
        assert_eq!(case.phases(), "p-0 Succeeded");
        case
    }

    /// Commits files; an empty text removes one.
    fn commit(&mut self, files: &[(&'static str, String)]) {
        self.files.extend(files.iter().cloned());
        self.files.retain(|_, text| !text.is_empty());
        self.accept();
    }

    /// Commits content.
    fn content(&mut self, value: &str) {
        self.commit(&[("x.yaml", payload(value))]);
    }

    fn accept(&mut self) {
        let texts: Vec<(&str, &str)> = self.files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        self.fleet.tree = tree(&texts);
        self.fleet.staged = Staged::of(&self.fleet.tree);
        let named = decide::render::named([&self.state]);
        self.fleet.overrides.follow(&self.fleet.tree, &named, self.now);
        self.fleet.disruptions = Disruptions::of(&self.fleet.tree);
        mark_leavers(&mut self.fleet.records, &self.fleet.tree, |_| true, self.now);
        for name in self.fleet.tree.clusters.keys() {
            let record = ClusterRecord { kind: MemberKind::Live, ..ClusterRecord::new(name.clone(), self.now) };
            self.fleet.records.insert(name.clone(), record);
        }
        self.note_online();
    }

    fn note_online(&mut self) {
        for record in self.fleet.records.values_mut() {
            let member = self.fleet.tree.clusters.get(&record.name);
            let is_suspended = member.is_some_and(|member| member.annotations.contains_key(SUSPENDED));
            record.online = !self.offline.contains(&record.name) && !is_suspended;
        }
        self.fleet.clusters = clusters(&self.fleet.tree, &self.fleet.records, self.now);
    }

    /// From now on a member does what it is told in this manner.
    fn manner(&mut self, cluster: &str, manner: Manner) {
        self.manners.insert(cluster.into(), manner);
    }

    fn goes(&mut self, cluster: &str, online: bool) {
        if online {
            self.offline.remove(&ClusterName::from(cluster))
        } else {
            self.offline.insert(cluster.into())
        };
        self.note_online();
    }

    /// Decides once. Returns whether anything happened.
    fn decide(&mut self) -> bool {
        let missing: Vec<u64> = self.state.snapshots_in_use().map(|snapshot| snapshot.index).collect();
        for index in missing.iter().filter(|index| self.library.contains_key(index)) {
            self.state.payloads.insert(*index, Arc::clone(&self.library[index]));
        }
        let before = self.state.clone();
        let decision = decide(self.state.clone(), &self.fleet, self.now);
        for entry in &decision.journal {
            let cluster = entry.cluster.as_ref().map(|cluster| format!(" {cluster}")).unwrap_or_default();
            let snapshot = entry.facts.get("snapshot").filter(|_| entry.event.as_str().starts_with("Placement"));
            let snapshot = snapshot.map(|snapshot| format!(" {snapshot}")).unwrap_or_default();
            self.journal.push(format!("{}{cluster}{snapshot}", entry.event));
        }
        self.orders = decision.orders.iter().map(|order| (order.cluster.clone(), Arc::clone(order))).collect();
        self.state = decision.state;
        self.library.extend(self.state.payloads.clone());
        self.wake_at = decision.wake_at;
        self.state.bindings != before.bindings || self.state.runs != before.runs
    }

    /// Lets every member that answers do what it was told. Returns whether one did.
    fn work(&mut self) -> bool {
        let mut any = false;
        let orders: Vec<Arc<WorkOrder>> = self.orders.values().cloned().collect();
        for order in orders.iter().filter(|order| self.fleet.is_online(&order.cluster)) {
            let manner = self.manners.get(&order.cluster).copied().unwrap_or(Manner::Well);
            let status = carried_out(order, manner, self.now);
            let known = self.state.works.get(&order.cluster);
            let is_new = known.is_none_or(|known| {
                WorkStatus { available_since: None, ..WorkStatus::clone(known) }
                    != WorkStatus { available_since: None, ..status.clone() }
            });
            if is_new {
                any = true;
                self.state.works.insert(order.cluster.clone(), Arc::new(status));
            }
        }
        any
    }

    /// Decides and works until nothing happens any more; says where everybody is.
    fn settle(&mut self) -> String {
        for _ in 0..ROUNDS_MAX {
            let decided = self.decide();
            let worked = self.work();
            if !decided && !worked {
                return self.places();
            }
        }
        panic!("it does not come to rest: {:#?}", self.journal.iter().rev().take(30).collect::<Vec<_>>());
    }

    /// Lets time pass, in seconds, and settles.
    fn later(&mut self, seconds: i64) -> String {
        self.now += SignedDuration::from_secs(seconds);
        self.settle()
    }

    /// Says something: `p`, `p-0`, or a run and a stage.
    fn say(&mut self, verb: Verb, words: &str) -> Result<String, Refusal> {
        self.say_as("ann", verb, words, None, None)
    }

    fn say_as(
        &mut self,
        person: &str,
        verb: Verb,
        words: &str,
        digest: Option<&str>,
        to: Option<u64>,
    ) -> Result<String, Refusal> {
        let (target, stage) = words.split_once(' ').map_or((words, None), |(run, stage)| (run, Some(stage.to_owned())));
        let command = Command { stage, to, digest: digest.map(str::to_owned), ..Command::new(verb, target) };
        let person = Person::of(person, Channel::Api);
        let placements = BTreeMap::from([(self.state.record.key.clone(), self.state.clone())]);
        let aim = resolve(&placements, &command)?;
        let executed = execute(&self.state, &self.fleet, &aim, &command, &person, self.now)?;
        self.state = executed.state;
        Ok(executed.done.message)
    }

    fn run(&self, name: &str) -> &RunRecord {
        self.state.runs.get(name).unwrap_or_else(|| panic!("no run {name}: {}", self.phases()))
    }

    /// Says where every cluster is: its snapshot, `-` before its turn, `x` while it is being removed.
    fn places(&self) -> String {
        let place = |binding: &model::records::Binding| {
            let at = binding.snapshot.map_or("-".to_owned(), |index| index.to_string());
            let mark = match binding.state {
                _ if binding.deleting => "x",
                BindingState::Unscheduled => "?",
                _ => "",
            };
            format!("{}{at}{mark}", binding.cluster)
        };
        let mut places: Vec<String> = self.state.bindings().map(place).collect();
        places.sort();
        places.join(" ")
    }

    /// Says how far every run is, the oldest first.
    fn phases(&self) -> String {
        let mut runs: Vec<&RunRecord> = self.state.runs.values().collect();
        runs.sort_by_key(|run| run.sequence);
        runs.iter().map(|run| format!("{} {:?}", run.name, run.phase)).collect::<Vec<_>>().join(", ")
    }

    /// Says how far every cluster of a run is.
    fn clusters_of(&self, run: &str) -> String {
        let run = self.run(run);
        let clusters = run.stages.iter().chain(&run.deletion).flat_map(|stage| &stage.clusters);
        clusters.map(|cluster| format!("{} {:?}", cluster.name, cluster.phase)).collect::<Vec<_>>().join(", ")
    }
}

fn carried_out(order: &WorkOrder, manner: Manner, now: Timestamp) -> WorkStatus {
    let manifest = |desired: &Desired| ManifestStatus {
        id: desired.id.clone(),
        applied: if manner == Manner::Refuses { ApplyOutcome::ManifestApplyFailed } else { ApplyOutcome::Applied },
        message: if manner == Manner::Refuses { "field is immutable".to_owned() } else { String::new() },
        availability: match manner {
            Manner::Well => Some(Availability::Available),
            Manner::Slow => Some(Availability::ManifestNotAvailableYet),
            Manner::Refuses => None,
        },
        generation: None,
        manifest: None,
        owned: None,
        differences: Vec::new(),
        differs_since: None,
        observed_at: None,
    };
    let held = order.manifests.iter().filter(|_| !order.remove).map(|desired| ObjectKey::clone(&desired.key));
    WorkStatus {
        generation: order.generation,
        complete: true,
        manifests: order.manifests.iter().map(manifest).collect(),
        available_since: (manner == Manner::Well).then_some(now),
        inventory: held.chain(order.held.iter().cloned()).collect(),
        held_deletions: order.held.clone(),
        ..WorkStatus::default()
    }
}
