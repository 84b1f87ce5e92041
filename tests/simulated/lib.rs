//! Daemons and agents on virtual time, each on a machine of its own, with all that goes wrong between them, their store and their members.
//! What a daemon does is `plan::simulate`'s; this is the deployment around it. Pure: the same seed gives the same facts, byte for byte.
//!
//! The caller pushes commits, calls [`SimulatedFleet::step`] until nothing is left to happen, and reads the [`Fact`]s.

mod agents;
mod backup;
mod clock;
mod fact;
mod faults;
mod flights;
mod lease;
mod members;
mod process;
mod replicas;
mod source;
mod store;

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use agents::{AgentHappening, SimulatedAgents};
use backup::Backup;
use clock::MachineClock;
use config::Configuration;
use deliver::live::LiveObject;
use engine::member::Task;
use engine::store::Op;
use engine::{Changed, Effect, MemberCommand};
use flights::Flight;
use lease::{Ask, LeaseAnswer};
use model::commands::{Command, Done, Person, Refusal};
use model::id::{ClusterName, CommitId, ObjectKey};
use model::kinds::WatchedKind;
use model::manifest::InputError;
use model::records::ClockReading;
use model::tree::Tree;
use plan::simulate::{BatchOutcome, Deployment, FateOf, Happening, Simulation};
use replicas::Replicas;
use source::{History, SourceTrouble};

pub use agents::{AgentGuards, AgentIdentity, agent_of};
pub use fact::{Fact, MachineFact};
pub use faults::Faults;
pub use replicas::{Guards, LATE_MAX};

/// A simulation of them.
type Sim = Simulation<Machines>;

/// The machines of daemons and agents, and what goes wrong.
#[derive(Default)]
pub struct Machines {
    /// The faults from now on.
    pub faults: Faults,
    /// The clock of the machine that acts.
    clock: MachineClock,
    /// What its source thread has trouble with.
    trouble: SourceTrouble,
    /// The time when the store was written last.
    remembered: Option<ClockReading>,
    history: History,
    /// An earlier state of members, which a list may show.
    earlier: BTreeMap<ClusterName, BTreeMap<ObjectKey, LiveObject>>,
    /// The life and the connection in which members were listed last.
    listed_over: BTreeMap<ClusterName, (u64, u64)>,
    backups: BTreeMap<ClusterName, Backup>,
    /// `None`: one daemon has the store for itself.
    replicas: Option<Replicas>,
    /// `None`: the daemons deliver to all members themselves.
    agents: Option<SimulatedAgents>,
}

/// What happens to machines alone.
pub struct MachineHappening(What);

enum What {
    /// A list of a kind that failed so many times is tried again.
    List(ClusterName, u64, WatchedKind, u32),
    /// A request reaches a member, or fails to.
    Land(ClusterName, u64, Box<Flight>),
    /// A replica's turn to ask for the lease, the question at the database, and the answer; with the replica's incarnation.
    Renew(u64),
    AtDatabase(u64, Ask),
    LeaseAnswer(u64, LeaseAnswer),
    /// A batch arrives whose answer was lost.
    LateBatch(u64),
    Agent(AgentHappening),
}

impl From<What> for Happening<MachineHappening> {
    fn from(what: What) -> Self {
        Self::Own(MachineHappening(what))
    }
}

impl Deployment for Machines {
    type Happening = MachineHappening;
    type Fact = MachineFact;

    fn happen(sim: &mut Sim, MachineHappening(what): MachineHappening) {
        match what {
            What::List(cluster, connection, kind, failures) => {
                members::list_again(sim, &cluster, connection, &kind, failures);
            }
            // Members outlive the daemon: a request may arrive late.
            What::Land(cluster, connection, flight) => flights::land(sim, &cluster, connection, &flight),
            What::Renew(incarnation) => lease::renew(sim, incarnation),
            What::AtDatabase(incarnation, ask) => lease::ask_database(sim, incarnation, &ask),
            What::LeaseAnswer(incarnation, answer) => lease::take_lease_answer(sim, incarnation, &answer),
            What::LateBatch(number) => store::late_batch_arrives(sim, number),
            What::Agent(happening) => agents::happen(sim, happening),
        }
    }

    fn each_process(sim: &mut Sim, act: impl FnMut(&mut Sim)) {
        replicas::each_machine(sim, act);
    }

    fn write(sim: &mut Sim, ops: Vec<Op>) -> BatchOutcome {
        store::write(sim, ops)
    }

    fn carry_out(sim: &mut Sim, effect: Effect) -> bool {
        // What a task of its own hears after its orders throws no dice, so that all earlier seeds stay as they are.
        let is_told = matches!(&effect, Effect::Command(cluster, MemberCommand::Placements(_)) if !agents::is_remote(sim, cluster));
        if !is_told && sim.dice.chance(sim.deployment.faults.crash) {
            process::crash(sim);
            return false;
        }
        match effect {
            Effect::StartMember(cluster, access) => members::start(sim, cluster, access),
            Effect::StopMember(cluster) => members::give_up(sim, &cluster),
            Effect::Command(cluster, command) => {
                sim.note_order(&command);
                if let Some(command) = agents::command_remote(sim, &cluster, command) {
                    sim.command(&cluster, command);
                }
            }
            Effect::ReadPayload(snapshot) => source::read_payload(sim, snapshot),
            // Each replica has a mirror of its own, and what pins commits for all passes the fence.
            Effect::Retain { .. } if !replicas::is_newest(sim) => {}
            Effect::AcceptRewrite(commit) => source::accept_rewrite(sim, commit),
            other => sim.carry_out(other),
        }
        true
    }

    fn send(sim: &mut Sim, cluster: &ClusterName, connection: u64, task: Task) {
        flights::send(sim, cluster, connection, task);
    }

    fn list(sim: &mut Sim, cluster: &ClusterName, kind: &WatchedKind) {
        members::list(sim, cluster, kind, 0);
    }
}

/// A fleet that is simulated: one daemon, until others or agents are added.
pub struct SimulatedFleet(Sim);

impl Deref for SimulatedFleet {
    type Target = Simulation<Machines>;

    fn deref(&self) -> &Sim {
        &self.0
    }
}

impl DerefMut for SimulatedFleet {
    fn deref_mut(&mut self) -> &mut Sim {
        &mut self.0
    }
}

impl SimulatedFleet {
    /// Creates a fleet with a daemon that has just started, an empty store and a source without commits.
    pub fn new(configuration: Configuration, seed: u64, start: Timestamp, fate: FateOf) -> Self {
        Self(Simulation::new(configuration, seed, start, fate, Machines::default()))
    }

    /// Returns what changed in the store since it was asked last, as the daemon's core noted it; `None` while it is down.
    pub fn take_changed(&mut self) -> Option<Changed> {
        self.process.core.as_mut().map(engine::Core::take_changed)
    }

    /// Makes a commit the tip of the source, or a refused commit with these errors.
    pub fn push(&mut self, commit: CommitId, tree: Result<Arc<Tree>, Vec<InputError>>) {
        self.deployment.history.pushed.push(commit.clone());
        self.set_tip(commit, tree);
        replicas::each_daemon(self, Simulation::poll_later);
    }

    /// Executes the next event with its immediate effects. Returns the facts; `None` if no event is left. Not every step has
    /// facts.
    pub fn step(&mut self) -> Option<Vec<Fact>> {
        let (at, machine, happening) = self.queue.pop()?;
        self.now = at;
        replicas::enter(self, machine);
        if let Some(happening) = replicas::defer(self, happening) {
            happen(self, happening);
        }
        if !replicas::is_paused(self) {
            self.decide();
        }
        replicas::enter_leader(self);
        Some(self.facts())
    }

    /// Returns the facts of changes that the caller made between two steps.
    pub fn facts(&mut self) -> Vec<Fact> {
        replicas::sift(self);
        replicas::begin_sifting(self);
        std::mem::take(&mut self.facts)
    }

    /// Executes a person's command. Returns the answer; `None` if the daemon is down, or ends before it can answer.
    ///
    /// # Errors
    /// Why it is not executed.
    pub fn execute(&mut self, command: &Command, person: &Person) -> Option<Result<Done, Refusal>> {
        if !replicas::reach_leader(self) {
            return None;
        }
        let answer = self.0.execute(command, person);
        replicas::enter_leader(self);
        answer
    }

    /// Ends the daemon process now; it restarts after a while.
    pub fn crash(&mut self) {
        process::crash(self);
    }
}

/// Lets something happen on the machine that acts: as to one daemon that nothing happens to, where it goes no other way.
fn happen(sim: &mut Sim, happening: Happening<MachineHappening>) {
    let life = sim.process.life;
    match happening {
        Happening::Begin if sim.deployment.replicas.is_some() => lease::follow(sim),
        Happening::Begin => process::begin(sim),
        Happening::Poll(of) if of == life => source::poll(sim),
        Happening::Hear(of, event) if of == life => agents::hear(sim, *event),
        Happening::Connect(cluster, connection) if replicas::is_cut_from(sim, &cluster) => {
            members::fail_to_connect(sim, &cluster, connection);
        }
        Happening::See(cluster, connection, sight) => members::see(sim, cluster, connection, sight),
        Happening::Report(cluster, connection) => members::report(sim, &cluster, connection),
        other => sim.happen(other),
    }
}

/// Schedules what happens on the machine that acts.
fn push_at(sim: &mut Sim, at: Timestamp, what: What) {
    sim.push_at(at, what.into());
}

/// The same after a time between these.
fn push_in(sim: &mut Sim, range: (Duration, Duration), what: What) {
    sim.push_in(range, what.into());
}
