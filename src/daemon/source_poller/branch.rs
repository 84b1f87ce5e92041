//! One followed branch: what the poller knows of it from one poll to the next.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::mpsc;

use super::dropped::DroppedKeeper;
use super::settings::BranchSettings;
use super::token::BranchToken;
use super::verify::Verifier;
use super::{AcceptedState, POLL_BACKOFF_MAX};
use config::HistoryRewrite;
use engine::SourceEvent;
use git::Source;
use model::error::ErrorClass;
use model::id::CommitId;
use system::clock;
use system::clock::Uptime;

/// A followed branch.
pub(super) struct Branch {
    /// The name of its source; empty where there is one source.
    pub name: String,
    pub source: Source,
    /// Wakes the poller where the source is on this machine and changed.
    pub watch: Option<git::Watch>,
    /// The commit that is part of the accepted tree.
    pub accepted: Option<CommitId>,
    pub poll_interval: Duration,
    /// When it is polled next.
    pub due: Uptime,
    pub on_rewrite: HistoryRewrite,
    /// A tip that a person accepted.
    pub accepted_rewrite: Option<CommitId>,
    /// The branch that is followed because it was checked out at the start.
    pub checked_out: Option<String>,
    /// The core has received the branch in this process.
    pub checkout_reported: bool,
    pub failures: u32,
    pub token: Option<BranchToken>,
    pub verifier: Option<Verifier>,
    /// A tip that could not be read or pinned: the next poll retries it.
    pub unread: Option<CommitId>,
    /// A tip that may be accepted as far as history and signatures go, and that waits for tips of other sources.
    pub candidate: Option<CommitId>,
    /// The last tip that was refused for its content.
    pub refused: Option<CommitId>,
    /// The last poll failed, and the daemon was notified.
    pub failing: bool,
    pub news: mpsc::Sender<SourceEvent>,
    /// Keeps commits that the branch dropped in the store; absent where this daemon has the only mirror.
    pub dropped: Option<DroppedKeeper>,
}

impl Branch {
    /// Returns what the settings say of an opened source.
    pub(super) fn new(
        settings: &BranchSettings,
        source: Source,
        dropped: Option<DroppedKeeper>,
        news: mpsc::Sender<SourceEvent>,
    ) -> Self {
        Self {
            name: settings.name.clone(),
            source,
            watch: None,
            accepted: settings.accepted.clone(),
            poll_interval: settings.poll_interval,
            due: clock::uptime(),
            on_rewrite: settings.on_rewrite,
            accepted_rewrite: settings.accepted_rewrite.clone(),
            checked_out: settings.branch.clone(),
            checkout_reported: false,
            failures: 0,
            token: settings.token.clone().map(BranchToken::new),
            verifier: settings.verify.clone().map(Verifier::new),
            unread: None,
            candidate: None,
            refused: None,
            failing: false,
            news,
            dropped,
        }
    }

    /// Reports what concerns this branch alone.
    pub(super) fn send(&self, news: SourceEvent) {
        let news = if self.name.is_empty() { news } else { SourceEvent::Of(self.name.clone(), Box::new(news)) };
        // The receiver goes only when the process ends.
        drop(self.news.blocking_send(news));
    }

    /// Fetches what is new; the answer is for [`Self::notice`].
    pub(super) fn fetch(&mut self, stop: &AtomicBool) -> Result<Option<CommitId>, git::Error> {
        self.renew_token()?;
        let moved = self.source.poll(stop)?;
        self.notice_keys();
        Ok(moved.map(|tip| tip.commit))
    }

    /// Returns the tip that is to be considered after a fetch, if any.
    pub(super) fn notice(&mut self, fetched: Result<Option<CommitId>, git::Error>) -> Option<CommitId> {
        let moved = match fetched {
            Ok(moved) => moved,
            Err(error) => {
                self.failing = true;
                // Only temporary failures lengthen the interval: a person's fix is noticed soon.
                self.failures += u32::from(error.class() == ErrorClass::Transient || self.failures == 0);
                self.send(SourceEvent::Failed(error.in_full()));
                return None;
            }
        };
        // Before records change because of the tip: this daemon may end at any moment.
        self.keep_dropped();
        // A poll reports a tip once: an unread one must be remembered here.
        let tip = moved.or_else(|| self.unread.take());
        if tip.is_none() {
            self.failures = 0;
            if std::mem::take(&mut self.failing) {
                self.send(SourceEvent::Readable);
            }
        }
        tip
    }

    /// Decides whether a tip may be accepted as far as history and signatures go; reports why not.
    pub(super) fn may_accept(&mut self, tip: &CommitId, accepted_state: AcceptedState) -> Result<bool, git::Error> {
        // First: the tip of another branch may well descend from the accepted commit.
        if let Some(text) = self.switched(tip) {
            self.send(SourceEvent::Switched(tip.clone(), text));
            return Ok(false);
        }
        // After a start the tip is usually the accepted commit: it is read as a new one until this process has its tree.
        if self.accepted.as_ref() == Some(tip) && accepted_state == AcceptedState::Read {
            self.send(SourceEvent::Unchanged);
            return Ok(false);
        }
        if let Some(accepted) = &self.accepted
            && accepted != tip
            && self.on_rewrite == HistoryRewrite::Hold
            && self.source.has_history()
            && self.accepted_rewrite.as_ref() != Some(tip)
            && !self.source.reader().descends(accepted, tip)?
        {
            self.send(SourceEvent::Rewritten(tip.clone()));
            return Ok(false);
        }
        self.send(SourceEvent::Seen(tip.clone()));
        let unsigned = self.unsigned(tip)?;
        if unsigned.is_empty() {
            return Ok(true);
        }
        self.send(SourceEvent::Refused(tip.clone(), unsigned));
        Ok(false)
    }

    /// Notes that a tip was dealt with: it was accepted, refused or held.
    pub(super) fn settle(&mut self) {
        (self.failures, self.failing, self.unread, self.candidate) = (0, false, None, None);
        // A person accepts the pending tip, and no later one.
        self.accepted_rewrite = None;
    }

    /// Notes that a tip could not be read, and has our copy of the source fetched again if that may be the cause.
    pub(super) fn retry(&mut self, tip: CommitId, error: Option<&git::Error>, reason: String) {
        self.failing = true;
        self.failures += 1;
        if let Some(error) = error {
            self.source.doubt(&tip, error);
        }
        (self.unread, self.candidate) = (Some(tip), None);
        self.send(SourceEvent::Failed(reason));
    }

    /// Sets when it is polled next. That counts from here: other requests, which may come more often, delay no poll.
    pub(super) fn rest(&mut self) {
        // Failures do not shorten an interval that is configured longer than the limit.
        let pause = self.poll_interval.saturating_mul(1 << self.failures.min(8));
        self.due = clock::uptime().after(pause.min(POLL_BACKOFF_MAX.max(self.poll_interval)));
    }

    /// Returns what names the branch in a commit that joins sources, at a commit.
    pub(super) fn at(&self, commit: &CommitId) -> model::tree::JoinedSource {
        model::tree::JoinedSource { name: self.name.clone(), commit: commit.clone() }
    }
}

/// Fetches all branches that are due, beside each other, and returns the answers in order; `None` for the others.
pub(super) fn fetch_all(
    branches: &mut [Branch],
    is_due: impl Fn(&Branch) -> bool,
    stop: &Arc<AtomicBool>,
) -> Vec<Option<Result<Option<CommitId>, git::Error>>> {
    if let [only] = branches {
        return vec![is_due(only).then(|| only.fetch(stop))];
    }
    std::thread::scope(|scope| {
        let fetching: Vec<_> =
            branches.iter_mut().map(|branch| is_due(branch).then(|| scope.spawn(move || branch.fetch(stop)))).collect();
        let end = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(fetched) => fetched,
            // As without a thread: the supervisor begins the poller again.
            Err(panic) => std::panic::resume_unwind(panic),
        };
        fetching.into_iter().map(|thread| thread.map(end)).collect()
    })
}
