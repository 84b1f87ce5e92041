//! What is to happen, in order of time.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::member::Sight;
use deliver::inventory::Parent;
use engine::Event;
use engine::member::Task;
use engine::member::result::StepResult;
use model::id::{ClusterName, ObjectKey, PlacementKey};

/// A scheduled event. What concerns a process has its number, what concerns a connection has that of the connection.
pub enum Happening<H> {
    /// A process begins.
    Begin,
    /// Time may lead to something.
    Wake(u64),
    /// The source thread looks at the source.
    Poll(u64),
    /// An event arrives.
    Hear(u64, Box<Event>),
    /// A member's task connects.
    Connect(ClusterName, u64),
    /// A step reaches a member.
    Land(ClusterName, u64, Box<Task>),
    /// The answer of a step arrives.
    Answer(ClusterName, u64, PlacementKey, Box<StepResult>),
    /// A watch says what became of an object.
    See(ClusterName, u64, Sight),
    /// A watch says what became of an inventory, with its version; `None` means removed.
    SeeInventory(ClusterName, u64, PlacementKey, Box<(Option<Parent>, u64)>),
    /// An object becomes available, or is gone, unless it has another version by then.
    Ripen(ClusterName, ObjectKey, u64),
    /// A member's task reports.
    Report(ClusterName, u64),
    /// Time may lead to something in a member's task.
    Look(ClusterName, u64),
    /// The caller acts.
    Mark(u64),
    /// What happens in this deployment alone.
    Own(H),
}

/// All that is to happen in a simulation.
pub struct Happenings<H> {
    /// Each event with its machine.
    events: BTreeMap<(Timestamp, u64), (usize, Happening<H>)>,
    queued: u64,
}

impl<H> Happenings<H> {
    /// Creates one in which nothing is.
    pub(super) fn new() -> Self {
        Self { events: BTreeMap::new(), queued: 0 }
    }

    /// Returns how many events were ever put in.
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// Puts in what happens on a machine.
    pub fn push(&mut self, at: Timestamp, machine: usize, happening: Happening<H>) {
        self.queued += 1;
        // The number keeps events of one instant in order, so that a seed always gives the same facts.
        self.events.insert((at, self.queued), (machine, happening));
    }

    /// Returns the time of the next event.
    pub fn next_at(&self) -> Option<Timestamp> {
        Some(self.events.first_key_value()?.0.0)
    }

    /// Takes the next event out, with its time and machine.
    pub fn pop(&mut self) -> Option<(Timestamp, usize, Happening<H>)> {
        let ((at, _), (machine, happening)) = self.events.pop_first()?;
        Some((at, machine, happening))
    }

    /// Returns what is in it, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Happening<H>> {
        self.events.values().map(|(_, happening)| happening)
    }

    /// Returns what is in it, in order, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Happening<H>> {
        self.events.values_mut().map(|(_, happening)| happening)
    }

    /// Drops everything else.
    pub fn retain(&mut self, keeps: impl Fn(&Happening<H>) -> bool) {
        self.events.retain(|_, (_, happening)| keeps(happening));
    }
}
