//! A process of the daemon: it begins from the store, decides, and carries out what was decided.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::deployment::{BatchOutcome, Deployment};
use super::links::Link;
use super::source::{SimulatedSource, SourceThread};
use super::{Fact, Happening, Simulation};
use engine::persist::SavedRecords;
use engine::store::{Op, Store as _};
use engine::{Batch, Core, Effect, Event, MemberCommand, SourceEvent};
use model::commands::{Command, Done, Person, Refusal};
use model::id::ClusterName;
use model::work::SourceName;

/// What a process has for itself.
#[derive(Default)]
pub struct SimulatedProcess {
    /// The machine that it runs on; 0 where there is only one.
    pub machine: usize,
    /// Its number: what is meant for another does not concern it.
    pub life: u64,
    /// `None` while it does not decide.
    pub core: Option<Core>,
    /// What its clock says beyond the true time. It measures time instead of reading the clock, so that stays the same.
    pub ahead: SignedDuration,
    /// Its source thread.
    pub source: SourceThread,
    /// Its tasks of members.
    pub links: BTreeMap<ClusterName, Link>,
    pub(super) wake_at: Option<Timestamp>,
}

impl SimulatedProcess {
    /// Returns the task of a member if this is its present connection.
    pub fn connected(&mut self, cluster: &ClusterName, connection: u64) -> Option<&mut Link> {
        self.links.get_mut(cluster).filter(|link| link.connection == connection && link.connected)
    }

    /// Returns the name of the source in this fleet.
    pub fn source_name(&self) -> SourceName {
        self.core.as_ref().map(|core| core.fleet().source.clone()).unwrap_or_default()
    }
}

impl<D: Deployment> Simulation<D> {
    /// Returns the daemon's core; `None` while it is down.
    pub fn core(&self) -> Option<&Core> {
        self.process.core.as_ref()
    }

    /// Returns the daemon's time.
    pub fn clock(&self) -> Timestamp {
        self.now + self.process.ahead
    }

    /// Starts the first process, from the store.
    pub(super) fn begin_first(&mut self) {
        let saved = SavedRecords::read(&self.store).expect("a store in memory can be read");
        self.process.life += 1;
        let effects = self.begin(saved);
        self.poll_later();
        self.act(effects);
    }

    /// Starts a process from these records. Returns its first effects.
    pub fn begin(&mut self, saved: SavedRecords) -> Vec<Effect> {
        let (core, effects) = Core::begin(self.configuration.clone(), saved, self.clock());
        self.facts.push(Fact::Began);
        self.process.wake_at = None;
        self.process.source = SourceThread { accepted: core.accepted().cloned(), ..SourceThread::default() };
        self.process.core = Some(core);
        effects
    }

    /// The daemon hears an event.
    pub fn handle(&mut self, event: Event) {
        let now = self.clock();
        let Some(core) = &mut self.process.core else { return };
        let mut facts = if let Event::Source(news) = &event { Fact::of_news(news) } else { Vec::new() };
        let effects = core.take_in(event, now);
        // Late answers are dropped: an earlier process's commit after a newer one.
        let accepted = core.source().accepted.as_ref();
        facts.retain(|fact| !matches!(fact, Fact::Accepted(commit) if accepted != Some(commit)));
        self.facts.extend(facts);
        self.act(effects);
    }

    /// Executes a person's command. Returns the answer; `None` if the daemon is down, or ends before it can answer.
    ///
    /// # Errors
    /// Why it is not executed.
    pub fn execute(&mut self, command: &Command, person: &Person) -> Option<Result<Done, Refusal>> {
        let now = self.clock();
        let answer = match self.process.core.as_mut()?.execute(command, person, now) {
            Err(refusal) => Some(Err(refusal)),
            Ok((batch, done)) => self.settle(batch).then_some(Ok(done)),
        };
        self.decide();
        answer
    }

    /// Runs the core until nothing is due.
    pub fn decide(&mut self) {
        let now = self.clock();
        while let Some(batch) = self.process.core.as_mut().and_then(|core| core.decide(now)) {
            self.settle(batch);
        }
        self.wake();
    }

    /// Writes a batch, and carries out its effects. Returns whether the store kept it and the daemon still runs.
    fn settle(&mut self, mut batch: Batch) -> bool {
        let now = self.clock();
        let ops = std::mem::take(&mut batch.ops);
        let written = D::write(self, ops);
        let Some(core) = &mut self.process.core else { return false };
        match written {
            BatchOutcome::Kept => {
                let effects = core.written(batch, now);
                self.act(effects);
                self.process.core.is_some()
            }
            BatchOutcome::Refused => {
                core.refused(batch, now);
                false
            }
            BatchOutcome::Ended => false,
        }
    }

    /// The store keeps a batch.
    pub fn keep(&mut self, ops: Vec<Op>) {
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
    }

    /// Schedules the core's next wake-up.
    fn wake(&mut self) {
        let Some(at) = self.core().and_then(Core::next_wake) else { return };
        // The core uses the daemon's clock, the queue the true time.
        let at = at.checked_sub(self.process.ahead).unwrap_or(Timestamp::MAX).max(self.now);
        if self.process.wake_at.is_none_or(|known| at < known) {
            self.process.wake_at = Some(at);
            self.push_at(at, Happening::Wake(self.process.life));
        }
    }

    /// Carries out effects, as long as the process continues.
    pub fn act(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if !D::carry_out(self, effect) {
                return;
            }
        }
    }

    /// Carries out an effect.
    pub fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::StartMember(cluster, access) => {
                self.start_task(&cluster, self.process.source_name(), !access.is_directory());
            }
            Effect::StopMember(cluster) => self.stop_task(&cluster),
            Effect::Command(cluster, command) => {
                self.note_order(&command);
                self.command(&cluster, command);
            }
            Effect::ReadPayload(snapshot) => {
                let payload = self.payload(&snapshot);
                self.tell_source(SourceEvent::Payload(snapshot, payload));
            }
            Effect::ReadHeld(key, held) => {
                let found = self.found(&key, &held);
                self.tell_source(SourceEvent::HeldRead(key, held.index, found.map(Box::new)));
            }
            Effect::Retain { named, at } => {
                let SourceThread { accepted, fresh, .. } = &mut self.process.source;
                let SimulatedSource { pins, .. } = &mut self.source;
                // Like the source's thread (`Follower::retain`).
                let heard = fresh.iter().position(|commit| *commit == at).unwrap_or(0);
                fresh.drain(..heard);
                pins.retain(|pin| named.contains(pin) || fresh.contains(pin) || accepted.as_ref() == Some(pin));
            }
            Effect::Ask(_, queries) => self.answer_queries(queries),
            // No history is rewritten, and there is no hub and no forge.
            Effect::AcceptRewrite(_)
            | Effect::Publish(_)
            | Effect::UpdateForge(_)
            | Effect::Measured(_)
            | Effect::AgentTokens(_) => {}
        }
    }

    /// Notes the order in a command, if it is one.
    pub fn note_order(&mut self, command: &MemberCommand) {
        if let MemberCommand::Order { order, .. } = command {
            self.facts.push(Fact::Ordered(Arc::clone(order)));
        }
    }
}
