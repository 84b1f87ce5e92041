//! Simulates daemons on a virtual clock: the real core, the real planner of deliveries and a store with real semantics, with
//! simulated members and a simulated source. Pure: the same seed gives the same facts, byte for byte.
//!
//! `gitfleet simulate` has one daemon, which nothing happens to: [`scenario`]. Tests have [deployments](Deployment) of their own: several
//! daemons, agents, and all that goes wrong (`tests/simulated`).

mod checks;
mod deployment;
mod dice;
mod fact;
mod happenings;
mod latencies;
mod links;
mod member;
mod namespaces;
mod process;
pub mod scenario;
mod source;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use config::Configuration;
use engine::store::MemoryStore;
use engine::{Event, SourceEvent};
use model::id::ClusterName;
use model::work::Desired;

pub use deployment::{BatchOutcome, Deployment, OneDaemon};
pub use dice::Dice;
pub use fact::Fact;
pub use happenings::{Happening, Happenings};
pub use latencies::Latencies;
pub use links::{Link, is_listed};
pub use member::{Fate, Sight, SimulatedMember};
pub use process::SimulatedProcess;
pub use source::{SimulatedSource, SourceThread};

/// Decides the behaviour of an object on a cluster.
pub type FateOf = Box<dyn Fn(&ClusterName, &Desired) -> Fate + Send>;

/// The state of the daemons, their fleet and their source.
pub struct Simulation<D: Deployment = OneDaemon> {
    /// What daemons there are.
    pub deployment: D,
    /// The configuration with which processes begin.
    pub configuration: Configuration,
    /// The latencies.
    pub latencies: Latencies,
    /// The true time.
    pub now: Timestamp,
    /// What is drawn from the seed.
    pub dice: Dice,
    /// What is to happen.
    pub queue: Happenings<D::Happening>,
    /// The process that acts.
    pub process: SimulatedProcess,
    /// The store.
    pub store: MemoryStore,
    /// The source.
    pub source: SimulatedSource,
    /// The members whose tasks a daemon ever started.
    pub members: BTreeMap<ClusterName, SimulatedMember>,
    /// The facts since the caller last took them out.
    pub facts: Vec<Fact<D::Fact>>,
    fate: FateOf,
}

impl<D: Deployment> Simulation<D> {
    /// Creates a simulation with a daemon that has just started, an empty store and a source without commits. Members are
    /// created when the daemon starts their tasks.
    pub fn new(configuration: Configuration, seed: u64, start: Timestamp, fate: FateOf, deployment: D) -> Self {
        let mut simulation = Self {
            deployment,
            configuration,
            latencies: Latencies::default(),
            now: start,
            dice: Dice::new(seed),
            queue: Happenings::new(),
            process: SimulatedProcess::default(),
            store: MemoryStore::new(),
            source: SimulatedSource::default(),
            members: BTreeMap::new(),
            facts: Vec::new(),
            fate,
        };
        simulation.push_at(start, Happening::Begin);
        simulation
    }

    /// Schedules a [`Fact::Mark`], at which the caller acts.
    pub fn at(&mut self, after: Duration, mark: u64) {
        self.push_at(later(self.now, after), Happening::Mark(mark));
    }

    /// Sets whether a member answers.
    pub fn set_reachable(&mut self, cluster: &ClusterName, reachable: bool) {
        let member = self.members.entry(cluster.clone()).or_default();
        if member.away != reachable {
            return;
        }
        member.away = !reachable;
        self.facts.push(Fact::Reachable(cluster.clone(), reachable));
        if !reachable {
            D::each_process(self, |this| this.disconnect(cluster, "it is away"));
        }
    }

    /// Schedules what happens on the machine of the process that acts.
    pub fn push_at(&mut self, at: Timestamp, happening: Happening<D::Happening>) {
        self.queue.push(at, self.process.machine, happening);
    }

    /// The same after a time between these.
    pub fn push_in(&mut self, range: (Duration, Duration), happening: Happening<D::Happening>) {
        let at = later(self.now, self.dice.time(range));
        self.push_at(at, happening);
    }

    /// Lets something happen to the process that acts.
    pub fn happen(&mut self, happening: Happening<D::Happening>) {
        let life = self.process.life;
        match happening {
            Happening::Begin => self.begin_first(),
            // Messages to an earlier process are dropped.
            Happening::Wake(of) if of == life => self.process.wake_at = None,
            Happening::Poll(of) if of == life => self.poll(),
            Happening::Hear(of, event) if of == life => self.handle(*event),
            Happening::Wake(_) | Happening::Poll(_) | Happening::Hear(..) => {}
            // Members outlive the daemon: their events are checked by connection.
            Happening::Connect(cluster, connection) => self.connect(&cluster, connection),
            Happening::Land(cluster, connection, task) => self.land(&cluster, connection, &task),
            Happening::Answer(cluster, connection, placement, result) => {
                self.answer(&cluster, connection, &placement, *result);
            }
            Happening::See(cluster, connection, sight) => self.see(&cluster, connection, sight),
            Happening::SeeInventory(cluster, connection, of, seen) => {
                self.see_inventory(&cluster, connection, &of, *seen);
            }
            Happening::Ripen(cluster, key, version) => self.ripen(&cluster, &key, version),
            Happening::Report(cluster, connection) => self.report(&cluster, connection),
            Happening::Look(cluster, connection) => self.look(&cluster, connection),
            Happening::Mark(mark) => self.facts.push(Fact::Mark(mark)),
            Happening::Own(happening) => D::happen(self, happening),
        }
    }
}

/// Returns an instant plus a duration, limited to the latest valid instant.
pub fn later(now: Timestamp, pause: Duration) -> Timestamp {
    now.checked_add(pause).unwrap_or(Timestamp::MAX)
}
