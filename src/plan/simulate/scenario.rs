//! Simulates a rollout scenario: trees, latencies, failures and approvals in, events and outcomes out. Pure: the same scenario
//! gives the same answer, byte for byte.

mod gates;
mod outcome;
mod pushes;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::checks::servers;
use super::{Fact, Fate, Latencies, OneDaemon, Simulation, later};
use config::Configuration;
use decide::status::rollout::{RolloutState, rollout_state};
use decide::strategies::Staged;
use engine::store::records;
use gates::{OpenGate, open_gates};
use model::api::annotations::APPROVERS;
use model::commands::{Command, Person, Verb};
use model::id::{ClusterName, CommitId, ObjectKey, PlacementKey};
use model::runs::Channel;
use model::tree::Tree;
use pushes::Held;
use schedule::eligibility::SILENCE_MAX;
use views::simulation::{APPROVED_AFTER, EventKind, Offset, Simulated, SimulatedEvent};
use watch::Watch;

/// The default rules: every cluster is reachable, one approval opens a gate.
const CONFIGURATION: &str = "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {url: /fleet, branch: main}\n\
    members: [{name: '*', kubeconfig: {path: /kubeconfig, context: '{name}'}}]\nstore: {path: /state}\n";
/// The commit before the push if there is no base: clusters only.
const NOTHING: &str = "0000000000000000000000000000000000000000";
/// The commit of a folder.
const FOLDER: &str = "ffffffffffffffffffffffffffffffffffffffff";
/// The start of the simulation.
const START: i64 = 1_767_225_600;
/// A constant seed: two simulations differ only in their inputs.
const SEED: u64 = 0;
/// The longest rollout of the base.
const BASE_MAX: Duration = Duration::from_hours(24 * 90);
/// The greatest number of instants with events, for base and head each, before the simulation is given up.
const INSTANTS_MAX: u64 = 50_000_000;
/// After this time without a change a fleet that waits for nothing counts as settled: longer than the core waits for a silent
/// cluster.
const QUIET: SignedDuration = SignedDuration::from_secs(SILENCE_MAX.as_secs() + 60);
/// The latency between daemon and member.
const HEARING: Duration = Duration::from_millis(10);
/// How long writes take in predictions, and objects to become available: the defaults of `gitfleet simulate`.
const STEP: Duration = Duration::from_millis(100);
const AVAILABLE: Duration = Duration::from_secs(10);
/// How long predictions continue: strategies wait for days.
const PREDICTED_MAX: Duration = Duration::from_hours(24 * 30);
/// The approver.
const PERSON: &str = "a person";

/// A scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The tree that is rolled out everywhere before the push; absent means an empty fleet.
    pub base: Option<Arc<Tree>>,
    /// The pushed tree.
    pub head: Arc<Tree>,
    /// Later pushes, in order of time.
    pub then: Vec<LaterPush>,
    /// The placements to report; empty means all.
    pub placements: BTreeSet<PlacementKey>,
    /// The duration of one write on a cluster: shortest and longest.
    pub apply: (Duration, Duration),
    /// The time until an object becomes available, if its kind takes time: shortest and longest.
    pub available: (Duration, Duration),
    /// Failures of pushed objects. Objects from before the push, and those that a later push changes, do not fail.
    pub failures: Vec<Failure>,
    /// Outages of clusters.
    pub absences: Vec<Absence>,
    /// Approvals at given times.
    pub approvals: Vec<TimedApproval>,
    /// The time between a request and its approval; absent means never.
    pub approve_after: Option<Duration>,
    /// The time limit after the push.
    pub until: Duration,
}

impl Scenario {
    /// Returns a rollout in which nothing goes wrong, for predictions: with the times that `gitfleet simulate` assumes, and each approval
    /// [`APPROVED_AFTER`] it is asked for.
    pub fn undisturbed(base: Option<Arc<Tree>>, head: Arc<Tree>, placements: BTreeSet<PlacementKey>) -> Self {
        Self {
            base,
            head,
            then: Vec::new(),
            placements,
            apply: (STEP, STEP),
            available: (AVAILABLE, AVAILABLE),
            failures: Vec::new(),
            absences: Vec::new(),
            approvals: Vec::new(),
            approve_after: Some(APPROVED_AFTER.0),
            until: PREDICTED_MAX,
        }
    }
}

/// Objects that fail on a cluster.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The cluster.
    pub cluster: ClusterName,
    /// The objects; absent means all.
    pub objects: Option<BTreeSet<ObjectKey>>,
    /// Their behaviour.
    pub fate: Fate,
}

/// An outage of a cluster.
#[derive(Clone, Debug)]
pub struct Absence {
    /// The cluster.
    pub cluster: ClusterName,
    /// Its start.
    pub from: Duration,
    /// Its end; absent means never.
    pub until: Option<Duration>,
}

/// An approval at a given time of what waits then.
#[derive(Clone, Debug)]
pub struct TimedApproval {
    /// The run; absent means every waiting run.
    pub run: Option<String>,
    /// The stage; `deletion` is the deletion gate of a placement.
    pub stage: String,
    /// When.
    pub at: Duration,
}

/// A later push, possibly during the rollout of the one before.
#[derive(Clone, Debug)]
pub struct LaterPush {
    /// The pushed tree.
    pub tree: Arc<Tree>,
    /// The time after the first push.
    pub at: Duration,
}

/// An action of the driver at a mark.
#[derive(Clone, Debug)]
enum Action {
    Push(Arc<Tree>),
    Reach(ClusterName, bool),
    Approve(TimedApproval),
    Open(OpenGate),
}

/// Simulates a rollout to its end.
pub fn simulate(scenario: &Scenario) -> Simulated {
    let mut driver = Driver::begin(scenario);
    driver.roll_base_out();
    driver.push();
    driver.finish()
}

struct Driver<'a> {
    scenario: &'a Scenario,
    simulation: Simulation,
    watch: Watch,
    actions: Vec<Action>,
    /// Marks in the future.
    marks: usize,
    changed_at: Timestamp,
    /// Whether everything waits; unknown after a change.
    rests: Option<bool>,
    /// The content of clusters before the push.
    held: Held,
    /// The last pushed commit.
    pushed: Option<CommitId>,
}

impl<'a> Driver<'a> {
    fn begin(scenario: &'a Scenario) -> Self {
        let mut configuration = Configuration::parse(CONFIGURATION, Path::new("/"), &BTreeMap::new())
            .expect("the configuration of simulations has no errors");
        let trees = scenario.base.iter().chain([&scenario.head]).chain(scenario.then.iter().map(|push| &push.tree));
        configuration.prometheus = servers(&trees.map(|tree| Staged::of(tree)).collect::<Vec<_>>());
        let start = Timestamp::from_second(START).expect("it is an instant of this century");
        let good = Box::new(|_: &ClusterName, _: &_| Fate::Good);
        let simulation = Simulation::new(configuration, SEED, start, good, OneDaemon);
        Self {
            scenario,
            simulation,
            watch: Watch::default(),
            actions: Vec::new(),
            marks: 0,
            changed_at: start,
            rests: None,
            held: Held::new(),
            pushed: None,
        }
    }

    /// Brings the fleet to its state before the push: settled at the base, every gate approved.
    fn roll_base_out(&mut self) {
        let none = (Duration::ZERO, Duration::ZERO);
        self.simulation.latencies =
            Latencies { source: none, connect: none, step: none, report: none, available: none, restart: none };
        let base = self.scenario.base.as_ref().map_or_else(|| clusters_of(&self.scenario.head), |base| prepared(base));
        self.simulation.push(base);
        self.run(later(self.simulation.now, BASE_MAX));
    }

    fn push(&mut self) {
        let Scenario { apply, available, absences, approvals, head, base, then, .. } = self.scenario;
        // A step takes this long to arrive, and as long again for its answer: together they are one write.
        let half = (apply.0 / 2, apply.1 / 2);
        let hearing = (HEARING, HEARING);
        let none = (Duration::ZERO, Duration::ZERO);
        self.simulation.latencies = Latencies {
            source: none,
            connect: hearing,
            step: half,
            report: none,
            available: *available,
            restart: none,
        };
        // Before the push: existing content never fails, so that a rollback can succeed.
        self.held = self.held_now();
        self.simulation.fate = self.fate(false);
        let fleet = self.simulation.core().map(|core| (core.fleet(), core.placements()));
        self.watch = Watch::begin(self.simulation.now, self.scenario, fleet);
        self.watch.push(self.simulation.now, global(EventKind::Pushed, "the commit is pushed"));
        for absence in absences {
            self.schedule(absence.from, Action::Reach(absence.cluster.clone(), false));
            if let Some(until) = absence.until {
                self.schedule(until, Action::Reach(absence.cluster.clone(), true));
            }
        }
        for push in then {
            self.schedule(push.at, Action::Push(Arc::clone(&push.tree)));
        }
        for approval in approvals {
            self.schedule(approval.at, Action::Approve(approval.clone()));
        }
        let tree = prepared(head);
        self.pushed = Some(commit_of(&tree));
        // A second push of the same commit is skipped.
        if base.as_ref().is_none_or(|base| commit_of(base) != commit_of(&tree)) {
            self.simulation.push(tree);
        }
        self.changed_at = self.simulation.now;
        self.rests = None;
        self.run(later(self.simulation.now, self.scenario.until));
    }

    fn finish(self) -> Simulated {
        let until = Offset::of(self.scenario.until);
        let core = self.simulation.core().map(|core| (core.fleet(), core.placements()));
        self.watch.finish(core, self.simulation.now, until)
    }

    fn schedule(&mut self, after: Duration, action: Action) {
        // Actions at the time of the push happen before it.
        let mark = self.actions.len() as u64;
        self.actions.push(action);
        self.marks += 1;
        self.simulation.at(after, mark);
    }

    /// Runs until everything has settled, or until an instant.
    fn run(&mut self, until: Timestamp) {
        for _ in 0..INSTANTS_MAX {
            let Some(next) = self.simulation.queue.next_at().filter(|next| *next <= until) else { return };
            // The queue alone cannot tell: checks of drifted objects repeat forever.
            if next > self.changed_at + QUIET && self.marks == 0 && self.is_at_rest() {
                return;
            }
            let Some(facts) = self.simulation.step_instant() else { return };
            self.see(facts);
        }
    }

    fn see(&mut self, mut facts: Vec<Fact>) {
        while !facts.is_empty() {
            let mut changed = BTreeSet::new();
            let mut marks = Vec::new();
            for fact in facts {
                match fact {
                    Fact::Kept { key, .. } => changed.extend(placement_of(&key)),
                    Fact::Mark(mark) => marks.push(mark),
                    _ => {}
                }
            }
            self.look(&changed);
            for mark in marks {
                self.act(mark);
            }
            // The immediate effects of an action are handled now: the next step may be hours away.
            facts = std::mem::take(&mut self.simulation.facts);
        }
    }

    /// Evaluates changed placements, and lets people approve.
    fn look(&mut self, changed: &BTreeSet<PlacementKey>) {
        if changed.is_empty() {
            return;
        }
        let now = self.simulation.now;
        self.changed_at = now;
        self.rests = None;
        let Some(core) = self.simulation.core() else { return };
        let mut asked = Vec::new();
        for key in changed {
            asked.extend(self.watch.look(key, core.fleet(), core.placements().get(key), now));
        }
        let after = if self.watch.is_watching() { self.scenario.approve_after } else { Some(Duration::ZERO) };
        let Some(after) = after else { return };
        for gate in asked {
            self.schedule(after, Action::Open(gate));
        }
    }

    fn act(&mut self, mark: u64) {
        self.marks = self.marks.saturating_sub(1);
        let action = usize::try_from(mark).ok().and_then(|mark| self.actions.get(mark)).cloned();
        self.changed_at = self.simulation.now;
        self.rests = None;
        match action {
            Some(Action::Reach(cluster, answers)) => {
                self.simulation.set_reachable(&cluster, answers);
                let kind = if answers { EventKind::ClusterOnline } else { EventKind::ClusterOffline };
                self.watch.push(self.simulation.now, SimulatedEvent { cluster: Some(cluster), ..global(kind, "") });
            }
            Some(Action::Push(tree)) => self.push_later(&tree),
            // Opened by somebody else meanwhile, or gone: nothing to approve.
            Some(Action::Open(gate)) => drop(self.approve(&gate)),
            Some(Action::Approve(approval)) => self.approve_waiting(&approval),
            None => {}
        }
    }

    /// Tells whether an approval names a gate, by its run or by its placement.
    fn is_meant(&self, approval: &TimedApproval, gate: &OpenGate) -> bool {
        let named = gate.run.as_deref().unwrap_or(gate.placement.name.as_str());
        let is_named = approval.run.as_ref().is_none_or(|run| run == named || *run == gate.placement.name);
        gate.stage == approval.stage && is_named && self.watch.is_chosen(&gate.placement)
    }

    /// A person approves what waits.
    fn approve_waiting(&mut self, approval: &TimedApproval) {
        let placements = self.simulation.core().map(engine::Core::placements);
        let open = placements.into_iter().flatten().flat_map(|(key, state)| open_gates(key, state));
        let meant: Vec<OpenGate> = open.filter(|gate| self.is_meant(approval, gate)).collect();
        let named = approval.run.as_ref().map(|run| format!("{run}, ")).unwrap_or_default();
        let stage = &approval.stage;
        if meant.is_empty() {
            let message = format!("approval of {named}stage {stage}: nothing waits there");
            self.watch.push(self.simulation.now, global(EventKind::ApprovalRefused, message));
        }
        for gate in meant {
            if let Err(why) = self.approve(&gate) {
                let refused = global(EventKind::ApprovalRefused, format!("approval of {named}stage {stage}: {why}"));
                let event = SimulatedEvent { placement: Some(gate.placement.to_string()), ..refused };
                self.watch.push(self.simulation.now, event);
            }
        }
    }

    fn approve(&mut self, gate: &OpenGate) -> Result<(), String> {
        let command = Command { stage: Some(gate.stage.clone()), ..Command::new(Verb::Approve, gate.target()) };
        let person = Person::of(PERSON, Channel::CommandLine);
        match self.simulation.execute(&command, &person) {
            None | Some(Ok(_)) => Ok(()),
            Some(Err(refusal)) => Err(refusal.message),
        }
    }

    /// Tells whether no reported placement moves any more, now or as time passes.
    fn is_at_rest(&mut self) -> bool {
        if let Some(known) = self.rests {
            return known;
        }
        let now = self.simulation.now;
        let rests = self.simulation.core().is_some_and(|core| {
            let shown = core.placements().iter().filter(|(key, _)| self.watch.is_chosen(key));
            shown.map(|(_, state)| state).all(|state| {
                let bindings = state.shared_bindings();
                let standing = rollout_state(&state.view(&bindings, core.fleet(), now));
                !matches!(standing, RolloutState::Progressing | RolloutState::WaitingForTime(_))
            })
        });
        self.rests = Some(rests);
        rests
    }
}

impl Simulation {
    /// Makes a commit the tip of the source.
    fn push(&mut self, tree: Tree) {
        self.set_tip(commit_of(&tree), Ok(Arc::new(tree)));
        self.poll_later();
    }

    /// Runs all events of the next instant, and decides afterwards, as the daemon does with simultaneous events: a wave of a
    /// thousand clusters is one decision.
    fn step_instant(&mut self) -> Option<Vec<Fact>> {
        let at = self.queue.next_at()?;
        self.now = at;
        while self.queue.next_at() == Some(at)
            && let Some((_, _, happening)) = self.queue.pop()
        {
            self.happen(happening);
        }
        self.decide();
        Some(std::mem::take(&mut self.facts))
    }
}

/// Returns the placement of a store key, if its record affects a rollout's state.
fn placement_of(key: &str) -> Option<PlacementKey> {
    let prefixes = [records::PLACEMENT_PREFIX, records::BINDING_PREFIX, records::RUN_PREFIX];
    prefixes.into_iter().find_map(|prefix| records::placement_of(key, prefix))
}

fn global(event: EventKind, message: impl Into<String>) -> SimulatedEvent {
    SimulatedEvent {
        at: Offset::default(),
        event,
        placement: None,
        run: None,
        stage: None,
        cluster: None,
        message: message.into(),
    }
}

fn commit_of(tree: &Tree) -> CommitId {
    tree.commit.clone().unwrap_or_else(|| CommitId::from(FOLDER))
}

/// Returns a tree with only its clusters.
fn clusters_of(tree: &Tree) -> Tree {
    let mut empty = Tree::default();
    empty.commit = Some(CommitId::from(NOTHING));
    empty.clusters.clone_from(&tree.clusters);
    empty
}

/// Returns a tree for simulation: as a commit, and with gates that anybody may open.
fn prepared(tree: &Tree) -> Tree {
    let mut tree = tree.clone();
    tree.commit = Some(commit_of(&tree));
    for manifest in tree.inputs.iter_mut().filter(|manifest| manifest.annotation(APPROVERS).is_some()) {
        let annotations = Arc::make_mut(&mut manifest.object).pointer_mut("/metadata/annotations");
        if let Some(annotations) = annotations.and_then(serde_json::Value::as_object_mut) {
            annotations.remove(APPROVERS);
        }
    }
    tree
}
