//! The core with a store and made-up members, as the daemon drives it, and how long each of them takes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::persist::SavedRecords;
use engine::store::{Op, Result, Store, Versioned};
use engine::{Core, Effect, Event, SourceEvent};
use jiff::{SignedDuration, Timestamp};
use model::records::JournalEntry;
use model::tree::Tree;
use plan::simulate::Dice;

use super::fleets::configuration;
use super::members::Members;

/// Who is told how much.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// In the core: taking in, deciding, taking up what was written.
    pub core: Duration,
    /// In the store.
    pub store: Duration,
    /// In the made-up members.
    pub members: Duration,
    /// Decisions about one placement.
    pub decisions: u64,
    /// Batches of the store.
    pub batches: u64,
    /// Rounds in which a member was told something: waves, where all answer together.
    pub waves: u64,
}

/// A store that keeps nothing.
pub struct Nowhere;

impl Store for Nowhere {
    fn get(&self, _: &str) -> Result<Option<Versioned>> {
        Ok(None)
    }

    fn scan_each(&self, _: &[&str], _: &mut dyn FnMut(&str, &[u8], u64) -> bool) -> Result<()> {
        Ok(())
    }

    fn batch(&self, _: Vec<Op>) -> Result<u64> {
        Ok(0)
    }

    fn journal(&self, _: u64, _: usize) -> Result<Vec<(u64, JournalEntry)>> {
        Ok(Vec::new())
    }

    fn journal_back(&self, _: Option<u64>, _: usize) -> Result<Vec<(u64, JournalEntry)>> {
        Ok(Vec::new())
    }
}

/// Everything at one virtual instant after the other.
pub struct Driver {
    pub core: Core,
    pub members: Members,
    pub spent: Spent,
    store: Arc<dyn Store>,
    heard: VecDeque<Event>,
    now: Timestamp,
    arrival: Arrival,
    dice: Dice,
    /// Where the life ends, if it does.
    pub end: Option<End>,
}

/// Where a life ends: after so many batches, and how far what follows from the last of them has come.
#[derive(Clone, Copy)]
pub struct End {
    pub batches: u64,
    pub at: Point,
}

/// How far it has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// It is stored, and nobody was told.
    Written,
    /// Members were told, and have done nothing.
    Told,
    /// Members have done it, and nobody has heard.
    Done,
}

/// How reports arrive.
#[derive(Clone, Copy)]
pub enum Arrival {
    /// All there are before something is decided.
    Together,
    /// So many before something is decided, of any members and placements.
    Scattered(usize),
}

impl Driver {
    /// Begins a life with what the store has, reading included.
    pub fn begin(store: Arc<dyn Store>, members: Members, arrival: Arrival) -> Self {
        let now = "2026-01-01T00:00:00Z".parse().expect("an instant");
        let started = Instant::now();
        let saved = SavedRecords::read(store.as_ref()).expect("the store can be read");
        let read = started.elapsed();
        let (core, effects) = Core::begin(configuration(), saved, now);
        let spent = Spent { core: started.elapsed().saturating_sub(read), store: read, ..Spent::default() };
        let mut driver =
            Self { core, members, spent, store, heard: VecDeque::new(), now, arrival, dice: Dice::new(7), end: None };
        driver.act(effects);
        driver
    }

    /// Brings a commit into force and lets everything happen until nothing is left to happen.
    pub fn accept(&mut self, tree: &Arc<Tree>) {
        self.handle(Event::Source(SourceEvent::Accepted(Arc::clone(tree))));
        self.settle(|_| false);
    }

    /// Lets one thing be heard next.
    pub fn handle(&mut self, event: Event) {
        self.heard.push_back(event);
    }

    /// Lets everything happen until nothing is left to happen, or until `enough`.
    pub fn settle(&mut self, enough: impl Fn(&Core) -> bool) {
        loop {
            self.now += SignedDuration::from_millis(10);
            let told = self.round();
            self.spent.waves += u64::from(told);
            if self.has_ended() || self.heard.is_empty() || enough(&self.core) {
                return;
            }
        }
    }

    /// Takes in what comes together and decides until nothing is due. Returns whether a member was told something.
    fn round(&mut self) -> bool {
        let count = match self.arrival {
            Arrival::Together => self.heard.len(),
            Arrival::Scattered(count) => count.min(self.heard.len()),
        };
        for _ in 0..count {
            let event = match self.arrival {
                Arrival::Together => self.heard.pop_front(),
                Arrival::Scattered(_) => {
                    let position = self.dice.below(self.heard.len() as u64);
                    self.heard.swap_remove_back(usize::try_from(position).expect("it is below a usize"))
                }
            };
            let Some(event) = event else { break };
            let effects = self.core(|core, now| core.take_in(event, now));
            self.act(effects);
        }
        let mut told = false;
        while let Some(mut batch) = self.core(Core::decide) {
            self.spent.decisions += batch.changed + batch.unchanged;
            let started = Instant::now();
            let ops = std::mem::take(&mut batch.ops);
            if !ops.is_empty() {
                self.spent.batches += 1;
                self.store.batch(ops).expect("the store takes what the core writes");
            }
            self.spent.store += started.elapsed();
            if self.ends(Point::Written) {
                return told;
            }
            let effects = self.core(|core, now| core.written(batch, now));
            told |= self.act(effects);
            if self.ends(Point::Told) {
                return told;
            }
        }
        let started = Instant::now();
        let reports = self.members.work(self.now);
        self.heard.extend(reports.into_iter().map(Event::Member));
        self.spent.members += started.elapsed();
        told
    }

    fn has_ended(&self) -> bool {
        self.end.is_some_and(|end| self.spent.batches >= end.batches)
    }

    fn ends(&self, at: Point) -> bool {
        self.has_ended() && self.end.is_some_and(|end| end.at == at)
    }

    fn core<T>(&mut self, work: impl FnOnce(&mut Core, Timestamp) -> T) -> T {
        let started = Instant::now();
        let result = work(&mut self.core, self.now);
        self.spent.core += started.elapsed();
        result
    }

    fn act(&mut self, effects: Vec<Effect>) -> bool {
        let started = Instant::now();
        let mut told = false;
        for effect in effects {
            match effect {
                Effect::StartMember(cluster, _) => {
                    let events = self.members.connect(&cluster, &self.core.fleet().source.name);
                    self.heard.extend(events.into_iter().map(Event::Member));
                }
                Effect::Command(cluster, command) => {
                    told = true;
                    let report = self.members.receive(&cluster, command, self.now);
                    self.heard.extend(report.map(Event::Member));
                }
                Effect::ReadPayload(snapshot) => {
                    let answer = SourceEvent::Payload(snapshot, Err("nothing is read again here".to_owned()));
                    self.heard.push_back(Event::Source(answer));
                }
                Effect::StopMember(_)
                | Effect::ReadHeld(..)
                | Effect::AcceptRewrite(_)
                | Effect::Retain { .. }
                | Effect::Publish(_)
                | Effect::UpdateForge(_)
                | Effect::AgentTokens(_)
                | Effect::Ask(..)
                | Effect::Measured(_) => {}
            }
        }
        self.spent.members += started.elapsed();
        told
    }
}
