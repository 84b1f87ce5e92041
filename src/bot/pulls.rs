//! Open pull requests into the branch, and which of them need a plan.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::mpsc;

use super::handles::Handles;
use super::make_plan::{self, FinishedPlan, PlanTexts};
use super::records::Planned;
use super::settings::Settings;
use model::forge::{PullRequest, ThreadNumber};
use model::id::CommitId;

/// Open pull requests with plans, those with the largest numbers; more would slow down forge and daemon.
const PULLS_MAX: usize = 100;
/// Pause before plans are updated after the branch moved: often it moves again.
const BASE_MOVED_PAUSE: SignedDuration = SignedDuration::from_secs(2);
/// Pause before a failed plan is retried.
const AGAIN_PAUSE: SignedDuration = SignedDuration::from_secs(15);
/// Merges that are remembered until their commits are rolled out; the oldest are dropped, and their commits are looked up.
const MERGES_MAX: usize = 100;

/// The open pull requests into the branch.
pub(crate) struct Pulls {
    known: BTreeMap<ThreadNumber, Planned>,
    /// When a plan is due.
    due: BTreeMap<ThreadNumber, Timestamp>,
    /// Pull requests to read from the forge.
    to_read: BTreeSet<ThreadNumber>,
    making: Option<ThreadNumber>,
    made: mpsc::UnboundedReceiver<FinishedPlan>,
    sender: mpsc::UnboundedSender<FinishedPlan>,
    waiting: Option<FinishedPlan>,
    changed: BTreeSet<ThreadNumber>,
    /// The commits of merges that the host told us, the oldest first.
    merges: VecDeque<(CommitId, ThreadNumber)>,
}

impl Pulls {
    /// Continues with the pull requests that an earlier process stored.
    pub(crate) fn restore(known: BTreeMap<ThreadNumber, Planned>) -> Self {
        let (sender, made) = mpsc::unbounded_channel();
        Self {
            known,
            due: BTreeMap::new(),
            to_read: BTreeSet::new(),
            making: None,
            made,
            sender,
            waiting: None,
            changed: BTreeSet::new(),
            merges: VecDeque::new(),
        }
    }

    /// Returns the pull request whose merge brought a commit, if it was read since the merge.
    pub(crate) fn merged_as(&self, commit: &CommitId) -> Option<ThreadNumber> {
        self.merges.iter().find(|(of, _)| of == commit).map(|(_, number)| *number)
    }

    /// Returns the merges that are remembered, the oldest first.
    pub(crate) fn merges(&self) -> impl Iterator<Item = &(CommitId, ThreadNumber)> {
        self.merges.iter()
    }

    /// Remembers the merge that brought a commit.
    pub(crate) fn note_merge(&mut self, commit: &CommitId, number: ThreadNumber) {
        if self.merged_as(commit).is_none() {
            self.merges.push_back((commit.clone(), number));
        }
        if self.merges.len() > MERGES_MAX {
            self.merges.pop_front();
        }
    }

    /// Requests a pull request from the forge.
    pub(crate) fn look_at(&mut self, number: ThreadNumber) {
        self.to_read.insert(number);
    }

    /// Marks every plan as due: the branch moved.
    pub(crate) fn base_moved(&mut self, now: Timestamp) {
        let again = self.known.keys().map(|number| (*number, now + BASE_MOVED_PAUSE));
        self.due.extend(again.collect::<Vec<_>>());
    }

    /// Marks one plan as due: somebody asked for it.
    pub(crate) fn again(&mut self, number: ThreadNumber, now: Timestamp) {
        self.due.insert(number, now);
    }

    /// Returns the pull requests with plans.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = ThreadNumber> {
        self.known.keys().copied()
    }

    pub(crate) fn is_open(&self, number: ThreadNumber) -> bool {
        self.known.contains_key(&number)
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.making.is_some() || !self.due.is_empty() || !self.to_read.is_empty()
    }

    pub(crate) fn next_wake(&self) -> Option<Timestamp> {
        if !self.to_read.is_empty() {
            return Some(Timestamp::UNIX_EPOCH);
        }
        if self.making.is_some() {
            return None;
        }
        self.due.values().min().copied()
    }

    /// Returns a plan that has finished.
    pub(crate) fn finished(&mut self) -> Option<FinishedPlan> {
        self.waiting.take().or_else(|| self.made.try_recv().ok())
    }

    /// Waits for a plan to finish.
    ///
    /// # Cancel safety
    /// Nothing is lost: a finished plan is kept for [`Self::finished`].
    pub(crate) async fn wait(&mut self) {
        // This side holds a sender itself, so the channel never ends.
        self.waiting = self.made.recv().await;
    }

    /// Returns the records that changed since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeMap<ThreadNumber, Option<Planned>> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|number| (number, self.known.get(&number).cloned())).collect()
    }

    /// Records the state of a pull request that is planned.
    pub(crate) fn see(&mut self, pull: &PullRequest, now: Timestamp) {
        let known = self.known.get(&pull.number);
        if known.is_some_and(|known| known.head == pull.head) {
            return;
        }
        if known.is_none() && self.known.len() >= PULLS_MAX {
            return;
        }
        let planned = Planned { number: pull.number, head: pull.head.clone(), base: None };
        self.known.insert(pull.number, planned);
        self.changed.insert(pull.number);
        self.due.insert(pull.number, now);
    }

    /// Has those be read that the host does not list any more, and plans be made again that start from another accepted commit.
    pub(crate) fn compare(&mut self, listed: &BTreeSet<ThreadNumber>, tree: Option<&CommitId>, now: Timestamp) {
        for (number, pull) in &self.known {
            // It was closed, merged or got another base: only reading it tells which.
            if !listed.contains(number) {
                self.to_read.insert(*number);
            }
            // The plan is of an earlier process.
            if tree.is_some() && pull.base.as_ref() != tree {
                self.due.entry(*number).or_insert(now);
            }
        }
    }

    /// Takes the next pull request to read.
    pub(crate) fn next_to_read(&mut self) -> Option<ThreadNumber> {
        self.to_read.pop_first()
    }

    /// Takes the next pull request whose plan is due: one at a time, because memory is limited to one pull request's tree beside those
    /// of two commits.
    pub(crate) fn next_due(&mut self, now: Timestamp) -> Option<ThreadNumber> {
        if self.making.is_some() {
            return None;
        }
        let number = self.due.iter().rfind(|(_, at)| **at <= now).map(|(number, _)| *number)?;
        self.due.remove(&number);
        Some(number)
    }

    /// Tells whether a pull request has a plan that starts from an earlier accepted commit.
    pub(crate) fn is_of_earlier_base(&self, number: ThreadNumber, tree: Option<&CommitId>) -> bool {
        self.known.get(&number).is_some_and(|known| known.base.is_some() && known.base.as_ref() != tree)
    }

    /// Puts a plan off, if its pull request could not be read. Returns whether it did. One that was read is planned now.
    pub(crate) fn put_off_unread(&mut self, number: ThreadNumber, now: Timestamp) -> bool {
        self.due.remove(&number);
        let is_unread = self.to_read.contains(&number);
        if is_unread {
            self.due.insert(number, now + AGAIN_PAUSE);
        }
        is_unread
    }

    /// Starts a plan.
    pub(crate) fn make(&mut self, number: ThreadNumber, settings: &Settings, handles: &Handles) {
        if let Some(pull) = self.known.get(&number).cloned() {
            self.making = Some(number);
            make_plan::start(pull, settings, handles, self.sender.clone());
        }
    }

    /// Takes in a finished plan. Returns its texts, unless it is of no use: then another one is due, or none.
    pub(crate) fn planned(&mut self, plan: FinishedPlan, now: Timestamp) -> Option<PlanTexts> {
        self.making = None;
        // The pull request moved or closed meanwhile.
        let known = self.known.get_mut(&plan.number).filter(|known| known.head == plan.head)?;
        match plan.result {
            Ok((base, texts)) => {
                known.base = base;
                self.changed.insert(plan.number);
                Some(texts)
            }
            Err(reason) => {
                tracing::warn!(pull = plan.number, reason, "no plan can be made for a pull request; trying again");
                self.due.insert(plan.number, now + AGAIN_PAUSE);
                None
            }
        }
    }

    /// Drops a pull request. Returns whether it was known.
    pub(crate) fn forget(&mut self, number: ThreadNumber) -> bool {
        self.due.remove(&number);
        self.changed.insert(number);
        self.known.remove(&number).is_some()
    }
}
