//! Simulates the daemon on a virtual clock: the real core, the real planner of deliveries and a store with real semantics, with
//! simulated members and a simulated source. Pure: the same seed gives the same facts, byte for byte.
//!
//! The caller pushes commits, calls [`Simulation::step`] until nothing is left to happen, and reads the [`Fact`]s.

mod agents;
mod backup;
mod checks;
mod dice;
mod edges;
mod fact;
mod faults;
mod flights;
mod lease;
mod member;
mod namespaces;
mod replicas;
pub mod scenario;
mod source;
mod time;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use config::Configuration;
use decide::deliver::inventory::Parent;
use engine::member::result::StepResult;
use engine::persist::SavedRecords;
use engine::store::{MemoryStore, Op, Store as _};
use engine::{Batch, Changed, Core, Effect, Event, MemberCommand, SourceEvent};
use model::commands;
use model::commands::{Done, Person, Refusal};
use model::id::{ClusterName, CommitId, ObjectKey, PlacementKey};
use model::kinds::WatchedKind;
use model::manifest::InputError;
use model::records::ClockReading;
use model::tree::Tree;
use model::work::Desired;

pub use agents::{AgentGuards, AgentIdentity, agent_of};
use agents::{AgentHappening, SimulatedAgents};
pub use dice::Dice;
pub use fact::Fact;
pub use faults::{Faults, Latencies};
use flights::Flight;
use lease::{Ask, LeaseAnswer};
use member::Sight;
pub use member::{Fate, SimulatedMember};
use replicas::Replicas;
pub use replicas::{Guards, LATE_MAX};
use source::SimulatedSource;
use time::later;

/// The precision of members' simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Every step takes time: anything may happen between two.
    Steps,
    /// All steps of an order happen together: for fleets of thousands.
    Orders,
}

/// Decides the behaviour of an object on a cluster.
pub type FateOf = Box<dyn Fn(&ClusterName, &Desired) -> Fate + Send>;

/// A scheduled event.
enum Happening {
    Restart,
    Wake(u64),
    Poll(u64),
    Hear(u64, Box<Event>),
    Connect(ClusterName, u64),
    List(ClusterName, u64, WatchedKind, u32),
    Land(ClusterName, u64, Box<Flight>),
    Answer(ClusterName, u64, PlacementKey, Box<StepResult>),
    See(ClusterName, u64, Sight),
    SeeInventory(ClusterName, u64, PlacementKey, Box<(Option<Parent>, u64)>),
    Ripen(ClusterName, ObjectKey, u64),
    Report(ClusterName, u64),
    Look(ClusterName, u64),
    Mark(u64),
    /// A replica's turn to ask for the lease, the question at the database, and the answer; with the replica's incarnation.
    Renew(u64),
    AtDatabase(u64, Ask),
    LeaseAnswer(u64, LeaseAnswer),
    /// A batch arrives whose answer was lost.
    LateBatch(u64),
    Agent(AgentHappening),
}

/// The state of the daemon, its fleet and its source.
pub struct Simulation {
    configuration: Configuration,
    /// The latencies.
    pub latencies: Latencies,
    /// The faults from now on.
    pub faults: Faults,
    detail: Detail,
    fate: FateOf,
    dice: Dice,
    now: Timestamp,
    /// The difference between the machine's clock and the true time.
    skew: SignedDuration,
    /// That difference at the start of this process: a process measures time instead of reading the clock.
    begun_with: SignedDuration,
    /// The last stored time, with the true time.
    remembered: Option<ClockReading>,
    /// The number of reboots.
    boots: u64,
    /// Each event with its replica.
    queue: BTreeMap<(Timestamp, u64), (usize, Happening)>,
    queued: u64,
    /// The number of the daemon's processes.
    life: u64,
    core: Option<Core>,
    wake_at: Option<Timestamp>,
    store: MemoryStore,
    source: SimulatedSource,
    members: BTreeMap<ClusterName, SimulatedMember>,
    facts: Vec<Fact>,
    /// `None`: one daemon has the store for itself.
    replicas: Option<Replicas>,
    /// `None`: the daemons deliver to all members themselves.
    agents: Option<SimulatedAgents>,
}

impl Simulation {
    /// Creates a simulation with a daemon that has just started, an empty store and a source without commits. Members are
    /// created when the daemon starts their tasks.
    pub fn new(configuration: Configuration, seed: u64, start: Timestamp, detail: Detail, fate: FateOf) -> Self {
        let mut simulation = Self {
            configuration,
            latencies: Latencies::default(),
            faults: Faults::default(),
            detail,
            fate,
            dice: Dice::new(seed),
            now: start,
            skew: SignedDuration::ZERO,
            begun_with: SignedDuration::ZERO,
            remembered: None,
            boots: 0,
            queue: BTreeMap::new(),
            queued: 0,
            life: 0,
            core: None,
            wake_at: None,
            store: MemoryStore::new(),
            source: SimulatedSource::default(),
            members: BTreeMap::new(),
            facts: Vec::new(),
            replicas: None,
            agents: None,
        };
        simulation.push_at(start, Happening::Restart);
        simulation
    }

    /// Returns the true time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the store.
    pub fn store(&self) -> &MemoryStore {
        &self.store
    }

    /// Returns the daemon's core; `None` while it is down.
    pub fn core(&self) -> Option<&Core> {
        self.core.as_ref()
    }

    /// Returns what changed in the store since it was asked last, as the daemon's core noted it; `None` while it is down.
    pub fn take_changed(&mut self) -> Option<Changed> {
        self.core.as_mut().map(Core::take_changed)
    }

    /// Returns the members whose tasks the daemon ever started.
    pub fn members(&self) -> &BTreeMap<ClusterName, SimulatedMember> {
        &self.members
    }

    /// Makes a commit the tip of the source, or a refused commit with these errors.
    pub fn push(&mut self, commit: CommitId, tree: Result<Arc<Tree>, Vec<InputError>>) {
        self.source.commits.insert(commit.clone(), tree);
        self.source.pushed.push(commit.clone());
        let namespaces = self.unmanaged_namespaces();
        let clusters: Vec<ClusterName> = self.members.keys().cloned().collect();
        self.each_replica(|this| clusters.iter().for_each(|cluster| this.see_namespaces(cluster, &namespaces)));
        self.source.tip = Some(commit);
        self.each_daemon(|this| this.push_in(this.latencies.source, Happening::Poll(this.life)));
    }

    /// Makes a commit the tip that does not descend from earlier pushes: a rewritten history.
    pub fn rewrite(&mut self, commit: CommitId, tree: Result<Arc<Tree>, Vec<InputError>>) {
        self.source.rewritten.insert(commit.clone(), self.source.pushed.len());
        self.push(commit, tree);
    }

    /// Makes a commit the tip by checking out another branch than the followed one.
    pub fn switch(&mut self, commit: CommitId, tree: Result<Arc<Tree>, Vec<InputError>>) {
        self.source.switched.insert(commit.clone());
        self.rewrite(commit, tree);
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
            self.each_replica(|this| this.disconnect(cluster, "it is away"));
        }
    }

    /// Ends the daemon process now; it restarts after a while.
    pub fn crash(&mut self) {
        if self.core.take().is_none() {
            return;
        }
        self.facts.push(Fact::Crashed);
        self.end_server();
        self.end_incarnation();
        // The members' reconcilers end with it; the members' objects stay.
        for member in self.members.values_mut() {
            member.reconciler = None;
            member.connected = false;
            member.epoch += 1;
        }
        self.push_in(self.latencies.restart, Happening::Restart);
    }

    /// Returns the time of the next event.
    pub fn next_at(&self) -> Option<Timestamp> {
        Some(self.queue.first_key_value()?.0.0)
    }

    /// Executes the next event with its immediate effects. Returns the facts; `None` if no event is left. Not every step has
    /// facts.
    pub fn step(&mut self) -> Option<Vec<Fact>> {
        let ((at, _), (replica, happening)) = self.queue.pop_first()?;
        self.now = at;
        self.enter(replica);
        if let Some(happening) = self.defer(happening) {
            self.happen(happening);
        }
        if !self.is_paused() {
            self.decide();
        }
        self.enter_leader();
        Some(self.facts())
    }

    /// Returns the facts of changes that the caller made between two steps.
    pub fn facts(&mut self) -> Vec<Fact> {
        self.sift();
        self.begin_sifting();
        std::mem::take(&mut self.facts)
    }

    fn push_at(&mut self, at: Timestamp, happening: Happening) {
        self.queued += 1;
        // The number keeps events of one instant in order, so that a seed always gives the same facts.
        self.queue.insert((at, self.queued), (self.entered(), happening));
    }

    fn push_in(&mut self, range: (Duration, Duration), happening: Happening) {
        let at = later(self.now, self.dice.time(range));
        self.push_at(at, happening);
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Restart if self.replicas.is_some() => self.follow(),
            Happening::Restart => self.begin(),
            // Messages to an earlier process are dropped.
            Happening::Wake(life) if life == self.life => self.wake_at = None,
            Happening::Poll(life) if life == self.life => self.poll(),
            Happening::Hear(life, event) if life == self.life => self.hear(*event),
            Happening::Wake(_) | Happening::Poll(_) | Happening::Hear(..) => {}
            // Members outlive the daemon: their events are checked by connection, and a request may arrive late.
            Happening::Connect(cluster, epoch) => self.connect(&cluster, epoch),
            Happening::List(cluster, epoch, kind, failures) => self.list_again(&cluster, epoch, &kind, failures),
            Happening::Land(cluster, epoch, flight) => self.land(&cluster, epoch, &flight),
            Happening::Answer(cluster, epoch, placement, result) => self.answer(&cluster, epoch, &placement, *result),
            Happening::See(cluster, epoch, sight) => self.see(&cluster, epoch, sight),
            Happening::SeeInventory(cluster, epoch, of, seen) => self.see_inventory(&cluster, epoch, &of, *seen),
            Happening::Ripen(cluster, key, version) => self.ripen(&cluster, &key, version),
            Happening::Report(cluster, epoch) => self.report(&cluster, epoch),
            Happening::Look(cluster, epoch) => self.look(&cluster, epoch),
            Happening::Mark(mark) => self.facts.push(Fact::Mark(mark)),
            Happening::Renew(incarnation) => self.renew(incarnation),
            Happening::AtDatabase(incarnation, ask) => self.ask_database(incarnation, &ask),
            Happening::LeaseAnswer(incarnation, answer) => self.take_lease_answer(incarnation, &answer),
            Happening::LateBatch(number) => self.late_batch_arrives(number),
            Happening::Agent(happening) => self.happen_to_agents(happening),
        }
    }

    /// Starts the daemon from its store.
    fn begin(&mut self) {
        let mut saved = SavedRecords::read(&self.store).expect("a store in memory can be read");
        self.life = self.next_life();
        self.begun_with = self.skew;
        self.resume_waits(&mut saved);
        self.wake_at = None;
        let (core, effects) = Core::begin(self.configuration.clone(), saved, self.clock());
        self.facts.push(Fact::Began);
        self.source.accepted = core.accepted().cloned();
        self.source.reported = None;
        self.source.fresh.clear();
        self.source.failing = false;
        self.source.accepted_rewrite = core.accepted_rewrite().cloned();
        self.core = Some(core);
        self.begin_server();
        self.restore();
        self.push_in(self.latencies.source, Happening::Poll(self.life));
        self.act(effects);
    }

    fn handle(&mut self, event: Event) {
        let now = self.clock();
        let Some(core) = &mut self.core else { return };
        let mut facts = if let Event::Source(news) = &event { Fact::of_news(news) } else { Vec::new() };
        let effects = core.take_in(event, now);
        // Late answers are dropped: an earlier process's commit after a newer one.
        let is_taken = |commit: &CommitId| core.source().accepted.as_ref() == Some(commit);
        facts.retain(|fact| !matches!(fact, Fact::Accepted(commit) if !is_taken(commit)));
        self.facts.extend(facts);
        self.act(effects);
    }

    /// Executes a person's command. Returns the answer; `None` if the daemon is down, or ends before it can answer.
    ///
    /// # Errors
    /// Why it is not executed.
    pub fn execute(&mut self, command: &commands::Command, person: &Person) -> Option<Result<Done, Refusal>> {
        if !self.reach_leader() {
            return None;
        }
        let answer = self.execute_here(command, person);
        self.enter_leader();
        answer
    }

    fn execute_here(&mut self, command: &commands::Command, person: &Person) -> Option<Result<Done, Refusal>> {
        let now = self.clock();
        let answer = match self.core.as_mut()?.execute(command, person, now) {
            Err(refusal) => Some(Err(refusal)),
            Ok((batch, done)) => self.settle(batch).then_some(Ok(done)),
        };
        self.decide();
        answer
    }

    /// Runs the core until nothing is due.
    fn decide(&mut self) {
        let now = self.clock();
        while let Some(batch) = self.core.as_mut().and_then(|core| core.decide(now)) {
            self.settle(batch);
        }
        self.wake();
    }

    /// Writes a batch to a store that may fail, and executes its effects. Returns whether the store kept it and the daemon
    /// still runs.
    fn settle(&mut self, mut batch: Batch) -> bool {
        let now = self.clock();
        let mut ops = std::mem::take(&mut batch.ops);
        if !ops.is_empty() && self.replicas.is_some() {
            match self.reach_database(ops) {
                Some(reached) => ops = reached,
                None => return self.refuse(batch),
            }
        }
        if !ops.is_empty() && self.dice.chance(self.faults.store_refuses) {
            self.facts.push(Fact::StoreRefused);
            return self.refuse(batch);
        }
        if !ops.is_empty() && self.dice.chance(self.faults.store_unsure) {
            self.note_batch();
            self.keep_unsaid(ops);
            return self.refuse(batch);
        }
        let crashes = !ops.is_empty() && self.dice.chance(self.faults.store_crashes);
        if !crashes || self.dice.chance(500) {
            self.keep(ops);
        }
        if crashes {
            self.crash();
            return false;
        }
        let Some(core) = &mut self.core else { return false };
        let effects = core.written(batch, now);
        self.act(effects);
        self.core.is_some()
    }

    /// Reports a store failure to the core. Returns that the batch was not kept, as far as the core knows.
    fn refuse(&mut self, batch: Batch) -> bool {
        let now = self.clock();
        if let Some(core) = &mut self.core {
            core.refused(batch, now);
        }
        false
    }

    fn keep(&mut self, ops: Vec<Op>) {
        if !ops.is_empty() {
            self.note_batch();
        }
        self.write(ops);
    }

    /// Keeps a batch and does not say so.
    fn keep_unsaid(&mut self, ops: Vec<Op>) {
        let seen = self.facts.len();
        self.write(ops);
        for fact in &mut self.facts[seen..] {
            if let Fact::Kept { key, value } = fact {
                *fact = Fact::KeptUnsaid { key: std::mem::take(key), value: value.take() };
            }
        }
    }

    fn write(&mut self, ops: Vec<Op>) {
        for op in &ops {
            match op {
                Op::Put { key, value, .. } => {
                    self.facts.push(Fact::Kept { key: key.clone(), value: Some(value.as_slice().into()) });
                }
                Op::Delete { key, .. } => self.facts.push(Fact::Kept { key: key.clone(), value: None }),
                Op::Journal(_) => {}
            }
        }
        self.store.batch(ops).expect("a store in memory takes what the core writes");
        // With every batch, as the daemon does: the next process measures waits from it.
        self.remembered = Some(self.reading());
    }

    /// Schedules the core's next wake-up.
    fn wake(&mut self) {
        let Some(at) = self.core.as_ref().and_then(Core::next_wake) else { return };
        // The core uses the daemon's clock, the queue the true time.
        let at = at.checked_sub(self.begun_with).unwrap_or(Timestamp::MAX).max(self.now);
        if self.wake_at.is_none_or(|known| at < known) {
            self.wake_at = Some(at);
            self.push_at(at, Happening::Wake(self.life));
        }
    }

    fn act(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if self.dice.chance(self.faults.crash) {
                return self.crash();
            }
            match effect {
                Effect::StartMember(cluster, access) => self.start_member(&cluster, &access),
                Effect::StopMember(cluster) => self.give_up_member(&cluster),
                Effect::Command(cluster, command) => {
                    if let MemberCommand::Order { order, .. } = &command {
                        self.facts.push(Fact::Ordered(Arc::clone(order)));
                    }
                    if let Some(command) = self.command_remote(&cluster, command) {
                        self.command_here(&cluster, command);
                    }
                }
                Effect::ReadPayload(snapshot) => self.read_payload(snapshot),
                // Each replica has a mirror of its own, and what pins commits for all passes the fence.
                Effect::Retain { .. } if !self.is_newest() => {}
                Effect::Retain { named, at } => {
                    let SimulatedSource { accepted, fresh, pins, .. } = &mut self.source;
                    // Like the source's thread (`Follower::retain`).
                    let heard = fresh.iter().position(|commit| *commit == at).unwrap_or(0);
                    fresh.drain(..heard);
                    let is_kept = |c: &CommitId| named.contains(c) || fresh.contains(c) || accepted.as_ref() == Some(c);
                    pins.retain(is_kept);
                }
                Effect::AcceptRewrite(commit) => self.accept_rewrite(commit),
                Effect::Ask(_, queries) => self.answer_queries(queries),
                // There is no hub and no forge.
                Effect::Publish(_) | Effect::UpdateForge(_) | Effect::Measured(_) | Effect::AgentTokens(_) => {}
            }
        }
    }
}
