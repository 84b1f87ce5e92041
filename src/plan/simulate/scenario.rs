//! A rollout before anybody trusts it: trees, latencies, failures and people in, what happens out. Pure: the same scenario
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

use super::{Detail, Fact, Fate, Latencies, Simulation};
use crate::api::annotations::APPROVERS;
use crate::config::Configuration;
use crate::model::commands::{Command, Person, Verb};
use crate::model::id::{ClusterName, CommitId, ObjectKey, PlacementKey};
use crate::model::runs::Channel;
use crate::model::tree::Tree;
use crate::schedule::eligibility::SILENCE_MAX;
use crate::status::rollout::{RolloutState, rollout_state};
use crate::store::records;
use crate::views::simulation::{EventKind, Offset, Simulated, SimulatedEvent};
use gates::{OpenGate, open_gates};
use pushes::Held;
use watch::Watch;

/// What everything is simulated with: every cluster can be reached, one person opens a gate.
const CONFIGURATION: &str = "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {url: /fleet, branch: main}\n\
    members: [{name: '*', kubeconfig: {path: /kubeconfig, context: '{name}'}}]\nstore: {path: /state}\n";
/// The commit of what is there before the push where no base was named: clusters alone.
const NOTHING: &str = "0000000000000000000000000000000000000000";
/// The commit of a folder that is read as it stands.
const FOLDER: &str = "ffffffffffffffffffffffffffffffffffffffff";
/// When the simulation begins.
const START: i64 = 1_767_225_600;
/// Chance is the same every time: two simulations are compared by what was changed between them.
const SEED: u64 = 0;
/// How long the base may take to be rolled out.
const BASE_MAX: Duration = Duration::from_hours(24 * 90);
/// Instants of base and head each at which anything happens, before the simulation is given up.
const INSTANTS_MAX: u64 = 50_000_000;
/// After this long without a change a fleet that waits for nothing is at rest: a cluster that is silent is given up
/// before.
const QUIET: SignedDuration = SignedDuration::from_secs(SILENCE_MAX.as_secs() + 60);
/// How long the daemon and a member take to hear of something.
const HEARING: Duration = Duration::from_millis(10);
/// Who approves.
const PERSON: &str = "a person";

/// What is to be simulated.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What is rolled out everywhere before the push; absent is a fleet that holds nothing.
    pub base: Option<Arc<Tree>>,
    /// What is pushed.
    pub head: Arc<Tree>,
    /// What is pushed after it, in order of time.
    pub then: Vec<LaterPush>,
    /// The placements to look at; none looks at all.
    pub placements: BTreeSet<PlacementKey>,
    /// How long a cluster takes for one write: shortest and longest.
    pub apply: (Duration, Duration),
    /// How long an object that takes time to become available takes: shortest and longest.
    pub available: (Duration, Duration),
    /// What goes wrong with what is pushed. What a cluster held before goes well, and what a later push changes.
    pub failures: Vec<Failure>,
    /// Clusters that do not answer.
    pub absences: Vec<Absence>,
    /// People who approve at given times.
    pub approvals: Vec<TimedApproval>,
    /// How long after it is asked for every approval is given; absent never.
    pub approve_after: Option<Duration>,
    /// How long after the push the simulation is given up.
    pub until: Duration,
}

/// Objects that fail on a cluster.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The cluster.
    pub cluster: ClusterName,
    /// The objects; absent is every one.
    pub objects: Option<BTreeSet<ObjectKey>>,
    /// What becomes of them.
    pub fate: Fate,
}

/// A cluster that does not answer for a while.
#[derive(Clone, Debug)]
pub struct Absence {
    /// The cluster.
    pub cluster: ClusterName,
    /// From when on.
    pub from: Duration,
    /// Until when; absent never answers again.
    pub until: Option<Duration>,
}

/// A person who approves at a time what waits then.
#[derive(Clone, Debug)]
pub struct TimedApproval {
    /// The run; absent is every run that waits.
    pub run: Option<String>,
    /// The stage; `deletion` is the deletion gate of a placement.
    pub stage: String,
    /// When.
    pub at: Duration,
}

/// A commit that is pushed while the one before may still roll out.
#[derive(Clone, Debug)]
pub struct LaterPush {
    /// What is pushed.
    pub tree: Arc<Tree>,
    /// When, after the first push.
    pub at: Duration,
}

/// Something the driver does at a mark.
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
    /// Marks that are to come.
    marks: usize,
    changed_at: Timestamp,
    /// Whether everything waits; unknown after a change.
    rests: Option<bool>,
    /// What clusters held before the push.
    held: Held,
    /// The commit that was pushed last.
    pushed: Option<CommitId>,
}

impl<'a> Driver<'a> {
    fn begin(scenario: &'a Scenario) -> Self {
        let configuration = Configuration::parse(CONFIGURATION, Path::new("/"), &BTreeMap::new())
            .expect("the configuration of simulations has no errors");
        let start = Timestamp::from_second(START).expect("it is an instant of this century");
        let good = Box::new(|_: &ClusterName, _: &_| Fate::Good);
        // Every write takes its time: with whole orders at once only some would.
        let simulation = Simulation::new(configuration, SEED, start, Detail::Steps, good);
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

    /// Brings the fleet to where it is before the push: at rest at the base, every gate approved.
    fn roll_base_out(&mut self) {
        let none = (Duration::ZERO, Duration::ZERO);
        self.simulation.latencies =
            Latencies { source: none, connect: none, step: none, report: none, available: none, restart: none };
        let base = self.scenario.base.as_ref().map_or_else(|| clusters_of(&self.scenario.head), |base| prepared(base));
        self.simulation.push(commit_of(&base), Ok(Arc::new(base)));
        self.run(later(self.simulation.now(), BASE_MAX));
    }

    fn push(&mut self) {
        let Scenario { apply, available, absences, approvals, head, base, then, .. } = self.scenario;
        // A step takes this long to land, and as long again to be answered: both together are one write.
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
        // Before the push: content that is there by now never fails, so that a way back can succeed.
        self.held = self.held_now();
        self.simulation.fate = self.fate(false);
        let world = self.simulation.core().map(|core| (core.world(), core.placements()));
        self.watch = Watch::begin(self.simulation.now(), self.scenario, world);
        self.watch.say(self.simulation.now(), global(EventKind::Pushed, "the commit is pushed"));
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
        // The same commit twice is no push.
        if base.as_ref().is_none_or(|base| commit_of(base) != commit_of(&tree)) {
            self.simulation.push(commit_of(&tree), Ok(Arc::new(tree)));
        }
        self.changed_at = self.simulation.now();
        self.rests = None;
        self.run(later(self.simulation.now(), self.scenario.until));
    }

    fn finish(self) -> Simulated {
        let until = Offset(i64::try_from(self.scenario.until.as_millis()).unwrap_or(i64::MAX));
        let core = self.simulation.core().map(|core| (core.world(), core.placements()));
        self.watch.finish(core, self.simulation.now(), until)
    }

    fn schedule(&mut self, after: Duration, action: Action) {
        // What is at the push itself comes before it.
        let mark = self.actions.len() as u64;
        self.actions.push(action);
        self.marks += 1;
        self.simulation.at(after, mark);
    }

    /// Lets things happen until everything rests, or until an instant.
    fn run(&mut self, until: Timestamp) {
        for _ in 0..INSTANTS_MAX {
            let Some(next) = self.simulation.next_at().filter(|next| *next <= until) else { return };
            // The queue alone cannot tell: looks at drifted objects repeat for ever.
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
            // What follows from an action at once is seen at once: the next step may be hours away.
            facts = std::mem::take(&mut self.simulation.facts);
        }
    }

    /// Looks at placements that changed, and lets people answer.
    fn look(&mut self, changed: &BTreeSet<PlacementKey>) {
        if changed.is_empty() {
            return;
        }
        let now = self.simulation.now();
        (self.changed_at, self.rests) = (now, None);
        let Some(core) = self.simulation.core() else { return };
        let mut asked = Vec::new();
        for key in changed {
            asked.extend(self.watch.look(key, core.world(), core.placements().get(key), now));
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
        (self.changed_at, self.rests) = (self.simulation.now(), None);
        match action {
            Some(Action::Reach(cluster, answers)) => {
                self.simulation.set_reachable(&cluster, answers);
                let kind = if answers { EventKind::ClusterOnline } else { EventKind::ClusterOffline };
                self.watch.say(self.simulation.now(), SimulatedEvent { cluster: Some(cluster), ..global(kind, "") });
            }
            Some(Action::Push(tree)) => self.push_later(&tree),
            // Opened by somebody else meanwhile, or gone: then there is nothing to approve.
            Some(Action::Open(gate)) => drop(self.approve(&gate)),
            Some(Action::Approve(approval)) => self.approve_waiting(&approval),
            None => {}
        }
    }

    /// A person comes and approves what waits.
    fn approve_waiting(&mut self, approval: &TimedApproval) {
        let placements = self.simulation.core().map(crate::core::Core::placements);
        let open = placements.into_iter().flatten().flat_map(|(key, state)| open_gates(key, state));
        let is_meant = |gate: &OpenGate| {
            let named = gate.run.as_deref().unwrap_or(gate.placement.name.as_str());
            let is_named = approval.run.as_ref().is_none_or(|run| run == named || *run == gate.placement.name);
            gate.stage == approval.stage && is_named && self.watch.is_chosen(&gate.placement)
        };
        let meant: Vec<OpenGate> = open.filter(is_meant).collect();
        let named = approval.run.as_ref().map(|run| format!("{run}, ")).unwrap_or_default();
        let stage = &approval.stage;
        if meant.is_empty() {
            let message = format!("approval of {named}stage {stage}: nothing waits there");
            self.watch.say(self.simulation.now(), global(EventKind::ApprovalRefused, message));
        }
        for gate in meant {
            if let Err(why) = self.approve(&gate) {
                let refused = global(EventKind::ApprovalRefused, format!("approval of {named}stage {stage}: {why}"));
                let event = SimulatedEvent { placement: Some(gate.placement.to_string()), ..refused };
                self.watch.say(self.simulation.now(), event);
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

    /// Tells whether no placement that is looked at moves any more, or will as time passes.
    fn is_at_rest(&mut self) -> bool {
        if let Some(known) = self.rests {
            return known;
        }
        let now = self.simulation.now();
        let rests = self.simulation.core().is_some_and(|core| {
            let shown = core.placements().iter().filter(|(key, _)| self.watch.is_chosen(key));
            shown.map(|(_, state)| state).all(|state| {
                let bindings = state.shared_bindings();
                let standing = rollout_state(&state.view(&bindings, core.world(), now));
                !matches!(standing, RolloutState::Progressing | RolloutState::WaitingForTime(_))
            })
        });
        self.rests = Some(rests);
        rests
    }
}

impl Simulation {
    /// Lets everything happen that is due at the next instant, and only then decides, as the daemon does with what arrives
    /// together: a wave of a thousand clusters is one decision.
    fn step_instant(&mut self) -> Option<Vec<Fact>> {
        let at = self.next_at()?;
        self.now = at;
        while let Some(due) = self.queue.first_entry().filter(|due| due.key().0 == at) {
            let happening = due.remove();
            self.happen(happening);
        }
        self.decide();
        Some(std::mem::take(&mut self.facts))
    }
}

/// Returns the placement that a key of the store is about, where it says how a rollout stands.
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

fn later(now: Timestamp, pause: Duration) -> Timestamp {
    now.checked_add(pause).unwrap_or(Timestamp::MAX)
}

fn commit_of(tree: &Tree) -> CommitId {
    tree.commit.clone().unwrap_or_else(|| CommitId::from(FOLDER))
}

/// Returns a tree with its clusters and nothing else.
fn clusters_of(tree: &Tree) -> Tree {
    let mut empty = Tree::default();
    empty.commit = Some(CommitId::from(NOTHING));
    empty.clusters.clone_from(&tree.clusters);
    empty
}

/// Returns a tree as it is simulated: as a commit, and with gates that anybody may open.
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
