//! People's comments: those to be read, those that wait for a proof, and what became of the others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::{SignedDuration, Timestamp};

use super::deliveries::Deliveries;
use super::executed::Executions;
use super::record_place::RecordPlace;
use super::records::{HandledComment, handled_op};
use engine::store::{Op, Result};
use model::forge::{Said, ThreadNumber};

/// Comments that wait to be read; further hints are dropped, and polling finds those comments.
pub(crate) const HINTS_MAX: usize = 1000;
/// How long a handled comment is remembered: longer than the greatest age of a comment at its first reading.
const HANDLED_KEPT: SignedDuration = SignedDuration::from_hours(24 * 30);
/// Remembered comments; the oldest are dropped first. A dropped one is evaluated again, under the same rules.
const HANDLED_MAX: usize = 20_000;
/// Written answers per hour in one conversation: two bots that answer each other must stop.
pub(crate) const ANSWERS_MAX: usize = 10;
/// Written answers per hour to one person in one conversation. What was answered already is not answered again.
const ANSWERS_EACH_MAX: usize = 3;
/// The window for these limits.
const ANSWERS_WITHIN: SignedDuration = SignedDuration::from_hours(1);
/// Comments per window in one conversation that get reactions: each reaction is a call, and goes before everything else.
const SIGNS_MAX: usize = 100;
/// The longest wait for the delivery of a comment's creation: hosts queue deliveries, so polling may be faster.
const DELIVERY_PATIENCE: SignedDuration = SignedDuration::from_secs(30);

/// People's comments.
#[derive(Debug)]
pub(crate) struct Comments {
    /// Those that were handled.
    pub handled: BTreeMap<u64, HandledComment>,
    /// Executed commands of those that are not among the handled ones.
    pub executed: Executions,
    /// What only deliveries said.
    pub deliveries: Deliveries,
    /// Unproven commands with their conversations, and until when the delivery of their creation may arrive.
    awaited: BTreeMap<u64, (ThreadNumber, Timestamp)>,
    /// Comments to be read, with their conversations.
    to_read: VecDeque<(ThreadNumber, u64)>,
    /// Conversations whose comments must be listed.
    pub to_list: BTreeSet<ThreadNumber>,
}

impl Comments {
    /// Continues with what an earlier process stored.
    pub(crate) fn restore(
        handled: BTreeMap<u64, HandledComment>,
        executed: Executions,
        deliveries: Deliveries,
    ) -> Self {
        let awaited = BTreeMap::new();
        Self { handled, executed, deliveries, awaited, to_read: VecDeque::new(), to_list: BTreeSet::new() }
    }

    /// Takes in that a comment was written or changed; `said` is its text, if it was written just now.
    pub(crate) fn hint(&mut self, thread: ThreadNumber, id: u64, said: Option<Said>, now: Timestamp) {
        if let Some(said) = said
            && !self.handled.contains_key(&id)
        {
            self.deliveries.take_comment(thread, id, said, now);
        }
        if self.to_read.len() < HINTS_MAX && !self.to_read.contains(&(thread, id)) {
            self.to_read.push_back((thread, id));
        }
    }

    /// Takes the next comment to be read: one that a hint named, or one whose delivery did not arrive in time, which is evaluated without.
    pub(crate) fn next_to_read(&mut self, now: Timestamp) -> Option<(ThreadNumber, u64)> {
        if let Some(hinted) = self.to_read.pop_front() {
            return Some(hinted);
        }
        let (id, (thread, _)) = self.awaited.iter().find(|(_, (_, until))| *until <= now)?;
        Some((*thread, *id))
    }

    /// Tells whether anything is to be read now.
    pub(crate) fn has_reading(&self) -> bool {
        !self.to_read.is_empty() || !self.to_list.is_empty()
    }

    /// Returns the ends of the waits for deliveries.
    pub(crate) fn wakes(&self) -> impl Iterator<Item = Timestamp> {
        self.awaited.values().map(|(_, until)| *until)
    }

    /// Returns until when the delivery of a comment's creation may arrive.
    pub(crate) fn await_delivery(&mut self, thread: ThreadNumber, id: u64, now: Timestamp) -> Timestamp {
        self.awaited.entry(id).or_insert((thread, now + DELIVERY_PATIENCE)).1
    }

    /// Ends the wait for the delivery of a comment's creation.
    pub(crate) fn drop_awaited(&mut self, id: u64) {
        self.awaited.remove(&id);
    }

    /// Tells whether a comment of a conversation waits for the delivery of its creation.
    pub(crate) fn awaits_in(&self, thread: ThreadNumber) -> bool {
        self.awaited.values().any(|(of, _)| *of == thread)
    }

    /// Tells whether a comment had commands that were handled: it is never read again.
    pub(crate) fn is_done(&self, id: u64) -> bool {
        self.handled.get(&id).is_some_and(|handled| !handled.ignored)
    }

    /// Tells whether few enough comments of a conversation were handled lately, so that each may get reactions.
    pub(crate) fn is_calm(&self, thread: ThreadNumber, now: Timestamp) -> bool {
        self.lately(thread, now).count() < SIGNS_MAX
    }

    /// Tells whether an author may get one more written answer in a conversation.
    pub(crate) fn may_answer(&self, handled: &HandledComment) -> bool {
        let own = self.answered(handled).filter(|earlier| earlier.author == handled.author);
        own.count() < ANSWERS_EACH_MAX && self.answered(handled).count() < ANSWERS_MAX
    }

    /// Returns the comment whose written answer is also that to another one of its author.
    pub(crate) fn same_answer(&self, handled: &HandledComment) -> Option<u64> {
        let key = (handled.author, &handled.outcome, &handled.body);
        self.answered(handled)
            .find(|earlier| (earlier.author, &earlier.outcome, &earlier.body) == key)
            .map(|earlier| earlier.id)
    }

    /// Returns the comments that got a written answer of their own lately, in the conversation of another one.
    fn answered(&self, handled: &HandledComment) -> impl Iterator<Item = &HandledComment> {
        self.lately(handled.thread, handled.at).filter(|earlier| earlier.answer == Some(earlier.id))
    }

    fn lately(&self, thread: ThreadNumber, now: Timestamp) -> impl Iterator<Item = &HandledComment> {
        self.handled.values().filter(move |handled| {
            !handled.ignored && handled.thread == thread && now.duration_since(handled.at) < ANSWERS_WITHIN
        })
    }

    /// Notes that a comment was handled, once its record is stored.
    pub(crate) fn note_handled(&mut self, handled: HandledComment) {
        self.awaited.remove(&handled.id);
        self.deliveries.drop_comment(handled.id);
        self.handled.insert(handled.id, handled);
    }

    /// Drops comments that are too old to be handled again, and returns the deletions.
    pub(crate) fn forget(&mut self, place: &RecordPlace, now: Timestamp) -> Vec<Result<Op>> {
        let mut by_age: Vec<(Timestamp, u64)> = self.handled.values().map(|handled| (handled.at, handled.id)).collect();
        by_age.sort_unstable();
        let extra = by_age.len().saturating_sub(HANDLED_MAX);
        let mut ops = Vec::new();
        for (position, (at, id)) in by_age.into_iter().enumerate() {
            if position < extra || now.duration_since(at) > HANDLED_KEPT {
                self.handled.remove(&id);
                ops.push(handled_op(place, id, None));
            }
        }
        ops
    }
}
