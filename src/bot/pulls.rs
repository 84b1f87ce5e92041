//! Open pull requests: writes a plan on each, and updates it when it or the branch moves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{mpsc, oneshot};

use super::outbox::{Slot, SlotContent};
use super::records::Planned;
use super::{Console, clock};
use crate::source_request::{CandidateError, SourceRequest};
use config::PlanContent;
use model::forge::{CommitStatus, PullRequest, StatusState, ThreadNumber};
use model::id::CommitId;
use plan::pull_request::Candidate;
use plan::pull_request::{Showing, pull_report};
use views::comments::statuses::PLAN_CONTEXT;
use views::pull_request::{PullReport, plan_comment, summary};
use views::redact::MaskKey;

/// Open pull requests with plans, those with the largest numbers; more would slow down forge and daemon.
const PULLS_MAX: usize = 100;
/// Pause before plans are updated after the branch moved: often it moves again.
const BASE_MOVED_PAUSE: SignedDuration = SignedDuration::from_secs(2);
/// Pause before a failed plan is retried.
const AGAIN_PAUSE: SignedDuration = SignedDuration::from_secs(15);
/// Merges that are remembered until their commits are rolled out; the oldest are dropped, and their commits are looked up.
const MERGES_MAX: usize = 100;

/// A finished plan, or its failure.
pub(super) struct Made {
    number: ThreadNumber,
    head: CommitId,
    base: Option<CommitId>,
    /// Status and comment; or why there are none, which is retried.
    result: Result<(StatusState, String, String), String>,
}

/// The open pull requests into the branch.
pub(super) struct Pulls {
    known: BTreeMap<ThreadNumber, Planned>,
    /// When a plan is due.
    due: BTreeMap<ThreadNumber, Timestamp>,
    /// Pull requests to read from the forge.
    to_read: BTreeSet<ThreadNumber>,
    making: Option<ThreadNumber>,
    made: mpsc::UnboundedReceiver<Made>,
    sender: mpsc::UnboundedSender<Made>,
    waiting: Option<Made>,
    changed: BTreeSet<ThreadNumber>,
    /// The commits of merges that the host told us, the oldest first.
    merges: VecDeque<(CommitId, ThreadNumber)>,
}

impl Pulls {
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

    fn note_merge(&mut self, commit: &CommitId, number: ThreadNumber) {
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
        self.due.values().min().copied().filter(|_| self.making.is_none())
    }

    /// Returns a plan that has finished.
    pub(crate) fn finished(&mut self) -> Option<Made> {
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

    /// Records the state of a pull request. Returns whether it is new or has moved.
    fn see(&mut self, pull: &PullRequest, now: Timestamp) {
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

    fn forget(&mut self, number: ThreadNumber) -> bool {
        self.due.remove(&number);
        self.changed.insert(number);
        self.known.remove(&number).is_some()
    }
}

impl Console {
    /// Requests the list of open pull requests.
    pub(super) async fn list_pulls(&mut self) {
        let now = self.now();
        let forge = self.forge();
        let Some(branch) = self.followed().await else { return };
        let Some(mut open) = self.ask_for(forge.open_pulls(&branch)).await else { return };
        open.sort_by_key(|pull| std::cmp::Reverse(pull.number));
        for pull in open.iter().filter(|pull| self.plans_for(pull)).cloned().collect::<Vec<_>>() {
            self.pulls.see(&pull, now);
        }
        // A missing pull request was closed, merged or got another base: only reading it tells which.
        let listed: BTreeSet<ThreadNumber> = open.iter().map(|pull| pull.number).collect();
        let gone: Vec<ThreadNumber> = self.pulls.known.keys().filter(|n| !listed.contains(n)).copied().collect();
        self.pulls.to_read.extend(gone);
        // A plan against another accepted commit, of an earlier process, is made again.
        let tree = self.tree.clone();
        let old = self.pulls.known.values().filter(|pull| tree.is_some() && pull.base != tree);
        let old: Vec<ThreadNumber> = old.map(|pull| pull.number).collect();
        for number in old {
            self.pulls.due.entry(number).or_insert(now);
        }
    }

    fn plans_for(&self, pull: &PullRequest) -> bool {
        pull.is_open && (self.settings.plans.forks || !pull.is_fork) && self.branch.as_ref() == Some(&pull.base)
    }

    /// Returns the followed branch, if git knows it by now.
    async fn followed(&mut self) -> Option<String> {
        if self.branch.is_none() {
            let (reply, answer) = oneshot::channel();
            drop(self.handles.requests.send(SourceRequest::Branch { source: self.settings.name.clone(), reply }));
            self.branch = self.ask(answer).await.ok().flatten();
        }
        self.branch.clone()
    }

    /// Reads a pull request that moved, or is gone from the list. Returns whether there was one.
    pub(super) async fn read_next_pull(&mut self, now: Timestamp) -> bool {
        let Some(number) = self.pulls.to_read.pop_first() else { return false };
        self.read_pull(number, now).await;
        true
    }

    /// Starts a plan that is due. Returns whether there was one.
    pub(super) async fn plan_next(&mut self, now: Timestamp) -> bool {
        // One at a time: memory is limited to one pull request's tree beside those of two commits.
        if self.pulls.making.is_some() || self.tree.is_none() {
            return false;
        }
        let due = self.pulls.due.iter().filter(|(_, at)| **at <= now).map(|(number, _)| *number).next_back();
        let Some(number) = due else { return false };
        self.pulls.due.remove(&number);
        // The merge of this pull request may have moved the branch: its comment keeps the plan that was merged.
        let is_of_earlier_base = |known: &Planned| known.base.is_some() && known.base != self.tree;
        if self.pulls.known.get(&number).is_some_and(is_of_earlier_base) {
            self.read_pull(number, now).await;
            self.pulls.due.remove(&number);
            if self.pulls.to_read.contains(&number) {
                self.pulls.due.insert(number, now + AGAIN_PAUSE);
                return true;
            }
        }
        if let Some(pull) = self.pulls.known.get(&number).cloned() {
            self.pulls.making = Some(number);
            self.make(pull);
        }
        true
    }

    async fn read_pull(&mut self, number: ThreadNumber, now: Timestamp) {
        // Its base is not known to be the followed branch yet; the next poll lists it again.
        if self.followed().await.is_none() {
            return;
        }
        let forge = self.forge();
        let answer = self.ask(forge.pull(number)).await;
        if answer.is_err() {
            // `read` starts a pause below, and after it this one is requested again.
            self.pulls.to_read.insert(number);
        }
        let Some(pull) = self.read(answer) else { return };
        if let Some(merge) = pull.as_ref().and_then(|pull| pull.merged.as_ref()) {
            self.pulls.note_merge(&merge.commit, number);
            self.publish_pulls();
            // Its rollout may search for this conversation already.
            if let Some(at) = self.to_find.get_mut(&merge.commit) {
                *at = now;
            }
        }
        match pull {
            Some(pull) if self.plans_for(&pull) => self.pulls.see(&pull, now),
            pull => {
                if !self.pulls.forget(number) {
                    return;
                }
                let source = self.settings.name.clone();
                drop(self.handles.requests.send(SourceRequest::Forget { source, number }));
                if let Some(pull) = pull.filter(|pull| pull.is_open) {
                    let body = super::messages::not_planned(&pull.base);
                    let slot = Slot::Comment { id: self.plan_slot(number) };
                    if self.outbox.entry(&slot).is_some() {
                        self.outbox.set(slot, SlotContent::comment(number, body), now);
                    }
                }
            }
        }
    }

    /// Makes a plan in parallel: a large one takes a second, and texts about rollouts do not wait for it.
    fn make(&self, pull: Planned) {
        let (sender, requests, baselines) =
            (self.pulls.sender.clone(), self.handles.requests.clone(), self.handles.baselines.clone());
        let (content, fetch) = (self.settings.plans.content, self.settings.fetches);
        let (mask, source) = (self.settings.mask.clone(), self.settings.name.clone());
        let (limit, turn) = (self.handles.forge.limits().comment_chars, Arc::clone(&self.handles.planning));
        tokio::spawn(async move {
            // Nobody closes it, so a turn comes.
            let _turn = turn.acquire_owned().await;
            let (reply, candidate) = oneshot::channel();
            let (number, head) = (pull.number, pull.head.clone());
            let request = SourceRequest::Candidate { source: source.clone(), number, head, fetch, reply };
            let (ask, start) = oneshot::channel();
            let is_asked = requests.send(request).is_ok() && baselines.send(ask).is_ok();
            let ending = || "gitfleet is ending".to_owned();
            let made = match (candidate.await, start.await) {
                (Ok(candidate), Ok(start)) if is_asked => {
                    // A hypothetical decision is not logged: readers of the log would take it for a real one.
                    let silent = tracing::subscriber::NoSubscriber::new();
                    let showing = PullShowing { content, mask, source, limit };
                    let made = move || made(candidate, &start, &showing);
                    let made = move || tracing::subscriber::with_default(silent, made);
                    tokio::task::spawn_blocking(made).await.unwrap_or_else(|error| Err(error.to_string()))
                }
                _ => Err(ending()),
            };
            let (base, result) = match made {
                Ok((base, result)) => (base, Ok(result)),
                Err(why) => (None, Err(why)),
            };
            // The bot may have ended.
            drop(sender.send(Made { number: pull.number, head: pull.head, base, result }));
        });
    }

    /// Puts a finished plan into the outbox.
    pub(super) fn planned(&mut self, made: Made) {
        let now = self.now();
        self.pulls.making = None;
        // The pull request moved or closed meanwhile: another plan is due, or none.
        let Some(known) = self.pulls.known.get_mut(&made.number).filter(|known| known.head == made.head) else {
            return;
        };
        let (state, line, body) = match made.result {
            Ok(result) => result,
            Err(reason) => {
                tracing::warn!(pull = made.number, reason, "no plan can be made for a pull request; trying again");
                self.pulls.due.insert(made.number, now + AGAIN_PAUSE);
                return;
            }
        };
        known.base = made.base;
        self.pulls.changed.insert(made.number);
        let target_url = Some(self.settings.links.thread(made.number));
        let description = views::comments::escape::shorten(&line, self.handles.forge.limits().description_chars);
        let status = CommitStatus { context: PLAN_CONTEXT.to_owned(), state, description, target_url };
        let slot = Slot::Status { commit: made.head, context: PLAN_CONTEXT.to_owned() };
        self.outbox.set(slot, SlotContent::Status(status), now);
        let slot = Slot::Comment { id: self.plan_slot(made.number) };
        self.outbox.set(slot, SlotContent::comment(made.number, body), now);
    }
}

/// How a plan is shown.
struct PullShowing {
    content: PlanContent,
    mask: MaskKey,
    /// The name of the source; empty where there is one.
    source: String,
    /// Characters of a comment.
    limit: usize,
}

type Said = (Option<CommitId>, (StatusState, String, String));

/// Plans a candidate and renders its status and comment: pure, except that it reads the time.
fn made(
    candidate: Result<Candidate, CandidateError>,
    baseline: &plan::Baseline,
    PullShowing { content, mask, source, limit }: &PullShowing,
) -> Result<Said, String> {
    let base = baseline.tree().commit.clone();
    let report = match candidate {
        Ok(candidate) => {
            let only = Some(source.as_str()).filter(|source| !source.is_empty());
            let showing = Showing { diffs: *content == PlanContent::Diff, key: mask, only };
            pull_report(baseline, &candidate, &showing, clock::now())
        }
        Err(CandidateError::Refused(errors)) => PullReport::refused(base.clone(), None, errors),
        Err(CandidateError::Unreadable(why)) => return Err(why),
    };
    let (state, line) = summary(&report);
    Ok((base, (state, line, plan_comment(&report, *limit))))
}
